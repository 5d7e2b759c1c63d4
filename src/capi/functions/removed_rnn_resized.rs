//! Gradients of input that is skipped, in vectors of another size than that input: version 6 takes
//! them, and version 8 does not, so that the original writes them behind its part of the workspace.

use std::ffi::c_void;

use super::pointwise::cudnnSetTensor;
use super::recurrent::Space;
use super::removed_rnn_call::Vectors;
use super::transform::cudnnTransformTensor;
use super::types::{cudnnHandle_t, cudnnTensorDescriptor_t};
use super::{guard, sequence, tensor};
use crate::desc::TensorDescriptor;
use crate::desc::sequence::RnnDataLayout;
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;

/// What the vectors in the workspace are aligned to, in bytes.
const ALIGNMENT: usize = 256;

/// Vectors of the network's size in the workspace, and their places in vectors of the caller's.
pub(super) struct Resized {
    data: DataType,
    /// All vectors of the layout, those of padding among them.
    rows: i64,
    /// Entries of a vector of the network.
    size: i64,
    /// Entries of a vector of the caller.
    given: i64,
    dx: *mut c_void,
    workspace: *mut c_void,
    /// The bytes of workspace in front of the vectors.
    front: usize,
}

impl Resized {
    /// Bytes that vectors of this size take behind the workspace, of the batch with all its padding.
    pub(super) fn room(x: &Vectors, size: i64) -> usize {
        let (steps, batch) = (x.batches.len() as i64, x.batches.first().copied().unwrap_or(0));
        let elements = steps.saturating_mul(batch).saturating_mul(size);
        usize::try_from(elements).unwrap_or(usize::MAX / 4) * x.data.size() + ALIGNMENT
    }

    /// The place of vectors of the network's `size`; `None` if the caller's have that size, or are
    /// not wanted.
    ///
    /// # Errors
    /// Bad parameter for a workspace without room for them.
    pub(super) fn new(
        vectors: &Vectors, size: i64, (dx, space): (*mut c_void, &Space),
    ) -> Result<Option<Resized>> {
        let Some(desc) = vectors.source.filter(|_| vectors.size != size && !dx.is_null()) else {
            return Ok(None);
        };
        let told = sequence::rnn_data(desc, "the descriptor of vectors")?;
        let rows = match told.layout() {
            RnnDataLayout::TimeMajorPacked => told.lengths().iter().map(|&length| i64::from(length)).sum(),
            _ => told.lengths().len() as i64 * i64::from(told.max_length()),
        };
        let bytes = usize::try_from(rows * size).unwrap_or(usize::MAX / 16) * vectors.data.size();
        let end = space.pointer.addr().saturating_add(space.size).saturating_sub(bytes);
        let front = (end / ALIGNMENT * ALIGNMENT).checked_sub(space.pointer.addr());
        let Some(front) = front.filter(|_| !space.pointer.is_null()) else {
            let text = format!("workSpaceSizeInBytes is {}: {bytes} more are needed", space.size);
            return Err(Error::mismatch(text));
        };
        let (data, given, workspace) = (vectors.data, vectors.size, space.pointer);
        Ok(Some(Resized { data, rows, size, given, dx, workspace, front }))
    }

    /// Where the original writes.
    pub(super) fn at(&self) -> *mut c_void {
        self.workspace.wrapping_byte_add(self.front)
    }

    /// Its workspace.
    pub(super) fn rest(&self) -> Space {
        Space { pointer: self.workspace, size: self.front }
    }

    /// Moves what both sizes have to the caller's vectors, and fills the rest of these with zeros.
    ///
    /// # Errors
    /// Those of moving tensors.
    ///
    /// # Safety
    /// The caller's vectors are valid for writes, those of the workspace for reads.
    pub(super) unsafe fn move_back(&self, handle: cudnnHandle_t) -> Result<()> {
        let both = self.size.min(self.given);
        let (narrow, wide) = ([0.0_f32, 1.0], [0.0_f64, 1.0]);
        let number = |at: usize| -> *const c_void {
            if self.data == DataType::Double {
                (&raw const wide[at]).cast()
            } else {
                (&raw const narrow[at]).cast()
            }
        };
        let (from, to) = (Columns::new(self, both, self.size)?, Columns::new(self, both, self.given)?);
        // SAFETY: the vectors are valid as the caller says; both factors are of the type of y.
        guard::outcome(unsafe {
            cudnnTransformTensor(handle, number(1), from.0, self.at(), number(0), to.0, self.dx)
        })?;
        if both == self.given {
            return Ok(());
        }
        let rest = Columns::new(self, self.given - both, self.given)?;
        let at = self.dx.wrapping_byte_add(both as usize * self.data.size());
        // SAFETY: the vectors are valid as the caller says; a zero of any type is all zero bytes.
        guard::outcome(unsafe { cudnnSetTensor(handle, rest.0, at, number(0)) })
    }
}

/// Descriptor of the first entries of all vectors.
struct Columns(cudnnTensorDescriptor_t);

impl Columns {
    /// `count` entries of vectors of `size`.
    ///
    /// # Errors
    /// Without memory for a descriptor; extents beyond those of a tensor.
    fn new(of: &Resized, count: i64, size: i64) -> Result<Columns> {
        let (dims, strides) = ([of.rows, count, 1, 1], [size, 1, 1, 1]);
        let value = TensorDescriptor::with_strides(of.data, 4, &dims, &strides, Mode::Extended)?;
        let desc = Columns(tensor::insert()?);
        tensor::put(desc.0, "the descriptor of vectors", value)?;
        Ok(desc)
    }
}

impl Drop for Columns {
    fn drop(&mut self) {
        tensor::remove(self.0);
    }
}
