//! The worker threads: started by the first large call, shared by all callers, at home in a C library.
//!
//! - A caller always works on its own job, so a job finishes even when no worker could be started.
//! - Each thread begins with its own part of the tasks, the same in every call, and then helps the others: what one call
//!   left in a processor's cache the next one finds there.
//! - A task that starts another job runs it alone: nesting can neither deadlock nor multiply threads.
//! - A forked child has none of the parent's threads; it notices by the process id and builds its own pool,
//!   without touching a lock that the parent may have held.
//! - Workers never run the host program's signal handlers, and never end.
//! - Waking a thread that sleeps can cost more than a call. Calls come in rows, so who waits watches for a moment first,
//!   and only then sleeps.
//! - Workers keep off the caller's processor, where they would wait for the caller, or the caller for them. Guests of a
//!   hypervisor would often put them there: they see no difference between a processor that sleeps and one that is
//!   taken away.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::affinity::{self, Worker};
use crate::error::{Error, Result};

/// Threads by default at most: memory bandwidth is exhausted long before.
const DEFAULT_LIMIT: usize = 16;

/// Threads ever, whatever the environment or a caller asks for.
const HARD_LIMIT: usize = 256;

/// Kernels need little: tables of a few KiB.
const STACK_BYTES: usize = 512 << 10;

/// How long a waiting thread watches before it sleeps: several times what waking it can cost (50 us and more on virtual
/// machines), or a worker that was late for one call would sleep again before the next.
const WATCH: Duration = Duration::from_micros(200);

/// Ranges per thread, so that a thread that was held up leaves work to the others: one that sleeps starts late.
const RANGES_PER_THREAD: usize = 4;

/// The number of threads a large problem is divided among: `CUDNN_SHIM_NUM_THREADS`, read once, else the number
/// of processors that this process may use, at most 16.
pub fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let asked = std::env::var("CUDNN_SHIM_NUM_THREADS").ok().and_then(|s| s.trim().parse().ok());
        asked
            .filter(|&n: &usize| n > 0)
            .map(|n| n.min(HARD_LIMIT))
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()).min(DEFAULT_LIMIT))
    })
}

thread_local! {
    /// Whether this thread is inside a task.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` with ranges that together are `0..items`, on up to `threads` threads of which the caller is one. They
/// depend on nothing but the two numbers.
///
/// # Errors
/// As for [`run`].
pub(super) fn in_ranges(threads: usize, items: usize, work: impl Fn(Range<usize>) + Sync) -> Result<()> {
    let threads = threads.min(items);
    if threads <= 1 {
        work(0..items);
        return Ok(());
    }
    let bounds = Bounds { items, parts: threads, ranges: (items / threads).min(RANGES_PER_THREAD) };
    run(threads, threads * bounds.ranges, &|task| work(bounds.at(task)..bounds.at(task + 1)))
}

/// Ranges of items, as many in each of some equal parts.
struct Bounds {
    items: usize,
    parts: usize,
    ranges: usize,
}

impl Bounds {
    /// Where a range begins. In each part, items that are left shrink as the square of the ranges that are, so that ranges
    /// become smaller and threads end together. Of few items all ranges have as many.
    fn at(&self, range: usize) -> usize {
        // In 128 bits, as the products may leave 64.
        let [items, parts, ranges] = [self.items, self.parts, self.ranges].map(|n| n as u128);
        let (part, range) = (range as u128 / ranges, range as u128 % ranges);
        let (begin, end) = (items * part / parts, items * (part + 1) / parts);
        let all = end - begin;
        let taken = if all < 4 * ranges {
            all * range / ranges
        } else {
            let left = ranges - range;
            all - all * left * left / (ranges * ranges)
        };
        (begin + taken) as usize
    }
}

/// Calls `task(0)`, ..., `task(tasks - 1)`, each once, on up to `threads` threads of which the caller is one.
/// Returns when all are done; which thread runs which task is left open.
///
/// # Errors
/// [`Error::Execution`] if a task panicked; the other tasks have run all the same.
pub fn run(threads: usize, tasks: usize, task: &(dyn Fn(usize) + Sync)) -> Result<()> {
    let helpers = threads.min(tasks).min(HARD_LIMIT).saturating_sub(1);
    // SAFETY: only the lifetime is erased. `Job::work` calls the task for indices below `tasks` only, and this
    // function returns only after every such call has: `wait` below sees all of them counted.
    let task: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(task) };
    let job = Job::new(task, tasks, helpers + 1);
    if helpers == 0 || BUSY.get() {
        job.work(0);
        return job.outcome();
    }
    let job = Arc::new(job);
    let pool = Pool::current();
    pool.staff(helpers);
    pool.post(Posting { job: Arc::clone(&job), seats: helpers });
    job.work(0);
    job.wait();
    pool.withdraw(&job);
    job.outcome()
}

