//! The tree of a reduction, compiled: blocks of consecutive elements, and rows of one element of
//! several outputs.

use std::hint::black_box;

use crate::backend::cpu::Isa;
use crate::backend::cpu::stream::fetch_run;
use crate::backend::function::{Fold, Real};
use crate::ops::Reduce;

const LANES: usize = Reduce::LANES;
const BLOCK: usize = Reduce::BLOCK;

/// Blocks joined in one call at most: between two calls nothing is read.
pub(super) const MOST_BLOCKS: usize = 64;

/// Lanes that [`Kernels::blocks`] needs room for.
pub(super) const ROOM: usize = MOST_BLOCKS * LANES;

/// Blocks between the one that is joined and the one that memory is asked for meanwhile: it takes
/// that long to answer.
const BLOCKS_AHEAD: usize = 4;

/// Blocks whose lanes are joined at a time.
const FOUR: usize = 4;

/// Rows joined to a lane at a time, so that the lane itself is read and written that much less
/// often.
pub(super) const GROUP: usize = 4;

/// The lanes of a block.
type Block<T, F> = [<F as Fold>::Lane<T>; LANES];

/// The functions of one reduction and computation type `T`, for the instruction set of the machine.
/// They join to what is fastest to join, `L`: see [`Fold::Lane`].
#[derive(Clone, Copy)]
pub(super) struct Kernels<T, L> {
    /// Joins up to [`Reduce::BLOCK`] consecutive elements.
    ///
    /// # Safety
    /// They are readable.
    pub block: unsafe fn(elements: *const T, count: usize) -> L,
    /// The subtree of `count` blocks of consecutive elements, a power of two up to [`MOST_BLOCKS`].
    /// Meanwhile asks for what is read soon after them, at `next`, any address.
    ///
    /// # Safety
    /// The elements are readable, and there is `room` for the lanes of `count` blocks.
    pub blocks: unsafe fn(elements: *const T, count: usize, next: *const T, room: *mut L) -> L,
    /// `lanes[j] = add(lanes[j], row[j])` for each of the rows in turn. Meanwhile asks for the rows
    /// at `soon`, any addresses.
    ///
    /// # Safety
    /// There are `width` numbers in each row, and as many lanes, which overlap no row.
    pub add_rows: unsafe fn(lanes: *mut L, rows: &[*const T], soon: &[*const T; GROUP], width: usize),
    /// `into[j] = unite(into[j], from[j])`.
    ///
    /// # Safety
    /// There are `width` at either, which do not overlap.
    pub join_rows: unsafe fn(into: *mut L, from: *const L, width: usize),
}

impl<T: Real, L> Kernels<T, L> {
    pub fn of<F: Fold<Lane<T> = L>>(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx512() {
            return avx512::kernels::<T, F>();
        } else if isa.has_avx2() {
            return avx2::kernels::<T, F>();
        }
        let _ = isa;
        portable::kernels::<T, F>()
    }
}

