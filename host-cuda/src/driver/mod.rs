//! The CUDA driver, as much of it as programs ask for that compute by libraries alone: one device,
//! its primary context, which every thread has, and the addresses of these functions.
//!
//! Memory, streams and graphs are the runtime's. Modules and kernels there are none of.
#![allow(non_snake_case)]

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use crate::report;
use crate::runtime::Out;
use crate::runtime::capture::entry::cudaThreadExchangeStreamCaptureMode;
use crate::runtime::memory::cudaMemGetInfo;
use crate::runtime::model::Handle;
use crate::runtime::model::memory::TOTAL;
use crate::runtime::state::state;
use crate::runtime::{device, properties};

mod refused;

/// `CUresult`.
type Code = i32;

const SUCCESS: Code = 0;
/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const SYMBOL_NOT_FOUND: i32 = 1;

/// What the driver answers besides success.
#[derive(Clone, Copy, Debug)]
enum Error {
    InvalidValue = 1,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidContext = 201,
    InvalidHandle = 400,
    NotFound = 500,
    NotSupported = 801,
    Unknown = 999,
}

/// An error and its sentence.
type Failure = (Error, String);

type Result<T = ()> = std::result::Result<T, Failure>;

/// Names and texts of codes.
const KNOWN: [(Code, &CStr, &CStr); 9] = [
    (SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (Error::InvalidValue as Code, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (Error::NoDevice as Code, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (Error::InvalidDevice as Code, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (Error::InvalidContext as Code, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (Error::InvalidHandle as Code, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (Error::NotFound as Code, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (Error::NotSupported as Code, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (Error::Unknown as Code, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// Turns the outcome of `function` into what C gets; a panic is CUDA_ERROR_UNKNOWN.
fn answer(function: &str, body: impl FnOnce() -> Result) -> Code {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    match outcome.unwrap_or_else(|_| Err((Error::Unknown, "a fault of this library".to_owned()))) {
        Ok(()) => SUCCESS,
        Err((error, sentence)) => {
            report::failure(function, format_args!("{error:?}: {sentence}"));
            error as Code
        }
    }
}

fn put<T>(out: Out<'_, T>, name: &str, value: T) -> Result {
    let Some(out) = out else { return Err((Error::InvalidValue, format!("{name} is NULL"))) };
    out.write(value);
    Ok(())
}

/// Whether `device` is the one that there is.
fn only(device: i32) -> Result {
    if device == 0 {
        Ok(())
    } else {
        Err((Error::InvalidDevice, format!("device {device}: there is one, 0")))
    }
}

/// The primary context of the device: an address that nobody reads.
fn context() -> *mut c_void {
    static PLACE: u8 = 0;
    (&raw const PLACE).cast_mut().cast()
}

fn own(context: *mut c_void) -> Result {
    if context == self::context() {
        return Ok(());
    }
    Err((Error::InvalidContext, format!("context {context:?}: there is the primary one of device 0 alone")))
}

fn known(code: Code) -> Option<&'static (Code, &'static CStr, &'static CStr)> {
    KNOWN.iter().find(|known| known.0 == code)
}

/// A text for a code; NULL, and CUDA_ERROR_INVALID_VALUE, for an unknown one.
fn text(
    out: Out<'_, *const c_char>, code: Code, of: fn(&(Code, &'static CStr, &'static CStr)) -> &'static CStr,
) -> Result {
    let known = known(code);
    put(out, "pStr", known.map_or(std::ptr::null(), |known| of(known).as_ptr()))?;
    known.map(|_| ()).ok_or_else(|| (Error::InvalidValue, format!("code {code} is not known")))
}

/// The address of the function that a program means by a name: the newest of that name.
fn address(name: &CStr) -> Option<*mut c_void> {
    let name = name.to_str().ok()?;
    let is_it = |symbol: &str| {
        let rest = symbol.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_v"))
    };
    let found = functions().rev().find(|(symbol, _)| is_it(symbol))?;
    Some(found.1.cast_mut().cast())
}

/// Stores the address of a function of the driver.
///
/// # Safety
/// `symbol` is NULL or a C string.
unsafe fn look_up(symbol: *const c_char, out: Out<'_, *mut c_void>, status: Out<'_, i32>) -> Result {
    if symbol.is_null() {
        return Err((Error::InvalidValue, "symbol is NULL".to_owned()));
    }
    // SAFETY: a C string.
    let name = unsafe { CStr::from_ptr(symbol) };
    let found = address(name);
    put(out, "pfn", found.unwrap_or(std::ptr::null_mut()))?;
    if let Some(status) = status {
        status.write(if found.is_some() { 0 } else { SYMBOL_NOT_FOUND });
    }
    found.map(|_| ()).ok_or_else(|| (Error::NotFound, format!("{name:?} is not built")))
}

/// Defines functions of the driver that return its code, and the list of them.
macro_rules! driver {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Every pointer is NULL or valid for what it names, as in C.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> Code {
                answer(stringify!($name), move || $body)
            }
        )*

        /// What is built; of one name the newest version comes last.
        fn functions() -> impl DoubleEndedIterator<Item = (&'static str, *const ())> {
            [$((stringify!($name), $name as *const ())),*].into_iter()
        }
    };
}

driver! {
    /// Starts the driver, which is always started.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for flags.
    fn cuInit(flags: u32) {
        if flags == 0 { Ok(()) } else { Err((Error::InvalidValue, format!("Flags is {flags}, not 0"))) }
    }

    /// The version of CUDA that the driver supports, as the runtime tells it.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL.
    fn cuDriverGetVersion(version: Out<'_, i32>) {
        put(version, "driverVersion", device::DRIVER_VERSION)
    }

    /// The number of devices: one.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL.
    fn cuDeviceGetCount(count: Out<'_, i32>) {
        put(count, "count", 1)
    }

    /// The device with this number, which is its number.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_INVALID_DEVICE unless it is 0.
    fn cuDeviceGet(device: Out<'_, i32>, ordinal: i32) {
        only(ordinal)?;
        put(device, "device", 0)
    }

    /// The name of the device, of which `length` bytes with the zero at its end find room.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL or no room; CUDA_ERROR_INVALID_DEVICE.
    fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) {
        only(device)?;
        let room = usize::try_from(length).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err((Error::InvalidValue, format!("name is NULL or its length {length} below 1")));
        }
        let text = &properties::NAME.as_bytes()[..properties::NAME.len().min(room - 1)];
        // SAFETY: the caller has room for as many bytes, of which these and a zero are no more.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            name.add(text.len()).write(0);
        }
        Ok(())
    }

    /// An attribute of the device, as the runtime numbers them.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL or an attribute that is not known;
    /// CUDA_ERROR_INVALID_DEVICE.
    fn cuDeviceGetAttribute(value: Out<'_, i32>, attribute: i32, device: i32) {
        let known = properties::attribute(attribute);
        let known = known.ok_or_else(|| (Error::InvalidValue, format!("attribute {attribute} is not known")))?;
        only(device)?;
        put(value, "pi", known)
    }

    /// Bytes of memory of the device.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_INVALID_DEVICE.
    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, device: i32) {
        only(device)?;
        put(bytes, "bytes", *TOTAL)
    }

    /// The primary context of the device.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_INVALID_DEVICE.
    fn cuDevicePrimaryCtxRetain(out: Out<'_, *mut c_void>, device: i32) {
        only(device)?;
        put(out, "pctx", context())
    }

    /// Gives it back; it stays.
    ///
    /// Status: CUDA_ERROR_INVALID_DEVICE.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        only(device)
    }

    /// Its flags, none, and that it is active.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_INVALID_DEVICE.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<'_, u32>, active: Out<'_, i32>) {
        only(device)?;
        if active.is_none() {
            return Err((Error::InvalidValue, "active is NULL".to_owned()));
        }
        put(flags, "flags", 0)?;
        put(active, "active", 1)
    }

    /// The context of this thread: every thread has the primary one.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL.
    fn cuCtxGetCurrent(out: Out<'_, *mut c_void>) {
        put(out, "pctx", context())
    }

    /// Binds a context to this thread, or NULL for none: the primary one stays.
    ///
    /// Status: CUDA_ERROR_INVALID_CONTEXT for another one.
    fn cuCtxSetCurrent(context: *mut c_void) {
        if context.is_null() { Ok(()) } else { own(context) }
    }

    /// Binds a context to this thread.
    ///
    /// Status: CUDA_ERROR_INVALID_CONTEXT unless it is the primary one.
    fn cuCtxPushCurrent_v2(context: *mut c_void) {
        own(context)
    }

    /// The context that this thread was bound to last; `out` may be NULL.
    ///
    /// Status: CUDA_SUCCESS.
    fn cuCtxPopCurrent_v2(out: Out<'_, *mut c_void>) {
        out.into_iter().for_each(|out: &mut MaybeUninit<*mut c_void>| {
            out.write(context());
        });
        Ok(())
    }

    /// The device of this thread's context.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL.
    fn cuCtxGetDevice(device: Out<'_, i32>) {
        put(device, "device", 0)
    }

    /// Waits for all work, which is done when the call that asked for it returns.
    ///
    /// Status: CUDA_SUCCESS.
    fn cuCtxSynchronize() {
        Ok(())
    }

    /// Free bytes, and bytes in all.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL.
    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        // SAFETY: NULL or places for numbers.
        match unsafe { cudaMemGetInfo(free, total) } {
            SUCCESS => Ok(()),
            _ => Err((Error::InvalidValue, "free or total is NULL".to_owned())),
        }
    }

    /// The context of a stream of the runtime.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_INVALID_HANDLE for what is no stream.
    fn cuStreamGetCtx(stream: Handle, out: Out<'_, *mut c_void>) {
        state().has_stream(stream).map_err(|failure| (Error::InvalidHandle, failure.to_string()))?;
        put(out, "pctx", context())
    }

    /// Trades the mode in which captures of this thread refuse calls for another.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL or a mode that there is not.
    fn cuThreadExchangeStreamCaptureMode(mode: Option<&mut i32>) {
        // SAFETY: NULL or a mode.
        match unsafe { cudaThreadExchangeStreamCaptureMode(mode) } {
            SUCCESS => Ok(()),
            _ => Err((Error::InvalidValue, "mode is NULL or not one of 0 to 2".to_owned())),
        }
    }

    /// The name of a code.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL, and with NULL in the place of a name for an
    /// unknown code.
    fn cuGetErrorName(code: Code, out: Out<'_, *const c_char>) {
        text(out, code, |known| known.1)
    }

    /// The text of a code.
    ///
    /// Status: as cuGetErrorName.
    fn cuGetErrorString(code: Code, out: Out<'_, *const c_char>) {
        text(out, code, |known| known.2)
    }

    /// Tables of functions that NVIDIA's own libraries share with the driver: there are none, so
    /// that a CUDA runtime that is linked into a program sees no device.
    ///
    /// Status: CUDA_ERROR_NO_DEVICE.
    fn cuGetExportTable(table: Out<'_, *const c_void>, _id: *const c_void) {
        put(table, "ppExportTable", std::ptr::null())?;
        Err((Error::NoDevice, "a CUDA runtime of the program's own has no device here".to_owned()))
    }

    /// The address of the function with this name, whatever version of CUDA asks.
    ///
    /// Status: CUDA_ERROR_INVALID_VALUE for NULL; CUDA_ERROR_NOT_FOUND, with NULL as the address.
    fn cuGetProcAddress(symbol: *const c_char, out: Out<'_, *mut c_void>, _version: i32, _flags: u64) {
        // SAFETY: NULL or a C string.
        unsafe { look_up(symbol, out, None) }
    }

    /// The same, which says in `status` whether there is such a function.
    ///
    /// Status: as cuGetProcAddress.
    fn cuGetProcAddress_v2(
        symbol: *const c_char, out: Out<'_, *mut c_void>, _version: i32, _flags: u64,
        status: Out<'_, i32>,
    ) {
        // SAFETY: NULL or a C string.
        unsafe { look_up(symbol, out, status) }
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_newest_function_of_a_name_is_found_and_no_longer_name() {
        let of = |name| address(name).map(|address| address.cast_const().cast::<()>());
        assert_eq!(of(c"cuGetProcAddress"), Some(super::cuGetProcAddress_v2 as *const ()));
        assert_eq!(of(c"cuDeviceGet"), Some(super::cuDeviceGet as *const ()));
        assert_eq!(of(c"cuCtxPushCurrent"), Some(super::cuCtxPushCurrent_v2 as *const ()));
        assert_eq!(of(c"cuCtxPushCurrent_v2"), Some(super::cuCtxPushCurrent_v2 as *const ()));
        assert_eq!(of(c"cuLaunchKernel"), None);
    }
}
