//! The C functions that these tests call, bound to the library that is linked into the test
//! program.
#![allow(dead_code, reason = "the modules of this program use different parts")]

use std::ffi::{CStr, c_char, c_int, c_void};

/// Handles and descriptors.
pub type Opaque = *mut c_void;

pub const SUCCESS: c_int = 0;
pub const NOT_INITIALIZED: c_int = 1001;
pub const BAD_PARAM: c_int = 2000;
pub const NOT_SUPPORTED: c_int = 3000;
pub const EXECUTION_FAILED_CUDART: c_int = 5003;

unsafe extern "C" {
    pub fn cudnnCreate(handle: *mut Opaque) -> c_int;
    pub fn cudnnDestroy(handle: Opaque) -> c_int;
    pub fn cudnnSetStream(handle: Opaque, stream: *mut c_void) -> c_int;
    pub fn cudnnGetLastErrorString(message: *mut c_char, max_size: usize);
    pub fn cudnnCreateTensorDescriptor(desc: *mut Opaque) -> c_int;
    pub fn cudnnDestroyTensorDescriptor(desc: Opaque) -> c_int;
    pub fn cudnnSetTensorNdDescriptor(
        desc: Opaque, data_type: c_int, rank: c_int, dims: *const c_int, strides: *const c_int,
    ) -> c_int;
    pub fn cudnnCausalConv1dForward(
        stream: *mut c_void, x: *const c_void, weight: *const c_void, bias: *const c_void, y: *mut c_void,
        batch: c_int, dim: c_int, seq_len: c_int, kernel_size: c_int, data_type: c_int, activation: c_int,
    ) -> c_int;
    pub fn cudnnTransformTensor(
        handle: Opaque, alpha: *const c_void, x_desc: Opaque, x: *const c_void, beta: *const c_void,
        y_desc: Opaque, y: *mut c_void,
    ) -> c_int;
}

/// The text of this thread's last error.
pub fn last_error() -> String {
    let mut text = [0 as c_char; 1024];
    // SAFETY: the array is as long as it says, and ends in a zero byte afterwards.
    unsafe {
        cudnnGetLastErrorString(text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    }
}

/// A new handle, or the status and the text of the refusal.
pub fn create() -> Result<Opaque, (c_int, String)> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: writes one pointer.
    match unsafe { cudnnCreate(&mut handle) } {
        SUCCESS => Ok(handle),
        status => Err((status, last_error())),
    }
}

/// A descriptor of FLOAT (0) or another type, with strides.
pub fn describe(data_type: c_int, dims: &[c_int], strides: &[c_int]) -> Opaque {
    let mut desc = std::ptr::null_mut();
    // SAFETY: writes one pointer, and reads as many dims and strides as there are.
    unsafe {
        assert_eq!(cudnnCreateTensorDescriptor(&mut desc), SUCCESS);
        let rank = dims.len() as c_int;
        let status = cudnnSetTensorNdDescriptor(desc, data_type, rank, dims.as_ptr(), strides.as_ptr());
        assert_eq!(status, SUCCESS, "{}", last_error());
    }
    desc
}
