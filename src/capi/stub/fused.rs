//! Plans of fused operations.

use super::{unsupported, unsupported_on};
use crate::capi::types::{
    cudnnFusedOps_t, cudnnFusedOpsConstParamLabel_t, cudnnFusedOpsConstParamPack_t, cudnnFusedOpsPlan_t,
    cudnnFusedOpsVariantParamLabel_t, cudnnFusedOpsVariantParamPack_t, cudnnHandle_t, cudnnStatus_t,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Creates the constant parameters of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsConstParamPack(
    constPack: *mut cudnnFusedOpsConstParamPack_t,
    ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    unsupported("cudnnCreateFusedOpsConstParamPack")
}

/// Destroys the constant parameters of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsConstParamPack(
    constPack: cudnnFusedOpsConstParamPack_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyFusedOpsConstParamPack")
}

/// Sets one constant parameter of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFusedOpsConstParamPackAttribute(
    constPack: cudnnFusedOpsConstParamPack_t,
    paramLabel: MaybeUninit<cudnnFusedOpsConstParamLabel_t>,
    param: *const c_void,
) -> cudnnStatus_t {
    unsupported("cudnnSetFusedOpsConstParamPackAttribute")
}

/// One constant parameter of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFusedOpsConstParamPackAttribute(
    constPack: cudnnFusedOpsConstParamPack_t,
    paramLabel: MaybeUninit<cudnnFusedOpsConstParamLabel_t>,
    param: *mut c_void,
    isNULL: *mut c_int,
) -> cudnnStatus_t {
    unsupported("cudnnGetFusedOpsConstParamPackAttribute")
}

/// Creates the changeable parameters of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsVariantParamPack(
    varPack: *mut cudnnFusedOpsVariantParamPack_t,
    ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    unsupported("cudnnCreateFusedOpsVariantParamPack")
}

/// Destroys the changeable parameters of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsVariantParamPack(
    varPack: cudnnFusedOpsVariantParamPack_t,
) -> cudnnStatus_t {
    unsupported("cudnnDestroyFusedOpsVariantParamPack")
}

/// Sets one changeable parameter of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnSetFusedOpsVariantParamPackAttribute(
    varPack: cudnnFusedOpsVariantParamPack_t,
    paramLabel: MaybeUninit<cudnnFusedOpsVariantParamLabel_t>,
    ptr: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnSetFusedOpsVariantParamPackAttribute")
}

/// One changeable parameter of a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetFusedOpsVariantParamPackAttribute(
    varPack: cudnnFusedOpsVariantParamPack_t,
    paramLabel: MaybeUninit<cudnnFusedOpsVariantParamLabel_t>,
    ptr: *mut c_void,
) -> cudnnStatus_t {
    unsupported("cudnnGetFusedOpsVariantParamPackAttribute")
}

/// Creates a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnCreateFusedOpsPlan(
    plan: *mut cudnnFusedOpsPlan_t,
    ops: MaybeUninit<cudnnFusedOps_t>,
) -> cudnnStatus_t {
    unsupported("cudnnCreateFusedOpsPlan")
}

/// Destroys a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnDestroyFusedOpsPlan(plan: cudnnFusedOpsPlan_t) -> cudnnStatus_t {
    unsupported("cudnnDestroyFusedOpsPlan")
}

/// Builds a fused plan from its constant parameters and tells its workspace. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnMakeFusedOpsPlan(
    handle: cudnnHandle_t,
    plan: cudnnFusedOpsPlan_t,
    constPack: cudnnFusedOpsConstParamPack_t,
    workspaceSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    unsupported_on("cudnnMakeFusedOpsPlan", handle)
}

/// Runs a fused plan. Not built yet.
///
/// # Safety
/// No pointer is followed.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnFusedOpsExecute(
    handle: cudnnHandle_t,
    plan: cudnnFusedOpsPlan_t,
    varPack: cudnnFusedOpsVariantParamPack_t,
) -> cudnnStatus_t {
    unsupported_on("cudnnFusedOpsExecute", handle)
}
