//! Softmax and sums whose elements come tile by tile.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Port, Stage};
use super::matmul;
use crate::error::Result;
use crate::ops::function::Function;
use crate::ops::{NanRule, Reduction};

/// Adds the steps.
///
/// # Errors
/// Not supported: shapes that do not fit, what is missing.
pub fn lower(of: &Stage, steps: &mut Builder<'_>) -> Result<()> {
    match of {
        Stage::Zero => {
            let y = steps.write(Port::Y)?;
            steps.fill(&y, 0.0);
            Ok(())
        }
        Stage::Begin => begin(steps),
        Stage::Softmax => softmax(steps),
        Stage::Accumulate(of) => {
            if let Some(factor) = steps.given(Port::Factor)? {
                let c = steps.write(Port::C)?;
                steps.map(&c, Function::Mul, &[c, factor])?;
            }
            matmul::accumulate(of, steps)
        }
        Stage::End { log2 } => end(*log2, steps),
    }
}

/// Rows without elements, or with the sink alone.
fn begin(steps: &mut Builder<'_>) -> Result<()> {
    let (max, sum) = (steps.write(Port::Max)?, steps.write(Port::SumExp)?);
    match steps.given(Port::Sink)? {
        Some(sink) => steps.transform(&max, &sink)?,
        None => steps.fill(&max, f64::NEG_INFINITY),
    }
    steps.fill(&sum, 0.0);
    Ok(())
}

/// The maximum, or the lowest number: a row of minus infinity is as far from it as from itself.
fn shift_of(max: &View, steps: &mut Builder<'_>) -> Result<View> {
    let lowest = steps.constant(-f64::from(f32::MAX), max.dims())?;
    let shift = steps.wide(max.dims())?;
    steps.map(&shift, Function::MaxOrNan, &[*max, lowest])?;
    Ok(shift)
}

fn softmax(steps: &mut Builder<'_>) -> Result<()> {
    let (max, sum) = (steps.write(Port::Max)?, steps.write(Port::SumExp)?);
    let (y, factor) = (steps.write(Port::Y)?, steps.write(Port::Factor)?);
    let x = steps.read(Port::X)?;
    let before = shift_of(&max, steps)?;
    let largest = steps.wide(max.dims())?;
    steps.reduce(&largest, Reduction::Max(NanRule::Propagate), &x)?;
    steps.map(&max, Function::MaxOrNan, &[max, largest])?;
    let shift = shift_of(&max, steps)?;
    steps.map(&factor, Function::ExpDifference, &[before, shift])?;
    let is_wide = y.scalar == steps.compute.scalar();
    let powers = if is_wide { y } else { steps.wide(x.dims())? };
    steps.map(&powers, Function::ExpDifference, &[x, shift])?;
    let more = steps.wide(max.dims())?;
    steps.reduce(&more, Reduction::Add, &powers)?;
    steps.map(&sum, Function::Mul, &[sum, factor])?;
    steps.map(&sum, Function::Add, &[sum, more])?;
    if is_wide { Ok(()) } else { steps.transform(&y, &powers) }
}

/// Statistics as those of a softmax of whole rows, and the sums that rows are divided by: 1 in the
/// place of 0.
fn end(log2: bool, steps: &mut Builder<'_>) -> Result<()> {
    let (largest, sum) = (steps.read(Port::Max)?, steps.read(Port::SumExp)?);
    let divisor = steps.write(Port::Y)?;
    let shift = shift_of(&largest, steps)?;
    if let Some(sink) = steps.given(Port::Sink)? {
        let more = steps.wide(largest.dims())?;
        steps.map(&more, Function::ExpDifference, &[sink, shift])?;
        steps.map(&sum, Function::Add, &[sum, more])?;
    }
    if let Some(max) = steps.wanted(Port::Max, 0.0)? {
        steps.transform(&max, &largest)?;
    }
    if let Some(sums) = steps.wanted(Port::SumExp, 0.0)? {
        steps.transform(&sums, &sum)?;
    }
    if let Some(stats) = steps.wanted(Port::Stats, 0.0)? {
        let logarithm = steps.wide(largest.dims())?;
        steps.map(&logarithm, Function::Log, &[sum])?;
        steps.map(&logarithm, Function::Add, &[logarithm, shift])?;
        let factor = if log2 { std::f64::consts::LOG2_E } else { 1.0 };
        steps.map_with(&stats, Function::First, &[logarithm], 0.0, [factor, 1.0])?;
    }
    let one = steps.constant(1.0, sum.dims())?;
    steps.map(&divisor, Function::Select, &[sum, one, sum])
}
