//! The forward convolution, alone and with bias, sum and activation.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::operands;
use super::convolution_compute::compute;
use super::convolution_problem::{Call, Described, described};
use super::types::{
    cudnnActivationDescriptor_t, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t, raw,
};
use super::{activation, arg, context, tensor};
use crate::desc::ActivationMode;
use crate::error::Error;
use crate::mode::Mode;
use crate::ops::convolution::{Algorithm, ConvolutionPlan, Direction, Fused};

/// `y[n,k,o] = alpha * sum over c, r of x[n, c, o*stride + r*dilation - pad] * w[k,c,r] + beta * y[n,k,o]`.
///
/// With mode CONVOLUTION the filter is flipped in every spatial dimension. Group g of the output channels sees group g
/// of the input channels; there are as many groups as x has times the channels of w.
///
/// Operands
/// - `alpha`, `beta`: host `double` if the compute type is DOUBLE, else `float`
/// - `x`: N x C x space, any strides; `w`: K x C/groups x space, packed; `y`: N x K x space, distinct elements. 1 to 6
///   spatial dimensions. Data is aligned to its scalars, on the host for the CPU core, on the device for the CUDA core
/// - types: FLOAT, DOUBLE, HALF, BFLOAT16, FP8 and 8-bit integers for x and w, any for y but BOOLEAN. Products are summed
///   in binary64 for DOUBLE data or compute type, exactly for integers, else in binary32, and rounded once; integers
///   saturate. Channels are counted one by one, also those that share an element
/// - `algo`: 0 to 7. WINOGRAD and WINOGRAD_NONFUSED may compute 3 x 3 windows with fewer products on the CPU core: to another bound and
///   for x up to 8.5e37, as docs/convolutions.md says. All other numbers give plain sums, on the CPU core the same bits. On a GPU the workspace
///   is used by all but 0
///
/// Workspace: what cudnnGetConvolutionForwardWorkspaceSize answers; NULL and less as well, with which a GPU takes longer and
/// adds in another order, in strict mode with algorithm 0 only.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a NULL pointer
/// - BAD_PARAM: ranks, channels, batch or an extent of y do not fit (the text says what would); y, in strict mode also x,
///   runs backwards or repeats an address
/// - NOT_SUPPORTED: the algorithm is none; types that are not multiplied; INT32 sums of floating products. In strict mode
///   also ranks, types, layouts and algorithms that cuDNN refuses, and y = x
/// - strict mode, BAD_PARAM: the workspace is NULL or too small, but for algorithm 0
/// - BAD_PARAM_MISALIGNED_POINTER: x, w or y
///
/// Aliasing: y may overlap x and w on the CPU core, which then keeps a copy; the CUDA core answers NOT_SUPPORTED. With
/// beta = 0, y is never read, with alpha = 0 neither are x and w. A failing call writes nothing.
///
/// Source: observed on 9.27.0; the formula from NVIDIA's documentation.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` and `w` are NULL or valid for reads of the spans of their
/// descriptors, `y` for reads and writes of that of `yDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionForward(
    handle: cudnnHandle_t, alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    beta: *const c_void, yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    let call = Call {
        algo: raw(algo),
        workspace: (workSpace, workSpaceSizeInBytes),
        data: [(y, "y"), (x.cast_mut(), "x"), (w.cast_mut(), "w")],
        alpha,
        beta,
    };
    // SAFETY: pointers are NULL or valid for the spans of their descriptors, factors for one read, the workspace for its size.
    unsafe { compute("cudnnConvolutionForward", handle, &described, &call) }
}

