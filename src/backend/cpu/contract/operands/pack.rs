//! Packing: elements of one operand, wherever they lie, into panels of cells that kernels walk in
//! one stream.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod quads;
mod transpose;

use std::mem::MaybeUninit;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use self::quads::quads;
use self::transpose::{FOUR, transpose_lines};
pub use self::transpose::{MANY, transpose_many};
use super::points::{OperandOffsets, StridedRun};
pub use super::source::Source;
use super::view::View;
use crate::backend::cpu::contract::kernel::simd::{MAX_NR, Simd};
use crate::backend::cpu::row::Row;
use crate::backend::cpu::stream::fetch;
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::ops::Scaling;
use crate::ops::contract::Bound;

/// What packing writes, from any element.
pub trait PackScalar: Copy + Default + 'static {
    const SCALAR: Option<Scalar>;
    fn of<E: Element>(element: E) -> Self;

    /// Whether such elements are parts as they are.
    fn is_native(scalar: Scalar) -> bool {
        Self::SCALAR == Some(scalar)
    }

    /// Whether such elements ever become parts: for the others nothing is compiled.
    #[inline(always)]
    fn is_made_of<E: Element>() -> bool {
        true
    }
}

impl PackScalar for f32 {
    const SCALAR: Option<Scalar> = Some(Scalar::F32);
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_f32()
    }
}

impl PackScalar for f64 {
    const SCALAR: Option<Scalar> = Some(Scalar::F64);
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_f64()
    }
}

impl PackScalar for i16 {
    const SCALAR: Option<Scalar> = None;
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_i64() as i16
    }

    /// [`check_sums`](crate::ops::Contract::check_sums) refuses other sums in integers.
    #[inline(always)]
    fn is_made_of<E: Element>() -> bool {
        matches!(E::SCALAR, Scalar::I8 | Scalar::U8)
    }
}

/// Bytes with a sign or without: what a bit stands for is a matter of the kernels.
impl PackScalar for u8 {
    const SCALAR: Option<Scalar> = None;
    #[inline(always)]
    fn of<E: Element>(element: E) -> Self {
        element.to_i64() as u8
    }

    fn is_native(scalar: Scalar) -> bool {
        matches!(scalar, Scalar::I8 | Scalar::U8)
    }

    #[inline(always)]
    fn is_made_of<E: Element>() -> bool {
        Self::is_native(E::SCALAR)
    }
}

/// Packs the elements of `lanes` and `sum`: number k of lane l becomes part `k % K_PACK` of cell
/// `k / K_PACK * width + l`. What is outside the bounds, lanes up to the width and what the last
/// cell has left become 0. [Compensation](Simd::COMPENSATION) follow.
///
/// # Safety
/// Every element inside the bounds is readable and aligned; `to` has room; at most [`MAX_NR`]
/// lanes, not more than the width.
pub unsafe fn pack<S: Simd<Scalar: PackScalar>>(
    source: Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun], width: usize, to: *mut S::Scalar,
) {
    source.assert_holds_all(lanes, sum);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if S::K_PACK == 4 {
        // SAFETY: elements inside the bounds are readable, and parts are bytes.
        return unsafe { quads::pack(source, lanes, sum, width, to.cast()) };
    }
    // SAFETY: elements inside the bounds are readable, and `to` has room for the panel.
    with_element!(source.scalar, E => unsafe {
        assert!(<S::Scalar as PackScalar>::is_made_of::<E>(), "sums of {}", source.scalar.name());
        pack_of::<S::Portable, E>(source, lanes, sum, width, to);
    });
}

/// Some lanes of an operand: how many, and how far each one is from the first element of its
/// product.
pub type LaneOffsets<'a> = (usize, &'a dyn Fn(usize) -> i64);

