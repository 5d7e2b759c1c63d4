//! Blocked axes (NC/xHWx, nChw8c, `NCHW_VECT_C`): construction, offsets, padding, and the loops
//! over two tensors of which either, both or none is blocked.

use super::{Axis, Dims, Layout, LoopNest, MAX_RANK, Split, format};

impl Layout {
    /// A packed tensor whose `axis` is held in groups of `block` neighbours: N x C/x x H x W x x
    /// for `axis` 1 of a 4-D tensor, with C rounded up to whole groups. `None` when a stride leaves
    /// 64 bits.
    ///
    /// `block` 1 is the packed tensor itself (nothing is split); `block == dims[axis]` has the
    /// offsets of the format with that axis innermost. Pre: `axis < dims.len()`, `block >= 1`.
    pub fn blocked(dims: &[i64], axis: usize, block: i64) -> Option<Layout> {
        assert!(axis < dims.len() && block >= 1, "axis {axis} in blocks of {block} of {dims:?}");
        let dims = Dims::new(dims);
        let mut groups = dims;
        groups[axis] = ceil_div(dims[axis], block);
        let mut strides = format::nchw_strides(&groups)?;
        for stride in strides.iter_mut() {
            *stride = stride.checked_mul(block)?;
        }
        let split = (block > 1).then(|| Split::new(axis, block));
        Some(Layout { dims, strides, split })
    }

    /// Block of dimension `axis`; 1 where it is not split.
    pub fn block(&self, axis: usize) -> i64 {
        self.split.filter(|s| s.axis() == axis).map_or(1, Split::block)
    }

    /// Where the element of these coordinates lies. Pre: one coordinate per dim, inside it; the
    /// span is known.
    pub fn offset(&self, index: &[i64]) -> i64 {
        (0..self.dims.rank()).map(|k| self.cut(k).offset(index[k])).sum()
    }

    /// Dims with the blocked axis rounded up to whole groups; `None` beyond 64 bits.
    pub fn padded_dims(&self) -> Option<Dims> {
        let mut dims = self.dims;
        if let Some(split) = self.split {
            dims[split.axis()] = ceil_div(dims[split.axis()], split.block()).checked_mul(split.block())?;
        }
        Some(dims)
    }

    /// Padding scalars in the last group of the blocked axis, per position of the other axes.
    pub fn padding(&self) -> i64 {
        self.split.map_or(0, |s| (s.block() - self.dims[s.axis()] % s.block()) % s.block())
    }

    /// Every scalar of the tensor, padding included, as one nest: for filling, spans and overlap.
    pub fn padded_nest(&self) -> LoopNest<1> {
        let mut nest = LoopNest::new(&[], [0]);
        for k in 0..self.dims.rank() {
            let block = self.block(k);
            nest.push(Axis { extent: ceil_div(self.dims[k], block), strides: [self.strides[k]] });
            if block > 1 {
                nest.push(Axis { extent: block, strides: [1] });
            }
        }
        nest
    }

    /// The padding scalars of the last group, which every operation writes as zero; `None` without
    /// padding. Together with the logical elements, these are the scalars of
    /// [`padded_nest`](Layout::padded_nest), each once. Pre: the padded span is known.
    pub fn tail(&self) -> Option<LoopNest<1>> {
        let split = self.split.filter(|_| self.padding() > 0)?.axis();
        let mut nest = LoopNest::new(&[], [self.cut(split).offset(self.dims[split] - 1) + 1]);
        for k in (0..self.dims.rank()).filter(|&k| k != split) {
            nest.push(Axis { extent: self.dims[k], strides: [self.strides[k]] });
        }
        nest.push(Axis { extent: self.padding(), strides: [1] });
        Some(nest)
    }

