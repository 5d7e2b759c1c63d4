//! On which processors the worker threads run.

use std::mem::MaybeUninit;

/// The processor that runs this thread, for the moment.
pub(super) fn processor() -> Option<usize> {
    // SAFETY: no arguments, no effects.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// A worker thread, and the processor that it keeps off.
pub(super) struct Worker {
    id: libc::pid_t,
    avoids: Option<usize>,
}

impl Worker {
    pub fn this_thread() -> Self {
        // SAFETY: no arguments, no effects.
        Worker { id: unsafe { libc::gettid() }, avoids: None }
    }

    /// Forbids the thread `processor`, and allows the one again that it kept off before. Moves it at once if it runs
    /// there. Without effect if there is no other that it may run on, or if the system does not permit it.
    pub fn keep_off(&mut self, processor: Option<usize>) {
        if processor == self.avoids {
            return;
        }
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        let size = size_of_val(&set);
        let known = |processor: &usize| *processor < size * 8;
        let (before, now) = (self.avoids.filter(known), processor.filter(known));
        // SAFETY: a set of `size` bytes, all zero at first, for a thread of this process; indices lie inside it.
        unsafe {
            if libc::sched_getaffinity(self.id, size, set.as_mut_ptr()) != 0 {
                return;
            }
            let set = set.assume_init_mut();
            before.inspect(|&before| libc::CPU_SET(before, set));
            now.inspect(|&now| libc::CPU_CLR(now, set));
            if libc::CPU_COUNT(set) > 0 && libc::sched_setaffinity(self.id, size, set) == 0 {
                self.avoids = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The processors that this thread may run on.
    fn allowed() -> Vec<usize> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        let size = size_of_val(&set);
        // SAFETY: a set of `size` bytes, all zero at first; indices lie inside it.
        unsafe {
            assert_eq!(libc::sched_getaffinity(0, size, set.as_mut_ptr()), 0);
            let set = set.assume_init_ref();
            (0..size * 8).filter(|&i| libc::CPU_ISSET(i, set)).collect()
        }
    }

    #[test]
    fn a_worker_keeps_off_one_processor_at_a_time_but_never_off_its_last() {
        let all = allowed();
        let others = |than: usize| all.iter().copied().filter(|&i| i != than).collect::<Vec<_>>();
        let mut worker = Worker::this_thread();
        for &processor in &all {
            worker.keep_off(Some(processor));
            if all.len() == 1 {
                assert_eq!(allowed(), all);
            } else {
                assert_eq!(allowed(), others(processor));
                assert_ne!(super::processor(), Some(processor));
            }
        }
        worker.keep_off(None);
        assert_eq!(allowed(), all);
    }
}
