//! Launches of statistics of groups (`kernels/rows.cu`).

use super::general::operand_loops;
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::params::{Index, OperandLoop, Operation, Params};
use super::selection::{self, Call, Kernels, Query};
use super::softmax;
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::{Compute, Rows};

/// Groups of a block of threads, where each has a warp.
const WARPS: u64 = 8;
/// Groups of a block of threads, where each has a thread.
const COLUMNS: u64 = 32;

/// Groups and their elements: `rows_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination, x and dy start.
    pub at: [u64; 3],
    /// Number of groups.
    pub groups: u64,
    /// Elements of each.
    pub length: u64,
    /// From the computation type to the destination.
    pub operation: Operation,
    /// Scalar types.
    pub scalars: [u32; 3],
    /// The function's number in the kernels' source.
    pub function: u32,
    /// Number of loops over groups.
    pub group_rank: u32,
    /// Number of loops over elements.
    pub element_rank: u32,
    /// 1 if it is computed in binary64.
    pub wide: u32,
    /// 1 if one thread computes all groups in order.
    pub ordered: u32,
    /// The loops over groups, innermost first.
    pub group_loops: [OperandLoop; MAX_AXES],
    /// The loops over elements, innermost first.
    pub element_loops: [OperandLoop; MAX_AXES],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 24 + 16 + 32 + 32 + 2 * 48 * MAX_AXES);

pub(super) const KERNELS: &[Kernels<Rows>] = &[
    Kernels {
        name: "softmax_* log_softmax_*",
        when: "softmax and its gradient of groups at equal distances, without factors: rows are held in registers",
        launch: softmax::launches,
    },
    Kernels {
        name: "rows_*",
        when: "all groups: by threads where their neighbours belong to neighbouring groups, else by warps",
        launch: general,
    },
];

impl Kind for Rows {
    fn names() -> Vec<&'static str> {
        kind::names(KERNELS)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        if query.step.groups.is_empty() || query.step.elements.is_empty() {
            return Ok(());
        }
        selection::launch(KERNELS, query, emit)
    }
}

fn general(query: &Query<'_, Rows>, emit: Emit<'_>) -> Result<bool> {
    let (rows, at, ordered) = (query.step, query.places::<3>(), query.call.ordered);
    let sizes = rows.scalars.map(|scalar| scalar.size() as i64);
    let bytes = |nest: &LoopNest<3>| {
        let mut result = LoopNest::new(&[], [0; 3]);
        for axis in nest.axes() {
            let strides = std::array::from_fn(|k| axis.strides[k] * sizes[k]);
            result.push(Axis { extent: axis.extent, strides });
        }
        result
    };
    let (groups, elements) = (bytes(&rows.groups), bytes(&rows.elements));
    let start = |k: usize| (rows.groups.offsets[k] + rows.elements.offsets[k]) * sizes[k];
    let params = Parameters {
        at: std::array::from_fn(|k| at[k].wrapping_add_signed(start(k))),
        groups: groups.len() as u64,
        length: elements.len() as u64,
        operation: Operation::new(rows.compute.scalar(), rows.scalars[0], rows.scaling),
        scalars: rows.scalars.map(|scalar| scalar as u32),
        function: rows.function as u32,
        group_rank: groups.axes().len() as u32,
        element_rank: elements.axes().len() as u32,
        wide: u32::from(rows.compute == Compute::Double),
        ordered: u32::from(ordered),
        group_loops: operand_loops(&groups, Index::I64),
        element_loops: operand_loops(&elements, Index::I64),
    };
    // Where the neighbours of x belong to neighbouring groups, so do neighbouring threads.
    let nearest = |nest: &LoopNest<3>| {
        nest.axes().iter().map(|axis| axis.strides[1].unsigned_abs()).filter(|&step| step > 0).min()
    };
    let by_thread =
        ordered || nearest(&groups).is_some_and(|step| nearest(&elements).is_none_or(|other| step < other));
    let kernel = match (by_thread, rows.compute) {
        (true, Compute::Single) => "rows_by_thread_f32",
        (true, Compute::Double) => "rows_by_thread_f64",
        (false, Compute::Single) => "rows_by_warp_f32",
        (false, Compute::Double) => "rows_by_warp_f64",
    };
    let (blocks, threads) = match by_thread {
        true if ordered => (1, COLUMNS),
        true => (params.groups.div_ceil(COLUMNS), COLUMNS),
        false => (params.groups.div_ceil(WARPS), 32 * WARPS),
    };
    let grid = grid(blocks)?;
    let params = Params::new(&params);
    emit(&Launch { kernel, grid, block: [threads as u32, 1, 1], shared: 0, params })?;
    Ok(true)
}
