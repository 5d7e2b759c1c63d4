//! Transposes of small matrices of cells, in vector registers where the processor has them.
//!
//! One scheme serves every width and register size. In a 16-byte lane, interleaving register `i`
//! with register `i + K/2` (low halves to `2i`, high halves to `2i + 1`), repeated log2(K) times,
//! transposes K x K cells, where K is 16 over the cell size. A wider register holds two or four
//! such matrices that lie below each other in the source, so that it ends as one longer piece of a
//! destination row: 64 bytes, a cache line, with AVX-512.
//!
//! Rows lie wherever their offsets say, so that one kernel serves a plain matrix and a permutation
//! of many dimensions, whose rows run through several loops.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod network;
#[cfg(target_arch = "aarch64")]
mod neon;
mod rows;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use self::rows::AnyRows;
pub(super) use self::rows::{Even, RowStarts};
use super::Isa;
use super::held::Held;
use super::shape::with_cell;
use super::stream::{LINE, Stream, prefetch_l2};
use crate::ops::{Scaling, Transform};

/// Rows of a source that comes later and is to be fetched: they are too short for the processor to
/// see that they are streams.
#[derive(Clone, Copy)]
pub(super) struct Next<S> {
    pub src: *const u8,
    /// Where the rows start.
    pub rows: S,
    /// Which of them.
    pub first: usize,
    pub end: usize,
    /// Bytes of a row.
    pub bytes: usize,
}

impl<S: RowStarts> Next<S> {
    /// Nothing.
    pub fn none(rows: S) -> Self {
        Next { src: std::ptr::null(), rows, first: 0, end: 0, bytes: 0 }
    }
}

/// The lines that are still to be fetched. Row by row, for lines that lie together come faster; and
/// a few at a time, for all at once would keep the cells in work waiting.
pub(super) struct Ahead<S> {
    next: Next<S>,
    /// What has been asked for of the first row.
    bytes: usize,
}

impl<S: RowStarts> Ahead<S> {
    pub fn of(next: Next<S>) -> Self {
        Ahead { next, bytes: 0 }
    }

    /// How many they are at first.
    pub fn lines(&self) -> usize {
        (self.next.end - self.next.first) * self.next.bytes.div_ceil(LINE)
    }

    /// Asks for the next `n` lines.
    #[inline(always)]
    pub fn fetch(&mut self, n: usize) {
        let Ahead { next, bytes } = self;
        for _ in 0..n {
            if next.first >= next.end {
                return;
            }
            // SAFETY: a row of the matrix.
            let row = next.src.wrapping_offset(unsafe { next.rows.at(next.first) });
            prefetch_l2(row.wrapping_add(*bytes));
            *bytes += LINE;
            if *bytes >= next.bytes {
                (*bytes, next.first) = (0, next.first + 1);
            }
        }
    }
}

/// Cells to transpose: row `i` of the source is column `i` of the destination.
#[derive(Clone, Copy)]
pub(super) struct Matrix<D, S> {
    pub dst: *mut u8,
    pub src: *const u8,
    /// Rows of the source.
    pub rows: usize,
    /// Columns of the source, which are the rows of the destination.
    pub columns: usize,
    /// Where the rows of the destination start.
    pub dst_rows: D,
    /// Where the rows of the source start.
    pub src_rows: S,
    /// What is to be fetched meanwhile.
    pub next: Next<S>,
    /// In which order the blocks are visited.
    pub order: Order,
    /// What to multiply with on the way, if the transpose converts.
    pub scaling: Scaling,
}

/// With debug assertions, that an operand holds these rows from `at` on: how many, and the bytes of
/// each.
#[inline(always)]
fn assert_holds_rows(held: &Held, at: *const u8, starts: impl RowStarts, [rows, bytes]: [usize; 2]) {
    if cfg!(debug_assertions) {
        for i in 0..rows {
            // SAFETY: a row of these.
            held.assert_holds(at.wrapping_offset(unsafe { starts.at(i) }), bytes);
        }
    }
}

impl<D: RowStarts, S: RowStarts> Matrix<D, S> {
    /// With debug assertions, that an operand holds the rows of the source.
    #[inline(always)]
    pub fn assert_reads_from(&self, held: &Held, cell: usize) {
        assert_holds_rows(held, self.src, self.src_rows, [self.rows, self.columns * cell]);
    }

    /// With debug assertions, that an operand holds the rows of the destination.
    #[inline(always)]
    pub fn assert_writes_to(&self, held: &Held, cell: usize) {
        assert_holds_rows(held, self.dst, self.dst_rows, [self.columns, self.rows * cell]);
    }

