//! Causal one-dimensional convolutions.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::guard::stub;
use super::types::{cudaStream_t, cudnnCausalConv1dActivation_t, cudnnDataType_t, cudnnStatus_t};

/// `y = f(bias + sum over k of weight[k] * x[t - K + 1 + k])` for each channel. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dForward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    y: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    stub!(cudnnCausalConv1dForward(
        stream, x, weight, bias, y, batch, dim, seqLen, kernelSize, dataType, activation
    ))
}

/// Gradients of the causal convolution by x, weight and bias. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dBackward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    dy: *const c_void,
    dx: *mut c_void,
    dweight: *mut c_void,
    dbias: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    dwDataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    stub!(cudnnCausalConv1dBackward(
        stream, x, weight, bias, dy, dx, dweight, dbias, batch, dim, seqLen, kernelSize, dataType,
        dwDataType, activation
    ))
}

/// Causal convolution with the sequence outside the channels. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dNwhForward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    y: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    stub!(cudnnCausalConv1dNwhForward(
        stream, x, weight, bias, y, batch, dim, seqLen, kernelSize, dataType, activation
    ))
}

/// Gradients of the causal convolution with the sequence outside the channels. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCausalConv1dNwhBackward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    dy: *const c_void,
    dx: *mut c_void,
    dweight: *mut c_void,
    dbias: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    dwDataType: MaybeUninit<cudnnDataType_t>,
    activation: MaybeUninit<cudnnCausalConv1dActivation_t>,
) -> cudnnStatus_t {
    stub!(cudnnCausalConv1dNwhBackward(
        stream, x, weight, bias, dy, dx, dweight, dbias, batch, dim, seqLen, kernelSize, dataType,
        dwDataType, activation
    ))
}

/// Two causal convolutions in a row, gated. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnB2BCausalConv1dForward(
    stream: cudaStream_t,
    x: *const c_void,
    weightsProj: *const c_void,
    weightsMixer: *const c_void,
    skipBias: *const c_void,
    y: *mut c_void,
    yGated: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSizeProj: c_int,
    kernelSizeMixer: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub!(cudnnB2BCausalConv1dForward(
        stream,
        x,
        weightsProj,
        weightsMixer,
        skipBias,
        y,
        yGated,
        batch,
        dim,
        seqLen,
        kernelSizeProj,
        kernelSizeMixer,
        dataType
    ))
}

/// Gradients of two causal convolutions in a row. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnB2BCausalConv1dBackward(
    stream: cudaStream_t,
    x: *const c_void,
    weightsProj: *const c_void,
    weightsMixer: *const c_void,
    skipBias: *const c_void,
    y: *const c_void,
    dy: *const c_void,
    dx: *mut c_void,
    dweightsProj: *mut c_void,
    dweightsMixer: *mut c_void,
    dskipBias: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSizeProj: c_int,
    kernelSizeMixer: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    dwDataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub!(cudnnB2BCausalConv1dBackward(
        stream,
        x,
        weightsProj,
        weightsMixer,
        skipBias,
        y,
        dy,
        dx,
        dweightsProj,
        dweightsMixer,
        dskipBias,
        batch,
        dim,
        seqLen,
        kernelSizeProj,
        kernelSizeMixer,
        dataType,
        dwDataType
    ))
}

/// Causal convolution with a long filter, by Fourier transforms. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFFTCausalConv1dForward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    y: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub!(cudnnFFTCausalConv1dForward(stream, x, weight, y, batch, dim, seqLen, kernelSize, dataType))
}

/// Gradients of the causal convolution by Fourier transforms. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnFFTCausalConv1dBackward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    dy: *const c_void,
    dx: *mut c_void,
    dweight: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    stub!(cudnnFFTCausalConv1dBackward(
        stream, x, weight, dy, dx, dweight, batch, dim, seqLen, kernelSize, dataType
    ))
}

/// Bytes of workspace and reserve space of the very long causal convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dGetBufferSizes(
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    workspaceSizeInBytes: *mut usize,
    reserveSpaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    stub!(cudnnLongFFTCausalConv1dGetBufferSizes(
        batch,
        dim,
        seqLen,
        kernelSize,
        dataType,
        workspaceSizeInBytes,
        reserveSpaceSizeInBytes
    ))
}

/// Causal convolution with a very long filter, in several passes. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dForward(
    stream: cudaStream_t,
    x: *const c_void,
    weight: *const c_void,
    y: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    workspace: *mut c_void,
    workspaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    stub!(cudnnLongFFTCausalConv1dForward(
        stream,
        x,
        weight,
        y,
        batch,
        dim,
        seqLen,
        kernelSize,
        dataType,
        workspace,
        workspaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
}

/// Gradients of the very long causal convolution. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnLongFFTCausalConv1dBackward(
    stream: cudaStream_t,
    dy: *const c_void,
    dx: *mut c_void,
    dweight: *mut c_void,
    batch: c_int,
    dim: c_int,
    seqLen: c_int,
    kernelSize: c_int,
    dataType: MaybeUninit<cudnnDataType_t>,
    workspace: *mut c_void,
    workspaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    stub!(cudnnLongFFTCausalConv1dBackward(
        stream,
        dy,
        dx,
        dweight,
        batch,
        dim,
        seqLen,
        kernelSize,
        dataType,
        workspace,
        workspaceSizeInBytes,
        reserveSpace,
        reserveSpaceSizeInBytes
    ))
}
