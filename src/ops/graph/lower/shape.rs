//! Operations that move elements: reshape, transpose, slice, concatenate.

use super::super::steps::Builder;
use super::super::{Concat, Operation, Port, Reshape, Slice, Transpose};
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout};

/// The same elements under other dims: in their logical order, or where y's own strides find them
/// in x's memory.
///
/// # Errors
/// Not supported: other numbers of elements.
pub fn reshape(of: &Reshape, operation: &Operation, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    if x.dims().product() != y.dims().product() {
        return Err(Error::unsupported(format!("a reshape of {} to {}", x.dims(), y.dims())));
    }
    if y.is_empty() {
        return Ok(());
    }
    let declared = operation.write(Port::Y).zip(operation.read(Port::X));
    if let Some((to, from)) = declared.filter(|_| !of.logical && y.layout.split.is_none()) {
        let seen = Layout { dims: to.dims, strides: to.strides, split: None };
        // Only where x lies as it says, and as far as it reaches.
        let as_declared = x.layout.split.is_none() && x.layout.strides == from.strides;
        let inside = seen.padded_span().zip(x.layout.padded_span());
        if as_declared && inside.is_some_and(|(seen, own)| own.0 <= seen.0 && seen.1 <= own.1) {
            return steps.transform(&y, &x.with(seen.dims, seen.strides));
        }
    }
    let packed = steps.packed(&x)?;
    if y.layout.split.is_some() {
        return Err(Error::unsupported("a reshape to vectors"));
    }
    let dims = *y.dims();
    steps.transform(&y, &packed.with(dims, crate::ops::agree::row_major(&dims)))
}

/// Dimension k of y is dimension `permutation[k]` of x.
///
/// # Errors
/// Not supported: vectors, numbers that are no permutation.
pub fn transpose(of: &Transpose, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let x = steps.flat(&x)?;
    let rank = x.dims().rank();
    let (mut dims, mut strides, mut seen) = (Dims::EMPTY, Dims::EMPTY, vec![false; rank]);
    for &axis in &of.permutation {
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < rank && !seen[axis]);
        let axis =
            axis.ok_or_else(|| Error::unsupported(format!("{:?} is no permutation", of.permutation)))?;
        seen[axis] = true;
        dims.push(x.dims()[axis]);
        strides.push(x.layout.strides[axis]);
    }
    if dims != *y.dims() {
        return Err(Error::unsupported(format!("a transposition of {} to {}", x.dims(), y.dims())));
    }
    steps.transform(&y, &x.with(dims, strides))
}

/// A part of x.
///
/// # Errors
/// Not supported: vectors, indices outside of x.
pub fn slice(of: &Slice, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let mut part = steps.flat(&x)?;
    let rank = x.dims().rank();
    if [of.starts.len(), of.limits.len(), y.dims().rank()] != [rank; 3] {
        return Err(Error::unsupported("a slice of another number of dimensions"));
    }
    for axis in 0..rank {
        let (start, limit, step) =
            (of.starts[axis], of.limits[axis], of.strides.get(axis).copied().unwrap_or(1));
        let count = y.dims()[axis];
        let last = count.checked_sub(1).and_then(|turns| turns.checked_mul(step)?.checked_add(start));
        if start < 0 || limit > x.dims()[axis] || step < 1 || last.is_none_or(|last| last >= limit) {
            let rule = format!("a slice {start}..{limit} by {step} of {} to {count}", x.dims()[axis]);
            return Err(Error::unsupported(rule));
        }
        part = part.part(axis, start, count, step)?;
    }
    steps.transform(&y, &part)
}

/// Parts one after the other; the one that lies in y already is left alone.
///
/// # Errors
/// Not supported: vectors along the dimension, dims that do not fit.
pub fn concat(of: &Concat, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let parts = steps.read_all(Port::Part)?;
    let rank = y.dims().rank();
    let axis = usize::try_from(of.axis).ok().filter(|&axis| axis < rank);
    let axis = axis.ok_or_else(|| Error::unsupported("a concatenation along no dimension"))?;
    let mut begin = 0;
    for (index, part) in parts.iter().enumerate() {
        let fits = part.dims().rank() == rank
            && (0..rank).all(|k| {
                if k == axis { part.dims()[k] <= y.dims()[k] - begin } else { part.dims()[k] == y.dims()[k] }
            });
        if !fits {
            return Err(Error::unsupported(format!("{} as a part of {}", part.dims(), y.dims())));
        }
        let count = part.dims()[axis];
        if of.in_place != Some(index) {
            steps.transform(&y.part(axis, begin, count, 1)?, part)?;
        }
        begin += count;
    }
    if begin != y.dims()[axis] {
        return Err(Error::unsupported("a concatenation that does not fill its result"));
    }
    Ok(())
}
