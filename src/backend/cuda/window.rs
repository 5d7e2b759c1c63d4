//! Launches of windows (`kernels/window.cuh`): a thread for every cell of the destination.

use super::general::operand_loops;
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, OperandLoop, Operation, Params};
use super::selection::{self, Call, Kernels, Query};
use super::{plane, pool, response};
use crate::backend::reference::lowest;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::window::{
    Divisor as By, MAX_AXES as MAX_WINDOW_AXES, OPERANDS, Power, Window, WindowAxis, WindowFunction,
};
use crate::ops::{Compute, NanRule, Scaling};

/// Threads of a block, each with one cell at a time.
const THREADS: u32 = 128;
/// Blocks of a launch at most; beyond, threads have several cells.
const MOST_BLOCKS: u64 = 1 << 20;

/// Taps along an axis, and cells of a thread, of the kernels for few taps.
const SIDE: i64 = 3;
const CELLS: u64 = 2;
/// What those kernels count to, and bytes that they reach.
const NEAR: i64 = 1 << 30;

/// Axes that most kernels know, and those for windows of windows; others know all, at the price of
/// registers.
const FEW_AXES: usize = 3;
const PAIR: usize = 2;

/// An axis of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct AxisParameters {
    /// As in [`WindowAxis`].
    pub inputs: i64,
    /// As in [`WindowAxis`].
    pub outputs: i64,
    /// As in [`WindowAxis`].
    pub window: i64,
    /// As in [`WindowAxis`].
    pub stride: i64,
    /// As in [`WindowAxis`].
    pub dilation: i64,
    /// As in [`WindowAxis`].
    pub pad: i64,
    /// The stride once more.
    pub by_stride: Divisor,
    /// Coordinates of the destination.
    pub extent: Divisor,
    /// Bytes from coordinate to coordinate, or from group to group, by layout.
    pub step: [i64; 3],
    /// Coordinates of a group, by layout.
    pub block: [Divisor; 3],
}

/// A window: `window_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the operands' cells of coordinates 0 lie.
    pub at: [u64; OPERANDS],
    /// Cells of the destination.
    pub count: u64,
    /// What runs faster: cells of the axes, or places of the loops around; of columns, the taps.
    pub split: Divisor,
    /// From the computation type to the destination.
    pub operation: Operation,
    /// `k`, `scale`, `beta` and `2 * beta * scale`.
    pub number: [f64; 4],
    /// The maximum of nothing.
    pub lowest: f64,
    /// Scalar types, by layout.
    pub scalar: [u32; 3],
    /// How powers are found.
    pub exponent: u32,
    /// 1 if NaNs win.
    pub propagates: u32,
    /// 1 if padding counts.
    pub padded: u32,
    /// 1 if there are means.
    pub centred: u32,
    /// 1 if the gradient of the means is wanted.
    pub means: u32,
    /// 1 if the loops around run faster than the axes.
    pub outer_inside: u32,
    /// Number of loops around.
    pub rank: u32,
    /// The loops around, innermost first.
    pub loops: [OperandLoop; MAX_AXES],
    /// The axes, the last one the fastest.
    pub axes: [AxisParameters; MAX_WINDOW_AXES],
}

// The same numbers stand in the kernels' source.
const _: () = assert!(size_of::<AxisParameters>() == 48 + 24 + 24 + 24 + 72);
const _: () = assert!(
    size_of::<Parameters>() == 40 + 8 + 24 + 32 + 32 + 8 + 40 + 48 * MAX_AXES + 192 * MAX_WINDOW_AXES
);

pub(super) const KERNELS: &[Kernels<Window>] = &[
    Kernels {
        name: "pool_*",
        when: "maxima, averages and their gradients over two by two and three by three cells, strides 1 and 2",
        launch: pool::launches,
    },
    Kernels { name: "plane_*", when: "averages of whole planes", launch: plane::launches },
    Kernels {
        name: "response_*",
        when: "response normalisation over five channels with the power 0.75, and its gradient",
        launch: response::launches,
    },
    Kernels {
        name: "few_window_*",
        when: "maxima, averages and gradients of averages over at most three taps along each of two axes",
        launch: few_taps,
    },
    Kernels {
        name: "pair_window_*",
        when: "windows of windows along at most two axes: gradients of maxima, response normalisation and its gradient",
        launch: along_two_axes,
    },
    Kernels {
        name: "window_* wide_window_*",
        when: "all windows: a thread for every cell",
        launch: along_any,
    },
];

impl Kind for Window {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        if query.step.is_empty() {
            return Ok(());
        }
        selection::launch(KERNELS, query, emit)
    }
}

