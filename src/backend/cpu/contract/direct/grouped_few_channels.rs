//! Convolutions in groups of few channels side by side (NHWC), and depthwise ones with several
//! filters a channel: lanes are neighbouring outputs, of several groups.
//!
//! Every term of the sum beside the taps has a plane of the image, copied with its padding, in
//! which each lane finds the channel that its group reads there: products are vector by vector, and
//! no tap shuffles anything. Sums are short: each is one chain.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

use crate::backend::cpu::contract::PARALLEL_THRESHOLD;
use crate::backend::cpu::contract::epilogue::generic::{Outputs, epilogue_outlined};
use crate::backend::cpu::contract::epilogue::run::Run;
use crate::backend::cpu::contract::gemm::engine::{KC, Shared};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::contract::kernel::simd::Avx512Single;
use crate::backend::cpu::contract::kernel::simd::{Simd, Single};
use crate::backend::cpu::contract::operands::pack::{LaneOffsets, pack_panels};
use crate::backend::cpu::contract::operands::planes::{Dim, Padded, Planes};
use crate::backend::cpu::contract::operands::points::{Loop, Loops, OperandOffsets, StridedRun};
use crate::backend::cpu::contract::operands::view::View;
use crate::backend::cpu::contract::problem::{Problem, Ready};
use crate::backend::cpu::contract::widen::FILTERS;
use crate::backend::cpu::{arena, threads};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, MAX_BOUNDS, Role};
use crate::reserve::list;

/// Lanes of a block: a cache line.
const LANES: usize = 16;

/// Lanes that are copied at once, and vectors of as many channels at most that they are found in.
const HALF: usize = 8;
const MAX_VECTORS: usize = 8;

/// Outputs of a tile.
const OUTPUTS: usize = 8;

/// Cells of the planes of a block, of as many lanes each, unless eight outputs have more.
const CELLS: usize = 3 << 10;

/// A contraction over groups of few channels.
pub struct GroupedFewChannels<'a> {
    outputs: Outputs<'a>,
    /// Its batch is without the loop over groups.
    view: View<'a>,
    /// The loop over groups, and that over the filters of each.
    groups: Loop,
    filters: Loop,
    planes: Planes,
    /// What neighbouring lanes are apart.
    by: [i64; 5],
    /// Rows and columns of outputs of a block; the last ones may have fewer.
    rows: usize,
    columns: usize,
}

/// Where eight lanes find their channels: from `first` on, in a few vectors.
#[derive(Default)]
struct Half {
    first: i64,
    pieces: usize,
    /// In each vector: the elements that exist, as masks, the element of each lane, and the lanes
    /// that have theirs there.
    exist: [[i32; HALF]; MAX_VECTORS],
    element: [[i32; HALF]; MAX_VECTORS],
    here: [[i32; HALF]; MAX_VECTORS],
    /// How far each is from the first.
    #[cfg(target_arch = "aarch64")]
    at: [usize; HALF],
}

impl Half {
    /// The last element that exists.
    fn last(&self) -> i64 {
        let last = |exist: &[i32; HALF]| exist.iter().rposition(|&mask| mask != 0);
        let found =
            self.exist.iter().enumerate().rev().find_map(|(piece, exist)| Some((piece, last(exist)?)));
        found.map_or(0, |(piece, element)| (piece * HALF + element) as i64)
    }
}

/// What a tile reads: for each term a vector of factors, and of each output one at `from` and the
/// term's place.
struct Terms<'a> {
    places: &'a [i32],
    factors: *const f32,
    from: *const f32,
    /// Elements from output to output.
    step: usize,
}

