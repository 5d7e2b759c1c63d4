//! `cudnn_shim.h`: layouts by name, and questions about a tensor descriptor of any kind.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, results};
use super::types::{cudnnDataType_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{data_type, tensor};
use crate::desc::TensorDescriptor;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, name};
use crate::mode::Mode;

/// Reads a C string.
///
/// # Errors
/// Bad parameter for NULL and for text that is not UTF-8.
///
/// # Safety
/// `text` is NULL or a C string, unchanged for as long as the result is used.
unsafe fn string<'a>(text: *const c_char, argument: &'static str) -> Result<&'a str> {
    arg::required(text, argument)?;
    // SAFETY: `text` is not NULL, and so a C string.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::mismatch(format!("{argument} is not UTF-8")))
}

/// Stores a C string: nothing if it does not fit.
///
/// # Errors
/// Bad parameter for NULL and for a size that is too small.
///
/// # Safety
/// `place` is NULL or valid for writes of `size` bytes.
pub(crate) unsafe fn store_string(
    text: &str, size: usize, place: *mut c_char, argument: &'static str,
) -> Result<()> {
    arg::required(place, argument)?;
    if size <= text.len() {
        return Err(Error::mismatch(format!(
            "{argument} has {size} bytes, \"{text}\" needs {}",
            text.len() + 1
        )));
    }
    // SAFETY: not NULL, and there is room for the text and its end.
    unsafe { arg::store(place.cast::<u8>(), text.bytes().chain([0])) };
    Ok(())
}

/// What every question begins with: where the elements lie, in the getters' units.
fn elements(desc: cudnnTensorDescriptor_t) -> Result<(TensorDescriptor, Layout)> {
    let tensor = tensor::get(desc, "tensorDesc")?;
    let layout = tensor.elements()?;
    Ok((tensor, layout))
}

/// Answers a question with 0 or 1.
///
/// # Safety
/// `answer` is NULL or valid for one write.
unsafe fn ask(
    tensorDesc: cudnnTensorDescriptor_t, answer: *mut c_int, question: impl FnOnce(&Layout) -> Result<bool>,
) -> Result<()> {
    let (_, layout) = elements(tensorDesc)?;
    let yes = question(&layout)?;
    results!(new answer = c_int::from(yes))
}

/// Sets a packed tensor in the layout of this name, of 2 to 8 dimensions in the usual order (N C H W, N C D H W, B M N).
///
/// Names: any order of the letters, the innermost last (`NHWC`, `CHWN`, `NDHWC`, `BNM`, ...); `BMN:row`, `BMN:col`;
/// channels in blocks, `NC/32HW32`, `nChw16c`, `nCdhw8c`, and `NCHW_VECT_C`, which those of 4 or 32 are for a type that
/// holds as many channels; `packed`, `channels_last`, `PyTorch`, `PyTorch:channels_last`, `PyTorch:channels_last_3d`,
/// `TensorFlow`, `Caffe`, `ONNX`, `NumPy:C`, `NumPy:F`. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an unknown type, a NULL pointer, nbDims below
/// 2; NOT_SUPPORTED for nbDims above 8; BAD_PARAM for an unknown name or one of another rank, an extent below 1, or
/// channels that are no multiple of a vector; NOT_SUPPORTED for strides beyond 32 bits and, in strict mode, for blocked
/// layouts.
///
/// # Safety
/// `layout` is NULL or a C string, `dimA` NULL or valid for reads of `nbDims` ints.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimSetTensorLayout(
    tensorDesc: cudnnTensorDescriptor_t, dataType: MaybeUninit<cudnnDataType_t>, layout: *const c_char,
    nbDims: c_int, dimA: *const c_int,
) -> cudnnStatus_t {
    tensor::check(tensorDesc, "tensorDesc")?;
    let mode = Mode::current();
    let data_type = data_type::decode(dataType, mode)?;
    // SAFETY: `layout` is NULL or a C string, `dimA` is NULL or holds `nbDims` ints.
    let (layout, dims) = unsafe { (string(layout, "layout")?, arg::ints(dimA, nbDims, "dimA")?) };
    let set = TensorDescriptor::with_layout(data_type, layout, nbDims.into(), &dims, mode)?;
    tensor::put(tensorDesc, "tensorDesc", set)
}

