//! Launches of sums and means of rows whose elements lie side by side (`kernels/row_sums.cu`).

use super::general::{division, finish};
use crate::backend::cuda::launch::{Emit, Launch, column_of, grid};
use crate::backend::cuda::params::{Divisor, Index, Operation, Params};
use crate::backend::cuda::selection::Query;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::{Compute, Reduce, Reduction};

/// Threads of a block, and rows of it.
const THREADS: u32 = 256;
const ROWS: u64 = 32;
/// Elements of a row: of fewer most lanes would be idle, and of more the tree has several blocks.
const LENGTHS: std::ops::RangeInclusive<i64> = 16..=1024;
/// Threads of a block each of which has a short row, the most bytes of such a row, and the fewest
/// rows: of fewer the warps that have four of them are as fast.
const NEAR_THREADS: u32 = 128;
const NEAR_BYTES: i64 = 256;
const NEAR_ROWS: u64 = 1024;
/// Bytes that lie in banks of shared memory of their own, half of them: where rows are multiples of
/// that long, too many threads would meet in one bank.
const HALF_OF_BANKS: i64 = 64;
/// Most threads of a block for a long row, elements that each of its warps has work for, and warps
/// that fill a device: where there are more, a row has fewer of them.
const LONG_THREADS: u32 = 1024;
const WARP_ELEMENTS: u64 = 1024;
const FILLED: u64 = 8192;
/// What the 32-bit offsets of a long row reach, in elements and in bytes.
const REACH: i64 = 1 << 31;

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
    /// 1 if a row lies in several runs, which only the kernels for long rows take.
    pub in_runs: u32,
}

/// Rows in runs at equal distances: `row_sums_long_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct LongParameters {
    /// As of rows that lie side by side.
    pub rows: Parameters,
    /// Elements of each run.
    pub run: Divisor,
    /// Bytes from run to run.
    pub around: i64,
}

// The same numbers stand in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 80);
const _: () = assert!(size_of::<LongParameters>() == 112);

