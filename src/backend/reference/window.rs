//! The obvious loops over windows: one cell of the destination at a time, by the formulas of
//! [`WindowFunction`].

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::backend::inverse_power::inverse_power;
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::error::Result;
use crate::ops::window::{Divisor, MAX_AXES, Power, Window, WindowAxis, WindowFunction};
use crate::ops::{NanRule, Scaling};

/// Runs `window` in exactly the order of its loops, so that where destination offsets repeat the
/// last write wins.
///
/// # Safety
/// `at` holds the data pointers of all [`OPERANDS`](crate::ops::window::OPERANDS). Those that the
/// function touches are aligned to their scalar, and every offset of the window is readable there;
/// of destinations writable, and readable if `beta != 0`.
pub unsafe fn window(window: &Window, at: &[Address]) {
    with_real!(window.compute, T => window.outer.for_each(|offsets| {
        let view = View { window, at, offsets };
        let mut index = [0; MAX_AXES];
        // SAFETY: every offset of the window is an element of the operands that the function
        // touches.
        view.each(0, &mut index, &mut |index| unsafe { view.cell::<T>(index) });
    }));
}

/// One turn of the loops around a window.
struct View<'a> {
    window: &'a Window,
    at: &'a [Address],
    /// Of each layout.
    offsets: [i64; 3],
}

/// Coordinates along every axis.
type Index = [i64; MAX_AXES];

