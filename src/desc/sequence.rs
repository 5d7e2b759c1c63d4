//! Descriptors of batches of sequences: RNN data and sequence data.

use super::choice::choice;
use super::pooling::at_least;
use crate::dtype::DataType;
use crate::error::{Error, Result};

/// The element types of sequences (observed on 9.27.0).
pub const TYPES: &[DataType] = &[DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// Dimensions of sequence data: time, batch, beam, vector.
pub const SEQ_RANK: usize = 4;

choice! {
    /// How sequences of a batch lie in memory.
    RnnDataLayout:
    /// Time step by time step, with padding.
    TimeMajorPadded,
    /// Time step by time step, without padding.
    TimeMajorPacked,
    /// Sequence by sequence, with padding.
    BatchMajorPadded,
}

/// The bytes of one element that fill the space behind short sequences; as many count as the type
/// has.
pub type PaddingFill = [u8; 8];

/// What a `cudnnRNNDataDescriptor_t` holds: zeros after creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RnnDataDescriptor {
    data_type: DataType,
    layout: RnnDataLayout,
    max_length: i32,
    vector_size: i32,
    lengths: Vec<i32>,
    fill: Option<PaddingFill>,
}

impl Default for RnnDataDescriptor {
    fn default() -> Self {
        RnnDataDescriptor {
            data_type: DataType::Float,
            layout: RnnDataLayout::default(),
            max_length: 0,
            vector_size: 0,
            lengths: Vec::new(),
            fill: None,
        }
    }
}

impl RnnDataDescriptor {
    /// A batch of sequences of vectors, one length per sequence.
    ///
    /// # Errors
    /// Bad parameter (observed on 9.27.0): a length outside 0 to `max_length`; in the packed layout
    /// lengths that increase, a first one other than `max_length`, a length of 0.
    pub fn new(
        data_type: DataType, layout: RnnDataLayout, max_length: i32, vector_size: i32, lengths: Vec<i32>,
        fill: Option<PaddingFill>,
    ) -> Result<Self> {
        let packed = layout == RnnDataLayout::TimeMajorPacked;
        let mut most = max_length;
        for (index, &length) in lengths.iter().enumerate() {
            let least = match (packed, index) {
                (true, 0) => max_length,
                (true, _) => 1,
                (false, _) => 0,
            };
            if !(least..=most).contains(&length) {
                let rule = format!("from {least} to {most}");
                return Err(Error::element("seqLengthArray", index, length.into(), rule));
            }
            if packed {
                most = length;
            }
        }
        Ok(RnnDataDescriptor { data_type, layout, max_length, vector_size, lengths, fill })
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// How sequences lie in memory.
    pub fn layout(&self) -> RnnDataLayout {
        self.layout
    }

    /// Time steps that memory is laid out for.
    pub fn max_length(&self) -> i32 {
        self.max_length
    }

    /// Entries of one vector.
    pub fn vector_size(&self) -> i32 {
        self.vector_size
    }

    /// The length of each sequence of the batch.
    pub fn lengths(&self) -> &[i32] {
        &self.lengths
    }

    /// What fills the space behind short sequences, if anything does.
    pub fn fill(&self) -> Option<PaddingFill> {
        self.fill
    }
}

/// What a `cudnnSeqDataDescriptor_t` holds: zeros after creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeqDataDescriptor {
    data_type: DataType,
    dims: [i32; SEQ_RANK],
    axes: [i32; SEQ_RANK],
    lengths: Vec<i32>,
    fill: PaddingFill,
}

impl Default for SeqDataDescriptor {
    fn default() -> Self {
        SeqDataDescriptor {
            data_type: DataType::Float,
            dims: [0; SEQ_RANK],
            axes: [0; SEQ_RANK],
            lengths: Vec::new(),
            fill: [0; 8],
        }
    }
}

impl SeqDataDescriptor {
    /// Sequences of vectors: `dims` are time, batch, beam and vector, `axes` their order in memory,
    /// outermost first; one length per batch entry and beam.
    ///
    /// # Errors
    /// Bad parameter (observed on 9.27.0): axes that are no permutation with the vector last, a dim
    /// below 1, not one length per sequence, a length outside 1 to time.
    pub fn new(
        data_type: DataType, dims: [i32; SEQ_RANK], axes: [i32; SEQ_RANK], lengths: Vec<i32>,
        fill: PaddingFill,
    ) -> Result<Self> {
        Self::check(dims, axes, lengths.len())?;
        let time = i64::from(dims[0]);
        if let Some(index) = lengths.iter().position(|&length| !(1..=time).contains(&i64::from(length))) {
            let rule = format!("from 1 to {time}");
            return Err(Error::element("seqLengthArray", index, lengths[index].into(), rule));
        }
        Ok(SeqDataDescriptor { data_type, dims, axes, lengths, fill })
    }

    /// Whether sequences of these dims in this order have `lengths` lengths, before any is read.
    ///
    /// # Errors
    /// Bad parameter for bad axes, an extent below 1, or another number of lengths.
    pub fn check(dims: [i32; SEQ_RANK], axes: [i32; SEQ_RANK], lengths: usize) -> Result<()> {
        let mut sorted = axes;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] || axes[3] != 3 {
            return Err(Error::mismatch(format!("axes = {axes:?}: each of 0 to 3 once, 3 last")));
        }
        let [_, batch, beam, _] = dims.map(i64::from);
        at_least(1, &dims.map(i64::from), "dimA")?;
        if i64::try_from(lengths) != Ok(batch * beam) {
            let rule = format!("a batch of {batch} with a beam of {beam} has one length each");
            return Err(Error::argument("seqLengthArraySize", lengths as i64, rule));
        }
        Ok(())
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Extents of time, batch, beam and vector.
    pub fn dims(&self) -> [i32; SEQ_RANK] {
        self.dims
    }

    /// The order of the dims in memory, outermost first.
    pub fn axes(&self) -> [i32; SEQ_RANK] {
        self.axes
    }

    /// The length of each sequence.
    pub fn lengths(&self) -> &[i32] {
        &self.lengths
    }

    /// What fills the space behind short sequences.
    pub fn fill(&self) -> PaddingFill {
        self.fill
    }
}
