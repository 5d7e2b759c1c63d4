//! Dropout: descriptors, sizes of the random state and of the mask, forward and backward.

use std::ffi::{c_ulonglong, c_void};
use std::sync::Arc;

use cudnn_shim_macros::entry;

use super::arg::{self, operands, results};
use super::beside::{self, Side, twinned};
use super::dropout_twins::DROPOUTS;
use super::lifecycle::{create, destroy};
use super::types::{cudnnDropoutDescriptor_t, cudnnHandle_t, cudnnStatus_t, cudnnTensorDescriptor_t};
use super::{context, tensor};
use crate::desc::{DropoutDescriptor, dropout};
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::dropout::{DropoutPlan, Pass, StatesPlan};
use crate::original::{self, Owner, Twin, Twinned};

twinned!(cudnnDropoutDescriptor_t, DROPOUTS, owned);

/// Whether a descriptor that may be left out is alive where it is given.
///
/// # Errors
/// Bad parameter for a descriptor that is neither NULL nor alive.
pub(crate) fn check_optional(desc: cudnnDropoutDescriptor_t, argument: &'static str) -> Result<()> {
    if desc.is_null() { Ok(()) } else { DROPOUTS.with(desc.addr(), argument, |_| Ok(())) }
}

/// The dropout behind the address of a descriptor, 0 for none.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive.
pub(crate) fn at(address: usize, argument: &'static str) -> Result<Option<DropoutDescriptor>> {
    if address == 0 {
        return Ok(None);
    }
    check_owner(address)?;
    DROPOUTS.get(address, argument).map(Some)
}

/// Refuses to compute with a random state that the original has made.
fn check_owner(address: usize) -> Result<()> {
    match DROPOUTS.made_twin(address) {
        Some(twin) if twin.owner() == Owner::Original => {
            Err(Error::unsupported("the random state of this dropout is the original's"))
        }
        _ => Ok(()),
    }
}

/// Lets the original set a dropout, by either call that does; ours keeps the data, without a state
/// of its own. Whether it does: this library does what the original refuses.
///
/// # Safety
/// `states` is NULL or valid for writes of `size` bytes.
unsafe fn set_by_original(
    side: &Side, name: &'static str, desc: cudnnDropoutDescriptor_t, probability: f32, states: *mut c_void,
    size: usize, seed: u64,
) -> Result<bool> {
    let before = DROPOUTS.get(desc.addr(), "dropoutDesc")?;
    let library = &side.original.library;
    // Without states the twin goes on with those that it has.
    let kept = DROPOUTS.made_twin(desc.addr()).filter(|_| states.is_null()).map(|twin| twin.shared());
    let [create, destroy] = DropoutDescriptor::LIFE;
    let Some(twin) = kept.or_else(|| Twin::create(library, create, destroy).ok().map(Arc::new)) else {
        return Ok(false);
    };
    let set = |twin: Arc<Twin>| {
        let objects = [twin.pointer(), side.handle.pointer()];
        // SAFETY: `states` is NULL or has as many bytes as `size` says.
        unsafe { original::set_dropout(library, name, objects, probability, states, size, seed) }
            .map(|()| twin)
    };
    let twin = match set(twin) {
        Ok(twin) => twin,
        Err(failure) if failure.is_refusal() => return Ok(false),
        Err(failure) => return side.told(name, Err(failure)).map(|()| true),
    };
    let (at, size) = if states.is_null() {
        (before.states(), before.states_size())
    } else {
        (states.expose_provenance(), size)
    };
    DROPOUTS.with_mut(desc.addr(), "dropoutDesc", |desc| {
        desc.restore(probability, at, size.max(dropout::STATES_TOLD), seed, Mode::current())
    })?;
    twin.set_owner(Owner::Original);
    DROPOUTS.adopt(desc.addr(), twin);
    side.told(name, Ok(())).map(|()| true)
}

/// Creates a dropout descriptor: probability 0, no random state.
///
/// Status: BAD_PARAM if `dropoutDesc` is NULL.
///
/// # Safety
/// `dropoutDesc` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateDropoutDescriptor(
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
) -> cudnnStatus_t {
    create!(dropoutDesc, DROPOUTS)
}

/// Destroys a dropout descriptor; NULL is fine. The random state stays the caller's.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyDropoutDescriptor(dropoutDesc: cudnnDropoutDescriptor_t) -> cudnnStatus_t {
    destroy!(dropoutDesc, DROPOUTS)
}

/// Bytes of random state that the caller provides for a dropout: 6,488,064.
///
/// The original tells 24 for each thread that the device can hold, and some programs pass these states as the reserve
/// space; the number is that of 132 multiprocessors of 2,048 threads. 16 bytes are used: the seed, and how many masks
/// have been drawn.
///
/// Status: BAD_PARAM for a handle that is not alive or if `sizeInBytes` is NULL.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetStatesSize(
    handle: cudnnHandle_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    results!(new sizeInBytes = dropout::STATES_TOLD)
}

