//! Recurrent networks as version 6 sized them: bytes of weights, workspace and reserve space, places of weights.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::arg::{Out, results};
use super::removed_rnn_call::{Vectors, is_packed, network};
use super::types::{
    cudnnDataType_t, cudnnFilterDescriptor_t, cudnnHandle_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, raw,
};
use super::{context, data_type, filter, removed_rnn_beside, rnn, tensor};
use crate::desc::rnn::TypePair;
use crate::desc::sequence::RnnDataLayout;
use crate::desc::{FilterDescriptor, Format};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::recurrent::{Network, Sequences, reserve_size, workspace_size};

/// The batch that needs most workspace of those with `batches` active sequences at the time steps: with padding, which is what the
/// Ex calls take with the same sizes.
fn roomiest(batches: &[i64]) -> Sequences {
    let ranks = 0..batches.first().copied().unwrap_or(0);
    let lengths = ranks.map(|rank| batches.partition_point(|&active| active > rank) as i64).collect();
    Sequences::new(RnnDataLayout::BatchMajorPadded, batches.len() as i64, lengths)
}

/// What a query of sizes is about.
///
/// # Errors
/// Bad parameter, and not supported, as [`cudnnGetRNNWorkspaceSize`] lists them.
///
/// # Safety
/// `xDesc` is NULL or valid for reads of `seqLength` descriptors.
unsafe fn batch(
    rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int, xDesc: *const cudnnTensorDescriptor_t,
) -> Result<(Network, Vec<i64>)> {
    let desc = rnn::get(rnnDesc)?;
    // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
    let x = unsafe { Vectors::steps(xDesc, seqLength, "xDesc") }?;
    TypePair::version_6(x.data, desc.compute)?;
    x.sound()?;
    let (network, _) = network(rnnDesc, x.data, x.size)?;
    if network.skips_input && network.input != network.hidden {
        let text = format!("xDesc has vectors of {}: input that is skipped has {}", x.size, network.hidden);
        return Err(Error::mismatch(text));
    }
    // Last, what a persistent algorithm does not compute with.
    desc.network_on(x.data, network.input as i32)?.check_support()?;
    Ok((network, x.batches))
}

/// The spaces of training, workspace first, if the original serves the network.
///
/// # Errors
/// Those of the original.
///
/// # Safety
/// `xDesc` is NULL or valid for reads of `seqLength` descriptors.
unsafe fn spaces_beside(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t,
) -> Result<Option<[usize; 2]>> {
    // SAFETY: arrays of descriptors are NULL or hold `seqLength` of them.
    let x = unsafe { Vectors::steps(xDesc, seqLength, "xDesc") }?;
    let network = removed_rnn_beside::Network::of(handle, rnnDesc, x.data, x.size)?;
    network.map(|network| network.spaces(&x)).transpose()
}

/// Bytes of workspace that a batch takes in every call.
///
/// They serve inference, training and both backward calls, and their Ex forms on sequences of these lengths in any order and layout.
/// `xDesc` has a descriptor `[batch, inputSize, 1]` for each time step; sequences are sorted by falling length, so that the batch
/// never increases. The size is never 0, and does not grow when a sequence or the batch becomes smaller.
///
/// Status, in this order: BAD_PARAM for a handle or descriptor that is not alive, or a `seqLength` below 1; NOT_SUPPORTED for a type
/// that the network does not compute with; BAD_PARAM for descriptors that are not packed or differ in type or vector size, a batch
/// that increases, or an input size that the network does not take; NOT_SUPPORTED for a persistent algorithm that computes in HALF,
/// or in DOUBLE unless it is the dynamic one; BAD_PARAM if `sizeInBytes` is NULL.
///
/// Source: observed on 8.9.7; the size is this library's own.
///
/// # Safety
/// `xDesc` is NULL or valid for reads of `seqLength` descriptors, `sizeInBytes` for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNWorkspaceSize(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    // SAFETY: `xDesc` is NULL or holds `seqLength` descriptors.
    let (network, batches) = unsafe { batch(rnnDesc, seqLength, xDesc) }?;
    // SAFETY: `xDesc` is NULL or holds `seqLength` descriptors.
    if let Some([work, _]) = unsafe { spaces_beside(handle, rnnDesc, seqLength, xDesc) }? {
        return results!(new sizeInBytes = work);
    }
    let sequences = roomiest(&batches);
    let (training, inference) =
        (workspace_size(&network, &sequences, true)?, workspace_size(&network, &sequences, false)?);
    results!(new sizeInBytes = training.max(inference))
}

/// Bytes that cudnnRNNForwardTraining keeps of a batch for the backward calls. Never 0.
///
/// Status, in this order: as cudnnGetRNNWorkspaceSize.
///
/// Source: observed on 8.9.7; the size is this library's own.
///
/// # Safety
/// As for cudnnGetRNNWorkspaceSize.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNTrainingReserveSize(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, seqLength: c_int,
    xDesc: *const cudnnTensorDescriptor_t, sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    context::check(handle)?;
    // SAFETY: `xDesc` is NULL or holds `seqLength` descriptors.
    let (network, batches) = unsafe { batch(rnnDesc, seqLength, xDesc) }?;
    // SAFETY: `xDesc` is NULL or holds `seqLength` descriptors.
    if let Some([_, reserve]) = unsafe { spaces_beside(handle, rnnDesc, seqLength, xDesc) }? {
        return results!(new sizeInBytes = reserve);
    }
    let sequences = Sequences::from_batches(&batches);
    results!(new sizeInBytes = reserve_size(&network, &sequences)?)
}

