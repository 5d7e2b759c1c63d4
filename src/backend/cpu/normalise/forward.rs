//! The forward pass: statistics, given or of the batch, and `(x - mean) * slope + offset`.

use super::engine::Engine;
use super::job::{GroupTile, Job, Known, LISTS, Stages};
use super::kernels::Kernels;
use super::table::has_sums;
use super::walk::{Access, Cells, Lines};
use super::{Store, activate};
use crate::backend::Address;
use crate::backend::choice::Choice;
use crate::backend::cpu::{Machine, row};
use crate::backend::function::Real;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::normalise::{Normalise, Statistics};

/// The lists of the engine.
const MEAN: usize = 0;
const SLOPE: usize = 1;
const OFFSET: usize = 2;

/// Operands of the step.
const Y: usize = 0;
const SAVED_MEAN: usize = 1;
const SAVED_INVERSE: usize = 2;
const MEANS: usize = 3;
const VARIANCES: usize = 4;
const RESERVE: usize = 5;
const X: usize = 6;
const Z: usize = 7;
const SCALE: usize = 8;
const BIAS: usize = 9;

struct Forward<'a, T> {
    step: &'a Normalise,
    at: &'a [Address],
    kernels: Kernels<T>,
    access: Access,
    store: Store,
    slopes: Store,
    /// Elements of a group.
    count: i64,
}

/// # Errors
/// As [`Engine::new`] and [`Engine::run`].
///
/// # Safety
/// As for [`super::forward`].
pub(super) unsafe fn run<T: Real + Math>(
    step: &Normalise, at: &[Address], machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    let cell = step.data.size();
    let access = Access {
        cell,
        is_real: step.data == T::SCALAR,
        widen: row::between(step.data, T::SCALAR, Scaling::MOVE, machine.isa),
    };
    let elements = (step.groups.len() * step.members.len()) as usize;
    let job = Forward {
        step,
        at,
        kernels: Kernels::<T>::of(machine.isa),
        access,
        store: Store::new::<T>(step.data, elements, step.scaling.beta == 0.0 && at[Y] != at[X], machine),
        slopes: Store::new::<T>(step.slopes.unwrap_or(T::SCALAR), elements, true, machine),
        count: step.members.len(),
    };
    let number = size_of::<T>();
    let cells = [cell, cell, cell, step.slopes.map_or(number, |scalar| scalar.size()), number];
    let loops = (&step.groups, &step.members, step.tree());
    let engine = Engine::new(&job, loops, cells, machine, choice)?;
    // SAFETY: operands and destinations are those of the job.
    unsafe { engine.run(machine) }
}

impl<T: Real + Math> Forward<'_, T> {
    /// The number of a parameter or statistic of a tile's group.
    fn place(&self, operand: usize, tile: &GroupTile<5>, j: usize) -> *mut T {
        self.at[operand].pointer().wrapping_offset(tile.offsets[4] + tile.steps[4] * j as isize).cast()
    }
}

