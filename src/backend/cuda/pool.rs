//! Launches of poolings with windows of two by two and three by three cells (`kernels/pool.cu`).

use super::launch::{Emit, Launch, column_of, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Query;
use crate::error::Result;
use crate::ops::window::{Divisor as By, OPERANDS, Window, WindowAxis, WindowFunction};
use crate::ops::{Compute, NanRule, Scaling};

/// Threads of a block.
const THREADS: u32 = 128;
/// Bytes from one end of an operand to the other at most, and threads.
const NEAR: i64 = 1 << 30;
/// Windows of a thread, one below the other: the first of these that leaves MANY threads.
const ROWS: [i64; 3] = [16, 8, 4];
const MANY: i64 = 1 << 17;

/// Columns of windows: `pool_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination, x and dy start.
    pub at: [u64; 3],
    /// Cells along both axes.
    pub inputs: [i32; 2],
    /// Outputs along both axes.
    pub outputs: [i32; 2],
    /// Padding in front of both axes.
    pub pad: [i32; 2],
    /// Bytes from coordinate to coordinate, by layout.
    pub step: [[i32; 2]; 3],
    /// Bytes that the loops around move, by layout, the faster loop last.
    pub outer: [[i32; 2]; 3],
    /// Number of threads.
    pub count: u32,
    /// 1 if columns run faster than the loops around.
    pub columns_first: u32,
    /// Windows of a thread.
    pub rows: u32,
    /// Windows of a column.
    pub height: u32,
    /// 1 if NaNs win.
    pub propagates: u32,
    /// 1 if padding counts.
    pub padded: u32,
    /// What runs fastest, what next, and what then.
    pub extent: [Divisor; 3],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 24 + 24 + 24 + 24 + 72);

/// The kernels of a function in binary32, binary16 and bfloat16, by the shape of the window.
macro_rules! kernels {
    ($function:literal) => {
        [
            kernels!($function "_k2s1"),
            kernels!($function "_k2s2"),
            kernels!($function "_k3s1"),
            kernels!($function "_k3s2"),
        ]
    };
    ($function:literal $shape:literal) => {
        [
            concat!("pool_", $function, $shape, "_f32"),
            concat!("pool_", $function, $shape, "_f16"),
            concat!("pool_", $function, $shape, "_bf16"),
        ]
    };
}

