//! The bytes that an operand holds: builds with debug assertions check that kernels read and write
//! no others.

/// From the lowest to the highest byte that a step may touch of an operand. Nothing in builds
/// without debug assertions.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// The address of the operand, and the first byte behind it and the end, as distances from
    /// there.
    #[cfg(debug_assertions)]
    ends: Option<(usize, [isize; 2])>,
}

impl Held {
    /// For an operand whose elements nobody counts.
    pub const UNKNOWN: Held = Held {
        #[cfg(debug_assertions)]
        ends: None,
    };

    /// Elements of `size` bytes, from the one `start` bytes behind `at` on. Each loop adds a
    /// distance to it, between two ends.
    #[inline(always)]
    pub fn of(at: *const u8, size: usize, start: isize, loops: impl Iterator<Item = [isize; 2]>) -> Held {
        #[cfg(debug_assertions)]
        {
            let add = |[low, high]: [isize; 2], [a, b]: [isize; 2]| [low + a.min(b), high + a.max(b)];
            let ends = loops.fold([start, start + size as isize], add);
            Held { ends: Some((at.addr(), ends)) }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = (at, size, start, loops);
            Held {}
        }
    }

    /// With debug assertions, that these bytes are among them.
    #[inline(always)]
    pub fn assert_holds(&self, at: *const u8, bytes: usize) {
        self.assert_holds_all(at, 0, 1, bytes);
    }

    /// The same of `n` runs of bytes, each `by` bytes behind the one before.
    #[inline(always)]
    pub fn assert_holds_all(&self, at: *const u8, by: isize, n: usize, bytes: usize) {
        #[cfg(debug_assertions)]
        if let (Some((base, [low, high])), true) = (self.ends, n > 0 && bytes > 0) {
            let first = at.addr().wrapping_sub(base) as isize;
            let last = first + (n as isize - 1) * by;
            let (begin, end) = (first.min(last), first.max(last) + bytes as isize);
            assert!(
                begin >= low && end <= high,
                "bytes {begin} to {end} of an operand that holds {low} to {high}"
            );
        }
        #[cfg(not(debug_assertions))]
        let _ = (at, by, n, bytes);
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::catch_unwind;

    use super::Held;

    #[test]
    fn bytes_beside_an_operand_are_noticed() {
        let at = std::ptr::without_provenance::<u8>(4096);
        // Three elements of 4 bytes backwards from the second one, in two columns 16 bytes apart.
        let held = Held::of(at, 4, 4, [[0, -8], [0, 16]].into_iter());
        held.assert_holds(at.wrapping_sub(4), 28);
        held.assert_holds_all(at.wrapping_add(20), -12, 3, 4);
        held.assert_holds(at.wrapping_add(100), 0);
        Held::UNKNOWN.assert_holds(at.wrapping_add(100), 1);
        let fails = |offset: isize, bytes| {
            catch_unwind(|| held.assert_holds(at.wrapping_offset(offset), bytes)).is_err()
        };
        assert!(fails(-5, 1) && fails(-4, 29) && fails(24, 1) && !fails(23, 1));
        assert!(catch_unwind(|| held.assert_holds_all(at, -4, 3, 4)).is_err());
    }
}
