//! The plans that calls keep for `cudnnShimGetLastPlan`.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether calls keep the text of their plans.
static RECORDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The plan of this thread's last call that had one. Without a destructor, so that calls from other destructors of the
    /// thread find it alive; a thread that recorded plans leaves its last text behind.
    static LAST_PLAN: RefCell<ManuallyDrop<String>> = const { RefCell::new(ManuallyDrop::new(String::new())) };
}

/// Whether the text of a plan is to be kept.
#[inline]
pub(crate) fn wants_plans() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Keeps the text of a plan for this thread, if plans are recorded.
pub(crate) fn record(plan: &str) {
    if wants_plans() {
        LAST_PLAN.with_borrow_mut(|last| plan.clone_into(last));
    }
}

/// Whether calls of all threads keep the text of their plans from now on.
pub(crate) fn record_plans(enable: bool) {
    RECORDING.store(enable, Ordering::Relaxed);
}

/// The text that this thread kept last; empty if there is none.
pub(crate) fn last_plan() -> String {
    LAST_PLAN.with_borrow(|last| last.to_string())
}