    /// The same cells, whose rows are told apart as they are read.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn any(self) -> Matrix<AnyRows, AnyRows> {
        let Matrix { dst, src, rows, columns, dst_rows, src_rows, next, order, scaling } = self;
        let Next { src: next_src, rows: next_rows, first, end, bytes } = next;
        let next = Next { src: next_src, rows: next_rows.any(), first, end, bytes };
        Matrix {
            dst,
            src,
            rows,
            columns,
            dst_rows: dst_rows.any(),
            src_rows: src_rows.any(),
            next,
            order,
            scaling,
        }
    }

    /// The same cells, that go elsewhere.
    #[inline(always)]
    pub fn to<E: RowStarts>(self, dst: *mut u8, dst_rows: E) -> Matrix<E, S> {
        let Matrix { src, rows, columns, src_rows, next, order, scaling, .. } = self;
        Matrix { dst, src, rows, columns, dst_rows, src_rows, next, order, scaling }
    }

    /// The same cells, that come from elsewhere. They fetch nothing.
    #[inline(always)]
    pub fn from<T: RowStarts>(self, src: *const u8, src_rows: T) -> Matrix<D, T> {
        let Matrix { dst, rows, columns, dst_rows, order, scaling, .. } = self;
        Matrix { dst, src, rows, columns, dst_rows, src_rows, next: Next::none(src_rows), order, scaling }
    }

    /// Some of the rows and columns; the cells are those of destination and source, in bytes. They
    /// fetch nothing.
    ///
    /// # Safety
    /// There are these rows and columns.
    #[inline(always)]
    pub unsafe fn part(
        self, rows: Range<usize>, columns: Range<usize>, [dst_cell, src_cell]: [usize; 2],
    ) -> Self {
        // SAFETY: the matrix has these rows and columns.
        let ((down, src_rows), (across, dst_rows)) =
            unsafe { (self.src_rows.skip(rows.start), self.dst_rows.skip(columns.start)) };
        let left = (columns.start * src_cell) as isize;
        Matrix {
            dst: self.dst.wrapping_offset(across).wrapping_add(rows.start * dst_cell),
            src: self.src.wrapping_offset(down + left),
            rows: rows.len(),
            columns: columns.len(),
            dst_rows,
            src_rows,
            next: Next::none(src_rows),
            ..self
        }
    }
}

/// Lines of a row of the destination to write together where all its rows share their cache sets.
pub(super) const LINES_IN_CONFLICT: usize = 8;

/// Which operand's rows are followed to their end first. Either way a block is a cache line of each
/// operand wide, so that no line is visited twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The destination's: it is written in longer pieces.
    AlongDst,
    /// The source's: it is read in longer pieces.
    AlongSrc,
    /// Neither: blocks are visited in groups; the numbers are lines of rows of the destination, and
    /// of the source. Groups go along the destination. Not all transposes [have
    /// groups](has_groups).
    InGroups([usize; 2]),
}

impl Order {
    /// Whether to follow the destination's rows where there are no groups.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub fn is_along_dst(self) -> bool {
        match self {
            Order::AlongDst => true,
            Order::AlongSrc => false,
            Order::InGroups([dst, src]) => dst >= src,
        }
    }

    /// The lines of a group, if that many are written together because all rows of the destination
    /// share their cache sets.
    #[cfg(target_arch = "x86_64")]
    pub fn lines_in_conflict(self) -> Option<usize> {
        match self {
            Order::InGroups([dst, _]) if dst >= LINES_IN_CONFLICT => Some(dst),
            _ => None,
        }
    }
}

/// How the cells of the destination are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// Through the caches.
    Cached,
    /// Past them where the vector is whole. Pre: every row of the destination starts on a cache
    /// line.
    Streamed,
}

/// `dst[dst_rows[j] + i * cell] = src[src_rows[i] + j * cell]` for all rows `i` and columns `j`.
///
/// # Safety
/// All these cells are readable and writable and the two sets do not overlap. The processor has the
/// instructions of the [`Isa`] that the function was chosen for.
pub(super) type Transpose<D, S> = unsafe fn(matrix: Matrix<D, S>);

/// The transpose of cells of `cell` bytes.
pub(super) fn transpose<D: RowStarts, S: RowStarts>(cell: usize, store: Store, isa: Isa) -> Transpose<D, S> {
    #[cfg(target_arch = "x86_64")]
    if let Some(function) = match store {
        Store::Cached => x86::transpose::<D, S, false>(cell, isa),
        Store::Streamed => x86::transpose::<D, S, true>(cell, isa),
    } {
        return function;
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(function) = isa.has_neon().then(|| neon::transpose::<D, S>(cell)).flatten() {
        return function;
    }
    let _ = (store, isa);
    with_cell!(cell, W => one_by_one::<W, D, S>)
}

/// Whether transposes of cells of `cell` bytes write whole lines at a time, whatever the sides of a
/// matrix. Streaming parts of lines in alternation is up to five times slower, depending on how
/// many the processor keeps until they are whole.
pub(super) fn writes_lines(cell: usize, isa: Isa) -> bool {
    isa.has_avx512() || cell >= if isa.has_avx2() { 4 } else { 8 }
}

/// Whether transposes of cells of `cell` bytes can go [in groups](Order::InGroups).
pub(super) fn has_groups(cell: usize, isa: Isa) -> bool {
    cell <= 2 && isa.has_avx2()
}

/// Rows of the destination that [`strips`] writes in alternation: caches hold as many lines that
/// start in the same set.
pub(super) const STRIP: usize = 8;

/// A transpose of cells of `cell` bytes that writes [`STRIP`] rows of the destination to their end
/// before others, if there is one. It takes matrices with a line of rows and [`STRIP`] columns at
/// least.
pub(super) fn strips<D: RowStarts, S: RowStarts>(cell: usize, isa: Isa) -> Option<Transpose<D, S>> {
    #[cfg(target_arch = "x86_64")]
    return x86::strips(cell, isa);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (cell, isa);
        None
    }
}

