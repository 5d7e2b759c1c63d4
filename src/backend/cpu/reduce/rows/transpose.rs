//! Groups whose elements lie side by side, turned a tile at a time: one element of each of many
//! groups is a row then.

use super::super::sequence::Steps;
use super::{Task, Workspace, most_groups};
use crate::backend::cpu::Isa;
use crate::backend::cpu::interleave::{self, Kernel};
use crate::backend::cpu::stream::{LINE, Stream};
use crate::backend::cpu::tile::{self, Even, Matrix, Next, Order, Store, Transpose};
use crate::backend::function::Real;
use crate::backend::row_function::RowFormula;
use crate::ops::{Rows, Scaling};

/// Elements of a group at most: the calls for longer ones do not count beside their blocks.
const MAX_GROUP: usize = 192;

/// Bytes of a tile, where groups are long: it stays in the second-level cache with its terms and
/// results.
const TILE_BYTES: usize = 128 << 10;

/// Groups of a tile at least: a few lines of each row.
const LEAST_WIDTH: usize = 64;

/// How tiles are turned.
#[derive(Clone, Copy)]
pub(super) struct TileTranspose {
    transpose: Transpose<Even, Even>,
    /// The kernels for groups of a few elements, which transposes move one by one: to rows and
    /// back.
    few: Option<[Kernel; 2]>,
    /// How results go past the caches, if they are large.
    stream: Option<Stream>,
    /// Bytes of a cell of any operand.
    cell: usize,
    /// Elements of a group.
    len: usize,
    /// Groups of a tile at most.
    pub width: usize,
    /// Bytes between the rows of a tile that was turned.
    pub pitch: isize,
}

/// Whether groups are short enough, and all their elements lie side by side in all operands.
pub(super) fn pays(rows: &Rows, steps: &[Steps; 3]) -> bool {
    let cell = rows.scalars[0].size();
    let beside = |k: usize| rows.scalars[k].size() == cell && steps[k].side_by_side(cell, 0).is_some();
    rows.scaling.beta == 0.0
        && (2..=MAX_GROUP).contains(&steps[0].len)
        && (0..=rows.function.arity()).all(beside)
}

impl TileTranspose {
    /// How groups of `len` elements, for which it [pays], are turned.
    pub fn new(rows: &Rows, len: usize, stream: Option<Stream>, isa: Isa) -> Self {
        let cell = rows.scalars[0].size();
        let number = rows.compute.scalar().size();
        let most = if number == 4 { most_groups::<f32>(len) } else { most_groups::<f64>(len) };
        let width = (TILE_BYTES / number / len).clamp(LEAST_WIDTH, most);
        // An odd number of lines, so that rows spread over the sets of a cache.
        let pitch = ((width * cell).div_ceil(LINE) | 1) * LINE;
        let transpose = tile::transpose(cell, Store::Cached, isa);
        // From eight on rows fill tiles.
        let few = if len < 8 { interleave::split_and_join(cell, len, isa) } else { None };
        TileTranspose { transpose, few, stream, cell, len, width, pitch: pitch as isize }
    }

    /// Bytes of a tile, turned or not.
    pub fn bytes(&self) -> usize {
        self.len * self.pitch as usize
    }

    /// Rows become columns. Meanwhile asks for as many more rows if the source is far.
    ///
    /// # Safety
    /// There are `rows` rows of `columns` columns at `src`, and room for them at `dst`; they do not
    /// overlap.
    unsafe fn transpose(
        &self, [dst, src]: [*mut u8; 2], pitches: [isize; 2], [rows, columns]: [usize; 2], is_far: bool,
    ) {
        let [dst_rows, src_rows] = pitches.map(Even);
        let order = if is_far { Order::AlongSrc } else { Order::AlongDst };
        let next = match is_far {
            true => Next { src, rows: src_rows, first: rows, end: 2 * rows, bytes: columns * self.cell },
            false => Next::none(src_rows),
        };
        let scaling = Scaling::MOVE;
        // SAFETY: the matrix has these rows and columns, and `dst` room for them.
        unsafe {
            (self.transpose)(Matrix { dst, src, rows, columns, dst_rows, src_rows, next, order, scaling });
        }
    }
}

impl<T: Real, F: RowFormula> Task<T, F> {
    /// Neighbouring groups, turned, computed row by row in the place of x, and turned back.
    ///
    /// # Safety
    /// The operands have their elements, as the step reads or writes them.
    pub(super) unsafe fn transposed(
        &self, transpose: &TileTranspose, at: [*mut u8; 3], width: usize, work: &mut Workspace<'_, T>,
    ) {
        let tiles = work.transposed;
        let start = |k: usize| {
            let offset = self.steps[k].side_by_side(transpose.cell, 0).expect("a turn asked for that");
            at[k].wrapping_offset(offset)
        };
        let group = (transpose.len * transpose.cell) as isize;
        // SAFETY: the groups have their elements; either tile has room for all groups, turned or
        // not.
        unsafe {
            for (k, &tile) in tiles.iter().enumerate().take(F::ARITY) {
                let apart = self.along.1[k + 1];
                match transpose.few {
                    Some([split, _]) if apart == group => split(tile, start(k + 1), transpose.pitch, width),
                    _ => transpose.transpose(
                        [tile, start(k + 1)],
                        [transpose.pitch, apart],
                        [width, transpose.len],
                        true,
                    ),
                }
            }
            let [results, back] = tiles;
            self.rows([results, results, back], [transpose.cell as isize; 3], width, None, work);
            match transpose.few {
                Some([_, join]) => join(back, results, transpose.pitch, width),
                None => transpose.transpose(
                    [back, results],
                    [group, transpose.pitch],
                    [transpose.len, width],
                    false,
                ),
            }
            let copy = |to: *mut u8, from: *const u8, bytes: usize| match transpose.stream {
                Some(stream) => stream(to, from, bytes),
                None => to.copy_from_nonoverlapping(from, bytes),
            };
            if self.along.1[0] == group {
                return copy(start(0), back, width * group as usize);
            }
            for i in 0..width {
                copy(
                    start(0).wrapping_offset(i as isize * self.along.1[0]),
                    back.add(i * group as usize),
                    group as usize,
                );
            }
        }
    }
}
