//! The three directions of a convolution: contractions.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Convolution, Direction, Port};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract, Geometry, Side, Terms};
use crate::ops::{Compute, Scaling};

/// Adds the steps; residual, bias and activation are those of a product with what follows it.
///
/// # Errors
/// Not supported: types that are not multiplied, dims that do not fit.
pub fn lower(of: &Convolution, activation: Option<Activation>, steps: &mut Builder<'_>) -> Result<()> {
    let (to, from, filter_at) = match of.direction {
        Direction::Forward => (Port::Y, [Port::X, Port::W], 2),
        Direction::BackwardData => (Port::Dx, [Port::Dy, Port::W], 2),
        Direction::BackwardFilter => (Port::Dw, [Port::X, Port::Dy], 0),
    };
    let missing = || Error::unsupported(format!("a convolution without {}", to.name()));
    let dst = steps.wanted(to, of.beta)?.ok_or_else(missing)?;
    let (a, b) = (steps.read(from[0])?, steps.read(from[1])?);
    let views = [&dst, &a, &b];
    for view in views {
        if matches!(view.scalar, Scalar::I32 | Scalar::I64 | Scalar::Bool) && view.slot != dst.slot {
            return Err(Error::unsupported(format!("a convolution of {}", view.scalar.name())));
        }
    }
    let image = if of.direction == Direction::BackwardData { &dst } else { &a };
    let filter = views[filter_at];
    let rank = filter.dims().rank();
    if rank < 3 || views.iter().any(|view| view.dims().rank() != rank) {
        return Err(Error::unsupported("a convolution of other numbers of dimensions"));
    }
    if views.iter().any(|view| view.is_empty()) {
        return Err(Error::unsupported("a convolution without elements"));
    }
    // Spatial dimensions in front of those that the window names have a window of one.
    let named = of.spatial.strides.rank();
    let spatial = |values: &Dims, neutral: i64| {
        let mut all = Dims::filled(rank - 2, neutral);
        for (to, from) in all.iter_mut().rev().zip(values.iter().rev()) {
            *to = *from;
        }
        all
    };
    if named > rank - 2 {
        return Err(Error::unsupported("a window of more dimensions than the tensors have"));
    }
    let (channels, own) = (image.dims()[1], filter.dims()[1]);
    let geometry = Geometry {
        padding: spatial(&of.spatial.before, 0),
        strides: spatial(&of.spatial.strides, 1),
        dilation: spatial(&of.spatial.dilation, 1),
        groups: if own > 0 { channels / own } else { 0 },
        flip: of.mode == 0,
    };
    let terms = match of.direction {
        Direction::Forward => filter.dims()[2..].iter().product::<i64>().checked_mul(own),
        Direction::BackwardData => None,
        Direction::BackwardFilter => b.dims().product(),
    };
    let accumulate = Accumulate::of_bytes([a.scalar, b.scalar], terms).unwrap_or(match steps.compute {
        Compute::Single => Accumulate::Single,
        Compute::Double => Accumulate::Double,
    });
    let side = |at: usize| Side { layout: &views[at].layout, scalar: views[at].scalar };
    let (dst_side, a_side, b_side) = (side(0), side(1), side(2));
    let (residual, bias) = (steps.given(Port::Residual)?, steps.given(Port::Bias)?);
    let added = |view: &View| (view.layout, view.scalar);
    let (z, with_bias) = (residual.as_ref().map(added), bias.as_ref().map(added));
    let terms = Terms {
        z: z.as_ref().map(|(layout, scalar)| (Side { layout, scalar: *scalar }, 1.0)),
        bias: with_bias.as_ref().map(|(layout, scalar)| Side { layout, scalar: *scalar }),
        activation,
        ..Terms::scaled(Scaling { alpha: of.alpha, beta: of.beta })
    };
    let all: Vec<&View> = views.into_iter().chain(&residual).chain(&bias).collect();
    let has_rows = of.direction == Direction::BackwardFilter
        || geometry.has_part_rows(dst.dims(), of.direction == Direction::BackwardData);
    let mut sink = |step: &Contract| {
        let mut step = *step;
        step.allow_tiles = crate::mode::allows_tiles() && (step.a != Scalar::F32 || has_rows);
        steps.convolve(step, of.direction, &all)
    };
    let build = match of.direction {
        Direction::Forward => Contract::forward,
        Direction::BackwardData => Contract::backward_data,
        Direction::BackwardFilter => Contract::backward_filter,
    };
    build(dst_side, a_side, b_side, &geometry, accumulate, &terms, &mut sink)
}
