//! Where a tensor of a convolution lies.

use crate::desc::TensorDescriptor;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Layout;
use crate::ops::contract::Side;

/// A tensor with its scalar type, held for as long as its plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub layout: Layout,
    pub scalar: Scalar,
}

impl Place {
    pub(super) fn of(tensor: &TensorDescriptor) -> Result<Self> {
        Ok(Place { layout: *tensor.layout()?, scalar: tensor.data_type().scalar() })
    }

    pub(super) fn side(&self) -> Side<'_> {
        Side { layout: &self.layout, scalar: self.scalar }
    }
}
