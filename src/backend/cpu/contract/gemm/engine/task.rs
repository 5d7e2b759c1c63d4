//! One task: a block of lanes for a part of the rows; and what is packed once for all tasks.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::in_place::{Runs, reach_of};
use super::k_block::{KBlock, KC};
use super::prefetch::Prefetch;
use super::{Engine, MC_PANELS, PackA, PackB, Shared, TaskScratch, share};
use crate::backend::cpu::contract::epilogue::generic::{Run, epilogue, rows_epilogue};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::contract::epilogue::narrow::Line;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::contract::epilogue::registers::{self, Blocks, Ends, is_even, tile_epilogue};
use crate::backend::cpu::contract::gemm::tiles::Tiles;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::contract::kernel::fills;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel, RowPointers};
use crate::backend::cpu::contract::operands::pack::{PackScalar, Source, pack, pack_across};
use crate::backend::cpu::contract::operands::points::{Loop, OperandOffsets, StridedRun};
use crate::dtype::convert::Element;
use crate::ops::contract::MAX_BOUNDS;

/// Strips that are packed together where they lie side by side in memory.
const ACROSS: usize = 16;

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Engine<'_, S> {
    /// Rows of a strip.
    pub(super) fn micro_panel(&self, index: usize) -> (usize, usize) {
        let (begin, end) = share(self.row_count, self.micro_panels, index);
        (begin, end - begin)
    }

    /// Where the segments of a K block begin that rows in place are read in, of `inner` cells each,
    /// and the `taps` of each.
    fn starts(&self, k_block: &KBlock, inner: usize, taps: usize, starts: &mut Vec<OperandOffsets>) {
        match &self.from_lanes {
            // The first channel says where the others are, if all are one run.
            PackB::Planes(planes) => {
                let end = if inner == 0 { k_block.begin + 1 } else { k_block.end };
                starts.clear();
                // At most the channels of a K block.
                starts.extend((k_block.begin..end).map(|channel| planes.channels.point(channel)));
            }
            _ => {
                let cells = inner.min(k_block.cells) / taps;
                starts.clear();
                let apart = cells * S::K_PACK;
                // At most the terms of a K block.
                starts.extend((k_block.begin..k_block.end).step_by(apart).map(|k| self.sum.point(k)));
            }
        }
    }

    /// A K block of the sum as evenly spaced points of one operand.
    pub(super) fn evens(&self, k_block: &KBlock, source: Source<'_>, list: &mut Vec<StridedRun>) {
        let KBlock { begin, end, .. } = *k_block;
        match &self.from_lanes {
            PackB::Planes(planes) => planes.evens(begin, end, S::K_PACK, source.slot, list),
            _ => self.sum.evens(begin, end, source.slot, !source.bounds.is_empty(), list),
        }
    }

    pub(super) fn base(&self, batch: &OperandOffsets) -> [i64; 5] {
        batch.offsets(&self.origin)
    }

    /// Packs strips of rows or panels of lanes, for the whole sum, where all tasks find them.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::run); the shared scratch has room.
    pub(super) unsafe fn pack_shared(&self, shared: &Shared<S::KGroup>, pieces: Range<usize>) {
        let nr = Kernels::<S>::NR;
        let lanes = matches!(self.from_lanes, PackB::Shared);
        let each = if lanes { self.lanes.len().div_ceil(nr) } else { self.micro_panels };
        let (source, walk) =
            if lanes { (self.lane_source, &self.lanes) } else { (self.row_source, &self.rows) };
        let width = |count: usize| if lanes { nr } else { count };
        let micro_panel = |piece: usize| {
            if lanes { (piece * nr, nr.min(self.lanes.len() - piece * nr)) } else { self.micro_panel(piece) }
        };
        let total = if lanes { each * nr } else { self.row_count };
        let cells = self.k_blocks.last().map_or(0, |s| s.before + s.packed);
        let (mut points, mut sum): (Vec<OperandOffsets>, Vec<StridedRun>) = (Vec::new(), Vec::new());
        let (mut across, mut starts) = (Vec::new(), Vec::new());
        // Phases of a stride: lanes are nearer to each other than terms of the sum.
        let by = |axis: &Loop| axis.by.at[source.slot].abs();
        let near = walk.loops.len() > 1
            && walk.loops.last().is_some_and(|axis| self.sum.loops.iter().all(|term| by(axis) < by(term)));
        let mut piece = pieces.start;
        while piece < pieces.end {
            let (product, first) = (piece / each, piece % each);
            let most = ACROSS.min(pieces.end - piece).min(each - first);
            let (begin, _) = micro_panel(first);
            let (last, count) = micro_panel(first + most - 1);
            walk.points(begin, last + count, &mut points);
            let base = self.base(&self.batch.point(product))[source.slot];
            points.iter_mut().for_each(|p| p.at[source.slot] += base);
            starts.clear();
            // At most the lanes of the strips that are packed together.
            starts.extend(points.iter().map(|p| p.at[source.slot]));
            let side_by_side = starts.windows(2).all(|pair| pair[1] == pair[0] + 1);
            let together =
                S::K_PACK == 1 && source.bounds.is_empty() && width(count) == count && (side_by_side || near);
            for k_block in &self.k_blocks {
                self.evens(k_block, source, &mut sum);
                let at = |begin: usize| {
                    shared
                        .at(product * total * cells + k_block.before * total + begin * k_block.packed)
                        .cast()
                };
                let micro_panels = (first..first + most).map(micro_panel);
                // SAFETY: the strips have their elements, and every piece its place.
                unsafe {
                    if together {
                        across.clear();
                        // At most [`ACROSS`].
                        across.extend(micro_panels.map(|(begin, count)| (count, at(begin))));
                        let apart = (!side_by_side).then_some(&starts[..]);
                        pack_across::<S::Portable>(source, starts[0], apart, &across, &sum);
                    } else {
                        for (from, count) in micro_panels {
                            let (here, next) = points[from - begin..].split_at(count);
                            Prefetch::of(&source, &next[..next.len().min(count)], &sum).fetch(0, 1);
                            pack::<S>(source, here, &sum, width(count), at(from));
                        }
                    }
                }
            }
            piece += most;
        }
    }

    /// Computes one block of lanes for one part of the rows.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::run); the scratch is this task's
    /// alone, and what is shared has been packed.
    #[inline(always)]
    pub unsafe fn task(&self, scratch: &TaskScratch<'_, S>, index: usize) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(even) = &self.even {
            // SAFETY: the rows are even, and the scratch is this task's.
            return unsafe { self.even_task(even, scratch, index) };
        }
        let nr = Kernels::<S>::NR;
        let (part, index) = (index % self.parts, index / self.parts);
        let [outer, down, along] = self.blocks;
        let (column, index) = (index % along, index / along);
        let (row, index) = (index % down, index / down);
        let (outer_index, product) = (index % outer, index / outer);
        let batch = self.batch.point(product);
        let base = self.base(&batch);
        let (first, end) = share(self.micro_panels, self.parts, part);
        let part_row = self.micro_panel(first).0;
        let mut tiles = Tiles::default();
        let mut lane_points = Vec::new();
        let mut place = None;
        let total_panels = self.lanes.len().div_ceil(nr);
        let mut first_lane = 0;
        match &self.from_lanes {
            PackB::Planes(planes) => {
                let [slow, fast] = &planes.dims;
                let mut point = planes.outer.point(outer_index);
                point.add(&batch, 1);
                let (r0, r1) = share(slow.outputs.extent, down, row);
                let (c0, c1) = share(fast.outputs.extent, along, column);
                let block = planes.block(r1 - r0, c1 - c0, 64 / size_of::<S::KGroup>());
                let mut start = planes.outer.point(outer_index);
                start.add(&slow.outputs.by, r0 as i64);
                start.add(&fast.outputs.by, c0 as i64);
                tiles.of_planes(&start, [&slow.outputs.by, &fast.outputs.by], &block, nr);
                (0..5).for_each(|k| point.at[k] += self.origin[k]);
                place = Some((point, block, block.spans(planes, [r0, c0])));
            }
            _ => {
                // Whole panels, so that those packed once are found.
                let (p0, p1) = share(total_panels, along, column);
                first_lane = p0 * nr;
                self.lanes.points(first_lane, self.lanes.len().min(p1 * nr), &mut lane_points);
                tiles.of_points(&lane_points, nr);
                lane_points
                    .iter_mut()
                    .for_each(|p| p.at[self.lane_source.slot] += base[self.lane_source.slot]);
            }
        }
        let width = tiles.list.len() * nr;
        let (mut sum, mut offsets, mut table) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lane_sum, mut row_sum, mut next_sum) = (Vec::new(), Vec::new(), Vec::new());
        let (still, mut far) = (matches!(self.from_lanes, PackB::InPlace), Vec::new());
        let is_local = matches!(self.from_lanes, PackB::Local);
        // Strips that are outside the window as a whole, of a K block that is one segment.
        let mut nothing = Vec::new();
        // Some rows and where they are: all of a task of several K blocks, which are not many, else
        // those of a group.
        let (mut row_points, mut places, mut from_row) = (Vec::new(), Vec::new(), part_row);
        let last = self.micro_panel(end - 1);
        let last = last.0 + last.1;
        let locate = |rows: Range<usize>, points: &mut Vec<OperandOffsets>, places: &mut Vec<[i64; 5]>| {
            self.rows.points(rows.start, rows.end, points);
            places.clear();
            // At most 128 strips.
            places.extend(points.iter().map(|point| point.offsets(&base)));
        };
        let several = self.k_blocks.len() > 1;
        if several {
            locate(part_row..last, &mut row_points, &mut places);
        }
        let total = self.k_blocks.last().map_or(0, |s| s.before + s.packed);
        let plain = self.direct && self.outputs.is_plain();
        let mut zeros = [const { MaybeUninit::<S::KGroup>::uninit() }; KC];
        if !self.row_source.bounds.is_empty() {
            zeros.fill(MaybeUninit::new(S::ZERO));
        }
        let mut reach = [(0, 0); MAX_BOUNDS];
        let mut here = [const { MaybeUninit::<S::Acc>::uninit() }; MR * MAX_NR];
        // SAFETY: what is shared is packed, and the task's scratch is as large as `sizes` says.
        unsafe {
            if self.k_blocks.is_empty() {
                let nothing = [S::Acc::ZERO; MAX_NR];
                for row in part_row..last {
                    let at = self.rows.point(row).offsets(&base);
                    let run =
                        |run: &Run| epilogue(&self.outputs, &at, &Run { lane: 0, ..*run }, nothing.as_ptr());
                    tiles.runs.iter().for_each(run);
                }
                return;
            }
            for (number, k_block) in self.k_blocks.iter().enumerate() {
                let (is_first, is_last) = (number == 0, number + 1 == self.k_blocks.len());
                if let PackA::InPlace { inner, taps, .. } = self.from_rows {
                    self.starts(k_block, inner, taps.unwrap_or(1), &mut sum);
                    reach = reach_of(self.row_source.bounds, &sum);
                }
                if matches!(self.from_lanes, PackB::Local | PackB::InPlace) {
                    self.evens(k_block, self.lane_source, &mut lane_sum);
                }
                next_sum.clear();
                if let (PackB::Local, Some(next)) = (&self.from_lanes, self.k_blocks.get(number + 1)) {
                    self.evens(next, self.lane_source, &mut next_sum);
                }
                if matches!(self.from_rows, PackA::Local) {
                    self.evens(k_block, self.row_source, &mut row_sum);
                }
                let v: *const S::KGroup = match (&self.from_lanes, &place) {
                    (PackB::Planes(planes), Some((point, block, spans))) => {
                        let source = self.lane_source;
                        block.copy::<S>(
                            planes,
                            source,
                            point,
                            spans,
                            k_block.begin..k_block.end,
                            scratch.v.cast(),
                            false,
                        );
                        block.offsets(
                            planes,
                            (k_block.end - k_block.begin).div_ceil(S::K_PACK),
                            &mut offsets,
                        );
                        scratch.v
                    }
                    (PackB::Local, _) => scratch.v,
                    (PackB::InPlace, _) => {
                        // Vectors of lanes that fill no tile would leave the operand.
                        let left = lane_points.len() % nr;
                        if left > 0 {
                            let lanes = &lane_points[lane_points.len() - left..];
                            pack::<S>(self.lane_source, lanes, &lane_sum, nr, scratch.v.cast());
                        }
                        let slot = self.lane_source.slot;
                        let at = lane_points[0].at[slot] + self.sum.offset(k_block.begin, slot);
                        self.lane_source.data.cast::<S::KGroup>().wrapping_offset(at as isize)
                    }
                    _ => {
                        let all = total_panels * nr;
                        let at = product * all * total + k_block.before * all;
                        scratch.shared.at(at + first_lane * k_block.packed)
                    }
                };
                if place.is_none() {
                    offsets.clear();
                    // At most the cells of a K block.
                    offsets.extend((0..k_block.packed).map(|k| (k * nr) as i32));
                }
                if still {
                    let apart = self.sum.loops.last().map_or(0, |axis| axis.by.at[self.lane_source.slot]);
                    far.clear();
                    // At most the cells of a K block.
                    far.extend((0..k_block.cells).map(|k| (k as i64 * apart) as i32));
                }
                // Whole tiles of these leave from the kernel's registers.
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                let narrow =
                    self.outputs.narrow.as_ref().filter(|narrow| is_last && narrow.ends_tiles::<S>());
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                let whole =
                    registers::tiles::<S>().zip(self.outputs.f32_epilogue.as_ref()).filter(|_| is_last);
                for group in (first..end).step_by(MC_PANELS) {
                    let (mut segments, mut len, mut step) = (1, k_block.cells, 0);
                    let mut micro_panels = [(0, 0); MC_PANELS];
                    let micro_panels = &mut micro_panels[..MC_PANELS.min(end - group)];
                    (group..)
                        .zip(&mut *micro_panels)
                        .for_each(|(index, micro_panel)| *micro_panel = self.micro_panel(index));
                    if !several {
                        from_row = micro_panels[0].0;
                        let (row, count) = micro_panels[micro_panels.len() - 1];
                        locate(from_row..row + count, &mut row_points, &mut places);
                    }
                    table.clear();
                    nothing.clear();
                    for &(row, count) in &*micro_panels {
                        let points = &row_points[row - from_row..][..count];
                        let mut rows: RowPointers<S::KGroup> = [std::ptr::null(); MR];
                        match self.from_rows {
                            PackA::Shared => {
                                let at = product * self.row_count * total + k_block.before * self.row_count;
                                let from = scratch.shared.at(at + row * k_block.packed);
                                (0..count).for_each(|m| rows[m] = from.wrapping_add(m));
                                table.push(rows);
                            }
                            PackA::Local => {
                                let at = (row - micro_panels[0].0) * k_block.packed;
                                let to = scratch.r.wrapping_add(at);
                                let mut moved = [OperandOffsets::default(); MR];
                                moved[..count].copy_from_slice(points);
                                moved
                                    .iter_mut()
                                    .for_each(|p| p.at[self.row_source.slot] += base[self.row_source.slot]);
                                pack::<S>(self.row_source, &moved[..count], &row_sum, count, to.cast());
                                (0..count).for_each(|m| rows[m] = to.wrapping_add(m));
                                table.push(rows);
                            }
                            PackA::InPlace { inner, step: by, taps } => {
                                let inner = if inner == 0 { k_block.cells } else { inner.min(k_block.cells) };
                                (segments, len, step) = (k_block.cells / inner, inner, by);
                                let copies =
                                    scratch.r.wrapping_add((row - micro_panels[0].0) * k_block.cells);
                                let runs =
                                    Runs { inner, taps, reach: &reach, zeros: zeros.as_ptr().cast(), copies };
                                self.in_place(points, &sum, &base, &runs, &mut table);
                                if S::K_PACK == 1 && segments == 1 && !self.row_source.bounds.is_empty() {
                                    let outside = |cells: &*const S::KGroup| *cells == runs.zeros;
                                    nothing.push(table[table.len() - 1][..count].iter().all(outside));
                                }
                            }
                        }
                    }
                    for (t, tile) in tiles.list.iter().enumerate() {
                        let runs = &tiles.runs[tile.first..tile.end];
                        let (from, offsets) = match place {
                            Some(_) => (v.wrapping_add(tile.at), &offsets),
                            None if still && (t + 1) * nr <= lane_points.len() => {
                                (v.wrapping_add(t * nr), &far)
                            }
                            None if still => (scratch.v.cast_const(), &offsets),
                            None => (v.wrapping_add(t * nr * k_block.packed), &offsets),
                        };
                        // Panels are packed when the first rows meet them.
                        let ahead = (is_local && group == first).then(|| {
                            let acc = [&lane_sum, &next_sum];
                            self.pack_panel(
                                &lane_points,
                                t,
                                acc.map(Vec::as_slice),
                                is_first,
                                from.cast_mut(),
                            )
                        });
                        let direct = self.direct && tile.whole;
                        // Channels in blocks leave so even if they are the result.
                        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                        let (whole, blocks) = match whole {
                            Some((_, f32_epilogue)) if !tile.whole && fills(tile.lanes, nr) => {
                                let blocks = Blocks::of(f32_epilogue, runs);
                                (whole.filter(|_| blocks.is_some()), blocks)
                            }
                            Some((_, f32_epilogue))
                                if tile.whole && !plain && is_even(f32_epilogue, &runs[0].by) =>
                            {
                                (whole, None)
                            }
                            _ => (None, None),
                        };
                        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                        let line = match &self.outputs.narrow {
                            Some(narrow) if is_last => Line::of(runs).map(|line| (narrow, line)),
                            _ => None,
                        };
                        let here = here.as_mut_ptr().cast::<S::Acc>();
                        for (s, &(row, count)) in micro_panels.iter().enumerate() {
                            let places = &places[row - from_row..][..count];
                            if let Some(ahead) = &ahead {
                                ahead.fetch(s, micro_panels.len());
                            }
                            let panel = Panel {
                                rows: table[s * segments..].as_ptr(),
                                segments,
                                len,
                                step: if step == 0 { count } else { step },
                                offsets: offsets.as_ptr(),
                                v: from,
                            };
                            let acc = |m: usize| {
                                if several {
                                    scratch.acc.wrapping_add((row - part_row + m) * width + t * nr)
                                } else {
                                    here.wrapping_add(m * nr)
                                }
                            };
                            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                            if let Some(narrow) = narrow.filter(|_| tile.whole && tile.lanes == nr) {
                                let before = acc(0).cast::<u8>();
                                let apart = width * size_of::<S::Acc>();
                                let before = (!is_first).then_some((before.cast_const(), apart));
                                let ends = narrow.ends(places, &runs[0], before);
                                narrow.tile_epilogue::<S>(&panel, count, &ends);
                                continue;
                            }
                            let target = |m: usize| {
                                if direct {
                                    let offset = places[m][0] + runs[0].at[0];
                                    self.outputs.dst.cast::<S::Acc>().wrapping_offset(offset as isize)
                                } else {
                                    acc(m)
                                }
                            };
                            let mut c = [std::ptr::null_mut(); MR];
                            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                            if let Some((tiles, f32_epilogue)) = whole
                                && nothing.get(s) != Some(&true)
                            {
                                let mut m = 0;
                                while !is_first && m < count {
                                    c[m] = target(m);
                                    m += 1;
                                }
                                // Sums of kernels that have such tiles are binary32.
                                let before = (!is_first).then(|| &*(&raw const c).cast::<[*mut f32; MR]>());
                                let mut ends = Ends::of(f32_epilogue, places, &runs[0], before);
                                ends.blocks = blocks.as_ref();
                                tile_epilogue(tiles, f32_epilogue, &panel, [count, tile.lanes], &ends);
                                continue;
                            }
                            for m in 0..count {
                                if is_last && !direct {
                                    self.outputs.prefetch(&places[m], &runs[0]);
                                }
                                c[m] = target(m);
                            }
                            if nothing.get(s) == Some(&true) {
                                // As many as a kernel writes.
                                let lanes = if tile.lanes > nr / 2 { nr } else { nr / 2 };
                                for acc in &c[..if is_first { count } else { 0 }] {
                                    acc.write_bytes(0, lanes);
                                }
                            } else {
                                self.kernels.of(count, tile.lanes)(&panel, &c, !is_first);
                            }
                            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                            if let Some((narrow, line)) = &line {
                                narrow.lines_epilogue(places, line, c.as_ptr().cast());
                                continue;
                            }
                            if is_last && !(direct && plain) {
                                for run in runs {
                                    rows_epilogue(&self.outputs, places, run, &c);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
