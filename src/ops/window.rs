//! Windows: outputs that each look at the cells of a box, with bounds per axis. Pooling, response
//! normalisation and the columns of a convolution are functions of such a window.

use std::fmt;

mod plan;

pub use plan::WindowPlan;
pub(super) use plan::{Geometry, LAYOUT_OF, Listed, Parts, compute_type};

use super::{Compute, NanRule, Scaling};
use crate::dtype::Scalar;
use crate::layout::{Cut, LoopNest};

/// The most axes that a window has.
pub const MAX_AXES: usize = 6;

/// Operands of a [`Window`], in the order in which a core is given them.
///
/// | place | forward | gradient | layout |
/// |---|---|---|---|
/// | 0 | the destination | the destination | 0 |
/// | 1 | - | a second destination: the gradient of the means | 0 |
/// | 2 | the source | the source that the forward function read | 1 |
/// | 3 | - | the gradient of what the forward function wrote | 2 |
/// | 4 | the means | the means | 1 |
///
/// A function that has no use for a place does not touch it; [`WindowFunction`] says which may be
/// left out besides.
pub const OPERANDS: usize = 5;

/// By what the sum of a window is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The cells of the window that lie inside the source.
    Inside,
    /// The cells that lie inside the source or its padding, which is as wide behind as it is in
    /// front.
    Padded,
}

/// `x * (k + scale * sum)^-beta` over a sum of squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// Constant.
    pub k: f64,
    /// Factor of the sum.
    pub scale: f64,
    /// Exponent.
    pub beta: f64,
}

/// What a window makes of its cells.
///
/// # Sums
/// A sum over a window starts at 0 and goes along its last axis; what it adds is the sum over the
/// other axes, which starts at 0, too, and goes in row-major order. So do sums over the outputs
/// whose windows hold a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowFunction {
    /// `y =` the largest cell; the lowest finite number of the source's type if there is none.
    Max(NanRule),
    /// `y =` the sum over the divisor; 0 if there is no cell.
    Average(Divisor),
    /// `dx =` the sum of dy over the outputs whose first largest cell this is, in row-major order
    /// of the outputs: one after the other, starting at 0. Zeros are equal, whatever their sign;
    /// NaNs are, too.
    MaxGradient(NanRule),
    /// `dx =` the sum of dy over its divisor.
    AverageGradient(Divisor),
    /// `y = x * (k + scale * sum (x' - m)^2)^-beta` with m the mean at the output, if means are
    /// given.
    Normalise {
        /// The numbers of the formula.
        power: Power,
        /// Whether means are given.
        centred: bool,
    },
    /// With s the base of the power and `t = dy * x * s^(-beta - 1)` of an output:
    /// `dx = dy * s^-beta - 2 * beta * scale * sum t * (x - m)` over the outputs whose windows hold
    /// the cell (without means `x * sum t`), and, if wanted,
    /// `dm = 2 * beta * scale * t * sum (x' - m)`.
    NormaliseGradient {
        /// The numbers of the formula.
        power: Power,
        /// Whether means are given.
        centred: bool,
        /// Whether the gradient of the means is wanted.
        means: bool,
    },
    /// Every tap goes to a cell of its own: `y[output + tap] = x`, 0 beyond the source. Layout 2
    /// says how far the destination moves per tap.
    Columns,
}

/// An axis of a window.
///
/// Tap `t` of output `o` is the cell at coordinate `o * stride + t * dilation - pad`, if that is
/// from 0 to below `inputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// Cells.
    pub inputs: i64,
    /// Outputs.
    pub outputs: i64,
    /// Taps of an output.
    pub window: i64,
    /// Cells from one output's first tap to the next one's.
    pub stride: i64,
    /// Cells from tap to tap; 1 but for [`WindowFunction::Columns`].
    pub dilation: i64,
    /// Cells that the first tap of the first output lies before the first cell; negative behind it.
    pub pad: i64,
    /// Where coordinates lie, by layout: of the side that the layout belongs to.
    pub cuts: [Cut; 3],
}

impl WindowAxis {
    /// The coordinate of a tap, inside or not.
    pub fn coordinate(&self, output: i64, tap: i64) -> i64 {
        output * self.stride + tap * self.dilation - self.pad
    }