impl<T: Real + Math> Job<T, 4, 5> for Forward<'_, T> {
    const LISTS: usize = OFFSET + 1;

    fn sum_lists(&self) -> usize {
        0
    }

    fn sums(&self) -> usize {
        usize::from(has_sums(self.step))
    }

    #[allow(clippy::needless_range_loop, reason = "one number indexes several lists")]
    unsafe fn prepare(&self, tile: GroupTile<5>, lists: &mut [&mut [T]; LISTS]) {
        for j in 0..tile.width {
            // SAFETY: parameters of the tile's groups.
            unsafe {
                lists[OFFSET][j] = self.place(BIAS, &tile, j).read();
                if self.step.statistics == Statistics::Given {
                    let deviation =
                        (self.place(VARIANCES, &tile, j).read() + T::from_f64(self.step.epsilon)).root();
                    lists[MEAN][j] = self.place(MEANS, &tile, j).read();
                    lists[SLOPE][j] = self.place(SCALE, &tile, j).read() / deviation;
                }
            }
        }
    }

    unsafe fn shifts(&self, _: usize, tile: GroupTile<5>, _: &[&mut [T]; LISTS], shifts: &mut Vec<f64>) {
        // SAFETY: the groups of the tile have a first element.
        unsafe {
            super::first_elements::<T>(
                &self.access,
                self.at[X],
                tile.offsets[1],
                tile.steps[1],
                tile.width,
                shifts,
            )
        }
    }

    fn reads(&self, _: usize, cells: &Cells<4>, each: &mut dyn FnMut(Lines)) {
        each(self.access.lines(cells, 1, self.at[X]));
    }

    unsafe fn factors(
        &self, _: usize, cells: Cells<4>, _: Known<'_, T>, to: [*mut T; 2], _: &mut [Vec<T>; 4],
        raw: &mut [u64],
    ) -> [*const T; 2] {
        let from = self.at[X].pointer().wrapping_offset(cells.offsets[1]);
        // SAFETY: the cells are some of a group, and each place has room for as many numbers.
        [unsafe { self.access.row(from, cells.steps[1], cells.n, to[0], raw.as_mut_ptr().cast()) }; 2]
    }

    unsafe fn take(
        &self, _: usize, tile: GroupTile<5>, sums: &mut [f64], shifts: &[f64], lists: &mut [&mut [T]; LISTS],
    ) {
        let Statistics::Batch { factor, running, saves } = self.step.statistics else { return };
        let (width, m) = (tile.width, self.count as f64);
        let [means, slopes, ..] = lists;
        let (mean, inverse) = (means.as_mut_ptr(), slopes.as_mut_ptr());
        // SAFETY: as many sums and numbers as groups.
        unsafe {
            (self.kernels.moments)(
                sums.as_mut_ptr(),
                shifts.as_ptr(),
                width,
                m,
                self.step.epsilon,
                mean,
                inverse,
            )
        };
        for j in 0..width {
            let [mean, variance] = [sums[j], sums[width + j]];
            let (shown, inverse) = (means[j], slopes[j]);
            // SAFETY: parameters and statistics of the tile's groups.
            unsafe {
                slopes[j] = self.place(SCALE, &tile, j).read() * inverse;
                if saves {
                    self.place(SAVED_MEAN, &tile, j).write(shown.canonical());
                    self.place(SAVED_INVERSE, &tile, j).write(inverse.canonical());
                }
                let unbiased = if m > 1.0 { variance * m / (m - 1.0) } else { variance };
                for (k, new) in [(MEANS, mean), (VARIANCES, unbiased)] {
                    if running[k - MEANS] && factor != 0.0 {
                        let place = self.place(k, &tile, j);
                        let old = if factor == 1.0 { 0.0 } else { (1.0 - factor) * place.read().to_f64() };
                        place.write(T::from_f64(old + factor * new).canonical());
                    }
                }
            }
        }
    }

    // Called from several places, and large.
    #[inline(never)]
    unsafe fn map(
        &self, cells: Cells<4>, next: Option<Cells<4>>, known: Known<'_, T>, room: &mut Stages<'_, T>,
    ) {
        let Cells { offsets, steps, n } = cells;
        let [numbers, out, other, slopes] = room.stages.each_mut().map(|stage| stage.as_mut_ptr());
        let raw = room.raw.as_mut_ptr().cast::<u8>();
        let at = |operand: usize, k: usize| self.at[operand].pointer().wrapping_offset(offsets[k]);
        // SAFETY: the operands have these cells; every stage holds them, and none is one of the
        // others.
        unsafe {
            let x = self.access.row(at(X, 1), steps[1], n, numbers, raw);
            match known {
                Known::One(known) => (self.kernels.line)(out, x, n, known[MEAN], known[SLOPE], known[OFFSET]),
                Known::Each(lists) => {
                    let [mean, slope, offset] = [MEAN, SLOPE, OFFSET].map(|k| lists[k].as_ptr());
                    (self.kernels.lines)(out, x, n, mean, slope, offset);
                }
            }
            if self.step.adds {
                let z = self.access.row(at(Z, 2), steps[2], n, other, raw);
                (0..n).for_each(|i| out.add(i).write((out.add(i).read() + z.add(i).read()).canonical()));
            }
            if let Some(activation) = &self.step.activation {
                for i in 0..n {
                    let (result, slope) = activate(activation, out.add(i).read());
                    out.add(i).write(result.canonical());
                    slopes.add(i).write(slope.canonical());
                }
                if self.step.slopes.is_some() {
                    self.slopes.write(at(RESERVE, 3), steps[3], slopes, n, raw);
                }
            }
            let Scaling { alpha, beta } = self.step.scaling;
            if !self.step.scaling.is_move() {
                let old = match beta != 0.0 {
                    true => self.access.row(at(Y, 0), steps[0], n, other, raw),
                    false => std::ptr::null(),
                };
                (self.kernels.blend)(out, old, n, T::from_f64(alpha), T::from_f64(beta));
            }
            let next = next.map(|next| self.access.lines(&next, 1, self.at[X]));
            self.store.write_meanwhile(at(Y, 0), steps[0], out, n, raw, [next, None]);
        }
    }
}
