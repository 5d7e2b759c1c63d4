//! Scratch memory: one arena per thread, for whatever is too large for the stack of a caller.
//!
//! [`with`] lends a part of the calling thread's arena for as long as a closure runs; calls nest
//! like stack frames. The arena grows to what calls ask for, up to `KEPT_BYTES`, and is given back
//! when the thread ends. Larger requests are allocated for the one call. A job of
//! [`threads`](super::threads) takes the scratch of each of its threads before that thread claims a
//! task, so that an allocation that fails is an error with nothing written.
//!
//! A plan of several steps writes in the first and may run out of memory in the second. So it asks
//! all of them first: in a [`survey`] steps take their scratch and compute nothing, and [`hold`]
//! keeps as much for them until the plan has run.
//!
//! An arena is a thread-specific value of the system with `free` as its destructor: thread-local
//! variables with a destructor end the process if there is no memory to register it.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream::LINE;
use crate::error::{Error, Result};

/// What a thread keeps at most: packed panels of a contraction and what is shared of them.
pub const KEPT_BYTES: usize = 8 << 20;

/// What a thread keeps at least once it has asked for anything: most calls need less, so that it
/// grows once.
const FIRST_BYTES: usize = 128 << 10;

/// What every first loan brings along for loans inside it: kernels that begin to write cannot fail
/// any more.
pub const NESTED_BYTES: usize = 64 << 10;

/// Calls `work` with `bytes` bytes of scratch that start on a cache line and belong to this thread
/// until it returns. What they hold is left open; builds with debug assertions fill them with 0xff,
/// a NaN of every type that has some. Inside `work`, loans of up to [`NESTED_BYTES`] together do
/// not fail.
///
/// # Errors
/// [`Error::HostAllocation`] if there is no memory, and `work` was not called then; else what
/// `work` returns.
pub fn with<R>(bytes: usize, work: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
    let size = bytes.checked_next_multiple_of(LINE).ok_or(Error::HostAllocation { bytes })?;
    let loan = if size > 0 { Some(take(size)?) } else { None };
    let at = loan.as_ref().map_or(std::ptr::without_provenance_mut(LINE), |loan| loan.at.as_ptr());
    let _counted = Counted::new(size);
    if cfg!(debug_assertions) && !is_surveying() {
        // SAFETY: `size` bytes that nobody else has.
        unsafe { at.write_bytes(0xff, size) };
    }
    // Called in one place, so that what is large is compiled once.
    work(at)
}

/// The same, with a hold of `bytes` and `nested` more while `work` runs: loans inside it of
/// `nested` bytes together do not fail. For a thread to which nothing is lent; with 0 nested bytes
/// there is no hold.
///
/// # Errors
/// As for [`with`].
pub fn with_nested<R>(bytes: usize, nested: usize, work: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
    let _hold = if nested > 0 { Some(hold(bytes.saturating_add(nested))?) } else { None };
    with(bytes, work)
}

thread_local! {
    /// What the steps of a plan have asked for, while they are asked for nothing else.
    static SURVEY: Cell<Option<Survey>> = const { Cell::new(None) };
    /// Whether this thread holds the scratch of a plan.
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of scratch: those that are lent, and the most that ever were.
#[derive(Clone, Copy, Default)]
struct Survey {
    lent: usize,
    most: usize,
}

/// Whether this thread asks steps for their scratch: then nothing is read, and nothing written but
/// scratch.
pub fn is_surveying() -> bool {
    SURVEY.get().is_some()
}

/// The bytes of scratch that `ask` has in use at a time. What it runs on
/// [`threads`](super::threads) is not run.
///
/// # Errors
/// Those of `ask`; host allocation if there is not as much.
pub fn survey(ask: impl FnOnce() -> Result<()>) -> Result<usize> {
    /// Ends the survey, even by a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            SURVEY.set(None);
        }
    }
    SURVEY.set(Some(Survey::default()));
    let _end = End;
    ask()?;
    Ok(SURVEY.get().map_or(0, |survey| survey.most))
}

