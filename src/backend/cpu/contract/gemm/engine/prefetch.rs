//! B panels that a task packs where it multiplies by them, and the lines that it prefetches before
//! it packs them.

use super::{Engine, share};
use crate::backend::cpu::contract::kernel::Kernels;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, Simd};
use crate::backend::cpu::contract::operands::pack::{PackScalar, Source, pack};
use crate::backend::cpu::contract::operands::points::{OperandOffsets, StridedRun};
use crate::backend::cpu::stream::{LINE, prefetch_l2};
use crate::dtype::convert::Element;

/// The cache lines that some lanes are packed from. Weights that no call has read for a while are
/// in memory, and of the many short streams that packing reads a processor foresees few.
pub(super) struct Prefetch {
    starts: [*const u8; MAX_NR],
    lanes: usize,
    /// Lines of each lane.
    lines: usize,
}

impl Prefetch {
    /// For lanes whose terms are neighbours; for others nothing is fetched.
    #[inline(always)]
    pub(super) fn of(source: &Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun]) -> Prefetch {
        let mut ahead = Prefetch { starts: [std::ptr::null(); MAX_NR], lanes: 0, lines: 0 };
        if let &[StridedRun { at, by: 1, len, .. }] = sum {
            let size = source.scalar.size();
            (ahead.lanes, ahead.lines) = (lanes.len(), (len * size).div_ceil(LINE));
            for (start, lane) in ahead.starts.iter_mut().zip(lanes) {
                *start = source.data.wrapping_offset((lane.at[source.slot] + at) as isize * size as isize);
            }
        }
        ahead
    }

    /// Asks for the share `index` of `parts`.
    #[inline(always)]
    pub(super) fn fetch(&self, index: usize, parts: usize) {
        let (first, end) = share(self.lines, parts, index);
        for start in &self.starts[..self.lanes] {
            (first..end).for_each(|line| prefetch_l2(start.wrapping_add(line * LINE)));
        }
    }
}

/// The lanes of a panel; none behind the last one.
#[inline(always)]
pub(super) fn panel<S: Simd>(lanes: &[OperandOffsets], number: usize) -> &[OperandOffsets] {
    lanes.chunks(Kernels::<S>::NR).nth(number).unwrap_or_default()
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Engine<'_, S> {
    /// Packs the panel `number` of some lanes for a K block, the first one or not. The lines that
    /// the next panel is packed from: behind the last one the first one for the next K block.
    ///
    /// # Safety
    /// As for [`pack`]; `to` has room for a panel.
    pub(super) unsafe fn pack_panel(
        &self, lanes: &[OperandOffsets], number: usize, [sum, next]: [&[StridedRun]; 2], is_first: bool,
        to: *mut S::KGroup,
    ) -> Prefetch {
        let (source, here) = (self.lane_source, panel::<S>(lanes, number));
        if number == 0 && is_first {
            Prefetch::of(&source, here, sum).fetch(0, 1);
        }
        // SAFETY: the lanes are those of the panel, for which `to` has room.
        unsafe { pack::<S>(source, here, sum, Kernels::<S>::NR, to.cast()) };
        match panel::<S>(lanes, number + 1) {
            [] => Prefetch::of(&source, panel::<S>(lanes, 0), next),
            then => Prefetch::of(&source, then, sum),
        }
    }
}
