//! Launches of normalisations (`kernels/normalise.cu`).

use super::batch_norm::{self, Pass};
use super::general::{launch, launch_of};
use super::kind::{self, Kind};
use super::launch::{Emit, Launch, grid};
use super::linear::VECTOR;
use super::normalise_params::{
    ADDS, BATCH, BY_ROWS, DATA_BLENDED, DATA_SCALED, GRADIENTS, KEEPS, NUMBER_BLENDED, Parameters, RUNNING,
    SAVES, SLOPES, THREADS, loops,
};
use super::params::{Divisor, Index, Params, numbered};
use super::selection::{self, Call, Kernels, Query};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::normalise::{Normalise, NormaliseBackward, Parts, Slope, Statistics, Tree};
use crate::ops::{Compute, Scaling};

/// Which operand of a step is the workspace: forward, backward.
const WORKSPACE: [usize; 2] = [10, 11];

fn scaled(scaling: Scaling) -> u32 {
    let blended = if scaling.beta == 0.0 { 0 } else { DATA_BLENDED };
    if scaling.is_move() { 0 } else { DATA_SCALED | blended }
}

fn by_rows(tree: Tree) -> u32 {
    if tree == Tree::ROWS { BY_ROWS } else { 0 }
}

/// The names of kernels by computation type: binary32, binary64.
type Names = [&'static str; 2];

/// Kernels, and those that compute elementary functions.
const GIVEN: [Names; 2] =
    [["normalise_given_f32", "normalise_given_f64"], ["normalise_given_of_f32", "normalise_given_of_f64"]];
const BATCH_OF: [Names; 2] =
    [["normalise_batch_f32", "normalise_batch_f64"], ["normalise_batch_of_f32", "normalise_batch_of_f64"]];
const BACKWARD_OF: [Names; 2] = [
    ["normalise_backward_f32", "normalise_backward_f64"],
    ["normalise_backward_of_f32", "normalise_backward_of_f64"],
];
const PART: Names = ["normalise_part_f32", "normalise_part_f64"];
const PART_BACK: [Names; 2] = [
    ["normalise_part_back_f32", "normalise_part_back_f64"],
    ["normalise_part_back_of_f32", "normalise_part_back_of_f64"],
];
const APPLY: [Names; 2] =
    [["normalise_apply_f32", "normalise_apply_f64"], ["normalise_apply_of_f32", "normalise_apply_of_f64"]];
const APPLY_BACK: [Names; 2] = [
    ["normalise_apply_back_f32", "normalise_apply_back_f64"],
    ["normalise_apply_back_of_f32", "normalise_apply_back_of_f64"],
];

/// The launches of one step, by its names for a computation type.
struct Launches {
    compute: Compute,
    /// Blocks of threads that take a group, or a row of them, each.
    units: u64,
}

impl Launches {
    fn new(params: &Parameters, compute: Compute) -> Launches {
        let rows = params.flags & BY_ROWS != 0;
        let units = if rows { params.groups.div_ceil(Parts::ROW as u64) } else { params.groups };
        Launches { compute, units }
    }

    /// A launch of `each` blocks for every unit.
    fn emit(&self, names: Names, each: u32, params: &Parameters, emit: Emit<'_>) -> Result<()> {
        let kernel = names[usize::from(self.compute != Compute::Single)];
        let blocks = grid(self.units * u64::from(each))?;
        emit(&Launch { kernel, grid: blocks, block: [THREADS, 1, 1], shared: 0, params: Params::new(params) })
    }

    /// What the sums of all parts of every group lead to.
    fn statistics(&self, part: Names, params: &Parameters, of: u32, emit: Emit<'_>) -> Result<()> {
        let flags = params.flags | of;
        let params = Parameters { flags, ..*params };
        self.emit(part, params.parts, &params, emit)?;
        self.emit(["normalise_join_f32", "normalise_join_f64"], 1, &params, emit)
    }
}

/// A step as its kernels want it.
pub(super) struct Task {
    pass: Pass,
    params: Parameters,
    data: Scalar,
    compute: Compute,
    /// 1 if an elementary function is computed.
    calls: usize,
    /// Whether statistics are given: the running ones forward, the saved ones backward.
    is_given: bool,
    /// The kernel for runs of 16 bytes with given statistics, if the step is one.
    by_vectors: Option<&'static str>,
    tree: Tree,
    /// Where the workspace is, and its bytes.
    workspace: (u64, usize),
}

impl Task {
    /// The parameters with groups cut into parts, if that is worth it and the workspace has room.
    fn cut(&self) -> Option<Parameters> {
        let (groups, members) = (self.params.groups as usize, self.params.members as usize);
        let (at, size) = self.workspace;
        let parts = Parts::of(groups, members, self.tree, size)?;
        let scratch = [at, at + parts.sums_size(groups, self.tree) as u64];
        Some(Parameters { parts: parts.count as u32, part: parts.elements as u64, scratch, ..self.params })
    }
}

pub(super) const FORWARD: &[Kernels<Task>] = &[
    Kernels {
        name: "normalise_run_*",
        when: "given statistics, binary32, binary16 and bfloat16 in vectors of 16 bytes",
        launch: given_by_vectors,
    },
    Kernels { name: "normalise_given_*", when: "given statistics: element by element", launch: given },
    Kernels {
        name: "batch_norm_*",
        when: "tensors that lie alike, without addend and activation: parts keep their sums in the result",
        launch: kept_in_result,
    },
    Kernels {
        name: "normalise_part_* normalise_join_* normalise_apply_*",
        when: "groups that are cut into parts, whose sums have room in the workspace",
        launch: in_parts,
    },
    Kernels { name: "normalise_batch_*", when: "all steps: a block has a group", launch: whole },
];

pub(super) const BACKWARD: &[Kernels<Task>] = &[
    Kernels {
        name: "batch_norm_*",
        when: "tensors that lie alike, without addend and activation: parts keep their sums in the result",
        launch: kept_in_result,
    },
    Kernels {
        name: "normalise_part_* normalise_join_* normalise_apply_back_*",
        when: "groups that are cut into parts, whose sums have room in the workspace",
        launch: in_parts,
    },
    Kernels { name: "normalise_backward_*", when: "all steps: a block has a group", launch: whole },
];

fn given_by_vectors(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { params, data, by_vectors, .. } = query.step;
    let Some(kernel) = *by_vectors else { return Ok(false) };
    let vectors = params.elements / (VECTOR / data.size() as u64);
    emit(&launch_of(1, kernel, vectors, Params::new(params))?)?;
    Ok(true)
}

fn given(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { params, compute, calls, is_given, .. } = query.step;
    if !is_given {
        return Ok(false);
    }
    let kernel = GIVEN[*calls][usize::from(*compute != Compute::Single)];
    emit(&launch(kernel, params.groups * params.members, Params::new(params))?)?;
    Ok(true)
}

fn kept_in_result(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { pass, params, data, compute, .. } = query.step;
    batch_norm::launches(*pass, params, (*data, *compute), emit)
}

fn in_parts(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { pass, compute, calls, is_given, .. } = query.step;
    let Some(params) = query.step.cut() else { return Ok(false) };
    let launches = Launches::new(&params, *compute);
    if !is_given {
        launches.statistics(PART, &params, 0, emit)?;
    }
    let apply = match pass {
        Pass::Forward => APPLY[*calls],
        Pass::Backward => {
            launches.statistics(PART_BACK[*calls], &params, GRADIENTS, emit)?;
            APPLY_BACK[*calls]
        }
    };
    launches.emit(apply, params.parts, &params, emit)?;
    Ok(true)
}

fn whole(query: &Query<'_, Task>, emit: Emit<'_>) -> Result<bool> {
    let Task { pass, params, compute, calls, .. } = query.step;
    let names = match pass {
        Pass::Forward => BATCH_OF[*calls],
        Pass::Backward => BACKWARD_OF[*calls],
    };
    Launches::new(params, *compute).emit(names, 1, params, emit)?;
    Ok(true)
}

/// The kernel for statistics that are given where 16 bytes of data are neighbours in all operands,
/// if they are.
fn run(step: &Normalise, params: &Parameters) -> Option<&'static str> {
    let kernel = match (step.compute, step.data) {
        (Compute::Single, Scalar::F32) => "normalise_run_f32",
        (Compute::Single, Scalar::F16) => "normalise_run_f16",
        (Compute::Single, Scalar::Bf16) => "normalise_run_bf16",
        _ => return None,
    };
    let rows = params.flags & BY_ROWS != 0;
    let loops = [&params.group[..params.group_rank as usize], &params.member[..params.member_rank as usize]];
    let (inner, outer) = loops[usize::from(!rows)].split_first()?;
    // y, x and z: with the place of each among the operands.
    let used = [(0, 0), (1, 6), (2, 7)].into_iter().take(if step.adds { 3 } else { 2 });
    let size = step.data.size() as i64;
    let is_run = (inner.extent.divisor * size as u64).is_multiple_of(VECTOR)
        && used.clone().all(|(k, _)| inner.step[k] == size);
    let mut apart = outer.iter().chain(loops[usize::from(rows)]);
    let is_aligned = used.clone().all(|(_, at)| params.at[at].is_multiple_of(VECTOR))
        && apart.all(|each| used.clone().all(|(k, _)| each.step[k].unsigned_abs().is_multiple_of(VECTOR)));
    (is_run && is_aligned && step.slopes.is_none()).then_some(kernel)
}

