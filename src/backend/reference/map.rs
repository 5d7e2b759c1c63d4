//! The obvious loop of a function: one element at a time. The formula is that of the kernels, from
//! the one table; `tests/basics/formulas` holds it to a witness that shares nothing with either.

use super::{Kind, pointers};
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{
    Constants, Formula, Real, WithFormula, alone, blended, computed, with_function, with_real,
};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::function::MOST_OPERANDS;
use crate::ops::{Map, Scaling};

/// Runs `map` in exactly the order of its loops, so that where destination offsets repeat the last
/// write wins.
///
/// # Safety
/// For every offset tuple of the nest, `at[0] + offset` is writable, and readable if `beta != 0`,
/// and the offsets of operands that are read are readable around theirs; each for one scalar, and
/// aligned to it.
pub unsafe fn map<const N: usize>(map: &Map<N>, at: [*mut u8; N]) {
    with_real!(map.compute, T => {
        let element = with_function(map.function, ElementOf(std::marker::PhantomData::<T>));
        let with = Constants::<T>::new(map.factors, map.parameter);
        map.nest.for_each(|offsets| {
            let mut operands = [T::ZERO; MOST_OPERANDS];
            // SAFETY: every offset of the nest is a cell of its operand, the destination's
            // writable, and readable if it is blended.
            unsafe {
                for k in 1..=map.function.arity() {
                    operands[k - 1] = load(map.scalars[k], at[k], offsets[k]);
                }
                let blends = map.factors.beta != 0.0;
                let old = blends.then(|| load(map.scalars[0], at[0], offsets[0]));
                store(map.scalars[0], at[0], offsets[0], element(operands, old, with), Scaling::MOVE);
            }
        });
    });
}

type Formulated<T> = fn([T; MOST_OPERANDS], Option<T>, Constants<T>) -> T;

struct ElementOf<T>(std::marker::PhantomData<T>);

impl<T: Real> WithFormula for ElementOf<T> {
    type Output = Formulated<T>;

    fn with<F: Formula>(self) -> Formulated<T> {
        |operands, old, with| {
            let computed = computed::<T, F>(operands, with);
            old.map_or(alone::<T, F>(computed), |old| blended(computed, old, with.beta))
        }
    }
}

impl<const N: usize> Kind for Map<N> {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { map(self, pointers(at)) };
        Ok(())
    }
}
