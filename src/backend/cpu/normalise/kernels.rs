//! The loops of a normalisation over numbers side by side: sums in binary64, and the maps.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::cpu::stream::{fetch, fetch_run};
use crate::backend::function::Real;
use crate::ops::normalise::Tree;

pub(super) const LANES: usize = Tree::RUNS.lanes;
/// Lanes at a time: what registers hold of two sums.
const HALF: usize = 16;
/// Groups at a time: a line of binary32.
pub(super) const GROUPS: usize = 16;
/// What [`Kernels::spread`] writes at once, at most: behind a group comes the next, or room.
pub(super) const SPAN: usize = 16;

/// See [`Kernels::block`].
type Block<T> =
    unsafe fn(g: *const T, x: *const T, n: usize, shift: [f64; 2], soon: &[*const u8]) -> [f64; 2];

/// The functions for one computation type and the instructions of the machine. All need a processor
/// that has them.
#[derive(Clone, Copy)]
pub(super) struct Kernels<T> {
    /// The block of one group: sums of `d` and of `d * e`, where `d = g - shift[0]` and
    /// `e = x - shift[1]`. Meanwhile asks for the lines at `soon`, any addresses.
    ///
    /// # Safety
    /// `n` numbers are readable at both.
    pub block: Block<T>,
    /// The same for `width` groups of `n` numbers each, at most a block's lanes. Row `i` of either
    /// matrix, `pitch` numbers behind the one before, has the groups' numbers `i`; `shifts` and
    /// `sums` have `width` of the first, then `width` of the second. Sums are written.
    ///
    /// # Safety
    /// As the description says; `GROUPS` more numbers than the last row has, and shifts than there
    /// are, are readable.
    pub columns: unsafe fn(
        sums: *mut f64,
        matrices: [*const T; 2],
        pitch: usize,
        n: usize,
        width: usize,
        shifts: *const f64,
    ),
    /// Mean and variance of `width` groups of `m` elements in place of their sums, and beside that
    /// the mean and the inverse deviation as numbers.
    ///
    /// # Safety
    /// As the description says.
    pub moments: unsafe fn(
        sums: *mut f64,
        shifts: *const f64,
        width: usize,
        m: f64,
        epsilon: f64,
        mean: *mut T,
        inverse: *mut T,
    ),
    /// The gradient of the scale of `width` groups of `m` elements in place of the second sum, and
    /// what a map takes from both: centre and tilt.
    ///
    /// # Safety
    /// As the description says.
    pub gradients:
        unsafe fn(sums: *mut f64, inverse: *const T, width: usize, m: f64, centre: *mut T, tilt: *mut T),
    /// The same for `width` groups, of which `rows` hold an element each; `shifts` and `sums` have
    /// `width` of the first, then `width` of the second. Sums are added to.
    ///
    /// # Safety
    /// As the description says.
    pub rows: unsafe fn(sums: *mut f64, g: &[*const T], x: &[*const T], width: usize, shifts: *const f64),
    /// The number of each of `width` groups `n` times, one group behind the other.
    ///
    /// # Safety
    /// The groups' numbers are readable, and `SPAN` more than all of them writable.
    pub spread: unsafe fn(to: *mut T, from: *const T, n: usize, width: usize),
    /// `out[i] = (x[i] - mean) * slope + offset` with coefficients of one group.
    ///
    /// # Safety
    /// `n` numbers are readable at `x` and writable at `out`, which do not overlap.
    pub line: unsafe fn(out: *mut T, x: *const T, n: usize, mean: T, slope: T, offset: T),
    /// The same with coefficients side by side.
    ///
    /// # Safety
    /// As the others, also for the coefficients.
    pub lines:
        unsafe fn(out: *mut T, x: *const T, n: usize, mean: *const T, slope: *const T, offset: *const T),
    /// `out[i] = (g[i] - centre - (x[i] - mean) * tilt) * slope`.
    ///
    /// # Safety
    /// As the others.
    pub back: unsafe fn(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [T; 4]),
    /// The same with coefficients side by side: centre, mean, tilt, slope.
    ///
    /// # Safety
    /// As the others.
    pub backs: unsafe fn(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [*const T; 4]),
    /// `out[i] = out[i] * alpha + old[i] * beta`, the old ones only if there are any; every NaN the
    /// same.
    ///
    /// # Safety
    /// As the others.
    pub blend: unsafe fn(out: *mut T, old: *const T, n: usize, alpha: T, beta: T),
}

impl<T: Real> Kernels<T> {
    pub fn of(isa: Isa) -> Self {
        Kernels {
            block: block::of(isa),
            columns: columns::of(isa),
            moments: moments::of(isa),
            gradients: gradients::of(isa),
            rows: rows::of(isa),
            spread: spread::of(isa),
            line: line::of(isa),
            lines: lines::of(isa),
            back: back::of(isa),
            backs: backs::of(isa),
            blend: blend::of(isa),
        }
    }
}

