//! Plans of fused operations: create, make, execute, destroy.

use std::mem::MaybeUninit;

use super::arg::Out;
use super::context;
use super::fused_ops::{constants, create, variants};
use super::guard::entry_point;
use super::lifecycle::destroy;
use super::slab::{Kind, Table};
use super::types::{
    cudnnFusedOps_t, cudnnFusedOpsConstParamPack_t, cudnnFusedOpsPlan_t, cudnnFusedOpsVariantParamPack_t,
    cudnnHandle_t, cudnnStatus_t,
};
use crate::desc::fused::FusedPlan;
use crate::error::Error;
use crate::mode::Mode;
use crate::ops::fused::FusedProblem;

static PLANS: Table<FusedPlan> = Table::new(Kind::FusedPlan);

/// Creates a fused plan, which is made next.
///
/// Status: BAD_PARAM if `plan` is NULL or for an unknown operation; nothing is written then.
///
/// # Safety
/// `plan` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsPlan(
    plan: *mut cudnnFusedOpsPlan_t,
    ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    let make = |operation| FusedPlan { operation, made: None };
    // SAFETY: as the caller promises.
    unsafe { create("cudnnCreateFusedOpsPlan", &PLANS, (plan, "plan"), ops, make) }
}

/// Destroys a fused plan; NULL is fine.
///
/// Status: BAD_PARAM for a plan that is not alive.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsPlan(plan: cudnnFusedOpsPlan_t) -> cudnnStatus_t {
    destroy!(cudnnDestroyFusedOpsPlan(plan), PLANS)
}

/// Makes a plan of constant parameters, and tells the workspace that it needs.
///
/// Operation 0, `y = conv(activation(x * eqScale + eqBias), w)` with `ySum = sum of y` and `ySqSum = sum of y * y` per
/// channel, and operation 1, `dw = filter gradient of activation(x * eqScale + eqBias) and dy`, are computed. A scale, a
/// bias, an activation or a sum whose placeholder is NULL is left out.
///
/// Operands
/// - `constPack`: descriptors of x, the convolution, the filter, y (dy), the activation, eqScale and eqBias (1 x C x 1 x
///   1), the sums (1 x K x 1 x 1); placeholders; a mode of batch normalisation other than 0
/// - `workspaceSizeInBytes`: one size, at least 16
///
/// Status, in this order
/// - BAD_PARAM: a handle, plan or pack that is not alive, a NULL pointer; plan and pack of different operations; a
///   descriptor that the operation needs was never set; shapes that do not fit; mode 0
/// - NOT_SUPPORTED: operations 2 to 6; types that are not multiplied; in strict mode what the original refuses: other
///   than HALF in NHWC, a math type without tensor cores, an activation other than RELU, unaligned placeholders
///
/// A failing call writes nothing and leaves the plan as it was. Source: observed on 9.27.0.
///
/// # Safety
/// `workspaceSizeInBytes` is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMakeFusedOpsPlan(
    handle: cudnnHandle_t,
    plan: cudnnFusedOpsPlan_t,
    constPack: cudnnFusedOpsConstParamPack_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    entry_point!(cudnnMakeFusedOpsPlan(handle, plan, constPack, workspaceSizeInBytes), || {
        context::check(handle)?;
        let pack = constants(constPack)?;
        // SAFETY: as the caller promises.
        let size = unsafe { Out::new(workspaceSizeInBytes, "workspaceSizeInBytes") }?;
        PLANS.with_mut(plan.addr(), "plan", |plan| {
            if plan.operation != pack.operation {
                return Err(Error::mismatch(format!(
                    "a plan of operation {} and a pack of operation {}",
                    plan.operation.number(),
                    pack.operation.number()
                )));
            }
            let problem = FusedProblem::new(&pack, Mode::current())?;
            problem.parts()?;
            size.set(problem.workspace().max(16));
            plan.made = Some(pack);
            Ok(())
        })
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
/// - BAD_PARAM: the workspace is NULL or too small
/// - BAD_PARAM: a data pointer is NULL or off its alignment
///
/// Aliasing: as cudnnConvolutionForward.
///
/// Source: the formula from NVIDIA's documentation.
///
/// # Safety
/// Every data pointer is valid for the span of its descriptor, the workspace for its size.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFusedOpsExecute(
    handle: cudnnHandle_t,
    plan: cudnnFusedOpsPlan_t,
    varPack: cudnnFusedOpsVariantParamPack_t,
) -> cudnnStatus_t {
    entry_point!(cudnnFusedOpsExecute(handle, plan, varPack), || {
        context::with_note(handle, |context, note| {
            let plan = PLANS.with(plan.addr(), "plan", |plan| Ok(plan.clone()))?;
            let pack = variants(varPack)?;
            if plan.operation != pack.operation {
                return Err(Error::mismatch(format!(
                    "a plan of operation {} and a pack of operation {}",
                    plan.operation.number(),
                    pack.operation.number()
                )));
            }
            let made = plan.made.ok_or_else(|| Error::mismatch("the plan was not made"))?;
            let problem = FusedProblem::new(&made, Mode::current())?;
            let needed = problem.workspace();
            let given = pack.value(WORKSPACE_SIZE) as usize;
            let pointer = |label: i32| {
                std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(pack.value(label) as usize)
            };
            if needed > 0 && (given < needed || pointer(WORKSPACE).is_null()) {
                let rule = format!("{needed} bytes of workspace are needed");
                return Err(Error::argument("workspace size", given as i64, rule));
            }
            for part in problem.parts()? {
                let mut at = Vec::with_capacity(part.plan.operands().len());
                for (operand, place) in part.plan.operands().iter().zip(&part.places) {
                    let address = pointer(place.label);
                    super::arg::data(address, operand.scalar.size(), operand.name)?;
                    at.push(address.wrapping_byte_add(place.offset).into());
                }
                note.set(format_args!("cudnnFusedOpsExecute: {}", part.plan));
                // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, which are
                // the plans'; what lies in the workspace is inside its size.
                unsafe { context.run(&*part.plan, &at) }?;
            }
            Ok(())
        })
    })
}

/// Labels of variant parameters.
const WORKSPACE: i32 = 9;
const WORKSPACE_SIZE: i32 = 100;
