//! Recurrent networks on the descriptor of version 9: sizes, and places of weights.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{self, Out, results};
use super::types::{
    cudnnForwardMode_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use super::{context, dropout, rnn, sequence, tensor};
use crate::desc::{Format, RnnDescriptor, TensorDescriptor};
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::recurrent::{Network, Sequences, reserve_size, workspace_size};

/// The network of a descriptor as plans take it, without a dropout.
///
/// # Errors
/// Not initialized for a descriptor that was never set.
pub(crate) fn network(desc: &RnnDescriptor) -> Result<Network> {
    let rule = "rnnDesc was never set, or by cudnnSetRNNDescriptor_v6, which names no input size";
    let network = desc.network().ok_or(Error::NotInitialized(rule.into()))?;
    Ok(Network::new(&network, &desc.clip, None))
}

/// Prepares the kernels of a persistent recurrent network for one batch size: there is nothing to prepare on either core.
///
/// Operands: none. Workspace: none.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, or a `miniBatch` below 1; NOT_INITIALIZED for a
/// descriptor set by cudnnSetRNNDescriptor_v6, which names no input size.
///
/// Aliasing: there are no operands.
///
/// Source: observed on 9.27.0.
#[entry]
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBuildRNNDynamic(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, miniBatch: c_int,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = rnn::get(rnnDesc)?;
    if miniBatch < 1 {
        return Err(Error::argument("miniBatch", miniBatch.into(), "at least 1"));
    }
    // Nothing is looked at that is not there, as observed.
    if desc.is_set() { network(&desc).map(drop) } else { Ok(()) }
}

/// Bytes of workspace and reserve space that a batch takes in a recurrent network.
///
/// Both follow from cell, sizes, types and lengths alone: they are the same for every call, thread and core, and never grow when a
/// batch or a sequence becomes smaller. The workspace of training serves the two backward calls as well. Neither is ever 0, but for
/// the reserve space of inference.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, a `fwdMode` other than 0 and 1, an `rnnDesc` that was
/// never set, or an `xDesc` whose type or vector size is not the network's; NOT_SUPPORTED for sizes that 63 bits do not count. NULL
/// outputs are left out.
///
/// Source: observed on 9.27.0; the sizes are this library's own.
///
/// # Safety
/// Both outputs are NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, fwdMode: MaybeUninit<cudnnForwardMode_t>,
    xDesc: cudnnRNNDataDescriptor_t, workSpaceSize: *mut usize, reserveSpaceSize: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let (desc, x) = (rnn::get(rnnDesc)?, sequence::rnn_data(xDesc, "xDesc")?);
    let mode = raw(fwdMode);
    if !matches!(mode, 0 | 1) {
        return Err(Error::argument("fwdMode", mode.into(), "0 inference, 1 training"));
    }
    let network = desc.network_on(x.data_type(), x.vector_size())?;
    let dropout = dropout::at(network.dropout, "the dropout descriptor of rnnDesc")?;
    let network = Network::new(&network, &desc.clip, dropout.as_ref());
    let (sequences, training) = (Sequences::of(&x), mode == 1);
    let workspace = workspace_size(&network, &sequences, training)?;
    let reserve = if training { reserve_size(&network, &sequences)? } else { 0 };
    // SAFETY: every place is NULL or valid for one write.
    unsafe {
        arg::set_optional(workSpaceSize, workspace);
        arg::set_optional(reserveSpaceSize, reserve);
    }
    Ok(())
}

/// Bytes that all weights of a recurrent network take.
///
/// All matrices of all pseudo-layers, then all biases, without a gap; `docs/sequences.md` has the formula. 0 for a descriptor that
/// was never set.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, or if `weightSpaceSize` is NULL; NOT_INITIALIZED for a
/// descriptor set by cudnnSetRNNDescriptor_v6, which names no input size; NOT_SUPPORTED for a size that 63 bits do not count.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `weightSpaceSize` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, weightSpaceSize: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = rnn::get(rnnDesc)?;
    let bytes = || if desc.is_set() { network(&desc)?.weight_bytes() } else { Ok(0) };
    results!(new weightSpaceSize = bytes()?)
}