    /// The taps of an output that are cells, as a range.
    pub fn taps(&self, output: i64) -> (i64, i64) {
        let first = output * self.stride - self.pad;
        let begin = if first < 0 { ceil_div(-first, self.dilation) } else { 0 };
        let end = if first < self.inputs { ceil_div(self.inputs - first, self.dilation) } else { 0 };
        let end = end.min(self.window);
        (begin.min(end), end)
    }

    /// The cells of an output's window, as a range of coordinates. Pre: no dilation.
    pub fn cells(&self, output: i64) -> (i64, i64) {
        let (begin, end) = self.taps(output);
        (self.coordinate(output, begin), self.coordinate(output, end))
    }

    /// The outputs whose windows hold a cell, as a range. Pre: no dilation.
    pub fn outputs_of(&self, cell: i64) -> (i64, i64) {
        // output * stride - pad <= cell < output * stride - pad + window
        let behind = cell + self.pad;
        if behind < 0 {
            return (0, 0);
        }
        let first = behind + 1 - self.window;
        let begin = if first > 0 { ceil_div(first, self.stride) } else { 0 };
        let end = ceil_div(behind + 1, self.stride).min(self.outputs);
        (begin.min(end), end)
    }

    /// The factor of this axis in an output's divisor: 0 if the window has no cell.
    pub fn count(&self, output: i64, divisor: Divisor) -> i64 {
        let (begin, end) = self.taps(output);
        match divisor {
            _ if begin == end => 0,
            Divisor::Inside => end - begin,
            Divisor::Padded => {
                let first = output * self.stride - self.pad;
                let last = (first + self.window).min(self.inputs + self.pad);
                (last - first).max(end - begin)
            }
        }
    }

    /// The same axis for a gradient, with numbers that cells and outputs bound, whatever window,
    /// stride and padding are: outputs hold the same cells, and those behind the last one that
    /// holds any are left out. A gradient with [padded](Divisor::Padded) divisors keeps its window
    /// and padding. Pre: no dilation.
    pub fn clipped(mut self, is_padded: bool) -> Self {
        let ends = if self.inputs + self.pad < 0 { 0 } else { ceil_div(self.inputs + self.pad, self.stride) };
        self.outputs = self.outputs.min(ends);
        // The first output that holds a cell.
        let in_front = self.pad - self.window;
        let lead = if in_front < 0 { 0 } else { in_front / self.stride + 1 };
        if self.outputs <= lead {
            // Nothing is held: a single window, behind all cells.
            return WindowAxis { outputs: 1, window: 1, stride: 1, pad: -self.inputs, ..self };
        }
        let turns = self.outputs - 1 - lead;
        if is_padded {
            self.stride = if self.outputs == 1 { 1 } else { self.stride };
            return self;
        }
        // Where the windows of the first and of the last output that hold cells begin and end.
        let first = lead * self.stride - self.pad;
        let (first_end, last) = (first + self.window, first + turns * self.stride);
        if self.stride > self.inputs {
            // All windows in between hold all cells.
            self.stride = self.inputs;
        }
        if self.outputs == 1 {
            self.stride = 1;
        }
        // What windows hold in front of the first cell and behind the last one does not matter.
        let reach = turns * self.stride;
        let pad = (reach - last).min(reach);
        self.window = first_end.min(self.inputs) + pad;
        self.pad = pad + lead * self.stride;
        self
    }

    /// Coordinates of the side that the destination of a function lies on.
    pub fn extent(&self, is_gradient: bool) -> i64 {
        if is_gradient { self.inputs } else { self.outputs }
    }
}

/// Pre: neither is negative, the divisor is at least 1.
fn ceil_div(a: i64, b: i64) -> i64 {
    // Most steps are 1, and a division takes longer than all else here.
    if b == 1 { a } else { a / b + i64::from(a % b != 0) }
}

/// A list of axes; the last one is the fastest in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    axes: [WindowAxis; MAX_AXES],
    rank: usize,
}

impl Axes {
    /// A list of these, at most [`MAX_AXES`].
    pub fn new(list: impl IntoIterator<Item = WindowAxis>) -> Axes {
        let cut = Cut { start: 0, step: 1, stride: 0, block: 1 };
        let none =
            WindowAxis { inputs: 1, outputs: 1, window: 1, stride: 1, dilation: 1, pad: 0, cuts: [cut; 3] };
        let mut axes = Axes { axes: [none; MAX_AXES], rank: 0 };
        for axis in list {
            axes.axes[axes.rank] = axis;
            axes.rank += 1;
        }
        axes
    }
}

