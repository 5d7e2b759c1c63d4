//! Recurrent networks on the descriptor of version 9: forward and backward passes.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudnn_shim_macros::entry;

use super::recurrent::{self, BackwardData, ForwardData, Space, WeightData};
use super::types::{
    cudnnForwardMode_t, cudnnHandle_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnStatus_t,
    cudnnTensorDescriptor_t, cudnnWgradMode_t, raw,
};
use super::{context, dropout, rnn, sequence, tensor};
use crate::desc::rnn::{RnnAlgo, RnnInput, TypePair};
use crate::desc::sequence::RnnDataLayout;
use crate::desc::{DropoutDescriptor, RnnDataDescriptor, RnnNetwork, TensorDescriptor};
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Memory;
use crate::ops::recurrent::{Network, Problem, Sequences};

/// What every call of this file has to judge.
struct Call {
    network: RnnNetwork,
    x: RnnDataDescriptor,
    y: RnnDataDescriptor,
    problem: Problem,
    dropout: Option<DropoutDescriptor>,
}

/// State tensors and their pointers.
struct States {
    desc: cudnnTensorDescriptor_t,
    name: &'static str,
    is_given: bool,
    /// Dims, in the order of the tensor.
    dims: [i64; 3],
}

impl Call {
    /// Reads the descriptors, which must be alive.
    fn new(
        rnnDesc: cudnnRNNDescriptor_t, xDesc: cudnnRNNDataDescriptor_t, yDesc: cudnnRNNDataDescriptor_t,
    ) -> Result<Call> {
        let desc = rnn::get(rnnDesc)?;
        let (x, y) = (sequence::rnn_data(xDesc, "xDesc")?, sequence::rnn_data(yDesc, "yDesc")?);
        let network = match desc.network() {
            Some(network) => network,
            // Version 6 leaves the vectors to the data.
            None if desc.is_set() => desc.network_on(x.data_type(), x.vector_size())?,
            None => return Err(Error::NotInitialized("rnnDesc was never set".into())),
        };
        let dropout = dropout::at(network.dropout, "the dropout descriptor of rnnDesc")?;
        let problem = Problem {
            network: Network::new(&network, &desc.clip, dropout.as_ref()),
            sequences: Sequences::of(&x),
            fill: y.fill().map(u64::from_le_bytes),
        };
        Ok(Call { network, x, y, problem, dropout })
    }

    /// Compares the batches, the types and the vector sizes of x and y.
    fn check_data(&self) -> Result<()> {
        let Call { x, y, network, .. } = self;
        if x.data_type() != y.data_type() {
            let text = format!("xDesc is {:?} and yDesc {:?}", x.data_type(), y.data_type());
            return Err(Error::mismatch(text));
        }
        if x.layout() != y.layout() || x.max_length() != y.max_length() || x.lengths() != y.lengths() {
            return Err(Error::mismatch("xDesc and yDesc differ in layout, maxSeqLength, batch or lengths"));
        }
        let is_whole = x.lengths().iter().all(|&length| length == x.max_length());
        let is_padded = match x.layout() {
            RnnDataLayout::BatchMajorPadded => true,
            RnnDataLayout::TimeMajorPadded => !is_whole,
            RnnDataLayout::TimeMajorPacked => false,
        };
        if network.flags & 1 == 0 && is_padded {
            return Err(Error::mismatch(
                "rnnDesc has no CUDNN_RNN_PADDED_IO_ENABLED in its auxFlags, which sequences with padding and the batch-major layout take",
            ));
        }
        TypePair::new(Some(x.data_type()), Some(network.types.compute))?;
        if x.data_type() != network.types.data {
            return Err(Error::mismatch(format!(
                "xDesc is {:?}: the network is of {:?}",
                x.data_type(),
                network.types.data
            )));
        }
        let vector = |name, found: i32, wanted: i64, rule: &str| match i64::from(found) == wanted {
            true => Ok(()),
            false => {
                Err(Error::mismatch(format!("{name} has vectors of {found}: {rule} of rnnDesc is {wanted}")))
            }
        };
        let sizes = &self.problem.network;
        vector("xDesc", x.vector_size(), sizes.input, "inputSize")?;
        if network.input == RnnInput::Skip {
            vector("xDesc", x.vector_size(), sizes.hidden, "hiddenSize, which skipped input has,")?;
        }
        vector("yDesc", y.vector_size(), sizes.output(), "the output of all directions")
    }

