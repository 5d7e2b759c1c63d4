//! Launches of ReduceTensor (`kernels/reduce.cu`).
//!
//! Where neighbours in memory belong to one output, a block of threads has the blocks of its tree;
//! where they belong to neighbouring outputs, a thread has an output. Few outputs are cut into
//! chunks, which are whole subtrees, if there is a workspace for what they are joined to. The bits
//! are the same in every case.

use crate::backend::cuda::general::{loops, operand_loops};
use crate::backend::cuda::launch::{Emit, Launch, grid};
use crate::backend::cuda::params::{Divisor, Index, Loop, OperandLoop, Operation, Params};
use crate::backend::cuda::selection::Query;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::reduce::{Partition, Schedule};
use crate::ops::{Compute, Reduce, Reduction};

/// Threads of a block of `reduce_blocks_*` and `reduce_chunks_*`.
const THREADS: u32 = 256;
/// Threads of a block of `reduce_rows_*`, each with an output.
const ROW_THREADS: u32 = 64;
/// Of fewer outputs that would be cut, and have no workspace, each has a block of threads.
const FEW_OUTPUTS: i64 = 4096;
/// Sequences up to this long are a warp's; longer ones, up to the second length, where there are
/// enough outputs for all warps of a device.
const WARP_LENGTHS: [i64; 2] = [1024, 8192];
const MANY_OUTPUTS: u64 = 8192;

/// A part of the elements that each output reduces.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Piece {
    /// Bytes from the start of the output's sequence to the first element.
    pub src: i64,
    /// Index of the first element.
    pub index: i64,
    /// Number of elements.
    pub count: u64,
    /// Number of loops.
    pub rank: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops, innermost first, with the index in the place of a destination.
    pub loops: [Loop; MAX_AXES],
}

/// Many elements joined to one, for each output: `reduce_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the outputs start.
    pub dst: u64,
    /// Where the elements start.
    pub src: u64,
    /// Where the indices start.
    pub indices: u64,
    /// Room for what each chunk of each output is joined to, unless every output is one chunk.
    pub partials: u64,
    /// Number of outputs.
    pub outputs: u64,
    /// Elements of each output.
    pub length: u64,
    /// Chunks of each output.
    pub chunks: Divisor,
    /// From the computation type to the destination.
    pub operation: Operation,
    /// Scalar type of the source.
    pub scalar: u32,
    /// The number of the reduction in `kernels/function.cuh`.
    pub fold: u32,
    /// What is done with the joined number.
    pub finish: u32,
    /// Bytes of an index.
    pub index_bytes: u32,
    /// log2 of the blocks of the tree that are one chunk; 0 if a warp has a whole output.
    pub level: u32,
    /// Number of loops over outputs.
    pub rank: u32,
    /// The loops over outputs, innermost first: destination, source, place among the indices.
    pub outer: [OperandLoop; MAX_AXES],
    /// What each output reduces.
    pub pieces: [Piece; 2],
}

// The same number stands in the kernels' source.
const _: () =
    assert!(size_of::<Parameters>() == 32 + 16 + 24 + 32 + 24 + 48 * MAX_AXES + 2 * (32 + 40 * MAX_AXES));

/// In which order the outputs are computed, and how each is cut.
pub(super) fn division(query: &Query<'_, Reduce>) -> (Schedule, Partition) {
    let problem = query.step;
    if query.call.ordered {
        // One block of threads does one output after the other.
        return (Schedule::Blocks, problem.whole(Schedule::Blocks));
    }
    let schedule = problem.schedule();
    let partition = problem.partition(schedule);
    if partition.chunks == 1 || problem.workspace_bytes(partition) <= problem.workspace {
        return (schedule, partition);
    }
    // A thread for each of a few outputs would leave a device idle: blocks read other outputs'
    // elements beside theirs, but most of those from the cache.
    let schedule = if problem.outputs.len() < FEW_OUTPUTS { Schedule::Blocks } else { schedule };
    (schedule, problem.whole(schedule))
}

/// Any reduction.
pub(super) fn launch_any(query: &Query<'_, Reduce>, emit: Emit<'_>) -> Result<bool> {
    let (problem, ordered) = (query.step, query.call.ordered);
    let (schedule, partition) = division(query);
    let family = Family::of(problem, schedule);
    let outputs = problem.outputs.len() as u64;
    let length = problem.sequence.len();
    let fits = length <= WARP_LENGTHS[0] || length <= WARP_LENGTHS[1] && outputs >= MANY_OUTPUTS;
    let by_warps = !ordered && schedule == Schedule::Blocks && partition.chunks == 1 && fits;
    let mut params = parameters(problem, schedule, partition, query.places());
    if by_warps {
        params.level = 0;
    }
    let launch = |kernel, blocks, threads| -> Result<Launch> {
        Ok(Launch { kernel, grid: blocks, block: [threads, 1, 1], shared: 0, params: Params::new(&params) })
    };
    let [blocks, rows, chunks] = family.kernels();
    // Both grids before the first launch: a call that fails has queued nothing.
    let first = match schedule {
        Schedule::Blocks if ordered => launch(blocks, [1, 1, 1], THREADS)?,
        Schedule::Blocks => {
            // Blocks of threads take more than one chunk where one grid does not hold them all.
            let units =
                if by_warps { outputs.div_ceil((THREADS / 32).into()) } else { outputs * partition.chunks };
            let units = units.min((1 << 31) - 1);
            launch(blocks, grid(units)?, THREADS)?
        }
        Schedule::Outputs => {
            let groups = outputs.div_ceil(ROW_THREADS.into());
            launch(rows, grid(groups * partition.chunks)?, ROW_THREADS)?
        }
    };
    let joining = if partition.chunks > 1 { Some(launch(chunks, grid(outputs)?, THREADS)?) } else { None };
    emit(&first)?;
    joining.map_or(Ok(()), |joining| emit(&joining))?;
    Ok(true)
}

