//! A capture: the streams whose work becomes nodes of one graph, and where each of them stands.

use std::collections::HashMap;
use std::thread::ThreadId;

use super::Handle;

/// `cudaStreamCaptureMode`: other threads, or this one, may not do what a capture cannot hold.
pub(crate) const GLOBAL: i32 = 0;
pub(crate) const THREAD_LOCAL: i32 = 1;
pub(crate) const RELAXED: i32 = 2;

/// Streams that capture into one graph.
pub struct Capture {
    pub(crate) graph: Handle,
    pub(crate) origin: Handle,
    pub(crate) mode: i32,
    pub(crate) thread: ThreadId,
    pub(crate) invalid: bool,
    /// For each stream, the nodes that its next one comes after.
    pub(crate) tails: HashMap<Handle, Vec<Handle>>,
    /// The list that cudaStreamGetCaptureInfo showed last.
    pub(crate) shown: Vec<Handle>,
}
