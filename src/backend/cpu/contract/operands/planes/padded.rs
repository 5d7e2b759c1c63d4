//! A block of a plane copied row by row, with zeros where it has no elements: kernels then read
//! whole rows, and ask nothing per tap.

use super::Planes;
use crate::backend::cpu::contract::operands::pack::Source;
use crate::backend::cpu::contract::operands::points::OperandOffsets;

/// What of a plane is copied, and what becomes of it; of two numbers the first one is of rows.
pub struct Padded {
    /// The first output that sees it, and how many outputs do.
    pub begin: [usize; 2],
    pub outputs: [usize; 2],
    /// Parts of a position, and of a row of the copy.
    pub cell: usize,
    pub pitch: usize,
}

impl Planes {
    /// Copies what some outputs see of the plane at `place`. Of each row `copy` gets the offset of
    /// the first position that has an element, how many positions follow one another, and where to
    /// put them.
    ///
    /// # Safety
    /// `to` has room for the rows; `copy` writes the cells of as many positions.
    #[inline(always)]
    pub unsafe fn copy_padded<T>(
        &self, source: Source<'_>, place: &OperandOffsets, padded: &Padded, to: *mut T,
        copy: impl Fn(i64, usize, *mut T),
    ) {
        let ([slow, fast], &Padded { begin, outputs, cell, pitch }) = (&self.dims, padded);
        let is_inside = self.is_inside(source, place);
        let [top, left] = [(slow, begin[0]), (fast, begin[1])]
            .map(|(dim, begin)| dim.lowest() + (begin * dim.stride()) as i64);
        let (wide, inside) = (fast.span(outputs[1]), fast.inside(left));
        let (first, end) = (inside.start.min(wide), inside.end.min(wide));
        for row in 0..slow.span(outputs[0]) {
            let (y, to) = (top + row as i64, to.wrapping_add(row * pitch));
            // SAFETY: a row of the copy.
            unsafe {
                if !is_inside || !slow.holds(y) || first >= end {
                    to.write_bytes(0, pitch);
                    continue;
                }
                to.write_bytes(0, first * cell);
                to.add(end * cell).write_bytes(0, pitch - end * cell);
                let at = place.at[1] + slow.offset(y) + fast.offset(left + first as i64);
                copy(at, end - first, to.add(first * cell));
            }
        }
    }
}
