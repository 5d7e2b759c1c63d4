//! The end of most sums: factors, bias and a clip, all in binary32, for neighbours at a time.

use cudnn_shim_macros::vectorized;

use super::run::{Clip, EIGHT, Run, clip};
use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::ops::NanRule;
use crate::ops::contract::{Accumulate, Contract};

/// Results that are computed at once where a run has as many.
const WIDE: usize = 16;

/// `alpha * sum + beta * dst + alpha2 * z + bias`, clipped or not, all in binary32.
#[derive(Clone, Copy)]
pub struct F32Epilogue {
    pub dst: *mut f32,
    pub z: *const f32,
    pub bias: *const f32,
    pub alpha: f32,
    pub beta: f32,
    pub alpha2: f32,
    pub has_bias: bool,
    /// The rule of NaN, and the ceiling.
    pub clip: Clip,
    /// What finishes runs.
    run: unsafe fn(&Ends<'_>, &[[i64; 5]], *const *const f32),
}

// SAFETY: addresses; tasks write disjoint elements.
unsafe impl Sync for F32Epilogue {}

impl F32Epilogue {
    /// For a destination, z and a bias at these addresses, if the epilogue of the step is that
    /// simple.
    pub fn of(step: &Contract, [dst, z, bias]: [*mut u8; 3], isa: Isa) -> Option<F32Epilogue> {
        let epilogue = &step.epilogue;
        let clip = clip(epilogue.activation)?;
        let single = step.dst == Scalar::F32
            && step.accumulate == Accumulate::Single
            && epilogue.z.is_none_or(|(z, _)| z == Scalar::F32)
            && epilogue.bias.is_none_or(|bias| bias == Scalar::F32);
        single.then_some(F32Epilogue {
            dst: dst.cast(),
            z: z.cast_const().cast(),
            bias: bias.cast_const().cast(),
            alpha: epilogue.scaling.alpha as f32,
            beta: epilogue.scaling.beta as f32,
            alpha2: epilogue.z.map_or(0.0, |(_, alpha2)| alpha2 as f32),
            has_bias: epilogue.bias.is_some(),
            clip,
            run: run::of(isa),
        })
    }

    /// Finishes one run of some rows, whose sums begin at `acc`.
    ///
    /// # Safety
    /// As for [`epilogue`](super::generic::epilogue), for every row.
    #[inline(always)]
    pub unsafe fn epilogue(&self, rows: &[[i64; 5]], run: &Run, acc: *const *const f32) {
        // SAFETY: every row has the run's elements and sums, and the function is one for this
        // processor.
        unsafe { (self.run)(&Ends { f32_epilogue: self, run }, rows, acc) }
    }
}

/// Where a run ends.
struct Ends<'a> {
    f32_epilogue: &'a F32Epilogue,
    run: &'a Run,
}

/// The sums of one row, and the addresses of the first element of what they meet.
struct Line {
    acc: *const f32,
    to: *mut f32,
    z: *const f32,
    bias: *const f32,
}

/// How many terms the bias has: none, one for all of a line, one for each element.
const NONE: u8 = 0;
const ONE: u8 = 1;
const MANY: u8 = 2;

