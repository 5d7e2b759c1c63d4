//! The plan of one operation: steps over the tensors of a graph, and scratch of its own.

use std::sync::Arc;

use super::product::counted_from;
use super::view::View;
use super::work::{Segment, Segments, StepsPlan, Work};
use super::{Numbers, Operation, Port, Tensor};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::error::{Error, Result};
use crate::layout::{self, Axis, Dims, Layout, LoopNest};
use crate::ops::aggregate::AggregateFunction;
use crate::ops::agree;
use crate::ops::contract::Contract;
use crate::ops::convolution::Direction;
use crate::ops::function::Function;
use crate::ops::map::{Factors, Map};
use crate::ops::plan::{Operand, Plan, Role, Step};
use crate::ops::window::LAYOUT_OF;
use crate::ops::{Aggregate, Compute, Ragged, Random, Reduce, Reduction, Scaling, Sequence, Set, Transform};
use crate::reserve;

/// Where an operand of a plan lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    /// The tensor of a uid.
    Tensor(i64),
    /// Scratch of the operation: piece 0 for most of it, others for what a step takes as an operand
    /// of its own.
    Scratch(usize),
}

/// Scratch while a plan is built, which becomes its last operand.
const SCRATCH: usize = usize::MAX;

/// A plan under construction.
pub(super) struct Builder<'a> {
    /// What becomes steps.
    pub operation: &'a Operation,
    /// What a tensor is, and where its elements lie.
    describe: &'a dyn Fn(&Tensor) -> Result<(Scalar, Layout)>,
    storage: Vec<Storage>,
    plan: StepsPlan,
    scratch: usize,
    /// Bytes of the other pieces of scratch.
    pieces: Vec<usize>,
    /// Where the operation is of a tile: the index of rows and that of columns, as tensors.
    pub lines: Option<&'a [Arc<Tensor>; 2]>,
    /// The most bytes that parts of a convolution's sums may take.
    pub most_of_parts: usize,
    /// Elements up to which rows are normalised in one step that sums up gradients of parameters,
    /// where they are in one step at all.
    pub joins_rows: Option<i64>,
    /// What functions are computed in.
    pub compute: Compute,
    /// The tensor whose numbers say where something lies, if there is one.
    pub numbers: Option<Numbers>,
}

impl<'a> Builder<'a> {
    /// Nothing yet: functions are computed in binary64 if an element of a tensor needs it, or
    /// `wide` asks for it.
    ///
    /// # Errors
    /// Those of `describe`.
    pub fn new(
        operation: &'a Operation, describe: &'a dyn Fn(&Tensor) -> Result<(Scalar, Layout)>, wide: bool,
    ) -> Result<Self> {
        let mut scalars = Vec::new();
        for link in operation.links() {
            scalars.push(describe(&link.tensor)?.0);
        }
        let compute = if wide { Compute::Double } else { Compute::of(&scalars) };
        let plan = StepsPlan::default();
        let (storage, pieces) = (Vec::new(), Vec::new());
        Ok(Builder {
            operation,
            describe,
            storage,
            plan,
            scratch: 0,
            pieces,
            lines: None,
            most_of_parts: usize::MAX,
            joins_rows: None,
            compute,
            numbers: None,
        })
    }

    /// Says of which tensor the numbers are that the plan may refuse, and what they are below.
    pub fn tell_numbers(&mut self, port: Port, name: &'static str, below: Option<i64>) {
        self.numbers = self.operation.read(port).map(|tensor| Numbers { uid: tensor.uid, name, below });
    }

    /// A tensor of the operation as an operand.
    ///
    /// # Errors
    /// Those of `describe`.
    pub fn view(&mut self, port: Port, tensor: &Tensor, role: Role) -> Result<View> {
        let (scalar, layout) = (self.describe)(tensor)?;
        let place = Storage::Tensor(tensor.uid);
        let slot = match self.storage.iter().position(|&other| other == place) {
            Some(slot) => slot,
            None => {
                let mut span = (0, 0);
                if !layout.dims.contains(&0) {
                    let (low, high) = layout.padded_span().unwrap_or_default();
                    span = (low * scalar.size() as i64, (high + 1) * scalar.size() as i64);
                }
                self.storage.push(place);
                self.plan.operands.push(Operand { name: port.name(), role, scalar, span });
                self.plan.layouts.push(Some(layout));
                self.storage.len() - 1
            }
        };
        Ok(View { slot, offset: 0, scalar, layout })
    }

