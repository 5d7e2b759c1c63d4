//! Products of rows, each with the matrix of its expert.
//!
//! The rows of an expert go from its first row up to the first row of the next expert. Where
//! experts begin is data: where that can be read when the plan runs, each expert multiplies its own
//! rows; elsewhere each multiplies all rows, and keeps the results of its own. With more offsets
//! than experts the rows are those of several batches: in each, one segment for each expert.
//! Source: docs.nvidia.com/cudnn/operations/MoeGroupedMatmul.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::work::Segment;
use super::super::{Experts, Port};
use super::matmul::{factor, product, transposed};
use super::rows::by_number;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::Compute;
use crate::ops::aggregate::AggregateFunction;
use crate::ops::function::Function;

/// The modes, by their numbers in the C interface.
mod mode {
    pub const NONE: i32 = 0;
    pub const GATHER: i32 = 1;
    pub const SCATTER: i32 = 2;
}

/// More than any network has: each is a few steps.
const MOST_EXPERTS: i64 = 1024;

/// `y[r] = x[r] w[expert of r]`; with x of the row that the index of r names, or with the result in
/// row `index of r * k + slot of r`. Rows before the first expert are 0.
///
/// # Errors
/// Not supported: more than one batch, dims that do not fit, other modes; rows by numbers of types
/// other than FLOAT, HALF, BFLOAT16.
pub fn forward(of: &Experts, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let (x, w) = (steps.read(Port::X)?, steps.read(Port::W)?);
    let first = steps.read(Port::GroupOffset)?;
    let (index, slots) = (steps.given(Port::Index)?, steps.given(Port::Slots)?);
    let dims = [y.dims(), x.dims(), w.dims(), first.dims()].map(|dims| <[i64; 3]>::try_from(&dims[..]));
    let misfit =
        || Error::unsupported(format!("tokens {} by experts {} to {}", x.dims(), w.dims(), y.dims()));
    let [
        Ok([1, rows, columns]),
        Ok([1, tokens, width]),
        Ok([experts, own_width, own_columns]),
        Ok([count, 1, 1]),
    ] = dims
    else {
        return Err(misfit());
    };
    if (width, columns) != (own_width, own_columns) || !are_segments(count, experts) {
        return Err(misfit());
    }
    if y.is_empty() {
        return Ok(());
    }
    let named = |view: Option<View>| {
        view.filter(|view| view.dims()[..] == [1, rows, 1])
            .ok_or_else(|| Error::unsupported("rows without their numbers"))
    };
    let x = match of.mode {
        mode::NONE | mode::SCATTER if tokens == rows => x,
        mode::GATHER => {
            let to = steps.piece(x.scalar, rows.saturating_mul(width))?;
            let from = steps.piece_of(&x, tokens.saturating_mul(width))?;
            let index = named(index)?;
            steps.tell_numbers(Port::Index, "token index", Some(tokens));
            by_number(steps, AggregateFunction::Forward, [&to, &from], &index, [tokens, rows, width])?;
            to.with(Dims::new(&[1, rows, width]), Dims::new(&[rows * width, width, 1]))
        }
        _ => return Err(misfit()),
    };
    let [x, w] = [factor(steps, &x)?, factor(steps, &w)?];
    // Offsets and numbers are integers, for which binary64 is needed; products are not.
    let of_numbers = std::mem::replace(&mut steps.compute, Compute::of(&[y.scalar, x.scalar, w.scalar]));
    let all = steps.wide(y.dims())?;
    steps.fill(&all, 0.0);
    let own = steps.wide(y.dims())?;
    let line = steps.line(3, 1, rows)?;
    for expert in 0..experts {
        let (before, own_w) = (steps.count(), w.part(0, expert, 1, 1)?);
        product(steps, &own, &x, &own_w, 0.0)?;
        for segment in segments(expert, experts, count) {
            let flags = rows_of(steps, &first, segment, &line)?;
            steps.keep(&all, &own, &flags, &all)?;
        }
        let views = [all, x, own_w];
        let of = |segment| segment_of(steps.compute, views, [Some(1), Some(1), None], &first, segment, 0.0);
        let products = segments(expert, experts, count).map(of).collect::<Result<_>>()?;
        steps.segments(before, products);
    }
    if of.mode != mode::SCATTER {
        return steps.transform(&y, &all);
    }
    let (index, slots) = (named(index)?, named(slots)?);
    steps.compute = of_numbers;
    let [to, from] = [steps.piece(y.scalar, rows * columns)?, steps.piece(y.scalar, rows * columns)?];
    let seen = |view: &View| view.with(*y.dims(), Dims::new(&[rows * columns, columns, 1]));
    steps.transform(&seen(&from), &all)?;
    steps.fill(&to, 0.0);
    let places = steps.wide(index.dims())?;
    steps.map_with(&places, Function::Add, &[index, slots], 0.0, [of.top_k as f64, 1.0])?;
    steps.tell_numbers(Port::Index, "TOP_K * token index + token ks", Some(rows));
    by_number(steps, AggregateFunction::Backward, [&to, &from], &places, [rows, rows, columns])?;
    steps.transform(&y, &seen(&to))
}