impl View<'_> {
    fn axes(&self) -> &[WindowAxis] {
        &self.window.axes
    }

    /// Calls `f` with all coordinates of the destination, the last axis turning fastest.
    fn each(&self, axis: usize, index: &mut Index, f: &mut dyn FnMut(&Index)) {
        let Some(of) = self.axes().get(axis) else { return f(index) };
        for i in 0..of.extent(self.window.is_gradient()) {
            index[axis] = i;
            self.each(axis + 1, index, f);
        }
    }

    /// Where a coordinate lies in a layout.
    fn offset(&self, layout: usize, index: &Index) -> i64 {
        let along = self.axes().iter().zip(index).map(|(axis, &i)| axis.cuts[layout].offset(i));
        self.offsets[layout] + along.sum::<i64>()
    }

    /// # Safety
    /// As for [`window`]; the place is one that the function reads.
    unsafe fn read<T: Element>(&self, place: usize, index: &Index) -> T {
        let layout = [0, 0, 1, 2, 1][place];
        // SAFETY: the place is one that the function reads, and the index is inside it.
        unsafe { load(self.window.scalars[layout], self.at[place].pointer(), self.offset(layout, index)) }
    }

    /// # Safety
    /// As for [`window`]; the place is a destination.
    unsafe fn write<T: Real>(&self, place: usize, index: &Index, r: T) {
        let (scalar, offset) = (self.window.scalars[0], self.offset(0, index));
        // SAFETY: the place is a destination, and the index is inside it.
        unsafe { store(scalar, self.at[place].pointer(), offset, r.canonical(), self.window.scaling) }
    }

    /// Calls `f` with everything between the bounds of every axis, in row-major order.
    fn within(&self, bounds: &[(i64, i64); MAX_AXES], f: &mut dyn FnMut(&Index)) {
        fn walk(bounds: &[(i64, i64)], axis: usize, index: &mut Index, f: &mut dyn FnMut(&Index)) {
            let Some(&(begin, end)) = bounds.get(axis) else { return f(index) };
            for i in begin..end {
                index[axis] = i;
                walk(bounds, axis + 1, index, f);
            }
        }
        walk(&bounds[..self.axes().len()], 0, &mut [0; MAX_AXES], f);
    }

    fn bounds(&self, of: impl Fn(&WindowAxis, i64) -> (i64, i64), index: &Index) -> [(i64, i64); MAX_AXES] {
        let mut bounds = [(0, 1); MAX_AXES];
        self.axes().iter().zip(index).zip(&mut bounds).for_each(|((axis, &i), to)| *to = of(axis, i));
        bounds
    }

    /// The cells of an output's window.
    fn cells(&self, output: &Index) -> [(i64, i64); MAX_AXES] {
        self.bounds(WindowAxis::cells, output)
    }

    /// The outputs whose windows hold a cell.
    fn outputs_of(&self, cell: &Index) -> [(i64, i64); MAX_AXES] {
        self.bounds(WindowAxis::outputs_of, cell)
    }

    /// The sum of `term` between bounds: along the last axis, of sums over the other ones.
    fn sum<T: Real>(&self, bounds: [(i64, i64); MAX_AXES], term: &mut dyn FnMut(&Index) -> T) -> T {
        let last = self.axes().len() - 1;
        let mut total = T::ZERO;
        for i in bounds[last].0..bounds[last].1 {
            let mut column = bounds;
            column[last] = (i, i + 1);
            let mut sum = T::ZERO;
            self.within(&column, &mut |index| sum = sum + term(index));
            total = total + sum;
        }
        total
    }

    fn divisor(&self, output: &Index, divisor: Divisor) -> i64 {
        self.axes().iter().zip(output).map(|(axis, &o)| axis.count(o, divisor)).product()
    }

    /// # Safety
    /// As for [`window`].
    unsafe fn cell<T: Real>(&self, index: &Index) {
        // SAFETY: each function reads the places that it touches, at coordinates between bounds.
        unsafe {
            match self.window.function {
                WindowFunction::Max(rule) => {
                    let mut largest: Option<T> = None;
                    self.within(&self.cells(index), &mut |cell| {
                        let x = self.read::<T>(2, cell);
                        largest = Some(largest.map_or(x, |old| larger(old, x, rule)));
                    });
                    let lowest = || T::from_f64(lowest(self.window.scalars[1]));
                    self.write(0, index, largest.unwrap_or_else(lowest));
                }
                WindowFunction::Average(by) => {
                    let sum = self.sum(self.cells(index), &mut |cell| self.read::<T>(2, cell));
                    let count = self.divisor(index, by);
                    self.write(0, index, if count == 0 { T::ZERO } else { sum / T::from_i64(count) });
                }
                WindowFunction::MaxGradient(rule) => {
                    let mut sum = T::ZERO;
                    self.within(&self.outputs_of(index), &mut |output| {
                        if self.winner::<T>(output, rule) == Some(*index) {
                            sum = sum + self.read::<T>(3, output);
                        }
                    });
                    self.write(0, index, sum);
                }
                WindowFunction::AverageGradient(by) => {
                    let sum = self.sum(self.outputs_of(index), &mut |output| {
                        self.read::<T>(3, output) / T::from_i64(self.divisor(output, by))
                    });
                    self.write(0, index, sum);
                }
                WindowFunction::Normalise { power, centred } => {
                    let base = self.base::<T>(index, power, centred);
                    self.write(0, index, self.read::<T>(2, index) * inverse_power(base, power.beta));
                }
                WindowFunction::NormaliseGradient { power, centred, means } => {
                    self.normalise_gradient::<T>(index, power, centred, means);
                }
                WindowFunction::Columns => self.columns(index),
            }
        }
    }

    /// The coordinates of the first largest cell of an output's window.
    ///
    /// # Safety
    /// As for [`window`].
    unsafe fn winner<T: Real>(&self, output: &Index, rule: NanRule) -> Option<Index> {
        let mut best: Option<(T, Index)> = None;
        self.within(&self.cells(output), &mut |cell| {
            // SAFETY: the cells of an output are elements of x.
            let x = unsafe { self.read::<T>(2, cell) };
            if best.is_none_or(|(old, _)| beats(x, old, rule)) {
                best = Some((x, *cell));
            }
        });
        best.map(|(_, cell)| cell)
    }

    /// `k + scale * sum (x' - m)^2` of an output.
    ///
    /// # Safety
    /// As for [`window`].
    unsafe fn base<T: Real>(&self, output: &Index, power: Power, centred: bool) -> T {
        // SAFETY: the cells of an output are elements of x, and the means, where they are used,
        // have one of its place.
        unsafe {
            let mean = if centred { self.read::<T>(4, output) } else { T::ZERO };
            let sum = self.sum(self.cells(output), &mut |cell| {
                let difference = self.read::<T>(2, cell) - mean;
                difference * difference
            });
            T::from_f64(power.k) + T::from_f64(power.scale) * sum
        }
    }

    /// `dy * x * s^(-beta - 1)` of an output, as a product of four and a quotient.
    ///
    /// # Safety
    /// As for [`window`].
    unsafe fn term<T: Real>(&self, output: &Index, power: Power, centred: bool) -> T {
        // SAFETY: dy and x have an element of the output's place, and the cells of its window are
        // elements of x.
        unsafe {
            let base = self.base::<T>(output, power, centred);
            let (dy, x) = (self.read::<T>(3, output), self.read::<T>(2, output));
            dy * x * (inverse_power(base, power.beta) / base)
        }
    }

    /// # Safety
    /// As for [`window`].
    unsafe fn normalise_gradient<T: Real>(&self, index: &Index, power: Power, centred: bool, means: bool) {
        let factor = T::from_f64(2.0 * power.beta * power.scale);
        // SAFETY: the index and the outputs that read it are inside the operands.
        unsafe {
            let x = self.read::<T>(2, index);
            let sum = self.sum(self.outputs_of(index), &mut |output| {
                let term = self.term::<T>(output, power, centred);
                if centred { term * (x - self.read::<T>(4, output)) } else { term }
            });
            let sum = if centred { sum } else { x * sum };
            let base = self.base::<T>(index, power, centred);
            let direct = self.read::<T>(3, index) * inverse_power(base, power.beta);
            self.write(0, index, direct - factor * sum);
            if means {
                let mean = if centred { self.read::<T>(4, index) } else { T::ZERO };
                let spread = self.sum(self.cells(index), &mut |cell| self.read::<T>(2, cell) - mean);
                self.write(1, index, factor * self.term::<T>(index, power, centred) * spread);
            }
        }
    }

    /// Moves the bits of every tap of an output.
    ///
    /// # Safety
    /// As for [`window`].
    unsafe fn columns(&self, output: &Index) {
        let mut taps = [(0, 1); MAX_AXES];
        self.axes().iter().zip(&mut taps).for_each(|(axis, to)| *to = (0, axis.window));
        self.within(&taps, &mut |tap| {
            let mut cell = [0; MAX_AXES];
            let mut offset = self.offset(0, output);
            let mut inside = true;
            for (k, axis) in self.axes().iter().enumerate() {
                cell[k] = axis.coordinate(output[k], tap[k]);
                inside &= (0..axis.inputs).contains(&cell[k]);
                offset += axis.cuts[2].stride * tap[k];
            }
            // SAFETY: a cell inside the bounds is an element of x, and the destination has a place
            // for every tap.
            with_element!(self.window.scalars[0], D => unsafe {
                let x = if inside { self.read::<D>(2, &cell) } else { <D as Element>::ZERO };
                store(self.window.scalars[0], self.at[0].pointer(), offset, x, Scaling::MOVE);
            });
        });
    }
}

