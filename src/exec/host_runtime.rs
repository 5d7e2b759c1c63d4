//! The CUDA runtime on host memory, where the program has loaded it: whether a stream captures, and
//! the calls that its graph then keeps.

use std::ffi::{CStr, c_void};

use crate::sync::Once;

/// `cudnnShimHostIsCapturing` of `libcudnn_shim_host.so`: not 0 if the stream at this address
/// captures, or waits for one that does. It leaves no trace.
type IsCapturing = unsafe extern "C" fn(usize) -> i32;

/// `cudnnShimHostCapture` of the same library: adds a call to the graph that a stream captures; 0
/// if it did, else the call is not its own.
type Capture = unsafe extern "C" fn(
    usize,
    unsafe extern "C" fn(*const c_void) -> i32,
    unsafe extern "C" fn(*mut c_void),
    *mut c_void,
) -> i32;

/// A call that is made at each launch of a graph; it returns whether it succeeded. Launches of
/// several graphs may meet.
pub(super) type Kept = Box<dyn Fn() -> bool + Send + Sync>;

/// No stream: what runs there is neither left to a graph nor refused, whatever captures meanwhile.
pub(super) const NO_STREAM: usize = usize::MAX;

/// The address of a function of the runtime, NULL where the program does not have it.
fn look(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Whether calls on this stream are meant for a graph. Looks for the runtime once.
pub(super) fn captures(stream: usize) -> bool {
    static FOUND: Once<Option<IsCapturing>> = Once::new();
    let found = FOUND.get_or_init(|| {
        let address = look(c"cudnnShimHostIsCapturing");
        // SAFETY: what has that name is a function of this type, which stays loaded: its library
        // cannot be unloaded.
        (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, IsCapturing>(address) })
    });
    // SAFETY: it takes any number.
    found.is_some_and(|is_capturing| unsafe { is_capturing(stream) } != 0)
}

/// Leaves a call to the graph that the stream captures. False if the runtime does not take it.
pub(super) fn keep(stream: usize, call: Kept) -> bool {
    unsafe extern "C" fn run(call: *const c_void) -> i32 {
        // SAFETY: the box of `keep`, which lives until it is released.
        let call = unsafe { &*call.cast::<Kept>() };
        i32::from(!call())
    }
    unsafe extern "C" fn release(call: *mut c_void) {
        // SAFETY: the box of `keep`; the graph releases it once, and does not use it any more.
        drop(unsafe { Box::from_raw(call.cast::<Kept>()) });
    }
    let address = look(c"cudnnShimHostCapture");
    if address.is_null() {
        return false;
    }
    // SAFETY: what has that name is a function of this type.
    let capture = unsafe { std::mem::transmute::<*mut c_void, Capture>(address) };
    let data = Box::into_raw(Box::new(call)).cast::<c_void>();
    // SAFETY: both functions take what `data` is.
    let is_kept = unsafe { capture(stream, run, release, data) } == 0;
    if !is_kept {
        // SAFETY: it was not taken.
        unsafe { release(data) };
    }
    is_kept
}
