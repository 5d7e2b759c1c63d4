//! Launches of the kernels that take every problem (`kernels/general.cuh`).

use super::bytes::ByteNest;
use super::launch::{Emit, Launch, Pointers, grid};
use super::params::{Divisor, Index, Loop, OperandLoop, Operation, Params};
use crate::error::{Error, Result};
use crate::layout::{Axis, Layout, LoopNest, MAX_AXES, MAX_RANK};
use crate::ops::transform::{CHANNEL, Map};
use crate::ops::{Scale, Step, Transform, TransformPlan};

/// Threads of a block of these kernels.
pub(super) const THREADS: u32 = 256;
/// Elements that a thread of most of these kernels computes, and of a strided conversion.
const PER_THREAD: u64 = 4;
const CONVERTED: u64 = 8;
/// Elements that a block of any kernel computes, at most.
const MOST_PER_BLOCK: u64 = 16 * THREADS as u64;

/// Any nest, element by element: strided moves and conversions, and the ordered walk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Strided {
    /// Where both operands start.
    pub at: Pointers,
    /// Number of elements.
    pub count: u64,
    /// What to compute; moves by width ignore it.
    pub operation: Operation,
    /// Number of loops that count.
    pub rank: u32,
    /// 1 if only the destination takes part: it is filled.
    pub fills: u32,
    /// The loops, innermost first.
    pub loops: [Loop; MAX_AXES],
}

/// One loop of a [`Mapped`] walk over the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappedLoop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes the destination moves per iteration.
    pub dst: i64,
    /// The dimension it belongs to.
    pub axis: u32,
    /// Coordinates per iteration in that dimension: the block for the loop over groups, else 1.
    pub step: u32,
}

/// One dimension of a [`Mapped`] transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappedAxis {
    /// Extent of the destination; coordinates from here on are padding of the last group.
    pub dst_extent: i64,
    /// Source coordinates from here on do not exist: the extent, less what is cropped behind.
    pub src_extent: i64,
    /// Padding in front; negative crops.
    pub before: i64,
    /// Bytes the source moves per group, or per coordinate if the block is 1.
    pub src: i64,
    /// Fold factor.
    pub factor: Divisor,
    /// Neighbours per group of the source.
    pub block: Divisor,
}

impl MappedAxis {
    const NONE: MappedAxis = MappedAxis {
        dst_extent: 1,
        src_extent: 1,
        before: 0,
        src: 0,
        factor: Divisor::ONE,
        block: Divisor::ONE,
    };
}

/// A whole transform with padding, folding or unfilled groups: every element of the destination
/// finds its source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Mapped {
    /// The data pointers of both operands.
    pub at: Pointers,
    /// Number of elements of the destination, padding included.
    pub count: u64,
    /// What an element with a source is computed by.
    pub operation: Operation,
    /// What an element without a source is computed by.
    pub fill: Operation,
    /// Channels per group of a fold.
    pub group: Divisor,
    /// Number of dimensions.
    pub rank: u32,
    /// Number of loops.
    pub loop_count: u32,
    /// 0 folds (and pads), 1 unfolds.
    pub unfolds: u32,
    /// Bytes of one source element.
    pub src_size: u32,
    /// The loops, innermost first: one per dimension, one more for a blocked one.
    pub loops: [MappedLoop; MAX_RANK + 1],
    /// The dimensions.
    pub axes: [MappedAxis; MAX_RANK],
}

impl Mapped {
    /// All loops of one iteration.
    pub const LOOPS: [MappedLoop; MAX_RANK + 1] =
        [MappedLoop { extent: Divisor::ONE, dst: 0, axis: 0, step: 1 }; MAX_RANK + 1];
    /// All extents 1.
    pub const AXES: [MappedAxis; MAX_RANK] = [MappedAxis::NONE; MAX_RANK];
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Strided>() == 64 + 40 * MAX_AXES);
const _: () = assert!(size_of::<Mapped>() == 16 + 8 + 64 + 24 + 16 + 40 * 9 + 80 * 8);

/// The narrowest index that counts `count` elements and reaches `spans` (bytes, from the start of
/// each operand).
pub(super) fn index_for(count: u64, spans: &[(i64, i64)]) -> Index {
    let near = |offset: i64| i32::try_from(offset).is_ok();
    // Threads of the last block count a little beyond.
    let few = count <= (1 << 31) - 2 * MOST_PER_BLOCK;
    if few && spans.iter().all(|&(low, high)| near(low) && near(high)) { Index::I32 } else { Index::I64 }
}

/// The loops as a kernel of this index type walks them, innermost first.
pub(super) fn loops<const N: usize>(nest: &LoopNest<2>, index: Index) -> [Loop; N] {
    let mut loops = [Loop::ONCE; N];
    for (slot, axis) in loops.iter_mut().zip(nest.axes().iter().rev()) {
        let [dst, src] = axis.strides;
        *slot = Loop { extent: Divisor::new(axis.extent, index), dst, src };
    }
    loops
}

