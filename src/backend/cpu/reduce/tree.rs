//! The tree of a reduction, compiled: blocks of consecutive elements, and rows of one element of several outputs.

use crate::backend::cpu::Isa;
use crate::backend::function::{Fold, Real};
use crate::ops::Reduce;

const LANES: usize = Reduce::LANES;

/// The functions of one reduction and computation type, for the instruction set of the machine.
#[derive(Clone, Copy)]
pub(super) struct Kernels<T> {
    /// Joins up to [`Reduce::BLOCK`] consecutive elements.
    ///
    /// # Safety
    /// They are readable.
    pub block: unsafe fn(elements: *const T, count: usize) -> T,
    /// `into[j] = join(into[j], map(elements[j]))`.
    ///
    /// # Safety
    /// `width` numbers are readable at both and writable at `into`, without overlap.
    pub add_row: unsafe fn(into: *mut T, elements: *const T, width: usize),
    /// `into[j] = join(left[j], right[j])`.
    ///
    /// # Safety
    /// `width` numbers are readable at both and writable at `into`, which may be either of them.
    pub join_rows: unsafe fn(into: *mut T, left: *const T, right: *const T, width: usize),
}

impl<T: Real> Kernels<T> {
    pub fn of<F: Fold>(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx2() {
            return Kernels {
                block: avx2::block::<T, F>,
                add_row: avx2::add_row::<T, F>,
                join_rows: avx2::join_rows::<T, F>,
            };
        }
        let _ = isa;
        Kernels { block: block::<T, F>, add_row: add_row::<T, F>, join_rows: join_rows::<T, F> }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;

    /// # Safety
    /// As for [`Kernels::block`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn block<T: Real, F: Fold>(elements: *const T, count: usize) -> T {
        // SAFETY: handed on.
        unsafe { super::block::<T, F>(elements, count) }
    }

    /// # Safety
    /// As for [`Kernels::add_row`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn add_row<T: Real, F: Fold>(into: *mut T, elements: *const T, width: usize) {
        // SAFETY: handed on.
        unsafe { super::add_row::<T, F>(into, elements, width) }
    }

    /// # Safety
    /// As for [`Kernels::join_rows`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn join_rows<T: Real, F: Fold>(
        into: *mut T,
        left: *const T,
        right: *const T,
        width: usize,
    ) {
        // SAFETY: handed on.
        unsafe { super::join_rows::<T, F>(into, left, right, width) }
    }
}

/// # Safety
/// As for [`Kernels::block`].
#[inline(always)]
unsafe fn block<T: Real, F: Fold>(elements: *const T, count: usize) -> T {
    let mut lanes = [F::identity::<T>(); LANES];
    let whole = count / LANES;
    for i in 0..whole {
        // SAFETY: inside the first `count` elements.
        let row = unsafe { elements.add(i * LANES).cast::<[T; LANES]>().read_unaligned() };
        for j in 0..LANES {
            lanes[j] = F::join(lanes[j], F::map(row[j]));
        }
    }
    for (j, lane) in lanes.iter_mut().enumerate().take(count % LANES) {
        // SAFETY: inside the first `count` elements.
        let x = unsafe { elements.add(whole * LANES + j).read() };
        *lane = F::join(*lane, F::map(x));
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for j in 0..width {
            lanes[j] = F::join(lanes[j], lanes[j + width]);
        }
    }
    lanes[0]
}

/// # Safety
/// As for [`Kernels::add_row`].
#[inline(always)]
unsafe fn add_row<T: Real, F: Fold>(into: *mut T, elements: *const T, width: usize) {
    for j in 0..width {
        // SAFETY: j < width.
        unsafe { into.add(j).write(F::join(into.add(j).read(), F::map(elements.add(j).read()))) };
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

    /// Adds a subtree; a smaller one may only be the last.
    pub fn push(&mut self, subtree: &[T], kernels: &Kernels<T>) {
        let width = self.width;
        self.rows[self.waiting * width..][..width].copy_from_slice(&subtree[..width]);
        self.waiting += 1;
        for _ in 0..self.count.trailing_ones() {
            self.join_last(kernels);
        }
        self.count += 1;
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

    /// Where row `i` of the block is joined to; its lane starts as the identity.
    pub fn lane<F: Fold>(&mut self, i: usize) -> *mut T {
        let lane = &mut self.rows[i % LANES * self.width..][..self.width];
        if i < LANES {
            lane.fill(F::identity());
            self.used = i + 1;
        }
        lane.as_mut_ptr()
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
