//! The threads of one process: who waits for jobs, and who starts anew in a forked child.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::io::Write;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::job::Shared;
use super::start::{Body, start};
use super::{lock, watch};
use crate::backend::cpu::affinity::{self, Processors, Worker};
use crate::backend::cpu::float_mode;
use crate::error::Result;
use crate::sync;
use crate::sync::primitives::{AtomicUsize, Condvar, Mutex};

/// A job that still wants this many workers.
struct Posting {
    job: Shared,
    seats: usize,
}

pub(super) struct Pool {
    /// Whose it is.
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
    /// Where the last caller might run.
    allowed: Option<Processors>,
}

/// Takes the pool, which is never freed.
impl Body for Pool {
    unsafe fn run(pool: *mut c_void) {
        // SAFETY: a thread gets the address of its pool, which outlives it.
        unsafe { &*pool.cast::<Pool>() }.serve();
    }
}

/// Names this thread for those who look at the process: at most 15 bytes.
fn name_worker(me: usize) {
    let mut name = *b"cudnn-shim-\0\0\0\0\0";
    // 16 bytes, of which the last stays 0.
    let _ = write!(&mut name[11..15], "{me}");
    // SAFETY: ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

impl Pool {
    pub fn new(process: u32) -> Pool {
        Pool {
            process,
            queue: Mutex::new(Queue::default()),
            posted: Condvar::new(),
            waiting: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
        }
    }

    /// The pool of this process, new after a fork; none without memory for it. Touches no lock that
    /// a parent may have held. Pools are never freed: their threads never end.
    pub fn current() -> Option<&'static Pool> {
        static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
        let process = sync::process();
        loop {
            let seen = POOL.load(Ordering::Acquire);
            // SAFETY: null, or a pool that was leaked below.
            if let Some(pool) = unsafe { seen.as_ref() }
                && pool.process == process
            {
                return Some(pool);
            }
            let mut fresh = Vec::new();
            fresh.try_reserve_exact(1).ok()?;
            fresh.push(Pool::new(process));
            let fresh = fresh.leak().as_mut_ptr();
            if POOL.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: a leaked vector of one, and nobody else has seen it.
                drop(unsafe { Vec::from_raw_parts(fresh, 1, 1) });
            }
        }
    }

    /// Starts workers until there are `wanted`. One that cannot be started is done without for
    /// good, which saves every later call from trying again.
    pub fn staff(&'static self, wanted: usize) {
        let claim = |n: usize| (n < wanted).then_some(n + 1);
        while self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok() {
            let pool = std::ptr::from_ref(self).cast_mut().cast();
            // SAFETY: a pool.
            let Some(thread) = (unsafe { start::<Pool>(pool) }) else { break };
            // SAFETY: a thread of ours, which nobody joins.
            unsafe { libc::pthread_detach(thread) };
        }
    }

    fn serve(&self) {
        // For good: what this thread computes, it computes for callers in whatever mode.
        float_mode::set_default();
        let Some(me) = self.enlist() else { return };
        name_worker(me);
        loop {
            self.help(me);
        }
    }

    /// Makes this thread a worker, if there is memory for one more; returns its index.
    pub fn enlist(&self) -> Option<usize> {
        self.change(|queue| {
            queue.workers.try_reserve(1).ok()?;
            queue.workers.push(Worker::this_thread());
            Some(queue.workers.len() - 1)
        })
    }

    /// Waits for a job and helps with it; `me` is the index of the worker.
    pub fn help(&self, me: usize) {
        self.next_job(me).help(1 + me);
    }

    /// Runs a job on the caller's thread, with its scratch, and on up to `seats` workers; returns
    /// when every task has.
    pub fn share(&self, job: &Shared, seats: usize, scratch: *mut u8) -> Result<()> {
        self.post(job.clone(), seats);
        job.work(scratch, 0);
        job.wait();
        self.withdraw(job);
        job.outcome()
    }

    /// Offers the seats of a job, if there is memory to do so.
    pub fn post(&self, job: Shared, seats: usize) {
        self.change(|queue| {
            if queue.postings.try_reserve(1).is_err() {
                return;
            }
            let moved = queue.allowed != job.caller.allowed;
            if queue.sleepers > 0 || moved {
                // Once woken there they would have to wait for their turn to step aside.
                queue.workers.iter_mut().for_each(|worker| worker.make_room(&job.caller));
                queue.allowed = job.caller.allowed;
            }
            if queue.sleepers > 0 {
                self.posted.notify_all();
            }
            queue.postings.push_back(Posting { job, seats });
        });
    }

    /// Takes back what seats of a job are free.
    fn withdraw(&self, job: &Shared) {
        self.change(|queue| queue.postings.retain(|posting| !posting.job.is(job)));
    }

    /// Waits for a job with a free seat and takes it; `me` is the index of the worker.
    fn next_job(&self, me: usize) -> Shared {
        loop {
            watch(|| self.waiting.load(Ordering::Relaxed) > 0);
            let taken = self.change(|queue| {
                let posting = queue.postings.front_mut()?;
                let job = posting.job.clone();
                posting.seats -= 1;
                if posting.seats == 0 {
                    queue.postings.pop_front();
                }
                if job.caller.processor == affinity::processor() {
                    queue.workers[me].make_room(&job.caller);
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
