//! Tensor transform descriptors, TransformTensor and TransformTensorEx.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, operands, results};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnFilterDescriptor_t, cudnnFoldingDirection_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t,
    cudnnTensorFormat_t, cudnnTensorTransformDescriptor_t, raw,
};
use super::{context, filter, tensor};
use crate::desc::transform::MAX_FOLDS;
use crate::desc::{Folding, Format, TensorDescriptor, TransformDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::exec::Call;
use crate::layout::MAX_RANK;
use crate::mode::Mode;
use crate::ops::{Scaling, TransformPlan};

static TRANSFORMS: Table<TransformDescriptor> = Table::new(Kind::Transform);
twinned!(cudnnTensorTransformDescriptor_t, TRANSFORMS);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(
    desc: cudnnTensorTransformDescriptor_t, argument: &'static str,
) -> Result<TransformDescriptor> {
    TRANSFORMS.get(desc.addr(), argument)
}

/// Replaces what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn put(
    desc: cudnnTensorTransformDescriptor_t, argument: &'static str, value: TransformDescriptor,
) -> Result<()> {
    TRANSFORMS.replace(desc.addr(), argument, || Ok(value))
}

/// Creates a tensor transform descriptor: no padding, no folding, destination NCHW.
///
/// Status: BAD_PARAM if `transformDesc` is NULL.
///
/// # Safety
/// `transformDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateTensorTransformDescriptor(
    transformDesc: *mut cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    create!(transformDesc, TRANSFORMS)
}

/// Destroys a tensor transform descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t,
) -> cudnnStatus_t {
    destroy!(transformDesc, TRANSFORMS)
}

/// Sets destination format, padding, fold factors and direction of a transform.
///
/// Padding has `nbDims` entries on each side (negative crops), factors `nbDims - 2`, one per spatial dimension (0
/// and 1 mean none); direction 0 folds, every other unfolds. A NULL array leaves what was there.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive or nbDims below 2; NOT_SUPPORTED for
/// nbDims above 8 (it is unsigned) or an unknown `destFormat` above 2. Padding and factors are judged when used.
///
/// # Safety
/// Each array is NULL or valid for reads of its entries.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t, nbDims: u32,
    destFormat: MaybeUninit<cudnnTensorFormat_t>, padBeforeA: *const i32, padAfterA: *const i32,
    foldA: *const u32, direction: MaybeUninit<cudnnFoldingDirection_t>,
) -> cudnnStatus_t {
    let format = raw(destFormat);
    TRANSFORMS.with_mut(transformDesc.addr(), "transformDesc", |transform| {
        let rank = nbDims as usize;
        if rank < 2 {
            return Err(Error::argument("nbDims", nbDims.into(), "a transform has at least 2 dimensions"));
        }
        if rank > MAX_RANK {
            return Err(Error::unsupported(format!("nbDims = {nbDims}: at most {MAX_RANK} dimensions")));
        }
        if format > 2 && Format::from_code(format, Mode::current()).is_none() {
            return Err(Error::unsupported(format!("destFormat = {format} is no format")));
        }
        transform.dest_format = format;
        transform.direction = if raw(direction) == 0 { Folding::Fold } else { Folding::Unfold };
        // SAFETY: each array is NULL or has the entries that are read.
        unsafe {
            arg::load_optional(padBeforeA, &mut transform.pad_before[..rank]);
            arg::load_optional(padAfterA, &mut transform.pad_after[..rank]);
            arg::load_optional(foldA, &mut transform.fold[..rank - 2]);
        }
        Ok(())
    })
}

/// Reads destination format, padding, fold factors and direction of a transform.
///
/// Exactly `nbDimsRequested` paddings and `nbDimsRequested - 2` factors, zeros where none were set. `destFormat` and the arrays may be NULL.
///
/// Status: BAD_PARAM for a descriptor that is not alive, nbDimsRequested outside 3..8, or if `direction` is NULL.
///
/// # Safety
/// Each pointer is NULL or valid for writes of its entries.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetTensorTransformDescriptor(
    transformDesc: cudnnTensorTransformDescriptor_t, nbDimsRequested: u32,
    destFormat: *mut cudnnTensorFormat_t, padBeforeA: *mut i32, padAfterA: *mut i32, foldA: *mut u32,
    direction: *mut cudnnFoldingDirection_t,
) -> cudnnStatus_t {
    let transform = TRANSFORMS.get(transformDesc.addr(), "transformDesc")?;
    let rank = nbDimsRequested as usize;
    if !(3..=MAX_RANK).contains(&rank) {
        let rule = format!("3 to {MAX_RANK} dimensions can be read");
        return Err(Error::argument("nbDimsRequested", nbDimsRequested.into(), rule));
    }
    results! {
        new direction = match transform.direction {
            Folding::Fold => cudnnFoldingDirection_t::CUDNN_TRANSFORM_FOLD,
            Folding::Unfold => cudnnFoldingDirection_t::CUDNN_TRANSFORM_UNFOLD,
        },
    }?;
    // SAFETY: each pointer is NULL or has room for its entries; the format may be any integer, which the C enum holds as well.
    unsafe {
        arg::set_optional(destFormat.cast::<c_int>(), transform.dest_format);
        arg::store_optional(padBeforeA, &transform.pad_before[..rank]);
        arg::store_optional(padAfterA, &transform.pad_after[..rank]);
        arg::store_optional(foldA, &transform.fold[..(rank - 2).min(MAX_FOLDS)]);
    }
    Ok(())
}

