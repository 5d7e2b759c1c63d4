//! Spatial transformers.

use super::stub_on;
use crate::capi::types::{
    cudnnHandle_t, cudnnSpatialTransformerDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use std::ffi::c_void;

/// Sampling grid of an affine map theta. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfGridGeneratorForward(
    handle: cudnnHandle_t,
    stDesc: cudnnSpatialTransformerDescriptor_t,
    theta: *const c_void,
    grid: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnSpatialTfGridGeneratorForward(handle, stDesc, theta, grid))
}

/// `y = alpha * sample(x, grid) + beta * y`. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfSamplerForward(
    handle: cudnnHandle_t,
    stDesc: cudnnSpatialTransformerDescriptor_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    grid: *const c_void,
    beta: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnSpatialTfSamplerForward(handle, stDesc, alpha, xDesc, x, grid, beta, yDesc, y))
}

/// Gradient of the sampling grid by theta. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfGridGeneratorBackward(
    handle: cudnnHandle_t,
    stDesc: cudnnSpatialTransformerDescriptor_t,
    dgrid: *const c_void,
    dtheta: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnSpatialTfGridGeneratorBackward(handle, stDesc, dgrid, dtheta))
}

/// Gradients of the sampler by x and by the grid. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSpatialTfSamplerBackward(
    handle: cudnnHandle_t,
    stDesc: cudnnSpatialTransformerDescriptor_t,
    alpha: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    dxDesc: cudnnTensorDescriptor_t,
    dx: *mut c_void,
    alphaDgrid: *const c_void,
    dyDesc: cudnnTensorDescriptor_t,
    dy: *const c_void,
    grid: *const c_void,
    betaDgrid: *const c_void,
    dgrid: *mut c_void,
) -> cudnnStatus_t {
    stub_on!(cudnnSpatialTfSamplerBackward(
        handle, stDesc, alpha, xDesc, x, beta, dxDesc, dx, alphaDgrid, dyDesc, dy, grid, betaDgrid, dgrid
    ))
}
