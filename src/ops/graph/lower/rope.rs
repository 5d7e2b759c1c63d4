//! Rotary embeddings: pairs of elements of the last dimension, rotated by angles.
//!
//! The last `dim` elements are rotated, and the elements before them copied. Element j of the first
//! half of the `dim` rotates together with element j of the second half, by angle j of the last
//! dimension of the frequencies, which are raw angles. Everything is multiplied by the scale.
//! Source: docs.nvidia.com/cudnn/operations/RoPE.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Port, Rope};
use crate::error::{Error, Result};
use crate::ops::function::Function;

/// `y = scale * (x rotated)`
///
/// # Errors
/// Not supported: an odd number of elements to rotate, or more than there are; vectors; angles that
/// do not broadcast.
pub fn forward(of: &Rope, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    rotated(of, steps, &y, &x, 1.0)
}

/// `dx = scale * (dy rotated back)`
///
/// # Errors
/// As for [`forward`].
pub fn backward(of: &Rope, steps: &mut Builder<'_>) -> Result<()> {
    let dx = steps.write(Port::Dx)?;
    let dy = steps.read(Port::Dy)?;
    rotated(of, steps, &dx, &dy, -1.0)
}

fn rotated(of: &Rope, steps: &mut Builder<'_>, to: &View, from: &View, sign: f64) -> Result<()> {
    let angles = steps.read(Port::Frequencies)?;
    let misfit =
        || Error::unsupported(format!("{:?} rotated of {} by {}", of.dim, from.dims(), angles.dims()));
    let last = from.dims().rank().checked_sub(1).ok_or_else(misfit)?;
    if to.dims() != from.dims() || angles.dims().rank() != last + 1 {
        return Err(misfit());
    }
    let width = from.dims()[last];
    let turned = of.dim.unwrap_or(width);
    if turned % 2 != 0 || turned > width || turned > angles.dims()[last] {
        return Err(misfit());
    }
    if to.is_empty() {
        return Ok(());
    }
    let (still, half) = (width - turned, turned / 2);
    if still > 0 {
        let part = |view: &View| view.part(last, 0, still, 1);
        steps.map_with(&part(to)?, Function::First, &[part(from)?], 0.0, [of.scale, 1.0])?;
    }
    if half == 0 {
        return Ok(());
    }
    let angles = angles.part(last, 0, half, 1)?;
    let [cosine, sine] = [steps.wide(angles.dims())?, steps.wide(angles.dims())?];
    steps.map(&cosine, Function::Cos, &[angles])?;
    steps.map(&sine, Function::Sin, &[angles])?;
    let halves = |view: &View| -> Result<[View; 2]> {
        Ok([view.part(last, still, half, 1)?, view.part(last, still + half, half, 1)?])
    };
    let (to, from) = (halves(to)?, halves(from)?);
    // All is read before something is written.
    let mut terms = Vec::new();
    for (own, other, sign) in [(from[0], from[1], -sign), (from[1], from[0], sign)] {
        let [straight, crossed] = [steps.wide(own.dims())?, steps.wide(own.dims())?];
        steps.map(&straight, Function::Mul, &[own, cosine])?;
        steps.map(&crossed, Function::Mul, &[other, sine])?;
        terms.push(([straight, crossed], sign));
    }
    for (to, (terms, sign)) in to.iter().zip(terms) {
        steps.map_with(to, Function::Add, &terms, 0.0, [of.scale, sign * of.scale])?;
    }
    Ok(())
}
