//! Graphs of operations: finalised operations as plain data, and what they become - plans that run
//! one after the other.
//!
//! ```text
//!  mod.rs         Tensor, Operation, Graph: what the descriptors of the graph interface become when they are finalised
//!  settings.rs    attributes of an operation besides its tensors
//!  read.rs        finalised descriptors -> Graph
//!  mode.rs        the numbers of pointwise modes
//!  ports.rs       which attribute is which tensor of its operation
//!  dag.rs         the order of operations, and what no graph may have
//!  program.rs     Graph -> Program: one plan per operation, and what lies where in the workspace
//!  expand/        operations that are graphs of others
//!  chain/         operations that follow each other, some rows at a time
//!  stream/        attention tile by tile
//!  attend/        attention in one step, and its gradients
//!  order.rs       in which order of dimensions virtual tensors lie
//!  fuse.rs        products with what follows them
//!  allocator.rs   places in the workspace, by lifetime
//!  overrides.rs   a graph under other extents
//!  view.rs        where the elements of an operand lie
//!  product.rs     the contraction of two matrices, by where they lie
//!  values.rs      tensors that are passed by value
//!  steps.rs       the plan of an operation under construction
//!  work.rs        the plan of an operation when it is done
//!  copies.rs      operands in another order, as parts of such a plan
//!  masks.rs       indices, and what they leave of a tensor, as parts of such a plan
//!  lower/         from each kind of operation to steps
//! ```
//! An operation names its tensors by [`Port`]: the checks of a graph and the order of its
//! operations ask only which tensors are read and which are written, whatever the operation
//! computes.

mod allocator;
mod attend;
mod chain;
mod copies;
mod dag;
mod expand;
mod fuse;
mod lower;
mod masks;
mod mode;
mod order;
mod overrides;
mod ports;
mod product;
mod program;
mod read;
mod settings;
mod steps;
mod stream;
mod values;
mod view;
mod work;

use std::fmt;
use std::sync::Arc;

pub use attend::Attends;
pub use attend::Supposed;
pub use chain::Chain;
pub use fuse::Fusion;
pub use overrides::Override;
pub use program::{Numbers, Program, Strategy, Value};
pub use settings::{
    Attended, Attention, BandMask, BatchNormFinalise, Blocks, Concat, Convolution, Direction, Dropped, Edge,
    Experts, Fused, GenStats, Kind, Matmul, Modifier, Norm, Packing, Padding, Pointwise, Reduction, Resample,
    Reshape, Rng, Rope, Slice, Softmax, Spatial, Stage, Transpose,
};
pub use stream::{Region, Tiles};
pub use values::ValuesPlan;

use crate::dtype::DataType;
use crate::error::Error;
use crate::layout::Dims;

/// An element type by its number in the C interface: one that the library computes with, or one
/// that a tensor may have all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type of the library.
    Known(DataType),
    /// `cudnnDataType_t` of a type that it lacks: a graph with such a tensor has no engine.
    Other(i32),
}

impl From<DataType> for Type {
    fn from(data_type: DataType) -> Self {
        Type::Known(data_type)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Known(data_type) => write!(f, "{data_type:?}"),
            Type::Other(number) => write!(f, "type {number}"),
        }
    }
}

/// Elements that lie side by side along one dimension: `VECTOR_COUNT` and `VECTORIZED_DIMENSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Elements of a vector: 4 or 32.
    pub count: i64,
    /// The dimension; its extent counts vectors.
    pub dimension: i64,
}

/// Where the batches of a ragged tensor begin: `offset[b] * multiplier` elements from its pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ragged {
    /// The tensor of offsets.
    pub offset: Arc<Tensor>,
    /// Elements per unit of an offset.
    pub multiplier: i64,
}

