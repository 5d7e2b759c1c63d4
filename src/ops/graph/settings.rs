//! The attributes of an operation of a graph besides its tensors.
//!
//! Modes that no Finalize looks at are kept as their numbers in the C interface; whether they can
//! be computed is asked when an operation becomes a plan.

use super::{Operation, Type};
use crate::desc::NanPropagation;
use crate::dtype::DataType;
use crate::layout::Dims;
use crate::ops::activation::Activation;
pub use crate::ops::convolution::Direction;

/// What an operation computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A function of elements: reads X, B, T (forward) or Dy and X or Y (backward), writes Y or Dx.
    Pointwise(Pointwise),
    /// A product of matrices: reads A, B, overrides, writes C.
    Matmul(Matmul),
    /// One of the three directions: reads two of X, W, Dy, writes Y, Dx or Dw, and reads that too
    /// if beta is not 0.
    Convolution(Convolution),
    /// Elements joined along dimensions: reads X and GroupOffset, writes Y.
    Reduction(Reduction),
    /// The same elements in another shape: reads X, writes Y.
    Reshape(Reshape),
    /// Dimensions in another order: reads X, writes Y.
    Transpose(Transpose),
    /// A part of a tensor: reads X, writes Y.
    Slice(Slice),
    /// Tensors one after the other: reads the Parts, writes Y.
    Concat(Concat),
    /// A normalisation: reads X, Scale, Bias, Epsilon, Factor, running statistics, and in inference
    /// Mean and InverseVariance; writes Y, running statistics, and in training Mean and
    /// InverseVariance.
    NormForward(Norm),
    /// Its gradients: reads X, Dy, Scale, Mean, InverseVariance, Epsilon, writes Dx, Dscale, Dbias.
    NormBackward(Norm),
    /// A window or a sample per element: reads X, writes Y and Index.
    ResampleForward(Resample),
    /// Its gradient: reads Dy, X, Y, Index, writes Dx.
    ResampleBackward(Resample),
    /// Sums and sums of squares per channel: reads X, writes Sum, SquareSum.
    GenStats(GenStats),
    /// Statistics of sums: reads Sum, SquareSum, Scale, Bias, running statistics, Count, Epsilon,
    /// Factor; writes running statistics, Mean, InverseVariance, EqScale, EqBias.
    BatchNormFinalise(BatchNormFinalise),
    /// Gradients of a normalisation: reads Mean, InverseVariance, Scale, X, Dy; writes Dscale,
    /// Dbias, EqScale, EqXScale, EqBias.
    BatchNormBackwardWeights(GenStats),
    /// Random numbers: reads Seed, Offset, writes Y.
    Rng(Rng),
    /// Softmax along the last dimension: reads X, Sink, writes Y, Stats, Max, SumExp.
    Softmax(Softmax),
    /// Elements outside a band replaced: reads X, B, lengths and bounds, writes Y.
    BandMask(BandMask),
    /// Elements beyond lengths replaced, a part of others: reads X and lengths, writes Y.
    Padding(Padding),
    /// Pairs of elements rotated: reads X, Frequencies, writes Y.
    RopeForward(Rope),
    /// Its gradient: reads Dy, Frequencies, writes Dx.
    RopeBackward(Rope),
    /// Attention: reads Q, K, V, Scale, lengths, tables of pages, Seed, Offset, Sink, factors of
    /// FP8 and what the modifier of the scores takes besides; writes O, Stats, Max, SumExp, Dump
    /// and amax.
    AttentionForward(Attention),
    /// Its gradients: reads Q, K, V, O, Do, Stats, Scale, lengths, Sink; writes Dq, Dk, Dv, Dsink.
    AttentionBackward(Attention),
    /// Products of rows with the matrix of their expert: reads X (tokens), W, GroupOffset, Index,
    /// Slots, writes Y.
    Experts(Experts),
    /// The gradient of the matrices: reads X, Dy, GroupOffset, writes Dw.
    ExpertsBackward,
    /// Pages put next to each other: reads X (the container), Table, LengthKv, writes Y.
    PagedLoad,
    /// Elements by scales of their blocks: reads X, writes Y, Scale.
    Quantize(Blocks),
    /// The inverse: reads X, Scale, writes Y.
    Dequantize(Blocks),
    /// Numbers of codes in bytes: reads X, writes Y; a part of operations on types that are no
    /// scalar types.
    Unpack(Packing),
    /// Codes of numbers: reads X, writes Y.
    Pack(Packing),
    /// Batches that lie where offsets say, as a dense tensor: reads X (ragged), Offset, writes Y.
    RaggedLoad {
        /// Elements per unit of an offset.
        multiplier: i64,
    },
    /// A dense tensor to where offsets say: reads X, Offset, writes Y (ragged).
    RaggedStore {
        /// Elements per unit of an offset.
        multiplier: i64,
    },
    /// The weights of attention again: `y = exp(x - stats)`, 0 where x is minus infinity; a part of
    /// its gradients.
    Weights,
    /// A product with what follows it: reads and writes as the product, and Residual, Bias.
    Fused(Box<Fused>),
    /// Attention with no mask but bands and lengths, as one step: reads Q, K, V, Scale, B (what
    /// stands outside of the band), lengths and bounds, Bias, Slopes, both numbers of a cap, Sink,
    /// of dropout Kept, or Seed and Offset, and KeptFactor; writes O, Stats.
    Attend(Attended),
    /// The gradients of that, as one step: reads what it reads, and O, Stats, Do and KeptInverse,
    /// writes Dq, Dk, Dv, Dbias.
    AttendBackward(Attended),
    /// Operations on tensors of scores, computed tile by tile: reads and writes what they share
    /// with the rest of the graph.
    Stream(Box<super::stream::Region>),
    /// Operations that follow each other, computed block by block: reads and writes what they share
    /// with the rest of the graph.
    Chain(Box<super::chain::Chain>),
    /// What a tile of such scores needs besides those operations.
    Tile(Stage),
    /// `cudnnBackendDescriptorType_t` of an operation that is not computed: its graph has no
    /// engine.
    Other(i32),
}

