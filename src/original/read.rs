//! What the original has written: descriptors read back, and calls that set its objects by hand.

use std::ffi::{c_int, c_ulonglong, c_void};

use super::call::call;
use super::type_code::type_of;
use super::{Failed, Library, Twin};
use crate::desc::TensorDescriptor;
use crate::layout::MAX_RANK;
use crate::mode::Mode;

/// What a tensor descriptor of the original holds; one that was never set is one of ours that was
/// not.
///
/// # Errors
/// As the original answers; a descriptor that ours cannot hold.
pub fn read_tensor(library: &Library, twin: &Twin) -> Result<TensorDescriptor, Failed> {
    let (mut code, mut rank): (c_int, c_int) = (0, 0);
    let (mut dims, mut strides): ([c_int; MAX_RANK], [c_int; MAX_RANK]) = ([0; MAX_RANK], [0; MAX_RANK]);
    call!(
        library,
        "cudnnGetTensorNdDescriptor",
        (*mut c_void = twin.pointer()),
        (c_int = MAX_RANK as c_int),
        (*mut c_int = &raw mut code),
        (*mut c_int = &raw mut rank),
        (*mut c_int = dims.as_mut_ptr()),
        (*mut c_int = strides.as_mut_ptr()),
    )?;
    let count = usize::try_from(rank).unwrap_or(0).min(MAX_RANK);
    if count == 0 {
        return Ok(TensorDescriptor::default());
    }
    let strange = |text: String| Failed { code: 0, text };
    let data_type = type_of(code).ok_or_else(|| strange(format!("a tensor of type {code}")))?;
    let [dims, strides] = [dims, strides].map(|values| values.map(i64::from));
    TensorDescriptor::with_strides(
        data_type,
        i64::from(rank),
        &dims[..count],
        &strides[..count],
        Mode::Extended,
    )
    .map_err(|error| strange(error.to_string()))
}

/// Sets the stream of a handle of the original.
///
/// # Errors
/// As the original answers.
pub fn set_stream(library: &Library, handle: &Twin, stream: usize) -> Result<(), Failed> {
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    call!(library, "cudnnSetStream", (*mut c_void = handle.pointer()), (*mut c_void = stream))
}

/// Sets a dropout descriptor of the original by `call`: the setter, which starts the random state,
/// or the one that takes a state as it is.
///
/// # Errors
/// As the original answers.
///
/// # Safety
/// `states` is NULL or valid for writes of `size` bytes by the original's device.
pub unsafe fn set_dropout(
    library: &Library, call: &'static str, [twin, handle]: [*mut c_void; 2], probability: f32,
    states: *mut c_void, size: usize, seed: u64,
) -> Result<(), Failed> {
    type Setter =
        unsafe extern "C" fn(*mut c_void, *mut c_void, f32, *mut c_void, usize, c_ulonglong) -> c_int;
    let function = library.symbol(call).ok_or_else(|| Failed::missing(call))?;
    // SAFETY: the interface gives both setters this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Setter>(function) };
    // SAFETY: alive objects of the original; the states have `size` bytes, as the caller of this
    // function says.
    super::status_of(library, unsafe { function(twin, handle, probability, states, size, seed) })
}
