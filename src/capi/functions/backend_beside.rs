//! Objects of the graph interface and their twins: each call goes to both, attribute by attribute.
//!
//! Both see every object, so that either can serve the graph in the end. An object that the
//! original refuses has no twin from then on, nor has what is made of it, and this library serves
//! it. One that only the original takes is the original's. A plan is bound to the one who answers
//! its workspace: the original, if it has a twin.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::types::cudnnHandle_t;
use super::{backend_objects, beside, context};
use crate::desc::graph::Type;
use crate::error::{Error, Result};
use crate::original::{self, Failed, Graph, Twin};

/// The function whose route is that of the whole interface.
const ROUTED: &str = "cudnnBackendExecute";

/// The original's functions, if it serves graphs.
fn graph() -> Option<Graph> {
    beside::serving(ROUTED).map(|original| Graph::new(&original.library))
}

/// The twin of a new object of this type, if the original has such a one.
pub(super) fn create(code: c_int) -> Option<Arc<Twin>> {
    graph()?.create(code).ok().map(Arc::new)
}

/// What the elements of a caller's array are to the original: for descriptors and handles the
/// twins, which are kept alive; for everything else the array as it is.
struct Elements {
    pointers: Option<Vec<*mut c_void>>,
    _held: Vec<Arc<Twin>>,
}

impl Elements {
    /// `None` if one of them has no twin.
    ///
    /// # Safety
    /// `array` is NULL or valid for reads of `count` values of the type.
    unsafe fn of(ty: c_int, count: i64, array: *const c_void) -> Option<Elements> {
        let kind = Type::from_code(ty).filter(|kind| matches!(kind, Type::Handle | Type::Descriptor));
        let (Some(kind), false) = (kind, array.is_null()) else {
            return Some(Elements { pointers: None, _held: Vec::new() });
        };
        // SAFETY: `array` holds `count` pointers.
        let values = unsafe { super::backend_values::descriptors(array, usize::try_from(count).ok()?) };
        let (mut pointers, mut held) = (Vec::new(), Vec::new());
        for value in values {
            if value.is_null() {
                pointers.push(value);
                continue;
            }
            let twin = match kind {
                Type::Handle => context::twin(value.cast()).map(|twin| twin.shared()),
                _ => backend_objects::twin(value),
            }?;
            pointers.push(twin.pointer());
            held.push(twin);
        }
        Some(Elements { pointers: Some(pointers), _held: held })
    }

    fn array(&self, given: *const c_void) -> *const c_void {
        self.pointers.as_ref().map_or(given, |pointers| pointers.as_ptr().cast())
    }
}

/// The outcome of a call that both have made: this library's `own`, and the original's, `None` if it
/// was not asked. `without` takes the twin away.
fn joined(own: Result<()>, theirs: Option<Result<(), Failed>>, without: impl FnOnce()) -> Result<()> {
    match (own, theirs) {
        // Only the original takes it.
        (Err(_), Some(Ok(()))) => Ok(()),
        (Ok(()), Some(Err(_)) | None) => {
            without();
            Ok(())
        }
        (own, _) => own,
    }
}

/// Finalises the twin of an object as well, if it has one.
pub(super) fn finalize(descriptor: *mut c_void, own: Result<()>) -> Result<()> {
    let (Some(graph), Some(twin)) = (graph(), backend_objects::twin(descriptor)) else { return own };
    joined(own, Some(graph.finalize(&twin)), || backend_objects::without_twin(descriptor))
}

/// Sets an attribute of the twin of an object as well, if it has one.
///
/// # Safety
/// `array` is NULL or valid for reads of `count` values of the type.
pub(super) unsafe fn set(
    descriptor: *mut c_void, [attribute, ty]: [c_int; 2], count: i64, array: *const c_void, own: Result<()>,
) -> Result<()> {
    let (Some(graph), Some(twin)) = (graph(), backend_objects::twin(descriptor)) else { return own };
    // SAFETY: `array` is NULL or holds `count` values of the type.
    let theirs = unsafe { Elements::of(ty, count, array) }.map(|elements| {
        // SAFETY: an object that is alive, and as many values, whose objects are alive.
        unsafe { graph.set(twin.pointer(), [attribute, ty], count, elements.array(array)) }
    });
    joined(own, theirs, || backend_objects::without_twin(descriptor))
}

/// What the twin of an object answers, if it has one: `None` if this library has to.
///
/// # Safety
/// `count` is NULL or valid for one write; `array` is NULL or valid for writes of `requested`
/// values of the type, and for reads, if they are descriptors.
pub(super) unsafe fn get(
    descriptor: *mut c_void, [attribute, ty]: [c_int; 2], requested: i64, count: *mut i64, array: *mut c_void,
) -> Option<Result<()>> {
    let (graph, twin) = (graph()?, backend_objects::twin(descriptor)?);
    // SAFETY: `array` is NULL or holds `requested` values of the type.
    let elements = unsafe { Elements::of(ty, requested, array) }?;
    let mut told = 0_i64;
    // SAFETY: an object that is alive, a place for one number, and room for as many values as are
    // requested.
    let answer = unsafe {
        graph.get(twin.pointer(), [attribute, ty], requested, &raw mut told, elements.array(array).cast_mut())
    };
    if answer.is_err() || told == 0 && ty == Type::Descriptor as c_int {
        // It offers nothing: what this library offers is not the original's.
        return None;
    }
    // SAFETY: `count` is NULL or valid for one write.
    unsafe { super::arg::set_optional(count, told) };
    Some(Ok(()))
}

/// Lets the original do with a plan what `name` does, if the plan has a twin.
///
/// # Safety
/// As for the call, `extra` is its last argument, if it has four.
pub(super) unsafe fn run(
    name: &'static str, handle: cudnnHandle_t, plan: *mut c_void, pack: *mut c_void, extra: *mut c_void,
) -> Option<Result<()>> {
    let (graph, plan) = (graph()?, backend_objects::twin(plan)?);
    let side = beside::side(handle, ROUTED)?;
    let Some(pack) = backend_objects::twin(pack) else {
        return Some(Err(Error::unsupported("the plan is the original's, and refuses what is in the pack")));
    };
    let objects = [side.handle.pointer(), plan.pointer(), pack.pointer()];
    // SAFETY: objects of the original that are alive; what the pack and `extra` lead to is as the
    // caller says.
    Some(side.told(name, unsafe { graph.run(name, objects, extra) }))
}

/// Gives a twin back to how it was created: a new one takes its place.
pub(super) fn initialize(descriptor: *mut c_void, code: c_int) {
    if original::is_on() {
        backend_objects::set_twin(descriptor, create(code));
    }
}
