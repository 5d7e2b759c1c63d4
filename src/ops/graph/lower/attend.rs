//! Attention as the one step that it is, and its gradients likewise.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::work::Work;
use super::super::{Attended, Edge, Port};
use super::random;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::attend::{Attend, AttendBackward, Cap, Dropout, Kept, Side};

/// Adds the step.
///
/// # Errors
/// Not supported: shapes that do not fit, what is missing.
pub fn lower(of: &Attended, steps: &mut Builder<'_>) -> Result<()> {
    let o = steps.write(Port::O)?;
    let stats = steps.wanted(Port::Stats, 0.0)?;
    let (step, views) = attention(of, o, stats, steps)?;
    steps.step(Work::Attend(Box::new(step)), &views.each_ref());
    Ok(())
}

/// Adds the step of the gradients.
///
/// # Errors
/// As for [`lower`].
pub fn gradients(of: &Attended, steps: &mut Builder<'_>) -> Result<()> {
    let [dq, dk, dv] = [steps.write(Port::Dq)?, steps.write(Port::Dk)?, steps.write(Port::Dv)?];
    let (o, own) = (steps.read(Port::O)?, steps.read(Port::Do)?);
    let stats = steps.read(Port::Stats)?;
    let (forward, views) = attention(of, o, Some(stats), steps)?;
    let gradients = [dq, dk, dv, own];
    let ([batch, heads, rows, keys], [width, columns]) = (forward.extents, forward.widths);
    let dims = [
        [batch, heads, rows, width],
        [batch, forward.heads[0], keys, width],
        [batch, forward.heads[1], keys, columns],
        [batch, heads, rows, columns],
    ];
    let mut strides = [[0; 4]; 4];
    for ((view, dims), strides) in gradients.iter().zip(dims).zip(&mut strides) {
        let (own, found) = matrix(view, false)?;
        if !is_whole(view) || own != dims || view.scalar != forward.scalar {
            return Err(unfit());
        }
        *strides = found;
    }
    let (inverse, bias) = (steps.given(Port::KeptInverse)?, steps.wanted(Port::Dbias, 0.0)?);
    let fits = |view: View| is_whole(&view) && is_spread(&view, forward.extents);
    if !bias.is_none_or(fits) {
        return Err(unfit());
    }
    let step = AttendBackward {
        forward,
        strides,
        inverse: inverse.map(|view| view.scalar),
        bias: bias.map(|view| (view.scalar, spread(&view))),
    };
    let others = [inverse.unwrap_or(o), bias.unwrap_or(o)];
    let views: Vec<&View> = gradients.iter().chain(&views).chain(&others).collect();
    steps.step(Work::AttendBackward(Box::new(step)), &views);
    Ok(())
}

fn unfit() -> Error {
    Error::unsupported("matrices of attention that do not fit each other")
}

/// Whether a view is of all of a tensor, which has elements.
fn is_whole(view: &View) -> bool {
    view.offset == 0 && view.layout.split.is_none() && !view.is_empty()
}

/// Extents and strides of a matrix, or of its transpose.
fn matrix(view: &View, swaps: bool) -> Result<([i64; 4], [i64; 4])> {
    let of = |list: &[i64]| <[i64; 4]>::try_from(list).ok();
    let both = of(&view.layout.dims).zip(of(&view.layout.strides));
    let (mut dims, mut strides) = both.ok_or_else(|| Error::unsupported("attention of other ranks"))?;
    if swaps {
        dims.swap(2, 3);
        strides.swap(2, 3);
    }
    Ok((dims, strides))
}

/// Whether a view has these extents, or 1.
fn is_spread(view: &View, extents: [i64; 4]) -> bool {
    let dims = view.dims();
    dims.rank() == extents.len() && dims.iter().zip(extents).all(|(&own, all)| own == all || own == 1)
}

/// From one index to the next of such a view; 0 where one element stands for all.
fn spread(view: &View) -> [i64; 4] {
    std::array::from_fn(|axis| if view.dims()[axis] == 1 { 0 } else { view.layout.strides[axis] })
}

/// What dropout does, and its operands: what it keeps, or draws with, and the factor.
fn dropout(of: &Attended, steps: &mut Builder<'_>) -> Result<Option<(Dropout, [View; 2])>> {
    let Some(dropped) = &of.dropout else { return Ok(None) };
    let factor = match steps.given(Port::KeptFactor)? {
        Some(factor) => factor,
        None => {
            let factor = steps.piece(Scalar::F32, 1)?;
            steps.fill(&factor, dropped.factor);
            factor
        }
    };
    let (kept, view) = match &dropped.drawn {
        Some(rng) => (Kept::Drawn(random::threshold(rng.probability)?), random::states(rng, steps)?),
        None => {
            let kept = steps.read(Port::Kept)?;
            (Kept::Given(kept.scalar, spread(&kept)), kept)
        }
    };
    Ok(Some((Dropout { kept, factor: factor.scalar }, [view, factor])))
}

