//! The departure of CTC losses: the deterministic algorithm takes labels of any length.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{OK, Promise, Tensor};

/// The longest label that the original's deterministic algorithm takes.
const LONGEST: i64 = 255;

/// What the loss descriptors of a case hold.
#[derive(Default)]
pub struct Losses {
    /// Computation type and longest label of each.
    losses: HashMap<String, [i64; 2]>,
}

impl Losses {
    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        if step.status() == OK {
            return None;
        }
        // Where each call has probs, gradients, the algorithm, the descriptor, and lengths of
        // labels.
        let [probs, gradients, algorithm, loss, lengths] = match step.function.as_str() {
            "CTCLoss" => [1, 7, 9, 10, 4],
            "CTCLoss_v8" => [3, 9, 1, 2, usize::MAX],
            "GetCTCLossWorkspaceSize" => [1, 2, 6, 7, 4],
            "GetCTCLossWorkspaceSize_v8" => [3, 4, 1, 2, usize::MAX],
            _ => return None,
        };
        let [compute, limit] = *self.losses.get(&step.args[loss])?;
        let longest = match lengths {
            usize::MAX => limit,
            at => step.ints(at)?.into_iter().max()?,
        };
        let (probs, gradients) = (tensors.get(&step.args[probs])?, tensors.get(&step.args[gradients])?);
        let fits = probs.dims == gradients.dims && probs.rank == 3 && probs.data_type == compute;
        (step.int(algorithm) == Some(0) && longest > LONGEST && fits && compute < 2)
            .then_some(Promise { departure: "ctc", status: OK })
    }

    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        if step.function.starts_with("SetCTCLossDescriptor") {
            let loss = [step.int(1).unwrap_or(0), step.int(4).unwrap_or(0)];
            self.losses.insert(step.args[0].clone(), loss);
        }
    }
}
