//! Launches of SetTensor and ScaleTensor, and of the zeros of padding (`kernels/set.cu`).

use super::general::{self, index_for, launch};
use super::kind::Kind;
use super::launch::{Emit, Launch, Pointers, grid};
use super::nest::single;
use super::params::{Divisor, Index, Loop, Params};
use super::selection::Call;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::{Scale, Scaling, Set, Step, Transform};

/// Threads of a block.
const THREADS: u64 = 256;
/// Vectors that a thread of a run stores.
const VECTORS: u64 = 4;
/// Bytes of a vector.
const VECTOR: u64 = 16;

/// One value in every cell: `set_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the cells start; of a run, its first vector.
    pub at: u64,
    /// Number of cells, or of vectors of a run.
    pub count: u64,
    /// The cell, repeated to 8 bytes.
    pub cell: u64,
    /// Bytes of a run in front of its first vector.
    pub head: u32,
    /// Bytes of a run behind its last vector.
    pub tail: u32,
    /// Number of loops.
    pub rank: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops, innermost first.
    pub loops: [Loop; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 16 + 40 * MAX_AXES);

impl Kind for Scale {
    /// `beta * dst` in every cell, in the order of the loops if addresses repeat.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (fill, at, ordered) = (self, call.at[0], call.ordered);
        let Scale { nest, dst, beta } = *fill;
        if beta == 1.0 || nest.is_empty() {
            return Ok(());
        }
        if beta == 0.0 {
            return Set { nest, dst, cell: 0 }.launches(call, emit);
        }
        let at = Pointers { dst: at, src: at };
        if ordered {
            return general::ordered(Step::Scale(fill), at, emit);
        }
        // In place, a transform whose source is its destination.
        let mut both = LoopNest::new(&[], [nest.offsets[0]; 2]);
        for axis in nest.axes() {
            both.push(Axis { extent: axis.extent, strides: [axis.strides[0]; 2] });
        }
        let scaling = Scaling { alpha: beta, beta: 0.0 };
        single(&Transform { nest: both, dst, src: dst, scaling }, at, emit)
    }
}

impl Kind for Set {
    /// One value in every cell.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (set, at) = (self, call.at[0]);
        if set.nest.is_empty() {
            return Ok(());
        }
        let size = set.dst.size() as u64;
        let at = at.wrapping_add_signed(set.nest.offsets[0] * size as i64);
        let cell = (0..8 / size).fold(0, |all, k| all | set.cell << (8 * size * k));
        let mut nest = LoopNest::new(&[], [0]);
        for axis in set.nest.axes() {
            nest.push(Axis { extent: axis.extent, strides: [axis.strides[0] * size as i64] });
        }
        if set.nest.is_contiguous() {
            return emit(&run(at, set.nest.len() as u64 * size, cell)?);
        }
        let (nest, width) = widened(&nest, at, size);
        let index = index_for(nest.len() as u64, &[nest.span(0).unwrap_or((i64::MIN, i64::MAX))]);
        let kernel = match (width, index) {
            (1, Index::I32) => "set_w1_i32",
            (2, Index::I32) => "set_w2_i32",
            (4, Index::I32) => "set_w4_i32",
            (8, Index::I32) => "set_w8_i32",
            (_, Index::I32) => "set_w16_i32",
            (1, Index::I64) => "set_w1_i64",
            (2, Index::I64) => "set_w2_i64",
            (4, Index::I64) => "set_w4_i64",
            (8, Index::I64) => "set_w8_i64",
            (_, Index::I64) => "set_w16_i64",
        };
        let mut loops = [Loop::ONCE; MAX_AXES];
        for (slot, axis) in loops.iter_mut().zip(nest.axes().iter().rev()) {
            *slot = Loop { extent: Divisor::new(axis.extent, index), dst: axis.strides[0], src: 0 };
        }
        let (count, rank) = (nest.len() as u64, nest.axes().len() as u32);
        let params = Parameters { at, count, cell, head: 0, tail: 0, rank, unused: 0, loops };
        emit(&launch(kernel, count, Params::new(&params))?)
    }
}

/// These many bytes from `at` on: vectors, and the bytes around them.
fn run(at: u64, bytes: u64, cell: u64) -> Result<Launch> {
    let head = (at.wrapping_neg() % VECTOR).min(bytes);
    let count = (bytes - head) / VECTOR;
    let params = Params::new(&Parameters {
        at: at + head,
        count,
        cell,
        head: head as u32,
        tail: ((bytes - head) % VECTOR) as u32,
        rank: 0,
        unused: 0,
        loops: [Loop::ONCE; MAX_AXES],
    });
    // Without a single vector there still are bytes.
    let grid = grid(count.div_ceil(THREADS * VECTORS).max(1))?;
    Ok(Launch { kernel: "set_run", grid, block: [THREADS as u32, 1, 1], shared: 0, params })
}

/// The loops with neighbouring cells taken as one, as wide as alignment and the innermost run
/// allow.
fn widened(nest: &LoopNest<1>, at: u64, size: u64) -> (LoopNest<1>, u64) {
    let Some((inner, outer)) = nest.axes().split_last() else { return (*nest, size) };
    if inner.strides != [size as i64] {
        return (*nest, size);
    }
    let bytes = inner.extent as u64 * size;
    let strides = outer.iter().fold(at | bytes, |all, axis| all | axis.strides[0].unsigned_abs());
    let width = 1 << (strides | VECTOR).trailing_zeros();
    let mut wide = LoopNest::new(outer, [0]);
    wide.push(Axis { extent: (bytes / width) as i64, strides: [width as i64] });
    (wide, width)
}
