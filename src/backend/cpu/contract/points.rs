//! Where the turns of some loops of a contraction are: offsets of all operands, and positions in the window.

use crate::ops::contract::{Contract, MAX_BOUNDS, Role};

/// Offsets of the five operands, and what the turn adds to the position in every bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) at: [i64; 5],
    pub(super) pos: [i64; MAX_BOUNDS],
}

/// One loop: turns, and what a turn adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) extent: usize,
    pub(super) by: Point,
}

impl Turn {
    /// Loop `index` of the step.
    pub(super) fn of(step: &Contract, index: usize) -> Turn {
        let axis = &step.nest.axes()[index];
        let mut pos = [0; MAX_BOUNDS];
        for (pos, bound) in pos.iter_mut().zip(step.bounds()) {
            for (&axis, by) in bound.axes.iter().zip(bound.steps) {
                *pos += if usize::from(axis) == index { by } else { 0 };
            }
        }
        Turn { extent: axis.extent as usize, by: Point { at: axis.strides, pos } }
    }
}

/// Some loops, outermost first.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) turns: Vec<Turn>,
}

impl Walk {
    /// The loops of one role.
    pub(super) fn of(step: &Contract, role: Role) -> Walk {
        Walk { turns: step.loops(role).map(|(index, _)| Turn::of(step, index)).collect() }
    }

    /// How often they turn.
    pub(super) fn len(&self) -> usize {
        self.turns.iter().map(|turn| turn.extent).product()
    }

    /// The turn of a number, counted from 0.
    pub(super) fn point(&self, mut number: usize) -> Point {
        let mut point = Point::default();
        for turn in self.turns.iter().rev() {
            point.add(&turn.by, (number % turn.extent) as i64);
            number /= turn.extent;
        }
        point
    }

    /// The turns `begin..end`, put into `points`.
    pub(super) fn points(&self, begin: usize, end: usize, points: &mut Vec<Point>) {
        points.clear();
        let Some((inner, outer)) = self.turns.split_last() else {
            points.extend((begin..end).map(|_| Point::default()));
            return;
        };
        let outer = Walk { turns: outer.to_vec() };
        let mut number = begin;
        while number < end {
            let mut point = outer.point(number / inner.extent);
            let first = number % inner.extent;
            let run = (inner.extent - first).min(end - number);
            point.add(&inner.by, first as i64);
            for _ in 0..run {
                points.push(point);
                point.add(&inner.by, 1);
            }
            number += run;
        }
    }
}

impl Point {
    /// Adds `times` another.
    #[inline(always)]
    pub(super) fn add(&mut self, by: &Point, times: i64) {
        (0..5).for_each(|k| self.at[k] += by.at[k] * times);
        (0..MAX_BOUNDS).for_each(|k| self.pos[k] += by.pos[k] * times);
    }
}