fn few_taps(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let Some(kernel) = few(query.step).filter(|_| !query.call.ordered) else { return Ok(false) };
    let parameters = parameters(query.step, query.places(), false, Index::I32);
    let blocks = parameters.count.div_ceil(u64::from(THREADS) * CELLS);
    let params = Params::new(&parameters);
    emit(&Launch { kernel, grid: grid(blocks)?, block: [THREADS, 1, 1], shared: 0, params })?;
    Ok(true)
}

fn along_two_axes(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let fits = query.step.compute == Compute::Single && query.step.axes.len() <= PAIR;
    let Some(kernel) = pair(query.step.function).filter(|_| fits) else { return Ok(false) };
    by_cells(kernel, query, emit)?;
    Ok(true)
}

fn along_any(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let Window { function, compute, axes, .. } = query.step;
    by_cells(kernel(*function, *compute == Compute::Double, axes.len() > FEW_AXES), query, emit)?;
    Ok(true)
}

/// A thread for every cell; where addresses repeat, one thread for one cell after the other.
fn by_cells(kernel: &'static str, query: &Query<'_, Window>, emit: Emit<'_>) -> Result<()> {
    let parameters = parameters(query.step, query.places(), query.call.ordered, Index::I64);
    let blocks = parameters.count.div_ceil(THREADS.into()).min(MOST_BLOCKS);
    let (grid, threads) = if query.call.ordered { ([1, 1, 1], 1) } else { (grid(blocks)?, THREADS) };
    emit(&Launch { kernel, grid, block: [threads, 1, 1], shared: 0, params: Params::new(&parameters) })
}

/// The kernel for a function: whether it computes in binary64, and has many axes.
fn kernel(function: WindowFunction, is_double: bool, is_wide: bool) -> &'static str {
    let names = match function {
        WindowFunction::Max(_) => {
            [["window_max_f32", "window_max_f64"], ["wide_window_max_f32", "wide_window_max_f64"]]
        }
        WindowFunction::Average(_) => [
            ["window_average_f32", "window_average_f64"],
            ["wide_window_average_f32", "wide_window_average_f64"],
        ],
        WindowFunction::MaxGradient(_) => [
            ["window_max_gradient_f32", "window_max_gradient_f64"],
            ["wide_window_max_gradient_f32", "wide_window_max_gradient_f64"],
        ],
        WindowFunction::AverageGradient(_) => [
            ["window_average_gradient_f32", "window_average_gradient_f64"],
            ["wide_window_average_gradient_f32", "wide_window_average_gradient_f64"],
        ],
        // Three axes at most.
        WindowFunction::Normalise { .. } => [["window_response_f32", "window_response_f64"]; 2],
        WindowFunction::NormaliseGradient { .. } => {
            [["window_response_gradient_f32", "window_response_gradient_f64"]; 2]
        }
        WindowFunction::Columns => [["window_columns"; 2]; 2],
    };
    names[usize::from(is_wide)][usize::from(is_double)]
}

/// The kernel for windows of windows along two axes.
fn pair(function: WindowFunction) -> Option<&'static str> {
    match function {
        WindowFunction::MaxGradient(_) => Some("pair_window_max_gradient"),
        WindowFunction::Normalise { .. } => Some("pair_window_response"),
        WindowFunction::NormaliseGradient { .. } => Some("pair_window_response_gradient"),
        _ => None,
    }
}

/// The kernel for windows of few taps along two axes, if this is one.
fn few(window: &Window) -> Option<&'static str> {
    let Window { function, outer, axes, scalars, compute, .. } = window;
    let (kernel, is_gradient) = match function {
        WindowFunction::Max(_) => ("few_window_max", false),
        WindowFunction::Average(_) => ("few_window_average", false),
        WindowFunction::AverageGradient(_) => ("few_window_average_gradient", true),
        _ => return None,
    };
    // Of a gradient the outputs whose windows hold a cell.
    let taps = |axis: &WindowAxis| {
        if is_gradient { (axis.window + axis.stride - 1) / axis.stride } else { axis.window }
    };
    let is_few = |axis: &WindowAxis| {
        let numbers = [axis.inputs, axis.outputs, axis.window, axis.stride, axis.pad.abs()];
        taps(axis) <= SIDE
            && axis.cuts.iter().all(|cut| cut.block == 1)
            && numbers.iter().all(|&number| number < NEAR)
            && axis.outputs.saturating_mul(axis.stride) < NEAR
    };
    // Bytes from one end of a layout to the other.
    let reach = |layout: usize| {
        let around = outer.axes().iter().map(|axis| (axis.extent, axis.strides[layout]));
        let along = axes.iter().map(|axis| (axis.inputs.max(axis.outputs), axis.cuts[layout].stride));
        let bytes = |(extent, stride): (i64, i64)| extent.saturating_mul(stride.saturating_abs());
        around
            .chain(along)
            .map(bytes)
            .fold(0, i64::saturating_add)
            .saturating_mul(scalars[layout].size() as i64)
    };
    let is_near = window.len() < NEAR as _ && (0..3).all(|layout| reach(layout) < NEAR);
    let is_few = *compute == Compute::Single && axes.len() <= 2 && axes.iter().all(is_few);
    (is_few && is_near).then_some(kernel)
}

