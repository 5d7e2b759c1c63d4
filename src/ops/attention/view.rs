//! Operands of an attention as its loops see them, and the steps over such loops.

use std::ops::Range;

use crate::desc::{MathType, SeqDataDescriptor};
use crate::dtype::Scalar;
use crate::dtype::convert::{Element, with_element};
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::contract::{Accumulate, Epilogue, Role};
use crate::ops::function::Function;
use crate::ops::map::Factors;
use crate::ops::plan::{Step, StepSink};
use crate::ops::{
    Compute, Contract, Draw, Map, Random, Reduce, Reduction, RowFunction, Rows, Scale, Scaling, Sequence,
    Set, Transform, Words,
};

/// The loops that any step of an attention is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    /// Samples of the batch.
    Batch,
    /// Beams of the queries; keys and values have one for all.
    Beam,
    /// Time steps of queries and output.
    Query,
    /// Time steps of keys and values.
    Key,
    /// Heads.
    Head,
    /// Entries of the vectors of a head.
    Entry,
    /// Entries of the caller's vectors.
    Vector,
}

/// How many there are.
const LOOPS: usize = 7;

/// A loop and the indices that it takes.
pub(super) type LoopRange = (Loop, Range<i64>);

/// An operand: how far each loop moves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Which operand of the plan it is.
    pub slot: usize,
    /// The type of its scalars.
    pub scalar: Scalar,
    /// Where index 0 of all loops is.
    offset: i64,
    strides: [i64; LOOPS],
}

impl View {
    /// Scalars without gaps, with these loops from the outermost to the innermost.
    pub(super) fn packed(slot: usize, scalar: Scalar, loops: &[(Loop, i64)]) -> View {
        let mut view = View { slot, scalar, offset: 0, strides: [0; LOOPS] };
        let mut stride = 1;
        for &(each, extent) in loops.iter().rev() {
            view.strides[each as usize] = stride;
            stride = i64::saturating_mul(stride, extent);
        }
        view
    }

    /// The caller's sequences, whose time steps are turns of `time`.
    pub(super) fn of(slot: usize, desc: &SeqDataDescriptor, time: Loop) -> View {
        let dims = desc.dims().map(i64::from);
        let loops = [time, Loop::Batch, Loop::Beam, Loop::Vector];
        let order = desc.axes().map(|axis| (loops[axis as usize], dims[axis as usize]));
        let view = View::packed(slot, desc.data_type().scalar(), &order);
        // All beams of the queries see one of keys and values.
        if time == Loop::Key { view.with(Loop::Beam, 0) } else { view }
    }

    /// The same with neighbours so far apart along a loop.
    pub(super) fn with(mut self, each: Loop, stride: i64) -> View {
        self.strides[each as usize] = stride;
        self
    }

    /// The same, beginning at the element with this offset.
    pub(super) fn at(mut self, offset: i64) -> View {
        self.offset += offset;
        self
    }

    /// The same memory where a loop begins with this index instead of 0.
    pub(super) fn from(self, each: Loop, first: i64) -> View {
        self.at(-first * self.stride(each))
    }

    /// The vectors of all heads side by side, or one vector that all heads share.
    pub(super) fn in_heads(self, entries: i64, are_shared: bool) -> View {
        let head = if are_shared { 0 } else { entries };
        self.with(Loop::Vector, 0).with(Loop::Head, head).with(Loop::Entry, 1)
    }

    fn stride(&self, each: Loop) -> i64 {
        self.strides[each as usize]
    }

    /// Where the first indices of all loops are.
    fn start(&self, ranges: &[LoopRange]) -> i64 {
        self.offset + ranges.iter().map(|(each, range)| range.start * self.stride(*each)).sum::<i64>()
    }
}

