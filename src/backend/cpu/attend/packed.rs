//! Rows of a matrix of one head in scratch, packed for products.

use std::ops::Range;

use super::loops::{LANES, Loops};
use super::matrix::Matrix;
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::blocks::{Blocks, Left, Right};
use crate::backend::cpu::scratch::Parts;

/// What a level computes with.
#[derive(Clone, Copy)]
pub struct Level {
    pub blocks: Blocks,
    pub loops: Loops,
}

impl Level {
    pub fn of(isa: Isa) -> Level {
        Level { blocks: Blocks::of(isa), loops: Loops::of(isa) }
    }

    /// Elements from row to row where rows are padded to whole tiles, and whole lanes.
    pub fn pitch(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.blocks.lanes.max(LANES))
    }
}

/// Elements from row to row up to which rows are read in place: of more, all would be in a few sets
/// of the first-level cache.
const DENSE: usize = 256;

/// Some rows of a head in binary32: in place, or copied.
#[derive(Clone, Copy)]
pub struct Packed {
    level: Level,
    columns: usize,
    /// Elements from row to row of copies, and of sums that products of the rows are added to.
    pub pitch: usize,
    room: *mut f32,
    /// Where the rows are, and elements from one to the next.
    rows: *const f32,
    step: usize,
    transposed: Option<*mut f32>,
    /// The rows as columns of a factor on the right, with zeros up to whole tiles.
    pub as_columns: Right,
    is_finite: bool,
}

impl Packed {
    /// Room for as many rows, and for their transpose if that is wanted.
    pub fn new(level: Level, rows: usize, columns: i64, transposes: bool, parts: &mut Parts) -> Packed {
        let columns = columns as usize;
        let pitch = level.pitch(columns);
        let room = rows.next_multiple_of(level.blocks.lanes) * columns;
        let (at, transposed) = (parts.take(rows * pitch), transposes.then(|| parts.take(room)));
        let as_columns = Right { at, term: 0, tile: 0 };
        let (room, rows, step) = (at, at.cast_const(), pitch);
        Packed { level, columns, pitch, room, rows, step, transposed, as_columns, is_finite: true }
    }

    /// Finds these rows of a head, and makes their transpose if there is room for it. They are
    /// copied if that `copies`, or where products could not read them in place.
    ///
    /// # Safety
    /// They are readable, and there is room for them, which nothing else uses.
    pub unsafe fn load(&mut self, matrix: &Matrix, [batch, head]: [i64; 2], rows: Range<i64>, copies: bool) {
        let count = (rows.end - rows.start).max(0) as usize;
        self.is_finite = true;
        let first = [batch, head, rows.start];
        // SAFETY: the rows are those of the matrix, and there is room for them.
        unsafe {
            // Products read half tiles, and whole lanes.
            let fits = self.columns.is_multiple_of(LANES.max(self.level.blocks.lanes / 2));
            let in_place = matrix.in_place(first).filter(|(_, step)| fits && !copies && *step <= DENSE);
            (self.rows, self.step) = match in_place {
                Some(found) => found,
                None => {
                    matrix.load(first, count, self.room, self.pitch);
                    (self.room.cast_const(), self.pitch)
                }
            };
            if let Some(to) = self.transposed {
                let extents = [count, self.columns];
                self.as_columns = self.level.blocks.transpose(self.rows, self.step, extents, to);
            }
        }
    }

    /// Looks whether the first rows are finite. Where they are not, products leave out terms whose
    /// left factor is 0.
    ///
    /// # Safety
    /// They have been found.
    pub unsafe fn look(&mut self, count: usize) {
        let are_finite = self.level.loops.are_finite;
        // SAFETY: rows with all their columns.
        self.is_finite = unsafe {
            match self.step == self.columns {
                true => are_finite(self.rows, count * self.step),
                false => (0..count).all(|row| are_finite(self.row(row), self.columns)),
            }
        };
    }

    /// Multiplies the first rows by a number.
    ///
    /// # Safety
    /// They are copies.
    pub unsafe fn scale(&mut self, count: usize, factor: f32) {
        if factor != 1.0 {
            // SAFETY: rows with all their columns.
            unsafe { (self.level.loops.multiply)(self.room, count * self.pitch, factor) };
        }
    }

    /// A row.
    pub fn row(&self, row: usize) -> *const f32 {
        self.rows.wrapping_add(row * self.step)
    }

    /// Rows from one on as a factor on the left.
    pub fn left(&self, first: usize) -> Left {
        Left { at: self.row(first), row: self.step, term: 1 }
    }

    /// `c += left * rows`, of the rows from one on, without the terms whose left factor is 0 if
    /// some of the rows are not finite.
    ///
    /// # Safety
    /// The rows have been found; `left` has as many terms as there are, and `c` a row of their
    /// pitch for each row of `left`.
    pub unsafe fn add_product(&self, [rows, terms]: [usize; 2], left: Left, first: usize, c: *mut f32) {
        let blocks = &self.level.blocks;
        let right = Right { at: self.row(first), term: self.step, tile: blocks.lanes };
        let extents = [rows, self.columns, terms];
        // SAFETY: the factors and the sums have their rows, columns and terms.
        unsafe {
            match self.is_finite {
                true => blocks.multiply(extents, left, right, c, self.pitch, true),
                false => blocks.add_nonzero(extents, left, right, c, self.pitch),
            }
        }
    }
}
