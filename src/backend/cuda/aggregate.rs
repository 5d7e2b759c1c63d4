//! Launches of graph aggregations (`kernels/aggregate.cu`).

use super::kind::Kind;
use super::launch::{Emit, Launch, grid};
use super::params::{Divisor, Index, Params};
use super::selection::Call;
use crate::error::Result;
use crate::ops::aggregate::{Aggregate, AggregateFunction};

/// Threads of a block: columns of targets, or warps that each sum the gradients of some sources.
const THREADS: u32 = 256;
/// Sources of a warp, and columns: one of each lane.
const SOURCES: u64 = 16;
const COLUMNS: u64 = 32;
/// Blocks of a launch at most; beyond, they have several parts of the work.
const MOST_BLOCKS: u64 = 1 << 20;

/// An aggregation: `aggregate_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// The operands of the step.
    pub at: [u64; 8],
    /// Columns of targets, or parts of the work of a warp.
    pub count: u64,
    /// As in [`Aggregate`].
    pub sources: i64,
    /// As in [`Aggregate`].
    pub targets: i64,
    /// As in [`Aggregate`].
    pub edges: i64,
    /// As in [`Aggregate`].
    pub columns: [i64; 3],
    /// Columns that a thread is one of.
    pub by_columns: Divisor,
    /// Scalar type of features.
    pub scalar: u32,
    /// 1 if indices have 64 bits.
    pub wide: u32,
    /// How rows are joined.
    pub join: u32,
    /// 1 if there is a map.
    pub mapped: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 64 + 56 + 24 + 16);

impl Kind for Aggregate {
    /// Hands the launches of a step to `emit`; `at` are its operands as [`AggregateFunction`] lists
    /// them.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let [node, edge, concat] = step.columns;
        let mut launch = |kernel, count: u64, columns: i64, per_block: u64| -> Result<()> {
            if count == 0 {
                return Ok(());
            }
            let parameters = Parameters {
                at: std::array::from_fn(|k| at[k]),
                count,
                sources: step.sources,
                targets: step.targets,
                edges: step.edges,
                columns: step.columns,
                by_columns: Divisor::new(columns, Index::I64),
                scalar: step.scalar as u32,
                wide: u32::from(step.index.size() == 8),
                join: step.join as u32,
                mapped: u32::from(step.mapped),
            };
            let grid = grid(count.div_ceil(per_block).min(MOST_BLOCKS))?;
            emit(&Launch {
                kernel,
                grid,
                block: [THREADS, 1, 1],
                shared: 0,
                params: Params::new(&parameters),
            })
        };
        let by_columns = |columns: i64| (step.targets * columns) as u64;
        match step.function {
            AggregateFunction::Forward => {
                launch("aggregate_forward", by_columns(step.width()), step.width(), THREADS.into())
            }
            AggregateFunction::Backward => {
                let tiles = (node as u64).div_ceil(COLUMNS);
                let parts = (step.sources as u64).div_ceil(SOURCES) * tiles;
                launch("aggregate_sources", parts, tiles.max(1) as i64, (THREADS / 32).into())?;
                launch("aggregate_edges", by_columns(edge + concat), (edge + concat).max(1), THREADS.into())
            }
        }
    }
}
