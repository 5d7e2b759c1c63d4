//! The objects of the graph interface: create, set, finalise, get, destroy.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
use super::backend_objects::{DESCRIPTORS, Entry, count_of, required};
use super::types::{
    cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnStatus_t, raw,
};
use super::{backend_beside, backend_values as values};
use crate::desc::graph::{Descriptor, Kind, Value, engine};
use crate::error::{Error, ErrorKind, Result};

/// Creates an object of the graph interface, in which nothing is set.
///
/// Status, in this order: BAD_PARAM if `descriptor` is NULL; INTERNAL_ERROR_HOST_ALLOCATION_FAILED for a number that is no type
/// (6, of intermediate information, is none). Nothing is written then. Source: observed on 9.27.0.
///
/// # Safety
/// `descriptor` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendCreateDescriptor(
    descriptorType: MaybeUninit<cudnnBackendDescriptorType_t>, descriptor: *mut cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: `descriptor` is NULL or valid for one write.
    let place = unsafe { Out::new(descriptor, "descriptor") }?;
    let code = raw(descriptorType);
    let kind = Kind::from_code(code).ok_or_else(|| {
        let text = format!("descriptorType = {code}: the types are 0 to 50 but 6");
        Error::refused(ErrorKind::HostAllocation, text)
    })?;
    let mut entry = Entry::new(Descriptor::new(kind));
    entry.twin = backend_beside::create(code);
    place.set(std::ptr::without_provenance_mut(DESCRIPTORS.insert(entry)?));
    Ok(())
}

/// Destroys an object of the graph interface. What other objects took from it stays.
///
/// Status, in this order: BAD_PARAM_NULL_POINTER for NULL, BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendDestroyDescriptor(
    descriptor: cudnnBackendDescriptor_t,
) -> cudnnStatus_t {
    required(descriptor, "descriptor")?;
    DESCRIPTORS.remove(descriptor.addr(), "descriptor").map(drop)
}

/// Returns an object of the graph interface, finalised or not, to how it was created.
///
/// Status: BAD_PARAM for NULL and for a descriptor that is not alive.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnBackendInitialize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    let kind = DESCRIPTORS.with_mut(descriptor.addr(), "descriptor", |descriptor| {
        descriptor.descriptor.reset();
        descriptor.execution = None;
        Ok(descriptor.descriptor.kind())
    })?;
    backend_beside::initialize(descriptor, kind as c_int);
    Ok(())
}

/// Checks an object of the graph interface and closes it for changes. If it is refused, it stays open and can be corrected.
///
/// Status, in this order: BAD_PARAM_NULL_POINTER for NULL, BAD_PARAM for a descriptor that is not alive or is finalised already;
/// then what the checks of its type find, whose text names the attribute, the value and the rule. Source: observed on 9.27.0.
///
/// # Safety
/// No pointer is followed.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t {
    required(descriptor, "descriptor")?;
    let own = DESCRIPTORS.with_mut(descriptor.addr(), "descriptor", Entry::finalize);
    backend_beside::finalize(descriptor, own)
}

/// Sets one attribute of an object of the graph interface.
///
/// Descriptors are taken as they are: what becomes of them later does not matter.
///
/// Operands: `arrayOfElements` holds `elementCount` values of the type: a bool or a char is a byte, an enumerator an int, a
/// descriptor or a pointer an address.
///
/// Status, in this order: BAD_PARAM_NULL_POINTER for NULL; BAD_PARAM for a descriptor that is not alive or is finalised, and (or
/// NOT_SUPPORTED) for an attribute that its type does not have; NOT_SUPPORTED for one that is only read; BAD_PARAM,
/// BAD_PARAM_ATTRIBUTE_TYPE, NOT_SUPPORTED or NOT_INITIALIZED for another type than the attribute has, as cuDNN has it;
/// BAD_PARAM for another number of values, for NULL and for an element that is not alive; BAD_PARAM_DESCRIPTOR_TYPE for a
/// descriptor of another type. A call that fails changes nothing, but of operations of a graph, those before the one that is
/// refused are set. Source: observed on 9.27.0.
///
/// # Safety
/// `arrayOfElements` is NULL or valid for reads of `elementCount` values of the type.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: cudnnBackendDescriptor_t, attributeName: MaybeUninit<cudnnBackendAttributeName_t>,
    attributeType: MaybeUninit<cudnnBackendAttributeType_t>, elementCount: i64,
    arrayOfElements: *const c_void,
) -> cudnnStatus_t {
    required(descriptor, "descriptor")?;
    let (attribute, ty) = (raw(attributeName), raw(attributeType));
    // SAFETY: `arrayOfElements` is NULL or holds `elementCount` values of the type.
    unsafe {
        let own = set_own(descriptor, [attribute, ty], elementCount, arrayOfElements);
        backend_beside::set(descriptor, [attribute, ty], elementCount, arrayOfElements, own)
    }
}