/// Packs what all tasks read of `b`: the lanes of every product of the batch in panels of `nr`,
/// which lie `cells` apart.
///
/// # Safety
/// As for [`pack`], of all panels.
pub unsafe fn pack_panels<S: Simd<Scalar: PackScalar>>(
    view: &View<'_>, (count, lane): LaneOffsets<'_>, sum: &[StridedRun], nr: usize, to: *mut S::KGroup,
    cells: usize,
) {
    let View { b: source, batch, origin, .. } = view;
    let (slot, panels) = (source.slot, count.div_ceil(nr));
    let mut lanes = [OperandOffsets::default(); MAX_NR];
    for number in 0..batch.len() * panels {
        let first = origin[slot] + batch.offset(number / panels, slot);
        let begin = number % panels * nr;
        let own = &mut lanes[..nr.min(count - begin)];
        own.iter_mut().enumerate().for_each(|(l, point)| point.at[slot] = first + lane(begin + l));
        // SAFETY: elements inside the bounds are readable, and the panel has its place.
        unsafe { pack::<S>(*source, own, sum, nr, to.wrapping_add(number * cells).cast()) };
    }
}

/// Parts that are staged at once, where cells are parts: of all lanes that are turned together.
const STAGED: usize = 1024;

/// Parts of a lane where cells are pairs: a whole K block of the sum.
const PAIRS: usize = 1024;

/// Evens that are fetched ahead.
const PREFETCH_DISTANCE: usize = 3;

/// Evens shorter than this are not worth staging.
const SHORT: usize = 8;

/// # Safety
/// As for [`pack`].
unsafe fn pack_of<S: Simd<Scalar: PackScalar>, E: Element>(
    source: Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun], width: usize, to: *mut S::Scalar,
) {
    let (slot, data) = (source.slot, source.data.cast::<E>());
    let bounded = !source.bounds.is_empty();
    let mut starts = [0; MAX_NR];
    starts.iter_mut().zip(lanes).for_each(|(start, lane)| *start = lane.at[slot]);
    let starts = &starts[..lanes.len()];
    let total: usize = sum.iter().map(|even| even.terms(S::K_PACK)).sum();
    // SAFETY: elements are read inside the bounds only, and cells written inside the panel.
    unsafe {
        if lanes.len() < width {
            to.write_bytes(0, total.div_ceil(S::K_PACK) * width * S::K_PACK);
        }
        if S::K_PACK > 1 {
            return pack_pairs::<S, E>(source, lanes, sum, total, width, to);
        }
        let side_by_side = !bounded && starts.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let mut staged = [const { MaybeUninit::<S::Scalar>::uninit() }; STAGED];
        // Asked for once: to ask again would take the lines that are staged from who reads them.
        let stage_at = staged.as_mut_ptr().cast::<S::Scalar>();
        let mut begin = 0;
        for (number, even) in sum.iter().enumerate() {
            let (by, len) = (even.by as isize, even.len);
            let together = if !bounded && len >= MANY && starts.len() >= MANY / 2 { MANY } else { FOUR };
            // Short runs from many pages: the processor does not see the next ones coming.
            if len <= 2 * SHORT
                && !bounded
                && let Some(next) = sum.get(number + PREFETCH_DISTANCE)
            {
                for start in starts {
                    fetch(data.wrapping_offset((start + next.at) as isize).cast());
                }
            }
            if side_by_side {
                let from = data.wrapping_offset((starts[0] + even.at) as isize);
                for k in 0..len {
                    let (from, to) = (from.wrapping_offset(k as isize * by), to.add((begin + k) * width));
                    line::<S, E>(from, lanes.len(), to);
                }
            } else if len < SHORT && !bounded {
                for (l, start) in starts.iter().enumerate() {
                    let from = data.wrapping_offset((start + even.at) as isize);
                    for k in 0..len {
                        let element = from.wrapping_offset(k as isize * by).read();
                        to.add((begin + k) * width + l).write(S::Scalar::of(element));
                    }
                }
            } else {
                // Lines that are read where they lie have any length.
                let is_there = by == 1 && !bounded && S::Scalar::SCALAR == Some(E::SCALAR);
                let line = if is_there { len.max(1) } else { STAGED / together };
                for (group, starts) in starts.chunks(together).enumerate() {
                    let lanes = &lanes[group * together..];
                    for first in (0..len).step_by(line) {
                        let count = line.min(len - first);
                        let mut lines = [std::ptr::null(); MANY];
                        // Backwards from the last one.
                        let back = by == -1 && !bounded && S::Scalar::SCALAR == Some(E::SCALAR);
                        for (l, start) in starts.iter().enumerate() {
                            let (low, high) = even.inside(&lanes[l], source.bounds);
                            let from = data.wrapping_offset((start + even.at) as isize);
                            let from = from.wrapping_offset(first as isize * by);
                            let whole = low <= first && high >= first + count;
                            lines[l] = if whole && by == 1 && S::Scalar::SCALAR == Some(E::SCALAR) {
                                from.cast()
                            } else if back {
                                from.wrapping_sub(count - 1).cast()
                            } else {
                                let end = first + count;
                                let inside = [low.clamp(first, end) - first, high.clamp(first, end) - first];
                                let to = stage_at.wrapping_add(l * line);
                                stage::<S, E>(source.convert, from, by, inside, count, to);
                                to
                            };
                        }
                        let lines = &lines[..starts.len()];
                        let to = to.add((begin + first) * width + group * together);
                        let (to, width) = match back {
                            true => (to.add((count - 1) * width), -(width as isize)),
                            false => (to, width as isize),
                        };
                        if together == FOUR {
                            transpose_lines(lines, count, to, width);
                        } else {
                            transpose_many(lines, count, to, width, source.isa);
                        }
                    }
                }
            }
            begin += len;
        }
    }
}

