//! The loops of functions of groups: the terms that are summed up, and the results.

use cudnn_shim_macros::vectorized;

use crate::backend::cpu::Isa;
use crate::backend::function::Real;
use crate::backend::row_function::RowFormula;
use crate::dtype::numbers::{IN_STEP, IN_STEP_PORTABLE, Together};

/// The loops of one function, for the instruction set of the machine. Statistics are one for all
/// elements, or one each.
pub(super) struct Functions<T> {
    /// `out[i] = term(x[i], dy[i], peak)`.
    ///
    /// # Safety
    /// There are `count` of the operands that are read, as many statistics if each element has its
    /// own, else one, and room for `count` terms, which overlap nothing.
    pub terms: unsafe fn(out: *mut T, operands: [*const T; 2], peak: *const T, count: usize),
    /// `out[i] = result(x[i], dy[i], term[i], peak, statistic)`.
    ///
    /// # Safety
    /// As for `terms`, and there are as many terms if results are computed from them; else
    /// operands.
    pub results: unsafe fn(
        out: *mut T,
        operands: [*const T; 2],
        term: *const T,
        statistics: [*const T; 2],
        count: usize,
    ),
}

impl<T: Real> Functions<T> {
    pub fn of<F: RowFormula>(isa: Isa, each: bool) -> Self {
        if each { Self::with::<F, true>(isa) } else { Self::with::<F, false>(isa) }
    }

    fn with<F: RowFormula, const EACH: bool>(isa: Isa) -> Self {
        Functions { terms: terms::of::<T, F, EACH>(isa), results: results::of::<T, F, EACH>(isa) }
    }
}

/// Elements that fill vectors of any level.
const FULL: usize = 16;

/// # Safety
/// As for [`Functions::terms`].
#[vectorized(IN_STEP_PORTABLE, IN_STEP, IN_STEP)]
unsafe fn terms<T: Real, F: RowFormula, const EACH: bool, const TOGETHER: usize>(
    out: *mut T, [x, dy]: [*const T; 2], peak: *const T, count: usize,
) {
    let step = |first: usize| {
        let dy = if F::ARITY > 1 { dy.wrapping_add(first) } else { dy };
        (
            out.wrapping_add(first),
            [x.wrapping_add(first), dy],
            peak.wrapping_add(if EACH { first } else { 0 }),
        )
    };
    let steps = TOGETHER * FULL;
    // SAFETY: elements below `count`. Some are computed twice, which costs less than the last ones
    // apart.
    unsafe {
        // A term without a peak is no long chain of operations.
        if F::HAS_PEAK && TOGETHER > 1 && count >= steps {
            for first in (0..count).step_by(steps) {
                let (out, operands, peak) = step(first.min(count - steps));
                terms_in_step::<T, F, EACH, TOGETHER>(out, operands, peak, FULL);
            }
            return;
        }
        let full = count / FULL * FULL;
        terms_in_step::<T, F, EACH, 1>(out, [x, dy], peak, full);
        if full < count {
            let last = FULL.min(count);
            let (out, operands, peak) = step(count - last);
            terms_in_step::<T, F, EACH, 1>(out, operands, peak, last);
        }
    }
}

/// The terms of `N` runs of `n` elements, one behind the other.
///
/// # Safety
/// As for [`Functions::terms`], with `N * n` elements.
#[inline(always)]
unsafe fn terms_in_step<T: Real, F: RowFormula, const EACH: bool, const N: usize>(
    out: *mut T, [x, dy]: [*const T; 2], peak: *const T, n: usize,
) {
    for i in 0..n {
        // SAFETY: `N * n` elements are readable at each operand, and as many terms writable.
        unsafe {
            let mut operands = [Together([T::ZERO; N]); 3];
            for j in 0..N {
                let k = j * n + i;
                operands[0].0[j] = x.add(k).read();
                if F::ARITY > 1 {
                    operands[1].0[j] = dy.add(k).read();
                }
                operands[2].0[j] = peak.add(if EACH { k } else { 0 }).read();
            }
            let [x, dy, peak] = operands;
            let terms = F::term(x, dy, peak);
            for j in 0..N {
                out.add(j * n + i).write(terms.0[j]);
            }
        }
    }
}

/// # Safety
/// As for [`Functions::results`].
#[vectorized]
unsafe fn results<T: Real, F: RowFormula, const EACH: bool>(
    out: *mut T, [x, dy]: [*const T; 2], term: *const T, [peak, statistic]: [*const T; 2], count: usize,
) {
    for i in 0..count {
        // SAFETY: there are `n` terms and operands, and a sum for each group or for all.
        unsafe {
            let k = if EACH { i } else { 0 };
            let read = |from: *const T, reads: bool| if reads { from.add(i).read() } else { T::ZERO };
            let (x, dy) = (read(x, !F::FROM_TERM), read(dy, F::ARITY > 1));
            let term = read(term, F::FROM_TERM);
            out.add(i).write(F::result(x, dy, term, peak.add(k).read(), statistic.add(k).read()));
        }
    }
}
