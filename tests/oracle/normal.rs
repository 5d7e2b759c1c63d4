//! The departures of batch normalisation and Normalization: more ranks, strides, types, modes and
//! activations.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{BAD_PARAM, NOT_SUPPORTED, OK, Promise, Tensor, VECT_C};

/// Where the arguments of a call are.
struct Call {
    name: &'static str,
    mode: usize,
    algo: Option<usize>,
    ops: Option<usize>,
    x: usize,
    /// Tensors of the dims and type of x.
    others: &'static [usize],
    /// Tensors of parameters and statistics.
    parameters: &'static [usize],
    activation: usize,
    /// What is added, or its gradient, and its data.
    added: [usize; 2],
    epsilon: Option<usize>,
    /// Pointers of which both or neither are given.
    saved: Option<[usize; 2]>,
    /// The bias that a slope is computed from.
    bias: Option<usize>,
    /// Arguments that may be missing.
    optional: &'static [usize],
    /// The bytes of the reserve space.
    reserve: Option<usize>,
    training: bool,
    groups: Option<usize>,
}

const NONE: Call = Call {
    name: "",
    mode: 1,
    algo: None,
    ops: None,
    x: 4,
    others: &[],
    parameters: &[],
    activation: 99,
    added: [99; 2],
    epsilon: None,
    saved: None,
    bias: None,
    optional: &[],
    reserve: None,
    training: true,
    groups: None,
};

const CALLS: [Call; 14] = [
    Call {
        name: "GetBatchNormalizationTrainingExReserveSpaceSize",
        ops: Some(2),
        activation: 3,
        optional: &[3],
        ..NONE
    },
    Call {
        name: "BatchNormalizationForwardInference",
        others: &[6],
        parameters: &[8],
        epsilon: Some(13),
        training: false,
        ..NONE
    },
    Call {
        name: "BatchNormalizationForwardTraining",
        others: &[6],
        parameters: &[8],
        epsilon: Some(14),
        saved: Some([15, 16]),
        optional: &[12, 13, 15, 16],
        ..NONE
    },
    Call {
        name: "BatchNormalizationForwardTrainingEx",
        ops: Some(2),
        x: 5,
        others: &[9],
        parameters: &[11],
        activation: 20,
        added: [7, 8],
        epsilon: Some(17),
        saved: Some([18, 19]),
        optional: &[7, 8, 15, 16, 18, 19, 20, 21, 22, 23, 24],
        reserve: Some(24),
        ..NONE
    },
    Call {
        name: "BatchNormalizationBackward",
        x: 6,
        others: &[8, 10],
        parameters: &[12],
        epsilon: Some(16),
        saved: Some([17, 18]),
        optional: &[17, 18],
        ..NONE
    },
    Call {
        name: "BatchNormalizationBackwardEx",
        ops: Some(2),
        x: 7,
        others: &[11, 15],
        parameters: &[17],
        activation: 25,
        added: [13, 14],
        epsilon: Some(22),
        saved: Some([23, 24]),
        bias: Some(19),
        optional: &[9, 10, 13, 14, 19, 23, 24, 25, 26, 27, 28, 29],
        reserve: Some(29),
        ..NONE
    },
    Call {
        name: "GetBatchNormalizationForwardTrainingExWorkspaceSize",
        ops: Some(2),
        x: 3,
        others: &[5],
        parameters: &[6],
        activation: 7,
        added: [4, 4],
        optional: &[4, 7],
        ..NONE
    },
    Call {
        name: "GetBatchNormalizationBackwardExWorkspaceSize",
        ops: Some(2),
        x: 3,
        others: &[5, 7],
        parameters: &[8],
        activation: 9,
        added: [6, 6],
        optional: &[4, 6, 9],
        ..NONE
    },
    Call {
        name: "NormalizationForwardInference",
        algo: Some(3),
        ops: Some(2),
        x: 6,
        others: &[17],
        parameters: &[8, 11],
        activation: 16,
        added: [14, 15],
        epsilon: Some(19),
        optional: &[14, 15, 16],
        training: false,
        groups: Some(20),
        ..NONE
    },
    Call {
        name: "NormalizationForwardTraining",
        algo: Some(3),
        ops: Some(2),
        x: 6,
        others: &[21],
        parameters: &[8, 12],
        activation: 18,
        added: [19, 20],
        epsilon: Some(15),
        saved: Some([16, 17]),
        optional: &[13, 14, 16, 17, 18, 19, 20, 23, 24, 25, 26],
        reserve: Some(26),
        groups: Some(27),
        ..NONE
    },
    Call {
        name: "NormalizationBackward",
        algo: Some(3),
        ops: Some(2),
        x: 8,
        others: &[12, 16],
        parameters: &[18, 24],
        activation: 27,
        added: [14, 15],
        epsilon: Some(23),
        saved: Some([25, 26]),
        bias: Some(20),
        optional: &[10, 11, 14, 15, 20, 25, 26, 27, 28, 29, 30, 31],
        reserve: Some(31),
        groups: Some(32),
        ..NONE
    },
    Call {
        name: "GetNormalizationForwardTrainingWorkspaceSize",
        algo: Some(3),
        ops: Some(2),
        x: 4,
        others: &[6],
        parameters: &[7, 9],
        activation: 8,
        added: [5, 5],
        optional: &[5, 8],
        groups: Some(11),
        ..NONE
    },
    Call {
        name: "GetNormalizationBackwardWorkspaceSize",
        algo: Some(3),
        ops: Some(2),
        x: 4,
        others: &[6, 8],
        parameters: &[9, 11],
        activation: 10,
        added: [7, 7],
        optional: &[5, 7, 10],
        groups: Some(13),
        ..NONE
    },
    Call {
        name: "GetNormalizationTrainingReserveSpaceSize",
        algo: Some(3),
        ops: Some(2),
        x: 5,
        activation: 4,
        optional: &[4],
        groups: Some(7),
        ..NONE
    },
];

