//! Launches of sums and means of rows whose elements lie side by side (`kernels/row_sums.cu`).

use super::launch::{Emit, Launch, grid};
use super::params::{Operation, Params};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::{Compute, Reduce, Reduction};

/// Threads of a block, and rows of it.
const THREADS: u32 = 256;
const ROWS: u64 = 32;
/// Elements of a row: of fewer most lanes would be idle, and of more the tree has several blocks.
const LENGTHS: std::ops::RangeInclusive<i64> = 16..=1024;

/// Rows at equal distances: `row_sums_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination starts.
    pub dst: u64,
    /// Where the source starts.
    pub src: u64,
    /// Bytes from row to row, of the destination and of the source.
    pub step: [i64; 2],
    /// From binary32 to the destination.
    pub operation: Operation,
    /// Number of rows.
    pub rows: u32,
    /// Elements of each.
    pub length: u32,
    /// What is done with a sum.
    pub finish: u32,
    /// Nothing.
    pub unused: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 80);

/// Hands the launch of a problem to `emit` whose rows lie side by side, are short and of a type
/// that has a kernel; whether this is one. `at` are the addresses of the destination and the
/// source, and `finish` is what is done with a sum.
pub(super) fn launches(problem: &Reduce, at: [u64; 2], finish: u32, emit: Emit<'_>) -> Result<bool> {
    let Reduce { outputs, sequence, dst, src, compute, reduction, scaling, indices, .. } = problem;
    let kernel = match src {
        Scalar::F32 => "row_sums_f32",
        Scalar::F16 => "row_sums_f16",
        Scalar::Bf16 => "row_sums_bf16",
        _ => return Ok(false),
    };
    let &[piece] = sequence.pieces() else { return Ok(false) };
    let side_by_side = matches!(*piece.axes(), [axis] if axis.strides[0] == 1);
    let is_sum = matches!(reduction, Reduction::Add | Reduction::Avg);
    let rows = outputs.len() as u64;
    let fits = LENGTHS.contains(&sequence.len()) && outputs.axes().len() <= 1 && rows < 1 << 31;
    if !side_by_side || !is_sum || !fits || *compute != Compute::Single || indices.is_some() {
        return Ok(false);
    }
    let sizes = [dst.size() as i64, src.size() as i64];
    let start = [outputs.offsets[0], outputs.offsets[1] + piece.offsets[0]];
    let params = Params::new(&Parameters {
        dst: at[0].wrapping_add_signed(start[0] * sizes[0]),
        src: at[1].wrapping_add_signed(start[1] * sizes[1]),
        step: outputs.axes().first().map_or([0; 2], |axis| [0, 1].map(|k| axis.strides[k] * sizes[k])),
        operation: Operation::new(compute.scalar(), *dst, *scaling),
        rows: rows as u32,
        length: sequence.len() as u32,
        finish,
        unused: 0,
    });
    emit(&Launch { kernel, grid: grid(rows.div_ceil(ROWS))?, block: [THREADS, 1, 1], shared: 0, params })?;
    Ok(true)
}
