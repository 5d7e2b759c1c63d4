//! Filter descriptors: create, set, get, size, destroy.
//!
//! Every limit and the order of checks were observed on 9.27.0.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::beside::twinned;
use super::data_type;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{cudnnDataType_t, cudnnFilterDescriptor_t, cudnnStatus_t, cudnnTensorFormat_t, raw};
use crate::desc::{FilterDescriptor, Format};
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::mode::Mode;

static FILTERS: Table<FilterDescriptor> = Table::new(Kind::Filter);
twinned!(cudnnFilterDescriptor_t, FILTERS);

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn get(desc: cudnnFilterDescriptor_t, argument: &'static str) -> Result<FilterDescriptor> {
    FILTERS.get(desc.addr(), argument)
}

/// Replaces what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn put(
    desc: cudnnFilterDescriptor_t, argument: &'static str, value: FilterDescriptor,
) -> Result<()> {
    FILTERS.replace(desc.addr(), argument, || Ok(value))
}

fn set(
    desc: cudnnFilterDescriptor_t, data_type: MaybeUninit<cudnnDataType_t>,
    format: MaybeUninit<cudnnTensorFormat_t>, rank: c_int, dims: impl FnOnce() -> Result<Dims>,
) -> Result<()> {
    FILTERS.replace(desc.addr(), "filterDesc", || {
        let mode = Mode::current();
        let data_type = data_type::decode(data_type, mode)?;
        if mode.is_strict() && data_type == crate::dtype::DataType::Int32 {
            return Err(Error::argument("dataType", 4, "strict mode has no filters of INT32"));
        }
        // Blocked formats are for tensors only, in every mode.
        let format = Format::from_code(raw(format), Mode::Strict)
            .ok_or_else(|| Error::argument("format", raw(format).into(), "0 NCHW, 1 NHWC, 2 NCHW_VECT_C"))?;
        FilterDescriptor::new(data_type, format, rank.into(), &dims()?, mode)
    })
}

/// Creates a filter descriptor: type float, no dimensions.
///
/// Status: BAD_PARAM if `filterDesc` is NULL.
///
/// # Safety
/// `filterDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFilterDescriptor(
    filterDesc: *mut cudnnFilterDescriptor_t,
) -> cudnnStatus_t {
    create!(filterDesc, FILTERS)
}

/// Destroys a filter descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyFilterDescriptor(filterDesc: cudnnFilterDescriptor_t) -> cudnnStatus_t {
    destroy!(filterDesc, FILTERS)
}

/// Sets a packed filter of K x C x H x W.
///
/// NCHW_VECT_C is for INT8x4, UINT8x4 and INT8x32. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown type or format, NCHW_VECT_C of
/// another type, an extent below 1, channels that are no multiple of the vector; NOT_SUPPORTED for 2^63 bytes and
/// more. Strict mode refuses INT32 and types above 9, cuts surplus channels off, and lets sizes wrap.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>,
    format: MaybeUninit<cudnnTensorFormat_t>, k: c_int, c: c_int, h: c_int, w: c_int,
) -> cudnnStatus_t {
    set(filterDesc, dataType, format, 4, || Ok(Dims::new(&[k, c, h, w].map(i64::from))))
        .map_err(|error| error.by_name("filterDimA", &["k", "c", "h", "w"]))
}

/// Sets a packed filter of 3 to 8 dimensions: K x C x spatial.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown type or format, a NULL array,
/// nbDims below 3; NOT_SUPPORTED for nbDims above 8; then as cudnnSetFilter4dDescriptor.
///
/// # Safety
/// `filterDimA` is NULL or valid for reads of `nbDims` ints.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>,
    format: MaybeUninit<cudnnTensorFormat_t>, nbDims: c_int, filterDimA: *const c_int,
) -> cudnnStatus_t {
    set(filterDesc, dataType, format, nbDims, || {
        // SAFETY: `filterDimA` is NULL or valid for reads of `nbDims` ints.
        unsafe { arg::ints(filterDimA, nbDims, "filterDimA") }
    })
}

/// Reads type, format and the first four dimensions of a filter; zeros where there are fewer.
///
/// Channels are counted one by one, also under NCHW_VECT_C.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilter4dDescriptor(
    filterDesc: cudnnFilterDescriptor_t, dataType: *mut cudnnDataType_t, format: *mut cudnnTensorFormat_t,
    k: *mut c_int, c: *mut c_int, h: *mut c_int, w: *mut c_int,
) -> cudnnStatus_t {
    let filter = get(filterDesc, "filterDesc")?;
    results! {
        new dataType = data_type::encode(filter.data_type()),
        code format = filter.format().code(),
        each [k, c, h, w] = filter.dims(),
    }
}

/// Reads type, format, rank and exactly `nbDimsRequested` dimensions of a filter, zeros beyond its rank.
///
/// Status: BAD_PARAM for a descriptor that is not alive or nbDimsRequested below 1; NOT_SUPPORTED for
/// nbDimsRequested above 8; BAD_PARAM if a pointer is NULL (nothing is written then).
///
/// # Safety
/// `dataType`, `format` and `nbDims` are NULL or valid for one write, `filterDimA` for `nbDimsRequested` writes.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilterNdDescriptor(
    filterDesc: cudnnFilterDescriptor_t, nbDimsRequested: c_int, dataType: *mut cudnnDataType_t,
    format: *mut cudnnTensorFormat_t, nbDims: *mut c_int, filterDimA: *mut c_int,
) -> cudnnStatus_t {
    let filter = get(filterDesc, "filterDesc")?;
    if nbDimsRequested < 1 {
        return Err(Error::argument("nbDimsRequested", nbDimsRequested.into(), "at least 1 can be read"));
    }
    if nbDimsRequested as usize > MAX_RANK {
        return Err(Error::unsupported(format!("nbDimsRequested = {nbDimsRequested}: at most {MAX_RANK}")));
    }
    arg::required(filterDimA, "filterDimA")?;
    results! {
        new dataType = data_type::encode(filter.data_type()),
        code format = filter.format().code(),
        new nbDims = filter.dims().rank() as c_int,
    }?;
    // SAFETY: not NULL, and the caller vouches for nbDimsRequested entries.
    unsafe { arg::store_padded(filterDimA, &filter.dims(), nbDimsRequested) };
    Ok(())
}

/// Bytes that a filter takes: the product of its stored dims times the element size; 0 before the first setter.
///
/// Status: BAD_PARAM if `size` is NULL or for a descriptor that is not alive; `*size` is 0 then.
///
/// # Safety
/// `size` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFilterSizeInBytes(
    filterDesc: cudnnFilterDescriptor_t, size: *mut usize,
) -> cudnnStatus_t {
    // SAFETY: `size` is NULL or valid for one write.
    let size = unsafe { Out::new(size, "size") }?;
    size.set(0);
    size.set(get(filterDesc, "filterDesc")?.size_in_bytes());
    Ok(())
}
