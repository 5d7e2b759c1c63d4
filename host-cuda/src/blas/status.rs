//! Statuses of cuBLAS and cuBLASLt, and failures that become one.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

use crate::report;

/// What every call returns.
pub type Status = i32;

macro_rules! statuses {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        $(#[doc = concat!("`CUBLAS_STATUS_", stringify!($name), "`")] pub const $name: Status = $code;)*

        /// The name and the text of a status.
        fn known(status: Status) -> Option<(&'static CStr, &'static CStr)> {
            match status {
                $($code => Some(($symbol, $text)),)*
                _ => None,
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"CUBLAS_STATUS_SUCCESS", c"the call succeeded";
    NOT_INITIALIZED = 1, c"CUBLAS_STATUS_NOT_INITIALIZED", c"the handle is not alive";
    ALLOC_FAILED = 3, c"CUBLAS_STATUS_ALLOC_FAILED", c"there is no memory left";
    INVALID_VALUE = 7, c"CUBLAS_STATUS_INVALID_VALUE", c"an argument has an invalid value";
    ARCH_MISMATCH = 8, c"CUBLAS_STATUS_ARCH_MISMATCH", c"the device cannot do it";
    MAPPING_ERROR = 11, c"CUBLAS_STATUS_MAPPING_ERROR", c"memory cannot be reached";
    EXECUTION_FAILED = 13, c"CUBLAS_STATUS_EXECUTION_FAILED", c"the work failed";
    INTERNAL_ERROR = 14, c"CUBLAS_STATUS_INTERNAL_ERROR", c"something failed inside";
    NOT_SUPPORTED = 15, c"CUBLAS_STATUS_NOT_SUPPORTED", c"this is not supported";
    LICENSE_ERROR = 16, c"CUBLAS_STATUS_LICENSE_ERROR", c"there is no licence";
}

/// The name of a status.
///
/// Of a number that is none: a text that says so. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusName(status: Status) -> *const c_char {
    known(status).map_or(c"unknown status", |(name, _)| name).as_ptr()
}

/// What a status means, in words. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(status: Status) -> *const c_char {
    known(status).map_or(c"unknown status", |(_, text)| text).as_ptr()
}

/// The name of a status.
///
/// As cublasGetStatusName.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetStatusName(status: Status) -> *const c_char {
    cublasGetStatusName(status)
}

/// What a status means, in words.
///
/// As cublasGetStatusString.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetStatusString(status: Status) -> *const c_char {
    cublasGetStatusString(status)
}

/// Why a call does nothing: a status, and a sentence that names argument, value and rule.
#[derive(Debug)]
pub struct Failure {
    /// What the call returns.
    pub status: Status,
    /// For people.
    pub sentence: Cow<'static, str>,
}

/// What a call comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Of any status.
    pub fn new(status: Status, sentence: impl Into<Cow<'static, str>>) -> Self {
        Failure { status, sentence: sentence.into() }
    }

    /// `CUBLAS_STATUS_INVALID_VALUE`.
    pub fn invalid(sentence: impl Into<Cow<'static, str>>) -> Self {
        Failure::new(INVALID_VALUE, sentence)
    }

    /// `CUBLAS_STATUS_NOT_SUPPORTED`.
    pub fn unsupported(sentence: impl Into<Cow<'static, str>>) -> Self {
        Failure::new(NOT_SUPPORTED, sentence)
    }

    /// For memory that is not there.
    pub fn no_memory(bytes: usize) -> Self {
        Failure::new(ALLOC_FAILED, format!("no memory for {bytes} bytes"))
    }
}

/// Ends a call: its status, and its sentence where the environment asks for it.
pub fn finish(function: &str, outcome: Outcome) -> Status {
    match outcome {
        Ok(()) => SUCCESS,
        Err(Failure { status, sentence }) => {
            report::failure(function, format_args!("{sentence}"));
            status
        }
    }
}

/// Refuses NULL.
///
/// # Errors
/// Invalid value.
pub fn required<T>(pointer: *const T, argument: &str) -> Outcome {
    if pointer.is_null() { Err(Failure::invalid(format!("{argument} is NULL"))) } else { Ok(()) }
}

/// Reads a value that may lie anywhere.
///
/// # Errors
/// Invalid value for NULL.
///
/// # Safety
/// `pointer` is NULL or valid for one read.
pub unsafe fn read<T: Copy>(pointer: *const T, argument: &str) -> Outcome<T> {
    required(pointer, argument)?;
    // SAFETY: `pointer` is not NULL, and so readable.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Stores a result.
///
/// # Errors
/// Invalid value for NULL.
///
/// # Safety
/// `pointer` is NULL or valid for one write.
pub unsafe fn store<T>(pointer: *mut T, argument: &str, value: T) -> Outcome {
    required(pointer, argument)?;
    // SAFETY: `pointer` is not NULL, and so valid for one write.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// Defines calls that return a status, each under one name or, with `Int` for 32 and for 64 bits,
/// under two.
///
/// The body is an [`Outcome`]; its sentence names the call.
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident $(, $wide:ident)? ($($arguments:tt)*) $body:block)*) => {
        $(
            const _: () = {
                #[allow(dead_code, reason = "most calls count, some do not")]
                type Int = i32;
                $crate::blas::status::calls!(@one [$(#[$meta])*] $name ($($arguments)*) $body);
            };
            $crate::blas::status::calls!(@wide [$(#[$meta])*] [$($wide)?] ($($arguments)*) $body);
        )*
    };
    (@wide $meta:tt [] $arguments:tt $body:block) => {};
    (@wide $meta:tt [$wide:ident] $arguments:tt $body:block) => {
        const _: () = {
            type Int = i64;
            $crate::blas::status::calls!(@one $meta $wide $arguments $body);
        };
    };
    (@one [$(#[$meta:meta])*] $name:ident ($($argument:ident: $T:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// Pointers are NULL, or valid for what the call reads and writes as the public
        /// documentation of cuBLAS says.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the interface is given")]
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "what counts has one of two widths")]
        pub unsafe extern "C" fn $name($($argument: $T),*) -> $crate::blas::status::Status {
            let outcome = || -> $crate::blas::status::Outcome { $body };
            $crate::blas::status::finish(stringify!($name), outcome())
        }
    };
}
pub(crate) use calls;
