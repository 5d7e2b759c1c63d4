//! Packing and overlap: the predicates that tell whether a tensor has gaps, and whether it meets
//! itself.
//!
//! The definitions read dims and strides in decreasing order of stride ("WXYZ"); [`permute`] puts a
//! tensor whose dimensions are named in another order, such as NHWC, into it. They are literal: the
//! stride of a dimension of extent 1 counts, although no address depends on it, and frameworks
//! write anything there. What the original decides on, and what names a layout in a log, must not
//! depend on it: such callers apply [`without_unit_dims`] first.

use super::{Axis, Dims, Layout, MAX_RANK};

/// `values` in the order of a format: entry `i` is `values[order[i]]`. Pre: `order` holds indices
/// into it.
pub fn permute(values: &[i64], order: &[usize]) -> Dims {
    let mut permuted = Dims::filled(order.len(), 0);
    permuted.iter_mut().zip(order).for_each(|(p, &k)| *p = values[k]);
    permuted
}

/// Dims and strides without the dimensions of extent 1. Post: the same offsets in the same order.
pub fn without_unit_dims(dims: &[i64], strides: &[i64]) -> (Dims, Dims) {
    let (mut kept_dims, mut kept_strides) = (Dims::EMPTY, Dims::EMPTY);
    for (&dim, &stride) in dims.iter().zip(strides).filter(|&(&dim, _)| dim != 1) {
        kept_dims.push(dim);
        kept_strides.push(stride);
    }
    (kept_dims, kept_strides)
}

/// XYZ-fully-packed: `strides[i] == dims[i + 1] * strides[i + 1]` all the way, and the last stride
/// is 1.
pub fn is_fully_packed(dims: &[i64], strides: &[i64]) -> bool {
    is_partially_packed(dims, strides, |_| true)
}

/// Packed in some letters of WXYZ: `packed(i)` tells whether letter `i` is one of them.
///
/// A packed letter has `strides[i] == dims[i + 1] * strides[i + 1]`, any other at least that; the
/// last letter, if packed, has stride 1. Strides must not be negative: a format names dimensions by
/// positive strides.
pub fn is_partially_packed(dims: &[i64], strides: &[i64], packed: impl Fn(usize) -> bool) -> bool {
    strides.iter().enumerate().all(|(i, &stride)| match (packed(i), strides.get(i + 1)) {
        (true, None) => stride == 1,
        (false, None) => stride >= 0,
        (packed, Some(&inner)) => dims[i + 1]
            .checked_mul(inner)
            .is_some_and(|reach| reach >= 0 && if packed { stride == reach } else { stride >= reach }),
    })
}

/// The rule of thumb for overlap: in decreasing order of stride, some
/// `strides[i - 1] < strides[i] * dims[i]`.
///
/// `false` proves that no address is visited twice. `true` does not prove that one is: strides 3
/// and 2 of a 2x2 tensor reach 0, 2, 3 and 5. Dimensions of extent 1 and signs do not count. Pre:
/// as [`Layout::overlaps`].
pub fn strides_cross(dims: &[i64], strides: &[i64]) -> bool {
    let layout = Layout { dims: Dims::new(dims), strides: Dims::new(strides), split: None };
    axes_cross(layout.padded_nest().canonical().axes())
}

impl Layout {
    /// Whether a walk of the whole range, padding included, visits some address twice. Such a
    /// tensor may be read; as a destination its result depends on the order of writes.
    ///
    /// Exact, except that a search without end in sight (only strides that share no pattern with
    /// the dims lead there) is given up and answered with `true`, the safe side. Pre:
    /// [`extent`](Layout::extent) is known.
    pub fn overlaps(&self) -> bool {
        if self.split.is_none() && !dims_cross(&self.dims, &self.strides) {
            return false; // as almost always
        }
        let nest = self.padded_nest().canonical();
        let mut steps = SEARCH_STEPS;
        axes_cross(nest.axes()) && has_collision(nest.axes(), 0, false, &mut steps)
    }
}

/// The rule of thumb straight from dims and strides, which may say `true` where the canonical nest
/// says `false`. Pre: as [`Layout::overlaps`].
fn dims_cross(dims: &[i64], strides: &[i64]) -> bool {
    // Every dimension must step over all that the dimensions of smaller stride reach: sorted by
    // insertion.
    let mut order = [(0_u64, 1_u64); MAX_RANK];
    let mut rank = 0;
    for (&dim, &stride) in dims.iter().zip(strides).filter(|&(&dim, _)| dim != 1) {
        let mut at = rank;
        while at > 0 && order[at - 1].0 > stride.unsigned_abs() {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = (stride.unsigned_abs(), dim.unsigned_abs());
        rank += 1;
    }
    let mut reach = 1;
    order[..rank].iter().any(|&(stride, dim)| {
        let crosses = stride < reach;
        // The extent has room for `dim - 1` strides in 63 bits, and this is at most twice as much.
        reach = dim * stride;
        crosses
    })
}

/// Differences of index tuples that one search looks at: some tens of microseconds.
const SEARCH_STEPS: u32 = 10_000;

/// The rule of thumb on a canonical nest; folding keeps its answer, since a folded pair does not
/// cross.
fn axes_cross(axes: &[Axis<1>]) -> bool {
    let crossing = |outer: &Axis<1>, inner: &Axis<1>| {
        i128::from(outer.strides[0]) < i128::from(inner.extent) * i128::from(inner.strides[0])
    };
    axes.last().is_some_and(|a| a.strides[0] == 0) || axes.windows(2).any(|w| crossing(&w[0], &w[1]))
}

/// Whether two different index tuples meet: whether there are differences `d[i]` of at most
/// `extent - 1` either way, not all zero, with `distance + sum d[i] * strides[i] == 0`. Depth
/// first, skipping every difference that the remaining axes cannot bring back to zero. Pre:
/// canonical axes.
fn has_collision(axes: &[Axis<1>], distance: i128, moved: bool, steps: &mut u32) -> bool {
    let Some((axis, inner)) = axes.split_first() else { return moved && distance == 0 };
    let (most, stride) = (i128::from(axis.extent - 1), i128::from(axis.strides[0]));
    if stride == 0 {
        // Two turns of this loop meet at once; nothing further inside moves anything.
        return distance == 0;
    }
    let reach: i128 = inner.iter().map(|a| i128::from(a.extent - 1) * i128::from(a.strides[0])).sum();
    let first =
        (-reach - distance).div_euclid(stride) + i128::from((-reach - distance).rem_euclid(stride) > 0);
    let last = (reach - distance).div_euclid(stride);
    // A collision and its mirror image come together: the first difference that is not zero may be
    // positive.
    let first = if moved { first.max(-most) } else { first.max(0) };
    for d in first..=last.min(most) {
        if *steps == 0 {
            return true;
        }
        *steps -= 1;
        if has_collision(inner, distance + d * stride, moved || d != 0, steps) {
            return true;
        }
    }
    false
}
