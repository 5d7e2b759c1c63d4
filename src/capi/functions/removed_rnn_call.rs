//! What the calls of version 6 on recurrent networks check before they compute, in the original's order: 8.9.7, observed.

use std::ffi::c_int;

use super::types::{cudnnRNNDescriptor_t, cudnnTensorDescriptor_t};
use super::{arg, dropout, rnn, tensor};
use crate::desc::{DropoutDescriptor, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::ops::recurrent::Network;

/// Whether the elements of a tensor lie one behind the other, the last dimension first; strides of dims of 1 do not count.
pub(super) fn is_packed(tensor: &TensorDescriptor) -> bool {
    let mut reach = 1;
    let (dims, strides) = (tensor.dims(), tensor.strides());
    for (&dim, &stride) in dims.iter().zip(strides.iter()).rev().filter(|&(&dim, _)| dim != 1) {
        if stride != reach {
            return false;
        }
        reach *= dim;
    }
    tensor.is_set() && tensor.layout().is_ok_and(|layout| layout.split.is_none())
}

/// Vectors as a call describes them: by a tensor descriptor for each time step.
pub(super) struct Vectors {
    pub(super) data: DataType,
    /// Entries of one vector.
    pub(super) size: i64,
    /// Of an array of time steps: the active sequences of each.
    pub(super) batches: Vec<i64>,
    /// What is wrong, for the types are judged before.
    fault: Option<Error>,
}

impl Vectors {
    /// A tensor descriptor for each of `count` time steps: `[batch, vector, ...]`, where further dims are not looked at.
    ///
    /// # Errors
    /// Bad parameter for fewer steps than one, NULL, and a first descriptor that is not alive.
    ///
    /// # Safety
    /// `array` is NULL or valid for reads of `count` descriptors.
    pub(super) unsafe fn steps(
        array: *const cudnnTensorDescriptor_t,
        count: c_int,
        name: &'static str,
    ) -> Result<Vectors> {
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Err(Error::argument("seqLength", count as i64, "at least 1"));
        }
        arg::required(array, name)?;
        let mut batches = Vec::new();
        batches.try_reserve_exact(count).map_err(|_| Error::HostAllocation { bytes: count * 8 })?;
        // SAFETY: not NULL, and the caller vouches for this many entries.
        let step = |index: usize| tensor::get(unsafe { array.add(index).read_unaligned() }, name);
        let first = step(0)?;
        let size = first.dims().get(1).copied().unwrap_or(0);
        let mut fault = None;
        for index in 0..count {
            let judged = step(index).and_then(|tensor| {
                let last = batches.last().copied().unwrap_or(i64::MAX);
                judge(&tensor, &first, last).map_err(|rule| {
                    let dims = tensor.dims();
                    Error::mismatch(format!("{name}[{index}] has dims {dims}: {rule}"))
                })?;
                Ok(tensor.dims()[0])
            });
            match judged {
                Ok(batch) => batches.push(batch),
                Err(error) => {
                    fault = Some(error);
                    batches.clear();
                    break;
                }
            }
        }
        Ok(Vectors { data: first.data_type(), size, batches, fault })
    }

    /// # Errors
    /// What is wrong with the description.
    pub(super) fn sound(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }
}

/// The rule that the tensor of a time step breaks, if the first one is another, and so many sequences were active before.
fn judge(tensor: &TensorDescriptor, first: &TensorDescriptor, before: i64) -> Result<(), &'static str> {
    if !is_packed(tensor) {
        return Err("it must be set and packed");
    }
    if tensor.data_type() != first.data_type() || tensor.dims()[1] != first.dims()[1] {
        return Err("type and vector size are those of the first time step");
    }
    if tensor.dims()[0] > before {
        return Err("the batch never increases from step to step");
    }
    Ok(())
}

/// The network behind a descriptor on vectors of this type and size, and its dropout.
///
/// # Errors
/// Bad parameter: no network, one of version 8 for other vectors, or a dropout that is not alive.
pub(super) fn network(
    desc: cudnnRNNDescriptor_t,
    data: DataType,
    size: i64,
) -> Result<(Network, Option<DropoutDescriptor>)> {
    let desc = rnn::get(desc)?;
    let size = i32::try_from(size).map_err(|_| Error::argument("inputSize", size, "below 2^31"))?;
    let network = desc.network_on(data, size)?;
    let dropout = dropout::at(desc.dropout, "the dropout descriptor of rnnDesc")?;
    Ok((Network::new(&network, &desc.clip, dropout.as_ref()), dropout))
}