/// The step forward, and its operands, of which these two are written or read.
fn attention(
    of: &Attended, o: View, stats: Option<View>, steps: &mut Builder<'_>,
) -> Result<(Attend, [View; Attend::OPERANDS])> {
    let [q, k, v] = [steps.read(Port::Q)?, steps.read(Port::K)?, steps.read(Port::V)?];
    let (scale, fill) = (steps.given(Port::Scale)?, steps.given(Port::B)?);
    let lengths = [steps.given(Port::LengthQ)?, steps.given(Port::LengthKv)?];
    let bounds = [steps.given(Port::RightBound)?, steps.given(Port::LeftBound)?];
    let (bias, sink) = (steps.given(Port::Bias)?, steps.given(Port::Sink)?);
    let slopes = steps.given(Port::Slopes)?;
    let cap = [steps.given(Port::Inner)?, steps.given(Port::Outer)?];
    let dropout = dropout(of, steps)?;
    let [kept, factor] = [0, 1].map(|k| dropout.map(|(_, views)| views[k]));
    let all = [
        Some(o),
        stats,
        Some(q),
        Some(k),
        Some(v),
        scale,
        fill,
        lengths[0],
        lengths[1],
        bounds[0],
        bounds[1],
        bias,
        cap[0],
        cap[1],
        sink,
        kept,
        factor,
        slopes,
    ];
    if !all.iter().flatten().all(is_whole) {
        return Err(Error::unsupported("attention of parts of tensors"));
    }
    let (to, of_o) = matrix(&o, false)?;
    let ((queries, of_q), (keys, of_k)) = (matrix(&q, false)?, matrix(&k, of.transposed[0])?);
    let (values, of_v) = matrix(&v, of.transposed[1])?;
    let ([batch, heads, rows, width], [_, of_keys, count, _]) = (queries, keys);
    let [_, of_values, _, columns] = values;
    let is_given = of.dropout.as_ref().is_some_and(|dropped| dropped.drawn.is_none());
    let are_shared = [of_keys, of_values].iter().all(|&own| heads % own == 0);
    let fits = to == [batch, heads, rows, columns]
        && keys == [batch, of_keys, count, width]
        && values == [batch, of_values, count, columns]
        && are_shared
        && bias.is_none_or(|bias| is_spread(&bias, [batch, heads, rows, count]))
        && [sink, slopes].iter().flatten().all(|view| is_spread(view, [1, heads, 1, 1]))
        && (!is_given || kept.is_none_or(|kept| is_spread(&kept, [batch, heads, rows, count])))
        && [o, k, v].iter().all(|view| view.scalar == q.scalar);
    if !fits {
        return Err(unfit());
    }
    let side = |edge: Option<Edge>, bound: Option<View>| {
        edge.map(|edge| Side { bound: bound.map(|view| view.scalar), strict: edge.strict, moves: edge.moves })
    };
    let by_batch = |view: View| (view.scalar, if view.dims()[0] == 1 { 0 } else { view.layout.strides[0] });
    let step = Attend {
        extents: [batch, heads, rows, count],
        heads: [of_keys, of_values],
        widths: [width, columns],
        scalar: q.scalar,
        strides: [of_o, of_q, of_k, of_v],
        stats: stats.map(|view| std::array::from_fn(|axis| view.layout.strides[axis])),
        log2: of.log2,
        scale: scale.map(|view| view.scalar),
        fill: fill.map(|view| view.scalar),
        lengths: lengths.map(|length| length.map(by_batch)),
        padded: of.padded,
        right: side(of.right, bounds[0]),
        left: side(of.left, bounds[1]),
        bias: bias.map(|view| (view.scalar, spread(&view))),
        cap: cap[0].zip(cap[1]).map(|(inner, outer)| Cap {
            inner: inner.scalar,
            outer: outer.scalar,
            divides: of.divides,
        }),
        sink: sink.map(|view| (view.scalar, spread(&view)[1])),
        slopes: slopes.map(|view| (view.scalar, spread(&view)[1])),
        dropout: dropout.map(|(dropout, _)| dropout),
    };
    Ok((step, all.map(|view| view.unwrap_or(o))))
}