/// A finalised tensor descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// What names it in its graph: two descriptors of one uid are one tensor.
    pub uid: i64,
    /// Type of its elements.
    pub data_type: Type,
    /// Extents, outermost dimension first; at least 0 each.
    pub dims: Dims,
    /// Strides in elements (in vectors, if it has a [`vector`](Tensor::vector)), one per dimension.
    pub strides: Dims,
    /// What its pointer is a multiple of, in bytes.
    pub alignment: i64,
    /// Whether it has no memory of the caller's.
    pub is_virtual: bool,
    /// Whether its pointer is host memory, read when the graph runs, on either core.
    pub by_value: bool,
    /// The low bits of its one element, if that is known: then it needs no pointer.
    pub constant: Option<u64>,
    /// The vectors it consists of, if it does.
    pub vector: Option<Vector>,
    /// `CUDNN_ATTR_TENSOR_REORDERING_MODE`, any number.
    pub reorder: i32,
    /// Where its batches begin, if they are ragged.
    pub ragged: Option<Ragged>,
}

impl Tensor {
    /// A tensor of the caller's, of these strides, with nothing special.
    pub fn new(uid: i64, data_type: DataType, dims: &[i64], strides: &[i64]) -> Self {
        Tensor {
            uid,
            data_type: data_type.into(),
            dims: Dims::new(dims),
            strides: Dims::new(strides),
            alignment: data_type.size() as i64,
            is_virtual: false,
            by_value: false,
            constant: None,
            vector: None,
            reorder: 0,
            ragged: None,
        }
    }
}

macro_rules! ports {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// What a tensor is to an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Port {
            $($(#[$doc])* $name,)*
        }

        impl Port {
            /// Its name in the log and in error messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Port::$name => stringify!($name),)*
                }
            }
        }
    };
}

