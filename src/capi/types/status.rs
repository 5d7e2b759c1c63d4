//! Statuses: what a call answers. Version 9 numbers them by category, version 8 counts them.

use cudnn_shim_macros::c_enum;

/// Outcome of a call. The thousands digit is the category, the rest narrows it down.
#[cfg(not(feature = "cudnn8"))]
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnStatus_t {
    /// The call did what it was asked to do.
    CUDNN_STATUS_SUCCESS = 0,
    /// The library or an object is not in the state that the call needs.
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    /// Parts of the library come from different versions.
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002,
    /// Serialised data was written by an incompatible version.
    CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH = 1003,
    /// The requested feature has been withdrawn.
    CUDNN_STATUS_DEPRECATED = 1004,
    /// A licence check failed.
    CUDNN_STATUS_LICENSE_ERROR = 1005,
    /// Work queued earlier has not finished.
    CUDNN_STATUS_RUNTIME_IN_PROGRESS = 1006,
    /// A kernel met a floating-point overflow.
    CUDNN_STATUS_RUNTIME_FP_OVERFLOW = 1007,
    /// A part of the library could not be loaded.
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED = 1008,
    /// An argument is wrong.
    CUDNN_STATUS_BAD_PARAM = 2000,
    /// A required pointer is NULL.
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
    /// A pointer is not aligned for its element type.
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
    /// A backend descriptor has not been finalised.
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004,
    /// A value lies outside its range.
    CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 2005,
    /// A buffer is smaller than the call needs.
    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
    /// Objects belong to different streams.
    CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 2007,
    /// Shapes do not fit each other.
    CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
    /// A list names the same entry twice.
    CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES = 2009,
    /// An attribute was given with the wrong type.
    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE = 2010,
    /// The CUDA graph does not belong to this plan.
    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH = 2011,
    /// A backend descriptor is of the wrong type.
    CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE = 2012,
    /// The request is valid, but not done.
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    /// No engine serves this operation graph.
    CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN = 3001,
    /// Not done for this shape.
    CUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002,
    /// Not done for this data type.
    CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE = 3003,
    /// Not done for this layout.
    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004,
    /// The CUDA driver is too old or too new.
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER = 3005,
    /// The CUDA runtime is too old or too new.
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART = 3006,
    /// The device's architecture is not served.
    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007,
    /// A library that the call needs at run time is missing.
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008,
    /// A part of the library is not installed.
    CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE = 3009,
    /// The device has too little shared memory.
    CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT = 3010,
    /// Not done for this padding.
    CUDNN_STATUS_NOT_SUPPORTED_PADDING = 3011,
    /// No valid kernel launch exists for the request.
    CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM = 3012,
    /// The engine cannot fill a CUDA graph by itself.
    CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API = 3013,
    /// Not done for this dynamic shape.
    CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE = 3014,
    /// A defect of the library.
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    /// A kernel did not compile at run time.
    CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED = 4001,
    /// An internal value is impossible.
    CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE = 4002,
    /// Host memory ran out.
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
    /// Device memory ran out.
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
    /// A kernel was launched with impossible parameters.
    CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM = 4005,
    /// A texture could not be created.
    CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED = 4006,
    /// The core could not run the work.
    CUDNN_STATUS_EXECUTION_FAILED = 5000,
    /// The CUDA driver reported a failure.
    CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER = 5001,
    /// cuBLAS reported a failure.
    CUDNN_STATUS_EXECUTION_FAILED_CUBLAS = 5002,
    /// The CUDA runtime reported a failure.
    CUDNN_STATUS_EXECUTION_FAILED_CUDART = 5003,
    /// cuRAND reported a failure.
    CUDNN_STATUS_EXECUTION_FAILED_CURAND = 5004,
    /// Old name: a value is invalid.
    #[deprecated]
    CUDNN_STATUS_INVALID_VALUE = 2001,
}

/// Old name: host memory ran out.
#[cfg(not(feature = "cudnn8"))]
#[deprecated]
pub const CUDNN_STATUS_ALLOC_FAILED: cudnnStatus_t =
    cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;

/// Old name: the device's architecture is not served.
#[cfg(not(feature = "cudnn8"))]
#[deprecated]
pub const CUDNN_STATUS_ARCH_MISMATCH: cudnnStatus_t = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;

/// Old name: a texture could not be created.
#[cfg(not(feature = "cudnn8"))]
#[deprecated]
pub const CUDNN_STATUS_MAPPING_ERROR: cudnnStatus_t =
    cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED;

/// Old name: a library that the call needs at run time is missing.
#[cfg(not(feature = "cudnn8"))]
#[deprecated]
pub const CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING: cudnnStatus_t =
    cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING;

/// Old name: parts of the library come from different versions.
#[cfg(not(feature = "cudnn8"))]
#[deprecated]
pub const CUDNN_STATUS_VERSION_MISMATCH: cudnnStatus_t =
    cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;

/// Outcome of a call.
#[cfg(feature = "cudnn8")]
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnStatus_t {
    /// The call did what it was asked to do.
    CUDNN_STATUS_SUCCESS = 0,
    /// The library or an object is not in the state that the call needs.
    CUDNN_STATUS_NOT_INITIALIZED = 1,
    /// Host memory ran out.
    CUDNN_STATUS_ALLOC_FAILED = 2,
    /// An argument is wrong.
    CUDNN_STATUS_BAD_PARAM = 3,
    /// A defect of the library.
    CUDNN_STATUS_INTERNAL_ERROR = 4,
    /// A value is invalid.
    CUDNN_STATUS_INVALID_VALUE = 5,
    /// The device's architecture is not served.
    CUDNN_STATUS_ARCH_MISMATCH = 6,
    /// A texture could not be created.
    CUDNN_STATUS_MAPPING_ERROR = 7,
    /// The core could not run the work.
    CUDNN_STATUS_EXECUTION_FAILED = 8,
    /// The request is valid, but not done.
    CUDNN_STATUS_NOT_SUPPORTED = 9,
    /// A licence check failed.
    CUDNN_STATUS_LICENSE_ERROR = 10,
    /// A library that the call needs at run time is missing.
    CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING = 11,
    /// Work queued earlier has not finished.
    CUDNN_STATUS_RUNTIME_IN_PROGRESS = 12,
    /// A kernel met a floating-point overflow.
    CUDNN_STATUS_RUNTIME_FP_OVERFLOW = 13,
    /// Parts of the library come from different versions.
    CUDNN_STATUS_VERSION_MISMATCH = 14,
}
