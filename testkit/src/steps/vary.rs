//! The same steps with shorter loops.

use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::window::{Axes, WindowAxis};
use cudnn::ops::{Contract, Draw, Padded, Reduce, Rows, Sequence, Window};

use super::{Owned, attention, losses, norms, offsets, pictures, sequences};

/// Maps every extent to one from 1 to itself.
pub type Shorten<'a> = &'a mut dyn FnMut(i64) -> i64;

pub(super) fn shortened(extent: i64, f: Shorten<'_>) -> i64 {
    f(extent).clamp(1, extent)
}

pub(super) fn nest<const N: usize>(nest: &LoopNest<N>, f: Shorten<'_>) -> LoopNest<N> {
    let axes: Vec<Axis<N>> =
        nest.axes().iter().map(|axis| Axis { extent: shortened(axis.extent, f), ..*axis }).collect();
    LoopNest::new(&axes, nest.offsets).canonical()
}

/// Shorter steps.
pub trait Vary {
    /// The same with every extent as `f` has it, canonical again. Only the size of a block stays.
    fn with_extents(&self, f: Shorten<'_>) -> Owned;

    /// The same with its extents halved until it has about so many turns at most.
    fn shrunk(&self, turns: i64) -> Owned;
}

impl Vary for Owned {
    fn with_extents(&self, f: Shorten<'_>) -> Owned {
        match self {
            Owned::Transform(step) => {
                let mut step = *step;
                step.nest = nest(&step.nest, f);
                Owned::Transform(step)
            }
            Owned::Padded(step) => Owned::Padded(Padded { blocks: nest(&step.blocks, f), ..*step }),
            Owned::Scale(step) => {
                let mut step = *step;
                step.nest = nest(&step.nest, f);
                Owned::Scale(step)
            }
            Owned::Set(step) => {
                let mut step = *step;
                step.nest = nest(&step.nest, f);
                Owned::Set(step)
            }
            Owned::Map(step) => {
                let mut step = *step;
                step.nest = nest(&step.nest, f);
                Owned::Map(step)
            }
            Owned::WideMap(step) => {
                let mut step = *step;
                step.nest = nest(&step.nest, f);
                Owned::WideMap(step)
            }
            Owned::Rows(step) => Owned::Rows(Rows {
                groups: nest(&step.groups, f),
                elements: nest(&step.elements, f),
                ..*step
            }),
            Owned::RowNorm(step) => Owned::RowNorm(norms::shorter(step, f)),
            Owned::RowNormBackward(step) => Owned::RowNormBackward(norms::shorter_backward(step, f)),
            Owned::Reduce(step) => {
                let pieces: Vec<LoopNest<2>> =
                    step.sequence.pieces().iter().map(|piece| nest(piece, f)).collect();
                let sequence = Sequence::new(&pieces).expect("as many as before");
                Owned::Reduce(Reduce { outputs: nest(&step.outputs, f), sequence, ..*step })
            }
            Owned::Contract(step) => Owned::Contract(contract(step, f)),
            Owned::Random(step) => {
                let mut step = *step;
                let needed = |nest: &LoopNest<3>| nest.span(2).map_or(0, |span| span.1) as u64 + 1;
                let before = needed(&step.nest);
                step.nest = nest(&step.nest, f);
                // The mask ends with the last element, or is as many times as long as before.
                let needed = needed(&step.nest);
                step.draw = step.draw.map(|draw| Draw { elements: draw.elements / before * needed, ..draw });
                Owned::Random(step)
            }
            Owned::Normalise(step) => {
                let mut step = *step;
                (step.groups, step.members) = (nest(&step.groups, f), nest(&step.members, f));
                Owned::Normalise(step)
            }
            Owned::NormaliseBackward(step) => {
                let mut step = *step;
                (step.groups, step.members) = (nest(&step.groups, f), nest(&step.members, f));
                Owned::NormaliseBackward(step)
            }
            Owned::Window(step) => {
                let axes = step.axes.iter().map(|axis| window_axis(axis, f));
                Owned::Window(Window { axes: Axes::new(axes), outer: nest(&step.outer, f), ..*step })
            }
            Owned::Sample(step) => Owned::Sample(pictures::shorter(step, f)),
            Owned::Ctc(step) => Owned::Ctc(losses::shorter(step, f)),
            Owned::Causal(step) => Owned::Causal(sequences::shorter(step, f)),
            Owned::Aggregate(step) => Owned::Aggregate(offsets::shorter_aggregate(step, f)),
            Owned::Ragged(step) => Owned::Ragged(offsets::shorter_ragged(step, f)),
            Owned::Attend(step) => Owned::Attend(attention::shorter(step, f)),
            Owned::AttendBackward(step) => Owned::AttendBackward(attention::shorter_backward(step, f)),
            Owned::Words(step) => Owned::Words(offsets::fewer_words(step, f)),
            // No line says these.
            Owned::Phases(_) => self.clone(),
        }
    }

    fn shrunk(&self, turns: i64) -> Owned {
        let mut all = 1_i64;
        let _ = self.with_extents(&mut |extent| {
            all = all.saturating_mul(extent);
            extent
        });
        self.with_extents(&mut |mut extent| {
            while all > turns && extent > 3 {
                all /= 2;
                extent = extent / 2 + extent % 2;
            }
            extent
        })
    }
}

fn contract(step: &Contract, f: Shorten<'_>) -> Contract {
    let mut short = Contract::new([step.dst, step.a, step.b], step.accumulate, step.epilogue);
    for (role, axis) in step.roles().iter().zip(step.nest.axes()) {
        short.push(*role, Axis { extent: shortened(axis.extent, f), ..*axis });
    }
    short.nest.offsets = step.nest.offsets;
    (short.allow_conversion, short.allow_winograd) = (step.allow_conversion, step.allow_winograd);
    short.allow_tiles = step.allow_tiles;
    (short.workspace, short.is_over_images, short.caches_b) =
        (step.workspace, step.is_over_images, step.caches_b);
    step.bounds().iter().for_each(|bound| short.bind(*bound));
    short.canonical()
}

/// As many outputs as the cells give, at most as many as before.
fn window_axis(axis: &WindowAxis, f: Shorten<'_>) -> WindowAxis {
    let inputs = shortened(axis.inputs, f);
    let reach = (axis.window - 1) * axis.dilation + 1;
    let room = inputs + 2 * axis.pad.max(0) - reach;
    let outputs = (room.max(0) / axis.stride + 1).min(axis.outputs);
    WindowAxis { inputs, outputs, ..*axis }
}
