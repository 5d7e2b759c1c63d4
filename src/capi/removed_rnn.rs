//! Calls on recurrent networks that version 9 removed and that the descriptor of version 8 can serve.

use std::mem::MaybeUninit;

use super::context;
use super::guard::entry_point;
use super::rnn;
use super::types::{
    cudnnHandle_t, cudnnNanPropagation_t, cudnnRNNClipMode_t, cudnnRNNDescriptor_t, cudnnStatus_t, raw,
};

/// Sets whether and between which bounds the LSTM cell state is clipped, and the NaN rule.
///
/// Status: BAD_PARAM for a handle that is not alive; else as cudnnRNNSetClip_v8.
#[unsafe(no_mangle)]
#[deprecated]
pub extern "C" fn cudnnRNNSetClip(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: MaybeUninit<cudnnRNNClipMode_t>,
    clipNanOpt: MaybeUninit<cudnnNanPropagation_t>,
    lclip: f64,
    rclip: f64,
) -> cudnnStatus_t {
    let (mode, nan) = (raw(clipMode), raw(clipNanOpt));
    entry_point!(cudnnRNNSetClip(handle, rnnDesc, clipMode, clipNanOpt, lclip, rclip), || {
        context::check(handle)?;
        rnn::set_clip(rnnDesc, mode, nan, lclip, rclip)
    })
}

/// Reads mode, NaN rule and bounds of the clipping; NULL outputs are left out.
///
/// Status: BAD_PARAM for a handle or a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnRNNGetClip(
    handle: cudnnHandle_t,
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut f64,
    rclip: *mut f64,
) -> cudnnStatus_t {
    entry_point!(cudnnRNNGetClip(handle, rnnDesc, clipMode, clipNanOpt, lclip, rclip), || {
        context::check(handle)?;
        // SAFETY: as the caller promises, for all of them.
        unsafe { rnn::get_clip(rnnDesc, clipMode, clipNanOpt, lclip, rclip) }
    })
}
