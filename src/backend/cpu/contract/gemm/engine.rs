//! The loops around the kernel: blocks of the sum, of rows and of lanes, and what is packed for
//! each.
//!
//! Lanes are the loops along which the destination is contiguous, rows the others. Every element is
//! one chain of sums per block of the sum, and the blocks depend on nothing but the loops of the
//! sum: the same bits for every number of threads, every size of batch, and every way to pack.

mod in_place;
mod k_block;
mod prefetch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rows;
mod task;

use self::in_place::{lanes_in_place, planes_in_place, rows_in_place};
pub use self::k_block::{KBlock, KC, KGroupShape, k_blocks};
use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::Outputs;
use crate::backend::cpu::contract::kernel::Kernels;
use crate::backend::cpu::contract::kernel::simd::{MR, Simd};
use crate::backend::cpu::contract::operands::pack::{PackScalar, Source};
use crate::backend::cpu::contract::operands::planes::{Block, Planes};
use crate::backend::cpu::contract::operands::points::{Loop, Loops};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready, lanes_are_m};
use crate::backend::cpu::filters::{CacheSlot, Kept};
use crate::backend::cpu::panels::Key;
use crate::backend::cpu::{PanelCache, arena, threads};
use crate::dtype::convert::Element;
use crate::error::Result;
use crate::ops::contract::{Contract, Role};

/// Micro-panels of A that are packed together, MC / MR: with [`KC`] k-groups they take about a
/// third of an L2 cache of 512 KiB.
const MC_PANELS: usize = 20;

/// Bytes of planes per block of lanes.
const PLANES: usize = 192 << 10;

/// Rows of all planes of a block: lists name each of them.
const ROWS: usize = 1024;

/// Lanes per block where they are packed one by one.
const NC: usize = 192;

/// Bytes that operands may take that are packed once for all tasks.
const SHARED: usize = 64 << 20;

/// Up to this many A panels (and rows) each task packs its own B panel, which then stays in L1; a
/// shared copy would make a round trip to memory.
const LOCAL_A_PANELS: usize = 2 * MC_PANELS;
const LOCAL_M: usize = LOCAL_A_PANELS * MR;

/// Bytes of A that stay in an L2 cache of 512 KiB, where every B panel finds them again: as many as
/// 7 x 7 pixels of 2048 channels have.
const L2_ROWS_BYTES: usize = 400 << 10;

/// A is packed from this N on: for fewer columns the copy costs more than it saves.
const PACKED_FROM: usize = 256;

/// Rows that a task may have multiplied by a panel while it packs it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const PACKING: usize = 20;

/// Grain size: fewer products than this do not pay for the setup of a task.
const GRAIN: usize = 2 << 20;

/// Packing policy of B, whose columns are lanes.
enum PackB {
    /// Planes of the windowed operand.
    Planes(Box<Planes>),
    /// Panels packed by each task.
    Local,
    /// Panels packed once.
    Shared,
    /// The operand itself, whose neighbours are lanes.
    InPlace,
}

/// Packing policy of A.
#[derive(PartialEq)]
enum PackA {
    /// Micro-panels packed once for all tasks.
    Shared,
    /// Micro-panels packed by each task.
    Local,
    /// The operand itself: the innermost loop of the sum has `inner` cells, `step` cells apart.
    /// Where the last two loops are one run, `taps` is what the outer one of them turns: of a run
    /// that leaves the window in part a copy is read.
    InPlace { inner: usize, step: usize, taps: Option<usize> },
}

/// Computes one task of an engine.
pub type Task<S> = unsafe fn(&Engine<'_, S>, &TaskScratch<'_, S>, usize);

