//! Attention in one step on the CPU, and its gradients: blocks of queries by tiles of keys, whose
//! scores are in scratch alone.
//!
//! ```text
//!  forward.rs  attention                    backward.rs  its gradients
//!  problem.rs  what both have               sight.rs     which keys a query sees
//!  change.rs   what is added to scores      loops.rs     the loops over rows of scores, per level
//!  matrix.rs   rows in binary32, and back   packed.rs    rows packed for products
//!  dropout.rs  what weights are multiplied by
//! ```
//! Products are those of contractions' micro-kernels. What a row of a result is added up from comes
//! in tiles that begin at multiples of their extent, term by term: its bits depend on no other row,
//! on no other head or batch, and on no number of threads.

mod backward;
mod change;
mod dropout;
mod forward;
mod loops;
mod matrix;
mod packed;
mod problem;
mod sight;

use self::backward::Backward;
use self::forward::Forward;
use self::problem::Problem;
use super::Machine;
use super::arena::KEPT_BYTES;
use super::kind::{Call, Kind};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::attend::{Attend, AttendBackward, Kept};

/// Whether the matrices have columns, and no more than a tile, and other numbers of scores and
/// weights, and a gradient of the bias, are no wider than they are.
///
/// # Errors
/// Not supported if they do not.
fn fits(step: &Attend, gradient: Option<Scalar>) -> Result<()> {
    let fits = |width: &i64| (1..=Attend::MOST_COLUMNS).contains(width);
    if !step.widths.iter().all(fits) {
        return Err(Error::unsupported("attention of matrices without columns, or of more than 256"));
    }
    let is_known = |scalar: Scalar| [Scalar::F32, Scalar::F16, Scalar::Bf16].contains(&scalar);
    let bias = step.bias.map(|(scalar, _)| scalar);
    let kept = step.dropout.and_then(|of| match of.kept {
        Kept::Given(scalar, _) => Some(scalar),
        Kept::Drawn(_) => None,
    });
    match bias.into_iter().chain(kept).chain(gradient).all(is_known) {
        true => Ok(()),
        false => Err(Error::unsupported("a bias, or a mask of dropout, of another type")),
    }
}

impl Kind for Attend {
    /// Its scratch is that of some rows and a tile.
    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        fits(self, None)?;
        // SAFETY: the operands are those of the step.
        unsafe { Forward::new(Problem::new(self, call.at, call.machine)).run() }
    }
}

impl Kind for AttendBackward {
    /// Gradients of whole heads have sums for all of their keys.
    fn is_modest(&self, machine: Machine) -> bool {
        Backward::most_scratch(self, machine.isa) <= KEPT_BYTES
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        fits(&self.forward, self.bias.map(|(scalar, _)| scalar))?;
        // SAFETY: the operands are those of the step.
        unsafe { Backward::new(self, call.at, call.machine).run() }
    }
}
