//! The departures of activations and softmax: more ranks, types, layouts and strides, and the
//! identity.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{BAD_PARAM, OK, Promise, Tensor};

const SIGMOID: i64 = 0;
const TANH: i64 = 2;
const ELU: i64 = 4;

/// The modes of a case's activation descriptors.
#[derive(Default)]
pub struct Layers {
    modes: HashMap<String, i64>,
}

impl Layers {
    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        if step.status() == OK {
            return None;
        }
        let tensor = |index: usize| tensors.get(step.args.get(index)?);
        let given = |indices: &[usize]| indices.iter().all(|&index| step.args[index] != "NULL");
        let done = |departure, fits: bool| fits.then_some(Promise { departure, status: OK });
        match step.function.as_str() {
            "ActivationForward" => {
                self.modes.get(&step.args[1])?;
                let (x, y) = (tensor(3)?, tensor(6)?);
                let in_place = step.args[4] == step.args[7] && x.expected_strides() != y.expected_strides();
                let complete = given(&[0, 1, 2, 4, 5, 7]);
                done("activation", complete && alike(x, y) && !in_place)
            }
            "ActivationBackward" => {
                let mode = *self.modes.get(&step.args[1])?;
                let at = if [SIGMOID, TANH, ELU].contains(&mode) { 3 } else { 7 };
                let (saved, dy, dx) = (tensor(at)?, tensor(5)?, tensor(10)?);
                let in_place =
                    step.args[6] == step.args[11] && dy.expected_strides() != dx.expected_strides();
                let dims = same_dims(saved, dx) && same_dims(dy, dx);
                done("activation", given(&[0, 1, 2, at + 1, 6, 9, 11]) && dims && !in_place)
            }
            "SoftmaxForward" => {
                let (x, y) = (tensor(4)?, tensor(7)?);
                softmax(step, given(&[0, 3, 5, 6, 8]), &[y, x])
            }
            "SoftmaxBackward" => {
                let (y, dy, dx) = (tensor(4)?, tensor(6)?, tensor(9)?);
                softmax(step, given(&[0, 3, 5, 7, 8, 10]), &[y, dy, dx])
            }
            _ => None,
        }
    }

    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        if let ("SetActivationDescriptor", Some(mode)) = (step.function.as_str(), step.int(1)) {
            self.modes.insert(step.args[0].clone(), mode);
        }
    }
}

/// Done where all is well; else, where the original stops at the first stride of 0 or below, what
/// comes after it in the order of checks decides.
fn softmax(step: &Step, given: bool, tensors: &[&Tensor]) -> Option<Promise> {
    let promise = |status| Some(Promise { departure: "softmax", status });
    let odd = |tensor: &&Tensor| tensor.expected_strides().iter().any(|&stride| stride <= 0);
    let fits = tensors.iter().all(|tensor| alike(tensor, tensors[0])) && choices(step);
    let same_rank = tensors.iter().all(|tensor| tensor.rank == tensors[0].rank);
    match () {
        () if !given || !same_rank => None,
        () if fits => promise(OK).filter(|_| tensors[0].lanes() == 1),
        () if step.status() != BAD_PARAM && tensors.iter().any(odd) => promise(BAD_PARAM),
        () => None,
    }
}

fn choices(step: &Step) -> bool {
    let within = |index: usize, most: i64| step.int(index).is_some_and(|code| (0..=most).contains(&code));
    within(1, 2) && within(2, 1)
}

fn same_dims(x: &Tensor, y: &Tensor) -> bool {
    x.rank == y.rank && x.dims == y.dims && x.lanes() == y.lanes()
}

fn alike(x: &Tensor, y: &Tensor) -> bool {
    same_dims(x, y) && x.data_type == y.data_type
}