impl Kind for Normalise {
    fn names() -> Vec<&'static str> {
        kind::names(FORWARD)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let (data, number) = (step.data.size() as i64, step.compute.scalar().size() as i64);
        let slopes = step.slopes.map_or(1, |scalar| scalar.size() as i64);
        let sizes = [data, data, data, slopes, number];
        let (group, group_rank) = loops(&step.groups, sizes)?;
        let (member, member_rank) = loops(&step.members, [data, data, data, slopes])?;
        let start = |operand: usize, k: usize| {
            let inside = if k < 4 { step.members.offsets[k] } else { 0 };
            at[operand].wrapping_add_signed((step.groups.offsets[k] + inside) * sizes[k])
        };
        let (mut flags, mut factor) = (scaled(step.scaling) | by_rows(step.tree()), 0.0);
        if let Statistics::Batch { factor: weight, running, saves } = step.statistics {
            factor = weight;
            flags |= BATCH | if saves { SAVES } else { 0 };
            (0..2).filter(|&k| running[k]).for_each(|k| flags |= RUNNING[k]);
        }
        flags |= if step.adds { ADDS } else { 0 };
        flags |= if step.activation.is_some() { SLOPES } else { 0 };
        flags |= if step.slopes.is_some() { KEEPS } else { 0 };
        let (activation, parameter, calls) = numbered(step.activation);
        let rows = step.tree() == Tree::ROWS;
        let params = Parameters {
            at: [
                start(0, 0),
                start(1, 4),
                start(2, 4),
                start(3, 4),
                start(4, 4),
                start(5, 3),
                start(6, 1),
                start(7, 2),
                start(8, 4),
                start(9, 4),
                0,
            ],
            groups: step.groups.len() as u64,
            members: step.members.len() as u64,
            epsilon: step.epsilon,
            factor,
            scaling: [step.scaling.alpha, step.scaling.beta],
            parameter_scaling: [1.0, 0.0],
            parameter,
            data: step.data as u32,
            slopes: step.slopes.unwrap_or(step.data) as u32,
            flags,
            activation,
            unused: 0,
            group_rank,
            member_rank,
            parts: 1,
            part: step.members.len() as u64,
            scratch: [0; 2],
            elements: (step.groups.len() * step.members.len()) as u64,
            fast: Divisor::new(if rows { step.groups.len() } else { step.members.len() }, Index::I64),
            group,
            member,
        };
        let (calls, is_given) = (usize::from(calls), step.statistics == Statistics::Given);
        let task = Task {
            pass: Pass::Forward,
            params,
            data: step.data,
            compute: step.compute,
            calls,
            is_given,
            by_vectors: if is_given && calls == 0 { run(step, &params) } else { None },
            tree: step.tree(),
            workspace: (at.get(WORKSPACE[0]).copied().unwrap_or(0), step.workspace),
        };
        selection::launch(FORWARD, &call.of(&task), emit)
    }
}

