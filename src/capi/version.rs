//! What the library says it is: version numbers, properties and the checks between its parts.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::arg::Out;
use super::guard::entry;
use super::types::{cudnnStatus_t, libraryPropertyType};
use crate::error::Error;

/// Major version of the interface.
pub const MAJOR: c_int = 9;
/// Minor version of the interface.
pub const MINOR: c_int = 27;
/// Patch level of the interface.
pub const PATCHLEVEL: c_int = 0;
/// `CUDNN_VERSION` of version 9: major * 10000 + minor * 100 + patch level.
pub const VERSION: usize = MAJOR as usize * 10_000 + MINOR as usize * 100 + PATCHLEVEL as usize;

/// Build of the original whose behaviour this library reproduces (9.27.0.42).
const BUILD: c_int = 42;
/// The number of the undocumented property that tells the build.
const BUILD_PROPERTY: c_int = 100;

/// Newest compute capability the original knows, as major * 100 + minor * 10.
const MAX_DEVICE_VERSION: usize = 1210;
/// The CUDA runtime that the original of this version was built with; told when the process has none.
const CUDART_VERSION: c_int = 12_090;

/// The version of the interface: equal to `CUDNN_VERSION` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    VERSION
}

/// The newest compute capability that the original of this version knows: major * 100 + minor * 10.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetMaxDeviceVersion() -> usize {
    MAX_DEVICE_VERSION
}

/// The version of the CUDA runtime library in this process.
///
/// Without one, of the runtime that the original of this version was built with.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    type RuntimeGetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: the name is a C string; looking a symbol up has no other precondition.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cudaRuntimeGetVersion".as_ptr()) };
    let mut version = 0;
    if !symbol.is_null() {
        // SAFETY: this name belongs to the CUDA runtime, whose interface gives it this type.
        let get_version = unsafe { std::mem::transmute::<*mut c_void, RuntimeGetVersion>(symbol) };
        // SAFETY: `version` is valid for one write.
        if unsafe { get_version(&mut version) } != 0 {
            version = 0;
        }
    }
    if version > 0 { version as usize } else { CUDART_VERSION as usize }
}

/// Major (0), minor (1) or patch (2) version as an integer; 100 asks for the build, as observed on the original.
///
/// Status: BAD_PARAM if `value` is NULL or `type` is none of these.
///
/// # Safety
/// `value` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetProperty(
    r#type: MaybeUninit<libraryPropertyType>,
    value: *mut c_int,
) -> cudnnStatus_t {
    let code = super::types::raw(r#type);
    entry("cudnnGetProperty", format_args!("type={code}, value={value:p}"), || {
        // SAFETY: as the caller promises.
        let value = unsafe { Out::new(value, "value") }?;
        value.set(match code {
            0 => MAJOR,
            1 => MINOR,
            2 => PATCHLEVEL,
            BUILD_PROPERTY => BUILD,
            _ => return Err(Error::argument("type", code.into(), "0 major, 1 minor, 2 patch level")),
        });
        Ok(())
    })
}

/// Whether the graph part fits the rest: always, it is one library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGraphVersionCheck() -> cudnnStatus_t {
    entry("cudnnGraphVersionCheck", format_args!(""), || Ok(()))
}

/// Whether the ops part fits the rest: always, it is one library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnOpsVersionCheck() -> cudnnStatus_t {
    entry("cudnnOpsVersionCheck", format_args!(""), || Ok(()))
}

/// Whether the cnn part fits the rest: always, it is one library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnCnnVersionCheck() -> cudnnStatus_t {
    entry("cudnnCnnVersionCheck", format_args!(""), || Ok(()))
}

/// Whether the adv part fits the rest: always, it is one library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnAdvVersionCheck() -> cudnnStatus_t {
    entry("cudnnAdvVersionCheck", format_args!(""), || Ok(()))
}

/// Whether the subquadratic-ops part fits the rest: always, it is one library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSubquadraticOpsVersionCheck() -> cudnnStatus_t {
    entry("cudnnSubquadraticOpsVersionCheck", format_args!(""), || Ok(()))
}
