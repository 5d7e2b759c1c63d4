//! The gradients of the convolution.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::convolution_compute::compute;
use super::convolution_problem::{Call, Described, described};
use super::types::{
    cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use crate::ops::convolution::Direction;

/// `dx = alpha * sum over k, r of dy * w + beta * dx`: each product of the forward sum, taken back to its element of x.
///
/// Elements of dx that no window covers become `beta * dx`. This is a transposed convolution; extents of dx between
/// two that windows cover exactly are its output padding.
///
/// Operands
/// - `alpha`, `beta`, `w`, types, alignment, memory: as cudnnConvolutionForward
/// - `dy`: N x K x space, any strides; `dx`: N x C x space, distinct elements
/// - `algo`: 0 to 5; every number gives the same bits in every run, for any number of threads. WINOGRAD and WINOGRAD_NONFUSED as for
///   cudnnConvolutionForward
///
/// Workspace: what cudnnGetConvolutionBackwardDataWorkspaceSize answers, else as cudnnConvolutionForward.
///
/// Status, in this order: as cudnnConvolutionForward, with dx for y; strict mode does not refuse dx = dy.
///
/// Aliasing: as cudnnConvolutionForward, with dx for y.
///
/// Source: as cudnnConvolutionForward.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `w` and `dy` are NULL or valid for reads of the spans of their
/// descriptors, `dx` for reads and writes of that of `dxDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardData(
    handle: cudnnHandle_t, alpha: *const c_void, wDesc: cudnnFilterDescriptor_t, w: *const c_void,
    dyDesc: cudnnTensorDescriptor_t, dy: *const c_void, convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdDataAlgo_t>, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    beta: *const c_void, dxDesc: cudnnTensorDescriptor_t, dx: *mut c_void,
) -> cudnnStatus_t {
    let described = described!(BackwardData: dxDesc, wDesc, dyDesc, convDesc);
    let call = Call {
        algo: raw(algo),
        workspace: (workSpace, workSpaceSizeInBytes),
        data: [(dx, "dx"), (dy.cast_mut(), "dy"), (w.cast_mut(), "w")],
        alpha,
        beta,
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read, the workspace for its size.
    unsafe { compute("cudnnConvolutionBackwardData", handle, &described, &call) }
}

/// `dw[k,c,r] = alpha * sum over n, o of dy[n,k,o] * x[n, c, o*stride + r*dilation - pad] + beta * dw[k,c,r]`.
///
/// Operands
/// - `alpha`, `beta`, types, alignment, memory: as cudnnConvolutionForward
/// - `x`: N x C x space, `dy`: N x K x space, any strides; `dw`: K x C/groups x space, packed
/// - `algo`: 0 to 6; every number gives the same bits in every run, for any number of threads. WINOGRAD and WINOGRAD_NONFUSED as for
///   cudnnConvolutionForward
///
/// Workspace: what cudnnGetConvolutionBackwardFilterWorkspaceSize answers, else as cudnnConvolutionForward.
///
/// Status, in this order: as cudnnConvolutionForward, with dw for y.
///
/// Aliasing: as cudnnConvolutionForward, with dw for y.
///
/// Source: as cudnnConvolutionForward.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` and `dy` are NULL or valid for reads of the spans of their
/// descriptors, `dw` for reads and writes of that of `dwDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardFilter(
    handle: cudnnHandle_t, alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void,
    dyDesc: cudnnTensorDescriptor_t, dy: *const c_void, convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionBwdFilterAlgo_t>, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    beta: *const c_void, dwDesc: cudnnFilterDescriptor_t, dw: *mut c_void,
) -> cudnnStatus_t {
    let described = described!(BackwardFilter: xDesc, dwDesc, dyDesc, convDesc);
    let call = Call {
        algo: raw(algo),
        workspace: (workSpace, workSpaceSizeInBytes),
        data: [(dw, "dw"), (x.cast_mut(), "x"), (dy.cast_mut(), "dy")],
        alpha,
        beta,
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read, the workspace for its size.
    unsafe { compute("cudnnConvolutionBackwardFilter", handle, &described, &call) }
}
