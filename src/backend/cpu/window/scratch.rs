//! Parts of a thread's scratch.

/// Cuts a block into parts that start on cache lines.
pub(super) struct Parts {
    at: *mut u8,
}

impl Parts {
    pub fn of(block: *mut u8) -> Self {
        Parts { at: block }
    }

    /// The next part, of so many bytes.
    pub fn take<T>(&mut self, count: usize) -> *mut T {
        let part = self.at;
        self.at = self.at.wrapping_add(bytes_of::<T>(count));
        part.cast()
    }
}

/// What a part takes of a block.
pub(super) fn bytes_of<T>(count: usize) -> usize {
    count.saturating_mul(size_of::<T>()).saturating_add(63) & !63
}