impl<'a> GroupedFewChannels<'a> {
    /// `None` where it does not apply or does not pay. Of the batch nothing depends on it.
    pub fn new(problem: &Problem<'a>) -> Option<GroupedFewChannels<'a>> {
        let step = problem.step();
        let filters = match &Loops::of(step, Role::N).loops[..] {
            [] => Loop { extent: 1, by: OperandOffsets::default() },
            &[axis] if axis.by.at[0] == 1 && axis.extent as i64 <= FILTERS => axis,
            _ => return None,
        };
        let mut view = problem.view::<Single>();
        let along = |axis: &Loop| axis.by.at[0] == filters.extent as i64 && axis.by.pos == [0; MAX_BOUNDS];
        let groups = view.batch.loops.remove(view.batch.loops.iter().position(along)?);
        let by = if filters.extent == 1 { groups.by.at } else { filters.by.at };
        let even = [0, 3, 4].iter().all(|&k| groups.by.at[k] == by[k] * filters.extent as i64);
        let apart = groups.by.at[1];
        let reach = apart.saturating_mul((HALF / filters.extent) as i64) < (HALF * (MAX_VECTORS - 1)) as i64;
        // Single channels with a filter each have a kernel of their own.
        let single = filters.extent == 1 && apart == 1;
        let lanes = groups.extent * filters.extent;
        let native = step.accumulate == Accumulate::Single && step.a == Scalar::F32;
        if !native || !even || apart < 1 || !reach || single || lanes < HALF {
            return None;
        }
        // Eight lanes that begin within a group see one group more than those that begin with one.
        let seen = |first: usize| (first % filters.extent + HALF - 1) / filters.extent;
        let most = (0..lanes.min(HALF * filters.extent)).step_by(HALF).map(seen).max()?;
        if apart.saturating_mul(most as i64) >= (HALF * MAX_VECTORS) as i64 {
            return None;
        }
        let planes = Planes::seen(step)?;
        let fits = (1..=KC).contains(&(planes.channels.len() * planes.taps()));
        // Channels that fill vectors are better turned, so that pixels are lanes.
        if !fits || planes.are_interleaved() {
            return None;
        }
        let [down, along] = planes.dims.each_ref().map(|dim| dim.outputs.extent);
        let mut result = GroupedFewChannels {
            outputs: problem.outputs,
            view,
            groups,
            filters,
            planes,
            by,
            rows: 1,
            columns: along,
        };
        while result.cells() > CELLS && result.columns > OUTPUTS {
            result.columns = result.columns.div_ceil(2);
        }
        while result.rows < down && result.cells() < CELLS {
            result.rows += 1;
        }
        result.rows = down.div_ceil(down.div_ceil(result.rows));
        Some(result)
    }

    fn lanes(&self) -> usize {
        self.groups.extent * self.filters.extent
    }

    fn terms(&self) -> usize {
        self.planes.channels.len() * self.planes.taps()
    }

    /// Cells of a row of a plane: those of whole tiles, an odd number, so that rows do not meet in
    /// the same sets of a cache.
    fn pitch(&self) -> usize {
        self.planes.dims[1].span(self.columns.next_multiple_of(OUTPUTS)) | 1
    }

    /// Cells of a plane, and of all of them.
    fn plane(&self) -> usize {
        self.planes.dims[0].span(self.rows) * self.pitch()
    }

    fn cells(&self) -> usize {
        self.planes.channels.len() * self.plane()
    }

    /// What a lane moves an operand.
    fn lane(&self, lane: usize, slot: usize) -> i64 {
        let (group, filter) = (lane / self.filters.extent, lane % self.filters.extent);
        self.groups.by.at[slot] * group as i64 + self.filters.by.at[slot] * filter as i64
    }

    /// Where every term of the sum is in the planes, and what the filter reads there, in the order
    /// of the step's loops: that of the sums of one group alone, too.
    fn sum(&self) -> Result<(Vec<i32>, Vec<StridedRun>)> {
        let [slow, fast] = &self.planes.dims;
        let pitch = self.pitch() as i64;
        let mut loops = Loops::of(self.outputs.step, Role::K);
        // What a turn moves in the planes, in cells, in place of what it moves in the image.
        let mut channel = self.plane() as i64;
        for Loop { extent, by } in loops.loops.iter_mut().rev() {
            let moves = |dim: &Dim| dim.bound.is_some_and(|bound| by.pos[bound] != 0);
            by.at[1] = match (moves(slow), moves(fast)) {
                (_, true) => fast.step(),
                (true, _) => slow.step() * pitch,
                _ => {
                    channel *= *extent as i64;
                    channel / *extent as i64
                }
            };
        }
        let begin = |dim: &Dim| dim.first_position() - dim.lowest();
        let first = begin(slow) * pitch + begin(fast);
        let (mut places, mut filter) = (list(self.terms())?, list(self.terms())?);
        let place = |term: usize| {
            StridedRun::plain(loops.offset(term, 2), 0, 1, None).push(&mut filter, false);
            (first + loops.offset(term, 1)) as i32 * LANES as i32
        };
        // At most [`KC`], for which there is room.
        places.extend((0..self.terms()).map(place));
        Ok((places, filter))
    }

    /// Where eight lanes find their channels, the last one's for those that there are not.
    fn half(&self, first: usize) -> Half {
        let last = self.lanes() - 1;
        let mut half = Half { first: self.lane(first.min(last), 1), ..Half::default() };
        for l in 0..HALF {
            let at = (self.lane((first + l).min(last), 1) - half.first) as usize;
            let (piece, element) = (at / HALF, at % HALF);
            half.pieces = half.pieces.max(piece + 1);
            half.exist[piece][element] = -1;
            half.element[piece][l] = element as i32;
            half.here[piece][l] = -1;
            #[cfg(target_arch = "aarch64")]
            {
                half.at[l] = at;
            }
        }
        half
    }

    /// Computes some lanes of a block of outputs of an image.
    ///
    /// # Safety
    /// As for [`run`](GroupedFewChannels::run); the factors are those of the lanes, and there is
    /// room for the planes of a block.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn block(
        &self, places: &[i32], factors: *const f32, copy: *mut f32, image: usize, begin: [usize; 2],
        lane: usize,
    ) {
        let [slow, fast] = &self.planes.dims;
        let (outer, pitch) = (self.planes.outer.len(), self.pitch());
        let mut place = self.view.product(image / outer);
        place.add(&self.planes.outer.point(image % outer), 1);
        let rows = self.rows.min(slow.outputs.extent - begin[0]);
        let columns = self.columns.min(fast.outputs.extent - begin[1]);
        let lanes = LANES.min(self.lanes() - lane);
        // SAFETY: the block lies inside the image or its padding, and the copy has room for it.
        unsafe { self.copy(&place, begin, [rows, columns], lane, copy) };
        place.add(&slow.outputs.by, begin[0] as i64);
        place.add(&fast.outputs.by, begin[1] as i64);
        [0, 3, 4].iter().for_each(|&k| place.at[k] += self.by[k] * lane as i64);
        let run = Run { lane: 0, len: lanes as u32, at: [0; 5], by: self.by };
        let (direct, plain) = (self.outputs.takes_acc(Scalar::F32), self.outputs.is_plain());
        #[cfg(target_arch = "x86_64")]
        let tile = if self.view.a.isa.has_avx512() { tile_avx512 } else { tile_in_halves };
        #[cfg(target_arch = "aarch64")]
        let tile = tile_in_halves;
        let mut here = [0.0_f32; OUTPUTS * LANES];
        for row in 0..rows {
            for column in (0..columns).step_by(OUTPUTS) {
                let count = OUTPUTS.min(columns - column);
                let from = (row * slow.stride() * pitch + column * fast.stride()) * LANES;
                let terms =
                    Terms { places, factors, from: copy.wrapping_add(from), step: fast.stride() * LANES };
                let at = |i: usize| {
                    let mut at = place;
                    at.add(&slow.outputs.by, row as i64);
                    at.add(&fast.outputs.by, (column + i) as i64);
                    at.at
                };
                let direct = direct && lanes == LANES && count == OUTPUTS;
                let (to, apart) = match direct {
                    true => {
                        let to = self.outputs.dst.cast::<f32>().wrapping_offset(at(0)[0] as isize);
                        (to, fast.outputs.by.at[0] as isize)
                    }
                    false => (here.as_mut_ptr(), LANES as isize),
                };
                // SAFETY: the planes and the factors are there; sums go to the destination where
                // all of them have a place in it.
                unsafe {
                    tile(&terms, to, apart);
                    if !(direct && plain) {
                        for i in 0..count {
                            epilogue_outlined(&self.outputs, &at(i), &run, to.offset(i as isize * apart));
                        }
                    }
                }
            }
        }
    }

