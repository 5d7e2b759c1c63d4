//! How large everything is: the weights, whose order the caller sees, and the memory that the calls
//! keep numbers in.

use std::ops::Range;

use super::check::Shapes;
use crate::desc::AttentionDescriptor;
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};

/// Bytes of scores up to which samples are computed together without a reserve space.
const TOGETHER: i64 = 64 << 20;

/// What parts of the memory are multiples of.
const ALIGNMENT: i64 = 256;

/// The least size that a query answers: nobody can allocate 0 bytes.
const LEAST: i64 = 16;

/// The matrices, and as many biases behind them: of queries, keys, values and the output.
pub const PROJECTIONS: usize = 4;

/// Matrices and biases without gaps, in this order: those that are there of queries, keys, values
/// and output, then their biases.
///
/// Matrices of queries, keys and values are `[head, projected entry, entry]`, column-major over all
/// heads: an entry of the caller's vector has its column of `heads * projected` numbers. That of
/// the output is `[head, output entry, entry]`, an entry of a head has its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Where each group begins and ends, in elements; empty for one that is not there.
    groups: [(i64, i64); 2 * PROJECTIONS],
    heads: i64,
    /// Rows and columns of one head's matrix.
    matrices: [[i64; 2]; PROJECTIONS],
    data_type: DataType,
}

/// Dims and strides of one group of weights.
pub type WeightLayout = [[i64; 3]; 2];

impl Weights {
    /// The weights that an attention has.
    ///
    /// # Errors
    /// Not supported: more of them than 64 bits count.
    pub fn new(desc: &AttentionDescriptor) -> Result<Self> {
        let sizes = Extents::of_heads(desc);
        let vectors = [desc.sizes[0], desc.sizes[1], desc.sizes[2]].map(i64::from);
        let [q, k, v, o] = desc.projected.map(i64::from);
        let columns = if o > 0 { sizes.value_entries } else { 0 };
        let matrices = [[q, vectors[0]], [k, vectors[1]], [v, vectors[2]], [o, columns]];
        let mut groups = [(0, 0); 2 * PROJECTIONS];
        let mut end = 0_i64;
        for (kind, group) in groups.iter_mut().enumerate() {
            let [rows, columns] = matrices[kind % PROJECTIONS];
            let is_bias = kind >= PROJECTIONS;
            let count = match (is_bias, kind % PROJECTIONS) {
                (true, _) if !desc.has_biases() => Some(0),
                (true, 3) => Some(rows),
                (true, _) => sizes.heads.checked_mul(rows),
                (false, _) => sizes.heads.checked_mul(rows).and_then(|n| n.checked_mul(columns)),
            };
            let next = count.and_then(|count| end.checked_add(count)).filter(|&next| next < i64::MAX / 16);
            let next = next.ok_or_else(too_large)?;
            *group = (end, next);
            end = next;
        }
        Ok(Weights { groups, heads: sizes.heads, matrices, data_type: desc.types.data })
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.elements() as usize * self.data_type.size()
    }

    /// Elements of all.
    pub(super) fn elements(&self) -> i64 {
        self.groups[2 * PROJECTIONS - 1].1
    }

    /// The element with which a group begins; `None` if the group is not there.
    pub fn start(&self, kind: usize) -> Option<i64> {
        let (start, end) = self.groups[kind];
        (start < end).then_some(start)
    }

    /// Dims and strides of a group, as the descriptor of cudnnGetMultiHeadAttnWeights tells them.
    pub fn layout(&self, kind: usize) -> WeightLayout {
        let [rows, columns] = self.matrices[kind % PROJECTIONS];
        match (kind / PROJECTIONS, kind % PROJECTIONS) {
            (0, 3) => [[self.heads, rows, columns], [rows * columns, 1, rows]],
            (0, _) => [[self.heads, rows, columns], [rows, 1, self.heads * rows]],
            (_, 3) => [[1, rows, 1], [rows, 1, 1]],
            _ => [[self.heads, rows, 1], [rows, 1, 1]],
        }
    }
}

fn too_large() -> Error {
    Error::unsupported("an attention of these sizes takes more memory than 64 bits count")
}

