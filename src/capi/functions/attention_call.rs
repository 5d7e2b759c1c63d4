//! What the calls on multi-head attention share: their descriptors and pointers, the checks of both, and how a plan is run on them.

use std::ffi::{c_int, c_void};

use super::arg;
use super::attention::{check_weight_size, get};
use super::types::{cudnnAttnDescriptor_t, cudnnSeqDataDescriptor_t};
use super::{dropout, sequence};
use crate::desc::dropout::STATES_ALIGNMENT;
use crate::desc::{AttentionDescriptor, DropoutDescriptor, SeqDataDescriptor};
use crate::error::{Error, Result};
use crate::exec::{self, Address, Context};
use crate::ops::attention::{AttentionPlan, Extents, Lengths, Place, Sequences, Weights, memory_scalar};
use crate::ops::{Operand, Plan, check_size};

/// A pointer to data and what the call names it.
pub(super) type Data = (*mut c_void, &'static str);

/// The data pointers of a call; those that it does not have are NULL, and no plan of it asks for them.
pub(super) struct Pointers {
    pub queries: Data,
    pub keys: Data,
    pub values: Data,
    /// The output, or the gradient by it.
    pub output: Data,
    pub residuals: *mut c_void,
    /// The arrays of lengths of queries and of keys.
    pub lengths: [*const c_int; 2],
    /// The gradients by queries, keys and values.
    pub gradients: [*mut c_void; 3],
    pub weights: (*mut c_void, usize),
    pub weight_gradient: *mut c_void,
    pub workspace: (*mut c_void, usize),
    pub reserve: (*mut c_void, usize),
}

/// Lengths of queries and of keys, if they are known.
pub(super) struct GivenLengths(Option<[Vec<i32>; 2]>);

impl GivenLengths {
    pub fn get(&self) -> Lengths<'_> {
        match &self.0 {
            Some(lengths) => Lengths::Known(lengths.each_ref().map(Vec::as_slice)),
            None => Lengths::OfDevice,
        }
    }
}