impl Kind for NormaliseBackward {
    fn names() -> Vec<&'static str> {
        kind::names(BACKWARD)
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let (data, number) = (step.data.size() as i64, step.compute.scalar().size() as i64);
        let (slopes, mut flags) = match step.slope {
            Slope::One => (step.data, 0),
            Slope::Of(_) => (step.data, SLOPES),
            Slope::Kept(scalar) => (scalar, SLOPES | KEEPS),
        };
        let kept = slopes.size() as i64;
        let sizes = [data, data, data, data, kept, number];
        let (group, group_rank) = loops(&step.groups, sizes)?;
        let (member, member_rank) = loops(&step.members, [data, data, data, data, kept])?;
        let start = |operand: usize, k: usize| {
            let inside = if k < 5 { step.members.offsets[k] } else { 0 };
            at[operand].wrapping_add_signed((step.groups.offsets[k] + inside) * sizes[k])
        };
        flags |= scaled(step.scaling) | by_rows(step.tree());
        flags |= if step.saved { SAVES } else { 0 };
        flags |= if step.splits { ADDS } else { 0 };
        flags |= if step.parameter_scaling.beta == 0.0 { 0 } else { NUMBER_BLENDED };
        let (activation, parameter, calls) = match step.slope {
            Slope::Of(of) => numbered(Some(of)),
            _ => numbered(None),
        };
        let rows = step.tree() == Tree::ROWS;
        let params = Parameters {
            at: [
                start(0, 0),
                start(1, 5),
                start(2, 5),
                start(3, 3),
                start(4, 1),
                start(5, 2),
                start(6, 5),
                start(7, 5),
                start(8, 5),
                start(9, 5),
                start(10, 4),
            ],
            groups: step.groups.len() as u64,
            members: step.members.len() as u64,
            epsilon: step.epsilon,
            factor: 0.0,
            scaling: [step.scaling.alpha, step.scaling.beta],
            parameter_scaling: [step.parameter_scaling.alpha, step.parameter_scaling.beta],
            parameter,
            data: step.data as u32,
            slopes: slopes as u32,
            flags,
            activation,
            unused: 0,
            group_rank,
            member_rank,
            parts: 1,
            part: step.members.len() as u64,
            scratch: [0; 2],
            elements: (step.groups.len() * step.members.len()) as u64,
            fast: Divisor::new(if rows { step.groups.len() } else { step.members.len() }, Index::I64),
            group,
            member,
        };
        let task = Task {
            pass: Pass::Backward,
            params,
            data: step.data,
            compute: step.compute,
            calls: usize::from(calls),
            is_given: step.saved,
            by_vectors: None,
            tree: step.tree(),
            workspace: (at.get(WORKSPACE[1]).copied().unwrap_or(0), step.workspace),
        };
        selection::launch(BACKWARD, &call.of(&task), emit)
    }
}