    /// Hidden states, with whether any pointer to some is given.
    fn hidden(&self, desc: cudnnTensorDescriptor_t, is_given: bool) -> States {
        let Problem { network, sequences, .. } = &self.problem;
        let dims = [network.pseudo_layers(), sequences.batch(), network.projected];
        States { desc, name: "hDesc", is_given, dims }
    }

    /// Cell states likewise.
    fn cells(&self, desc: cudnnTensorDescriptor_t, is_given: bool) -> States {
        let dims = [
            self.problem.network.pseudo_layers(),
            self.problem.sequences.batch(),
            self.problem.network.hidden,
        ];
        States { desc, name: "cDesc", is_given, dims }
    }

    /// Refuses what persistent algorithms of cuDNN do not do.
    fn check_algorithm(&self) -> Result<()> {
        let is_whole = self.x.lengths().iter().all(|&length| length == self.x.max_length());
        if Mode::current().is_strict() && self.network.algo != RnnAlgo::Standard && !is_whole {
            return Err(Error::unsupported("persistent algorithms with sequences of unequal lengths"));
        }
        Ok(())
    }
}

impl States {
    /// Compares the tensor with what the network has.
    fn check(&self) -> Result<()> {
        let States { desc, name, is_given, dims } = self;
        if desc.is_null() && !is_given {
            return Ok(());
        }
        let found = tensor::get(*desc, name)?;
        let fits = found.rank() >= 3 && found.dims()[..3] == *dims;
        if !fits {
            let [layers, batch, entries] = dims;
            let found = found.dims();
            let text = format!(
                "{name} has dims {found}: the states of this network are [{layers}, {batch}, {entries}]"
            );
            return Err(Error::mismatch(text));
        }
        if !is_packed(&found) {
            return Err(Error::mismatch(format!("{name} must be packed")));
        }
        Ok(())
    }
}

/// Whether elements follow each other without a gap, the last dimension fastest, however the strides were set; strides of dims of 1 do not
/// matter.
fn is_packed(tensor: &TensorDescriptor) -> bool {
    let (dims, strides) = (tensor.dims(), tensor.strides());
    let mut expected = 1;
    (0..dims.rank()).rev().all(|axis| {
        let fits = dims[axis] == 1 || strides[axis] == expected;
        expected *= dims[axis];
        fits
    })
}