/// The name of the layout that a descriptor has, whether it was set by name, format or strides, such as `NHWC`.
///
/// A packed layout has a name that cudnnShimSetTensorLayout takes; where dims of 1 let several fit, the commonest. Else
/// `NCHW (HW-packed)` tells which innermost letters of a format are packed, and `strided` that no name fits.
///
/// Status: BAD_PARAM for a descriptor that is not alive or was never set, if `name` is NULL, or if `nameSize` bytes do not
/// hold the name and its end (64 hold any; nothing is written otherwise).
///
/// # Safety
/// `name` is NULL or valid for writes of `nameSize` bytes.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetTensorLayout(
    tensorDesc: cudnnTensorDescriptor_t, nameSize: usize, name: *mut c_char,
) -> cudnnStatus_t {
    let (_, layout) = elements(tensorDesc)?;
    // SAFETY: `name` is NULL or valid for writes of `nameSize` bytes.
    unsafe { store_string(&layout.description(), nameSize, name, "name") }
}

/// Whether the tensor is fully packed: its elements fill a range without gaps or repeats, in any order of dimensions.
///
/// The padding of blocked layouts counts as part of the tensor. Strides of dims of 1 do not count, negative strides are not packed.
///
/// Status: BAD_PARAM for a descriptor that is not alive or was never set, or if `answer` is NULL.
///
/// # Safety
/// `answer` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimIsTensorFullyPacked(
    tensorDesc: cudnnTensorDescriptor_t, answer: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `answer` is NULL or valid for one write.
    unsafe { ask(tensorDesc, answer, |layout| Ok(layout.is_fully_packed())) }
}

/// Whether the tensor is packed in these letters of N C H W, N C D H W, B M N or N C W ("WC-packed").
///
/// Read by decreasing stride, each of these dimensions has as stride exactly what lies further inside, the innermost 1, and
/// every other at least that. The order in which the letters are written does not count. Of 3 dimensions, N alone is that of B M N.
///
/// Status: BAD_PARAM for a descriptor that is not alive or was never set, if a pointer is NULL, for other letters or
/// letters that stand twice, and for ranks without letters (6 to 8).
///
/// # Safety
/// `letters` is NULL or a C string, `answer` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimIsTensorPacked(
    tensorDesc: cudnnTensorDescriptor_t, letters: *const c_char, answer: *mut c_int,
) -> cudnnStatus_t {
    let question = |layout: &Layout| {
        // SAFETY: `letters` is NULL or a C string.
        let letters = unsafe { string(letters, "letters") }?;
        let rank = layout.dims.rank();
        let wanted = name::dimensions(letters, rank).ok_or_else(|| {
            Error::mismatch(format!("letters {letters}: a tensor of {rank} dimensions has no such letters"))
        })?;
        Ok(layout.is_packed_in(&wanted))
    };
    // SAFETY: `answer` is NULL or valid for one write.
    unsafe { ask(tensorDesc, answer, question) }
}

/// Whether the tensor is spatially packed: NCHW or CNHW with HW (or DHW) packed.
///
/// Status: as cudnnShimIsTensorFullyPacked. 2 dimensions are never spatially packed.
///
/// # Safety
/// `answer` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimIsTensorSpatiallyPacked(
    tensorDesc: cudnnTensorDescriptor_t, answer: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `answer` is NULL or valid for one write.
    unsafe { ask(tensorDesc, answer, |layout| Ok(layout.is_spatially_packed())) }
}

/// Whether a walk of the whole range visits some address twice.
///
/// Such a tensor may be read, not written. Exact but for strides that share no pattern with the dims, where a search is given
/// up after some time with the answer 1.
///
/// Status: as cudnnShimIsTensorFullyPacked.
///
/// # Safety
/// `answer` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimIsTensorOverlapping(
    tensorDesc: cudnnTensorDescriptor_t, answer: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `answer` is NULL or valid for one write.
    unsafe { ask(tensorDesc, answer, |layout| Ok(layout.overlaps())) }
}

