//! Sizes and the one who will serve: no call runs on one with spaces whose sizes the other told.
//!
//! A call of a group that the original refuses is about a problem that this library serves from
//! then on, in all calls of the group. Where the original told a size and refuses the run, spaces
//! have to suffice here: such queries answer the larger size of both.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::original::Group;
use crate::sync::{Lock, Vanished};

/// Problems that are remembered; the oldest goes first.
const MOST: usize = 4096;

/// Whether there is any.
static ANY: AtomicBool = AtomicBool::new(false);
static REFUSED: Lock<VecDeque<Problem>> = Lock::new(VecDeque::new());

/// What calls of one group are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    /// The address of the group's list.
    group: usize,
    /// The sum of the fingerprints of its descriptors.
    fingerprint: u64,
    /// The algorithm; `None` for a call about all of them.
    algo: Option<c_int>,
}

impl Problem {
    /// A problem of a group.
    pub(super) fn new(group: &Group, fingerprint: u64, algo: Option<c_int>) -> Problem {
        Problem { group: group.calls.as_ptr().addr(), fingerprint, algo }
    }

    /// Whether the original has refused it, by its algorithm or by all.
    pub(super) fn is_refused(&self) -> bool {
        if !ANY.load(Ordering::Relaxed) {
            return false;
        }
        let refused = REFUSED.read(forgotten);
        let is_it = |other: &Problem| {
            (other.group, other.fingerprint) == (self.group, self.fingerprint)
                && (other.algo == self.algo || other.algo.is_none())
        };
        refused.iter().any(is_it)
    }

    /// Remembers that the original has refused it.
    pub(super) fn refuse(self) {
        let mut refused = REFUSED.write(forgotten);
        if refused.contains(&self) || refused.try_reserve(1).is_err() {
            return;
        }
        if refused.len() == MOST {
            refused.pop_front();
        }
        refused.push_back(self);
        ANY.store(true, Ordering::Relaxed);
    }
}

/// For a child of a process one of whose threads was changing the list.
fn forgotten<T>(list: &mut Vanished<VecDeque<T>>) {
    list.replace(VecDeque::new());
}

/// Reserve spaces that this library has filled for problems that the original refuses, by their
/// addresses. All others are taken for the original's.
static FILLED: Lock<VecDeque<usize>> = Lock::new(VecDeque::new());

/// Notes who has filled a reserve space.
pub(super) fn note_filled(reserve: usize, by_us: bool) {
    if reserve == 0 || !by_us && !ANY.load(Ordering::Relaxed) {
        return;
    }
    let mut filled = FILLED.write(forgotten);
    filled.retain(|&other| other != reserve);
    if by_us && filled.try_reserve(1).is_ok() {
        if filled.len() == MOST {
            filled.pop_front();
        }
        filled.push_back(reserve);
    }
}

/// Whether this library has filled a reserve space.
pub(super) fn is_filled(reserve: usize) -> bool {
    FILLED.read(forgotten).contains(&reserve)
}

/// Where a query puts its answer.
pub(crate) struct Size(*mut usize);

impl Size {
    /// # Safety
    /// `place` is NULL or valid for writes, and for reads once it was written.
    pub(crate) unsafe fn new(place: *mut usize) -> Size {
        Size(place)
    }

    /// The larger size of both, after the original has answered: `own` puts there what this library
    /// asks for.
    pub(super) fn larger(self, own: impl FnOnce() -> Result<()>) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: the original has written it.
        let theirs = unsafe { self.0.read() };
        let told = own().is_ok();
        // SAFETY: valid for writes, and written.
        unsafe { self.0.write(if told { self.0.read().max(theirs) } else { theirs }) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::original::family_of;

    #[test]
    fn a_refusal_holds_for_its_problem_and_algorithm() {
        let (_, family) = family_of("cudnnConvolutionForward").expect("listed");
        let group = |call| family.group_of(call).expect("listed");
        let forward = group("cudnnConvolutionForward");
        let problem = |fingerprint, algo| Problem::new(forward, fingerprint, algo);
        assert!(!problem(7, Some(1)).is_refused());
        problem(7, Some(1)).refuse();
        assert!(problem(7, Some(1)).is_refused());
        assert!(!problem(7, Some(0)).is_refused() && !problem(8, Some(1)).is_refused());
        assert!(!Problem::new(group("cudnnConvolutionBackwardData"), 7, Some(1)).is_refused());
        problem(9, None).refuse();
        assert!(problem(9, Some(3)).is_refused() && problem(9, None).is_refused());
    }

    #[test]
    fn a_reserve_space_is_the_ones_who_filled_it_last() {
        note_filled(64, true);
        note_filled(128, true);
        assert!(is_filled(64) && is_filled(128) && !is_filled(0));
        ANY.store(true, Ordering::Relaxed);
        note_filled(64, false);
        assert!(!is_filled(64) && is_filled(128));
    }

    #[test]
    fn a_size_is_the_larger_one() {
        for (theirs, ours, wanted) in [(8, Ok(16), 16), (16, Ok(8), 16), (8, Err(()), 8)] {
            let mut size = theirs;
            let at = &raw mut size;
            let own = || {
                // SAFETY: `size` is alive.
                unsafe { at.write(ours.unwrap_or(99)) };
                ours.map(drop).map_err(|()| crate::error::Error::unsupported("nothing"))
            };
            // SAFETY: `size` is alive, and has a value.
            unsafe { Size::new(at) }.larger(own);
            assert_eq!(size, wanted);
        }
    }
}
