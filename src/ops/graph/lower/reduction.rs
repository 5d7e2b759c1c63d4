//! Reductions.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Port, Reduction as Settings};
use super::experts::rows_of;
use super::integers;
use crate::error::{Error, Result};
use crate::ops::{NanRule, Reduction};

/// Adds the steps.
///
/// # Errors
/// Not supported: operators that there are none of, averages of groups of other sizes, dims that
/// are no multiples.
pub fn lower(of: &Settings, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let first = steps.given(Port::GroupOffset)?;
    let nan = NanRule::Propagate;
    let reduction = match of.operator {
        0 => Reduction::Add,
        1 => Reduction::Mul,
        2 => Reduction::Min(nan),
        3 => Reduction::Max(nan),
        4 => Reduction::Amax(nan),
        5 => Reduction::Avg,
        6 => Reduction::Norm1,
        7 => Reduction::Norm2,
        8 => Reduction::MulNoZeros,
        other => return Err(Error::unsupported(format!("a reduction by operator {other}"))),
    };
    if y.is_empty() {
        return Ok(());
    }
    if let Some(first) = first {
        return of_groups(reduction, [&y, &x, &first], steps);
    }
    if integers::reduce(reduction, &y, &x, steps)? {
        return Ok(());
    }
    steps.reduce(&y, reduction, &x)
}

/// More than any graph has: each is a few steps.
const MOST_GROUPS: i64 = 1024;

/// The rows of each group joined, from its first row up to the first row of the next group: what is
/// not the group's own is left out as a number that changes nothing.
fn of_groups(reduction: Reduction, [y, x, first]: [&View; 3], steps: &mut Builder<'_>) -> Result<()> {
    let misfit = || Error::unsupported(format!("groups at {} of {} to {}", first.dims(), x.dims(), y.dims()));
    let dims = [y.dims(), x.dims(), first.dims()].map(|dims| <[i64; 3]>::try_from(&dims[..]));
    let [Ok([groups, 1, columns]), Ok([1, rows, width]), Ok([count, 1, 1])] = dims else {
        return Err(misfit());
    };
    if columns != width || count != groups || groups > MOST_GROUPS || y.layout.split.is_some() {
        return Err(misfit());
    }
    let neutral = match reduction {
        Reduction::Add | Reduction::Amax(_) | Reduction::Norm1 | Reduction::Norm2 => 0.0,
        Reduction::Mul | Reduction::MulNoZeros => 1.0,
        Reduction::Min(_) => f64::INFINITY,
        Reduction::Max(_) => f64::NEG_INFINITY,
        _ => return Err(Error::unsupported(format!("{reduction:?} of groups"))),
    };
    let x = steps.flat(x)?;
    let other = steps.constant(neutral, &[1; 3])?;
    if rows == 0 {
        return steps.transform(y, &other);
    }
    let own = steps.wide(x.dims())?;
    let line = steps.line(3, 1, rows)?;
    for group in 0..groups {
        let flags = rows_of(steps, first, group, &line)?;
        steps.keep(&own, &x, &flags, &other)?;
        steps.reduce(&y.part(0, group, 1, 1)?, reduction, &own)?;
    }
    Ok(())
}