/// The descriptors of queries, keys, values and output, and what the call names them.
pub(super) type Described = [(cudnnSeqDataDescriptor_t, &'static str); 4];

/// What the descriptors of a call hold.
pub(super) struct Call {
    pub attention: AttentionDescriptor,
    sequences: [(&'static str, SeqDataDescriptor); 4],
}

impl Call {
    pub fn new(desc: cudnnAttnDescriptor_t, described: Described) -> Result<Call> {
        let attention = get(desc)?;
        let [q, k, v, o] = described;
        let find = |(desc, name)| sequence::get_seq_data(desc, name).map(|desc| (name, desc));
        Ok(Call { attention, sequences: [find(q)?, find(k)?, find(v)?, find(o)?] })
    }

    pub fn sequences(&self) -> Sequences<'_> {
        Sequences(self.sequences.each_ref().map(|(name, desc)| (*name, desc)))
    }

    /// Refuses NULL where data or memory is needed, and memory that is too small. Whether the call is training.
    pub fn check(&self, data: &[Data], at: &Pointers) -> Result<bool> {
        data.iter().try_for_each(|&(pointer, name)| arg::required(pointer, name))?;
        let weights = Weights::new(&self.attention)?;
        if weights.bytes() > 0 {
            check_weight_size(&weights, at.weights.1)?;
            arg::required(at.weights.0, "weights")?;
        }
        let (workspace, given) = at.workspace;
        if given > 0 {
            arg::required(workspace, "workSpace")?;
        }
        let extents = Extents::largest(&self.attention)?;
        let (reserve, reserved) = at.reserve;
        let is_training = reserved > 0;
        let (given, name) = match is_training {
            true => {
                arg::required(reserve, "reserveSpace")?;
                (reserved, "reserveSpaceSizeInBytes")
            }
            false if !reserve.is_null() => {
                let text = "reserveSpace is given and reserveSpaceSizeInBytes is 0: inference has none";
                return Err(Error::mismatch(text));
            }
            false => (given, "workSpaceSizeInBytes"),
        };
        check_size(given, extents.bytes(is_training)?, name)?;
        Ok(is_training)
    }

    /// What drops elements in training: behind softmax and behind the output.
    pub fn dropouts(&self) -> Result<[Option<DropoutDescriptor>; 2]> {
        Ok([
            dropout::at(self.attention.attention_dropout, "attnDropoutDesc")?,
            dropout::at(self.attention.output_dropout, "postDropoutDesc")?,
        ])
    }

    /// The lengths of the call: the host's are read now; those of a device, and those of a call that is left to a graph, by
    /// the steps of the plan.
    ///
    /// # Safety
    /// On the CPU core both arrays are valid for a length of each sequence.
    pub unsafe fn lengths(&self, context: &Context, arrays: [*const c_int; 2]) -> Result<GivenLengths> {
        if !context.runs_at_once() {
            return Ok(GivenLengths(None));
        }
        let count = |which: usize| self.sequences[which].1.lengths().len();
        // SAFETY: calls that run at once are the CPU core's, where both arrays hold a length of each sequence.
        unsafe {
            Ok(GivenLengths(Some([
                arg::int_list(arrays[0], count(0), "devSeqLengthsQO")?,
                arg::int_list(arrays[1], count(1), "devSeqLengthsKV")?,
            ])))
        }
    }

    /// First and end of the windows of these time steps.
    ///
    /// # Safety
    /// Both arrays are valid for an entry of each time step.
    pub unsafe fn windows(&self, [low, high]: [*const c_int; 2], only: Option<i32>) -> Result<Vec<[i32; 2]>> {
        let count = self.sequences[0].1.dims()[0].max(0) as usize;
        let (first, count) = match only {
            Some(only) if (only as usize) < count => (only as usize, 1),
            // Too large an index is refused with the shapes.
            Some(_) => (0, 0),
            None => (0, count),
        };
        // SAFETY: both arrays hold an entry of each time step.
        let [low, high] = unsafe {
            [
                arg::int_list(low.wrapping_add(first), count, "loWinIdx")?,
                arg::int_list(high.wrapping_add(first), count, "hiWinIdx")?,
            ]
        };
        Ok(low.into_iter().zip(high).map(|(low, high)| [low, high]).collect())
    }
}

impl Pointers {
    fn of(&self, place: Place, dropouts: &[Option<DropoutDescriptor>; 2]) -> *mut c_void {
        let states = |which: usize| {
            let states = dropouts[which].map_or(0, |desc| desc.states());
            std::ptr::with_exposed_provenance_mut(states)
        };
        match place {
            Place::Out | Place::OutGradient => self.output.0,
            Place::Queries => self.queries.0,
            Place::Residuals => self.residuals,
            Place::Keys => self.keys.0,
            Place::Values => self.values.0,
            Place::Weights => self.weights.0,
            Place::WeightStates => states(0),
            Place::OutputStates => states(1),
            Place::MadeStates(offset) => {
                let start = self.reserve.0.wrapping_byte_add(offset as usize);
                start.map_addr(|address| address.next_multiple_of(STATES_ALIGNMENT))
            }
            Place::QueryGradient => self.gradients[0],
            Place::KeyGradient => self.gradients[1],
            Place::ValueGradient => self.gradients[2],
            Place::WeightGradient => self.weight_gradient,
            Place::QueryLengths => self.lengths[0].cast_mut().cast(),
            Place::KeyLengths => self.lengths[1].cast_mut().cast(),
            Place::Memory(offset) => {
                let base = if self.reserve.1 > 0 { self.reserve.0 } else { self.workspace.0 };
                base.wrapping_byte_add(offset as usize)
            }
        }
    }

    /// Checks where the operands of the plan lie, and runs it.
    ///
    /// # Safety
    /// As [`Context::run`].
    pub unsafe fn run(
        &self, core: &mut exec::Call<'_>, attention: &AttentionDescriptor, plan: &AttentionPlan,
        dropouts: &[Option<DropoutDescriptor>; 2],
    ) -> Result<()> {
        let mut addresses: Vec<Address> = Vec::new();
        for (operand, &place) in plan.operands().iter().zip(plan.places()) {
            let pointer = self.of(place, dropouts);
            let Operand { name, scalar, .. } = *operand;
            let alignment = match place {
                Place::WeightStates | Place::OutputStates => STATES_ALIGNMENT,
                Place::Memory(_) => memory_scalar(attention).size(),
                _ => scalar.size(),
            };
            if operand.is_touched() {
                arg::data(pointer, alignment, name)?;
            }
            addresses.push(pointer.into());
        }
        // SAFETY: the pointers are aligned; the parts of workspace and reserve space lie inside of what was found to be large
        // enough, and data is valid for the spans of its descriptors.
        unsafe { core.run_at(plan, &addresses) }
    }
}

/// Refuses a gradient without the reserve space of its forward pass.
pub(super) fn check_is_training(at: &Pointers) -> Result<()> {
    arg::required(at.reserve.0, "reserveSpace")?;
    if at.reserve.1 == 0 {
        let rule = "gradients need the reserve space of the forward pass";
        return Err(Error::argument("reserveSpaceSizeInBytes", 0, rule));
    }
    Ok(())
}
