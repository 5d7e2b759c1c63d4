//! The CUDA runtime on host memory, where the program has it: whether one of its streams captures.

use crate::sync::Once;

/// `cudnnShimHostIsCapturing` of `libcudnn_shim_host.so`: not 0 if the stream at this address captures. It leaves no trace.
type IsCapturing = unsafe extern "C" fn(usize) -> i32;

/// Whether calls on this stream are meant for a graph. Looks for the runtime once.
pub(super) fn captures(stream: usize) -> bool {
    static FOUND: Once<Option<IsCapturing>> = Once::new();
    // The default stream does not capture.
    if stream == 0 {
        return false;
    }
    let found = FOUND.get_or_init(|| {
        // SAFETY: a name that ends with a zero.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cudnnShimHostIsCapturing".as_ptr()) };
        // SAFETY: what has that name is a function of this type, which stays loaded: its library cannot be unloaded.
        (!address.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut libc::c_void, IsCapturing>(address) })
    });
    // SAFETY: it takes any number.
    found.is_some_and(|is_capturing| unsafe { is_capturing(stream) } != 0)
}
