//! Loops over threads, for work that is long enough. What is computed does not depend on how many
//! there are.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Elements of a piece, whose sum is one number.
const PIECE: usize = 1 << 15;
/// Elements from which threads pay.
const MANY: usize = 1 << 19;
/// Threads beside the caller's at most.
const HELPERS: usize = 255;

/// The most threads: `CUDNN_SHIM_NUM_THREADS`, else one a processor.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let asked = std::env::var("CUDNN_SHIM_NUM_THREADS").ok().and_then(|text| text.parse().ok());
        asked
            .filter(|&count| count > 0)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get))
    })
}

/// Calls `each` with pieces of `0..count` and their numbers, on several threads if there are many
/// elements.
fn pieces(count: usize, each: &(dyn Fn(usize, Range<usize>) + Sync)) {
    let pieces = count.div_ceil(PIECE);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                break;
            }
            each(piece, piece * PIECE..count.min((piece + 1) * PIECE));
        }
    };
    let helpers = if count < MANY { 0 } else { most().min(pieces) - 1 };
    if helpers == 0 {
        return work();
    }
    together(helpers, &work);
}

/// Threads that run what somebody lent them; joined before it goes.
struct Started {
    threads: [MaybeUninit<libc::pthread_t>; HELPERS],
    count: usize,
}

impl Drop for Started {
    fn drop(&mut self) {
        for thread in &self.threads[..self.count] {
            // SAFETY: started, and joined once.
            unsafe { libc::pthread_join(thread.assume_init(), null_mut()) };
        }
    }
}

/// Calls `work` here and on `helpers` threads beside this one, and returns when all have ended. A
/// thread that cannot be started leaves its part to the others: the standard library's threads end
/// the process where there is no memory for one. So does a panic.
fn together(helpers: usize, work: &(dyn Fn() + Sync)) {
    extern "C" fn enter(work: *mut c_void) -> *mut c_void {
        // SAFETY: the address of a reference that lives until this thread is joined.
        let work = unsafe { *work.cast::<&(dyn Fn() + Sync)>() };
        work();
        null_mut()
    }
    let lent = &raw const work;
    let mut started = Started { threads: [MaybeUninit::uninit(); HELPERS], count: 0 };
    while started.count < helpers.min(HELPERS) {
        let thread = started.threads[started.count].as_mut_ptr();
        // SAFETY: a place for the thread's number; what is lent outlives the thread, which
        // `started` joins.
        if unsafe { libc::pthread_create(thread, null(), enter, lent.cast_mut().cast()) } != 0 {
            break;
        }
        started.count += 1;
    }
    work();
}

/// Calls `each` with ranges that together are `0..count`.
pub fn spread(count: usize, each: impl Fn(Range<usize>) + Sync) {
    pieces(count, &|_, range| each(range));
}

/// Joins what `each` makes of ranges that together are `0..count`, in their order: the same for any
/// number of threads.
pub fn join<T: Copy + Send + Sync>(
    count: usize, start: T, each: impl Fn(Range<usize>) -> T + Sync, join: impl Fn(T, T) -> T,
) -> T {
    if count <= PIECE {
        return join(start, each(0..count));
    }
    let pieces_of = count.div_ceil(PIECE);
    let mut parts: Vec<OnceLock<T>> = Vec::new();
    if parts.try_reserve_exact(pieces_of).is_err() {
        let range = |piece: usize| piece * PIECE..count.min((piece + 1) * PIECE);
        return (0..pieces_of).fold(start, |sum, piece| join(sum, each(range(piece))));
    }
    parts.resize_with(pieces_of, OnceLock::new);
    let keep = |piece: usize, range| {
        // Each piece is made once.
        let _ = parts[piece].set(each(range));
    };
    pieces(count, &keep);
    parts.iter().filter_map(OnceLock::get).fold(start, |sum, part| join(sum, *part))
}

/// Calls `each` with ranges that together are `0..count`, for work of so many elements each.
///
/// # Errors
/// One of those of `each`.
pub fn share<E: Send>(
    count: usize, elements: usize, each: impl Fn(Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = if count.saturating_mul(elements) < MANY { 1 } else { most().min(count) };
    if threads <= 1 {
        return each(0..count);
    }
    let part = |i: usize| i * count / threads..(i + 1) * count / threads;
    let (next, outcome) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= threads {
                break;
            }
            if let Err(error) = each(part(number)) {
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
            }
        }
    };
    together(threads - 1, &work);
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}
