//! Starting threads without a memory allocation that could fail where no error can be returned.
//!
//! The standard library's threads allocate when they begin, and end the process where they cannot.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::signals::BlockedSignals;

/// Bytes of a thread's stack. Kernels need little: what is large comes from the arena.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// What a thread runs. A panic ends the process.
pub(super) trait Body {
    /// # Safety
    /// The argument is what the body says that it takes.
    unsafe fn run(argument: *mut c_void);
}

extern "C" fn enter<B: Body>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` was given an argument that the body takes.
    unsafe { B::run(argument) };
    std::ptr::null_mut()
}

/// Starts a thread that runs no signal handlers but for what its own instructions raise; `None` if
/// the system has none to give. It is to be joined or detached.
///
/// # Safety
/// As for the body, as long as the thread runs.
pub(super) unsafe fn start<B: Body>(argument: *mut c_void) -> Option<libc::pthread_t> {
    let _signals = BlockedSignals::new();
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the attributes are initialised before they are used, and the thread's number is read
    // if there is one; the body takes the argument.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let code = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), enter::<B>, argument);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (code == 0).then(|| thread.assume_init())
    }
}
