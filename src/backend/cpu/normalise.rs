//! Normalisation: statistics of groups in binary64, then a map of their elements.
//!
//! Where neighbours in memory belong to one group, its elements come as runs; where they belong to
//! neighbouring groups, one element of each comes as a row.

mod backward;
mod engine;
mod forward;
mod job;
mod kernels;
mod table;
mod transpose;
mod walk;

use self::engine::most_scratch;
use self::table::KERNELS;
use self::walk::{Access, Lines};
use super::Machine;
use super::arena::KEPT_BYTES;
use super::kind::{self, Call, Kind, Table};
use super::row::{self, Row};
use super::stream::{self, STREAMING_BYTES, Stream};
use super::strided::copy_strided;
use crate::backend::Address;
use crate::backend::function::{Real, activated, with_real};
use crate::dtype::Scalar;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::activation::Activation;
use crate::ops::normalise::{Normalise, NormaliseBackward};

impl Kind for Normalise {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        table::names(&self.groups, &self.members, self.tree(), table::has_sums(self))
    }

    fn is_modest(&self, machine: Machine) -> bool {
        most_scratch(self.groups.len() as usize, machine) <= KEPT_BYTES
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (at, machine, choice) = (call.at, call.machine, call.choice);
        // SAFETY: operands and destinations are those of the step.
        with_real!(self.compute, T => unsafe { forward::run::<T>(self, at, machine, choice) })
    }
}

impl Kind for NormaliseBackward {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        table::names(&self.groups, &self.members, self.tree(), true)
    }

    fn is_modest(&self, machine: Machine) -> bool {
        most_scratch(self.groups.len() as usize, machine) <= KEPT_BYTES
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (at, machine, choice) = (call.at, call.machine, call.choice);
        // SAFETY: operands and destinations are those of the step.
        with_real!(self.compute, T => unsafe { backward::run::<T>(self, at, machine, choice) })
    }
}

/// Mean and variance from the sums of `d` and `d * d` over `m` elements, `d` their distance from
/// `shift`.
#[inline(always)]
fn moments(sums: [f64; 2], shift: f64, m: f64) -> [f64; 2] {
    let squares = sums[1] - sums[0] * (sums[0] / m);
    // What rounding makes negative is 0; a NaN stays.
    let squares = if squares < 0.0 { 0.0 } else { squares };
    [shift + sums[0] / m, squares / m]
}

/// The first element of every group of a tile, twice.
///
/// # Safety
/// They are readable.
unsafe fn first_elements<T: Real>(
    access: &Access, base: Address, offset: isize, step: isize, width: usize, shifts: &mut Vec<f64>,
) {
    let mut numbers = [T::ZERO; walk::WIDTH];
    let mut raw = [0_u64; walk::WIDTH];
    shifts.clear();
    for first in (0..width).step_by(walk::WIDTH) {
        let n = walk::WIDTH.min(width - first);
        let from = base.pointer().wrapping_offset(offset + step * first as isize);
        // SAFETY: `n` elements are readable from here on; there is room for as many numbers and
        // cells.
        let row = unsafe {
            let row = access.row(from, step, n, numbers.as_mut_ptr(), raw.as_mut_ptr().cast());
            std::slice::from_raw_parts(row, n)
        };
        shifts.extend(row.iter().map(|x| x.to_f64()));
    }
    shifts.extend_from_within(..);
}

/// An activation and its slope.
#[inline(always)]
fn activate<T: Real + Math>(activation: &Activation, x: T) -> (T, T) {
    activated(activation.function, x, T::from_f64(activation.parameter))
}

/// How numbers become cells of a destination.
#[derive(Clone, Copy)]
struct Store {
    cell: usize,
    is_real: bool,
    narrow: Row,
    stream: Option<Stream>,
}

impl Store {
    /// `apart`: nothing that is read lies there.
    fn new<T: Real>(scalar: Scalar, elements: usize, apart: bool, machine: Machine) -> Self {
        let far = elements.saturating_mul(scalar.size()) >= STREAMING_BYTES;
        Store {
            cell: scalar.size(),
            is_real: scalar == T::SCALAR,
            narrow: row::between(T::SCALAR, scalar, Scaling::MOVE, machine.isa),
            stream: stream::streams(machine.isa).map(|s| s.copy).filter(|_| apart && far),
        }
    }

    /// Writes `n` numbers to cells `step` bytes apart.
    ///
    /// # Safety
    /// The cells are writable, and do not overlap the numbers; `raw` has room for as many cells.
    #[inline(always)]
    unsafe fn write<T: Real>(&self, to: *mut u8, step: isize, numbers: *const T, n: usize, raw: *mut u8) {
        // SAFETY: `n` cells are writable, and `raw` has room for as many.
        unsafe { self.write_meanwhile(to, step, numbers, n, raw, [None; 2]) }
    }

    /// The same, and asks for what is read next while cells are on their way to memory.
    ///
    /// # Safety
    /// As for [`Store::write`].
    #[inline(always)]
    unsafe fn write_meanwhile<T: Real>(
        &self, to: *mut u8, step: isize, numbers: *const T, n: usize, raw: *mut u8, next: [Option<Lines>; 2],
    ) {
        // SAFETY: `n` cells are writable, and `raw` has room for as many.
        unsafe {
            let cells = match self.is_real {
                true => numbers.cast::<u8>(),
                false => {
                    (self.narrow)(raw, numbers.cast(), n, Scaling::MOVE);
                    raw.cast_const()
                }
            };
            match self.stream {
                _ if step != self.cell as isize && n > 1 => {
                    copy_strided(self.cell, to, step, cells, self.cell as isize, n);
                }
                Some(stream) if next.iter().all(Option::is_none) => stream(to, cells, n * self.cell),
                Some(stream) => {
                    let parts = stream::parts(n * self.cell);
                    let mut done = 0;
                    stream::in_parts(stream, to, cells, n * self.cell, || {
                        next.iter().flatten().for_each(|lines| lines.part(done, parts).fetch());
                        done += 1;
                    });
                }
                None => to.copy_from_nonoverlapping(cells, n * self.cell),
            }
        }
    }
}
