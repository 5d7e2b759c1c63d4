//! Cells of 16 bits that are computed on as binary32, in one loop: a strip is widened, computed and
//! narrowed before the next one is looked at, so that the processor waits for memory and computes
//! at the same time.

use std::mem::MaybeUninit;

use super::{Cells, MOST_LANES, Register, TOGETHER};
use crate::backend::cpu::stage::Stage;
use crate::backend::cpu::stream::{Distance, LINE, Stream};

/// Cells of a strip.
const STRIP: usize = 128;

/// Computes `n` cells of `to`, strip by strip, and writes them past the caches if `stream` is
/// given: inlined where the processor is known to have the registers.
///
/// `compute` makes the numbers of the operands results, as many as there are places. These are a
/// reference for the sake of the compiler, which knows of it that it is apart from the operands.
///
/// # Safety
/// `n` cells are readable at each operand and writable at `to`, which may be the same cells as any
/// of them. The processor has the instructions of the register and of `stream`. `compute` writes
/// every result, and reads as many numbers.
#[inline(always)]
pub(in crate::backend::cpu) unsafe fn strips<R: Register, E: Cells<R>, const K: usize>(
    to: *mut E, from: [*const E; K], n: usize, stream: Option<Stream>,
    compute: impl Fn(&mut [MaybeUninit<f32>], [*const f32; K]),
) {
    const {
        assert!(size_of::<E>() == 2 && STRIP.is_multiple_of(TOGETHER * R::LANES));
    }
    let mut stages = [const { Stage::<{ STRIP * 4 }>::new() }; K];
    let mut results = Stage::<{ STRIP * 4 }>::new();
    let mut cells = Stage::<{ STRIP * 2 }>::new();
    // SAFETY: that many bytes. What is narrowed behind the last strip has some value.
    unsafe { results.ptr().write_bytes(0, STRIP * 4) };
    let (results, cells) = (results.ptr().cast::<f32>(), cells.ptr().cast::<E>());
    // The first strip ends on a line, so that every later one starts on one.
    let mut strip = STRIP - to.addr() % LINE / size_of::<E>();
    let mut done = 0;
    while done < n {
        strip = strip.min(n - done);
        let mut operands = [std::ptr::null(); K];
        // SAFETY: the strip lies inside the n cells and inside the stages. It is read before it is
        // written.
        unsafe {
            for k in 0..K {
                let stage = stages[k].ptr().cast::<f32>();
                widen::<R, E>(stage, from[k].add(done), strip);
                operands[k] = stage.cast_const();
            }
            compute(std::slice::from_raw_parts_mut(results.cast(), strip), operands);
            let to = to.add(done);
            // One loop for all of them: it is most of the code of a kernel.
            let narrowed = if stream.is_none() && strip == STRIP { to } else { cells };
            narrow::<R, E>(narrowed, results, strip);
            match stream {
                Some(stream) => stream(to.cast(), cells.cast(), strip * size_of::<E>()),
                None if strip < STRIP => to.copy_from_nonoverlapping(cells, strip),
                None => {}
            }
        }
        done += strip;
        strip = STRIP;
    }
}

/// `n` cells as numbers.
///
/// # Safety
/// The cells are readable, and a strip of numbers is writable.
#[inline(always)]
unsafe fn widen<R: Register, E: Cells<R>>(numbers: *mut f32, from: *const E, n: usize) {
    Distance::Read.fetch(from.cast(), n * size_of::<E>());
    let whole = n / R::LANES * R::LANES;
    // SAFETY: `n` cells are readable, and a strip of numbers, a multiple of registers, writable.
    unsafe {
        for i in (0..whole).step_by(R::LANES) {
            numbers.add(i).cast::<R>().write_unaligned(E::load(from.add(i)));
        }
        if whole < n {
            let mut rest = [E::ZERO; MOST_LANES];
            rest.as_mut_ptr().copy_from_nonoverlapping(from.add(whole), n - whole);
            numbers.add(whole).cast::<R>().write_unaligned(E::load(rest.as_ptr()));
        }
    }
}

/// `n` numbers as cells, and some behind them.
///
/// # Safety
/// A strip of numbers is readable, and a strip of cells writable.
#[inline(always)]
unsafe fn narrow<R: Register, E: Cells<R>>(to: *mut E, numbers: *const f32, n: usize) {
    for i in (0..n).step_by(TOGETHER * R::LANES) {
        // SAFETY: a strip of numbers is readable and one of cells writable; it is a multiple of
        // what these registers hold.
        unsafe {
            let mut x = [R::splat(0.0); TOGETHER];
            for (k, x) in x.iter_mut().enumerate() {
                *x = numbers.add(i + k * R::LANES).cast::<R>().read_unaligned();
            }
            super::store(to.add(i), x);
        }
    }
}
