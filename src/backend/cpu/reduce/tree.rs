//! The tree of a reduction, compiled: blocks of consecutive elements, and rows of one element of several outputs.

use super::sequence::prefetch;
use crate::backend::cpu::Isa;
use crate::backend::function::{Fold, Real};
use crate::ops::Reduce;

const LANES: usize = Reduce::LANES;
const BLOCK: usize = Reduce::BLOCK;

/// Blocks joined at a time where elements lie side by side: memory is read at as many places, and what the lanes of
/// one block wait for is hidden by those of the others.
pub(super) const QUAD: usize = 4;

/// Rows joined to a lane at a time, so that the lane itself is read and written that much less often.
pub(super) const GROUP: usize = 4;

/// The functions of one reduction and computation type, for the instruction set of the machine.
#[derive(Clone, Copy)]
pub(super) struct Kernels<T> {
    /// The lanes of up to [`Reduce::BLOCK`] consecutive elements.
    ///
    /// # Safety
    /// They are readable.
    pub lanes: unsafe fn(lanes: &mut [T; LANES], elements: *const T, count: usize),
    /// The lanes of [`QUAD`] consecutive blocks; meanwhile asks for as many elements at `next`, any address.
    ///
    /// # Safety
    /// The blocks are readable.
    pub quad_lanes: unsafe fn(lanes: &mut [[T; LANES]; QUAD], elements: *const T, next: *const T),
    /// Joins the lanes of a block. Apart from the functions above, or the halves of this one decide how those are divided
    /// into vectors.
    ///
    /// # Safety
    /// None but the instructions.
    pub halves: unsafe fn(lanes: &[T; LANES]) -> T,
    /// `into[j] = join(into[j], map(row[j]))` for each of the rows in turn.
    ///
    /// # Safety
    /// `width` numbers are readable at all and writable at `into`, which overlaps no row.
    pub add_rows: unsafe fn(into: *mut T, rows: &[*const T], width: usize),
    /// `into[j] = join(left[j], right[j])`.
    ///
    /// # Safety
    /// `width` numbers are readable at both and writable at `into`, which may be either of them.
    pub join_rows: unsafe fn(into: *mut T, left: *const T, right: *const T, width: usize),
}

impl<T: Real> Kernels<T> {
    pub fn of<F: Fold>(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx512() {
            return avx512::kernels::<T, F>();
        } else if isa.has_avx2() {
            return avx2::kernels::<T, F>();
        }
        let _ = isa;
        Kernels {
            lanes: lanes::<T, F>,
            quad_lanes: quad_lanes::<T, F>,
            halves: halves::<T, F>,
            add_rows: add_rows::<T, F>,
            join_rows: join_rows::<T, F>,
        }
    }

    /// Joins up to [`Reduce::BLOCK`] consecutive elements.
    ///
    /// # Safety
    /// They are readable.
    pub unsafe fn block(&self, elements: *const T, count: usize) -> T {
        let mut lanes = [T::ZERO; LANES];
        // SAFETY: handed on.
        unsafe {
            (self.lanes)(&mut lanes, elements, count);
            (self.halves)(&lanes)
        }
    }

    /// The subtree of [`QUAD`] consecutive blocks; meanwhile asks for as many elements at `next`, any address.
    ///
    /// # Safety
    /// They are readable.
    pub unsafe fn quad(&self, elements: *const T, next: *const T) -> T {
        let mut lanes = [[T::ZERO; LANES]; QUAD];
        // SAFETY: handed on; a subtree of four numbers is one of two and two.
        unsafe {
            (self.quad_lanes)(&mut lanes, elements, next);
            let mut joined = lanes.each_ref().map(|lanes| (self.halves)(lanes));
            let row = joined.as_mut_ptr();
            (self.join_rows)(row, row, row.add(1), 1);
            (self.join_rows)(row.add(2), row.add(2), row.add(3), 1);
            (self.join_rows)(row, row, row.add(2), 1);
            joined[0]
        }
    }
}

