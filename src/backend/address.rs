//! Where an operand of a call lies.

use std::fmt;

/// The data pointer of an operand: of the host for the CPU core, of the device for the CUDA core.
/// An address without meaning of its own; offsets of a plan may reach below it (negative strides).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address(*mut u8);

// SAFETY: who reads or writes through an address, and that no two threads do so at one place, is a
// matter of the unsafe functions that take it.
unsafe impl Send for Address {}
// SAFETY: sharing an address gives access to nothing; the functions that follow it are unsafe.
unsafe impl Sync for Address {}

impl Address {
    /// No memory.
    pub const NULL: Address = Address(std::ptr::null_mut());

    /// The address as a pointer of the host.
    #[inline]
    pub fn pointer(self) -> *mut u8 {
        self.0
    }

    /// The address as a number.
    #[inline]
    pub fn addr(self) -> usize {
        self.0.addr()
    }

    /// The address as a number of the device.
    #[inline]
    pub fn device(self) -> u64 {
        self.0.addr() as u64
    }
}

impl<T> From<*mut T> for Address {
    #[inline]
    fn from(pointer: *mut T) -> Self {
        Address(pointer.cast())
    }
}

impl<T> From<*const T> for Address {
    #[inline]
    fn from(pointer: *const T) -> Self {
        Address(pointer.cast_mut().cast())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
