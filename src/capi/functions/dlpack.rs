//! `cudnn_shim.h`: tensors from and to DLPack, without a copy.

use std::ffi::{c_int, c_void};

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
use super::types::{
    cudnnHandle_t, cudnnShimDLDataType_t, cudnnShimDLDevice_t, cudnnShimDLManagedTensorVersioned_t,
    cudnnShimDLPackVersion_t, cudnnShimDLTensor_t, cudnnStatus_t, cudnnTensorDescriptor_t,
};
use super::{context, tensor};
use crate::desc::TensorDescriptor;
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK, format};
use crate::mode::Mode;

/// The version of DLPack's binary interface that is spoken here.
const MAJOR: u32 = 1;

/// Bit of the flags of a managed tensor: it must not be written.
const READ_ONLY: u64 = 1;

/// Kinds of devices whose memory the CPU core, or the CUDA core, works on.
const HOST: [c_int; 2] = [1, 3];
const DEVICE: [c_int; 3] = [2, 3, 13];

/// Codes of element types by the scalar they stand for.
const CODES: [(Scalar, u8); 11] = [
    (Scalar::I8, 0),
    (Scalar::I32, 0),
    (Scalar::I64, 0),
    (Scalar::U8, 1),
    (Scalar::F16, 2),
    (Scalar::F32, 2),
    (Scalar::F64, 2),
    (Scalar::Bf16, 4),
    (Scalar::Bool, 6),
    (Scalar::E4m3, 10),
    (Scalar::E5m2, 12),
];

fn data_type(dtype: cudnnShimDLDataType_t) -> Result<DataType> {
    let cudnnShimDLDataType_t { code, bits, lanes } = dtype;
    let fits = |data_type: &DataType| {
        CODES.contains(&(data_type.scalar(), code))
            && data_type.scalar().size() * 8 == usize::from(bits)
            && data_type.lanes() == i64::from(lanes)
    };
    DataType::ALL.into_iter().find(fits).ok_or_else(|| {
        Error::unsupported(format!(
            "elements of DLPack code {code}, {bits} bits and {lanes} lanes have no data type here"
        ))
    })
}

/// The descriptor of a DLPack tensor, and where its first element lies.
///
/// # Safety
/// `shape` of the tensor is valid for reads of `ndim` entries, `strides` is NULL or so as well.
unsafe fn describe(dl: &cudnnShimDLTensor_t, mode: Mode) -> Result<(TensorDescriptor, *mut c_void)> {
    let data_type = data_type(dl.dtype)?;
    if !(2..=MAX_RANK as i32).contains(&dl.ndim) {
        let text = format!("tensor->ndim = {}: tensors here have 2 to {MAX_RANK} dimensions", dl.ndim);
        return Err(Error::unsupported(text));
    }
    arg::required(dl.shape, "tensor->shape")?;
    let mut dims = Dims::filled(dl.ndim as usize, 0);
    // SAFETY: `shape` has an entry for each dimension.
    unsafe { arg::load_optional(dl.shape, &mut dims) };
    if let Some(axis) = dims.iter().position(|&extent| extent < 1) {
        return Err(Error::element("tensor->shape", axis, dims[axis], "an extent is at least 1"));
    }
    let mut strides = format::nchw_strides(&dims)
        .ok_or_else(|| Error::unsupported(format!("the packed strides of {dims} do not fit 64 bits")))?;
    // SAFETY: `strides` is NULL, which leaves packed strides, or has an entry for each dimension.
    unsafe { arg::load_optional(dl.strides, &mut strides) };
    let tensor = TensorDescriptor::with_strides(data_type, dims.rank() as i64, &dims, &strides, mode)?;
    let offset = usize::try_from(dl.byte_offset)
        .map_err(|_| Error::unsupported(format!("tensor->byte_offset = {}", dl.byte_offset)))?;
    Ok((tensor, dl.data.wrapping_byte_add(offset)))
}

/// Refuses a tensor in memory that the handle's core does not work on.
fn check_device(handle: cudnnHandle_t, dl: &cudnnShimDLTensor_t) -> Result<()> {
    let core = context::with(handle, |context| Ok(context.is_cuda()))?;
    let kinds = if core { &DEVICE[..] } else { &HOST };
    if !kinds.contains(&dl.device.device_type) {
        let core = if core { "CUDA" } else { "CPU" };
        let text =
            format!("tensor->device.device_type = {}: not memory of the {core} core", dl.device.device_type);
        return Err(Error::mismatch(text));
    }
    Ok(())
}

/// Describes a DLPack tensor: type, dims and strides, no copy.
///
/// `*data` becomes the address of its first element, byte offset included. NULL strides are packed ones. Vectors of 4 and
/// 32 lanes are INT8x4, UINT8x4 and INT8x32.
///
/// Operands: `tensor` in host memory; its data in memory of the handle's core. `handle` may be NULL: the device is not
/// checked then.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, a NULL pointer, a handle that is not alive, memory of another
/// kind of device than the handle's; NOT_SUPPORTED for an element type that has no data type here, fewer than 2 or more
/// than 8 dimensions; BAD_PARAM for an extent below 1 and, in strict mode, stride 0 on an extent above 1.
///
/// # Safety
/// `tensor` is NULL or a DLTensor whose `shape` and `strides` (if not NULL) are valid for reads of `ndim` entries. `data`
/// is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimSetTensorFromDLPack(
    handle: cudnnHandle_t, tensorDesc: cudnnTensorDescriptor_t, tensor: *const cudnnShimDLTensor_t,
    data: *mut *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: `tensor` is NULL or a DLTensor with its arrays, and `data` is NULL or valid for one write.
    unsafe { set(handle, tensorDesc, tensor, data) }
}

