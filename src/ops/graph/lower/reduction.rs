//! Reductions.

use super::super::steps::Builder;
use super::super::{Port, Reduction as Settings};
use crate::error::{Error, Result};
use crate::ops::{NanRule, Reduction};

/// Adds the steps.
///
/// # Errors
/// Not supported: operators that there are none of, groups of other sizes, dims that are no multiples.
pub fn lower(of: &Settings, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    if steps.given(Port::GroupOffset)?.is_some() {
        return Err(Error::unsupported("a reduction of groups of other sizes"));
    }
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
    steps.reduce(&y, reduction, &x)
}