/// Bytes that dropout keeps between forward and backward: one bit per element, in words of 4 bytes.
///
/// `4 * ceil(product of stored dims / 32)`; strides do not matter. A tensor that was never set takes 4.
///
/// Status: BAD_PARAM for a descriptor that is not alive or if `sizeInBytes` is NULL; NOT_SUPPORTED for INT8 and, in
/// strict mode, more than 2^31-1 elements.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetReserveSpaceSize(
    xdesc: cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let x = tensor::get(xdesc, "xdesc")?;
    results!(new sizeInBytes = dropout::reserve_space_size(&x, Mode::current())?)
}

/// `states = (seed, 0)`: sets probability and seed of a dropout, and starts its random state.
///
/// Operands
/// - `states`: `stateSizeInBytes` bytes of the core's memory, aligned to 8, written: the seed, and 0 as the number of
///   masks that have been drawn. On the CUDA core the writes are queued on the handle's stream. NULL leaves the state
///   that is there, with the sequence it has come to; the size is ignored then.
/// - `dropout`: any number, as observed on 9.27.0; below 0 and NaN drop nothing, above 1 drops all.
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive
/// - BAD_PARAM: fewer than 16 bytes, in strict mode fewer than cudnnDropoutGetStatesSize tells, or misaligned ones
///
/// Aliasing: there is one operand. A failing call changes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `states` is NULL or valid for writes of `stateSizeInBytes`.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, dropout: f32, states: *mut c_void,
    stateSizeInBytes: usize, seed: c_ulonglong,
) -> cudnnStatus_t {
    if let Some(side) = beside::side(handle, "cudnnSetDropoutDescriptor") {
        let name = "cudnnSetDropoutDescriptor";
        // SAFETY: `states` is NULL or valid for writes of `stateSizeInBytes`.
        if unsafe { set_by_original(&side, name, dropoutDesc, dropout, states, stateSizeInBytes, seed) }? {
            return Ok(());
        }
    }
    context::compute(handle, "cudnnSetDropoutDescriptor", |call| {
        DROPOUTS.with_mut(dropoutDesc.addr(), "dropoutDesc", |desc| {
            let mut set = *desc;
            set.set(dropout, states.addr(), stateSizeInBytes, seed, Mode::current())?;
            if !states.is_null() {
                let plan = StatesPlan::new(seed);
                // SAFETY: `states` has the bytes that `stateSizeInBytes` says, which the descriptor found enough and aligned.
                unsafe { call.run(&plan, operands![states]) }?;
            }
            *desc = set;
            Ok(())
        })
    })
}

/// Sets probability and seed of a dropout, and where a random state lies that an earlier dropout has left.
///
/// Operands
/// - `states`: remembered, neither read nor written here; NULL is remembered as well.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive; BAD_PARAM for fewer than 16 bytes,
/// in strict mode fewer than cudnnDropoutGetStatesSize tells, also of NULL. A failing call changes nothing.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnRestoreDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, dropout: f32, states: *mut c_void,
    stateSizeInBytes: usize, seed: c_ulonglong,
) -> cudnnStatus_t {
    context::check(handle)?;
    if let Some(side) = beside::side(handle, "cudnnRestoreDropoutDescriptor") {
        let name = "cudnnRestoreDropoutDescriptor";
        // SAFETY: the original keeps the address of `states`, and writes nothing there yet.
        if unsafe { set_by_original(&side, name, dropoutDesc, dropout, states, stateSizeInBytes, seed) }? {
            return Ok(());
        }
    }
    DROPOUTS.with_mut(dropoutDesc.addr(), "dropoutDesc", |desc| {
        desc.restore(dropout, states.expose_provenance(), stateSizeInBytes, seed, Mode::current())
    })
}

/// Reads probability, address of the random state, and seed of a dropout.
///
/// Status: BAD_PARAM for a handle or descriptor that is not alive, or if an output is NULL; then nothing is written.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetDropoutDescriptor(
    dropoutDesc: cudnnDropoutDescriptor_t, handle: cudnnHandle_t, dropout: *mut f32,
    states: *mut *mut c_void, seed: *mut c_ulonglong,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = DROPOUTS.get(dropoutDesc.addr(), "dropoutDesc")?;
    results! {
        new dropout = desc.probability(),
        new states = std::ptr::with_exposed_provenance_mut(desc.states()),
        new seed = desc.seed(),
    }
}

