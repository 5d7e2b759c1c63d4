//! ConvolutionBackwardBias.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::arg::operands;
use super::types::{cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, tensor, transform};
use crate::mode::Mode;
use crate::ops::bias;

/// `db = alpha * sum(dy) + beta * db` over all dimensions but C.
///
/// Sums are in double for DOUBLE, else in float, in the tree of cudnnReduceTensor: the same bits on both cores and for any
/// number of threads.
///
/// Operands
/// - `dy`: a tensor of 2 to 8 dimensions, of any type and layout.
/// - `db`: `1 x C x 1 x ...` of the same type, in any layout. With beta = 0 it is not read.
/// - `alpha`, `beta`: host `double` for DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; in strict mode 2 dimensions.
/// - NOT_SUPPORTED: types that differ, of which one is neither FLOAT, DOUBLE nor HALF; in strict mode any other type.
/// - NOT_SUPPORTED, in strict mode: a stride that is not positive; other than 4 to 6 dimensions.
/// - BAD_PARAM: types that differ; dims of db that are not `1 x C x 1 x ...`; db repeats an address through stride 0.
///
/// Aliasing: the CPU core takes dy and db that overlap, as if all of dy were read first; the CUDA core answers
/// NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `dy` is NULL or valid for reads of the whole span of `dyDesc`, `db`
/// for reads and writes of that of `dbDesc`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnConvolutionBackwardBias(
    handle: cudnnHandle_t, alpha: *const c_void, dyDesc: cudnnTensorDescriptor_t, dy: *const c_void,
    beta: *const c_void, dbDesc: cudnnTensorDescriptor_t, db: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnConvolutionBackwardBias", |call| {
        let (source, dest) = (tensor::get(dyDesc, "dyDesc")?, tensor::get(dbDesc, "dbDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, dest.data_type()) }?;
        tensor::data(dy, &source, "dy")?;
        tensor::data(db, &dest, "db")?;
        let plan = bias::gradient(&source, &dest, scaling, Mode::current())?;
        // SAFETY: the data pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![db, dy]) }
    })
}