/// `y = activation(alpha1 * conv(x, w) + alpha2 * z + bias)`, with conv as in cudnnConvolutionForward.
///
/// Operands
/// - `alpha1`, `alpha2`: as alpha of cudnnConvolutionForward; with alpha2 = 0, z is never read
/// - `x`, `w`, `y`: as there; `z`: dims of y or 1, any strides, type; `bias`: dims of y or 1, as a rule 1 x K x 1 x ...
/// - `activationDesc`: every mode of the descriptor
/// - everything is added in binary32 (binary64 for sums in binary64 and 32-bit integers in y), the result rounded once
///
/// Workspace: what cudnnGetConvolutionForwardWorkspaceSize answers; NULL and less as well, with which long sums take longer
/// on a GPU, in strict mode with algorithm 0 only.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a NULL pointer, also of z
/// - BAD_PARAM: ranks that differ; then as cudnnConvolutionForward
/// - strict mode, NOT_SUPPORTED: an activation other than RELU and IDENTITY; _SHAPE: a bias that is not 1 x K x 1 ..., a z
///   that is not like y; _DATA_TYPE: a bias of another type than x (FLOAT for integers)
/// - NOT_SUPPORTED_SHAPE: a dimension of z or the bias that is neither that of y nor 1
/// - NOT_SUPPORTED: as cudnnConvolutionForward; in strict mode algorithm 3, but no other
/// - strict mode, BAD_PARAM: the workspace is NULL or too small, but for algorithm 0
/// - BAD_PARAM_MISALIGNED_POINTER: a data pointer
///
/// Aliasing: z may be y where their elements lie alike; everything else as cudnnConvolutionForward. A failing call writes
/// nothing.
///
/// Source: observed on 9.27.0; the formula from NVIDIA's documentation.
///
/// # Safety
/// As for cudnnConvolutionForward; `z` and `bias` are NULL or valid for reads of the spans of their descriptors.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBiasActivationForward(
    handle: cudnnHandle_t, alpha1: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, convDesc: cudnnConvolutionDescriptor_t,
    algo: MaybeUninit<cudnnConvolutionFwdAlgo_t>, workSpace: *mut c_void, workSpaceSizeInBytes: usize,
    alpha2: *const c_void, zDesc: cudnnTensorDescriptor_t, z: *const c_void,
    biasDesc: cudnnTensorDescriptor_t, bias: *const c_void, activationDesc: cudnnActivationDescriptor_t,
    yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    let described = described!(Forward: xDesc, wDesc, yDesc, convDesc);
    context::compute(handle, "cudnnConvolutionBiasActivationForward", |call| {
        let alive = described.alive()?;
        let (z_tensor, bias_tensor) = (tensor::get(zDesc, "zDesc")?, tensor::get(biasDesc, "biasDesc")?);
        let function = activation::get(activationDesc, "activationDesc")?;
        // SAFETY: both factors are NULL or one readable number of their type.
        let (alpha, alpha2) = unsafe {
            (
                arg::factor(alpha1, "alpha1", alive.takes_double())?,
                arg::factor(alpha2, "alpha2", alive.takes_double())?,
            )
        };
        for (pointer, name) in [(x, "x"), (w, "w"), (z, "z"), (bias, "bias"), (y.cast_const(), "y")] {
            arg::required(pointer, name)?;
        }
        alive.check_ranks(&[("zDesc", &z_tensor), ("biasDesc", &bias_tensor)])?;
        let problem = alive.problem()?;
        let mode = Mode::current();
        let is_known = matches!(function.mode, ActivationMode::Relu | ActivationMode::Identity);
        if mode.is_strict() && !is_known {
            return Err(Error::unsupported("strict mode fuses RELU and IDENTITY only"));
        }
        let fused = Fused { alpha, z: (&z_tensor, alpha2), bias: &bias_tensor, activation: &function };
        let plan = ConvolutionPlan::fused(&problem, &fused, mode)?;
        let algorithm = Algorithm::new(Direction::Forward, raw(algo))?;
        algorithm.check_fused(&problem, mode)?;
        if mode.is_strict() && y.cast_const() == x {
            return Err(Error::unsupported("y = x, which strict mode does not compute"));
        }
        let operands = operands![y, x, w, z, bias, workSpace];
        // SAFETY: the caller vouches for the spans of the descriptors, and for the workspace.
        unsafe { call.convolve(plan, &problem, algorithm, workSpaceSizeInBytes, operands) }
    })
}