type Kernels = [[&'static str; 3]; 4];
const MAX: Kernels = kernels!("max");
/// Maxima of two channels that lie side by side, in binary16 and bfloat16, by the shape.
const MAX_PAIRS: [[&str; 2]; 4] = [
    ["pool_max_pairs_k2s1_f16", "pool_max_pairs_k2s1_bf16"],
    ["pool_max_pairs_k2s2_f16", "pool_max_pairs_k2s2_bf16"],
    ["pool_max_pairs_k3s1_f16", "pool_max_pairs_k3s1_bf16"],
    ["pool_max_pairs_k3s2_f16", "pool_max_pairs_k3s2_bf16"],
];
const AVERAGE: Kernels = kernels!("average");
const MAX_GRADIENT: Kernels = kernels!("max_gradient");
const AVERAGE_GRADIENT: Kernels = kernels!("average_gradient");
/// Cells of a window along each axis, and from window to window.
const SHAPES: [(i64, i64); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

/// The kernel of a window, how many windows a thread has to look at along each axis, and which
/// layouts it reads or writes.
struct Served {
    kernel: &'static str,
    /// The kernel that takes two neighbours of the loops around together, if there is one.
    pairs: Option<&'static str>,
    windows: [i64; 2],
    layouts: &'static [usize],
}

fn served(window: &Window) -> Option<Served> {
    let Window { function, outer, axes, scalars, compute, scaling } = window;
    let (kernels, layouts) = match function {
        WindowFunction::Max(_) => (&MAX, &[0, 1][..]),
        WindowFunction::Average(_) => (&AVERAGE, &[0, 1][..]),
        WindowFunction::MaxGradient(_) => (&MAX_GRADIENT, &[0, 1, 2][..]),
        WindowFunction::AverageGradient(_) => (&AVERAGE_GRADIENT, &[0, 2][..]),
        _ => return None,
    };
    let column = column_of(scalars[0])?;
    let &[down, along] = &axes[..] else { return None };
    let shape = SHAPES.iter().position(|&shape| shape == (along.window, along.stride))?;
    let fits = |axis: &WindowAxis| {
        let numbers = [axis.inputs, axis.outputs];
        (axis.window, axis.stride) == (along.window, along.stride)
            && axis.dilation == 1
            && (0..axis.window).contains(&axis.pad)
            // Every window holds a cell.
            && (axis.outputs - 1) * axis.stride - axis.pad < axis.inputs
            && axis.cuts.iter().all(|cut| cut.block == 1)
            && numbers.iter().all(|&number| number < NEAR / 4)
    };
    let reach = |layout: usize| {
        let around = outer.axes().iter().map(|axis| (axis.extent, axis.strides[layout]));
        let cells = axes.iter().map(|axis| (axis.inputs.max(axis.outputs) + 4, axis.cuts[layout].stride));
        let bytes = |(extent, stride): (i64, i64)| extent.saturating_mul(stride.saturating_abs());
        let all = around.chain(cells).map(bytes).fold(0, i64::saturating_add);
        all.saturating_mul(scalars[layout].size() as i64)
    };
    let plain = *compute == Compute::Single
        && *scaling == Scaling::MOVE
        && layouts.iter().all(|&layout| scalars[layout] == scalars[0])
        && outer.axes().len() <= 2
        && layouts.iter().all(|&layout| reach(layout) < NEAR);
    let windows = [down, along].map(|axis| match function {
        // Those that hold a cell, and those of the cells behind the last one's.
        WindowFunction::MaxGradient(_) | WindowFunction::AverageGradient(_) => {
            (axis.inputs - 1 + axis.pad) / axis.stride + 1
        }
        _ => axis.outputs,
    });
    (plain && fits(&down) && fits(&along)).then_some(Served {
        kernel: kernels[shape][column],
        pairs: match function {
            WindowFunction::Max(_) if column > 0 => Some(MAX_PAIRS[shape][column - 1]),
            _ => None,
        },
        windows,
        layouts,
    })
}

/// Hands the launch of a window to `emit` whose shape and type have a kernel; whether this is one.
pub(super) fn launches(query: &Query<'_, Window>, emit: Emit<'_>) -> Result<bool> {
    let (window, at) = (query.step, query.places::<OPERANDS>());
    let served = served(window).filter(|_| !query.call.ordered);
    let Some(Served { mut kernel, pairs, windows, layouts }) = served else { return Ok(false) };
    let Window { function, outer, axes, scalars, .. } = window;
    let [height, columns] = windows;
    let extents: Vec<i64> = outer.axes().iter().map(|axis| axis.extent).collect();
    let (far, near) = match extents[..] {
        [far, near] => (far, near),
        [near] => (1, near),
        _ => (1, 1),
    };
    // Neighbouring threads write neighbours.
    let columns_first = outer.axes().last().is_none_or(|axis| axis.strides[0].unsigned_abs() != 1);
    let size = scalars[0].size() as i64;
    let bytes =
        |stride: i64, layout: usize| if layouts.contains(&layout) { (stride * size) as i32 } else { 0 };
    let start = |operand: usize, layout: usize| match layouts.contains(&layout) {
        true => at[operand].wrapping_add_signed(outer.offsets[layout] * size),
        false => 0,
    };
    let starts = [start(0, 0), start(2, 1), start(3, 2)];
    let around_of = |layout: usize| {
        let stride = |back: usize| outer.axes().iter().rev().nth(back).map_or(0, |axis| axis.strides[layout]);
        [bytes(stride(1), layout), bytes(stride(0), layout)]
    };
    let step = [0, 1, 2].map(|layout| [0, 1].map(|k| bytes(axes[k].cuts[layout].stride, layout)));
    let mut around = [0, 1, 2].map(around_of);
    let mut near = near;
    // Two channels are one word, wherever a thread is.
    let are_words = near % 2 == 0
        && layouts.iter().all(|&layout| {
            let words = [around[layout][0], step[layout][0], step[layout][1]];
            i64::from(around[layout][1]) == size
                && starts[layout] % 4 == 0
                && words.iter().all(|bytes| bytes % 4 == 0)
        });
    if let Some(pairs) = pairs.filter(|_| are_words) {
        (kernel, near) = (pairs, near / 2);
        for layout in &mut around {
            layout[1] *= 2;
        }
    }
    let Some(columns_around) = far.checked_mul(near).and_then(|all| all.checked_mul(columns)) else {
        return Ok(false);
    };
    let threads = |rows: &i64| columns_around.saturating_mul((height + rows - 1) / rows);
    let rows = ROWS.into_iter().find(|rows| threads(rows) >= MANY).unwrap_or(ROWS[ROWS.len() - 1]);
    let count = threads(&rows);
    if count >= NEAR {
        return Ok(false);
    }
    let strips = (height + rows - 1) / rows;
    let order = if columns_first { [columns, strips, near] } else { [near, columns, strips] };
    let along = |of: fn(&WindowAxis) -> i64| [0, 1].map(|k| of(&axes[k]) as i32);
    let params = Params::new(&Parameters {
        at: starts,
        inputs: along(|axis| axis.inputs),
        outputs: along(|axis| axis.outputs),
        pad: along(|axis| axis.pad),
        step,
        outer: around,
        count: count as u32,
        columns_first: u32::from(columns_first),
        rows: rows as u32,
        height: height as u32,
        propagates: u32::from(matches!(
            function,
            WindowFunction::Max(NanRule::Propagate) | WindowFunction::MaxGradient(NanRule::Propagate)
        )),
        padded: u32::from(matches!(
            function,
            WindowFunction::Average(By::Padded) | WindowFunction::AverageGradient(By::Padded)
        )),
        extent: order.map(|extent| Divisor::new(extent, Index::I32)),
    });
    let grid = grid((count as u64).div_ceil(u64::from(THREADS)))?;
    emit(&Launch { kernel, grid, block: [THREADS, 1, 1], shared: 0, params })?;
    Ok(true)
}
