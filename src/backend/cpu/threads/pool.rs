//! The threads of one process: who waits for jobs, and who starts anew in a forked child.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::job::Shared;
use super::signals::BlockedSignals;
use super::{lock, watch};
use crate::backend::cpu::affinity::{self, Processors, Worker};
use crate::backend::cpu::float_mode;

/// Kernels need little: what is large comes from the arena.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// A job that still wants this many workers.
struct Posting {
    job: Shared,
    seats: usize,
}

pub(super) struct Pool {
    /// Whose it is, for systems that know no better (see [`Cell`]).
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

/// Where this process finds its pool: on a page that a forked child finds empty, whatever the parent did meanwhile and
/// whatever their process ids are.
struct Cell {
    pool: AtomicPtr<Pool>,
    /// Whether the system empties the page: Linux does from 4.14 on, some of its imitations do not. There the process id
    /// has to do.
    is_emptied: bool,
}

impl Cell {
    fn get() -> Option<&'static Cell> {
        static CELL: AtomicPtr<Cell> = AtomicPtr::new(std::ptr::null_mut());
        let seen = CELL.load(Ordering::Acquire);
        // SAFETY: CELL holds null or a page that was filled below and is never given back.
        if let Some(cell) = unsafe { seen.as_ref() } {
            return Some(cell);
        }
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let size = size_of::<Cell>();
        // SAFETY: new memory of this process alone, which holds the cell.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
            if page == libc::MAP_FAILED {
                return None;
            }
            let is_emptied = libc::madvise(page, size, libc::MADV_WIPEONFORK) == 0;
            let page = page.cast::<Cell>();
            page.write(Cell { pool: AtomicPtr::default(), is_emptied });
            match CELL.compare_exchange(seen, page, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => page.as_ref(),
                Err(other) => {
                    libc::munmap(page.cast(), size);
                    other.as_ref()
                }
            }
        }
    }
}

impl Pool {
    /// The pool of this process, new after a fork; none without memory for it. Touches no lock that a parent may have
    /// held. Pools are never freed: their threads never end.
    pub fn current() -> Option<&'static Pool> {
        let cell = Cell::get()?;
        loop {
            let seen = cell.pool.load(Ordering::Acquire);
            // SAFETY: the cell holds null or a pool that was leaked below.
            if let Some(pool) = unsafe { seen.as_ref() }
                && (cell.is_emptied || pool.process == std::process::id())
            {
                return Some(pool);
            }
            let mut fresh = Vec::new();
            fresh.try_reserve_exact(1).ok()?;
            fresh.push(Pool {
                process: std::process::id(),
                queue: Mutex::default(),
                posted: Condvar::new(),
                waiting: AtomicUsize::new(0),
                workers: AtomicUsize::new(0),
            });
            let fresh = fresh.leak().as_mut_ptr();
            if cell.pool.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: a leaked vector of one, and nobody else has seen it.
                drop(unsafe { Vec::from_raw_parts(fresh, 1, 1) });
            }
        }
    }

    /// Starts workers until there are `wanted`. One that cannot be started is done without for good, which saves
    /// every later call from trying again.
    pub fn staff(&'static self, wanted: usize) {
        let claim = |n: usize| (n < wanted).then_some(n + 1);
        while let Ok(number) = self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            let thread = std::thread::Builder::new().name(format!("cudnn-shim-{number}"));
            let _signals = BlockedSignals::new();
            let begun = Arc::new(AtomicBool::new(false));
            let beginning = begun.clone();
            let serve = move || {
                beginning.store(true, Ordering::Release);
                drop(beginning);
                self.serve();
            };
            if thread.stack_size(STACK_BYTES).spawn(serve).is_err() {
                break;
            }
            // What the system allocates for a thread that begins ends the process if there is no memory: it is to happen
            // now, where there was memory for the thread itself, and not at any time that the thread gets a processor.
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    }

    fn serve(&self) {
        // For good: what this thread computes, it computes for callers in whatever mode.
        float_mode::set_default();
        let me = self.change(|queue| {
            queue.workers.try_reserve(1).ok()?;
            queue.workers.push(Worker::this_thread());
            Some(queue.workers.len() - 1)
        });
        let Some(me) = me else { return };
        loop {
            self.next_job(me).help(1 + me);
        }
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
    pub fn withdraw(&self, job: &Shared) {
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
