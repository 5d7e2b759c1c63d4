//! The meaning of one call: checks across descriptors, then a [`Plan`] of [`Step`]s for a core to
//! run.
#![forbid(unsafe_code)]

pub mod activation;
mod activation_function;
pub mod add;
pub mod aggregate;
mod agree;
pub mod attend;
pub mod attention;
pub mod batch_norm;
pub mod bias;
pub mod causal;
pub mod causal_conv;
mod chunks;
pub mod columns;
pub mod contract;
pub mod convolution;
pub mod ctc;
pub mod dropout;
pub mod fill;
pub mod function;
pub mod fused;
pub mod gnn;
pub mod graph;
pub mod map;
pub mod matmul;
mod memory;
pub mod normalise;
pub mod op;
mod padded;
pub mod part;
pub mod plan;
pub mod pooling;
pub mod ragged;
mod random;
pub mod recurrent;
pub mod reduce;
pub mod reduction;
pub mod response;
pub mod row_norm;
pub mod rows;
pub mod sample;
mod sequence;
pub mod softmax;
pub mod spatial_transformer;
mod strict;
pub mod transform;
mod tree;
pub mod window;
mod words;

use std::fmt;

use crate::desc::NanPropagation;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::LoopNest;

pub use activation::ActivationPlan;
pub use aggregate::Aggregate;
pub use attend::{Attend, AttendBackward};
pub use attention::AttentionPlan;
pub use causal::Causal;
pub use contract::{Contract, Phases};
pub use ctc::{Ctc, CtcPlan};
pub use fill::{FillPlan, Set};
pub use map::Map;
pub use matmul::MatmulPlan;
pub use memory::{Memory, check_size};
pub use normalise::{Normalise, NormaliseBackward};
pub use op::OpPlan;
pub use padded::Padded;
pub use plan::{Operand, OwnedStep, Plan, Role, Step, StepSink};
pub use ragged::Ragged;
pub use random::{Draw, Random};
pub use reduce::{Indices, Reduce, ReducePlan};
pub use reduction::Reduction;
pub use row_norm::{RowNorm, RowNormBackward};
pub use rows::{RowFunction, Rows};
pub use sample::Sample;
pub use sequence::Sequence;
pub use softmax::SoftmaxPlan;
pub use transform::TransformPlan;
pub use window::{Window, WindowPlan};
pub use words::Words;

/// The floating type that an operation is computed in; operands are converted to it, the result
/// once from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// binary32: computation types FLOAT, HALF and BFLOAT16.
    Single,
    /// binary64: computation type DOUBLE.
    Double,
}

impl Compute {
    /// The type for operands of these types: binary64 if binary32 does not hold all their values.
    pub fn of(scalars: &[Scalar]) -> Compute {
        match scalars.iter().any(|scalar| matches!(scalar, Scalar::F64 | Scalar::I32 | Scalar::I64)) {
            true => Compute::Double,
            false => Compute::Single,
        }
    }

    /// The scalar type of intermediate results.
    pub const fn scalar(self) -> Scalar {
        match self {
            Compute::Single => Scalar::F32,
            Compute::Double => Scalar::F64,
        }
    }
}

/// What minimum and maximum make of a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanRule {
    /// A NaN loses against every number.
    Ignore,
    /// A NaN wins against every number.
    Propagate,
}

impl From<NanPropagation> for NanRule {
    fn from(choice: NanPropagation) -> Self {
        match choice {
            NanPropagation::Drop => NanRule::Ignore,
            NanPropagation::Keep => NanRule::Propagate,
        }
    }
}

/// A number as a caller hands it over: in `float` or `double`, or in the tensor's own integer type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// For a floating tensor.
    Real(f64),
    /// For an integer tensor.
    Integer(i64),
}

/// Lowest and highest offset of an operand, in bytes from its data pointer, the upper one
/// exclusive.
pub type ByteSpan = (i64, i64);

/// The factors of `dst = alpha * src + beta * dst`.
///
/// Callers pass `float` unless the destination is `double`; every float is exact as an `f64`, so
/// one pair of fields serves both. `beta == 0` means that the destination is never read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Factor of the source.
    pub alpha: f64,
    /// Factor of the old destination.
    pub beta: f64,
}

impl Scaling {
    /// `alpha = 1`, `beta = 0`: a plain move.
    pub const MOVE: Scaling = Scaling { alpha: 1.0, beta: 0.0 };

    /// Whether this is a plain move, which keeps every bit when the types agree.
    pub fn is_move(&self) -> bool {
        self.alpha == 1.0 && self.beta == 0.0
    }
}

/// `dst = convert(alpha * src + beta * dst)` for every pair of offsets of the nest (operand 0 dst,
/// 1 src).
#[derive(Clone, Copy)]
pub struct Transform {
    /// Offsets in scalars of each operand's own type; canonical (see [`LoopNest`]).
    pub nest: LoopNest<2>,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// Scalar type of the source.
    pub src: Scalar,
    /// Alpha and beta.
    pub scaling: Scaling,
}

/// `dst = convert(beta * dst)` for every offset of the nest; `beta == 0` writes zero without
/// reading.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Offsets in scalars of the destination; canonical.
    pub nest: LoopNest<1>,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// Factor of the old destination.
    pub beta: f64,
}

/// How many parts of a plan are listed: an unfold has a part per position in its blocks, and may
/// have millions of parts.
const LISTED: usize = 8;

/// Writes the parts that a walk yields, as the log shows a plan: the first [`LISTED`] of them, and
/// how many more there are.
fn list(
    f: &mut fmt::Formatter<'_>,
    for_each: impl FnOnce(&mut dyn FnMut(&dyn fmt::Display) -> Result<()>) -> Result<()>,
) -> fmt::Result {
    let mut result = Ok(());
    let mut count = 0_usize;
    // A plan that fails half-way is listed as far as it goes; running it reports the error.
    let _ = for_each(&mut |item| {
        let separator = if count == 0 { "" } else { "; " };
        if result.is_ok() && count < LISTED {
            result = write!(f, "{separator}{item}");
        }
        count += 1;
        Ok(())
    });
    result?;
    if count > LISTED { write!(f, "; and {} more", count - LISTED) } else { Ok(()) }
}

/// Types, factors and loops in one line, for the log.
impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transform { nest, dst, src, scaling } = self;
        write!(f, "transform {}->{}", src.name(), dst.name())?;
        if !scaling.is_move() {
            write!(f, " alpha={} beta={}", scaling.alpha, scaling.beta)?;
        }
        write!(f, " {nest}")
    }
}

/// Type, factor and loops in one line, for the log.
impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scale {} beta={} {}", self.dst.name(), self.beta, self.nest)
    }
}
