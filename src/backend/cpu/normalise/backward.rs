//! The backward pass: the gradients of both parameters, then those of x and of the tensor that was
//! added.

use super::engine::Engine;
use super::job::{GroupTile, Job, Known, LISTS, Stages};
use super::kernels::Kernels;
use super::walk::{Access, Cells, Lines};
use super::{Store, activate};
use crate::backend::Address;
use crate::backend::choice::Choice;
use crate::backend::cpu::{Machine, row};
use crate::backend::function::Real;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::normalise::{NormaliseBackward, Slope};

/// The lists of the engine.
const CENTRE: usize = 0;
const MEAN: usize = 1;
const TILT: usize = 2;
const SLOPE: usize = 3;
const OFFSET: usize = 4;
const INVERSE: usize = 5;

/// Operands of the step.
const DX: usize = 0;
const D_SCALE: usize = 1;
const D_BIAS: usize = 2;
const DZ: usize = 3;
const X: usize = 4;
const DY: usize = 5;
const SCALE: usize = 6;
const BIAS: usize = 7;
const MEANS: usize = 8;
const INVERSES: usize = 9;
const RESERVE: usize = 10;

struct Backward<'a, T> {
    step: &'a NormaliseBackward,
    at: &'a [Address],
    kernels: Kernels<T>,
    access: Access,
    /// How elements of the reserve space are read.
    kept: Access,
    store: Store,
    /// Elements of a group.
    count: i64,
}

/// # Errors
/// As [`Engine::new`] and [`Engine::run`].
///
/// # Safety
/// As for [`super::backward`].
pub(super) unsafe fn run<T: Real + Math>(
    step: &NormaliseBackward, at: &[Address], machine: Machine, choice: Choice<'_>,
) -> Result<()> {
    let cell = step.data.size();
    let access = |scalar: crate::dtype::Scalar| Access {
        cell: scalar.size(),
        is_real: scalar == T::SCALAR,
        widen: row::between(scalar, T::SCALAR, Scaling::MOVE, machine.isa),
    };
    let kept = match step.slope {
        Slope::Kept(scalar) => scalar,
        _ => T::SCALAR,
    };
    let elements = (step.groups.len() * step.members.len()) as usize;
    let apart = step.scaling.beta == 0.0 && at[DX] != at[DY] && at[DX] != at[X];
    let job = Backward {
        step,
        at,
        kernels: Kernels::<T>::of(machine.isa),
        access: access(step.data),
        kept: access(kept),
        store: Store::new::<T>(step.data, elements, apart, machine),
        count: step.members.len(),
    };
    let number = size_of::<T>();
    let cells = [cell, cell, cell, cell, kept.size(), number];
    let loops = (&step.groups, &step.members, step.tree());
    let engine = Engine::new(&job, loops, cells, machine, choice)?;
    // SAFETY: operands and destinations are those of the job.
    unsafe { engine.run(machine) }
}

