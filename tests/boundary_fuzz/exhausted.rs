//! Memory that runs out while a problem is solved: a call says so, has written nothing but its
//! workspace, and made again has the bits of a call that was never disturbed.
//!
//! The allocator of this program is the C library's, but for one allocation inside the calls of a
//! line, which fails, alone or with all after it. Each line is run again and again, each time with
//! a later allocation, until none is left.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Instant;
use std::{ptr, thread};

use crate::buffer::{Content, hash};
use crate::problem::{Bench, Buffers, Lent, REFUSED, Run, Verdict};
use crate::problems::end_if_it_hangs;
use testkit::random::Rng;

/// `CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED`.
const NO_MEMORY: &str = "4003";

/// A line is run at most so often with one failure each.
const ATTEMPTS: usize = 60;

/// Allocations until one fails; below zero, none does.
static LEFT: AtomicI64 = AtomicI64::new(-1);
/// A call of the library is on its way: only its allocations count.
static IS_INSIDE: AtomicBool = AtomicBool::new(false);
/// Only one allocation fails, not all after it.
static FAILS_ALONE: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

/// Whether the allocation at hand fails.
fn fails() -> bool {
    if LEFT.load(Relaxed) < 0 || !IS_INSIDE.load(Relaxed) {
        return false;
    }
    // Zero stays zero, unless only one fails.
    let next = |left: i64| match left {
        0 if FAILS_ALONE.load(Relaxed) => Some(-1),
        1.. => Some(left - 1),
        _ => None,
    };
    let before = LEFT.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|left| left);
    if before != 0 {
        return false;
    }
    FAILED.store(true, Relaxed);
    // SAFETY: the place of this thread's number; the C library relies on it.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    true
}

/// # Safety
/// As the C library's; so for all functions here, which stand for those.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the function that this one stands for.
    if fails() { ptr::null_mut() } else { unsafe { __libc_malloc(size) } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    if fails() { ptr::null_mut() } else { unsafe { __libc_calloc(count, size) } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as above.
    if fails() { ptr::null_mut() } else { unsafe { __libc_realloc(old, size) } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    if fails() { ptr::null_mut() } else { unsafe { __libc_memalign(alignment, size) } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(memory: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    // SAFETY: as above.
    let found = if fails() { ptr::null_mut() } else { unsafe { __libc_memalign(alignment, size) } };
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: a place for the result.
    unsafe { *memory = found };
    0
}

/// What a [`Library`](crate::call::Library) does around its calls.
pub fn around(call: &dyn Fn() -> u64) -> u64 {
    IS_INSIDE.store(true, Relaxed);
    let returned = call();
    IS_INSIDE.store(false, Relaxed);
    returned
}

/// What the buffers hold that a refused call must leave alone.
fn kept(buffers: &Buffers) -> Vec<(&str, Vec<u8>)> {
    let of_caller = buffers.iter().filter(|(_, (buffer, _))| buffer.content != Content::Scratch);
    of_caller.map(|(name, (_, pages))| (name.as_str(), pages.bytes().to_vec())).collect()
}

/// Runs a line of which allocation `n` fails. Returns the run, whether there was such an
/// allocation, and whether a call was refused for it.
fn attempt(bench: &Bench, line: &str, n: i64, alone: bool) -> Result<(Run, bool, bool), String> {
    let (refused, fault) = (Cell::new(false), Cell::new(None));
    FAILED.store(false, Relaxed);
    FAILS_ALONE.store(alone, Relaxed);
    LEFT.store(n, Relaxed);
    let run = bench.run_tested(line, &mut |call, buffers| {
        let before = kept(buffers);
        let answer = call();
        if !FAILED.load(Relaxed) || answer[0] != NO_MEMORY || refused.get() {
            return answer;
        }
        LEFT.store(-1, Relaxed);
        refused.set(true);
        let text = bench.last_error();
        let written = before.iter().zip(kept(buffers)).find(|((_, before), (_, after))| before != after);
        if let Some(((name, _), _)) = written {
            fault.set(Some(format!("has written to {name} and says: {text}")));
        }
        call()
    });
    LEFT.store(-1, Relaxed);
    match fault.take() {
        Some(text) => Err(text),
        None => Ok((run, FAILED.load(Relaxed), refused.get())),
    }
}

/// [`attempt`], on a thread whose first calls these are.
fn on_new_thread(bench: &Bench, line: &str, n: i64, alone: bool) -> Result<(Run, bool, bool), String> {
    let lent = Lent(bench);
    thread::scope(|scope| {
        let attempt = scope.spawn(move || {
            let Lent(bench) = { lent };
            attempt(bench, line, n, alone).map(|(run, failed, refused)| (Returned(run), failed, refused))
        });
        let (Returned(run), failed, refused) = attempt.join().expect("an attempt does not panic")?;
        Ok((run, failed, refused))
    })
}

/// A run that its thread gives back.
struct Returned(Run);

// SAFETY: its thread has ended.
unsafe impl Send for Returned {}

/// Runs a line with each allocation failing in turn, or with a sample of them where there are many,
/// until `end`.
///
/// # Errors
/// What is wrong.
pub fn judge(bench: &Bench, line: &str, end: Instant) -> Result<Verdict, String> {
    let want = bench.run_tested(line, &mut |call, _| call());
    let last = want.answers.last().expect("calls");
    if last == REFUSED {
        return Ok(Verdict { digest: 0, refused: Some(want.reason), disturbances: 0 });
    }
    let mut rng = Rng(hash(line));
    let mut disturbances = 0;
    for is_new in [true, false] {
        let mut n = 0;
        for _ in 0..ATTEMPTS {
            if Instant::now() >= end {
                break;
            }
            end_if_it_hangs();
            let alone = rng.below(2) == 0;
            let run = if is_new { on_new_thread } else { attempt };
            let how = || {
                let which = if alone { "" } else { " and all after it" };
                let thread = if is_new { " on a new thread" } else { "" };
                format!("allocation {n}{which} failed{thread}: ")
            };
            let (got, failed, refused) = run(bench, line, n, alone).map_err(|text| how() + &text)?;
            disturbances += usize::from(refused);
            if let Some(text) = got.differs_from(&want, line) {
                return Err(how() + &text);
            }
            if !failed {
                break;
            }
            // Each of the first ones, and further apart the more there are.
            n += 1 + rng.below(1 + n as usize / 8) as i64;
        }
    }
    Ok(Verdict { digest: want.digest(), refused: None, disturbances })
}
