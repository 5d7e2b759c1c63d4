//! Products of matrices: one contraction, whose batch repeats matrices of the smaller operand.

use super::super::Port;
use super::super::steps::Builder;
use super::super::view::View;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Axis;
use crate::ops::Compute;
use crate::ops::contract::{Accumulate, Contract, Epilogue, Role};

/// Adds the steps.
///
/// # Errors
/// Not supported: rows and columns that do not all count; dims that do not fit; a product of BOOLEAN.
pub fn lower(steps: &mut Builder<'_>) -> Result<()> {
    let c = steps.write(Port::C)?;
    let (a, b) = (steps.read(Port::A)?, steps.read(Port::B)?);
    for port in [Port::MOverride, Port::NOverride, Port::KOverride] {
        if steps.given(port)?.is_some() {
            return Err(Error::unsupported(format!("a product of matrices with {}", port.name())));
        }
    }
    let [a, b] = [factor(steps, &a)?, factor(steps, &b)?];
    if c.layout.split.is_some() || c.scalar == Scalar::Bool {
        let flat = steps.wide(c.dims())?;
        product(steps, &flat, &a, &b)?;
        return steps.transform(&c, &flat);
    }
    product(steps, &c, &a, &b)
}

/// A factor of a type that is multiplied, without blocks.
fn factor(steps: &mut Builder<'_>, view: &View) -> Result<View> {
    if !matches!(view.scalar, Scalar::I32 | Scalar::I64 | Scalar::Bool) {
        return steps.flat(view);
    }
    let copy = steps.scratch(Scalar::F64, view.dims())?;
    steps.transform(&copy, view)?;
    Ok(copy)
}

fn product(steps: &mut Builder<'_>, c: &View, a: &View, b: &View) -> Result<()> {
    let (dc, da, db) = (c.dims(), a.dims(), b.dims());
    let rank = dc.rank();
    let misfit = || Error::unsupported(format!("a product of matrices {da} and {db} to {dc}"));
    if rank < 2 || da.rank() != rank || db.rank() != rank {
        return Err(misfit());
    }
    let (row, column) = (rank - 2, rank - 1);
    let (m, n, k) = (dc[row], dc[column], da[column]);
    if da[row] != m || db[row] != k || db[column] != n {
        return Err(misfit());
    }
    let accumulate = Accumulate::of_bytes([a.scalar, b.scalar], Some(k)).unwrap_or(match steps.compute {
        Compute::Single => Accumulate::Single,
        Compute::Double => Accumulate::Double,
    });
    let mut step = Contract::new([c.scalar, a.scalar, b.scalar], accumulate, Epilogue::PLAIN);
    for axis in 0..row {
        let extent = dc[axis];
        let [x, y] = [da[axis], db[axis]];
        if extent == 0 {
            return Ok(());
        }
        if x == 0 || y == 0 || extent % x != 0 || extent % y != 0 {
            return Err(misfit());
        }
        // Neighbours share a matrix of the smaller operand: from the outside in, loops that move all, one, none.
        let stride = |view: &View| view.layout.strides[axis];
        let (few, many) = (x.min(y), x.max(y));
        if many % few != 0 {
            return Err(misfit());
        }
        let mut inner = extent;
        for count in [few, many / few, extent / many] {
            inner /= count;
            // One turn of this loop moves an operand by as many of its matrices as `inner` products need.
            let turn = |view: &View, own: i64| {
                // At most `own`.
                let matrices = (i128::from(inner) * i128::from(own) / i128::from(extent)) as i64;
                if matrices == 0 { 0 } else { matrices * stride(view) }
            };
            let strides = [inner * stride(c), turn(a, x), turn(b, y), 0, 0];
            step.push(Role::Batch, Axis { extent: count, strides });
        }
    }
    let stride = |view: &View, axis: usize| view.layout.strides[axis];
    step.push(Role::M, Axis { extent: m, strides: [stride(c, row), stride(a, row), 0, 0, 0] });
    step.push(Role::N, Axis { extent: n, strides: [stride(c, column), 0, stride(b, column), 0, 0] });
    step.push(Role::K, Axis { extent: k, strides: [0, stride(a, column), stride(b, row), 0, 0] });
    steps.contract(step, [c, a, b]);
    Ok(())
}
