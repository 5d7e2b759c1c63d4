//! The loops of a normalisation over numbers side by side: sums in binary64, and the maps.

use crate::backend::cpu::Isa;
use crate::backend::cpu::stream::{fetch, fetch_run};
use crate::backend::function::Real;
use crate::ops::normalise::Tree;

const LANES: usize = Tree::RUNS.lanes;
/// Lanes at a time: what registers hold of two sums.
const HALF: usize = 16;
/// Groups at a time: a line of binary32.
const PIECE: usize = 16;
/// What [`Kernels::spread`] writes at once, at most: behind a group comes the next, or room.
pub(super) const SPAN: usize = 16;

/// See [`Kernels::block`].
type Block<T> =
    unsafe fn(g: *const T, x: *const T, n: usize, shift: [f64; 2], soon: &[*const u8]) -> [f64; 2];

/// The functions for one computation type and the instructions of the machine. All need a processor that has them.
#[derive(Clone, Copy)]
pub(super) struct Kernels<T> {
    /// The block of one group: sums of `d` and of `d * e`, where `d = g - shift[0]` and `e = x - shift[1]`. Meanwhile asks for the
    /// lines at `soon`, any addresses.
    ///
    /// # Safety
    /// `n` numbers are readable at both.
    pub block: Block<T>,
    /// The same for `width` groups of `n` each, one behind the other; `shifts` and `sums` have `width` of the first, then `width` of
    /// the second. Sums are written.
    ///
    /// # Safety
    /// As the description says.
    pub blocks:
        unsafe fn(sums: *mut f64, g: *const T, x: *const T, n: usize, width: usize, shifts: *const f64),
    /// The same for `width` groups, of which `rows` hold an element each; `shifts` and `sums` have `width` of the first,
    /// then `width` of the second. Sums are added to.
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
    /// `out[i] = out[i] * alpha + old[i] * beta`, the old ones only if there are any; every NaN the same.
    ///
    /// # Safety
    /// As the others.
    pub blend: unsafe fn(out: *mut T, old: *const T, n: usize, alpha: T, beta: T),
}

impl<T: Real> Kernels<T> {
    pub fn of(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx512() {
            return avx512::kernels::<T>();
        } else if isa.has_avx2() {
            return avx2::kernels::<T>();
        }
        let _ = isa;
        portable::kernels::<T>()
    }
}

