//! Convolution descriptors: create, set, get, destroy; output dims.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::beside::twinned;
use super::lifecycle::{create, destroy};
use super::slab::{Kind, Table};
use super::types::{
    cudnnConvolutionDescriptor_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnFilterDescriptor_t,
    cudnnMathType_t, cudnnReorderType_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{data_type, filter, tensor};
use crate::desc::pooling::check_spatial;
use crate::desc::{Choice, ConvolutionDescriptor, ConvolutionGeometry};
use crate::error::{Error, Result};
use crate::layout::Dims;

static CONVOLUTIONS: Table<ConvolutionDescriptor> = Table::new(Kind::Convolution);
twinned!(cudnnConvolutionDescriptor_t, CONVOLUTIONS);

pub(crate) fn get(desc: cudnnConvolutionDescriptor_t) -> Result<ConvolutionDescriptor> {
    find(desc, "convDesc")
}

/// A copy of the descriptor behind a handle.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn find(
    desc: cudnnConvolutionDescriptor_t, argument: &'static str,
) -> Result<ConvolutionDescriptor> {
    CONVOLUTIONS.get(desc.addr(), argument)
}

/// Replaces what a descriptor holds.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn put(
    desc: cudnnConvolutionDescriptor_t, argument: &'static str, value: ConvolutionDescriptor,
) -> Result<()> {
    CONVOLUTIONS.replace(desc.addr(), argument, || Ok(value))
}

/// Changes a part of a descriptor; keeps all of it if `change` fails before its first write.
fn update(
    desc: cudnnConvolutionDescriptor_t, change: impl FnOnce(&mut ConvolutionDescriptor) -> Result<()>,
) -> Result<()> {
    CONVOLUTIONS.with_mut(desc.addr(), "convDesc", change)
}

/// Refuses counts of spatial dimensions outside 0 to 6.
fn check_length(argument: &'static str, length: c_int) -> Result<()> {
    if length < 0 {
        return Err(Error::argument(argument, length.into(), "not negative"));
    }
    check_spatial(argument, length)
}

/// Creates a convolution descriptor: no dimensions, 1 group.
///
/// Status: BAD_PARAM if `convDesc` is NULL.
///
/// # Safety
/// `convDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateConvolutionDescriptor(
    convDesc: *mut cudnnConvolutionDescriptor_t,
) -> cudnnStatus_t {
    create!(convDesc, CONVOLUTIONS)
}

/// Destroys a convolution descriptor; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnDestroyConvolutionDescriptor(convDesc: cudnnConvolutionDescriptor_t) -> cudnnStatus_t {
    destroy!(convDesc, CONVOLUTIONS)
}

/// Sets which arithmetic units a convolution may use. The value is kept; the CPU core has no choice.
///
/// Status: BAD_PARAM for a descriptor that is not alive or an unknown value.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t, mathType: MaybeUninit<cudnnMathType_t>,
) -> cudnnStatus_t {
    update(convDesc, |desc| {
        desc.math_type = arg::choice(mathType, "mathType")?;
        Ok(())
    })
}

/// Reads which arithmetic units a convolution may use.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `mathType` is NULL.
///
/// # Safety
/// `mathType` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionMathType(
    convDesc: cudnnConvolutionDescriptor_t, mathType: *mut cudnnMathType_t,
) -> cudnnStatus_t {
    let desc = get(convDesc)?;
    results!(code mathType = desc.math_type.code())
}

/// Sets the number of channel groups of a convolution.
///
/// Status: BAD_PARAM for a descriptor that is not alive or a count below 1.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t, groupCount: c_int,
) -> cudnnStatus_t {
    update(convDesc, |desc| {
        if groupCount < 1 {
            return Err(Error::argument("groupCount", groupCount.into(), "at least 1"));
        }
        desc.groups = groupCount;
        Ok(())
    })
}

/// Reads the number of channel groups of a convolution, 1 before it is set.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `groupCount` is NULL.
///
/// # Safety
/// `groupCount` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionGroupCount(
    convDesc: cudnnConvolutionDescriptor_t, groupCount: *mut c_int,
) -> cudnnStatus_t {
    let desc = get(convDesc)?;
    results!(new groupCount = desc.groups)
}

/// Sets whether 8-bit filters are reordered before use. The value is kept; the CPU core never does.
///
/// Status: BAD_PARAM for a descriptor that is not alive or an unknown value.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t, reorderType: MaybeUninit<cudnnReorderType_t>,
) -> cudnnStatus_t {
    update(convDesc, |desc| {
        desc.reorder = arg::choice(reorderType, "reorderType")?;
        Ok(())
    })
}

