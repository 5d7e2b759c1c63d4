//! One task where rows lie evenly in memory and lanes are packed, as in matrix products and 1 x 1
//! layers with contiguous channels: no list of rows is made, and whole tiles leave from the
//! registers of the kernel. Sums have the order of every other task.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::k_block::KBlock;
use super::prefetch::Prefetch;
use super::{Engine, LOCAL_A_PANELS, LOCAL_M, MC_PANELS, PackA, PackB, TaskScratch, share};
use crate::backend::cpu::contract::epilogue::binary32::F32Epilogue;
use crate::backend::cpu::contract::epilogue::generic::{Run, rows_epilogue};
use crate::backend::cpu::contract::epilogue::registers::{self, Ends, Tiles, is_even, tile_epilogue};
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel, fills};
use crate::backend::cpu::contract::operands::pack::{PackScalar, pack};
use crate::backend::cpu::contract::operands::points::OperandOffsets;
use crate::dtype::convert::Element;

/// What a task knows of even rows.
#[derive(Clone, Copy)]
pub(super) struct EvenRows {
    tiles: &'static Tiles,
    f32_epilogue: F32Epilogue,
    /// What a row and a lane move.
    row: [i64; 5],
    lane: [i64; 5],
    /// How far terms of the sum are apart in a row.
    step: usize,
}

/// One task of even rows.
struct EvenTask<'a, Acc> {
    even: &'a EvenRows,
    base: &'a [i64; 5],
    /// Where the cells of a panel are, of a whole one and of one of half the width.
    offsets: [&'a [i32]; 2],
    /// Sums between K blocks, of the rows from `row` on and of the lanes from `lane` to `end`, with
    /// room for `width`.
    acc: *mut Acc,
    row: usize,
    lane: usize,
    end: usize,
    width: usize,
}

/// Cells of a K block of some lanes, side by side in lines as wide as that.
struct Packed<'a, C> {
    lane: usize,
    wide: usize,
    v: *const C,
    /// What is asked for meanwhile.
    ahead: Option<&'a Prefetch>,
}

