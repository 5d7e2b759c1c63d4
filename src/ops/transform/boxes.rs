//! From a transform plan to its problems: the destination is cut into boxes of evenly spaced
//! coordinates, each of which is one affine problem.

use std::ops::Range;

use super::{Map, Sink, TransformPlan, Types};
use crate::desc::Folding;
use crate::desc::tensor::CHANNEL;
use crate::error::Result;
use crate::layout::{self, Axis, Cut, Dims, Layout, LoopNest, MAX_RANK};
use crate::ops::{Padded, Scale, Step, Transform};

/// Hands every problem of `plan` to `sink`; ends at its first error.
pub(super) fn emit(plan: &TransformPlan, sink: Sink<'_>) -> Result<()> {
    let mut emit = Emitter { plan, sink, outcome: Ok(()) };
    match &plan.map {
        None => emit.whole(),
        Some(map) => {
            emit.mapped(map);
            emit.tail();
        }
    }
    emit.outcome
}

/// Evenly spaced coordinates of one dimension.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    start: i64,
    step: i64,
}

/// One dimension of a box: `count` turns over coordinates of both tensors.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    count: i64,
    dst: Steps,
    src: Steps,
}

/// A box of up to eight dimensions.
type Sides = [Side; MAX_RANK];

/// Turns a plan's boxes into problems. After an error nothing more is passed to the sink.
struct Emitter<'a, 's> {
    plan: &'a TransformPlan<'a>,
    sink: Sink<'s>,
    outcome: Result<()>,
}

impl Emitter<'_, '_> {
    fn rank(&self) -> usize {
        self.plan.dst.dims.rank()
    }

    fn send(&mut self, part: Step<'_>) {
        if self.outcome.is_ok() {
            self.outcome = (self.sink)(part);
        }
    }

    fn transform(&mut self, mut nest: LoopNest<2>) {
        if !self.plan.ordered {
            nest.canonicalise();
        }
        let Types { src, dst } = self.plan.types;
        let scaling = self.plan.scaling;
        self.send(Step::Transform(&Transform { nest, dst, src, scaling }));
    }

    fn fill(&mut self, mut nest: LoopNest<1>, beta: f64) {
        if !self.plan.ordered {
            nest.canonicalise();
        }
        self.send(Step::Scale(&Scale { nest, dst: self.plan.types.dst, beta }));
    }

    /// Every element to the element of the same coordinates, where a layout is blocked.
    fn whole(&mut self) {
        let mut sides = Sides::default();
        for (side, &extent) in sides.iter_mut().zip(self.plan.dst.dims.iter()) {
            let steps = Steps { start: 0, step: 1 };
            *side = Side { count: extent, dst: steps, src: steps };
        }
        let last = self.last_group(&sides, i64::MAX);
        self.transform_box(&sides, last.as_ref());
        if last.is_none() {
            self.tail();
        }
    }

    /// The padding that belongs to a blocked layout, which has no coordinates.
    fn tail(&mut self) {
        if let Some(tail) = self.plan.dst.tail() {
            self.fill(tail, 0.0);
        }
    }

    fn mapped(&mut self, map: &Map) {
        match map.direction {
            Folding::Fold => {
                for q in 0..map.groups() {
                    if self.outcome.is_err() {
                        break;
                    }
                    let region = self.fold_region(map, q);
                    let valid = self.fold_box(map, q);
                    let last = self.last_group(&valid, region[CHANNEL].dst.start + region[CHANNEL].count);
                    let mut written = valid;
                    written[CHANNEL].count += last.map_or(0, |last| last.zeros);
                    self.fill_around(&region, &written);
                    self.transform_box(&valid, last.as_ref());
                }
            }
            Folding::Unfold => {
                let image = self.unfold_image(map);
                self.fill_around(&self.all(), &image);
                if !is_empty(&image[..self.rank()]) {
                    self.unfold(map, &image, 0, Dims::filled(self.rank(), 0));
                }
            }
        }
    }

    /// The whole destination.
    fn all(&self) -> Sides {
        let mut sides = Sides::default();
        for (side, &extent) in sides.iter_mut().zip(self.plan.dst.dims.iter()) {
            *side = Side { count: extent, dst: Steps { start: 0, step: 1 }, ..Side::default() };
        }
        sides
    }

    /// The part of the destination that belongs to group `q` of a fold.
    fn fold_region(&self, map: &Map, q: i64) -> Sides {
        let mut sides = self.all();
        sides[CHANNEL].count = map.group;
        sides[CHANNEL].dst.start = q * map.group;
        sides
    }

