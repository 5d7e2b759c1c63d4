//! The contraction that multiplies two matrices, by where they lie.

use super::view::View;
use crate::error::{Error, Result};
use crate::layout::Axis;
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract, Epilogue, Role};
use crate::ops::{Compute, Scaling};

/// What is added to a product, and what is computed of the sum.
#[derive(Clone, Copy, Default)]
pub(super) struct Terms {
    /// Factor of what was there.
    pub beta: f64,
    /// Added first: as the product, or repeated.
    pub residual: Option<View>,
    /// Added then.
    pub bias: Option<View>,
    /// Computed of the whole.
    pub activation: Option<Activation>,
}

/// The error of a product whose dims do not fit.
pub(super) fn misfit(c: &View, a: &View, b: &View) -> Error {
    Error::unsupported(format!("a product of matrices {} and {} to {}", a.dims(), b.dims(), c.dims()))
}

/// The step of a product of matrices, whose offsets count from the views; `None` if it has no
/// elements.
///
/// # Errors
/// Not supported: dims that do not fit.
pub(super) fn product_of(compute: Compute, [c, a, b]: [&View; 3], terms: &Terms) -> Result<Option<Contract>> {
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

/// A contraction whose offsets count from these views, in canonical form; `None` if it has no
/// elements.
pub(super) fn counted_from(mut step: Contract, views: &[&View]) -> Option<Contract> {
    let (residual, bias) = (step.epilogue.z.map(|_| 3), step.epilogue.bias.map(|_| 4));
    for (place, view) in [0, 1, 2].into_iter().chain(residual).chain(bias).zip(views) {
        step.nest.offsets[place] += view.offset;
    }
    (!step.is_empty()).then(|| step.canonical())
}