/// The kernel of a type, of these in binary32, binary16 and bfloat16.
fn of_type(kernels: [&'static str; 3], src: Scalar) -> Option<&'static str> {
    column_of(src).map(|column| kernels[column])
}

/// Whether a problem is a sum or a mean in binary32 of rows at equal distances.
fn is_of_rows(problem: &Reduce) -> bool {
    matches!(problem.reduction, Reduction::Add | Reduction::Avg)
        && problem.outputs.axes().len() <= 1
        && problem.outputs.len() < 1 << 31
        && problem.compute == Compute::Single
        && problem.indices.is_none()
}

/// The parameters of rows whose first begins `offset` elements behind what the outputs say.
fn parameters(query: &Query<'_, Reduce>, offset: i64) -> Parameters {
    let Reduce { outputs, sequence, dst, src, compute, scaling, reduction, .. } = query.step;
    let sizes = [dst.size() as i64, src.size() as i64];
    let start = [outputs.offsets[0], outputs.offsets[1] + offset];
    Parameters {
        dst: query.place(0).wrapping_add_signed(start[0] * sizes[0]),
        src: query.place(2).wrapping_add_signed(start[1] * sizes[1]),
        step: outputs.axes().first().map_or([0; 2], |axis| [0, 1].map(|k| axis.strides[k] * sizes[k])),
        operation: Operation::new(compute.scalar(), *dst, *scaling),
        rows: outputs.len() as u32,
        length: sequence.len() as u32,
        finish: finish(*reduction),
        in_runs: 0,
    }
}

/// What rows share that lie side by side and are short: the kernel of their type, and its
/// parameters. None of other problems.
fn short_rows(query: &Query<'_, Reduce>, kernels: [&'static str; 3]) -> Option<(&'static str, Parameters)> {
    let problem = query.step;
    let kernel = of_type(kernels, problem.src)?;
    let &[piece] = problem.sequence.pieces() else { return None };
    let side_by_side = matches!(*piece.axes(), [axis] if axis.strides[0] == 1);
    let fits = side_by_side && LENGTHS.contains(&problem.sequence.len()) && is_of_rows(problem);
    (fits && !query.call.ordered).then(|| (kernel, parameters(query, piece.offsets[0])))
}

/// Hands the launch of a problem to `emit` whose rows lie side by side, are short and of a type
/// that has a kernel; whether this is one.
pub(super) fn short(query: &Query<'_, Reduce>, emit: Emit<'_>) -> Result<bool> {
    let kernels = ["row_sums_f32", "row_sums_f16", "row_sums_bf16"];
    let Some((kernel, params)) = short_rows(query, kernels) else { return Ok(false) };
    let (rows, params) = (u64::from(params.rows), Params::new(&params));
    emit(&Launch { kernel, grid: grid(rows.div_ceil(ROWS))?, block: [THREADS, 1, 1], shared: 0, params })?;
    Ok(true)
}

/// As [`short`], of many rows without gaps that are so short that a thread has one.
pub(super) fn near(query: &Query<'_, Reduce>, emit: Emit<'_>) -> Result<bool> {
    let kernels = ["row_sums_near_f32", "row_sums_near_f16", "row_sums_near_bf16"];
    let Some((kernel, params)) = short_rows(query, kernels) else { return Ok(false) };
    let (rows, bytes) = (u64::from(params.rows), i64::from(params.length) * query.step.src.size() as i64);
    let is_near = params.step[1] == bytes && params.src.is_multiple_of(16);
    if !is_near || bytes > NEAR_BYTES || bytes % HALF_OF_BANKS == 0 || rows < NEAR_ROWS {
        return Ok(false);
    }
    let (blocks, params) = (rows.div_ceil(NEAR_THREADS.into()), Params::new(&params));
    emit(&Launch { kernel, grid: grid(blocks)?, block: [NEAR_THREADS, 1, 1], shared: 0, params })?;
    Ok(true)
}

/// As [`short`], of longer rows that are not cut: one block of threads has a whole row.
pub(super) fn long(query: &Query<'_, Reduce>, emit: Emit<'_>) -> Result<bool> {
    let problem = query.step;
    let kernels = ["row_sums_long_f32", "row_sums_long_f16", "row_sums_long_bf16"];
    let Some(kernel) = of_type(kernels, problem.src) else { return Ok(false) };
    let &[piece] = problem.sequence.pieces() else { return Ok(false) };
    let (outer, inner) = match *piece.axes() {
        [inner] => (None, inner),
        [outer, inner] => (Some(outer), inner),
        _ => return Ok(false),
    };
    let (rows, length) = (problem.outputs.len() as u64, problem.sequence.len());
    let size = problem.src.size() as i64;
    let around = outer.map_or(0, |outer| outer.strides[0]);
    let reach =
        outer.map_or(0, |outer| (outer.extent - 1).saturating_mul(around)).saturating_add(inner.extent);
    let reaches = around >= 0 && reach.saturating_mul(size) < REACH;
    let fits = (LENGTHS.end() + 1..REACH).contains(&length) && reaches;
    let is_plain = inner.strides[0] == 1 && fits && is_of_rows(problem) && !query.call.ordered;
    if !is_plain || division(query).1.chunks != 1 {
        return Ok(false);
    }
    let params = LongParameters {
        rows: Parameters { in_runs: u32::from(outer.is_some()), ..parameters(query, piece.offsets[0]) },
        run: Divisor::new(inner.extent, Index::I32),
        around: around * size,
    };
    let params = Params::new(&params);
    let block = [long_threads(rows, length), 1, 1];
    emit(&Launch { kernel, grid: grid(rows)?, block, shared: 0, params })?;
    Ok(true)
}

/// Threads of a block for each of `rows` long rows: a power of two of warps, no more than a row
/// has work for, nor than all rows together need to fill a device.
fn long_threads(rows: u64, length: i64) -> u32 {
    let most = (length as u64).div_ceil(WARP_ELEMENTS).min(FILLED.div_ceil(rows));
    let warps = u64::from(LONG_THREADS / 32).min(most.next_power_of_two());
    warps as u32 * 32
}
