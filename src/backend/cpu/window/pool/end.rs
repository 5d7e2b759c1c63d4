//! From the lanes of a fold to results: keys become cells, and sums are divided.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::cpu::window::fold::{Ended, EndedRows, Fold, Largest, Ordered, ended_rows};
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::ops::window::Divisor;

/// The factors of the divisors of a run of results.
pub enum Counts<'a> {
    /// All have this one.
    Same(i64),
    /// Each has the product of these two.
    Each(i64, &'a [i64]),
}

/// From lanes to results.
pub trait End<F: Fold>: Sync {
    /// Whether two counts, neither 0, may make a difference.
    const COUNTS: bool;

    /// Whether results of these types may [leave from registers](Self::ended): for others no such
    /// code is made.
    const IS_ENDED: bool;

    /// Columns of a window that are folded anew for every output, where [results leave from
    /// registers](Self::ended): to keep them for the next output takes longer.
    const FEW_COLUMNS: i64;

    /// By what sums are divided; what it is does not matter elsewhere, but for 0, which stands for
    /// an empty window.
    fn divisor(&self) -> Divisor;

    /// The fold whose results leave from registers, if there is one for these types.
    fn ended(&self) -> Option<EndedRows<F>>;

    /// The divisor that it takes for a window of `count` cells, which are not 0.
    fn by(&self, count: i64) -> F::Result;

    /// # Safety
    /// `n` lanes are readable, and `n` results writable; they are the same memory or apart.
    unsafe fn run(&self, out: *mut F::Result, lanes: *mut F::Lane, n: usize, counts: Counts<'_>);
}

/// The cells of keys.
pub struct Select<S: Ordered, const NANS_ABOVE: bool> {
    none: S,
    isa: Isa,
    cells: unsafe fn(*mut S, *const S::Key, usize),
}

impl<S: Ordered, const NANS_ABOVE: bool> Select<S, NANS_ABOVE> {
    pub fn new(none: S, isa: Isa) -> Self {
        Select { none, isa, cells: cells::of::<S, NANS_ABOVE>(isa) }
    }
}

impl<S: Ordered, const NANS_ABOVE: bool> End<Largest<S, NANS_ABOVE>> for Select<S, NANS_ABOVE> {
    const COUNTS: bool = false;
    const IS_ENDED: bool = matches!(S::SCALAR, Scalar::F32);
    const FEW_COLUMNS: i64 = 2;

    fn divisor(&self) -> Divisor {
        Divisor::Inside
    }

    fn ended(&self) -> Option<EndedRows<Largest<S, NANS_ABOVE>>> {
        if const { <Self as End<Largest<S, NANS_ABOVE>>>::IS_ENDED } {
            Some(ended_rows::<Largest<S, NANS_ABOVE>>(self.isa))
        } else {
            None
        }
    }

    fn by(&self, _: i64) -> S {
        self.none
    }

