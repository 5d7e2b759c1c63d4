//! A stream: its flags and attributes, and the numbers of those that every program has.

use super::Handle;

/// The stream NULL, which is `cudaStreamLegacy` by another name.
pub const DEFAULT: Handle = 0;
/// `cudaStreamLegacy`.
pub const LEGACY: Handle = 1;
/// `cudaStreamPerThread`.
pub const PER_THREAD: Handle = 2;
/// `cudaStreamNonBlocking`.
pub(crate) const NON_BLOCKING: u32 = 1;
/// The least urgent priority, and the most urgent one.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// Bytes of `cudaStreamAttrValue`.
pub(crate) const ATTRIBUTE: usize = 64;

/// A stream that a program made.
#[derive(Default)]
pub struct Stream {
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// `cudaStreamAttributeAccessPolicyWindow` and others, as they were set.
    pub(crate) attributes: Vec<(i32, [u8; ATTRIBUTE])>,
}

impl Stream {
    /// Whether it does not wait for the default stream, nor that for it.
    pub(crate) fn is_non_blocking(&self) -> bool {
        self.flags & NON_BLOCKING != 0
    }
}
