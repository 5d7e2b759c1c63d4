//! Tensor descriptors: create, set, get, size, destroy.
//!
//! Strides count elements; sizes are in bytes. Every limit and the order of checks were observed on 9.27.0.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::data_type;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{cudnnDataType_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnTensorFormat_t, raw};
use crate::desc::{Format, TensorDescriptor};
use crate::error::{Error, Result};
use crate::mode::Mode;

static TENSORS: Table<TensorDescriptor> = Table::new(Kind::Tensor);

/// All tensor descriptors, for their twins.
pub(crate) fn table() -> &'static Table<TensorDescriptor> {
    &TENSORS
}

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnTensorDescriptor_t, argument: &'static str) -> Result<TensorDescriptor> {
    TENSORS.get(desc.addr(), argument)
}

/// Refuses a descriptor that is not alive.
///
/// # Errors
/// Bad parameter.
pub(crate) fn check(desc: cudnnTensorDescriptor_t, argument: &'static str) -> Result<()> {
    TENSORS.with(desc.addr(), argument, |_| Ok(()))
}

/// Refuses NULL and data that is not aligned to the scalars of `tensor`.
///
/// # Errors
/// Bad parameter.
pub(crate) fn data(pointer: *const c_void, tensor: &TensorDescriptor, argument: &'static str) -> Result<()> {
    arg::data(pointer, tensor.data_type().scalar().size(), argument)
}

/// A descriptor that was never set, for calls that need one of their own.
///
/// # Errors
/// Without memory for it.
pub(super) fn insert() -> Result<cudnnTensorDescriptor_t> {
    TENSORS.insert(TensorDescriptor::default()).map(std::ptr::without_provenance_mut)
}

/// Takes such a descriptor away.
pub(super) fn remove(desc: cudnnTensorDescriptor_t) {
    // It is alive.
    let _ = TENSORS.remove(desc.addr(), "tensorDesc");
}

/// Replaces what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn put(
    desc: cudnnTensorDescriptor_t, argument: &'static str, value: TensorDescriptor,
) -> Result<()> {
    TENSORS.replace(desc.addr(), argument, || Ok(value))
}

fn format(code: MaybeUninit<cudnnTensorFormat_t>, mode: Mode) -> Result<Format> {
    let code = raw(code);
    Format::from_code(code, mode)
        .ok_or_else(|| Error::argument("format", code.into(), "0 NCHW, 1 NHWC, 2 NCHW_VECT_C"))
}

/// Creates a tensor descriptor: type float, no dimensions.
///
/// Status: BAD_PARAM if `tensorDesc` is NULL.
///
/// # Safety
/// `tensorDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateTensorDescriptor(
    tensorDesc: *mut cudnnTensorDescriptor_t,
) -> cudnnStatus_t {
    create!(tensorDesc, TENSORS)
}

/// Destroys a tensor descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyTensorDescriptor(tensorDesc: cudnnTensorDescriptor_t) -> cudnnStatus_t {
    destroy!(tensorDesc, TENSORS)
}

/// Sets a 4-D tensor whose strides follow from `format`.
///
/// NCHW packed, NHWC packed, or NCHW over vectors of 4 or 32 channels (types INT8x4, UINT8x4, INT8x32). A failing
/// call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown type or format, an extent below 1, or
/// channels that are no multiple of the vector; NOT_SUPPORTED for strides beyond 32 bits and, in strict mode, an
/// extent beyond 2^31-1 elements.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t, format: MaybeUninit<cudnnTensorFormat_t>,
    dataType: MaybeUninit<cudnnDataType_t>, n: c_int, c: c_int, h: c_int, w: c_int,
) -> cudnnStatus_t {
    TENSORS.with_mut(tensorDesc.addr(), "tensorDesc", |tensor| {
        let mode = Mode::current();
        let data_type = data_type::decode(dataType, mode)?;
        let format = self::format(format, mode)?;
        if format == Format::NchwVectC && data_type.lanes() == 1 {
            return Err(Error::argument(
                "dataType",
                raw(dataType).into(),
                "NCHW_VECT_C needs a type of several channels: INT8x4, UINT8x4 or INT8x32",
            ));
        }
        // Not by `replace` and `map_err`: a descriptor that is passed along is copied each time, a tenth of this call.
        match TensorDescriptor::with_format(data_type, format, 4, &[n, c, h, w].map(i64::from), mode) {
            Ok(set) => {
                *tensor = set;
                Ok(())
            }
            Err(error) => Err(error.by_name("dimA", &["n", "c", "h", "w"])),
        }
    })
}

