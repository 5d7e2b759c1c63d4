//! A strided data gradient as one without strides, and filters in the order that kernels for 8-bit vectors want.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands};
use super::types::{
    cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnReorderType_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnTensorTransformDescriptor_t, raw,
};
use super::{context, convolution, filter, tensor, transform};
use crate::desc::tensor::Format;
use crate::desc::{FilterDescriptor, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::convolution::fold;
use crate::ops::{Scaling, TransformPlan};

/// Descriptors that turn a strided data gradient into a folded one without strides.
///
/// Per spatial dimension of stride s, window r and padding p, space is folded into s times the channels: the window
/// becomes `ceil((r + b) / s)` with b zeros in front, so that `ceil(p / s)` is the new padding. Filters are padded to a
/// multiple of 8, channels as far as whole ones reach to one. Then, with the eight results: transform the filter by
/// filterFoldTransDesc and the gradient of the output by diffPadTransDesc, compute the data gradient with foldedConvDesc,
/// and transform its result by gradUnfoldTransDesc; gradFoldTransDesc takes an old gradient to the folded one, for a beta.
///
/// Operands
/// - `filterDesc`, `diffDesc`, `convDesc`, `gradDesc`: of the gradient with strides, 4-D. Neither types nor dims are
///   compared
/// - `transformFormat`: NCHW or NHWC, of everything that is folded
/// - the other eight are overwritten; `gradUnfoldTransDesc` may be NULL
///
/// Workspace: none. `handle` may be NULL.
///
/// Status, in this order
/// - BAD_PARAM: a handle that is neither NULL nor alive; a descriptor that is not alive
/// - BAD_PARAM: a filter, convolution or gradient of other than 4 dimensions, or never set
/// - NOT_SUPPORTED: `diffDesc` was never set; `transformFormat` is another
///
/// A failing call writes nothing. Aliasing: an output may be an input. Source: observed on 9.27.0.
///
/// # Safety
/// None of the pointers is followed as memory.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFoldedConvBackwardDataDescriptors(
    handle: cudnnHandle_t, filterDesc: cudnnFilterDescriptor_t, diffDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t, gradDesc: cudnnTensorDescriptor_t,
    transformFormat: MaybeUninit<cudnnTensorFormat_t>, foldedFilterDesc: cudnnFilterDescriptor_t,
    paddedDiffDesc: cudnnTensorDescriptor_t, foldedConvDesc: cudnnConvolutionDescriptor_t,
    foldedGradDesc: cudnnTensorDescriptor_t, filterFoldTransDesc: cudnnTensorTransformDescriptor_t,
    diffPadTransDesc: cudnnTensorTransformDescriptor_t, gradFoldTransDesc: cudnnTensorTransformDescriptor_t,
    gradUnfoldTransDesc: cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    if !handle.is_null() {
        context::check(handle)?;
    }
    let kernel = filter::get(filterDesc, "filterDesc")?;
    let diff = tensor::get(diffDesc, "diffDesc")?;
    let desc = convolution::find(convDesc, "convDesc")?;
    let grad = tensor::get(gradDesc, "gradDesc")?;
    // All are there before the first is written.
    filter::get(foldedFilterDesc, "foldedFilterDesc")?;
    tensor::check(paddedDiffDesc, "paddedDiffDesc")?;
    convolution::find(foldedConvDesc, "foldedConvDesc")?;
    tensor::check(foldedGradDesc, "foldedGradDesc")?;
    let transforms = [
        (filterFoldTransDesc, "filterFoldTransDesc"),
        (diffPadTransDesc, "diffPadTransDesc"),
        (gradFoldTransDesc, "gradFoldTransDesc"),
        (gradUnfoldTransDesc, "gradUnfoldTransDesc"),
    ];
    let count = if gradUnfoldTransDesc.is_null() { 3 } else { 4 };
    for (desc, name) in &transforms[..count] {
        transform::get(*desc, name)?;
    }
    let folded = fold(&kernel, &diff, &desc, &grad, raw(transformFormat), Mode::current())?;
    filter::put(foldedFilterDesc, "foldedFilterDesc", folded.filter)?;
    tensor::put(paddedDiffDesc, "paddedDiffDesc", folded.diff)?;
    convolution::put(foldedConvDesc, "foldedConvDesc", folded.convolution)?;
    tensor::put(foldedGradDesc, "foldedGradDesc", folded.grad)?;
    let values = [folded.fold_filter, folded.pad_diff, folded.fold_grad, folded.unfold_grad];
    for ((desc, name), value) in transforms[..count].iter().zip(values) {
        transform::put(*desc, name, value)?;
    }
    Ok(())
}

