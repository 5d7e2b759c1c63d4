//! Sums over the taps of one channel, or a few: depthwise convolutions and their gradients of the
//! data, where neighbours in the destination's rows are next to each other, or a stride apart. A
//! tile is one row of sums, wide enough to hide latencies; the planes of a channel stay in the
//! first caches. The phases of a stride are computed together, while the rows that they share are
//! in a cache.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod in_place;

use std::mem::MaybeUninit;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use self::in_place::InPlace;
use super::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, Run, epilogue};
use crate::backend::cpu::contract::gemm::tiles::Tiles;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, MR, Simd};
use crate::backend::cpu::contract::kernel::{Kernels, Panel};
use crate::backend::cpu::contract::operands::pack::{PackScalar, Source, pack};
use crate::backend::cpu::contract::operands::planes::{Block, Planes};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::source::Held;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::threads;
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::contract::{Contract, MAX_BOUNDS, Role};
use crate::reserve::list;

/// Cells of planes at most, and outputs of all phases.
const CELLS: usize = 16 << 10;

/// Rows of a block at most: lists name each of them.
const ROWS: usize = 1024;

/// Phases that are computed together, at most.
const MAX_STRIDE_PHASES: usize = 1024;

/// Taps of a phase at most: their factors are kept on the stack.
const TAPS: usize = 512;

/// Elements between neighbouring outputs at most.
const MAX_STRIDE: i64 = 8;

/// Limits on filters per channel and on channel-filter pairs; above them tiles of several rows read
/// less memory.
const FILTERS: i64 = 8;
pub const PAIRS: usize = 16;

/// Terms of a sum up to which tiles of several rows gain nothing.
const SHORT: i64 = 16;

/// A contraction whose sum is over the taps of planes, or several, which are the phases of a
/// stride.
pub struct DepthwisePlanar<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    batch: Loops,
    /// Where the filters are that meet the same planes.
    filters: Vec<OperandOffsets>,
    /// Row by row of the destination.
    phases: Vec<Phase<'a>>,
    /// The phase whose planes all of them read.
    main: usize,
    /// Phases next to each other in a row.
    across: usize,
    /// What a row and what a column of the destination move.
    by: [[i64; 5]; 2],
    /// Parts of the slower dimension of the planes.
    parts: usize,
    /// Whether sums are the result, and go there at once.
    plain: bool,
    /// Whether they are not, and all outputs of a plane are one run.
    joined: bool,
    /// Whether planes are converted, and without gaps.
    far: bool,
}

/// The outputs of one remainder modulo the stride; without a stride, all.
struct Phase<'a> {
    planes: Planes,
    rows: usize,
    columns: usize,
    image: Source<'a>,
    filter: Source<'a>,
    origin: [i64; 5],
    /// Where the factors are.
    sum: Vec<StridedRun>,
    /// Whether they can be read there.
    in_place: bool,
}

/// What of one phase is computed of every image.
struct Work {
    tiles: Tiles,
    offsets: Vec<i32>,
    /// Where its sums are among those that wait for each other, and how many rows.
    first: usize,
    rows: usize,
}

/// Whether a canonical step sums over something for rows of a channel.
fn has_rows(step: &Contract) -> bool {
    // Gradients of the data with a stride of s write every s-th element of a row. Canonical loops
    // end with the nearest.
    let apart = step.loops(Role::M).last().map_or(0, |(_, axis)| axis.strides[0].abs());
    let is_channel = |axis: &Axis<5>| axis.strides[0].abs() < apart;
    let rows =
        (1..=MAX_STRIDE).contains(&apart) && !step.loops(Role::Batch).any(|(_, axis)| is_channel(axis));
    // Of rows in planes tiles read less, if there are filters for them and sums long enough.
    let (filters, terms) = (step.extent(Role::N), step.extent(Role::K));
    let tiles = apart == 1 && filters > FILTERS / 2 && terms > SHORT;
    rows && (1..=FILTERS).contains(&filters) && terms > 0 && !tiles
}

