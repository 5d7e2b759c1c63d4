//! Launches of ragged batches (`kernels/ragged.cu`).

use super::general::loops;
use super::kind::Kind;
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Loop, Params};
use super::selection::Call;
use crate::error::Result;
use crate::layout::MAX_RANK;
use crate::ops::ragged::{Ragged, RaggedFunction};

/// Threads of a block, each with an element.
const THREADS: u32 = 256;
/// Blocks of a launch at most; beyond, they have several parts of the work.
const MOST_BLOCKS: u64 = 1 << 20;

/// Batches by their offsets: `ragged`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the loops of the dense operand start.
    pub dense: u64,
    /// Where those of the ragged one start, of a batch at offset 0.
    pub ragged: u64,
    /// The offsets.
    pub offsets: u64,
    /// Elements of the dense operand.
    pub count: u64,
    /// Elements of a batch.
    pub by_batch: Divisor,
    /// As in [`Ragged`].
    pub stride: i64,
    /// As in [`Ragged`].
    pub multiplier: i64,
    /// Elements in front of the loops of a batch.
    pub first: i64,
    /// Bytes of an element.
    pub size: u32,
    /// 1 if offsets have 64 bits.
    pub wide: u32,
    /// 1 if the ragged operand is written.
    pub stores: u32,
    /// Number of loops.
    pub rank: u32,
    /// The loops of a batch, innermost first, in elements: dense, ragged.
    pub loops: [Loop; MAX_RANK],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 32 + 24 + 24 + 16 + 40 * MAX_RANK);

impl Kind for Ragged {
    /// Hands the launch of a step to `emit`; `at` are its operands as [`RaggedFunction`] lists
    /// them.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let own = step.nest.len();
        let count = (step.batches * own) as u64;
        if count == 0 {
            return Ok(());
        }
        let stores = step.function == RaggedFunction::Store;
        let [dense, ragged] = if stores { [at[1], at[0]] } else { [at[0], at[1]] };
        let size = step.scalar.size();
        let parameters = Parameters {
            dense: dense.wrapping_add_signed(step.nest.offsets[0] * size as i64),
            ragged,
            offsets: at[2],
            count,
            by_batch: Divisor::new(own, Index::I64),
            stride: step.stride,
            multiplier: step.multiplier,
            first: step.nest.offsets[1],
            size: size as u32,
            wide: u32::from(step.index.size() == 8),
            stores: u32::from(stores),
            rank: step.nest.axes().len() as u32,
            loops: loops(&step.nest, Index::I64),
        };
        let grid = grid(count.div_ceil(THREADS.into()).min(MOST_BLOCKS))?;
        emit(&Launch {
            kernel: "ragged",
            grid,
            block: [THREADS, 1, 1],
            shared: 0,
            params: Params::new(&parameters),
        })
    }
}
