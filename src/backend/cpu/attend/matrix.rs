//! Rows of a matrix of one head: as binary32 in scratch, and back.

use super::loops::Scores;
use crate::backend::Address;
use crate::backend::cpu::Isa;
use crate::backend::cpu::row::{Row, between};
use crate::dtype::Scalar;
use crate::ops::Scaling;
use crate::ops::attend::Attend;

/// The most columns, of which a row may be converted at once.
const MOST_COLUMNS: usize = Attend::MOST_COLUMNS as usize;

/// The most keys of a tile.
pub const MOST_KEYS: usize = 256;

const _: () = assert!(MOST_KEYS <= MOST_COLUMNS, "cells have room for a tile");

/// How numbers of a type become binary32, and back.
#[derive(Clone, Copy)]
pub struct Types {
    scalar: Scalar,
    widen: Row,
    narrow: Row,
}

impl Types {
    pub fn of(scalar: Scalar, isa: Isa) -> Types {
        Types {
            scalar,
            widen: between(scalar, Scalar::F32, Scaling::MOVE, isa),
            narrow: between(Scalar::F32, scalar, Scaling::MOVE, isa),
        }
    }

    /// Rounds scores to the type.
    ///
    /// # Safety
    /// They are readable and writable.
    pub unsafe fn round(&self, scores: Scores) {
        if self.scalar == Scalar::F32 {
            return;
        }
        let mut cells = [0_u16; MOST_KEYS];
        for row in 0..scores.rows {
            let row = scores.row(row).cast();
            // SAFETY: the row is readable and writable, and the cells have room for it.
            unsafe {
                (self.narrow)(cells.as_mut_ptr().cast(), row, scores.columns, Scaling::MOVE);
                (self.widen)(row, cells.as_ptr().cast(), scores.columns, Scaling::MOVE);
            }
        }
    }
}

/// A matrix of all heads.
#[derive(Clone, Copy)]
pub struct Matrix {
    at: *mut u8,
    /// From batch to batch, head to head, row to row, column to column.
    strides: [i64; 4],
    columns: usize,
    types: Types,
}

impl Matrix {
    pub fn new(at: Address, strides: [i64; 4], columns: i64, types: Types) -> Matrix {
        Matrix { at: at.pointer(), strides, columns: columns as usize, types }
    }

    /// Some of its columns.
    pub fn part(&self, first: i64, columns: usize) -> Matrix {
        let apart = first as isize * self.strides[3] as isize * self.types.scalar.size() as isize;
        Matrix { at: self.at.wrapping_offset(apart), columns, ..*self }
    }

    /// Whether all rows of a head are one.
    pub fn repeats_rows(&self) -> bool {
        self.strides[2] == 0
    }

    fn row(&self, [batch, head, row]: [i64; 3]) -> *mut u8 {
        let [of_batch, of_head, of_row, _] = self.strides;
        let offset = batch * of_batch + head * of_head + row * of_row;
        self.at.wrapping_offset(offset as isize * self.types.scalar.size() as isize)
    }

    /// Calls `each` with the places of the elements of a row and of their cells, which lie side by
    /// side.
    fn gathered(&self, row: *mut u8, cells: *mut u8, each: impl Fn(*mut u8, *mut u8, usize)) {
        let size = self.types.scalar.size();
        let apart = self.strides[3] as isize * size as isize;
        for c in 0..self.columns {
            each(row.wrapping_offset(c as isize * apart), cells.wrapping_add(c * size), size);
        }
    }

    /// Where rows of binary32 begin whose columns lie side by side, and elements from one to the
    /// next.
    pub fn in_place(&self, first: [i64; 3]) -> Option<(*const f32, usize)> {
        let is_dense = self.types.scalar == Scalar::F32 && self.strides[3] == 1;
        let step = usize::try_from(self.strides[2]).ok().filter(|_| is_dense)?;
        Some((self.row(first).cast_const().cast(), step))
    }

    /// Copies `count` rows from `[batch, head, row]` on to `to`, `pitch` apart, with zeros up to
    /// there.
    ///
    /// # Safety
    /// The rows are readable, and there is room for them.
    pub unsafe fn load(&self, [batch, head, first]: [i64; 3], count: usize, to: *mut f32, pitch: usize) {
        let mut cells = [0_u32; MOST_COLUMNS];
        for (to, row) in (0..count).map(|row| to.wrapping_add(row * pitch)).zip(first..) {
            let mut from = self.row([batch, head, row]);
            if self.strides[3] != 1 {
                self.gathered(from, cells.as_mut_ptr().cast(), |element, cell, size| {
                    // SAFETY: an element of the row, and its place.
                    unsafe { cell.copy_from_nonoverlapping(element, size) };
                });
                from = cells.as_mut_ptr().cast();
            }
            // SAFETY: the row has its columns, and its place a pitch.
            unsafe {
                (self.types.widen)(to.cast(), from, self.columns, Scaling::MOVE);
                to.add(self.columns).write_bytes(0, pitch - self.columns);
            }
        }
    }

    /// Writes a row.
    ///
    /// # Safety
    /// Its numbers are readable, and the row is writable.
    pub unsafe fn store(&self, place: [i64; 3], numbers: *const f32) {
        let row = self.row(place);
        if self.strides[3] == 1 {
            // SAFETY: the row has its columns.
            return unsafe { (self.types.narrow)(row, numbers.cast(), self.columns, Scaling::MOVE) };
        }
        let mut cells = [0_u32; MOST_COLUMNS];
        let at: *mut u8 = cells.as_mut_ptr().cast();
        // SAFETY: the cells have room for a row.
        unsafe { (self.types.narrow)(at, numbers.cast(), self.columns, Scaling::MOVE) };
        self.gathered(row, at, |element, cell, size| {
            // SAFETY: an element of the row, and its cell.
            unsafe { element.copy_from_nonoverlapping(cell, size) };
        });
    }
}
