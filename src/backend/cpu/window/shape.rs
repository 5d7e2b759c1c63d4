//! A window as loops in bytes: which one becomes the lanes of vector code, and where everything
//! lies.

use crate::backend::Address;
use crate::backend::cpu::held::Held;
use crate::layout::{Axis, Cut, MAX_AXES};
use crate::ops::window::{Axes, MAX_AXES as MAX_WINDOW_AXES, Window, WindowAxis};

/// Coordinates along the axes of a [`Shape`], of which there is one more than a window may have.
pub(super) type Index = [i64; MAX_WINDOW_AXES];

/// A window in bytes. There are at least two axes.
pub(super) struct Shape<'a> {
    pub window: &'a Window,
    pub axes: Axes,
    /// Cells that lie side by side in every layout that is touched, and are treated alike; 1: none.
    pub lanes: usize,
    /// Places of the loops around.
    pub outer: usize,
    loops: [(usize, [isize; 3]); MAX_AXES],
    rank: usize,
    start: [isize; 3],
}

/// Cells of the lines that are taken together, if what is repeated around a line is taken as an
/// axis.
const LINES_CELLS: usize = 4096;

/// An axis along which nothing happens.
const STILL: Cut = Cut { start: 0, step: 1, stride: 0, block: 1 };
const UNIT: WindowAxis =
    WindowAxis { inputs: 1, outputs: 1, window: 1, stride: 1, dilation: 1, pad: 0, cuts: [STILL; 3] };

impl<'a> Shape<'a> {
    pub fn new(window: &'a Window) -> Self {
        let sizes = window.scalars.map(|scalar| scalar.size() as isize);
        let touched = window.touches();
        // Layouts by the places that have them.
        let touched = [touched[0], touched[2] || touched[4], touched[3]];
        let is_run = |strides: [i64; 3]| (0..3).all(|k| !touched[k] || strides[k] == 1);
        let nest = window.outer.axes();
        let lanes = (0..nest.len()).filter(|&i| is_run(nest[i].strides)).max_by_key(|&i| nest[i].extent);
        let mut shape = Shape {
            window,
            axes: match window.axes.len() {
                0 => Axes::new([UNIT, UNIT]),
                1 => Axes::new([UNIT, window.axes[0]]),
                _ => window.axes,
            },
            lanes: lanes.map_or(1, |i| nest[i].extent as usize),
            outer: 1,
            loops: [(1, [0; 3]); MAX_AXES],
            rank: 0,
            start: std::array::from_fn(|k| window.outer.offsets[k] as isize * sizes[k]),
        };
        for (i, axis) in nest.iter().enumerate() {
            if Some(i) != lanes {
                let steps = std::array::from_fn(|k| axis.strides[k] as isize * sizes[k]);
                shape.loops[shape.rank] = (axis.extent as usize, steps);
                shape.rank += 1;
                shape.outer *= axis.extent as usize;
            }
        }
        if window.axes.len() == 1 && shape.lanes == 1 {
            shape.take_lines(nest);
        }
        shape
    }

    /// Takes turns of the innermost loop as an axis whose windows have one cell: a line alone, the
    /// channels of a pixel, is little for what begins and ends with it.
    fn take_lines(&mut self, nest: &[Axis<3>]) {
        let Some((axis, (extent, steps))) = nest.last().zip(self.loops[..self.rank].last_mut()) else {
            return;
        };
        let most = (LINES_CELLS / self.axes[1].inputs.max(self.axes[1].outputs).max(1) as usize).min(*extent);
        let lines = (1..=most).rev().find(|lines| *extent % lines == 0).unwrap_or(1);
        *extent /= lines;
        self.outer /= lines;
        steps.iter_mut().for_each(|step| *step *= lines as isize);
        let cuts = axis.strides.map(|stride| Cut { stride, ..STILL });
        self.axes = Axes::new([
            WindowAxis { inputs: lines as i64, outputs: lines as i64, cuts, ..UNIT },
            self.axes[1],
        ]);
    }

    /// The last axis.
    pub fn last(&self) -> &WindowAxis {
        &self.axes[self.axes.len() - 1]
    }