/// What a tile of scores needs besides the operations of its region.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Writes zeros: Y.
    Zero,
    /// No element yet: reads Sink, writes Max, SumExp.
    Begin,
    /// Some more elements of rows, `y = exp(x - max)`: reads X, writes Y, Max, SumExp, and Factor,
    /// by which all that was summed so far shrinks.
    Softmax,
    /// `c = factor c + a b`: reads A, B, Factor, writes C.
    Accumulate(Matmul),
    /// The statistics of whole rows: reads Max, SumExp, Sink, writes Stats, Max, SumExp, and Y,
    /// what the rows are divided by.
    End {
        /// Whether they are logarithms to base 2.
        log2: bool,
    },
}

impl Kind {
    /// Its name in the log and in error messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Pointwise(_) => "pointwise",
            Kind::Matmul(_) => "matmul",
            Kind::Convolution(_) => "convolution",
            Kind::Reduction(_) => "reduction",
            Kind::Reshape(_) => "reshape",
            Kind::Transpose(_) => "transpose",
            Kind::Slice(_) => "slice",
            Kind::Concat(_) => "concat",
            Kind::NormForward(_) => "norm",
            Kind::NormBackward(_) => "norm backward",
            Kind::ResampleForward(_) => "resample",
            Kind::ResampleBackward(_) => "resample backward",
            Kind::GenStats(_) => "gen stats",
            Kind::BatchNormFinalise(_) => "bn finalize",
            Kind::BatchNormBackwardWeights(_) => "bn bwd weights",
            Kind::Rng(_) => "rng",
            Kind::Softmax(_) => "softmax",
            Kind::BandMask(_) => "diagonal band mask",
            Kind::Padding(_) => "padding mask",
            Kind::RopeForward(_) => "rope",
            Kind::RopeBackward(_) => "rope backward",
            Kind::AttentionForward(_) => "sdpa",
            Kind::AttentionBackward(_) => "sdpa backward",
            Kind::Experts(_) => "moe grouped matmul",
            Kind::ExpertsBackward => "moe grouped matmul backward",
            Kind::PagedLoad => "paged cache load",
            Kind::Quantize(_) => "block scale quantize",
            Kind::Dequantize(_) => "block scale dequantize",
            Kind::Unpack(_) => "numbers of codes",
            Kind::Pack(_) => "codes of numbers",
            Kind::RaggedLoad { .. } => "load of ragged batches",
            Kind::RaggedStore { .. } => "store of ragged batches",
            Kind::Weights => "attention weights",
            Kind::Fused(_) => "fused product",
            Kind::Attend(_) => "attend",
            Kind::AttendBackward(_) => "attend backward",
            Kind::Stream(_) => "stream",
            Kind::Chain(_) => "chain",
            Kind::Tile(_) => "tile",
            Kind::Other(_) => "an operation that is not computed",
        }
    }
}