    /// The same memory read under larger dims: a dimension of which there is one element, or one
    /// group of a blocked axis, serves every coordinate. `None` if another dimension differs, or
    /// the rank does.
    ///
    /// Post: every offset lies inside the span of `self`.
    pub fn broadcast(mut self, dims: &[i64]) -> Option<Layout> {
        if self.dims.rank() != dims.len() {
            return None;
        }
        for (k, &extent) in dims.iter().enumerate() {
            if self.dims[k] == extent {
                continue;
            }
            if self.dims[k] == 1 {
                self.split = self.split.filter(|s| s.axis() != k);
            } else if self.dims[k] != self.block(k) || extent % self.block(k) != 0 {
                return None;
            }
            (self.dims[k], self.strides[k]) = (extent, 0);
        }
        Some(self)
    }

    /// How the coordinates of dimension `axis`, from 0 in steps of 1, map to offsets.
    pub fn cut(&self, axis: usize) -> Cut {
        Cut { start: 0, step: 1, stride: self.strides[axis], block: self.block(axis) }
    }
}

/// One operand's view of one logical axis: turn `i` visits coordinate `start + i * step`, which
/// lies at `(coordinate / block) * stride + coordinate % block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First coordinate, at least 0.
    pub start: i64,
    /// Coordinates per turn, at least 1.
    pub step: i64,
    /// Scalars from group to group, or from coordinate to coordinate if `block` is 1.
    pub stride: i64,
    /// Neighbours per group, at least 1.
    pub block: i64,
}

impl Cut {
    /// Where a coordinate lies. Pre: it is not negative.
    pub fn offset(&self, coordinate: i64) -> i64 {
        // Divisions are slow, and most layouts have no blocks.
        if self.block == 1 {
            return coordinate * self.stride;
        }
        coordinate / self.block * self.stride + coordinate % self.block
    }

    fn coordinate(&self, turn: i64) -> i64 {
        self.start + turn * self.step
    }

    /// Turns after which the place inside the group comes round again.
    fn period(&self) -> i64 {
        self.block / gcd(self.block, self.step)
    }

    /// Turns from this one on whose offsets advance evenly: to the end of the group, or without
    /// end.
    fn even_turns(&self, turn: i64) -> i64 {
        if self.period() == 1 {
            return i64::MAX;
        }
        (self.block - 1 - self.coordinate(turn) % self.block) / self.step + 1
    }

    fn starts_group(&self, turn: i64) -> bool {
        self.period() == 1 || self.coordinate(turn) % self.block < self.step.min(self.block)
    }
}

/// Cuts one logical axis of `extent` turns into pieces in which every operand moves evenly, and
/// hands each to `emit` as a nest of at most three loops.
///
/// Post: the pieces visit the offset tuple of every turn exactly once. One piece where the axis
/// starts and ends on group borders and the blocks divide each other: (C/B, B/b, b); one more for a
/// last group that is not full, one more for a start inside a group. Blocks that do not divide each
/// other take a piece per pattern within their common period. No allocation.
///
/// Pre: `extent >= 1`; the offsets of all turns, and their distances, are known to fit 64 bits.
pub fn segments<const N: usize>(extent: i64, cuts: [Cut; N], emit: &mut dyn FnMut(LoopNest<N>)) {
    let period = cuts.iter().fold(1, |period: i64, cut| {
        let p = cut.period();
        (p / gcd(p, period)).saturating_mul(period)
    });
    // The turns before the first that starts a group of every operand, else of the one with the
    // longest period.
    let search = period.min(extent);
    let longest = cuts.iter().rev().max_by_key(|cut| cut.period());
    let head = (0..search)
        .find(|&i| cuts.iter().all(|cut| cut.starts_group(i)))
        .or_else(|| (0..search).find(|&i| longest.is_some_and(|cut| cut.starts_group(i))))
        .unwrap_or(extent);
    let body = (extent - head) / period;
    let rest = head + body * period;
    even_runs(0..head, Repeat { count: 1, period }, cuts, emit);
    if body > 0 {
        even_runs(head..head + period, Repeat { count: body, period }, cuts, emit);
    }
    even_runs(rest..extent, Repeat { count: 1, period }, cuts, emit);
}

