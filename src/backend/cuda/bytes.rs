//! A nest whose strides count bytes, and whose elements may be wider than the scalars it came from.

use super::launch::Pointers;
use crate::layout::{Axis, LoopNest};
use crate::ops::Transform;

/// The widest element that a kernel moves at once, in bytes.
const WIDEST: u64 = 32;

/// Loops over bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ByteNest {
    /// The loops; offsets are zero, for they are part of `at`.
    pub nest: LoopNest<2>,
    /// Where both operands start.
    pub at: Pointers,
    /// Bytes of one destination element.
    pub width: u64,
}

impl ByteNest {
    /// The same loops over bytes; `sizes` are those of the operands' scalars.
    pub(super) fn new(nest: &LoopNest<2>, sizes: [usize; 2], at: Pointers) -> Self {
        let [dst, src] = sizes.map(|size| size as i64);
        let mut bytes = LoopNest::new(&[], [0, 0]);
        for axis in nest.axes() {
            let [by_dst, by_src] = axis.strides;
            bytes.push(Axis { extent: axis.extent, strides: [by_dst * dst, by_src * src] });
        }
        let at = at.offset(nest.offsets[0] * dst, nest.offsets[1] * src);
        ByteNest { nest: bytes, at, width: dst as u64 }
    }

    /// The loops of a move, with neighbours that travel together taken as one element: as wide as
    /// alignment and the innermost run allow, at most [`WIDEST`]. Pre: a move; the nest is
    /// canonical.
    pub(super) fn widened(transform: &Transform, at: Pointers) -> Self {
        let size = transform.dst.size();
        let bytes = ByteNest::new(&transform.nest, [size, size], at);
        let Some((inner, outer)) = bytes.nest.axes().split_last() else { return bytes };
        if inner.strides != [size as i64; 2] {
            return bytes;
        }
        let run = inner.extent as u64 * size as u64;
        let strides = outer.iter().flat_map(|axis| axis.strides).fold(0, |all, s| all | s.unsigned_abs());
        // The lowest bit set anywhere is what everything is a multiple of.
        let width = 1 << (run | strides | bytes.at.dst | bytes.at.src | WIDEST).trailing_zeros();
        let mut nest = LoopNest::new(outer, [0, 0]);
        if run > width {
            nest.push(Axis { extent: (run / width) as i64, strides: [width as i64; 2] });
        }
        ByteNest { nest, width, ..bytes }
    }

    /// Lowest and highest byte offset of both operands, from where each starts.
    pub(super) fn reach(&self) -> [(i64, i64); 2] {
        // The plan has proved that the spans exist.
        [0, 1].map(|operand| self.nest.span(operand).unwrap_or((i64::MIN, i64::MAX)))
    }
}