impl Ends<'_> {
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn run(&self, rows: &[[i64; 5]], acc: *const *const f32) {
        let F32Epilogue { beta, alpha2, has_bias, .. } = *self.f32_epilogue;
        let [to, .., z, bias] = self.run.by;
        let bias = match bias {
            _ if !has_bias => Some(NONE),
            0 => Some(ONE),
            1 => Some(MANY),
            _ => None,
        };
        let bias = bias.filter(|_| to == 1 && (alpha2 == 0.0 || z == 1));
        // SAFETY: every row has the sums and the operands of the run.
        unsafe {
            match (bias, beta != 0.0 || alpha2 != 0.0) {
                (Some(NONE), false) => self.lines::<NONE, false>(rows, acc),
                (Some(ONE), false) => self.lines::<ONE, false>(rows, acc),
                (Some(MANY), false) => self.lines::<MANY, false>(rows, acc),
                (Some(NONE), true) => self.lines::<NONE, true>(rows, acc),
                (Some(ONE), true) => self.lines::<ONE, true>(rows, acc),
                (Some(MANY), true) => self.lines::<MANY, true>(rows, acc),
                _ => self.scattered(rows, acc),
            }
        }
    }

    /// Where a row's part of the run begins in every operand.
    #[inline(always)]
    fn line(&self, row: &[i64; 5], acc: *const f32) -> Line {
        let place = |slot: usize| (row[slot] + self.run.at[slot]) as isize;
        let F32Epilogue { dst, z, bias, .. } = *self.f32_epilogue;
        Line {
            acc,
            to: dst.wrapping_offset(place(0)),
            z: z.wrapping_offset(place(3)),
            bias: bias.wrapping_offset(place(4)),
        }
    }

    /// Rows of neighbours, with a bias of some kind; `MORE` where other terms are added, too.
    ///
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn lines<const BIAS: u8, const MORE: bool>(&self, rows: &[[i64; 5]], acc: *const *const f32) {
        let len = self.run.len as usize;
        for (m, row) in rows.iter().enumerate() {
            // SAFETY: every row has its sums, and a line of elements.
            unsafe {
                let line = self.line(row, *acc.add(m));
                match len {
                    WIDE.. => self.chunks::<WIDE, BIAS, MORE>(&line, len),
                    EIGHT.. => self.chunks::<EIGHT, BIAS, MORE>(&line, len),
                    _ => self.chunks::<1, BIAS, MORE>(&line, len),
                }
            }
        }
    }

    /// A line of neighbours by chunks of `N`, of which there is one at least. The last one overlaps
    /// the one before it where it has to: it is computed before anything is written, for results
    /// may lie where sums or old results do.
    ///
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn chunks<const N: usize, const BIAS: u8, const MORE: bool>(&self, line: &Line, len: usize) {
        // SAFETY: the line has `N` elements from each of these on: the last ones end where it does.
        unsafe {
            let one = if BIAS == ONE { line.bias.read() } else { 0.0 };
            let last = (!len.is_multiple_of(N)).then(|| self.chunk::<N, BIAS, MORE>(line, one, len - N));
            for i in (0..len - len % N).step_by(N) {
                let x = self.chunk::<N, BIAS, MORE>(line, one, i);
                line.to.add(i).cast::<[f32; N]>().write_unaligned(x);
                turn_by_turn();
            }
            if let Some(last) = last {
                line.to.add(len - N).cast::<[f32; N]>().write_unaligned(last);
            }
        }
    }

    /// The results from the `i`-th on; `one` is the bias if there is one for all.
    ///
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn chunk<const N: usize, const BIAS: u8, const MORE: bool>(
        &self, line: &Line, one: f32, i: usize,
    ) -> [f32; N] {
        // SAFETY: every row has the sums and the operands of these lanes.
        unsafe {
            let bias = match BIAS {
                NONE => None,
                ONE => Some([one; N]),
                _ => Some(some(line.bias, i)),
            };
            self.finished::<N, MORE>(some(line.acc, i), || some(line.to, i), || some(line.z, i), bias)
        }
    }

    /// Rows whose elements are anywhere.
    ///
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn scattered(&self, rows: &[[i64; 5]], acc: *const *const f32) {
        let len = self.run.len as usize;
        for (m, row) in rows.iter().enumerate() {
            // SAFETY: every row has its sums, and a line of elements.
            unsafe {
                let line = self.line(row, *acc.add(m));
                let wide = len - len % WIDE;
                (0..wide).step_by(WIDE).for_each(|i| self.scatter::<WIDE>(&line, i));
                (wide..len).for_each(|i| self.scatter::<1>(&line, i));
            }
        }
    }

    /// `N` elements of such a row.
    ///
    /// # Safety
    /// As for [`F32Epilogue::epilogue`].
    #[inline(always)]
    unsafe fn scatter<const N: usize>(&self, line: &Line, i: usize) {
        let [to, .., z, bias] = self.run.by.map(|by| by as isize);
        let place = |k: usize, by: isize| (i + k) as isize * by;
        // SAFETY: the line has `N` elements from `i` on; operands are read where the epilogue has
        // them.
        unsafe {
            let some = |from: *const f32, by: isize| -> [f32; N] {
                std::array::from_fn(|k| from.wrapping_offset(place(k, by)).read())
            };
            let acc = line.acc.add(i).cast::<[f32; N]>().read_unaligned();
            let bias = self.f32_epilogue.has_bias.then(|| some(line.bias, bias));
            let x = self.finished::<N, true>(acc, || some(line.to, to), || some(line.z, z), bias);
            for (k, x) in x.into_iter().enumerate() {
                line.to.wrapping_offset(place(k, to)).write(x);
            }
        }
    }

    /// What becomes of some sums; operands are read where the epilogue has them.
    #[inline(always)]
    fn finished<const N: usize, const MORE: bool>(
        &self, mut x: [f32; N], old: impl Fn() -> [f32; N], z: impl Fn() -> [f32; N], bias: Option<[f32; N]>,
    ) -> [f32; N] {
        let F32Epilogue { alpha, beta, alpha2, clip, .. } = *self.f32_epilogue;
        x.iter_mut().for_each(|x| *x *= alpha);
        if MORE && beta != 0.0 {
            plus(&mut x, beta, old());
        }
        if MORE && alpha2 != 0.0 {
            plus(&mut x, alpha2, z());
        }
        if let Some(bias) = bias {
            plus(&mut x, 1.0, bias);
        }
        if let Some((rule, ceiling)) = clip {
            x.iter_mut().for_each(|x| *x = clipped(*x, rule, ceiling));
        }
        x
    }
}

/// Keeps the compiler from doing several turns of a loop together, element by element of each, with
/// gathers and scatters.
#[inline(always)]
fn turn_by_turn() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Neighbours from the `i`-th on.
///
/// # Safety
/// They are readable and aligned.
#[inline(always)]
unsafe fn some<const N: usize>(from: *const f32, i: usize) -> [f32; N] {
    // SAFETY: `N` numbers are readable from `i` on.
    unsafe { from.add(i).cast::<[f32; N]>().read_unaligned() }
}

/// `x += factor * y`
#[inline(always)]
fn plus<const N: usize>(x: &mut [f32; N], factor: f32, y: [f32; N]) {
    for k in 0..N {
        x[k] += factor * y[k];
    }
}

/// `min(max(x, 0), ceiling)`
#[inline(always)]
pub fn clipped<R: Real>(x: R, rule: NanRule, ceiling: R) -> R {
    let y = match rule {
        NanRule::Propagate if x <= R::ZERO => R::ZERO,
        NanRule::Ignore if x > R::ZERO => x,
        NanRule::Propagate => x,
        NanRule::Ignore => R::ZERO,
    };
    if y > ceiling { ceiling } else { y }
}

/// [`Ends::run`], compiled for all levels, but not for every kernel that ends in it.
///
/// # Safety
/// As for [`Ends::run`].
#[vectorized]
unsafe fn run(ends: &Ends<'_>, rows: &[[i64; 5]], acc: *const *const f32) {
    // SAFETY: every row has the sums and the operands of the run.
    unsafe { ends.run(rows, acc) }
}
