//! The objects of the graph interface: create, set, finalise, get, destroy.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudnn_shim_macros::entry;

use super::arg::{self, Out};
use super::log;
use super::slab::{Kind as Tag, Table};
use super::types::{
    cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnStatus_t, raw,
};
use super::{backend_beside, backend_values as values};
use crate::desc::graph::{Descriptor, Kind, Link, Object, Type, Value, device, engine, text};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Context, Execution};
use crate::ops::graph::{Graph, Strategy};
use crate::original::Twin;

static DESCRIPTORS: Table<Entry> = Table::new(Tag::Backend);

/// What is behind a handle: the descriptor, and if it is a finalised plan, what it runs.
struct Entry {
    descriptor: Descriptor,
    execution: Option<Arc<Execution>>,
    /// The original's object, if that may serve the graph.
    twin: Option<Arc<Twin>>,
}

impl Entry {
    fn new(descriptor: Descriptor) -> Self {
        Entry { descriptor, execution: None, twin: None }
    }

    fn finalize(&mut self) -> Result<()> {
        let mut execution = None;
        self.descriptor.finalize(|object| derived(object, &mut execution))?;
        self.execution = execution;
        Ok(())
    }
}

/// What computes a graph.
///
/// # Errors
/// Not supported, with the operation and the reason.
fn execution_of(graph: &Object) -> Result<Execution> {
    let strategy = if Context::expects_cuda() { Strategy::CUDA } else { Strategy::CPU };
    Execution::planned(&Graph::of(graph)?, strategy)
}

/// The text of the device that a handle made now would run on.
///
/// # Errors
/// Not initialised on the CUDA core, whose devices are described by texts alone; those of making a handle.
fn host() -> Result<Vec<u8>> {
    if Context::create()?.is_cuda() {
        let text = "the CUDA core describes no device: give CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION a text";
        return Err(Error::NotInitialized(text.into()));
    }
    Ok(device::HOST.to_vec())
}

/// The values of attributes that are only read: what heuristics offer, and the workspace and the text of a plan, which is made here.
fn derived(object: &Object, made: &mut Option<Arc<Execution>>) -> Result<Vec<(i32, Value)>> {
    if object.kind == Kind::DeviceProperties && device::describes_host(&object.fields) {
        return Ok(vec![(device::DEVICEPROP_JSON_REPRESENTATION, Value::Text(host()?))]);
    }
    let Some(graph) = engine::graph_of(object) else { return Ok(Vec::new()) };
    let size = |execution: &Execution| {
        Value::Ints(Type::Int64, vec![i64::try_from(execution.workspace()).unwrap_or(i64::MAX)])
    };
    Ok(match object.kind {
        Kind::EngineHeuristic => {
            let results = match execution_of(graph) {
                Ok(execution) => vec![Some(engine::configuration(graph, execution.workspace()))],
                Err(error) => {
                    log::information(format_args!("no engine computes the graph: {error}"));
                    Vec::new()
                }
            };
            vec![(engine::ENGINEHEUR_RESULTS, Value::Links(results))]
        }
        Kind::EngineConfig => {
            let workspace = (engine::ENGINECFG_WORKSPACE_SIZE, size(&execution_of(graph)?));
            [workspace].into_iter().chain(engine::shared_memory(graph)).collect()
        }
        Kind::ExecutionPlan => {
            let execution = made.insert(Arc::new(execution_of(graph)?));
            vec![
                (engine::EXECUTION_PLAN_WORKSPACE_SIZE, size(execution)),
                (engine::EXECUTION_PLAN_JSON_REPRESENTATION, Value::Text(text::plan(graph))),
            ]
        }
        _ => Vec::new(),
    })
}

/// Refuses NULL with the status that the graph interface has for it.
pub(super) fn required(descriptor: cudnnBackendDescriptor_t, argument: &'static str) -> Result<()> {
    if descriptor.is_null() {
        return Err(Error::refused(ErrorKind::NullPointer, format!("{argument} is NULL")));
    }
    Ok(())
}

