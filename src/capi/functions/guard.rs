//! What every entry point runs inside: the panic boundary, the last error and the call log.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::fmt::Write as _;
use std::mem::MaybeUninit;

use super::types::{CEnum, cudnnCallback_t, cudnnStatus_t, raw};
use super::{log, status};
use crate::error::{Error, Result};
use crate::panics::{caught, panic_if_asked};
use crate::reserve;

/// Runs the body of the entry point `name` and turns its outcome into a status: what the attribute `#[entry]` makes of a
/// function of C, see `macros/`.
///
/// `arguments` is only formatted if someone listens. A panic inside becomes `CUDNN_STATUS_INTERNAL_ERROR`; an
/// error leaves its text for `cudnnGetLastErrorString`.
#[inline]
pub(crate) fn entry(
    name: &'static str, arguments: fmt::Arguments<'_>, body: impl FnOnce() -> Result<()>,
) -> cudnnStatus_t {
    let body = || {
        panic_if_asked(name);
        match reserve::check() {
            // What gives memory back goes on without any.
            Err(error) if !name.contains("Destroy") => Err(error),
            _ => body(),
        }
    };
    let outcome = caught(body).unwrap_or_else(|panic| Err(Error::Internal(panic.into())));
    match &outcome {
        Ok(()) if !log::wants_calls() => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
        _ => report(name, arguments, &outcome),
    }
}

/// An argument as the log shows it.
pub(crate) struct Shown<'a, A>(pub(crate) &'a A);

impl<A: Argument> fmt::Display for Shown<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

/// What a C function takes: pointers and handles are shown as addresses, enums as their numbers.
pub(crate) trait Argument {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<T> Argument for *const T {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(self, f)
    }
}

impl<T> Argument for *mut T {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(self, f)
    }
}

impl<E: CEnum> Argument for MaybeUninit<E> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", raw(*self))
    }
}

macro_rules! numbers {
    ($($T:ty),*) => {$(
        impl Argument for $T {
            fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
numbers!(i32, u32, i64, u64, usize, f32, f64);

impl Argument for cudnnCallback_t {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_some() { "a function" } else { "NULL" })
    }
}

#[cold]
fn report(name: &'static str, arguments: fmt::Arguments<'_>, outcome: &Result<()>) -> cudnnStatus_t {
    let status = match outcome {
        Ok(()) => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
        Err(error) => {
            LAST_ERROR.with_borrow_mut(|last| last.set(name, error));
            status::of(error)
        }
    };
    // Listeners are the caller's code or a file: whatever happens there does not change the call's outcome.
    let _ = caught(|| log::call(name, arguments, status, outcome.as_ref().err()));
    status
}

/// The outcome of a call that another one makes in its place.
///
/// # Errors
/// What that call has left.
pub(crate) fn outcome(status: cudnnStatus_t) -> Result<()> {
    if status == cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let text = LAST_ERROR.with_borrow(|last| String::from_utf8_lossy(&last.text[..last.len]).into_owned());
    let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
    let text = text.strip_prefix("the original: ").unwrap_or(text).to_owned();
    Err(Error::Original { code: status.code(), text })
}

/// Longest text that is kept; longer ones are cut.
const LAST_ERROR_CAPACITY: usize = 1024;

struct LastError {
    text: [u8; LAST_ERROR_CAPACITY],
    len: usize,
}

impl LastError {
    fn set(&mut self, name: &str, error: &Error) {
        self.len = 0;
        // Writing into the buffer never fails; what does not fit is cut.
        let _ = write!(self, "{name}: {error}");
    }
}

impl fmt::Write for LastError {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = LAST_ERROR_CAPACITY - self.len;
        let mut cut = part.len().min(room);
        while !part.is_char_boundary(cut) {
            cut -= 1;
        }
        self.text[self.len..self.len + cut].copy_from_slice(&part.as_bytes()[..cut]);
        self.len += cut;
        Ok(())
    }
}

thread_local! {
    // Has no destructor, so that a call from another thread-local's destructor still finds it alive.
    static LAST_ERROR: RefCell<LastError> =
        const { RefCell::new(LastError { text: [0; LAST_ERROR_CAPACITY], len: 0 }) };
}

/// Moves the text of this thread's last error to `message`: text, then zero bytes up to `max_size`.
///
/// # Safety
/// `message` is NULL or valid for writes of `max_size` bytes.
pub(crate) unsafe fn take_last_error(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        return;
    }
    LAST_ERROR.with_borrow_mut(|last| {
        let len = last.len.min(max_size - 1);
        // SAFETY: `len < max_size`, and the caller vouches for `max_size` writable bytes.
        unsafe {
            message.cast::<u8>().copy_from_nonoverlapping(last.text.as_ptr(), len);
            message.cast::<c_void>().byte_add(len).write_bytes(0, max_size - len);
        }
        last.len = 0;
    });
}
