//! An event: when it was recorded, or in which capture.

use std::time::Instant;

use super::Handle;

/// An event that a program made.
#[derive(Default)]
pub struct Event {
    pub(crate) flags: u32,
    pub(crate) recorded: Option<Instant>,
    /// The capture that it was recorded in, and the nodes that come before it.
    pub(crate) captured: Option<(u64, Vec<Handle>)>,
}
