//! Fused operations that the original serves: a plan is bound to the one who made it, as its
//! workspace has the size of that one. A plan of the original also has room for this library, which
//! serves what the original then refuses to run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::beside::{self, Forwarded, Side};
use super::fused_ops;
use super::twin_place::Pinned;
use super::types::{cudnnFusedOpsConstParamPack_t, cudnnFusedOpsVariantParamPack_t, cudnnHandle_t};
use crate::desc::fused::FusedOperation;
use crate::error::Result;
use crate::original::{Failed, FusedOps, Twin};

/// The functions of the original beside a handle.
fn functions(side: &Side) -> FusedOps {
    FusedOps::new(&side.original.library)
}

/// What becomes of a call with this outcome: what the original refuses, this library serves.
fn outcome(side: &Side, (name, told): (&'static str, &AtomicBool), theirs: Result<(), Failed>) -> Forwarded {
    match theirs {
        Err(failure) if failure.is_refusal() => {
            beside::tell_refusal(name, told, &failure);
            Forwarded::Refused(failure)
        }
        theirs => Forwarded::Served(side.told(name, theirs)),
    }
}

/// Lets the original make a plan of `operation`, and gives it to `keep` with its bytes of workspace.
pub(super) fn make(
    handle: cudnnHandle_t, operation: FusedOperation, pack: cudnnFusedOpsConstParamPack_t,
    keep: impl FnOnce(Arc<Twin>, usize) -> Result<()>,
) -> Forwarded {
    static TOLD: AtomicBool = AtomicBool::new(false);
    const NAME: &str = "cudnnMakeFusedOpsPlan";
    let Some(side) = beside::side(handle, NAME) else { return Forwarded::Ours };
    let Some(constants) = fused_ops::constants_twin(pack, &side) else { return Forwarded::Ours };
    let Ok(plan) = functions(&side).plan(operation) else { return Forwarded::Ours };
    match functions(&side).make(&side.handle, &plan, &constants) {
        Ok(bytes) => Forwarded::Served(keep(Arc::new(plan), bytes).and_then(|()| side.told(NAME, Ok(())))),
        Err(failure) => outcome(&side, (NAME, &TOLD), Err(failure)),
    }
}

/// Lets the original run the plan that it has made, with its operation, if it has made one.
///
/// # Safety
/// The pointers of the pack are valid for what the plan computes.
pub(super) unsafe fn execute(
    handle: cudnnHandle_t, made: impl FnOnce() -> Option<(FusedOperation, Pinned)>,
    pack: cudnnFusedOpsVariantParamPack_t,
) -> Forwarded {
    static TOLD: AtomicBool = AtomicBool::new(false);
    const NAME: &str = "cudnnFusedOpsExecute";
    let Some(side) = beside::side(handle, NAME) else { return Forwarded::Ours };
    let Some((operation, plan)) = made() else { return Forwarded::Ours };
    // A pack of another operation is refused by this library.
    if fused_ops::operation(pack).ok() != Some(operation) {
        return Forwarded::Ours;
    }
    let Some(variants) = fused_ops::variants_twin(pack, &side) else { return Forwarded::Ours };
    // SAFETY: the caller vouches for the pointers of the pack.
    let theirs = unsafe { functions(&side).execute(&side.handle, &plan, &variants) };
    outcome(&side, (NAME, &TOLD), theirs)
}
