//! The obvious loop of ReduceTensor: one output after the other, each by the tree that [`Reduce`]
//! describes. The function that joins two elements is that of the kernels; `tests/basics/formulas`
//! holds it to a witness that shares nothing with either.

use super::{Kind, pointers};
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Fold, Real, finish, is_selected, with_fold, with_real};
use crate::error::Result;
use crate::ops::{Indices, NanRule, Reduce};

/// Runs `problem` in exactly the order of its outputs.
///
/// # Safety
/// Every output at `dst` is writable, and readable if `beta != 0`; every element of every output's
/// sequence is readable at `src`; `indices` holds as many indices as outputs if the problem writes
/// some. All are aligned to their scalars, but indices need not be.
pub unsafe fn reduce(problem: &Reduce, dst: *mut u8, src: *const u8, indices: *mut u8) {
    with_real!(problem.compute, T => with_fold!(problem.reduction, F => {
        // SAFETY: every output, the elements of its sequence and its index, if one is written, are
        // there.
        unsafe { run::<T, F>(problem, dst, src, indices) }
    }));
}

/// # Safety
/// As for [`reduce`].
unsafe fn run<T: Real, F: Fold>(problem: &Reduce, dst: *mut u8, src: *const u8, indices: *mut u8) {
    problem.outputs.for_each(|[c, a, place]| {
        let each = |f: &mut dyn FnMut(T, i64)| {
            for piece in problem.sequence.pieces() {
                piece.for_each(|[offset, index]| {
                    // SAFETY: every element of an output's sequence is readable.
                    let x = unsafe { load::<T>(problem.src, src, a + offset) };
                    f(F::map(x), index);
                });
            }
        };
        let mut tree = Tree::<T, F>::new();
        each(&mut |x, _| tree.add(x));
        let joined = tree.joined();
        if let Some(width) = problem.indices {
            let mut first = i64::MAX;
            each(&mut |x, index| {
                if is_selected(x, joined) {
                    first = first.min(index);
                }
            });
            // SAFETY: `indices` holds an index for every output.
            unsafe { store_index(indices, width, place, first) };
        }
        let result = finish(problem.reduction, joined, problem.sequence.len());
        // SAFETY: every output is writable, and readable if `beta != 0`.
        unsafe { store(problem.dst, dst, c, result, problem.scaling) };
    });
}

/// Stores the index of the output at `place`.
///
/// # Safety
/// `indices` holds more than `place` indices.
pub(in crate::backend) unsafe fn store_index(indices: *mut u8, width: Indices, place: i64, index: i64) {
    let bytes = index.to_le_bytes();
    // SAFETY: `indices` has room for this one; the low bytes of a little-endian number are the
    // shorter number.
    unsafe {
        indices.add(place as usize * width.size()).copy_from_nonoverlapping(bytes.as_ptr(), width.size())
    };
}

/// The tree, element by element: lanes of the present block, and finished subtrees of 1, 2, 4, ...
/// blocks.
pub(super) struct Tree<T, F> {
    lanes: [T; Reduce::LANES],
    in_block: usize,
    blocks: u64,
    subtrees: Vec<T>,
    fold: std::marker::PhantomData<F>,
}

impl<T: Real, F: Fold> Tree<T, F> {
    pub fn new() -> Self {
        Tree {
            lanes: [F::identity(); Reduce::LANES],
            in_block: 0,
            blocks: 0,
            subtrees: Vec::new(),
            fold: std::marker::PhantomData,
        }
    }

    pub fn add(&mut self, x: T) {
        let lane = &mut self.lanes[self.in_block % Reduce::LANES];
        *lane = F::join(*lane, x);
        self.in_block += 1;
        if self.in_block == Reduce::BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let mut width = Reduce::LANES;
        while width > 1 {
            width /= 2;
            for j in 0..width {
                self.lanes[j] = F::join(self.lanes[j], self.lanes[j + width]);
            }
        }
        let mut subtree = self.lanes[0];
        // Every trailing one of the count is a finished subtree to the left of the same size.
        for _ in 0..self.blocks.trailing_ones() {
            let left = self.subtrees.pop().expect("one subtree per one of the count");
            subtree = F::join(left, subtree);
        }
        self.subtrees.push(subtree);
        self.blocks += 1;
        (self.lanes, self.in_block) = ([F::identity(); Reduce::LANES], 0);
    }

    pub fn joined(mut self) -> T {
        if self.in_block > 0 {
            self.end_block();
        }
        let last = self.subtrees.pop().unwrap_or(F::identity());
        self.subtrees.iter().rev().fold(last, |right, &left| F::join(left, right))
    }
}

impl Kind for Reduce {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        let [dst, indices, src] = pointers(at);
        // SAFETY: the operands are those of the step.
        unsafe { reduce(self, dst, src, indices) };
        Ok(())
    }
}