/// A range of turns that comes `count` times, each `period` turns after the last.
#[derive(Clone, Copy)]
struct Repeat {
    count: i64,
    period: i64,
}

/// Cuts `turns` into the longest even runs and emits rows of equally long, equally spaced runs
/// together.
fn even_runs<const N: usize>(
    turns: std::ops::Range<i64>, repeat: Repeat, cuts: [Cut; N], emit: &mut dyn FnMut(LoopNest<N>),
) {
    let offsets = |turn: i64| cuts.map(|c| c.offset(c.coordinate(turn)));
    // Strides are taken between turns that exist, so they are distances inside the span.
    let strides = |count: i64, from: i64, to: i64| match count {
        1 => [0; N],
        _ => std::array::from_fn(|k| offsets(to)[k] - offsets(from)[k]),
    };
    let run = |turn: i64| cuts.iter().fold(turns.end - turn, |len, c| len.min(c.even_turns(turn)));
    let mut turn = turns.start;
    while turn < turns.end {
        let (first, len) = (turn, run(turn));
        let mut count = 1;
        turn += len;
        // Runs of this length at even distances; two runs always are, a third may not be.
        let mut step = None;
        while turn < turns.end && run(turn) == len {
            let next = strides(2, turn - len, turn);
            if *step.get_or_insert(next) != next {
                break;
            }
            count += 1;
            turn += len;
        }
        emit(LoopNest::new(
            &[
                Axis { extent: repeat.count, strides: strides(repeat.count, first, first + repeat.period) },
                Axis { extent: count, strides: strides(count, first, first + len) },
                Axis { extent: len, strides: strides(len, first, first + 1) },
            ],
            offsets(first),
        ));
    }
}

/// The loops that visit every element of several tensors of equal dims together, handed to `emit`
/// nest by nest.
///
/// Post: the nests visit the tuple of offsets of every logical element exactly once; the padding of
/// blocked layouts is not among them (see [`Layout::tail`]). One nest where nothing is blocked or
/// the blocks divide each other and the dim; two for a last group that is not full. The nests are
/// not yet canonical; `emit` may make them so where they lie: copies of them are what small calls
/// notice.
///
/// Pre: equal dims, none 0; every span is known.
pub fn nests<const N: usize>(layouts: [&Layout; N], emit: &mut dyn FnMut(&mut LoopNest<N>)) {
    let Some(Layout { dims, .. }) = layouts.first() else { return };
    debug_assert!(layouts.iter().all(|layout| layout.dims == *dims));
    let mut is_split = [false; MAX_RANK];
    for split in layouts.iter().filter_map(|layout| layout.split).filter(|split| split.block() > 1) {
        is_split[split.axis()] = true;
    }
    let mut plain = LoopNest::new(&[], [0; N]);
    for k in (0..dims.rank()).filter(|&k| !is_split[k]) {
        plain.push(Axis { extent: dims[k], strides: layouts.map(|layout| layout.strides[k]) });
    }
    if !is_split.contains(&true) {
        return emit(&mut plain);
    }
    // Each operand splits one axis at most; usually all the same one.
    cut_axes(layouts, &is_split, 0, &mut plain, emit);
}

/// Multiplies `outer` by the pieces of every axis from `from` on that is split.
fn cut_axes<const N: usize>(
    layouts: [&Layout; N], is_split: &[bool; MAX_RANK], from: usize, outer: &mut LoopNest<N>,
    emit: &mut dyn FnMut(&mut LoopNest<N>),
) {
    let Some(k) = (from..MAX_RANK).find(|&k| is_split[k]) else { return emit(outer) };
    let extent = layouts.first().map_or(0, |layout| layout.dims[k]);
    segments(extent, layouts.map(|layout| layout.cut(k)), &mut |piece| {
        cut_axes(layouts, is_split, k + 1, &mut outer.times(&piece), emit);
    });
}

/// `ceil(a / b)` without overflow. Pre: `a >= 0`, `b >= 1`.
pub(super) fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

/// Greatest common divisor. Pre: both at least 1.
fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