/// # Safety
/// As for [`Kernels::block`].
#[vectorized]
unsafe fn block<T: Real>(
    g: *const T, x: *const T, n: usize, shift: [f64; 2], soon: &[*const u8],
) -> [f64; 2] {
    let mut lanes = [[0.0_f64; LANES]; 2];
    let whole = n / LANES;
    let mut soon = soon.chunks(soon.len().div_ceil(2 * whole.max(1)).max(1));
    for first in (0..LANES).step_by(HALF) {
        let mut sums = [[0.0_f64; HALF]; 2];
        for i in 0..whole {
            soon.next().unwrap_or_default().iter().for_each(|&line| fetch(line));
            // SAFETY: inside the first n numbers.
            let (g, x) = unsafe {
                let at = i * LANES + first;
                (
                    g.add(at).cast::<[T; HALF]>().read_unaligned(),
                    x.add(at).cast::<[T; HALF]>().read_unaligned(),
                )
            };
            for j in 0..HALF {
                let (d, e) = (g[j].to_f64() - shift[0], x[j].to_f64() - shift[1]);
                sums[0][j] += d;
                sums[1][j] += d * e;
            }
        }
        (0..2).for_each(|k| lanes[k][first..first + HALF].copy_from_slice(&sums[k]));
    }
    #[allow(clippy::needless_range_loop, reason = "one number indexes both lists")]
    for j in 0..n % LANES {
        // SAFETY: inside the first n numbers.
        let (g, x) = unsafe { (g.add(whole * LANES + j).read(), x.add(whole * LANES + j).read()) };
        let (d, e) = (g.to_f64() - shift[0], x.to_f64() - shift[1]);
        lanes[0][j] += d;
        lanes[1][j] += d * e;
    }
    joined(lanes)
}

/// The sum of all lanes, of either kind.
#[inline(always)]
fn joined(mut lanes: [[f64; LANES]; 2]) -> [f64; 2] {
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for lanes in &mut lanes {
            (0..half).for_each(|j| lanes[j] += lanes[j + half]);
        }
    }
    [lanes[0][0], lanes[1][0]]
}

/// # Safety
/// As for [`Kernels::columns`].
#[vectorized]
unsafe fn columns<T: Real>(
    sums: *mut f64, matrices: [*const T; 2], pitch: usize, n: usize, width: usize, shifts: *const f64,
) {
    let mut lanes = [[[0.0_f64; GROUPS]; 2]; LANES];
    for first in (0..width).step_by(GROUPS) {
        // SAFETY: groups of these, or what the caller has behind them.
        unsafe {
            let [low, high] =
                [0, width].map(|at| shifts.add(at + first).cast::<[f64; GROUPS]>().read_unaligned());
            for (i, [sums, products]) in lanes[..n].iter_mut().enumerate() {
                let [g, x] =
                    matrices.map(|m| m.add(i * pitch + first).cast::<[T; GROUPS]>().read_unaligned());
                for j in 0..GROUPS {
                    let (d, e) = (g[j].to_f64() - low[j], x[j].to_f64() - high[j]);
                    // From +0, as every lane: -0 becomes +0.
                    sums[j] = 0.0 + d;
                    products[j] = 0.0 + d * e;
                }
            }
        }
        // Lanes behind the last are +0, which changes no sum, for none is -0.
        let mut left = n;
        while left > 1 {
            let half = left.next_power_of_two() / 2;
            let (into, from) = lanes[..left].split_at_mut(half);
            for (into, from) in into.iter_mut().zip(from) {
                (0..2).for_each(|k| (0..GROUPS).for_each(|j| into[k][j] += from[k][j]));
            }
            left = half;
        }
        for (k, joined) in lanes[0].iter().enumerate() {
            let to = sums.wrapping_add(k * width + first);
            // SAFETY: sums of the groups.
            unsafe { to.copy_from_nonoverlapping(joined.as_ptr(), GROUPS.min(width - first)) };
        }
    }
}

/// # Safety
/// As for [`Kernels::moments`].
#[vectorized]
unsafe fn moments<T: Real>(
    sums: *mut f64, shifts: *const f64, width: usize, m: f64, epsilon: f64, mean: *mut T, inverse: *mut T,
) {
    for j in 0..width {
        // SAFETY: one of the groups.
        unsafe {
            let places = [sums.add(j), sums.add(width + j)];
            let moments = super::moments(places.map(|place| place.read()), shifts.add(j).read(), m);
            (0..2).for_each(|k| places[k].write(moments[k]));
            mean.add(j).write(T::from_f64(moments[0]));
            inverse.add(j).write(T::from_f64(1.0 / (moments[1] + epsilon).sqrt()));
        }
    }
}

/// # Safety
/// As for [`Kernels::gradients`].
#[vectorized]
unsafe fn gradients<T: Real>(
    sums: *mut f64, inverse: *const T, width: usize, m: f64, centre: *mut T, tilt: *mut T,
) {
    for j in 0..width {
        // SAFETY: one of the groups.
        unsafe {
            let (d_bias, inverse) = (sums.add(j).read(), inverse.add(j).read().to_f64());
            let d_scale = sums.add(width + j).read() * inverse;
            sums.add(width + j).write(d_scale);
            centre.add(j).write(T::from_f64(d_bias / m));
            tilt.add(j).write(T::from_f64(inverse * d_scale / m));
        }
    }
}