/// The kernels once more, compiled for other instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($level:ident, $features:literal) => {
        mod $level {
            use super::*;

            pub(super) fn kernels<T: Real, F: Fold>() -> Kernels<T> {
                Kernels {
                    lanes: lanes::<T, F>,
                    quad_lanes: quad_lanes::<T, F>,
                    halves: halves::<T, F>,
                    add_rows: add_rows::<T, F>,
                    join_rows: join_rows::<T, F>,
                }
            }

            /// # Safety
            /// As for [`Kernels::lanes`]; the processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn lanes<T: Real, F: Fold>(lanes: &mut [T; LANES], elements: *const T, count: usize) {
                // SAFETY: handed on.
                unsafe { super::lanes::<T, F>(lanes, elements, count) }
            }

            /// # Safety
            /// As for [`Kernels::quad_lanes`]; the processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn quad_lanes<T: Real, F: Fold>(
                lanes: &mut [[T; LANES]; QUAD],
                elements: *const T,
                next: *const T,
            ) {
                // SAFETY: handed on.
                unsafe { super::quad_lanes::<T, F>(lanes, elements, next) }
            }

            /// # Safety
            /// The processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn halves<T: Real, F: Fold>(lanes: &[T; LANES]) -> T {
                super::halves::<T, F>(lanes)
            }

            /// # Safety
            /// As for [`Kernels::add_rows`]; the processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn add_rows<T: Real, F: Fold>(into: *mut T, rows: &[*const T], width: usize) {
                // SAFETY: handed on.
                unsafe { super::add_rows::<T, F>(into, rows, width) }
            }

            /// # Safety
            /// As for [`Kernels::join_rows`]; the processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn join_rows<T: Real, F: Fold>(
                into: *mut T,
                left: *const T,
                right: *const T,
                width: usize,
            ) {
                // SAFETY: handed on.
                unsafe { super::join_rows::<T, F>(into, left, right, width) }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// # Safety
/// As for [`Kernels::lanes`].
#[inline(always)]
unsafe fn lanes<T: Real, F: Fold>(lanes: &mut [T; LANES], elements: *const T, count: usize) {
    // Indexed by constants only, so that it stays in registers.
    let mut joined = [F::lane(F::identity::<T>()); LANES];
    let whole = count / LANES;
    for i in 0..whole {
        // SAFETY: inside the first `count` elements.
        let row = unsafe { elements.add(i * LANES).cast::<[T; LANES]>().read_unaligned() };
        for j in 0..LANES {
            joined[j] = F::add(joined[j], row[j]);
        }
    }
    for j in 0..LANES {
        lanes[j] = F::number(joined[j]);
    }
    for (j, lane) in lanes.iter_mut().enumerate().take(count % LANES) {
        // SAFETY: inside the first `count` elements.
        let x = unsafe { elements.add(whole * LANES + j).read() };
        *lane = F::join(*lane, F::map(x));
    }
}

/// # Safety
/// As for [`Kernels::quad_lanes`].
#[inline(always)]
unsafe fn quad_lanes<T: Real, F: Fold>(lanes: &mut [[T; LANES]; QUAD], elements: *const T, next: *const T) {
    let mut joined = [[F::lane(F::identity::<T>()); LANES]; QUAD];
    for i in 0..BLOCK / LANES {
        for (k, joined) in joined.iter_mut().enumerate() {
            let at = k * BLOCK + i * LANES;
            prefetch(next.wrapping_add(at).cast(), LANES * size_of::<T>());
            // SAFETY: inside one of the blocks.
            let row = unsafe { elements.add(at).cast::<[T; LANES]>().read_unaligned() };
            for j in 0..LANES {
                joined[j] = F::add(joined[j], row[j]);
            }
        }
    }
    for (lanes, joined) in lanes.iter_mut().zip(&joined) {
        for j in 0..LANES {
            lanes[j] = F::number(joined[j]);
        }
    }
}

#[inline(always)]
fn halves<T: Real, F: Fold>(lanes: &[T; LANES]) -> T {
    let mut lanes = lanes.map(F::lane);
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            lanes[j] = F::unite::<T>(lanes[j], lanes[j + width]);
        }
    }
    F::number(lanes[0])
}

