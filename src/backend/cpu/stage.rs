//! Room on the stack for cells on their way, in the first-level cache.

use std::mem::MaybeUninit;

/// `BYTES` bytes that start on a cache line, and so are aligned for every scalar.
#[repr(align(64))]
pub(super) struct Stage<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Stage<BYTES> {
    /// Room that nothing has been written to. Inlined, or it would be moved.
    #[inline(always)]
    pub const fn new() -> Self {
        Stage([MaybeUninit::uninit(); BYTES])
    }

    #[inline(always)]
    pub fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}
