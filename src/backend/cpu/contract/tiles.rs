//! Contractions by tile instructions: strips of sixteen rows by strips of sixteen lanes, two by two
//! at a time.
//!
//! Sums of bytes are those of every other kernel. Those of bf16 have the order of [`model`],
//! sixteen pairs of terms at a time, or that of the instructions of aarch64, one pair after the
//! other. It depends on nothing but the loops of the sum, whatever is packed together, and so on
//! neither the batch nor the number of threads.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod amx;
mod call;
mod model;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod pack;
mod single;
mod split;
mod sum;
mod task;
mod unit;

use self::call::{ACC_BYTES, Product, ROW, TILE, TILE_ROWS};
use self::pack::{Form, LINES, STEPS, pack};
use self::split::{Split, split};
use self::sum::{Stretch, Terms};
use self::unit::Unit;
use super::epilogue::generic::Outputs;
use super::gemm::engine::Shared;
use super::operands::points::{Loops, OperandOffsets};
use super::operands::source::Source;
use super::problem::{Problem, Ready, lanes_are_m};
use super::{Isa, PARALLEL_THRESHOLD};
use crate::backend::cpu::filters::{CacheSlot, Kept};
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, PART_ROWS, Role};

/// Columns of `b` and terms of a sum from which on tiles multiply binary32: to split a number takes
/// as long as tiles gain in 60 products, and a sum leaves through memory.
const PART_COLUMNS: i64 = 128;
const PART_TERMS: i64 = 512;

/// Strips of `a` and of `b` in a task: with [`STEPS`] steps those of `a` are an eighth of a
/// second-level cache of 2 MiB, and the sums of both as much.
const STRIPS: [usize; 2] = [8, 32];

/// Steps of the sum at most of numbers in parts: strips of a block, two by two, stay in a
/// first-level cache.
const PART_STEPS: usize = 8;

/// Bytes of `b` that are packed once for all tasks.
const SHARED: usize = 64 << 20;

/// What a step multiplies, and in which parts, if the tiles of this unit may and should.
fn product(step: &Contract, unit: &Unit) -> Option<(Product, Split)> {
    let signs = [step.a, step.b].map(|scalar| scalar == Scalar::I8);
    let product = match (step.accumulate, [step.a, step.b]) {
        (Accumulate::Int32, _) => (Product::Bytes(signs), Split::None),
        (Accumulate::Single, _) if !step.allow_tiles => return None,
        (Accumulate::Single, [Scalar::Bf16, Scalar::Bf16]) => (Product::Bf16, Split::None),
        (Accumulate::Single, _) if !unit.takes_parts => return None,
        (Accumulate::Single, [Scalar::F16, Scalar::F16]) => (Product::Bf16, Split::Half),
        (Accumulate::Single, [Scalar::F32, Scalar::F32]) if is_large(step) => {
            if step.allow_conversion {
                (Product::Three, Split::Single(2))
            } else {
                (Product::Six, Split::Single(3))
            }
        }
        _ => return None,
    };
    let [columns, terms] = unit.least;
    let is_full = step.extent(Role::N) >= columns && step.extent(Role::K) >= terms;
    (is_full && !are_pixels_of_windows(step)).then_some(product)
}

/// Whether products of binary32 in parts take less time than fused multiply-adds, for which nothing
/// is split. The number of images does not decide: each has [`PART_ROWS`] if a step may use tiles
/// at all.
fn is_large(step: &Contract) -> bool {
    step.extent(Role::M) >= PART_ROWS
        && step.extent(Role::N) >= PART_COLUMNS
        && step.extent(Role::K) >= PART_TERMS
}

/// Whether neighbours in the destination see neighbouring windows, as in NCHW: to put these
/// together in cells takes longer than what tiles gain, where there are few filters.
fn are_pixels_of_windows(step: &Contract) -> bool {
    let is_bound = |index: usize| step.bounds().iter().any(|bound| bound.axes.contains(&(index as u8)));
    step.loops(Role::M).any(|(index, axis)| axis.strides[0] == 1 && is_bound(index))
}

/// Whether tiles multiply a step on this level.
pub fn apply(step: &Contract, isa: Isa) -> bool {
    Unit::of(isa).is_some_and(|unit| product(step, &unit).is_some())
}

/// One operand.
struct Side<'a> {
    source: Source<'a>,
    form: Form,
    /// Its rows or lanes.
    walk: Loops,
    count: usize,
    terms: Terms,
    /// How far its rows are apart, if all of them and their terms lie evenly, so that they are read
    /// in place.
    even: Option<usize>,
}

