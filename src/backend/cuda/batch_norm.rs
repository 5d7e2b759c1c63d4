//! Launches of batch normalisation whose parts keep their sums in the result
//! (`kernels/batch_norm.cu`).

use super::launch::{Emit, Launch, column_of, grid};
use super::normalise_params::{
    ADDS, BY_ROWS, DATA_BLENDED, GRADIENTS, KEEPS, NormalLoop, Parameters, SAVES, SLOPES, THREADS,
};
use super::params::Params;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Compute;
use crate::ops::normalise::{Parts, Tree};

/// Bytes that a part has in the result, once for its sums and once more for the mean and inverse
/// that a backward pass computes.
const ROOM: i64 = 16;
/// What 32-bit offsets reach.
const REACH: i64 = 1 << 31;

/// The kernels of a pass: sums, and the map behind the join.
type Kernels = [&'static str; 2];

/// The kernels of a pass and a layout, in binary32, binary16 and bfloat16.
macro_rules! kernels {
    ($pass:literal) => {
        [kernels!($pass, "f32"), kernels!($pass, "f16"), kernels!($pass, "bf16")]
    };
    ($pass:literal, $type:literal) => {
        [concat!("batch_norm_sums_", $pass, $type), concat!("batch_norm_map_", $pass, $type)]
    };
}

const FORWARD: [[Kernels; 3]; 2] = [kernels!("runs_"), kernels!("rows_")];
const BACKWARD: [[Kernels; 3]; 2] = [kernels!("back_runs_"), kernels!("back_rows_")];
const JOIN: [[&str; 2]; 2] = [
    ["batch_norm_join_runs_b32", "batch_norm_join_runs_b16"],
    ["batch_norm_join_rows_b32", "batch_norm_join_rows_b16"],
];

/// Which pass a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// y of x.
    Forward,
    /// dx of x and dy.
    Backward,
}

impl Pass {
    /// The operands that are read as tensors.
    fn reads(self) -> &'static [usize] {
        match self {
            Pass::Forward => &[6],
            Pass::Backward => &[4, 5],
        }
    }

    /// The operands with a number for each group, and what they are in the loops over groups.
    ///
    /// What a call does not have is at null, far from every result.
    fn numbers(self) -> (&'static [usize], usize) {
        match self {
            Pass::Forward => (&[1, 2, 3, 4, 8, 9], 4),
            Pass::Backward => (&[1, 2, 6, 7, 8, 9], 5),
        }
    }
}

/// Hands the launches of a step to `emit` whose tensors lie alike, whose groups are to be cut, and
/// whose result may hold the sums of parts; whether this is one.
pub(super) fn launches(
    pass: Pass, params: &Parameters, types: (Scalar, Compute), emit: Emit<'_>,
) -> Result<bool> {
    let (data, compute) = types;
    let Some(column) = column_of(data) else { return Ok(false) };
    let is_plain = params.flags & (ADDS | KEEPS | SLOPES | DATA_BLENDED) == 0;
    if compute != Compute::Single || !is_plain || !lie_alike(pass, params, data.size() as i64) {
        return Ok(false);
    }
    let rows = params.flags & BY_ROWS != 0;
    let tree = if rows { Tree::ROWS } else { Tree::RUNS };
    let (groups, members) = (params.groups as usize, params.members as usize);
    let Some(parts) = Parts::of(groups, members, tree, usize::MAX) else { return Ok(false) };
    let computes_statistics = pass == Pass::Backward && params.flags & SAVES == 0;
    let room = if computes_statistics { 2 * ROOM } else { ROOM };
    let last = members - (parts.count - 1) * parts.elements;
    if (last as i64) < room / data.size() as i64 {
        return Ok(false);
    }
    let count = parts.count as u64;
    let cut = Parameters { parts: parts.count as u32, part: parts.elements as u64, ..*params };
    let units = if rows { groups.div_ceil(Parts::ROW) } else { groups } as u64;
    let mut launch = |kernel, blocks: u64, params| {
        emit(&Launch { kernel, grid: grid(units * blocks)?, block: [THREADS, 1, 1], shared: 0, params })
    };
    let [sums, map] = FORWARD[usize::from(rows)][column];
    let [gradient_sums, gradient_map] = BACKWARD[usize::from(rows)][column];
    let join = JOIN[usize::from(rows)][usize::from(data != Scalar::F32)];
    if pass == Pass::Forward || computes_statistics {
        // A backward pass has x elsewhere.
        let mut forward = cut;
        forward.at[6] = params.at[pass.reads()[0]];
        let forward = Params::new(&forward);
        launch(sums, count, forward)?;
        launch(join, 1, forward)?;
        if pass == Pass::Forward {
            launch(map, count, forward)?;
            return Ok(true);
        }
    }
    let backward = Params::new(&Parameters { flags: params.flags | GRADIENTS, ..cut });
    launch(gradient_sums, count, backward)?;
    launch(join, 1, backward)?;
    launch(gradient_map, count, backward)?;
    Ok(true)
}

/// Whether all tensors have the same distances, which 32 bits reach, and the result shares no byte
/// with what is read, or with what else is written.
fn lie_alike(pass: Pass, params: &Parameters, size: i64) -> bool {
    let (group_rank, member_rank) = (params.group_rank as usize, params.member_rank as usize);
    if group_rank != 1 || !(1..=2).contains(&member_rank) {
        return false;
    }
    let mut loops = [params.group[0], params.member[0], params.member[1]];
    let loops = &mut loops[..1 + member_rank];
    let is_alike = |each: &NormalLoop| {
        each.step[0] == each.step[1] && (pass == Pass::Forward || each.step[2] == each.step[1])
    };
    // No element of the result lies inside another: a loop leads beyond those inside it.
    loops.sort_by_key(|each| each.step[1]);
    let reach = loops.iter().try_fold(size, |reach, each| {
        let moved = (each.extent.divisor as i64 - 1).checked_mul(each.step[1])?;
        (each.step[1] >= reach).then(|| moved.checked_add(reach))?
    });
    let Some(reach) = reach.filter(|&reach| reach < REACH && loops.iter().all(is_alike)) else {
        return false;
    };
    let (numbers, operand) = pass.numbers();
    let step = params.group[0].step[operand];
    let own_reach = (params.groups as i64 - 1).saturating_mul(step).saturating_add(4);
    let result = params.at[0]..params.at[0].saturating_add(reach as u64);
    let is_apart = |at: u64, reach: i64| at >= result.end || at.saturating_add(reach as u64) <= result.start;
    step >= 0
        && pass.reads().iter().all(|&k| is_apart(params.at[k], reach))
        && numbers.iter().all(|&k| is_apart(params.at[k], own_reach))
}
