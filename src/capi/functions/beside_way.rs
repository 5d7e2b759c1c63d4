//! The way that calls of each exported function go: found once, at its first call.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::log;
use crate::original::{self, Case, Group, Original, Server};

/// Calls whose twins are set as well as used; they see to that themselves.
const BY_HAND: &[&str] = &[
    "cudnnSetDropoutDescriptor",
    "cudnnRestoreDropoutDescriptor",
    "cudnnBackendExecute",
    "cudnnGetExecutionPlanWorkspaceSize",
    "cudnnBackendPopulateCudaGraph",
    "cudnnBackendUpdateCudaGraph",
    "cudnnMakeFusedOpsPlan",
    "cudnnFusedOpsExecute",
];

/// An exported function, and the way its calls go.
pub(crate) struct Routed {
    pub(super) name: &'static str,
    /// NULL before the first call.
    way: AtomicPtr<Way>,
    /// Whether a refusal of the original was told.
    pub(super) told: AtomicBool,
}

/// The way that calls of a function go.
pub(super) struct Way {
    /// The original's function; NULL if this library serves all calls.
    pub(super) function: *mut c_void,
    /// Who serves calls that are in no case.
    pub(super) usual: Server,
    pub(super) case: Option<&'static Case>,
    /// The calls that share sizes with it.
    pub(super) group: Option<&'static Group>,
}

/// Of a function that this library serves.
pub(super) static OURS: Way =
    Way { function: std::ptr::null_mut(), usual: Server::Ours, case: None, group: None };

// SAFETY: the pointer is that of a function, and nothing changes.
unsafe impl Sync for Way {}

impl Routed {
    pub(crate) const fn new(name: &'static str) -> Self {
        Routed { name, way: AtomicPtr::new(std::ptr::null_mut()), told: AtomicBool::new(false) }
    }

    /// The way of its calls, if the original may serve them.
    pub(super) fn way(&self, original: &Original) -> Option<&'static Way> {
        let mut way = self.way.load(Ordering::Acquire).cast_const();
        if way.is_null() {
            way = self.found(original);
            self.way.store(way.cast_mut(), Ordering::Release);
        }
        // SAFETY: `found` gives what lives for ever, and nobody changes it.
        let way: &'static Way = unsafe { &*way };
        (!way.function.is_null()).then_some(way)
    }

    #[cold]
    fn found(&self, original: &Original) -> &'static Way {
        let Some(usual) = original.route.server(self.name) else { return &OURS };
        let case = original.route.case(self.name);
        let by_hand = BY_HAND.contains(&self.name) || original.is_graph(self.name);
        if usual == Server::Ours && case.is_none() || by_hand {
            return &OURS;
        }
        let Some(function) = original.library.symbol(self.name) else {
            log::information(format_args!("{}: the original has no such function", self.name));
            return &OURS;
        };
        let group = original::family_of(self.name).and_then(|(_, family)| family.group_of(self.name));
        // One for each function of the interface, for the life of the process.
        Box::leak(Box::new(Way { function, usual, case, group }))
    }
}