    /// Copies what some lanes of a block of outputs see of the image, with zeros outside it.
    ///
    /// # Safety
    /// As for [`block`](GroupedFewChannels::block).
    #[inline(always)]
    unsafe fn copy(
        &self, place: &OperandOffsets, begin: [usize; 2], outputs: [usize; 2], lane: usize, copy: *mut f32,
    ) {
        let apart = self.planes.dims[1].pitch();
        let halves = [0, 1].map(|half| self.half(lane + half * HALF));
        let padded = Padded { begin, outputs, cell: LANES, pitch: self.pitch() * LANES };
        let positions = |at: i64, count: usize, to: *mut f32| {
            for (half, number) in halves.iter().zip(0..) {
                let at = at + half.first;
                if cfg!(debug_assertions) {
                    for element in [0, half.last()] {
                        self.view.a.held.assert_holds(at + element, apart, count);
                    }
                }
                let from = self.view.a.data.cast::<f32>().wrapping_offset(at as isize);
                // SAFETY: these positions are inside the bounds, and have a place in the copy.
                unsafe { spread(half, from, apart as isize, count, to.add(number * HALF)) };
            }
        };
        for channel in 0..self.planes.channels.len() {
            let mut point = self.planes.channels.point(channel);
            point.add(place, 1);
            let to = copy.wrapping_add(channel * self.plane() * LANES);
            // SAFETY: the plane's cells inside the image are readable, and the copy has room for
            // each plane.
            unsafe { self.planes.copy_padded(self.view.a, &point, &padded, to, positions) };
        }
    }
}

