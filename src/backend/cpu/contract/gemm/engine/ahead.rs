//! Panels of lanes that a task packs where it multiplies by them, and the lines that it fetches before it packs them.

use super::{Engine, share};
use crate::backend::cpu::contract::kernel::Kernels;
use crate::backend::cpu::contract::kernel::simd::Simd;
use crate::backend::cpu::contract::operands::pack::{Part, Source, pack};
use crate::backend::cpu::contract::operands::points::{Even, Point};
use crate::backend::cpu::stream::{LINE, fetch_far};
use crate::dtype::convert::Element;

/// The cache lines that some lanes are packed from. Weights that no call has read for a while are in memory, and of the many short
/// streams that packing reads a processor foresees few.
pub(super) struct Ahead {
    first: *const u8,
    /// Bytes from a lane to the next.
    apart: isize,
    lanes: usize,
    /// Lines of each lane.
    lines: usize,
}

impl Ahead {
    /// For lanes that are evenly apart and whose terms are neighbours; for others nothing is fetched.
    #[inline(always)]
    pub(super) fn of(source: &Source<'_>, lanes: &[Point], sum: &[Even]) -> Option<Ahead> {
        let &[Even { at, by: 1, len, .. }] = sum else { return None };
        let (size, place) = (source.scalar.size(), |lane: &Point| lane.at[source.slot]);
        let first = place(lanes.first()?);
        let apart = lanes.get(1).map_or(0, |second| place(second) - first);
        if !lanes.windows(2).all(|pair| place(&pair[1]) - place(&pair[0]) == apart) {
            return None;
        }
        Some(Ahead {
            first: source.data.wrapping_offset((first + at) as isize * size as isize),
            apart: apart as isize * size as isize,
            lanes: lanes.len(),
            lines: (len * size).div_ceil(LINE),
        })
    }

    /// Fetches all lines.
    pub(super) fn fetch(&self) {
        for lane in 0..self.lanes {
            let start = self.first.wrapping_offset(lane as isize * self.apart);
            (0..self.lines).for_each(|line| fetch_far(start.wrapping_add(line * LINE)));
        }
    }

    /// Where the lines begin that call `index` of `calls` of a kernel fetches.
    #[inline(always)]
    pub(super) fn share(&self, index: usize, calls: usize) -> *const u8 {
        let last = self.lanes - self.lanes.div_ceil(calls);
        self.first.wrapping_offset(share(self.lanes, calls, index).0.min(last) as isize * self.apart)
    }

    /// How far from there the byte is that a kernel fetches with each of `cells` cells, so that `calls` calls fetch all lines. A kernel
    /// that fetched them at once would wait: a processor keeps track of some dozen lines at a time.
    pub(super) fn offsets(&self, cells: usize, calls: usize, offsets: &mut Vec<i32>) {
        let lines = self.lanes.div_ceil(calls) * self.lines;
        offsets.clear();
        // At most the cells of a K block.
        offsets.extend((0..cells).map(|cell| {
            let line = cell * lines / cells;
            let at = (line / self.lines) as isize * self.apart + (line % self.lines * LINE) as isize;
            i32::try_from(at).unwrap_or(0)
        }));
    }
}

/// The lanes of a panel; none behind the last one.
#[inline(always)]
pub(super) fn panel<S: Simd>(lanes: &[Point], number: usize) -> &[Point] {
    lanes.chunks(Kernels::<S>::NR).nth(number).unwrap_or_default()
}

impl<S: Simd<Part: Part, Sum: Element>> Engine<'_, S> {
    /// Packs the panel `number` of some lanes. The lines that the next one is packed from.
    ///
    /// # Safety
    /// As for [`pack`]; `to` has room for a panel.
    pub(super) unsafe fn pack_panel(
        &self, lanes: &[Point], number: usize, sum: &[Even], to: *mut S::Cell,
    ) -> Option<Ahead> {
        let (source, here) = (self.lane_source, panel::<S>(lanes, number));
        if number == 0 {
            Ahead::of(&source, here, sum).iter().for_each(Ahead::fetch);
        }
        // SAFETY: the lanes are those of the panel, for which `to` has room.
        unsafe { pack::<S>(source, here, sum, Kernels::<S>::NR, to.cast()) };
        Ahead::of(&source, panel::<S>(lanes, number + 1), sum)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_calls_of_a_kernel_fetch_all_lines() {
        let mut offsets = Vec::new();
        for (lanes, lines, calls) in [(64, 32, 9), (64, 24, 40), (13, 5, 2), (3, 7, 9), (1, 1, 1)] {
            let apart = 1000 * LINE as isize;
            let ahead = Ahead { first: std::ptr::null(), apart, lanes, lines };
            ahead.offsets(lines * lanes.div_ceil(calls) * 3 / 2, calls, &mut offsets);
            let line =
                |call: usize, at: i32| ahead.share(call, calls).wrapping_offset(at as isize).addr() / LINE;
            let all_calls = (0..calls).flat_map(|call| offsets.iter().map(move |&at| (call, at)));
            let fetched: BTreeSet<usize> = all_calls.map(|(call, at)| line(call, at)).collect();
            let all: BTreeSet<usize> =
                (0..lanes).flat_map(|lane| (0..lines).map(move |line| lane * 1000 + line)).collect();
            assert_eq!(fetched, all, "{lanes} lanes of {lines} lines in {calls} calls");
        }
    }
}
