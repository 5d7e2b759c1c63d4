//! The loops of a map in bytes, and those that run over vectors of 16 bytes.

use crate::layout::{Axis, LoopNest};
use crate::ops::Map;

/// Threads of a block, each with one vector.
pub(super) const THREADS: u64 = 256;
/// Bytes of a vector.
const VECTOR: i64 = 16;

/// Loops over the bytes of operands, and where these start.
pub(super) struct Bytes<const N: usize> {
    /// The loops, with offsets of zero.
    pub nest: LoopNest<N>,
    /// Addresses of the first elements.
    pub start: [u64; N],
}

impl<const N: usize> Bytes<N> {
    /// The loops of a map whose operands are at these addresses.
    pub(super) fn of(map: &Map<N>, at: [u64; N]) -> Bytes<N> {
        let sizes = map.scalars.map(|scalar| scalar.size() as i64);
        let mut nest = LoopNest::new(&[], [0; N]);
        for axis in map.nest.axes() {
            nest.push(Axis {
                extent: axis.extent,
                strides: std::array::from_fn(|k| axis.strides[k] * sizes[k]),
            });
        }
        let start = std::array::from_fn(|k| at[k].wrapping_add_signed(map.nest.offsets[k] * sizes[k]));
        Bytes { nest, start }
    }

    /// How far each operand reaches.
    pub(super) fn reach(&self) -> [(i64, i64); N] {
        std::array::from_fn(|k| self.nest.span(k).unwrap_or((i64::MIN, i64::MAX)))
    }
}

/// Loops of which the innermost runs over vectors.
pub(super) struct Vectors<const N: usize> {
    /// The loops, and where the operands start.
    pub bytes: Bytes<N>,
    /// Bit k: operand k has one element along the innermost loop.
    pub splats: u32,
    /// Number of vectors.
    pub count: u64,
    /// Elements behind the last vector of a single loop.
    pub rest: i64,
}

impl<const N: usize> Vectors<N> {
    /// The vectors of a map whose operands all have the type of the destination, if each of them
    /// lies on 16 bytes or is one element along the innermost loop.
    pub(super) fn of(map: &Map<N>, at: [u64; N]) -> Option<Vectors<N>> {
        let Bytes { nest, start } = Bytes::of(map, at);
        let (inner, outer) = nest.axes().split_last()?;
        let size = map.scalars[0].size() as i64;
        let lanes = VECTOR / size;
        let whole = inner.extent / lanes;
        let rest = inner.extent % lanes;
        if whole == 0 || (rest != 0 && !outer.is_empty()) {
            return None;
        }
        let mut splats = 0;
        for (k, &start) in start.iter().enumerate().take(1 + map.function.arity()) {
            let strides = outer.iter().fold(start, |all, axis| all | axis.strides[k].unsigned_abs());
            match inner.strides[k] {
                0 if k > 0 => splats |= 1 << k,
                step if step == size && strides.is_multiple_of(VECTOR as u64) => {}
                _ => return None,
            }
        }
        let mut vectors = LoopNest::new(outer, [0; N]);
        let strides = inner.strides.map(|step| if step == 0 { 0 } else { VECTOR });
        vectors.push(Axis { extent: whole, strides });
        let count = vectors.len() as u64;
        let bytes = Bytes { nest: vectors, start };
        (count <= (1 << 31) - THREADS).then_some(Vectors { bytes, splats, count, rest })
    }
}

/// The last `rest` elements of a map of a single loop, if there are any.
pub(super) fn tail<const N: usize>(map: &Map<N>, rest: i64) -> Option<Map<N>> {
    let mut tail = *map;
    let axis = map.nest.axes()[0];
    tail.nest = LoopNest::new(&[Axis { extent: rest, ..axis }], map.nest.offsets);
    (0..N).for_each(|k| tail.nest.offsets[k] += (axis.extent - rest) * axis.strides[k]);
    (rest > 0).then_some(tail)
}
