//! What every kind of step becomes: launches of kernels, and what their choice depends on.

use super::params::Params;
use crate::dtype::Scalar;
use crate::error::{Error, Result};

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel's name, one of [`kernels`](super::module::kernels).
    pub kernel: &'static str,
    /// Blocks; only x exceeds 65535 and is below 2^31.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The kernel's one parameter, by value.
    pub params: Params,
}

/// Device addresses of the data pointers, aligned to their scalars; null is never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pointers {
    /// The destination.
    pub dst: u64,
    /// The source.
    pub src: u64,
}

impl Pointers {
    /// Both moved on by these many bytes.
    pub(super) fn offset(self, dst: i64, src: i64) -> Pointers {
        Pointers { dst: self.dst.wrapping_add_signed(dst), src: self.src.wrapping_add_signed(src) }
    }
}

/// What the choice of kernels depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The compute capability: 75 for 7.5.
    pub capability: u32,
}

impl Device {
    /// One that every kernel for all devices runs on.
    pub const ANY: Device = Device { capability: 50 };
}

/// Receives launches, in the order in which the stream must run them.
pub type Emit<'a> = &'a mut dyn FnMut(&Launch) -> Result<()>;

/// Where the kernel of a type stands in a list of kernels of one type each: binary32, binary16,
/// bfloat16.
pub(super) fn column_of(scalar: Scalar) -> Option<usize> {
    [Scalar::F32, Scalar::F16, Scalar::Bf16].iter().position(|&own| own == scalar)
}

/// The number of blocks as the x extent of a grid.
pub(super) fn grid(blocks: u64) -> Result<[u32; 3]> {
    match u32::try_from(blocks) {
        Ok(x) if x < 1 << 31 => Ok([x, 1, 1]),
        _ => Err(Error::unsupported(format!("{blocks} blocks are more than one CUDA grid holds"))),
    }
}