impl<'a> Phase<'a> {
    /// The phase of a step that [has rows](has_rows), if it sums over the taps of planes; cells are
    /// of the type `part`.
    #[inline(never)]
    fn new(
        step: &'a Contract, [image, filter]: [Source<'a>; 2], lanes: usize, part: Option<Scalar>,
    ) -> Option<Phase<'a>> {
        let planes = Planes::of(step, lanes, false)?;
        // In three dimensions there is a plane for each tap of the first one.
        let is_channel = |axis: &&Loop| axis.by.pos == [0; MAX_BOUNDS];
        let channels: usize =
            planes.channels.loops.iter().filter(is_channel).map(|axis| axis.extent).product();
        if channels * step.extent(Role::N) as usize > PAIRS || planes.channels.len() * planes.taps() > TAPS {
            return None;
        }
        let [rows, columns] = planes.dims.each_ref().map(|dim| dim.outputs.extent);
        let mut sum = Vec::new();
        planes.evens(0, planes.channels.len(), 1, 2, &mut sum);
        let single = matches!(sum[..], [StridedRun { by, len, .. }] if by == 1 || len == 1);
        let (in_place, origin) = (part == Some(step.b) && single, step.nest.offsets);
        Some(Phase { planes, rows, columns, image, filter, origin, sum, in_place })
    }
}

impl<'a, S: Simd<Scalar: PackScalar, Acc: Element>> DepthwisePlanar<'a, S> {
    /// For one step, or for some that write whole rows together and differ in nothing but loops;
    /// `None` for any others. The outputs are those of one of them.
    pub fn new(
        problem: &Problem<'a>, kernels: &'a Kernels<S>, steps: &'a [Contract],
    ) -> Option<DepthwisePlanar<'a, S>> {
        let outputs = problem.outputs;
        // Cells of several terms are of several channels.
        if S::K_PACK > 1 || steps.len() > MAX_STRIDE_PHASES || !steps.iter().all(has_rows) {
            return None;
        }
        let mut phases = list(steps.len()).ok()?;
        for step in steps {
            let sources = problem.sources::<S>(step);
            phases.push(Phase::new(step, sources, S::L * S::NV, S::Scalar::SCALAR)?);
        }
        let batch = Loops::of(outputs.step, Role::Batch);
        if phases.len() > 1 {
            // What they copy serves all of them.
            let held = phases.iter().map(|phase: &Phase<'_>| phase.image.held).reduce(Held::or);
            phases.iter_mut().for_each(|phase| phase.image.held = held.unwrap_or(Held::UNKNOWN));
            let same = steps.iter().all(|step| Loops::of(step, Role::Batch) == batch);
            phases.sort_by_key(|phase| phase.origin[0]);
            if !same || !share_planes(&mut phases) {
                return None;
            }
        }
        // Bounds that always hold are gone.
        let main = (0..phases.len()).max_by_key(|&number| phases[number].image.bounds.len())?;
        let (planes, image) = (&phases[main].planes, phases[main].image);
        let [all, widest] = planes.dims.each_ref().map(|dim| dim.outputs.extent);
        let fits = |rows: usize| {
            let block = planes.block(rows, widest, 64 / size_of::<S::KGroup>());
            block.cells(planes.channels.len()) <= CELLS
                && (phases.len() == 1 || phases.len() * rows * widest <= CELLS)
        };
        if !fits(1) {
            return None;
        }
        let rows = (1..=all.min(ROWS)).rev().find(|&rows| fits(rows)).unwrap_or(1);
        let (across, by) = grid(&phases)?;
        let columns: usize = phases[..across].iter().map(|phase| phase.columns).sum();
        let joined = all * across > 1 && (0..5).all(|k| by[0][k] == by[1][k] * columns as i64);
        let plain = outputs.takes_acc(S::Acc::SCALAR) && outputs.is_plain();
        // Rows of several phases are brought to memory as a whole.
        let direct = plain && !(joined && phases.len() > 1);
        let mut filters = Vec::new();
        let walk = Loops::of(outputs.step, Role::N);
        walk.points(0, walk.len(), &mut filters);
        let far =
            image.convert.is_some() && planes.are_dense() && size_of::<S::Scalar>() == size_of::<S::Acc>();
        (phases.len() == 1 || plain || joined).then(|| DepthwisePlanar {
            plain: direct,
            joined: !direct && joined,
            far,
            parts: all.div_ceil(rows),
            batch,
            filters,
            outputs,
            kernels,
            phases,
            main,
            across,
            by,
        })
    }