impl<'a> Side<'a> {
    fn new(source: Source<'a>, form: Form, walk: Loops, sum: &Loops, is_split: bool) -> Side<'a> {
        let terms = Terms::of(sum, source.slot, source.bounds);
        let mut side = Side { source, form, count: walk.len(), terms, walk, even: None };
        if form == Form::Rows && !is_split {
            side.even = side.apart(sum.len());
        }
        side
    }

    /// How many bytes its rows or lanes are apart, if all of them and their terms, as many as fill
    /// steps, lie evenly.
    fn apart(&self, terms: usize) -> Option<usize> {
        let (Source { slot, scalar, bounds, .. }, [axis]) = (self.source, &self.walk.loops[..]) else {
            return None;
        };
        let whole =
            bounds.is_empty() && (terms * scalar.size()).is_multiple_of(ROW) && self.terms.are_a_run();
        (whole && axis.by.at[slot] > 0).then(|| axis.by.at[slot] as usize * scalar.size())
    }

    fn strips(&self) -> usize {
        self.count.div_ceil(TILE_ROWS)
    }

    /// The rows or lanes of some strips of a product that begins at `base`.
    fn points(&self, first: usize, end: usize, base: &[i64; 5], points: &mut Vec<OperandOffsets>) {
        self.walk.points(first * TILE_ROWS, (end * TILE_ROWS).min(self.count), points);
        points.iter_mut().for_each(|point| point.at[self.source.slot] += base[self.source.slot]);
    }
}

/// One contraction.
pub struct Tiles<'a> {
    outputs: Outputs<'a>,
    unit: Unit,
    product: Product,
    split: Split,
    batch: Loops,
    origin: [i64; 5],
    a: Side<'a>,
    b: Side<'a>,
    /// Whether the rows of the sums are lanes of the destination.
    is_turned: bool,
    terms: usize,
    /// Terms of a step, all steps, and those of a block of the sum.
    per_step: usize,
    steps: usize,
    block: usize,
    /// Tasks of a product, by strips of `a` and of `b`.
    tasks: [usize; 2],
    /// Whether `b` is packed once for all tasks, and where for later calls, too.
    is_shared: bool,
    room: Option<CacheSlot<'a>>,
}