/// [`pack_of`] where cells are pairs of parts.
///
/// # Safety
/// As for [`pack`].
unsafe fn pack_pairs<S: Simd<Scalar: PackScalar>, E: Element>(
    source: Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun], total: usize, width: usize,
    to: *mut S::Scalar,
) {
    assert!(total <= PAIRS, "a k_block of the sum has at most {PAIRS} parts");
    let data = source.data.cast::<E>();
    let mut staged = [const { MaybeUninit::<[S::Scalar; PAIRS]>::uninit() }; FOUR];
    for (group, lanes) in lanes.chunks(FOUR).enumerate() {
        let mut lines: [*const S::KGroup; FOUR] = [std::ptr::null(); FOUR];
        for (l, lane) in lanes.iter().enumerate() {
            let line = staged[l].as_mut_ptr().cast::<S::Scalar>();
            let mut begin = 0;
            for even in sum {
                let from = data.wrapping_offset((lane.at[source.slot] + even.at) as isize);
                if let Some([far, ..]) = even.group_offsets {
                    let (step, to) = (even.by as isize, line.wrapping_add(begin));
                    // SAFETY: both parts of every cell are readable, and `to` has room for
                    // `2 * len`.
                    unsafe {
                        if (step, far) == (2, 1) {
                            (0..2 * even.len)
                                .for_each(|k| to.add(k).write(S::Scalar::of(from.add(k).read())));
                        } else {
                            pairs::<S, E>([from, from.wrapping_offset(far as isize)], step, even.len, to);
                        }
                    }
                    begin += 2 * even.len;
                    continue;
                }
                let (low, high) = even.inside(lane, source.bounds);
                let (by, to) = (even.by as isize, line.wrapping_add(begin));
                // SAFETY: elements from `low` to `high` are readable, and there is room for `len`
                // parts.
                unsafe { stage::<S, E>(source.convert, from, by, [low, high], even.len, to) };
                begin += even.len;
            }
            // SAFETY: a line has room for whole cells.
            unsafe { line.add(total).write_bytes(0, total.next_multiple_of(S::K_PACK) - total) };
            lines[l] = line.cast();
        }
        let to = to.cast::<S::KGroup>().wrapping_add(group * FOUR);
        // SAFETY: as many cells as the lines have.
        unsafe { transpose_lines(&lines[..lanes.len()], total.div_ceil(S::K_PACK), to, width as isize) };
    }
}

