//! Packing: elements of one operand, wherever they lie, into panels of cells that kernels walk in one stream.

use super::points::Point;
use super::simd::{MAX_NR, Simd};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::ops::contract::Bound;

/// What packing writes, from any element.
pub(super) trait Part: Copy + Default + 'static {
    const SCALAR: Option<Scalar>;
    fn of<E: Element>(element: E) -> Self;
}

impl Part for f32 {
    const SCALAR: Option<Scalar> = Some(Scalar::F32);
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_f32()
    }
}

impl Part for f64 {
    const SCALAR: Option<Scalar> = Some(Scalar::F64);
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_f64()
    }
}

impl Part for i16 {
    const SCALAR: Option<Scalar> = None;
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_i64() as i16
    }
}

/// One operand as packing sees it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) data: *const u8,
    pub(super) scalar: Scalar,
    /// Which of a point's offsets count.
    pub(super) slot: usize,
    pub(super) bounds: &'a [Bound],
}

// SAFETY: an address without meaning of its own; it is only read.
unsafe impl Sync for Source<'_> {}

/// Packs the elements of `lanes` and `sum`: number k of lane l becomes part `k % PER` of cell `k / PER * width + l`.
/// What is outside the bounds, lanes up to the width and what the last cell has left become 0.
///
/// # Safety
/// Every element inside the bounds is readable and aligned; `to` has room; at most [`MAX_NR`] lanes, not more than the
/// width.
pub(super) unsafe fn pack<S: Simd<Part: Part>>(
    source: Source<'_>,
    lanes: &[Point],
    sum: &[Point],
    width: usize,
    to: *mut S::Part,
) {
    // SAFETY: handed on.
    with_element!(source.scalar, E => unsafe { pack_of::<S, E>(source, lanes, sum, width, to) })
}

/// # Safety
/// As for [`pack`].
unsafe fn pack_of<S: Simd<Part: Part>, E: Element>(
    source: Source<'_>,
    lanes: &[Point],
    sum: &[Point],
    width: usize,
    to: *mut S::Part,
) {
    let (slot, data) = (source.slot, source.data.cast::<E>());
    let per = S::PER;
    let place = |k: usize, lane: usize| (k / per * width + lane) * per + k % per;
    let mut starts = [0; MAX_NR];
    starts.iter_mut().zip(lanes).for_each(|(start, lane)| *start = lane.at[slot]);
    let starts = &starts[..lanes.len()];
    // SAFETY: the caller's promises hold for every access below.
    unsafe {
        if lanes.len() < width || !sum.len().is_multiple_of(per) {
            to.write_bytes(0, sum.len().div_ceil(per) * width * per);
        }
        if !source.bounds.is_empty() {
            for (k, point) in sum.iter().enumerate() {
                for (l, lane) in lanes.iter().enumerate() {
                    let inside = source.bounds.iter().enumerate().all(|(d, bound)| {
                        let position = bound.start + lane.pos[d] + point.pos[d];
                        (position as u64) < bound.extent as u64
                    });
                    let part = if inside {
                        S::Part::of(data.offset((starts[l] + point.at[slot]) as isize).read())
                    } else {
                        S::Part::default()
                    };
                    to.add(place(k, l)).write(part);
                }
            }
            return;
        }
        let runs = starts.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if runs && per == 1 {
            for (k, point) in sum.iter().enumerate() {
                let from = data.offset((starts[0] + point.at[slot]) as isize);
                let to = to.add(k * width);
                if S::Part::SCALAR == Some(E::SCALAR) {
                    from.cast::<S::Part>().copy_to_nonoverlapping(to, lanes.len());
                } else {
                    (0..lanes.len()).for_each(|l| to.add(l).write(S::Part::of(from.add(l).read())));
                }
            }
            return;
        }
        // A few lanes at a time, so that both sides stay in the first-level cache.
        for (k0, points) in sum.chunks(16).enumerate() {
            for (l, &start) in starts.iter().enumerate() {
                for (k, point) in points.iter().enumerate() {
                    let element = data.offset((start + point.at[slot]) as isize).read();
                    to.add(place(k0 * 16 + k, l)).write(S::Part::of(element));
                }
            }
        }
    }
}

/// A row of elements, `step` apart, as parts `PER` apart.
///
/// # Safety
/// All elements are readable and aligned, all parts writable.
#[inline(always)]
pub(super) unsafe fn row<S: Simd<Part: Part>, E: Element>(
    from: *const E,
    step: isize,
    len: usize,
    to: *mut S::Part,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 && S::PER == 1 {
            if S::Part::SCALAR == Some(E::SCALAR) {
                from.cast::<S::Part>().copy_to_nonoverlapping(to, len);
            } else {
                (0..len).for_each(|i| to.add(i).write(S::Part::of(from.add(i).read())));
            }
        } else {
            (0..len)
                .for_each(|i| to.add(i * S::PER).write(S::Part::of(from.offset(i as isize * step).read())));
        }
    }
}