/// The loops over several operands, in canonical form; `None` if they turn nowhere.
fn nest<const N: usize>(views: [&View; N], ranges: &[LoopRange]) -> Option<LoopNest<N>> {
    let mut nest = LoopNest::new(&[], views.map(|view| view.start(ranges)));
    for (each, range) in ranges {
        if range.is_empty() {
            return None;
        }
        nest.push(Axis { extent: range.end - range.start, strides: views.map(|view| view.stride(*each)) });
    }
    Some(nest.canonical())
}

/// The terms of a product beside the sum.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Factor of the sum.
    pub alpha: f64,
    /// Factor of the old destination.
    pub beta: f64,
    /// Added to it.
    pub residual: Option<View>,
    /// Added to it.
    pub bias: Option<View>,
}

impl Terms {
    /// The sum as it is.
    pub(super) const SUM: Terms = Terms { alpha: 1.0, beta: 0.0, residual: None, bias: None };
}

/// A mask that drops elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    /// Which operand it is.
    pub slot: usize,
    /// Elements that it has bits for.
    pub elements: i64,
    /// Random numbers below it drop their element.
    pub threshold: u64,
    /// The factor of elements that are kept.
    pub factor: f64,
}

/// Hands steps to a core, each over loops of views.
pub(super) struct Steps<'a> {
    sink: StepSink<'a>,
    /// Whether products of binary32 may be rounded to what Tensor Cores take.
    allow_conversion: bool,
    /// Whether products of 16-bit types may have the order of tile instructions.
    allow_tiles: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn new(sink: StepSink<'a>, math_type: MathType) -> Self {
        let (allow_conversion, allow_tiles) = (math_type.allows_conversion(), math_type.allows_tiles());
        Steps { sink, allow_conversion, allow_tiles }
    }

    /// `dst = alpha * sum of a * b + beta * dst + residual + bias`: a loop that does not move the
    /// destination is summed over.
    pub(super) fn product(
        &mut self, dst: &View, [a, b]: [&View; 2], ranges: &[LoopRange], terms: Terms,
    ) -> Result<()> {
        let accumulate = match [dst, a, b].iter().any(|view| view.scalar == Scalar::F64) {
            true => Accumulate::Double,
            false => Accumulate::Single,
        };
        let epilogue = Epilogue {
            scaling: Scaling { alpha: terms.alpha, beta: terms.beta },
            z: terms.residual.map(|view| (view.scalar, 1.0)),
            bias: terms.bias.map(|view| view.scalar),
            activation: None,
        };
        let all = [Some(dst), Some(a), Some(b), terms.residual.as_ref(), terms.bias.as_ref()];
        let mut step = Contract::new([dst.scalar, a.scalar, b.scalar], accumulate, epilogue);
        step.allow_conversion = self.allow_conversion;
        step.allow_tiles_of_rows(self.allow_tiles);
        step.nest.offsets = all.map(|view| view.map_or(0, |view| view.start(ranges)));
        for (each, range) in ranges {
            let strides = all.map(|view| view.map_or(0, |view| view.stride(*each)));
            let role = match strides {
                [0, ..] => Role::K,
                [_, _, 0, ..] => Role::M,
                [_, 0, ..] => Role::N,
                _ => Role::Batch,
            };
            match (role, range.is_empty()) {
                // There is nothing to sum: no factor is read, and the other terms are all there is.
                (Role::K, true) => {
                    step.nest.offsets =
                        all.map(|view| view.map_or(0, |view| view.start(&of_destination(ranges, dst))));
                    step.push(Role::K, Axis { extent: 0, strides: [0; 5] })
                }
                (_, true) => return Ok(()),
                (role, false) => step.push(role, Axis { extent: range.end - range.start, strides }),
            };
        }
        // An element of a sum over samples is no one sample's.
        step.is_over_images = dst.stride(Loop::Batch) == 0;
        let step = step.canonical();
        let slots = [
            Some(dst.slot),
            Some(a.slot),
            Some(b.slot),
            terms.residual.map(|view| view.slot),
            terms.bias.map(|view| view.slot),
        ];
        let mut given = [0; 5];
        let mut count = 0;
        for slot in slots.into_iter().flatten() {
            given[count] = slot;
            count += 1;
        }
        (self.sink)(Step::Contract(&step), &given[..count])
    }

    /// `dst = 0`
    pub(super) fn zero(&mut self, dst: &View, ranges: &[LoopRange]) -> Result<()> {
        let Some(nest) = nest([dst], ranges) else { return Ok(()) };
        (self.sink)(Step::Scale(&Scale { nest, dst: dst.scalar, beta: 0.0 }), &[dst.slot])
    }

    /// `dst = src + beta * dst`
    pub(super) fn transform(
        &mut self, dst: &View, src: &View, ranges: &[LoopRange], beta: f64,
    ) -> Result<()> {
        let Some(nest) = nest([dst, src], ranges) else { return Ok(()) };
        let scaling = Scaling { alpha: 1.0, beta };
        let step = Transform { nest, dst: dst.scalar, src: src.scalar, scaling };
        (self.sink)(Step::Transform(&step), &[dst.slot, src.slot])
    }

    /// `dst = a + b`
    pub(super) fn add(&mut self, dst: &View, from: [&View; 2], ranges: &[LoopRange]) -> Result<()> {
        self.map(Function::Add, dst, from, ranges)
    }

    /// `dst = a < b`, as 1 and 0
    pub(super) fn less(&mut self, dst: &View, from: [&View; 2], ranges: &[LoopRange]) -> Result<()> {
        self.map(Function::Less, dst, from, ranges)
    }

    fn map(
        &mut self, function: Function, dst: &View, [a, b]: [&View; 2], ranges: &[LoopRange],
    ) -> Result<()> {
        let Some(nest) = nest([dst, a, b], ranges) else { return Ok(()) };
        let scalars = [dst.scalar, a.scalar, b.scalar];
        let (compute, factors) = (Compute::of(&scalars), Factors::NONE);
        let step = Map { nest, scalars, compute, function, parameter: 0.0, factors };
        (self.sink)(Step::Map(&step), &[dst.slot, a.slot, b.slot])
    }

    /// `dst = mask ? a : b`
    pub(super) fn select(
        &mut self, dst: &View, [a, b]: [&View; 2], mask: &View, ranges: &[LoopRange],
    ) -> Result<()> {
        // Operands that the function does not have do not move.
        let none = View { offset: 0, strides: [0; LOOPS], ..*mask };
        let views = [dst, a, b, mask, &none, &none];
        let Some(nest) = nest(views, ranges) else { return Ok(()) };
        let scalars = views.map(|view| view.scalar);
        let (compute, factors) = (Compute::of(&scalars), Factors::NONE);
        let step = Map { nest, scalars, compute, function: Function::Select, parameter: 0.0, factors };
        (self.sink)(Step::WideMap(&step), &views.map(|view| view.slot))
    }

    /// `dst = value`, one number where the view begins.
    pub(super) fn set(&mut self, dst: &View, value: f64) -> Result<()> {
        let cell = with_element!(dst.scalar, D => Element::to_bits(<D as Element>::from_f64(value)));
        let step = Set { nest: LoopNest::new(&[], [dst.offset]), dst: dst.scalar, cell };
        (self.sink)(Step::Set(&step), &[dst.slot])
    }

    /// Integers of the host, from the beginning of an operand on.
    pub(super) fn words(&mut self, slot: usize, words: Vec<u32>) -> Result<()> {
        (self.sink)(Step::Words(&Words(words)), &[slot])
    }

    /// `x = softmax of x` over the keys, for every row, in place.
    pub(super) fn softmax(&mut self, x: &View, rows: &[LoopRange], keys: Range<i64>) -> Result<()> {
        self.rows(RowFunction::Softmax, [x, x, x], rows, keys)
    }

    /// `dy = y * (dy - sum of dy * y)` over the keys, for every row, in place.
    pub(super) fn softmax_gradient(
        &mut self, dy: &View, y: &View, rows: &[LoopRange], keys: Range<i64>,
    ) -> Result<()> {
        self.rows(RowFunction::SoftmaxGradient, [dy, y, dy], rows, keys)
    }

    fn rows(
        &mut self, function: RowFunction, views: [&View; 3], rows: &[LoopRange], keys: Range<i64>,
    ) -> Result<()> {
        // A group begins at its first element, from which the loop over the elements counts.
        let first = views.map(|view| view.at(keys.start * view.stride(Loop::Key)));
        let count = views.map(|view| View { offset: 0, ..*view });
        let keys = (Loop::Key, 0..keys.end - keys.start);
        let (Some(groups), Some(elements)) = (nest(first.each_ref(), rows), nest(count.each_ref(), &[keys]))
        else {
            return Ok(());
        };
        let scalars = views.map(|view| view.scalar);
        let (compute, scaling) = (Compute::of(&scalars), Scaling::MOVE);
        let step = Rows { groups, elements, scalars, compute, function, scaling };
        (self.sink)(Step::Rows(&step), &views.map(|view| view.slot))
    }

    /// `dst = bit ? factor * src : 0` for all elements from the first on, of which both have as
    /// many as the mask, without gaps; the bits are drawn first if there are `states`, an operand.
    pub(super) fn mask(&mut self, dst: &View, src: &View, mask: Mask, states: Option<usize>) -> Result<()> {
        let axis = Axis { extent: mask.elements, strides: [1; 3] };
        let draw = states.map(|_| Draw { elements: mask.elements as u64, threshold: mask.threshold });
        let step =
            Random { nest: LoopNest::new(&[axis], [0; 3]), scalar: dst.scalar, scale: mask.factor, draw };
        let slots = [dst.slot, src.slot, mask.slot, states.unwrap_or(0)];
        (self.sink)(Step::Random(&step), if states.is_some() { &slots } else { &slots[..3] })
    }

    /// States of a dropout whose descriptor has none: its seed, and the number of the mask in this
    /// call.
    pub(super) fn make_states(&mut self, drop: &super::Drop, mask: u64) -> Result<()> {
        let (Some(slot), Some(seed)) = (drop.states, drop.seed) else { return Ok(()) };
        for (place, cell) in [(0, seed), (1, mask)] {
            let step = Set { nest: LoopNest::new(&[], [place]), dst: Scalar::I64, cell };
            (self.sink)(Step::Set(&step), &[slot])?;
        }
        Ok(())
    }

    /// `dst = sum of src` over the loops `summed`.
    pub(super) fn sum(
        &mut self, dst: &View, src: &View, ranges: &[LoopRange], summed: &[LoopRange],
    ) -> Result<()> {
        let count = View { strides: [0; LOOPS], offset: 0, ..*dst };
        let from = View { offset: 0, ..*src };
        let (Some(outputs), Some(terms)) = (nest([dst, src, &count], ranges), nest([&from, &count], summed))
        else {
            return Ok(());
        };
        let Some(sequence) = Sequence::new(&[terms]) else { return Ok(()) };
        let step = Reduce {
            outputs,
            sequence,
            dst: dst.scalar,
            src: src.scalar,
            compute: Compute::of(&[dst.scalar, src.scalar]),
            reduction: Reduction::Add,
            scaling: Scaling::MOVE,
            indices: None,
            workspace: 0,
        };
        // There are no indices and no workspace: their places are not looked at.
        (self.sink)(Step::Reduce(&step), &[dst.slot, dst.slot, src.slot, dst.slot])
    }
}

/// The loops that move the destination.
fn of_destination(ranges: &[LoopRange], dst: &View) -> Vec<LoopRange> {
    ranges.iter().filter(|(each, _)| dst.stride(*each) != 0).cloned().collect()
}
