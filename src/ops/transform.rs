//! TransformTensor and TransformTensorEx: checks across the two descriptors, then a plan of affine
//! problems.

mod boxes;

use std::fmt;

use super::agree::Named;
use super::plan::{Operand, Plan, Role, Step, StepSink};
use super::{Scaling, Transform, agree};
pub(crate) use crate::desc::tensor::CHANNEL;
use crate::desc::{Folding, TensorDescriptor, TransformDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Axis, Dims, Layout, LoopNest};
use crate::mode::Mode;

/// Receives the parts of a plan, one after the other: steps of [`Transform`],
/// [`Scale`](super::Scale) or [`Padded`](super::Padded).
pub type Sink<'a> = &'a mut dyn FnMut(Step<'_>) -> Result<()>;

/// `dst = alpha * transform(src) + beta * dst`, checked and ready to run on any core.
///
/// A plan holds no list: it yields its parts one by one. Every element of the destination belongs
/// to exactly one part. It borrows the layouts of its descriptors: small calls would notice copies.
#[derive(Clone, Debug)]
pub struct TransformPlan<'a> {
    src: SourceLayout<'a>,
    dst: &'a Layout,
    types: Types,
    scaling: Scaling,
    /// Padding and folding; `None` for a plain transform.
    /// On the heap, as few plans have one and all are moved.
    map: Option<Box<Map>>,
    /// Destination and source.
    operands: [Operand; 2],
    /// Whether destination addresses repeat.
    ordered: bool,
}

/// Where a source lies. A broadcast one has a layout of its own, on the heap as few plans have one
/// and all are moved.
#[derive(Clone, Debug)]
enum SourceLayout<'a> {
    Described(&'a Layout),
    Own(Box<Layout>),
}