impl Ready for GroupedFewChannels<'_> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        let [down, along] = self.planes.dims.each_ref().map(|dim| dim.outputs.extent);
        let images = self.view.batch.len() * self.planes.outer.len();
        let blocks = self.lanes().div_ceil(LANES);
        let products = images * down * along * self.lanes() * self.terms();
        let threads = if products < PARALLEL_THRESHOLD { 1 } else { threads };
        let each = self.terms() * LANES;
        let (places, sum) = self.sum()?;
        arena::with(self.view.batch.len() * blocks * each * size_of::<f32>(), |memory| {
            let packed = Shared(memory.cast::<f32>());
            let lane = |number| self.lane(number, 2);
            let lanes: LaneOffsets<'_> = (self.lanes(), &lane);
            // SAFETY: every lane has its taps, and every block a place.
            unsafe { pack_panels::<Single>(&self.view, lanes, &sum, LANES, packed.at(0), each) };
            let parts = [images, down.div_ceil(self.rows), along.div_ceil(self.columns), blocks];
            let scratch = self.cells() * LANES * size_of::<f32>();
            threads::run_with(threads, parts.iter().product(), scratch, &|scratch, index| {
                let (lanes, index) = (index % blocks, index / blocks);
                let (column, index) = (index % parts[2], index / parts[2]);
                let (row, image) = (index % parts[1], index / parts[1]);
                let product = image / self.planes.outer.len();
                let factors = packed.at((product * blocks + lanes) * each);
                let begin = [row * self.rows, column * self.columns];
                // SAFETY: the factors are packed, tasks write disjoint elements, and the scratch is
                // this one's.
                unsafe { self.block(&places, factors, scratch.cast(), image, begin, lanes * LANES) };
            })
        })
    }
}

