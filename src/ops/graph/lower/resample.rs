//! Resampling by windows: maxima and averages, and their gradients.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Port, Resample};
use super::maxima;
use super::windows::windows;
use crate::desc::{PoolingDescriptor, PoolingMode, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::{Scaling, pooling};

/// The modes and paddings, by their numbers in the C interface.
const AVERAGE: i32 = 2;
const MAXIMUM: i32 = 3;
const AVERAGE_INSIDE: i32 = 4;
const NO_CELLS: i32 = 1;

/// The window as a pooling, which is as wide behind the data as in front of them: an average of
/// windows that reach further behind walks the axis of `data` and of `result` from its end.
fn descriptor(of: &Resample, data: &mut View, result: &mut View) -> Result<PoolingDescriptor> {
    let mode = match of.mode {
        AVERAGE => PoolingMode::AverageWithPadding,
        AVERAGE_INSIDE => PoolingMode::AverageWithoutPadding,
        MAXIMUM => PoolingMode::Max,
        other => return Err(Error::unsupported(format!("resampling mode {other}"))),
    };
    let [window, strides, mut before, after] = windows(of)?;
    // A maximum leaves out what lies outside; an average counts it as zeros.
    let is_padded = before.iter().chain(after.iter()).any(|&pad| pad != 0);
    let zeros = if mode == PoolingMode::Max { NO_CELLS } else { 0 };
    if is_padded && of.padding != zeros && mode != PoolingMode::AverageWithoutPadding {
        return Err(Error::unsupported(format!(
            "resampling mode {} with padding mode {}",
            of.mode, of.padding
        )));
    }
    for k in 0..window.rank() {
        let axis = k + 2;
        let (Some(&inputs), Some(&outputs)) = (data.dims().get(axis), result.dims().get(axis)) else { break };
        let end =
            (outputs - 1).saturating_mul(strides[k]).saturating_add(window[k]).saturating_sub(before[k]);
        let behind = end.saturating_sub(inputs);
        if mode == PoolingMode::AverageWithPadding && behind > before[k] {
            *data = data.part(axis, inputs - 1, inputs, -1)?;
            *result = result.part(axis, outputs - 1, outputs, -1)?;
            before[k] = behind;
        }
    }
    PoolingDescriptor::new(mode, of.nan, window, before, strides)
}

/// A tensor as the pooling knows it.
fn tensor(view: &View) -> Result<TensorDescriptor> {
    let named = DataType::ALL.into_iter().find(|of| of.lanes() == 1 && of.scalar() == view.scalar);
    let data_type = named.ok_or_else(|| Error::Internal("a scalar of no type".into()))?;
    if view.layout.split.is_some() {
        return Err(Error::unsupported("windows over vectors"));
    }
    let (dims, strides) = (view.layout.dims, view.layout.strides);
    TensorDescriptor::with_strides(data_type, dims.rank() as i64, &dims, &strides, Mode::Extended)
}

/// `y = alpha * window(x) + beta * y`
///
/// # Errors
/// Not supported: interpolation, other padding than the mode's own, x and y of other types.
pub fn forward(of: &Resample, steps: &mut Builder<'_>) -> Result<()> {
    let mut y =
        steps.wanted(Port::Y, of.beta)?.ok_or_else(|| Error::unsupported("a resampling without y"))?;
    let mut x = steps.read(Port::X)?;
    if let Some(index) = steps.wanted(Port::Index, 0.0)? {
        if of.mode != MAXIMUM {
            return Err(Error::unsupported("indices of no maxima"));
        }
        maxima::find(of, &x, &index, steps)?;
    }
    let scaling = Scaling { alpha: of.alpha, beta: of.beta };
    let pooling = descriptor(of, &mut x, &mut y)?;
    let plan = pooling::forward(&pooling, &tensor(&x)?, &tensor(&y)?, scaling, Mode::Extended)?;
    steps.embed(&plan, &[Some(y), Some(x)])
}

/// `dx = alpha * gradient + beta * dx`; that of a maximum goes where the indices say, or to the
/// first of the largest elements of x.
///
/// # Errors
/// Not supported: as [`forward`], and a maximum without indices or x.
pub fn backward(of: &Resample, steps: &mut Builder<'_>) -> Result<()> {
    let mut dx =
        steps.wanted(Port::Dx, of.beta)?.ok_or_else(|| Error::unsupported("a resampling without dx"))?;
    let mut dy = steps.read(Port::Dy)?;
    if let Some(index) = steps.given(Port::Index)?.filter(|_| of.mode == MAXIMUM) {
        return maxima::spread(of, &dx, &dy, &index, steps);
    }
    let descriptor = descriptor(of, &mut dx, &mut dy)?;
    let (to, from) = (tensor(&dx)?, tensor(&dy)?);
    let scaling = Scaling { alpha: of.alpha, beta: of.beta };
    if !pooling::needs_forward(&descriptor) {
        let plan = pooling::backward(&descriptor, None, &from, &to, scaling, Mode::Extended)?;
        return steps.embed(&plan, &[Some(dx), None, Some(dy)]);
    }
    let x = steps.read(Port::X)?;
    // The result itself is not read: the maxima are found in x.
    let forward = pooling::Forward { x: &tensor(&x)?, y: &from };
    let plan = pooling::backward(&descriptor, Some(forward), &from, &to, scaling, Mode::Extended)?;
    steps.embed(&plan, &[Some(dx), Some(x), Some(dy)])
}