/// The larger number, +0 of two zeros; of a NaN and a number what the rule wants.
fn larger<T: Real>(a: T, b: T, rule: NanRule) -> T {
    if a.is_nan() || b.is_nan() {
        let (nan, other) = if a.is_nan() { (a, b) } else { (b, a) };
        return if rule == NanRule::Propagate { nan } else { other };
    }
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Greater) => a,
        Some(std::cmp::Ordering::Less) => b,
        // Equal numbers are the same but for zeros: +0 + -0 is +0.
        _ => a.intersection(b),
    }
}

/// Whether `x` is larger than `old`, where NaNs are larger than all numbers, or smaller.
fn beats<T: Real>(x: T, old: T, rule: NanRule) -> bool {
    match (x.is_nan(), old.is_nan()) {
        (true, true) => false,
        (true, false) => rule == NanRule::Propagate,
        (false, true) => rule == NanRule::Ignore,
        (false, false) => x > old,
    }
}

/// The lowest finite number of a type.
pub(in crate::backend) fn lowest(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::F32 => f64::from(f32::MIN),
        Scalar::F64 => f64::MIN,
        Scalar::F16 => -65504.0,
        Scalar::Bf16 => f64::from(half::bf16::MIN.to_f32()),
        Scalar::I8 => -128.0,
        Scalar::U8 | Scalar::Bool => 0.0,
        Scalar::I32 => f64::from(i32::MIN),
        Scalar::I64 => i64::MIN as f64,
        Scalar::E4m3 => -448.0,
        Scalar::E5m2 => -57344.0,
    }
}

impl Kind for Window {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { window(self, at) };
        Ok(())
    }
}
