//! The columns of a convolution.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::types::{
    cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnStatus_t,
    cudnnTensorDescriptor_t,
};
use super::{context, convolution, filter, tensor};
use crate::mode::Mode;
use crate::ops::columns::ColumnsPlan;

/// `col[c, r, s][n, p, q] = x[n, c, p * stride + r * dilation - pad, ...]`, 0 beyond x.
///
/// This is the matrix by which a filter, as a matrix of K rows, is multiplied to convolve x.
/// The matrix is packed row by row: C * R * S rows, one for each channel and tap of the filter, of N * P * Q columns, one
/// for each image and output position. In CONVOLUTION mode taps are counted from the last one.
///
/// Operands
/// - `x`: N x C x 1 to 6 spatial dimensions, any type, strides and layout; device memory on the CUDA core.
/// - `wDesc`: C as x has it, and the extents of the filter; its type and format do not matter.
/// - `colBuffer`: C * R * S * N * P * Q scalars of the type of x, written whole.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a descriptor that is not alive; a NULL pointer, or data off its element's alignment.
/// - BAD_PARAM: x of less than 3 dimensions.
/// - NOT_SUPPORTED, in strict mode: types of x or the filter that are not floating; x of other than 4 dimensions.
/// - NOT_SUPPORTED: more than one group.
/// - BAD_PARAM: x, filter and convolution that do not go together (cuDNN does not compare them).
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: a handle that is not alive.
///
/// Aliasing: x and colBuffer may overlap on the CPU core, as if all of x were read first; the CUDA core refuses it with
/// NOT_SUPPORTED.
///
/// Source: statuses and the order of the matrix observed on 9.27.0.
///
/// # Safety
/// `x` is NULL or valid for reads of the whole span of `xDesc`, `colBuffer` for writes of the matrix; no other thread
/// writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnIm2Col(
    handle: cudnnHandle_t, xDesc: cudnnTensorDescriptor_t, x: *const c_void, wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, colBuffer: *mut c_void,
) -> cudnnStatus_t {
    let (from, kernel) = (tensor::get(xDesc, "xDesc")?, filter::get(wDesc, "wDesc")?);
    let desc = convolution::get(convDesc)?;
    let size = from.data_type().scalar().size();
    arg::data(x, size, "x")?;
    arg::data(colBuffer, size, "colBuffer")?;
    // What the original refuses of the tensors comes before the handle.
    let plan = ColumnsPlan::new(&from, &kernel, &desc, Mode::current())?;
    context::compute(handle, "cudnnIm2Col", |call| {
        // SAFETY: the pointers are aligned, and the caller vouches for the span of the descriptor and for the
        // matrix, which are the plan's.
        unsafe { call.run(&plan, operands![colBuffer, x]) }
    })
}
