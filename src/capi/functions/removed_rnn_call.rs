//! What the calls of version 6 on recurrent networks check before they compute, in the original's order: 8.9.7, observed.

use std::ffi::{c_int, c_void};

use super::recurrent::Space;
use super::types::{
    cudnnFilterDescriptor_t, cudnnRNNDataDescriptor_t, cudnnRNNDescriptor_t, cudnnTensorDescriptor_t,
};
use super::{arg, dropout, filter, rnn, sequence, tensor};
use crate::desc::rnn::TypePair;
use crate::desc::sequence::{PaddingFill, RnnDataLayout};
use crate::desc::{DropoutDescriptor, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::ops::recurrent::{Network, Problem, Sequences};

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

/// Vectors as a call describes them: by a tensor descriptor for each time step, or by an RNN data descriptor.
pub(super) struct Vectors {
    name: &'static str,
    pub(super) data: DataType,
    /// Entries of one vector.
    pub(super) size: i64,
    pub(super) sequences: Sequences,
    /// Of an array of time steps: the active sequences of each.
    pub(super) batches: Vec<i64>,
    /// The descriptor of version 8, where there is one.
    pub(super) source: Option<cudnnRNNDataDescriptor_t>,
    fill: Option<PaddingFill>,
    /// Whether the padding mode has to allow this layout.
    is_padded: bool,
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
        array: *const cudnnTensorDescriptor_t, count: c_int, name: &'static str,
    ) -> Result<Vectors> {
        if count < 1 {
            return Err(Error::argument("seqLength", count.into(), "at least 1"));
        }
        let count = count as usize;
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
        let sequences = Sequences::from_batches(&batches);
        let data = first.data_type();
        Ok(Vectors {
            name,
            data,
            size,
            sequences,
            batches,
            source: None,
            fill: None,
            is_padded: false,
            fault,
        })
    }

    /// An RNN data descriptor.
    ///
    /// # Errors
    /// Bad parameter for one that is not alive.
    pub(super) fn of(desc: cudnnRNNDataDescriptor_t, name: &'static str) -> Result<Vectors> {
        let data = sequence::rnn_data(desc, name)?;
        let is_padded = match data.layout() {
            RnnDataLayout::BatchMajorPadded => true,
            RnnDataLayout::TimeMajorPadded => {
                data.lengths().iter().any(|&length| length != data.max_length())
            }
            RnnDataLayout::TimeMajorPacked => false,
        };
        let never = || Error::mismatch(format!("{name} was never set"));
        Ok(Vectors {
            name,
            data: data.data_type(),
            size: data.vector_size().into(),
            sequences: Sequences::of(&data),
            batches: Vec::new(),
            source: Some(desc),
            fill: data.fill(),
            is_padded,
            fault: data.lengths().is_empty().then(never),
        })
    }

    /// # Errors
    /// Bad parameter for vectors of another type.
    pub(super) fn check_type(&self, other: &Vectors) -> Result<()> {
        if self.data == other.data {
            return Ok(());
        }
        let (name, data) = (other.name, other.data);
        Err(Error::mismatch(format!("{} is {:?} and {name} {data:?}", self.name, self.data)))
    }

    /// # Errors
    /// What is wrong with the description.
    pub(super) fn sound(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }
}

/// The rule that the tensor of a time step breaks, where `first` is that of the first step, and `before` sequences were active in the step before.
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

/// The way that a call goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Inference,
    Training,
    Backward,
}

/// Which states a descriptor is about.
#[derive(Clone, Copy)]
pub(super) enum State {
    Hidden,
    Cell,
}

/// One call: the network and its batch, checked.
pub(super) struct Call {
    pub(super) problem: Problem,
    pub(super) dropout: Option<DropoutDescriptor>,
    pass: Pass,
}

/// The network behind a descriptor on vectors of this type and size, and its dropout.
///
/// # Errors
/// Bad parameter: no network, one of version 8 for other vectors, or a dropout that is not alive.
pub(super) fn network(
    desc: cudnnRNNDescriptor_t, data: DataType, size: i64,
) -> Result<(Network, Option<DropoutDescriptor>)> {
    let desc = rnn::get(desc)?;
    let size = i32::try_from(size).map_err(|_| Error::argument("inputSize", size, "below 2^31"))?;
    let network = desc.network_on(data, size)?;
    let dropout = dropout::at(desc.dropout, "the dropout descriptor of rnnDesc")?;
    Ok((Network::new(&network, &desc.clip, dropout.as_ref()), dropout))
}

