//! Launches of response normalisation over five channels and of its gradient
//! (`kernels/response.cu`).

use super::launch::{Emit, Launch, column_of, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Query;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::window::{OPERANDS, Window, WindowFunction};
use crate::ops::{Compute, Scaling};

/// Threads of a block, and channels of a thread.
const THREADS: u32 = 128;
const RUN: i64 = 8;
/// Channels of a window, and the power that the kernels take.
const WIDTH: i64 = 5;
const BETA: f64 = 0.75;
/// Bytes of a vector.
const VECTOR: i64 = 16;

/// Runs of channels: `response_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination, x and dy start.
    pub at: [u64; 3],
    /// `k`, `scale` and `2 * beta * scale`.
    pub number: [f64; 3],
    /// Bytes from channel to channel.
    pub channel: [i64; 3],
    /// Bytes from place to place.
    pub place: [i64; 3],
    /// Bytes from image to image.
    pub image: [i64; 3],
    /// What runs fastest, and what next.
    pub extent: [Divisor; 2],
    /// Number of threads.
    pub count: u32,
    /// Number of channels.
    pub channels: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 24 + 72 + 48 + 8);

/// The kernels of a function in binary32, binary16 and bfloat16: of channels apart, and side by
/// side.
macro_rules! kernels {
    ($function:literal) => {
        [kernels!($function "_apart"), kernels!($function "_side_by_side")]
    };
    ($function:literal $layout:literal) => {
        [
            concat!($function, $layout, "_f32"),
            concat!($function, $layout, "_f16"),
            concat!($function, $layout, "_bf16"),
        ]
    };
}

const FORWARD: [[&str; 3]; 2] = kernels!("response");
const GRADIENT: [[&str; 3]; 2] = kernels!("response_gradient");

/// Hands the launch of a window to `emit` that is one of five channels, and whose type has a
/// kernel; whether this is one.
pub(super) fn launches(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let (window, at) = (query.step, query.places::<OPERANDS>());
    let Window { function, outer, axes, scalars, compute, scaling } = window;
    let (kernels, power, layouts) = match *function {
        WindowFunction::Normalise { power, centred: false } => (&FORWARD, power, 2),
        WindowFunction::NormaliseGradient { power, centred: false, means: false } => (&GRADIENT, power, 3),
        _ => return Ok(false),
    };
    let Some(column) = column_of(scalars[0]) else { return Ok(false) };
    let &[channels] = &axes[..] else { return Ok(false) };
    let size = scalars[0].size() as i64;
    let plain = *compute == Compute::Single
        && *scaling == Scaling::MOVE
        && power.beta == BETA
        && scalars[..layouts].iter().all(|&own| own == scalars[0])
        && (channels.window, channels.stride, channels.pad) == (WIDTH, 1, WIDTH / 2)
        && channels.inputs == channels.outputs
        && channels.cuts.iter().all(|cut| cut.block == 1)
        && outer.axes().len() <= 2;
    let (images, places) = match *outer.axes() {
        [images, places] => (Some(images), Some(places)),
        [places] => (None, Some(places)),
        _ => (None, None),
    };
    let extent = |axis: Option<Axis<3>>| axis.map_or(1, |axis| axis.extent);
    let runs = (channels.inputs + RUN - 1) / RUN;
    let count = extent(images).saturating_mul(extent(places)).saturating_mul(runs);
    if query.call.ordered || !plain || count >= 1 << 30 {
        return Ok(false);
    }
    let bytes = |stride: i64, layout: usize| if layout < layouts { stride * size } else { 0 };
    let along = |axis: Option<Axis<3>>| {
        [0, 1, 2].map(|layout| bytes(axis.map_or(0, |axis| axis.strides[layout]), layout))
    };
    let start = |operand: usize, layout: usize| match layout < layouts {
        true => at[operand].wrapping_add_signed(outer.offsets[layout] * size),
        false => 0,
    };
    let params = Parameters {
        at: [start(0, 0), start(2, 1), start(3, 2)],
        number: [power.k, power.scale, 2.0 * power.beta * power.scale],
        channel: [0, 1, 2].map(|layout| bytes(channels.cuts[layout].stride, layout)),
        place: along(places),
        image: along(images),
        extent: [Divisor::ONE; 2],
        count: count as u32,
        channels: channels.inputs as u32,
    };
    let is_whole = |&bytes: &i64| bytes % VECTOR == 0;
    let side_by_side = params.channel[..layouts].iter().all(|&bytes| bytes == size);
    let aligned = channels.inputs % RUN == 0
        && params.at.iter().all(|start| start.is_multiple_of(VECTOR as u64))
        && params.place.iter().chain(&params.image).all(is_whole);
    if side_by_side && !aligned {
        return Ok(false);
    }
    let order = if side_by_side { [runs, extent(places)] } else { [extent(places), runs] };
    let params = Parameters { extent: order.map(|extent| Divisor::new(extent, Index::I32)), ..params };
    emit(&Launch {
        kernel: kernels[usize::from(side_by_side)][column],
        grid: grid((count as u64).div_ceil(u64::from(THREADS)))?,
        block: [THREADS, 1, 1],
        shared: 0,
        params: Params::new(&params),
    })?;
    Ok(true)
}
