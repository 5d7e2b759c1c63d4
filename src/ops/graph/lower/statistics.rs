//! Statistics of batch normalisation in parts: sums, what they come down to, and the gradients of
//! the parameters.

use super::super::steps::Builder;
use super::super::{BatchNormFinalise, Port};
use super::norm::scalar;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::Reduction;
use crate::ops::function::Function;

/// `Sum = sum of x`, `SquareSum = sum of x * x`, per channel.
///
/// # Errors
/// Not supported: what is missing, shapes that do not fit.
pub fn gather(steps: &mut Builder<'_>) -> Result<()> {
    let (sum, squares) = (steps.wanted(Port::Sum, 0.0)?, steps.wanted(Port::SquareSum, 0.0)?);
    let x = steps.read(Port::X)?;
    if let Some(sum) = sum {
        steps.reduce(&sum, Reduction::Add, &x)?;
    }
    if let Some(squares) = squares {
        let products = steps.wide(x.dims())?;
        steps.map(&products, Function::Mul, &[x, x])?;
        steps.reduce(&squares, Reduction::Add, &products)?;
    }
    Ok(())
}

/// In training `mean = sum / count`, `variance = squares / count - mean * mean`, not below 0, else
/// the running ones; `inverse = 1 / sqrt(variance + epsilon)`, `EqScale = scale * inverse`,
/// `EqBias = bias - mean * EqScale`; the running statistics take in the new ones with their factor,
/// the variance times `count / (count - 1)`.
///
/// # Errors
/// Not supported: what is missing, shapes that do not fit.
pub fn finalise(of: &BatchNormFinalise, steps: &mut Builder<'_>) -> Result<()> {
    let ports = [Port::Mean, Port::InverseVariance, Port::EqScale, Port::EqBias];
    let mut outputs = [None; 4];
    for (output, port) in outputs.iter_mut().zip(ports) {
        *output = steps.wanted(port, 0.0)?;
    }
    let (scale, bias) = (steps.read(Port::Scale)?, steps.read(Port::Bias)?);
    let dims: Dims = *scale.dims();
    let epsilon = scalar(&steps.read(Port::Epsilon)?, &dims)?;
    let (mean, variance) = if of.training {
        let (sum, squares) = (steps.read(Port::Sum)?, steps.read(Port::SquareSum)?);
        let count = scalar(&steps.read(Port::Count)?, &dims)?;
        let (mean, variance, square) = (steps.wide(&dims)?, steps.wide(&dims)?, steps.wide(&dims)?);
        steps.map(&mean, Function::Div, &[sum, count])?;
        steps.map(&variance, Function::Div, &[squares, count])?;
        steps.map(&square, Function::Mul, &[mean, mean])?;
        steps.subtract(&variance, &variance, &square)?;
        steps.map(&variance, Function::ReluOrNan, &[variance])?;
        // Of one element the variance is 0, whatever it is multiplied by.
        let (unbiased, one) = (steps.wide(&dims)?, steps.constant(1.0, &dims)?);
        steps.subtract(&square, &count, &one)?;
        steps.map(&square, Function::Select, &[square, one, square])?;
        steps.map(&unbiased, Function::Div, &[count, square])?;
        steps.map(&unbiased, Function::Mul, &[unbiased, variance])?;
        let running = [
            (Port::RunningMean, Port::NewRunningMean, mean),
            (Port::RunningVariance, Port::NewRunningVariance, unbiased),
        ];
        for (old, new, statistic) in running {
            let Some(new) = steps.wanted(new, 0.0)? else { continue };
            let old = steps.read(old)?;
            let factor = scalar(&steps.read(Port::Factor)?, &dims)?;
            steps.subtract(&square, &statistic, &old)?;
            steps.map(&square, Function::Mul, &[square, factor])?;
            steps.map(&new, Function::Add, &[old, square])?;
        }
        (mean, variance)
    } else {
        (steps.read(Port::RunningMean)?, steps.read(Port::RunningVariance)?)
    };
    let (inverse, eq_scale, shift) = (steps.wide(&dims)?, steps.wide(&dims)?, steps.wide(&dims)?);
    steps.map(&inverse, Function::Add, &[variance, epsilon])?;
    steps.map(&inverse, Function::ReciprocalRoot, &[inverse])?;
    steps.map(&eq_scale, Function::Mul, &[scale, inverse])?;
    steps.map(&shift, Function::Mul, &[mean, eq_scale])?;
    for (to, from) in outputs.iter().zip([mean, inverse, eq_scale]) {
        if let Some(to) = to {
            steps.transform(to, &from)?;
        }
    }
    outputs[3].map_or(Ok(()), |to| steps.subtract(&to, &bias, &shift))
}

/// With `h = (x - mean) * inverse` and `m` elements of a channel: `Dbias = sum(dy)`,
/// `Dscale = sum(dy * h)`; and `dx = EqScale * dy + EqXScale * x + EqBias` with
/// `EqScale = scale * inverse`, `EqXScale = -EqScale * Dscale * inverse / m`,
/// `EqBias = -EqScale * Dbias / m - EqXScale * mean`.
///
/// # Errors
/// Not supported: what is missing, shapes that do not fit.
pub fn backward_weights(steps: &mut Builder<'_>) -> Result<()> {
    let ports = [Port::Dscale, Port::Dbias, Port::EqScale, Port::EqXScale, Port::EqBias];
    let mut outputs = [None; 5];
    for (output, port) in outputs.iter_mut().zip(ports) {
        *output = steps.wanted(port, 0.0)?;
    }
    let (mean, inverse) = (steps.read(Port::Mean)?, steps.read(Port::InverseVariance)?);
    let (scale, x, dy) = (steps.read(Port::Scale)?, steps.read(Port::X)?, steps.read(Port::Dy)?);
    let dims = *mean.dims();
    let count = x.dims().iter().product::<i64>() as f64 / dims.iter().product::<i64>() as f64;
    let [dscale, dbias, eq_scale, eq_x, eq_bias, rest] = [
        steps.wide(&dims)?,
        steps.wide(&dims)?,
        steps.wide(&dims)?,
        steps.wide(&dims)?,
        steps.wide(&dims)?,
        steps.wide(&dims)?,
    ];
    let normal = steps.wide(x.dims())?;
    steps.subtract(&normal, &x, &mean)?;
    steps.map(&normal, Function::Mul, &[normal, inverse])?;
    steps.map(&normal, Function::Mul, &[normal, dy])?;
    steps.reduce(&dscale, Reduction::Add, &normal)?;
    steps.reduce(&dbias, Reduction::Add, &dy)?;
    steps.map(&eq_scale, Function::Mul, &[scale, inverse])?;
    steps.map(&rest, Function::Mul, &[dscale, inverse])?;
    steps.map_with(&eq_x, Function::Mul, &[eq_scale, rest], 0.0, [-1.0 / count, 1.0])?;
    steps.map_with(&eq_bias, Function::Mul, &[eq_scale, dbias], 0.0, [-1.0 / count, 1.0])?;
    steps.map(&rest, Function::Mul, &[eq_x, mean])?;
    steps.subtract(&eq_bias, &eq_bias, &rest)?;
    for (to, from) in outputs.iter().zip([dscale, dbias, eq_scale, eq_x, eq_bias]) {
        if let Some(to) = to {
            steps.transform(to, &from)?;
        }
    }
    Ok(())
}
