//! Status numbers and their names: the only place that knows them.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use super::types::{CEnum, cudnnStatus_t, raw};
use crate::error::{Error, ErrorKind};

/// The status that tells a C program of this error.
pub(crate) fn of(error: &Error) -> cudnnStatus_t {
    match error.kind() {
        ErrorKind::BadParam => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::Misaligned => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::NullPointer => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::NotFinalized => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::ShapeMismatch => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::AttributeType => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::DescriptorType => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
        #[cfg(feature = "cudnn8")]
        ErrorKind::Misaligned
        | ErrorKind::NullPointer
        | ErrorKind::NotFinalized
        | ErrorKind::ShapeMismatch
        | ErrorKind::AttributeType
        | ErrorKind::DescriptorType => cudnnStatus_t::CUDNN_STATUS_BAD_PARAM,
        ErrorKind::InvalidValue => cudnnStatus_t::CUDNN_STATUS_INVALID_VALUE,
        ErrorKind::NotSupported => cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::NotSupportedShape => cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::NotSupportedType => cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::NotSupportedPattern => cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
        #[cfg(feature = "cudnn8")]
        ErrorKind::NotSupportedShape | ErrorKind::NotSupportedType | ErrorKind::NotSupportedPattern => {
            cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED
        }
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::ArchMismatch => cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
        #[cfg(feature = "cudnn8")]
        ErrorKind::ArchMismatch => cudnnStatus_t::CUDNN_STATUS_ARCH_MISMATCH,
        ErrorKind::NotInitialized => cudnnStatus_t::CUDNN_STATUS_NOT_INITIALIZED,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::HostAllocation => cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
        #[cfg(feature = "cudnn8")]
        ErrorKind::HostAllocation => cudnnStatus_t::CUDNN_STATUS_ALLOC_FAILED,
        ErrorKind::Execution => cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED,
        #[cfg(not(feature = "cudnn8"))]
        ErrorKind::Driver => cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED_CUDART,
        #[cfg(feature = "cudnn8")]
        ErrorKind::Driver => cudnnStatus_t::CUDNN_STATUS_EXECUTION_FAILED,
        // A later version may have statuses that this one does not know.
        ErrorKind::Original(code) => {
            cudnnStatus_t::from_code(code).unwrap_or(cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR)
        }
        ErrorKind::Internal => cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR,
    }
}

/// The enumerator's name of a status, `CUDNN_UNKNOWN_STATUS` for every other integer. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(status: MaybeUninit<cudnnStatus_t>) -> *const c_char {
    name(raw(status)).as_ptr()
}

#[cfg(not(feature = "cudnn8"))]
fn name(status: c_int) -> &'static CStr {
    match status {
        0 => c"CUDNN_STATUS_SUCCESS",
        1001 => c"CUDNN_STATUS_NOT_INITIALIZED",
        1002 => c"CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        1003 => c"CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH",
        1004 => c"CUDNN_STATUS_DEPRECATED",
        1005 => c"CUDNN_STATUS_LICENSE_ERROR",
        1006 => c"CUDNN_STATUS_RUNTIME_IN_PROGRESS",
        1007 => c"CUDNN_STATUS_RUNTIME_FP_OVERFLOW",
        1008 => c"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
        2000 => c"CUDNN_STATUS_BAD_PARAM",
        2001 => c"CUDNN_STATUS_INVALID_VALUE",
        2002 => c"CUDNN_STATUS_BAD_PARAM_NULL_POINTER",
        2003 => c"CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER",
        2004 => c"CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED",
        2005 => c"CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND",
        2006 => c"CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT",
        2007 => c"CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH",
        2008 => c"CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH",
        2009 => c"CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES",
        2010 => c"CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE",
        2011 => c"CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH",
        2012 => c"CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE",
        3000 => c"CUDNN_STATUS_NOT_SUPPORTED",
        3001 => c"CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN",
        3002 => c"CUDNN_STATUS_NOT_SUPPORTED_SHAPE",
        3003 => c"CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE",
        3004 => c"CUDNN_STATUS_NOT_SUPPORTED_LAYOUT",
        3005 => c"CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER",
        3006 => c"CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART",
        3007 => c"CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH",
        3008 => c"CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING",
        3009 => c"CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE",
        3010 => c"CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT",
        3011 => c"CUDNN_STATUS_NOT_SUPPORTED_PADDING",
        3012 => c"CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM",
        3013 => c"CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API",
        3014 => c"CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE",
        4000 => c"CUDNN_STATUS_INTERNAL_ERROR",
        4001 => c"CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED",
        4002 => c"CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE",
        4003 => c"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        4004 => c"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        4005 => c"CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM",
        4006 => c"CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED",
        5000 => c"CUDNN_STATUS_EXECUTION_FAILED",
        5001 => c"CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER",
        5002 => c"CUDNN_STATUS_EXECUTION_FAILED_CUBLAS",
        5003 => c"CUDNN_STATUS_EXECUTION_FAILED_CUDART",
        5004 => c"CUDNN_STATUS_EXECUTION_FAILED_CURAND",
        _ => c"CUDNN_UNKNOWN_STATUS",
    }
}

#[cfg(feature = "cudnn8")]
fn name(status: c_int) -> &'static CStr {
    match status {
        0 => c"CUDNN_STATUS_SUCCESS",
        1 => c"CUDNN_STATUS_NOT_INITIALIZED",
        2 => c"CUDNN_STATUS_ALLOC_FAILED",
        3 => c"CUDNN_STATUS_BAD_PARAM",
        4 => c"CUDNN_STATUS_INTERNAL_ERROR",
        5 => c"CUDNN_STATUS_INVALID_VALUE",
        6 => c"CUDNN_STATUS_ARCH_MISMATCH",
        7 => c"CUDNN_STATUS_MAPPING_ERROR",
        8 => c"CUDNN_STATUS_EXECUTION_FAILED",
        9 => c"CUDNN_STATUS_NOT_SUPPORTED",
        10 => c"CUDNN_STATUS_LICENSE_ERROR",
        11 => c"CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING",
        12 => c"CUDNN_STATUS_RUNTIME_IN_PROGRESS",
        13 => c"CUDNN_STATUS_RUNTIME_FP_OVERFLOW",
        14 => c"CUDNN_STATUS_VERSION_MISMATCH",
        _ => c"CUDNN_UNKNOWN_STATUS",
    }
}