/// `dw[e] = sum over the rows of e of x[r]^T dy[r]`
///
/// # Errors
/// Not supported: more than one batch, dims that do not fit.
pub fn backward(steps: &mut Builder<'_>) -> Result<()> {
    let dw = steps.write(Port::Dw)?;
    let (x, dy) = (steps.read(Port::X)?, steps.read(Port::Dy)?);
    let first = steps.read(Port::GroupOffset)?;
    let misfit =
        || Error::unsupported(format!("gradients {} of tokens {} to {}", dy.dims(), x.dims(), dw.dims()));
    let (Ok([experts, ..]), Ok([1, rows, _])) =
        (<[i64; 3]>::try_from(&dw.dims()[..]), <[i64; 3]>::try_from(&x.dims()[..]))
    else {
        return Err(misfit());
    };
    let Ok([count, 1, 1]) = <[i64; 3]>::try_from(&first.dims()[..]) else { return Err(misfit()) };
    if !are_segments(count, experts) || dy.dims().first() != Some(&1) {
        return Err(misfit());
    }
    if dw.is_empty() {
        return Ok(());
    }
    let [x, dy] = [factor(steps, &x)?, factor(steps, &dy)?];
    steps.compute = Compute::of(&[dw.scalar, x.scalar, dy.scalar]);
    let zero = steps.constant(0.0, &[1; 3])?;
    // What is not the expert's own counts as 0, whatever it is.
    let mut kept = Vec::new();
    for view in [&x, &dy] {
        kept.push(steps.scratch(view.scalar, view.dims())?);
    }
    let wide = steps.wide(&[1, dw.dims()[1], dw.dims()[2]])?;
    let line = if rows > 0 { Some(steps.line(3, 1, rows)?) } else { None };
    let sums = steps.wide(wide.dims())?;
    for expert in 0..experts {
        steps.fill(&sums, 0.0);
        let before = steps.count();
        for segment in segments(expert, experts, count) {
            let flags = match &line {
                Some(line) => rows_of(steps, &first, segment, line)?,
                None => Vec::new(),
            };
            for (own, view) in kept.iter().zip([&x, &dy]) {
                steps.keep(own, view, &flags, &zero)?;
            }
            product(steps, &wide, &transposed(&kept[0])?, &kept[1], 0.0)?;
            if segment == expert {
                steps.transform(&sums, &wide)?;
            } else {
                steps.map(&sums, Function::Add, &[sums, wide])?;
            }
        }
        let views = [sums, transposed(&x)?, dy];
        let of = |segment| segment_of(steps.compute, views, [None, Some(2), Some(1)], &first, segment, 1.0);
        let products = segments(expert, experts, count).map(of).collect::<Result<_>>()?;
        steps.segments(before, products);
        steps.transform(&dw.part(0, expert, 1, 1)?, &sums)?;
    }
    Ok(())
}

/// Whether these offsets are one for each expert in some batches, and few enough.
fn are_segments(count: i64, experts: i64) -> bool {
    experts > 0 && count > 0 && count % experts == 0 && count <= MOST_EXPERTS || (count, experts) == (0, 0)
}

/// The segments of an expert: one in each batch.
fn segments(expert: i64, experts: i64, count: i64) -> impl Iterator<Item = i64> {
    (0..count / experts).map(move |batch| batch * experts + expert)
}

/// A product of the rows of a segment.
fn segment_of(
    compute: Compute, views: [View; 3], axes: [Option<usize>; 3], first: &View, segment: i64, beta: f64,
) -> Result<Segment> {
    let end = segment + 1;
    let end = (end < first.dims()[0]).then(|| first.part(0, end, 1, 1)).transpose()?;
    let ends = [Some(first.part(0, segment, 1, 1)?), end];
    Ok(Segment { views, axes, compute, beta, rows: views[1].dims()[axes[1].unwrap_or(1)], ends })
}

/// 1 for the rows of an expert (the segment of this number), as the product of these; `line` holds
/// the indices of all rows.
pub(super) fn rows_of(steps: &mut Builder<'_>, first: &View, expert: i64, line: &View) -> Result<Vec<View>> {
    let of_products = std::mem::replace(&mut steps.compute, Compute::of(&[first.scalar]));
    let begin = first.part(0, expert, 1, 1)?;
    let mut flags = vec![steps.joined(Function::LessOrEqual, &begin, line)?];
    if expert + 1 < first.dims()[0] {
        let end = first.part(0, expert + 1, 1, 1)?;
        flags.push(steps.joined(Function::Less, line, &end)?);
    }
    steps.compute = of_products;
    Ok(flags)
}
