//! DLPack, ABI version 1: the structs by which array libraries hand tensors to each other. Layouts
//! as published in dlpack.h (<https://github.com/dmlc/dlpack>), where the names have no prefix.

use std::ffi::{c_int, c_void};

/// The kind of device that holds the data, and its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cudnnShimDLDevice_t {
    /// 1 host memory, 2 CUDA device, 3 pinned host memory, 13 managed CUDA memory.
    pub device_type: c_int,
    /// Number of the device, 0 for host memory.
    pub device_id: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cudnnShimDLDataType_t {
    /// 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat16, 6 boolean, 10 FP8 E4M3FN, 12 FP8 E5M2.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes of one element: 1, or those of a vector type.
    pub lanes: u16,
}

/// A tensor that somebody else owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cudnnShimDLTensor_t {
    /// Where the memory begins.
    pub data: *mut c_void,
    /// The device that holds it.
    pub device: cudnnShimDLDevice_t,
    /// Number of dimensions.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: cudnnShimDLDataType_t,
    /// Extents.
    pub shape: *mut i64,
    /// Strides in elements; NULL for a packed tensor, the last dimension fastest.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// The version of the interface that made a struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cudnnShimDLPackVersion_t {
    /// Grows with changes that break readers.
    pub major: u32,
    /// Grows with additions.
    pub minor: u32,
}

/// A tensor with what is needed to give it back, and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cudnnShimDLManagedTensorVersioned_t {
    /// The version of the interface.
    pub version: cudnnShimDLPackVersion_t,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// The owner's; called when nobody needs the tensor any more.
    pub deleter: Option<unsafe extern "C" fn(managed: *mut cudnnShimDLManagedTensorVersioned_t)>,
    /// Bit 0: the data must not be written. Bit 1: it is a copy.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: cudnnShimDLTensor_t,
}