    unsafe fn run(&self, out: *mut S, lanes: *mut S::Key, n: usize, counts: Counts<'_>) {
        // SAFETY: `out` has room for `n` numbers.
        unsafe {
            match counts {
                Counts::Same(0) | Counts::Each(0, _) => (0..n).for_each(|i| out.add(i).write(self.none)),
                Counts::Same(_) => (self.cells)(out, lanes, n),
                Counts::Each(_, along) => {
                    (self.cells)(out, lanes, n);
                    let empty = along.iter().enumerate().filter(|&(_, &count)| count == 0);
                    empty.for_each(|(i, _)| out.add(i).write(self.none));
                }
            }
        }
    }
}

/// Sums over their divisors.
pub struct Divide<T> {
    by: Divisor,
    isa: Isa,
    divide: unsafe fn(*mut T, *const T, *const T, usize),
    divide_all: unsafe fn(*mut T, *const T, T, usize),
    multiply: unsafe fn(*mut T, *const T, T, usize),
}

impl<T: Real> Divide<T> {
    pub fn new(by: Divisor, isa: Isa) -> Self {
        Divide {
            by,
            isa,
            divide: divide::of::<T>(isa),
            divide_all: divide_all::of::<T>(isa),
            multiply: multiply::of::<T>(isa),
        }
    }
}

/// Divisors that are converted at a time.
const DIVISORS: usize = 64;

impl<T: Real, F: Ended<Lane = T, Result = T>> End<F> for Divide<T>
where
    F::Cell: Element,
{
    const COUNTS: bool = true;
    const IS_ENDED: bool = matches!(F::Cell::SCALAR, Scalar::F32);
    const FEW_COLUMNS: i64 = 3;

    fn divisor(&self) -> Divisor {
        self.by
    }

    fn ended(&self) -> Option<EndedRows<F>> {
        if const { <Self as End<F>>::IS_ENDED } { Some(ended_rows::<F>(self.isa)) } else { None }
    }

    fn by(&self, count: i64) -> T {
        T::from_i64(count)
    }

    unsafe fn run(&self, out: *mut T, lanes: *mut T, n: usize, counts: Counts<'_>) {
        if let Counts::Same(0) | Counts::Each(0, _) = counts {
            // SAFETY: `out` has room for `n` numbers.
            return (0..n).for_each(|i| unsafe { out.add(i).write(T::ZERO) });
        }
        if let Counts::Same(count) = counts {
            // A product with an exact reciprocal is the same number as the quotient, and divisions
            // are slow.
            let is_exact = count.count_ones() == 1;
            let by = if is_exact { T::ONE / T::from_i64(count) } else { T::from_i64(count) };
            // SAFETY: there are `n` lanes, and `out` has room for as many numbers.
            return unsafe { (if is_exact { self.multiply } else { self.divide_all })(out, lanes, by, n) };
        }
        let mut divisors = [T::ONE; DIVISORS];
        let number = |count: i64| if count == 0 { T::INFINITY } else { T::from_i64(count) };
        for first in (0..n).step_by(DIVISORS) {
            let some = DIVISORS.min(n - first);
            if let Counts::Each(factor, along) = counts {
                for (to, &count) in divisors.iter_mut().zip(&along[first..first + some]) {
                    *to = number(factor * count);
                }
            }
            // SAFETY: there are `n` sums and places. A window without cells has the sum 0, and so
            // its quotient by infinity is.
            unsafe { (self.divide)(out.add(first), lanes.add(first), divisors.as_ptr(), some) };
        }
    }
}

/// # Safety
/// `n` keys are readable, and cells writable, apart from them.
#[vectorized]
unsafe fn cells<S: Ordered, const NANS_ABOVE: bool>(out: *mut S, keys: *const S::Key, n: usize) {
    for i in 0..n {
        // SAFETY: there are `n` keys, and `out` has room for as many cells.
        unsafe { out.add(i).write(S::of_key::<NANS_ABOVE>(keys.add(i).read())) };
    }
}

/// # Safety
/// `n` numbers are readable, and writable at `out`, apart from them.
#[vectorized]
unsafe fn divide<T: Real>(out: *mut T, sums: *const T, by: *const T, n: usize) {
    for i in 0..n {
        // SAFETY: there are `n` sums and divisors, and `out` has room for as many numbers.
        unsafe { out.add(i).write((sums.add(i).read() / by.add(i).read()).canonical()) };
    }
}

/// # Safety
/// As for [`divide`].
#[vectorized]
unsafe fn divide_all<T: Real>(out: *mut T, sums: *const T, by: T, n: usize) {
    for i in 0..n {
        // SAFETY: there are `n` sums, and `out` has room for as many numbers.
        unsafe { out.add(i).write((sums.add(i).read() / by).canonical()) };
    }
}

/// # Safety
/// As for [`divide`].
#[vectorized]
unsafe fn multiply<T: Real>(out: *mut T, sums: *const T, by: T, n: usize) {
    for i in 0..n {
        // SAFETY: there are `n` sums, and `out` has room for as many numbers.
        unsafe { out.add(i).write((sums.add(i).read() * by).canonical()) };
    }
}
