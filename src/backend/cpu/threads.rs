//! The worker threads: started by the first large call, shared by all callers, at home in a C
//! library.
//!
//! - A caller always works on its own job, so a job finishes even when no worker could be started.
//! - Each thread begins with its own part of the tasks, the same in every call, and then helps the
//!   others: what one call left in a processor's cache the next one finds there.
//! - A task that starts another job runs it alone: nesting can neither deadlock nor multiply
//!   threads.
//! - A forked child has none of the parent's threads; it finds no pool and builds its own, without
//!   touching a lock that the parent may have held.
//! - A caller whose stack has little room waits for a thread that has more.
//! - Workers never run the host program's signal handlers, but for what their own instructions
//!   raise, and never end.
//! - Workers compute in the default floating-point mode, whatever that of their callers is.
//! - Waking a thread that sleeps can cost more than a call. Calls come in rows, so a thread that
//!   waits watches for a moment first, and only then sleeps.
//! - Workers keep off the caller's processor, where they would wait for the caller, or the caller
//!   for them, and stay on processors that the caller may use. Systems in virtual machines would
//!   often put workers on the caller's processor: such a system sees no difference between a
//!   processor that sleeps and one that is taken away.

mod bounds;
mod job;
mod pool;
mod signals;
mod stack;
mod start;

use std::cell::Cell;
use std::ops::Range;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use self::bounds::Bounds;
use self::job::{Job, Shared};
use self::pool::Pool;
pub use self::stack::with_stack;
use super::arena;
use crate::error::Result;
use crate::panics::caught;
use crate::sync::Once;
use crate::sync::primitives::{Mutex, MutexGuard};

/// Threads by default at most: memory bandwidth is exhausted long before.
const DEFAULT_LIMIT: usize = 16;

/// Threads ever, whatever the environment or a caller asks for.
const HARD_LIMIT: usize = 256;

/// How long a waiting thread watches before it sleeps: several times what waking it can cost (50 us
/// and more on virtual machines), or a worker that was late for one call would sleep again before
/// the next.
const WATCH: Duration = Duration::from_micros(200);

/// Ranges per thread, so that a thread that was held up leaves work to the others: one that sleeps
/// starts late.
const RANGES_PER_THREAD: usize = 4;

/// The number of threads a large problem is divided among: `CUDNN_SHIM_NUM_THREADS`, read once,
/// else the number of processors that this process may use, at most 16.
pub fn limit() -> usize {
    static LIMIT: Once<usize> = Once::new();
    *LIMIT.get_or_init(|| {
        let asked = std::env::var("CUDNN_SHIM_NUM_THREADS").ok().and_then(|value| number(&value));
        asked
            .map(|n| n.min(HARD_LIMIT))
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()).min(DEFAULT_LIMIT))
    })
}

/// A number of threads.
fn number(value: &str) -> Option<usize> {
    value.trim().parse().ok().filter(|&n| n > 0)
}

/// What is wrong with a value of `CUDNN_SHIM_NUM_THREADS`, if anything is.
pub(super) fn complaint(value: &str) -> Option<String> {
    match number(value) {
        None => Some("no number of threads from 1 on; the default is used".to_owned()),
        Some(n) if n > HARD_LIMIT => Some(format!("more than {HARD_LIMIT} threads; {HARD_LIMIT} are used")),
        Some(_) => None,
    }
}

