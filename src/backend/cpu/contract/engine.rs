//! The loops around the kernel: blocks of the sum, of rows and of lanes, and what is packed for each.
//!
//! Lanes are the loops along which the destination is contiguous, rows the others. Every element is one chain of sums per
//! block of the sum, and the blocks depend on nothing but the loops of the sum: the same bits for every number of threads,
//! every size of batch, and every way to pack.

use std::mem::MaybeUninit;

use super::finish::{Outputs, Run, finish};
use super::kernel::{Kernels, Panel, Rows};
use super::pack::{Part, Source, pack};
use super::planes::{Block, Planes};
use super::points::{Point, Walk};
use super::simd::{MAX_NR, MR, Simd};
use super::tiles::Tiles;
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::contract::{Contract, Role};

/// Cells of the sum per block: a panel of lanes fills most of the first-level cache.
const SUM: usize = 384;

/// Strips per group of rows: with [`SUM`] cells about a third of a second-level cache of 512 KiB.
const GROUP: usize = 20;

/// Bytes of planes per block of lanes.
const PLANES: usize = 192 << 10;

/// Lanes per block that are packed one by one.
const LANES: usize = 192;

/// Bytes that operands may take that are packed once for all tasks.
const SHARED: usize = 64 << 20;

/// Lanes from which on rows are packed: for fewer the copy costs more than it saves.
const PACKED_FROM: usize = 256;

/// Products below which one thread does all.
const ALONE: usize = 1 << 17;

/// Part of the sum: points or channels, cells, and the segments that rows in place are read in.
#[derive(Clone, Copy)]
struct Stretch {
    begin: usize,
    end: usize,
    /// Cells before, for what is packed once for all tasks.
    before: usize,
    cells: usize,
}

/// Where lanes come from.
enum Lanes {
    /// Planes of the windowed operand.
    Planes(Planes),
    /// Panels packed by each task.
    Local,
    /// Panels packed once.
    Shared,
}

/// Where rows come from.
#[derive(PartialEq)]
enum RowSource {
    /// Strips packed once.
    Shared,
    /// Strips packed by each task.
    Local,
    /// The operand itself, whose innermost loop of the sum turns so often and moves so far.
    InPlace { inner: usize, step: usize },
}

/// One contraction on one level.
pub(super) struct Engine<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    batch: Walk,
    rows: Walk,
    lanes: Walk,
    sum: Walk,
    row_source: Source<'a>,
    lane_source: Source<'a>,
    origin: [i64; 5],
    stretches: Vec<Stretch>,
    from_rows: RowSource,
    from_lanes: Lanes,
    row_count: usize,
    strips: usize,
    /// Blocks of lanes of one product of the batch: of an outer point, then of rows and columns of planes.
    blocks: [usize; 3],
    /// Groups that the strips are divided in.
    parts: usize,
    direct: bool,
}

/// Addresses of the operands.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) a: *const u8,
    pub(super) b: *const u8,
}

/// The part `index` of `total` in `parts` as even as possible.
fn share(total: usize, parts: usize, index: usize) -> (usize, usize) {
    (total * index / parts, total * (index + 1) / parts)
}

struct Shared<T>(*mut T);
// SAFETY: an address; who writes what is a matter of the tasks.
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

