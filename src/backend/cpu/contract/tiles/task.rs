//! One task: some strips of rows by some of lanes, over all blocks of the sum.

use std::borrow::Cow;

use super::call::{ACC_BYTES, ACC_ROW, Call, ROW, SIDE, TILE, TILE_ROWS};
use super::pack::{Form, LINES, STEPS, pack};
use super::single;
use super::split::Split;
use super::{Isa, Side, Tiles};
use crate::backend::cpu::contract::epilogue::generic::{Run, epilogue};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::backend::cpu::contract::epilogue::narrow::Line;
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::gemm::tiles::Tiles as LaneTiles;
use crate::backend::cpu::contract::operands::pack::transpose_many;
use crate::backend::cpu::contract::operands::points::OperandOffsets;
use crate::ops::contract::Accumulate;

/// Where lines have room for the sums of a block of parts, or for chains.
const OWN_ACC: usize = LINES + 2 * STEPS * TILE;

/// The strips of a side that a task multiplies.
struct Strips<'a> {
    side: &'a Side<'a>,
    first: usize,
    end: usize,
    points: Cow<'a, [OperandOffsets]>,
    /// Where the first of them begins for the block of the sum, and bytes to the next one.
    packed: (*const u8, usize),
    /// Bytes from one part of a strip to the next, and from one step to the next.
    part: usize,
    step: usize,
}

/// Where a strip begins, how far its rows are apart, and how far its steps are.
type Place = (*const u8, usize, usize);

impl<'a> Strips<'a> {
    /// One of several parts of a side of a product that begins at `base`, which may be known.
    fn of(
        side: &'a Side<'_>, known: Option<&'a Known>, base: &[i64; 5], (parts, part): (usize, usize),
        step: usize,
    ) -> Strips<'a> {
        let (first, end) = Tiles::part(side, parts, part);
        let points = match known {
            Some(known) => Cow::Borrowed(&known.points[..]),
            None => {
                let mut points = Vec::new();
                side.points(first, end, base, &mut points);
                Cow::Owned(points)
            }
        };
        Strips { side, first, end, points, packed: (std::ptr::null(), 0), part: 0, step }
    }

    /// How many.
    fn len(&self) -> usize {
        self.end - self.first
    }

    /// The points of a strip.
    fn points(&self, index: usize) -> &[OperandOffsets] {
        &self.points[index * TILE_ROWS..self.points.len().min((index + 1) * TILE_ROWS)]
    }

    /// Whether a pair of strips is read where it lies: all rows are there.
    fn is_in_place(&self, pair: usize) -> bool {
        self.side.even.is_some() && self.points.len() >= (pair + 1) * SIDE
    }

    /// Where a part of a strip is for a block of the sum that begins with some term.
    fn place(&self, index: usize, term: usize, part: usize) -> Place {
        let (source, even) = (&self.side.source, self.side.even);
        if let Some(apart) = even.filter(|_| self.is_in_place(index / 2)) {
            let at = self.points[index * TILE_ROWS].at[source.slot] as isize + term as isize;
            return (source.data.wrapping_offset(at * source.scalar.size() as isize), apart, ROW);
        }
        (self.packed.0.wrapping_add(index * self.packed.1 + part * self.part), ROW, self.step)
    }
}

