//! The terms of a sum in the order in which tiles have them, as one operand sees them: in stretches
//! that are as long as its memory allows.

use crate::backend::cpu::contract::operands::pack::inside;
use crate::backend::cpu::contract::operands::points::{Even, Point, Turn, Walk};
use crate::ops::contract::Bound;

/// The loops of a sum. Neighbours of the two innermost ones are one stretch where memory has them
/// side by side, and no bound but those of the outer one of them names either.
pub struct Terms {
    outer: Walk,
    /// What turns along a stretch.
    turn: Turn,
    /// Terms of a turn, which are neighbours.
    unit: usize,
    slot: usize,
    is_bounded: bool,
}

/// Some terms: those from `begin` to `end` of turns of `unit` terms each.
#[derive(Clone, Copy)]
pub struct Stretch {
    turns: Even,
    unit: usize,
    begin: usize,
    end: usize,
}

impl Terms {
    /// The terms of a sum as the operand in a slot has them, which has such bounds.
    pub fn of(sum: &Walk, slot: usize, bounds: &[Bound]) -> Terms {
        let single = Turn { extent: 1, by: Point::default() };
        let mut outer = sum.clone();
        let mut turn = outer.turns.pop().unwrap_or(single);
        let mut unit = 1;
        let free = turn.by.pos[..bounds.len()].iter().all(|&pos| pos == 0);
        if turn.by.at[slot] == 1
            && free
            && let Some(next) = outer.turns.pop_if(|next| next.by.at[slot] == turn.extent as i64)
        {
            (unit, turn) = (turn.extent, next);
        }
        Terms { outer, turn, unit, slot, is_bounded: !bounds.is_empty() }
    }

    /// Whether all of them are neighbours.
    pub fn are_a_run(&self) -> bool {
        let by = |turn: &Turn| turn.by.at[self.slot];
        let mut len = self.unit as i64;
        let turns = self.outer.turns.iter().chain([&self.turn]).rev();
        turns.filter(|turn| turn.extent > 1).all(|turn| {
            let follows = by(turn) == len;
            len *= turn.extent as i64;
            follows
        })
    }

    /// The terms `begin..end` in stretches, put into a list.
    pub fn stretches(&self, begin: usize, end: usize, list: &mut Vec<Stretch>) {
        list.clear();
        let (whole, mut number) = (self.turn.extent * self.unit, begin);
        while number < end {
            let first = number % whole;
            let count = (whole - first).min(end - number);
            let turns =
                Even::new(&self.outer.point(number / whole), &self.turn.by, self.turn.extent, self.slot);
            let stretch = Stretch { turns, unit: self.unit, begin: first, end: first + count };
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
        self.turns.by == self.unit as i64
    }

    /// How far neighbours are apart, but for those in a turn of several.
    pub fn by(&self) -> i64 {
        self.turns.by
    }

    /// The first term that is read, from the first element of a lane.
    pub fn first(&self) -> i64 {
        self.at(self.begin)
    }

    /// Where a term is.
    fn at(&self, term: usize) -> i64 {
        self.turns.at + if self.is_run() { term as i64 } else { term as i64 * self.turns.by }
    }

    /// What the turn of term `k` of the stretch adds to the position in every bound.
    pub fn position(&self, k: usize, bound: usize) -> i64 {
        self.turns.pos[bound] + ((self.begin + k) / self.unit) as i64 * self.turns.pos_by[bound]
    }

    /// The terms of the stretch for which a lane is inside the bounds: from the first up to the
    /// second.
    pub fn inside(&self, lane: &Point, bounds: &[Bound]) -> (usize, usize) {
        let (mut low, mut high) = (0, self.turns.len as i64);
        if bounds.is_empty() {
            return (0, self.len());
        }
        for (d, bound) in bounds.iter().enumerate() {
            let position = bound.start + lane.pos[d] + self.turns.pos[d];
            let (first, end) = inside(position, self.turns.pos_by[d], bound.extent, high.max(0));
            (low, high) = (low.max(first), high.min(end));
        }
        if low >= high {
            return (0, 0);
        }
        let clip = |turn: i64| (turn as usize * self.unit).clamp(self.begin, self.end) - self.begin;
        (clip(low), clip(high))
    }
}
