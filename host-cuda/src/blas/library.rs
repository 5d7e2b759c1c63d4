//! The `libcudnn` of this process, which multiplies matrices.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::OnceLock;

use super::status::{
    ALLOC_FAILED, EXECUTION_FAILED, Failure, INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED, Outcome,
};

type Object = *mut c_void;

/// The calls that products take.
pub struct Library {
    create: unsafe extern "C" fn(*mut Object) -> c_int,
    destroy: unsafe extern "C" fn(Object) -> c_int,
    set_stream: unsafe extern "C" fn(Object, Object) -> c_int,
    create_tensor: unsafe extern "C" fn(*mut Object) -> c_int,
    destroy_tensor: unsafe extern "C" fn(Object) -> c_int,
    set_tensor: unsafe extern "C" fn(Object, c_int, c_int, *const c_int, *const c_int) -> c_int,
    core: unsafe extern "C" fn(Object, usize, *mut c_char) -> c_int,
    multiply: Multiply,
    status: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Not in version 8.
    last_error: Option<unsafe extern "C" fn(*mut c_char, usize)>,
}

type Multiply = unsafe extern "C" fn(
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    *const c_void,
    Object,
    *mut c_void,
) -> c_int;

/// The names of the library, the newest first.
const NAMES: [&CStr; 2] = [c"libcudnn.so.9", c"libcudnn.so.8"];

impl Library {
    /// The one that is loaded, else the one in the folder above this library's, else the one that
    /// the loader finds; it is kept.
    ///
    /// # Errors
    /// Not initialized if there is none; want of memory to load it.
    pub fn get() -> Outcome<&'static Library> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        // What was not found may be there the next time, when there is memory.
        let found = Library::load()?;
        Ok(LIBRARY.get_or_init(|| found))
    }

    /// # Errors
    /// Not initialized if there is none; want of memory to load it.
    fn load() -> Outcome<Library> {
        let mut unfit = String::new();
        let mut ours = |opened: *mut c_void| {
            let library = (!opened.is_null()).then(|| Library::of(opened))?;
            library
                .map_err(|missing| {
                    unfit = format!(" (one is loaded that lacks {missing}: it is not cudnn-shim's)")
                })
                .ok()
        };
        for name in NAMES {
            let opened = open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD)?;
            if let Some(library) = ours(opened) {
                return Ok(library);
            }
        }
        let beside = NAMES.iter().filter_map(|name| above(name)).collect::<Vec<_>>();
        for name in beside.iter().map(CString::as_c_str).chain(NAMES) {
            let opened = open(name, libc::RTLD_NOW)?;
            if let Some(library) = ours(opened) {
                return Ok(library);
            }
        }
        let places =
            beside.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>().join(", ");
        let sentence = format!(
            "no libcudnn.so.9 of cudnn-shim{unfit}: it is neither loaded, nor here: {places}, nor on the loader's path"
        );
        Err(Failure::new(NOT_INITIALIZED, sentence))
    }

    /// # Errors
    /// The name of a call that the library lacks.
    fn of(opened: *mut c_void) -> Result<Library, &'static str> {
        let find = |name: &'static CStr| {
            // SAFETY: an open library and a C string.
            let found = unsafe { libc::dlsym(opened, name.as_ptr()) };
            if found.is_null() { Err(name.to_str().unwrap_or_default()) } else { Ok(found) }
        };
        // SAFETY: each is a function of the library under a name that says what its parameters are:
        // all but the last two are those of cudnn.h, and only this project has the names with
        // `Shim`.
        unsafe {
            Ok(Library {
                create: transmute::<*mut c_void, unsafe extern "C" fn(*mut Object) -> c_int>(find(
                    c"cudnnCreate",
                )?),
                destroy: transmute::<*mut c_void, unsafe extern "C" fn(Object) -> c_int>(find(
                    c"cudnnDestroy",
                )?),
                set_stream: transmute::<*mut c_void, unsafe extern "C" fn(Object, Object) -> c_int>(find(
                    c"cudnnSetStream",
                )?),
                create_tensor: transmute::<*mut c_void, unsafe extern "C" fn(*mut Object) -> c_int>(find(
                    c"cudnnCreateTensorDescriptor",
                )?),
                destroy_tensor: transmute::<*mut c_void, unsafe extern "C" fn(Object) -> c_int>(find(
                    c"cudnnDestroyTensorDescriptor",
                )?),
                set_tensor: transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(Object, c_int, c_int, *const c_int, *const c_int) -> c_int,
                >(find(c"cudnnSetTensorNdDescriptor")?),
                core: transmute::<*mut c_void, unsafe extern "C" fn(Object, usize, *mut c_char) -> c_int>(
                    find(c"cudnnShimGetCore")?,
                ),
                multiply: transmute::<*mut c_void, Multiply>(find(c"cudnnShimMatmul")?),
                status: transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(find(
                    c"cudnnGetErrorString",
                )?),
                last_error: find(c"cudnnGetLastErrorString")
                    .ok()
                    .map(|found| transmute::<*mut c_void, unsafe extern "C" fn(*mut c_char, usize)>(found)),
            })
        }
    }

    /// What a status of the library means for the caller of a product.
    fn check(&self, status: c_int) -> Outcome {
        if status == 0 {
            return Ok(());
        }
        let mut text: [c_char; 512] = [0; 512];
        if let Some(last_error) = self.last_error {
            // SAFETY: the size is that of the array.
            unsafe { last_error(text.as_mut_ptr(), text.len()) };
        }
        let [reason, name] =
            // SAFETY: the call ends its text, of which nothing is written where it is not there;
            // the other text is the library's own.
            unsafe { [CStr::from_ptr(text.as_ptr()), CStr::from_ptr((self.status)(status))] }
                .map(CStr::to_string_lossy);
        // The categories of version 9, and the statuses of version 8.
        let ours = match status {
            2000..3000 | 3 => INVALID_VALUE,
            3000..4000 | 9 => NOT_SUPPORTED,
            4003 | 2 => ALLOC_FAILED,
            1001..2000 | 1 => NOT_INITIALIZED,
            _ => EXECUTION_FAILED,
        };
        Err(Failure::new(ours, format!("{name} {reason}").trim_end().to_owned()))
    }
}