    /// Computes one part of the images `begin..end`.
    ///
    /// # Safety
    /// As for [`super::super::run`]; `planes` has room for the planes of a part.
    unsafe fn images(&self, part: usize, begin: usize, end: usize, memory: *mut S::KGroup) {
        let Phase { planes, image: source, origin, .. } = &self.phases[self.main];
        let [slow, fast] = &planes.dims;
        let rows = slow.outputs.extent;
        let (r0, r1) = (rows * part / self.parts, rows * (part + 1) / self.parts);
        let (nr, count) = (S::L * S::WIDE, planes.channels.len());
        let block: Block = planes.block(r1 - r0, fast.outputs.extent, 64 / size_of::<S::KGroup>());
        let mut start = OperandOffsets::default();
        start.add(&slow.outputs.by, r0 as i64);
        let mut len = 0;
        let work = |phase: &Phase<'_>| {
            let (mut tiles, mut offsets) = (Tiles::default(), Vec::new());
            let rows = phase.rows.min(r1).saturating_sub(r0);
            let outputs = Block { rows, columns: phase.columns, ..block };
            tiles.of_planes(&start, [&slow.outputs.by, &fast.outputs.by], &outputs, nr);
            block.offsets(&phase.planes, count, &mut offsets);
            let first = len;
            for run in &mut tiles.runs {
                if self.joined {
                    // Runs are in the order of outputs.
                    (run.at, run.by) = ([len as i64; 5], [1; 5]);
                }
                len += run.len;
            }
            Work { tiles, offsets, first: first as usize, rows }
        };
        // At most [`MAX_STRIDE_PHASES`].
        let works: Vec<_> = self.phases.iter().map(work).collect();
        let spans = block.spans(planes, [r0, 0]);
        let reach = block.reach(planes, &spans);
        let far = self.far && reach.end - reach.start <= CELLS as i64;
        let (channels, places) = (self.batch.len(), planes.outer.len());
        let plane = memory.wrapping_add(CELLS + 2 * MAX_NR).cast::<S::Acc>();
        // Where phases wait for each other.
        let apart = if self.phases.len() > 1 { plane.wrapping_add(CELLS) } else { plane };
        let (top, by) = (self.phases[0].origin, self.by[1]);
        for image in begin..end {
            // Channel after channel, as they most often lie in memory; but next to each other what
            // meets the same planes.
            let [channel, outer] = match count {
                1 => [image % channels, image / channels],
                _ => [image / places, image % places],
            };
            let mut place = self.batch.point(channel);
            place.add(&planes.outer.point(outer), 1);
            // SAFETY: the image has these channels, and the scratch is as large as the block.
            unsafe {
                let (from, kept) = (place.with_origin(origin), image > begin);
                if far {
                    for channel in 0..count {
                        let mut from = from;
                        from.add(&planes.channels.point(channel), 1);
                        // Where sums are kept afterwards.
                        let (near, spans) = (plane.cast(), (&spans[..], &reach));
                        let to = memory.add(block.cells(channel)).cast();
                        block.copy_near::<S>(planes, *source, &from, spans, near, to, kept);
                    }
                } else {
                    block.copy::<S>(planes, *source, &from, &spans, 0..count, memory.cast(), kept);
                }
                for filter in &self.filters {
                    let mut place = place;
                    place.add(filter, 1);
                    self.accumulate(&place, &works, memory, apart);
                    if self.joined {
                        if self.phases.len() > 1 {
                            self.join(&works, apart, plane);
                        }
                        let run = Run { lane: 0, len, at: output(&start), by };
                        epilogue(&self.outputs, &place.offsets(&top), &run, plane);
                    }
                }
            }
        }
    }

    /// The sums of all phases for one filter, to where they are finished, if they do not wait for
    /// each other from `kept` on.
    ///
    /// # Safety
    /// As for [`super::super::run`]; the planes are those of `place`, and there is room for what is
    /// kept.
    unsafe fn accumulate(
        &self, place: &OperandOffsets, works: &[Work], planes: *const S::KGroup, kept: *mut S::Acc,
    ) {
        let mut factors = [const { MaybeUninit::<S::Scalar>::uninit() }; TAPS];
        let mut here = [const { MaybeUninit::<S::Acc>::uninit() }; MAX_NR];
        for (phase, Work { tiles, offsets, .. }) in self.phases.iter().zip(works) {
            let at = place.offsets(&phase.origin);
            let factors = if phase.in_place {
                let from = phase.filter.data.cast::<S::KGroup>();
                from.wrapping_offset((at[2] + phase.sum[0].at) as isize)
            } else {
                let (place, to) = (place.with_origin(&phase.origin), factors.as_mut_ptr().cast());
                // SAFETY: the channel has these taps, and there is room for them: there are no
                // more.
                unsafe { pack::<S>(phase.filter, &[place], &phase.sum, 1, to) };
                factors.as_ptr().cast::<S::KGroup>()
            };
            let table = [[factors; MR]];
            for tile in &tiles.list {
                let runs = &tiles.runs[tile.first..tile.end];
                let panel = Panel {
                    rows: table.as_ptr(),
                    segments: 1,
                    len: offsets.len(),
                    step: 1,
                    offsets: offsets.as_ptr(),
                    v: planes.wrapping_add(tile.at),
                };
                let to = here.as_mut_ptr().cast::<S::Acc>();
                // SAFETY: the panel names rows and factors of `place`, and `to` has room for a row
                // of sums.
                unsafe {
                    (self.kernels.wide)(&panel, &[to; MR], false);
                    for run in runs {
                        let acc = to.wrapping_add(run.lane as usize);
                        if self.plain {
                            let to = self.outputs.dst.cast::<S::Acc>();
                            store(to.wrapping_offset((at[0] + run.at[0]) as isize), run, acc);
                        } else if self.joined {
                            store(kept.wrapping_offset(run.at[0] as isize), run, acc);
                        } else {
                            epilogue(&self.outputs, &at, run, acc);
                        }
                    }
                }
            }
        }
    }
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Ready for DepthwisePlanar<'_, S> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(planes) = InPlace::of(&self) {
            // SAFETY: the planes are those of this contraction.
            return unsafe { planes.run(&self, threads) };
        }
        let images = self.batch.len() * self.phases[self.main].planes.outer.len();
        let outputs: usize = self.phases.iter().map(|phase| phase.rows * phase.columns).sum();
        let threads = if images * outputs < PARALLEL_THRESHOLD { 1 } else { threads };
        let tasks = (4 * threads).min(images);
        // A tile at the end reads beyond its planes.
        let kept = match (self.joined, self.phases.len()) {
            (true, 2..) => 2,
            (joined, _) => usize::from(joined || self.far),
        };
        let scratch = (CELLS + 2 * MAX_NR) * size_of::<S::KGroup>() + kept * CELLS * size_of::<S::Acc>();
        threads::run_with(threads, tasks * self.parts, scratch, &|scratch, task| {
            let (part, task) = (task % self.parts, task / self.parts);
            let (begin, end) = (images * task / tasks, images * (task + 1) / tasks);
            // SAFETY: the operands have these images, tasks write disjoint elements, and the
            // scratch is this one's.
            unsafe { self.images(part, begin, end, scratch.cast()) };
        })
    }
}

