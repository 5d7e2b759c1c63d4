//! Work that a stream orders: done at once, or kept as a node of a graph.

use std::ffi::c_void;
use std::sync::Arc;

use super::Handle;
use super::copy::Copy;
use super::set::Set;

/// `cudaHostFn_t`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A function of the program, with what it is called with; `cudaHostNodeParams`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostCall {
    /// The function.
    pub function: Option<HostFunction>,
    /// Its argument.
    pub data: *mut c_void,
}

// SAFETY: the argument is a number here; who recorded the call vouches for calling it from the
// thread that launches.
unsafe impl Send for HostCall {}
// SAFETY: sharing the argument, a number, gives access to nothing.
unsafe impl Sync for HostCall {}

/// A call of a library such as cuBLAS, with everything that it needs.
pub type LibraryCall = Arc<dyn Fn() -> bool + Send + Sync>;

/// Work that a stream orders.
#[derive(Clone)]
pub enum Operation {
    /// Nothing, for the sake of its dependencies.
    Empty,
    /// A copy of rows.
    Copy(Copy),
    /// Rows of one value.
    Set(Set),
    /// A function of the program.
    Host(HostCall),
    /// Takes the time for an event.
    Record(Handle),
    /// Waits for an event: it has happened.
    Wait(Handle),
    /// The nodes of another graph, as they were when it was added, in an order that they allow.
    Child(Arc<[Operation]>),
    /// A call of a library.
    Library(&'static str, LibraryCall),
}