/// Opens a library; NULL if there is none.
///
/// # Errors
/// Want of memory.
fn open(name: &CStr, flags: c_int) -> Outcome<*mut c_void> {
    // SAFETY: this thread's own number.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: a C string; what this runs is the library's own start.
    let opened = unsafe { libc::dlopen(name.as_ptr(), flags) };
    // SAFETY: this thread's own number.
    if opened.is_null() && unsafe { *libc::__errno_location() } == libc::ENOMEM {
        return Err(Failure::new(ALLOC_FAILED, "no memory to load libcudnn.so"));
    }
    Ok(opened)
}

/// The file of this name in the folder above the one that this code was loaded from.
fn above(name: &CStr) -> Option<CString> {
    // SAFETY: all zeros are such a structure, which the call fills in.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of our own, and a structure for the result.
    let known = unsafe { libc::dladdr((above as fn(&CStr) -> Option<CString>) as *const c_void, &mut found) };
    if known == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    let file = PathBuf::from(OsStr::from_bytes(file.to_bytes()));
    let folder = std::fs::canonicalize(file).ok()?.parent()?.parent()?.to_owned();
    CString::new(folder.join(name.to_str().ok()?).into_os_string().into_encoded_bytes()).ok()
}

/// A handle of the library on its CPU core, with a descriptor for each matrix of a product.
pub struct Multiplier {
    library: &'static Library,
    handle: Object,
    /// C, A, B.
    descs: [Object; 3],
    /// What the descriptors were set to last, which programs often repeat.
    shapes: [Shape; 3],
}

// SAFETY: the library's objects are numbers that any thread may use.
unsafe impl Send for Multiplier {}