impl<S: Simd<Acc: Element>> DepthwisePlanar<'_, S> {
    /// The rows of the destination, of the phases that are next to each other in each.
    ///
    /// # Safety
    /// The sums of all phases are readable, and as many writable, apart from them.
    unsafe fn join(&self, works: &[Work], acc: *const S::Acc, mut to: *mut S::Acc) {
        let down = works.len() / self.across;
        for row in 0..works.iter().step_by(self.across).map(|work| work.rows).sum() {
            let number = row % down * self.across;
            let phases = number..number + self.across;
            let line = |phase: usize| {
                let columns = self.phases[phase].columns;
                (acc.wrapping_add(works[phase].first + row / down * columns), columns)
            };
            // SAFETY: every phase has these columns of sums, and `to` room for all of them.
            unsafe {
                if self.across == 2 {
                    let ((first, columns), (second, less)) = (line(phases.start), line(phases.start + 1));
                    for i in 0..less {
                        to.add(2 * i).write(first.add(i).read());
                        to.add(2 * i + 1).write(second.add(i).read());
                    }
                    // One more at most.
                    to.add(2 * less).copy_from_nonoverlapping(first.add(less), columns - less);
                } else {
                    for (k, (from, columns)) in phases.clone().map(line).enumerate() {
                        (0..columns).for_each(|i| to.add(self.across * i + k).write(from.add(i).read()));
                    }
                }
            }
            to = to.wrapping_add(phases.map(|phase| line(phase).1).sum());
        }
    }
}

