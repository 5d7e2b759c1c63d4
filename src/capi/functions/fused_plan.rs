//! Plans of fused operations: create, make, execute, destroy.

use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::Out;
use super::fused_ops::{constants, create, variants};
use super::lifecycle::destroy;
use super::slab::{Kind, Table};
use super::twin_place::Pinned;
use super::types::{
    cudnnFusedOps_t, cudnnFusedOpsConstParamPack_t, cudnnFusedOpsPlan_t, cudnnFusedOpsVariantParamPack_t,
    cudnnHandle_t, cudnnStatus_t,
};
use super::{context, fused_beside};
use crate::desc::fused::{FusedOperation, FusedPlan};
use crate::error::{Error, Result};
use crate::exec::Address;
use crate::mode::Mode;
use crate::ops::Memory;
use crate::ops::fused::{FusedProblem, Numbers};
use crate::ops::part::{Base, Part, Place};

static PLANS: Table<FusedPlan> = Table::new(Kind::FusedPlan);

/// The original's plan and what it computes, if the original has made it.
fn theirs(plan: cudnnFusedOpsPlan_t) -> Option<(FusedOperation, Pinned)> {
    let operation = PLANS.with(plan.addr(), "plan", |plan| Ok(plan.operation)).ok()?;
    Some((operation, PLANS.made_twin(plan.addr())?))
}

/// # Errors
/// Bad parameter for a plan of one operation and a pack of another.
fn same(plan: FusedOperation, pack: FusedOperation) -> Result<()> {
    if plan == pack {
        return Ok(());
    }
    let text = format!("a plan of operation {} and a pack of operation {}", plan.number(), pack.number());
    Err(Error::mismatch(text))
}

/// Creates a fused plan, which is made next.
///
/// Status: BAD_PARAM if `plan` is NULL or for an unknown operation; nothing is written then.
///
/// # Safety
/// `plan` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsPlan(
    plan: *mut cudnnFusedOpsPlan_t, ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    let make = |operation| FusedPlan { operation, made: None };
    // SAFETY: `plan` is NULL or valid for one write.
    unsafe { create(&PLANS, (plan, "plan"), ops, make) }
}

/// Destroys a fused plan; NULL is fine.
///
/// Status: BAD_PARAM for a plan that is not alive.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsPlan(plan: cudnnFusedOpsPlan_t) -> cudnnStatus_t {
    destroy!(plan, PLANS)
}

/// Makes a plan of constant parameters, and tells the workspace that it needs.
///
/// - operation 0: `y = conv(activation(x * eqScale + eqBias), w)` with `ySum = sum of y` and `ySqSum = sum of y * y` per
///   channel
/// - operation 1: `dw = filter gradient of activation(x * eqScale + eqBias) and dy`
/// - operation 2: `mean = ySum / count`, `var = ySqSum / count - mean * mean`, `eqScale = scale / sqrt(var + epsilon)`, `eqBias =
///   bias - mean * eqScale`, `savedMean = mean`, `savedInvStd = 1 / sqrt(var + epsilon)`, `runningMean = (1 - factor) *
///   runningMean + factor * mean`, and so `runningVar` with `var * count / (count - 1)`
/// - operation 3: eqScale and eqBias as there, of runningMean and runningVar
/// - operation 4: `y = activation(conv(x, w) * eqScale + z * zEqScale + zEqBias)`
/// - operation 5: `y = activation(x * eqScale + eqBias + z * zEqScale + zEqBias)`; the bit mask has the bit of each element of y above
///   0
/// - operation 6: `dz = dy` where the bit mask has a bit, else 0, and dx, dscale and dbias of dz as cudnnBatchNormalizationBackward makes
///   them from x, scale and saved statistics
///
/// What has a placeholder of NULL is left out, an activation that is not set too; the statistics of 2 and 3 are needed, and in 6 mask,
/// scale and saved statistics. The bit mask is INT32 `[roundup(N * H * W, 32), roundup(C, 64) / 32, 1]`: bit `c % 32` of word
/// `[row][c / 32]` is channel c of position `row` in the order N, H, W; the bits beyond are 0.
///
/// Operands
/// - `constPack`: descriptors of x, z, the convolution, the filter, y (dy), dx, dz, the bit mask, the activation; of scales, biases, sums and
///   statistics (1 x C x 1 x 1, floating types); placeholders; a mode of batch normalisation other than 0
/// - `workspaceSizeInBytes`: one size, at least 16
///
/// Status, in this order
/// - BAD_PARAM: a handle, plan or pack that is not alive, a NULL pointer; plan and pack of different operations; a
///   descriptor that the operation needs was never set; shapes that do not fit; mode 0
/// - NOT_SUPPORTED: a bit mask with another activation than RELU, or of channels in blocks; types that are not multiplied; in
///   strict mode operations 4 to 6, and of 0 and 1 what cuDNN refuses: other than HALF in NHWC, a math type without
///   tensor cores, an activation other than RELU, unaligned placeholders
///
/// A failing call writes nothing and leaves the plan as it was. Source: observed on 9.27.0; the formulas from NVIDIA's
/// documentation, that of operation 4 from the labels that it takes.
///
/// # Safety
/// `workspaceSizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMakeFusedOpsPlan(
    handle: cudnnHandle_t, plan: cudnnFusedOpsPlan_t, constPack: cudnnFusedOpsConstParamPack_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let pack = constants(constPack)?;
    // SAFETY: `workspaceSizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(workspaceSizeInBytes, "workspaceSizeInBytes") }?;
    same(PLANS.with(plan.addr(), "plan", |plan| Ok(plan.operation))?, pack.operation)?;
    let own = || {
        let problem = FusedProblem::new(&pack, Mode::current())?;
        problem.parts(Numbers::SAMPLE)?;
        Ok(problem.workspace().max(16))
    };
    let set = |made| {
        PLANS.with_mut(plan.addr(), "plan", |plan| {
            plan.made = made;
            Ok(())
        })
    };
    let keep = |twin, bytes: usize| {
        // Both have room, so that this library can run what the original refuses to.
        let own = own().ok();
        set(own.map(|_| pack.clone()))?;
        PLANS.adopt(plan.addr(), twin);
        size.set(own.map_or(bytes, |own| own.max(bytes)));
        Ok(())
    };
    fused_beside::make(handle, pack.operation, constPack, keep).or(|| {
        let bytes = own()?;
        set(Some(pack.clone()))?;
        size.set(bytes);
        Ok(())
    })
}

