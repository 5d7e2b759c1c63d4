//! The ends of lines: sums that lie in memory become elements of the destination, whatever is added
//! to them.

use std::mem::MaybeUninit;

use cudnn_shim_macros::vectorized;

use super::super::numbers::Numbers;
use super::NarrowEpilogue;
use crate::backend::cpu::contract::epilogue::run::Run;
use crate::backend::cpu::contract::kernel::simd::MAX_NR;
use crate::backend::cpu::wide::Cells;
use crate::dtype::convert::{Element, convert};

/// Finishes the lines of some rows; see [`lines`].
pub(super) type Lines = unsafe fn(&NarrowEpilogue, &[[i64; 5]], &Line<'_>, *const *const u8);

/// What is finished of the sums of a row.
pub struct Line<'a> {
    pub(super) runs: &'a [Run],
    /// How far the terms of the bias are apart, from one lane to the next.
    pub(super) bias_step: i64,
    /// Whether sums may be read up to a whole vector.
    pub(super) is_padded: bool,
}

impl<'a> Line<'a> {
    /// The runs of a tile, if the bias goes on evenly from one to the next.
    pub fn of(runs: &'a [Run]) -> Option<Line<'a>> {
        let first = runs.first()?;
        let bias_step = match runs.get(1) {
            Some(next) if first.len == 1 => (next.at[4] - first.at[4]) / i64::from(next.lane - first.lane),
            _ => first.by[4],
        };
        let even = |run: &Run| {
            run.at[4] - first.at[4] == bias_step * i64::from(run.lane - first.lane)
                && (run.len == 1 || run.by[4] == bias_step)
        };
        runs.iter().all(even).then_some(Line { runs, bias_step, is_padded: true })
    }
}

/// Finishes a line of some rows, whose sums begin at `acc[m]`: in vectors, whatever the lengths of
/// its runs. At most [`MAX_NR`] sums, if they are not one run in place.
///
/// # Safety
/// As for [`NarrowEpilogue::epilogue`], of all runs.
#[vectorized]
pub(super) unsafe fn lines<R: Numbers, E: Cells<R>>(
    narrow: &NarrowEpilogue, rows: &[[i64; 5]], line: &Line<'_>, acc: *const *const u8,
) {
    let (first, last) = (&line.runs[0], &line.runs[line.runs.len() - 1]);
    let len = (last.lane + last.len - first.lane) as usize;
    let in_place = line.runs.len() == 1 && len >= R::LANES && narrow.is_in_place(first);
    let shares_bias = || narrow.bias_size == 0 || rows.iter().all(|row| row[4] == rows[0][4]);
    // SAFETY: every run of every row has its sums and operands.
    unsafe {
        if in_place && !narrow.adds_z && !narrow.is_int && len.is_multiple_of(R::LANES) && shares_bias() {
            return whole_vectors::<R, E>(narrow, rows, line, len, acc);
        }
        for (m, row) in rows.iter().enumerate() {
            let at = |run: &Run| (row[0] + run.at[0]) as isize;
            let z_at = |run: &Run| narrow.z.cast::<E>().wrapping_offset((row[3] + run.at[3]) as isize);
            let bias = narrow.bias.wrapping_offset((row[4] + first.at[4]) as isize * narrow.bias_size);
            let acc = Accumulators::<R>::of::<E>(narrow, line, acc.add(m).read(), bias);
            if in_place {
                let (to, z, end) =
                    (narrow.dst.cast::<E>().wrapping_offset(at(first)), z_at(first), len - R::LANES);
                // The last vector has some of those before as well, which may be written where z
                // lies.
                let mut behind = [E::ZERO; LANES];
                if narrow.adds_z && !len.is_multiple_of(R::LANES) {
                    behind.as_mut_ptr().copy_from_nonoverlapping(z.add(end), R::LANES);
                }
                let mut i = 0_usize;
                loop {
                    let z = if i.is_multiple_of(R::LANES) { z.wrapping_add(i) } else { behind.as_ptr() };
                    E::store(to.add(i), acc.finished::<E>(narrow, i, z, R::LANES));
                    if i == end {
                        break;
                    }
                    i = end.min(i + R::LANES);
                }
                continue;
            }
            let mut added = [const { MaybeUninit::<E>::uninit() }; MAX_NR + LANES];
            let added = added.as_mut_ptr().cast::<E>();
            if narrow.adds_z {
                added.write_bytes(0, MAX_NR + LANES);
                for run in line.runs {
                    let (from, to) = (z_at(run), added.add((run.lane - first.lane) as usize));
                    for k in 0..run.len as usize {
                        to.add(k).write(from.wrapping_offset(k as isize * run.by[3] as isize).read());
                    }
                }
            }
            let mut cells = [const { MaybeUninit::<E>::uninit() }; MAX_NR + LANES];
            let cells = cells.as_mut_ptr().cast::<E>();
            for i in (0..len).step_by(R::LANES) {
                let count = R::LANES.min(len - i);
                E::store(cells.add(i), acc.finished::<E>(narrow, i, added.add(i), count));
            }
            for run in line.runs {
                let (from, to) = (
                    cells.add((run.lane - first.lane) as usize),
                    narrow.dst.cast::<E>().wrapping_offset(at(run)),
                );
                put(from, to, run.len as usize, run.by[0] as isize);
            }
        }
    }
}

/// Finishes whole vectors of neighbours of some rows, each vector with the same terms of the bias:
/// what a row costs beside its vectors counts, for a line is two or three of them.
///
/// # Safety
/// As for [`lines`], of one run in place of `len` sums in binary32, a multiple of the numbers of a
/// vector; nothing is added but a bias, which all rows share.
#[inline(always)]
unsafe fn whole_vectors<R: Numbers, E: Cells<R>>(
    narrow: &NarrowEpilogue, rows: &[[i64; 5]], line: &Line<'_>, len: usize, acc: *const *const u8,
) {
    let run = &line.runs[0];
    let bias_at = rows.first().map_or(0, |row| row[4]) + run.at[4];
    let bias = narrow.bias.wrapping_offset(bias_at as isize * narrow.bias_size);
    // SAFETY: every row has its sums and elements, and the run its terms of the bias.
    unsafe {
        let terms = Accumulators::<R>::of::<E>(narrow, line, acc.read(), bias);
        let alpha = R::splat(narrow.alpha);
        for i in (0..len).step_by(R::LANES) {
            let term = terms.term::<E>(narrow, i, R::LANES);
            for (m, row) in rows.iter().enumerate() {
                let sum = R::load(acc.add(m).read().cast::<f32>().add(i));
                let mut x = alpha.mul(sum);
                if let Some(term) = term {
                    x = x.add(term);
                }
                if let Some((rule, ceiling)) = narrow.clip {
                    x = x.clip(rule, ceiling);
                }
                E::store(narrow.result::<E>((row[0] + run.at[0]) as isize).add(i), x);
            }
        }
    }
}

/// The sums of a row, and the terms of the bias beside them.
struct Accumulators<R> {
    acc: *const u8,
    is_padded: bool,
    bias: *const u8,
    /// Bytes from one term of the bias to the next.
    apart: isize,
    terms: Terms<R>,
}

/// Where the terms of the bias are.
enum Terms<R> {
    /// There are none.
    None,
    /// The same for all sums.
    One(R),
    /// Side by side, in binary32.
    Single,
    /// Side by side, in the type of the results.
    Own,
    /// Apart from each other.
    Apart,
}

impl<R: Numbers> Accumulators<R> {
    /// Of a row whose bias begins there.
    ///
    /// # Safety
    /// The bias has a term for every sum; the processor has such registers, and `E` is the type of
    /// the results.
    #[inline(always)]
    unsafe fn of<E: Cells<R>>(
        narrow: &NarrowEpilogue, line: &Line<'_>, acc: *const u8, bias: *const u8,
    ) -> Accumulators<R> {
        let (size, step) = (narrow.bias_size, line.bias_step as isize);
        let single = size == size_of::<f32>() as isize;
        let terms = match step {
            _ if size == 0 => Terms::None,
            // SAFETY: there is a sum, and a term for it.
            0 => Terms::One(unsafe {
                R::splat(if single { bias.cast::<f32>().read() } else { gathered::<E>(bias, size, 0, 1)[0] })
            }),
            1 if single => Terms::Single,
            1 => Terms::Own,
            _ => Terms::Apart,
        };
        Accumulators { acc, is_padded: line.is_padded, bias, apart: step * size, terms }
    }

