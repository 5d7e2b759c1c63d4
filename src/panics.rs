//! Panics inside the library: a sentence for the caller, and nothing on the standard error of the
//! program.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a sentence that are kept.
const CAPACITY: usize = 256;

/// What a panic said and where; a buffer, as there may be no memory left.
struct Sentence {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl fmt::Write for Sentence {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut count = text.len().min(CAPACITY - self.len);
        while !text.is_char_boundary(count) {
            count -= 1;
        }
        self.bytes[self.len..self.len + count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

thread_local! {
    /// How many calls of [`caught`] this thread is inside.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    static SENTENCE: RefCell<Sentence> = const { RefCell::new(Sentence { bytes: [0; CAPACITY], len: 0 }) };
}

/// Calls `work`. Of a panic inside it is what this returns: its text and its place.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    // No lock, which a forked child might find taken. While a thread panics the hook cannot be
    // changed.
    if !HOOKED.load(Ordering::Relaxed) && !std::thread::panicking() && !HOOKED.swap(true, Ordering::Relaxed) {
        let before = take_hook();
        set_hook(Box::new(move |panic| if INSIDE.get() > 0 { keep(panic) } else { before(panic) }));
    }
    INSIDE.set(INSIDE.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(INSIDE.get() - 1);
    outcome.map_err(|_| {
        SENTENCE.with_borrow(|kept| String::from_utf8_lossy(&kept.bytes[..kept.len]).into_owned())
    })
}

/// What the hook does inside the library.
fn keep(panic: &PanicHookInfo<'_>) {
    SENTENCE.with_borrow_mut(|kept| {
        kept.len = 0;
        let payload = panic.payload();
        // What `panic!` makes of a literal, and of a format.
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a panic without text");
        // Writing into the buffer never fails; what does not fit is cut.
        let _ = match panic.location() {
            Some(place) => write!(kept, "{text}, at {}:{}", place.file(), place.line()),
            None => kept.write_str(text),
        };
    });
}

/// In builds with debug assertions, and in no others: panics when a place is reached that
/// `CUDNN_SHIM_TEST_PANIC` names, once in a process, so that tests can see what a program sees of
/// it.
#[inline(always)]
pub(crate) fn panic_if_asked(place: &str) {
    #[cfg(debug_assertions)]
    assert!(!asked::names(place), "CUDNN_SHIM_TEST_PANIC names {place}");
    #[cfg(not(debug_assertions))]
    let _ = place;
}

#[cfg(debug_assertions)]
mod asked {
    use std::ffi::CStr;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether nothing is asked for, or it has happened.
    static OVER: AtomicBool = AtomicBool::new(false);

    pub(super) fn names(place: &str) -> bool {
        if OVER.load(Ordering::Relaxed) {
            return false;
        }
        // Not by the standard library, which would allocate: tests count what a call allocates.
        // SAFETY: a C string; programs set the variable before their first call, and leave it as it
        // is.
        let asked = unsafe { libc::getenv(c"CUDNN_SHIM_TEST_PANIC".as_ptr()) };
        if asked.is_null() {
            OVER.store(true, Ordering::Relaxed);
            return false;
        }
        // SAFETY: the variable's value ends in 0.
        let is_here = unsafe { CStr::from_ptr(asked) }.to_bytes() == place.as_bytes();
        is_here && !OVER.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_sentence_with_its_place() {
        assert_eq!(caught(|| 3), Ok(3));
        let number = std::hint::black_box(7);
        let said = caught(|| assert!(number == 8, "seven is {number}")).unwrap_err();
        assert!(said.starts_with("seven is 7, at ") && said.contains("panics.rs:"), "{said}");
        // Inside another, and one that is longer than what is kept.
        let outer = caught(|| caught(|| panic!("{}", "ä".repeat(CAPACITY))).unwrap_err());
        assert_eq!(outer, Ok("ä".repeat(CAPACITY / 2)));
        assert_eq!(INSIDE.get(), 0);
    }
}