/// The kernels, compiled for some instructions.
macro_rules! compiled_for {
    ($level:ident $(, $features:literal)?) => {
        mod $level {
            use super::{Kernels, Real};

            pub(super) fn kernels<T: Real>() -> Kernels<T> {
                Kernels { block, blocks, rows, spread, line, lines, back, backs, blend }
            }

            compiled_for!(@ [$($features)?] block(g: *const T, x: *const T, n: usize, shift: [f64; 2], soon: &[*const u8]) -> [f64; 2]);
            compiled_for!(@ [$($features)?] blocks(sums: *mut f64, g: *const T, x: *const T, n: usize, width: usize, shifts: *const f64) -> ());
            compiled_for!(@ [$($features)?] rows(sums: *mut f64, g: &[*const T], x: &[*const T], width: usize, shifts: *const f64) -> ());
            compiled_for!(@ [$($features)?] spread(to: *mut T, from: *const T, n: usize, width: usize) -> ());
            compiled_for!(@ [$($features)?] line(out: *mut T, x: *const T, n: usize, mean: T, slope: T, offset: T) -> ());
            compiled_for!(@ [$($features)?] lines(out: *mut T, x: *const T, n: usize, mean: *const T, slope: *const T, offset: *const T) -> ());
            compiled_for!(@ [$($features)?] back(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [T; 4]) -> ());
            compiled_for!(@ [$($features)?] backs(out: *mut T, g: *const T, x: *const T, n: usize, coefficients: [*const T; 4]) -> ());
            compiled_for!(@ [$($features)?] blend(out: *mut T, old: *const T, n: usize, alpha: T, beta: T) -> ());
        }
    };
    (@ [$($features:literal)?] $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        /// # Safety
        /// As for the field of [`Kernels`] of this name.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<T: Real>($($argument: $type),*) -> $result {
            // SAFETY: handed on.
            unsafe { super::$name::<T>($($argument),*) }
        }
    };
}
compiled_for!(portable);
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// # Safety
/// As for [`Kernels::block`].
#[inline(always)]
unsafe fn block<T: Real>(
    g: *const T,
    x: *const T,
    n: usize,
    shift: [f64; 2],
    soon: &[*const u8],
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
fn joined<const P: usize>(mut lanes: [[f64; P]; 2]) -> [f64; 2] {
    let mut half = P;
    while half > 1 {
        half /= 2;
        for lanes in &mut lanes {
            (0..half).for_each(|j| lanes[j] += lanes[j + half]);
        }
    }
    [lanes[0][0], lanes[1][0]]
}

/// [`block`] of at most `P` numbers: lanes behind those would be +0, which changes no sum, for none is -0.
///
/// # Safety
/// `P` numbers are readable at both.
#[inline(always)]
unsafe fn few<T: Real, const P: usize>(g: *const T, x: *const T, n: usize, shift: [f64; 2]) -> [f64; 2] {
    // SAFETY: the caller's promise.
    let (g, x) = unsafe { (g.cast::<[T; P]>().read_unaligned(), x.cast::<[T; P]>().read_unaligned()) };
    let mut lanes = [[0.0; P]; 2];
    for j in 0..P {
        let (d, e) = (g[j].to_f64() - shift[0], x[j].to_f64() - shift[1]);
        if j < n {
            // From +0, as every lane: -0 becomes +0.
            lanes[0][j] += d;
            lanes[1][j] += d * e;
        }
    }
    joined(lanes)
}

/// # Safety
/// As for [`Kernels::blocks`].
#[inline(always)]
unsafe fn blocks<T: Real>(
    sums: *mut f64,
    g: *const T,
    x: *const T,
    n: usize,
    width: usize,
    shifts: *const f64,
) {
    for j in 0..width {
        let behind = (width - j) * n;
        // SAFETY: one of the groups, and what is read with it lies in those behind.
        unsafe {
            let shift = [shifts.add(j).read(), shifts.add(width + j).read()];
            let (g, x) = (g.add(j * n), x.add(j * n));
            let [first, second] = match n {
                ..=8 if behind >= 8 => few::<T, 8>(g, x, n, shift),
                9..=16 if behind >= 16 => few::<T, 16>(g, x, n, shift),
                17..=32 if behind >= 32 => few::<T, 32>(g, x, n, shift),
                _ => block(g, x, n, shift, &[]),
            };
            sums.add(j).write(first);
            sums.add(width + j).write(second);
        }
    }
}

/// # Safety
/// As for [`Kernels::rows`].
#[inline(always)]
unsafe fn rows<T: Real>(sums: *mut f64, g: &[*const T], x: &[*const T], width: usize, shifts: *const f64) {
    // Where the rows behind these lie, if they are as far apart: pieces of rows are no line that the processor foresees.
    let ahead = |rows: &[*const T]| match rows {
        [one, two, ..] => two.addr().wrapping_sub(one.addr()).wrapping_mul(rows.len()),
        _ => 0,
    };
    let ahead = [ahead(g), ahead(x)];
    let ask = |from: *const T, ahead: usize| {
        fetch_run(from.cast::<u8>().wrapping_add(ahead), PIECE * size_of::<T>());
    };
    let mut first = 0;
    while first + PIECE <= width {
        // SAFETY: a piece of the groups.
        unsafe {
            let low = shifts.add(first).cast::<[f64; PIECE]>().read_unaligned();
            let high = shifts.add(width + first).cast::<[f64; PIECE]>().read_unaligned();
            let places = [0, width].map(|at| sums.add(at + first).cast::<[f64; PIECE]>());
            let mut joined = places.map(|place| place.read_unaligned());
            for (g, x) in g.iter().zip(x) {
                ask(g.add(first), ahead[0]);
                ask(x.add(first), ahead[1]);
                let g = g.add(first).cast::<[T; PIECE]>().read_unaligned();
                let x = x.add(first).cast::<[T; PIECE]>().read_unaligned();
                for j in 0..PIECE {
                    let (d, e) = (g[j].to_f64() - low[j], x[j].to_f64() - high[j]);
                    joined[0][j] += d;
                    joined[1][j] += d * e;
                }
            }
            (0..2).for_each(|k| places[k].write_unaligned(joined[k]));
        }
        first += PIECE;
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
#[inline(always)]
unsafe fn spread<T: Real>(to: *mut T, from: *const T, n: usize, width: usize) {
    for j in 0..width {
        // SAFETY: the caller's promise.
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
#[inline(always)]
unsafe fn line<T: Real>(out: *mut T, x: *const T, n: usize, mean: T, slope: T, offset: T) {
    for i in 0..n {
        // SAFETY: i < n.
        unsafe { out.add(i).write(((x.add(i).read() - mean) * slope + offset).canonical()) };
    }
}

/// # Safety
/// As for [`Kernels::lines`].
#[inline(always)]
unsafe fn lines<T: Real>(
    out: *mut T,
    x: *const T,
    n: usize,
    mean: *const T,
    slope: *const T,
    offset: *const T,
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
#[inline(always)]
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
#[inline(always)]
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
#[inline(always)]
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
