//! Where no memory is left: a line that says so, exit status 2, and no unfinished file.
//!
//! Small allocations find room in the library's reserve. One that does not, and that nobody can do
//! without, ends the process by `abort`, after the standard library has said how many bytes it
//! could not have. That is caught here.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::thread;

/// The path of the file that is written, which has not got its name yet; null if there is none.
static UNFINISHED: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Whether a thread is being started, the first one included. What the standard library allocates
/// for the handle of one comes from the system, which has no reserve and counts no refusal.
static STARTS_THREAD: AtomicBool = AtomicBool::new(true);

/// Called before `main`, and so before the standard library allocates for its own start.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = watch;

extern "C" fn watch() {
    let handler: extern "C" fn(c_int) = end;
    // SAFETY: no other thread runs yet; the handler calls only what a handler may call.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
}

/// The handler of `abort`. One for another reason takes the unfinished file away, and then goes on
/// as it would without a handler.
extern "C" fn end(_: c_int) {
    let path = UNFINISHED.load(Relaxed);
    // SAFETY: a text that stays, if any; a handler may call both functions.
    unsafe {
        if !path.is_null() {
            libc::unlink(path);
        }
        if cudnn_shim_reserve::has_refused() || STARTS_THREAD.load(Relaxed) {
            libc::_exit(2)
        }
    }
}

/// Says that a file at `path` is about to be made that has to go if the process ends now.
pub fn begins(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // The text stays: the handler may be reading it.
    UNFINISHED.store(path.into_raw(), Relaxed);
    Ok(())
}

/// Says that a thread is about to be started.
pub fn starts_thread() {
    STARTS_THREAD.store(true, Relaxed);
}

/// Says that the thread, which calls this, runs.
pub fn thread_runs() {
    // Its handle is made when it is first asked for.
    let _ = thread::current();
    STARTS_THREAD.store(false, Relaxed);
}

/// Says that the file is complete and has its name.
pub fn is_finished() {
    UNFINISHED.store(ptr::null_mut(), Relaxed);
}