/// The body of both setters.
///
/// # Safety
/// As [`cudnnShimSetTensorFromDLPack`].
unsafe fn set(
    handle: cudnnHandle_t, desc: cudnnTensorDescriptor_t, dl: *const cudnnShimDLTensor_t,
    data: *mut *mut c_void,
) -> Result<()> {
    tensor::check(desc, "tensorDesc")?;
    arg::required(dl, "tensor")?;
    // SAFETY: `data` is NULL or valid for one write.
    let out = unsafe { Out::new(data, "data") }?;
    // SAFETY: `dl` is not NULL, and so a DLTensor.
    let dl = unsafe { dl.read_unaligned() };
    if !handle.is_null() {
        check_device(handle, &dl)?;
    }
    // SAFETY: `shape` and `strides`, if not NULL, have an entry for each dimension.
    let (set, address) = unsafe { describe(&dl, Mode::current()) }?;
    tensor::put(desc, "tensorDesc", set)?;
    out.set(address);
    Ok(())
}

/// The same for a versioned managed tensor (ABI version 1), as `__dlpack__(max_version=(1, 0))` gives it.
///
/// `*readOnly` becomes 1 if the data must not be written, else 0. The tensor stays its owner's: the deleter is not called.
///
/// Status: BAD_PARAM if `managed` or `readOnly` is NULL, NOT_SUPPORTED for a major version other than 1, then as
/// cudnnShimSetTensorFromDLPack.
///
/// # Safety
/// As cudnnShimSetTensorFromDLPack; `readOnly` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimSetTensorFromDLPackVersioned(
    handle: cudnnHandle_t, tensorDesc: cudnnTensorDescriptor_t,
    managed: *const cudnnShimDLManagedTensorVersioned_t, data: *mut *mut c_void, readOnly: *mut c_int,
) -> cudnnStatus_t {
    arg::required(managed, "managed")?;
    // SAFETY: `readOnly` is NULL or valid for one write.
    let read_only = unsafe { Out::new(readOnly, "readOnly") }?;
    // SAFETY: not NULL; the version comes first in every version of the struct.
    let version = unsafe { managed.cast::<cudnnShimDLPackVersion_t>().read_unaligned() };
    if version.major != MAJOR {
        let text = format!("managed->version is {}.{}, not {MAJOR}.x", version.major, version.minor);
        return Err(Error::unsupported(text));
    }
    // SAFETY: not NULL and of the version that has these fields; `data` is NULL or valid for one write.
    unsafe {
        let flags = (&raw const (*managed).flags).read_unaligned();
        set(handle, tensorDesc, &raw const (*managed).dl_tensor, data)?;
        read_only.set(c_int::from(flags & READ_ONLY != 0));
    }
    Ok(())
}

/// A DLPack view of a descriptor and its data: no copy, nothing to give back.
///
/// `tensor->shape` and `tensor->strides` become `shapeA` and `strideA`, so these arrays have to live as long as the view. An
/// NCHW_VECT_C tensor has elements of 4 or 32 lanes; a blocked one has one dimension more, the place inside the block, last,
/// and its padding counts as channels. The device is the handle's.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a descriptor that was never set, a NULL
/// pointer; NOT_SUPPORTED if `nbDims` entries of the arrays are too few (a blocked tensor needs one more than its rank), and for a
/// vectorisation that the type does not have.
///
/// # Safety
/// `shapeA` and `strideA` are NULL or valid for writes of `nbDims` entries, `tensor` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetTensorAsDLPack(
    handle: cudnnHandle_t, tensorDesc: cudnnTensorDescriptor_t, data: *mut c_void, nbDims: c_int,
    shapeA: *mut i64, strideA: *mut i64, tensor: *mut cudnnShimDLTensor_t,
) -> cudnnStatus_t {
    let device_id = context::with(handle, |context| Ok(context.device()))?;
    let described = tensor::get(tensorDesc, "tensorDesc")?;
    let layout = described.elements()?;
    arg::required(data, "data")?;
    arg::required(shapeA, "shapeA")?;
    arg::required(strideA, "strideA")?;
    // SAFETY: `tensor` is NULL or valid for one write.
    let out = unsafe { Out::new(tensor, "tensor") }?;
    let (mut shape, mut strides) = (described.stored_dims().to_vec(), described.strides().to_vec());
    if let (None, Some(split)) = (described.vector(), layout.split) {
        shape[split.axis()] = (layout.dims[split.axis()] + layout.padding()) / split.block();
        shape.push(split.block());
        strides.push(1);
    }
    if usize::try_from(nbDims).unwrap_or(0) < shape.len() {
        return Err(Error::unsupported(format!(
            "nbDims = {nbDims}: the view has {} dimensions",
            shape.len()
        )));
    }
    let data_type = described.data_type();
    let code = CODES.iter().find(|(scalar, _)| *scalar == data_type.scalar()).map_or(0, |&(_, code)| code);
    let ndim = shape.len() as i32;
    // SAFETY: not NULL, and the caller vouches for nbDims entries, which are enough.
    unsafe {
        arg::store(shapeA, shape);
        arg::store(strideA, strides);
    }
    out.set(cudnnShimDLTensor_t {
        data,
        device: cudnnShimDLDevice_t {
            device_type: if device_id.is_some() { DEVICE[0] } else { HOST[0] },
            device_id: device_id.unwrap_or(0),
        },
        ndim,
        dtype: cudnnShimDLDataType_t {
            code,
            bits: (data_type.scalar().size() * 8) as u8,
            lanes: data_type.lanes() as u16,
        },
        shape: shapeA,
        strides: strideA,
        byte_offset: 0,
    });
    Ok(())
}
