//! From each kind of operation to steps.

mod attend;
mod blocks;
mod convolution;
mod experts;
mod integers;
mod masks;
mod matmul;
mod maxima;
mod norm;
mod pages;
mod pointwise;
mod ragged;
mod random;
mod reduction;
mod resample;
mod rope;
mod row_norm;
mod rows;
mod shape;
mod softmax;
mod statistics;
mod tiles;
mod windows;

pub(super) use norm::statistics;
pub(super) use pointwise::activation;

use super::steps::Builder;
use super::{Kind, Operation, Stage, Tensor, Type};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::ops::ragged::RaggedFunction;
use crate::reserve;

/// Whether the operation asks for more than binary32.
pub(super) fn is_wide(operation: &Operation) -> bool {
    let math = match &operation.kind {
        Kind::Pointwise(of) => of.math,
        Kind::Matmul(of) | Kind::Tile(Stage::Accumulate(of)) => of.math,
        Kind::Convolution(of) => of.math,
        Kind::Reduction(of) => of.math,
        Kind::GenStats(of) | Kind::BatchNormBackwardWeights(of) => of.math,
        Kind::BatchNormFinalise(of) => of.math,
        Kind::ResampleForward(of) | Kind::ResampleBackward(of) => of.math,
        _ => return false,
    };
    matches!(math, Type::Known(DataType::Double | DataType::Int32 | DataType::Int64))
}

/// Whether an operation on tensors where they lie is a single step, with rows as a strategy has
/// them.
pub(super) fn is_one_step(operation: &Operation, rows: Option<i64>) -> bool {
    let describe = |tensor: &Tensor| {
        let layout = if tensor.is_virtual { tensor.placed() } else { tensor.layout() };
        Ok((tensor.scalar()?, layout?))
    };
    Builder::new(operation, &describe, is_wide(operation)).is_ok_and(|mut steps| {
        steps.joins_rows = rows;
        lower(operation, &mut steps).is_ok() && steps.count() == 1
    })
}

/// Adds the steps of an operation.
///
/// # Errors
/// Not supported, with the reason. Host allocation.
pub(super) fn lower(operation: &Operation, steps: &mut Builder<'_>) -> Result<()> {
    reserve::check()?;
    match &operation.kind {
        Kind::Pointwise(of) => pointwise::lower(of, steps),
        Kind::Matmul(of) => matmul::lower(of, steps),
        Kind::Convolution(of) => convolution::lower(of, None, steps),
        Kind::Fused(of) => match &of.product {
            Kind::Matmul(product) => matmul::fused(product, of.activation, steps),
            Kind::Convolution(product) => convolution::lower(product, of.activation, steps),
            _ => Err(Error::unsupported("no product")),
        },
        Kind::Reduction(of) => reduction::lower(of, steps),
        Kind::Reshape(of) => shape::reshape(of, operation, steps),
        Kind::Transpose(of) => shape::transpose(of, steps),
        Kind::Slice(of) => shape::slice(of, steps),
        Kind::Concat(of) => shape::concat(of, steps),
        Kind::NormForward(of) => norm::forward(of, steps),
        Kind::NormBackward(of) => norm::backward(of, steps),
        Kind::GenStats(_) => statistics::gather(steps),
        Kind::BatchNormFinalise(of) => statistics::finalise(of, steps),
        Kind::BatchNormBackwardWeights(_) => statistics::backward_weights(steps),
        Kind::Softmax(of) => softmax::lower(of, steps),
        Kind::ResampleForward(of) => resample::forward(of, steps),
        Kind::ResampleBackward(of) => resample::backward(of, steps),
        Kind::Rng(of) => random::lower(of, steps),
        Kind::BandMask(of) => masks::band(of, steps),
        Kind::Padding(of) => masks::padding(of, steps),
        Kind::RopeForward(of) => rope::forward(of, steps),
        Kind::RopeBackward(of) => rope::backward(of, steps),
        Kind::Experts(of) => experts::forward(of, steps),
        Kind::ExpertsBackward => experts::backward(steps),
        Kind::PagedLoad => pages::lower(steps),
        Kind::Quantize(of) => blocks::quantize(of, steps),
        Kind::Dequantize(of) => blocks::dequantize(of, steps),
        Kind::Unpack(packing) => blocks::unpack(*packing, steps),
        Kind::Pack(packing) => blocks::pack(*packing, steps),
        Kind::RaggedLoad { multiplier } => ragged::lower(RaggedFunction::Load, *multiplier, operation, steps),
        Kind::RaggedStore { multiplier } => {
            ragged::lower(RaggedFunction::Store, *multiplier, operation, steps)
        }
        Kind::Attend(of) => attend::lower(of, steps),
        Kind::AttendBackward(of) => attend::gradients(of, steps),
        Kind::Weights => softmax::weights(steps),
        Kind::Tile(of) => tiles::lower(of, steps),
        // What is a graph of others is one when it gets here.
        Kind::AttentionForward(_)
        | Kind::AttentionBackward(_)
        | Kind::Stream(_)
        | Kind::Chain(_)
        | Kind::Other(_) => Err(Error::unsupported("nothing computes it yet")),
    }
}
