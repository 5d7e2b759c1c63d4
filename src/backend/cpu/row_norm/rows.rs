//! What normalisations of rows and their gradients share: the tree of sums, and operands in the
//! computation type.

use cudnn_shim_macros::vectorized;

use crate::backend::Address;
use crate::backend::cpu::{Isa, row};
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::layout::LoopNest;
use crate::ops::{Reduce, Scaling};

pub(super) const LANES: usize = Reduce::LANES;
pub(super) const BLOCK: usize = Reduce::BLOCK;

/// Subtrees that wait for a partner at most, of rows of any length.
const DEPTH: usize = 56;

/// Elements computed at a time: they are read before the first result is written, which may lie in
/// their place. Of fewer the compiler unrolls all, and finds no vectors.
pub(super) const TOGETHER: usize = 32;

/// The sum of lanes, joined in halves.
///
/// # Safety
/// [`LANES`] of them are readable and writable.
#[vectorized]
pub(super) unsafe fn join<T: Real>(lanes: *mut T) -> T {
    // SAFETY: all lanes.
    let mut sums = unsafe { lanes.cast::<[T; LANES]>().read() };
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for j in 0..half {
            sums[j] = sums[j] + sums[j + half];
        }
    }
    sums[0]
}

/// The roots of trees over the blocks of a row.
pub(super) fn tree<T: Real, const N: usize>(length: usize, block: impl Fn(usize, usize) -> [T; N]) -> [T; N] {
    let mut waiting = [[T::ZERO; N]; DEPTH];
    let mut count = 0;
    let unite = |waiting: &mut [[T; N]; DEPTH], last: usize| {
        let from = waiting[last];
        waiting[last - 1].iter_mut().zip(from).for_each(|(sum, other)| *sum = *sum + other);
    };
    for (number, first) in (0..length).step_by(BLOCK).enumerate() {
        waiting[count] = block(first, BLOCK.min(length - first));
        count += 1;
        for _ in 0..number.trailing_ones() {
            count -= 1;
            unite(&mut waiting, count);
        }
    }
    while count > 1 {
        count -= 1;
        unite(&mut waiting, count);
    }
    waiting[0]
}

/// An operand that is read, in the computation type: where it is, or converted.
#[derive(Clone, Copy)]
pub(super) struct Source {
    at: Address,
    pub cell: usize,
    pub is_real: bool,
    widen: row::Row,
}

impl Source {
    /// An operand of this type, for computations in `T`.
    pub fn new<T: Real>(at: Address, scalar: Scalar, isa: Isa) -> Self {
        let widen = row::between(scalar, T::SCALAR, Scaling::MOVE, isa);
        Source { at, cell: scalar.size(), is_real: scalar == T::SCALAR, widen }
    }

    /// `count` numbers from `offset` on, side by side: where they are, or in `room`.
    ///
    /// # Safety
    /// They are readable; there is room for them unless they are of the type `T`.
    pub unsafe fn numbers<T>(&self, offset: i64, count: usize, room: *mut T) -> *const T {
        let from = self.at.pointer().wrapping_offset(offset as isize * self.cell as isize);
        if self.is_real {
            return from.cast();
        }
        // SAFETY: `count` cells are readable, and there is room for as many numbers.
        unsafe { (self.widen)(room.cast(), from, count, Scaling::MOVE) };
        room
    }

    /// One number.
    ///
    /// # Safety
    /// It is readable.
    pub unsafe fn number<T: Real>(&self, offset: i64) -> T {
        let mut room = T::ZERO;
        // SAFETY: it is readable, and there is room for it.
        unsafe { self.numbers(offset, 1, &raw mut room).read() }
    }
}

/// An operand that is written.
#[derive(Clone, Copy)]
pub(super) struct Sink {
    at: Address,
    pub cell: usize,
    pub is_real: bool,
    pub store: row::Row,
}

impl Sink {
    /// An operand of this type, of what is computed in `T`.
    pub fn new<T: Real>(at: Address, scalar: Scalar, isa: Isa) -> Self {
        let store = row::between(T::SCALAR, scalar, Scaling::MOVE, isa);
        Sink { at, cell: scalar.size(), is_real: scalar == T::SCALAR, store }
    }

    /// Where it is `offset` scalars from its address on.
    pub fn place(&self, offset: i64) -> *mut u8 {
        self.at.pointer().wrapping_offset(offset as isize * self.cell as isize)
    }

    /// Writes `count` numbers side by side.
    ///
    /// # Safety
    /// They are readable, and there is a place for each.
    pub unsafe fn write<T>(&self, offset: i64, numbers: *const T, count: usize) {
        // SAFETY: as many are readable, and as many cells writable.
        unsafe { (self.store)(self.place(offset), numbers.cast(), count, Scaling::MOVE) }
    }
}

/// Where the operands of a row begin.
pub(super) fn place(nest: &LoopNest<6>, number: usize) -> [i64; 6] {
    let (mut at, mut rest) = (nest.offsets, number as i64);
    for axis in nest.axes().iter().rev() {
        let turn = rest % axis.extent;
        rest /= axis.extent;
        at.iter_mut().zip(axis.strides).for_each(|(at, stride)| *at += turn * stride);
    }
    at
}
