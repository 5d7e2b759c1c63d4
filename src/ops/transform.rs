//! TransformTensor and TransformTensorEx: checks across the two descriptors, then a plan of affine problems.

use std::fmt;

use super::{Fill, Problem, Scaling, Transform};
use crate::desc::tensor::CHANNEL;
use crate::desc::{Folding, TensorDescriptor, TransformDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{self, Axis, Cut, Dims, Layout, LoopNest, MAX_RANK};
use crate::mode::Mode;

/// Receives the problems of a plan, one after the other.
pub type Sink<'a> = &'a mut dyn FnMut(&Problem) -> Result<()>;

/// `dst = alpha * transform(src) + beta * dst`, checked and ready to run on any core.
///
/// A plan holds no list: it yields its problems one by one, so planning allocates nothing. Every element of the
/// destination belongs to exactly one problem.
#[derive(Clone, Copy, Debug)]
pub struct TransformPlan {
    src: Layout,
    dst: Layout,
    types: Types,
    scaling: Scaling,
    /// Padding and folding; `None` for a plain transform.
    map: Option<Map>,
    /// Lowest and highest offset of the source and of the destination, in scalars.
    spans: [(i64, i64); 2],
    /// Whether destination addresses repeat.
    ordered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Types {
    src: Scalar,
    dst: Scalar,
}

/// Padding and folding in scalars, the transform descriptor's units resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    pub(crate) direction: Folding,
    /// Padding in front of each dimension; negative crops.
    pub(crate) before: Dims,
    /// Padding behind each dimension; negative crops.
    pub(crate) after: Dims,
    /// Fold factor of each dimension, 1 where there is none.
    pub(crate) factors: Dims,
    /// Channels of one group: fold writes group `q` at `q * group`, unfold reads it there.
    pub(crate) group: i64,
}

impl TransformPlan {
    /// Plans `cudnnTransformTensor`.
    ///
    /// # Errors
    /// Bad parameter: ranks or dims differ, or the destination repeats an address with stride 0. Not supported:
    /// a vectorisation that the type does not have; in strict mode the type pairs that the original refuses.
    pub fn new(src: &TensorDescriptor, dst: &TensorDescriptor, scaling: Scaling, mode: Mode) -> Result<Self> {
        check_same("nbDims", src.rank() as i64, dst.rank() as i64)?;
        let counted_alike = src.dims() == dst.dims();
        if mode.is_strict() || !counted_alike {
            let [x, y] = if mode.is_strict() { [src.dims(), dst.dims()] } else { channel_dims(src, dst) };
            for axis in 0..x.rank() {
                check_same("dimA", x[axis], y[axis])?;
            }
        }
        let (x, y) = (src.layout(), dst.layout());
        if let (Ok(x), Ok(y), true, false) = (&x, &y, counted_alike, mode.is_strict())
            && x.dims != y.dims
        {
            // Elements agree in number but not in lanes: one side holds several channels per element without
            // saying so in its dims. The original refuses these, and no reading of it is obvious.
            strict_types(src, dst)?;
            return Err(Error::mismatch(format!(
                "xDesc holds {} and yDesc {} channels: an element of {:?} holds {}, one of {:?} {}",
                x.dims[CHANNEL],
                y.dims[CHANNEL],
                src.data_type(),
                src.data_type().lanes(),
                dst.data_type(),
                dst.data_type().lanes()
            )));
        }
        if mode.is_strict() {
            strict_types(src, dst)?;
        }
        TransformPlan::checked(x?, y?, src, dst, scaling, None)
    }

    /// Plans `cudnnTransformTensorEx`: padding (negative crops) and folding on the way.
    ///
    /// Padding of the channel dimension and folding count stored channels, as the descriptors do, if that gives
    /// the destination's dims, else single channels (so that 3 channels can be padded into one INT8x32 vector).
    ///
    /// # Errors
    /// Bad parameter: the destination's dims are not what the transform yields, or it repeats an address with
    /// stride 0. Not supported: as [`TransformPlan::new`]; in strict mode folding of what the original does not
    /// fold, and folding with beta.
    pub fn with_map(
        transform: &TransformDescriptor,
        src: &TensorDescriptor,
        dst: &TensorDescriptor,
        scaling: Scaling,
        mode: Mode,
    ) -> Result<Self> {
        check_same("nbDims", src.rank() as i64, dst.rank() as i64)?;
        if !src.is_set() {
            return Err(Error::mismatch("srcDesc was never set"));
        }
        transform.check_source(src, mode)?;
        let (x, y) = (src.layout()?, dst.layout()?);
        let lanes = src.data_type().lanes();
        let yielded = |unit: i64| {
            let mut dims = x.dims;
            dims[CHANNEL] /= unit;
            transform.yields(&dims).map(|mut dims| {
                dims[CHANNEL] *= unit;
                dims
            })
        };
        let by_element = yielded(lanes);
        let unit = if by_element.as_ref() == Ok(&y.dims) {
            lanes
        } else if !mode.is_strict() && lanes > 1 && yielded(1).as_ref() == Ok(&y.dims) {
            1
        } else {
            let expected = by_element?;
            return Err(Error::mismatch(format!(
                "destDesc has dims {}, the transform of srcDesc yields {expected}",
                y.dims
            )));
        };
        if mode.is_strict() {
            strict_types(src, dst)?;
            if transform.folds(src.rank()) && scaling.beta != 0.0 {
                return Err(Error::unsupported("strict mode folds with beta = 0 only"));
            }
        }
        let map = Map::new(transform, &x.dims, unit);
        TransformPlan::checked(x, y, src, dst, scaling, Some(map))
    }

    fn checked(
        src: Layout,
        dst: Layout,
        x: &TensorDescriptor,
        y: &TensorDescriptor,
        scaling: Scaling,
        map: Option<Map>,
    ) -> Result<Self> {
        if dst.dims.rank() == 0 {
            return Err(Error::mismatch("yDesc was never set"));
        }
        if let Some(axis) = (0..dst.dims.rank()).find(|&k| dst.dims[k] > 1 && dst.strides[k] == 0) {
            return Err(Error::element("yDesc strideA", axis, 0, "a destination may not repeat an address"));
        }
        let (Some(src_span), Some(dst_span)) = (src.padded_span(), dst.padded_span()) else {
            return Err(Error::unsupported("a tensor's offsets leave 64 bits"));
        };
        let types = Types { src: x.data_type().scalar(), dst: y.data_type().scalar() };
        let ordered = dst.overlaps();
        Ok(TransformPlan { src, dst, types, scaling, map, spans: [src_span, dst_span], ordered })
    }

    /// Scalar types of source and destination.
    pub fn scalars(&self) -> (Scalar, Scalar) {
        (self.types.src, self.types.dst)
    }

    /// Layouts of source and destination, in scalars.
    pub(crate) fn layouts(&self) -> (&Layout, &Layout) {
        (&self.src, &self.dst)
    }

    /// Alpha and beta.
    pub(crate) fn scaling(&self) -> Scaling {
        self.scaling
    }

    /// Padding and folding; `None` for a plain transform.
    pub(crate) fn map(&self) -> Option<&Map> {
        self.map.as_ref()
    }

    /// Lowest and highest offset of the source and of the destination, in bytes from their data pointers, the
    /// upper one exclusive.
    pub fn byte_spans(&self) -> [(i64, i64); 2] {
        let bytes = |(low, high): (i64, i64), scalar: Scalar| {
            let size = scalar.size() as i64;
            // Descriptors keep the span below 2^63 bytes.
            (low * size, (high + 1) * size)
        };
        [bytes(self.spans[0], self.types.src), bytes(self.spans[1], self.types.dst)]
    }

    /// Whether every element of the destination depends only on the source element at its own offset, so that
    /// both may be the same memory.
    pub fn works_in_place(&self) -> bool {
        let same_place = (0..self.src.dims.rank())
            .all(|k| self.src.dims[k] == 1 || self.src.strides[k] == self.dst.strides[k]);
        self.map.is_none()
            && self.types.src.size() == self.types.dst.size()
            && self.src.split == self.dst.split
            && same_place
            && !self.is_ordered()
    }

    /// Whether destination addresses repeat: then the problems must run in order, each as the loops stand, so
    /// that the last write in the order of the dimensions wins.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Hands every problem of the plan to `sink`, in an order that any core must keep. Nests are canonical unless
    /// the plan [is ordered](Self::is_ordered).
    ///
    /// # Errors
    /// The first of `sink`, which ends the plan.
    pub fn for_each(&self, sink: Sink<'_>) -> Result<()> {
        let mut emit = Emitter { plan: self, sink, outcome: Ok(()) };
        match &self.map {
            None => emit.whole(),
            Some(map) => emit.mapped(map),
        }
        if let Some(tail) = self.dst.tail() {
            emit.fill(tail, 0.0);
        }
        emit.outcome
    }
}

impl Map {
    /// The map of a plain transform to a destination of these dims: no padding, one group.
    pub(crate) fn identity(dst: &Dims) -> Self {
        let (none, one) = (Dims::filled(dst.rank(), 0), Dims::filled(dst.rank(), 1));
        Map { direction: Folding::Fold, before: none, after: none, factors: one, group: dst[CHANNEL] }
    }

    fn new(transform: &TransformDescriptor, src: &Dims, unit: i64) -> Self {
        let rank = src.rank();
        let mut map = Map {
            direction: transform.direction,
            before: Dims::filled(rank, 0),
            after: Dims::filled(rank, 0),
            factors: Dims::filled(rank, 1),
            group: src[CHANNEL] / unit,
        };
        for axis in 0..rank {
            (map.before[axis], map.after[axis]) = transform.padding(axis);
            map.factors[axis] = transform.factor(axis);
        }
        match map.direction {
            Folding::Fold => map.group += map.before[CHANNEL] + map.after[CHANNEL],
            Folding::Unfold => {
                for &factor in map.factors.iter() {
                    map.group = (map.group + factor - 1) / factor;
                }
            }
        }
        for channels in [&mut map.before[CHANNEL], &mut map.after[CHANNEL], &mut map.group] {
            *channels *= unit;
        }
        map
    }

    /// How many groups of channels there are: the product of all fold factors.
    fn groups(&self) -> i64 {
        self.factors.iter().product()
    }

    /// Position inside a fold block of each dimension, for group `q`: row-major, last dimension fastest.
    fn position(&self, mut q: i64) -> Dims {
        let mut position = Dims::filled(self.factors.rank(), 0);
        for axis in (0..self.factors.rank()).rev() {
            position[axis] = q % self.factors[axis];
            q /= self.factors[axis];
        }
        position
    }
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

/// Turns a plan's boxes into problems. After an error nothing more is handed on.
struct Emitter<'a, 's> {
    plan: &'a TransformPlan,
    sink: Sink<'s>,
    outcome: Result<()>,
}

impl Emitter<'_, '_> {
    fn rank(&self) -> usize {
        self.plan.dst.dims.rank()
    }

    fn send(&mut self, problem: &Problem) {
        if self.outcome.is_ok() {
            self.outcome = (self.sink)(problem);
        }
    }

    fn transform(&mut self, nest: LoopNest<2>) {
        let nest = if self.plan.ordered { nest } else { nest.canonical() };
        let Types { src, dst } = self.plan.types;
        let scaling = self.plan.scaling;
        self.send(&Problem::Transform(Transform { nest, dst, src, scaling }));
    }

    fn fill(&mut self, nest: LoopNest<1>, beta: f64) {
        let nest = if self.plan.ordered { nest } else { nest.canonical() };
        self.send(&Problem::Fill(Fill { nest, dst: self.plan.types.dst, beta }));
    }

    /// A plain transform: every element to the element of the same coordinates.
    fn whole(&mut self) {
        let mut sides = Sides::default();
        for (side, &extent) in sides.iter_mut().zip(self.plan.dst.dims.iter()) {
            let steps = Steps { start: 0, step: 1 };
            *side = Side { count: extent, dst: steps, src: steps };
        }
        self.transform_box(&sides);
    }

    fn mapped(&mut self, map: &Map) {
        match map.direction {
            Folding::Fold => {
                for q in 0..map.groups() {
                    let region = self.fold_region(map, q);
                    let valid = self.fold_box(map, q);
                    self.fill_around(&region, &valid);
                    self.transform_box(&valid);
                }
            }
            Folding::Unfold => {
                self.fill_around(&self.all(), &self.unfold_image(map));
                for q in 0..map.groups() {
                    let (valid, missing) = self.unfold_boxes(map, q);
                    self.transform_box(&valid);
                    self.fill_box(&missing, self.plan.scaling.beta);
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

    /// The elements of group `q` of a fold that have a source: coordinate `y` of a folded dimension shows padded
    /// coordinate `y * factor + position`.
    fn fold_box(&self, map: &Map, q: i64) -> Sides {
        let region = self.fold_region(map, q);
        let position = map.position(q);
        let mut sides = Sides::default();
        for axis in 0..self.rank() {
            let (factor, shift) = (map.factors[axis], map.before[axis] - position[axis]);
            // Source coordinate of turn y is y * factor - shift.
            let low = ceil_div(shift, factor).max(0);
            // The last block may reach beyond the padded extent, where a crop ends the source early.
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

    /// The elements that group `q` of an unfold fills, and those that it leaves without a source because the
    /// channels do not divide evenly.
    fn unfold_boxes(&self, map: &Map, q: i64) -> (Sides, Sides) {
        let position = map.position(q);
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
        let (first, shift) = (q * map.group, map.before[CHANNEL]);
        let present = (self.plan.src.dims[CHANNEL] - first).clamp(0, map.group);
        let channels = |low: i64, high: i64| {
            let (low, high) = (low.max(-shift), high.min(self.plan.dst.dims[CHANNEL] - shift));
            Side {
                count: high - low,
                dst: Steps { start: low + shift, step: 1 },
                src: Steps { start: first + low, step: 1 },
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

    fn transform_box(&mut self, sides: &Sides) {
        let rank = self.rank();
        if is_empty(&sides[..rank]) {
            return;
        }
        let plan = self.plan;
        product(&plan.dst, &plan.src, &sides[..rank], &mut |nest| self.transform(nest));
    }

    fn fill_box(&mut self, sides: &Sides, beta: f64) {
        let rank = self.rank();
        if is_empty(&sides[..rank]) || beta == 1.0 {
            return;
        }
        let mut sides = *sides;
        sides.iter_mut().for_each(|side| side.src = side.dst);
        let dst = self.plan.dst;
        product(&dst, &dst, &sides[..rank], &mut |nest| {
            let mut fill = LoopNest::new(&[], [nest.offsets[0]]);
            for axis in nest.axes() {
                fill.push(Axis { extent: axis.extent, strides: [axis.strides[0]] });
            }
            self.fill(fill, beta);
        });
    }
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
            layout::segments(count, d, s, &mut |piece| emit(outer.times(&piece).times(&inner)));
        }
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

fn floor_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b)
}

fn check_same(what: &str, x: i64, y: i64) -> Result<()> {
    if x == y {
        Ok(())
    } else {
        Err(Error::mismatch(format!("xDesc and yDesc differ in {what}: {x} and {y}")))
    }
}

/// Dims with channels counted one by one, also those that share an element.
fn channel_dims(x: &TensorDescriptor, y: &TensorDescriptor) -> [Dims; 2] {
    [x, y].map(|tensor| tensor.layout().map_or(tensor.dims(), |layout| layout.dims))
}

/// Refuses the type pairs that the original refuses (observed on 9.27.0).
fn strict_types(src: &TensorDescriptor, dst: &TensorDescriptor) -> Result<()> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        /// The five types that the original converts.
        Plain,
        /// INT8x4 under `NCHW_VECT_C`.
        Int8x4Vector,
        /// INT8x4 with ordinary strides.
        Int8x4,
        /// UINT8x4 or INT8x32 under `NCHW_VECT_C`.
        OtherVector(DataType),
        /// Everything else.
        Refused,
    }
    let kind = |tensor: &TensorDescriptor| match (tensor.data_type(), tensor.vector()) {
        (DataType::Int8x4, Some(_)) => Kind::Int8x4Vector,
        (DataType::Int8x4, None) => Kind::Int8x4,
        (t @ (DataType::Uint8x4 | DataType::Int8x32), Some(_)) => Kind::OtherVector(t),
        (DataType::Float | DataType::Double | DataType::Half | DataType::Int8 | DataType::Bfloat16, None) => {
            Kind::Plain
        }
        _ => Kind::Refused,
    };
    let (x, y) = (kind(src), kind(dst));
    let pair = || format!("strict mode does not transform {:?} to {:?}", src.data_type(), dst.data_type());
    match (x, y) {
        (Kind::OtherVector(_), _) | (_, Kind::OtherVector(_)) if x == y => Err(Error::unsupported(pair())),
        (Kind::OtherVector(_), _) | (_, Kind::OtherVector(_)) => Err(Error::mismatch(pair())),
        (Kind::Refused, _) | (_, Kind::Refused) => Err(Error::unsupported(pair())),
        (Kind::Int8x4, _) | (_, Kind::Int8x4) => Err(Error::mismatch(pair())),
        _ => match (src.data_type(), dst.data_type()) {
            (DataType::Half, DataType::Bfloat16) | (DataType::Bfloat16, DataType::Half) => {
                Err(Error::unsupported(pair()))
            }
            _ => Ok(()),
        },
    }
}

/// One line per problem, as the log shows it.
impl fmt::Display for TransformPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut result = Ok(());
        let _ = self.for_each(&mut |problem| {
            result = result.and_then(|()| write!(f, "{}{problem}", if first { "" } else { "; " }));
            first = false;
            Ok(())
        });
        result
    }
}
