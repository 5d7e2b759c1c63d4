//! Whether two tensors in one buffer share an element, where their spans meet.

use super::Layout;

/// Bytes that a layout touches, from its lowest one on: runs of `width` bytes, one for every turn
/// of the loops.
struct Runs {
    /// Distance from the data pointer to the lowest byte.
    low: i128,
    width: i128,
    /// Extent and distance in bytes of each loop, the shortest distance first; all above `width`.
    loops: Vec<(i128, i128)>,
}

impl Runs {
    /// Padding of blocked layouts counts as touched: operations write it.
    fn of(layout: &Layout, size: usize) -> Runs {
        let size = size as i128;
        let mut runs = Runs { low: 0, width: size, loops: Vec::new() };
        for axis in 0..layout.dims.rank() {
            let block = layout.block(axis);
            let groups = i128::from((layout.dims[axis] + block - 1) / block);
            let step = i128::from(layout.strides[axis]) * size;
            runs.low += (groups - 1) * step.min(0);
            runs.loops.push((groups, step.abs()));
            runs.loops.push((block.into(), size));
        }
        runs.loops.retain(|&(extent, step)| extent > 1 && step != 0);
        runs.loops.sort_unstable_by_key(|&(_, step)| step);
        // Loops without gaps make longer runs.
        while let Some(&(extent, step)) = runs.loops.first()
            && step <= runs.width
        {
            runs.width += (extent - 1) * step;
            runs.loops.remove(0);
        }
        runs
    }
}

/// One unknown of the search: an integer from `low` to `high`, times `step`.
#[derive(Clone, Copy)]
struct Unknown {
    step: i128,
    low: i128,
    high: i128,
}

/// Steps of the search after which the answer is left open. Slices and interleaved tensors need a
/// few dozen.
const MOST_STEPS: usize = 4096;

/// Whether it is certain that no byte of `a`, whose elements have `sizes[0]` bytes, is one of `b`,
/// which starts `distance` bytes after it.
///
/// A search over the distances between runs, largest strides first, which follows only what can
/// still come close. `false` also where that takes too long.
pub fn are_disjoint([a, b]: [&Layout; 2], sizes: [usize; 2], distance: i64) -> bool {
    let (a, b) = (Runs::of(a, sizes[0]), Runs::of(b, sizes[1]));
    let mut unknowns: Vec<Unknown> = Vec::new();
    for (runs, sign) in [(&a, -1), (&b, 1)] {
        for &(extent, step) in &runs.loops {
            let (low, high) = if sign < 0 { (1 - extent, 0) } else { (0, extent - 1) };
            // One unknown serves loops of one stride in both.
            match unknowns.iter_mut().find(|unknown| unknown.step == step) {
                Some(unknown) => (unknown.low, unknown.high) = (unknown.low + low, unknown.high + high),
                None => unknowns.push(Unknown { step, low, high }),
            }
        }
    }
    unknowns.sort_unstable_by_key(|unknown| std::cmp::Reverse(unknown.step));
    // Runs meet if the second starts less than its width before the first, or less than the width
    // of that behind it.
    let meets = (1 - b.width, a.width - 1);
    let start = i128::from(distance) + b.low - a.low;
    let mut steps = MOST_STEPS;
    can_meet(&unknowns, start, meets, &mut steps) == Some(false)
}

/// Whether some choice of the unknowns brings `start` into `meets`; `None` when the steps are used
/// up.
fn can_meet(unknowns: &[Unknown], start: i128, meets: (i128, i128), steps: &mut usize) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    let Some((first, rest)) = unknowns.split_first() else {
        return Some((meets.0..=meets.1).contains(&start));
    };
    let (low, high) =
        rest.iter().fold((0, 0), |(low, high), u| (low + u.low * u.step, high + u.high * u.step));
    let least = (meets.0 - high - start).div_euclid(first.step)
        + i128::from((meets.0 - high - start).rem_euclid(first.step) != 0);
    let most = (meets.1 - low - start).div_euclid(first.step);
    for value in least.max(first.low)..=most.min(first.high) {
        if can_meet(rest, start + value * first.step, meets, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;
    use std::collections::BTreeSet;

    fn layout(dims: &[i64], strides: &[i64]) -> Layout {
        Layout { dims: Dims::new(dims), strides: Dims::new(strides), split: None }
    }

    /// Every byte, by walking.
    fn bytes(layout: &Layout, size: i64, start: i64) -> BTreeSet<i64> {
        let mut found = BTreeSet::from([start]);
        for axis in 0..layout.dims.rank() {
            let steps: Vec<i64> = (0..layout.dims[axis]).map(|k| k * layout.strides[axis] * size).collect();
            found = found.iter().flat_map(|at| steps.iter().map(move |step| at + step)).collect();
        }
        found.iter().flat_map(|at| (0..size).map(move |k| at + k)).collect()
    }

    #[test]
    fn agrees_with_walking_every_byte() {
        let mut random = 1_u64;
        let mut next = |below: i64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as i64 % below
        };
        let (mut apart, mut meeting) = (0, 0);
        // An interpreter takes long for each.
        let turns = if cfg!(miri) { 24 } else { 4000 };
        for _ in 0..turns {
            let mut one = || {
                let dims = [1 + next(4), 1 + next(4), 1 + next(5)];
                let strides = [next(60) - 20, next(24) - 6, next(6)];
                (layout(&dims, &strides), [1, 2, 4][next(3) as usize])
            };
            let ((a, p), (b, q)) = (one(), one());
            let distance = next(200) - 100;
            let want = bytes(&a, p, 0).is_disjoint(&bytes(&b, q, distance));
            assert_eq!(
                are_disjoint([&a, &b], [p as usize, q as usize], distance),
                want,
                "{a:?} {b:?} {distance}"
            );
            if want { apart += 1 } else { meeting += 1 }
        }
        assert!(apart > turns / 8 && meeting > turns / 8, "{apart} {meeting}");
    }

    #[test]
    fn halves_of_the_channels_are_apart_and_one_more_is_not() {
        let half = layout(&[2, 32, 8, 8], &[4096, 64, 8, 1]);
        assert!(are_disjoint([&half, &half], [4, 4], 32 * 64 * 4));
        assert!(!are_disjoint([&half, &half], [4, 4], 31 * 64 * 4));
        let large = layout(&[1 << 20, 1 << 20, 1 << 10], &[1 << 32, 1 << 12, 2]);
        assert!(are_disjoint([&large, &large], [1, 1], 1));
        assert!(!are_disjoint([&large, &large], [1, 1], 2));
    }
}
