//! The library handle, its log, and the few CUDA types of the interface.

use super::status::cudnnStatus_t;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cudnn_shim_macros::c_enum;

/// The library context behind a [`cudnnHandle_t`].
pub struct cudnnContext {
    _opaque: [u8; 0],
}

/// A library context: the core, the stream and the last error of a caller.
pub type cudnnHandle_t = *mut cudnnContext;

/// What `cudnnQueryRuntimeError` would tell about a kernel; never filled in.
#[deprecated]
pub struct cudnnRuntimeTag_t {
    _opaque: [u8; 0],
}

/// A CUDA stream of the driver.
pub struct CUstream_st {
    _opaque: [u8; 0],
}

/// A CUDA stream, as the CUDA headers define it.
pub type cudaStream_t = *mut CUstream_st;

/// A CUDA graph of the driver.
pub struct CUgraph_st {
    _opaque: [u8; 0],
}

/// A CUDA graph, as the CUDA headers define it.
pub type cudaGraph_t = *mut CUgraph_st;

/// The parts of a version number, as the CUDA headers define them.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum libraryPropertyType {
    /// First number of the version.
    MAJOR_VERSION = 0,
    /// Second number of the version.
    MINOR_VERSION = 1,
    /// Third number of the version.
    PATCH_LEVEL = 2,
}

/// How `cudnnQueryRuntimeError` waits for the errors that kernels report.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnErrQueryMode_t {
    /// Read the stored code as it is.
    CUDNN_ERRQUERY_RAWCODE = 0,
    /// Report what is known without waiting for queued work.
    CUDNN_ERRQUERY_NONBLOCKING = 1,
    /// Wait for queued work, then report.
    CUDNN_ERRQUERY_BLOCKING = 2,
}

/// How serious a log message is.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSeverity_t {
    /// The process cannot go on.
    CUDNN_SEV_FATAL = 0,
    /// A call failed.
    CUDNN_SEV_ERROR = 1,
    /// A call went through, but something looks wrong.
    CUDNN_SEV_WARNING = 2,
    /// One line for each call.
    CUDNN_SEV_INFO = 3,
}

/// What a log callback learns about the call behind a message.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cudnnDebugStruct {
    /// `CUDNN_VERSION` of the library.
    pub cudnn_version: c_uint,
    /// Status of the call.
    pub cudnnStatus: cudnnStatus_t,
    /// Seconds since the epoch.
    pub time_sec: c_uint,
    /// Microseconds on top of `time_sec`.
    pub time_usec: c_uint,
    /// Seconds since the handle was created.
    pub time_delta: c_uint,
    /// Handle that the call was given, or NULL.
    pub handle: cudnnHandle_t,
    /// Stream of the handle.
    pub stream: cudaStream_t,
    /// Process.
    pub pid: c_ulonglong,
    /// Thread.
    pub tid: c_ulonglong,
    /// CUDA device of the handle, -1 without one.
    pub cudaDeviceId: c_int,
    /// Zeros.
    pub reserved: [c_int; 15],
}

/// What a log callback learns about the call behind a message.
pub type cudnnDebug_t = cudnnDebugStruct;

/// A function that receives log messages; `msg` is a list of strings that ends with an empty one.
pub type cudnnCallback_t = Option<
    unsafe extern "C" fn(
        sev: cudnnSeverity_t,
        udata: *mut c_void,
        dbg: *const cudnnDebug_t,
        msg: *const c_char,
    ),
>;
