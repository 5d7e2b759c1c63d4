//! `cudnn_shim.h`: products of matrices.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::arg::operands;
use super::types::{cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, tensor, transform};
use crate::ops::MatmulPlan;

/// `C[.., m, n] = alpha * sum over k of A[.., m, k] B[.., k, n] + beta * C[.., m, n]`: products of matrices of any layout.
///
/// The last two dimensions are rows and columns, those in front a batch, where an extent of 1 in A or B serves every product. Strides say
/// whether a matrix is row-major, column-major, transposed, or part of a larger one; `BMN:row` and `BMN:col` name the packed ones.
/// Sums are in double if any operand is DOUBLE, exact for INT8 and UINT8, else in float; scaled in that type, in double for INT32 and
/// INT64, and rounded once, to nearest even; integers saturate. Sums have the same bits for any number of threads; between the two
/// cores, those in float and double agree within the bound of convolutions.
///
/// Operands
/// - `A`, `B`, `C`: one rank (2 to 8), any strides each; FLOAT, DOUBLE, HALF, BFLOAT16, INT8, UINT8, FP8_E4M3, FP8_E5M2 in any
///   combination, C also INT32 and INT64. On the host for the CPU core, on the device for the CUDA core.
/// - `alpha`, `beta`: host `double` if C is DOUBLE, else `float`. With beta = 0, C is never read; with alpha = 0, A and B are not.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: a descriptor that was never set; ranks that differ; C repeats an address through stride 0.
/// - NOT_SUPPORTED: layouts with channels in blocks.
/// - BAD_PARAM: dimensions that do not fit.
/// - NOT_SUPPORTED: A or B of INT32, INT64 or BOOLEAN; C of BOOLEAN.
/// - BAD_PARAM: C reaches an address twice.
///
/// Aliasing: the CPU core takes A and B that overlap C, as if all of them were read first; the CUDA core refuses it with
/// NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: cuDNN has no such call; the conventions are those of cudnnOpTensor.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `A` and `B` are NULL or valid for reads of the whole spans of their
/// descriptors, `C` for reads and writes of that of `cDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimMatmul(
    handle: cudnnHandle_t, alpha: *const c_void, aDesc: cudnnTensorDescriptor_t, A: *const c_void,
    bDesc: cudnnTensorDescriptor_t, B: *const c_void, beta: *const c_void, cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnShimMatmul", |call| {
        let (a, b, c) =
            (tensor::get(aDesc, "aDesc")?, tensor::get(bDesc, "bDesc")?, tensor::get(cDesc, "cDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, c.data_type()) }?;
        tensor::data(A, &a, "A")?;
        tensor::data(B, &b, "B")?;
        tensor::data(C, &c, "C")?;
        let plan = MatmulPlan::new([&a, &b, &c], scaling)?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![C, A, B]) }
    })
}