/// Type, dims and strides of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The library's number of the type.
    pub data_type: c_int,
    /// Batch, rows, columns.
    pub dims: [c_int; 3],
    /// Of each, in elements.
    pub strides: [c_int; 3],
}

/// No stream of the runtime: nothing captures there, nor waits for a capture. A product of a graph
/// is computed when it is launched, whatever else captures then.
const NO_STREAM: Object = std::ptr::without_provenance_mut(usize::MAX);

const NO_SHAPE: Shape = Shape { data_type: -1, dims: [0; 3], strides: [0; 3] };

impl Multiplier {
    /// # Errors
    /// Not initialized without a library, or if it is not on its CPU core.
    pub fn new() -> Outcome<Self> {
        let library = Library::get()?;
        let mut made =
            Multiplier { library, handle: null_mut(), descs: [null_mut(); 3], shapes: [NO_SHAPE; 3] };
        // SAFETY: places for the results.
        library.check(unsafe { (library.create)(&mut made.handle) })?;
        let mut core: [c_char; 16] = [0; 16];
        // SAFETY: the size is that of the array.
        library.check(unsafe { (library.core)(made.handle, core.len(), core.as_mut_ptr()) })?;
        // SAFETY: the call ends its text.
        let core = unsafe { CStr::from_ptr(core.as_ptr()) };
        if core != c"cpu" {
            let sentence =
                "libcudnn is on its CUDA core, this library on host memory: set CUDNN_SHIM_BACKEND=cpu";
            return Err(Failure::new(NOT_INITIALIZED, sentence));
        }
        // SAFETY: the CPU core follows no stream, and asks the runtime alone, which takes any
        // number.
        library.check(unsafe { (library.set_stream)(made.handle, NO_STREAM) })?;
        for desc in &mut made.descs {
            // SAFETY: a place for the result.
            library.check(unsafe { (library.create_tensor)(desc) })?;
        }
        Ok(made)
    }

    /// `C = alpha * A B + beta * C`, of C, A and B in this order.
    ///
    /// # Errors
    /// As the library says.
    ///
    /// # Safety
    /// The shapes are those of the memory at the pointers, of which A and B need hold nothing if
    /// alpha is 0.
    pub unsafe fn multiply(
        &mut self, shapes: [Shape; 3], [c, a, b]: [*mut c_void; 3], [alpha, beta]: [f64; 2],
    ) -> Outcome {
        for (at, shape) in shapes.iter().enumerate() {
            if self.shapes[at] == *shape {
                continue;
            }
            self.shapes[at] = NO_SHAPE;
            let Shape { data_type, dims, strides } = shape;
            // SAFETY: arrays of three entries.
            let status = unsafe {
                (self.library.set_tensor)(self.descs[at], *data_type, 3, dims.as_ptr(), strides.as_ptr())
            };
            self.library.check(status)?;
            self.shapes[at] = *shape;
        }
        let single = [alpha as f32, beta as f32];
        let double = [alpha, beta];
        let [alpha, beta] = [0, 1].map(|at| match shapes[0].data_type {
            DOUBLE => (&raw const double[at]).cast::<c_void>(),
            _ => (&raw const single[at]).cast(),
        });
        let [of_c, of_a, of_b] = self.descs;
        // SAFETY: the factors are of the type that goes with C; the caller vouches for the
        // matrices.
        let status = unsafe { (self.library.multiply)(self.handle, alpha, of_a, a, of_b, b, beta, of_c, c) };
        self.library.check(status)
    }
}

/// The library's number for binary64.
const DOUBLE: c_int = 1;

impl Drop for Multiplier {
    fn drop(&mut self) {
        for desc in self.descs.into_iter().filter(|desc| !desc.is_null()) {
            // SAFETY: made by the library, and given back once.
            unsafe { (self.library.destroy_tensor)(desc) };
        }
        if !self.handle.is_null() {
            // SAFETY: made by the library, and given back once.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}
