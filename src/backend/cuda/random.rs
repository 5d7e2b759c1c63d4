//! Launches of random masks (`kernels/random.cu`, `kernels/random_of.cu`).

use super::general::{index_for, operand_turns};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, column_of, grid};
use super::linear::VECTOR;
use super::params::{Index, OperandTurn, Params};
use super::selection::{self, Call, Kernels, Query};
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

/// A step as its kernels want it.
pub(super) struct Task {
    /// The loops over bytes.
    nest: LoopNest<3>,
    params: Parameters,
    scalar: Scalar,
    draws: bool,
    /// Whether the elements lie along one run, from the mask's first bit on.
    is_run: bool,
}

pub(super) const KERNELS: &[Kernels<Task>] = &[
    Kernels {
        name: "random_run_of_* random_mask_of_*",
        when: "masks along one run on 16 bytes, of binary32, binary16 and bfloat16: drawn and applied, or applied",
        launch: run_of_type,
    },
    Kernels { name: "random_run", when: "masks that are drawn and applied along one run", launch: run },
    Kernels { name: "random_draw random_apply_*", when: "all masks: drawn, then applied", launch: apart },
];

impl Kind for Random {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    /// Hands the launches of a step to `emit`: its operands are destination, source, mask and, if the
    /// step draws, states.
    ///
    /// # Errors
    /// As for [`super::plan::launches`] and [`Random::check`].
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        query.step.check()?;
        let task = task(query);
        selection::launch(KERNELS, &query.call.of(&task), emit)?;
        if !task.draws {
            return Ok(());
        }
        let params = Params::new(&task.params);
        emit(&Launch { kernel: "random_advance", grid: [1, 1, 1], block: [32, 1, 1], shared: 0, params })
    }
}

fn task(query: &Query<'_, Random>) -> Task {
    let (step, [dst, src, mask, states]) = (query.step, query.places());
    let size = step.scalar.size() as i64;
    let sizes = [size, size, 1];
    let mut nest = LoopNest::new(&[], [0; 3]);
    for axis in step.nest.axes() {
        nest.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    let [to, from, number] = step.nest.offsets;
    let params = Parameters {
        dst: dst.wrapping_add_signed(to * size),
        src: src.wrapping_add_signed(from * size),
        mask,
        states: step.draw.map_or(0, |_| states),
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
    let is_run = step.nest.is_contiguous() && number == 0;
    Task { nest, params, scalar: step.scalar, draws: step.draw.is_some(), is_run }
}

/// A thread for each word of a mask.
fn by_words(kernel: &'static str, bits: u64, params: &Parameters) -> Result<Launch> {
    let blocks = bits.div_ceil(32 * u64::from(THREADS));
    let params = Params::new(params);
    Ok(Launch { kernel, grid: grid(blocks)?, block: [THREADS, 1, 1], shared: 0, params })
}

fn run_of_type(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { params, scalar, draws, is_run, .. } = query.step;
    let own = of_type(*scalar, *draws, [params.dst, params.src]);
    let Some(kernel) = own.filter(|_| *is_run) else { return Ok(false) };
    emit(&by_words(kernel, if *draws { params.elements } else { params.count }, params)?)?;
    Ok(true)
}

fn run(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { params, draws, is_run, .. } = query.step;
    if !draws || !is_run {
        return Ok(false);
    }
    emit(&by_words("random_run", params.elements, params)?)?;
    Ok(true)
}

fn apart(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { nest, params, scalar, draws, .. } = query.step;
    if *draws {
        emit(&by_words("random_draw", params.elements, params)?)?;
    }
    let reach = [0, 1, 2].map(|k| nest.span(k).unwrap_or((i64::MIN, i64::MAX)));
    let (kernel, index) = match index_for(params.first + params.count + PER_BLOCK, &reach) {
        // The kernel of narrow indices is that of narrow elements, too.
        Index::I32 if scalar.size() <= 4 => ("random_apply_i32", Index::I32),
        _ => ("random_apply_i64", Index::I64),
    };
    let grid = grid(params.count.div_ceil(PER_BLOCK))?;
    let params = Params::new(&Parameters { turns: operand_turns(nest, index), ..*params });
    emit(&Launch { kernel, grid, block: [APPLYING, 1, 1], shared: 0, params })?;
    Ok(true)
}
