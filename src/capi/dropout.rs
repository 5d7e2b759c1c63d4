//! Dropout descriptors: create, set, restore, get, destroy; sizes of the random state and of the mask.

use std::ffi::{c_ulonglong, c_void};

use super::arg::{self, Out};
use super::guard::entry;
use super::slab::{Kind, Table};
use super::types::{cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, lifecycle, tensor};
use crate::desc::{DropoutDescriptor, dropout};
use crate::error::Result;
use crate::mode::Mode;

static DROPOUTS: Table<DropoutDescriptor> = Table::new(Kind::Dropout);

/// Whether a descriptor that may be left out is alive where it is given.
///
/// # Errors
/// Bad parameter for a descriptor that is neither NULL nor alive.
pub(crate) fn check_optional(desc: cudnnDropoutDescriptor_t, argument: &'static str) -> Result<()> {
    if desc.is_null() { Ok(()) } else { DROPOUTS.with(desc.addr(), argument, |_| Ok(())) }
}

/// Creates a dropout descriptor: probability 0, no random state.
///
/// Status: BAD_PARAM if `dropoutDesc` is NULL.
///
/// # Safety
/// `dropoutDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateDropoutDescriptor(
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: as the caller promises.
    unsafe { lifecycle::create("cudnnCreateDropoutDescriptor", &DROPOUTS, dropoutDesc, "dropoutDesc") }
}

/// Destroys a dropout descriptor; NULL is fine. The random state stays the caller's.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyDropoutDescriptor(dropoutDesc: cudnnDropoutDescriptor_t) -> cudnnStatus_t {
    lifecycle::destroy("cudnnDestroyDropoutDescriptor", &DROPOUTS, dropoutDesc, "dropoutDesc")
}

/// Bytes of random state that the caller provides for a dropout: 16.
///
/// A seed and a counter. The original's figure depends on the device.
///
/// Status: BAD_PARAM for a handle that is not alive or if `sizeInBytes` is NULL.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetStatesSize(
    handle: cudnnHandle_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let arguments = format_args!("handle={handle:p}, sizeInBytes={sizeInBytes:p}");
    entry("cudnnDropoutGetStatesSize", arguments, || {
        context::check(handle)?;
        // SAFETY: as the caller promises.
        unsafe { Out::new(sizeInBytes, "sizeInBytes") }?.set(dropout::STATES_SIZE);
        Ok(())
    })
}

/// Bytes that dropout keeps between forward and backward: one bit per element, in words of 4 bytes.
///
/// `4 * ceil(product of stored dims / 32)`; strides do not matter. A tensor that was never set takes 4.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive or if `sizeInBytes` is NULL;
/// NOT_SUPPORTED for INT8 and, in strict mode, more than 2^31-1 elements.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetReserveSpaceSize(
    xdesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let arguments = format_args!("xdesc={xdesc:p}, sizeInBytes={sizeInBytes:p}");
    entry("cudnnDropoutGetReserveSpaceSize", arguments, || {
        let x = tensor::get(xdesc, "xdesc")?;
        // SAFETY: as the caller promises.
        let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
        size.set(dropout::reserve_space_size(&x, Mode::current())?);
        Ok(())
    })
}

/// Sets probability and seed of a dropout, and where its random state lies.
///
/// `states` may be NULL; it is remembered, not touched. A failing call changes nothing.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive (observed on 9.27.0), a `dropout` outside 0
/// to 1 or fewer bytes than cudnnDropoutGetStatesSize asks for.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: f32,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "dropoutDesc={dropoutDesc:p}, handle={handle:p}, dropout={dropout}, states={states:p}, \
         stateSizeInBytes={stateSizeInBytes}, seed={seed}"
    );
    entry("cudnnSetDropoutDescriptor", arguments, || {
        set(dropoutDesc, handle, || DropoutDescriptor::new(dropout, states.addr(), stateSizeInBytes, seed))
    })
}

/// Sets probability and seed of a dropout, and where a random state lies that an earlier dropout has left.
///
/// `states` may be NULL; it is remembered, not touched. A failing call changes nothing.
///
/// Status: as cudnnSetDropoutDescriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnRestoreDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: f32,
    states: *mut c_void,
    stateSizeInBytes: usize,
    seed: c_ulonglong,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "dropoutDesc={dropoutDesc:p}, handle={handle:p}, dropout={dropout}, states={states:p}, \
         stateSizeInBytes={stateSizeInBytes}, seed={seed}"
    );
    entry("cudnnRestoreDropoutDescriptor", arguments, || {
        set(dropoutDesc, handle, || DropoutDescriptor::new(dropout, states.addr(), stateSizeInBytes, seed))
    })
}

fn set(
    desc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    make: impl FnOnce() -> Result<DropoutDescriptor>,
) -> Result<()> {
    context::check(handle)?;
    DROPOUTS.replace(desc.addr(), "dropoutDesc", make)
}

/// Reads probability, address of the random state, and seed of a dropout.
///
/// A NULL output is left out.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive (observed on 9.27.0).
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t,
    handle: cudnnHandle_t,
    dropout: *mut f32,
    states: *mut *mut c_void,
    seed: *mut c_ulonglong,
) -> cudnnStatus_t {
    let arguments = format_args!("dropoutDesc={dropoutDesc:p}, handle={handle:p}");
    entry("cudnnGetDropoutDescriptor", arguments, || {
        context::check(handle)?;
        let desc = DROPOUTS.get(dropoutDesc.addr(), "dropoutDesc")?;
        // SAFETY: as the caller promises, for all of them.
        unsafe {
            arg::set_optional(dropout, desc.probability());
            arg::set_optional(states, std::ptr::with_exposed_provenance_mut(desc.states()));
            arg::set_optional(seed, desc.seed());
        }
        Ok(())
    })
}
