//! Multi-head attention: projections, softmax of scaled scores over windows of keys, and a sum of
//! values; and its gradients.
//!
//! ```text
//! q = Wq queries + bq, k = Wk keys + bk, v = Wv values + bv        per head; what has no projection is the vector itself
//! scores[t, s] = smScaler * q[t] . k[s]                            s in the window of t, and before the end of the keys
//! weights = dropout(softmax(scores))
//! out[t] = dropout(Wo [sum over s of weights[t, s] v[s], of all heads] + bo) + residuals[t]
//! ```
//!
//! Everything is a [`Plan`] of steps that are there for other operations, and no sequence is
//! copied: an order of axes is a set of strides. Samples that follow each other with equal lengths
//! are one group, whose products are one step; softmax and the sum of values have a step for every
//! run of time steps with the same window. So each row of the output has its own order of sums,
//! which depends on its window alone, whatever other rows are computed with it.
//!
//! ```text
//! check.rs   what descriptors must agree on     sizes.rs   the order of the weights, the parts of the memory
//! groups.rs  samples and time steps that have steps in common     view.rs   operands, and steps over their loops
//! ends.rs    what is behind the ends of sequences whose lengths are data
//! forward.rs   the output      data.rs   gradients by queries, keys and values     weights.rs   gradients by weights
//! ```

mod check;
mod data;
mod ends;
mod forward;
mod groups;
mod sizes;
mod view;
mod weights;

use std::fmt;
use std::ops::Range;

pub use self::check::{Sequences, Shapes};
pub use self::ends::Lengths;
use self::groups::Problem;
use self::sizes::PARTS;
pub use self::sizes::{Extents, PROJECTIONS, Part, WeightLayout, Weights};
use self::view::{Loop, Mask, Steps, View};
use super::plan::{self, Operand, Plan, Role, StepSink};
use crate::desc::{AttentionDescriptor, DropoutDescriptor, MathType, SeqDataDescriptor, dropout};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};

/// Where the address of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The result of the forward pass.
    Out,
    /// What the caller names so in every call.
    Queries,
    /// Added to the output.
    Residuals,
    /// What the caller names so in every call.
    Keys,
    /// What the caller names so in every call.
    Values,
    /// Matrices and biases.
    Weights,
    /// The states of the dropout behind softmax.
    WeightStates,
    /// The states of the dropout behind the output.
    OutputStates,
    /// States that are made for this call, in the reserve space, this number of bytes behind its
    /// start at least.
    MadeStates(i64),
    /// The gradient by the output.
    OutGradient,
    /// The gradient by the queries.
    QueryGradient,
    /// The gradient by the keys.
    KeyGradient,
    /// The gradient by the values.
    ValueGradient,
    /// The gradient by the weights.
    WeightGradient,
    /// The lengths of queries and output.
    QueryLengths,
    /// The lengths of keys and values.
    KeyLengths,
    /// This number of bytes behind the start of reserve space or workspace.
    Memory(i64),
}

/// Which of the three calls a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The output; whether gradients come later.
    Forward { is_training: bool, has_residuals: bool },
    /// Gradients by queries, keys and values.
    Data,
    /// Gradients by the weights, which are added to those that are there or take their place.
    Weights { is_added: bool },
}

/// The numbers of a call of cudnnMultiHeadAttnForward beside its descriptors.
#[derive(Clone, Debug)]
pub struct Forward<'a> {
    /// The only time step, if it is one.
    pub current: Option<i32>,
    /// First and end of the window of each time step that is computed.
    pub windows: Vec<[i32; 2]>,
    /// Lengths of queries and of keys.
    pub lengths: Lengths<'a>,
    /// The dropouts behind softmax and behind the output.
    pub dropouts: [Option<DropoutDescriptor>; 2],
    /// Whether there is a reserve space.
    pub is_training: bool,
    /// Whether something is added to the output.
    pub has_residuals: bool,
}

/// One of the three passes, checked and ready to run on any core.
#[derive(Clone, Debug)]
pub struct AttentionPlan {
    pass: Pass,
    problem: Problem,
    operands: Vec<Operand>,
    places: Vec<Place>,
    views: Views,
    dropouts: [Option<Drop>; 2],
    /// Which of queries, keys, values and output have a bias.
    has_bias: [bool; PROJECTIONS],
    /// Entries of the caller's queries, keys and values.
    vectors: [i64; 3],
    /// The type of the caller's weights.
    weight_scalar: Scalar,
    scale: f64,
    math_type: MathType,
}

