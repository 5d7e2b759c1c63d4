//! Softmax along the last dimension, with its statistics.

use super::super::steps::Builder;
use super::super::{Port, Softmax};
use crate::error::{Error, Result};
use crate::ops::function::Function;
use crate::ops::{NanRule, Reduction};

/// `y = exp(x - stats)`: the softmax again, from its statistics, whose rows of minus infinity are
/// those of x, and give 0.
///
/// # Errors
/// Not supported: shapes that do not fit, what is missing.
pub fn weights(steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let (x, stats) = (steps.read(Port::X)?, steps.read(Port::Stats)?);
    let lowest = steps.constant(-f64::from(f32::MAX), stats.dims())?;
    let shift = steps.wide(stats.dims())?;
    steps.map(&shift, Function::MaxOrNan, &[stats, lowest])?;
    steps.map(&y, Function::ExpDifference, &[x, shift])
}

/// `y = exp(x - max) / sum`, `sum = sum of exp(x - max)`, with one more element for each head, the
/// sink, if there is one; the statistics are `max + log(sum)`. Rows of minus infinity give 0.
///
/// # Errors
/// Not supported: shapes that do not fit, what is missing.
pub fn lower(of: &Softmax, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.wanted(Port::Y, 0.0)?;
    let (stats, max) = (steps.wanted(Port::Stats, 0.0)?, steps.wanted(Port::Max, 0.0)?);
    let sums = steps.wanted(Port::SumExp, 0.0)?;
    let x = steps.read(Port::X)?;
    let sink = steps.given(Port::Sink)?;
    let Some(last) = x.dims().rank().checked_sub(1) else {
        return Err(Error::unsupported("a softmax of no dimensions"));
    };
    if x.is_empty() {
        let row = [stats, max, sums].into_iter().flatten().find(|row| !row.is_empty());
        return match row {
            Some(row) => Err(Error::unsupported(format!("statistics {} of rows of no elements", row.dims()))),
            None => Ok(()),
        };
    }
    let x = steps.flat(&x)?;
    let mut rows = *x.dims();
    rows[last] = 1;
    let largest = steps.wide(&rows)?;
    steps.reduce(&largest, Reduction::Max(NanRule::Propagate), &x)?;
    if let Some(sink) = &sink {
        steps.map(&largest, Function::MaxOrNan, &[largest, *sink])?;
    }
    // A row of minus infinity is as far from a finite number as from itself.
    let lowest = steps.constant(-f64::from(f32::MAX), &rows)?;
    let shift = steps.wide(&rows)?;
    steps.map(&shift, Function::MaxOrNan, &[largest, lowest])?;
    let powers = steps.wide(x.dims())?;
    steps.map(&powers, Function::ExpDifference, &[x, shift])?;
    let sum = steps.wide(&rows)?;
    steps.reduce(&sum, Reduction::Add, &powers)?;
    if let Some(sink) = &sink {
        let more = steps.wide(&rows)?;
        steps.map(&more, Function::ExpDifference, &[*sink, shift])?;
        steps.map(&sum, Function::Add, &[sum, more])?;
    }
    if let Some(max) = max {
        steps.transform(&max, &largest)?;
    }
    if let Some(sums) = sums {
        steps.transform(&sums, &sum)?;
    }
    if let Some(stats) = stats {
        let logarithm = steps.wide(&rows)?;
        steps.map(&logarithm, Function::Log, &[sum])?;
        steps.map(&logarithm, Function::Add, &[logarithm, shift])?;
        let factor = if of.log2 { std::f64::consts::LOG2_E } else { 1.0 };
        steps.map_with(&stats, Function::First, &[logarithm], 0.0, [factor, 1.0])?;
    }
    let Some(y) = y else { return Ok(()) };
    // The quotient of an empty sum is 0.
    let one = steps.constant(1.0, &rows)?;
    let divisor = steps.wide(&rows)?;
    steps.map(&divisor, Function::Select, &[sum, one, sum])?;
    steps.map(&y, Function::Div, &[powers, divisor])
}
