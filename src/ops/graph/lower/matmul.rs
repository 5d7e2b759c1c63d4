//! Products of matrices: one contraction, whose batch repeats matrices of the smaller operand.

use super::super::product::{Terms, misfit, product_of};
use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Matmul, Port};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::activation::Activation;

/// Adds the steps.
///
/// # Errors
/// Not supported: dims that do not fit; a product of BOOLEAN; counts of another rank.
pub fn lower(of: &Matmul, steps: &mut Builder<'_>) -> Result<()> {
    let c = steps.write(Port::C)?;
    let [mut a, mut b] = [steps.read(Port::A)?, steps.read(Port::B)?];
    for (view, swaps) in [&mut a, &mut b].into_iter().zip(of.transposed) {
        *view = if swaps { transposed(&steps.flat(view)?)? } else { *view };
    }
    let rows = steps.given(Port::MOverride)?;
    let columns = steps.given(Port::NOverride)?;
    let terms = steps.given(Port::KOverride)?;
    let rank = c.dims().rank();
    if rank < 2 || a.dims().rank() != rank || b.dims().rank() != rank {
        return Err(misfit(&c, &a, &b));
    }
    if c.is_empty() {
        return Ok(());
    }
    if let Some(terms) = &terms {
        // What does not count may be anything, of either factor.
        a = counted(steps, &a, &[(rank - 1, terms)], 0.0)?;
        b = counted(steps, &b, &[(rank - 2, terms)], 0.0)?;
    }
    let [a, b] = [factor(steps, &a)?, factor(steps, &b)?];
    let counts: Vec<(usize, &View)> = [(rank - 2, &rows), (rank - 1, &columns)]
        .into_iter()
        .filter_map(|(axis, count)| Some((axis, count.as_ref()?)))
        .collect();
    if counts.is_empty() && c.layout.split.is_none() && c.scalar != Scalar::Bool {
        return product(steps, &c, &a, &b, 0.0);
    }
    let flat = steps.wide(c.dims())?;
    product(steps, &flat, &a, &b, 0.0)?;
    let kept = counted(steps, &flat, &counts, of.padding)?;
    steps.transform(&c, &kept)
}

/// `c = activation(a b + residual + bias)`
///
/// # Errors
/// Not supported: dims that do not fit.
pub(super) fn fused(of: &Matmul, activation: Option<Activation>, steps: &mut Builder<'_>) -> Result<()> {
    let c = steps.write(Port::C)?;
    let mut factors = [steps.read(Port::A)?, steps.read(Port::B)?];
    for (view, swaps) in factors.iter_mut().zip(of.transposed) {
        let flat = steps.flat(view)?;
        *view = if swaps { transposed(&flat)? } else { flat };
    }
    let rank = c.dims().rank();
    if rank < 2 || c.layout.split.is_some() || factors.iter().any(|factor| factor.dims().rank() != rank) {
        return Err(misfit(&c, &factors[0], &factors[1]));
    }
    if c.is_empty() {
        return Ok(());
    }
    let (residual, bias) = (steps.given(Port::Residual)?, steps.given(Port::Bias)?);
    let terms = Terms { residual, bias, activation, beta: 0.0 };
    product_with(steps, [&c, &factors[0], &factors[1]], &terms)
}

/// `c = a b + c`, of factors that are multiplied as they are.
///
/// # Errors
/// Not supported: dims that do not fit.
pub(super) fn accumulate(of: &Matmul, steps: &mut Builder<'_>) -> Result<()> {
    let c = steps.write(Port::C)?;
    let mut factors = [steps.read(Port::A)?, steps.read(Port::B)?];
    for (view, swaps) in factors.iter_mut().zip(of.transposed) {
        *view = if swaps { transposed(view)? } else { *view };
    }
    product(steps, &c, &factors[0], &factors[1], 1.0)
}

/// Last two dimensions the other way about. Pre: no blocks.
pub(super) fn transposed(view: &View) -> Result<View> {
    let (mut dims, mut strides) = (*view.dims(), view.layout.strides);
    let rank = dims.rank();
    if rank < 2 {
        return Err(Error::unsupported(format!("{dims} is no matrix")));
    }
    dims.swap(rank - 2, rank - 1);
    strides.swap(rank - 2, rank - 1);
    Ok(view.with(dims, strides))
}

/// A copy in which what is not below these counts, by dimension, is a number; the tensor itself
/// without counts.
fn counted(steps: &mut Builder<'_>, view: &View, counts: &[(usize, &View)], value: f64) -> Result<View> {
    if counts.is_empty() || view.is_empty() {
        return Ok(*view);
    }
    let (mut dims, mut flags) = (*view.dims(), Vec::new());
    for &(axis, count) in counts {
        if count.dims().rank() != dims.rank() || count.dims()[axis] != 1 {
            return Err(Error::unsupported(format!("{} counts of {}", count.dims(), view.dims())));
        }
        dims.iter_mut().zip(count.dims().iter()).for_each(|(dim, &other)| *dim = (*dim).max(other));
        flags.push(steps.below(axis, view.dims()[axis], count)?);
    }
    let copy = steps.scratch(view.scalar, &dims)?;
    let other = steps.constant(value, &dims)?;
    steps.keep(&copy, view, &flags, &other)?;
    Ok(copy)
}

/// A factor of a type that is multiplied, without blocks.
pub(super) fn factor(steps: &mut Builder<'_>, view: &View) -> Result<View> {
    if !matches!(view.scalar, Scalar::I32 | Scalar::I64 | Scalar::Bool) {
        return steps.flat(view);
    }
    let copy = steps.scratch(Scalar::F64, view.dims())?;
    steps.transform(&copy, view)?;
    Ok(copy)
}

/// `c = a b + beta c`. Pre: factors of a type that is multiplied, without blocks; c without blocks.
///
/// # Errors
/// Not supported for dims that do not fit.
pub(super) fn product(steps: &mut Builder<'_>, c: &View, a: &View, b: &View, beta: f64) -> Result<()> {
    product_with(steps, [c, a, b], &Terms { beta, ..Terms::default() })
}

fn product_with(steps: &mut Builder<'_>, [c, a, b]: [&View; 3], terms: &Terms) -> Result<()> {
    if let Some(step) = product_of(steps.compute, [c, a, b], terms)? {
        let more = [&terms.residual, &terms.bias].into_iter().flatten();
        steps.contract(step, &[c, a, b].into_iter().chain(more).collect::<Vec<_>>());
    }
    Ok(())
}
