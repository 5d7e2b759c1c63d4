//! Legacy calls by the original's graph interface: where `CUDNN_SHIM_ROUTE` says `via=graph`, and
//! where the original no longer exports the call.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

use super::beside::{self, Side};
use super::types::{cudnnHandle_t, cudnnTensorDescriptor_t};
use super::{context, log, tensor, transform};
use crate::desc::TensorDescriptor;
use crate::error::Result;
use crate::ops::Scaling;
use crate::original::{ALIGNMENT, Device, Factors, Legacy, LegacyPlan, Twin};
use crate::sync::{Lock, Vanished};

/// Plans that are kept; the one that was made first goes first.
const MOST_PLANS: usize = 256;

/// A plan of this size does with NULL: some say that they take as much although they need nothing.
const NOTHING: usize = 16;

/// A call's plan, or that there is none.
struct Entry {
    legacy: Legacy,
    handle: Weak<Twin>,
    /// The bytes of workspace that it was to have at most.
    most: usize,
    plan: Option<Arc<LegacyPlan>>,
}

static PLANS: Lock<VecDeque<Entry>> = Lock::new(VecDeque::new());

/// For a child of a process one of whose threads was keeping a plan.
fn forgotten(plans: &mut Vanished<VecDeque<Entry>>) {
    plans.replace(VecDeque::new());
}

/// Lets the plans of a handle go with it.
pub(super) fn forget(handle: &Arc<Twin>) {
    let gone: VecDeque<Entry> = {
        let mut plans = PLANS.write(forgotten);
        let is_its = |entry: &Entry| std::ptr::eq(entry.handle.as_ptr(), Arc::as_ptr(handle));
        let (gone, kept) = std::mem::take(&mut *plans).into_iter().partition(is_its);
        *plans = kept;
        gone
    };
    // Destroyed without the lock: that is calls of the original.
    drop(gone);
}

/// The original beside a handle, if it serves the call `name` as a graph.
pub(super) fn side(handle: cudnnHandle_t, name: &str) -> Option<Side> {
    let original = beside::serving(name).filter(|original| original.is_graph(name))?;
    Some(Side { original, handle: context::twin(handle)? })
}

/// The plan of a call with a workspace of at most `most` bytes, if the original has one.
pub(super) fn plan(side: &Side, legacy: &Legacy, most: usize) -> Option<Arc<LegacyPlan>> {
    let handle = Arc::downgrade(&side.handle.shared());
    let known = |entry: &Entry| {
        let fits = match &entry.plan {
            Some(plan) => plan.workspace() <= most,
            None => most <= entry.most,
        };
        (fits && Weak::ptr_eq(&entry.handle, &handle) && entry.legacy == *legacy).then(|| entry.plan.clone())
    };
    if let Some(plan) = PLANS.read(forgotten).iter().find_map(known) {
        return plan;
    }
    let library = &side.original.library;
    let plan = match LegacyPlan::new(library, Device::Handle(&side.handle), legacy, most) {
        Ok(plan) => Some(Arc::new(plan)),
        Err(failure) => {
            if let Some(failure) = failure {
                log::information(format_args!("the original makes no graph of it: {}", failure.text));
            }
            None
        }
    };
    let entry = Entry { legacy: legacy.clone(), handle, most, plan: plan.clone() };
    let gone = {
        let mut plans = PLANS.write(forgotten);
        let gone = if plans.len() < MOST_PLANS { None } else { plans.pop_front() };
        plans.push_back(entry);
        gone
    };
    // Destroyed without the lock: that is calls of the original.
    drop(gone);
    plan
}

/// Lets the original compute a call as a graph. `None` if this library has to: the original has no
/// plan of it, refuses it, or is given what a graph does not take.
///
/// # Safety
/// The pointers are NULL or valid for the spans of the call's tensors, the workspace for its bytes.
pub(super) unsafe fn run(
    side: &Side, name: &'static str, legacy: &Legacy, data: &[*mut c_void],
    (workspace, bytes): (*mut c_void, usize),
) -> Option<Result<()>> {
    if data.iter().any(|data| data.is_null() || data.addr() % ALIGNMENT != 0) {
        return None;
    }
    let given = if workspace.is_null() { 0 } else { bytes };
    let plan = plan(side, legacy, given.max(NOTHING))?;
    let workspace = if plan.workspace() <= given { workspace } else { std::ptr::null_mut() };
    // SAFETY: the caller vouches for the pointers; the plan is one of this handle, and takes no
    // more than it is given.
    match unsafe { plan.run(&side.handle, data, workspace) } {
        Err(failure) if failure.is_refusal() => None,
        outcome => Some(side.told(name, outcome)),
    }
}

/// The same for a call without a workspace: on a handle of the host, memory is there for the plan.
///
/// # Safety
/// As for [`run`].
pub(super) unsafe fn run_alone(
    handle: cudnnHandle_t, name: &'static str, legacy: impl FnOnce() -> Result<Legacy>, data: &[*mut c_void],
) -> Option<Result<()>> {
    let side = side(handle, name)?;
    let legacy = legacy().ok()?;
    let is_host = context::with(handle, |context| Ok(context.runs_at_once())).ok()?;
    let mut room: Vec<u128> = Vec::new();
    if is_host {
        let size = plan(&side, &legacy, usize::MAX)?.workspace();
        room.try_reserve_exact(size.div_ceil(size_of::<u128>())).ok()?;
    }
    let bytes = room.capacity() * size_of::<u128>();
    let workspace = if bytes == 0 { std::ptr::null_mut() } else { room.as_mut_ptr().cast() };
    // SAFETY: the caller vouches for the pointers; calls on host memory end before they return.
    unsafe { run(&side, name, &legacy, data, (workspace, bytes)) }
}

/// The same for a call of one tensor and another with two factors, whose descriptors `make` puts
/// together.
///
/// # Safety
/// As for [`run`]; the factors are NULL or valid for one read of the type that y asks for.
pub(super) unsafe fn run_pair<D>(
    handle: cudnnHandle_t, name: &'static str, desc: impl FnOnce() -> Result<D>,
    make: impl FnOnce(D, [TensorDescriptor; 2], Factors) -> Legacy,
    [x, y]: [(cudnnTensorDescriptor_t, *mut c_void); 2], [alpha, beta]: [*const c_void; 2],
) -> Option<Result<()>> {
    let legacy = || {
        let desc = desc()?;
        let tensors = [tensor::get(x.0, "xDesc")?, tensor::get(y.0, "yDesc")?];
        // SAFETY: both factors are NULL or one readable number of their type.
        let scaling = unsafe { transform::scaling(alpha, beta, tensors[1].data_type()) }?;
        Ok(make(desc, tensors, factors(scaling)))
    };
    // SAFETY: the caller vouches for the spans of the descriptors.
    unsafe { run_alone(handle, name, legacy, &[x.1, y.1]) }
}

/// Both factors as a graph takes them.
pub(super) fn factors(scaling: Scaling) -> [f64; 2] {
    [scaling.alpha, scaling.beta]
}
