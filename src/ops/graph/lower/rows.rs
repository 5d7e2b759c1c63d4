//! Rows by their numbers, which are data: as edges of a graph, one to each row.

use super::super::steps::Builder;
use super::super::view::View;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::aggregate::{Aggregate, AggregateFunction, Join};

/// Rows from the places that numbers of `[1, rows, 1]` name (forward), or to them, where what is
/// there is added (backward). Pre: packed operands of their own; extents of what the numbers are
/// about, of the rows, and of a row. A zero loses its sign.
///
/// # Errors
/// Not supported: types other than FLOAT, HALF, BFLOAT16; more rows than an integer counts.
pub(super) fn by_number(
    steps: &mut Builder<'_>, function: AggregateFunction, [to, from]: [&View; 2], numbers: &View,
    [sources, rows, columns]: [i64; 3],
) -> Result<()> {
    if !matches!(to.scalar, Scalar::F32 | Scalar::F16 | Scalar::Bf16) || rows >= i64::from(i32::MAX) {
        return Err(Error::unsupported(format!("rows by their numbers, of {}", to.scalar.name())));
    }
    let offsets = steps.piece(Scalar::I32, rows + 1)?;
    let line = steps.line(1, 0, rows + 1)?;
    steps.transform(&offsets, &line)?;
    let indices = steps.piece(Scalar::I32, rows)?;
    steps.transform(&indices.with(Dims::new(&[1, rows, 1]), Dims::new(&[rows, 1, 1])), numbers)?;
    let step = Aggregate {
        function,
        join: Join::Sum,
        sources,
        targets: rows,
        edges: rows,
        columns: [columns, 0, 0],
        scalar: to.scalar,
        index: Scalar::I32,
        mapped: false,
    };
    steps.gather(step, [to, from, &offsets, &indices]);
    Ok(())
}