/// Runs `plan` on `varPack`: the formula is that of its operation, as cudnnMakeFusedOpsPlan names it.
///
/// Operands
/// - `varPack`: data pointers of everything whose placeholder is not NULL, the workspace and its size; on the host for the
///   CPU core, on the device for the CUDA core
///
/// Workspace: what cudnnMakeFusedOpsPlan told, in `varPack`.
///
/// Status, in this order
/// - BAD_PARAM: a handle, plan or pack that is not alive; plan and pack of different operations; a plan that was not made
/// - BAD_PARAM: the workspace is NULL or too small; a count below 1, an epsilon below 0
/// - BAD_PARAM: a data pointer is NULL or off its alignment
///
/// Aliasing: as cudnnConvolutionForward.
///
/// Source: the formula from NVIDIA's documentation.
///
/// # Safety
/// Every data pointer is valid for the span of its descriptor, the workspace for its size.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFusedOpsExecute(
    handle: cudnnHandle_t, plan: cudnnFusedOpsPlan_t, varPack: cudnnFusedOpsVariantParamPack_t,
) -> cudnnStatus_t {
    // SAFETY: the caller vouches for the pointers of the pack.
    unsafe {
        let theirs = fused_beside::execute(handle, || theirs(plan), varPack);
        theirs.or(|| execute(handle, plan, varPack))
    }
}

/// Runs a plan that this library has made.
///
/// # Errors
/// As the call above.
///
/// # Safety
/// As for the call above.
unsafe fn execute(
    handle: cudnnHandle_t, plan: cudnnFusedOpsPlan_t, pack: cudnnFusedOpsVariantParamPack_t,
) -> Result<()> {
    context::compute(handle, "cudnnFusedOpsExecute", |call| {
        let plan = PLANS.with(plan.addr(), "plan", |plan| Ok(plan.clone()))?;
        let pack = variants(pack)?;
        same(plan.operation, pack.operation)?;
        let made = plan.made.ok_or_else(|| Error::mismatch("the plan was not made"))?;
        let problem = FusedProblem::new(&made, Mode::current())?;
        let needed = problem.workspace();
        let given = pack.value(WORKSPACE_SIZE) as usize;
        let pointer = |label: i32| {
            std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(pack.value(label) as usize)
        };
        if needed > 0 {
            let workspace = Memory { address: pointer(WORKSPACE).addr(), size: given };
            workspace.check(needed, ["workspace", "workspace size"], "the plan")?;
        }
        let numbers = Numbers {
            count: pack.value(COUNT) as i64,
            factor: f64::from_bits(pack.value(FACTOR)),
            epsilon: f64::from_bits(pack.value(EPSILON)),
        };
        let parts = problem.parts(numbers)?;
        let touched = |part: &Part| {
            let operands = part.plan.operands().iter().copied().zip(part.places.iter().copied());
            operands.filter(|(operand, _)| operand.is_touched()).collect::<Vec<_>>()
        };
        let label = |place: Place| match place.base {
            Base::Caller(label) => label as i32,
            Base::Workspace => WORKSPACE,
        };
        // All are looked at before the first is written.
        for (operand, place) in parts.iter().flat_map(touched) {
            super::arg::data(pointer(label(place)), operand.scalar.size(), operand.name)?;
        }
        let address = |place: &Place| pointer(label(*place)).wrapping_byte_add(place.offset).into();
        let addresses: Vec<Vec<Address>> =
            parts.iter().map(|part| part.places.iter().map(address).collect()).collect();
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are
        // the plans'; what lies in the workspace is inside its size.
        unsafe {
            let _held = call.hold(&parts, &addresses, None)?;
            parts.iter().zip(&addresses).try_for_each(|(part, at)| call.run_at(&*part.plan, at))?;
        }
        Ok(())
    })
}

/// Labels of variant parameters.
const WORKSPACE: i32 = 9;
const WORKSPACE_SIZE: i32 = 100;
const COUNT: i32 = 101;
const FACTOR: i32 = 102;
const EPSILON: i32 = 103;
