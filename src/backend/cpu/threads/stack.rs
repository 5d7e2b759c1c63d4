//! Callers with little stack: what they ask for is computed on a thread that has enough, while they
//! wait.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::start::{Body, STACK_BYTES, start};
use crate::error::{Error, Result};

/// More than any call takes.
const NEEDED: usize = 64 << 10;

/// Where the stack of a thread ends that has not asked yet: above every address.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// The lowest address of this thread's stack.
    static END: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// Calls `work`: on this thread if its stack has room, else on one that is started for it. Of the
/// stack of a coroutine nothing is known, and it counts as one with room.
///
/// # Errors
/// Those of `work`; host allocation if a thread is wanted and cannot be started.
#[inline]
pub fn with_stack<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    let here = std::hint::black_box(0_u8);
    let here = (&raw const here).addr();
    let end = END.get();
    // Below the end of its thread's stack, that is on another one, the difference wraps.
    if here.wrapping_sub(end) < NEEDED || end == UNKNOWN && here.wrapping_sub(look()) < NEEDED {
        return elsewhere(work);
    }
    work()
}

/// Asks the system where this thread's stack ends: 0, far below everything, if it does not say.
#[cold]
fn look() -> usize {
    // SAFETY: plain data, written before it is read, of the calling thread.
    let end = unsafe {
        let mut attributes = std::mem::zeroed();
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) == 0 {
            libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        low.addr()
    };
    END.set(end);
    end
}

#[cold]
fn elsewhere<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    let (mut work, mut outcome) = (Some(work), None);
    on_a_thread(&mut || outcome = work.take().map(|work| work()))?;
    outcome.unwrap_or_else(|| Err(Error::Internal("a thread ended without its work".into())))
}

/// What another thread runs while this one waits for it, and what came of it.
struct Lent<'a> {
    work: &'a mut dyn FnMut(),
    outcome: std::thread::Result<()>,
}

/// Takes itself, from somebody who does nothing with it meanwhile.
impl Body for Lent<'_> {
    unsafe fn run(lent: *mut c_void) {
        // SAFETY: the work was lent by a caller that waits for its end.
        let lent = unsafe { &mut *lent.cast::<Lent<'_>>() };
        lent.outcome = catch_unwind(AssertUnwindSafe(&mut lent.work));
    }
}

/// Not for each kind of work anew: threads take many instructions.
fn on_a_thread(work: &mut dyn FnMut()) -> Result<()> {
    let mut lent = Lent { work, outcome: Ok(()) };
    // SAFETY: this thread waits for the other one, which was neither joined nor detached, before it
    // looks.
    unsafe {
        let thread = start::<Lent<'_>>((&raw mut lent).cast());
        let thread = thread.ok_or(Error::HostAllocation { bytes: STACK_BYTES })?;
        libc::pthread_join(thread, std::ptr::null_mut());
    }
    lent.outcome.map_err(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_of_work() -> std::thread::ThreadId {
        with_stack(|| Ok(std::thread::current().id())).expect("there is memory for a thread")
    }

    #[test]
    fn a_stack_with_room_is_used() {
        let here =
            std::thread::Builder::new().stack_size(1 << 20).spawn(|| (thread_of_work(), thread_of_work()));
        let here = here.expect("a thread");
        let id = here.thread().id();
        assert_eq!(here.join().expect("no panic"), (id, id));
    }

    #[test]
    fn a_stack_without_room_is_not() {
        // Some systems have no smaller stacks.
        let small = std::thread::Builder::new().stack_size(128 << 10).spawn(|| {
            let taken = [0_u8; 96 << 10];
            std::hint::black_box(&taken);
            let ids = (thread_of_work(), thread_of_work());
            std::hint::black_box(&taken);
            ids
        });
        let small = small.expect("a thread");
        let id = small.thread().id();
        let (first, second) = small.join().expect("no panic");
        assert!(first != id && second != id);
    }

    #[test]
    fn what_happens_elsewhere_comes_back() {
        let outcome = elsewhere(|| Err::<(), _>(Error::mismatch("as planned")));
        assert_eq!(outcome, Err(Error::mismatch("as planned")));
        let panicked = catch_unwind(|| elsewhere(|| -> Result<()> { panic!("as planned") }));
        assert_eq!(panicked.err().and_then(|p| p.downcast_ref::<&str>().copied()), Some("as planned"));
    }
}