/// The kernels, compiled for some instructions. All functions need a processor that has them.
macro_rules! compiled_for {
    ($level:ident $(, $features:literal)?) => {
        mod $level {
            use super::*;

            pub(super) fn kernels<T: Real, F: Fold>() -> Kernels<T, F::Lane<T>> {
                Kernels {
                    block: block::<T, F>,
                    blocks: blocks::<T, F>,
                    add_rows: add_rows::<T, F>,
                    join_rows: join_rows::<T, F>,
                }
            }

            /// # Safety
            /// As for [`Kernels::block`].
            $(#[target_feature(enable = $features)])?
            unsafe fn block<T: Real, F: Fold>(elements: *const T, count: usize) -> F::Lane<T> {
                let mut lanes = [[F::lane(F::identity::<T>()); LANES]];
                // SAFETY: `count` elements are readable.
                unsafe {
                    block_lanes::<T, F>(&mut lanes[0], elements, count);
                    join_lanes::<T, F, 1>(&mut lanes);
                }
                lanes[0][0]
            }

            /// # Safety
            /// As for [`Kernels::blocks`].
            $(#[target_feature(enable = $features)])?
            unsafe fn blocks<T: Real, F: Fold>(
                elements: *const T,
                count: usize,
                next: *const T,
                room: *mut F::Lane<T>,
            ) -> F::Lane<T> {
                let first = room.cast::<Block<T, F>>();
                // SAFETY: `count` blocks of elements are readable, and there is room for their
                // lanes.
                let blocks = unsafe {
                    blocks_lanes::<T, F>(first, elements, count, next);
                    std::slice::from_raw_parts_mut(first, count)
                };
                let (fours, others) = blocks.as_chunks_mut();
                // SAFETY: the instructions are those of this function.
                unsafe {
                    fours.iter_mut().for_each(|four| join_lanes::<T, F, FOUR>(four));
                    others.iter_mut().for_each(|block| join_lanes::<T, F, 1>(std::array::from_mut(block)));
                }
                super::join_blocks::<T, F>(blocks)
            }

            // Apart from each other, or how lanes are joined decides how they are divided into
            // vectors.

            /// # Safety
            /// As for [`Kernels::block`].
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            unsafe fn block_lanes<T: Real, F: Fold>(lanes: &mut Block<T, F>, elements: *const T, count: usize) {
                // SAFETY: `count` elements are readable.
                unsafe { super::block_lanes::<T, F>(lanes, elements, count) }
            }

            /// # Safety
            /// As for [`Kernels::blocks`]; the lanes of `count` blocks are writable.
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            unsafe fn blocks_lanes<T: Real, F: Fold>(
                lanes: *mut Block<T, F>,
                elements: *const T,
                count: usize,
                next: *const T,
            ) {
                // SAFETY: the elements of `count` blocks are readable, and their lanes writable.
                unsafe { super::blocks_lanes::<T, F>(lanes, elements, count, next) }
            }

            /// Joins the lanes of each block to its first.
            ///
            /// # Safety
            /// None but the instructions.
            $(#[target_feature(enable = $features)])?
            unsafe fn join_lanes<T: Real, F: Fold, const N: usize>(blocks: &mut [Block<T, F>; N]) {
                // SAFETY: the same instructions.
                unsafe {
                    join_half::<T, F, N, 16>(blocks);
                    join_half::<T, F, N, 8>(blocks);
                    join_half::<T, F, N, 4>(blocks);
                    join_half::<T, F, N, 2>(blocks);
                    join_half::<T, F, N, 1>(blocks);
                }
            }

            /// # Safety
            /// None but the instructions.
            $(#[target_feature(enable = $features)])?
            #[inline(never)]
            unsafe fn join_half<T: Real, F: Fold, const N: usize, const WIDTH: usize>(
                blocks: &mut [Block<T, F>; N],
            ) {
                super::join_half::<T, F, N, WIDTH>(blocks);
            }

            /// # Safety
            /// As for [`Kernels::add_rows`].
            $(#[target_feature(enable = $features)])?
            unsafe fn add_rows<T: Real, F: Fold>(
                lanes: *mut F::Lane<T>,
                rows: &[*const T],
                soon: &[*const T; GROUP],
                width: usize,
            ) {
                // SAFETY: every row has `width` numbers, and there are as many lanes.
                unsafe { super::add_rows::<T, F>(lanes, rows, soon, width) }
            }

            /// # Safety
            /// As for [`Kernels::join_rows`].
            $(#[target_feature(enable = $features)])?
            unsafe fn join_rows<T: Real, F: Fold>(into: *mut F::Lane<T>, from: *const F::Lane<T>, width: usize) {
                // SAFETY: `width` lanes are at either place, which do not overlap.
                unsafe { super::join_rows::<T, F>(into, from, width) }
            }
        }
    };
}
compiled_for!(portable);
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// # Safety
/// As for [`Kernels::block`].
#[inline(always)]
unsafe fn block_lanes<T: Real, F: Fold>(lanes: &mut Block<T, F>, elements: *const T, count: usize) {
    // Indexed by constants only, so that it stays in registers.
    let mut joined = *lanes;
    let whole = count / LANES;
    for i in 0..whole {
        // SAFETY: inside the first `count` elements.
        let row = unsafe { elements.add(i * LANES).cast::<[T; LANES]>().read_unaligned() };
        for j in 0..LANES {
            joined[j] = F::add(joined[j], row[j]);
        }
    }
    *lanes = joined;
    for (j, lane) in lanes.iter_mut().enumerate().take(count % LANES) {
        // SAFETY: inside the first `count` elements.
        *lane = F::add(*lane, unsafe { elements.add(whole * LANES + j).read() });
    }
}

/// # Safety
/// As for [`Kernels::blocks`]; the lanes of `count` blocks are writable.
#[inline(always)]
unsafe fn blocks_lanes<T: Real, F: Fold>(
    lanes: *mut Block<T, F>, elements: *const T, count: usize, next: *const T,
) {
    let ahead = BLOCKS_AHEAD.min(count);
    for k in 0..count {
        let block = elements.wrapping_add(k * BLOCK);
        let soon = match count - k {
            left if left > ahead => block.wrapping_add(ahead * BLOCK),
            left => next.wrapping_add((ahead - left) * BLOCK),
        };
        let mut joined = [F::lane(F::identity::<T>()); LANES];
        // Were the length known, short loops would be laid out whole, and every instruction would
        // read one place of many blocks: the processor foresees what an instruction reads from what
        // it read before.
        for i in (0..black_box(BLOCK)).step_by(LANES) {
            fetch_run(soon.wrapping_add(i).cast(), LANES * size_of::<T>());
            // SAFETY: inside the block.
            let row = unsafe { block.add(i).cast::<[T; LANES]>().read_unaligned() };
            for j in 0..LANES {
                joined[j] = F::add(joined[j], row[j]);
            }
        }
        // SAFETY: the place of this block's lanes.
        unsafe { lanes.add(k).write(joined) };
    }
}

/// Joins the lanes from `WIDTH` to twice that to the first ones, in each block.
#[inline(always)]
fn join_half<T: Real, F: Fold, const N: usize, const WIDTH: usize>(blocks: &mut [Block<T, F>; N]) {
    const { assert!(2 * WIDTH <= LANES) };
    for lanes in blocks {
        for j in 0..WIDTH {
            lanes[j] = F::unite::<T>(lanes[j], lanes[j + WIDTH]);
        }
    }
}

/// Joins blocks, each of which is its first lane: a power of two of them.
#[inline(always)]
fn join_blocks<T: Real, F: Fold>(blocks: &mut [Block<T, F>]) -> F::Lane<T> {
    let mut width = 1;
    while width < blocks.len() {
        for k in (0..blocks.len()).step_by(2 * width) {
            blocks[k][0] = F::unite::<T>(blocks[k][0], blocks[k + width][0]);
        }
        width *= 2;
    }
    blocks[0][0]
}

/// Numbers of a row at a time: a few vectors.
const TILE: usize = 32;

/// # Safety
/// As for [`Kernels::add_rows`].
#[inline(always)]
unsafe fn add_rows<T: Real, F: Fold>(
    lanes: *mut F::Lane<T>, rows: &[*const T], soon: &[*const T; GROUP], width: usize,
) {
    let mut done = 0;
    if let &[a, b, c, d] = rows {
        while done + TILE <= width {
            for row in soon {
                fetch_run(row.wrapping_add(done).cast(), TILE * size_of::<T>());
            }
            // SAFETY: a piece of the lanes, and of each row.
            unsafe {
                let place = lanes.add(done).cast::<[F::Lane<T>; TILE]>();
                let mut piece = place.read();
                for row in [a, b, c, d] {
                    let row = row.add(done).cast::<[T; TILE]>().read_unaligned();
                    for j in 0..TILE {
                        piece[j] = F::add(piece[j], row[j]);
                    }
                }
                place.write(piece);
            }
            done += TILE;
        }
    }
    for row in rows {
        for j in done..width {
            // SAFETY: j < width.
            unsafe { lanes.add(j).write(F::add(lanes.add(j).read(), row.add(j).read())) };
        }
    }
}

/// # Safety
/// As for [`Kernels::join_rows`].
#[inline(always)]
unsafe fn join_rows<T: Real, F: Fold>(into: *mut F::Lane<T>, from: *const F::Lane<T>, width: usize) {
    for j in 0..width {
        // SAFETY: j < width.
        unsafe { into.add(j).write(F::unite::<T>(into.add(j).read(), from.add(j).read())) };
    }
}

/// Subtrees waiting for a partner, more than there can be: a subtree of `2^k` blocks at place `k`
/// at most.
pub(super) const DEPTH: usize = 56;

/// How many of `blocks` blocks wait at most: one for each bit of the number of those before the
/// last one, and that one.
pub(super) fn depth(blocks: usize) -> usize {
    blocks.saturating_sub(1).checked_ilog2().map_or(1, |log| log as usize + 2)
}

/// Joins subtrees of equal size as they come, a row of them (one per output) each.
pub(super) struct Subtrees<'a, L> {
    rows: &'a mut [L],
    width: usize,
    waiting: usize,
    count: u64,
}

impl<'a, L: Copy> Subtrees<'a, L> {
    /// For `width` outputs, in [`depth`] rows of as many, or [`DEPTH`] for any number of blocks,
    /// whatever they hold.
    pub fn new(rows: &'a mut [L], width: usize) -> Self {
        Subtrees { rows, width, waiting: 0, count: 0 }
    }

    /// Makes ready for another tree.
    pub fn clear(&mut self) {
        (self.waiting, self.count) = (0, 0);
    }

    /// Adds a subtree of `leaves` leaves, a power of two that divides the number of those added
    /// before; a smaller one may count as one of them if it is the last.
    pub fn push<T>(&mut self, subtree: &[L], leaves: u64, kernels: &Kernels<T, L>) {
        let width = self.width;
        self.rows[self.waiting * width..][..width].copy_from_slice(&subtree[..width]);
        self.waiting += 1;
        for _ in 0..(self.count / leaves).trailing_ones() {
            self.join_last(kernels);
        }
        self.count += leaves;
    }

    /// The root. Pre: at least one subtree was added.
    pub fn root<T>(&mut self, kernels: &Kernels<T, L>) -> &[L] {
        while self.waiting > 1 {
            self.join_last(kernels);
        }
        &self.rows[..self.width]
    }

    fn join_last<T>(&mut self, kernels: &Kernels<T, L>) {
        let at = (self.waiting - 2) * self.width;
        let (left, right) = self.rows[at..].split_at_mut(self.width);
        // SAFETY: two rows of that width beside each other.
        unsafe { (kernels.join_rows)(left.as_mut_ptr(), right.as_ptr(), self.width) };
        self.waiting -= 1;
    }
}

/// The lanes of a block of rows.
pub(super) struct Lanes<'a, L> {
    rows: &'a mut [L],
    width: usize,
    used: usize,
    identity: L,
}

impl<'a, L: Copy> Lanes<'a, L> {
    /// In [`Reduce::LANES`] rows of `width`, or as many as a block has if those are fewer.
    pub fn new(rows: &'a mut [L], identity: L, width: usize) -> Self {
        Lanes { rows, width, used: 0, identity }
    }

    /// Makes ready for another block, of `rows` rows: every lane that one is joined to becomes the
    /// identity.
    pub fn clear(&mut self, rows: usize) {
        self.used = rows.min(LANES);
        self.rows[..self.used * self.width].fill(self.identity);
    }

    /// The lanes that rows are joined to, those of `together` rows at a time: row `i` of the block
    /// to lane `i % LANES`.
    pub fn parts_mut(&mut self, together: usize) -> impl Iterator<Item = &mut [L]> {
        self.rows[..self.used * self.width].chunks_mut(together * self.width)
    }

    /// Joins the lanes. Lanes that were not used would be the identity, which changes nothing.
    pub fn joined<T>(&mut self, kernels: &Kernels<T, L>) -> &[L] {
        let mut half = LANES;
        while half > 1 {
            half /= 2;
            for j in half..self.used {
                let (left, right) = self.rows.split_at_mut(j * self.width);
                let left = left[(j - half) * self.width..].as_mut_ptr();
                // SAFETY: two rows of that width, the left one before the right one.
                unsafe { (kernels.join_rows)(left, right.as_ptr(), self.width) };
            }
            self.used = self.used.min(half);
        }
        &self.rows[..self.width]
    }
}