fn parameters(window: &Window, at: [u64; OPERANDS], ordered: bool, index: Index) -> Parameters {
    let Window { function, outer, axes, scalars, compute, scaling } = window;
    let sizes = scalars.map(|scalar| scalar.size() as i64);
    let is_columns = *function == WindowFunction::Columns;
    let axis = |axis: &WindowAxis| AxisParameters {
        inputs: axis.inputs,
        outputs: axis.outputs,
        window: axis.window,
        stride: axis.stride,
        dilation: axis.dilation,
        pad: axis.pad,
        by_stride: Divisor::new(axis.stride, index),
        extent: Divisor::new(axis.extent(window.is_gradient()), index),
        step: std::array::from_fn(|k| axis.cuts[k].stride * sizes[k]),
        block: axis.cuts.map(|cut| Divisor::new(cut.block, index)),
    };
    let unused = AxisParameters {
        inputs: 1,
        outputs: 1,
        window: 1,
        stride: 1,
        dilation: 1,
        pad: 0,
        by_stride: Divisor::ONE,
        extent: Divisor::ONE,
        step: [0; 3],
        block: [Divisor::ONE; 3],
    };
    let mut all = [unused; MAX_WINDOW_AXES];
    all[MAX_WINDOW_AXES - axes.len()..].iter_mut().zip(axes.iter()).for_each(|(to, from)| *to = axis(from));
    let mut nest = LoopNest::new(&[], [0; 3]);
    for axis in outer.axes() {
        nest.push(Axis { extent: axis.extent, strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]) });
    }
    let cells = axes.iter().map(|axis| axis.extent(window.is_gradient())).product::<i64>();
    let taps = axes.iter().map(|axis| axis.window).product::<i64>();
    // Neighbouring threads write neighbours.
    let is_inner = |strides: [i64; 3]| strides[0].unsigned_abs() == 1;
    let outer_inside = !ordered && outer.axes().last().is_some_and(|axis| is_inner(axis.strides));
    let split = match () {
        () if is_columns => taps,
        () if outer_inside => outer.len(),
        () => cells,
    };
    let base = |operand: usize, layout: usize| {
        let offset = outer.offsets[layout] * sizes[layout];
        if at[operand] == 0 { 0 } else { at[operand].wrapping_add_signed(offset) }
    };
    let operation = if is_columns {
        Operation::new(scalars[1], scalars[0], Scaling::MOVE)
    } else {
        Operation::new(compute.scalar(), scalars[0], *scaling)
    };
    let mut parameters = Parameters {
        at: [base(0, 0), base(1, 0), base(2, 1), base(3, 2), base(4, 1)],
        count: window.len() as u64,
        split: Divisor::new(split, index),
        operation,
        number: [0.0; 4],
        lowest: lowest(scalars[1]),
        scalar: scalars.map(|scalar| scalar as u32),
        exponent: 0,
        propagates: 0,
        padded: 0,
        centred: 0,
        means: 0,
        outer_inside: u32::from(outer_inside),
        rank: nest.axes().len() as u32,
        loops: operand_loops(&nest, index),
        axes: all,
    };
    let mut response = |Power { k, scale, beta }: Power| {
        parameters.number = [k, scale, beta, 2.0 * beta * scale];
        parameters.exponent = exponent(beta);
    };
    match *function {
        WindowFunction::Max(rule) | WindowFunction::MaxGradient(rule) => {
            parameters.propagates = u32::from(rule == NanRule::Propagate);
        }
        WindowFunction::Average(by) | WindowFunction::AverageGradient(by) => {
            parameters.padded = u32::from(by == By::Padded);
        }
        WindowFunction::Normalise { power, centred } => {
            response(power);
            parameters.centred = u32::from(centred);
        }
        WindowFunction::NormaliseGradient { power, centred, means } => {
            response(power);
            (parameters.centred, parameters.means) = (u32::from(centred), u32::from(means));
        }
        WindowFunction::Columns => {}
    }
    parameters
}

/// How a power is found, in the order of `PowerOf` in `kernels/window_walk.cuh`.
fn exponent(beta: f64) -> u32 {
    match beta {
        0.5 => 0,
        0.75 => 1,
        1.0 => 2,
        _ => 3,
    }
}