/// Settings of a pointwise operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointwise {
    /// `cudnnPointwiseMode_t`
    pub mode: i32,
    /// What it is computed in.
    pub math: Type,
    /// What ReLU, minimum and maximum make of a NaN.
    pub nan: NanPropagation,
    /// Bounds of ReLU.
    pub clip: [f64; 2],
    /// Slope of ReLU below its lower bound.
    pub slope: f64,
    /// Alpha of ELU.
    pub elu_alpha: f64,
    /// Beta of softplus.
    pub softplus_beta: f64,
    /// Beta of swish.
    pub swish_beta: f64,
    /// The dimension of GEN_INDEX, if it was set.
    pub axis: Option<i64>,
    /// Factors of x (dy) and of b.
    pub alpha: [f64; 2],
}

impl Pointwise {
    /// A mode in binary32, everything else as a descriptor has it when it is created.
    pub fn new(mode: i32) -> Self {
        Pointwise {
            mode,
            math: DataType::Float.into(),
            nan: NanPropagation::Drop,
            clip: [0.0, f64::INFINITY],
            slope: 0.0,
            elu_alpha: 1.0,
            softplus_beta: 1.0,
            swish_beta: 1.0,
            axis: None,
            alpha: [1.0; 2],
        }
    }
}

/// Settings of a product with what follows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The product: of matrices, or a convolution.
    pub product: Kind,
    /// What is computed of the sum.
    pub activation: Option<Activation>,
}

/// Settings of a product of matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// What it is computed in.
    pub math: Type,
    /// What lies outside of the rows and columns that count.
    pub padding: f64,
    /// Whether A or B is given with its last two dimensions the other way about.
    pub transposed: [bool; 2],
}

/// A window in each spatial dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Spatial {
    /// Zeros in front.
    pub before: Dims,
    /// Zeros behind.
    pub after: Dims,
    /// Steps.
    pub strides: Dims,
    /// Distance of taps.
    pub dilation: Dims,
}

/// Settings of a convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Which of the three.
    pub direction: Direction,
    /// What it is computed in.
    pub math: Type,
    /// `cudnnConvolutionMode_t`: 0 mirrors the filter.
    pub mode: i32,
    /// The window.
    pub spatial: Spatial,
    /// Factor of the result.
    pub alpha: f64,
    /// Factor of the old result.
    pub beta: f64,
}

/// Settings of a reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// `cudnnReduceTensorOp_t`
    pub operator: i32,
    /// What it is computed in.
    pub math: Type,
}

/// Settings of a reshape.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// Whether elements keep their logical order (`CUDNN_RESHAPE_LOGICAL`); else memory keeps its
    /// own.
    pub logical: bool,
}

/// Settings of a transposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Transpose {
    /// Dimension k of y is dimension `permutation[k]` of x.
    pub permutation: Vec<i64>,
}

/// Settings of a slice, per dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// First index.
    pub starts: Vec<i64>,
    /// One past the last index.
    pub limits: Vec<i64>,
    /// From index to index.
    pub strides: Vec<i64>,
}

/// Settings of a concatenation.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    /// The dimension.
    pub axis: i64,
    /// The part that lies in the result already, if any.
    pub in_place: Option<usize>,
}

/// Settings of a normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// `cudnnBackendNormMode_t`
    pub mode: i32,
    /// Whether it is the phase of training (`CUDNN_NORM_FWD_TRAINING`); of gradients it does not
    /// matter.
    pub training: bool,
}

/// Settings of a resampling.
#[derive(Clone, Debug, PartialEq)]
pub struct Resample {
    /// `cudnnResampleMode_t`
    pub mode: i32,
    /// `cudnnPaddingMode_t`
    pub padding: i32,
    /// What it is computed in.
    pub math: Type,
    /// What maxima make of a NaN.
    pub nan: NanPropagation,
    /// Window of each spatial dimension, as numerator and denominator.
    pub window: Vec<[i64; 2]>,
    /// Steps of it.
    pub strides: Vec<[i64; 2]>,
    /// Padding in front.
    pub before: Vec<[i64; 2]>,
    /// Padding behind.
    pub after: Vec<[i64; 2]>,
    /// Factor of the result.
    pub alpha: f64,
    /// Factor of the old result.
    pub beta: f64,
}

