//! Loops over threads, for work that is long enough. What is computed does not depend on how many there are.

use std::num::NonZero;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements of a piece, whose sum is one number.
const PIECE: usize = 1 << 15;
/// Elements from which threads pay.
const MANY: usize = 1 << 19;

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

/// Calls `each` with pieces of `0..count` and their numbers, on several threads if there are many elements.
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
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Without a thread the others do its part.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Calls `each` with ranges that together are `0..count`.
pub fn spread(count: usize, each: impl Fn(Range<usize>) + Sync) {
    pieces(count, &|_, range| each(range));
}

/// Joins what `each` makes of ranges that together are `0..count`, in their order: the same for any number of threads.
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
    std::thread::scope(|scope| {
        let (each, part) = (&each, &part);
        let work = move |i: usize| each(part(i));
        let helpers: Vec<_> = (1..threads)
            .map(|i| (i, std::thread::Builder::new().spawn_scoped(scope, move || work(i))))
            .collect();
        let mut outcome = work(0);
        for (i, helper) in helpers {
            // Without a thread this one does its part; one that panics ends the process, as every panic here does.
            let done = match helper {
                Ok(helper) => helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => work(i),
            };
            outcome = outcome.and(done);
        }
        outcome
    })
}