/// Whether `happened` before patience ended.
fn watch(happened: impl Fn() -> bool) -> bool {
    // With one processor whoever is waited for needs the one that would be watching.
    static SEVERAL: OnceLock<bool> = OnceLock::new();
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

/// One call of [`run`].
struct Job {
    task: &'static (dyn Fn(usize) + Sync),
    homes: Vec<Home>,
    /// Tasks that have not returned.
    left: AtomicUsize,
    panicked: AtomicBool,
    done: Mutex<bool>,
    all_done: Condvar,
    /// Where the caller ran when it began.
    processor: Option<usize>,
}

/// The tasks that a thread begins with.
struct Home {
    /// The next one that nobody has claimed, below `end`.
    next: AtomicUsize,
    end: usize,
}

impl Home {
    fn new(tasks: Range<usize>) -> Self {
        Home { next: AtomicUsize::new(tasks.start), end: tasks.end }
    }

    fn claim(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&task| task < self.end)
    }
}

impl Job {
    fn new(task: &'static (dyn Fn(usize) + Sync), tasks: usize, homes: usize) -> Self {
        let bounds = Bounds { items: tasks, parts: homes, ranges: 1 };
        Job {
            task,
            homes: (0..homes).map(|home| Home::new(bounds.at(home)..bounds.at(home + 1))).collect(),
            left: AtomicUsize::new(tasks),
            panicked: AtomicBool::new(false),
            done: Mutex::new(tasks == 0),
            all_done: Condvar::new(),
            processor: affinity::processor(),
        }
    }

    /// Claims and runs tasks until none is left to claim; first those of a home, `home` or where counting it on ends.
    fn work(&self, home: usize) {
        let outer = BUSY.replace(true);
        let (before, from) = self.homes.split_at(home % self.homes.len());
        for home in from.iter().chain(before) {
            while let Some(task) = home.claim() {
                self.run(task);
            }
        }
        BUSY.set(outer);
    }

    fn run(&self, task: usize) {
        if catch_unwind(AssertUnwindSafe(|| (self.task)(task))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        // Release what this task wrote, acquire what the others wrote: the last one speaks for all.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *lock(&self.done) = true;
            self.all_done.notify_all();
        }
    }

