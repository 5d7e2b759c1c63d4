//! Pages of a cache, put next to each other.

use super::super::Port;
use super::super::steps::Builder;
use super::super::view::View;
use super::matmul::transposed;
use super::rows::by_number;
use crate::desc::graph::attention::has_rows_last;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::aggregate::AggregateFunction;
use crate::ops::function::Function;

/// `y[b, h, s, d] = container[table[b, s / rows], h, s % rows, d]` for s below the length of b,
/// else 0, where `rows` is that of a page. What the table holds beyond the lengths is not looked
/// at. A zero comes out without its sign. The last two dimensions of y may be the other way about.
///
/// # Errors
/// Not supported: dims that do not fit; types other than FLOAT, HALF, BFLOAT16.
pub fn lower(steps: &mut Builder<'_>) -> Result<()> {
    let mut y = steps.write(Port::Y)?;
    let (x, table) = (steps.read(Port::X)?, steps.read(Port::Table)?);
    if x.dims().rank() == 4
        && y.layout.split.is_none()
        && has_rows_last(y.dims(), &y.layout.strides, x.dims()[3])
    {
        y = transposed(&y)?;
    }
    let lengths = steps.read(Port::LengthKv)?;
    let misfit = || Error::unsupported(format!("pages of {} by {} to {}", x.dims(), table.dims(), y.dims()));
    let [batch, heads, length, width] = <[i64; 4]>::try_from(&y.dims()[..]).map_err(|_| misfit())?;
    let [pages, own_heads, rows, own_width] = <[i64; 4]>::try_from(&x.dims()[..]).map_err(|_| misfit())?;
    if (heads, width) != (own_heads, own_width)
        || x.scalar != y.scalar
        || lengths.dims()[..] != [batch, 1, 1, 1]
    {
        return Err(misfit());
    }
    if y.is_empty() {
        return Ok(());
    }
    if x.is_empty() {
        return Err(misfit());
    }
    let count = length.div_euclid(rows) + i64::from(length % rows != 0);
    if table.dims()[..] != [batch, 1, count, 1] {
        return Err(misfit());
    }
    let beyond = || Error::unsupported("pages beyond 64 bits");
    let targets =
        batch.checked_mul(count).filter(|&targets| targets < i64::from(i32::MAX)).ok_or_else(beyond)?;
    let columns = heads.checked_mul(rows).and_then(|cells| cells.checked_mul(width)).ok_or_else(beyond)?;
    let cells = targets.checked_mul(columns).ok_or_else(beyond)?;
    // A page is a row of features, and each target has one edge.
    let container = steps.piece_of(&x, pages.checked_mul(columns).ok_or_else(beyond)?)?;
    let loaded = steps.piece(x.scalar, cells)?;
    let begins = steps.line(4, 2, count)?;
    steps.map_with(&begins, Function::First, &[begins], 0.0, [rows as f64, 1.0])?;
    let counts = steps.joined(Function::Less, &begins, &lengths)?;
    let zero = steps.constant(0.0, &[1; 4])?;
    let numbers = steps.wide(table.dims())?;
    steps.keep(&numbers, &table, &[counts], &zero)?;
    let numbers = numbers.with(Dims::new(&[1, targets, 1]), Dims::new(&[targets, 1, 1]));
    steps.tell_numbers(Port::Table, "page table", Some(pages));
    by_number(steps, AggregateFunction::Forward, [&loaded, &container], &numbers, [pages, targets, columns])?;
    // Whole pages, then what is left of the last one.
    let below = steps.below(2, length, &lengths)?;
    let strides = [count * columns, rows * width, columns, width, 1];
    for (first, whole, inner) in [(0, length / rows, rows), (length / rows, 1, length % rows)] {
        if whole * inner == 0 {
            continue;
        }
        let part =
            |view: &View| -> Result<View> { Ok(view.part(2, first * rows, whole * inner, 1)?.cut(2, inner)) };
        let mut from = loaded.with(Dims::new(&[batch, heads, whole, inner, width]), Dims::new(&strides));
        from.offset += first * columns;
        let zero = steps.constant(0.0, &[1; 5])?;
        steps.keep(&part(&y)?, &from, &[part(&below)?], &zero)?;
    }
    Ok(())
}