/// The same of loops over three operands, or over the first three of more.
pub(super) fn operand_loops<const K: usize, const N: usize>(
    nest: &LoopNest<K>, index: Index,
) -> [OperandLoop; N] {
    const { assert!(K >= 3) };
    let mut loops = [OperandLoop::ONCE; N];
    for (slot, axis) in loops.iter_mut().zip(nest.axes().iter().rev()) {
        let step = std::array::from_fn(|k| axis.strides[k]);
        *slot = OperandLoop { extent: Divisor::new(axis.extent, index), step };
    }
    loops
}

/// The walk over a nest whose strides count bytes.
fn walk(bytes: &ByteNest, operation: Operation, index: Index) -> Strided {
    Strided {
        at: bytes.at,
        count: bytes.nest.len() as u64,
        operation,
        // A single element has one loop of one iteration.
        rank: bytes.nest.axes().len().max(1) as u32,
        fills: 0,
        loops: loops(&bytes.nest, index),
    }
}

/// A launch of one element a thread, four times.
pub(super) fn launch(kernel: &'static str, count: u64, params: Params) -> Result<Launch> {
    launch_of(PER_THREAD, kernel, count, params)
}

/// A launch of one element a thread, `each` times.
pub(super) fn launch_of(each: u64, kernel: &'static str, count: u64, params: Params) -> Result<Launch> {
    let blocks = count.div_ceil(each * u64::from(THREADS));
    Ok(Launch { kernel, grid: grid(blocks)?, block: [THREADS, 1, 1], shared: 0, params })
}

/// One nest of a move, element by element.
pub(super) fn strided_move(bytes: &ByteNest) -> Result<Launch> {
    let index = index_for(bytes.nest.len() as u64, &bytes.reach());
    let kernel = match (bytes.width, index) {
        (1, Index::I32) => "strided_w1_i32",
        (2, Index::I32) => "strided_w2_i32",
        (4, Index::I32) => "strided_w4_i32",
        (8, Index::I32) => "strided_w8_i32",
        (16, Index::I32) => "strided_w16_i32",
        (_, Index::I32) => "strided_w32_i32",
        (1, Index::I64) => "strided_w1_i64",
        (2, Index::I64) => "strided_w2_i64",
        (4, Index::I64) => "strided_w4_i64",
        (8, Index::I64) => "strided_w8_i64",
        (16, Index::I64) => "strided_w16_i64",
        (_, Index::I64) => "strided_w32_i64",
    };
    let params = walk(bytes, Operation::MOVE, index);
    // `moved_per_thread` in `kernels/general.cuh`.
    let each = match (bytes.width, index) {
        (1 | 2, Index::I32) => 14,
        (1 | 2 | 4, _) => 8,
        _ => 4,
    };
    launch_of(each, kernel, params.count, Params::new(&params))
}

/// One nest of a conversion, element by element.
pub(super) fn strided(transform: &Transform, at: Pointers) -> Result<Launch> {
    let bytes = ByteNest::new(&transform.nest, [transform.dst.size(), transform.src.size()], at);
    let index = index_for(bytes.nest.len() as u64, &bytes.reach());
    let params = walk(&bytes, Operation::new(transform.src, transform.dst, transform.scaling), index);
    let kernel = match index {
        Index::I32 => "convert_strided_i32",
        Index::I64 => "convert_strided_i64",
    };
    launch_of(CONVERTED, kernel, params.count, Params::new(&params))
}

/// One step of a transform or a fill, by one thread, in the order of its loops.
pub(super) fn ordered(step: Step<'_>, at: Pointers, emit: Emit<'_>) -> Result<()> {
    let params = match step {
        Step::Transform(Transform { nest, dst, src, scaling }) => {
            let bytes = ByteNest::new(nest, [dst.size(), src.size()], at);
            walk(&bytes, Operation::new(*src, *dst, *scaling), Index::I64)
        }
        Step::Scale(Scale { nest: filled, dst, beta }) => {
            let mut nest = LoopNest::new(&[], [filled.offsets[0], 0]);
            for axis in filled.axes() {
                nest.push(Axis { extent: axis.extent, strides: [axis.strides[0], 0] });
            }
            let bytes = ByteNest::new(&nest, [dst.size(), 0], at);
            Strided { fills: 1, ..walk(&bytes, Operation::fill(*dst, *beta), Index::I64) }
        }
        Step::Padded(padded) => {
            ordered(Step::Transform(&padded.transform()), at, emit)?;
            return ordered(Step::Scale(&padded.fill()), at, emit);
        }
        _ => return Err(Error::Internal(format!("no step of a transform: {step}").into())),
    };
    let params = Params::new(&params);
    emit(&Launch { kernel: "ordered", grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params })
}

/// One loop over the destination, as the kernel is to see it.
#[derive(Clone, Copy, Default)]
struct LayoutLoop {
    extent: i64,
    /// Bytes per iteration.
    stride: i64,
    axis: usize,
    /// Coordinates per iteration.
    step: i64,
}