/// A loan that a survey counts, if there is one.
struct Counted(usize);

impl Counted {
    fn new(size: usize) -> Counted {
        if let Some(Survey { lent, most }) = SURVEY.get() {
            let lent = lent.saturating_add(size);
            SURVEY.set(Some(Survey { lent, most: most.max(lent) }));
        }
        Counted(size)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(survey) = SURVEY.get() {
            SURVEY.set(Some(Survey { lent: survey.lent.saturating_sub(self.0), ..survey }));
        }
    }
}

/// Scratch that a thread keeps for the steps of a plan.
#[derive(Debug)]
pub struct Hold {
    /// Whether it is more than the thread keeps for good.
    is_large: bool,
}

/// Whether this thread holds the scratch of a plan.
pub fn is_held() -> bool {
    HELD.get()
}

/// Keeps `bytes` bytes of scratch, and at least [`KEPT_BYTES`], until the hold goes: loans of as
/// many together, and of [`NESTED_BYTES`] in tasks, do not fail. Pages that nobody touches cost
/// nothing.
///
/// # Errors
/// Host allocation.
pub fn hold(bytes: usize) -> Result<Hold> {
    let none = Error::HostAllocation { bytes };
    let size = bytes.max(KEPT_BYTES).checked_next_multiple_of(LINE);
    let size = size.and_then(|size| size.checked_add(NESTED_BYTES)).ok_or(none)?;
    let key = key()?;
    let arena = arena(key);
    // SAFETY: this thread's arena.
    let room = arena.map_or(0, |arena| unsafe { (*arena.as_ptr()).size });
    if size > room {
        grow(key, arena, size)?;
    }
    HELD.set(true);
    Ok(Hold { is_large: size > KEPT_BYTES + NESTED_BYTES })
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.set(false);
        if self.is_large
            && let Ok(key) = key()
            && let Some(arena) = arena(key)
        {
            // SAFETY: nothing of it is lent any more; the next loan finds no arena, or this one
            // where it could not be forgotten.
            if unsafe { libc::pthread_setspecific(key, std::ptr::null()) } == 0 {
                drop(Block(arena.cast()));
            }
        }
    }
}

/// Memory that starts on a line.
#[derive(Debug)]
pub(super) struct Block(NonNull<u8>);

impl Block {
    /// # Errors
    /// Host allocation.
    pub(super) fn new(size: usize) -> Result<Block> {
        let mut at = std::ptr::null_mut();
        // SAFETY: a place for the address, and an alignment that is a power of two.
        let failed = unsafe { libc::posix_memalign(&raw mut at, LINE, size) } != 0;
        NonNull::new(at.cast()).filter(|_| !failed).map(Block).ok_or(Error::HostAllocation { bytes: size })
    }

