//! How the items of a call are divided: one after the other, the same in every call.

/// Ranges of items, as many in each of some equal parts.
pub(super) struct Bounds {
    pub items: usize,
    pub parts: usize,
    pub ranges: usize,
}

impl Bounds {
    /// Where a range begins. In each part, items that are left shrink as the square of the ranges
    /// that are, so that ranges become smaller and threads end together. Of few items all ranges
    /// have as many.
    pub fn at(&self, range: usize) -> usize {
        // In 128 bits, as the products may leave 64.
        let [items, parts, ranges] = [self.items, self.parts, self.ranges].map(|n| n as u128);
        let (part, range) = (range as u128 / ranges, range as u128 % ranges);
        let (begin, end) = (items * part / parts, items * (part + 1) / parts);
        let all = end - begin;
        let taken = if all < 4 * ranges {
            all * range / ranges
        } else {
            let left = ranges - range;
            all - all * left * left / (ranges * ranges)
        };
        (begin + taken) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_one_another_and_become_smaller_in_each_part() {
        for (items, parts, ranges) in
            [(2, 2, 1), (7, 7, 1), (8, 1, 4), (17, 2, 4), (73, 3, 4), (usize::MAX, 16, 4)]
        {
            let bounds = Bounds { items, parts, ranges };
            let at: Vec<usize> = (0..=parts * ranges).map(|range| bounds.at(range)).collect();
            assert_eq!((at[0], at[parts * ranges]), (0, items));
            assert!(at.is_sorted(), "{at:?}");
            let sizes: Vec<usize> = at.windows(2).map(|b| b[1] - b[0]).collect();
            for part in sizes.chunks(ranges) {
                // Rounding moves a bound by less than an item.
                assert!(part.windows(2).all(|s| s[1] <= s[0] + 1), "{sizes:?}");
            }
        }
    }
}