impl<'a> Tiles<'a> {
    /// For a problem that tiles should multiply.
    pub fn new(problem: &Problem<'a>) -> Option<Tiles<'a>> {
        let (step, isa) = (problem.step(), problem.isa);
        let unit = Unit::of(isa)?;
        let (product, split) = product(step, &unit)?;
        let [m, n, sum, batch] = [Role::M, Role::N, Role::K, Role::Batch].map(|role| Loops::of(step, role));
        let [a, b] = problem.sources_as_they_are(step);
        let (lanes_are_m, is_split) = (lanes_are_m(step), split != Split::None);
        // Few pixels of many filters are lanes, too, if filters are rows in place: else packing
        // these would be most of the work.
        let filters_are_rows = || {
            let filters = Side::new(b, Form::Rows, n.clone(), &sum, is_split);
            filters.even.is_some() && m.len() < filters.count
        };
        let a_are_lanes = lanes_are_m || filters_are_rows();
        let product = match product {
            Product::Bytes([a, b]) if a_are_lanes => Product::Bytes([b, a]),
            product => product,
        };
        let forms = if a_are_lanes { [Form::Lanes, Form::Rows] } else { [Form::Rows, Form::Lanes] };
        let (a, b) = (Side::new(a, forms[0], m, &sum, is_split), Side::new(b, forms[1], n, &sum, is_split));
        let per_step = split.raw() * ROW / step.a.size();
        let terms = sum.len();
        let steps = terms.div_ceil(per_step);
        let is_shared = b.even.is_none()
            && batch.len().saturating_mul(b.strips() * steps * TILE * split.parts()) <= SHARED;
        let outputs = problem.outputs;
        let origin = step.nest.offsets;
        let most = if let Split::Single(_) = split { PART_STEPS } else { STEPS };
        let block = steps.div_ceil(steps.div_ceil(most));
        let mut tiles = Tiles {
            outputs,
            unit,
            product,
            split,
            batch,
            origin,
            a,
            b,
            is_turned: a_are_lanes != lanes_are_m,
            terms,
            per_step,
            steps,
            block,
            tasks: [1; 2],
            is_shared,
            room: problem.room("tiles"),
        };
        tiles.divide(problem.threads);
        Some(tiles)
    }

    /// Whether numbers are binary32.
    pub fn are_single(&self) -> bool {
        matches!(self.split, Split::Single(_))
    }

    /// Chooses the tasks. Results do not depend on them.
    fn divide(&mut self, threads: usize) {
        // Pairs of strips.
        let pairs = [&self.a, &self.b].map(|side| side.strips().div_ceil(2));
        self.tasks = [0, 1].map(|k| pairs[k].div_ceil(STRIPS[k] / 2));
        if threads > 1 && self.b.even.is_some() && self.tasks[0] == 1 {
            // Every task packs all of `a`.
            self.tasks[1] = self.tasks[1].next_multiple_of(threads).min(pairs[1]);
        } else if threads > 1 {
            let wanted = (3 * threads).div_ceil(self.batch.len() * self.tasks[1]);
            self.tasks[0] = self.tasks[0].max(wanted.min(pairs[0]));
            let wanted = (3 * threads).div_ceil(self.batch.len() * self.tasks[0]);
            self.tasks[1] = self.tasks[1].max(wanted.min(pairs[1]));
        }
    }

    /// Strips of a part of a side, in whole pairs.
    fn part(side: &Side<'_>, parts: usize, index: usize) -> (usize, usize) {
        let pairs = side.strips().div_ceil(2);
        let at = |index: usize| (2 * (pairs * index / parts)).min(side.strips());
        (at(index), at(index + 1))
    }

    /// Most strips of a task.
    fn most(&self, side: usize) -> usize {
        let strips = [&self.a, &self.b][side].strips().div_ceil(2);
        2 * strips.div_ceil(self.tasks[side])
    }

    /// Bytes that a task needs: strips of `a`, those of `b`, sums, and lines.
    fn sizes(&self) -> [usize; 4] {
        let [a, b] = [self.most(0), self.most(1)];
        let acc = if self.block < self.steps { a * b / 4 } else { 1 };
        let own = if self.is_shared { 0 } else { b };
        let bytes = self.block * TILE * self.split.parts();
        // Sums that are turned have room of their own.
        let lines = self.lines().max(if self.is_turned { ACC_BYTES } else { 0 });
        [a * bytes, own * bytes, acc * ACC_BYTES, lines]
    }

    /// Bytes that packing needs: lines, and tiles before they are split.
    fn lines(&self) -> usize {
        LINES
            + match self.split {
                Split::None => 0,
                Split::Half => STEPS * TILE,
                // A block of two strips where sums are made anew, and sums of their own.
                Split::Single(_) => 2 * STEPS * TILE + ACC_BYTES,
            }
    }

    /// Packs some terms of a strip of a side: `steps` tiles of each part.
    ///
    /// # Safety
    /// As for [`pack`]; `to` has room for the tiles of all parts, and `lines` for [`Tiles::lines`].
    unsafe fn pack(
        &self, side: &Side<'_>, points: &[OperandOffsets], terms: &[Stretch], steps: usize, to: *mut u8,
        lines: *mut u8,
    ) {
        let Side { source, form, .. } = side;
        // SAFETY: the strip has its elements, and there is room for tiles, those before the split
        // included.
        unsafe {
            if self.split == Split::None {
                return pack(source, *form, points, terms, steps, to, lines);
            }
            let raw = lines.wrapping_add(LINES);
            pack(source, *form, points, terms, steps * self.split.raw(), raw, lines);
            match self.split {
                Split::Single(2) => single::split::of::<2>(source.isa)(raw, steps, to),
                Split::Single(_) => single::split::of::<3>(source.isa)(raw, steps, to),
                Split::Half | Split::None => split(raw, steps, to, source.isa),
            }
        }
    }

    /// Packs strips of `b` for the whole sum where all tasks find them.
    ///
    /// # Safety
    /// As for [`Ready::run`]; there is room for every strip at its place, and for as many bytes as
    /// packing needs.
    unsafe fn pack_shared(&self, shared: &Shared<u8>, strip: usize, lines: *mut u8) {
        let (product, first) = (strip / self.b.strips(), strip % self.b.strips());
        let base = self.batch.point(product).offsets(&self.origin);
        let (mut points, mut terms) = (Vec::new(), Vec::new());
        self.b.points(first, first + 1, &base, &mut points);
        for begin in (0..self.steps).step_by(self.block) {
            let steps = self.block.min(self.steps - begin);
            let end = self.terms.min((begin + steps) * self.per_step);
            self.b.terms.stretches(begin * self.per_step, end, &mut terms);
            let to = shared.at((strip * self.steps + begin) * TILE * self.split.parts());
            // SAFETY: the strip has its elements, and a place.
            unsafe { self.pack(&self.b, &points, &terms, steps, to, lines) };
        }
    }
}

impl Ready for Tiles<'_> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        let tasks = self.batch.len() * self.tasks[0] * self.tasks[1];
        let products = self.a.count * self.b.count * self.terms * self.batch.len();
        let threads = if products < PARALLEL_THRESHOLD { 1 } else { threads.min(tasks).max(1) };
        let strips = if self.is_shared { self.batch.len() * self.b.strips() } else { 0 };
        let known = self.known();
        let bytes = strips * self.steps * TILE * self.split.parts();
        let form = [usize::from(self.b.form == Form::Rows), self.split.parts(), self.per_step, self.block];
        let kept = match &self.room {
            // SAFETY: every element of `b` is readable.
            Some(room) => unsafe { room.place(form, bytes) }?,
            None => None,
        };
        arena::with(if kept.is_some() { 0 } else { bytes }, |memory| {
            let shared = Shared(kept.as_ref().map_or(memory, Kept::at));
            if !kept.as_ref().is_some_and(|kept| kept.is_filled) {
                threads::run_with(threads, strips, self.lines(), &|lines, strip| {
                    // SAFETY: the strip has its elements, and a place of its own.
                    unsafe { self.pack_shared(&shared, strip, lines) };
                })?;
                // SAFETY: all strips are packed.
                kept.iter().for_each(|kept| unsafe { kept.fill() });
            }
            threads::run_with(threads, tasks, self.sizes().iter().sum(), &|scratch, index| {
                // SAFETY: what is shared is packed, tasks write disjoint elements, and the
                // processor has the unit.
                unsafe { self.unit.with(|| self.task(&shared, known.as_ref(), scratch, index)) };
            })
        })
    }
}