/// What drops elements of one of two tensors.
#[derive(Clone, Copy, Debug)]
struct Drop {
    mask: Mask,
    /// The operand that masks are drawn with, in the forward pass.
    states: Option<usize>,
    /// The seed of states that are made for this call, where the descriptor has none.
    seed: Option<u64>,
}

/// Every operand that has loops; those that a pass does not have are not looked at.
#[derive(Clone, Copy, Debug)]
struct Views {
    /// Queries, keys, values and output of the caller, or the gradients by them.
    outer: [View; 4],
    /// Queries, keys and values that weights gradients are computed from.
    inputs: [View; 4],
    residuals: View,
    /// Lengths of queries and of keys, where they are data.
    lengths: [View; 2],
    /// Matrices, then biases.
    weights: [View; 2 * PROJECTIONS],
    parts: [View; PARTS],
}

impl AttentionPlan {
    /// Whether descriptors fit each other, and so tell how long the arrays of a call are.
    ///
    /// # Errors
    /// As [`Shapes::new`], then [`Shapes::check_current`]; then bad parameter for residuals that
    /// cannot be added.
    pub fn check(
        desc: &AttentionDescriptor, sequences: Sequences<'_>, current: Option<i32>, is_training: bool,
        has_residuals: bool,
    ) -> Result<()> {
        Self::shapes(desc, sequences, current, is_training, has_residuals).map(|_| ())
    }

    fn shapes(
        desc: &AttentionDescriptor, sequences: Sequences<'_>, current: Option<i32>, is_training: bool,
        has_residuals: bool,
    ) -> Result<Shapes> {
        let shapes = Shapes::new(desc, sequences)?;
        if let Some(current) = current {
            shapes.check_current(sequences.0[0].0, current, is_training)?;
        }
        if has_residuals {
            check::check_residuals(sequences)?;
        }
        Ok(shapes)
    }

    /// Plans `cudnnMultiHeadAttnForward`.
    ///
    /// # Errors
    /// As [`check`](AttentionPlan::check). Not supported: sizes beyond 64 bits.
    pub fn forward(desc: &AttentionDescriptor, sequences: Sequences<'_>, call: &Forward<'_>) -> Result<Self> {
        let shapes = Self::shapes(desc, sequences, call.current, call.is_training, call.has_residuals)?;
        let rows = match call.current {
            Some(current) => current.into()..i64::from(current) + 1,
            None => 0..shapes.queries,
        };
        let pass = Pass::Forward { is_training: call.is_training, has_residuals: call.has_residuals };
        Self::new(pass, desc, sequences, (shapes, rows), call.lengths, &call.windows, call.dropouts)
    }

    /// Plans `cudnnMultiHeadAttnBackwardData`.
    ///
    /// # Errors
    /// As [`Shapes::new`]. Not supported: sizes beyond 64 bits.
    pub fn data(
        desc: &AttentionDescriptor, sequences: Sequences<'_>, lengths: Lengths<'_>, windows: &[[i32; 2]],
        dropouts: [Option<DropoutDescriptor>; 2],
    ) -> Result<Self> {
        let shapes = Shapes::new(desc, sequences)?;
        let rows = 0..shapes.queries;
        Self::new(Pass::Data, desc, sequences, (shapes, rows), lengths, windows, dropouts)
    }

    /// Plans `cudnnMultiHeadAttnBackwardWeights`.
    ///
    /// # Errors
    /// As [`Shapes::new`]. Not supported: sizes beyond 64 bits.
    pub fn weights(desc: &AttentionDescriptor, sequences: Sequences<'_>, is_added: bool) -> Result<Self> {
        let shapes = Shapes::new(desc, sequences)?;
        let rows = 0..shapes.queries;
        let windows = vec![[0, 0]; shapes.queries as usize];
        let lengths = Lengths::OfDescriptors;
        Self::new(Pass::Weights { is_added }, desc, sequences, (shapes, rows), lengths, &windows, [None; 2])
    }