    fn wait(&self) {
        // Acquire what the tasks wrote.
        if watch(|| self.left.load(Ordering::Acquire) == 0) {
            return;
        }
        let mut done = lock(&self.done);
        while !*done {
            done = self.all_done.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn outcome(&self) -> Result<()> {
        if self.panicked.load(Ordering::Relaxed) {
            return Err(Error::Execution("a task of the CPU core panicked".into()));
        }
        Ok(())
    }
}

/// A job that still wants this many workers.
struct Posting {
    job: Arc<Job>,
    seats: usize,
}

/// The threads of one process.
struct Pool {
    process: u32,
    queue: Mutex<Queue>,
    posted: Condvar,
    /// Postings in the queue, for those who watch it.
    waiting: AtomicUsize,
    workers: AtomicUsize,
}

/// What is to be done, and who would have to be woken for it.
#[derive(Default)]
struct Queue {
    postings: VecDeque<Posting>,
    sleepers: usize,
    /// The workers that have begun, in no order.
    workers: Vec<Worker>,
}

impl Pool {
    /// The pool of this process, new after a fork. Pools are never freed: their threads never end.
    fn current() -> &'static Pool {
        static CURRENT: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
        let process = std::process::id();
        loop {
            let seen = CURRENT.load(Ordering::Acquire);
            // SAFETY: CURRENT holds null or a pool that was leaked below.
            if let Some(pool) = unsafe { seen.as_ref() }
                && pool.process == process
            {
                return pool;
            }
            let fresh = Box::into_raw(Box::new(Pool {
                process,
                queue: Mutex::default(),
                posted: Condvar::new(),
                waiting: AtomicUsize::new(0),
                workers: AtomicUsize::new(0),
            }));
            if CURRENT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: from into_raw above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// Starts workers until there are `wanted`. One that cannot be started is done without for good, which saves
    /// every later call from trying again.
    fn staff(&'static self, wanted: usize) {
        let claim = |n: usize| (n < wanted).then_some(n + 1);
        while let Ok(number) = self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            let thread = std::thread::Builder::new().name(format!("cudnn-shim-{number}"));
            let _signals = BlockedSignals::new();
            if thread.stack_size(STACK_BYTES).spawn(move || self.serve()).is_err() {
                break;
            }
        }
    }

    fn serve(&self) {
        let me = self.change(|queue| {
            queue.workers.push(Worker::this_thread());
            queue.workers.len() - 1
        });
        loop {
            self.next_job(me).work(1 + me);
        }
    }

    /// Offers the seats of a job.
    fn post(&self, posting: Posting) {
        self.change(|queue| {
            if queue.sleepers > 0 {
                // Once woken there they would have to wait for their turn to step aside.
                queue.workers.iter_mut().for_each(|worker| worker.keep_off(posting.job.processor));
                self.posted.notify_all();
            }
            queue.postings.push_back(posting);
        });
    }

    /// Takes back what seats of a job are free.
    fn withdraw(&self, job: &Arc<Job>) {
        self.change(|queue| queue.postings.retain(|posting| !Arc::ptr_eq(&posting.job, job)));
    }

    /// Waits for a job with a free seat and takes it; `me` is the index of the worker.
    fn next_job(&self, me: usize) -> Arc<Job> {
        loop {
            watch(|| self.waiting.load(Ordering::Relaxed) > 0);
            let taken = self.change(|queue| {
                let posting = queue.postings.front_mut()?;
                let job = Arc::clone(&posting.job);
                posting.seats -= 1;
                if posting.seats == 0 {
                    queue.postings.pop_front();
                }
                if job.processor == affinity::processor() {
                    queue.workers[me].keep_off(job.processor);
                }
                Some(job)
            });
            if let Some(job) = taken {
                return job;
            }
            self.sleep();
        }
    }

    /// Until something is posted, at least.
    fn sleep(&self) {
        let mut queue = lock(&self.queue);
        queue.sleepers += 1;
        while queue.postings.is_empty() {
            queue = self.posted.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.sleepers -= 1;
    }

    /// The result of `change`, after which watchers see how long the queue is.
    fn change<R>(&self, change: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = lock(&self.queue);
        let result = change(&mut queue);
        self.waiting.store(queue.postings.len(), Ordering::Relaxed);
        result
    }
}

/// Blocks all signals of this thread while it lives; a thread started meanwhile keeps them blocked.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: sigset_t is plain data; both pointers are to live local variables.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn ranges_follow_one_another_and_become_smaller_in_each_part() {
        for (items, parts, ranges) in
            [(2, 2, 1), (7, 7, 1), (8, 1, 4), (17, 2, 4), (73, 3, 4), (usize::MAX, 16, 4)]
        {
            let bounds = Bounds { items, parts, ranges };
            let at: Vec<usize> = (0..=parts * ranges).map(|range| bounds.at(range)).collect();
            assert_eq!((at[0], at[parts * ranges]), (0, items));
            assert!(at.is_sorted(), "{at:?}");
            let sizes: Vec<usize> = at.windows(2).map(|b| b[1] - b[0]).collect();
            for part in sizes.chunks(ranges) {
                // Rounding moves a bound by less than an item.
                assert!(part.windows(2).all(|s| s[1] <= s[0] + 1), "{sizes:?}");
            }
        }
    }

    #[test]
    fn ranges_cover_every_item_once() {
        for threads in [0, 1, 2, 3, 8] {
            for items in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                in_ranges(threads, items, |range| {
                    range.for_each(|i| _ = counts[i].fetch_add(1, Ordering::Relaxed));
                })
                .expect("no range panics");
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn threads_begin_at_home_and_then_help_the_others() {
        static CLAIMED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        for (home, order) in
            [(0, [0, 1, 2, 3, 4, 5, 6]), (1, [2, 3, 4, 5, 6, 0, 1]), (5, [4, 5, 6, 0, 1, 2, 3])]
        {
            Job::new(&|task| lock(&CLAIMED).push(task), 7, 3).work(home);
            assert_eq!(std::mem::take(&mut *lock(&CLAIMED)), order);
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
            assert!(matches!(outcome, Err(Error::Execution(_))));
            assert_eq!(ran.load(Ordering::Relaxed), 10);
            each_once(threads, 10);
        }
    }
}