    /// What becomes of `count` sums from number `i` on, with z from a place on.
    ///
    /// # Safety
    /// They are readable, and as many terms of the bias, and a vector of z if that is added; as for
    /// [`of`](Accumulators::of).
    #[inline(always)]
    unsafe fn finished<E: Cells<R>>(
        &self, narrow: &NarrowEpilogue, i: usize, z: *const E, count: usize,
    ) -> R {
        let mut few = [0.0; LANES];
        // All sums have four bytes.
        let mut acc = self.acc.cast::<f32>().wrapping_add(i);
        // SAFETY: `count` sums are readable, and terms of the bias.
        unsafe {
            if count < R::LANES && !self.is_padded {
                few.as_mut_ptr().copy_from_nonoverlapping(acc, count);
                acc = few.as_ptr();
            }
            let acc = if narrow.is_int { R::of(acc.cast()) } else { R::load(acc) };
            let mut x = R::splat(narrow.alpha).mul(acc);
            if narrow.adds_z {
                x = x.add(R::splat(narrow.alpha2).mul(E::load(z)));
            }
            if let Some(term) = self.term::<E>(narrow, i, count) {
                x = x.add(term);
            }
            match narrow.clip {
                Some((rule, ceiling)) => x.clip(rule, ceiling),
                None => x,
            }
        }
    }

