//! The runtime's error codes, their names, and the last error of each thread.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt::{self, Display};

use crate::report;

/// `cudaError_t` as C sees it.
pub type Code = i32;

/// The code of success.
pub const SUCCESS: Code = 0;

/// The errors that this library answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Error {
    InvalidValue = 1,
    MemoryAllocation = 2,
    InvalidPitchValue = 12,
    InvalidSymbol = 13,
    InvalidMemcpyDirection = 21,
    MissingConfiguration = 52,
    InvalidDeviceFunction = 98,
    NoDevice = 100,
    InvalidDevice = 101,
    NoKernelImageForDevice = 209,
    UnsupportedLimit = 215,
    InvalidResourceHandle = 400,
    IllegalState = 401,
    NotReady = 600,
    PeerAccessNotEnabled = 705,
    HostMemoryAlreadyRegistered = 712,
    HostMemoryNotRegistered = 713,
    NotSupported = 801,
    StreamCaptureUnsupported = 900,
    StreamCaptureInvalidated = 901,
    StreamCaptureMerge = 902,
    StreamCaptureUnmatched = 903,
    StreamCaptureUnjoined = 904,
    StreamCaptureIsolation = 905,
    StreamCaptureImplicit = 906,
    CapturedEvent = 907,
    StreamCaptureWrongThread = 908,
    GraphExecUpdateFailure = 910,
    Unknown = 999,
}

/// An error, and the sentence that names argument, value and rule.
#[derive(Debug)]
pub struct Failure {
    /// What the caller gets.
    pub error: Error,
    /// What people read.
    pub sentence: String,
}

impl Error {
    /// The error with its sentence.
    pub fn because(self, sentence: impl Display) -> Failure {
        Failure { error: self, sentence: sentence.to_string() }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}: {}", self.error, self.sentence)
    }
}

/// What the calls behind the C boundary return.
pub type Result<T = ()> = std::result::Result<T, Failure>;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Turns the outcome of `function` into what C gets; a failure is remembered and told.
pub fn answer(function: &str, outcome: Result) -> Code {
    match outcome {
        Ok(()) => SUCCESS,
        Err(failure) => {
            report::failure(function, format_args!("{failure}"));
            remember(failure.error)
        }
    }
}

/// Runs the body of `function` and turns its outcome into what C gets; a panic is cudaErrorUnknown.
pub fn call(function: &str, body: impl FnOnce() -> Result) -> Code {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    answer(function, outcome.unwrap_or_else(|_| Err(Error::Unknown.because("a fault of this library"))))
}

/// Makes `error` the thread's last one.
pub fn remember(error: Error) -> Code {
    LAST.set(error as Code);
    error as Code
}

/// An error that the runtime knows.
struct Known {
    code: Code,
    name: &'static CStr,
    text: &'static CStr,
}

/// From `symbols/errors.tsv`, by code.
static KNOWN: &[Known] = include!(concat!(env!("OUT_DIR"), "/errors.rs"));

fn known(code: Code) -> Option<&'static Known> {
    KNOWN.binary_search_by_key(&code, |known| known.code).ok().map(|at| &KNOWN[at])
}

/// Returns the thread's last error and forgets it.
///
/// Status: the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> Code {
    LAST.replace(SUCCESS)
}

/// Returns the thread's last error.
///
/// Status: the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> Code {
    LAST.get()
}

/// The name of an error code, such as `cudaErrorInvalidValue`; it lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: Code) -> *const c_char {
    known(code).map_or(c"unrecognized error code", |known| known.name).as_ptr()
}

/// What an error code means, in words of its name; it lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: Code) -> *const c_char {
    known(code).map_or(c"unrecognized error code", |known| known.text).as_ptr()
}