/// Some rows of one product.
struct MicroPanel<'a, C> {
    first: usize,
    count: usize,
    panel: Panel<C>,
    base: &'a [i64; 5],
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Engine<'_, S> {
    /// Whether rows are even, lanes packed, once or panel by panel, and there are kernels that
    /// finish whole tiles.
    pub(super) fn even(&self) -> Option<EvenRows> {
        let PackA::InPlace { step, taps: None, .. } = self.from_rows else { return None };
        let ([lane], [_], true) = (&self.lanes.loops[..], &self.sum.loops[..], self.rows.loops.len() <= 1)
        else {
            return None;
        };
        let row = self.rows.loops.first().map_or([0; 5], |axis| axis.by.at);
        let (tiles, f32_epilogue) = registers::tiles::<S>().zip(self.outputs.f32_epilogue)?;
        let packed = match self.from_lanes {
            PackB::Shared => true,
            PackB::Local => self.row_count <= LOCAL_M,
            _ => false,
        };
        let fits = packed && self.row_source.bounds.is_empty() && is_even(&f32_epilogue, &lane.by.at);
        fits.then_some(EvenRows { tiles, f32_epilogue, row, lane: lane.by.at, step })
    }

    /// As [`task`](Engine::task).
    ///
    /// # Safety
    /// As for [`task`](Engine::task); `even` is of this contraction.
    #[inline(always)]
    pub(super) unsafe fn even_task(&self, even: &EvenRows, scratch: &TaskScratch<'_, S>, index: usize) {
        let nr = Kernels::<S>::NR;
        let (part, index) = (index % self.parts, index / self.parts);
        let (column, product) = (index % self.blocks[2], index / self.blocks[2]);
        let base = self.base(&self.batch.point(product));
        let (first, end) = share(self.micro_panels, self.parts, part);
        let panels = self.lanes.len().div_ceil(nr);
        let is_local = matches!(self.from_lanes, PackB::Local);
        // Panels that a task packs for itself begin anywhere.
        let unit = if is_local { nr / 2 } else { nr };
        let (begin, behind) = share(self.lanes.len().div_ceil(unit), self.blocks[2], column);
        let total = self.k_blocks.last().map_or(0, |s| s.before + s.packed);
        let most = self.k_blocks.iter().map(|s| s.packed).max().unwrap_or(0);
        let [mut whole, mut half] = [Vec::new(), Vec::new()];
        // At most the cells of a K block.
        whole.extend((0..most).map(|k| (k * nr) as i32));
        // At most as many.
        half.extend((0..if is_local { most } else { 0 }).map(|k| (k * nr / 2) as i32));
        let task = EvenTask {
            even,
            base: &base,
            offsets: [&whole, &half],
            acc: scratch.acc,
            row: self.micro_panel(first).0,
            lane: begin * unit,
            end: self.lanes.len().min(behind * unit),
            width: ((behind - begin) * unit).next_multiple_of(nr),
        };
        if is_local {
            // SAFETY: `even` is of this contraction, and the scratch has room for a panel.
            return unsafe { self.even_panels(&task, first..end, scratch.v) };
        }
        let (p0, p1) = (begin, behind);
        for (number, k_block) in self.k_blocks.iter().enumerate() {
            let at = product * panels * nr * total + k_block.before * panels * nr + p0 * nr * k_block.packed;
            let v = scratch.shared.at(at).cast_const();
            for group in (first..end).step_by(MC_PANELS) {
                let mut micro_panels = [(0, 0); MC_PANELS];
                let micro_panels = self.group(group..end.min(group + MC_PANELS), &mut micro_panels);
                for panel in p0..p1 {
                    let v = v.wrapping_add((panel - p0) * nr * k_block.packed);
                    let packed = Packed { lane: panel * nr, wide: nr, v, ahead: None };
                    // SAFETY: the panel has been packed, and the rows are the task's.
                    unsafe { self.even_panel(&task, number, micro_panels, &packed) };
                }
            }
        }
    }

    /// The tiles of few rows, of panels that are packed one after the other at `v`.
    ///
    /// # Safety
    /// As for [`even_task`](Engine::even_task); there is room for a panel.
    #[inline(always)]
    unsafe fn even_panels(&self, task: &EvenTask<'_, S::Acc>, micro_panels: Range<usize>, v: *mut S::KGroup) {
        let (nr, source) = (Kernels::<S>::NR, self.lane_source);
        let mut space = [(0, 0); LOCAL_A_PANELS];
        let micro_panels = self.group(micro_panels, &mut space);
        let (mut sum, mut next) = (Vec::new(), Vec::new());
        let [axis] = &self.lanes.loops[..] else { return };
        // Of lanes without bounds no more is asked than where they are.
        let is_bounded = !source.bounds.is_empty();
        let points = |space: &mut [OperandOffsets; MAX_NR], first: usize| {
            let count = nr.min(task.end.saturating_sub(first));
            let mut here = OperandOffsets::default();
            here.add(&axis.by, first as i64);
            here.at[source.slot] += task.base[source.slot];
            for point in &mut space[..count] {
                if is_bounded {
                    *point = here;
                    here.add(&axis.by, 1);
                } else {
                    point.at[source.slot] = here.at[source.slot];
                    here.at[source.slot] += axis.by.at[source.slot];
                }
            }
            count
        };
        let mut spaces = [[OperandOffsets::default(); MAX_NR]; 2];
        for lane in (task.lane..task.end).step_by(nr) {
            let [here, then] = &mut spaces;
            let (count, following) = (points(here, lane), points(then, lane + nr));
            let (lanes, lanes_then) = (&here[..count], &then[..following]);
            let wide = if 2 * count <= nr { nr / 2 } else { nr };
            for (k, k_block) in self.k_blocks.iter().enumerate() {
                // Lines of a lane are read to their end, before those of the next lanes.
                let (lanes_ahead, block_ahead) = match self.k_blocks.get(k + 1) {
                    Some(next) => (lanes, next),
                    None => (lanes_then, &self.k_blocks[0]),
                };
                self.evens(block_ahead, source, &mut next);
                let ahead = Prefetch::of(&source, lanes_ahead, &next);
                self.evens(k_block, source, &mut sum);
                let packed = Packed { lane, wide, v: v.cast_const(), ahead: Some(&ahead) };
                // SAFETY: the lanes are those of the panel, and `v` has room for it.
                unsafe {
                    pack::<S>(source, lanes, &sum, wide, v.cast());
                    self.even_panel(task, k, micro_panels, &packed);
                }
            }
        }
    }

    /// The rows of some strips, in the space for them.
    #[inline(always)]
    fn group<'a>(
        &self, numbers: Range<usize>, micro_panels: &'a mut [(usize, usize)],
    ) -> &'a [(usize, usize)] {
        let micro_panels = &mut micro_panels[..numbers.len()];
        micro_panels
            .iter_mut()
            .zip(numbers)
            .for_each(|(micro_panel, number)| *micro_panel = self.micro_panel(number));
        micro_panels
    }

    /// The tiles of some strips with the lanes of a panel.
    ///
    /// # Safety
    /// As for [`even_task`](Engine::even_task).
    #[inline(always)]
    unsafe fn even_panel(
        &self, task: &EvenTask<'_, S::Acc>, number: usize, micro_panels: &[(usize, usize)],
        packed: &Packed<'_, S::KGroup>,
    ) {
        let (EvenTask { even, base, .. }, slot) = (task, self.row_source.slot);
        let &Packed { lane, wide, v, ahead } = packed;
        let KBlock { begin, cells: len, .. } = self.k_blocks[number];
        let offsets = task.offsets[usize::from(wide < Kernels::<S>::NR)].as_ptr();
        let from = base[slot] + self.sum.offset(begin, slot);
        let from = self.row_source.data.cast::<S::KGroup>().wrapping_offset(from as isize);
        let ends = (number == 0, number + 1 == self.k_blocks.len());
        for (s, &(first, count)) in micro_panels.iter().enumerate() {
            if let Some(ahead) = ahead {
                ahead.fetch(s, micro_panels.len());
            }
            let from = from.wrapping_offset(first as isize * even.row[slot] as isize);
            let mut rows = [from; MR];
            let mut m = 1;
            while m < MR {
                rows[m] = rows[m - 1].wrapping_offset(even.row[slot] as isize);
                m += 1;
            }
            let table = [rows];
            let cells = Panel { rows: table.as_ptr(), segments: 1, len, step: even.step, offsets, v };
            let micro_panel = MicroPanel { first, count, panel: cells, base };
            let kept = task.acc.wrapping_add((first - task.row) * task.width + lane - task.lane);
            // SAFETY: the rows, the panel and the sums that are kept are the task's.
            unsafe { self.even_tile(even, &micro_panel, lane..task.end, (kept, task.width), ends) };
        }
    }

    /// One tile, of as many of the lanes as it holds; sums that wait are `kept`, row by row so far
    /// apart.
    ///
    /// # Safety
    /// As for [`even_task`](Engine::even_task).
    #[inline(always)]
    unsafe fn even_tile(
        &self, even: &EvenRows, micro_panel: &MicroPanel<'_, S::KGroup>, lanes: Range<usize>,
        (kept, apart): (*mut S::Acc, usize), (is_first, is_last): (bool, bool),
    ) {
        let (EvenRows { f32_epilogue, row, lane: by, .. }, nr) = (even, Kernels::<S>::NR);
        let MicroPanel { first, count, ref panel, base } = *micro_panel;
        let (lane, lanes) = (lanes.start, nr.min(lanes.len()));
        let is_whole = fills(lanes, nr);
        let place = |slot: usize| (base[slot] + first as i64 * row[slot] + lane as i64 * by[slot]) as isize;
        let mut here = [const { MaybeUninit::<S::Acc>::uninit() }; MR * MAX_NR];
        // Where sums are between K blocks.
        let (acc, apart) = if self.direct && is_whole {
            (self.outputs.dst.cast::<S::Acc>().wrapping_offset(place(0)), row[0] as isize)
        } else if is_first && is_last {
            (here.as_mut_ptr().cast(), nr as isize)
        } else {
            (kept, apart as isize)
        };
        let mut c = [acc; MR];
        let mut m = 1;
        while m < MR {
            c[m] = c[m - 1].wrapping_offset(apart);
            m += 1;
        }
        // SAFETY: the tile's rows and lanes are there; sums of kernels that have such tiles are
        // binary32.
        unsafe {
            if is_last && is_whole {
                let before = (!is_first).then(|| &*(&raw const c).cast::<[*mut f32; MR]>());
                let mut ends = Ends::new(by[4] == 1, before);
                ends.to[0] = f32_epilogue.dst.wrapping_offset(place(0));
                ends.z[0] = f32_epilogue.z.wrapping_offset(place(3));
                ends.bias[0] = f32_epilogue.bias.wrapping_offset(place(4));
                let mut m = 1;
                while m < MR {
                    ends.to[m] = ends.to[m - 1].wrapping_offset(row[0] as isize);
                    ends.z[m] = ends.z[m - 1].wrapping_offset(row[3] as isize);
                    ends.bias[m] = ends.bias[m - 1].wrapping_offset(row[4] as isize);
                    m += 1;
                }
                return tile_epilogue(even.tiles, f32_epilogue, panel, [count, lanes], &ends);
            }
            self.kernels.of(count, lanes)(panel, &c, !is_first);
            if is_last {
                let mut places = [*base; MR];
                for (m, place) in places[..count].iter_mut().enumerate() {
                    place.iter_mut().zip(row).for_each(|(at, by)| *at += (first + m) as i64 * by);
                }
                let mut at = *by;
                at.iter_mut().for_each(|at| *at *= lane as i64);
                let run = Run { lane: 0, len: lanes as u32, at, by: *by };
                rows_epilogue(&self.outputs, &places[..count], &run, &c);
            }
        }
    }
}