ports! {
    /// The first operand, or the data of a layer.
    X;
    /// The second operand.
    B;
    /// The third operand: what selects.
    T;
    /// The result.
    Y;
    /// The gradient of the result, an operand of gradients.
    Dy;
    /// The gradient of the data, a result of gradients.
    Dx;
    /// The first factor of a product of matrices.
    A;
    /// The product of matrices.
    C;
    /// Rows that count, per matrix.
    MOverride;
    /// Columns that count, per matrix.
    NOverride;
    /// Terms that count, per matrix.
    KOverride;
    /// The filter of a convolution.
    W;
    /// The gradient of the filter.
    Dw;
    /// Where groups begin, of a reduction.
    GroupOffset;
    /// Scale of a normalisation.
    Scale;
    /// Bias of a normalisation, or what is added to a product.
    Bias;
    /// What the hyperbolic tangent of scores is taken of: them times that number, or over it.
    Inner;
    /// What that tangent is multiplied by.
    Outer;
    /// What scores grow by from key to key, one number for each head.
    Slopes;
    /// What weights of attention are multiplied by behind the softmax, one by one.
    Kept;
    /// The number that all of them are multiplied by there.
    KeptFactor;
    /// The inverse of that.
    KeptInverse;
    /// What is added to a product before its bias.
    Residual;
    /// Epsilon of a normalisation.
    Epsilon;
    /// Weight of new statistics in the running ones.
    Factor;
    /// Number of elements behind sums.
    Count;
    /// Mean: written by a normalisation forward in training, else read.
    Mean;
    /// One over the deviation: as the mean.
    InverseVariance;
    /// Running mean that is read.
    RunningMean;
    /// Running variance that is read.
    RunningVariance;
    /// Running mean that is written.
    NewRunningMean;
    /// Running variance that is written.
    NewRunningVariance;
    /// Gradient of the scale.
    Dscale;
    /// Gradient of the bias.
    Dbias;
    /// Statistics of other devices.
    Peer;
    /// Sums per channel.
    Sum;
    /// Sums of squares per channel.
    SquareSum;
    /// Scale that a normalisation comes down to; of BN_BWD_WEIGHTS that of dy.
    EqScale;
    /// The same of x.
    EqXScale;
    /// Bias that a normalisation comes down to.
    EqBias;
    /// Where the largest elements were.
    Index;
    /// One operand of a concatenation; they come in the order of their list.
    Part;
    /// Seed of random numbers.
    Seed;
    /// Offset into random numbers.
    Offset;
    /// Statistics of softmax: the logarithm of the sum of exponentials.
    Stats;
    /// Largest element of each row.
    Max;
    /// Sum of exponentials of each row.
    SumExp;
    /// One more element of every row, which has no result.
    Sink;
    /// Angles of a rotation.
    Frequencies;
    /// Lengths of sequences of keys and values.
    LengthKv;
    /// Lengths of sequences of queries.
    LengthQ;
    /// Ends of sequences of keys and values in what is packed.
    CumulativeKv;
    /// Ends of sequences of queries in what is packed.
    CumulativeQ;
    /// Left bound of a band.
    LeftBound;
    /// Right bound of a band.
    RightBound;
    /// Queries of attention.
    Q;
    /// Keys of attention.
    K;
    /// Values of attention.
    V;
    /// The result of attention.
    O;
    /// The gradient of that.
    Do;
    /// The gradient of queries.
    Dq;
    /// The gradient of keys.
    Dk;
    /// The gradient of values.
    Dv;
    /// The gradient of the sink.
    Dsink;
    /// Which of a token's places a result goes to.
    Slots;
    /// Which page is where.
    Table;
    /// Which page of keys is where.
    PagesK;
    /// Which page of values is where.
    PagesV;
    /// Which blocks of scores count.
    BlockMask;
    /// Random numbers that were drawn.
    Dump;
    /// What queries in FP8 are multiplied by.
    DescaleQ;
    /// What keys in FP8 are multiplied by.
    DescaleK;
    /// What values in FP8 are multiplied by.
    DescaleV;
    /// What weights in FP8 are multiplied by.
    DescaleS;
    /// What weights are multiplied by before they become FP8.
    ScaleS;
    /// What the result is multiplied by before it becomes FP8.
    ScaleO;
    /// The largest magnitude of a weight.
    AmaxS;
    /// The largest magnitude of the result.
    AmaxO;
    /// A tensor of an operation that is not computed.
    Other;
}

/// One tensor of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it is there.
    pub port: Port,
    /// The tensor.
    pub tensor: Arc<Tensor>,
}

/// A finalised operation descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What it computes, with its settings.
    pub kind: Kind,
    /// The tensors that it reads; those with a ragged offset read that besides.
    pub reads: Vec<Link>,
    /// The tensors that it writes.
    pub writes: Vec<Link>,
}

impl Operation {
    /// An operation of these tensors.
    pub fn new(kind: Kind, reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]) -> Self {
        let links = |list: &[(Port, &Arc<Tensor>)]| {
            list.iter().map(|&(port, tensor)| Link { port, tensor: Arc::clone(tensor) }).collect()
        };
        Operation { kind, reads: links(reads), writes: links(writes) }
    }

    /// Why a graph of which this is operation `at` is not computed: not supported, with the
    /// operation; want of memory stays what it is.
    pub(super) fn explained(&self, at: usize, error: Error) -> Error {
        if error.is_want_of_memory() {
            return error;
        }
        Error::unsupported(format!("operation {at}, {}: {error}", self.kind.name()))
    }

    /// The tensor that is read as `port`.
    pub fn read(&self, port: Port) -> Option<&Arc<Tensor>> {
        self.reads.iter().find(|link| link.port == port).map(|link| &link.tensor)
    }

    /// The tensor that is written as `port`.
    pub fn write(&self, port: Port) -> Option<&Arc<Tensor>> {
        self.writes.iter().find(|link| link.port == port).map(|link| &link.tensor)
    }
}

/// The operations of a finalised operation graph, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The operations.
    pub operations: Vec<Operation>,
}
