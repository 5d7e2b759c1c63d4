//! What threads need for a reduction beside its operands, cut out of their scratch before anything
//! is written.

use super::sequence::Blocks;
use super::tree::{DEPTH, Lanes, ROOM, Subtrees};
use crate::backend::cpu::scratch::Parts;
use crate::backend::function::Real;
use crate::ops::Reduce;

/// What one thread needs for its tiles.
pub(super) struct Workspace<'a, T, L> {
    pub blocks: Blocks,
    /// Where the rows of a block are.
    pub offsets: &'a mut [isize],
    pub lanes: Lanes<'a, L>,
    pub subtrees: Subtrees<'a, L>,
    /// Subtrees of the same positions, one of each output.
    pub joined: &'a mut [L],
    pub values: &'a mut [T],
    pub firsts: &'a mut [i64],
    /// For the lanes of blocks that are joined.
    pub room: *mut L,
}

impl<T: Real, L: Copy> Workspace<'_, T, L> {
    /// What it takes for `width` outputs, whose elements come as rows or not.
    pub fn bytes(width: usize, by_rows: bool) -> usize {
        let mut parts = Parts::new(std::ptr::null_mut());
        let Lengths { offsets, lanes, room } = Lengths::of(width, by_rows);
        parts.take::<u8>(Blocks::BYTES);
        parts.take::<isize>(offsets);
        for lanes in [lanes, DEPTH * width, width, room] {
            parts.take::<L>(lanes);
        }
        parts.take::<T>(width);
        parts.take::<i64>(width);
        parts.bytes
    }

    /// # Safety
    /// There are as many [`bytes`](Self::bytes), and nobody else uses them meanwhile.
    pub unsafe fn new(scratch: *mut u8, width: usize, by_rows: bool, identity: L) -> Self {
        let mut parts = Parts::new(scratch);
        let Lengths { offsets, lanes, room } = Lengths::of(width, by_rows);
        // SAFETY: the same parts as in `bytes`.
        unsafe {
            Workspace {
                blocks: Blocks::new(parts.take(Blocks::BYTES)),
                offsets: parts.filled(offsets, 0),
                lanes: Lanes::new(parts.filled(lanes, identity), identity, width),
                subtrees: Subtrees::new(parts.filled(DEPTH * width, identity), width),
                joined: parts.filled(width, identity),
                room: parts.take(room),
                values: parts.filled(width, T::ZERO),
                firsts: parts.filled(width, i64::MAX),
            }
        }
    }
}

/// What only one of rows and blocks needs.
struct Lengths {
    offsets: usize,
    lanes: usize,
    room: usize,
}

impl Lengths {
    fn of(width: usize, by_rows: bool) -> Self {
        match by_rows {
            true => Lengths { offsets: Reduce::BLOCK, lanes: Reduce::LANES * width, room: 0 },
            false => Lengths { offsets: 0, lanes: 0, room: ROOM },
        }
    }
}

/// What the tasks of a reduction in chunks leave, `width` of each in each task's place.
#[derive(Clone, Copy)]
pub(super) struct Slots<T> {
    values: *mut T,
    firsts: *mut i64,
    width: usize,
}

// SAFETY: every task writes its own slot, and they are read when all tasks have ended.
unsafe impl<T> Sync for Slots<T> {}

impl<T: Copy> Slots<T> {
    /// Bytes of `count` slots.
    pub fn bytes(count: usize, width: usize) -> usize {
        count * width * (size_of::<T>() + size_of::<i64>())
    }

    /// # Safety
    /// There are as many [`bytes`](Self::bytes), and nobody else uses them meanwhile.
    pub unsafe fn new(at: *mut u8, count: usize, width: usize) -> Self {
        Slots { firsts: at.cast(), values: at.wrapping_add(count * width * size_of::<i64>()).cast(), width }
    }

    /// # Safety
    /// There is such a slot, and nobody else uses it meanwhile.
    pub unsafe fn put(&self, slot: usize, values: &[T], firsts: &[i64]) {
        // SAFETY: there is such a slot, of `width` values and firsts, and nobody else uses it.
        unsafe {
            self.values.add(slot * self.width).copy_from_nonoverlapping(values.as_ptr(), self.width);
            self.firsts.add(slot * self.width).copy_from_nonoverlapping(firsts.as_ptr(), self.width);
        }
    }

    /// # Safety
    /// The slot has been put, and is not put again meanwhile.
    pub unsafe fn get(&self, slot: usize) -> (&[T], &[i64]) {
        // SAFETY: the slot was put, and holds `width` values and firsts.
        unsafe {
            (
                std::slice::from_raw_parts(self.values.add(slot * self.width), self.width),
                std::slice::from_raw_parts(self.firsts.add(slot * self.width), self.width),
            )
        }
    }
}
