//! The masks between two layers.
//!
//! All masks of a pass are one sequence of bits, so that one call number of the random states
//! serves it: bit `(layer * S + row) * output + entry` belongs to that entry of the outputs of that
//! layer. The first step that applies them draws them all.

use super::frame::Frame;
use super::rows::{Rows, Sink};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::{Draw, Random, Step};

/// `masked = outputs`, dropped and scaled, of a layer of a forward pass; `drawn` are its masks and
/// random states.
pub(super) fn draw(
    sink: &mut Sink<'_>, frame: &Frame<'_>, layer: i64, masked: Rows, outputs: Rows, drawn: [usize; 2],
) -> Result<()> {
    let network = frame.network;
    let elements = (network.layers - 1) * frame.sequences.rows() * network.output();
    let threshold = (f64::from(network.dropout) * (1_u64 << 32) as f64).round() as u64;
    let draw = Draw { elements: elements as u64, threshold: threshold.min(1 << 32) };
    let step = step(frame, layer, masked, outputs, (layer == 0).then_some(draw));
    let [masks, states] = drawn;
    let slots = [masked.slot, outputs.slot, masks, states];
    if elements == 0 {
        Ok(())
    } else {
        sink.step(Step::Random(&step), &slots[..if layer == 0 { 4 } else { 3 }])
    }
}

/// `dst = src`, dropped and scaled, by the mask behind a layer that a forward pass has drawn;
/// `masks` is its operand.
pub(super) fn apply(
    sink: &mut Sink<'_>, frame: &Frame<'_>, layer: i64, dst: Rows, src: Rows, masks: usize,
) -> Result<()> {
    let step = step(frame, layer, dst, src, None);
    let is_empty = frame.sequences.rows() == 0;
    if is_empty { Ok(()) } else { sink.step(Step::Random(&step), &[dst.slot, src.slot, masks]) }
}

fn step(frame: &Frame<'_>, layer: i64, dst: Rows, src: Rows, draw: Option<Draw>) -> Random {
    let (rows, entries) = (frame.sequences.rows(), frame.network.output());
    let axes = [
        Axis { extent: rows, strides: [dst.row, src.row, entries] },
        Axis { extent: entries, strides: [1, 1, 1] },
    ];
    let probability = frame.network.dropout;
    let scale = match dst.scalar {
        Scalar::F64 => 1.0 / (1.0 - f64::from(probability)),
        _ => f64::from(1.0 / (1.0 - probability)),
    };
    Random {
        nest: LoopNest::new(&axes, [dst.offset, src.offset, layer * rows * entries]).canonical(),
        scalar: dst.scalar,
        // What is dropped throughout has no scale.
        scale: if probability >= 1.0 { 0.0 } else { scale },
        draw,
    }
}
