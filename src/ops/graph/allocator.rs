//! Places in a workspace: by lifetime, the lowest that is free.

/// Begin of every place, in bytes.
pub(super) const ALIGNMENT: usize = 256;

/// Bytes that are in use from one operation to another, both included.
struct Allocation {
    begin: usize,
    end: usize,
    first: usize,
    last: usize,
}

/// The layout of a workspace.
#[derive(Default)]
pub(super) struct WorkspaceAllocator {
    allocations: Vec<Allocation>,
}

impl WorkspaceAllocator {
    /// The lowest place for `size` bytes from operation `first` to operation `last`; `None` beyond
    /// the address space.
    pub fn allocate(&mut self, size: usize, first: usize, last: usize) -> Option<usize> {
        let mut begin = 0_usize;
        let size = size.max(1).checked_next_multiple_of(ALIGNMENT)?;
        // Allocations are sorted by their places, so that gaps are met from the lowest on.
        for other in self.allocations.iter().filter(|other| other.first <= last && first <= other.last) {
            if begin.checked_add(size)? <= other.begin {
                break;
            }
            begin = begin.max(other.end);
        }
        let end = begin.checked_add(size)?;
        let at = self.allocations.partition_point(|of| of.begin <= begin);
        self.allocations.insert(at, Allocation { begin, end, first, last });
        Some(begin)
    }

    /// Bytes of all places.
    pub fn size(&self) -> usize {
        self.allocations.iter().map(|of| of.end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_by_those_that_never_meet() {
        let mut allocator = WorkspaceAllocator::default();
        assert_eq!(allocator.allocate(1000, 0, 1), Some(0));
        assert_eq!(allocator.allocate(10, 1, 3), Some(1024));
        assert_eq!(allocator.allocate(2000, 2, 4), Some(1280), "the first place is too small for it");
        assert_eq!(allocator.allocate(300, 2, 2), Some(0));
        assert_eq!(allocator.allocate(500, 3, 3), Some(0));
        assert_eq!(allocator.allocate(600, 3, 3), Some(3328), "what is left below is too small");
        assert_eq!(allocator.size(), 3328 + 768);
        assert_eq!(allocator.allocate(usize::MAX - 100, 9, 9), None);
    }
}
