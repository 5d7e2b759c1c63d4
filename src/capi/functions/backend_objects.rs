//! What is behind the descriptors of the graph interface.

use std::sync::Arc;

use super::log;
use super::slab::{Kind as Tag, Table};
use super::types::cudnnBackendDescriptor_t;
use crate::desc::graph::{Descriptor, Kind, Link, Object, Type, Value, device, engine, text};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Context, Execution};
use crate::ops::graph::{Graph, Strategy};
use crate::original::Twin;

pub(super) static DESCRIPTORS: Table<Entry> = Table::new(Tag::Backend);

/// What is behind a handle: the descriptor, and if it is a finalised plan, what it runs.
pub(super) struct Entry {
    pub(super) descriptor: Descriptor,
    pub(super) execution: Option<Arc<Execution>>,
    /// The original's object, if that may serve the graph.
    pub(super) twin: Option<Arc<Twin>>,
}

impl Entry {
    pub(super) fn new(descriptor: Descriptor) -> Self {
        Entry { descriptor, execution: None, twin: None }
    }

    pub(super) fn finalize(&mut self) -> Result<()> {
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
pub(super) fn count_of(descriptors: &[cudnnBackendDescriptor_t], kind: Kind) -> usize {
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
