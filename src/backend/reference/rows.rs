//! The obvious loop of [`Rows`]: one group after the other, each element when it is needed. The
//! formulas are those of the kernels; `tests/basics/formulas` holds them to a witness that shares
//! nothing with either.

use super::reduce::Tree;
use super::{Kind, pointers};
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Fold, GreatestOrNan, Real, Sum, with_real};
use crate::backend::row_function::{RowFormula, with_row_function};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::Rows;

/// Runs `rows` in exactly the order of its loops.
///
/// # Safety
/// Every element of every group is writable at `at[0]`, and readable if `beta != 0`, and readable
/// at the operands that the function reads; all are aligned to their scalars.
pub unsafe fn rows(rows: &Rows, at: [*mut u8; 3]) {
    with_real!(rows.compute, T => with_row_function!(rows.function, F => {
        // SAFETY: every element of every group is there in each operand that the function uses.
        unsafe { run::<T, F>(rows, at) }
    }));
}

/// # Safety
/// As for [`rows`].
unsafe fn run<T: Real, F: RowFormula>(rows: &Rows, at: [*mut u8; 3]) {
    let zero = <T as Element>::ZERO;
    rows.groups.for_each(|group| {
        let mut found = Vec::new();
        rows.elements.for_each(|element| {
            let mut operands = [zero; 2];
            for k in 1..=F::ARITY {
                // SAFETY: every element of the group is readable in the operands of the function.
                operands[k - 1] = unsafe { load::<T>(rows.scalars[k], at[k], group[k] + element[k]) };
            }
            found.push((group[0] + element[0], operands));
        });
        let mut peak = zero;
        if F::HAS_PEAK {
            let all = found.iter().map(|(_, [x, _])| *x);
            peak = all.fold(GreatestOrNan::identity::<T>(), |a, b| GreatestOrNan::join(a, b));
        }
        let mut tree = Tree::<T, Sum>::new();
        found.iter().for_each(|(_, [x, dy])| tree.add(F::term(*x, *dy, peak)));
        let statistic = F::statistic(tree.joined());
        for (offset, [x, dy]) in found {
            let result = F::result(x, dy, F::term(x, dy, peak), peak, statistic);
            // SAFETY: every element of the group is writable at `at[0]`, and readable if
            // `beta != 0`.
            unsafe { store(rows.scalars[0], at[0], offset, result, rows.scaling) };
        }
    });
}

impl Kind for Rows {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { rows(self, pointers(at)) };
        Ok(())
    }
}