    /// A tensor whose batches lie where offsets say: of its span only the first element is known.
    ///
    /// # Errors
    /// Not supported if there is none, or for what is not computed.
    pub fn batches(&mut self, tensor: Option<&Arc<Tensor>>, is_written: bool) -> Result<View> {
        let tensor = tensor.ok_or_else(|| Error::unsupported("batches of no tensor"))?;
        let role = if is_written { Role::Write } else { Role::Read };
        let view = self.view(Port::X, tensor, role)?;
        self.plan.operands[view.slot].span = (0, view.scalar.size() as i64);
        self.plan.layouts[view.slot] = None;
        Ok(view)
    }

    /// The tensor that is read as `port`, if there is one.
    ///
    /// # Errors
    /// Not supported for what is not computed.
    pub fn given(&mut self, port: Port) -> Result<Option<View>> {
        self.operation.read(port).map(|tensor| self.view(port, tensor, Role::Read)).transpose()
    }

    /// The tensor that is read as `port`.
    ///
    /// # Errors
    /// Not supported if there is none, or for what is not computed.
    pub fn read(&mut self, port: Port) -> Result<View> {
        self.given(port)?.ok_or_else(|| Error::unsupported(format!("an operation without {}", port.name())))
    }

    /// Every tensor that is read as `port`.
    ///
    /// # Errors
    /// Not supported for what is not computed.
    pub fn read_all(&mut self, port: Port) -> Result<Vec<View>> {
        let operation = self.operation;
        let links = operation.reads.iter().filter(|link| link.port == port);
        links.map(|link| self.view(port, &link.tensor, Role::Read)).collect()
    }

    /// The tensor that is written as `port`, if there is one; with `beta`, its old elements count.
    ///
    /// # Errors
    /// Not supported if it repeats an address, or for what is not computed.
    pub fn wanted(&mut self, port: Port, beta: f64) -> Result<Option<View>> {
        let Some(tensor) = self.operation.write(port) else { return Ok(None) };
        let view = self.view(port, tensor, Role::blended(beta))?;
        if !view.is_empty() {
            agree::check_destination(&view.layout, port.name())?;
            if view.layout.overlaps() {
                return Err(Error::unsupported(format!("{} reaches an address twice", port.name())));
            }
        }
        Ok(Some(view))
    }

    /// The tensor that is written as `port`.
    ///
    /// # Errors
    /// Not supported if there is none, if it repeats an address, or for what is not computed.
    pub fn write(&mut self, port: Port) -> Result<View> {
        let view = self.wanted(port, 0.0)?;
        view.ok_or_else(|| Error::unsupported(format!("an operation without {}", port.name())))
    }

    /// Room for these elements, in the order of the dimensions.
    ///
    /// # Errors
    /// Not supported beyond 64 bits.
    pub fn scratch(&mut self, scalar: Scalar, dims: &[i64]) -> Result<View> {
        let dims = Dims::new(dims);
        agree::check_count(&dims)?;
        let bytes = dims.product().and_then(|count| usize::try_from(count).ok());
        let bytes = bytes.and_then(|count| count.checked_mul(scalar.size()));
        let begin = self.scratch.next_multiple_of(super::allocator::ALIGNMENT);
        let end = bytes.and_then(|bytes| begin.checked_add(bytes)).filter(|&end| i64::try_from(end).is_ok());
        self.scratch = end.ok_or_else(|| Error::unsupported("scratch beyond 64 bits"))?;
        let layout = Layout { dims, strides: agree::row_major(&dims), split: None };
        Ok(View { slot: SCRATCH, offset: (begin / scalar.size()) as i64, scalar, layout })
    }

