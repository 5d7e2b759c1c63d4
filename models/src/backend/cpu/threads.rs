//! The pool with its workers and callers, over and over.

#[path = "../../../../src/backend/cpu/threads/bounds.rs"]
mod bounds;
#[path = "../../../../src/backend/cpu/threads/job.rs"]
mod job;
// Threads are loom's here, and what starts the system's is left over.
#[allow(dead_code)]
#[path = "../../../../src/backend/cpu/threads/pool.rs"]
mod pool;

use std::sync::atomic::AtomicUsize;
use std::sync::{self, PoisonError};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use self::job::{Job, Shared};
use self::pool::Pool;
use crate::sync::primitives::{Mutex, MutexGuard};

type Task<'a> = dyn Fn(*mut u8, usize) + Sync + 'a;

/// Whether a thread is inside a task: models do not nest calls.
struct Busy;

impl Busy {
    fn replace(&self, _: bool) -> bool {
        false
    }

    fn set(&self, _: bool) {}
}

static BUSY: Busy = Busy;

/// Starts none: the threads of a model are loom's.
mod start {
    use std::ffi::c_void;

    #[allow(dead_code)]
    pub(super) trait Body {
        unsafe fn run(argument: *mut c_void);
    }

    pub(super) unsafe fn start<B: Body>(_: *mut c_void) -> Option<libc::pthread_t> {
        None
    }
}

/// One look: patience may end at any time.
fn watch(happened: impl Fn() -> bool) -> bool {
    happened()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a model has.
#[derive(Clone, Copy)]
pub struct Calls {
    /// Threads that call the pool, one of which starts the workers.
    pub callers: usize,
    /// Calls of each, one after the other.
    pub calls: usize,
    /// Tasks of a call.
    pub tasks: usize,
    pub workers: usize,
}

/// Numbers that tasks write without a lock.
struct Written(Vec<UnsafeCell<usize>>);

// SAFETY: loom checks each access.
unsafe impl Sync for Written {}

impl Written {
    fn new(count: usize) -> Written {
        Written((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, at: usize) {
        // SAFETY: loom ends the model where another thread is here at the same time.
        self.0[at].with_mut(|number| unsafe { *number += 1 });
    }

    fn read(&self) -> Vec<usize> {
        // SAFETY: as above.
        self.0.iter().map(|number| number.with(|number| unsafe { *number })).collect()
    }
}

/// A call as `run_nested` of the library makes it: when it returns, each task has run once, and the
/// caller sees that.
fn call(pool: &Pool, Calls { tasks, workers, .. }: Calls) {
    let written = Written::new(tasks);
    let task: &Task<'_> = &|_, number| written.add(number);
    // SAFETY: only the lifetime is erased, as the library does: no task is called once `share` has
    // returned, or what they write would have raced with the reads below.
    let task: &'static Task<'static> = unsafe { std::mem::transmute(task) };
    let job = Job::new(task, [0; 2], tasks, workers + 1).and_then(Shared::new).expect("there is memory");
    pool.share(&job, workers, std::ptr::null_mut()).expect("no task panics");
    assert_eq!(written.read(), vec![1; tasks]);
}

/// Runs the model in every order of events in which threads are interrupted at most so often where
/// they would not wait by themselves; returns how many there were. Without such a bound even two
/// threads have millions.
///
/// # Panics
/// In one of them a task does not run or runs twice, a caller does not see what a task has written,
/// a thread waits for ever, or a job is not freed once.
pub fn explore(what: Calls, preemptions: usize) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let orders = sync::Arc::new(AtomicUsize::new(0));
    let counted = orders.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let (pool, ended) = (Arc::new(Pool::new(0)), Arc::new(AtomicBool::new(false)));
        let workers: Vec<_> = (0..what.workers)
            .map(|_| {
                let (pool, ended) = (pool.clone(), ended.clone());
                thread::spawn(move || {
                    let me = pool.enlist().expect("there is memory");
                    while !ended.load(Ordering::Acquire) {
                        pool.help(me);
                    }
                })
            })
            .collect();
        let calls = move |pool: &Pool| (0..what.calls).for_each(|_| call(pool, what));
        let others: Vec<_> = (1..what.callers)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || calls(&pool))
            })
            .collect();
        calls(&pool);
        others.into_iter().for_each(|caller| caller.join().expect("it returns"));
        // Workers of the library never end. Here one last job, which nobody takes back, wakes those
        // that sleep.
        ended.store(true, Ordering::Release);
        let nothing: &'static Task<'static> = &|_, _| ();
        let last = Job::new(nothing, [0; 2], 0, 1).and_then(Shared::new).expect("there is memory");
        pool.post(last, what.workers);
        workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    });
    orders.load(Ordering::Relaxed)
}