    /// The elements of group `q` of a fold that have a source: coordinate `y` of a folded dimension
    /// shows padded coordinate `y * factor + position`.
    fn fold_box(&self, map: &Map, q: i64) -> Sides {
        let region = self.fold_region(map, q);
        let position = map.position(q);
        let mut sides = Sides::default();
        for axis in 0..self.rank() {
            let (factor, shift) = (map.factors[axis], map.before[axis] - position[axis]);
            // Source coordinate of turn y is y * factor - shift.
            let low = ceil_div(shift, factor).max(0);
            // The last block may reach beyond the padded extent, where a crop ends the source
            // early.
            let last = self.plan.src.dims[axis] - 1 + map.after[axis].min(0);
            let high = floor_div(last + shift, factor);
            sides[axis] = Side {
                count: high - low + 1,
                dst: Steps { start: region[axis].dst.start + low, step: 1 },
                src: Steps { start: low * factor - shift, step: factor },
            };
        }
        sides
    }

    /// The part of the destination between the padding of an unfold.
    fn unfold_image(&self, map: &Map) -> Sides {
        let mut sides = Sides::default();
        for (axis, side) in sides.iter_mut().enumerate().take(self.rank()) {
            let extent = match axis {
                CHANNEL => map.group,
                _ => self.plan.src.dims[axis] * map.factors[axis],
            };
            let low = map.before[axis].max(0);
            let high = (map.before[axis] + extent).min(self.plan.dst.dims[axis]);
            *side = Side { count: high - low, dst: Steps { start: low, step: 1 }, src: Steps::default() };
        }
        sides
    }

    /// The groups of an unfold at every position that meets its image, in row-major order;
    /// `position` is complete below `axis`. They are as many as the image has elements at most,
    /// whatever the factors.
    fn unfold(&mut self, map: &Map, image: &Sides, axis: usize, mut position: Dims) {
        if axis == self.rank() {
            let (valid, missing) = self.unfold_boxes(map, &position);
            self.transform_box(&valid, None);
            return self.fill_box(&missing, self.plan.scaling.beta);
        }
        for position_here in
            positions(map.factors[axis], &image[axis], map.before[axis]).into_iter().flatten()
        {
            if self.outcome.is_err() {
                return;
            }
            position[axis] = position_here;
            self.unfold(map, image, axis + 1, position);
        }
    }

    /// The elements that the group at `position` of an unfold fills, and those that it leaves
    /// without a source because the channels do not divide evenly.
    fn unfold_boxes(&self, map: &Map, position: &Dims) -> (Sides, Sides) {
        let mut valid = Sides::default();
        for axis in (0..self.rank()).filter(|&axis| axis != CHANNEL) {
            let (factor, shift) = (map.factors[axis], map.before[axis] + position[axis]);
            // Destination coordinate of source coordinate s is s * factor + shift.
            let low = ceil_div(-shift, factor).max(0);
            let high =
                floor_div(self.plan.dst.dims[axis] - 1 - shift, factor).min(self.plan.src.dims[axis] - 1);
            valid[axis] = Side {
                count: high - low + 1,
                dst: Steps { start: low * factor + shift, step: factor },
                src: Steps { start: low, step: 1 },
            };
        }
        let (first, shift) = (map.first_channel(position), map.before[CHANNEL]);
        let present = (self.plan.src.dims[CHANNEL] - first).clamp(0, map.group);
        let channels = |low: i64, high: i64| {
            let (low, high) = (low.max(-shift), high.min(self.plan.dst.dims[CHANNEL] - shift));
            Side {
                count: high - low,
                dst: Steps { start: low + shift, step: 1 },
                // Of no meaning where no channel is present.
                src: Steps { start: first.saturating_add(low), step: 1 },
            }
        };
        let mut missing = valid;
        valid[CHANNEL] = channels(0, present);
        missing[CHANNEL] = channels(present, map.group);
        (valid, missing)
    }

    /// Fills what lies in `region` but not in `inner`: one slab per border.
    fn fill_around(&mut self, region: &Sides, inner: &Sides) {
        let beta = self.plan.scaling.beta;
        if is_empty(&inner[..self.rank()]) {
            return self.fill_box(region, beta);
        }
        let mut slab = *region;
        for axis in 0..self.rank() {
            let (outer, inner) = (region[axis], inner[axis]);
            let (low, high) = (inner.dst.start, inner.dst.start + inner.count);
            for (start, end) in [(outer.dst.start, low), (high, outer.dst.start + outer.count)] {
                slab[axis] = Side { count: end - start, dst: Steps { start, step: 1 }, ..Side::default() };
                self.fill_box(&slab, beta);
            }
            // The borders of the other dimensions run along the inner part only.
            slab[axis] = inner;
        }
    }