    /// Where it starts.
    pub(super) fn at(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: from posix_memalign, and nobody uses it any more.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

/// The scratch of one thread: this, and from the next line on `size` bytes.
struct Arena {
    size: usize,
    /// Bytes at the front that are lent.
    used: usize,
    /// What nested loans would have needed to fit: the arena grows to it when nothing is lent.
    most: usize,
}

const _: () = assert!(size_of::<Arena>() <= LINE);

/// A part of an arena, or a block of its own; taken back when this goes.
struct Loan {
    at: NonNull<u8>,
    /// Alive: it is not replaced as long as anything is lent.
    arena: NonNull<Arena>,
    /// What was lent before.
    used: usize,
    _own: Option<Block>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        // SAFETY: this thread's arena.
        unsafe { (*self.arena.as_ptr()).used = self.used };
    }
}

/// The key under which every thread has its arena.
fn key() -> Result<libc::pthread_key_t> {
    /// The key and 1, or 0.
    static KEY: AtomicU64 = AtomicU64::new(0);
    let seen = KEY.load(Ordering::Relaxed);
    if seen != 0 {
        return Ok((seen - 1) as libc::pthread_key_t);
    }
    let mut key = 0;
    // SAFETY: a place for the key; the destructor gets what was allocated by the system.
    let status = unsafe {
        match cfg!(miri) {
            false => libc::pthread_key_create(&raw mut key, Some(libc::free)),
            // An interpreter calls no foreign function where a thread ends.
            true => libc::pthread_key_create(&raw mut key, None),
        }
    };
    if status != 0 {
        return Err(Error::HostAllocation { bytes: LINE });
    }
    match KEY.compare_exchange(0, u64::from(key) + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(key),
        Err(other) => {
            // SAFETY: nobody has seen it.
            unsafe { libc::pthread_key_delete(key) };
            Ok((other - 1) as libc::pthread_key_t)
        }
    }
}

/// The arena of this thread, if it has one.
fn arena(key: libc::pthread_key_t) -> Option<NonNull<Arena>> {
    // SAFETY: the key exists.
    NonNull::new(unsafe { libc::pthread_getspecific(key) }.cast())
}

/// `size` bytes, a multiple of a line.
fn take(size: usize) -> Result<Loan> {
    let key = key()?;
    let mut arena = arena(key);
    // SAFETY: this thread's arena, which nobody else refers to.
    let (used, room) =
        arena.map_or((0, 0), |arena| unsafe { ((*arena.as_ptr()).used, (*arena.as_ptr()).size) });
    if used == 0 {
        // Of a loan that has a block of its own, only what comes inside it is taken from here.
        let kept = if size > KEPT_BYTES && size.saturating_add(NESTED_BYTES) > room { LINE } else { size };
        if kept + NESTED_BYTES > room {
            debug_assert!(
                !is_held(),
                "a step takes {size} bytes of scratch, of which the plan's survey knew nothing"
            );
            arena = Some(grow(key, arena, kept + NESTED_BYTES)?);
        }
    }
    let Some(arena) = arena else { return Err(Error::Internal("scratch is lent, but there is none".into())) };
    // SAFETY: this thread's arena, which nobody else refers to.
    let this = unsafe { &mut *arena.as_ptr() };
    let end = used.saturating_add(size);
    let left = if used == 0 { NESTED_BYTES } else { 0 };
    if end.saturating_add(left) > this.size {
        debug_assert!(
            !is_held(),
            "a step takes {size} bytes of scratch, of which the plan's survey knew nothing"
        );
        this.most = this.most.max(end).min(KEPT_BYTES);
        let own = Block::new(size)?;
        // At least a line of the arena is in use, or a loan inside this one would be the first.
        this.used = used.max(LINE);
        return Ok(Loan { at: own.0, arena, used, _own: Some(own) });
    }
    this.used = end;
    // SAFETY: `end` bytes lie behind the first line.
    let at = unsafe { arena.cast::<u8>().add(LINE + used) };
    Ok(Loan { at, arena, used, _own: None })
}

/// An arena of at least `size` bytes in place of `old`, of which nothing is lent.
#[cold]
fn grow(key: libc::pthread_key_t, old: Option<NonNull<Arena>>, size: usize) -> Result<NonNull<Arena>> {
    // SAFETY: this thread's arena.
    let most = old.map_or(0, |old| unsafe { (*old.as_ptr()).most });
    let wished = size.max(most).max(FIRST_BYTES).checked_next_power_of_two();
    let wished = wished.map_or(size, |wished| wished.min(KEPT_BYTES).max(size));
    let (block, size) = match Block::new(wished.saturating_add(LINE)) {
        Ok(block) => (block, wished),
        Err(_) => (Block::new(size.saturating_add(LINE))?, size),
    };
    let arena = block.0.cast::<Arena>();
    // SAFETY: room for it; the value is given back with `free` when the thread ends, or below.
    unsafe {
        arena.write(Arena { size, used: 0, most });
        if libc::pthread_setspecific(key, arena.as_ptr().cast::<c_void>()) != 0 {
            return Err(Error::HostAllocation { bytes: size });
        }
    }
    std::mem::forget(block);
    // The old one goes.
    drop(old.map(|old| Block(old.cast())));
    Ok(arena)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where `bytes` bytes of scratch are.
    fn place(bytes: usize) -> usize {
        with(bytes, |at| Ok(at.addr())).expect("there is memory")
    }

    #[test]
    fn scratch_starts_on_a_line_and_stays_where_it_was() {
        assert_eq!(place(1) % LINE, 0);
        assert_eq!(place(1), place(FIRST_BYTES - NESTED_BYTES));
        assert_eq!(place(0) % LINE, 0);
        assert_eq!(place(KEPT_BYTES), place(3));
    }

    #[test]
    fn nested_loans_are_apart_whether_they_fit_or_not() {
        for (outer, inner) in [(1, 1), (100, 1 << 20), (1 << 20, 100), (KEPT_BYTES, 64), (KEPT_BYTES + 1, 64)]
        {
            for _ in 0..2 {
                let sum = with(outer, |a| {
                    // SAFETY: `outer` bytes.
                    unsafe { a.write_bytes(1, outer) };
                    with(inner, |b| {
                        // SAFETY: `inner` bytes.
                        unsafe { b.write_bytes(2, inner) };
                        Ok(())
                    })?;
                    // SAFETY: written above.
                    Ok((0..outer).all(|i| unsafe { a.add(i).read() } == 1))
                });
                assert_eq!(sum, Ok(true), "{outer} and {inner}");
            }
        }
    }

    #[test]
    fn loans_inside_the_first_have_room() {
        for outer in [1, FIRST_BYTES, KEPT_BYTES, KEPT_BYTES + 1] {
            let outcome = with(outer, |_| {
                let block = key().map(arena)?.expect("something is lent");
                with(NESTED_BYTES - LINE, |_| with(1, |_| Ok(())))?;
                // Whatever is allocated meanwhile.
                with(9 << 20, |_| {
                    with(NESTED_BYTES, |at| {
                        assert!(at.addr() - block.addr().get() < 9 << 20);
                        Ok(())
                    })
                })?;
                assert_eq!(key().map(arena), Ok(Some(block)));
                Ok(())
            });
            assert_eq!(outcome, Ok(()));
        }
    }

    #[test]
    fn what_nested_loans_ask_for_is_kept_from_then_on() {
        let nested = || with(100, |a| with(1 << 20, |b| Ok([a.addr(), b.addr()]))).expect("there is memory");
        nested();
        place(1 << 20);
        let [a, b] = nested();
        assert_eq!(b - a, 128);
    }

    #[test]
    fn no_memory_is_an_error_and_leaves_the_arena_in_order() {
        let before = place(64);
        for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize - 2 * LINE, 1 << 50] {
            let outcome = with(bytes, |_| -> Result<()> { panic!("nothing to call it with") });
            assert!(matches!(outcome, Err(Error::HostAllocation { .. })));
            let outcome = with(64, |_| with(bytes, |_| Ok(())));
            assert!(matches!(outcome, Err(Error::HostAllocation { .. })));
        }
        assert_eq!(place(64), before);
    }

    #[test]
    fn a_panic_or_an_error_gives_the_loan_back() {
        let before = place(64);
        let panicked = std::panic::catch_unwind(|| with(64, |_| -> Result<()> { panic!("as planned") }));
        assert!(panicked.is_err());
        assert_eq!(place(64), before);
        assert!(with(64, |_| Err::<(), _>(Error::mismatch("as planned"))).is_err());
        assert_eq!(place(64), before);
    }

    #[test]
    fn threads_give_their_arenas_back() {
        for _ in 0..2000 {
            std::thread::spawn(|| place(KEPT_BYTES)).join().expect("the thread ends");
        }
        // 16 GB would not be there; what is used is no more than two of them. An emulator keeps 600
        // MB itself.
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: usize = pages.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number of pages");
        assert!(pages < 256 << 10, "{pages} pages are in use");
    }
}
