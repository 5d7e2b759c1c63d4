//! Causal one-dimensional convolutions.

use super::unsupported;
use crate::capi::types::{cudaStream_t, cudnnCausalConv1dActivation_t, cudnnDataType_t, cudnnStatus_t, raw};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

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
    unsupported(
        "cudnnCausalConv1dForward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, bias={bias:p}, y={y:p}, batch={batch}, \
         dim={dim}, seqLen={seqLen}, kernelSize={kernelSize}, dataType={}, activation={}",
            raw(dataType),
            raw(activation)
        ),
    )
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
    unsupported(
        "cudnnCausalConv1dBackward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, bias={bias:p}, dy={dy:p}, dx={dx:p}, \
         dweight={dweight:p}, dbias={dbias:p}, batch={batch}, dim={dim}, seqLen={seqLen}, \
         kernelSize={kernelSize}, dataType={}, dwDataType={}, activation={}",
            raw(dataType),
            raw(dwDataType),
            raw(activation)
        ),
    )
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
    unsupported(
        "cudnnCausalConv1dNwhForward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, bias={bias:p}, y={y:p}, batch={batch}, \
         dim={dim}, seqLen={seqLen}, kernelSize={kernelSize}, dataType={}, activation={}",
            raw(dataType),
            raw(activation)
        ),
    )
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
    unsupported(
        "cudnnCausalConv1dNwhBackward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, bias={bias:p}, dy={dy:p}, dx={dx:p}, \
         dweight={dweight:p}, dbias={dbias:p}, batch={batch}, dim={dim}, seqLen={seqLen}, \
         kernelSize={kernelSize}, dataType={}, dwDataType={}, activation={}",
            raw(dataType),
            raw(dwDataType),
            raw(activation)
        ),
    )
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
    unsupported(
        "cudnnB2BCausalConv1dForward",
        format_args!(
            "stream={stream:p}, x={x:p}, weightsProj={weightsProj:p}, weightsMixer={weightsMixer:p}, \
         skipBias={skipBias:p}, y={y:p}, yGated={yGated:p}, batch={batch}, dim={dim}, \
         seqLen={seqLen}, kernelSizeProj={kernelSizeProj}, kernelSizeMixer={kernelSizeMixer}, \
         dataType={}",
            raw(dataType)
        ),
    )
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
    unsupported(
        "cudnnB2BCausalConv1dBackward",
        format_args!(
            "stream={stream:p}, x={x:p}, weightsProj={weightsProj:p}, weightsMixer={weightsMixer:p}, \
         skipBias={skipBias:p}, y={y:p}, dy={dy:p}, dx={dx:p}, dweightsProj={dweightsProj:p}, \
         dweightsMixer={dweightsMixer:p}, dskipBias={dskipBias:p}, batch={batch}, dim={dim}, \
         seqLen={seqLen}, kernelSizeProj={kernelSizeProj}, kernelSizeMixer={kernelSizeMixer}, \
         dataType={}, dwDataType={}",
            raw(dataType),
            raw(dwDataType)
        ),
    )
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
    unsupported(
        "cudnnFFTCausalConv1dForward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, y={y:p}, batch={batch}, dim={dim}, \
         seqLen={seqLen}, kernelSize={kernelSize}, dataType={}",
            raw(dataType)
        ),
    )
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
    unsupported(
        "cudnnFFTCausalConv1dBackward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, dy={dy:p}, dx={dx:p}, \
         dweight={dweight:p}, batch={batch}, dim={dim}, seqLen={seqLen}, \
         kernelSize={kernelSize}, dataType={}",
            raw(dataType)
        ),
    )
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
    unsupported(
        "cudnnLongFFTCausalConv1dGetBufferSizes",
        format_args!(
            "batch={batch}, dim={dim}, seqLen={seqLen}, kernelSize={kernelSize}, dataType={}, \
         workspaceSizeInBytes={workspaceSizeInBytes:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes:p}",
            raw(dataType)
        ),
    )
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
    unsupported(
        "cudnnLongFFTCausalConv1dForward",
        format_args!(
            "stream={stream:p}, x={x:p}, weight={weight:p}, y={y:p}, batch={batch}, dim={dim}, \
         seqLen={seqLen}, kernelSize={kernelSize}, dataType={}, workspace={workspace:p}, \
         workspaceSizeInBytes={workspaceSizeInBytes}, reserveSpace={reserveSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}",
            raw(dataType)
        ),
    )
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
    unsupported(
        "cudnnLongFFTCausalConv1dBackward",
        format_args!(
            "stream={stream:p}, dy={dy:p}, dx={dx:p}, dweight={dweight:p}, batch={batch}, dim={dim}, \
         seqLen={seqLen}, kernelSize={kernelSize}, dataType={}, workspace={workspace:p}, \
         workspaceSizeInBytes={workspaceSizeInBytes}, reserveSpace={reserveSpace:p}, \
         reserveSpaceSizeInBytes={reserveSpaceSizeInBytes}",
            raw(dataType)
        ),
    )
}