/// The elements `low..high` of a lane, `by` apart, as parts; 0 for the others of `len`.
///
/// # Safety
/// Those elements are readable and aligned, and `len` parts are writable.
#[inline(always)]
unsafe fn stage<S: Simd<Scalar: PackScalar>, E: Element>(
    convert: Option<Row>, from: *const E, by: isize, [low, high]: [usize; 2], len: usize, to: *mut S::Scalar,
) {
    // SAFETY: elements from `low` to `high` are readable, and `to` has room for `len` parts.
    unsafe {
        if low >= high {
            to.write_bytes(0, len);
            return;
        }
        to.write_bytes(0, low);
        to.add(high).write_bytes(0, len - high);
        let (to, count) = (to.add(low), high - low);
        let first = from.wrapping_offset(low as isize * by);
        match convert {
            Some(convert) if by == 1 => convert(to.cast(), first.cast(), count, Scaling::MOVE),
            _ if by == 1 => (0..count).for_each(|k| to.add(k).write(S::Scalar::of(first.add(k).read()))),
            // A constant, so that the loop becomes shuffles.
            _ if by == 2 => (0..count).for_each(|k| to.add(k).write(S::Scalar::of(first.add(2 * k).read()))),
            _ => {
                let at = |k: usize| first.wrapping_offset(k as isize * by);
                (0..count).for_each(|k| to.add(k).write(S::Scalar::of(at(k).read())));
            }
        }
    }
}

/// `count` neighbours as parts.
///
/// # Safety
/// All elements are readable and aligned, all parts writable.
#[inline(always)]
unsafe fn line<S: Simd<Scalar: PackScalar>, E: Element>(from: *const E, count: usize, to: *mut S::Scalar) {
    // SAFETY: `count` elements are readable, and as many parts writable.
    unsafe {
        match count {
            6 => exactly::<S, E, 6>(from, to),
            5 => exactly::<S, E, 5>(from, to),
            16 => exactly::<S, E, 16>(from, to),
            _ => (0..count).for_each(|l| to.add(l).write(S::Scalar::of(from.add(l).read()))),
        }
    }
}

/// [`line`] of a constant length, so that the loop becomes a few vectors.
///
/// # Safety
/// As for [`line`].
#[inline(always)]
unsafe fn exactly<S: Simd<Scalar: PackScalar>, E: Element, const L: usize>(
    from: *const E, to: *mut S::Scalar,
) {
    if S::Scalar::SCALAR == Some(E::SCALAR) {
        // SAFETY: `L` elements are readable, and as many parts, which are elements as they are,
        // writable.
        return unsafe { to.cast::<[S::Scalar; L]>().write(from.cast::<[S::Scalar; L]>().read()) };
    }
    let mut l = 0;
    while l < L {
        // SAFETY: `N` elements are readable, and as many parts writable.
        unsafe { to.add(l).write(S::Scalar::of(from.add(l).read())) };
        l += 1;
    }
}

/// Neighbouring strips of lanes that are near each other in memory, all at once, so that what lies
/// in one cache line is read once: strip i has `strips[i].0` lanes and goes to `strips[i].1`.
/// `starts` says where the lanes are, if not side by side from `start` on.
///
/// # Safety
/// As for [`pack`], for every strip; the operand has no bounds, and cells are parts.
pub unsafe fn pack_across<S: Simd<Scalar: PackScalar>>(
    source: Source<'_>, start: i64, starts: Option<&[i64]>, strips: &[(usize, *mut S::Scalar)],
    sum: &[StridedRun],
) {
    if cfg!(debug_assertions) {
        for lane in 0..strips.iter().map(|strip| strip.0).sum() {
            let at = starts.map_or(start + lane as i64, |starts| starts[lane]);
            sum.iter().for_each(|even| source.held.assert_holds(at + even.at, even.by, even.len));
        }
    }
    with_element!(source.scalar, E => {
        let data = source.data.cast::<E>();
        let mut begin = 0;
        for even in sum {
            for k in 0..even.len {
                let at = even.at + k as i64 * even.by;
                let mut from = data.wrapping_offset((start + at) as isize);
                let mut starts = starts;
                for &(count, to) in strips {
                    // SAFETY: every strip has `count` lanes, and its place in `to`.
                    unsafe {
                        let to = to.add((begin + k) * count);
                        if let Some((these, others)) = starts.map(|starts| starts.split_at(count)) {
                            for (l, start) in these.iter().enumerate() {
                                let from = data.wrapping_offset((start + at) as isize);
                                to.add(l).write(S::Scalar::of(from.read()));
                            }
                            starts = Some(others);
                        } else {
                            line::<S, E>(from, count, to);
                        }
                    }
                    from = from.wrapping_add(count);
                }
            }
            begin += even.len;
        }
    });
}

