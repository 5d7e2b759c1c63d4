//! Calls in a process that is not left alone: a signal each millisecond, children that are forked
//! while calls are under way, and threads that cannot be made (`no_threads.c`). Results stay the
//! same bits, in the child as well.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use crate::buffer::hash;
use crate::problem::{Bench, Lent, REFUSED, Run, Verdict};
use crate::problems::end_if_it_hangs;
use testkit::random::Rng;

/// So often a line is run while it is disturbed.
const ATTEMPTS: usize = 3;
/// The signal, which a timer sends.
const SIGNAL: c_int = libc::SIGUSR1;

/// How often the handler ran, and how often on a thread of the library.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static STRANGERS: AtomicUsize = AtomicUsize::new(0);
/// The thread that calls the library.
static CALLER: AtomicI32 = AtomicI32::new(0);

extern "C" fn handler(_: c_int) {
    HANDLED.fetch_add(1, Relaxed);
    // SAFETY: a plain system call.
    if unsafe { libc::gettid() } != CALLER.load(Relaxed) {
        STRANGERS.fetch_add(1, Relaxed);
    }
}

/// The library that refuses threads, in this folder.
pub fn shim(folder: &Path) -> PathBuf {
    folder.join("no_threads.so")
}

/// The file that it makes when it has refused one.
pub fn refused(folder: &Path) -> PathBuf {
    folder.join("a_thread_was_refused")
}

/// Which threads a process is refused whose first problem has this seed: one of the first three, or
/// that one and all after it. Few problems are so large that more are begun.
pub fn no_thread(seed: u64) -> String {
    let one = seed % 3;
    if (seed / 3).is_multiple_of(2) { format!("{one}+") } else { one.to_string() }
}

/// Compiles it.
pub fn prepare(folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundary_fuzz/no_threads.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(shim(folder)).arg(source);
    let status = compiler.arg("-ldl").status().expect("cc starts");
    assert!(status.success(), "no_threads.c does not compile");
}

/// Sends [`SIGNAL`] to the process each millisecond, until it is dropped.
struct Timer(libc::timer_t);

impl Timer {
    fn start() -> Timer {
        let each = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let times = libc::itimerspec { it_interval: each, it_value: each };
        // SAFETY: all-zero values of C structures, then plain system calls on them.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(c_int) = handler;
            // Without SA_RESTART: system calls are interrupted.
            action.sa_sigaction = handler as libc::sighandler_t;
            assert_eq!(libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()), 0);
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, SIGNAL);
            let mut timer = MaybeUninit::uninit();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()), 0);
            let timer = timer.assume_init();
            assert_eq!(libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()), 0);
            Timer(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer of `start`.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Blocks the signal in this thread and those that it begins, or lets it through again.
fn mask(how: c_int) {
    // SAFETY: a set on the stack.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), SIGNAL);
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

/// Forks a child that runs the line on its own; returns the status with which it ended.
fn in_child(bench: &Bench, line: &str, want: &Run) -> c_int {
    // SAFETY: the child leaves by `_exit`, whatever happens.
    let child = unsafe { libc::fork() };
    if child == 0 {
        end_if_it_hangs();
        let same = || bench.run_tested(line, &mut |call, _| call()).differs_from(want, line).is_none();
        let is_same = catch_unwind(AssertUnwindSafe(same)).unwrap_or(false);
        // SAFETY: the end of the child.
        unsafe { libc::_exit(c_int::from(!is_same)) };
    }
    assert!(child > 0, "no child");
    let mut status = 0;
    // SAFETY: waits for the child.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    status
}

/// Runs a line while signals arrive, and again in children that are forked meanwhile, until `end`.
///
/// # Errors
/// What is wrong.
pub fn judge(bench: &Bench, line: &str, end: Instant) -> Result<Verdict, String> {
    let begin = Instant::now();
    let want = bench.run_tested(line, &mut |call, _| call());
    let takes = begin.elapsed();
    if want.answers.last().expect("calls") == REFUSED {
        return Ok(Verdict { digest: 0, refused: Some(want.reason), disturbances: 0 });
    }
    // SAFETY: a plain system call.
    CALLER.store(unsafe { libc::gettid() }, Relaxed);
    let mut rng = Rng(hash(line));
    let (signals, mut children) = (HANDLED.load(Relaxed), 0);
    for _ in 0..ATTEMPTS {
        if Instant::now() >= end {
            break;
        }
        end_if_it_hangs();
        let lent = Lent(bench);
        let pause = Duration::from_nanos(rng.below(takes.as_nanos() as usize + 1) as u64);
        mask(libc::SIG_BLOCK);
        let (got, status) = thread::scope(|scope| {
            let want = Lent(&want);
            let forker = scope.spawn(move || {
                let (Lent(bench), Lent(want)) = { (lent, want) };
                thread::sleep(pause);
                in_child(bench, line, want)
            });
            mask(libc::SIG_UNBLOCK);
            let timer = Timer::start();
            let got = bench.run_tested(line, &mut |call, _| call());
            drop(timer);
            (got, forker.join().expect("a thread that forks"))
        });
        children += 1;
        if let Some(text) = got.differs_from(&want, line) {
            return Err(format!("with signals: {text}"));
        }
        if status != 0 {
            return Err(format!("a child that was forked during a call ended with status {status:#x}"));
        }
        if STRANGERS.load(Relaxed) > 0 {
            return Err("a thread of the library ran the handler of a signal".to_owned());
        }
    }
    let disturbances = HANDLED.load(Relaxed) - signals + children;
    Ok(Verdict { digest: want.digest(), refused: None, disturbances })
}