/// `at` are the destination, the indices, the source and the workspace.
fn parameters(problem: &Reduce, schedule: Schedule, partition: Partition, at: [u64; 4]) -> Parameters {
    let Reduce { outputs, sequence, dst, src, compute, reduction, scaling, indices, .. } = problem;
    let sizes = [dst.size() as i64, src.size() as i64, 1];
    let mut axes: Vec<Axis<3>> = Vec::with_capacity(outputs.axes().len());
    for axis in outputs.axes() {
        axes.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    if schedule == Schedule::Outputs {
        // Neighbouring threads read neighbours, whatever the order in which they write.
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides[1].unsigned_abs().wrapping_sub(1)));
    }
    let outer = LoopNest::new(&axes, [0; 3]);
    let empty = Piece {
        src: 0,
        index: 0,
        count: 0,
        rank: 0,
        unused: 0,
        loops: loops(&LoopNest::new(&[], [0; 2]), Index::I64),
    };
    // The kernels of constant types count in 32 bits.
    let index = if Family::of(problem, schedule).is_usual() { Index::I32 } else { Index::I64 };
    let mut pieces = [empty; 2];
    for (to, piece) in pieces.iter_mut().zip(sequence.pieces()) {
        let mut nest = LoopNest::new(&[], [0; 2]);
        for axis in piece.axes() {
            nest.push(Axis { extent: axis.extent, strides: [axis.strides[1], axis.strides[0] * sizes[1]] });
        }
        *to = Piece {
            src: piece.offsets[0] * sizes[1],
            index: piece.offsets[1],
            count: piece.len() as u64,
            rank: nest.axes().len() as u32,
            unused: 0,
            loops: loops(&nest, index),
        };
    }
    let start = |address: u64, k: usize| address.wrapping_add_signed(outputs.offsets[k] * sizes[k]);
    let index_bytes = indices.map_or(0, |indices| indices.size());
    Parameters {
        dst: start(at[0], 0),
        src: start(at[2], 1),
        indices: at[1].wrapping_add_signed(outputs.offsets[2] * index_bytes as i64),
        // Partial results are aligned to 16 bytes.
        partials: at[3].next_multiple_of(16),
        outputs: outputs.len() as u64,
        length: sequence.len() as u64,
        chunks: Divisor::new(partition.chunks as i64, Index::I64),
        operation: Operation::new(compute.scalar(), *dst, *scaling),
        scalar: *src as u32,
        fold: reduction.combiner() as u32,
        finish: finish(*reduction),
        index_bytes: index_bytes as u32,
        level: partition.level,
        rank: outer.axes().len() as u32,
        outer: operand_loops(&outer, Index::I64),
        pieces,
    }
}

/// The number of what is done last in `kernels/function.cuh`.
pub(super) fn finish(reduction: Reduction) -> u32 {
    match reduction {
        Reduction::Avg => 1,
        Reduction::Norm2 => 2,
        _ => 0,
    }
}

/// The kernels that serve a problem.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Single,
    Double,
    IndexedSingle,
    IndexedDouble,
    /// Kernels whose type is a constant.
    Usual(Scalar),
    /// Kernels of binary32 by blocks, with indices.
    IndexedUsual,
}

impl Family {
    fn of(problem: &Reduce, schedule: Schedule) -> Family {
        let few = problem.sequence.len() < 1 << 31;
        match (problem.compute, problem.indices, problem.src) {
            (Compute::Single, Some(_), Scalar::F32) if few && schedule == Schedule::Blocks => {
                Family::IndexedUsual
            }
            (Compute::Single, Some(_), _) => Family::IndexedSingle,
            (Compute::Double, Some(_), _) => Family::IndexedDouble,
            (Compute::Single, None, scalar @ (Scalar::F32 | Scalar::F16 | Scalar::Bf16)) if few => {
                Family::Usual(scalar)
            }
            (Compute::Single, None, _) => Family::Single,
            (Compute::Double, None, _) => Family::Double,
        }
    }

    fn is_usual(self) -> bool {
        matches!(self, Family::Usual(_) | Family::IndexedUsual)
    }

    /// For blocks, for rows and for chunks.
    fn kernels(self) -> [&'static str; 3] {
        match self {
            Family::Single => ["reduce_blocks_f32", "reduce_rows_f32", "reduce_chunks_f32"],
            Family::Double => ["reduce_blocks_f64", "reduce_rows_f64", "reduce_chunks_f64"],
            Family::IndexedSingle => {
                ["reduce_blocks_indexed_f32", "reduce_rows_indexed_f32", "reduce_chunks_indexed_f32"]
            }
            Family::IndexedUsual => {
                ["reduce_blocks_indexed_of_f32", "reduce_rows_indexed_f32", "reduce_chunks_indexed_f32"]
            }
            Family::IndexedDouble => {
                ["reduce_blocks_indexed_f64", "reduce_rows_indexed_f64", "reduce_chunks_indexed_f64"]
            }
            Family::Usual(Scalar::F16) => ["reduce_blocks_of_f16", "reduce_rows_of_f16", "reduce_chunks_f32"],
            Family::Usual(Scalar::Bf16) => {
                ["reduce_blocks_of_bf16", "reduce_rows_of_bf16", "reduce_chunks_f32"]
            }
            Family::Usual(_) => ["reduce_blocks_of_f32", "reduce_rows_of_f32", "reduce_chunks_f32"],
        }
    }
}
