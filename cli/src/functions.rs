//! The functions of the library, which is loaded when one is needed first: the tool does not hold
//! it a second time.
#![allow(deprecated, reason = "the interface is, this use of it is not")]
#![allow(improper_ctypes_definitions, reason = "handles point to opaque tags")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudnn::capi::types::{
    cudnnDataType_t, cudnnFoldingDirection_t, cudnnHandle_t, cudnnShimDLTensor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnTensorTransformDescriptor_t,
};

use crate::place::{LIBRARIES, Place, VARIABLE};
use crate::{Failure, Result};

/// What hears of calls: severity, the caller's pointer, the circumstances, a text.
pub type Listener = Option<unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *const c_char)>;

/// `cudnnGetLastErrorString`
pub type LastError = unsafe extern "C" fn(*mut c_char, usize);

/// Declares the functions that are taken from the library, in a structure of their addresses.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        #[allow(non_snake_case, missing_docs, reason = "the names of C, whose documentation they have")]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Not in version 8.
            pub last_error: Option<LastError>,
        }

        impl Functions {
            /// # Safety
            /// `library` is open, and functions of these names have these types.
            ///
            /// # Errors
            /// The name of a function that it lacks.
            unsafe fn of(library: *mut c_void) -> Result<Functions, &'static str> {
                // SAFETY: as this function's caller says.
                unsafe {
                    Ok(Functions {
                        $($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >(symbol(library, concat!(stringify!($name), "\0"))?),)*
                        last_error: symbol(library, "cudnnGetLastErrorString\0")
                            .ok()
                            .map(|found| std::mem::transmute::<*mut c_void, LastError>(found)),
                    })
                }
            }
        }
    };
}

functions! {
    cudnnCreate(*mut cudnnHandle_t) -> cudnnStatus_t;
    cudnnDestroy(cudnnHandle_t) -> cudnnStatus_t;
    cudnnGetVersion() -> usize;
    cudnnCreateTensorDescriptor(*mut cudnnTensorDescriptor_t) -> cudnnStatus_t;
    cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t) -> cudnnStatus_t;
    cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t, *mut usize) -> cudnnStatus_t;
    cudnnTransformTensor(cudnnHandle_t, *const c_void, cudnnTensorDescriptor_t, *const c_void, *const c_void, cudnnTensorDescriptor_t, *mut c_void) -> cudnnStatus_t;
    cudnnCreateTensorTransformDescriptor(*mut cudnnTensorTransformDescriptor_t) -> cudnnStatus_t;
    cudnnDestroyTensorTransformDescriptor(cudnnTensorTransformDescriptor_t) -> cudnnStatus_t;
    cudnnSetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t, u32, MaybeUninit<cudnnTensorFormat_t>, *const i32, *const i32, *const u32, MaybeUninit<cudnnFoldingDirection_t>) -> cudnnStatus_t;
    cudnnTransformTensorEx(cudnnHandle_t, cudnnTensorTransformDescriptor_t, *const c_void, cudnnTensorDescriptor_t, *const c_void, *const c_void, cudnnTensorDescriptor_t, *mut c_void) -> cudnnStatus_t;
    cudnnShimSetTensorFromDLPack(cudnnHandle_t, cudnnTensorDescriptor_t, *const cudnnShimDLTensor_t, *mut *mut c_void) -> cudnnStatus_t;
    cudnnShimSetTensorLayout(cudnnTensorDescriptor_t, MaybeUninit<cudnnDataType_t>, *const c_char, c_int, *const c_int) -> cudnnStatus_t;
    cudnnShimGetCore(cudnnHandle_t, usize, *mut c_char) -> cudnnStatus_t;
    cudnnShimGetThreads(cudnnHandle_t, *mut c_int) -> cudnnStatus_t;
    cudnnShimRecordPlans(c_int) -> cudnnStatus_t;
    cudnnShimGetLastPlan(usize, *mut c_char, *mut usize) -> cudnnStatus_t;
    cudnnGetErrorString(MaybeUninit<cudnnStatus_t>) -> *const c_char;
    cudnnSetCallback(c_uint, *mut c_void, Listener) -> cudnnStatus_t;
}

/// The address of a function; its name ends with a zero.
///
/// # Safety
/// `library` is open.
///
/// # Errors
/// The name, if the library has no such function.
unsafe fn symbol(library: *mut c_void, name: &'static str) -> Result<*mut c_void, &'static str> {
    // SAFETY: an open library, and a text that ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if found.is_null() { Err(name.trim_end_matches('\0')) } else { Ok(found) }
}

/// The files that may be the library, the likeliest first: that of the installation or of the build
/// that this tool belongs to, the one that `run` gives to programs, and what the loader finds.
fn candidates() -> Vec<PathBuf> {
    let tool = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    let beside = tool.parent().unwrap_or(Path::new(""));
    // Cargo leaves the library of a dependency in `deps`.
    let built = [beside.join("libcudnn.so"), beside.join("deps/libcudnn.so")];
    let installed = Place::installed().into_iter().chain(Place::find(None).ok().map(|place| place.lib));
    let named = installed.flat_map(|lib| LIBRARIES.map(|name| lib.join(name)));
    let files: Vec<PathBuf> = built.into_iter().chain(named).filter(|file| file.exists()).collect();
    files.into_iter().chain(LIBRARIES.map(PathBuf::from)).collect()
}

/// The library's functions, loaded when they are needed first.
///
/// # Errors
/// No library of this project is found.
pub fn functions() -> Result<&'static Functions> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(load).as_ref().map_err(Failure::new)
}

fn load() -> Result<Functions, String> {
    let mut unfit = String::new();
    for file in candidates() {
        let path = CString::new(file.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: a C string; what this runs is the library's own start.
        let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if opened.is_null() {
            continue;
        }
        // SAFETY: the library is open; only this project's has the names with `Shim`, and the
        // others are those of cudnn.h.
        match unsafe { Functions::of(opened) } {
            Ok(functions) => return Ok(functions),
            Err(name) => unfit = format!("; {} has no {name}", file.display()),
        }
    }
    Err(format!(
        "no {} of this project beside this tool{unfit}: `cargo xtask install` brings both, and {VARIABLE} names the folder of one that \
         is elsewhere",
        LIBRARIES[0]
    ))
}
