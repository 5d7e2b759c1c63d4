//! Products of blocks that other kinds of steps pack themselves, by the micro-kernels of binary32.

use super::kernel::simd::{self, MR};
use super::kernel::{Kernel, Kernels, Panel, RowPointers};
use super::levels;
use super::operands::pack::{MANY, transpose_many};
use crate::backend::cpu::Isa;

/// The most terms of a sum.
pub const MOST_TERMS: usize = 256;

/// The micro-kernels of a level. Every sum is added up term by term, in order: its bits depend
/// neither on the other rows and columns nor on how many there are.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// By rows, and by half or whole width. Those of all levels have one type.
    tiles: &'static [[Kernel<simd::PortableSingle>; 2]; MR],
    /// Columns of a tile.
    pub lanes: usize,
    isa: Isa,
}

/// A factor on the left: elements from row to row, and from term to term.
#[derive(Clone, Copy)]
pub struct Left {
    pub at: *const f32,
    pub row: usize,
    pub term: usize,
}

/// A factor on the right, whose columns are side by side as far as a tile reaches: elements from
/// term to term, and from tile to tile. Where columns fill less than half a tile, or less than a
/// whole one, as many more are readable.
#[derive(Clone, Copy)]
pub struct Right {
    pub at: *const f32,
    pub term: usize,
    pub tile: usize,
}

/// Rows on the left of one tile: where they begin, how many they are, elements from term to term,
/// and where the lines of the tile are that the terms are multiplied by.
struct Rows<'a> {
    at: RowPointers<f32>,
    count: usize,
    step: usize,
    offsets: &'a [i32],
}

impl Blocks {
    pub fn of(isa: Isa) -> Blocks {
        macro_rules! of {
            ($level:ident, $S:ident) => {
                Blocks { tiles: &levels::$level.kernels.tiles, lanes: Kernels::<simd::$S>::NR, isa }
            };
        }
        #[cfg(target_arch = "x86_64")]
        if isa.has_avx512() {
            return of!(AVX512_SINGLE, Avx512Single);
        } else if isa.has_avx2() {
            return of!(AVX2_SINGLE, Avx2Single);
        }
        #[cfg(target_arch = "aarch64")]
        if isa.has_neon() {
            return of!(NEON_SINGLE, NeonSingle);
        }
        of!(PORTABLE_SINGLE, PortableSingle)
    }

    /// `c = a b`, or `c += a b` if `add`, of some rows, columns and terms. Rows of `c` are `pitch`
    /// apart.
    ///
    /// # Safety
    /// The factors are readable for all rows, terms and columns, and `c` is writable for them, up
    /// to half a tile or a whole one; readable if `add`. At least one term, at most [`MOST_TERMS`].
    /// The processor has the instructions.
    pub unsafe fn multiply(
        &self, [rows, columns, terms]: [usize; 3], a: Left, b: Right, c: *mut f32, pitch: usize, add: bool,
    ) {
        let mut offsets = [0; MOST_TERMS];
        offsets[..terms].iter_mut().enumerate().for_each(|(k, offset)| *offset = (k * b.term) as i32);
        for (tile, first) in (0..columns).step_by(self.lanes).enumerate() {
            for row in (0..rows).step_by(MR) {
                let mut of = Rows {
                    at: [std::ptr::null(); MR],
                    count: MR.min(rows - row),
                    step: a.term,
                    offsets: &offsets[..terms],
                };
                let begin = |m: usize| a.at.wrapping_add((row + m) * a.row);
                of.at[..of.count].iter_mut().enumerate().for_each(|(m, at)| *at = begin(m));
                let (v, c) = (b.at.wrapping_add(tile * b.tile), c.wrapping_add(row * pitch + first));
                // SAFETY: the rows have their terms, the tile its lanes, and `c` has room.
                unsafe { self.tile(&of, v, columns - first, c, pitch, add) };
            }
        }
    }

    /// `c += a b` without the terms whose left factor is 0, whatever the other one is. The sums
    /// have the bits of [`multiply`](Blocks::multiply) where all factors on the right are finite.
    ///
    /// # Safety
    /// As for [`multiply`](Blocks::multiply).
    pub unsafe fn add_nonzero(
        &self, [rows, columns, terms]: [usize; 3], a: Left, b: Right, c: *mut f32, pitch: usize,
    ) {
        for row in 0..rows {
            let (mut factors, mut offsets, mut count) = ([0.0; MOST_TERMS], [0; MOST_TERMS], 0);
            for k in 0..terms {
                // SAFETY: a factor of the row.
                let factor = unsafe { a.at.add(row * a.row + k * a.term).read() };
                if factor != 0.0 {
                    (factors[count], offsets[count]) = (factor, (k * b.term) as i32);
                    count += 1;
                }
            }
            if count == 0 {
                continue;
            }
            let mut of = Rows { at: [std::ptr::null(); MR], count: 1, step: 1, offsets: &offsets[..count] };
            of.at[0] = factors.as_ptr();
            for (tile, first) in (0..columns).step_by(self.lanes).enumerate() {
                let (v, c) = (b.at.wrapping_add(tile * b.tile), c.wrapping_add(row * pitch + first));
                // SAFETY: the row has its terms, the tile its lanes, and `c` has room.
                unsafe { self.tile(&of, v, columns - first, c, pitch, true) };
            }
        }
    }

    /// The products of some rows with a tile at `v`, from which on there are `columns`.
    ///
    /// # Safety
    /// As for [`multiply`](Blocks::multiply), of the rows and the tile.
    #[inline(always)]
    unsafe fn tile(
        &self, of: &Rows<'_>, v: *const f32, columns: usize, c: *mut f32, pitch: usize, add: bool,
    ) {
        let mut to = [std::ptr::null_mut(); MR];
        to[..of.count].iter_mut().enumerate().for_each(|(m, to)| *to = c.wrapping_add(m * pitch));
        let offsets = of.offsets.as_ptr();
        let panel =
            Panel { rows: &raw const of.at, segments: 1, len: of.offsets.len(), step: of.step, offsets, v };
        let wide = columns > self.lanes / 2;
        // SAFETY: the panel has its rows, terms and lanes, and the rows of `c` have room.
        unsafe { self.tiles[of.count - 1][usize::from(wide)](&panel, &to, add) };
    }

    /// The transpose of a block as a factor on the right: its `rows`, `pitch` apart, become
    /// columns, with zeros up to whole tiles, and its `columns` terms.
    ///
    /// # Safety
    /// The block is readable, and there is room for whole tiles of all terms.
    pub unsafe fn transpose(
        &self, from: *const f32, pitch: usize, [rows, columns]: [usize; 2], to: *mut f32,
    ) -> Right {
        let right = Right { at: to, term: self.lanes, tile: self.lanes * columns };
        for (tile, first) in (0..rows).step_by(self.lanes).enumerate() {
            let (tile, end) = (to.wrapping_add(tile * right.tile), rows.min(first + self.lanes));
            if end < first + self.lanes {
                // SAFETY: the tile has room.
                unsafe { tile.write_bytes(0, right.tile) };
            }
            let together = MANY.min(self.lanes);
            for row in (first..end).step_by(together) {
                let mut lines = [from; MANY];
                let count = together.min(end - row);
                lines[..count]
                    .iter_mut()
                    .zip(row..)
                    .for_each(|(line, row)| *line = from.wrapping_add(row * pitch));
                let to = tile.wrapping_add(row - first);
                // SAFETY: the lines have their columns, and the tile has a place for each.
                unsafe { transpose_many(&lines[..count], columns, to, self.lanes as isize, self.isa) };
            }
        }
        right
    }
}