thread_local! {
    /// Whether this thread is inside a task.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// What is called for each task of a job, with the scratch of its thread.
type Task<'a> = dyn Fn(*mut u8, usize) + Sync + 'a;

/// Calls `work` with ranges that together are `0..items`, on up to `threads` threads of which the
/// caller is one, each with `scratch` bytes, as in [`run_with`]. The ranges depend on nothing but
/// the two numbers. Not generic, so that no kernel is compiled twice, for one thread and for
/// several.
///
/// # Errors
/// As for [`run_with`].
pub(super) fn in_ranges(
    threads: usize, items: usize, scratch: usize, work: &(dyn Fn(*mut u8, Range<usize>) + Sync),
) -> Result<()> {
    let threads = threads.min(items);
    if threads <= 1 {
        return arena::with(scratch, |scratch| {
            if !arena::is_surveying() {
                work(scratch, 0..items);
            }
            Ok(())
        });
    }
    let bounds = Bounds { items, parts: threads, ranges: (items / threads).min(RANGES_PER_THREAD) };
    run_with(threads, threads * bounds.ranges, scratch, &|scratch, task| {
        work(scratch, bounds.at(task)..bounds.at(task + 1));
    })
}

/// `parts` rounded up to a multiple of the threads, but not beyond `most`: of a few parts, a thread
/// that has one more than the others keeps them waiting.
pub fn even_parts(parts: usize, threads: usize, most: usize) -> usize {
    parts.next_multiple_of(threads).min(most).max(parts)
}

/// Calls `task(0)`, ..., `task(tasks - 1)`, each once, on up to `threads` threads of which the
/// caller is one. Returns when all are done; which thread runs which task is left open.
///
/// # Errors
/// [`Error::Execution`](crate::Error::Execution) if a task panicked; the other tasks have run all
/// the same.
pub fn run(threads: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) -> Result<()> {
    run_with(threads, tasks, 0, &|_, number| task(number))
}

/// The same with `scratch` bytes for each thread, from its [arena]: tasks that run one after the
/// other on a thread have the same ones. In a [survey](arena::survey) the scratch is taken and no
/// task is run.
///
/// # Errors
/// As for [`run`]; [`Error::HostAllocation`](crate::Error::HostAllocation) if there is no scratch
/// for the caller, and no task has run then. A worker without scratch leaves its tasks to the
/// others.
pub fn run_with(threads: usize, tasks: usize, scratch: usize, task: &Task<'_>) -> Result<()> {
    run_nested(threads, tasks, [scratch, 0], task)
}

/// The same for tasks that take scratch themselves: each thread has room for `nested` bytes of it
/// before it claims a task. The caller holds its own.
///
/// # Errors
/// As for [`run_with`].
pub fn run_nested(
    threads: usize, tasks: usize, [scratch, nested]: [usize; 2], task: &Task<'_>,
) -> Result<()> {
    let helpers = threads.min(tasks).min(HARD_LIMIT).saturating_sub(1);
    // SAFETY: only the lifetime is erased. `Job::work` calls the task for indices below `tasks`
    // only, and this function returns only after every such call has: `wait` below sees all of them
    // counted.
    let erased: &'static Task<'static> = unsafe { std::mem::transmute(task) };
    let job = || Shared::new(Job::new(erased, [scratch, nested], tasks, helpers + 1)?);
    arena::with(scratch, |scratch| {
        if arena::is_surveying() {
            return Ok(());
        }
        if helpers > 0
            && !BUSY.get()
            && let Some(pool) = Pool::current()
            && let Some(job) = job()
        {
            pool.staff(helpers);
            return pool.share(&job, helpers, scratch);
        }
        let outer = BUSY.replace(true);
        let mut panic = None;
        for number in 0..tasks {
            if let Err(said) = caught(|| task(scratch, number)) {
                panic = panic.or(Some(said));
            }
        }
        BUSY.set(outer);
        job::outcome(panic)
    })
}

/// Whether `happened` before patience ended.
fn watch(happened: impl Fn() -> bool) -> bool {
    // With one processor the thread that is waited for needs it, and spinning would keep it.
    static SEVERAL: Once<bool> = Once::new();
    if !*SEVERAL.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)) {
        return false;
    }
    let start = Instant::now();
    while start.elapsed() < WATCH {
        // The clock costs more than a look.
        for _ in 0..32 {
            if happened() {
                return true;
            }
            std::hint::spin_loop();
        }
        // Others may have better use for the processor, first of all who is waited for.
        std::thread::yield_now();
    }
    false
}

/// A panic inside a lock cannot leave these data half changed, so poisoning says nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn each_once(threads: usize, tasks: usize) {
        let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        run(threads, tasks, &|i| {
            counts[i].fetch_add(1, Ordering::Relaxed);
        })
        .expect("no task panics");
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [0, 1, 2, 3, 8] {
            for tasks in [0, 1, 2, 7, 1000] {
                each_once(threads, tasks);
            }
        }
    }

    #[test]
    fn ranges_cover_every_item_once() {
        for threads in [0, 1, 2, 3, 8] {
            for items in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                in_ranges(threads, items, 0, &|_, range| {
                    range.for_each(|i| _ = counts[i].fetch_add(1, Ordering::Relaxed));
                })
                .expect("no range panics");
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn concurrent_and_nested_callers_finish() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        run(3, 5, &|_| each_once(3, 9)).expect("no task panics");
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_is_an_error_and_the_others_still_run() {
        for threads in [1, 3] {
            let ran = AtomicUsize::new(0);
            let outcome = run(threads, 10, &|i| {
                ran.fetch_add(1, Ordering::Relaxed);
                assert_ne!(i, 3, "as planned");
            });
            let Err(Error::Execution(text)) = outcome else { panic!("{outcome:?}") };
            assert!(text.contains("as planned") && text.contains("threads.rs:"), "{text}");
            assert_eq!(ran.load(Ordering::Relaxed), 10);
            each_once(threads, 10);
        }
    }

    #[test]
    fn every_thread_has_scratch_of_its_own() {
        for threads in [1, 2, 3, 8] {
            let outcome = run_with(threads, 100, 256, &|scratch, task| {
                // SAFETY: 256 bytes that no other thread has.
                unsafe {
                    scratch.write_bytes(task as u8, 256);
                    std::thread::yield_now();
                    assert!((0..256).all(|i| scratch.add(i).read() == task as u8));
                }
            });
            assert_eq!(outcome, Ok(()));
        }
    }

    #[test]
    fn without_memory_for_scratch_nothing_runs() {
        for threads in [1, 3] {
            let outcome = run_with(threads, 10, isize::MAX as usize, &|_, _| panic!("never called"));
            assert!(matches!(outcome, Err(Error::HostAllocation { .. })));
            let outcome = in_ranges(threads, 10, 1 << 60, &|_, _| panic!("never called"));
            assert!(matches!(outcome, Err(Error::HostAllocation { .. })));
        }
    }
}
