//! Packing: elements of one operand, wherever they lie, into panels of cells that kernels walk in one stream.

use super::points::{Even, Point};
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
    sum: &[Even],
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
    sum: &[Even],
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
        let total: usize = sum.iter().map(|even| even.len).sum();
        if lanes.len() < width || !total.is_multiple_of(per) {
            to.write_bytes(0, total.div_ceil(per) * width * per);
        }
        let runs = starts.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let mut begin = 0;
        for even in sum {
            let (by, len) = (even.by as isize, even.len);
            if !source.bounds.is_empty() {
                for (l, lane) in lanes.iter().enumerate() {
                    let (mut low, mut high) = (0, len as i64);
                    for (d, bound) in source.bounds.iter().enumerate() {
                        let position = bound.start + lane.pos[d] + even.pos[d];
                        let inside = inside(position, even.pos_by[d], bound.extent, len as i64);
                        (low, high) = (low.max(inside.0), high.min(inside.1));
                    }
                    let (low, high) = if low < high { (low as usize, high as usize) } else { (0, 0) };
                    let from = data.wrapping_offset((starts[l] + even.at) as isize);
                    (0..low).for_each(|k| to.add(place(begin + k, l)).write(S::Part::default()));
                    for k in low..high {
                        let element = from.wrapping_offset(k as isize * by).read();
                        to.add(place(begin + k, l)).write(S::Part::of(element));
                    }
                    (high..len).for_each(|k| to.add(place(begin + k, l)).write(S::Part::default()));
                }
            } else if runs && per == 1 {
                for k in 0..len {
                    let from = data.offset((starts[0] + even.at) as isize + k as isize * by);
                    row::<S, E>(from, 1, lanes.len(), to.add((begin + k) * width));
                }
            } else {
                let from: [*const E; MAX_NR] = std::array::from_fn(|l| {
                    data.wrapping_offset((starts.get(l).copied().unwrap_or(0) + even.at) as isize)
                });
                match (lanes.len(), per) {
                    (6, 1) => side_by_side::<S, E, 6>(&from, by, len, width, to.add(begin * width)),
                    (5, 1) => side_by_side::<S, E, 5>(&from, by, len, width, to.add(begin * width)),
                    (16, 1) => side_by_side::<S, E, 16>(&from, by, len, width, to.add(begin * width)),
                    (count, _) => {
                        for k in 0..len {
                            for (l, from) in from[..count].iter().enumerate() {
                                let element = from.offset(k as isize * by).read();
                                to.add(place(begin + k, l)).write(S::Part::of(element));
                            }
                        }
                    }
                }
            }
            begin += len;
        }
    }
}

/// Rows of elements `by` apart, one from each of `L` places to a line of the panel.
///
/// # Safety
/// All elements are readable and aligned, all parts writable.
#[inline(always)]
unsafe fn side_by_side<S: Simd<Part: Part>, E: Element, const L: usize>(
    from: &[*const E; MAX_NR],
    by: isize,
    len: usize,
    width: usize,
    to: *mut S::Part,
) {
    for k in 0..len {
        for (l, from) in from[..L].iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(k * width + l).write(S::Part::of(from.offset(k as isize * by).read())) };
        }
    }
}

/// The turns among `len` that leave `position + turn * by` in `0..extent`: from the first up to the second.
#[inline(always)]
fn inside(position: i64, by: i64, extent: i64, len: i64) -> (i64, i64) {
    match by {
        0 if (0..extent).contains(&position) => (0, len),
        0 => (0, 0),
        _ if by > 0 => ((-position + by - 1).div_euclid(by), (extent - position + by - 1).div_euclid(by)),
        // From the other end: above `position - extent` and up to `position` steps down.
        _ => ((position - extent).div_euclid(-by) + 1, position.div_euclid(-by) + 1),
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
        } else if step == 2 && S::PER == 1 {
            // A constant, so that the loop becomes shuffles.
            (0..len).for_each(|i| to.add(i).write(S::Part::of(from.add(2 * i).read())));
        } else {
            (0..len)
                .for_each(|i| to.add(i * S::PER).write(S::Part::of(from.offset(i as isize * step).read())));
        }
    }
}