    /// The elements of a box; `last` are those of its [last group](Self::last_group) if they come
    /// with zeros.
    fn transform_box(&mut self, sides: &Sides, last: Option<&Padded>) {
        let rank = self.rank();
        let mut sides = *sides;
        sides[CHANNEL].count -= last.map_or(0, |last| last.cells.extent);
        let plan = self.plan;
        if !is_empty(&sides[..rank]) {
            product(plan.dst, &plan.src, &sides[..rank], &mut |nest| self.transform(nest));
        }
        if let Some(last) = last {
            self.send(Step::Padded(last));
        }
    }

    /// The last group of channels of a box together with the zeros behind it, if all channels below
    /// `end` that have no source become zero, and the box has the first channels of that group but
    /// not all.
    fn last_group(&self, sides: &Sides, end: i64) -> Option<Padded> {
        let TransformPlan { src, dst, types, scaling, ordered, .. } = self.plan;
        let rank = self.rank();
        let Side { count, dst: to, src: from } = *sides.get(CHANNEL).filter(|_| rank > CHANNEL)?;
        let block = dst.block(CHANNEL);
        let present = (to.start + count) % block;
        let first = count - present;
        let complete = to.step == 1 && first >= 0 && end - to.start - first >= block;
        if present == 0 || !complete || is_empty(&sides[..rank]) || *ordered || scaling.beta != 0.0 {
            return None;
        }
        // Lanes of the source lie evenly where it is not blocked, or all in one group.
        let channel = |turn: i64| from.start + turn * from.step;
        let group = |turn: i64| channel(turn) / src.block(CHANNEL);
        if src.block(CHANNEL) > 1 && group(first) != group(count - 1) {
            return None;
        }
        let place = |turn: i64| src.cut(CHANNEL).offset(channel(turn));
        let stride = if present == 1 { 0 } else { place(first + 1) - place(first) };
        let mut sides = *sides;
        let start = |steps: Steps| Steps { start: steps.start + first * steps.step, ..steps };
        sides[CHANNEL] = Side { count: 1, dst: start(to), src: start(from) };
        let mut blocks = None;
        // One turn of the one dimension that is blocked: one nest.
        product(dst, src, &sides[..rank], &mut |nest| blocks = Some(nest.canonical()));
        Some(Padded {
            blocks: blocks?,
            cells: Axis { extent: present, strides: [1, stride] },
            zeros: block - present,
            dst: types.dst,
            src: types.src,
            alpha: scaling.alpha,
        })
    }

    fn fill_box(&mut self, sides: &Sides, beta: f64) {
        let rank = self.rank();
        if is_empty(&sides[..rank]) || beta == 1.0 {
            return;
        }
        let mut sides = *sides;
        sides.iter_mut().for_each(|side| side.src = side.dst);
        let dst = self.plan.dst;
        product(dst, dst, &sides[..rank], &mut |nest| {
            let mut fill = LoopNest::new(&[], [nest.offsets[0]]);
            for axis in nest.axes() {
                fill.push(Axis { extent: axis.extent, strides: [axis.strides[0]] });
            }
            self.fill(fill, beta);
        });
    }
}

/// The positions in a block of `factor` that some coordinate of the image has, in ascending order.
/// Pre: the image is not empty, and its coordinate `before` has position 0.
fn positions(factor: i64, image: &Side, before: i64) -> [Range<i64>; 2] {
    if image.count >= factor {
        return [0..factor, 0..0];
    }
    let first = (image.dst.start - before).rem_euclid(factor);
    let end = first + image.count;
    if end <= factor { [first..end, 0..0] } else { [0..end - factor, first..factor] }
}

fn is_empty(sides: &[Side]) -> bool {
    sides.iter().any(|side| side.count <= 0)
}

/// The nests over a box: plain dimensions as they are, a blocked one cut into even pieces.
fn product(dst: &Layout, src: &Layout, sides: &[Side], emit: &mut dyn FnMut(LoopNest<2>)) {
    let cut = |layout: &Layout, axis: usize, steps: Steps| Cut {
        start: steps.start,
        step: steps.step,
        ..layout.cut(axis)
    };
    let mut outer = LoopNest::new(&[], [0, 0]);
    let mut inner = LoopNest::new(&[], [0, 0]);
    let mut blocked = None;
    for (axis, side) in sides.iter().enumerate() {
        let (d, s) = (cut(dst, axis, side.dst), cut(src, axis, side.src));
        if d.block > 1 || s.block > 1 {
            blocked = Some((side.count, d, s));
            continue;
        }
        let nest = if blocked.is_some() { &mut inner } else { &mut outer };
        nest.offsets[0] += d.offset(d.start);
        nest.offsets[1] += s.offset(s.start);
        nest.push(Axis { extent: side.count, strides: [d.step * d.stride, s.step * s.stride] });
    }
    match blocked {
        None => emit(outer),
        Some((count, d, s)) => {
            layout::segments(count, [d, s], &mut |piece| emit(outer.times(&piece).times(&inner)));
        }
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

fn floor_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b)
}