/// `y = bit ? x / (1 - p) : 0`, with a bit for each element that is drawn: 0 with probability p.
///
/// A probability of 0 keeps all, 1 drops all. `1 / (1 - p)` is rounded to float (double for DOUBLE), so is the product,
/// and the result once more to the type of y.
///
/// Operands
/// - `x`, `y`: tensors of one floating type, of as many elements, of any layout each
/// - `reserveSpace`: at least cudnnDropoutGetReserveSpaceSize bytes, aligned to 4, written: a bit per element, row-major
///   over the dimensions whatever the layouts, bit `i % 32` of word `i / 32` for element `i`; bits beyond the last
///   element are 0
/// - the states of `dropoutDesc`: read, and their call number counted up. `docs/dropout.md` says how the bits follow from
///   seed and call number, for both cores and any number of threads. Two descriptors may take turns on the same states
///
/// Workspace: none but the reserve space.
///
/// Status, in this order
/// - BAD_PARAM: a handle or dropout descriptor that is not alive; NULL x, y or reserveSpace; states that are NULL or
///   misaligned; a tensor descriptor that is not alive; misaligned x or y
/// - BAD_PARAM: types or numbers of elements that differ; a descriptor that was never set; in strict mode strides that are not
///   positive and tensors that overlap themselves; a destination that overlaps itself; one pointer with different strides; a
///   reserve space that is too small
/// - NOT_SUPPORTED: types that are not floating, in strict mode also BFLOAT16 and FP8; different dims of tensors of which one
///   is not packed
/// - `reserveSpace` that is the states of `dropoutDesc`: NOT_SUPPORTED on the CUDA core; BAD_PARAM if these have fewer bytes
///   than the mask takes
///
/// Aliasing: the CPU core takes states as the reserve space, which holds the mask afterwards. x may be y with the same strides. The CPU core takes any other overlap, as if all of x were read first; the CUDA
/// core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0; the sequence of masks is this library's own.
///
/// # Safety
/// `x` is NULL or valid for reads of the whole span of `xdesc`, `y` for writes of that of `ydesc`, `reserveSpace` for
/// writes of `reserveSpaceSizeInBytes`; the states are valid for reads and writes; no other thread uses any of them
/// meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutForward(
    handle: cudnnHandle_t, dropoutDesc: cudnnDropoutDescriptor_t, xdesc: cudnnTensorDescriptor_t,
    x: *const c_void, ydesc: cudnnTensorDescriptor_t, y: *mut c_void, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnDropoutForward", |call| {
        let desc = DROPOUTS.get(dropoutDesc.addr(), "dropoutDesc")?;
        check_owner(dropoutDesc.addr())?;
        arg::required(x, "x")?;
        arg::required(y, "y")?;
        arg::data(reserveSpace, 4, "reserveSpace")?;
        let states = std::ptr::with_exposed_provenance_mut::<c_void>(desc.states());
        arg::data(states, dropout::STATES_ALIGNMENT, "the states of dropoutDesc")?;
        let (from, to) = (tensor::get(xdesc, "xdesc")?, tensor::get(ydesc, "ydesc")?);
        tensor::data(x, &from, "x")?;
        tensor::data(y, &to, "y")?;
        let pass = Pass {
            src: ("xdesc", &from),
            dst: ("ydesc", &to),
            reserve_size: reserveSpaceSizeInBytes,
            in_place: x == y.cast_const(),
        };
        let plan = DropoutPlan::forward(&desc, pass, Mode::current())?;
        if reserveSpace == states {
            plan.check_mask_over_states(&desc, !call.context.is_cpu())?;
        }
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors, the reserve space
        // and the states.
        unsafe { call.run(&plan, operands![y, reserveSpace, states, x]) }
    })
}

/// `dx = bit ? dy / (1 - p) : 0`, with the bits that the forward pass has drawn.
///
/// Operands
/// - `dy`, `dx`: as x and y of cudnnDropoutForward; any layout, whatever those of the forward pass
/// - `reserveSpace`: as the forward pass left it, read. States are not needed
///
/// Workspace: none but the reserve space.
///
/// Status, in this order: as cudnnDropoutForward, but for the states.
///
/// Aliasing: as cudnnDropoutForward.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `dy` is NULL or valid for reads of the whole span of `dydesc`, `dx` for writes of that of `dxdesc`, `reserveSpace` for
/// reads of `reserveSpaceSizeInBytes`; no other thread writes any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutBackward(
    handle: cudnnHandle_t, dropoutDesc: cudnnDropoutDescriptor_t, dydesc: cudnnTensorDescriptor_t,
    dy: *const c_void, dxdesc: cudnnTensorDescriptor_t, dx: *mut c_void, reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnDropoutBackward", |call| {
        let desc = DROPOUTS.get(dropoutDesc.addr(), "dropoutDesc")?;
        check_owner(dropoutDesc.addr())?;
        arg::required(dy, "dy")?;
        arg::required(dx, "dx")?;
        arg::data(reserveSpace, 4, "reserveSpace")?;
        let (from, to) = (tensor::get(dydesc, "dydesc")?, tensor::get(dxdesc, "dxdesc")?);
        tensor::data(dy, &from, "dy")?;
        tensor::data(dx, &to, "dx")?;
        let pass = Pass {
            src: ("dydesc", &from),
            dst: ("dxdesc", &to),
            reserve_size: reserveSpaceSizeInBytes,
            in_place: dy == dx.cast_const(),
        };
        let plan = DropoutPlan::backward(&desc, pass, Mode::current())?;
        // SAFETY: the pointers are aligned, and the caller vouches for the spans of the descriptors and the reserve
        // space.
        unsafe { call.run(&plan, operands![dx, dy, reserveSpace]) }
    })
}