/// Sets an attribute of this library's object.
///
/// # Safety
/// As for the call above.
unsafe fn set_own(
    descriptor: cudnnBackendDescriptor_t, [attribute, ty]: [c_int; 2], elementCount: i64,
    arrayOfElements: *const c_void,
) -> Result<()> {
    let expected = DESCRIPTORS.with(descriptor.addr(), "descriptor", |descriptor| {
        descriptor.descriptor.expect(attribute, ty, elementCount, arrayOfElements.is_null())
    })?;
    // Without the lock of the descriptor, since it may be an element.
    // SAFETY: no more values than `elementCount` are expected, and none of NULL.
    let value = unsafe { values::read(&expected, arrayOfElements) }?;
    DESCRIPTORS
        .with_mut(descriptor.addr(), "descriptor", |descriptor| descriptor.descriptor.store(&expected, value))
}

/// One attribute of a finalised object of the graph interface.
///
/// Operands: `elementCount` (may be NULL) becomes the number of values, of which at most `requestedElementCount` are stored in
/// `arrayOfElements`; if that is NULL and none are requested, all that there are. An attribute of one value is asked for one. For
/// descriptors `arrayOfElements` holds descriptors of the caller's, which become what is read.
///
/// Status, in this order: BAD_PARAM for NULL and for a descriptor that is not alive; NOT_INITIALIZED for one that is not finalised;
/// BAD_PARAM (or NOT_SUPPORTED) for an attribute that its type does not have; NOT_SUPPORTED for one that is not read back; a
/// wrong type as in `cudnnBackendSetAttribute`; BAD_PARAM for another number of values and for an element that is not alive,
/// BAD_PARAM_DESCRIPTOR_TYPE for one of another type. Nothing is written then. Source: observed on 9.27.0.
///
/// # Safety
/// `elementCount` is NULL or valid for one write, `arrayOfElements` NULL or valid for writes (for reads, if they are
/// descriptors) of `requestedElementCount` values of the type.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: cudnnBackendDescriptor_t, attributeName: MaybeUninit<cudnnBackendAttributeName_t>,
    attributeType: MaybeUninit<cudnnBackendAttributeType_t>, requestedElementCount: i64,
    elementCount: *mut i64, arrayOfElements: *mut c_void,
) -> cudnnStatus_t {
    let (attribute, ty) = (raw(attributeName), raw(attributeType));
    // SAFETY: `elementCount` is NULL or valid for one write, `arrayOfElements` as the caller says.
    let theirs = unsafe {
        backend_beside::get(descriptor, [attribute, ty], requestedElementCount, elementCount, arrayOfElements)
    };
    if let Some(theirs) = theirs {
        return theirs;
    }
    let is_null = arrayOfElements.is_null();
    let mut answer = DESCRIPTORS.with(descriptor.addr(), "descriptor", |descriptor| {
        descriptor.descriptor.answer(attribute, ty, requestedElementCount, is_null)
    })?;
    if let (engine::ENGINEHEUR_RESULTS, Some(Value::Links(results))) = (attribute, &mut answer.values) {
        // SAFETY: as for the values below.
        let places = unsafe { values::descriptors(arrayOfElements, results.len()) };
        results.truncate(count_of(&places, Kind::EngineConfig));
        answer.count = results.len();
    }
    if let Some(value) = &answer.values {
        // SAFETY: there are values for an array that is not NULL only, and no more than were requested.
        unsafe { values::write(value, arrayOfElements) }?;
    }
    // SAFETY: `elementCount` is NULL or valid for one write.
    unsafe { arg::set_optional(elementCount, answer.count as i64) };
    Ok(())
}