/// Whether some dimension of more than one element has stride 0, so that it repeats what it reads.
///
/// Status: as cudnnShimIsTensorFullyPacked.
///
/// # Safety
/// `answer` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimIsTensorBroadcast(
    tensorDesc: cudnnTensorDescriptor_t, answer: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: `answer` is NULL or valid for one write.
    unsafe { ask(tensorDesc, answer, |layout| Ok(layout.is_broadcast())) }
}

/// The contiguous range of memory that a tensor reaches, padding and gaps included.
///
/// `*first` is the lowest offset from the data pointer, 0 or below (negative strides), `*elements` the number of elements from
/// there to the highest, `*bytes` their size, which is that of cudnnGetTensorSizeInBytes. Under NCHW_VECT_C elements are
/// single channels. Each may be NULL.
///
/// Status: BAD_PARAM for a descriptor that is not alive or was never set.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetTensorRange(
    tensorDesc: cudnnTensorDescriptor_t, first: *mut i64, elements: *mut i64, bytes: *mut usize,
) -> cudnnStatus_t {
    let (tensor, _) = self::elements(tensorDesc)?;
    let ((low, high), unit) = (tensor.span(), tensor.scalars_per_element());
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(first, low / unit);
        arg::set_optional(elements, (high - low) / unit + 1);
        arg::set_optional(bytes, tensor.size_in_bytes());
    }
    Ok(())
}

/// Where the element of these coordinates lies: elements from the data pointer.
///
/// Coordinates run over the dims that cudnnGetTensorNdDescriptor reports. Under NCHW_VECT_C, and in blocked layouts,
/// offsets count single channels.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive or was never set, if a pointer is NULL, for
/// another rank, or for a coordinate outside its dim.
///
/// # Safety
/// `indexA` is NULL or valid for reads of `nbDims` entries, `offset` NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetTensorOffset(
    tensorDesc: cudnnTensorDescriptor_t, nbDims: c_int, indexA: *const i64, offset: *mut i64,
) -> cudnnStatus_t {
    let (_, layout) = elements(tensorDesc)?;
    arg::required(offset, "offset")?;
    arg::required(indexA, "indexA")?;
    same_rank(&layout, nbDims)?;
    let mut index = layout.dims;
    // SAFETY: not NULL, and the caller vouches for nbDims entries, which is the rank.
    unsafe { arg::load_optional(indexA, &mut index) };
    if let Some(axis) = (0..index.rank()).find(|&axis| !(0..layout.dims[axis]).contains(&index[axis])) {
        let rule = format!("the extent is {}", layout.dims[axis]);
        return Err(Error::element("indexA", axis, index[axis], rule));
    }
    results!(new offset = layout.offset(&index))
}

/// The coordinates of the element at an offset, which counts elements from the data pointer.
///
/// The inverse of cudnnShimGetTensorOffset; one of the elements where several share the place.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive or was never set, if `indexA` is NULL, for
/// another rank, or if no element lies there; NOT_SUPPORTED if strides overlap so that the search would take too long.
///
/// # Safety
/// `indexA` is NULL or valid for writes of `nbDims` entries.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetTensorIndex(
    tensorDesc: cudnnTensorDescriptor_t, offset: i64, nbDims: c_int, indexA: *mut i64,
) -> cudnnStatus_t {
    let (_, layout) = elements(tensorDesc)?;
    arg::required(indexA, "indexA")?;
    same_rank(&layout, nbDims)?;
    let index: Dims = layout.index(offset)?;
    // SAFETY: not NULL, and the caller vouches for nbDims entries, which is the rank.
    unsafe { arg::store(indexA, index.iter().copied()) };
    Ok(())
}

fn same_rank(layout: &Layout, nbDims: c_int) -> Result<()> {
    let rank = layout.dims.rank();
    if i64::from(nbDims) != rank as i64 {
        return Err(Error::argument("nbDims", nbDims.into(), format!("the tensor has {rank} dimensions")));
    }
    Ok(())
}
