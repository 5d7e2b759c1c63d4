//! Vectors: the loops that calls on them run, over any type and step.

use std::ffi::c_void;
use std::ops::Range;

use super::arguments;
use super::kind::{Element, Kind, typed};
use super::status::Outcome;
use crate::threads;

/// A vector in memory. With a negative step its first element is the last one in memory.
#[derive(Clone, Copy)]
pub struct Vector {
    /// The lowest address.
    pub data: *mut c_void,
    /// Of its elements.
    pub kind: Kind,
    /// How many, not negative.
    pub len: i64,
    /// Elements from one to the next.
    pub step: i64,
}

// SAFETY: a vector is where it is for every thread; whoever reads or writes it vouches for its
// elements.
unsafe impl Send for Vector {}
// SAFETY: sharing where a vector lies gives access to nothing; what reads or writes it is unsafe.
unsafe impl Sync for Vector {}

impl Vector {
    /// # Errors
    /// Invalid value for NULL, unless there are no elements.
    pub fn new(data: *const c_void, kind: Kind, len: i64, step: i64, argument: &str) -> Outcome<Self> {
        let len = len.max(0);
        arguments::data(data, len > 0, argument)?;
        Ok(Vector { data: data.cast_mut(), kind, len, step })
    }

    /// Where it begins in memory, for checks.
    pub fn start(&self) -> *const c_void {
        self.data.cast_const()
    }

    fn as_typed<T>(&self) -> Typed<T> {
        let first = if self.step < 0 { (1 - self.len.max(1)) * self.step } else { 0 };
        Typed { first: self.data.cast::<T>().wrapping_offset(first as isize), step: self.step as isize }
    }

    fn count(&self) -> usize {
        self.len as usize
    }

    /// Where its first element is.
    pub fn first(&self) -> *mut c_void {
        let first = if self.step < 0 { (1 - self.len.max(1)) * self.step } else { 0 };
        self.data.wrapping_byte_offset(first as isize * self.kind.size() as isize)
    }
}

/// The same, of a known type.
struct Typed<T> {
    first: *mut T,
    step: isize,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Typed<T> {}

// SAFETY: whoever makes a vector vouches for its memory; threads have ranges of their own of what
// is written.
unsafe impl<T> Sync for Typed<T> {}

impl<T: Element> Typed<T> {
    /// # Safety
    /// Element `i` is there.
    #[inline]
    unsafe fn get(&self, i: usize) -> T {
        // SAFETY: element `i` is in memory; the read needs no alignment, as programs place vectors
        // anywhere.
        unsafe { self.first.offset(i as isize * self.step).read_unaligned() }
    }

    /// # Safety
    /// Element `i` is there, and nobody else uses it.
    #[inline]
    unsafe fn set(&self, i: usize, value: T) {
        // SAFETY: element `i` is in memory, and nobody else uses it; the write needs no alignment.
        unsafe { self.first.offset(i as isize * self.step).write_unaligned(value) }
    }
}

/// Calls `each` for the ranges of vectors of which the second is written: in one go if its elements
/// share their places.
fn spread(x: &Vector, y: &Vector, each: impl Fn(Range<usize>) + Sync) {
    if y.step == 0 { each(0..x.count()) } else { threads::spread(x.count(), each) }
}

/// `y = alpha x + y`
///
/// # Errors
/// Not supported for types that vectors do not have, or that differ.
///
/// # Safety
/// The vectors are in memory as described.
pub unsafe fn add_scaled(alpha: f64, x: Vector, y: Vector) -> Outcome {
    typed!(x.kind, "x", T => {
        let (from, to) = (x.as_typed::<T>(), y.as_typed::<T>());
        spread(&x, &y, |range| {
            for i in range {
                // SAFETY: both vectors have this element, which no other thread has.
                unsafe { to.set(i, T::narrow(alpha * from.get(i).wide() + to.get(i).wide())) };
            }
        });
        Ok(())
    })
}

/// `x = alpha x`
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vector is in memory as described.
pub unsafe fn scale(alpha: f64, x: Vector) -> Outcome {
    typed!(x.kind, "x", T => {
        let to = x.as_typed::<T>();
        spread(&x, &x, |range| {
            for i in range {
                // SAFETY: the vector has this element, which no other thread has.
                unsafe { to.set(i, T::narrow(alpha * to.get(i).wide())) };
            }
        });
        Ok(())
    })
}

/// `y = x`
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vectors are in memory as described.
pub unsafe fn copy(x: Vector, y: Vector) -> Outcome {
    typed!(x.kind, "x", T => {
        let (from, to) = (x.as_typed::<T>(), y.as_typed::<T>());
        spread(&x, &y, |range| {
            for i in range {
                // SAFETY: both vectors have this element, which no other thread has.
                unsafe { to.set(i, from.get(i)) };
            }
        });
        Ok(())
    })
}

/// `x, y = y, x`
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vectors are in memory as described.
pub unsafe fn swap(x: Vector, y: Vector) -> Outcome {
    // SAFETY: both vectors are in memory as described.
    unsafe { both(x, y, |x, y| (y, x)) }
}

/// `x, y = c x + s y, c y - s x`
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vectors are in memory as described.
pub unsafe fn rotate(x: Vector, y: Vector, [c, s]: [f64; 2]) -> Outcome {
    // SAFETY: both vectors are in memory as described.
    unsafe { both(x, y, |x, y| (c * x + s * y, c * y - s * x)) }
}

/// # Safety
/// The vectors are in memory as described.
unsafe fn both(x: Vector, y: Vector, of: impl Fn(f64, f64) -> (f64, f64) + Sync) -> Outcome {
    typed!(x.kind, "x", T => {
        let (one, two) = (x.as_typed::<T>(), y.as_typed::<T>());
        let each = |range: Range<usize>| {
            for i in range {
                // SAFETY: both vectors have this element, which no other thread has.
                unsafe {
                    let (first, second) = of(one.get(i).wide(), two.get(i).wide());
                    one.set(i, T::narrow(first));
                    two.set(i, T::narrow(second));
                }
            }
        };
        if x.step == 0 || y.step == 0 { each(0..x.count()) } else { threads::spread(x.count(), each) }
        Ok(())
    })
}

/// Sums of a range are made in so many parts, side by side.
const LANES: usize = 8;

/// The sum of what `term` makes of each number, in an order that depends on their count alone.
fn sum(count: usize, term: impl Fn(usize) -> f64 + Sync) -> f64 {
    let of_range = |range: Range<usize>| {
        let mut lanes = [0.0; LANES];
        let whole = range.len() / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            for (lane, sum) in lanes.iter_mut().enumerate() {
                *sum += term(range.start + first + lane);
            }
        }
        let rest = (whole..range.len()).map(|i| term(range.start + i)).sum::<f64>();
        lanes.iter().sum::<f64>() + rest
    };
    threads::join(count, 0.0, of_range, |one, other| one + other)
}