/// `y = network(x)` for a batch of sequences, with the last states hy and cy.
///
/// `docs/sequences.md` has the formulas of the cells, and the order of weights and states. With `fwdMode` 1, training, the reserve space
/// receives what the backward calls need, and dropout is applied between the layers; any other value is inference. Without dropout the
/// results of both are the same to the bit.
///
/// Operands
/// - `x`, `y`: vectors as `xDesc` and `yDesc` say, of one type and the same lengths; behind the end of a sequence x is not read, and y
///   becomes the padding fill of `yDesc` or, without one, stays as it is. NULL x are zeros, a NULL y is not wanted
/// - `hx`, `cx`, `hy`, `cy`: states `[layers * directions, batch, projSize or hiddenSize]` in the order of the batch; NULL hx and cx are
///   zeros, NULL hy and cy are not wanted. A sequence of length 0 keeps its states. Only an LSTM has cx and cy
/// - `devSeqLengths`: not read, NULL is fine; the lengths are those of `xDesc`
/// - `weightSpace`: cudnnGetRNNWeightSpaceSize bytes, read
/// - `reserveSpace`: in training cudnnGetRNNTempSpaceSizes bytes, written; the states of the dropout, read and counted up
///
/// Workspace: cudnnGetRNNTempSpaceSizes bytes; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NOT_INITIALIZED: an `rnnDesc` that was never set
/// - BAD_PARAM: x and y of different types, layouts or lengths; padding that `auxFlags` does not allow
/// - NOT_SUPPORTED: a type that is not computed in the network's math precision
/// - BAD_PARAM: vector sizes or a type that are not the network's; an `hDesc` or `cDesc` that is missing, of other dims, or not packed;
///   a weight space, workspace or, in training, reserve space that is NULL or too small
/// - NOT_SUPPORTED: persistent algorithms with unequal lengths, in strict mode
/// - BAD_PARAM: misaligned data
///
/// Aliasing: hy may be hx and cy may be cx. The CPU core takes any other overlap of what is read with what is written, as if all were read first; the CUDA
/// core refuses it with NOT_SUPPORTED. A failing call writes nothing.
///
/// Source: observed on 9.27.0; NULL x and y as cuDNN takes them.
///
/// # Safety
/// Every pointer is NULL or valid for what its descriptor says, the spaces for their sizes; no other thread uses any of them meanwhile.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNForward(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, fwdMode: MaybeUninit<cudnnForwardMode_t>,
    devSeqLengths: *const i32, xDesc: cudnnRNNDataDescriptor_t, x: *const c_void,
    yDesc: cudnnRNNDataDescriptor_t, y: *mut c_void, hDesc: cudnnTensorDescriptor_t, hx: *const c_void,
    hy: *mut c_void, cDesc: cudnnTensorDescriptor_t, cx: *const c_void, cy: *mut c_void,
    weightSpaceSize: usize, weightSpace: *const c_void, workSpaceSize: usize, workSpace: *mut c_void,
    reserveSpaceSize: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let training = raw(fwdMode) == 1;
    context::compute(handle, "cudnnRNNForward", |core| {
        let call = Call::new(rnnDesc, xDesc, yDesc)?;
        call.check_data()?;
        call.hidden(hDesc, !hx.is_null() || !hy.is_null()).check()?;
        call.cells(cDesc, !cx.is_null() || !cy.is_null()).check()?;
        let data = ForwardData {
            x,
            y,
            hx,
            hy,
            cx,
            cy,
            weights: weightSpace,
            workspace: Space { pointer: workSpace, size: workSpaceSize },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSize },
        };
        let weights = Memory { address: weightSpace.addr(), size: weightSpaceSize };
        call.problem.check_weights(weights, "weightSpace")?;
        call.problem.check_workspace(data.workspace.memory(), training, "workSpaceSize")?;
        if training {
            call.problem.check_reserve(data.reserve.memory(), false, "reserveSpaceSize")?;
        }
        call.check_algorithm()?;
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::forward(core, call.problem, call.dropout.as_ref(), training, &data) }
    })
}

/// `dx, dhx, dcx`: the gradients of a recurrent network by its inputs and first states, from those of its outputs and last states.
///
/// A training forward call on the same batch must have filled the reserve space, and another one on the same reserve space must come
/// before the next call of this function: the gradients of the gates take the place of the gates there, for
/// cudnnRNNBackwardWeights_v8.
///
/// Operands
/// - `dy`, `dx`: vectors as `yDesc` and `xDesc` say; behind the end of a sequence dy is not read and dx becomes 0. A NULL dy is zeros, a
///   NULL dx is not wanted
/// - `y`: not read
/// - `hx`, `cx`: as in the forward call, read
/// - `dhy`, `dcy`, `dhx`, `dcx`: gradients of states, in the order of the batch; NULL dhy and dcy are zeros, NULL dhx and dcx are not
///   wanted. Those of a sequence of length 0 pass through
/// - `devSeqLengths`: not read
/// - `weightSpace`: as in the forward call, read
/// - `reserveSpace`: as the forward call left it, read and written
///
/// Workspace: cudnnGetRNNTempSpaceSizes bytes for training; nothing in it matters between calls.
///
/// Status, in this order: as cudnnRNNForward in training.
///
/// Aliasing: dhx may be dhy and dcx may be dcy; otherwise as cudnnRNNForward. A failing call writes nothing.
///
/// Source: observed on 9.27.0; gradients through a clipped cell state are 0.
///
/// # Safety
/// As cudnnRNNForward.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardData_v8(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, devSeqLengths: *const i32,
    yDesc: cudnnRNNDataDescriptor_t, y: *const c_void, dy: *const c_void, xDesc: cudnnRNNDataDescriptor_t,
    dx: *mut c_void, hDesc: cudnnTensorDescriptor_t, hx: *const c_void, dhy: *const c_void, dhx: *mut c_void,
    cDesc: cudnnTensorDescriptor_t, cx: *const c_void, dcy: *const c_void, dcx: *mut c_void,
    weightSpaceSize: usize, weightSpace: *const c_void, workSpaceSize: usize, workSpace: *mut c_void,
    reserveSpaceSize: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    context::compute(handle, "cudnnRNNBackwardData_v8", |core| {
        let call = Call::new(rnnDesc, xDesc, yDesc)?;
        call.check_data()?;
        call.hidden(hDesc, [hx, dhy, dhx.cast_const()].iter().any(|state| !state.is_null())).check()?;
        call.cells(cDesc, [cx, dcy, dcx.cast_const()].iter().any(|state| !state.is_null())).check()?;
        let data = BackwardData {
            dx,
            dhx,
            dcx,
            dy,
            hx,
            dhy,
            cx,
            dcy,
            weights: weightSpace,
            workspace: Space { pointer: workSpace, size: workSpaceSize },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSize },
        };
        let weights = Memory { address: weightSpace.addr(), size: weightSpaceSize };
        call.problem.check_weights(weights, "weightSpace")?;
        call.problem.check_workspace(data.workspace.memory(), true, "workSpaceSize")?;
        call.problem.check_reserve(data.reserve.memory(), true, "reserveSpaceSize")?;
        call.check_algorithm()?;
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::data(core, call.problem, &data) }
    })
}