    fn new(
        pass: Pass, desc: &AttentionDescriptor, sequences: Sequences<'_>,
        (shapes, rows): (Shapes, Range<i64>), lengths: Lengths<'_>, windows: &[[i32; 2]],
        dropouts: [Option<DropoutDescriptor>; 2],
    ) -> Result<Self> {
        let extents = Extents::of(desc, &shapes, &rows)?;
        let problem = Problem::new(extents, sequences, rows, lengths, windows);
        let mut building = Building { operands: Vec::new(), places: Vec::new() };
        let is_training = !matches!(pass, Pass::Forward { is_training: false, .. });
        let dropouts = dropouts.map(|desc| desc.filter(|desc| is_training && desc.probability() > 0.0));
        let (views, states) = building.views(pass, desc, sequences, &problem, dropouts)?;
        let drop = |which: usize, part: Part| {
            let rows = || extents.batch * extents.beam * extents.queries;
            let count = || if which == 0 { extents.heads * extents.keys } else { extents.output };
            dropouts[which].map(|desc| Drop {
                mask: Mask {
                    slot: views.parts[part as usize].slot,
                    elements: rows() * count(),
                    threshold: super::dropout::threshold(desc.probability()),
                    factor: super::dropout::factor(desc.probability(), extents.scalar),
                },
                states: states[which],
                seed: states[which].filter(|_| desc.states() == 0).map(|_| desc.seed()),
            })
        };
        Ok(AttentionPlan {
            pass,
            problem,
            dropouts: [drop(0, Part::WeightMask), drop(1, Part::OutputMask)],
            views,
            operands: building.operands,
            places: building.places,
            has_bias: extents.is_projected.map(|projected| projected && desc.has_biases()),
            vectors: desc.sizes.map(i64::from),
            weight_scalar: desc.types.data.scalar(),
            scale: desc.softmax_scale,
            math_type: desc.math_type,
        })
    }

    /// Where each operand lies.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The memory of a part.
    fn part(&self, part: Part) -> View {
        self.views.parts[part as usize]
    }

    /// Queries, keys or values as heads see them: projected, or the caller's.
    fn head_view(&self, which: usize) -> View {
        let Extents { entries, value_entries, .. } = self.problem.extents;
        if self.problem.is_kept(self.pass, which) {
            return self.part([Part::Queries, Part::Keys, Part::Values][which]);
        }
        self.views.inputs[which].in_heads(if which == 2 { value_entries } else { entries }, true)
    }
}

/// Operands under construction.
struct Building {
    operands: Vec<Operand>,
    places: Vec<Place>,
}

impl Building {
    fn operand(&mut self, name: &'static str, role: Role, scalar: Scalar, bytes: i64, place: Place) -> usize {
        self.operands.push(Operand { name, role, scalar, span: (0, bytes) });
        self.places.push(place);
        self.operands.len() - 1
    }

    /// The caller's sequences.
    fn sequence(
        &mut self, name: &'static str, role: Role, desc: &SeqDataDescriptor, time: Loop, place: Place,
    ) -> Result<View> {
        let dims = desc.dims().map(i64::from);
        let bytes = dims.into_iter().try_fold(desc.data_type().size() as i64, i64::checked_mul);
        let bytes =
            bytes.ok_or_else(|| Error::unsupported(format!("{name} has more bytes than 64 bits count")))?;
        let slot = self.operand(name, role, desc.data_type().scalar(), bytes, place);
        Ok(View::of(slot, desc, time))
    }