impl StridedRun {
    /// Terms of the sum if a cell holds `per` of them.
    pub fn terms(&self, per: usize) -> usize {
        self.len * if self.group_offsets.is_some() { per } else { 1 }
    }

    /// The turns for which a lane is inside the bounds: from the first up to the second.
    #[inline(always)]
    pub fn inside(&self, lane: &OperandOffsets, bounds: &[Bound]) -> (usize, usize) {
        let (mut low, mut high) = (0, self.len as i64);
        for (d, bound) in bounds.iter().enumerate() {
            let position = bound.start + lane.pos[d] + self.pos[d];
            let inside = inside(position, self.pos_by[d], bound.extent, self.len as i64);
            (low, high) = (low.max(inside.0), high.min(inside.1));
        }
        if low < high { (low as usize, high as usize) } else { (0, 0) }
    }
}

/// The iterations among `len` that leave `position + i * by` in `0..extent`: from the first up to
/// the second.
#[inline(always)]
pub fn inside(position: i64, by: i64, extent: i64, len: i64) -> (i64, i64) {
    match by {
        0 if (0..extent).contains(&position) => (0, len),
        0 => (0, 0),
        // Divisions are slow.
        1 => (-position, extent - position),
        _ if by > 0 => ((-position + by - 1).div_euclid(by), (extent - position + by - 1).div_euclid(by)),
        // From the other end: above `position - extent` and up to `position` steps down.
        _ => ((position - extent).div_euclid(-by) + 1, position.div_euclid(-by) + 1),
    }
}

/// A row of elements, `step` apart, as parts `K_PACK` apart.
///
/// # Safety
/// All elements are readable and aligned, all parts writable.
#[inline(always)]
pub unsafe fn row<S: Simd<Scalar: PackScalar>, E: Element>(
    convert: Option<Row>, from: *const E, step: isize, len: usize, to: *mut S::Scalar,
) {
    // SAFETY: `len` elements are readable, `step` apart, and as many parts writable.
    unsafe {
        if step == 1 && S::K_PACK == 1 {
            if S::Scalar::SCALAR == Some(E::SCALAR) {
                from.cast::<S::Scalar>().copy_to_nonoverlapping(to, len);
            } else if let Some(convert) = convert {
                convert(to.cast(), from.cast(), len, Scaling::MOVE);
            } else {
                (0..len).for_each(|i| to.add(i).write(S::Scalar::of(from.add(i).read())));
            }
        } else if step == 2 && S::K_PACK == 1 {
            // A constant, so that the loop becomes shuffles.
            (0..len).for_each(|i| to.add(i).write(S::Scalar::of(from.add(2 * i).read())));
        } else {
            (0..len).for_each(|i| {
                to.add(i * S::K_PACK).write(S::Scalar::of(from.offset(i as isize * step).read()))
            });
        }
    }
}

/// Two rows of elements, `step` apart, as the parts of cells of pairs.
///
/// # Safety
/// All elements are readable and aligned, all parts writable.
#[inline(always)]
pub unsafe fn pairs<S: Simd<Scalar: PackScalar>, E: Element>(
    [first, second]: [*const E; 2], step: isize, len: usize, to: *mut S::Scalar,
) {
    let to = to.cast::<[S::Scalar; 2]>();
    // SAFETY: `len` pairs of elements are readable, and as many pairs of parts writable.
    unsafe {
        if step == 1 {
            (0..len).for_each(|i| {
                to.add(i).write([S::Scalar::of(first.add(i).read()), S::Scalar::of(second.add(i).read())]);
            });
        } else {
            (0..len).for_each(|i| {
                let at = i as isize * step;
                let pair = [first.wrapping_offset(at), second.wrapping_offset(at)];
                to.add(i).write(pair.map(|at| S::Scalar::of(at.read())));
            });
        }
    }
}
