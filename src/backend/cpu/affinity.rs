//! On which processors the worker threads run.

use std::mem::MaybeUninit;

/// The processor that runs this thread, for the moment.
pub(super) fn processor() -> Option<usize> {
    // SAFETY: no arguments, no effects.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// A set of processors, of at most 1024.
#[derive(Clone, Copy)]
pub(super) struct Processors(libc::cpu_set_t);

impl PartialEq for Processors {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: two sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl Processors {
    /// The processors that this thread may run on, unless there are more than a set holds.
    fn of_this_thread() -> Option<Self> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: a set, all zero at first.
        unsafe {
            let found = libc::sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr()) == 0;
            found.then(|| Processors(set.assume_init()))
        }
    }

    /// The same without one of them, unless that is the last.
    fn without(mut self, processor: usize) -> Self {
        // SAFETY: the index lies inside the set.
        unsafe {
            if processor < size_of::<libc::cpu_set_t>() * 8
                && libc::CPU_ISSET(processor, &self.0)
                && libc::CPU_COUNT(&self.0) > 1
            {
                libc::CPU_CLR(processor, &mut self.0);
            }
        }
        self
    }
}

/// Where a caller runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Place {
    /// The processor that it runs on.
    pub processor: Option<usize>,
    /// The processors that the caller may run on; somebody may change them at any time.
    pub allowed: Option<Processors>,
}

impl Place {
    /// Where this thread runs now.
    pub fn here() -> Self {
        Place { processor: processor(), allowed: Processors::of_this_thread() }
    }
}

/// A worker thread, and for which caller it was placed.
pub(super) struct Worker {
    id: libc::pid_t,
    placed: Option<Place>,
}

impl Worker {
    pub fn this_thread() -> Self {
        // SAFETY: no arguments, no effects.
        Worker { id: unsafe { libc::gettid() }, placed: None }
    }

    /// Lets the thread run where `caller` may, but for where it does, if there is anything else.
    /// Moves it at once if it runs elsewhere. Without effect if the system does not permit it.
    pub fn make_room(&mut self, caller: &Place) {
        if self.placed.as_ref() == Some(caller) {
            return;
        }
        let Place { processor: Some(processor), allowed: Some(allowed) } = *caller else { return };
        let set = allowed.without(processor);
        // SAFETY: a set, for a thread of this process.
        if unsafe { libc::sched_setaffinity(self.id, size_of_val(&set.0), &raw const set.0) } == 0 {
            self.placed = Some(*caller);
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
        let (here, mut worker) = (Place::here(), Worker::this_thread());
        for &processor in &all {
            worker.make_room(&Place { processor: Some(processor), ..here });
            if all.len() == 1 {
                assert_eq!(allowed(), all);
            } else {
                assert_eq!(allowed(), others(processor));
                assert_ne!(super::processor(), Some(processor));
            }
        }
        // A caller that may run on one processor only.
        let mut only = here.allowed.expect("the set holds them");
        for &processor in &all[1..] {
            only = only.without(processor);
        }
        worker.make_room(&Place { processor: Some(all[0]), allowed: Some(only) });
        assert_eq!(allowed(), [all[0]]);
        worker.make_room(&Place { processor: Some(usize::MAX), ..here });
        assert_eq!(allowed(), all);
    }
}