/// Sets a 4-D tensor with explicit strides, counted in elements.
///
/// They may be negative, permuted, padded or overlapping, and a stride of 0 repeats an input. A failing call
/// changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown type, an extent below 1 and, in strict mode,
/// stride 0 on an extent above 1; NOT_SUPPORTED in strict mode for an extent beyond 2^31-1 elements.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetTensor4dDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>, n: c_int, c: c_int,
    h: c_int, w: c_int, nStride: c_int, cStride: c_int, hStride: c_int, wStride: c_int,
) -> cudnnStatus_t {
    TENSORS.replace(tensorDesc.addr(), "tensorDesc", || {
        let mode = Mode::current();
        let dims = [n, c, h, w].map(i64::from);
        let strides = [nStride, cStride, hStride, wStride].map(i64::from);
        TensorDescriptor::with_strides(data_type::decode(dataType, mode)?, 4, &dims, &strides, mode).map_err(
            |error| {
                error
                    .by_name("dimA", &["n", "c", "h", "w"])
                    .by_name("strideA", &["nStride", "cStride", "hStride", "wStride"])
            },
        )
    })
}

/// Sets a tensor of 2 to 8 dimensions with explicit strides; see cudnnSetTensor4dDescriptorEx.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown type, a NULL array, nbDims
/// below 2; NOT_SUPPORTED for nbDims above 8; BAD_PARAM for an extent below 1 and, in strict mode, stride 0
/// on an extent above 1; NOT_SUPPORTED in strict mode for an extent beyond 2^31-1 elements.
///
/// # Safety
/// `dimA` and `strideA` are NULL or valid for reads of `nbDims` ints.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>, nbDims: c_int,
    dimA: *const c_int, strideA: *const c_int,
) -> cudnnStatus_t {
    TENSORS.replace(tensorDesc.addr(), "tensorDesc", || {
        let mode = Mode::current();
        let data_type = data_type::decode(dataType, mode)?;
        // SAFETY: each array is NULL or holds `nbDims` ints.
        let (dims, strides) =
            unsafe { (arg::ints(dimA, nbDims, "dimA")?, arg::ints(strideA, nbDims, "strideA")?) };
        TensorDescriptor::with_strides(data_type, nbDims.into(), &dims, &strides, mode)
    })
}

/// Sets a tensor of 2 to 8 dimensions whose strides follow from `format`; see cudnnSetTensor4dDescriptor.
///
/// With NCHW_VECT_C every type is accepted; types of one channel get vectors of 4 that no data transform understands.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown type or format, a NULL
/// array, channels that are no multiple of the vector, nbDims below 2; NOT_SUPPORTED for nbDims above 8;
/// BAD_PARAM for an extent below 1; NOT_SUPPORTED for strides beyond 32 bits and, in strict mode, an extent
/// beyond 2^31-1 elements.
///
/// # Safety
/// `dimA` is NULL or valid for reads of `nbDims` ints.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptorEx(
    tensorDesc: cudnnTensorDescriptor_t, format: MaybeUninit<cudnnTensorFormat_t>,
    dataType: MaybeUninit<cudnnDataType_t>, nbDims: c_int, dimA: *const c_int,
) -> cudnnStatus_t {
    TENSORS.replace(tensorDesc.addr(), "tensorDesc", || {
        let mode = Mode::current();
        let data_type = data_type::decode(dataType, mode)?;
        let format = self::format(format, mode)?;
        // SAFETY: `dimA` is NULL or valid for reads of `nbDims` ints.
        let dims = unsafe { arg::ints(dimA, nbDims, "dimA") }?;
        TensorDescriptor::with_format(data_type, format, nbDims.into(), &dims, mode)
    })
}

