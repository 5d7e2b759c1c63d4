//! The number that tells which call has filled a reserve space, and for which network and batch.
//!
//! The content of a reserve space is the caller's business, as the original has it: a backward call
//! computes from whatever is there. But a training forward call that was forgotten gives wrong
//! gradients and no error, so the calls that fill a reserve space leave a number in it, which the
//! next one may look for.

use super::Problem;
use crate::desc::Choice;

/// Which call was the last to fill a reserve space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// A forward pass in training.
    Forward,
    /// The backward pass to inputs and first states, which leaves gradients where the gates were.
    Data,
}

/// The number that this call leaves for this problem.
pub fn of(problem: &Problem, filled: Filled) -> u64 {
    let network = &problem.network;
    let numbers = [
        network.cell.code().into(),
        network.bias.code().into(),
        network.data as i64,
        network.directions,
        i64::from(network.skips_input),
        network.input,
        network.hidden,
        network.projected,
        network.layers,
        i64::from(network.drops()),
        problem.sequences.batch(),
    ];
    let segments = problem.sequences.segments().iter().flat_map(|segment| [segment.steps, segment.active]);
    // FNV-1a, which two problems that are confused do not agree in but by an accident of 1 in 2^64.
    let mix = |hash: u64, number: i64| (hash ^ number as u64).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = numbers.into_iter().chain(segments).fold(0xcbf2_9ce4_8422_2325, mix);
    mix(hash, 1 + filled as i64)
}

/// What a backward call finds in a reserve space that it cannot use, and what should have filled
/// it; `None` if nothing is wrong. `wanted` is what has to come before.
pub fn complaint(problem: &Problem, found: u64, wanted: Filled) -> Option<&'static str> {
    let is_of = |filled: Filled| found == of(problem, filled);
    match wanted {
        _ if is_of(wanted) => None,
        Filled::Forward if is_of(Filled::Data) => Some(
            "the gradients by the inputs were computed from this reserve space before, which left gradients where the gates were: \
             each such call needs a forward call in training (fwdMode 1) of its own",
        ),
        Filled::Data if is_of(Filled::Forward) => Some(
            "the reserve space holds the gates of the forward call: the gradients by the inputs, which are computed from it, come first",
        ),
        _ => Some(
            "the reserve space was not filled by a forward call in training (fwdMode 1) of this network on a batch of these lengths",
        ),
    }
}
