//! Chunks of positions: where their taps are, and how numbers come from and go to memory.

use crate::backend::Address;
use crate::backend::cpu::Machine;
use crate::backend::cpu::row::{self, Row};
use crate::backend::cpu::strided::copy_strided;
use crate::backend::function::Real;
use crate::dtype::Scalar;
use crate::dtype::numbers::Math;
use crate::ops::Scaling;
use crate::ops::sample::{LANES, Sample};

/// Positions of a chunk: one for each lane.
pub const CHUNK: usize = LANES;

/// Numbers that lie side by side.
pub struct Numbers {
    pub base: Address,
    /// Bytes of one.
    pub cell: usize,
    /// To the computation type.
    pub widen: Row,
}

impl Numbers {
    /// Reads `n` numbers from number `first` on.
    ///
    /// # Safety
    /// They are readable, and there is room for them at `to`.
    pub unsafe fn read<T>(&self, first: i64, n: usize, to: *mut T) {
        let from = self.base.pointer().wrapping_offset(first as isize * self.cell as isize);
        // SAFETY: `n` cells are readable, and `to` has room for as many numbers.
        unsafe { (self.widen)(to.cast(), from, n, Scaling::MOVE) };
    }
}

/// The taps of some positions.
pub struct Chunk<T> {
    /// Offset of the first of the four taps from the start of a channel, whether it is inside or
    /// not.
    pub first: [i64; CHUNK],
    /// Its row and column.
    pub corner: [[i64; 2]; CHUNK],
    /// A bit for each of the four taps, row by row.
    pub inside: [u8; CHUNK],
    /// Weights of both rows, and of both columns.
    pub down: [[T; 2]; CHUNK],
    pub across: [[T; 2]; CHUNK],
    /// Weights of the four taps, row by row.
    pub weights: [[T; 4]; CHUNK],
    /// From row to row and from column to column.
    pub steps: [i64; 2],
    /// Two numbers for each position, or others.
    pub pairs: [T; 2 * CHUNK],
}

impl<T: Real> Chunk<T> {
    /// A chunk in scratch.
    ///
    /// # Safety
    /// It has room for one, is aligned, and nobody else uses it.
    pub unsafe fn new<'a>(scratch: *mut u8) -> &'a mut Chunk<T> {
        let chunk = scratch.cast::<Chunk<T>>();
        // SAFETY: the scratch has room for a chunk, aligned and for it alone; zeros are numbers of
        // all these types.
        unsafe {
            chunk.write_bytes(0, 1);
            &mut *chunk
        }
    }

    /// Finds the taps of `count` positions of a picture from `first` on.
    ///
    /// # Safety
    /// The numbers of these positions are readable.
    pub unsafe fn find(&mut self, step: &Sample, grid: &Numbers, n: i64, first: i64, count: usize)
    where
        T: Math,
    {
        let halves = step.halves().map(T::from_f64);
        let [rows, columns] = step.source;
        self.steps = [step.x.strides[2], step.x.strides[3]];
        // SAFETY: the grid has two numbers for each position of the chunk, which has room for them.
        unsafe { grid.read((n * step.positions() + first) * 2, 2 * count, self.pairs.as_mut_ptr()) };
        for i in 0..count {
            let x = place((self.pairs[2 * i] + T::ONE) * halves[1], columns);
            let y = place((self.pairs[2 * i + 1] + T::ONE) * halves[0], rows);
            let (Some((w, across)), Some((h, down))) = (x, y) else {
                self.inside[i] = 0;
                continue;
            };
            let (left, right) = (w >= 0, w + 1 < columns);
            let (above, below) = (h >= 0, h + 1 < rows);
            let all = [above && left, above && right, below && left, below && right];
            // The range of places leaves first taps that are inside, but for one beyond an end.
            let all = all.map(|inside| inside && w < columns && h < rows);
            self.inside[i] = (0..4).map(|k| u8::from(all[k]) << k).sum();
            self.corner[i] = [h, w];
            self.first[i] = h * self.steps[0] + w * self.steps[1];
            self.down[i] = down;
            self.across[i] = across;
            self.weights[i] = std::array::from_fn(|k| down[k / 2] * across[k % 2]);
        }
    }

    /// Calls `work` with the parts of a chunk that lie in one row of the target: the first position
    /// in the chunk, its row and column, and the number of positions.
    pub fn rows(&self, first: i64, count: usize, columns: i64, mut work: impl FnMut(usize, i64, i64, usize)) {
        let mut begin = 0;
        while begin < count {
            let (h, w) = ((first + begin as i64) / columns, (first + begin as i64) % columns);
            let width = (count - begin).min((columns - w) as usize);
            work(begin, h, w, width);
            begin += width;
        }
    }
}

/// The tap below pixel `p` of an axis of `n`, and the weights of it and the next one; none where
/// all taps are outside.
#[inline(always)]
fn place<T: Real + Math>(p: T, n: i64) -> Option<(i64, [T; 2])> {
    let first = p.to_f64().floor();
    if !(first >= -1.0 && first <= (n - 1) as f64) {
        return None;
    }
    let beyond = p - T::from_f64(first);
    Some((first as i64, [T::ONE - beyond, beyond]))
}

/// Numbers on their way to elements of the destination.
pub struct Sink<T> {
    cell: usize,
    narrow: Row,
    scaling: Scaling,
    number: std::marker::PhantomData<T>,
}

impl<T: Real> Sink<T> {
    /// For elements of this type.
    pub fn new(scalar: Scalar, scaling: Scaling, machine: Machine) -> Self {
        let narrow = row::between(T::SCALAR, scalar, scaling, machine.isa);
        Sink { cell: scalar.size(), narrow, scaling, number: std::marker::PhantomData }
    }

    /// Bytes of an element.
    pub fn cell(&self) -> isize {
        self.cell as isize
    }

    /// The bytes of `elements` elements.
    pub fn bytes(&self, elements: i64) -> isize {
        elements as isize * self.cell()
    }

    /// Where an element lies.
    pub fn place(&self, base: Address, offset: i64) -> *mut u8 {
        base.pointer().wrapping_offset(self.bytes(offset))
    }

    /// Writes `n` numbers to elements `step` bytes apart.
    ///
    /// # Safety
    /// The elements are writable (and readable if `beta != 0`), aligned, and do not overlap the
    /// numbers.
    pub unsafe fn put(&self, to: *mut u8, step: isize, numbers: *const T, n: usize) {
        if step == self.cell() || n == 1 {
            // SAFETY: `n` cells are writable, and lie apart from the numbers.
            return unsafe { (self.narrow)(to, numbers.cast(), n, self.scaling) };
        }
        let mut cells = [0_u64; CHUNK];
        let cells = cells.as_mut_ptr().cast::<u8>();
        for begin in (0..n).step_by(CHUNK) {
            let count = CHUNK.min(n - begin);
            let to = to.wrapping_offset(step * begin as isize);
            // SAFETY: elements of the caller's, and room for a chunk of them.
            unsafe {
                if self.scaling.beta != 0.0 {
                    copy_strided(self.cell, cells, self.cell(), to, step, count);
                }
                (self.narrow)(cells, numbers.add(begin).cast(), count, self.scaling);
                copy_strided(self.cell, to, step, cells, self.cell(), count);
            }
        }
    }
}