/// Sets `destDesc` to what the transform makes of `srcDesc`: packed, of the same type and vectorisation.
///
/// Fold: pad, then `C *= factor` and `dim = ceil(dim / factor)`; unfold: `C = ceil(C / factor)` and `dim *= factor`,
/// then pad. `destSizeInBytes` (may be NULL) receives its size. The two descriptors may be the same.
///
/// Status: BAD_PARAM for a descriptor that is not alive or padding that leaves nothing of a dimension;
/// NOT_SUPPORTED for a source never set or an unknown destination format; in strict mode also for more than 5
/// dimensions, NCHW_VECT_C, and folding of unpacked sources of rank other than 4. A failing call changes nothing.
///
/// # Safety
/// `destSizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnInitTransformDest(
    transformDesc: cudnnTensorTransformDescriptor_t, srcDesc: cudnnTensorDescriptor_t,
    destDesc: cudnnTensorDescriptor_t, destSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let transform = TRANSFORMS.get(transformDesc.addr(), "transformDesc")?;
    let src = tensor::get(srcDesc, "srcDesc")?;
    tensor::check(destDesc, "destDesc")?;
    let dest = transform.destination(&src, Mode::current())?;
    tensor::put(destDesc, "destDesc", dest)?;
    // SAFETY: `destSizeInBytes` is NULL or valid for one write.
    unsafe { arg::set_optional(destSizeInBytes, dest.size_in_bytes()) };
    Ok(())
}

/// `y = alpha * x + beta * y`, element by element of equal coordinates, between any two layouts and types.
///
/// Conversions round once, to nearest even; integers saturate and take NaN as 0. With alpha = 1, beta = 0 and equal types,
/// every bit is kept. Padding channels of a blocked y are written as zero.
///
/// Operands
/// - `x`, `y`: the same rank (2 to 8) and dims; an element of INT8x4, UINT8x4 or INT8x32 counts as its 4 or 32 channels.
///   Pointers are to the element of coordinates 0, aligned to one element, on the host for the CPU core, on the device for
///   the CUDA core.
/// - `alpha`, `beta`: host `double` if y is DOUBLE, else `float`. With beta = 0, y is never read.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks or dims that differ. NOT_SUPPORTED, in strict mode: pairs of types that cuDNN refuses.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: y repeats an address through stride 0.
/// - BAD_PARAM, on the CUDA core: memory that does not serve (with `CUDNN_SHIM_CHECK=1`). EXECUTION_FAILED_CUDART: what the
///   driver refuses, or reports of earlier work.
///
/// Aliasing: the CPU core takes x and y that overlap, as if all of x were read first; the CUDA core refuses it with
/// NOT_SUPPORTED unless every element is its own source. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `alpha` and `beta` are NULL or valid for one read; `x` is NULL or valid for reads of the whole span of `xDesc`,
/// `y` for reads and writes of that of `yDesc`; no other thread writes either meanwhile.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformTensor(
    handle: cudnnHandle_t, alpha: *const c_void, xDesc: cudnnTensorDescriptor_t, x: *const c_void,
    beta: *const c_void, yDesc: cudnnTensorDescriptor_t, y: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnTransformTensor", |call| {
        let (src, dst) = (tensor::get(xDesc, "xDesc")?, tensor::get(yDesc, "yDesc")?);
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { scaling(alpha, beta, dst.data_type()) }?;
        tensor::data(x, &src, "x")?;
        tensor::data(y, &dst, "y")?;
        let plan = TransformPlan::new(&src, &dst, scaling, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors.
        unsafe { call.run(&plan, operands![y, x]) }
    })
}