/// Copies what eight lanes see of some positions, so far apart.
///
/// # Safety
/// Those elements are readable, and there is room for the lanes of as many cells.
#[cfg(target_arch = "aarch64")]
unsafe fn spread(half: &Half, from: *const f32, apart: isize, count: usize, to: *mut f32) {
    for i in 0..count {
        let (from, to) = (from.wrapping_offset(i as isize * apart), to.wrapping_add(i * LANES));
        // SAFETY: every lane has its element, and a place.
        half.at.iter().enumerate().for_each(|(l, &at)| unsafe { to.add(l).write(from.add(at).read()) });
    }
}

/// Copies what eight lanes see of some positions, so far apart.
///
/// # Safety
/// Those elements are readable, and there is room for the lanes of as many cells; the processor has
/// AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn spread(half: &Half, from: *const f32, apart: isize, count: usize, to: *mut f32) {
    // SAFETY: every cell has the elements that the masks let through; what is masked is not read,
    // and `to` has its lanes.
    unsafe {
        let vector = |list: &[i32; HALF]| _mm256_loadu_si256(list.as_ptr().cast());
        let [exist, element] = [&half.exist[0], &half.element[0]].map(vector);
        for i in 0..count {
            let from = from.wrapping_offset(i as isize * apart);
            let mut x = _mm256_permutevar8x32_ps(_mm256_maskload_ps(from, exist), element);
            for piece in 1..half.pieces {
                let from = from.wrapping_add(piece * HALF);
                let y = _mm256_maskload_ps(from, vector(&half.exist[piece]));
                let y = _mm256_permutevar8x32_ps(y, vector(&half.element[piece]));
                x = _mm256_blendv_ps(x, y, _mm256_castsi256_ps(vector(&half.here[piece])));
            }
            _mm256_storeu_ps(to.add(i * LANES), x);
        }
    }
}

/// The sums of some neighbouring outputs, in vectors of `S`, to `to` and so far apart.
///
/// # Safety
/// The instructions of `S`; all that the terms name is readable, and the sums are writable.
#[inline(always)]
unsafe fn tile<S: Simd<KGroup = f32, Acc = f32>, const Q: usize, const V: usize>(
    terms: &Terms<'_>, to: *mut f32, apart: isize,
) {
    // SAFETY: every term names readable cells, and the sums have room for a tile.
    unsafe {
        let mut acc = [[S::zero(); V]; Q];
        for (number, &place) in terms.places.iter().enumerate() {
            let from = terms.from.offset(place as isize);
            let mut v = 0;
            while v < V {
                let factor = S::load(terms.factors.add(number * LANES + v * S::L));
                let mut q = 0;
                while q < Q {
                    let x = S::load(from.add(q * terms.step + v * S::L));
                    acc[q][v] = S::fma(x, factor, acc[q][v]);
                    q += 1;
                }
                v += 1;
            }
        }
        let mut i = 0;
        while i < Q * V {
            let (q, v) = (i / V, i % V);
            S::store(to.offset(q as isize * apart).add(v * S::L), acc[q][v]);
            i += 1;
        }
    }
}

/// A tile in two halves, as the registers hold no more.
///
/// # Safety
/// As for [`tile`]; the processor has the vectors.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn tile_in_halves(terms: &Terms<'_>, to: *mut f32, apart: isize) {
    const HALF: usize = OUTPUTS / 2;
    const VECTORS: usize = LANES / Single::L;
    let behind = Terms { from: terms.from.wrapping_add(HALF * terms.step), ..*terms };
    // SAFETY: every term names readable cells, and the processor has the vectors.
    unsafe {
        tile::<Single, HALF, VECTORS>(terms, to, apart);
        tile::<Single, HALF, VECTORS>(&behind, to.offset(HALF as isize * apart), apart);
    }
}

/// # Safety
/// As for [`tile`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tile_avx512(terms: &Terms<'_>, to: *mut f32, apart: isize) {
    // SAFETY: every term names readable cells, and the processor has AVX-512.
    unsafe { tile::<Avx512Single, OUTPUTS, 1>(terms, to, apart) }
}
