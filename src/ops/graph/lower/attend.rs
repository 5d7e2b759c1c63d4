//! Attention as the one step that it is.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::work::Work;
use super::super::{Attended, Port};
use crate::error::{Error, Result};
use crate::ops::attend::{Attend, Side};

/// Adds the step.
///
/// # Errors
/// Not supported: shapes that do not fit, what is missing.
pub fn lower(of: &Attended, steps: &mut Builder<'_>) -> Result<()> {
    let o = steps.write(Port::O)?;
    let stats = steps.wanted(Port::Stats, 0.0)?;
    let [q, k, v] = [steps.read(Port::Q)?, steps.read(Port::K)?, steps.read(Port::V)?];
    let (scale, fill) = (steps.given(Port::Scale)?, steps.given(Port::B)?);
    let lengths = [steps.given(Port::LengthQ)?, steps.given(Port::LengthKv)?];
    let bounds = [steps.given(Port::RightBound)?, steps.given(Port::LeftBound)?];
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
    ];
    let fits = |view: &View| view.offset == 0 && view.layout.split.is_none() && !view.is_empty();
    if !all.iter().flatten().all(fits) {
        return Err(Error::unsupported("attention of parts of tensors"));
    }
    let matrix = |view: &View, swaps: bool| -> Result<([i64; 4], [i64; 4])> {
        let of = |list: &[i64]| <[i64; 4]>::try_from(list).ok();
        let both = of(&view.layout.dims).zip(of(&view.layout.strides));
        let (mut dims, mut strides) = both.ok_or_else(|| Error::unsupported("attention of other ranks"))?;
        if swaps {
            dims.swap(2, 3);
            strides.swap(2, 3);
        }
        Ok((dims, strides))
    };
    let (to, of_o) = matrix(&o, false)?;
    let ((queries, of_q), (keys, of_k)) = (matrix(&q, false)?, matrix(&k, of.transposed[0])?);
    let (values, of_v) = matrix(&v, of.transposed[1])?;
    let ([batch, heads, rows, width], [_, of_keys, count, _]) = (queries, keys);
    let [_, of_values, _, columns] = values;
    let are_shared = [of_keys, of_values].iter().all(|&own| heads % own == 0);
    let fits = to == [batch, heads, rows, columns]
        && keys == [batch, of_keys, count, width]
        && values == [batch, of_values, count, columns]
        && are_shared
        && [o, k, v].iter().all(|view| view.scalar == q.scalar);
    if !fits {
        return Err(Error::unsupported("matrices of attention that do not fit each other"));
    }
    let side = |edge: Option<super::super::Edge>, bound: Option<View>| {
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
    };
    let views = all.map(|view| view.unwrap_or(o));
    steps.step(Work::Attend(Box::new(step)), &views.each_ref());
    Ok(())
}
