//! Locks and cells that a forked child finds usable, whatever the threads of its parent were doing.
//!
//! A child has one thread. What the other threads of its parent held stays held for ever in the
//! locks of the standard library. Locks here know which process they are held in: a child takes
//! those of its parent away, and learns where a writer may have left a value half written. Nothing
//! that is initialised once is waited for.
//!
//! A thread that waits yields, as nobody holds a lock for longer than a few stores and an
//! allocation.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What threads meet at; `models/` has others in their place, which try every order of events.
pub(crate) mod primitives {
    pub(crate) use std::sync::atomic::{AtomicUsize, fence};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
}

/// The number of this process among its ancestors since the library was loaded: another one after
/// every fork.
///
/// It lies on a page that the system empties for a child; where it does not, `fork` calls a handler
/// that does.
pub(crate) fn process() -> u32 {
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    /// As in the parent at first, which is what makes the child's number another one.
    static LAST: AtomicU32 = AtomicU32::new(0);
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        page = new_page(&PAGE);
    }
    // SAFETY: a page of this process or, without memory for one, a static, neither of which goes.
    let number = unsafe { &*page };
    let seen = number.load(Ordering::Relaxed);
    if seen != 0 { seen } else { first(number, &LAST) }
}

#[cold]
fn first(number: &AtomicU32, last: &AtomicU32) -> u32 {
    let mine = last.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    match number.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => mine,
        Err(other) => other,
    }
}

#[cold]
fn new_page(published: &AtomicPtr<AtomicU32>) -> *mut AtomicU32 {
    /// For systems that do not empty pages, and for want of memory.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    extern "C" fn forked() {
        NUMBER.store(0, Ordering::Relaxed);
    }
    // Miri has no fork, and knows none of these functions.
    if cfg!(miri) {
        return std::ptr::from_ref(&NUMBER).cast_mut();
    }
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let size = size_of::<AtomicU32>();
    /// No advice. Emulators take advice that they do not know for followed.
    const UNKNOWN: std::ffi::c_int = -1;
    // SAFETY: new memory of this process alone. Zero bytes are a number.
    let page = unsafe {
        let page = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
        if page != libc::MAP_FAILED
            && libc::madvise(page, size, UNKNOWN) != 0
            && libc::madvise(page, size, libc::MADV_WIPEONFORK) == 0
        {
            page.cast()
        } else {
            if page != libc::MAP_FAILED {
                libc::munmap(page, size);
            }
            // This library stays loaded.
            libc::pthread_atfork(None, None, Some(forked));
            std::ptr::from_ref(&NUMBER).cast_mut()
        }
    };
    match published.compare_exchange(std::ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => page,
        Err(other) => {
            if !std::ptr::eq(page, &NUMBER) {
                // SAFETY: mapped above, and nobody else has seen it.
                unsafe { libc::munmap(page.cast(), size) };
            }
            other
        }
    }
}

/// Bit of the state of a lock: one holder, which may write. All other bits count holders that only
/// read.
const WRITER: u32 = 1 << 31;

/// Turns of waiting that only yield; then it sleeps, for the holder may be a thread of lower
/// priority.
const YIELDS: u32 = 1000;

/// A value of one writer or several readers.
pub(crate) struct Lock<T> {
    /// The [`process`] that the state is true in, above the state: the number of readers, or
    /// [`WRITER`].
    word: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: readers share the value, a writer has it alone.
unsafe impl<T: Send + Sync> Sync for Lock<T> {}
// SAFETY: the value goes along.
unsafe impl<T: Send> Send for Lock<T> {}

/// What a thread of a process that is no more this one left: perhaps half written.
struct Abandoned;

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock { word: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until nobody writes. `repair` is called first, with the value to itself, if a writer
    /// vanished in a fork.
    pub(crate) fn read(&self, repair: impl FnOnce(&mut Vanished<T>)) -> Read<'_, T> {
        if self.take(1, |state| state & WRITER == 0).is_err() {
            self.repaired(repair);
            // Nobody else had it: from a writer to a reader.
            let held = self.word.fetch_sub(u64::from(WRITER) - 1, Ordering::AcqRel);
            debug_assert_eq!(held as u32, WRITER);
        }
        Read { lock: self, process: process() }
    }