/// Reads a descriptor as 4-D: the first four dims and strides whatever the rank, zeros where there are fewer.
///
/// Status: BAD_PARAM for a descriptor that is not alive, if any pointer is NULL (nothing is written then), or for
/// a vectorisation that the type does not have.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensor4dDescriptor(
    tensorDesc: cudnnTensorDescriptor_t, dataType: *mut cudnnDataType_t, n: *mut c_int, c: *mut c_int,
    h: *mut c_int, w: *mut c_int, nStride: *mut c_int, cStride: *mut c_int, hStride: *mut c_int,
    wStride: *mut c_int,
) -> cudnnStatus_t {
    let tensor = get(tensorDesc, "tensorDesc")?;
    // SAFETY: every place is NULL or valid for one write.
    let (data_type, dims, strides) = unsafe {
        (
            Out::new(dataType, "dataType")?,
            [Out::new(n, "n")?, Out::new(c, "c")?, Out::new(h, "h")?, Out::new(w, "w")?],
            [
                Out::new(nStride, "nStride")?,
                Out::new(cStride, "cStride")?,
                Out::new(hStride, "hStride")?,
                Out::new(wStride, "wStride")?,
            ],
        )
    };
    data_type.set(data_type::encode(tensor.data_type()));
    if tensor.has_foreign_vector() {
        // The original has written type and n when it notices.
        dims[0].set(tensor.dims()[0] as c_int);
        return Err(Error::mismatch("tensorDesc has a vectorisation that its type does not have"));
    }
    let entry = |values: &[i64], axis: usize| values.get(axis).copied().unwrap_or(0) as c_int;
    for axis in 0..4 {
        dims[axis].set(entry(&tensor.dims(), axis));
        strides[axis].set(entry(&tensor.strides(), axis));
    }
    Ok(())
}

/// Reads type, rank and the first `min(nbDimsRequested, rank)` dims and strides.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if a pointer is NULL; `dimA` and `strideA` may be
/// NULL if no dimension is requested.
///
/// # Safety
/// `dataType` and `nbDims` are NULL or valid for one write, `dimA` and `strideA` for `nbDimsRequested` writes.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    tensorDesc: cudnnTensorDescriptor_t, nbDimsRequested: c_int, dataType: *mut cudnnDataType_t,
    nbDims: *mut c_int, dimA: *mut c_int, strideA: *mut c_int,
) -> cudnnStatus_t {
    let tensor = get(tensorDesc, "tensorDesc")?;
    let count = usize::try_from(nbDimsRequested).unwrap_or(0);
    if count > 0 {
        arg::required(dimA, "dimA")?;
        arg::required(strideA, "strideA")?;
    }
    results! {
        new dataType = data_type::encode(tensor.data_type()),
        new nbDims = tensor.rank() as c_int,
    }?;
    // SAFETY: not NULL if anything is written, and the caller vouches for nbDimsRequested entries.
    unsafe {
        arg::store(dimA, tensor.dims().iter().take(count).map(|&d| d as c_int));
        arg::store(strideA, tensor.strides().iter().take(count).map(|&s| s as c_int));
    }
    Ok(())
}

/// Bytes from the lowest to the highest element.
///
/// `(1 + sum (dim - 1) * |stride|) * element size`, of stored dims; 0 before the first setter.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `size` is NULL.
///
/// # Safety
/// `size` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorSizeInBytes(
    tensorDesc: cudnnTensorDescriptor_t, size: *mut usize,
) -> cudnnStatus_t {
    let tensor = get(tensorDesc, "tensorDesc")?;
    results!(new size = tensor.size_in_bytes())
}