/// `reorderedFilterData = filterData`, and the same of a bias: for convolutions with reorder type NO_REORDER.
///
/// The kernels of this library take filters as they lie, also those of INT8x32, so that reordering is a copy.
/// Convolutions take the result whatever their reorder type.
///
/// Operands
/// - `filterData`, `reorderedFilterData`: as `filterDesc` says, 4-D; may be the same
/// - `reorderBias`: whether there is a bias of K `float`, `biasData` to `reorderedBiasData`
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, a NULL filter pointer, a NULL bias pointer if there is a bias
/// - BAD_PARAM: a filter of other than 4 dimensions, or never set
/// - NOT_SUPPORTED: reorder type 0 for other than INT8x32 in NCHW_VECT_C, in strict mode
///
/// Aliasing: source and destination may overlap on the CPU core, as if all of the source were read first.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// The filter pointers are NULL or valid for the size of the filter, the bias pointers for K `float`, if there is a bias.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnReorderFilterAndBias(
    handle: cudnnHandle_t, filterDesc: cudnnFilterDescriptor_t, reorderType: MaybeUninit<cudnnReorderType_t>,
    filterData: *const c_void, reorderedFilterData: *mut c_void, reorderBias: c_int, biasData: *const c_void,
    reorderedBiasData: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnReorderFilterAndBias", |call| {
        let desc = filter::get(filterDesc, "filterDesc")?;
        arg::required(filterData, "filterData")?;
        arg::required(reorderedFilterData, "reorderedFilterData")?;
        if reorderBias != 0 {
            arg::required(biasData, "biasData")?;
            arg::required(reorderedBiasData, "reorderedBiasData")?;
        }
        check_reordered(&desc, raw(reorderType))?;
        let mode = Mode::Extended;
        let weights = desc.tensor(mode)?;
        let copy = TransformPlan::new(&weights, &weights, Scaling::MOVE, mode)?;
        // SAFETY: the caller vouches for the size of the filter; its scalars are bytes, or the data is aligned.
        unsafe { call.run(&copy, operands![y = reorderedFilterData, x = filterData]) }?;
        if reorderBias == 0 {
            return Ok(());
        }
        let dims = [1, desc.stored_dims()[0], 1, 1];
        let bias = TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, &dims, mode)?;
        let copy = TransformPlan::new(&bias, &bias, Scaling::MOVE, mode)?;
        // SAFETY: the caller vouches for one float per filter.
        unsafe { call.run(&copy, operands![y = reorderedBiasData, x = biasData]) }
    })
}

fn check_reordered(desc: &FilterDescriptor, reorder: c_int) -> Result<()> {
    let rank = desc.stored_dims().rank();
    if rank != 4 {
        return Err(Error::mismatch(format!("filterDesc has {rank} dimensions, reordering takes 4")));
    }
    let is_vector = desc.data_type() == DataType::Int8x32 && desc.format() == Format::NchwVectC;
    if reorder == 0 && !is_vector && Mode::current().is_strict() {
        return Err(Error::unsupported("strict mode reorders INT8x32 in NCHW_VECT_C only"));
    }
    Ok(())
}