/// RELU and CLIPPED_RELU, whose slopes take a byte each; the identity has none.
const MASKED: [i64; 2] = [1, 3];
const IDENTITY: i64 = 5;

/// The promise for a step of these calls, given the tensors and the modes of activations.
pub fn promise(
    step: &Step, tensors: &HashMap<String, Tensor>, activations: &HashMap<String, i64>,
) -> Option<Promise> {
    done(step, tensors, activations).or_else(|| compared(step, tensors))
}

/// What the original does not fuse it refuses, before it compares tensors; what it fuses it
/// compares, and answers with BAD_PARAM where they do not agree. Done otherwise, they are compared
/// likewise: a tensor of other dims or another type than x, parameters that are not those of its
/// groups, or, where something is to be added, nothing to add.
fn compared(step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
    let call = CALLS.iter().find(|call| call.name == step.function)?;
    let tensor = |index: usize| tensors.get(step.args.get(index)?);
    let (ops, mode, x) = (step.int(call.ops?)?, step.int(call.mode)?, tensor(call.x)?);
    let refused = matches!(ops, 1 | 2) && step.status() == NOT_SUPPORTED;
    let known = call.algo.is_none_or(|index| matches!(step.int(index), Some(0 | 1)))
        && (0..=2 - i64::from(call.algo.is_some())).contains(&mode)
        && call.groups.is_none_or(|index| step.int(index) == Some(1));
    let floating = [0, 1, 2, 9, 12, 13].contains(&x.data_type) && x.format != Some(VECT_C);
    // Types of parameters that BFLOAT16 does not go with are told apart before.
    let is_told =
        x.data_type == 9 && call.parameters.iter().any(|&k| tensor(k).is_some_and(|p| p.data_type != 0));
    if !(refused && known && floating) || is_told {
        return None;
    }
    let differs = |index: usize| {
        tensor(index).is_none_or(|other| other.dims != x.dims || other.data_type != x.data_type)
    };
    let of_group = group(x, mode);
    let unfit = |index: usize| {
        tensor(index).is_none_or(|s| s.data_type != i64::from(x.data_type == 1) || s.dims != of_group)
    };
    let adds = ops == 2 && call.epsilon.is_some();
    let disagree = call.others.iter().any(|&k| differs(k))
        || call.parameters.iter().any(|&k| unfit(k))
        || adds && (differs(call.added[0]) || step.args[call.added[1]] == "NULL");
    disagree.then_some(Promise { departure: "normalisation-compared", status: BAD_PARAM })
}

