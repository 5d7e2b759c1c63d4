//! What the library says it is: version numbers, properties and the checks between its parts.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use cudnn_shim_macros::entry;

use super::arg::results;
use super::types::{CUDNN_MAX_DEVICE_VERSION, cudnnStatus_t, libraryPropertyType};
use super::{cudart, log};
use crate::error::Error;

/// Build of cuDNN whose behaviour this library reproduces (9.27.0.42, 8.9.7.29).
const BUILD: c_int = if cfg!(feature = "cudnn8") { 29 } else { 42 };
/// The number of the undocumented property that tells the build.
const BUILD_PROPERTY: c_int = 100;

/// The CUDA runtime that cuDNN of this version was built with; told when the process has none.
const CUDART_VERSION: c_int = if cfg!(feature = "cudnn8") { 12_020 } else { 12_090 };

/// The version of the interface: `CUDNN_VERSION`.
///
/// `CUDNN_SHIM_VERSION` (`9.1.0`, or the number itself) makes it another one, for programs that insist.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    log::reported_version().number()
}

/// The newest compute capability that cuDNN of this version knows: major * 100 + minor * 10.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetMaxDeviceVersion() -> usize {
    CUDNN_MAX_DEVICE_VERSION
}

/// The version of the CUDA runtime library in this process.
///
/// Without one, of the runtime that cuDNN of this version was built with.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    type RuntimeGetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    let mut version = 0;
    if let Some(symbol) = cudart::symbol(c"cudaRuntimeGetVersion") {
        // SAFETY: this name belongs to the CUDA runtime, whose interface gives it this type.
        let get_version = unsafe { std::mem::transmute::<NonNull<c_void>, RuntimeGetVersion>(symbol) };
        // SAFETY: `version` is valid for one write.
        if unsafe { get_version(&mut version) } != 0 {
            version = 0;
        }
    }
    if version > 0 { version as usize } else { CUDART_VERSION as usize }
}

/// Major (0), minor (1) or patch (2) version as an integer; 100 asks for the build, as observed on cuDNN.
///
/// Status: BAD_PARAM if `value` is NULL or `type` is none of these.
///
/// # Safety
/// `value` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetProperty(
    r#type: MaybeUninit<libraryPropertyType>, value: *mut c_int,
) -> cudnnStatus_t {
    results!(new value = property(super::types::raw(r#type))?)
}

fn property(code: c_int) -> Result<c_int, Error> {
    match code {
        0..=2 => Ok(log::reported_version().0[code as usize]),
        BUILD_PROPERTY => Ok(BUILD),
        _ => Err(Error::argument("type", code.into(), "0 major, 1 minor, 2 patch level, 100 build")),
    }
}

/// Whether the graph part fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGraphVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the ops part fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnOpsVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the cnn part fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnCnnVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the adv part fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnAdvVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the subquadratic-ops part fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[cfg(not(feature = "cudnn8"))]
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSubquadraticOpsVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the ops inference part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnOpsInferVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the ops training part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnOpsTrainVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the cnn inference part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnCnnInferVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the cnn training part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnCnnTrainVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the adv inference part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnAdvInferVersionCheck() -> cudnnStatus_t {
    Ok(())
}

/// Whether the adv training part of version 8 fits the rest: always, it is one library.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnAdvTrainVersionCheck() -> cudnnStatus_t {
    Ok(())
}
