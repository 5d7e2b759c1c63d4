//! The departure of causal convolutions: any number of taps from 1 on, any alignment, any length of
//! the transforms.

use super::case::Step;
use super::departures::{BAD_PARAM, NOT_SUPPORTED, OK, Promise};

/// Where the arguments of a call are.
struct Places {
    pointers: Vec<usize>,
    /// Batch, channels, positions, and one or two numbers of taps.
    sizes: std::ops::Range<usize>,
    data_type: usize,
    gradient: Option<usize>,
    activation: Option<usize>,
    /// Sizes of workspace and reserve space of the long transforms.
    buffers: Option<[usize; 2]>,
}

impl Places {
    fn of(function: &str) -> Option<Places> {
        let places = |pointers: usize, sizes: usize, gradient: bool, activation: bool| {
            let data_type = 1 + pointers + sizes;
            Places {
                pointers: (1..=pointers).collect(),
                sizes: 1 + pointers..data_type,
                data_type,
                gradient: gradient.then_some(data_type + 1),
                activation: activation.then_some(data_type + 1 + usize::from(gradient)),
                buffers: None,
            }
        };
        let long = |pointers: Vec<usize>, sizes: std::ops::Range<usize>, buffers| Places {
            pointers,
            data_type: sizes.end,
            sizes,
            gradient: None,
            activation: None,
            buffers,
        };
        Some(match function {
            "CausalConv1dForward" | "CausalConv1dNwhForward" => places(4, 4, false, true),
            "CausalConv1dBackward" | "CausalConv1dNwhBackward" => places(7, 4, true, true),
            "B2BCausalConv1dForward" => places(6, 5, false, false),
            "B2BCausalConv1dBackward" => places(10, 5, true, false),
            "FFTCausalConv1dForward" => places(3, 4, false, false),
            "FFTCausalConv1dBackward" => places(5, 4, false, false),
            "LongFFTCausalConv1dGetBufferSizes" => long(vec![5, 6], 0..4, None),
            "LongFFTCausalConv1dForward" | "LongFFTCausalConv1dBackward" => {
                long(vec![1, 2, 3, 9, 11], 4..8, Some([10, 12]))
            }
            _ => return None,
        })
    }
}

/// Bytes of an element of the types that are convolved.
fn size_of(data_type: i64) -> Option<i64> {
    match data_type {
        0 => Some(4),
        1 => Some(8),
        2 | 9 => Some(2),
        _ => None,
    }
}

/// How far a buffer of the recordings is from where it is aligned.
fn shift(token: &str) -> i64 {
    token.split(':').nth(2).and_then(|shift| shift.parse().ok()).unwrap_or(0)
}

/// What the library answers.
fn status(step: &Step, places: &Places) -> Option<i64> {
    if places.pointers.iter().any(|&at| step.args[at] == "NULL") {
        return Some(BAD_PARAM);
    }
    let sizes = places.sizes.clone().map(|at| step.int(at)).collect::<Option<Vec<_>>>()?;
    let is_activation = match places.activation {
        Some(at) => (0..=1).contains(&step.int(at)?),
        None => true,
    };
    if !is_activation || sizes.iter().any(|&size| size < 1) {
        return Some(BAD_PARAM);
    }
    let data_type = step.int(places.data_type)?;
    let Some(size) = size_of(data_type) else { return Some(NOT_SUPPORTED) };
    if let Some(at) = places.gradient
        && step.int(at)? != i64::from(data_type == 1)
    {
        return Some(NOT_SUPPORTED);
    }
    if let Some([workspace, reserve]) = places.buffers {
        let part = |elements: i64| (elements * size + 63) / 64 * 64;
        let needed = part(sizes[0] * sizes[1] * sizes[2]) + part(sizes[1] * sizes[3]);
        // What is copied is aligned to its elements.
        let odd = |at: &usize| shift(&step.args[*at]) % size != 0;
        let data = places.pointers.iter().filter(|&&at| at != 9);
        if step.int(workspace)? < 64 || step.int(reserve)? < needed || data.into_iter().any(odd) {
            return Some(BAD_PARAM);
        }
    }
    Some(OK)
}

/// The promise for a step of these calls.
pub fn promise(step: &Step) -> Option<Promise> {
    let status = status(step, &Places::of(&step.function)?)?;
    (status != step.status()).then_some(Promise { departure: "causal", status })
}