/// The parts of workspace or reserve space, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Queries: projected, or a copy without what is behind the ends of sequences.
    Queries,
    /// The same of keys.
    Keys,
    /// The same of values.
    Values,
    /// The results of softmax.
    Weights,
    /// What heads compute, side by side.
    Heads,
    /// The numbers of all keys, and of the time steps of queries that are computed.
    Numbers,
    /// What takes the place of scores and of other numbers behind the ends of sequences.
    Fills,
    /// Which time steps of queries are before the end of their sequence.
    QueryMask,
    /// The same of keys.
    KeyMask,
    /// The results of softmax after dropout, and the gradients by scores.
    Dropped,
    /// The output before dropout, and its gradient behind it.
    Output,
    /// Gradients by what heads compute.
    HeadGradients,
    /// Gradients by projected queries.
    QueryGradients,
    /// Gradients by projected keys.
    KeyGradients,
    /// Gradients by projected values.
    ValueGradients,
    /// Gradients by weights, before they are converted.
    WeightGradients,
    /// The mask of the results of softmax.
    WeightMask,
    /// The mask of the output.
    OutputMask,
}

impl Part {
    /// All of them, in their order.
    pub(super) const ALL: [Part; PARTS] = {
        use Part::*;
        [
            Queries,
            Keys,
            Values,
            Weights,
            Heads,
            Numbers,
            Fills,
            QueryMask,
            KeyMask,
            Dropped,
            Output,
            HeadGradients,
            QueryGradients,
            KeyGradients,
            ValueGradients,
            WeightGradients,
            WeightMask,
            OutputMask,
        ]
    };
}

/// What is written behind the ends of sequences: nothing, and a score that has no weight.
pub(super) const FILLS: [f64; 2] = [0.0, f64::NEG_INFINITY];

/// How many parts there are.
pub(super) const PARTS: usize = 18;
/// How many of the parts inference has, which come first.
const OF_INFERENCE: usize = 9;

/// The extents of all loops.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// Samples.
    pub(super) batch: i64,
    /// Beams of queries.
    pub(super) beam: i64,
    /// Time steps of queries that are computed.
    pub(super) queries: i64,
    /// Time steps of keys.
    pub(super) keys: i64,
    /// Heads.
    pub(super) heads: i64,
    /// Entries of a head's queries and keys.
    pub(super) entries: i64,
    /// Entries of a head's values.
    pub(super) value_entries: i64,
    /// Entries of the output.
    pub(super) output: i64,
    /// Which of queries, keys, values and output are projected.
    pub(super) is_projected: [bool; PROJECTIONS],
    /// Samples whose scores are computed together.
    pub(super) together: i64,
    /// Elements of the weights.
    pub(super) weights: i64,
    /// The type of everything that is kept.
    pub(super) scalar: Scalar,
}

impl Extents {
    fn of_heads(desc: &AttentionDescriptor) -> Extents {
        let [q, _, v] = desc.sizes.map(i64::from);
        let [q_projected, _, v_projected, o] = desc.projected.map(i64::from);
        let heads = i64::from(desc.heads);
        let value_entries = if v_projected > 0 { v_projected } else { v };
        Extents {
            batch: i64::from(desc.max_batch),
            beam: i64::from(desc.max_beam),
            queries: i64::from(desc.max_lengths[0]),
            keys: i64::from(desc.max_lengths[1]),
            heads,
            entries: if q_projected > 0 { q_projected } else { q },
            value_entries,
            output: if o > 0 { o } else { heads.saturating_mul(value_entries) },
            is_projected: desc.projected.map(|size| size > 0),
            together: 1,
            weights: 0,
            scalar: if desc.types.compute == DataType::Double { Scalar::F64 } else { Scalar::F32 },
        }
    }

    /// The largest that a descriptor allows for: memory of this size serves all calls.
    ///
    /// # Errors
    /// Not supported: weights beyond 64 bits.
    pub fn largest(desc: &AttentionDescriptor) -> Result<Extents> {
        let mut extents = Extents::of_heads(desc);
        extents.weights = Weights::new(desc)?.elements();
        let sample = [extents.beam, extents.heads, extents.queries, extents.keys]
            .into_iter()
            .fold(extents.scalar.size() as i64, i64::saturating_mul);
        extents.together = (TOGETHER / sample.max(1)).clamp(1, extents.batch.max(1));
        Ok(extents)
    }

