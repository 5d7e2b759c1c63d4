//! `cudnn_shim.h`: filters that stay packed from call to call, by permission.

use cudnn_shim_macros::entry;

use super::arg::results;
use super::context;
use super::types::{cudnnHandle_t, cudnnStatus_t};
use crate::exec::Context;

/// Says that filters stay as they are: what calls with this handle pack of them is kept in up to as many bytes, 0 for none (the default).
///
/// From then on no filter that a convolution or its gradient of the data reads with this handle may change, nor may its memory have other
/// filters, until cudnnShimForgetFilters, this call or the end of the handle; results do not depend on it then. Where
/// there is no room the filters used least recently go. With `CUDNN_SHIM_CHECK=1` a call whose filters were changed fails and names them. A
/// new handle has the limit that `CUDNN_SHIM_CONSTANT_FILTERS` names. What is kept already is forgotten. The CUDA core keeps nothing.
///
/// Status: BAD_PARAM for a handle that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimSetConstantFilters(handle: cudnnHandle_t, bytes: usize) -> cudnnStatus_t {
    context::with_mut(handle, |context| context.set_constant_filters(bytes))
}

/// Forgets the filters that are kept for this handle, which may then change; those of later calls are kept again.
///
/// Status: BAD_PARAM for a handle that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimForgetFilters(handle: cudnnHandle_t) -> cudnnStatus_t {
    context::with_mut(handle, Context::forget_filters)
}

/// Bytes of the filters that are kept for this handle.
///
/// Status: BAD_PARAM for a handle that is not alive or if `bytes` is NULL.
///
/// # Safety
/// `bytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimGetConstantFilters(
    handle: cudnnHandle_t, bytes: *mut usize,
) -> cudnnStatus_t {
    let kept = context::with(handle, |context| Ok(context.filter_bytes()))?;
    results!(new bytes = kept)
}
