//! Which signals the worker threads take.

/// The signals that an instruction raises: its own thread has to take them, for the kernel ends a
/// process that blocks them.
const SYNCHRONOUS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Blocks all signals of this thread but the [synchronous](SYNCHRONOUS) ones while it lives; a
/// thread started meanwhile keeps them so: it never runs a handler of the host program, unless for
/// a page fault and its kin of its own.
pub(super) struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    pub fn new() -> Self {
        // SAFETY: sigset_t is plain data; all pointers are to live local variables.
        unsafe {
            let (mut blocked, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut blocked);
            for signal in SYNCHRONOUS {
                libc::sigdelset(&raw mut blocked, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
            BlockedSignals { before }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by pthread_sigmask in `new`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}
