//! Launches of causal convolutions (`kernels/causal.cu`).

use super::kind::Kind;
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Call;
use crate::error::Result;
use crate::ops::Compute;
use crate::ops::causal::{Causal, CausalFunction, LANES, PARTS};

/// Threads of a block, each with an element.
const THREADS: u32 = 256;
/// Channels of a block that sums the gradients of weights, each with a thread for each lane; and
/// taps of each thread.
const CHANNELS: i64 = 16;
const TAPS: i64 = 4;
/// Blocks of a launch at most; beyond, they have several parts of the work.
const MOST_BLOCKS: u64 = 1 << 20;

// Whole warps, and registers enough for each thread.
const _: () = assert!(LANES as i64 * CHANNELS == 512);

/// A causal convolution: `causal_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// The operands of the step.
    pub at: [u64; 9],
    /// Elements, or blocks of threads.
    pub count: u64,
    /// As in [`Causal`].
    pub batch: i64,
    /// As in [`Causal`].
    pub channels: i64,
    /// As in [`Causal`].
    pub length: i64,
    /// As in [`Causal`].
    pub taps: i64,
    /// As in [`Causal`].
    pub mixer: i64,
    /// Extent of the axis whose elements are neighbours in memory.
    pub inner: Divisor,
    /// Extent of the next axis.
    pub middle: Divisor,
    /// Scalar type of everything but the gradients of weights.
    pub scalar: u32,
    /// Scalar type of those.
    pub gradient: u32,
    /// Bits as [`flags`] sets them.
    pub flags: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 72 + 48 + 48 + 16);

/// What is so about a step, as the kernels number it.
fn flags(step: &Causal) -> u32 {
    let all = [step.channels_inside, step.newest_first, step.bias, step.silu, step.adds];
    all.iter().enumerate().map(|(bit, &is_so)| u32::from(is_so) << bit).sum()
}

impl Kind for Causal {
    /// Hands the launch of a step to `emit`; `at` are its operands as [`CausalFunction`] lists
    /// them.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let elements = (step.batch * step.channels * step.length) as u64;
        let groups = (step.channels as u64).div_ceil(CHANNELS as u64);
        let blocks_of = |taps: i64| (taps as u64).div_ceil(TAPS as u64);
        let by_threads = |count: u64| (count, count.div_ceil(THREADS.into()), THREADS);
        let by_blocks = |count: u64| (count, count, LANES as u32 * CHANNELS as u32);
        let (kernels, (count, blocks, threads)) = match step.function {
            CausalFunction::Forward => (["causal_forward_f32", "causal_forward_f64"], by_threads(elements)),
            CausalFunction::Data => (["causal_data_f32", "causal_data_f64"], by_threads(elements)),
            CausalFunction::Weights => {
                (["causal_weights_f32", "causal_weights_f64"], by_blocks(groups * blocks_of(step.taps)))
            }
            CausalFunction::Gated => (["causal_gated_f32", "causal_gated_f64"], by_threads(elements)),
            CausalFunction::GatedData => {
                (["causal_gated_data_f32", "causal_gated_data_f64"], by_threads(elements * PARTS as u64))
            }
            CausalFunction::GatedWeights => {
                let blocks = PARTS as u64 * blocks_of(step.taps) + blocks_of(step.mixer);
                (["causal_gated_weights_f32", "causal_gated_weights_f64"], by_blocks(groups * blocks))
            }
        };
        let [inner, middle] = match step.channels_inside {
            true => [step.channels, step.length],
            false => [step.length, step.channels],
        };
        let parameters = Parameters {
            at: std::array::from_fn(|k| at.get(k).copied().unwrap_or(0)),
            count,
            batch: step.batch,
            channels: step.channels,
            length: step.length,
            taps: step.taps,
            mixer: step.mixer,
            inner: Divisor::new(inner, Index::I64),
            middle: Divisor::new(middle, Index::I64),
            scalar: step.scalar as u32,
            gradient: step.gradient as u32,
            flags: flags(step),
            unused: 0,
        };
        let kernel = kernels[usize::from(step.compute() == Compute::Double)];
        let grid = grid(blocks.min(MOST_BLOCKS))?;
        emit(&Launch { kernel, grid, block: [threads, 1, 1], shared: 0, params: Params::new(&parameters) })
    }
}
