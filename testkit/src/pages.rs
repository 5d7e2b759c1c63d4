//! Memory that ends or begins where the pages that may be touched do: a byte beyond it is a fault
//! of the processor.

use std::ptr;

const PAGE: usize = 4096;

/// On which side the memory meets a page that must not be touched; the other side has less than a
/// page of spare bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Begin,
    End,
}

/// So many bytes between two pages without access.
pub struct Pages {
    mapping: *mut u8,
    mapped: usize,
    at: *mut u8,
    len: usize,
}

impl Pages {
    /// New pages, whose bytes are zeros. Panics if there are no addresses left.
    pub fn new(len: usize, side: Side) -> Pages {
        let inner = len.max(1).next_multiple_of(PAGE);
        let mapped = inner + 2 * PAGE;
        let (read_write, none) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_NONE);
        // SAFETY: a new mapping, and a change of access inside it.
        let mapping = unsafe {
            let mapping =
                libc::mmap(ptr::null_mut(), mapped, none, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert!(mapping != libc::MAP_FAILED, "no {mapped} bytes of addresses");
            assert_eq!(libc::mprotect(mapping.byte_add(PAGE), inner, read_write), 0, "no access");
            mapping.cast::<u8>()
        };
        let offset = if side == Side::Begin { PAGE } else { PAGE + inner - len };
        Pages { mapping, mapped, at: mapping.wrapping_add(offset), len }
    }

    /// Where the first byte is.
    pub fn address(&self) -> *mut u8 {
        self.at
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped and accessible, and no call runs while the slice is alive.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// All bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