/// `destData = alpha * transform(srcData) + beta * destData`: padding, cropping, folding or unfolding on the way.
///
/// Elements without a source become `beta * destData`. A fold moves block position `(i, j)` of padded channel `c` to channel
/// `(i * fold_w + j) * C + c`. Everything else is as for cudnnTransformTensor.
///
/// Operands
/// - `srcData`, `destData`: as x and y of cudnnTransformTensor. The dims of `destDesc` are what the transform yields of
///   `srcDesc` (cudnnInitTransformDest computes them; type, vectorisation and strides may differ from what that chooses).
/// - `alpha`, `beta`: host `double` if the destination is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NULL factors; NULL data, or data off its element's alignment.
/// - BAD_PARAM: ranks that differ; a source that was never set, or that the transform does not fit. NOT_SUPPORTED, in strict
///   mode: folding that cudnnInitTransformDest refuses.
/// - NOT_SUPPORTED: NCHW_VECT_C of a type of one channel. BAD_PARAM: dims of `destDesc` that are not what the transform
///   yields.
/// - NOT_SUPPORTED, in strict mode: pairs of types that cuDNN refuses; folding with beta.
/// - then as cudnnTransformTensor, from y's addresses on.
///
/// Aliasing: as cudnnTransformTensor.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnTransformTensor.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformTensorEx(
    handle: cudnnHandle_t, transDesc: cudnnTensorTransformDescriptor_t, alpha: *const c_void,
    srcDesc: cudnnTensorDescriptor_t, srcData: *const c_void, beta: *const c_void,
    destDesc: cudnnTensorDescriptor_t, destData: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnTransformTensorEx", |call| {
        let transform = TRANSFORMS.get(transDesc.addr(), "transDesc")?;
        let (src, dst) = (tensor::get(srcDesc, "srcDesc")?, tensor::get(destDesc, "destDesc")?);
        // SAFETY: factors are NULL or one number, data is NULL or valid for the spans of `src` and `dst`.
        unsafe { transform_with_map(call, &transform, [&src, &dst], [alpha, beta], srcData, destData) }
    })
}

/// `dest = alpha * transform(src) + beta * dest` between two filters: as cudnnTransformTensorEx, of packed dims.
///
/// K is padded like a batch; the transform's folding, formats (KCRS, KRSC, NCHW_VECT_C) and types are those of tensors.
///
/// Operands
/// - `srcData`, `destData`: filters of K x C x spatial dims, packed; memory as in cudnnTransformTensor.
/// - `alpha`, `beta`: host `double` if the destination is DOUBLE, else `float`.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive. NOT_SUPPORTED: filters whose packed strides do not fit 32 bits.
/// - then as cudnnTransformTensorEx.
///
/// Aliasing: as cudnnTransformTensor.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As for cudnnTransformTensorEx.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnTransformFilter(
    handle: cudnnHandle_t, transDesc: cudnnTensorTransformDescriptor_t, alpha: *const c_void,
    srcDesc: cudnnFilterDescriptor_t, srcData: *const c_void, beta: *const c_void,
    destDesc: cudnnFilterDescriptor_t, destData: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnTransformFilter", |call| {
        let transform = TRANSFORMS.get(transDesc.addr(), "transDesc")?;
        let mode = Mode::current();
        let (src, dst) = (filter::get(srcDesc, "srcDesc")?, filter::get(destDesc, "destDesc")?);
        let (src, dst) = (src.tensor(mode)?, dst.tensor(mode)?);
        // SAFETY: factors are NULL or one number, data is NULL or valid for the spans of `src` and `dst`.
        unsafe { transform_with_map(call, &transform, [&src, &dst], [alpha, beta], srcData, destData) }
    })
}

/// Plans and runs what cudnnTransformTensorEx and cudnnTransformFilter do alike.
///
/// # Safety
/// As for cudnnTransformTensorEx.
unsafe fn transform_with_map(
    call: &mut Call<'_>, transform: &TransformDescriptor, [src, dst]: [&TensorDescriptor; 2],
    [alpha, beta]: [*const c_void; 2], srcData: *const c_void, destData: *mut c_void,
) -> Result<()> {
    // SAFETY: both factors are NULL or one readable number of their type.
    let scaling = unsafe { scaling(alpha, beta, dst.data_type()) }?;
    tensor::data(srcData, src, "srcData")?;
    tensor::data(destData, dst, "destData")?;
    let plan = TransformPlan::with_map(transform, src, dst, scaling, Mode::current())?;
    // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are the plan's.
    unsafe { call.run(&plan, operands![destData, srcData]) }
}

/// Reads alpha and beta: `double` if `of`, the destination or what a convolution computes in, is
/// DOUBLE, else `float`.
///
/// # Errors
/// Bad parameter for NULL.
///
/// # Safety
/// Both are NULL or valid for one read of that type.
pub(super) unsafe fn scaling(alpha: *const c_void, beta: *const c_void, of: DataType) -> Result<Scaling> {
    let is_double = of == DataType::Double;
    // SAFETY: both factors are NULL or one readable number of their type.
    unsafe {
        Ok(Scaling {
            alpha: arg::factor(alpha, "alpha", is_double)?,
            beta: arg::factor(beta, "beta", is_double)?,
        })
    }
}