impl Tiles<'_> {
    /// Computes a task.
    ///
    /// # Safety
    /// As for [`contract::run`](crate::backend::cpu::contract::run); the scratch is this task's
    /// alone, with as many bytes as [`sizes`](Tiles::sizes) says, what is shared has been packed,
    /// and tiles are configured on this thread.
    pub(super) unsafe fn task(
        &self, shared: &Shared<u8>, known: Option<&Known>, scratch: *mut u8, index: usize,
    ) {
        let [a_bytes, b_bytes, sums_bytes, _] = self.sizes();
        let (index, b_part) = (index / self.tasks[1], index % self.tasks[1]);
        let (product, a_part) = (index / self.tasks[0], index % self.tasks[0]);
        let base = self.batch.point(product).offsets(&self.origin);
        let step = self.product.tiles() * TILE;
        let mut a = Strips::of(&self.a, None, &base, (self.tasks[0], a_part), step);
        let mut b = Strips::of(&self.b, known, &base, (self.tasks[1], b_part), step);
        let (a_room, b_room) = (scratch, scratch.wrapping_add(a_bytes));
        let acc = b_room.wrapping_add(b_bytes);
        let lines = acc.wrapping_add(sums_bytes);
        let own;
        let (rows, lanes) = match self.b_are_lanes() {
            true => match known {
                Some(known) => (&a, &known.lanes),
                None => {
                    own = lane_tiles(&b.points);
                    (&a, &own)
                }
            },
            false => {
                own = lane_tiles(&a.points);
                (&b, &own)
            }
        };
        // At most the rows of a task.
        let rows = rows.points.iter().map(|point| point.offsets(&base)).collect();
        let ends = Ends { rows, lanes };
        let (mut terms, parts) = (Vec::new(), self.split.parts());
        for begin in (0..self.steps).step_by(self.block) {
            let steps = self.block.min(self.steps - begin);
            let (is_first, is_last) = (begin == 0, begin + steps == self.steps);
            let range = (begin * self.per_step, self.terms.min((begin + steps) * self.per_step));
            let mut local = |strips: &mut Strips<'_>, room: *mut u8| {
                let side = strips.side;
                side.terms.stretches(range.0, range.1, &mut terms);
                let bytes = steps * TILE * parts;
                (strips.packed, strips.part) = ((room.cast_const(), bytes), steps * TILE);
                for index in (0..strips.len()).filter(|index| !strips.is_in_place(index / 2)) {
                    let to = room.wrapping_add(index * bytes);
                    // SAFETY: the strip has its elements, and a place.
                    unsafe { self.pack(side, strips.points(index), &terms, steps, to, lines) };
                }
            };
            local(&mut a, a_room);
            if self.is_shared {
                let at = (product * self.b.strips() + b.first) * self.steps + begin;
                let apart = self.steps * TILE * parts;
                (b.packed, b.part) = ((shared.at(at * TILE * parts).cast_const(), apart), steps * TILE);
            } else {
                local(&mut b, b_room);
            }
            let (rows, lanes) = if self.a.form == Form::Rows { (&a, &b) } else { (&b, &a) };
            // The strips of `b` are the outer loop.
            let pairs = [a.len().div_ceil(2), b.len().div_ceil(2)];
            for pair in 0..pairs[0] * pairs[1] {
                let (of_a, of_b) = (pair % pairs[0], pair / pairs[0]);
                let (row, lane) = if self.a.form == Form::Rows { (of_a, of_b) } else { (of_b, of_a) };
                let acc = acc.wrapping_add(if self.block < self.steps { pair * ACC_BYTES } else { 0 });
                let here = [(rows, row), (lanes, lane)];
                let count = here.map(|(strips, pair)| (strips.len() - 2 * pair).min(2));
                let to = if self.is_turned { (lane, row) } else { (row, lane) };
                if is_last {
                    self.ask(&ends, to);
                }
                // Blocks of parts have sums of their own: few roundings are as large as the whole.
                let own = (self.are_single() && !is_first).then(|| lines.wrapping_add(OWN_ACC));
                for (number, &[of_a, of_b]) in self.split.products().iter().enumerate() {
                    let of = if self.a.form == Form::Rows { [of_a, of_b] } else { [of_b, of_a] };
                    let [from_rows, from_lanes] = [0, 1].map(|side| {
                        let (strips, pair) = here[side];
                        let strip = |k: usize| (2 * pair + k).min(strips.len() - 1);
                        [0, 1].map(|k| strips.place(strip(k), range.0, of[side]))
                    });
                    let (_, a_row, a_step) = from_rows[0];
                    let (a, b) = (from_rows.map(|(at, ..)| at), from_lanes.map(|(at, ..)| at));
                    let (to, adds) = (own.unwrap_or(acc), own.is_none() && (!is_first || number > 0));
                    let call = Call { a, a_row, a_step, b, steps, acc: to, adds };
                    // SAFETY: the strips are packed or lie in place, and the sums have room.
                    unsafe { (self.unit.multiply)(self.product, count, &call) };
                }
                if let Some(own) = own {
                    // SAFETY: both have the sums of the strips.
                    unsafe { single::add::of(self.outputs.isa)(acc, own, count[0], count[1]) };
                }
                if !is_last {
                    continue;
                }
                if let Split::Single(_) = self.split {
                    // SAFETY: the sums are those of the strips, and lines have room for all that
                    // this packs.
                    unsafe {
                        if !single::unscale::of(self.outputs.isa)(acc, count[0], count[1]) {
                            self.make_anew(here, count, acc, lines);
                        }
                    }
                }
                // SAFETY: the sums are those of the pairs.
                unsafe {
                    if self.is_turned {
                        transpose_tile(acc, lines, self.outputs.isa);
                    }
                    self.epilogue(&ends, to, if self.is_turned { lines } else { acc });
                }
            }
        }
    }

    /// Makes those sums of some strips of rows and of lanes anew that are infinite or none: as
    /// chains of fused multiply-adds.
    ///
    /// # Safety
    /// As for [`task`](Tiles::task); `lines` has room for [`Tiles::lines`].
    #[cold]
    unsafe fn make_anew(
        &self, here: [(&Strips<'_>, usize); 2], count: [usize; 2], acc: *mut u8, lines: *mut u8,
    ) {
        let raw = [0, 1].map(|side| lines.wrapping_add(LINES + side * STEPS * TILE));
        let chains = lines.wrapping_add(OWN_ACC);
        let (mut terms, block) = (Vec::new(), STEPS * self.per_step / self.split.raw());
        // SAFETY: strips have their elements, and there is room for a block of each side and for
        // all chains.
        unsafe {
            chains.write_bytes(0, ACC_BYTES);
            for begin in (0..self.terms).step_by(block) {
                let end = self.terms.min(begin + block);
                for (row, lane) in (0..count[0]).flat_map(|row| (0..count[1]).map(move |lane| (row, lane))) {
                    for (side, index) in [row, lane].into_iter().enumerate() {
                        let (Strips { side: Side { source, form, terms: all, .. }, .. }, pair) = here[side];
                        all.stretches(begin, end, &mut terms);
                        let points = here[side].0.points(2 * pair + index);
                        pack(source, *form, points, &terms, STEPS, raw[side], lines);
                    }
                    let to = chains.wrapping_add(row * TILE_ROWS * ACC_ROW + lane * ROW);
                    single::chains::of(self.outputs.isa)(raw[0], raw[1], STEPS, to);
                }
            }
            single::replace(acc, chains, count);
        }
    }

    /// Asks for what the ends of a pair of strips touch, while their sums are computed.
    fn ask(&self, ends: &Ends<'_>, (row, lane): (usize, usize)) {
        let first = ends.lanes.list.get(lane).and_then(|tile| ends.lanes.runs.get(tile.first));
        let places = &ends.rows[row * SIDE..ends.rows.len().min((row + 1) * SIDE)];
        if let Some(run) = first {
            places.iter().for_each(|place| self.outputs.prefetch(place, run));
        }
    }

    /// Finishes the sums of a pair of strips of rows and one of lanes.
    ///
    /// # Safety
    /// As for [`task`](Tiles::task); the sums are those of the pairs.
    unsafe fn epilogue(&self, ends: &Ends<'_>, (row, lane): (usize, usize), acc: *const u8) {
        let places = &ends.rows[row * SIDE..ends.rows.len().min((row + 1) * SIDE)];
        let tile = &ends.lanes.list[lane];
        let runs = &ends.lanes.runs[tile.first..tile.end];
        let lines: [*const u8; SIDE] = std::array::from_fn(|m| acc.wrapping_add(m * ACC_ROW));
        // SAFETY: every row has its sums, and the elements of all runs.
        unsafe {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if let Some(narrow) = &self.outputs.narrow
                && let Some(line) = Line::of(runs)
            {
                return narrow.lines_epilogue(places, &line, lines.as_ptr());
            }
            for run in runs {
                let from = |m: usize| lines[m].wrapping_add(run.lane as usize * size_of::<f32>());
                if let Some(f32_epilogue) = &self.outputs.f32_epilogue {
                    let from: [*const f32; SIDE] = std::array::from_fn(|m| from(m).cast());
                    f32_epilogue.epilogue(places, run, from.as_ptr());
                    continue;
                }
                for (m, place) in places.iter().enumerate() {
                    self.run_epilogue(place, run, from(m));
                }
            }
        }
    }

    /// Finishes the sums of a run of a row.
    ///
    /// # Safety
    /// As for [`epilogue`].
    #[inline(never)]
    unsafe fn run_epilogue(&self, place: &[i64; 5], run: &Run, acc: *const u8) {
        // SAFETY: the row has the sums and the elements of the run.
        unsafe {
            match self.outputs.step.accumulate {
                Accumulate::Int32 => epilogue::<i32>(&self.outputs, place, run, acc.cast()),
                _ => epilogue::<f32>(&self.outputs, place, run, acc.cast()),
            }
        }
    }
}

/// Rows of the sums of a call as lanes.
///
/// # Safety
/// All sums are readable, and as many writable.
unsafe fn transpose_tile(acc: *const u8, to: *mut u8, isa: Isa) {
    let rows: [*const u32; SIDE] = std::array::from_fn(|row| acc.wrapping_add(row * ACC_ROW).cast());
    for (strip, rows) in rows.chunks_exact(TILE_ROWS).enumerate() {
        // SAFETY: every row has as many sums, and each a place.
        unsafe {
            transpose_many(rows, SIDE, to.cast::<u32>().wrapping_add(strip * TILE_ROWS), SIDE as isize, isa)
        };
    }
}

/// Where the sums of a task end.
struct Ends<'a> {
    rows: Vec<[i64; 5]>,
    lanes: &'a LaneTiles,
}

/// What all tasks know of `b`, if each of them has all of it: where its rows or lanes are, and if
/// they are lanes of the destination, those.
pub(super) struct Known {
    points: Vec<OperandOffsets>,
    lanes: LaneTiles,
}

/// The pairs of strips of some lanes of the destination.
fn lane_tiles(points: &[OperandOffsets]) -> LaneTiles {
    let mut tiles = LaneTiles::default();
    tiles.of_points(points, SIDE);
    tiles
}

impl Tiles<'_> {
    /// Whether the columns of `b` are lanes of the destination.
    fn b_are_lanes(&self) -> bool {
        self.is_turned != (self.a.form == Form::Rows)
    }

    /// What all tasks know of `b`.
    pub(super) fn known(&self) -> Option<Known> {
        if self.tasks[1] > 1 || !self.batch.loops.is_empty() {
            return None;
        }
        // At most the columns of a task.
        let mut points = Vec::new();
        self.b.points(0, self.b.strips(), &self.origin, &mut points);
        let lanes = if self.b_are_lanes() { lane_tiles(&points) } else { LaneTiles::default() };
        Some(Known { points, lanes })
    }
}