impl std::ops::Deref for Axes {
    type Target = [WindowAxis];
    fn deref(&self) -> &[WindowAxis] {
        &self.axes[..self.rank]
    }
}

/// `dst = convert(alpha * r + beta * dst)` with `r` the function of a window, for every cell of the
/// destination.
///
/// Numbers are converted to the computation type, and every operation of the formula is rounded
/// once, in the order in which it is written.
#[derive(Clone, Copy)]
pub struct Window {
    /// What a window makes of its cells.
    pub function: WindowFunction,
    /// What is repeated without looking at neighbours, by layout: the destination, the source, what
    /// the forward function wrote. Where there is no third one, its strides are 0.
    pub outer: LoopNest<3>,
    /// The axes of the window.
    pub axes: Axes,
    /// Scalar types, by layout.
    pub scalars: [Scalar; 3],
    /// The type that is computed in.
    pub compute: Compute,
    /// Alpha and beta.
    pub scaling: Scaling,
}

impl Window {
    /// Whether the destination lies on the side of the cells.
    pub fn is_gradient(&self) -> bool {
        matches!(
            self.function,
            WindowFunction::MaxGradient(_)
                | WindowFunction::AverageGradient(_)
                | WindowFunction::NormaliseGradient { .. }
        )
    }

    /// Cells of the destination (of either, if there are two).
    pub fn len(&self) -> i64 {
        let taps = |axis: &WindowAxis| match self.function {
            WindowFunction::Columns => axis.outputs * axis.window,
            _ => axis.extent(self.is_gradient()),
        };
        self.outer.len() * self.axes.iter().map(taps).product::<i64>()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places of [`OPERANDS`] that are touched.
    pub fn touches(&self) -> [bool; OPERANDS] {
        match self.function {
            WindowFunction::Max(_) | WindowFunction::Average(_) | WindowFunction::Columns => {
                [true, false, true, false, false]
            }
            WindowFunction::MaxGradient(_) => [true, false, true, true, false],
            WindowFunction::AverageGradient(_) => [true, false, false, true, false],
            WindowFunction::Normalise { centred, .. } => [true, false, true, false, centred],
            WindowFunction::NormaliseGradient { centred, means, .. } => [true, means, true, true, centred],
        }
    }
}

/// Function, types, factors, axes and loops in one line, for the log.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { function, outer, axes, scalars, compute, scaling } = self;
        write!(f, "window {function} {}", scalars[0].name())?;
        for (slot, place) in [(1, 2), (2, 3)] {
            if self.touches()[place] {
                write!(f, "<-{}", scalars[slot].name())?;
            }
        }
        write!(f, " in {} alpha={} beta={}", compute.scalar().name(), scaling.alpha, scaling.beta)?;
        for axis in axes.iter() {
            write!(f, " {}->{}:k{}", axis.inputs, axis.outputs, axis.window)?;
            write!(f, "s{}p{}", axis.stride, axis.pad)?;
            if axis.dilation != 1 {
                write!(f, "d{}", axis.dilation)?;
            }
            for (k, Cut { start, step, stride, block }) in axis.cuts.iter().enumerate() {
                write!(f, "{}{stride}", if k == 0 { "(" } else { "," })?;
                if (*start, *step, *block) != (0, 1, 1) {
                    write!(f, ":{start}+{step}/{block}")?;
                }
            }
            write!(f, ")")?;
        }
        write!(f, " {outer}")
    }
}