impl std::ops::Deref for SourceLayout<'_> {
    type Target = Layout;

    #[inline]
    fn deref(&self) -> &Layout {
        match self {
            SourceLayout::Described(layout) => layout,
            SourceLayout::Own(layout) => layout,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Types {
    src: Scalar,
    dst: Scalar,
}

/// Padding and folding in scalars, the transform descriptor's units resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    direction: Folding,
    /// Padding in front of each dimension; negative crops.
    pub(crate) before: Dims,
    /// Padding behind each dimension; negative crops.
    pub(crate) after: Dims,
    /// Fold factor of each dimension, 1 where there is none.
    pub(crate) factors: Dims,
    /// Channels of one group: fold writes group `q` at `q * group`, unfold reads it there.
    pub(crate) group: i64,
}

impl<'a> TransformPlan<'a> {
    /// Plans `cudnnTransformTensor`.
    ///
    /// # Errors
    /// Bad parameter: ranks or dims differ, or the destination repeats an address with stride 0.
    /// Not supported: a vectorisation that the type does not have; in strict mode the type pairs
    /// that the original refuses.
    #[inline]
    pub fn new(
        src: &'a TensorDescriptor, dst: &'a TensorDescriptor, scaling: Scaling, mode: Mode,
    ) -> Result<Self> {
        let (x, y) = (src.layout(), dst.layout());
        let as_usual = !mode.is_strict() && matches!((&x, &y), (Ok(x), Ok(y)) if x.dims == y.dims);
        if !as_usual {
            check_dims(src, dst, mode)?;
        }
        let (x, y) = (SourceLayout::Described(x?), y?);
        TransformPlan::checked(
            x,
            y,
            src.span(),
            src,
            Named { name: "yDesc", tensor: dst },
            scaling,
            ["y", "x"],
        )
    }

    /// Plans `cudnnTransformTensorEx`: padding (negative crops) and folding on the way.
    ///
    /// Padding of the channel dimension and folding count stored channels, as the descriptors do,
    /// if that gives the destination's dims, else single channels (so that 3 channels can be padded
    /// into one INT8x32 vector).
    ///
    /// # Errors
    /// Bad parameter: the destination's dims are not what the transform yields, or it repeats an
    /// address with stride 0. Not supported: as [`TransformPlan::new`]; in strict mode folding of
    /// what the original does not fold, and folding with beta.
    pub fn with_map(
        transform: &TransformDescriptor, src: &'a TensorDescriptor, dst: &'a TensorDescriptor,
        scaling: Scaling, mode: Mode,
    ) -> Result<Self> {
        check_same(["srcDesc", "destDesc"], "nbDims", src.rank() as i64, dst.rank() as i64)?;
        if !src.is_set() {
            return Err(Error::mismatch("srcDesc was never set"));
        }
        transform.check_source(src, mode)?;
        if mode.is_strict() {
            strict_plain_vectors(transform, src, dst)?;
        }
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
        let map = Some(Box::new(Map::new(transform, &x.dims, unit)));
        let dst = Named { name: "destDesc", tensor: dst };
        let names = ["destData", "srcData"];
        let plan =
            TransformPlan::checked(SourceLayout::Described(x), y, src.span(), src, dst, scaling, names)?;
        Ok(TransformPlan { map, ..plan })
    }

    /// A plan for a source that may be broadcast, of dims equal to the destination's.
    ///
    /// # Errors
    /// As [`TransformPlan::new`], for what concerns the destination.
    pub(super) fn of_layouts(
        src: Layout, dst: &'a Layout, x: &TensorDescriptor, y: Named<'_>, scaling: Scaling,
    ) -> Result<Self> {
        debug_assert_eq!(src.dims, dst.dims);
        let Some(span) = src.padded_span() else {
            return Err(Error::unsupported("a tensor's offsets leave 64 bits"));
        };
        TransformPlan::checked(SourceLayout::Own(Box::new(src)), dst, span, x, y, scaling, ["C", "A"])
    }

    /// A plan without padding and folding; `names` are those of the destination's and of the
    /// source's C parameters.
    #[inline(always)]
    fn checked(
        src: SourceLayout<'a>, dst: &'a Layout, src_span: (i64, i64), x: &TensorDescriptor, y: Named<'_>,
        scaling: Scaling, names: [&'static str; 2],
    ) -> Result<Self> {
        agree::check_destination(dst, y.name)?;
        agree::check_count(&dst.dims)?;
        let types = Types { src: x.data_type().scalar(), dst: y.tensor.data_type().scalar() };
        let ordered = agree::repeats(y.tensor, dst);
        let operand = |name, role, (low, high): (i64, i64), scalar: Scalar| {
            let size = scalar.size() as i64;
            // Descriptors keep the span below 2^63 bytes.
            Operand { name, role, scalar, span: (low * size, (high + 1) * size) }
        };
        let operands = [
            operand(names[0], Role::blended(scaling.beta), y.tensor.span(), types.dst),
            operand(names[1], Role::Read, src_span, types.src),
        ];
        Ok(TransformPlan { src, dst, types, scaling, map: None, operands, ordered })
    }

    /// Scalar types of source and destination.
    pub fn scalars(&self) -> (Scalar, Scalar) {
        (self.types.src, self.types.dst)
    }

    /// Layouts of source and destination, in scalars.
    pub(crate) fn layouts(&self) -> (&Layout, &Layout) {
        (&self.src, self.dst)
    }

    /// Alpha and beta.
    pub(crate) fn scaling(&self) -> Scaling {
        self.scaling
    }

    /// Padding and folding; `None` for a plain transform.
    pub(crate) fn map(&self) -> Option<&Map> {
        self.map.as_deref()
    }

    /// Hands every part of the plan to `sink`, in an order that any core must keep. Nests are
    /// canonical unless the plan [is ordered](Plan::is_ordered).
    ///
    /// # Errors
    /// The first of `sink`, which ends the plan.
    pub fn for_each(&self, sink: Sink<'_>) -> Result<()> {
        if self.is_single() {
            return self.with_single(|transform| sink(Step::Transform(transform)));
        }
        boxes::emit(self, sink)
    }

    /// Whether there is one part, as in most plans.
    fn is_single(&self) -> bool {
        self.map.is_none() && self.src.split.is_none() && self.dst.split.is_none()
    }

    /// What `body` makes of that part, of which every dimension is a loop. It stays where it is
    /// built: half a kilobyte, whose copies small calls notice.
    #[inline]
    fn with_single<R>(&self, body: impl FnOnce(&Transform) -> R) -> R {
        let TransformPlan { src, dst, types, scaling, .. } = self;
        let mut transform =
            Transform { nest: LoopNest::new(&[], [0, 0]), dst: types.dst, src: types.src, scaling: *scaling };
        for (k, &extent) in dst.dims.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
            transform.nest.push(Axis { extent, strides: [dst.strides[k], src.strides[k]] });
        }
        if !self.ordered {
            transform.nest.canonicalise();
        }
        body(&transform)
    }
}

impl Plan for TransformPlan<'_> {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn works_in_place(&self, _: usize, _: usize) -> bool {
        let same_place = (0..self.src.dims.rank())
            .all(|k| self.src.dims[k] == 1 || self.src.strides[k] == self.dst.strides[k]);
        self.map.is_none()
            && self.types.src.size() == self.types.dst.size()
            && self.src.split == self.dst.split
            && same_place
            && !self.is_ordered()
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        Some(if operand == 0 { self.dst } else { &self.src })
    }

    /// The last write in the order of the dimensions wins. Where channels lie in blocks, theirs is
    /// the order of the parts: one of a part of the channels runs through all other dimensions.
    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        if self.is_single() {
            return self.with_single(|transform| sink(Step::Transform(transform), &[0, 1]));
        }
        sink(Step::Mapped(self), &[0, 1])
    }

    fn is_one_step(&self) -> bool {
        self.is_single()
    }
}

