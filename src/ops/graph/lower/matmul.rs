//! Products of matrices: one contraction, whose batch repeats matrices of the smaller operand.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Matmul, Port};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Axis;
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract, Epilogue, Role};
use crate::ops::{Compute, Scaling};

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

/// What is added to a product, and what is computed of the sum.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Terms {
    /// Factor of what was there.
    pub beta: f64,
    /// Added first: as the product, or repeated.
    pub residual: Option<View>,
    /// Added then.
    pub bias: Option<View>,
    /// Computed of the whole.
    pub activation: Option<Activation>,
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

fn misfit(c: &View, a: &View, b: &View) -> Error {
    Error::unsupported(format!("a product of matrices {} and {} to {}", a.dims(), b.dims(), c.dims()))
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

/// The step of such a product, whose offsets count from the views; `None` if it has no elements.
///
/// # Errors
/// As for [`product`].
pub(in super::super) fn product_of(
    compute: Compute, [c, a, b]: [&View; 3], terms: &Terms,
) -> Result<Option<Contract>> {
    let (dc, da, db) = (c.dims(), a.dims(), b.dims());
    let rank = dc.rank();
    let misfit = || misfit(c, a, b);
    let (row, column) = (rank - 2, rank - 1);
    let (m, n, k) = (dc[row], dc[column], da[column]);
    if da[row] != m || db[row] != k || db[column] != n {
        return Err(misfit());
    }
    let accumulate = Accumulate::of_bytes([a.scalar, b.scalar], Some(k)).unwrap_or(match compute {
        Compute::Single => Accumulate::Single,
        Compute::Double => Accumulate::Double,
    });
    let epilogue = Epilogue {
        scaling: Scaling { alpha: 1.0, beta: terms.beta },
        z: terms.residual.map(|view| (view.scalar, 1.0)),
        bias: terms.bias.map(|view| view.scalar),
        activation: terms.activation,
    };
    // What has one element repeats it.
    let added = |axis: usize| {
        [&terms.residual, &terms.bias].map(|view| match view {
            Some(view) if view.dims()[axis] > 1 => view.layout.strides[axis],
            _ => 0,
        })
    };
    let mut step = Contract::new([c.scalar, a.scalar, b.scalar], accumulate, epilogue);
    step.allow_tiles_of_rows(crate::mode::allows_tiles());
    for axis in 0..row {
        let extent = dc[axis];
        let [x, y] = [da[axis], db[axis]];
        if extent == 0 {
            return Ok(None);
        }
        if x == 0 || y == 0 || extent % x != 0 || extent % y != 0 {
            return Err(misfit());
        }
        // Neighbours share a matrix of the smaller operand: from the outside in, loops that move
        // all, one, none.
        let stride = |view: &View| view.layout.strides[axis];
        let (few, many) = (x.min(y), x.max(y));
        if many % few != 0 {
            return Err(misfit());
        }
        let mut inner = extent;
        for count in [few, many / few, extent / many] {
            inner /= count;
            // One turn of this loop moves an operand by as many of its matrices as `inner` products
            // need.
            let turn = |view: &View, own: i64| {
                // At most `own`.
                let matrices = (i128::from(inner) * i128::from(own) / i128::from(extent)) as i64;
                if matrices == 0 { 0 } else { matrices * stride(view) }
            };
            let [residual, bias] = added(axis).map(|stride| inner * stride);
            let strides = [inner * stride(c), turn(a, x), turn(b, y), residual, bias];
            step.push(Role::Batch, Axis { extent: count, strides });
        }
    }
    let stride = |view: &View, axis: usize| view.layout.strides[axis];
    let [residual, bias] = added(row);
    step.push(Role::M, Axis { extent: m, strides: [stride(c, row), stride(a, row), 0, residual, bias] });
    let [residual, bias] = added(column);
    step.push(
        Role::N,
        Axis { extent: n, strides: [stride(c, column), 0, stride(b, column), residual, bias] },
    );
    step.push(Role::K, Axis { extent: k, strides: [0, stride(a, column), stride(b, row), 0, 0] });
    Ok(Some(step))
}
