//! The parameters of the kernels of normalisation (`kernels/normalise.cuh`).

use super::params::{Divisor, Index};
use crate::error::{Error, Result};
use crate::layout::LoopNest;

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

pub(super) const MEMBER_AXES: usize = 8;
pub(super) const GROUP_AXES: usize = 12;

pub(super) const BATCH: u32 = 1;
pub(super) const RUNNING: [u32; 2] = [2, 4];
pub(super) const SAVES: u32 = 8;
pub(super) const ADDS: u32 = 16;
pub(super) const KEEPS: u32 = 32;
pub(super) const SLOPES: u32 = 64;
pub(super) const DATA_SCALED: u32 = 128;
pub(super) const DATA_BLENDED: u32 = 256;
pub(super) const BY_ROWS: u32 = 512;
pub(super) const NUMBER_BLENDED: u32 = 1024;
pub(super) const GRADIENTS: u32 = 2048;

/// One loop over the operands of a group, or of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct NormalLoop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes that each operand moves per iteration.
    pub step: [i64; 6],
}

impl NormalLoop {
    pub(super) const ONCE: NormalLoop = NormalLoop { extent: Divisor::ONE, step: [0; 6] };
}

/// Loops as a kernel walks them, and how many.
pub(super) fn loops<const N: usize, const A: usize>(
    nest: &LoopNest<N>, sizes: [i64; N],
) -> Result<([NormalLoop; A], u32)> {
    let mut loops = [NormalLoop::ONCE; A];
    if nest.axes().len() > A {
        return Err(Error::unsupported(format!("{} loops, more than {A}: {nest}", nest.axes().len())));
    }
    for (slot, axis) in loops.iter_mut().zip(nest.axes().iter().rev()) {
        slot.extent = Divisor::new(axis.extent, Index::I64);
        (0..N).for_each(|k| slot.step[k] = axis.strides[k] * sizes[k]);
    }
    Ok((loops, nest.axes().len() as u32))
}

/// Groups that are normalised: `normalise_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the operands of the step start.
    pub at: [u64; 11],
    /// Number of groups.
    pub groups: u64,
    /// Elements of each.
    pub members: u64,
    /// What is added to a variance.
    pub epsilon: f64,
    /// The weight of new statistics.
    pub factor: f64,
    /// Alpha and beta of the result.
    pub scaling: [f64; 2],
    /// Alpha and beta of the gradients of parameters.
    pub parameter_scaling: [f64; 2],
    /// The parameter of the activation.
    pub parameter: f64,
    /// Scalar type of the tensors.
    pub data: u32,
    /// Scalar type of kept slopes.
    pub slopes: u32,
    /// What there is, as bits.
    pub flags: u32,
    /// The activation.
    pub activation: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// Number of loops over groups.
    pub group_rank: u32,
    /// Number of loops inside them.
    pub member_rank: u32,
    /// Blocks of threads for a group, or for a row of them.
    pub parts: u32,
    /// Elements of each.
    pub part: u64,
    /// Scratch: the sums of parts, and what is computed from those of a group.
    pub scratch: [u64; 2],
    /// Elements of all groups.
    pub elements: u64,
    /// Of what is walked element by element: groups or members.
    pub fast: Divisor,
    /// The loops over groups, innermost first.
    pub group: [NormalLoop; GROUP_AXES],
    /// The loops inside them.
    pub member: [NormalLoop; MEMBER_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 88 + 72 + 32 + 56 + 72 * (GROUP_AXES + MEMBER_AXES));