/// Settings of statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct GenStats {
    /// What they are computed in.
    pub math: Type,
}

/// Settings of a batch normalisation from sums.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormFinalise {
    /// Whether the statistics are those of the sums (`CUDNN_BN_FINALIZE_STATISTICS_TRAINING`); else
    /// the running ones.
    pub training: bool,
    /// What it is computed in.
    pub math: Type,
}

/// Settings of random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rng {
    /// `cudnnRngDistribution_t`
    pub distribution: i32,
    /// Mean and deviation of a normal distribution.
    pub normal: [f64; 2],
    /// Bounds of a uniform distribution.
    pub uniform: [f64; 2],
    /// The probability of 1 of a Bernoulli distribution.
    pub probability: f64,
    /// The seed, unless it is a tensor.
    pub seed: Option<i64>,
}

/// Settings of a softmax.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// Whether the statistics are logarithms to base 2.
    pub log2: bool,
}

/// Settings of a band mask.
#[derive(Clone, Debug, PartialEq)]
pub struct BandMask {
    /// The comparison, `cudnnPointwiseMode_t`.
    pub comparison: i32,
}

/// Settings of a mask of what lies beyond the lengths of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Padding {
    /// The dimension that the lengths of queries bound.
    pub rows: usize,
    /// The dimension that the lengths of keys and values bound.
    pub columns: usize,
    /// What stands beyond.
    pub value: f64,
}

/// Settings of products by experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// `cudnnMoeGroupedMatmulMode_t`
    pub mode: i32,
    /// Experts of a token, where results go to the places of tokens.
    pub top_k: i64,
}

/// How elements lie in the cells of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// One in each, of the cell's type.
    #[default]
    Plain,
    /// One in each byte, which is an exponent (FP8_E8M0).
    Powers,
    /// Two in each byte, along this dimension (FP4_E2M1).
    Nibbles {
        /// The dimension.
        axis: usize,
    },
}

/// Settings of a quantisation by blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    /// `BLOCK_SIZE`, as it was set: one number, or one for each of the last dimensions.
    pub sizes: Vec<i64>,
    /// Elements of a block in each dimension.
    pub block: Vec<i64>,
    /// `CUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE`
    pub negative: bool,
    /// How the elements with scales lie.
    pub values: Packing,
    /// How the scales lie.
    pub scales: Packing,
    /// Blocks in each dimension; the scales may have room for more.
    pub counts: Vec<i64>,
    /// Extents of the scales.
    pub extents: Vec<i64>,
    /// Whether they lie in tiles, and their columns come before their rows.
    pub tiles: Option<bool>,
}

/// Settings of an attention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attention {
    /// What becomes of the scaled scores before the softmax.
    pub modifier: Option<Modifier>,
    /// Whether the statistics are logarithms to base 2.
    pub log2: bool,
    /// The probability with which a weight is dropped.
    pub dropout: f64,
}

/// Settings of an attention that is one step, and of its gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// Whether K or V is given with its last two dimensions the other way about.
    pub transposed: [bool; 2],
    /// Whether the statistics are logarithms to base 2.
    pub log2: bool,
    /// Whether nothing counts beyond the lengths.
    pub padded: bool,
    /// The side of the band that bounds keys from above.
    pub right: Option<Edge>,
    /// The one that bounds them from below.
    pub left: Option<Edge>,
    /// Whether the cap of scores, if there is one, divides them by its inner number.
    pub divides: bool,
    /// What becomes of weights behind the softmax.
    pub dropout: Option<Dropped>,
}

/// The dropout of an attention that is one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// How it is drawn, if it is not given.
    pub drawn: Option<Rng>,
    /// The factor of all weights, beside the one that is a tensor.
    pub factor: f64,
}

/// One side of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Whether its comparison is strict.
    pub strict: bool,
    /// Whether it moves with the lengths.
    pub moves: bool,
}

/// A graph inside of an operation: from one tensor of its own to another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Modifier {
    /// Its operations.
    pub operations: Vec<Operation>,
    /// The uid of what it is given.
    pub input: i64,
    /// The uid of what it makes of it.
    pub output: i64,
}

/// Settings of a rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Factor of the result.
    pub scale: f64,
    /// Elements of the last dimension that are rotated, if not all.
    pub dim: Option<i64>,
}
