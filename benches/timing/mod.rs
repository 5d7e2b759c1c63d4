//! What benchmarks that compare with a copy share: rounds in turns, and work on every thread.

use std::hint::black_box;
use std::time::Instant;

use cudnn::backend::Machine;

/// Bytes of each buffer.
pub const BYTES: usize = 64 << 20;
/// Rounds of which the best and the median count.
pub const ROUNDS: usize = 41;

/// Seconds per run of every body, sorted: all rounds in turns, so that whatever else runs on the
/// machine meets all. `others` are read before each, so that none pays for what the one before left
/// to be written.
pub fn times<const N: usize>(others: &[f32], mut bodies: [&mut dyn FnMut(); N]) -> [Vec<f64>; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (body, times) in bodies.iter_mut().zip(&mut times) {
            black_box(others.iter().fold(0, |bits, x| bits ^ x.to_bits()));
            let start = Instant::now();
            body();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times
}

/// `body(first, len)` on every thread's part of `BYTES`.
pub fn divided(body: impl Fn(usize, usize) + Sync) {
    let threads = Machine::host().threads;
    let part = BYTES / threads;
    std::thread::scope(|scope| {
        for i in 1..threads {
            let body = &body;
            scope.spawn(move || body(i * part, part));
        }
        body(0, part);
    });
}

/// A buffer of which threads use disjoint parts.
pub struct Pointer(pub *mut u8);
// SAFETY: threads use disjoint parts.
unsafe impl Sync for Pointer {}

impl Pointer {
    /// The address so many bytes into it.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}
