//! One call of [`run_with`](super::run_with): its tasks, who may claim them, and when all are done.

use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::bounds::Bounds;
use super::{BUSY, Task, lock, watch};
use crate::backend::cpu::affinity::Place;
use crate::backend::cpu::arena;
use crate::error::{Error, Result};
use crate::panics::{caught, panic_if_asked};
use crate::sync::primitives::{AtomicUsize, Condvar, Mutex, fence};

pub(super) struct Job {
    task: &'static Task<'static>,
    /// Bytes of scratch of each thread, and of what its tasks take beside them.
    scratch: [usize; 2],
    queues: Vec<TaskQueue>,
    /// Tasks that have not returned.
    left: AtomicUsize,
    /// What the first panic of a task said.
    panic: Mutex<Option<String>>,
    done: Mutex<bool>,
    all_done: Condvar,
    /// Where the caller ran when it began.
    pub caller: Place,
}

/// The tasks that a thread begins with.
struct TaskQueue {
    /// The next one that nobody has claimed, below `end`.
    next: AtomicUsize,
    end: usize,
}

impl TaskQueue {
    fn new(tasks: Range<usize>) -> Self {
        TaskQueue { next: AtomicUsize::new(tasks.start), end: tasks.end }
    }

    fn claim(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|&task| task < self.end)
    }
}

impl Job {
    /// A job for as many threads as it has homes, if there is memory for it.
    pub fn new(
        task: &'static Task<'static>, scratch: [usize; 2], tasks: usize, queues: usize,
    ) -> Option<Job> {
        let bounds = Bounds { items: tasks, parts: queues, ranges: 1 };
        let mut all = Vec::new();
        all.try_reserve_exact(queues).ok()?;
        all.extend((0..queues).map(|queue| TaskQueue::new(bounds.at(queue)..bounds.at(queue + 1))));
        Some(Job {
            task,
            scratch,
            queues: all,
            left: AtomicUsize::new(tasks),
            panic: Mutex::new(None),
            done: Mutex::new(tasks == 0),
            all_done: Condvar::new(),
            caller: Place::here(),
        })
    }

    /// What a worker does: nothing if there is no memory for its scratch, for the others will do
    /// its tasks.
    pub fn help(&self, queue: usize) {
        let [bytes, nested] = self.scratch;
        let _ = arena::with_nested(bytes, nested, |scratch| {
            self.work(scratch, queue);
            Ok(())
        });
    }

    /// Claims and runs tasks until none is left to claim; first those of a home, `home` or where
    /// counting it on ends.
    pub fn work(&self, scratch: *mut u8, queue: usize) {
        let outer = BUSY.replace(true);
        let (before, from) = self.queues.split_at(queue % self.queues.len());
        for queue in from.iter().chain(before) {
            while let Some(task) = queue.claim() {
                self.run(scratch, task);
            }
        }
        BUSY.set(outer);
    }

    fn run(&self, scratch: *mut u8, task: usize) {
        let work = || {
            panic_if_asked("a task");
            (self.task)(scratch, task)
        };
        if let Err(said) = caught(work) {
            lock(&self.panic).get_or_insert(said);
        }
        // Release what this task wrote, acquire what the others wrote: the last one speaks for all.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *lock(&self.done) = true;
            self.all_done.notify_all();
        }
    }

    pub fn wait(&self) {
        // Acquire what the tasks wrote.
        if watch(|| self.left.load(Ordering::Acquire) == 0) {
            return;
        }
        let mut done = lock(&self.done);
        while !*done {
            done = self.all_done.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn outcome(&self) -> Result<()> {
        outcome(lock(&self.panic).take())
    }
}

/// The outcome of a call of whose tasks the first one that panicked said this.
pub(super) fn outcome(panic: Option<String>) -> Result<()> {
    panic.map_or(Ok(()), |said| {
        Err(Error::Execution(format!("a task of the CPU core panicked: {said}").into()))
    })
}

/// A job that several threads hold: an `Arc` that without memory is `None`, not the end of the
/// process.
pub(super) struct Shared(NonNull<Held>);

struct Held {
    job: Job,
    holders: AtomicUsize,
}

// SAFETY: a job is meant to be used by several threads at once, and the last holder frees it.
unsafe impl Send for Shared {}

impl Shared {
    pub fn new(job: Job) -> Option<Self> {
        let mut one = Vec::new();
        one.try_reserve_exact(1).ok()?;
        one.push(Held { job, holders: AtomicUsize::new(1) });
        Some(Shared(NonNull::from(one.leak()).cast()))
    }

    pub fn is(&self, other: &Shared) -> bool {
        self.0 == other.0
    }

    fn held(&self) -> &Held {
        // SAFETY: alive as long as it is held.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        self.held().holders.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl Deref for Shared {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.held().job
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.held().holders.fetch_sub(1, Ordering::Release) == 1 {
            // What all other holders did comes before it goes.
            fence(Ordering::Acquire);
            // SAFETY: leaked by a vector of one in `new`, and this was the last holder.
            drop(unsafe { Vec::from_raw_parts(self.0.as_ptr(), 1, 1) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn threads_begin_at_home_and_then_help_the_others() {
        static CLAIMED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        for (queue, order) in
            [(0, [0, 1, 2, 3, 4, 5, 6]), (1, [2, 3, 4, 5, 6, 0, 1]), (5, [4, 5, 6, 0, 1, 2, 3])]
        {
            Job::new(&|_, task| CLAIMED.lock().unwrap().push(task), [0; 2], 7, 3)
                .expect("there is memory")
                .help(queue);
            assert_eq!(std::mem::take(&mut *CLAIMED.lock().unwrap()), order);
        }
    }

    #[test]
    fn who_has_no_memory_for_scratch_leaves_the_tasks_to_others() {
        static RUN: AtomicUsize = AtomicUsize::new(0);
        let task: &'static Task<'static> = &|_, _| _ = RUN.fetch_add(1, Ordering::Relaxed);
        for scratch in [[isize::MAX as usize, 0], [64, isize::MAX as usize]] {
            let job = Job::new(task, scratch, 7, 3).expect("there is memory");
            job.help(0);
            assert_eq!(RUN.swap(0, Ordering::Relaxed), 0);
            job.work(std::ptr::null_mut(), 1);
            assert_eq!(RUN.swap(0, Ordering::Relaxed), 7);
        }
    }

    #[test]
    fn a_job_lives_as_long_as_someone_holds_it() {
        let job = Shared::new(Job::new(&|_, _| (), [0; 2], 2, 1).expect("there is memory"))
            .expect("there is memory");
        let other = job.clone();
        assert!(other.is(&job));
        drop(job);
        other.help(0);
        assert_eq!(other.outcome(), Ok(()));
    }
}