/// # Safety
/// As for [`Kernels::add_rows`].
#[inline(always)]
unsafe fn add_rows<T: Real, F: Fold>(into: *mut T, rows: &[*const T], width: usize) {
    if let &[a, b, c, d] = rows {
        for j in 0..width {
            // SAFETY: j < width.
            unsafe {
                let lane = F::lane(into.add(j).read());
                let add = |lane, row: *const T| F::add(lane, row.add(j).read());
                into.add(j).write(F::number(add(add(add(add(lane, a), b), c), d)));
            }
        }
        return;
    }
    for row in rows {
        for j in 0..width {
            // SAFETY: j < width.
            unsafe { into.add(j).write(F::join(into.add(j).read(), F::map(row.add(j).read()))) };
        }
    }
}

/// # Safety
/// As for [`Kernels::join_rows`].
#[inline(always)]
unsafe fn join_rows<T: Real, F: Fold>(into: *mut T, left: *const T, right: *const T, width: usize) {
    for j in 0..width {
        // SAFETY: j < width.
        unsafe { into.add(j).write(F::join(left.add(j).read(), right.add(j).read())) };
    }
}

/// Subtrees waiting for a partner, more than there can be: a subtree of `2^k` blocks at place `k` at most.
const DEPTH: usize = 56;

/// Joins subtrees of equal size as they come, one row of numbers (one per output) each.
pub(super) struct Subtrees<T> {
    rows: Vec<T>,
    width: usize,
    waiting: usize,
    count: u64,
}

impl<T: Real> Subtrees<T> {
    pub fn new(width: usize) -> Self {
        Subtrees { rows: vec![T::ZERO; DEPTH * width], width, waiting: 0, count: 0 }
    }

    /// Makes ready for another tree.
    pub fn clear(&mut self) {
        (self.waiting, self.count) = (0, 0);
    }

    /// Adds a subtree of so many leaves, a power of two that divides the number of those added before; a smaller one may
    /// count as one of them if it is the last.
    pub fn push(&mut self, subtree: &[T], leaves: u64, kernels: &Kernels<T>) {
        let width = self.width;
        self.rows[self.waiting * width..][..width].copy_from_slice(&subtree[..width]);
        self.waiting += 1;
        for _ in 0..(self.count / leaves).trailing_ones() {
            self.join_last(kernels);
        }
        self.count += leaves;
    }

    /// The root. Pre: at least one subtree was added.
    pub fn root(&mut self, kernels: &Kernels<T>) -> &[T] {
        while self.waiting > 1 {
            self.join_last(kernels);
        }
        &self.rows[..self.width]
    }

    fn join_last(&mut self, kernels: &Kernels<T>) {
        let at = (self.waiting - 2) * self.width;
        let (left, right) = self.rows[at..].split_at_mut(self.width);
        let left = left.as_mut_ptr();
        // SAFETY: two rows of that width beside each other.
        unsafe { (kernels.join_rows)(left, left, right.as_ptr(), self.width) };
        self.waiting -= 1;
    }
}

/// The lanes of a block of rows.
pub(super) struct Lanes<T> {
    rows: Vec<T>,
    width: usize,
    used: usize,
}

impl<T: Real> Lanes<T> {
    pub fn new(width: usize) -> Self {
        Lanes { rows: vec![T::ZERO; LANES * width], width, used: 0 }
    }

    /// Makes ready for another block, of `rows` rows: every lane that one is joined to becomes the identity.
    pub fn clear<F: Fold>(&mut self, rows: usize) {
        self.used = rows.min(LANES);
        self.rows[..self.used * self.width].fill(F::identity());
    }

    /// The lanes that rows are joined to: row `i` of the block to lane `i % LANES`.
    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.rows.chunks_exact_mut(self.width).take(self.used)
    }

    /// Joins the lanes. Lanes that were not used would be the identity, which changes nothing.
    pub fn joined(&mut self, kernels: &Kernels<T>) -> &[T] {
        let mut half = LANES;
        while half > 1 {
            half /= 2;
            for j in half..self.used {
                let (left, right) = self.rows.split_at_mut(j * self.width);
                let left = left[(j - half) * self.width..].as_mut_ptr();
                // SAFETY: two rows of that width, the left one before the right one.
                unsafe { (kernels.join_rows)(left, left, right.as_ptr(), self.width) };
            }
            self.used = self.used.min(half);
        }
        &self.rows[..self.width]
    }
}
