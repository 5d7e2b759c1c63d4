//! `cudnn_shim.h`: what a handle is, and what calls did.

use std::ffi::{c_char, c_int};

use cudnn_shim_macros::entry;

use super::arg::results;
use super::layout::store_string;
use super::types::{cudnnHandle_t, cudnnStatus_t};
use super::{context, recorded};

/// The name of the core that a handle is bound to: `cpu` or `cuda`.
///
/// Status: BAD_PARAM for a handle that is not alive, if `name` is NULL, or if `nameSize` bytes do not hold the name and its
/// end (8 do).
///
/// # Safety
/// `name` is NULL or valid for writes of `nameSize` bytes.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetCore(
    handle: cudnnHandle_t, nameSize: usize, name: *mut c_char,
) -> cudnnStatus_t {
    let core = context::with(handle, |context| Ok(if context.is_cuda() { "cuda" } else { "cpu" }))?;
    // SAFETY: `name` is NULL or valid for writes of `nameSize` bytes.
    unsafe { store_string(core, nameSize, name, "name") }
}

/// The number of host threads that a large call with this handle is divided among, the caller's included; 1 on the CUDA core.
///
/// Status: BAD_PARAM for a handle that is not alive or if `threads` is NULL.
///
/// # Safety
/// `threads` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetThreads(handle: cudnnHandle_t, threads: *mut c_int) -> cudnnStatus_t {
    let count = context::with(handle, |context| Ok(context.threads()))?;
    results!(new threads = count as c_int)
}

/// Whether calls of all threads keep the text of their plans for cudnnShimGetLastPlan: 0 no (the default), else yes.
///
/// It costs a call some microseconds.
///
/// Status: SUCCESS.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimRecordPlans(enable: c_int) -> cudnnStatus_t {
    recorded::record_plans(enable != 0);
    Ok(())
}

/// The plan of the calling thread's last recorded call as text, as the log shows it; empty if there is none.
///
/// `*needed`, if not NULL, becomes the size of the text and its end. `plan` may be NULL if `planSize` is 0.
///
/// Status: BAD_PARAM if `planSize` bytes are too few; nothing is written to `plan` then.
///
/// # Safety
/// `plan` is NULL or valid for writes of `planSize` bytes, `needed` NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetLastPlan(
    planSize: usize, plan: *mut c_char, needed: *mut usize,
) -> cudnnStatus_t {
    let text = recorded::last_plan();
    // SAFETY: `needed` is NULL or valid for one write, `plan` is NULL or valid for writes of `planSize` bytes.
    unsafe {
        super::arg::set_optional(needed, text.len() + 1);
        if plan.is_null() && planSize == 0 { Ok(()) } else { store_string(&text, planSize, plan, "plan") }
    }
}
