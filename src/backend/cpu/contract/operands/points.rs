//! Where the iterations of some loops of a contraction are: offsets of all operands, and positions
//! in the window.

use crate::ops::contract::{Contract, MAX_BOUNDS, Role};

/// Offsets of the five operands, and what the iteration adds to the position in every bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperandOffsets {
    pub at: [i64; 5],
    pub pos: [i64; MAX_BOUNDS],
}

/// One loop: its extent, and what an iteration adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    pub extent: usize,
    pub by: OperandOffsets,
}

impl Loop {
    /// Loop `index` of the step.
    pub fn of(step: &Contract, index: usize) -> Loop {
        let axis = &step.nest.axes()[index];
        let mut pos = [0; MAX_BOUNDS];
        for (pos, bound) in pos.iter_mut().zip(step.bounds()) {
            for (&axis, by) in bound.axes.iter().zip(bound.steps) {
                *pos += if usize::from(axis) == index { by } else { 0 };
            }
        }
        Loop { extent: axis.extent as usize, by: OperandOffsets { at: axis.strides, pos } }
    }
}

/// Some loops, outermost first.
#[derive(Clone, Debug, PartialEq)]
pub struct Loops {
    pub loops: Vec<Loop>,
}

impl Loops {
    /// The loops of one role.
    pub fn of(step: &Contract, role: Role) -> Loops {
        // At most the loops of a step.
        Loops { loops: step.loops(role).map(|(index, _)| Loop::of(step, index)).collect() }
    }

    /// How many iterations they have together.
    pub fn len(&self) -> usize {
        self.loops.iter().map(|axis| axis.extent).product()
    }

    /// The offsets of iteration `number`, counted from 0.
    pub fn point(&self, mut number: usize) -> OperandOffsets {
        let mut point = OperandOffsets::default();
        let Some((outermost, inner)) = self.loops.split_first() else { return point };
        for axis in inner.iter().rev() {
            point.add(&axis.by, (number % axis.extent) as i64);
            number /= axis.extent;
        }
        point.add(&outermost.by, number as i64);
        point
    }

    /// The offset of iteration `number` in one operand.
    pub fn offset(&self, mut number: usize, slot: usize) -> i64 {
        let mut offset = 0;
        let Some((outermost, inner)) = self.loops.split_first() else { return offset };
        for axis in inner.iter().rev() {
            offset += axis.by.at[slot] * (number % axis.extent) as i64;
            number /= axis.extent;
        }
        offset + outermost.by.at[slot] * number as i64
    }

    /// The iterations `begin..end` as strided runs.
    pub fn evens(&self, begin: usize, end: usize, slot: usize, bounded: bool, list: &mut Vec<StridedRun>) {
        list.clear();
        let inner = self.loops.last().copied().unwrap_or(Loop { extent: 1, by: OperandOffsets::default() });
        let mut number = begin;
        while number < end {
            let len = (inner.extent - number % inner.extent).min(end - number);
            StridedRun::new(&self.point(number), &inner.by, len, slot).push(list, bounded);
            number += len;
        }
    }

    /// The offsets of the iterations `begin..end`, put into `points`.
    pub fn points(&self, begin: usize, end: usize, points: &mut Vec<OperandOffsets>) {
        points.clear();
        let Some((inner, outer)) = self.loops.split_last() else {
            // At most what a caller asks for, who says how many it has room for.
            points.extend((begin..end).map(|_| OperandOffsets::default()));
            return;
        };
        // At most the loops of a step.
        let outer = Loops { loops: outer.to_vec() };
        let mut number = begin;
        while number < end {
            let mut point = outer.point(number / inner.extent);
            let first = number % inner.extent;
            let run = (inner.extent - first).min(end - number);
            point.add(&inner.by, first as i64);
            // At most as many as the caller asked for.
            points.extend((0..run).map(|_| {
                let here = point;
                point.add(&inner.by, 1);
                here
            }));
            number += run;
        }
    }
}

/// How far the other members of a k-group are from its first, as many as it has.
pub type GroupOffsets = [i64; 3];

/// A strided run along K, as one operand sees it.
#[derive(Clone, Copy, Debug)]
pub struct StridedRun {
    pub at: i64,
    pub by: i64,
    pub pos: [i64; MAX_BOUNDS],
    pub pos_by: [i64; MAX_BOUNDS],
    pub len: usize,
    /// Where the members of a k-group are no neighbours, how far the others are from the first.
    pub group_offsets: Option<GroupOffsets>,
}

impl StridedRun {
    /// `len` points from `first` on, `by` apart.
    pub fn new(first: &OperandOffsets, by: &OperandOffsets, len: usize, slot: usize) -> StridedRun {
        StridedRun {
            at: first.at[slot],
            by: by.at[slot],
            pos: first.pos,
            pos_by: by.pos,
            len,
            group_offsets: None,
        }
    }

    /// The same of an operand without bounds, from an offset on.
    pub fn plain(at: i64, by: i64, len: usize, group_offsets: Option<GroupOffsets>) -> StridedRun {
        StridedRun { at, by, pos: [0; MAX_BOUNDS], pos_by: [0; MAX_BOUNDS], len, group_offsets }
    }

    /// Adds `self` to a list, or extends its last entry where the stride goes on; `bounded` if
    /// positions count.
    pub fn push(self, list: &mut Vec<StridedRun>, bounded: bool) {
        if !bounded
            && let Some(last) = list.last_mut()
            && last.group_offsets == self.group_offsets
        {
            let by = if last.len == 1 { self.at - last.at } else { last.by };
            let even = self.len == 1 || self.by == by;
            if even && self.at - last.at == by * last.len as i64 {
                (last.by, last.len) = (by, last.len + self.len);
                return;
            }
        }
        list.push(self);
    }
}

impl OperandOffsets {
    /// Its offsets and those of another.
    #[inline(always)]
    pub fn offsets(&self, base: &[i64; 5]) -> [i64; 5] {
        let mut offsets = *base;
        offsets.iter_mut().zip(self.at).for_each(|(offset, at)| *offset += at);
        offsets
    }

    /// The same place where offsets begin there.
    #[inline(always)]
    pub fn with_origin(mut self, origin: &[i64; 5]) -> OperandOffsets {
        self.at = self.offsets(origin);
        self
    }

    /// Adds `times` another.
    #[inline(always)]
    pub fn add(&mut self, by: &OperandOffsets, times: i64) {
        (0..5).for_each(|k| self.at[k] += by.at[k] * times);
        (0..MAX_BOUNDS).for_each(|k| self.pos[k] += by.pos[k] * times);
    }
}