    /// All operands of a pass, destinations first, and which of them are the states of dropouts.
    fn views(
        &mut self, pass: Pass, desc: &AttentionDescriptor, sequences: Sequences<'_>, problem: &Problem,
        dropouts: [Option<DropoutDescriptor>; 2],
    ) -> Result<(Views, [Option<usize>; 2])> {
        const TIMES: [Loop; 4] = [Loop::Query, Loop::Key, Loop::Key, Loop::Query];
        let nothing = View::packed(0, Scalar::F32, &[]);
        let mut outer = [nothing; 4];
        let mut states = [None; 2];
        let weights = Weights::new(desc)?;
        let weight_bytes = weights.bytes() as i64;
        let mut weight_slot = None;
        let written: &[(usize, &'static str, Place)] = match pass {
            Pass::Forward { .. } => &[(3, "out", Place::Out)],
            Pass::Data => &[
                (0, "dqueries", Place::QueryGradient),
                (1, "dkeys", Place::KeyGradient),
                (2, "dvalues", Place::ValueGradient),
            ],
            Pass::Weights { .. } => &[],
        };
        for &(which, name, place) in written {
            outer[which] = self.sequence(name, Role::Write, sequences.desc(which), TIMES[which], place)?;
        }
        if let Pass::Weights { is_added } = pass {
            let role = if is_added { Role::Update } else { Role::Write };
            let scalar = desc.types.data.scalar();
            weight_slot = Some(self.operand("dweights", role, scalar, weight_bytes, Place::WeightGradient));
        }
        let parts = self.parts(pass, problem)?;
        if let Pass::Forward { .. } = pass {
            let places = [Place::WeightStates, Place::OutputStates];
            for which in (0..2).filter(|&which| dropouts[which].is_some()) {
                // Two dropouts may draw from the same states, one after the other.
                let shared = states[0].filter(|_| {
                    which == 1
                        && dropouts[0].map(|desc| desc.states()) == dropouts[1].map(|desc| desc.states())
                });
                let (role, place) = match dropouts[which] {
                    // Gradients by keys come later. Behind the start of their part there is an
                    // alignment at least.
                    Some(desc) if desc.states() == 0 => {
                        let memory = problem.extents.parts(true)?;
                        (Role::Scratch, Place::MadeStates(memory[Part::KeyGradients as usize].1.start))
                    }
                    _ => (Role::Update, places[which]),
                };
                states[which] = Some(shared.unwrap_or_else(|| {
                    let bytes = dropout::STATES_SIZE as i64;
                    self.operand("the states of a dropout", role, Scalar::I64, bytes, place)
                }));
            }
        }
        let mut inputs = [nothing; 4];
        let read = [("queries", Place::Queries), ("keys", Place::Keys), ("values", Place::Values)];
        for (which, (name, place)) in read.into_iter().enumerate() {
            inputs[which] = self.sequence(name, Role::Read, sequences.desc(which), TIMES[which], place)?;
        }
        let mut residuals = nothing;
        match pass {
            Pass::Forward { has_residuals: true, .. } => {
                residuals =
                    self.sequence("residuals", Role::Read, sequences.desc(0), Loop::Query, Place::Residuals)?;
            }
            Pass::Data => {
                outer[3] =
                    self.sequence("dout", Role::Read, sequences.desc(3), Loop::Query, Place::OutGradient)?;
            }
            _ => {}
        }
        let mut lengths = [nothing; 2];
        if problem.lengths_are_data {
            let given: &[(&'static str, Place)] = match pass {
                Pass::Forward { .. } => {
                    &[("devSeqLengthsQO", Place::QueryLengths), ("devSeqLengthsKV", Place::KeyLengths)]
                }
                _ => &[("devSeqLengthsDQDO", Place::QueryLengths)],
            };
            let batch = (Loop::Batch, problem.extents.batch);
            let loops = [vec![batch, (Loop::Beam, problem.extents.beam)], vec![batch]];
            for (which, &(name, place)) in given.iter().enumerate() {
                let count: i64 = loops[which].iter().map(|&(_, extent)| extent).product();
                let slot = self.operand(name, Role::Read, Scalar::I32, 4 * count, place);
                lengths[which] = View::packed(slot, Scalar::I32, &loops[which]);
            }
        }
        let scalar = match pass {
            // Gradients are summed before they are converted.
            Pass::Weights { .. } => problem.extents.scalar,
            _ => desc.types.data.scalar(),
        };
        let slot = match (pass, weight_slot) {
            (Pass::Weights { .. }, _) => parts[Part::WeightGradients as usize].slot,
            (_, Some(slot)) => slot,
            _ if weight_bytes > 0 => {
                self.operand("weights", Role::Read, scalar, weight_bytes, Place::Weights)
            }
            _ => 0,
        };
        let weights = std::array::from_fn(|kind| {
            let [_, [head, row, column]] = weights.layout(kind);
            let view = View::packed(slot, scalar, &[]).at(weights.start(kind).unwrap_or(0));
            match (kind < PROJECTIONS, kind % PROJECTIONS) {
                (true, 3) => view.with(Loop::Head, head).with(Loop::Vector, row).with(Loop::Entry, column),
                (true, _) => view.with(Loop::Head, head).with(Loop::Entry, row).with(Loop::Vector, column),
                (false, 3) => view.with(Loop::Vector, row),
                (false, _) => view.with(Loop::Head, head).with(Loop::Entry, row),
            }
        });
        Ok((Views { outer, inputs, residuals, lengths, weights, parts }, states))
    }

    /// The parts of workspace or reserve space, each an operand.
    fn parts(&mut self, pass: Pass, problem: &Problem) -> Result<[View; PARTS]> {
        use Loop::{Batch, Beam, Entry, Head, Key, Query, Vector};
        use Part::*;
        let extents = &problem.extents;
        let (name, is_training) = match pass {
            Pass::Forward { is_training: false, .. } => ("workSpace", false),
            _ => ("reserveSpace", true),
        };
        let role = |part: Part| match (pass, part) {
            (Pass::Forward { is_training: false, .. }, _) | (_, Dropped | WeightGradients) => Role::Scratch,
            (Pass::Forward { .. }, _) => Role::Write,
            (Pass::Data, Output | QueryGradients | KeyGradients | ValueGradients) => Role::Write,
            (Pass::Data, HeadGradients | Numbers | Fills | QueryMask) => Role::Scratch,
            _ => Role::Read,
        };
        let rows = [(Batch, extents.batch), (Beam, extents.beam), (Query, extents.queries)];
        let keys = [(Batch, extents.batch), (Key, extents.keys)];
        let heads = |which: usize| (Head, if extents.is_projected[which] { extents.heads } else { 1 });
        let entries = |count: i64| (Entry, count);
        let matrix = [rows[0], rows[1], (Head, extents.heads), rows[2], keys[1]];
        let loops = |part: Part| -> Vec<(Loop, i64)> {
            match part {
                Queries | QueryGradients => [&rows[..], &[heads(0), entries(extents.entries)]].concat(),
                Keys | KeyGradients => [&keys[..], &[heads(1), entries(extents.entries)]].concat(),
                Values | ValueGradients => [&keys[..], &[heads(2), entries(extents.value_entries)]].concat(),
                Heads | HeadGradients => {
                    [&rows[..], &[(Head, extents.heads), entries(extents.value_entries)]].concat()
                }
                Weights | Dropped => matrix.to_vec(),
                Output => [&rows[..], &[(Vector, extents.output)]].concat(),
                QueryMask => rows.to_vec(),
                KeyMask => keys.to_vec(),
                WeightGradients | WeightMask | OutputMask | Numbers | Fills => Vec::new(),
            }
        };
        let memory = extents.parts(is_training)?;
        let mut views = [View::packed(0, Scalar::F32, &[]); PARTS];
        for ((view, part), (scalar, range)) in views.iter_mut().zip(Part::ALL).zip(memory) {
            if range.is_empty() || !problem.uses(pass, part) {
                continue;
            }
            let place = Place::Memory(range.start);
            let slot = self.operand(name, role(part), scalar, range.end - range.start, place);
            let mut loops = loops(part);
            // One head stands for all: gradients by what they share are summed.
            let shared = loops.iter().position(|&each| each == (Head, 1)).filter(|_| extents.heads > 1);
            if let Some(at) = shared {
                loops.remove(at);
            }
            *view = View::packed(slot, scalar, &loops).from(Query, problem.rows.start);
        }
        Ok(views)
    }
}

impl Plan for AttentionPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let mut steps = Steps::new(sink, self.math_type);
        match self.pass {
            Pass::Forward { .. } => self.forward_steps(&mut steps),
            Pass::Data => self.data_steps(&mut steps),
            Pass::Weights { is_added } => self.weight_steps(&mut steps, is_added),
        }
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// The scalar that workspace and reserve space are aligned to.
pub fn memory_scalar(desc: &AttentionDescriptor) -> Scalar {
    if desc.types.compute == DataType::Double { Scalar::F64 } else { Scalar::F32 }
}
