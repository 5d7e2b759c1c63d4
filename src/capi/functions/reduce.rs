//! ReduceTensor and the sizes of its indices and workspace.

use std::ffi::c_void;

use cudnn_shim_macros::entry;

use super::arg::{self, operands, results};
use super::types::{cudnnHandle_t, cudnnReduceTensorDescriptor_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, reduce_descriptor, tensor, transform};
use crate::desc::{ReduceDescriptor, TensorDescriptor};
use crate::error::Result;
use crate::mode::Mode;
use crate::ops::reduce::{indices_size, workspace_size};
use crate::ops::{ReducePlan, check_size};

/// Bytes of the indices that cudnnReduceTensor writes: 0 unless the descriptor asks for indices.
///
/// One index per element of C, per channel where elements hold several: 4 bytes each, 8 for 64BIT_INDICES (in strict
/// mode 4 whatever their type, as observed on 9.27.0, and 32-bit indices are written). Indices of 8 and 16 bits need
/// no more than their own size.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive, if `sizeInBytes` is NULL, or if a dimension of C is
/// neither that of A nor 1.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReductionIndicesSize(
    handle: cudnnHandle_t, reduceTensorDesc: cudnnReduceTensorDescriptor_t, aDesc: cudnnTensorDescriptor_t,
    cDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let (desc, [a, c]) = reduction(handle, reduceTensorDesc, aDesc, cDesc)?;
    results!(new sizeInBytes = indices_size(&desc, &a, &c, Mode::current())?)
}

/// What a size query asks about, checked in the order of its arguments.
fn reduction(
    handle: cudnnHandle_t, desc: cudnnReduceTensorDescriptor_t, a: cudnnTensorDescriptor_t,
    c: cudnnTensorDescriptor_t,
) -> Result<(ReduceDescriptor, [TensorDescriptor; 2])> {
    context::check(handle)?;
    let desc = reduce_descriptor::get(desc, "reduceTensorDesc")?;
    Ok((desc, [tensor::get(a, "aDesc")?, tensor::get(c, "cDesc")?]))
}

/// Bytes of workspace to hand to cudnnReduceTensor, at least 16; the same for every core, and found without a GPU.
///
/// The reduction works without, to the same bits: few, long outputs are reduced faster on the CUDA core if there is
/// room to join parts of them first, at most 2 MB. The size is never 0, because a driver-level allocation of 0 bytes
/// fails. Outside strict mode cudnnReduceTensor takes NULL and 0 as well.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive or if `sizeInBytes` is NULL.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetReductionWorkspaceSize(
    handle: cudnnHandle_t, reduceTensorDesc: cudnnReduceTensorDescriptor_t, aDesc: cudnnTensorDescriptor_t,
    cDesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let (desc, [a, c]) = reduction(handle, reduceTensorDesc, aDesc, cDesc)?;
    results!(new sizeInBytes = workspace_size(&desc, &a, &c, Mode::current()))
}