/// Reads whether 8-bit filters are reordered before use.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `reorderType` is NULL.
///
/// # Safety
/// `reorderType` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionReorderType(
    convDesc: cudnnConvolutionDescriptor_t, reorderType: *mut cudnnReorderType_t,
) -> cudnnStatus_t {
    let desc = get(convDesc)?;
    results!(code reorderType = desc.reorder.code())
}

/// Sets padding, strides, dilation, mode and compute type of a 2-D convolution.
///
/// Math type, groups and reordering stay as they are. A failing call changes nothing.
///
/// Status: BAD_PARAM for a descriptor that is not alive, an unknown mode, a compute type other than FLOAT, DOUBLE, HALF
/// and INT32, padding below 0, or a stride (`u`, `v`) or dilation below 1.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnSetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t, pad_h: c_int, pad_w: c_int, u: c_int, v: c_int,
    dilation_h: c_int, dilation_w: c_int, mode: MaybeUninit<cudnnConvolutionMode_t>,
    computeType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    update(convDesc, |desc| {
        desc.geometry = ConvolutionGeometry::new(
            arg::choice(mode, "mode")?,
            data_type::one_of(ConvolutionGeometry::COMPUTE_TYPES, computeType, "computeType")?,
            Dims::new(&[pad_h, pad_w].map(i64::from)),
            Dims::new(&[u, v].map(i64::from)),
            Dims::new(&[dilation_h, dilation_w].map(i64::from)),
        )
        .map_err(|error| {
            error
                .by_name("padA", &["pad_h", "pad_w"])
                .by_name("filterStrideA", &["u", "v"])
                .by_name("dilationA", &["dilation_h", "dilation_w"])
        })?;
        Ok(())
    })
}

/// Sets padding, strides, dilation, mode and compute type of a convolution of 0 to 6 spatial dimensions.
///
/// Math type, groups and reordering stay as they are. A failing call changes nothing.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive or a negative `arrayLength`; NOT_SUPPORTED for
/// one above 6; BAD_PARAM for a NULL array, and as cudnnSetConvolution2dDescriptor.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Each array is NULL or valid for reads of `arrayLength` ints.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t, arrayLength: c_int, padA: *const c_int,
    filterStrideA: *const c_int, dilationA: *const c_int, mode: MaybeUninit<cudnnConvolutionMode_t>,
    computeType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    update(convDesc, |desc| {
        check_length("arrayLength", arrayLength)?;
        let mode = arg::choice(mode, "mode")?;
        let compute_type = data_type::one_of(ConvolutionGeometry::COMPUTE_TYPES, computeType, "computeType")?;
        // SAFETY: each array is NULL or holds `arrayLength` ints.
        let (padding, strides, dilation) = unsafe {
            (
                arg::ints(padA, arrayLength, "padA")?,
                arg::ints(filterStrideA, arrayLength, "filterStrideA")?,
                arg::ints(dilationA, arrayLength, "dilationA")?,
            )
        };
        desc.geometry = ConvolutionGeometry::new(mode, compute_type, padding, strides, dilation)?;
        Ok(())
    })
}

/// Reads padding, strides, dilation, mode and compute type of a convolution's first two dimensions.
///
/// Zeros where there are fewer.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if any pointer is NULL (nothing is written then).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolution2dDescriptor(
    convDesc: cudnnConvolutionDescriptor_t, pad_h: *mut c_int, pad_w: *mut c_int, u: *mut c_int,
    v: *mut c_int, dilation_h: *mut c_int, dilation_w: *mut c_int, mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    let geometry = get(convDesc)?.geometry;
    // SAFETY: every place is NULL or valid for one write.
    let (places, mode, compute_type) = unsafe {
        (
            [
                [Out::new(pad_h, "pad_h")?, Out::new(pad_w, "pad_w")?],
                [Out::new(u, "u")?, Out::new(v, "v")?],
                [Out::new(dilation_h, "dilation_h")?, Out::new(dilation_w, "dilation_w")?],
            ],
            Out::code(mode, "mode")?,
            Out::new(computeType, "computeType")?,
        )
    };
    for (places, values) in places.iter().zip([geometry.padding(), geometry.strides(), geometry.dilation()]) {
        arg::set_first(places, &values);
    }
    mode.set(geometry.mode().code());
    compute_type.set(data_type::encode(geometry.compute_type()));
    Ok(())
}