impl<T: Real + Math> Backward<'_, T> {
    /// The number of a parameter or statistic of a tile's group.
    fn place(&self, operand: usize, tile: &GroupTile<6>, j: usize) -> *mut T {
        self.at[operand].pointer().wrapping_offset(tile.offsets[5] + tile.steps[5] * j as isize).cast()
    }

    fn is_gradient(&self, sum: usize) -> bool {
        self.step.saved || sum == 1
    }

    /// `dy * slope` and x, side by side.
    ///
    /// # Safety
    /// The cells are readable, and all places have room for them.
    unsafe fn pair(
        &self, Cells { offsets, steps, n }: Cells<5>, known: Known<'_, T>, to: [*mut T; 2],
        stages: &mut [Vec<T>; 4], raw: *mut u8,
    ) -> [*const T; 2] {
        let at = |operand: usize, k: usize| self.at[operand].pointer().wrapping_offset(offsets[k]);
        let slopes = stages[0].as_mut_ptr();
        // SAFETY: `n` cells of x and dy are readable, and each place has room for as many numbers.
        unsafe {
            let x = self.access.row(at(X, 1), steps[1], n, to[1], raw);
            let dy = self.access.row(at(DY, 2), steps[2], n, to[0], raw);
            let slopes = match &self.step.slope {
                Slope::One => return [dy, x],
                Slope::Kept(_) => self.kept.row(at(RESERVE, 4), steps[4], n, slopes, raw),
                Slope::Of(activation) => {
                    match known {
                        Known::One(k) => (self.kernels.line)(slopes, x, n, k[MEAN], k[SLOPE], k[OFFSET]),
                        Known::Each(lists) => {
                            let [mean, slope, offset] = [MEAN, SLOPE, OFFSET].map(|k| lists[k].as_ptr());
                            (self.kernels.lines)(slopes, x, n, mean, slope, offset);
                        }
                    }
                    (0..n).for_each(|i| {
                        let (_, slope) = activate(activation, slopes.add(i).read());
                        slopes.add(i).write(slope);
                    });
                    slopes.cast_const()
                }
            };
            for i in 0..n {
                let slope = slopes.add(i).read();
                let product = dy.add(i).read() * slope;
                to[0].add(i).write(if slope == T::ZERO { T::ZERO } else { product });
            }
            [to[0], x]
        }
    }
}