    /// Terms of the bias for `count` sums from number `i` on, if there is one.
    ///
    /// # Safety
    /// As many are readable; as for [`of`](Accumulators::of).
    #[inline(always)]
    unsafe fn term<E: Cells<R>>(&self, narrow: &NarrowEpilogue, i: usize, count: usize) -> Option<R> {
        let bias = self.bias.wrapping_offset(i as isize * self.apart);
        // SAFETY: `count` terms of the bias are readable.
        unsafe {
            Some(match self.terms {
                Terms::None => return None,
                Terms::One(term) => term,
                Terms::Single if count == R::LANES => R::load(bias.cast()),
                Terms::Own if count == R::LANES => E::load(bias.cast()),
                _ => R::load(gathered::<E>(bias, narrow.bias_size, self.apart, count).as_ptr()),
            })
        }
    }
}

/// A few terms of the bias, `apart` bytes from each other, which are binary32 or `E` by their size.
///
/// # Safety
/// They are readable, and no more than a vector has lanes.
#[inline(never)]
pub(super) unsafe fn gathered<E: Element>(
    bias: *const u8, size: isize, apart: isize, count: usize,
) -> [f32; LANES] {
    let mut some = [0.0; LANES];
    for (k, to) in some[..count].iter_mut().enumerate() {
        let from = bias.wrapping_offset(k as isize * apart);
        let single = size == size_of::<f32>() as isize;
        // SAFETY: `count` terms are readable, of the type that has this size.
        *to = unsafe { if single { from.cast::<f32>().read() } else { convert(from.cast::<E>().read()) } };
    }
    some
}

/// The most numbers of a vector.
const LANES: usize = 16;

/// A few cells to places so far apart.
///
/// # Safety
/// The cells are readable, and apart from their places.
#[inline(always)]
unsafe fn put<E: Copy>(from: *const E, to: *mut E, len: usize, apart: isize) {
    /// Blocks of which the last overlaps the one before, where there are enough cells.
    #[inline(always)]
    unsafe fn blocks<B: Copy>(from: *const u8, to: *mut u8, bytes: usize) -> bool {
        let block = size_of::<B>();
        if bytes < block {
            return false;
        }
        let mut at = 0;
        while at < bytes {
            at = at.min(bytes - block);
            // SAFETY: no block goes beyond `bytes`, which are readable on one side and writable on
            // the other.
            unsafe { to.add(at).cast::<B>().write_unaligned(from.add(at).cast::<B>().read_unaligned()) };
            at += block;
        }
        true
    }
    // SAFETY: `len` cells are readable, and have places that far apart.
    unsafe {
        let bytes = len * size_of::<E>();
        let (source, target) = (from.cast::<u8>(), to.cast::<u8>());
        let done = (apart == 1 || len == 1)
            && (blocks::<[u64; 2]>(source, target, bytes)
                || blocks::<u64>(source, target, bytes)
                || blocks::<u32>(source, target, bytes));
        if !done {
            (0..len).for_each(|k| to.wrapping_offset(k as isize * apart).write(from.add(k).read()));
        }
    }
}