impl<'a, S: Simd<Part: Part, Sum: Element>> Engine<'a, S> {
    pub(super) fn new(
        step: &'a Contract,
        outputs: Outputs<'a>,
        operands: Operands,
        kernels: &'a Kernels<S>,
        threads: usize,
    ) -> Self {
        let fast = |role| step.loops(role).any(|(_, axis)| axis.strides[0] == 1);
        let lanes_are_m = fast(Role::M) || !fast(Role::N);
        let a = Source { data: operands.a, scalar: step.a, slot: 1, bounds: step.bounds() };
        let b = Source { data: operands.b, scalar: step.b, slot: 2, bounds: &[] };
        let [m, n] = [Role::M, Role::N].map(|role| Walk::of(step, role));
        let (rows, lanes) = if lanes_are_m { (n, m) } else { (m, n) };
        let (row_source, lane_source) = if lanes_are_m { (b, a) } else { (a, b) };
        let sum = Walk::of(step, Role::K);
        let batch = Walk::of(step, Role::Batch);
        let planes = if lanes_are_m { Planes::of(step, Kernels::<S>::NR) } else { None };
        let (row_count, lane_count) = (rows.len(), lanes.len());
        // A block of the sum is whole channels of planes, or whole turns of the innermost loop, or a part of one.
        let unit = match &planes {
            Some(planes) => planes.taps(),
            None => 1,
        };
        let turns = planes.as_ref().map_or(sum.len(), |planes| planes.channels.len());
        let inner = match (&planes, sum.turns.last()) {
            (None, Some(turn)) => turn.extent,
            _ => 1,
        };
        let stretches = stretches::<S>(turns, inner, unit);
        let in_place = planes.is_none() && !lanes_are_m;
        let cells = stretches.last().map_or(0, |s| s.before + s.cells);
        let bytes = size_of::<S::Cell>();
        let packed_rows = batch.len() * row_count * cells * bytes;
        let packed_lanes = batch.len() * lane_count.next_multiple_of(Kernels::<S>::NR) * cells * bytes;
        let place = rows_in_place::<S>(&row_source, &rows, &sum, in_place);
        let from_rows = match place {
            Some(place) => place,
            None if !lanes_are_m || packed_rows > SHARED => RowSource::Local,
            // Straight from the operand where its sum is contiguous in the order of the kernels.
            None if lane_count < PACKED_FROM && planes_in_place::<S>(&row_source, &planes, &sum) => {
                RowSource::InPlace { inner: 0, step: 1 }
            }
            None => RowSource::Shared,
        };
        let from_lanes = match planes {
            Some(planes) => Lanes::Planes(planes),
            None if !lanes_are_m && packed_lanes <= SHARED => Lanes::Shared,
            None => Lanes::Local,
        };
        let mut engine = Engine {
            direct: outputs.takes_sums(S::Sum::SCALAR),
            outputs,
            kernels,
            batch,
            rows,
            lanes,
            sum,
            row_source,
            lane_source,
            origin: step.nest.offsets,
            stretches,
            from_rows,
            from_lanes,
            row_count,
            strips: row_count.div_ceil(MR),
            blocks: [1, 1, 1],
            parts: 1,
        };
        engine.divide(threads);
        engine
    }

