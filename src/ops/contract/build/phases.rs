//! The phases of a stride: the rows of a data gradient that have one remainder modulo the stride,
//! and so meet the same taps.

use super::{Building, Convolution, product, reach};
use crate::error::Result;
use crate::layout::{Axis, Layout};
use crate::ops::contract::Role;

/// Spatial dimensions up to which phases are joined: loops are few.
const JOINED: usize = 3;

/// One phase.
#[derive(Clone, Copy, PartialEq)]
struct Phase {
    rows: i64,
    /// The first tap that meets it, if any does, and how many do.
    first: i64,
    count: i64,
    /// The position in the result where the first row and the first tap meet.
    start: i64,
}

impl Convolution<'_> {
    /// The phases of dimension `d` that have rows.
    pub(super) fn phases(&self, d: usize) -> i64 {
        self.dim(d).1.min(self.image.dims[d + 2])
    }

    /// Taps of dimension `d` from one that meets a phase to the next; at most the stride.
    fn period(&self, d: usize) -> i64 {
        let (_, stride, dilation, _) = self.dim(d);
        stride / gcd(stride, dilation)
    }

    fn phase(&self, d: usize, phase: i64) -> Phase {
        let ((pad, stride, dilation, taps), period) = (self.dim(d), self.period(d));
        let rows = (self.image.dims[d + 2] - phase + stride - 1) / stride;
        match (0..period.min(taps)).find(|t| (phase + pad - t * dilation) % stride == 0) {
            None => Phase { rows, first: 0, count: 0, start: 0 },
            Some(first) => Phase {
                rows,
                first,
                count: (taps - first + period - 1) / period,
                start: (phase + pad - first * dilation) / stride,
            },
        }
    }

    /// Whether a phase has a single position, which meets every row through a tap of its own.
    fn is_single(&self, d: usize, phase: &Phase) -> bool {
        let (_, stride, dilation, _) = self.dim(d);
        let apart = self.period(d) * dilation / stride;
        let meets = phase.start >= 0 && phase.start + phase.rows <= phase.count;
        self.result.dims[d + 2] == 1 && apart == 1 && meets
    }

    /// How many phases from one on differ in nothing but their first taps, which are evenly spaced:
    /// one loop over columns is all of them.
    pub(super) fn alike(&self, d: usize, phase: i64) -> i64 {
        let here = self.phase(d, phase);
        // Of single channels sums have kernels of their own, without columns.
        let apart = self.geometry.groups > 1 || self.spatial > JOINED || here.count == 0;
        if apart || self.is_single(d, &here) || phase + 1 >= self.phases(d) {
            return 1;
        }
        let by = self.phase(d, phase + 1).first - here.first;
        let is_next = |i: &i64| self.phase(d, phase + i) == Phase { first: here.first + i * by, ..here };
        1 + (1..self.phases(d) - phase).take_while(is_next).count() as i64
    }
}

impl Building {
    /// Adds the rows of dimension `d` whose remainder modulo the stride is one of `alike` from
    /// `phase` on, and the taps that meet them.
    pub(super) fn phases(
        &mut self, conv: &Convolution<'_>, outputs: &[(usize, Option<&Layout>); 3], d: usize,
        [phase, alike]: [i64; 2],
    ) -> Result<()> {
        let ((_, stride, dilation, taps), period) = (conv.dim(d), conv.period(d));
        let axis = d + 2;
        let here = conv.phase(d, phase);
        let Phase { rows, first, count, start } = here;
        let (mut out, mut next) = ([0; 5], [0; 5]);
        for &(slot, layout) in outputs {
            let Some(layout) = layout else { continue };
            next[slot] = reach(layout, axis, 1)?;
            out[slot] = product(next[slot], stride)?;
            self.step.nest.offsets[slot] += product(next[slot], phase)?;
        }
        if count == 0 {
            self.step.push(Role::M, Axis { extent: rows, strides: out });
            self.step.push(Role::K, Axis { extent: 0, strides: [0; 5] });
            return Ok(());
        }
        let along = conv.filter.strides[axis];
        let sign = if conv.geometry.flip { -1 } else { 1 };
        let begin = if conv.geometry.flip { taps - 1 - first } else { first };
        self.step.nest.offsets[2] += product(begin, along)?;
        let filter = [0, 0, product(sign * period, along)?, 0, 0];
        // Nothing is summed, and rows belong to the filter.
        if conv.is_single(d, &here) {
            self.step.nest.offsets[2] += product(start, filter[2])?;
            out[2] = filter[2];
            self.step.push(Role::N, Axis { extent: rows, strides: out });
            return Ok(());
        }
        if alike > 1 {
            next[2] = product(sign * (conv.phase(d, phase + 1).first - first), along)?;
            self.step.push(Role::N, Axis { extent: alike, strides: next });
        }
        let loops = [(Role::M, rows, out), (Role::K, count, filter)];
        self.window(conv.result, axis, loops, [1, -(period * dilation / stride)], start)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
