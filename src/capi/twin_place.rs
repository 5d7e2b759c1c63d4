//! Where an object of ours keeps its twin: read by calls with two atomic operations, and without
//! a lock.
//!
//! A call pins the place while it uses the twin. The thread that takes the twin away destroys it,
//! unless a call has pinned the place; then the last call does when it lets go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::original::Twin;
use crate::sync::{Lock, Vanished};

/// The place of one object. Its users never wait for each other, but for the removal of twins.
pub(crate) struct TwinPlace {
    /// Calls that may use what was read here.
    pins: AtomicU32,
    /// NULL if nobody asked for the twin since the object last changed, [`REFUSED`] if the original
    /// refuses such an object, else what `Arc::into_raw` made.
    twin: AtomicPtr<Twin>,
    /// Whether `retired` has any.
    has_retired: AtomicBool,
    /// Twins that were taken away while the place was pinned.
    retired: Lock<Vec<Arc<Twin>>>,
}

/// No twin, and there will be none.
const REFUSED: *mut Twin = std::ptr::without_provenance_mut(1);

/// What is known of a twin.
pub(crate) enum Known {
    /// Nothing.
    Unknown,
    /// The original refuses such an object.
    Refused,
    /// The twin.
    Made(Pinned),
}

/// A twin that stays while this does.
pub(crate) struct Pinned {
    place: &'static TwinPlace,
    twin: *const Twin,
}

// SAFETY: a twin serves every thread, and so does its place.
unsafe impl Send for Pinned {}

impl Pinned {
    /// A holder of the twin that may outlive the call.
    pub(crate) fn shared(&self) -> Arc<Twin> {
        // SAFETY: `Arc::into_raw` made it, and its place holds one count while it is pinned.
        unsafe {
            Arc::increment_strong_count(self.twin);
            Arc::from_raw(self.twin)
        }
    }
}

impl std::ops::Deref for Pinned {
    type Target = Twin;

    fn deref(&self) -> &Twin {
        // SAFETY: nobody destroys it while its place is pinned.
        unsafe { &*self.twin }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.place.unpin();
    }
}

/// For a child of a process one of whose threads was retiring a twin: what it had is left behind.
fn none(retired: &mut Vanished<Vec<Arc<Twin>>>) {
    retired.replace(Vec::new());
}

impl TwinPlace {
    pub(crate) const fn new() -> TwinPlace {
        TwinPlace {
            pins: AtomicU32::new(0),
            twin: AtomicPtr::new(std::ptr::null_mut()),
            has_retired: AtomicBool::new(false),
            retired: Lock::new(Vec::new()),
        }
    }

    /// What is known of the twin, which stays until it is let go.
    #[inline]
    pub(crate) fn known(&'static self) -> Known {
        // In one order with the swap of `put`: either this sees the new twin, or that the pin.
        self.pins.fetch_add(1, Ordering::SeqCst);
        let twin = self.twin.load(Ordering::SeqCst);
        if twin.is_null() || twin == REFUSED {
            self.unpin();
            return if twin.is_null() { Known::Unknown } else { Known::Refused };
        }
        Known::Made(Pinned { place: self, twin })
    }

    /// Puts a twin here, or remembers that there is none; what was here goes.
    pub(crate) fn set(&self, twin: Option<Arc<Twin>>) {
        self.put(twin.map_or(REFUSED, |twin| Arc::into_raw(twin).cast_mut()));
    }

    /// Lets the twin be made anew.
    pub(crate) fn forget(&self) {
        if !self.twin.load(Ordering::Relaxed).is_null() {
            self.put(std::ptr::null_mut());
        }
    }

    fn put(&self, twin: *mut Twin) {
        let before = self.twin.swap(twin, Ordering::SeqCst);
        if before.is_null() || before == REFUSED {
            return;
        }
        // SAFETY: `set` made it of an Arc, and it was taken out once.
        let before = unsafe { Arc::from_raw(before) };
        let mut retired = self.retired.write(none);
        if retired.try_reserve(1).is_err() {
            // Without memory to remember it, it stays for ever.
            std::mem::forget(before);
            return;
        }
        retired.push(before);
        self.has_retired.store(true, Ordering::SeqCst);
        drop(retired);
        self.clear();
    }

    #[inline]
    fn unpin(&self) {
        if self.pins.fetch_sub(1, Ordering::SeqCst) == 1 && self.has_retired.load(Ordering::SeqCst) {
            self.clear();
        }
    }

    /// Destroys what no call uses any more: all that was retired, if the place is not pinned now. A
    /// later pin finds another twin.
    #[cold]
    fn clear(&self) {
        let mut retired = self.retired.write(none);
        if self.pins.load(Ordering::SeqCst) != 0 {
            return;
        }
        let gone = std::mem::take(&mut *retired);
        self.has_retired.store(false, Ordering::SeqCst);
        drop(retired);
        // Without the lock: that is calls of the original.
        drop(gone);
    }
}
