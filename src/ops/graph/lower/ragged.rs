//! Batches that lie where offsets say, to and from dense tensors.

use super::super::steps::Builder;
use super::super::{Operation, Port};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, LoopNest};
use crate::ops::ragged::{Ragged, RaggedFunction};

/// `y[b, i] = x[offset[b] * multiplier + i]` (load), or the other way about (store), for what lies
/// in front of the next batch.
///
/// # Errors
/// Not supported: offsets that are no integers of 32 or 64 bits, or not one more than there are
/// batches; vectors.
pub fn lower(
    function: RaggedFunction, multiplier: i64, operation: &Operation, steps: &mut Builder<'_>,
) -> Result<()> {
    let (to, from) = match function {
        RaggedFunction::Load => (steps.write(Port::Y)?, steps.batches(operation.read(Port::X), false)?),
        RaggedFunction::Store => (steps.batches(operation.write(Port::Y), true)?, steps.read(Port::X)?),
    };
    let offsets = steps.read(Port::Offset)?;
    steps.tell_numbers(Port::Offset, "ragged offset", None);
    let (dense, lists) = match function {
        RaggedFunction::Load => (&to, &from),
        RaggedFunction::Store => (&from, &to),
    };
    let Some(&batches) = dense.dims().first() else {
        return Err(Error::unsupported("batches of no dimension"));
    };
    if offsets.dims().first() != Some(&(batches + 1)) || offsets.dims().product() != Some(batches + 1) {
        return Err(Error::unsupported(format!("offsets {} of {batches} batches", offsets.dims())));
    }
    if !matches!(offsets.scalar, Scalar::I32 | Scalar::I64) {
        return Err(Error::unsupported(format!("offsets of {}", offsets.scalar.name())));
    }
    if lists.layout.split.is_some() {
        return Err(Error::unsupported("batches by offsets in vectors"));
    }
    if dense.is_empty() {
        return Ok(());
    }
    let offsets = steps.piece_of(&offsets, batches + 1)?;
    let mut nest = LoopNest::new(&[], [dense.offset, 0]);
    for axis in 1..dense.dims().rank() {
        let strides = [dense.layout.strides[axis], lists.layout.strides[axis]];
        nest.push(Axis { extent: dense.dims()[axis], strides });
    }
    nest.canonicalise();
    let (stride, scalar) = (dense.layout.strides[0], dense.scalar);
    let step = Ragged { function, nest, batches, stride, multiplier, scalar, index: offsets.scalar };
    steps.ragged(step, [&to, &from, &offsets]);
    Ok(())
}