/// The dims of parameters and statistics.
fn group(x: &Tensor, mode: i64) -> Vec<i64> {
    let kept = |k: usize| k == 1 || (k > 1 && mode == 0);
    (0..x.dims.len()).map(|k| if kept(k) { x.dims[k] } else { 1 }).collect()
}

fn done(
    step: &Step, tensors: &HashMap<String, Tensor>, activations: &HashMap<String, i64>,
) -> Option<Promise> {
    if ![BAD_PARAM, NOT_SUPPORTED].contains(&step.status()) {
        return None;
    }
    let call = CALLS.iter().find(|call| call.name == step.function)?;
    let tensor = |index: usize| tensors.get(step.args.get(index)?);
    let given = |index: usize| step.args.get(index).is_some_and(|token| token != "NULL");
    let complete = (0..step.args.len()).all(|index| given(index) || call.optional.contains(&index));
    let paired = call.saved.is_none_or(|[mean, inverse]| given(mean) == given(inverse));
    let one_group = call.groups.is_none_or(|index| step.int(index) == Some(1));
    let known_algo = call.algo.is_none_or(|index| matches!(step.int(index), Some(0 | 1)));
    let modes = if call.algo.is_some() { 0..=1 } else { 0..=2 };
    let positive = call
        .epsilon
        .is_none_or(|index| step.args[index].parse::<f64>().is_ok_and(|e| e >= 0.0 || e.is_nan()));
    if !(complete && paired && one_group && known_algo && positive && modes.contains(&step.int(call.mode)?)) {
        return None;
    }
    let x = tensor(call.x)?;
    let alike = |other: &Tensor| {
        let moves = other.expected_strides().iter().zip(&other.dims).all(|(&s, &d)| d == 1 || s != 0);
        other.dims == x.dims && other.data_type == x.data_type && other.format != Some(VECT_C) && moves
    };
    let floating = [0, 1, 2, 9, 12, 13].contains(&x.data_type) || (x.data_type == 3 && !call.training);
    if !floating || x.format == Some(VECT_C) || !call.others.iter().all(|&k| tensor(k).is_some_and(alike)) {
        return None;
    }
    let of_group = group(x, step.int(call.mode)?);
    let fits = |index: usize| {
        tensor(index).is_some_and(|s| {
            let moves = s.expected_strides().iter().zip(&s.dims).all(|(&s, &d)| d == 1 || s != 0);
            s.data_type == i64::from(x.data_type == 1)
                && s.dims == of_group
                && moves
                && s.format != Some(VECT_C)
        })
    };
    if !call.parameters.iter().all(|&index| fits(index)) {
        return None;
    }
    if let [first, second] = call.parameters {
        let (first, second) = (tensor(*first)?, tensor(*second)?);
        if first.expected_strides() != second.expected_strides() {
            return None;
        }
    }
    let ops = call.ops.map_or(Some(0), |index| step.int(index))?;
    if !(0..=2).contains(&ops) {
        return None;
    }
    if ops > 0 {
        let activation = *activations.get(step.args.get(call.activation)?)?;
        let elements: i64 = x.dims.iter().product();
        let size = if MASKED.contains(&activation) {
            1
        } else if x.data_type == 1 {
            8
        } else {
            4
        };
        let reserve = call.reserve.filter(|_| ops == 2 && activation != IDENTITY);
        let room =
            reserve.is_none_or(|k| given(k - 1) && step.int(k).is_some_and(|room| room >= elements * size));
        let added = ops == 1
            || call.added[0] == 99
            || (tensor(call.added[0]).is_some_and(alike) && given(call.added[1]));
        let bias = ops == 2 || activation == IDENTITY || call.bias.is_none_or(given);
        if !(room && added && bias) {
            return None;
        }
    }
    Some(Promise { departure: "normalisation", status: OK })
}