    /// Room for `count` scalars that is an operand of its own, as steps need it whose operand has
    /// to begin with what they look for.
    ///
    /// # Errors
    /// Not supported beyond 64 bits.
    pub fn piece(&mut self, scalar: Scalar, count: i64) -> Result<View> {
        let bytes = count.checked_mul(scalar.size() as i64).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| Error::unsupported("scratch beyond 64 bits"))?;
        self.pieces.push(bytes);
        self.storage.push(Storage::Scratch(self.pieces.len()));
        let span = (0, bytes as i64);
        self.plan.operands.push(Operand { name: "scratch", role: Role::Scratch, scalar, span });
        self.plan.layouts.push(None);
        let layout = Layout { dims: Dims::new(&[count]), strides: Dims::new(&[1]), split: None };
        Ok(View { slot: self.storage.len() - 1, offset: 0, scalar, layout })
    }

    /// The elements of a tensor in the order of its dimensions, as an operand of its own: where
    /// they are, or copied. Pre: `count` of them.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn piece_of(&mut self, view: &View, count: i64) -> Result<View> {
        if view.is_row_major() && view.offset == 0 && view.slot != SCRATCH {
            return Ok(*view);
        }
        let piece = self.piece(view.scalar, count)?;
        self.transform(&piece.with(*view.dims(), agree::row_major(view.dims())), view)?;
        Ok(piece)
    }

    /// Room for intermediate results of these dims, in the type of the computation.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn wide(&mut self, dims: &[i64]) -> Result<View> {
        self.scratch(self.compute.scalar(), dims)
    }

    /// A number for every element.
    ///
    /// # Errors
    /// As for [`scratch`](Builder::scratch).
    pub fn constant(&mut self, value: f64, dims: &[i64]) -> Result<View> {
        let ones = Dims::filled(dims.len(), 1);
        let place = self.wide(&ones)?;
        self.fill(&place, value);
        place.broadcast(dims)
    }

    fn push(&mut self, work: Work, slots: &[usize]) {
        self.plan.works.push((work, slots.to_vec()));
    }

    /// `to = value`
    pub fn fill(&mut self, to: &View, value: f64) {
        self.fill_bits(to, with_element!(to.scalar, D => Element::to_bits(<D as Element>::from_f64(value))));
    }

    /// The low bits of `cell` in every element.
    pub fn fill_bits(&mut self, to: &View, cell: u64) {
        if to.is_empty() {
            return;
        }
        layout::nests([&to.layout], &mut |nest| {
            let nest = placed(nest, [to]);
            self.push(Work::Set(Set { nest, dst: to.scalar, cell }), &[to.slot]);
        });
    }

    /// `to = convert(from)`, which broadcasts.
    ///
    /// # Errors
    /// Not supported if it does not.
    pub fn transform(&mut self, to: &View, from: &View) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let from = from.broadcast(to.dims())?;
        layout::nests([&to.layout, &from.layout], &mut |nest| {
            let nest = placed(nest, [to, &from]);
            let step = Transform { nest, dst: to.scalar, src: from.scalar, scaling: Scaling::MOVE };
            self.push(Work::Transform(step), &[to.slot, from.slot]);
        });
        Ok(())
    }

    /// `to = function(from[0], from[1], ...)`, with the factors as the function's row has them;
    /// operands broadcast.
    ///
    /// # Errors
    /// Not supported if they do not.
    pub fn map_with(
        &mut self, to: &View, function: Function, from: &[View], parameter: f64, alpha: [f64; 2],
    ) -> Result<()> {
        debug_assert_eq!(from.len(), function.arity());
        reserve::check()?;
        if to.is_empty() {
            return Ok(());
        }
        let from: Vec<View> = from.iter().map(|view| view.broadcast(to.dims())).collect::<Result<_>>()?;
        let factors = Factors { alpha, beta: 0.0 };
        if from.len() < 3 {
            let map =
                |nest, scalars, compute| Map::<3> { nest, scalars, compute, function, parameter, factors };
            self.mapped(to, &from, |nest, scalars, compute| Work::Map(Box::new(map(nest, scalars, compute))));
        } else {
            let map =
                |nest, scalars, compute| Map::<6> { nest, scalars, compute, function, parameter, factors };
            self.mapped(to, &from, |nest, scalars, compute| {
                Work::WideMap(Box::new(map(nest, scalars, compute)))
            });
        }
        Ok(())
    }

    fn mapped<const N: usize>(
        &mut self, to: &View, from: &[View], work: impl Fn(LoopNest<N>, [Scalar; N], Compute) -> Work,
    ) {
        // Operands that are not read stand still somewhere.
        let still = Layout { dims: to.layout.dims, strides: Dims::filled(to.dims().rank(), 0), split: None };
        let unread = View { layout: still, offset: 0, ..*from.first().unwrap_or(to) };
        let views: [View; N] =
            std::array::from_fn(|k| if k == 0 { *to } else { from.get(k - 1).copied().unwrap_or(unread) });
        let layouts: [&Layout; N] = std::array::from_fn(|k| &views[k].layout);
        layout::nests(layouts, &mut |nest| {
            let nest = placed(nest, std::array::from_fn(|k| &views[k]));
            let scalars = views.map(|view| view.scalar);
            self.push(work(nest, scalars, self.compute), &views.map(|view| view.slot));
        });
    }

    /// `to = function(from[0], from[1], ...)`; operands broadcast.
    ///
    /// # Errors
    /// Not supported if they do not.
    pub fn map(&mut self, to: &View, function: Function, from: &[View]) -> Result<()> {
        self.map_with(to, function, from, 0.0, [1.0; 2])
    }

    /// `to = a - b`
    ///
    /// # Errors
    /// As for [`map`](Builder::map).
    pub fn subtract(&mut self, to: &View, a: &View, b: &View) -> Result<()> {
        self.map_with(to, Function::Add, &[*a, *b], 0.0, [1.0, -1.0])
    }

    /// `to = reduction of from`: each element of `to` joins as many neighbours as there are for it
    /// in every dimension.
    ///
    /// # Errors
    /// Not supported for dims that are no multiples.
    pub fn reduce(&mut self, to: &View, reduction: Reduction, from: &View) -> Result<()> {
        if to.layout.split.is_some() {
            let flat = self.wide(to.dims())?;
            self.reduce(&flat, reduction, from)?;
            return self.transform(to, &flat);
        }
        let from = self.flat(from)?;
        let (large, small) = (&from.layout, &to.layout);
        let fits = large.dims.rank() == small.dims.rank()
            && large.dims.iter().zip(small.dims.iter()).all(|(&x, &y)| x > 0 && y > 0 && x % y == 0);
        if !fits {
            return Err(Error::unsupported(format!("a reduction of {} to {}", large.dims, small.dims)));
        }
        let mut outputs = LoopNest::new(&[], [to.offset, from.offset, 0]);
        let mut sequence = LoopNest::new(&[], [0; 2]);
        for axis in 0..large.dims.rank() {
            let (extent, stride) = (small.dims[axis], large.strides[axis]);
            let joined = large.dims[axis] / extent;
            outputs.push(Axis { extent, strides: [small.strides[axis], stride * joined, 0] });
            sequence.push(Axis { extent: joined, strides: [stride, 0] });
        }
        outputs.canonicalise();
        sequence.canonicalise();
        let sequence =
            Sequence::new(&[sequence]).ok_or_else(|| Error::Internal("a reduction of no sequence".into()))?;
        let reduce = Reduce {
            outputs,
            sequence,
            dst: to.scalar,
            src: from.scalar,
            compute: self.compute,
            reduction,
            scaling: Scaling::MOVE,
            indices: None,
            workspace: 0,
        };
        self.push(Work::Reduce(Box::new(reduce)), &[to.slot, to.slot, from.slot, to.slot]);
        Ok(())
    }

    /// A step of a kind that lists its operands, which these are.
    pub fn step(&mut self, step: Work, views: &[&View]) {
        let slots: Vec<usize> = views.iter().map(|view| view.slot).collect();
        self.push(step, &slots);
    }

    /// A contraction whose offsets count from these views, in the order of its operands; in
    /// canonical form then.
    pub fn contract(&mut self, step: Contract, views: &[&View]) {
        if let Some(step) = counted_from(step, views) {
            let slots: Vec<usize> = views.iter().map(|view| view.slot).collect();
            self.push(Work::Contract(Box::new(step)), &slots);
        }
    }

    /// The same for one of a convolution, with room for parts of its sums where a GPU has a use for
    /// it: a plan runs on any core.
    ///
    /// # Errors
    /// As for [`piece`](Builder::piece).
    pub fn convolve(&mut self, step: Contract, direction: Direction, views: &[&View]) -> Result<()> {
        let Some(mut step) = counted_from(step, views) else { return Ok(()) };
        let mut slots: Vec<usize> = views.iter().map(|view| view.slot).collect();
        if let Some(bytes) = direction.workspace_of(&step).filter(|&bytes| bytes <= self.most_of_parts) {
            step.workspace = bytes;
            slots.push(self.piece(Scalar::F64, bytes.div_ceil(Scalar::F64.size()) as i64)?.slot);
        }
        self.push(Work::Contract(Box::new(step)), &slots);
        Ok(())
    }

    /// How many steps there are.
    pub fn count(&self) -> usize {
        self.plan.works.len()
    }

    /// Has products stand for all steps from `first` on, where numbers can be read.
    pub fn segments(&mut self, first: usize, products: Vec<Segment>) {
        self.plan.segments.push(Segments { works: first..self.count(), products });
    }

    /// A random step; operands destination, source, mask, states.
    pub fn random(&mut self, step: Random, slots: [&View; 4]) {
        self.push(Work::Random(Box::new(step)), &slots.map(|view| view.slot));
    }

    /// Rows of a source by their numbers, or rows to places by their numbers; operands result,
    /// source, where the edges of each row begin, and the numbers.
    pub fn gather(&mut self, step: Aggregate, [to, from, offsets, indices]: [&View; 4]) {
        // Nothing is done with the others.
        let slots = match step.function {
            AggregateFunction::Forward => [to, to, from, from, from, offsets, indices, indices],
            AggregateFunction::Backward => [to, to, to, from, from, offsets, indices, indices],
        };
        self.push(Work::Aggregate(step), &slots.map(|view| view.slot));
    }

    /// Batches by their offsets; operands destination, source, offsets.
    pub fn ragged(&mut self, step: Ragged, views: [&View; 3]) {
        self.push(Work::Ragged(Box::new(step)), &views.map(|view| view.slot));
    }

    /// The steps of a plan whose operands are these tensors as they lie; where it has an operand
    /// that is not touched there is none.
    ///
    /// # Errors
    /// Those of the plan; not supported for scratch, for steps of other kinds, and for parts of
    /// tensors but in windows.
    pub fn embed(&mut self, plan: &dyn Plan, views: &[Option<View>]) -> Result<()> {
        plan.steps(&mut |step, slots| {
            let work = match step {
                Step::Window(step) => {
                    let (mut step, begins) = (*step, step.outer.offsets);
                    for (&slot, layout) in slots.iter().zip(LAYOUT_OF) {
                        if let Some(Some(view)) = views.get(slot) {
                            step.outer.offsets[layout] = begins[layout] + view.offset;
                        }
                    }
                    Work::Window(Box::new(step))
                }
                Step::Reduce(step) => Work::Reduce(Box::new(*step)),
                Step::Transform(step) => Work::Transform(*step),
                other => return Err(Error::unsupported(format!("as a part of a graph: {other}"))),
            };
            let is_window = matches!(work, Work::Window(_));
            // An operand that is not touched may be any.
            let any = views.iter().flatten().next();
            let mut own = Vec::with_capacity(slots.len());
            for &slot in slots {
                let view = views.get(slot).and_then(Option::as_ref).or(any);
                let view = view.filter(|view| view.slot != SCRATCH && (is_window || view.offset == 0));
                own.push(view.ok_or_else(|| Error::unsupported("scratch as a part of a graph"))?.slot);
            }
            self.push(work, &own);
            Ok(())
        })
    }

    /// The plan, where its operands lie, and the bytes of each piece of scratch.
    pub fn finish(mut self) -> (StepsPlan, Vec<Storage>, Vec<usize>) {
        if self.scratch > 0 {
            let last = self.storage.len();
            for (_, slots) in &mut self.plan.works {
                slots.iter_mut().filter(|slot| **slot == SCRATCH).for_each(|slot| *slot = last);
            }
            let products = self.plan.segments.iter_mut().flat_map(|segments| &mut segments.products);
            for view in
                products.flat_map(|product| product.views.iter_mut().chain(product.ends.iter_mut().flatten()))
            {
                view.slot = if view.slot == SCRATCH { last } else { view.slot };
            }
            self.storage.push(Storage::Scratch(0));
            let span = (0, self.scratch as i64);
            self.plan.operands.push(Operand {
                name: "scratch",
                role: Role::Scratch,
                scalar: Scalar::F64,
                span,
            });
            self.plan.layouts.push(None);
        }
        self.pieces.insert(0, self.scratch);
        (self.plan, self.storage, self.pieces)
    }
}

/// A nest from where these views begin, in canonical form.
fn placed<const N: usize>(nest: &LoopNest<N>, views: [&View; N]) -> LoopNest<N> {
    let mut nest = *nest;
    for (offset, view) in nest.offsets.iter_mut().zip(views) {
        *offset += view.offset;
    }
    nest.canonicalise();
    nest
}