    /// Chooses the blocks of lanes and the parts of rows. Results do not depend on them.
    fn divide(&mut self, threads: usize) {
        let most = self.stretches.iter().map(|s| s.end - s.begin).max().unwrap_or(0).div_ceil(S::PER);
        self.blocks = match &self.from_lanes {
            Lanes::Planes(planes) => {
                let [slow, fast] = &planes.dims;
                let (down, along) = (slow.outputs.extent, fast.outputs.extent);
                let columns = along.div_ceil(1024);
                let fits = |rows: usize| {
                    let block = planes.block(rows, along.div_ceil(columns), 64 / size_of::<S::Cell>());
                    block.cells(most) * size_of::<S::Cell>() <= PLANES
                };
                let rows = (1..=down).rev().find(|&rows| fits(rows)).unwrap_or(1);
                let columns = if !fits(1) && along > 4 * Kernels::<S>::NR && planes.taps() == 1 {
                    // Long rows of many channels: like a matrix.
                    along.div_ceil((PLANES / size_of::<S::Cell>() / most.max(1)).max(128))
                } else {
                    columns
                };
                [planes.outer.len(), down.div_ceil(rows), columns]
            }
            _ => [1, 1, self.lanes.len().div_ceil(LANES)],
        };
        let tasks = self.batch.len() * self.blocks.iter().product::<usize>();
        let groups = self.strips.div_ceil(GROUP);
        self.parts = match self.from_rows {
            // Lanes are packed once: every group of rows is a task.
            _ if matches!(self.from_lanes, Lanes::Shared) => groups,
            // Sums that are kept between blocks of the sum must fit.
            _ => self.strips.div_ceil(128),
        };
        if tasks * self.parts < 3 * threads {
            let wanted = (3 * threads).div_ceil(tasks.max(1));
            self.parts = self.parts.max(wanted.min(self.strips.div_ceil(4)).max(1));
        }
        self.parts = self.parts.min(self.strips).max(1);
    }

    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`].
    pub(super) unsafe fn run(
        &self,
        threads: usize,
        task: unsafe fn(&Self, &Desk<'_, S>, usize),
    ) -> Result<()> {
        let tasks = self.batch.len() * self.blocks.iter().product::<usize>() * self.parts;
        let products = self.row_count * self.lanes.len() * self.sum.len().max(1) * self.batch.len();
        let threads = if products < ALONE { 1 } else { threads.min(tasks).max(1) };
        let cells = self.stretches.last().map_or(0, |s| s.before + s.cells);
        let nr = Kernels::<S>::NR;
        let panels = self.lanes.len().div_ceil(nr) * nr;
        let shared = match (&self.from_rows, &self.from_lanes) {
            (_, Lanes::Shared) => self.batch.len() * panels * cells,
            (RowSource::Shared, _) => self.batch.len() * self.row_count * cells,
            _ => 0,
        };
        let sizes = self.sizes();
        let cell = size_of::<S::Cell>();
        let (per_task, shared_bytes) = (sizes.iter().sum::<usize>() * cell, shared * cell);
        arena::with(shared_bytes, |memory| {
            let base = Shared(memory.cast::<S::Cell>());
            let desk = |own: *mut u8| {
                let [v, r, _] = sizes;
                let own = own.cast::<S::Cell>();
                Desk { shared: &base, v: own, r: own.wrapping_add(v), sums: own.wrapping_add(v + r).cast() }
            };
            if shared > 0 {
                let pieces = if matches!(self.from_lanes, Lanes::Shared) { panels / nr } else { self.strips };
                let pieces = self.batch.len() * pieces;
                let chunk = pieces.div_ceil(4 * threads).max(1);
                threads::run(threads, pieces.div_ceil(chunk), &|index| {
                    for piece in index * chunk..pieces.min((index + 1) * chunk) {
                        // SAFETY: the caller's promises; every piece has a place of its own.
                        unsafe { self.pack_shared(&base, piece) };
                    }
                })?;
            }
            threads::run_with(threads, tasks, per_task, &|scratch, index| {
                // SAFETY: the caller's promises; tasks write disjoint elements, and the scratch is this one's.
                unsafe { task(self, &desk(scratch), index) };
            })
        })
    }

    /// Cells of lanes and of rows, and sums, that a task needs.
    fn sizes(&self) -> [usize; 3] {
        let nr = Kernels::<S>::NR;
        let most = self.stretches.iter().map(|s| s.cells).max().unwrap_or(0);
        let channels = self.stretches.iter().map(|s| (s.end - s.begin).div_ceil(S::PER)).max().unwrap_or(0);
        let (v, lanes) = match &self.from_lanes {
            Lanes::Planes(planes) => {
                let block = self.block(planes);
                // A tile starts at an output; those between rows are not stored.
                (block.cells(channels) + nr, (block.rows * block.pitch).div_ceil(nr) * nr + nr)
            }
            _ => {
                let lanes = self.lanes.len().div_ceil(self.blocks[2]).div_ceil(nr) * nr;
                (if matches!(self.from_lanes, Lanes::Local) { lanes * most } else { 0 }, lanes)
            }
        };
        let r = if self.from_rows == RowSource::Local { GROUP * MR * most } else { 0 };
        let rows = self.strips.div_ceil(self.parts) * MR;
        let sums = if self.stretches.len() > 1 { rows * lanes } else { 0 };
        [v.next_multiple_of(16), r.next_multiple_of(16), sums]
    }

    /// The largest block of planes.
    fn block(&self, planes: &Planes) -> Block {
        let [slow, fast] = &planes.dims;
        let rows = slow.outputs.extent.div_ceil(self.blocks[1]);
        let columns = fast.outputs.extent.div_ceil(self.blocks[2]);
        planes.block(rows, columns, 64 / size_of::<S::Cell>())
    }

    /// Rows of a strip.
    fn strip(&self, index: usize) -> (usize, usize) {
        let (begin, end) = share(self.row_count, self.strips, index);
        (begin, end - begin)
    }

    /// The points of a stretch of the sum.
    fn sum_points(&self, stretch: &Stretch, points: &mut Vec<Point>) {
        match &self.from_lanes {
            Lanes::Planes(planes) => planes.sum(stretch.begin, stretch.end, S::PER, points),
            _ => self.sum.points(stretch.begin, stretch.end, points),
        }
    }

    fn base(&self, batch: &Point) -> [i64; 5] {
        std::array::from_fn(|k| self.origin[k] + batch.at[k])
    }

    /// Packs one strip of rows or one panel of lanes, for the whole sum, where all tasks find it.
    ///
    /// # Safety
    /// As for [`super::run`]; the shared scratch has room.
    unsafe fn pack_shared(&self, shared: &Shared<S::Cell>, piece: usize) {
        let nr = Kernels::<S>::NR;
        let lanes = matches!(self.from_lanes, Lanes::Shared);
        let pieces = if lanes { self.lanes.len().div_ceil(nr) } else { self.strips };
        let (product, piece) = (piece / pieces, piece % pieces);
        let batch = self.batch.point(product);
        let (source, walk) =
            if lanes { (self.lane_source, &self.lanes) } else { (self.row_source, &self.rows) };
        let (begin, count) =
            if lanes { (piece * nr, nr.min(self.lanes.len() - piece * nr)) } else { self.strip(piece) };
        let width = if lanes { nr } else { count };
        let total = if lanes { pieces * nr } else { self.row_count };
        let (mut points, mut sum) = (Vec::new(), Vec::new());
        walk.points(begin, begin + count, &mut points);
        let base = self.base(&batch)[source.slot];
        points.iter_mut().for_each(|p| p.at[source.slot] += base);
        let cells = self.stretches.last().map_or(0, |s| s.before + s.cells);
        for stretch in &self.stretches {
            self.sum_points(stretch, &mut sum);
            let at = product * total * cells + stretch.before * total + begin * stretch.cells;
            // SAFETY: handed on; the piece has its place.
            unsafe { pack::<S>(source, &points, &sum, width, shared.at(at).cast()) };
        }
    }

    /// Computes one block of lanes for one part of the rows.
    ///
    /// # Safety
    /// As for [`super::run`]; the desk is this task's alone, and what is shared has been packed.
    #[inline(always)]
    pub(super) unsafe fn task(&self, desk: &Desk<'_, S>, index: usize) {
        let nr = Kernels::<S>::NR;
        let (part, index) = (index % self.parts, index / self.parts);
        let [outer, down, along] = self.blocks;
        let (column, index) = (index % along, index / along);
        let (row, index) = (index % down, index / down);
        let (outer_index, product) = (index % outer, index / outer);
        let batch = self.batch.point(product);
        let base = self.base(&batch);
        let (first, end) = share(self.strips, self.parts, part);
        let part_row = self.strip(first).0;
        let mut tiles = Tiles::default();
        let mut lane_points = Vec::new();
        let mut place = None;
        let total_panels = self.lanes.len().div_ceil(nr);
        let mut first_lane = 0;
        match &self.from_lanes {
            Lanes::Planes(planes) => {
                let [slow, fast] = &planes.dims;
                let mut point = planes.outer.point(outer_index);
                point.add(&batch, 1);
                let (r0, r1) = share(slow.outputs.extent, down, row);
                let (c0, c1) = share(fast.outputs.extent, along, column);
                let block = planes.block(r1 - r0, c1 - c0, 64 / size_of::<S::Cell>());
                let mut start = planes.outer.point(outer_index);
                start.add(&slow.outputs.by, r0 as i64);
                start.add(&fast.outputs.by, c0 as i64);
                tiles.of_planes(&start, [&slow.outputs.by, &fast.outputs.by], &block, nr);
                (0..5).for_each(|k| point.at[k] += self.origin[k]);
                place = Some((point, block, [r0, c0]));
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
        let mut row_points = Vec::new();
        self.rows.points(
            part_row,
            {
                let (b, n) = self.strip(end - 1);
                b + n
            },
            &mut row_points,
        );
        let total = self.stretches.last().map_or(0, |s| s.before + s.cells);
        let zeros = [S::ZERO; SUM];
        let mut here = [const { MaybeUninit::<S::Sum>::uninit() }; MR * MAX_NR];
        // SAFETY: the caller's promises; all scratch is as large as `sizes` says.
        unsafe {
            if self.stretches.is_empty() {
                let nothing = [S::Sum::ZERO; MAX_NR];
                for point in &row_points {
                    let at: [i64; 5] = std::array::from_fn(|k| base[k] + point.at[k]);
                    tiles.runs.iter().for_each(|run| {
                        finish(&self.outputs, &at, &Run { lane: 0, ..*run }, nothing.as_ptr())
                    });
                }
                return;
            }
            for (number, stretch) in self.stretches.iter().enumerate() {
                let (is_first, is_last) = (number == 0, number + 1 == self.stretches.len());
                self.sum_points(stretch, &mut sum);
                let v: *const S::Cell = match (&self.from_lanes, &place) {
                    (Lanes::Planes(planes), Some((point, block, start))) => {
                        let source = self.lane_source;
                        block.copy::<S>(
                            planes,
                            source,
                            point,
                            *start,
                            stretch.begin,
                            stretch.end,
                            desk.v.cast(),
                        );
                        block.offsets(planes, (stretch.end - stretch.begin).div_ceil(S::PER), &mut offsets);
                        desk.v
                    }
                    (Lanes::Local, _) => {
                        for (panel, lanes) in lane_points.chunks(nr).enumerate() {
                            let to = desk.v.wrapping_add(panel * nr * stretch.cells);
                            pack::<S>(self.lane_source, lanes, &sum, nr, to.cast());
                        }
                        desk.v
                    }
                    _ => {
                        let all = total_panels * nr;
                        let at = product * all * total + stretch.before * all;
                        desk.shared.at(at + first_lane * stretch.cells)
                    }
                };
                if place.is_none() {
                    offsets.clear();
                    offsets.extend((0..stretch.cells).map(|k| (k * nr) as i32));
                }
                for group in (first..end).step_by(GROUP) {
                    let strips = group..end.min(group + GROUP);
                    let (mut segments, mut len, mut step) = (1, stretch.cells, 0);
                    table.clear();
                    for s in strips.clone() {
                        let (row, count) = self.strip(s);
                        let points = &row_points[row - part_row..][..count];
                        let mut rows: Rows<S> = [std::ptr::null(); MR];
                        match self.from_rows {
                            RowSource::Shared => {
                                let at = product * self.row_count * total + stretch.before * self.row_count;
                                let from = desk.shared.at(at + row * stretch.cells);
                                (0..count).for_each(|m| rows[m] = from.wrapping_add(m));
                                table.push(rows);
                            }
                            RowSource::Local => {
                                let at = (row - self.strip(group).0) * stretch.cells;
                                let to = desk.r.wrapping_add(at);
                                let mut moved = [Point::default(); MR];
                                moved[..count].copy_from_slice(points);
                                moved
                                    .iter_mut()
                                    .for_each(|p| p.at[self.row_source.slot] += base[self.row_source.slot]);
                                pack::<S>(self.row_source, &moved[..count], &sum, count, to.cast());
                                (0..count).for_each(|m| rows[m] = to.wrapping_add(m));
                                table.push(rows);
                            }
                            RowSource::InPlace { inner, step: by } => {
                                let inner = if inner == 0 { stretch.cells } else { inner.min(stretch.cells) };
                                (segments, len, step) = (stretch.cells / inner, inner, by);
                                self.in_place(points, &sum, &base, inner, zeros.as_ptr(), &mut table);
                            }
                        }
                    }
                    for (t, tile) in tiles.list.iter().enumerate() {
                        let runs = &tiles.runs[tile.first..tile.end];
                        let from = match place {
                            Some(_) => v.wrapping_add(tile.at),
                            None => v.wrapping_add(t * nr * stretch.cells),
                        };
                        let direct = self.direct && tile.whole;
                        let here = here.as_mut_ptr().cast::<S::Sum>();
                        for s in strips.clone() {
                            let (row, count) = self.strip(s);
                            let points = &row_points[row - part_row..][..count];
                            let mut c = [std::ptr::null_mut(); MR];
                            for m in 0..count {
                                c[m] = if direct {
                                    let offset = base[0] + points[m].at[0] + runs[0].at[0];
                                    self.outputs.dst.cast::<S::Sum>().wrapping_offset(offset as isize)
                                } else if self.stretches.len() == 1 {
                                    here.wrapping_add(m * nr)
                                } else {
                                    desk.sums.wrapping_add((row - part_row + m) * width + t * nr)
                                };
                            }
                            let panel = Panel {
                                rows: table[(s - group) * segments..].as_ptr(),
                                segments,
                                len,
                                step: if step == 0 { count } else { step },
                                offsets: offsets.as_ptr(),
                                v: from,
                            };
                            self.kernels.of(count, tile.lanes)(&panel, &c, !is_first);
                            if is_last && !(direct && self.outputs.is_plain()) {
                                for m in 0..count {
                                    let at: [i64; 5] = std::array::from_fn(|k| base[k] + points[m].at[k]);
                                    for run in runs {
                                        finish(&self.outputs, &at, run, c[m].wrapping_add(run.lane as usize));
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The pointers to rows read in place, per segment; to zeros where a row's segment is outside the bounds.
    #[inline(always)]
    fn in_place(
        &self,
        points: &[Point],
        sum: &[Point],
        base: &[i64; 5],
        inner: usize,
        zeros: *const S::Cell,
        table: &mut Vec<Rows<S>>,
    ) {
        let source = self.row_source;
        let data = source.data.cast::<S::Cell>();
        for segment in sum.iter().step_by(inner) {
            let mut rows: Rows<S> = [zeros; MR];
            for (row, point) in rows.iter_mut().zip(points) {
                let inside = source.bounds.iter().enumerate().all(|(d, bound)| {
                    ((bound.start + point.pos[d] + segment.pos[d]) as u64) < bound.extent as u64
                });
                if inside {
                    let offset = base[source.slot] + point.at[source.slot] + segment.at[source.slot];
                    *row = data.wrapping_offset(offset as isize);
                }
            }
            table.push(rows);
        }
    }
}

/// Scratch of one task, and what is packed once for all.
pub(super) struct Desk<'a, S: Simd> {
    shared: &'a Shared<S::Cell>,
    v: *mut S::Cell,
    r: *mut S::Cell,
    sums: *mut S::Sum,
}

/// The sum in stretches of about [`SUM`] cells: of `turns` points or channels with `unit` cells each. Where the innermost
/// loop turns `inner` times, whole loops or parts of one.
fn stretches<S: Simd>(turns: usize, inner: usize, unit: usize) -> Vec<Stretch> {
    let most = (SUM / unit).max(1) * S::PER;
    let mut list: Vec<Stretch> = Vec::new();
    let mut push = |begin: usize, end: usize| {
        let before = list.last().map_or(0, |s| s.before + s.cells);
        list.push(Stretch { begin, end, before, cells: (end - begin).div_ceil(S::PER) * unit });
    };
    if turns == 0 {
        return list;
    }
    if inner > most {
        let pieces = inner.div_ceil(most);
        for outer in 0..turns / inner {
            for piece in 0..pieces {
                let (begin, end) = share(inner, pieces, piece);
                push(outer * inner + begin, outer * inner + end);
            }
        }
    } else {
        // Whole cells, so that only the last one may have room left.
        let unit = if inner > 1 { inner } else { S::PER };
        let count = turns.div_ceil(unit);
        let pieces = count.div_ceil((most / unit).max(1));
        for piece in 0..pieces {
            let (begin, end) = share(count, pieces, piece);
            push(begin * unit, turns.min(end * unit));
        }
    }
    list
}

/// How rows are read where they lie, if their sums run through memory evenly.
fn rows_in_place<S: Simd<Part: Part>>(
    source: &Source<'_>,
    rows: &Walk,
    sum: &Walk,
    wanted: bool,
) -> Option<RowSource> {
    let turn = sum.turns.last()?;
    let step = turn.by.at[source.slot];
    let fits = wanted && S::PER == 1 && <S::Part as Part>::SCALAR == Some(source.scalar);
    // Rows outside the bounds read zeros, which lie side by side.
    let even =
        turn.by.pos == [0; crate::ops::contract::MAX_BOUNDS] && (step == 1 || source.bounds.is_empty());
    let worth = turn.extent >= 8 && step > 0 && rows.len() > 0;
    (fits && even && worth).then_some(RowSource::InPlace { inner: turn.extent, step: step as usize })
}

/// Whether the rows' sums run through memory in the order of the planes' channels and taps.
fn planes_in_place<S: Simd<Part: Part>>(source: &Source<'_>, planes: &Option<Planes>, sum: &Walk) -> bool {
    let Some(planes) = planes else { return false };
    if S::PER > 1 || <S::Part as Part>::SCALAR != Some(source.scalar) || planes.channels.turns.len() > 1 {
        return false;
    }
    let [slow, fast] = planes.dims.each_ref().map(|dim| dim.taps());
    let channel = planes.channels.turns.first();
    let mut reach = 1;
    for turn in [Some(fast), Some(slow), channel].into_iter().flatten() {
        if turn.extent > 1 {
            if turn.by.at[source.slot] != reach {
                return false;
            }
            reach *= turn.extent as i64;
        }
    }
    !sum.turns.is_empty()
}