/// `C = alpha * reduce(A) + beta * C` over the dimensions where C has extent 1.
///
/// ADD, MUL, MIN, MAX, AMAX (largest absolute value), AVG, NORM1 (sum of absolute values), NORM2 (root of the sum of
/// squares, which are not scaled against overflow) and MUL_NO_ZEROS (product of what is not zero, 1 if all is). Where
/// nothing is reduced each element is its own result (its absolute value for AMAX, NORM1, NORM2). Elements are converted
/// to the computation type (double for DOUBLE, else float, also for HALF) and joined there in a tree whose shape depends
/// on their number alone: the same bits for any number of threads, and a sum is off by at most `26 + log2(n)` roundings.
/// MIN, MAX and AMAX leave NaNs out or hand them on, as the descriptor says; of nothing but NaNs they make NaN.
///
/// Channels of INT8x4, UINT8x4 and INT8x32 are counted one by one where they are kept, with and without NCHW_VECT_C:
/// two elements of INT8x4 go with eight of INT8. Where C has a single element of INT8 (say), all channels are reduced
/// to it; where it has a single element of as many channels as those of A, each channel is reduced on its own, over
/// the elements, and an index counts elements.
///
/// Operands
/// - `A`, `C`: one rank (2 to 8), each dimension of C is that of A or 1, any types, strides and layouts each; on the host for
///   the CPU core, on the device for the CUDA core.
/// - `alpha`, `beta`: host `double` if C is DOUBLE, else `float`; applied as by cudnnTransformTensor. With beta = 0, C is
///   never read.
/// - `indices`: if the descriptor asks for them, MIN, MAX and AMAX write for every element of C, in row-major order of its
///   dimensions, the position of the result among the reduced elements, row-major over the reduced dimensions, the
///   first one of equals; memory of the core. Else `indices` and `indicesSizeInBytes` are ignored.
///
/// Workspace: what cudnnGetReductionWorkspaceSize answers, memory of the core; NULL only costs time on the CUDA core, and the
/// CPU core does not touch it.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; in strict mode 2 dimensions; a dimension of C that is neither that of A nor 1; in strict
///   mode nothing to reduce; types that cuDNN refuses so. NOT_SUPPORTED, in strict mode: other types.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: C repeats an address through stride 0.
/// - NOT_SUPPORTED: one element of C that holds several channels, but not as many as those of A that it stands for; index
///   types that cannot count the reduced elements.
/// - BAD_PARAM: a workspace below the queried size, unless it is NULL outside strict mode; indices that are too small or NULL.
///
/// Aliasing: the CPU core takes A and C that overlap, as if all of A were read first; the CUDA core refuses it with
/// NOT_SUPPORTED, unless nothing is reduced and each element lies in its own place. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `A` is NULL or valid for reads of the whole span of `aDesc`,
/// `C` for reads and writes of that of `cDesc`, `indices` for writes of `indicesSizeInBytes`, `workspace` for reads
/// and writes of `workspaceSizeInBytes`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnReduceTensor(
    handle: cudnnHandle_t, reduceTensorDesc: cudnnReduceTensorDescriptor_t, indices: *mut c_void,
    indicesSizeInBytes: usize, workspace: *mut c_void, workspaceSizeInBytes: usize, alpha: *const c_void,
    aDesc: cudnnTensorDescriptor_t, A: *const c_void, beta: *const c_void, cDesc: cudnnTensorDescriptor_t,
    C: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnReduceTensor", |call| {
        let desc = reduce_descriptor::get(reduceTensorDesc, "reduceTensorDesc")?;
        let (a, c) = (tensor::get(aDesc, "aDesc")?, tensor::get(cDesc, "cDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, c.data_type()) }?;
        tensor::data(A, &a, "A")?;
        tensor::data(C, &c, "C")?;
        let mode = Mode::current();
        let plan = ReducePlan::new(&desc, &a, &c, scaling, mode)?;
        // None is needed, but one that is given has the size that was asked for.
        if mode.is_strict() || !workspace.is_null() {
            let needed = workspace_size(&desc, &a, &c, mode);
            check_size(workspaceSizeInBytes, needed, "workspaceSizeInBytes")?;
        }
        if mode.is_strict() {
            check_size(indicesSizeInBytes, indices_size(&desc, &a, &c, mode)?, "indicesSizeInBytes")?;
        }
        if plan.indices_bytes() > 0 {
            check_size(indicesSizeInBytes, plan.indices_bytes(), "indicesSizeInBytes")?;
            arg::required(indices, "indices")?;
        }
        let plan = plan.with_workspace(if workspace.is_null() { 0 } else { workspaceSizeInBytes });
        // SAFETY: the data pointers are aligned, and the caller vouches for the spans of the descriptors, which are
        // the plan's; the indices are large enough.
        unsafe { call.run(&plan, operands![C, indices, A, workspace]) }
    })
}
