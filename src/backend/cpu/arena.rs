//! Scratch memory: one arena per thread, for whatever is too large for the stack of a caller.
//!
//! [`with`] lends a part of the calling thread's arena for as long as a closure runs; calls nest like stack frames. The
//! arena grows to what calls ask for, up to [`KEPT_BYTES`], and is given back when the thread ends. Larger requests are
//! allocated for the one call. A job of [`threads`](super::threads) takes the scratch of each of its threads before that
//! thread claims a task, so that an allocation that fails is an error with nothing written.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

use super::stream::LINE;
use crate::error::{Error, Result};

/// What a thread keeps at most: packed panels of a contraction and what is shared of them.
const KEPT_BYTES: usize = 8 << 20;

/// What a thread keeps at least once it has asked for anything: most calls need less, so that it grows once.
const FIRST_BYTES: usize = 128 << 10;

/// What every first loan brings along for loans inside it: kernels that begin to write cannot fail any more.
pub const NESTED_BYTES: usize = 32 << 10;

thread_local! {
    static ARENA: Arena = const {
        Arena { block: Cell::new(Block::NONE), used: Cell::new(0), most: Cell::new(0) }
    };
}

/// Calls `work` with `bytes` bytes of scratch that start on a cache line and belong to this thread until it returns.
/// What they hold is left open; builds with debug assertions fill them with 0xff, a NaN of every type that has some.
/// Inside `work`, loans of up to [`NESTED_BYTES`] together do not fail.
///
/// # Errors
/// [`Error::HostAllocation`] if there is no memory, and `work` was not called then; else what `work` returns.
pub fn with<R>(bytes: usize, work: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
    if bytes == 0 {
        return work(std::ptr::without_provenance_mut(LINE));
    }
    let size = bytes.checked_next_multiple_of(LINE).ok_or(Error::HostAllocation { bytes })?;
    let mut work = Some(work);
    let mut lend = |at: NonNull<u8>| {
        if cfg!(debug_assertions) {
            // SAFETY: `size` bytes that nobody else has.
            unsafe { at.write_bytes(0xff, size) };
        }
        // Called once, by one of the two below.
        work.take()
            .map_or_else(|| Err(Error::Internal("scratch is lent once".into())), |work| work(at.as_ptr()))
    };
    match ARENA.try_with(|arena| arena.take(size).and_then(|loan| lend(loan.at))) {
        Ok(outcome) => outcome,
        // The thread is ending and its arena is gone.
        Err(_) => Single::new(size).and_then(|single| lend(single.0.at)),
    }
}

/// Memory that starts on a line.
#[derive(Clone, Copy)]
struct Block {
    at: NonNull<u8>,
    size: usize,
}

impl Block {
    const NONE: Block = Block { at: NonNull::dangling(), size: 0 };

    /// # Errors
    /// Host allocation.
    fn new(size: usize) -> Result<Block> {
        let failed = Error::HostAllocation { bytes: size };
        let Ok(layout) = Layout::from_size_align(size, LINE) else { return Err(failed) };
        // SAFETY: the size is not 0.
        let at = NonNull::new(unsafe { alloc(layout) }).ok_or(failed)?;
        Ok(Block { at, size })
    }

    /// # Safety
    /// Nobody uses the block any more.
    unsafe fn free(self) {
        if self.size > 0 {
            // SAFETY: from `new`, with the layout that passed there.
            unsafe { dealloc(self.at.as_ptr(), Layout::from_size_align_unchecked(self.size, LINE)) };
        }
    }
}

/// A block for one loan.
struct Single(Block);

impl Single {
    fn new(size: usize) -> Result<Single> {
        Block::new(size).map(Single)
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        // SAFETY: the loan ends.
        unsafe { self.0.free() };
    }
}

/// The scratch of one thread.
struct Arena {
    block: Cell<Block>,
    /// Bytes at the front of the block that are lent.
    used: Cell<usize>,
    /// What nested loans would have needed to fit: the block grows to it when nothing is lent.
    most: Cell<usize>,
}

/// A part of an arena, or a block of its own; taken back when this goes.
struct Loan<'a> {
    at: NonNull<u8>,
    arena: &'a Arena,
    /// What was lent before.
    used: usize,
    _own: Option<Single>,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.arena.used.set(self.used);
    }
}

impl Arena {
    /// `size` bytes, a multiple of a line.
    fn take(&self, size: usize) -> Result<Loan<'_>> {
        let used = self.used.get();
        if used == 0 {
            // Of a loan that has a block of its own, only what comes inside it is taken from here.
            let kept = if size > KEPT_BYTES { LINE } else { size };
            if kept + NESTED_BYTES > self.block.get().size {
                self.grow(kept + NESTED_BYTES)?;
            }
        }
        let end = used.saturating_add(size);
        if end > self.block.get().size || used == 0 && size > KEPT_BYTES {
            self.most.set(self.most.get().max(end).min(KEPT_BYTES));
            let own = Single::new(size)?;
            // At least a line of the block is in use, or a loan inside this one would be the first.
            self.used.set(used.max(LINE));
            return Ok(Loan { at: own.0.at, arena: self, used, _own: Some(own) });
        }
        self.used.set(end);
        // SAFETY: `end` bytes lie in the block.
        let at = unsafe { self.block.get().at.add(used) };
        Ok(Loan { at, arena: self, used, _own: None })
    }

    /// Makes room for `size` bytes. Pre: nothing is lent.
    #[cold]
    fn grow(&self, size: usize) -> Result<()> {
        let wished = size.max(self.most.get()).max(FIRST_BYTES).next_power_of_two().min(KEPT_BYTES);
        let wished = wished.max(size);
        let old = self.block.replace(Block::NONE);
        // SAFETY: nothing of it is lent.
        unsafe { old.free() };
        self.block.set(Block::new(wished).or_else(|_| Block::new(size))?);
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the thread ends, outside of any loan.
        unsafe { self.block.get().free() };
    }
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
                let block = ARENA.with(|arena| arena.block.get().at);
                with(NESTED_BYTES - LINE, |_| with(1, |_| Ok(())))?;
                // Whatever is allocated meanwhile.
                with(9 << 20, |_| {
                    with(NESTED_BYTES, |at| {
                        assert!(at.addr() - block.addr().get() < 9 << 20);
                        Ok(())
                    })
                })?;
                assert_eq!(block, ARENA.with(|arena| arena.block.get().at));
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
}
