//! The descriptor of multi-head attention.

use super::choice::MathType;
use super::rnn::TypePair;
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// What a `cudnnAttnDescriptor_t` holds: zeros after creation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionDescriptor {
    /// Bit 0: each beam has queries of its own; bit 1: projections have biases.
    pub mode: u32,
    /// Heads.
    pub heads: i32,
    /// What scores are multiplied with before softmax.
    pub softmax_scale: f64,
    /// Element types.
    pub types: TypePair,
    /// Arithmetic units.
    pub math_type: MathType,
    /// The handle of the dropout descriptor behind softmax, 0 for none.
    pub attention_dropout: usize,
    /// The handle of the dropout descriptor behind the output, 0 for none.
    pub output_dropout: usize,
    /// Vector sizes of queries, keys and values.
    pub sizes: [i32; 3],
    /// Vector sizes after projection of queries, keys, values and the output; 0 for none.
    pub projected: [i32; 4],
    /// The longest sequence of queries, and of keys and values.
    pub max_lengths: [i32; 2],
    /// The largest batch.
    pub max_batch: i32,
    /// The largest beam.
    pub max_beam: i32,
}

/// Bit of the mode: each beam has queries of its own.
const ONE_TO_ONE: u32 = 1;
/// Bit of the mode: projections have biases.
const BIASES: u32 = 2;
/// All bits of the mode.
const MODE_BITS: u32 = 3;

impl Default for AttentionDescriptor {
    fn default() -> Self {
        AttentionDescriptor {
            mode: 0,
            heads: 0,
            softmax_scale: 0.0,
            types: TypePair { data: DataType::Float, compute: DataType::Float },
            math_type: MathType::default(),
            attention_dropout: 0,
            output_dropout: 0,
            sizes: [0; 3],
            projected: [0; 4],
            max_lengths: [0; 2],
            max_batch: 0,
            max_beam: 0,
        }
    }
}

impl AttentionDescriptor {
    /// The element types (observed on 9.27.0).
    pub const TYPES: &'static [DataType] = super::sequence::TYPES;
    /// The types to compute in (observed on 9.27.0).
    pub const COMPUTE_TYPES: &'static [DataType] = &[DataType::Float, DataType::Double, DataType::Half];

    /// Whether projections have biases.
    pub fn has_biases(&self) -> bool {
        self.mode & BIASES != 0
    }

    /// Checks each value by itself.
    ///
    /// # Errors
    /// Bad parameter (observed on 9.27.0): unknown mode bits, a negative scale (NaN passes), a
    /// count or size below 1, a negative projection.
    pub fn check_ranges(&self) -> Result<()> {
        if self.mode > MODE_BITS {
            return Err(Error::argument("attnMode", self.mode.into(), "bits 0 and 1"));
        }
        if self.softmax_scale < 0.0 {
            return Err(Error::mismatch(format!("smScaler = {}: not negative", self.softmax_scale)));
        }
        let [q, k, v] = self.sizes;
        let [queries, keys] = self.max_lengths;
        for (argument, value) in [
            ("nHeads", self.heads),
            ("qSize", q),
            ("kSize", k),
            ("vSize", v),
            ("qoMaxSeqLength", queries),
            ("kvMaxSeqLength", keys),
            ("maxBatchSize", self.max_batch),
            ("maxBeamSize", self.max_beam),
        ] {
            if value < 1 {
                return Err(Error::argument(argument, value.into(), "at least 1"));
            }
        }
        for (argument, value) in
            ["qProjSize", "kProjSize", "vProjSize", "oProjSize"].into_iter().zip(self.projected)
        {
            if value < 0 {
                return Err(Error::argument(argument, value.into(), "0 for no projection, or a size"));
            }
        }
        Ok(())
    }

    /// Checks how values fit each other.
    ///
    /// # Errors
    /// In this order (observed on 9.27.0). Not supported: a pair of types that is no [`TypePair`].
    /// Bad parameter: queries and keys of different effective size. Not supported: queries per beam
    /// with a beam above 1.
    pub fn check_agreement(&self) -> Result<()> {
        TypePair::new(Some(self.types.data), Some(self.types.compute))?;
        let effective =
            |axis: usize| if self.projected[axis] > 0 { self.projected[axis] } else { self.sizes[axis] };
        if effective(0) != effective(1) {
            return Err(Error::mismatch(format!(
                "queries of {} entries and keys of {} cannot be multiplied",
                effective(0),
                effective(1)
            )));
        }
        if self.mode & ONE_TO_ONE != 0 && self.max_beam > 1 {
            return Err(Error::unsupported("queries of their own for each of several beams"));
        }
        Ok(())
    }
}
