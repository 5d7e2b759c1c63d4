//! The obvious loop of OpTensor: one element at a time.

use super::{load, store};
use crate::backend::function::{Map2, Real, element, factors, with_function, with_real};
use crate::ops::{NanRule, Pointwise, Scaling};

/// Runs `problem` in exactly the order of its loops, so that where destination offsets repeat the last write wins.
///
/// # Safety
/// For every offset triple of the nest, `at[0] + offset` is writable, and readable if `beta != 0`, and the offsets
/// of operands that are read are readable at `at[1]` and `at[2]`; each for one scalar, and aligned to it.
pub unsafe fn op(problem: &Pointwise, at: [*mut u8; 3]) {
    with_real!(problem.compute, T => with_function!(problem.function, F => {
        // SAFETY: handed on.
        unsafe { run::<T, F>(problem, at) }
    }));
}

/// # Safety
/// As for [`op`].
unsafe fn run<T: Real, F: Map2>(problem: &Pointwise, at: [*mut u8; 3]) {
    let factors = factors::<T>(problem.factors);
    problem.nest.for_each(|[c, a, b]| {
        let read = |operand: usize, offset: i64| match operand {
            // SAFETY: the caller promises this cell, as the function reads the operand.
            _ if operand <= F::ARITY => unsafe { load(problem.src, at[operand], offset) },
            _ => T::ZERO,
        };
        let (x, y) = (read(1, a), read(2, b));
        // SAFETY: the caller promises this cell, readable under the condition it names.
        unsafe {
            let result = if problem.factors.beta == 0.0 {
                element::<T, F, false>(x, y, T::ZERO, factors)
            } else {
                element::<T, F, true>(x, y, load(problem.dst, at[0], c), factors)
            };
            store(problem.dst, at[0], c, result, Scaling::MOVE);
        }
    });
}
