//! Launches that write integers of the host (`kernels/words.cu`).
//!
//! These integers travel as parameters of kernels, which the driver copies when the launch is
//! queued. A copy from memory of the host would have to wait for the stream, or need memory that
//! the caller leaves alone until then, and a stream that captures would keep the address and not
//! the integers.

use super::kind::Kind;
use super::launch::{Emit, Launch};
use super::params::Params;
use super::selection::Call;
use crate::error::Result;
use crate::ops::Words;

/// What fits a parameter.
const WORDS: usize = 1020;
/// Threads of a block.
const THREADS: u32 = 256;

/// Words and where they go: `words_write`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Parameters {
    /// Where the first goes.
    pub dst: u64,
    /// How many there are.
    pub count: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The words, and zeros.
    pub words: [u32; WORDS],
}

// The same number stands in the kernel's source.
const _: () = assert!(size_of::<Parameters>() == 16 + 4 * WORDS);

impl Kind for Words {
    /// Hands the launches of a step to `emit`, one for as many words as fit a parameter.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, dst) = (self, call.at[0]);
        for (k, part) in step.0.chunks(WORDS).enumerate() {
            let mut words = [0; WORDS];
            words[..part.len()].copy_from_slice(part);
            let parameters =
                Parameters { dst: dst + (4 * k * WORDS) as u64, count: part.len() as u32, unused: 0, words };
            let params = Params::new(&parameters);
            emit(&Launch {
                kernel: "words_write",
                grid: [1, 1, 1],
                block: [THREADS, 1, 1],
                shared: 0,
                params,
            })?;
        }
        Ok(())
    }
}