    /// Bytes from the data pointer to the cells of a place of the loops around, by layout.
    pub fn place(&self, mut outer: usize) -> [isize; 3] {
        let mut at = self.start;
        for (extent, steps) in self.loops[..self.rank].iter().rev() {
            let turn = (outer % extent) as isize;
            outer /= extent;
            (0..3).for_each(|k| at[k] += turn * steps[k]);
        }
        at
    }

    /// What an operand of a layout holds, whose coordinates are those of outputs or not.
    pub fn held(&self, at: Address, layout: usize, outputs: bool) -> Held {
        Held::of(at.pointer(), self.size(layout), self.start[layout], self.reaches(layout, outputs))
    }

    /// How far loops and axes reach from the first cell of a layout, in bytes.
    pub fn reaches(&self, layout: usize, outputs: bool) -> impl Iterator<Item = [isize; 2]> {
        let size = self.size(layout) as isize;
        let around = self.loops[..self.rank].iter();
        let around = around.map(move |(extent, steps)| [0, (*extent as isize - 1) * steps[layout]]);
        let axes = self.axes.iter().flat_map(move |axis| {
            let (last, cut) = (if outputs { axis.outputs } else { axis.inputs } - 1, axis.cuts[layout]);
            let ends = [last / cut.block * cut.stride, last.min(cut.block - 1)];
            ends.map(|end| [0, end as isize * size])
        });
        around.chain(axes).chain([[0, (self.lanes as isize - 1) * size]])
    }

    /// Where the data pointer's first cell lies, in bytes, by layout.
    pub fn start(&self, layout: usize) -> isize {
        self.start[layout]
    }

    /// All coordinates of all axes, as [`odometer`] takes them.
    pub fn bounds(&self, extent: impl Fn(&WindowAxis) -> i64) -> [(i64, i64); MAX_WINDOW_AXES] {
        let mut bounds = [(0, 1); MAX_WINDOW_AXES];
        bounds.iter_mut().zip(self.axes.iter()).for_each(|(to, axis)| to.1 = extent(axis));
        bounds
    }

    /// Bytes of a scalar of a layout.
    pub fn size(&self, layout: usize) -> usize {
        self.window.scalars[layout].size()
    }

    /// Bytes that a coordinate of an axis lies from coordinate 0.
    #[inline]
    pub fn along(&self, axis: usize, layout: usize, coordinate: i64) -> isize {
        self.axes[axis].cuts[layout].offset(coordinate) as isize * self.size(layout) as isize
    }

    /// Bytes from coordinate to coordinate of an axis, if they are even.
    pub fn step(&self, axis: usize, layout: usize) -> Option<isize> {
        let cut = self.axes[axis].cuts[layout];
        (cut.block == 1).then_some(cut.stride as isize * self.size(layout) as isize)
    }

    /// The same of the last axis.
    pub fn last_step(&self, layout: usize) -> Option<isize> {
        self.step(self.axes.len() - 1, layout)
    }

    /// Whether those of the axes from `first` on follow one another, `lanes` of each.
    pub fn is_packed(
        &self, layout: usize, first: usize, lanes: usize, extent: impl Fn(&WindowAxis) -> i64,
    ) -> bool {
        let mut step = (self.size(layout) * lanes) as isize;
        (first..self.axes.len()).rev().all(|k| {
            let extent = extent(&self.axes[k]);
            let is_next = extent == 1 || self.step(k, layout) == Some(step);
            step *= extent as isize;
            is_next
        })
    }

    /// Cells of all axes but the first: the row of a plane.
    pub fn row_cells(&self, outputs: bool) -> usize {
        let extent = |axis: &WindowAxis| if outputs { axis.outputs } else { axis.inputs };
        self.axes[1..].iter().map(|axis| extent(axis) as usize).product()
    }
}

/// Calls `f` with the coordinates between bounds of the axes from `first` to below `end`, the last
/// one turning fastest; others are left as they are.
#[inline]
pub(super) fn odometer(
    bounds: &[(i64, i64)], first: usize, end: usize, index: &mut Index, f: &mut impl FnMut(&Index),
) {
    for k in first..end {
        if bounds[k].0 >= bounds[k].1 {
            return;
        }
        index[k] = bounds[k].0;
    }
    loop {
        f(index);
        let mut k = end;
        loop {
            if k == first {
                return;
            }
            k -= 1;
            index[k] += 1;
            if index[k] < bounds[k].1 {
                break;
            }
            index[k] = bounds[k].0;
        }
    }
}