impl Map {
    /// Whether channels are spread into space.
    pub(crate) fn unfolds(&self) -> bool {
        self.direction == Folding::Unfold
    }

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

    /// How many groups of channels a fold has: the product of all fold factors, which its
    /// destination's channels hold.
    fn groups(&self) -> i64 {
        self.factors.iter().product()
    }

    /// Position inside a fold block of each dimension, for group `q`: row-major, last dimension
    /// fastest.
    fn position(&self, mut q: i64) -> Dims {
        let mut position = Dims::filled(self.factors.rank(), 0);
        for axis in (0..self.factors.rank()).rev() {
            position[axis] = q % self.factors[axis];
            q /= self.factors[axis];
        }
        position
    }

    /// The first channel of the group at a position, saturated: the groups of an unfold may be more
    /// than 64 bits count, but what lies beyond the source's channels is one as good as the other.
    fn first_channel(&self, position: &Dims) -> i64 {
        let group = (0..self.factors.rank())
            .fold(0_i64, |q, axis| q.saturating_mul(self.factors[axis]).saturating_add(position[axis]));
        group.saturating_mul(self.group)
    }
}

/// Refuses descriptors called `names` that differ in `what`.
fn check_same(names: [&str; 2], what: impl fmt::Display, x: i64, y: i64) -> Result<()> {
    if x == y {
        Ok(())
    } else {
        Err(Error::mismatch(format!("{} and {} differ in {what}: {x} and {y}", names[0], names[1])))
    }
}

/// Refuses dims that differ, and in strict mode the type pairs that the original refuses.
fn check_dims(src: &TensorDescriptor, dst: &TensorDescriptor, mode: Mode) -> Result<()> {
    let names = ["xDesc", "yDesc"];
    check_same(names, "nbDims", src.rank() as i64, dst.rank() as i64)?;
    let counted_alike = src.dims() == dst.dims();
    let [x, y] = if mode.is_strict() { [src.dims(), dst.dims()] } else { channel_dims(src, dst) };
    if mode.is_strict() || !counted_alike {
        for axis in 0..x.rank() {
            check_same(names, format_args!("dimA[{axis}]"), x[axis], y[axis])?;
        }
        return if mode.is_strict() { strict_types(src, dst) } else { Ok(()) };
    }
    if let (Ok(x), Ok(y)) = (src.layout(), dst.layout())
        && x.dims != y.dims
    {
        // Elements agree in number but not in lanes: one side holds several channels per element
        // without saying so in its dims. The original refuses these, and no reading of it is
        // obvious.
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
    Ok(())
}

/// Dims with channels counted one by one, also those that share an element.
fn channel_dims(x: &TensorDescriptor, y: &TensorDescriptor) -> [Dims; 2] {
    [x, y].map(|tensor| tensor.layout().map_or(tensor.dims(), |layout| layout.dims))
}

/// Refuses plain UINT8x4 and INT8x32 with any other type as the original does, whose dims count
/// such elements (observed on 9.27.0).
fn strict_plain_vectors(
    transform: &TransformDescriptor, src: &TensorDescriptor, dst: &TensorDescriptor,
) -> Result<()> {
    let is_plain = |tensor: &TensorDescriptor| {
        matches!(tensor.data_type(), DataType::Uint8x4 | DataType::Int8x32) && tensor.vector().is_none()
    };
    let differs = src.data_type() != dst.data_type() && (is_plain(src) || is_plain(dst));
    if differs && transform.yields(&src.stored_dims()).as_ref() == Ok(&dst.stored_dims()) {
        let text = format!("strict mode does not transform {:?} to {:?}", src.data_type(), dst.data_type());
        return Err(Error::unsupported(text));
    }
    Ok(())
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

/// One line per part, as the log shows it.
impl fmt::Display for TransformPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::list(f, |each| self.for_each(&mut |part| each(&part)))
    }
}
