//! The allocator of small lists: the system's, and a reserve of fixed slots for when the system has
//! no memory left.
//!
//! What a call needs much memory for is asked for in ways that may fail, before anything is
//! written, and becomes a status. Lists of a few hundred kilobytes at most are not: the standard
//! library ends the process where one of them cannot be allocated, which a library must not do to
//! its caller. They find a slot here. The slots are zero-initialised data, whose pages are taken
//! when they are first written, which is never on a machine with memory. Who may need many of them
//! asks [`is_low`] before.
//!
//! A package of its own, for a program has one allocator: the libraries of this workspace share it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Everything that a library allocates without being able to say that it failed.
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

/// Lists of loops and descriptors; tables of one block of a sum; points of one task. Threads that
/// work at a time hold about ten, four and three. The plan of a large graph is a thousand small
/// ones.
static SMALL: Slots<1024, 64> = Slots::new();
static LARGE: Slots<32_768, 2> = Slots::new();
static HUGE: Slots<524_288, 1> = Slots::new();
static HAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// 64 slots of `SIZE` bytes for each of `WORDS` words of `taken`.
#[repr(C, align(64))]
struct Slots<const SIZE: usize, const WORDS: usize> {
    memory: UnsafeCell<[[[u8; SIZE]; 64]; WORDS]>,
    /// A bit per slot that is lent.
    taken: [AtomicU64; WORDS],
    /// How many are.
    count: AtomicUsize,
}

// SAFETY: a slot belongs to the thread that set its bit.
unsafe impl<const SIZE: usize, const WORDS: usize> Sync for Slots<SIZE, WORDS> {}

impl<const SIZE: usize, const WORDS: usize> Slots<SIZE, WORDS> {
    const fn new() -> Self {
        Slots {
            memory: UnsafeCell::new([[[0; SIZE]; 64]; WORDS]),
            taken: [const { AtomicU64::new(0) }; WORDS],
            count: AtomicUsize::new(0),
        }
    }

    /// A slot that fits this, if one is left.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if layout.size() > SIZE || layout.align() > 64 {
            return None;
        }
        for (word, taken) in self.taken.iter().enumerate() {
            let mut seen = taken.load(Ordering::Relaxed);
            while seen != u64::MAX {
                let bit = seen.trailing_ones() as usize;
                match taken.compare_exchange(seen, seen | 1 << bit, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        self.count.fetch_add(1, Ordering::Relaxed);
                        return Some(self.memory.get().cast::<u8>().wrapping_add((word * 64 + bit) * SIZE));
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// The number of the slot that begins here.
    fn slot(&self, at: *mut u8) -> Option<usize> {
        let offset = at.addr().wrapping_sub(self.memory.get().addr());
        (offset < SIZE * 64 * WORDS).then_some(offset / SIZE)
    }

    /// Whether less than half of them is left.
    fn is_low(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 32 * WORDS
    }

    fn give_back(&self, slot: usize) {
        self.taken[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Release);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the system has no memory, and has had none for so long that the reserve runs out: a
/// caller that goes on without asking ends with the process.
pub fn is_low() -> bool {
    (SMALL.is_low() || LARGE.is_low() || HUGE.is_low()) && !has_memory()
}

/// Whether an allocation has failed: neither the system nor the reserve had room for it. A handler
/// of signals may ask.
pub fn has_refused() -> bool {
    HAS_REFUSED.load(Ordering::Relaxed)
}

/// Whether the system has memory for a list. What lies in the reserve then may stay there.
#[cold]
fn has_memory() -> bool {
    let list = Layout::new::<[u64; 1024]>();
    // SAFETY: the layout is not empty, and the memory goes back with it.
    unsafe {
        // The compiler leaves out an allocation that nobody uses, and takes it for granted.
        let at = black_box(System.alloc(list));
        if at.is_null() {
            return false;
        }
        System.dealloc(at, list);
    }
    true
}

/// A slot of the smallest size that has one.
#[cold]
fn take(layout: Layout) -> *mut u8 {
    let slot = SMALL.take(layout).or_else(|| LARGE.take(layout)).or_else(|| HUGE.take(layout));
    slot.unwrap_or_else(|| {
        HAS_REFUSED.store(true, Ordering::Relaxed);
        std::ptr::null_mut()
    })
}

// SAFETY: memory is the system's or a slot of its own, large and aligned enough; each goes back to
// where it came from. Nothing here panics.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no allocation asks for a layout of 0 bytes.
        let at = unsafe { System.alloc(layout) };
        if at.is_null() { take(layout) } else { at }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no allocation asks for a layout of 0 bytes.
        let at = unsafe { System.alloc_zeroed(layout) };
        if !at.is_null() {
            return at;
        }
        let at = take(layout);
        if !at.is_null() {
            // SAFETY: a slot of at least this size.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if let Some(slot) = SMALL.slot(at) {
            SMALL.give_back(slot);
        } else if let Some(slot) = LARGE.slot(at) {
            LARGE.give_back(slot);
        } else if let Some(slot) = HUGE.slot(at) {
            HUGE.give_back(slot);
        } else {
            // SAFETY: from the system, with this layout.
            unsafe { System.dealloc(at, layout) }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let in_reserve = [SMALL.slot(at), LARGE.slot(at), HUGE.slot(at)].iter().any(Option::is_some);
        if !in_reserve {
            // SAFETY: from the system, with this layout.
            let grown = unsafe { System.realloc(at, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller vouches that the size is one that a layout can have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: not empty: no allocation grows or shrinks to 0 bytes.
        let to = unsafe { self.alloc(wanted) };
        if !to.is_null() {
            // SAFETY: both have as many bytes, and they are distinct; what was there is not used
            // any more.
            unsafe {
                at.copy_to_nonoverlapping(to, layout.size().min(size));
                self.dealloc(at, layout);
            }
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_lent_once_and_come_back() {
        static FEW: Slots<64, 2> = Slots::new();
        let layout = Layout::from_size_align(60, 16).expect("valid");
        let mut lent: Vec<*mut u8> = (0..128).map(|_| FEW.take(layout).expect("left")).collect();
        assert_eq!(FEW.take(layout), None);
        assert!(FEW.is_low());
        lent.sort_unstable();
        lent.dedup();
        assert_eq!(lent.len(), 128);
        assert!(lent.iter().all(|at| at.addr() % 64 == 0));
        FEW.give_back(FEW.slot(lent[70]).expect("of these"));
        assert_eq!(FEW.take(layout), Some(lent[70]));
        assert_eq!(FEW.take(Layout::from_size_align(65, 1).expect("valid")), None);
        assert_eq!(FEW.slot(std::ptr::from_ref(&layout).cast_mut().cast()), None);
        lent.drain(64..).for_each(|at| FEW.give_back(FEW.slot(at).expect("of these")));
        assert!(!FEW.is_low());
    }
}