/// The loops over a destination, padding of the last group included, innermost first: neighbouring
/// threads write neighbouring elements. A blocked dimension has two loops. Returns how many there
/// are.
fn layout_loops(dst: &Layout, size: i64, loops: &mut [LayoutLoop; MAX_RANK + 1]) -> usize {
    let mut count = 0;
    let mut push = |this: LayoutLoop| {
        loops[count] = this;
        count += 1;
    };
    for axis in 0..dst.dims.rank() {
        let block = dst.block(axis);
        let stride = dst.strides[axis] * size;
        push(LayoutLoop { extent: (dst.dims[axis] + block - 1) / block, stride, axis, step: block });
        if block > 1 {
            push(LayoutLoop { extent: block, stride: size, axis, step: 1 });
        }
    }
    loops[..count].sort_unstable_by_key(|this| this.stride.unsigned_abs());
    count
}

/// How many channels the positions in a block of an unfold can name, `group` for each, behind those
/// that the source has: the kernel computes their numbers before it looks whether they are there.
/// `None` beyond 64 bits.
fn named_channels(factors: &[i64], group: i64, channels: i64) -> Option<i64> {
    let positions = factors.iter().try_fold(1_i64, |all, &factor| all.checked_mul(factor))?;
    positions.checked_mul(group)?.checked_add(channels)
}

/// Whether the kernel can count the groups of channels of a transform.
pub(super) fn counts_groups(plan: &TransformPlan) -> bool {
    let channels = plan.layouts().0.dims[CHANNEL];
    let counted = |map: &Map| !map.unfolds() || named_channels(&map.factors, map.group, channels).is_some();
    plan.map().is_none_or(counted)
}

/// A whole plan, padding included, in one launch. Pre: no dim is 0, and the kernel [counts its
/// groups](counts_groups).
pub(super) fn mapped(plan: &TransformPlan, at: Pointers) -> Result<Launch> {
    let (src, dst) = plan.layouts();
    let (from, to) = plan.scalars();
    let identity = Map::identity(&dst.dims);
    let map = plan.map().unwrap_or(&identity);
    let unfolds = map.unfolds();
    let mut all = [LayoutLoop::default(); MAX_RANK + 1];
    let used = layout_loops(dst, to.size() as i64, &mut all);
    let loops = &all[..used];
    let count = loops.iter().map(|this| this.extent as u64).product::<u64>();

    // Every coordinate that the kernel computes, and then some.
    let mut largest = (src.dims[CHANNEL]).saturating_add(map.group.saturating_mul(2)).max(count as i64);
    for axis in 0..dst.dims.rank() {
        let extent = dst.dims[axis].max(src.dims[axis]) + 1;
        let scaled = extent.saturating_mul(map.factors[axis]);
        largest = largest.max(scaled.saturating_add(map.before[axis].saturating_abs()));
    }
    if unfolds {
        largest = named_channels(&map.factors, map.group, src.dims[CHANNEL])
            .ok_or_else(|| {
                Error::unsupported("the groups of channels to unfold are more than 64 bits count")
            })?
            .max(largest);
    }
    let index = index_for(largest as u64, &[]);

    let mut params = Mapped {
        at,
        count,
        operation: Operation::new(from, to, plan.scaling()),
        fill: Operation::fill(to, plan.scaling().beta),
        group: Divisor::new(map.group, index),
        rank: dst.dims.rank() as u32,
        loop_count: loops.len() as u32,
        unfolds: u32::from(unfolds),
        src_size: from.size() as u32,
        loops: Mapped::LOOPS,
        axes: Mapped::AXES,
    };
    for (slot, this) in params.loops.iter_mut().zip(loops) {
        let extent = Divisor::new(this.extent, index);
        *slot = MappedLoop { extent, dst: this.stride, axis: this.axis as u32, step: this.step as u32 };
    }
    for axis in 0..dst.dims.rank() {
        // A crop behind ends a fold's source early; an unfold's destination is cropped, not its
        // source.
        let cropped = if unfolds { 0 } else { map.after[axis].min(0) };
        params.axes[axis] = MappedAxis {
            dst_extent: dst.dims[axis],
            src_extent: src.dims[axis] + cropped,
            before: map.before[axis],
            src: src.strides[axis] * from.size() as i64,
            factor: Divisor::new(map.factors[axis], index),
            block: Divisor::new(src.block(axis), index),
        };
    }
    let kernel = match index {
        Index::I32 => "map_i32",
        Index::I64 => "map_i64",
    };
    launch(kernel, count, Params::new(&params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_an_unfold_names_may_leave_32_bits() {
        assert_eq!(named_channels(&[1, 1, 2, 3], 5, 26), Some(56));
        assert_eq!(named_channels(&[1, 1, 1 << 16, 1 << 16], 1, 1), Some((1 << 32) + 1));
        assert_eq!(index_for((1 << 32) + 1, &[]), Index::I64);
        assert_eq!(named_channels(&[1, 1, 1 << 30, 1 << 30, 1 << 30], 1, 1), None);
    }
}