/// The sum of products of two vectors.
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vectors are in memory as described.
pub unsafe fn dot(x: Vector, y: Vector) -> Outcome<f64> {
    typed!(x.kind, "x", T => {
        let (one, two) = (x.as_typed::<T>(), y.as_typed::<T>());
        // SAFETY: both vectors have this element.
        Ok(sum(x.count(), |i| unsafe { one.get(i).wide() * two.get(i).wide() }))
    })
}

/// The sum of magnitudes; 0 for a step that is not positive.
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vector is in memory as described.
pub unsafe fn sum_of_magnitudes(x: Vector) -> Outcome<f64> {
    if x.step <= 0 {
        return Ok(0.0);
    }
    typed!(x.kind, "x", T => {
        let of = x.as_typed::<T>();
        // SAFETY: the vector has this element.
        Ok(sum(x.count(), |i| unsafe { of.get(i).wide().abs() }))
    })
}

/// The root of the sum of squares, without overflow on the way; 0 for a step that is not positive.
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vector is in memory as described.
pub unsafe fn norm(x: Vector) -> Outcome<f64> {
    if x.step <= 0 {
        return Ok(0.0);
    }
    typed!(x.kind, "x", T => {
        let of = x.as_typed::<T>();
        // SAFETY: the vector has this element.
        let magnitude = |i| unsafe { of.get(i).wide().abs() };
        let squares = sum(x.count(), |i| magnitude(i) * magnitude(i));
        if squares.is_nan() || (1e-280..1e300).contains(&squares) {
            return Ok(squares.sqrt());
        }
        // Of numbers whose squares binary64 does not hold.
        let largest = threads::join(x.count(), 0.0, |range| range.map(magnitude).fold(0.0, f64::max), f64::max);
        if largest == 0.0 || largest.is_infinite() {
            return Ok(largest);
        }
        let squares = sum(x.count(), |i| (magnitude(i) / largest) * (magnitude(i) / largest));
        Ok(largest * squares.sqrt())
    })
}

/// The number of the first element of the largest magnitude, or of the smallest one, counted from
/// 1; 0 if there is none or the step is not positive. A NaN is found only in front.
///
/// # Errors
/// Not supported for types that vectors do not have.
///
/// # Safety
/// The vector is in memory as described.
pub unsafe fn extreme(x: Vector, largest: bool) -> Outcome<i64> {
    if x.step <= 0 || x.len == 0 {
        return Ok(0);
    }
    typed!(x.kind, "x", T => {
        let of = x.as_typed::<T>();
        let beats = |one: f64, other: f64| if largest { one > other } else { one < other };
        // SAFETY: the vector has this element.
        let at = |i: usize| unsafe { of.get(i).wide().abs() };
        let better = |best: (usize, f64), next: (usize, f64)| if beats(next.1, best.1) { next } else { best };
        let of_range = |range: Range<usize>| {
            let first = (range.start, at(range.start));
            range.skip(1).fold(first, |best, i| better(best, (i, at(i))))
        };
        let found = threads::join(x.count(), (0, at(0)), of_range, better);
        Ok(found.0 as i64 + 1)
    })
}