    /// Waits until nobody has it. `repair` as in [`read`](Lock::read).
    pub(crate) fn write(&self, repair: impl FnOnce(&mut Vanished<T>)) -> Write<'_, T> {
        if self.take(WRITER, |state| state == 0).is_err() {
            self.repaired(repair);
        }
        Write { lock: self, process: process() }
    }

    #[cold]
    fn repaired(&self, repair: impl FnOnce(&mut Vanished<T>)) {
        repair(&mut Vanished(self.value.get()));
    }

    /// Adds `share` to the state once it allows that. If a writer vanished in a fork, this thread
    /// is the [`WRITER`] instead.
    #[inline]
    fn take(&self, share: u32, allows: impl Fn(u32) -> bool) -> Result<(), Abandoned> {
        let mine = u64::from(process()) << 32;
        let mut turns = 0;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let is_mine = seen & !u64::from(u32::MAX) == mine;
            let state = if is_mine { seen as u32 } else { 0 };
            let is_abandoned = !is_mine && seen as u32 & WRITER != 0;
            if allows(state) {
                let next = mine | u64::from(if is_abandoned { WRITER } else { state + share });
                let taken = self.word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed);
                match taken {
                    Ok(_) if is_abandoned => return Err(Abandoned),
                    Ok(_) => return Ok(()),
                    Err(_) => continue,
                }
            }
            turns = wait(turns);
        }
    }

    /// Gives a share back, unless this is a child by now, which has taken it away.
    #[inline]
    fn give_back(&self, share: u32, process: u32) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen >> 32 == u64::from(process) {
            let next = seen - u64::from(share);
            match self.word.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[cold]
fn wait(turns: u32) -> u32 {
    if turns < YIELDS {
        std::hint::spin_loop();
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(50));
    }
    turns.saturating_add(1)
}

/// A value whose writer vanished. It may be neither read nor dropped.
pub(crate) struct Vanished<T>(*mut T);

impl<T> Vanished<T> {
    /// Puts another value there, and forgets what there was.
    pub(crate) fn replace(&mut self, value: T) {
        // SAFETY: the thread that makes one has the value alone; it is valid for writes, and not
        // dropped.
        unsafe { self.0.write(value) }
    }

    /// Where it lies, for who knows which part of it is whole at all times.
    pub(crate) fn place(&mut self) -> *mut T {
        self.0
    }
}

/// A reader's share.
pub(crate) struct Read<'a, T> {
    lock: &'a Lock<T>,
    process: u32,
}

impl<T> Deref for Read<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody writes while there are readers.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for Read<'_, T> {
    fn drop(&mut self) {
        self.lock.give_back(1, self.process);
    }
}

/// The value alone.
pub(crate) struct Write<'a, T> {
    lock: &'a Lock<T>,
    process: u32,
}

impl<T> Deref for Write<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody else has it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Write<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has it.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Write<'_, T> {
    fn drop(&mut self) {
        self.lock.give_back(WRITER, self.process);
    }
}

/// A value that the first who ask compute, each for itself; one of them is kept for good. Nobody
/// waits.
pub struct Once<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Once<T> {
    pub const fn new() -> Self {
        Once(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value, the same one for everybody. `compute` has no effect that matters how often it
    /// happens.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        let seen = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a value that was published below and never goes.
        unsafe { seen.as_ref() }.unwrap_or_else(|| self.publish(compute()))
    }

    #[cold]
    fn publish(&self, value: T) -> &T {
        let mine = Box::into_raw(Box::new(value));
        match self.0.compare_exchange(std::ptr::null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: published, so that it stays.
            Ok(_) => unsafe { &*mine },
            // SAFETY: mine is a box that nobody else has seen; the other one was published and
            // stays.
            Err(other) => unsafe {
                drop(Box::from_raw(mine));
                &*other
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<T>(_: &mut Vanished<T>) {
        panic!("nobody vanished");
    }

    /// The status of a child that ends with what `body` returns, or with a signal after some
    /// seconds.
    fn in_child(body: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child runs `body`, which allocates nothing, and leaves through _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(10);
                libc::_exit(i32::from(!body()));
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0);
            status
        }
    }

    #[test]
    fn every_process_has_a_number_of_its_own() {
        let mine = process();
        assert_eq!(mine, process());
        let nested = || in_child(|| process() != mine + 1) == 0;
        assert_eq!(in_child(|| process() == mine + 1 && nested()), 0);
        assert_eq!(mine, process());
    }

    #[test]
    fn writers_exclude_everybody() {
        static SUM: Lock<[u64; 2]> = Lock::new([0; 2]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..20_000 {
                        if turn % 4 == 0 {
                            let mut sum = SUM.write(whole);
                            sum[0] += 1;
                            sum[1] += 1;
                        } else {
                            let sum = SUM.read(whole);
                            assert_eq!(sum[0], sum[1]);
                        }
                    }
                });
            }
        });
        assert_eq!(*SUM.read(whole), [20_000; 2]);
    }

    #[test]
    fn a_child_takes_away_what_its_parent_holds() {
        let (read, written) = (Lock::new(1), Lock::new(2));
        let (reader, writer) = (read.read(whole), written.write(whole));
        let child = || {
            let mut repairs = 0;
            *read.write(whole) += 10;
            let first = *written.read(|value| {
                value.replace(5);
                repairs += 1;
            });
            *written.write(whole) += 1;
            *read.read(whole) == 11 && first == 5 && *written.read(whole) == 6 && repairs == 1
        };
        assert_eq!(in_child(child), 0);
        drop((reader, writer));
        assert_eq!((*read.write(whole), *written.write(whole)), (1, 2));
    }

    #[test]
    fn what_is_computed_at_once_is_one_value() {
        static ONCE: Once<usize> = Once::new();
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|k| scope.spawn(move || *ONCE.get_or_init(|| k))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(seen.iter().all(|&value| value == seen[0]));
    }
}