/// The transpose of a transform that converts on the way, if there is one; it wants whole lines of
/// the narrower cells in both directions, and is slow where it has none.
pub(super) fn convert<D: RowStarts, S: RowStarts>(
    transform: &Transform, store: Store, isa: Isa,
) -> Option<Transpose<D, S>> {
    #[cfg(target_arch = "x86_64")]
    return x86::convert(transform, store, isa);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (transform, store, isa);
        None
    }
}

/// Transposes as [`Transpose`] does, past the caches wherever columns start in lines. Of column `j`
/// only the bytes `written(j)` are written, their ends by `copy`.
///
/// # Safety
/// As for [`Transpose`]. The matrix has at least a line of rows, of the narrower cells. What is
/// written of a column starts where the column does or with its first whole line, and ends where
/// the column does or with a line, less than a line before that.
pub(super) type Carry<D, S> =
    unsafe fn(matrix: Matrix<D, S>, written: &dyn Fn(usize) -> Range<usize>, copy: Stream);

/// Such a transpose of cells of `cell` bytes, if there is one.
pub(super) fn carry<D: RowStarts, S: RowStarts>(cell: usize, isa: Isa) -> Option<Carry<D, S>> {
    #[cfg(target_arch = "x86_64")]
    return x86::carry(cell, isa);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (cell, isa);
        None
    }
}

/// Such a transpose that converts to narrower cells on the way, if there is one.
pub(super) fn carry_converted<D: RowStarts, S: RowStarts>(
    transform: &Transform, isa: Isa,
) -> Option<Carry<D, S>> {
    #[cfg(target_arch = "x86_64")]
    return x86::carry_converted(transform, isa);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (transform, isa);
        None
    }
}

/// Cell by cell: along the destination, or along the source where rows are few.
///
/// # Safety
/// As for [`Transpose`].
unsafe fn one_by_one<W: Copy, D: RowStarts, S: RowStarts>(m: Matrix<D, S>) {
    /// Rows that are left over at the end of a matrix.
    const TAIL_ROWS: usize = 4;
    /// Cells whose places are computed together.
    const TOGETHER: usize = 8;
    let cell = size_of::<W>();
    // SAFETY: only called with cells of the matrix; merged cells are aligned to their parts only.
    let put = |to: *mut u8, from: *const u8| unsafe {
        to.cast::<W>().write_unaligned(from.cast::<W>().read_unaligned());
    };
    if m.rows <= TAIL_ROWS {
        let together = m.columns - m.columns % TOGETHER;
        for i in 0..m.rows {
            // SAFETY: a row of the matrix, and columns in it.
            unsafe {
                let from = m.src.offset(m.src_rows.at(i));
                let row = m.dst.add(i * cell);
                for j in (0..together).step_by(TOGETHER) {
                    let to: [_; TOGETHER] = m.dst_rows.cells(row, j, 1);
                    (0..TOGETHER).for_each(|k| put(to[k].cast_mut(), from.add((j + k) * cell)));
                }
                (together..m.columns).for_each(|j| put(row.offset(m.dst_rows.at(j)), from.add(j * cell)));
            }
        }
        return;
    }
    for j in 0..m.columns {
        for i in 0..m.rows {
            // SAFETY: a cell of the matrix.
            unsafe {
                let from = m.src.offset(m.src_rows.at(i)).add(j * cell);
                put(m.dst.offset(m.dst_rows.at(j)).add(i * cell), from);
            }
        }
    }
}

/// Blocks of few cells: cell `i` of block `j` lies at `i * row + j * cell` in the source, and zeros
/// follow the cells.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other processors have no such kernels"))]
pub(super) struct Few {
    pub dst: *mut u8,
    pub src: *const u8,
    /// Cells of a block that have a source; less than 16 bytes.
    pub cells: usize,
    pub blocks: usize,
    /// Bytes of a block, zeros included.
    pub block: usize,
    /// Bytes from the source of a cell to that of the next one.
    pub row: isize,
}

/// Writes the blocks whole.
///
/// # Safety
/// All these cells are readable, the blocks writable; they do not overlap. The processor has the
/// instructions of the [`Isa`] that the function was chosen for.
pub(super) type Spread = unsafe fn(few: Few);

/// The function for cells of `cell` bytes in blocks of `block`, if there is one. To be streamed,
/// the blocks must start on a cache line.
pub(super) fn few(cell: usize, block: usize, store: Store, isa: Isa) -> Option<Spread> {
    #[cfg(target_arch = "x86_64")]
    return match store {
        Store::Cached => x86::few::<false>(cell, block, isa),
        Store::Streamed => x86::few::<true>(cell, block, isa),
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (cell, block, store, isa);
        None
    }
}
