//! Launches of random masks (`kernels/random.cu`, `kernels/random_of.cu`).

use super::general::index_for;
use super::launch::{Emit, Launch, column_of, grid};
use super::linear::VECTOR;
use super::params::{Index, OperandTurn, Params};
use super::pointwise::operand_turns;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::Random;

/// Threads of a block, each with a word of a mask that is drawn.
const THREADS: u32 = 256;
/// Threads of a block that applies a mask to any loops, and its elements.
const APPLYING: u32 = 128;
const PER_BLOCK: u64 = 8 * APPLYING as u64;

/// A mask that is drawn or there: `random_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination starts.
    pub dst: u64,
    /// Where the source starts.
    pub src: u64,
    /// The mask.
    pub mask: u64,
    /// Seed and call number.
    pub states: u64,
    /// Elements of the loops.
    pub count: u64,
    /// Elements of the mask.
    pub elements: u64,
    /// Numbers below it drop their element.
    pub threshold: u64,
    /// The number of the loops' first element.
    pub first: u64,
    /// The factor of what is kept.
    pub scale: f64,
    /// Scalar type of both tensors.
    pub scalar: u32,
    /// 1 if numbers are binary64.
    pub wide: u32,
    /// Number of loops.
    pub rank: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops, innermost first.
    pub turns: [OperandTurn; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 72 + 16 + 48 * MAX_AXES);

/// The kernel of a type that draws a mask and applies it, or applies one that is there, along a
/// run whose operands begin at these addresses; if it has one.
fn of_type(scalar: Scalar, draws: bool, starts: [u64; 2]) -> Option<&'static str> {
    let column = column_of(scalar)?;
    let kernels = match draws {
        true => ["random_run_of_f32", "random_run_of_f16", "random_run_of_bf16"],
        false => ["random_mask_of_f32", "random_mask_of_f16", "random_mask_of_bf16"],
    };
    starts.iter().all(|start| start.is_multiple_of(VECTOR)).then_some(kernels[column])
}

/// Hands the launches of a step to `emit`: `at` are destination, source, mask and, if the step
/// draws, states.
///
/// # Errors
/// As for [`super::plan::launches`] and [`Random::check`].
pub(super) fn launches(step: &Random, at: &[u64], emit: Emit<'_>) -> Result<()> {
    step.check()?;
    let size = step.scalar.size() as i64;
    let sizes = [size, size, 1];
    let mut nest = LoopNest::new(&[], [0; 3]);
    for axis in step.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    let [to, from, number] = step.nest.offsets;
    let params = Parameters {
        dst: at[0].wrapping_add_signed(to * size),
        src: at[1].wrapping_add_signed(from * size),
        mask: at[2],
        states: step.draw.map_or(0, |_| at[3]),
        count: step.nest.len() as u64,
        elements: step.draw.map_or(0, |draw| draw.elements),
        threshold: step.draw.map_or(0, |draw| draw.threshold),
        first: number as u64,
        scale: step.scale,
        scalar: step.scalar as u32,
        wide: u32::from(step.scalar == Scalar::F64),
        rank: nest.axes().len() as u32,
        unused: 0,
        turns: operand_turns(&nest, Index::I64),
    };
    // A thread for each word of a mask.
    let by_words = |kernel, bits: u64| -> Result<Launch> {
        let blocks = bits.div_ceil(32 * u64::from(THREADS));
        let params = Params::new(&params);
        Ok(Launch { kernel, grid: grid(blocks)?, block: [THREADS, 1, 1], shared: 0, params })
    };
    let draws = step.draw.is_some();
    let is_run = step.nest.is_contiguous() && number == 0;
    let of_type = of_type(step.scalar, draws, [params.dst, params.src]).filter(|_| is_run);
    if let Some(kernel) = of_type {
        emit(&by_words(kernel, if draws { params.elements } else { params.count })?)?;
    } else if draws && is_run {
        emit(&by_words("random_run", params.elements)?)?;
    } else {
        if draws {
            emit(&by_words("random_draw", params.elements)?)?;
        }
        let reach = [0, 1, 2].map(|k| nest.span(k).unwrap_or((i64::MIN, i64::MAX)));
        let (kernel, index) = match index_for(params.first + params.count + PER_BLOCK, &reach) {
            // The kernel of narrow indices is that of narrow elements, too.
            Index::I32 if size <= 4 => ("random_apply_i32", Index::I32),
            _ => ("random_apply_i64", Index::I64),
        };
        let params = Params::new(&Parameters { turns: operand_turns(&nest, index), ..params });
        let grid = grid(step.nest.len().unsigned_abs().div_ceil(PER_BLOCK))?;
        emit(&Launch { kernel, grid, block: [APPLYING, 1, 1], shared: 0, params })?;
    }
    if draws {
        let params = Params::new(&params);
        emit(&Launch { kernel: "random_advance", grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params })?;
    }
    Ok(())
}