/// Gives all phases the planes that any of them sees. `false` if they are none of one operand.
#[inline(never)]
fn share_planes(phases: &mut [Phase<'_>]) -> bool {
    let Some(main) = phases.iter().max_by_key(|phase| phase.image.bounds.len()) else { return false };
    let (mut planes, origin) = (main.planes.clone(), main.origin[1]);
    // Twice, so that all see what the last one does.
    (0..2).all(|_| {
        phases.iter_mut().all(|phase| {
            let [own, all] = [&phase.planes, &planes].map(|planes| [&planes.outer, &planes.channels]);
            own == all && planes.join(&mut phase.planes, phase.origin[1] - origin)
        })
    })
}

/// How phases, in the order of the destination, lie in it: how many are next to each other in a
/// row, and what a row and a column of all of them move. `None` if they leave gaps.
#[inline(never)]
fn grid(phases: &[Phase<'_>]) -> Option<(usize, [[i64; 5]; 2])> {
    let moves = |phase: &Phase<'_>| phase.planes.dims.each_ref().map(|dim| output(&dim.outputs.by));
    let (first, [down, along]) = (&phases[0], moves(&phases[0]));
    if phases.len() == 1 {
        return Some((1, [down, along]));
    }
    let place = |phase: &Phase<'_>, k: usize| phase.origin[k] - first.origin[k];
    let across = phases.iter().filter(|phase| place(phase, 0) < along[0]).count();
    let counts = [phases.len() / across.max(1), across];
    let all: [usize; 2] = [
        phases.iter().step_by(across.max(1)).map(|phase| phase.rows).sum(),
        phases[..across].iter().map(|phase| phase.columns).sum(),
    ];
    let by = [down.map(|by| by / counts[0] as i64), along.map(|by| by / across.max(1) as i64)];
    let is_placed = |(number, phase): (usize, &Phase<'_>)| {
        let at = [number / across, number % across];
        let extent = |d: usize| (all[d] - at[d]).div_ceil(counts[d]);
        [phase.rows, phase.columns] == [extent(0), extent(1)]
            && (0..2).all(|d| (0..5).all(|k| by[d][k] * counts[d] as i64 == moves(phase)[d][k]))
            && [0, 3, 4].iter().all(|&k| place(phase, k) == at[0] as i64 * by[0][k] + at[1] as i64 * by[1][k])
    };
    let whole = across > 0 && counts[0] * across == phases.len();
    (whole && phases.iter().enumerate().all(is_placed)).then_some((across, by))
}

/// What a turn moves of dst, z and bias.
fn output(by: &OperandOffsets) -> [i64; 5] {
    [by.at[0], 0, 0, by.at[3], by.at[4]]
}

/// Puts sums where a run says, from `to` on.
///
/// # Safety
/// As for [`epilogue`]; the sums are apart from the destination.
#[inline(always)]
unsafe fn store<T: Copy>(to: *mut T, run: &Run, acc: *const T) {
    let (len, apart) = (run.len as usize, run.by[0] as isize);
    // SAFETY: the sums are as many as the run has elements, and lie apart from it.
    unsafe {
        if apart == 1 || len == 1 {
            acc.copy_to_nonoverlapping(to, len);
        } else {
            (0..len).for_each(|i| to.wrapping_offset(i as isize * apart).write(acc.add(i).read()));
        }
    }
}
