//! Which kernels run a transform.

use std::ffi::{CStr, c_void};

use crate::error::{Error, Result};
use crate::ops::TransformPlan;

/// Device addresses of both operands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Pointers {
    /// The destination.
    pub dst: u64,
    /// The source.
    pub src: u64,
}

/// One kernel launch.
pub struct Launch {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The kernel's parameter.
    pub params: Params,
}

/// The parameter of a kernel.
pub struct Params;

impl Params {
    /// Its address.
    pub fn as_ptr(&self) -> *const c_void {
        std::ptr::null()
    }
}

/// The kernels.
pub const PTX: &CStr = c"";

/// Hands every launch of a plan to `emit`.
///
/// # Errors
/// Not supported: there are no kernels yet.
pub fn launches(
    _plan: &TransformPlan,
    _at: Pointers,
    _emit: &mut dyn FnMut(&Launch) -> Result<()>,
) -> Result<()> {
    Err(Error::unsupported("the CUDA core has no kernels yet"))
}