/// Reads a convolution: exactly `arrayLengthRequested` paddings, strides and dilations, zeros beyond its rank.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive or a negative request; NOT_SUPPORTED for one
/// above 6; BAD_PARAM if a pointer is NULL (arrays may be if nothing is requested).
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `arrayLength`, `mode` and `computeType` are NULL or valid for one write, the arrays for `arrayLengthRequested`.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionNdDescriptor(
    convDesc: cudnnConvolutionDescriptor_t, arrayLengthRequested: c_int, arrayLength: *mut c_int,
    padA: *mut c_int, strideA: *mut c_int, dilationA: *mut c_int, mode: *mut cudnnConvolutionMode_t,
    computeType: *mut cudnnDataType_t,
) -> cudnnStatus_t {
    let geometry = get(convDesc)?.geometry;
    check_length("arrayLengthRequested", arrayLengthRequested)?;
    let arrays = [
        (padA, "padA", geometry.padding()),
        (strideA, "strideA", geometry.strides()),
        (dilationA, "dilationA", geometry.dilation()),
    ];
    if arrayLengthRequested > 0 {
        arrays.iter().try_for_each(|&(array, argument, _)| arg::required(array, argument))?;
    }
    // SAFETY: all three places are NULL or valid for one write.
    let (length, mode, compute_type) = unsafe {
        (
            Out::new(arrayLength, "arrayLength")?,
            Out::code(mode, "mode")?,
            Out::new(computeType, "computeType")?,
        )
    };
    length.set(geometry.padding().rank() as c_int);
    for (array, _, values) in arrays {
        // SAFETY: not NULL if anything is written, and the caller vouches for arrayLengthRequested entries.
        unsafe { arg::store_padded(array, &values, arrayLengthRequested) };
    }
    mode.set(geometry.mode().code());
    compute_type.set(data_type::encode(geometry.compute_type()));
    Ok(())
}

/// Output dimensions of a 2-D convolution.
///
/// N of the input, K of the filter, then `1 + (in + 2 * pad - ((k - 1) * dilation + 1)) / stride`. Of a
/// convolution of more spatial dimensions it gives the first two. On an error the outputs hold what was found
/// by then, zeros elsewhere.
///
/// Status: BAD_PARAM if an output is NULL, for a descriptor that is not alive, ranks that do not agree or are below 4,
/// stored channels of the input that are not those of the filter times the groups, or a filter larger than the padded
/// input; NOT_SUPPORTED for an output beyond 32 bits. Types and formats do not matter.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Every output is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolution2dForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t, inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t, n: *mut c_int, c: *mut c_int, h: *mut c_int, w: *mut c_int,
) -> cudnnStatus_t {
    // SAFETY: all four places are NULL or valid for one write.
    let places = unsafe { [Out::new(n, "n")?, Out::new(c, "c")?, Out::new(h, "h")?, Out::new(w, "w")?] };
    places.iter().for_each(|place| place.set(0));
    let desc = get(convDesc)?;
    let input = tensor::get(inputTensorDesc, "inputTensorDesc")?;
    let filter = filter::get(filterDesc, "filterDesc")?;
    if input.rank() < 4 {
        return Err(Error::mismatch(format!("the input has {} dimensions, not 4", input.rank())));
    }
    for (place, dim) in places.iter().zip(desc.output_dims(&input, &filter)?) {
        place.set(dim? as c_int);
    }
    Ok(())
}

/// Output dimensions: `1 + (in + 2 * pad - ((k - 1) * dilation + 1)) / stride` each, after N and K.
///
/// The first `nbDims` of them, but at least N and K. On an error the output holds what was found by then.
///
/// Status: BAD_PARAM for a NULL array, a descriptor that is not alive, an `nbDims` that is negative or more than the
/// input's rank, and as cudnnGetConvolution2dForwardOutputDim.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `tensorOuputDimA` is NULL or valid for `nbDims` writes, at least 2.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetConvolutionNdForwardOutputDim(
    convDesc: cudnnConvolutionDescriptor_t, inputTensorDesc: cudnnTensorDescriptor_t,
    filterDesc: cudnnFilterDescriptor_t, nbDims: c_int, tensorOuputDimA: *mut c_int,
) -> cudnnStatus_t {
    let desc = get(convDesc)?;
    let input = tensor::get(inputTensorDesc, "inputTensorDesc")?;
    let filter = filter::get(filterDesc, "filterDesc")?;
    arg::required(tensorOuputDimA, "tensorOuputDimA")?;
    let count = usize::try_from(nbDims).ok().filter(|&count| count <= input.rank()).ok_or_else(|| {
        Error::argument("nbDims", nbDims.into(), format!("the input has {} dimensions", input.rank()))
    })?;
    let dims = desc.output_dims(&input, &filter)?.take(count.max(2));
    // SAFETY: not NULL, and the caller vouches for nbDims entries and at least 2.
    unsafe { arg::store_until_error(tensorOuputDimA, dims) }
}
