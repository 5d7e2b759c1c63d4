//! The libraries of an installation in this process, and functions of them by name.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::setting::layout;

/// The most arguments that a function here has.
const MOST: usize = 24;

/// A function of C that is called with whole numbers and addresses; of arguments that it does not
/// have it knows nothing.
#[rustfmt::skip]
type Function = unsafe extern "C" fn(
    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize
) -> i32;

/// One test at a time: streams, captures and the default stream are the process's. The first one
/// loads the libraries.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static LOADED: Once = Once::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    LOADED.call_once(|| {
        let built = std::env::current_exe().expect("this program").with_file_name("libcudnn.so");
        // SAFETY: the tests wait for this one: nothing reads the environment meanwhile.
        unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", "cpu") };
        let folder = layout().join("lib/host-cuda");
        open(&built);
        for name in [
            "libcudnn_shim_host.so",
            "libcudart.so.12",
            "libcublas.so.12",
            "libcublasLt.so.12",
            "libcurand.so.10",
        ] {
            open(&folder.join(name));
        }
    });
    guard
}

fn open(file: &Path) {
    let path = CString::new(file.as_os_str().as_encoded_bytes()).expect("a path");
    // SAFETY: a C string; what this runs is the library's own start.
    let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!opened.is_null(), "{} does not load", file.display());
}

/// The address of a function.
pub fn address(name: &str) -> *mut c_void {
    let text = CString::new(name).expect("a name");
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, text.as_ptr()) };
    assert!(!found.is_null(), "{name} is not there");
    found
}

/// Calls a function with these arguments.
pub fn call(name: &str, arguments: &[usize]) -> i32 {
    assert!(arguments.len() <= MOST, "{name} has {} arguments", arguments.len());
    // SAFETY: a function that takes whole numbers and addresses.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address(name)) };
    let mut a = [0; MOST];
    a[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: the caller gives what the function takes; what is beyond its parameters it does not
    // look at.
    unsafe {
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
            a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23],
        )
    }
}

/// Calls a function of the runtime that has to succeed.
pub fn succeed(name: &str, arguments: &[usize]) {
    assert_eq!(call(name, arguments), 0, "{name}");
}

/// The address of a value, as an argument.
pub fn at<T>(value: &T) -> usize {
    std::ptr::from_ref(value).expose_provenance()
}

/// The address of a value that the function writes.
pub fn to<T>(value: &mut T) -> usize {
    std::ptr::from_mut(value).expose_provenance()
}

/// A stream that waits for the default stream, or does not.
pub fn stream(is_blocking: bool) -> usize {
    let mut stream = 0;
    succeed("cudaStreamCreateWithFlags", &[to(&mut stream), usize::from(!is_blocking)]);
    stream
}

/// What became of a capture.
pub struct Captured {
    /// What cudaStreamEndCapture answered.
    pub status: i32,
    graph: usize,
}

/// Captures what `body` puts on a stream.
pub fn capture<T>(stream: usize, body: impl FnOnce() -> T) -> (T, Captured) {
    succeed("cudaStreamBeginCapture", &[stream, 0]);
    let outcome = body();
    let mut graph = 0;
    let status = call("cudaStreamEndCapture", &[stream, to(&mut graph)]);
    // Of the last error of the thread nothing stays.
    call("cudaGetLastError", &[]);
    (outcome, Captured { status, graph })
}

impl Captured {
    /// How many nodes the graph has.
    pub fn nodes(&self) -> usize {
        let mut count = 0;
        succeed("cudaGraphGetNodes", &[self.graph, 0, to(&mut count)]);
        count
    }

    /// Launches the graph, once; what the launch answered.
    pub fn launch(&self, stream: usize) -> i32 {
        let mut executable = 0;
        succeed("cudaGraphInstantiate", &[to(&mut executable), self.graph, 0]);
        let status = call("cudaGraphLaunch", &[executable, stream]);
        call("cudaGetLastError", &[]);
        succeed("cudaGraphExecDestroy", &[executable]);
        status
    }
}