/// `dw += ` the gradient of a recurrent network by its weights.
///
/// cudnnRNNBackwardData_v8 must have run on the same reserve space.
///
/// Operands
/// - `addGrad`: CUDNN_WGRAD_MODE_ADD adds to dweightSpace; CUDNN_WGRAD_MODE_SET, outside strict mode, overwrites it
/// - `x`, `hx`: as in the forward call, read
/// - `y`, `devSeqLengths`: not read
/// - `dweightSpace`: cudnnGetRNNWeightSpaceSize bytes in the order of the weights, written
/// - `reserveSpace`: as cudnnRNNBackwardData_v8 left it, read
///
/// Workspace: cudnnGetRNNTempSpaceSizes bytes for training; nothing in it matters between calls.
///
/// Status, in this order
/// - BAD_PARAM: a handle or descriptor that is not alive; NOT_INITIALIZED: an `rnnDesc` that was never set
/// - BAD_PARAM: an unknown `addGrad`; NOT_SUPPORTED: CUDNN_WGRAD_MODE_SET in strict mode
/// - as cudnnRNNForward in training, from the types of x and y on
///
/// Aliasing: as cudnnRNNForward, but for its states. A failing call writes nothing.
///
/// Source: observed on 9.27.0.
///
/// # Safety
/// As cudnnRNNForward.
#[entry]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNBackwardWeights_v8(
    handle: cudnnHandle_t, rnnDesc: cudnnRNNDescriptor_t, addGrad: MaybeUninit<cudnnWgradMode_t>,
    devSeqLengths: *const i32, xDesc: cudnnRNNDataDescriptor_t, x: *const c_void,
    hDesc: cudnnTensorDescriptor_t, hx: *const c_void, yDesc: cudnnRNNDataDescriptor_t, y: *const c_void,
    weightSpaceSize: usize, dweightSpace: *mut c_void, workSpaceSize: usize, workSpace: *mut c_void,
    reserveSpaceSize: usize, reserveSpace: *mut c_void,
) -> cudnnStatus_t {
    let mode = raw(addGrad);
    context::compute(handle, "cudnnRNNBackwardWeights_v8", |core| {
        let call = Call::new(rnnDesc, xDesc, yDesc)?;
        let adds = match mode {
            0 => true,
            1 if !Mode::current().is_strict() => false,
            1 => {
                return Err(Error::unsupported("strict mode: CUDNN_WGRAD_MODE_SET; the gradients are added"));
            }
            _ => return Err(Error::argument("addGrad", mode.into(), "0 adds, 1 sets")),
        };
        call.check_data()?;
        call.hidden(hDesc, !hx.is_null()).check()?;
        let data = WeightData {
            dw: dweightSpace,
            x,
            hx,
            workspace: Space { pointer: workSpace, size: workSpaceSize },
            reserve: Space { pointer: reserveSpace, size: reserveSpaceSize },
        };
        let weights = Memory { address: dweightSpace.addr(), size: weightSpaceSize };
        call.problem.check_weights(weights, "dweightSpace")?;
        call.problem.check_workspace(data.workspace.memory(), true, "workSpaceSize")?;
        call.problem.check_reserve(data.reserve.memory(), true, "reserveSpaceSize")?;
        call.check_algorithm()?;
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::weights(core, call.problem, adds, &data) }
    })
}