/// One contraction on one level.
pub struct Engine<'a, S: Simd> {
    outputs: Outputs<'a>,
    kernels: &'a Kernels<S>,
    /// [`Engine::task`], for the level of the kernels.
    task: Task<S>,
    batch: Loops,
    rows: Loops,
    lanes: Loops,
    sum: Loops,
    row_source: Source<'a>,
    lane_source: Source<'a>,
    origin: [i64; 5],
    k_blocks: Vec<KBlock>,
    from_rows: PackA,
    from_lanes: PackB,
    row_count: usize,
    micro_panels: usize,
    /// Blocks of lanes of one product of the batch: of an outer point, then of rows and columns of
    /// planes.
    blocks: [usize; 3],
    /// Groups that the strips are divided in.
    parts: usize,
    direct: bool,
    /// Where rows are even and leave from registers.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    even: Option<rows::EvenRows>,
    /// Whether panels of lanes serve later steps, too.
    keeps: bool,
}

/// The part `index` of `total` in `parts` as even as possible.
fn share(total: usize, parts: usize, index: usize) -> (usize, usize) {
    (total * index / parts, total * (index + 1) / parts)
}

/// Memory that all tasks of a contraction see.
pub struct Shared<T>(pub *mut T);
// SAFETY: an address; who writes what is a matter of the tasks.
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    pub fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

