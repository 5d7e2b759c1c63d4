//! The departures of dropout, bias gradient and normalisation: more types, ranks and strides.

use std::collections::{HashMap, HashSet};

use super::case::Step;
use super::departures::{BAD_PARAM, NOT_SUPPORTED, OK, Promise, Tensor, VECT_C};
use super::normal;

const BFLOAT16: i64 = 9;

/// Floating types that the default mode normalises and drops out, less what the original knows.
const FP8: std::ops::RangeInclusive<i64> = 12..=13;

/// What the descriptors of a case's operations hold.
#[derive(Default)]
pub struct Training {
    /// Training that have states.
    states: HashSet<String>,
    /// The modes of activations.
    activations: HashMap<String, i64>,
}

impl Training {
    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        let given = step.args.get(3).is_some_and(|states| states != "NULL");
        match step.function.as_str() {
            "RestoreDropoutDescriptor" if !given => _ = self.states.remove(&step.args[0]),
            "SetDropoutDescriptor" | "RestoreDropoutDescriptor" if given => {
                self.states.insert(step.args[0].clone());
            }
            "SetActivationDescriptor" => {
                self.activations.extend(step.int(1).map(|mode| (step.args[0].clone(), mode)));
            }
            _ => {}
        }
    }

    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        let ready = step.function != "DropoutForward" || self.states.contains(&step.args[1]);
        promise(step, tensors).filter(|_| ready).or_else(|| normal::promise(step, tensors, &self.activations))
    }
}

fn promise(step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
    let tensor = |index: usize| tensors.get(step.args.get(index)?);
    let complete = step.args.iter().all(|token| token != "NULL");
    match step.function.as_str() {
        "DropoutForward" | "DropoutBackward" if step.status() != OK && complete => {
            let (x, y) = (tensor(2)?, tensor(4)?);
            let floating =
                (0..=2).contains(&x.data_type) || x.data_type == BFLOAT16 || FP8.contains(&x.data_type);
            let room = step.int(7)? >= 4 * ((elements(x) + 31) / 32);
            let apart = step.args[3] != step.args[5] || x.expected_strides() == y.expected_strides();
            let fits = x.dims == y.dims && x.data_type == y.data_type && floating && room && apart;
            (fits && plain(x) && is_destination(y)).then_some(Promise { departure: "dropout", status: OK })
        }
        "ConvolutionBackwardBias" if step.status() != OK && complete => {
            let (dy, db) = (tensor(2)?, tensor(5)?);
            let sums = dy.rank == db.rank
                && (0..dy.dims.len()).all(|k| db.dims[k] == if k == 1 { dy.dims[1] } else { 1 });
            let fits =
                sums && dy.data_type == db.data_type && has_data(dy) && has_data(db) && is_destination(db);
            fits.then_some(Promise { departure: "bias-gradient", status: OK })
        }
        _ => None,
    }
    .filter(|_| [BAD_PARAM, NOT_SUPPORTED].contains(&step.status()))
}

fn elements(tensor: &Tensor) -> i64 {
    tensor.dims.iter().product()
}

/// Vectors of a type without vectors describe no data.
fn has_data(tensor: &Tensor) -> bool {
    tensor.format != Some(VECT_C) || tensor.lanes() > 1
}

/// One channel per element, as NCHW or NHWC or with strides.
fn plain(tensor: &Tensor) -> bool {
    tensor.lanes() == 1 && tensor.format != Some(VECT_C)
}

/// No two elements at one address.
fn is_destination(tensor: &Tensor) -> bool {
    let mut axes: Vec<(i64, i64)> = tensor
        .expected_strides()
        .iter()
        .zip(&tensor.dims)
        .filter(|&(_, &dim)| dim > 1)
        .map(|(stride, &dim)| (stride.abs(), dim))
        .collect();
    axes.sort_unstable();
    let mut reach = 1;
    axes.iter().all(|&(stride, dim)| {
        let clear = stride >= reach;
        reach = stride * dim;
        clear
    })
}
