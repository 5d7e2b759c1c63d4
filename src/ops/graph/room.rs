//! Places in a workspace: by lifetime, the lowest that is free.

/// Begin of every place, in bytes.
pub(super) const ALIGNMENT: usize = 256;

/// Something that needs room from one operation to another, both included.
struct Tenant {
    begin: usize,
    end: usize,
    first: usize,
    last: usize,
}

/// A workspace that is being laid out.
#[derive(Default)]
pub(super) struct Room {
    tenants: Vec<Tenant>,
}

impl Room {
    /// The lowest place for `size` bytes from operation `first` to operation `last`; `None` beyond
    /// the address space.
    pub fn take(&mut self, size: usize, first: usize, last: usize) -> Option<usize> {
        let mut begin = 0_usize;
        let size = size.max(1).checked_next_multiple_of(ALIGNMENT)?;
        // Tenants are sorted by their places, so that gaps are met from the lowest on.
        for tenant in self.tenants.iter().filter(|tenant| tenant.first <= last && first <= tenant.last) {
            if begin.checked_add(size)? <= tenant.begin {
                break;
            }
            begin = begin.max(tenant.end);
        }
        let end = begin.checked_add(size)?;
        let at = self.tenants.partition_point(|tenant| tenant.begin <= begin);
        self.tenants.insert(at, Tenant { begin, end, first, last });
        Some(begin)
    }

    /// Bytes of all places.
    pub fn size(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_by_those_that_never_meet() {
        let mut room = Room::default();
        assert_eq!(room.take(1000, 0, 1), Some(0));
        assert_eq!(room.take(10, 1, 3), Some(1024));
        assert_eq!(room.take(2000, 2, 4), Some(1280), "the first place is too small for it");
        assert_eq!(room.take(300, 2, 2), Some(0));
        assert_eq!(room.take(500, 3, 3), Some(0));
        assert_eq!(room.take(600, 3, 3), Some(3328), "what is left below is too small");
        assert_eq!(room.size(), 3328 + 768);
        assert_eq!(room.take(usize::MAX - 100, 9, 9), None);
    }
}