impl<'a, S: Simd<Scalar: PackScalar, Acc: Element>> Engine<'a, S> {
    /// With lanes from planes, if a problem has some that are worth their copy.
    pub fn with_planes(
        problem: &Problem<'a>, kernels: &'a Kernels<S>, task: Task<S>,
    ) -> Option<Result<CachedEngine<'a, S>>> {
        let step = problem.step();
        if !are_m::<S>(step) {
            return None;
        }
        let [lanes, sum] = [Role::M, Role::K].map(|role| Loops::of(step, role));
        let ([source, _], rows) = (problem.sources::<S>(step), step.extent(Role::N) as usize);
        // A single lane needs none; sums over several loops keep the blocks that planes have.
        let single = lanes.loops.is_empty() && sum.loops.len() <= 1;
        if single || lanes_in_place::<S>(&source, &lanes, &sum, rows, problem.panels.is_some()) {
            return None;
        }
        Some(Engine::of(problem, kernels, task, Some(planes::<S>(step)?)))
    }

    /// With lanes from `planes`, if there are some.
    ///
    /// # Errors
    /// Host allocation.
    pub fn of(
        problem: &Problem<'a>, kernels: &'a Kernels<S>, task: Task<S>, planes: Option<Planes>,
    ) -> Result<CachedEngine<'a, S>> {
        let Problem { outputs, threads, .. } = *problem;
        let step = problem.step();
        let lanes_are_m = are_m::<S>(step);
        let keeps = problem.panels.is_some() || problem.filters.is_some() && !lanes_are_m;
        let View { a, b, batch, origin } = problem.view::<S>();
        let [m, n] = [Role::M, Role::N].map(|role| Loops::of(step, role));
        let (rows, lanes) = if lanes_are_m { (n, m) } else { (m, n) };
        let (mut row_source, mut lane_source) = if lanes_are_m { (b, a) } else { (a, b) };
        let (shifted, compensation) = S::SHIFTED;
        if S::K_PACK == 4 && step.a == shifted {
            // Bytes of `a` lose their signs, here or in the kernels, and become 128 more, or get
            // some and become 128 less; tails of `b` take that back.
            lane_source.is_shifted = lanes_are_m;
            let weighed = if lanes_are_m { &mut row_source } else { &mut lane_source };
            weighed.compensation = compensation;
        }
        let sum = Loops::of(step, Role::K);
        let (row_count, lane_count) = (rows.len(), lanes.len());
        let still = lanes_in_place::<S>(&lane_source, &lanes, &sum, row_count, keeps);
        // A block of the sum is whole channels of planes, or whole turns of the innermost loop, or
        // a part of one.
        let unit = match &planes {
            Some(planes) => planes.taps(),
            None => 1,
        };
        let loops = planes.as_ref().map_or(sum.len(), |planes| planes.channels.len());
        let in_place = planes.is_none() && (!lanes_are_m || lane_count < PACKED_FROM && S::COMPENSATION == 0);
        // Where there are more lanes, as in larger batches, rows are packed: their sums have the
        // same order, taps aside.
        let place = rows_in_place::<S>(&row_source, &rows, &sum, in_place)
            .filter(|place| !lanes_are_m || matches!(place, PackA::InPlace { taps: None, .. }));
        let native = <S::Scalar as PackScalar>::is_native(row_source.scalar);
        let inner = match (&planes, sum.loops.last(), &place) {
            (_, _, &Some(PackA::InPlace { inner, .. })) => inner * S::K_PACK,
            (None, Some(axis), _) => axis.extent,
            _ => 1,
        };
        let k_blocks = k_blocks(KGroupShape::of::<S>(), loops, inner, unit)?;
        let cells = k_blocks.last().map_or(0, |s| s.before + s.packed);
        let bytes = size_of::<S::KGroup>();
        let packed_rows = batch.len() * row_count * cells * bytes;
        let packed_lanes = batch.len() * lane_count.next_multiple_of(Kernels::<S>::NR) * cells * bytes;
        let from_rows = match place {
            Some(place) if native => place,
            _ if !lanes_are_m || packed_rows > SHARED => PackA::Local,
            // Straight from the operand where its sum is contiguous in the order of the kernels.
            _ => match planes_in_place::<S>(&row_source, &planes, &sum) {
                Some(inner) if lane_count < PACKED_FROM => PackA::InPlace { inner, step: 1, taps: None },
                _ => PackA::Shared,
            },
        };
        let panels = lane_count.div_ceil(Kernels::<S>::NR);
        let row_bytes =
            sum.loops.last().map_or(1, |axis| axis.extent).saturating_mul(row_source.scalar.size());
        let few_rows = !lanes_are_m
            && !keeps
            && from_rows != PackA::Local
            && row_count <= LOCAL_M
            && row_bytes <= L2_ROWS_BYTES / row_count.max(1);
        let from_lanes = match planes {
            Some(planes) => PackB::Planes(Box::new(planes)),
            None if still => PackB::InPlace,
            // As many panels as keep all threads busy, so that none is packed for several parts of
            // the rows, nor rows for several of them.
            None if few_rows && panels >= 3 * threads => PackB::Local,
            // Of lanes that one strip of rows meets, a copy would be read once.
            None if !lanes_are_m && packed_lanes <= SHARED && (row_count > MR || keeps) => PackB::Shared,
            None => PackB::Local,
        };
        let kind = if matches!(from_lanes, PackB::Planes(_)) { "gemm_planes" } else { "gemm" };
        let room = problem.room(kind).map(|room| {
            let flags = usize::from(lanes_are_m) | usize::from(row_source.compensation != 0) << 1;
            (room, [Kernels::<S>::NR << 16 | S::K_PACK << 8 | bytes << 2 | flags, inner, unit, loops])
        });
        let mut engine = Engine {
            direct: outputs.takes_acc(S::Acc::SCALAR),
            keeps: keeps && batch.loops.is_empty() && lanes.loops.len() == 1 && sum.loops.len() == 1,
            outputs,
            kernels,
            task,
            batch,
            rows,
            lanes,
            sum,
            row_source,
            lane_source,
            origin,
            k_blocks,
            from_rows,
            from_lanes,
            row_count,
            micro_panels: row_count.div_ceil(MR),
            blocks: [1, 1, 1],
            parts: 1,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            even: None,
        };
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            engine.even = engine.even();
            if engine.even.is_some() && few_rows {
                engine.from_lanes = PackB::Local;
                engine.divide_few(threads);
                return Ok(CachedEngine { engine, panels: problem.panels, room });
            }
        }
        engine.divide(threads);
        Ok(CachedEngine { engine, panels: problem.panels, room })
    }

    /// The same of few even rows, of which every task packs the panels for itself: each thread has
    /// a share of the panels, or of the rows, or of both, so that all of them end together.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn divide_few(&mut self, threads: usize) {
        let halves = self.lanes.len().div_ceil(Kernels::<S>::NR / 2);
        let threads = threads.div_ceil(self.batch.len().max(1));
        let split = |parts: usize| (threads.div_ceil(parts).min(halves).max(1), parts);
        let cost = |&(blocks, parts): &(usize, usize)| {
            halves.div_ceil(blocks) * (PACKING + self.micro_panels.div_ceil(parts) * MR)
        };
        let most = threads.min(self.micro_panels).max(1);
        let (blocks, parts) = (1..=most).map(split).min_by_key(cost).unwrap_or((1, 1));
        // More shares than threads for one that is held up, of a panel at least.
        let more = if threads > 1 && parts == 1 { (halves / (2 * blocks)).clamp(1, 3) } else { 1 };
        self.blocks = [1, 1, more * blocks];
        self.parts = parts;
    }

    /// Chooses the blocks of lanes and the parts of rows. Results do not depend on them.
    fn divide(&mut self, threads: usize) {
        let most = self.k_blocks.iter().map(|s| s.end - s.begin).max().unwrap_or(0).div_ceil(S::K_PACK);
        self.blocks = match &self.from_lanes {
            PackB::Planes(planes) => {
                let [slow, fast] = &planes.dims;
                let (down, along) = (slow.outputs.extent, fast.outputs.extent);
                let columns = along.div_ceil(1024);
                let fits = |rows: usize| {
                    let block = planes.block(rows, along.div_ceil(columns), 64 / size_of::<S::KGroup>());
                    block.cells(most) * size_of::<S::KGroup>() <= PLANES && block.phases * rows <= ROWS
                };
                let rows = (1..=down).rev().find(|&rows| fits(rows)).unwrap_or(1);
                let columns = if !fits(1) && along > 4 * Kernels::<S>::NR && planes.taps() == 1 {
                    // Long rows of many channels: like a matrix.
                    along.div_ceil((PLANES / size_of::<S::KGroup>() / most.max(1)).max(128))
                } else {
                    columns
                };
                [planes.outer.len(), down.div_ceil(rows), columns]
            }
            _ => [1, 1, self.lanes.len().div_ceil(NC)],
        };
        let panels = self.lanes.len().div_ceil(Kernels::<S>::NR);
        let own = matches!(self.from_lanes, PackB::Local | PackB::InPlace);
        if own && self.from_rows != PackA::Local && self.micro_panels > 1 {
            // Each task packs its own rows, so that splitting by lanes repeats that packing.
            let wanted = (3 * threads).div_ceil(self.batch.len().max(1)).min(panels);
            self.blocks[2] = self.blocks[2].max(if threads > 1 { wanted } else { 1 });
        }
        let tasks = self.batch.len() * self.blocks.iter().product::<usize>();
        // As many groups together as make a task worth its lists.
        let lanes = self.lanes.len() / self.blocks[2].max(1);
        let products = (MC_PANELS * MR * lanes * self.sum.len()).max(1);
        let kept = if self.k_blocks.len() > 1 { 1 } else { (GRAIN / products).max(1) };
        let groups = self.micro_panels.div_ceil(MC_PANELS * kept);
        self.parts = match self.from_rows {
            // Lanes are packed once: every group of rows is a task.
            _ if matches!(self.from_lanes, PackB::Shared) => groups,
            // Sums that are kept between blocks of the sum must fit.
            _ => self.micro_panels.div_ceil(128),
        };
        if threads > 1 && tasks * self.parts < 3 * threads {
            let wanted = (3 * threads).div_ceil(tasks.max(1));
            self.parts = self.parts.max(wanted.min(self.micro_panels.div_ceil(4)).max(1));
        }
        let uneven = tasks * self.parts < 16 * threads && !(tasks * self.parts).is_multiple_of(threads);
        if uneven && matches!(self.from_lanes, PackB::Shared | PackB::InPlace) {
            // What each part would pack anew stays in fewer.
            self.parts = threads::even_parts(self.parts, threads, self.micro_panels.div_ceil(4));
        }
        self.parts = self.parts.min(self.micro_panels).max(1);
    }

    /// Runs the contraction, with `panels` kept for later steps, or filters for later calls, if
    /// they may be.
    ///
    /// # Safety
    /// As for [`Ready::run`].
    unsafe fn run(
        &self, threads: usize, panels: Option<&PanelCache>, room: Option<(CacheSlot<'_>, [usize; 4])>,
    ) -> Result<()> {
        let tasks = self.batch.len() * self.blocks.iter().product::<usize>() * self.parts;
        let products = self.row_count * self.lanes.len() * self.sum.len().max(1) * self.batch.len();
        let threads = if products < PARALLEL_THRESHOLD { 1 } else { threads.min(tasks).max(1) };
        let cells = self.k_blocks.last().map_or(0, |s| s.before + s.packed);
        let nr = Kernels::<S>::NR;
        let lanes = self.lanes.len().div_ceil(nr) * nr;
        let shared = match (&self.from_rows, &self.from_lanes) {
            (_, PackB::Shared) => self.batch.len() * lanes * cells,
            (PackA::Shared, _) => self.batch.len() * self.row_count * cells,
            _ => 0,
        };
        let sizes = self.sizes();
        let cell = size_of::<S::KGroup>();
        let (per_task, shared_bytes) = (sizes.iter().sum::<usize>() * cell, shared * cell);
        // Without memory for what is kept, every step packs anew.
        let kept = panels.zip(self.key(shared_bytes)).and_then(|(panels, key)| panels.place(&key));
        let filters = match room.filter(|_| kept.is_none() && self.shares_b()) {
            // SAFETY: every element of `b` is readable.
            Some((room, form)) => unsafe { room.place(form, shared_bytes) }?,
            None => None,
        };
        let place = kept.as_ref().map(|kept| kept.at).or(filters.as_ref().map(Kept::at));
        let is_filled = kept.as_ref().is_some_and(|kept| kept.is_filled)
            || filters.as_ref().is_some_and(|filters| filters.is_filled);
        arena::with(if place.is_some() { 0 } else { shared_bytes }, |memory| {
            let memory = place.unwrap_or(memory);
            let base = Shared(memory.cast::<S::KGroup>());
            let carve = |own: *mut u8| {
                let [v, r, _] = sizes;
                let own = own.cast::<S::KGroup>();
                TaskScratch {
                    shared: &base,
                    v: own,
                    r: own.wrapping_add(v),
                    acc: own.wrapping_add(v + r).cast(),
                }
            };
            if shared > 0 && !is_filled {
                let pieces =
                    if matches!(self.from_lanes, PackB::Shared) { lanes / nr } else { self.micro_panels };
                let pieces = self.batch.len() * pieces;
                let chunk = pieces.div_ceil(4 * threads).max(1);
                threads::run(threads, pieces.div_ceil(chunk), &|index| {
                    // SAFETY: every piece has its elements and a place of its own.
                    unsafe { self.pack_shared(&base, index * chunk..pieces.min((index + 1) * chunk)) };
                })?;
                panels.filter(|_| kept.is_some()).into_iter().for_each(PanelCache::fill);
                // SAFETY: all pieces are packed.
                filters.iter().for_each(|filters| unsafe { filters.fill() });
            }
            threads::run_with(threads, tasks, per_task, &|scratch, index| {
                // SAFETY: what is shared is packed, tasks write disjoint elements, and the scratch
                // is this one's.
                unsafe { (self.task)(self, &carve(scratch), index) };
            })
        })
    }

    /// Whether what is packed once for all tasks is `b`.
    fn shares_b(&self) -> bool {
        match (&self.from_rows, &self.from_lanes) {
            (_, PackB::Shared) => self.lane_source.slot == 2,
            (PackA::Shared, _) => self.row_source.slot == 2,
            _ => false,
        }
    }

    /// What tells the panels of all lanes from others, if they are kept.
    fn key(&self, bytes: usize) -> Option<Key> {
        let (Source { data, slot, scalar, .. }, origin) = (self.lane_source, self.origin);
        let ([lane], [axis]) = (&self.lanes.loops[..], &self.sum.loops[..]) else { return None };
        let of = |axis: &Loop| (axis.extent, axis.by.at[slot]);
        let first = data.wrapping_offset(origin[slot] as isize * scalar.size() as isize);
        let is_kept = self.keeps && matches!(self.from_lanes, PackB::Shared);
        is_kept.then(|| Key { data: first, scalar, lanes: of(lane), sum: of(axis), bytes })
    }

    /// Cells of lanes and of rows, and sums, that a task needs.
    fn sizes(&self) -> [usize; 3] {
        let nr = Kernels::<S>::NR;
        let most = self.k_blocks.iter().map(|s| s.packed).max().unwrap_or(0);
        let channels = self.k_blocks.iter().map(|s| (s.end - s.begin).div_ceil(S::K_PACK)).max().unwrap_or(0);
        let (v, lanes) = match &self.from_lanes {
            PackB::Planes(planes) => {
                let block = self.block(planes);
                // A tile starts at an output; those between rows are not stored.
                (block.cells(channels) + nr, (block.rows * block.pitch).div_ceil(nr) * nr + nr)
            }
            _ => {
                let lanes = self.lanes.len().div_ceil(self.blocks[2]).div_ceil(nr) * nr;
                let packed = match self.from_lanes {
                    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                    PackB::Local if self.even.is_some() => nr,
                    PackB::Local => lanes,
                    PackB::InPlace => nr,
                    _ => 0,
                };
                (packed * most, lanes)
            }
        };
        let copies = matches!(self.from_rows, PackA::Local | PackA::InPlace { taps: Some(_), .. });
        let r = if copies { MC_PANELS * MR * most } else { 0 };
        let rows = self.micro_panels.div_ceil(self.parts) * MR;
        let acc = if self.k_blocks.len() > 1 { rows * lanes } else { 0 };
        [v.next_multiple_of(16), r.next_multiple_of(16), acc]
    }

    /// The largest block of planes.
    fn block(&self, planes: &Planes) -> Block {
        let [slow, fast] = &planes.dims;
        let rows = slow.outputs.extent.div_ceil(self.blocks[1]);
        let columns = fast.outputs.extent.div_ceil(self.blocks[2]);
        planes.block(rows, columns, 64 / size_of::<S::KGroup>())
    }
}

