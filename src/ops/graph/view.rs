//! Where the elements of a tensor lie, as the steps of an operation see it.

use super::{Tensor, Type};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, Layout, Split};
use crate::ops::agree;

/// An operand of a plan, or a part of it, read or written by these dims.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The operand of the plan.
    pub slot: usize,
    /// Scalars from its pointer on.
    pub offset: i64,
    /// The type of its scalars.
    pub scalar: Scalar,
    /// Dims and strides.
    pub layout: Layout,
}

impl View {
    /// Its dims.
    pub fn dims(&self) -> &Dims {
        &self.layout.dims
    }

    /// The same elements under these dims: a dimension of one element repeats, and so does a single
    /// element whatever its rank is.
    ///
    /// # Errors
    /// Not supported for dims that do not broadcast.
    pub fn broadcast(&self, dims: &[i64]) -> Result<View> {
        if self.layout.split.is_none() && self.dims().iter().all(|&dim| dim == 1) {
            return Ok(self.with(Dims::new(dims), Dims::filled(dims.len(), 0)));
        }
        let layout = self.layout.broadcast(dims);
        let layout = layout.ok_or_else(|| {
            Error::unsupported(format!("{} does not broadcast to {}", self.layout.dims, Dims::new(dims)))
        })?;
        Ok(View { layout, ..*self })
    }

    /// Other dims and strides over the same memory; no blocks.
    pub fn with(&self, dims: Dims, strides: Dims) -> View {
        View { layout: Layout { dims, strides, split: None }, ..*self }
    }

    /// `count` elements of one dimension, from `first` on, each `step` from the one before.
    ///
    /// # Errors
    /// Not supported for a part of a dimension in blocks.
    pub fn part(&self, axis: usize, first: i64, count: i64, step: i64) -> Result<View> {
        if self.layout.block(axis) > 1 {
            return Err(Error::unsupported("a part of a dimension in vectors"));
        }
        let mut part = *self;
        part.offset += first * self.layout.strides[axis];
        part.layout.dims[axis] = count;
        if count > 1 {
            part.layout.strides[axis] *= step;
        }
        Ok(part)
    }

    /// Dimension `axis` as two, the inner one of `inner` neighbours. Pre: `inner` divides it, no
    /// blocks, fewer than 8 dimensions.
    pub fn cut(&self, axis: usize, inner: i64) -> View {
        let (mut dims, mut strides) = (Dims::EMPTY, Dims::EMPTY);
        for k in 0..self.dims().rank() {
            let (dim, stride) = (self.layout.dims[k], self.layout.strides[k]);
            if k == axis {
                dims.push(dim / inner);
                strides.push(stride * inner);
            }
            dims.push(if k == axis { inner } else { dim });
            strides.push(stride);
        }
        self.with(dims, strides)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.layout.dims.contains(&0)
    }

    /// Whether elements follow each other in the order of the dimensions.
    pub fn is_row_major(&self) -> bool {
        let wanted = agree::row_major(&self.layout.dims);
        self.layout.split.is_none()
            && (0..wanted.rank()).all(|k| self.layout.dims[k] == 1 || self.layout.strides[k] == wanted[k])
    }
}

impl Tensor {
    /// The type of its scalars.
    ///
    /// # Errors
    /// Not supported for types that the library lacks.
    pub(super) fn scalar(&self) -> Result<Scalar> {
        match self.data_type {
            Type::Known(data_type) if data_type.lanes() == 1 => Ok(data_type.scalar()),
            _ => Err(Error::unsupported(format!("tensor {} of {}", self.uid, self.data_type))),
        }
    }

    /// Where its scalars lie, from its pointer on.
    ///
    /// # Errors
    /// Not supported beyond 64 bits, and for what is not computed: reordered and ragged tensors.
    pub(super) fn layout(&self) -> Result<Layout> {
        if self.reorder != 0 {
            return Err(Error::unsupported(format!("tensor {} in reordering {}", self.uid, self.reorder)));
        }
        if self.ragged.is_some() {
            return Err(Error::unsupported(format!("tensor {} is ragged", self.uid)));
        }
        let mut layout = Layout { dims: self.dims, strides: self.strides, split: None };
        let too_far = || Error::unsupported(format!("tensor {} leaves 64 bits", self.uid));
        if let Some(vector) = self.vector.filter(|vector| vector.count > 1) {
            let axis = usize::try_from(vector.dimension).ok().filter(|&axis| axis < self.dims.rank());
            let axis = axis.ok_or_else(|| {
                Error::unsupported(format!("tensor {} has vectors of no dimension", self.uid))
            })?;
            layout.dims[axis] = layout.dims[axis].checked_mul(vector.count).ok_or_else(too_far)?;
            for stride in layout.strides.iter_mut() {
                *stride = stride.checked_mul(vector.count).ok_or_else(too_far)?;
            }
            layout.split = Some(Split::new(axis, vector.count));
        }
        if !layout.dims.contains(&0) {
            agree::check_count(&layout.dims)?;
            let (low, high) = layout.padded_span().ok_or_else(too_far)?;
            // In bytes of any type.
            low.checked_mul(8)
                .zip(high.checked_add(1).and_then(|end| end.checked_mul(8)))
                .ok_or_else(too_far)?;
        }
        Ok(layout)
    }

    /// Where its scalars lie in the workspace: as it says, if that is without gaps, else in the
    /// order of its dimensions.
    ///
    /// # Errors
    /// As for [`layout`](Tensor::layout).
    pub(super) fn placed(&self) -> Result<Layout> {
        let layout = self.layout()?;
        if layout.dims.contains(&0) || layout.split.is_some() {
            return Ok(layout);
        }
        let count = layout.dims.product();
        let is_dense = layout.padded_span().is_some_and(|(low, high)| low == 0 && Some(high + 1) == count);
        if is_dense && !layout.overlaps() {
            return Ok(layout);
        }
        Ok(Layout { strides: agree::row_major(&layout.dims), ..layout })
    }
}