impl fmt::Display for WindowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nan = |rule: &NanRule| if *rule == NanRule::Propagate { " or NaN" } else { "" };
        let divisor = |divisor: &Divisor| if *divisor == Divisor::Padded { " with padding" } else { "" };
        match self {
            WindowFunction::Max(rule) => write!(f, "max{}", nan(rule)),
            WindowFunction::Average(by) => write!(f, "average{}", divisor(by)),
            WindowFunction::MaxGradient(rule) => write!(f, "gradient of max{}", nan(rule)),
            WindowFunction::AverageGradient(by) => write!(f, "gradient of average{}", divisor(by)),
            WindowFunction::Normalise { power: Power { k, scale, beta }, centred } => {
                write!(f, "normalise k={k} scale={scale} beta={beta}")?;
                write!(f, "{}", if *centred { " with means" } else { "" })
            }
            WindowFunction::NormaliseGradient { power: Power { k, scale, beta }, centred, means } => {
                write!(f, "gradient of normalise k={k} scale={scale} beta={beta}")?;
                write!(f, "{}", if *centred { " with means" } else { "" })?;
                write!(f, "{}", if *means { " and for means" } else { "" })
            }
            WindowFunction::Columns => write!(f, "columns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(inputs: i64, outputs: i64, window: i64, stride: i64, dilation: i64, pad: i64) -> WindowAxis {
        let cut = Cut { start: 0, step: 1, stride: 1, block: 1 };
        WindowAxis { inputs, outputs, window, stride, dilation, pad, cuts: [cut; 3] }
    }

    /// All small axes: clipped, outputs hold the same cells, and numbers are bounded.
    #[test]
    fn clipped_axes_hold_the_same_cells() {
        let sizes = [1, 2, 3, 5, 8, 40];
        for (inputs, outputs, window) in
            sizes.iter().flat_map(|&i| (1..7).flat_map(move |o| sizes.map(|w| (i, o, w))))
        {
            for (stride, pad) in [1, 2, 3, 7, 20]
                .iter()
                .flat_map(|&s| [-50, -4, -1, 0, 1, 2, 3, 5, 19, 30, 60].map(|p| (s, p)))
            {
                let axis = axis(inputs, outputs, window, stride, 1, pad);
                let held = |axis: &WindowAxis| -> Vec<(i64, (i64, i64))> {
                    let all = (0..axis.outputs).map(|o| (o, axis.cells(o)));
                    all.filter(|(_, cells)| cells.0 < cells.1).collect()
                };
                let clipped = axis.clipped(false);
                assert_eq!(held(&clipped), held(&axis), "{axis:?}\n{clipped:?}");
                assert!(clipped.outputs >= 1 && (1..=inputs).contains(&clipped.stride), "{clipped:?}");
                assert!((1..=inputs * (1 + outputs)).contains(&clipped.window), "{clipped:?}");
                assert!((-inputs..=inputs * outputs).contains(&clipped.pad), "{clipped:?}");
                let padded = axis.clipped(true);
                assert_eq!(held(&padded), held(&axis), "{axis:?}\n{padded:?}");
                for output in (0..padded.outputs).filter(|&o| padded.cells(o).0 < padded.cells(o).1) {
                    let count = padded.count(output, Divisor::Padded);
                    assert_eq!(count, axis.count(output, Divisor::Padded), "{axis:?}\n{padded:?}");
                }
            }
        }
    }

    /// All small axes: what the ranges say is what walking over all taps finds.
    #[test]
    fn ranges_are_those_of_walking_over_all_taps() {
        for (inputs, outputs, window) in
            (1..6).flat_map(|i| (1..7).flat_map(move |o| (1..6).map(move |w| (i, o, w))))
        {
            for (stride, dilation, pad) in
                (1..5).flat_map(|s| (1..4).flat_map(move |d| (-3..8).map(move |p| (s, d, p))))
            {
                let axis = axis(inputs, outputs, window, stride, dilation, pad);
                let is_cell = |o: i64, t: i64| (0..inputs).contains(&axis.coordinate(o, t));
                for o in 0..outputs {
                    let want: Vec<i64> = (0..window).filter(|&t| is_cell(o, t)).collect();
                    let (begin, end) = axis.taps(o);
                    assert_eq!((begin..end).collect::<Vec<_>>(), want, "{axis:?}, output {o}");
                    if dilation > 1 {
                        continue;
                    }
                    assert_eq!(axis.count(o, Divisor::Inside), want.len() as i64);
                    let padded = |t: i64| (-pad..inputs + pad).contains(&axis.coordinate(o, t));
                    let all = (0..window).filter(|&t| padded(t) || is_cell(o, t)).count();
                    let count = if want.is_empty() { 0 } else { all };
                    assert_eq!(axis.count(o, Divisor::Padded), count as i64, "{axis:?}, output {o}");
                }
                if dilation == 1 {
                    for cell in 0..inputs {
                        let holds = |&o: &i64| (0..window).any(|t| axis.coordinate(o, t) == cell);
                        let want: Vec<i64> = (0..outputs).filter(holds).collect();
                        let (begin, end) = axis.outputs_of(cell);
                        assert_eq!((begin..end).collect::<Vec<_>>(), want, "{axis:?}, cell {cell}");
                    }
                }
            }
        }
    }
}
