//! The terms of a sum in the order in which tiles have them, as one operand sees them: in stretches
//! that are as long as its memory allows.

use crate::backend::cpu::contract::operands::pack::inside;
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::ops::contract::Bound;

/// The loops of a sum. Neighbours of the two innermost ones are one stretch where memory has them
/// side by side, and no bound but those of the outer one of them names either.
pub struct Terms {
    outer: Loops,
    /// What turns along a stretch.
    transpose_tile: Loop,
    /// Terms of a turn, which are neighbours.
    unit: usize,
    slot: usize,
    is_bounded: bool,
}

/// Some terms: those from `begin` to `end` of turns of `unit` terms each.
#[derive(Clone, Copy)]
pub struct Stretch {
    loops: StridedRun,
    unit: usize,
    begin: usize,
    end: usize,
}

impl Terms {
    /// The terms of a sum as the operand in a slot has them, which has such bounds.
    pub fn of(sum: &Loops, slot: usize, bounds: &[Bound]) -> Terms {
        let single = Loop { extent: 1, by: OperandOffsets::default() };
        let mut outer = sum.clone();
        let mut transpose_tile = outer.loops.pop().unwrap_or(single);
        let mut unit = 1;
        let free = transpose_tile.by.pos[..bounds.len()].iter().all(|&pos| pos == 0);
        if transpose_tile.by.at[slot] == 1
            && free
            && let Some(next) = outer.loops.pop_if(|next| next.by.at[slot] == transpose_tile.extent as i64)
        {
            (unit, transpose_tile) = (transpose_tile.extent, next);
        }
        Terms { outer, transpose_tile, unit, slot, is_bounded: !bounds.is_empty() }
    }

    /// Whether all of them are neighbours.
    pub fn are_a_run(&self) -> bool {
        let by = |transpose_tile: &Loop| transpose_tile.by.at[self.slot];
        let mut len = self.unit as i64;
        let loops = self.outer.loops.iter().chain([&self.transpose_tile]).rev();
        loops.filter(|transpose_tile| transpose_tile.extent > 1).all(|transpose_tile| {
            let follows = by(transpose_tile) == len;
            len *= transpose_tile.extent as i64;
            follows
        })
    }

    /// The terms `begin..end` in stretches, put into a list.
    pub fn stretches(&self, begin: usize, end: usize, list: &mut Vec<Stretch>) {
        list.clear();
        let (whole, mut number) = (self.transpose_tile.extent * self.unit, begin);
        while number < end {
            let first = number % whole;
            let count = (whole - first).min(end - number);
            let loops = StridedRun::new(
                &self.outer.point(number / whole),
                &self.transpose_tile.by,
                self.transpose_tile.extent,
                self.slot,
            );
            let stretch = Stretch { loops, unit: self.unit, begin: first, end: first + count };
            number += count;
            if !self.is_bounded
                && let Some(last) = list.last_mut()
                && last.is_run()
                && stretch.is_run()
                && last.at(last.end) == stretch.at(stretch.begin)
            {
                last.end += count;
                continue;
            }
            // At most the terms of a block of the sum.
            list.push(stretch);
        }
    }
}

impl Stretch {
    /// How many terms.
    pub fn len(&self) -> usize {
        self.end - self.begin
    }

    /// Whether they are neighbours.
    pub fn is_run(&self) -> bool {
        self.loops.by == self.unit as i64
    }

    /// How far neighbours are apart, but for those in a turn of several.
    pub fn by(&self) -> i64 {
        self.loops.by
    }

    /// The first term that is read, from the first element of a lane.
    pub fn first(&self) -> i64 {
        self.at(self.begin)
    }

    /// Where a term is.
    fn at(&self, term: usize) -> i64 {
        self.loops.at + if self.is_run() { term as i64 } else { term as i64 * self.loops.by }
    }

    /// What the turn of term `k` of the stretch adds to the position in every bound.
    pub fn position(&self, k: usize, bound: usize) -> i64 {
        self.loops.pos[bound] + ((self.begin + k) / self.unit) as i64 * self.loops.pos_by[bound]
    }

    /// The terms of the stretch for which a lane is inside the bounds: from the first up to the
    /// second.
    pub fn inside(&self, lane: &OperandOffsets, bounds: &[Bound]) -> (usize, usize) {
        let (mut low, mut high) = (0, self.loops.len as i64);
        if bounds.is_empty() {
            return (0, self.len());
        }
        for (d, bound) in bounds.iter().enumerate() {
            let position = bound.start + lane.pos[d] + self.loops.pos[d];
            let (first, end) = inside(position, self.loops.pos_by[d], bound.extent, high.max(0));
            (low, high) = (low.max(first), high.min(end));
        }
        if low >= high {
            return (0, 0);
        }
        let clip = |transpose_tile: i64| {
            (transpose_tile as usize * self.unit).clamp(self.begin, self.end) - self.begin
        };
        (clip(low), clip(high))
    }
}