/// Bytes of all weights and biases: those of cudnnGetRNNWeightSpaceSize, with the input size of `xDesc`.
///
/// `xDesc` is `[batch, inputSize, ...]`; nothing but its type and inputSize counts. 0 for a descriptor that was never set.
///
/// Status, in this order: BAD_PARAM for a descriptor that is not alive, an `xDesc` that is not packed, a `dataType` that is not
/// its type; NOT_SUPPORTED for types other than FLOAT, DOUBLE and HALF; BAD_PARAM for an `xDesc` that is not the input of a network that
/// cudnnSetRNNDescriptor_v8 has set, or if `sizeInBytes` is NULL. The handle is not looked at.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// `sizeInBytes` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNParamsSize(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, xDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize, dataType: MaybeUninit<cudnnDataType_t>,
) -> cudnnStatus_t {
    let (desc, x) = (rnn::get(rnnDesc)?, tensor::get(xDesc, "xDesc")?);
    // SAFETY: `sizeInBytes` is NULL or valid for one write.
    let size = unsafe { Out::new(sizeInBytes, "sizeInBytes") }?;
    if !is_packed(&x) {
        return Err(Error::mismatch(format!("xDesc has dims {}: it must be set and packed", x.dims())));
    }
    let code = raw(dataType);
    if data_type::known(code) != Some(x.data_type()) {
        let rule = format!("xDesc is {:?}", x.data_type());
        return Err(Error::argument("dataType", code.into(), rule));
    }
    if !matches!(x.data_type(), DataType::Float | DataType::Double | DataType::Half) {
        let text = format!("xDesc is {:?}: weights are FLOAT, DOUBLE or HALF", x.data_type());
        return Err(Error::unsupported(text));
    }
    if let Some(beside) = removed_rnn_beside::Network::of(
        handle,
        rnnDesc,
        x.data_type(),
        x.dims().get(1).copied().unwrap_or(0),
    )? {
        size.set(beside.weight_bytes()?);
        return Ok(());
    }
    let bytes = match desc.is_set() {
        true => network(rnnDesc, x.data_type(), x.dims()[1])?.0.weight_bytes()?,
        false => 0,
    };
    size.set(bytes);
    Ok(())
}

/// Offset, in elements, and dims of a part of the weights, if the network has it: of a pseudo layer and a `linLayerID`.
type Part = fn(&Network, i64, i64) -> Option<(i64, [i64; 3])>;

/// The arguments that tell of one part of the weights.
struct Request {
    handle: cudnnHandle_t,
    rnn: cudnnRNNDescriptor_t,
    pseudo_layer: c_int,
    x: cudnnTensorDescriptor_t,
    w_desc: cudnnFilterDescriptor_t,
    w: *const c_void,
    lin_layer: c_int,
    /// How many numbers a `linLayerID` has for each gate, and further ones.
    choices: fn(i64) -> i64,
    /// Where the part lies.
    part: Part,
    /// Whether it is a bias.
    is_bias: bool,
}

