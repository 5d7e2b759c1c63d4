//! Launches of random masks (`kernels/random.cu`, `kernels/random_of.cu`).

use super::general::{index_for, operand_loops};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, column_of, grid};
use super::linear::VECTOR;
use super::params::{Divisor, Index, OperandLoop, Params};
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
/// Pixels of a thread that applies a mask to channels side by side, and what its indices reach.
const PIXELS: i64 = 16;
const REACH: i64 = 1 << 31;

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
    /// Pixels of an image, in kernels that have some in a thread.
    pub pixels: u32,
    /// The loops, innermost first.
    pub loops: [OperandLoop; MAX_AXES],
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
    Kernels {
        name: "random_draw random_pixels_of_*",
        when: "masks of the same types where vectors of 16 bytes hold channels and neighbours of the mask are pixels: \
               drawn, then applied",
        launch: pixels,
    },
    Kernels { name: "random_draw random_apply_*", when: "all masks: drawn, then applied", launch: apart },
];

impl Kind for Random {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    /// Hands the launches of a step to `emit`: its operands are destination, source, mask and, if
    /// the step draws, states.
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
        pixels: 0,
        loops: operand_loops(&nest, Index::I64),
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

/// A thread for a vector of channels in some pixels.
fn pixels(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { nest, params, scalar, draws, .. } = query.step;
    let kernels = ["random_pixels_of_f32", "random_pixels_of_f16", "random_pixels_of_bf16"];
    let Some(kernel) = column_of(*scalar).map(|column| kernels[column]) else { return Ok(false) };
    let (size, vector) = (scalar.size() as i64, VECTOR as i64);
    let lies_side_by_side = |axis: &&Axis<3>| axis.strides[..2] == [size; 2];
    let Some(channel) = nest.axes().iter().find(lies_side_by_side) else { return Ok(false) };
    let others = || nest.axes().iter().filter(|axis| !lies_side_by_side(axis));
    let Some(pixel) = others().find(|axis| axis.strides[2] == 1) else { return Ok(false) };
    let around = others().find(|axis| axis.strides[2] != 1);
    let is_on_vectors = |axis: &Axis<3>| axis.strides[..2].iter().all(|stride| stride % vector == 0);
    let fits = nest.axes().len() == 2 + usize::from(around.is_some())
        && others().all(is_on_vectors)
        && channel.extent * size % vector == 0
        && [params.dst, params.src].iter().all(|start| start.is_multiple_of(VECTOR))
        && nest.span(2).is_some_and(|(_, high)| high < REACH)
        && nest.len() < REACH;
    if !fits {
        return Ok(false);
    }
    if *draws {
        emit(&by_words("random_draw", params.elements, params)?)?;
    }
    let one = |extent: i64, step| OperandLoop { extent: Divisor::new(extent, Index::I32), step };
    let mut loops = [OperandLoop::ONCE; MAX_AXES];
    loops[0] = one(channel.extent * size / vector, [vector, vector, channel.strides[2]]);
    loops[1] = one((pixel.extent + PIXELS - 1) / PIXELS, pixel.strides);
    loops[2] = around.map_or(OperandLoop::ONCE, |axis| one(axis.extent, axis.strides));
    let count = loops[..3].iter().map(|each| each.extent.divisor).product();
    let params = Params::new(&Parameters { count, loops, rank: 3, pixels: pixel.extent as u32, ..*params });
    let grid = grid(count.div_ceil(u64::from(THREADS)))?;
    emit(&Launch { kernel, grid, block: [THREADS, 1, 1], shared: 0, params })?;
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
    let params = Params::new(&Parameters { loops: operand_loops(nest, index), ..*params });
    emit(&Launch { kernel, grid, block: [APPLYING, 1, 1], shared: 0, params })?;
    Ok(true)
}