/// Where one weight matrix and its bias lie in the weight space, and their shapes.
///
/// Operands
/// - `pseudoLayer`: `layer * directions + direction`
/// - `linLayerID`: the gate of an input matrix, the number of gates further that of a recurrent matrix, `2 * gates` the projection
/// - `weightSpace`: not touched; NULL makes the addresses offsets
/// - `mDesc`, `bDesc`: become `[1, rows, columns]` and `[1, hiddenSize, 1]`, packed, or unset where there is no such matrix or bias;
///   their addresses are NULL then. A pair of NULLs is left out
///
/// Workspace: none.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive; BAD_PARAM for an `rnnDesc` that was never
/// set, NOT_INITIALIZED for one set by cudnnSetRNNDescriptor_v6; BAD_PARAM for a pseudo-layer or a `linLayerID` (0 to `2 * gates`, for every cell) that is not there, a weight space that is too
/// small, and where only one of `mDesc` and `mAddr` or of `bDesc` and `bAddr` is NULL. A failing call writes nothing, but in strict
/// mode the addresses up to the one that the weight space is too small for, as the original does.
///
/// Aliasing: the weights are not touched.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// `mAddr` and `bAddr` are NULL or valid for one write each.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightParams(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, pseudoLayer: i32, weightSpaceSize: usize,
    weightSpace: *const c_void, linLayerID: i32, mDesc: cudnnTensorDescriptor_t, mAddr: *mut *mut c_void,
    bDesc: cudnnTensorDescriptor_t, bAddr: *mut *mut c_void,
) -> cudnnStatus_t {
    context::check(handle)?;
    let desc = rnn::get(rnnDesc)?;
    if !desc.is_set() {
        return Err(Error::mismatch("rnnDesc was never set: it has no pseudo-layers"));
    }
    let network = network(&desc)?;
    let (pseudo, lin_layer) = (i64::from(pseudoLayer), i64::from(linLayerID));
    let place = |argument, value: i64, end: i64| match value {
        _ if (0..end).contains(&value) => Ok(()),
        _ => Err(Error::argument(argument, value, format!("from 0 to {}", end - 1))),
    };
    place("pseudoLayer", pseudo, network.pseudo_layers())?;
    place("linLayerID", lin_layer, 2 * network.gates() + 1)?;
    let matrix = network.matrix(pseudo, lin_layer);
    let matrix = matrix.map(|matrix| (matrix.offset, [1, matrix.rows, matrix.columns]));
    let bias = network.bias_offset(pseudo, lin_layer).map(|offset| (offset, [1, network.hidden, 1]));
    let needed = network.weight_bytes()?;
    // The size does not matter where nothing is asked for that is there.
    if weightSpaceSize < needed && (matrix.is_some() || bias.is_some()) {
        if Mode::current().is_strict() {
            let address = |part: Option<(i64, [i64; 3])>| {
                part.map_or(std::ptr::null_mut(), |(offset, _)| place_of(&network, weightSpace, offset))
            };
            // SAFETY: `mAddr` and `bAddr` are NULL or valid for one write each.
            unsafe {
                arg::set_optional(mAddr, address(matrix));
                if matrix.is_none() {
                    arg::set_optional(bAddr, address(bias));
                }
            }
        }
        let rule = format!("the weights take {needed} bytes");
        return Err(Error::argument("weightSpaceSize", weightSpaceSize as i64, rule));
    }
    // SAFETY: `mAddr` is NULL or valid for one write.
    let matrix = unsafe { Answer::new(&network, weightSpace, matrix, (mDesc, "mDesc"), (mAddr, "mAddr")) }?;
    // SAFETY: `bAddr` is NULL or valid for one write.
    let bias = unsafe { Answer::new(&network, weightSpace, bias, (bDesc, "bDesc"), (bAddr, "bAddr")) }?;
    // By reference: programs ask for hundreds of matrices, and moving descriptors is half of what that takes.
    matrix.as_ref().map_or(Ok(()), Answer::store)?;
    bias.as_ref().map_or(Ok(()), Answer::store)
}

/// The address of a part that begins with this element of the weight space.
fn place_of(network: &Network, base: *const c_void, offset: i64) -> *mut c_void {
    base.wrapping_byte_add(offset as usize * network.scalar().size()).cast_mut()
}

/// One part of the weights, and where to write of it.
struct Answer {
    desc: (cudnnTensorDescriptor_t, &'static str),
    tensor: TensorDescriptor,
    place: Out<*mut c_void>,
    address: *mut c_void,
}

impl Answer {
    /// What a caller hears of a part that is there, with its offset in elements and its dims, or is not; nothing if nobody asks.
    ///
    /// # Safety
    /// The place is NULL or valid for one write until the entry point returns.
    unsafe fn new(
        network: &Network, base: *const c_void, part: Option<(i64, [i64; 3])>,
        desc: (cudnnTensorDescriptor_t, &'static str), place: (*mut *mut c_void, &'static str),
    ) -> Result<Option<Answer>> {
        if desc.0.is_null() && place.0.is_null() {
            return Ok(None);
        }
        tensor::check(desc.0, desc.1)?;
        // SAFETY: the place is NULL or valid for one write until the entry point returns.
        let place = unsafe { Out::new(place.0, place.1) }?;
        let (tensor, address) = match part {
            Some((offset, dims)) => {
                let tensor =
                    TensorDescriptor::with_format(network.data, Format::Nchw, 3, &dims, Mode::current())?;
                (tensor, place_of(network, base, offset))
            }
            None => (TensorDescriptor::default(), std::ptr::null_mut()),
        };
        Ok(Some(Answer { desc, tensor, place, address }))
    }

    fn store(&self) -> Result<()> {
        tensor::put(self.desc.0, self.desc.1, self.tensor)?;
        self.place.set(self.address);
        Ok(())
    }
}