impl<T: Real + Math> Job<T, 5, 6> for Backward<'_, T> {
    const LISTS: usize = OFFSET + 1;

    fn sum_lists(&self) -> usize {
        if matches!(self.step.slope, Slope::Of(_)) { OFFSET + 1 } else { 0 }
    }

    fn sums(&self) -> usize {
        if self.step.saved { 1 } else { 2 }
    }

    #[allow(clippy::needless_range_loop, reason = "one number indexes several lists")]
    unsafe fn prepare(&self, tile: GroupTile<6>, lists: &mut [&mut [T]; LISTS]) {
        for j in 0..tile.width {
            // SAFETY: parameters and statistics of the tile's groups.
            unsafe {
                if matches!(self.step.slope, Slope::Of(_)) {
                    lists[OFFSET][j] = self.place(BIAS, &tile, j).read();
                }
                if self.step.saved {
                    lists[MEAN][j] = self.place(MEANS, &tile, j).read();
                    lists[INVERSE][j] = self.place(INVERSES, &tile, j).read();
                    lists[SLOPE][j] = self.place(SCALE, &tile, j).read() * lists[INVERSE][j];
                }
            }
        }
    }

    unsafe fn shifts(
        &self, sum: usize, tile: GroupTile<6>, lists: &[&mut [T]; LISTS], shifts: &mut Vec<f64>,
    ) {
        if !self.is_gradient(sum) {
            let (offset, step) = (tile.offsets[1], tile.steps[1]);
            // SAFETY: the groups of the tile have a first element.
            return unsafe {
                super::first_elements::<T>(&self.access, self.at[X], offset, step, tile.width, shifts)
            };
        }
        shifts.clear();
        shifts.resize(tile.width, 0.0);
        shifts.extend(lists[MEAN].iter().map(|mean| mean.to_f64()));
    }

    fn reads(&self, sum: usize, cells: &Cells<5>, each: &mut dyn FnMut(Lines)) {
        each(self.access.lines(cells, 1, self.at[X]));
        if self.is_gradient(sum) {
            each(self.access.lines(cells, 2, self.at[DY]));
        }
    }

    unsafe fn factors(
        &self, sum: usize, cells: Cells<5>, known: Known<'_, T>, to: [*mut T; 2], stages: &mut [Vec<T>; 4],
        raw: &mut [u64],
    ) -> [*const T; 2] {
        let raw = raw.as_mut_ptr().cast::<u8>();
        // SAFETY: the cells are some of a group, and each place has room for as many numbers.
        unsafe {
            if self.is_gradient(sum) {
                return self.pair(cells, known, to, stages, raw);
            }
            let from = self.at[X].pointer().wrapping_offset(cells.offsets[1]);
            [self.access.row(from, cells.steps[1], cells.n, to[1], raw); 2]
        }
    }

    unsafe fn take(
        &self, sum: usize, tile: GroupTile<6>, sums: &mut [f64], shifts: &[f64],
        lists: &mut [&mut [T]; LISTS],
    ) {
        let (width, m) = (tile.width, self.count as f64);
        let [centre, mean, tilt, _, _, inverse] = lists.each_mut().map(|list| list.as_mut_ptr());
        let (both, epsilon) = (sums.as_mut_ptr(), self.step.epsilon);
        // SAFETY: as many sums and numbers as groups; parameters and statistics of these.
        unsafe {
            if !self.is_gradient(sum) {
                (self.kernels.moments)(both, shifts.as_ptr(), width, m, epsilon, mean, inverse);
                for (j, slope) in lists[SLOPE][..width].iter_mut().enumerate() {
                    *slope = self.place(SCALE, &tile, j).read() * inverse.add(j).read();
                }
                return;
            }
            (self.kernels.gradients)(both, inverse, width, m, centre, tilt);
            let Scaling { alpha, beta } = self.step.parameter_scaling;
            for (operand, sums) in [(D_BIAS, &sums[..width]), (D_SCALE, &sums[width..])] {
                for (j, &sum) in sums.iter().enumerate() {
                    let place = self.place(operand, &tile, j);
                    let mut new = T::from_f64(sum) * T::from_f64(alpha);
                    if beta != 0.0 {
                        new = new + place.read() * T::from_f64(beta);
                    }
                    place.write(new.canonical());
                }
            }
        }
    }

    // Called from several places, and large.
    #[inline(never)]
    unsafe fn map(
        &self, cells: Cells<5>, next: Option<Cells<5>>, known: Known<'_, T>, room: &mut Stages<'_, T>,
    ) {
        let Cells { offsets, steps, n } = cells;
        let raw = room.raw.as_mut_ptr().cast::<u8>();
        let at = |operand: usize, k: usize| self.at[operand].pointer().wrapping_offset(offsets[k]);
        let to = [room.g.as_mut_ptr(), room.x.as_mut_ptr()];
        // SAFETY: the operands have these cells; every stage holds them, and none is one of the
        // others.
        unsafe {
            let [g, x] = self.pair(cells, known, to, room.stages, raw);
            let [out, other] = [1, 2].map(|k| room.stages[k].as_mut_ptr());
            const ORDER: [usize; 4] = [CENTRE, MEAN, TILT, SLOPE];
            match known {
                Known::One(known) => (self.kernels.back)(out, g, x, n, ORDER.map(|k| known[k])),
                Known::Each(lists) => (self.kernels.backs)(out, g, x, n, ORDER.map(|k| lists[k].as_ptr())),
            }
            let Scaling { alpha, beta } = self.step.scaling;
            if !self.step.scaling.is_move() {
                let old = match beta != 0.0 {
                    true => self.access.row(at(DX, 0), steps[0], n, other, raw),
                    false => std::ptr::null(),
                };
                (self.kernels.blend)(out, old, n, T::from_f64(alpha), T::from_f64(beta));
            }
            if self.step.splits {
                if g != to[0].cast_const() {
                    // Where dy is g and dz lies in its place, all of it is read first.
                    to[0].copy_from_nonoverlapping(g, n);
                }
                (0..n).for_each(|i| to[0].add(i).write(to[0].add(i).read().canonical()));
                self.store.write(at(DZ, 3), steps[3], to[0], n, raw);
            }
            let next =
                |k: usize, operand: usize| next.map(|next| self.access.lines(&next, k, self.at[operand]));
            self.store.write_meanwhile(at(DX, 0), steps[0], out, n, raw, [next(1, X), next(2, DY)]);
        }
    }
}
