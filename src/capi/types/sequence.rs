//! Recurrent networks, attention and CTC loss.

use cudnn_shim_macros::c_enum;

/// The data behind a [`cudnnRNNDescriptor_t`].
pub struct cudnnRNNStruct {
    _opaque: [u8; 0],
}

/// Cell, sizes, directions and types of a recurrent network.
pub type cudnnRNNDescriptor_t = *mut cudnnRNNStruct;

/// The data behind a [`cudnnRNNDataDescriptor_t`].
pub struct cudnnRNNDataStruct {
    _opaque: [u8; 0],
}

/// Type, layout and lengths of a batch of sequences.
pub type cudnnRNNDataDescriptor_t = *mut cudnnRNNDataStruct;

/// The data behind a [`cudnnSeqDataDescriptor_t`].
pub struct cudnnSeqDataStruct {
    _opaque: [u8; 0],
}

/// Type, axes and lengths of the sequences of an attention.
#[deprecated]
pub type cudnnSeqDataDescriptor_t = *mut cudnnSeqDataStruct;

/// The data behind a [`cudnnAttnDescriptor_t`].
pub struct cudnnAttnStruct {
    _opaque: [u8; 0],
}

/// Heads, sizes and types of a multi-head attention.
#[deprecated]
pub type cudnnAttnDescriptor_t = *mut cudnnAttnStruct;

/// The data behind a [`cudnnCTCLossDescriptor_t`].
pub struct cudnnCTCLossStruct {
    _opaque: [u8; 0],
}

/// Type, normalisation and gradient rule of a CTC loss.
pub type cudnnCTCLossDescriptor_t = *mut cudnnCTCLossStruct;

/// Algorithms of recurrent networks.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNAlgo_t {
    /// One operation after the other.
    CUDNN_RNN_ALGO_STANDARD = 0,
    /// Weights stay on the chip, kernels built ahead.
    CUDNN_RNN_ALGO_PERSIST_STATIC = 1,
    /// Weights stay on the chip, kernels built at run time.
    CUDNN_RNN_ALGO_PERSIST_DYNAMIC = 2,
    /// Weights stay on the chip, for small hidden sizes.
    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H = 3,
    /// Number of algorithms.
    CUDNN_RNN_ALGO_COUNT = 4,
}

/// What a forward pass is for.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnForwardMode_t {
    /// Results only.
    CUDNN_FWD_MODE_INFERENCE = 0,
    /// A backward pass will follow.
    CUDNN_FWD_MODE_TRAINING = 1,
}

/// The cell of a recurrent network.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNMode_t {
    /// One gate with max(x, 0).
    CUDNN_RNN_RELU = 0,
    /// One gate with tanh(x).
    CUDNN_RNN_TANH = 1,
    /// Long short-term memory, four gates.
    CUDNN_LSTM = 2,
    /// Gated recurrent unit, three gates.
    CUDNN_GRU = 3,
}

/// How many bias vectors a recurrent cell has.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNBiasMode_t {
    /// None.
    CUDNN_RNN_NO_BIAS = 0,
    /// One, with the input product.
    CUDNN_RNN_SINGLE_INP_BIAS = 1,
    /// Two, one with each product.
    CUDNN_RNN_DOUBLE_BIAS = 2,
    /// One, with the recurrent product.
    CUDNN_RNN_SINGLE_REC_BIAS = 3,
}

/// In which directions a recurrent network reads its sequence.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnDirectionMode_t {
    /// From first to last.
    CUDNN_UNIDIRECTIONAL = 0,
    /// Both ways, results side by side.
    CUDNN_BIDIRECTIONAL = 1,
}

/// What the first recurrent layer does with its input.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNInputMode_t {
    /// Multiply it with a weight matrix.
    CUDNN_LINEAR_INPUT = 0,
    /// Use it as it is.
    CUDNN_SKIP_INPUT = 1,
}

/// Whether the LSTM cell state is clipped.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNClipMode_t {
    /// No clipping.
    CUDNN_RNN_CLIP_NONE = 0,
    /// Clip into the given interval.
    CUDNN_RNN_CLIP_MINMAX = 1,
}

/// How sequences of a batch lie in memory.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnRNNDataLayout_t {
    /// Time step by time step, with padding.
    CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0,
    /// Time step by time step, without padding.
    CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED = 1,
    /// Sequence by sequence, with padding.
    CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED = 2,
}

/// Dimensions of sequence data.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnSeqDataAxis_t {
    /// Position in the sequence.
    CUDNN_SEQDATA_TIME_DIM = 0,
    /// Sequence in the batch.
    CUDNN_SEQDATA_BATCH_DIM = 1,
    /// Candidate in the beam.
    CUDNN_SEQDATA_BEAM_DIM = 2,
    /// Entry of the vector.
    CUDNN_SEQDATA_VECT_DIM = 3,
}

/// Groups of weights of multi-head attention.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnMultiHeadAttnWeightKind_t {
    /// Projection of queries.
    CUDNN_MH_ATTN_Q_WEIGHTS = 0,
    /// Projection of keys.
    CUDNN_MH_ATTN_K_WEIGHTS = 1,
    /// Projection of values.
    CUDNN_MH_ATTN_V_WEIGHTS = 2,
    /// Projection of the output.
    CUDNN_MH_ATTN_O_WEIGHTS = 3,
    /// Biases of the queries.
    CUDNN_MH_ATTN_Q_BIASES = 4,
    /// Biases of the keys.
    CUDNN_MH_ATTN_K_BIASES = 5,
    /// Biases of the values.
    CUDNN_MH_ATTN_V_BIASES = 6,
    /// Biases of the output.
    CUDNN_MH_ATTN_O_BIASES = 7,
}

/// What happens to the old weight gradient.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnWgradMode_t {
    /// The new gradient is added to it.
    CUDNN_WGRAD_MODE_ADD = 0,
    /// The new gradient replaces it.
    CUDNN_WGRAD_MODE_SET = 1,
}

/// What CTC loss does with its input first.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnLossNormalizationMode_t {
    /// Nothing: the input holds probabilities.
    CUDNN_LOSS_NORMALIZATION_NONE = 0,
    /// Softmax: the input holds unscaled scores.
    CUDNN_LOSS_NORMALIZATION_SOFTMAX = 1,
}

/// Algorithms of CTC loss.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnCTCLossAlgo_t {
    /// Every run gives the same bits.
    CUDNN_CTC_LOSS_ALGO_DETERMINISTIC = 0,
    /// The last bits may differ from run to run.
    CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC = 1,
}

/// What CTC loss does with gradients of samples outside the valid lengths.
#[c_enum]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum cudnnCTCGradMode_t {
    /// Write zeros.
    CUDNN_CTC_ZERO_OOB_GRADIENTS = 0,
    /// Leave them as they are.
    CUDNN_CTC_SKIP_OOB_GRADIENTS = 1,
}