/// What a descriptor of the caller's array is to another one.
///
/// # Errors
/// Bad parameter for one that is not alive.
pub(super) fn link(index: usize, descriptor: cudnnBackendDescriptor_t) -> Result<Link> {
    if descriptor.is_null() {
        return Ok(None);
    }
    let link =
        DESCRIPTORS.with(descriptor.addr(), "arrayOfElements", |descriptor| Ok(descriptor.descriptor.link()));
    link.map_err(|error| Error::mismatch(format!("element {index}: {error}")))
}

/// How many of the caller's descriptors, from the first on, are of this kind: cuDNN fills those.
fn count_of(descriptors: &[cudnnBackendDescriptor_t], kind: Kind) -> usize {
    let kinds = descriptors.iter().map(|descriptor| {
        DESCRIPTORS.with(descriptor.addr(), "arrayOfElements", |entry| Ok(entry.descriptor.kind()))
    });
    kinds.take_while(|found| *found == Ok(kind)).count()
}

/// The twin of an object, if it has one.
pub(super) fn twin(descriptor: cudnnBackendDescriptor_t) -> Option<Arc<Twin>> {
    DESCRIPTORS.with(descriptor.addr(), "", |entry| Ok(entry.twin.clone())).ok()?
}

/// Leaves an object to this library.
pub(super) fn without_twin(descriptor: cudnnBackendDescriptor_t) {
    set_twin(descriptor, None);
}

/// Gives an object another twin; what it had goes without the lock of the object.
pub(super) fn set_twin(descriptor: cudnnBackendDescriptor_t, twin: Option<Arc<Twin>>) {
    let taken =
        DESCRIPTORS.with_mut(descriptor.addr(), "", |entry| Ok(std::mem::replace(&mut entry.twin, twin)));
    drop(taken);
}

/// Makes the caller's descriptors show these objects of this library; those of NULL are left alone.
///
/// # Errors
/// Bad parameter for one that is not alive, BAD_PARAM_DESCRIPTOR_TYPE for one of another kind; nothing is changed then.
pub(super) fn show(descriptors: &[cudnnBackendDescriptor_t], links: &[Link]) -> Result<()> {
    let pairs = || descriptors.iter().zip(links).filter_map(|(place, link)| Some((place, link.as_ref()?)));
    for (place, object) in pairs() {
        let kind = DESCRIPTORS.with(place.addr(), "arrayOfElements", |place| Ok(place.descriptor.kind()))?;
        if kind != object.kind {
            let text =
                format!("arrayOfElements holds a {} descriptor, not {}", kind.name(), object.kind.name());
            return Err(Error::refused(ErrorKind::DescriptorType, text));
        }
    }
    for (place, object) in pairs() {
        DESCRIPTORS.replace(place.addr(), "arrayOfElements", || {
            Ok(Entry::new(Descriptor::of(Arc::clone(object))))
        })?;
    }
    Ok(())
}

/// What a descriptor was finalised to.
///
/// # Errors
/// Bad parameter for one that is not alive, BAD_PARAM_NOT_FINALIZED for one that is open or of another kind than `kind`.
pub(super) fn finalised(
    descriptor: cudnnBackendDescriptor_t, argument: &'static str, kind: Kind,
) -> Result<Arc<Object>> {
    DESCRIPTORS.with(descriptor.addr(), argument, |entry| match entry.descriptor.object() {
        Some(object) if object.kind == kind => Ok(Arc::clone(object)),
        _ => {
            let text = format!("{argument} is not a finalised {} descriptor", kind.name());
            Err(Error::refused(ErrorKind::NotFinalized, text))
        }
    })
}

/// What a finalised execution plan runs.
///
/// # Errors
/// Bad parameter for a descriptor that is not alive, BAD_PARAM_NOT_FINALIZED for one that is open or no plan.
pub(super) fn execution(
    descriptor: cudnnBackendDescriptor_t, argument: &'static str,
) -> Result<Arc<Execution>> {
    DESCRIPTORS.with(descriptor.addr(), argument, |entry| {
        entry.execution.clone().ok_or_else(|| {
            let text = format!("{argument} is not a finalised {} descriptor", Kind::ExecutionPlan.name());
            Error::refused(ErrorKind::NotFinalized, text)
        })
    })
}

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