    /// The extents of one call, which computes these time steps.
    pub(super) fn of(desc: &AttentionDescriptor, shapes: &Shapes, rows: &Range<i64>) -> Result<Extents> {
        let largest = Extents::largest(desc)?;
        Ok(Extents {
            batch: shapes.batch,
            beam: shapes.beam,
            queries: rows.end - rows.start,
            keys: shapes.keys,
            together: largest.together.min(shapes.batch),
            ..largest
        })
    }

    /// Elements of a part; of masks words of 32 bits.
    fn elements(&self, part: Part, is_training: bool) -> Option<i64> {
        let product =
            |factors: &[i64]| factors.iter().try_fold(1_i64, |all, &factor| all.checked_mul(factor));
        let rows = [self.batch, self.beam, self.queries];
        let of_rows = |entries: &[i64]| product(&rows)?.checked_mul(product(entries)?);
        let of_keys = |entries: &[i64]| product(&[self.batch, self.keys])?.checked_mul(product(entries)?);
        let matrix = |samples: i64| product(&[samples, self.beam, self.heads, self.queries, self.keys]);
        let if_projected =
            |which: usize, count: Option<i64>| if self.is_projected[which] { count } else { Some(0) };
        let heads_of = |which: usize| if self.is_projected[which] { self.heads } else { 1 };
        // What is not projected is copied where gradients are summed over whole sequences; values
        // always are.
        let if_kept =
            |which: usize, count: Option<i64>| if is_training { count } else { if_projected(which, count) };
        match part {
            Part::Queries => if_kept(0, of_rows(&[heads_of(0), self.entries])),
            Part::Keys => if_kept(1, of_keys(&[heads_of(1), self.entries])),
            Part::Values => of_keys(&[heads_of(2), self.value_entries]),
            Part::Numbers => self.keys.checked_add(self.queries),
            Part::Fills => Some(FILLS.len() as i64),
            Part::QueryMask => of_rows(&[]),
            Part::KeyMask => of_keys(&[]),
            Part::Weights if is_training => matrix(self.batch),
            // All bytes that may be taken, not those of a whole number of samples: the size grows
            // with every extent.
            Part::Weights => {
                let most = TOGETHER / self.scalar.size() as i64;
                Some(matrix(self.batch).unwrap_or(i64::MAX).min(matrix(1)?.max(most)))
            }
            Part::Heads | Part::HeadGradients => if_projected(3, of_rows(&[self.heads, self.value_entries])),
            Part::Dropped => matrix(self.batch),
            Part::Output => of_rows(&[self.output]),
            Part::QueryGradients => of_rows(&[heads_of(0), self.entries]),
            Part::KeyGradients => of_keys(&[heads_of(1), self.entries]),
            Part::ValueGradients => of_keys(&[heads_of(2), self.value_entries]),
            Part::WeightGradients => Some(self.weights),
            Part::WeightMask => matrix(self.batch).map(|elements| (elements - 1) / 32 + 1),
            Part::OutputMask => of_rows(&[self.output]).map(|elements| (elements - 1) / 32 + 1),
        }
    }

    /// The parts that there are, in order, with the type of their scalars, their bytes, and where
    /// they begin.
    ///
    /// # Errors
    /// Not supported: more than 64 bits count.
    pub(super) fn parts(&self, is_training: bool) -> Result<[(Scalar, Range<i64>); PARTS]> {
        let mut end = 0_i64;
        let mut parts = [const { (Scalar::F32, 0..0) }; PARTS];
        for (index, part) in Part::ALL.into_iter().enumerate() {
            if index >= OF_INFERENCE && !is_training {
                break;
            }
            let scalar = match part {
                Part::WeightMask | Part::OutputMask | Part::Numbers => Scalar::I32,
                _ => self.scalar,
            };
            let bytes = self.elements(part, is_training).and_then(|n| n.checked_mul(scalar.size() as i64));
            let next = bytes.and_then(|bytes| end.checked_add(bytes)).filter(|&next| next < i64::MAX / 2);
            let next = next.ok_or_else(too_large)?;
            parts[index] = (scalar, end..next);
            end = (next + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
        Ok(parts)
    }

    /// Bytes of all parts: of the reserve space in training, else of the workspace.
    ///
    /// # Errors
    /// Not supported: more than 64 bits count.
    pub fn bytes(&self, is_training: bool) -> Result<usize> {
        let end = self.parts(is_training)?.iter().map(|(_, range)| range.end).max();
        Ok(end.unwrap_or(0).max(LEAST) as usize)
    }
}