/// Writes where a part of the weights lies, and its shape.
///
/// # Errors
/// Bad parameter, and [`Error::TooShort`], as [`cudnnGetRNNLinLayerMatrixParams`] lists them.
///
/// # Safety
/// `address` is NULL or valid for one write.
unsafe fn locate(
    request: &Request, (desc, desc_name): (cudnnFilterDescriptor_t, &'static str),
    (address, address_name): (*mut *mut c_void, &'static str),
) -> Result<()> {
    rnn::get(request.rnn)?;
    let x = tensor::get(request.x, "xDesc")?;
    let w = filter::get(request.w_desc, "wDesc")?;
    filter::get(desc, desc_name)?;
    // SAFETY: `address` is NULL or valid for one write.
    let address = unsafe { Out::new(address, address_name) }?;
    let input = x.dims().get(1).copied().unwrap_or(0);
    let (network, _) = network(request.rnn, x.data_type(), input)?;
    let (pseudo, lin_layer) = (i64::from(request.pseudo_layer), i64::from(request.lin_layer));
    let choices = (request.choices)(network.gates());
    for (argument, value, end) in
        [("pseudoLayer", pseudo, network.pseudo_layers()), ("linLayerID", lin_layer, choices)]
    {
        if !(0..end).contains(&value) {
            return Err(Error::argument(argument, value, format!("from 0 to {}", end - 1)));
        }
    }
    if w.data_type() != x.data_type() {
        let text = format!("wDesc is {:?} and xDesc {:?}", w.data_type(), x.data_type());
        return Err(Error::mismatch(text));
    }
    if let Some(beside) = removed_rnn_beside::Network::of(request.handle, request.rnn, x.data_type(), input)?
    {
        let ids = [request.pseudo_layer, request.lin_layer];
        let is_bias = request.is_bias;
        let at = removed_rnn_beside::place(&beside, ids, request.w, is_bias, desc, x.data_type())?;
        address.set(at);
        return Ok(());
    }
    network.weight_bytes()?;
    let Some((offset, dims)) = (request.part)(&network, pseudo, lin_layer) else {
        filter::put(desc, desc_name, FilterDescriptor::default())?;
        address.set(std::ptr::null_mut());
        return Ok(());
    };
    let element = network.scalar().size() as i64;
    let end = (offset + dims[1] * dims[2]) * element;
    if (w.size_in_bytes() as i64) < end {
        let bytes = w.size_in_bytes();
        let text = format!("wDesc has {bytes} bytes: this part of the weights ends behind byte {end}");
        return Err(Error::TooShort(text.into()));
    }
    let part = FilterDescriptor::new(x.data_type(), Format::Nchw, 3, &dims, Mode::current())?;
    filter::put(desc, desc_name, part)?;
    address.set(request.w.cast::<u8>().wrapping_add((offset * element) as usize).cast_mut().cast());
    Ok(())
}

/// Where one weight matrix lies, and its shape: the place that cudnnGetRNNWeightParams tells.
///
/// Operands
/// - `pseudoLayer`: `layer * directions + direction`
/// - `linLayerID`: the gate of an input matrix, the number of gates further that of a recurrent matrix, `2 * gates` the projection
/// - `w`: not touched; NULL makes the address an offset
/// - `linLayerMatDesc`: becomes an NCHW filter `[1, rows, columns]`, or unset where there is no such matrix; the address is NULL then
///
/// Workspace: none.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive, NULL `linLayerMat`
/// - BAD_PARAM: a network that was never set, or that cudnnSetRNNDescriptor_v8 has set for another input than `xDesc`; a
///   `pseudoLayer` or `linLayerID` that is not there; a `wDesc` of another type than `xDesc`
/// - INVALID_VALUE: a `wDesc` with fewer bytes than end where the matrix does
///
/// Aliasing: the weights are not touched. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// `linLayerMat` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNLinLayerMatrixParams(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, pseudoLayer: c_int, xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, linLayerID: c_int,
    linLayerMatDesc: cudnnFilterDescriptor_t, linLayerMat: *mut *mut c_void,
) -> cudnnStatus_t {
    context::check(handle)?;
    let request = Request {
        handle,
        rnn: rnnDesc,
        pseudo_layer: pseudoLayer,
        x: xDesc,
        w_desc: wDesc,
        w,
        lin_layer: linLayerID,
        choices: |gates| 2 * gates + 1,
        part: |network, pseudo, lin_layer| {
            let matrix = network.matrix(pseudo, lin_layer)?;
            Some((matrix.offset, [1, matrix.rows, matrix.columns]))
        },
        is_bias: false,
    };
    // SAFETY: `linLayerMat` is NULL or valid for one write.
    unsafe { locate(&request, (linLayerMatDesc, "linLayerMatDesc"), (linLayerMat, "linLayerMat")) }
}

/// Where one bias vector lies, and its shape: the place that cudnnGetRNNWeightParams tells.
///
/// Operands
/// - `linLayerID`: that of the matrix which it goes with, up to `2 * gates - 1`: there is no bias of a projection
/// - `linLayerBiasDesc`: becomes an NCHW filter `[1, hiddenSize, 1]`, or unset where there is no such bias; the address is NULL then
/// - the others: as for cudnnGetRNNLinLayerMatrixParams
///
/// Workspace: none.
///
/// Status, in this order: as cudnnGetRNNLinLayerMatrixParams.
///
/// Aliasing: the weights are not touched. A failing call writes nothing.
///
/// Source: observed on 8.9.7.
///
/// # Safety
/// `linLayerBias` is NULL or valid for one write.
#[entry]
#[unsafe(no_mangle)]
#[deprecated]
pub unsafe extern "C" fn cudnnGetRNNLinLayerBiasParams(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, pseudoLayer: c_int, xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t, w: *const c_void, linLayerID: c_int,
    linLayerBiasDesc: cudnnFilterDescriptor_t, linLayerBias: *mut *mut c_void,
) -> cudnnStatus_t {
    context::check(handle)?;
    let request = Request {
        handle,
        rnn: rnnDesc,
        pseudo_layer: pseudoLayer,
        x: xDesc,
        w_desc: wDesc,
        w,
        lin_layer: linLayerID,
        choices: |gates| 2 * gates,
        part: |network, pseudo, lin_layer| {
            let offset = network.bias_offset(pseudo, lin_layer)?;
            Some((offset, [1, network.hidden, 1]))
        },
        is_bias: true,
    };
    // SAFETY: `linLayerBias` is NULL or valid for one write.
    unsafe { locate(&request, (linLayerBiasDesc, "linLayerBiasDesc"), (linLayerBias, "linLayerBias")) }
}
