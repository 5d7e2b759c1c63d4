//! The tree of a reduction, compiled: blocks of consecutive elements, and rows of one element of several outputs.

use crate::backend::cpu::Isa;
use crate::backend::function::{Fold, Real};
use crate::ops::Reduce;

const LANES: usize = Reduce::LANES;

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
    /// Joins the lanes of a block. Apart from [`lanes`](Self::lanes), or the halves of this one decide how that one is
    /// divided into vectors.
    ///
    /// # Safety
    /// None but the instructions.
    pub halves: unsafe fn(lanes: &mut [T; LANES]) -> T,
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
            (self.halves)(&mut lanes)
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
            /// The processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn halves<T: Real, F: Fold>(lanes: &mut [T; LANES]) -> T {
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
    let mut joined = [F::identity::<T>(); LANES];
    let whole = count / LANES;
    // SAFETY: inside the first `count` elements.
    let row = |i: usize| unsafe { elements.add(i * LANES).cast::<[T; LANES]>().read_unaligned() };
    let mut i = 0;
    while F::ANY_ORDER && i + 1 < whole {
        // A join that compares takes long: of two, one need not wait for the row before.
        let (left, right) = (row(i), row(i + 1));
        for j in 0..LANES {
            joined[j] = F::join(joined[j], F::join(F::map(left[j]), F::map(right[j])));
        }
        i += 2;
    }
    while i < whole {
        let row = row(i);
        for j in 0..LANES {
            joined[j] = F::join(joined[j], F::map(row[j]));
        }
        i += 1;
    }
    *lanes = joined;
    for (j, lane) in lanes.iter_mut().enumerate().take(count % LANES) {
        // SAFETY: inside the first `count` elements.
        let x = unsafe { elements.add(whole * LANES + j).read() };
        *lane = F::join(*lane, F::map(x));
    }
}

#[inline(always)]
fn halves<T: Real, F: Fold>(lanes: &mut [T; LANES]) -> T {
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
/// As for [`Kernels::add_rows`].
#[inline(always)]
unsafe fn add_rows<T: Real, F: Fold>(into: *mut T, rows: &[*const T], width: usize) {
    if let &[a, b, c, d] = rows {
        for j in 0..width {
            // SAFETY: j < width.
            unsafe {
                let join = |lane, row: *const T| F::join(lane, F::map(row.add(j).read()));
                into.add(j).write(join(join(join(join(into.add(j).read(), a), b), c), d));
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
