//! A driver that fails: each entry point in turn, at one of its calls while a line is run on the
//! CUDA core. The call of the library that met it ends with the driver's error; made again, on the
//! operands as they were, it and all after it have the bits of a line that was never disturbed.
//!
//! The driver is the double of `tests/cuda`, whose kernels run on the host.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::buffer::{Content, hash};
use crate::common;
use crate::problem::{Bench, Buffers, Run, Verdict};
use crate::problems::end_if_it_hangs;
use testkit::random::Rng;

/// An error of the driver that means nothing else here.
const LAUNCH_FAILED: c_int = 719;
/// So many calls of an entry point fail at most, one in a run.
const FAILURES: usize = 3;
/// The entry point whose failure is no call's: it gives names to other failures.
const GIVES_NAMES: &str = "cuGetErrorName";
/// The one whose failure leaves a context pushed, which the program then has to pop.
const POPS: &str = "cuCtxPopCurrent_v2";

/// Where `tests/cuda` has the double.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver_double")
}

/// Lets a child process find the double. Operands lie where the program's other data do.
pub fn beside(child: &mut Command) -> &mut Command {
    child.env("LD_LIBRARY_PATH", folder()).env("DRIVER_DOUBLE_PAGEABLE", "1")
}

/// Builds the double; returns whether its compiler is there.
pub fn prepare() -> bool {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: what needs the driver double, which needs g++: apt-get install g++");
        return false;
    }
    let script = common::project_root().join("c_tests/driver_double/build.sh");
    let status = Command::new("sh").arg(script).arg(folder()).status().expect("a shell");
    assert!(status.success(), "the driver double was not built");
    true
}

/// A function of the double.
fn symbol(name: &str) -> *mut c_void {
    let text = CString::new(name).expect("a name");
    // SAFETY: C strings; the library stays open.
    let found = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "the double is in the loader's path");
        libc::dlsym(library, text.as_ptr())
    };
    assert!(!found.is_null(), "the double has {name}");
    found
}

/// Lets the `nth` call from now of `entry`, counted from 0, fail.
fn fail(entry: &str, nth: u32) {
    let entry = CString::new(entry).expect("a name");
    // SAFETY: the double's function of this type, and a C string.
    unsafe {
        let fail: extern "C" fn(*const c_char, c_uint, c_int) =
            std::mem::transmute(symbol("driver_double_fail"));
        fail(entry.as_ptr(), nth, LAUNCH_FAILED);
    }
}

/// Withdraws the failure that did not happen, and tells whether there was one.
fn withdraw() -> bool {
    // SAFETY: the double's function of this type.
    let withdraw: extern "C" fn() -> c_uint =
        unsafe { std::mem::transmute(symbol("driver_double_withdraw_faults")) };
    withdraw() > 0
}

fn pop() {
    let mut popped = std::ptr::null_mut();
    // SAFETY: the driver's function of this type, and a place for the result.
    let status = unsafe {
        let pop: extern "C" fn(*mut *mut c_void) -> c_int = std::mem::transmute(symbol(POPS));
        pop(&raw mut popped)
    };
    assert_eq!(status, 0, "a context was pushed");
}

/// How often `entry` was called.
fn count(entry: &str) -> u32 {
    let entry = CString::new(entry).expect("a name");
    // SAFETY: the double's function of this type, and a C string.
    unsafe {
        let count: extern "C" fn(*const c_char) -> c_uint =
            std::mem::transmute(symbol("driver_double_count"));
        count(entry.as_ptr())
    }
}

/// What the buffers of the caller hold.
fn held(buffers: &Buffers) -> Vec<(u64, Vec<u8>)> {
    let of_caller = buffers.values().filter(|(buffer, _)| buffer.content != Content::Scratch);
    of_caller.map(|(_, pages)| (pages.address() as u64, pages.bytes().to_vec())).collect()
}

/// Runs a line of which this call of the driver fails. Returns the run, and whether a call of the
/// library was refused for it.
fn attempt(bench: &Bench, line: &str, entry: &str, nth: u32) -> Result<(Run, bool), String> {
    let (refused, fault) = (Cell::new(false), Cell::new(None));
    fail(entry, nth);
    let run = bench.run_tested(line, &mut |call, buffers| {
        let before = held(buffers);
        let answer = call();
        if answer[0] == "0" || refused.get() {
            return answer;
        }
        refused.set(true);
        let text = bench.last_error();
        // The library names an entry point without its version.
        if !text.contains(&format!("{} returned", entry.trim_end_matches("_v2"))) {
            fault.set(Some(format!("the call answers {}: {text}", answer.join(" "))));
        }
        for (address, bytes) in before {
            // SAFETY: a buffer of the line, which no call is using.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        }
        call()
    });
    if !withdraw() && entry == POPS {
        pop();
    }
    match fault.take() {
        Some(text) => Err(text),
        None => Ok((run, refused.get())),
    }
}

/// Runs a line with each entry point of the driver failing at some of its calls, until `end`.
///
/// # Errors
/// What is wrong.
pub fn judge(bench: &Bench, line: &str, end: Instant) -> Result<Verdict, String> {
    let entries = cudnn::backend::cuda::symbols();
    let entries = entries.iter().filter(|entry| **entry != GIVES_NAMES);
    // The first run loads kernels, which the others find.
    let first = bench.run_tested(line, &mut |call, _| call());
    if first.answers.last().expect("calls").split(' ').next() != Some("0") {
        return Ok(Verdict { digest: 0, refused: Some(first.reason), disturbances: 0 });
    }
    let before: Vec<u32> = entries.clone().map(|entry| count(entry)).collect();
    let want = bench.run_tested(line, &mut |call, _| call());
    let counts: Vec<u32> = entries.clone().zip(before).map(|(entry, before)| count(entry) - before).collect();
    if let Some(text) = want.differs_from(&first, line) {
        return Err(format!("run twice: {text}"));
    }
    let mut rng = Rng(hash(line));
    let mut disturbances = 0;
    for (entry, calls) in entries.zip(counts).filter(|(_, calls)| *calls > 0) {
        for k in 0..FAILURES.min(calls as usize) {
            if Instant::now() >= end {
                break;
            }
            end_if_it_hangs();
            let nth = if calls as usize <= FAILURES { k } else { rng.below(calls as usize) };
            let how = |text: String| format!("call {nth} of {entry} failed: {text}");
            let (got, refused) = attempt(bench, line, entry, nth as u32).map_err(how)?;
            disturbances += usize::from(refused);
            if let Some(text) = got.differs_from(&want, line) {
                return Err(how(text));
            }
        }
    }
    Ok(Verdict { digest: want.digest(), refused: None, disturbances })
}
