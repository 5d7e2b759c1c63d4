//! Parts of a thread's scratch.

use super::stream::LINE;

/// Cuts scratch into parts that start on cache lines. From a null pointer it only counts what they
/// take.
pub(super) struct Parts {
    at: *mut u8,
    /// Bytes of the parts that were taken.
    pub bytes: usize,
}

impl Parts {
    pub fn new(at: *mut u8) -> Self {
        Parts { at, bytes: 0 }
    }

    /// The next `count` values.
    pub fn take<T>(&mut self, count: usize) -> *mut T {
        let part = self.at.wrapping_add(self.bytes);
        self.bytes = self.bytes.saturating_add(bytes_of::<T>(count));
        part.cast()
    }

    /// The next `count` values, set to this one.
    ///
    /// # Safety
    /// There are as many bytes, and nobody else uses them meanwhile.
    pub unsafe fn filled<'a, T: Copy>(&mut self, count: usize, value: T) -> &'a mut [T] {
        let part = self.take::<T>(count);
        // SAFETY: the part has room for `count` values, and is nobody else's.
        unsafe {
            fill(part, value, count);
            std::slice::from_raw_parts_mut(part, count)
        }
    }
}

/// Sets `n` values to this one.
///
/// # Safety
/// There is room for them.
pub(super) unsafe fn fill<T: Copy>(to: *mut T, value: T, n: usize) {
    // SAFETY: the part has room for `n` values.
    (0..n).for_each(|i| unsafe { to.add(i).write(value) });
}

/// What a part takes.
pub(super) fn bytes_of<T>(count: usize) -> usize {
    count.saturating_mul(size_of::<T>()).saturating_add(LINE - 1) & !(LINE - 1)
}
