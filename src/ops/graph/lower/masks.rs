//! Masks: of a diagonal band, and of what lies beyond the lengths of sequences.

use super::super::mode;
use super::super::steps::Builder;
use super::super::view::View;
use super::super::{BandMask, Padding, Port};
use crate::error::{Error, Result};
use crate::ops::Compute;
use crate::ops::function::Function;

/// The dimensions of rows (queries) and columns (keys).
const ROWS: usize = 2;
const COLUMNS: usize = 3;

/// `y = x` where `row + length of keys - length of queries + bound` compares to `column`, else `b`,
/// without which it is 0; with a left bound where
/// `column + bound - length of keys + length of queries` compares to `row`. What is not given is 0.
///
/// # Errors
/// Not supported: other ranks, lengths that are cumulative besides others, both bounds, comparisons
/// that there are none of.
pub fn band(of: &BandMask, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let b = steps.given(Port::B)?;
    let (left, right) = (steps.given(Port::LeftBound)?, steps.given(Port::RightBound)?);
    let queries = lengths(Port::LengthQ, Port::CumulativeQ, steps)?;
    let keys = lengths(Port::LengthKv, Port::CumulativeKv, steps)?;
    if y.dims().rank() != COLUMNS + 1 || left.is_some() && right.is_some() {
        return Err(Error::unsupported("a band needs four dimensions and one bound"));
    }
    let (function, swaps) = match of.comparison {
        mode::EQUAL => (Function::Equal, false),
        mode::NOT_EQUAL => (Function::NotEqual, false),
        mode::GREATER => (Function::Less, true),
        mode::GREATER_OR_EQUAL => (Function::LessOrEqual, true),
        mode::LESS => (Function::Less, false),
        mode::LESS_OR_EQUAL => (Function::LessOrEqual, false),
        other => return Err(Error::unsupported(format!("mode {other} is no comparison"))),
    };
    if y.is_empty() {
        return Ok(());
    }
    let row = steps.line(y.dims().rank(), ROWS, y.dims()[ROWS])?;
    let column = steps.line(y.dims().rank(), COLUMNS, y.dims()[COLUMNS])?;
    let (mut moved, other, plus, minus) =
        if left.is_some() { (column, row, queries, keys) } else { (row, column, keys, queries) };
    for (term, sign) in [(left.or(right), 1.0), (plus, 1.0), (minus, -1.0)] {
        if let Some(term) = term {
            moved = steps.joined_with(Function::Add, &moved, &term, [1.0, sign])?;
        }
    }
    let flags = if swaps {
        steps.joined(function, &other, &moved)?
    } else {
        steps.joined(function, &moved, &other)?
    };
    // Elements are moved: that bounds and lengths are integers does not matter to their type.
    let moved = [Some(x.scalar), Some(y.scalar), b.map(|b| b.scalar)];
    steps.compute = Compute::of(&moved.into_iter().flatten().collect::<Vec<_>>());
    let b = match b {
        Some(b) => b,
        None => steps.constant(0.0, y.dims())?,
    };
    steps.keep(&y, &x, &[flags], &b)
}

/// Lengths as they are given: by themselves, or as the ends of sequences in what is packed, each
/// less the one before.
///
/// # Errors
/// Not supported: both, ends of no sequence.
fn lengths(port: Port, ends: Port, steps: &mut Builder<'_>) -> Result<Option<View>> {
    let given = steps.given(port)?;
    let Some(ends) = steps.given(ends)? else { return Ok(given) };
    if given.is_some() || ends.is_empty() || ends.dims().rank() != COLUMNS + 1 {
        return Err(Error::unsupported(format!("lengths by ends {}", ends.dims())));
    }
    let count = ends.dims()[0] - 1;
    let [begin, end] = [ends.part(0, 0, count, 1)?, ends.part(0, 1, count, 1)?];
    steps.joined_with(Function::Add, &end, &begin, [1.0, -1.0]).map(Some)
}

/// `y = x` where the indices are below the lengths that are given, else a number.
///
/// # Errors
/// Not supported: lengths of another rank.
pub fn padding(of: &Padding, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let lengths = [(of.rows, Port::LengthQ), (of.columns, Port::LengthKv)];
    let mut flags: Vec<View> = Vec::new();
    for (axis, port) in lengths {
        if let Some(length) = steps.given(port)?
            && !y.is_empty()
        {
            if axis >= y.dims().rank() || length.dims().rank() != y.dims().rank() {
                return Err(Error::unsupported(format!("lengths {} of {}", length.dims(), y.dims())));
            }
            flags.push(steps.below(axis, y.dims()[axis], &length)?);
        }
    }
    steps.compute = Compute::of(&[x.scalar, y.scalar]);
    let other = steps.constant(of.value, y.dims())?;
    steps.keep(&y, &x, &flags, &other)
}