/// # Safety
/// As for [`Kernels::rows`].
#[vectorized]
unsafe fn rows<T: Real>(sums: *mut f64, g: &[*const T], x: &[*const T], width: usize, shifts: *const f64) {
    // Where the rows behind these lie, if they are as far apart: pieces of rows are no line that
    // the processor foresees.
    let ahead = |rows: &[*const T]| match rows {
        [one, two, ..] => two.addr().wrapping_sub(one.addr()).wrapping_mul(rows.len()),
        _ => 0,
    };
    let ahead = [ahead(g), ahead(x)];
    let ask = |from: *const T, ahead: usize| {
        fetch_run(from.cast::<u8>().wrapping_add(ahead), GROUPS * size_of::<T>());
    };
    let mut first = 0;
    while first + GROUPS <= width {
        // SAFETY: a piece of the groups.
        unsafe {
            let low = shifts.add(first).cast::<[f64; GROUPS]>().read_unaligned();
            let high = shifts.add(width + first).cast::<[f64; GROUPS]>().read_unaligned();
            let places = [0, width].map(|at| sums.add(at + first).cast::<[f64; GROUPS]>());
            let mut joined = places.map(|place| place.read_unaligned());
            for (g, x) in g.iter().zip(x) {
                ask(g.add(first), ahead[0]);
                ask(x.add(first), ahead[1]);
                let g = g.add(first).cast::<[T; GROUPS]>().read_unaligned();
                let x = x.add(first).cast::<[T; GROUPS]>().read_unaligned();
                for j in 0..GROUPS {
                    let (d, e) = (g[j].to_f64() - low[j], x[j].to_f64() - high[j]);
                    joined[0][j] += d;
                    joined[1][j] += d * e;
                }
            }
            (0..2).for_each(|k| places[k].write_unaligned(joined[k]));
        }
        first += GROUPS;
    }
    for j in first..width {
        // SAFETY: one of the groups.
        unsafe {
            let (low, high) = (shifts.add(j).read(), shifts.add(width + j).read());
            let mut joined = [sums.add(j).read(), sums.add(width + j).read()];
            for (g, x) in g.iter().zip(x) {
                let (d, e) = (g.add(j).read().to_f64() - low, x.add(j).read().to_f64() - high);
                joined[0] += d;
                joined[1] += d * e;
            }
            sums.add(j).write(joined[0]);
            sums.add(width + j).write(joined[1]);
        }
    }
}

/// # Safety
/// As for [`Kernels::spread`].
#[vectorized]
unsafe fn spread<T: Real>(to: *mut T, from: *const T, n: usize, width: usize) {
    for j in 0..width {
        // SAFETY: there is a number for each group, and room for `n` copies of it.
        unsafe {
            let number = from.add(j).read();
            let to = to.add(j * n);
            match n {
                ..=8 => to.cast::<[T; SPAN / 2]>().write_unaligned([number; SPAN / 2]),
                _ => (0..n).step_by(SPAN).for_each(|at| {
                    to.add(at).cast::<[T; SPAN]>().write_unaligned([number; SPAN]);
                }),
            }
        }
    }
}

/// # Safety
/// As for [`Kernels::line`].
#[vectorized]
unsafe fn line<T: Real>(out: *mut T, x: *const T, n: usize, mean: T, slope: T, offset: T) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe { out.add(i).write(((x.add(i).read() - mean) * slope + offset).canonical()) };
    }
}

/// # Safety
/// As for [`Kernels::lines`].
#[vectorized]
unsafe fn lines<T: Real>(
    out: *mut T, x: *const T, n: usize, mean: *const T, slope: *const T, offset: *const T,
) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let r = (x.add(i).read() - mean.add(i).read()) * slope.add(i).read() + offset.add(i).read();
            out.add(i).write(r.canonical());
        }
    }
}

/// # Safety
/// As for [`Kernels::back`].
#[vectorized]
unsafe fn back<T: Real>(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [T; 4]) {
    let [centre, mean, tilt, slope] = coefficients;
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let r = (g.add(i).read() - centre - (x.add(i).read() - mean) * tilt) * slope;
            out.add(i).write(r.canonical());
        }
    }
}

/// # Safety
/// As for [`Kernels::backs`].
#[vectorized]
unsafe fn backs<T: Real>(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [*const T; 4]) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe {
            let [centre, mean, tilt, slope] = coefficients.map(|c| c.add(i).read());
            let r = (g.add(i).read() - centre - (x.add(i).read() - mean) * tilt) * slope;
            out.add(i).write(r.canonical());
        }
    }
}

/// # Safety
/// As for [`Kernels::blend`].
#[vectorized]
unsafe fn blend<T: Real>(out: *mut T, old: *const T, n: usize, alpha: T, beta: T) {
    for i in 0..n {
        // SAFETY: i < n; there are old ones unless the pointer is null.
        unsafe {
            let mut r = out.add(i).read() * alpha;
            if !old.is_null() {
                r = r + old.add(i).read() * beta;
            }
            out.add(i).write(r.canonical());
        }
    }
}