/// An engine, and where its panels are kept for later steps, if they may be.
pub struct CachedEngine<'a, S: Simd> {
    engine: Engine<'a, S>,
    panels: Option<&'a PanelCache>,
    /// Where `b` stays for later calls, and the form in which it is packed.
    room: Option<(CacheSlot<'a>, [usize; 4])>,
}

impl<S: Simd<Scalar: PackScalar, Acc: Element>> Ready for CachedEngine<'_, S> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        // SAFETY: the operands are those of the contraction that the engine was made for.
        unsafe { self.engine.run(threads, self.panels, self.room) }
    }
}

/// Scratch of one task, and what is packed once for all.
pub struct TaskScratch<'a, S: Simd> {
    shared: &'a Shared<S::KGroup>,
    v: *mut S::KGroup,
    r: *mut S::KGroup,
    acc: *mut S::Acc,
}

/// The windowed operand of a canonical step as planes.
fn planes<S: Simd>(step: &Contract) -> Option<Planes> {
    Planes::of(step, Kernels::<S>::NR, S::K_PACK == 1)
}

/// Whether the rows of `a` are lanes of these kernels: also where pixels are side by side of few
/// channels.
fn are_m<S: Simd>(step: &Contract) -> bool {
    // Neighbours that fill no vector would leave most of it without use.
    let few = S::K_PACK == 1 && step.extent(Role::N) <= S::L as i64;
    lanes_are_m(step) || few && planes::<S>(step).as_ref().is_some_and(Planes::are_interleaved)
}