impl Call {
    /// Compares the vectors `x` (the input or its gradient) and `ys` (outputs and their gradients) with each other and with the network.
    ///
    /// # Errors
    /// Not supported: a type that the network does not compute with. Then bad parameter: vectors that are not described
    /// well, or that do not fit each other or the network.
    pub(super) fn new(desc: cudnnRNNDescriptor_t, x: &Vectors, ys: &[Vectors], pass: Pass) -> Result<Call> {
        TypePair::version_6(x.data, rnn::get(desc)?.compute)?;
        x.sound()?;
        for y in ys {
            y.sound()?;
            x.check_type(y)?;
            if x.sequences != y.sequences {
                let text = format!("{} and {} differ in layout, steps, batch or lengths", x.name, y.name);
                return Err(Error::mismatch(text));
            }
        }
        if x.is_padded && rnn::get(desc)?.flags & 1 == 0 {
            return Err(Error::mismatch(
                "the padding mode of rnnDesc is 0, and sequences with padding and the batch-major layout need 1",
            ));
        }
        let (network, dropout) = network(desc, x.data, x.size)?;
        let vector = |vectors: &Vectors, wanted: i64, rule: &str| {
            let Vectors { name, size, .. } = vectors;
            let text = || format!("{name} has vectors of {size}: {rule} is {wanted}");
            if *size == wanted { Ok(()) } else { Err(Error::mismatch(text())) }
        };
        // The original does not compare the data of its gradients of whole sequences with the network.
        let is_compared = pass != Pass::Backward || !x.batches.is_empty();
        if network.skips_input && is_compared {
            vector(x, network.hidden, "the hidden size, which input that is skipped has,")?;
        }
        for y in ys {
            vector(y, network.output(), "the output of all directions")?;
        }
        let fill = ys.first().and_then(|y| y.fill).map(u64::from_le_bytes);
        Ok(Call { problem: Problem { network, sequences: x.sequences.clone(), fill }, dropout, pass })
    }

    /// # Errors
    /// Bad parameter: NULL weights, or a filter of fewer bytes than they have. Its shape and type do not matter.
    pub(super) fn check_weights(
        &self, desc: cudnnFilterDescriptor_t, weights: *const c_void, [desc_name, name]: [&'static str; 2],
    ) -> Result<()> {
        let filter = filter::get(desc, desc_name)?;
        arg::required(weights, name)?;
        let (given, needed) = (filter.size_in_bytes(), self.problem.network.weight_bytes()?);
        if given < needed {
            let text = format!("{desc_name} has {given} bytes: the weights of this network take {needed}");
            return Err(Error::mismatch(text));
        }
        Ok(())
    }

    /// Returns the bytes that the call takes.
    ///
    /// # Errors
    /// Bad parameter: a workspace that is NULL or too small.
    pub(super) fn check_workspace(&self, space: Space) -> Result<usize> {
        let training = self.pass != Pass::Inference;
        self.problem.check_workspace(space.memory(), training, "workSpaceSizeInBytes")
    }

    /// # Errors
    /// Bad parameter: a reserve space that is NULL or too small.
    pub(super) fn check_reserve(&self, space: Space) -> Result<()> {
        let backward = self.pass == Pass::Backward;
        self.problem.check_reserve(space.memory(), backward, "reserveSpaceSizeInBytes")
    }

    /// Compares the descriptor of states with the network, where a pointer to states goes with it; its type does not matter.
    ///
    /// # Errors
    /// Bad parameter: a descriptor that is not alive, not packed, or of other dims.
    pub(super) fn check_state(
        &self, state: State, desc: cudnnTensorDescriptor_t, states: *const c_void, name: &'static str,
    ) -> Result<()> {
        if states.is_null() {
            return Ok(());
        }
        let Problem { network, sequences, .. } = &self.problem;
        let entries = match state {
            State::Hidden => network.projected,
            State::Cell => network.hidden,
        };
        let wanted = [network.pseudo_layers(), sequences.batch(), entries];
        let tensor = tensor::get(desc, name)?;
        let dims = tensor.dims();
        if !is_packed(&tensor) || !dims.starts_with(&wanted) {
            let text = format!("{name} has dims {dims}: states of this network are {wanted:?}, packed");
            return Err(Error::mismatch(text));
        }
        Ok(())
    }
}
