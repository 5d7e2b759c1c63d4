//! From sums over a batch, or from running statistics, to the scale and bias per channel that
//! normalise.

use std::fmt;

use super::{Numbers, Part, Place, check_mode, check_vector, constant, place_of, tensor, variant};
use crate::desc::TensorDescriptor;
use crate::desc::fused::ConstantPack;
use crate::desc::tensor::CHANNEL;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, LoopNest};
use crate::ops::Compute;
use crate::ops::agree;
use crate::ops::fill::Set;
use crate::ops::function::Function;
use crate::ops::map::{Factors, Map};
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};

/// Operation 2, from the sums of y and of y * y, or operation 3, from running statistics.
#[derive(Clone, Debug)]
pub struct Finalise {
    /// Whether the statistics are those of a batch.
    of_batch: bool,
    channels: i64,
    /// eqScale, eqBias, saved mean, saved inverse deviation, running mean, running variance, sums,
    /// sums of squares, scale, bias: the descriptor of each that is there.
    vectors: [Option<TensorDescriptor>; VECTORS],
}

const VECTORS: usize = 10;
const WORKSPACE: usize = VECTORS;
const EQ_SCALE: usize = 0;
const EQ_BIAS: usize = 1;
const SAVED_MEAN: usize = 2;
const SAVED_INVERSE: usize = 3;
const MEAN: usize = 4;
const VARIANCE: usize = 5;
const SUM: usize = 6;
const SQUARES: usize = 7;
const SCALE: usize = 8;
const BIAS: usize = 9;

/// Descriptor, placeholder and pointer of each.
const LABELS: [[i32; 3]; VECTORS] = [
    [constant::EQ_SCALE_BIAS, constant::EQ_SCALE_POINTER, variant::EQ_SCALE],
    [constant::EQ_SCALE_BIAS, constant::EQ_BIAS_POINTER, variant::EQ_BIAS],
    [constant::NUMBERS, constant::SAVED_MEAN_POINTER, variant::SAVED_MEAN],
    [constant::NUMBERS, constant::SAVED_INVERSE_POINTER, variant::SAVED_INVERSE],
    [constant::NUMBERS, constant::RUNNING_MEAN_POINTER, variant::RUNNING_MEAN],
    [constant::NUMBERS, constant::RUNNING_VARIANCE_POINTER, variant::RUNNING_VARIANCE],
    [constant::SUMS, constant::SUM_POINTER, variant::SUM],
    [constant::SUMS, constant::SQUARES_POINTER, variant::SQUARES],
    [constant::NUMBERS, constant::SCALE_POINTER, variant::SCALE],
    [constant::NUMBERS, constant::BIAS_POINTER, variant::BIAS],
];

const NAMES: [&str; VECTORS] = [
    "eqScale",
    "eqBias",
    "savedMean",
    "savedInvStd",
    "runningMean",
    "runningVar",
    "ySum",
    "ySqSum",
    "scale",
    "bias",
];

impl Finalise {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, vectors of other than one number per channel, mode 0;
    /// statistics that are not there. Not supported: 32-bit integers and other types that are not
    /// computed with.
    pub(super) fn new(pack: &ConstantPack) -> Result<Self> {
        let of_batch = pack.operation.number() == 2;
        let numbers = tensor(pack, constant::NUMBERS, "scale, bias, mean and variance")?;
        check_mode(pack)?;
        let (rank, channels) = (numbers.rank(), numbers.dims()[CHANNEL.min(numbers.rank() - 1)]);
        let mut needed =
            vec![(constant::NUMBERS, "scaleBiasMeanVar"), (constant::EQ_SCALE_BIAS, "eqScaleBias")];
        if of_batch {
            needed.push((constant::SUMS, "yStats"));
        }
        for (label, name) in needed {
            let vector = tensor(pack, label, name)?;
            check_vector(name, vector, rank, channels)?;
            if matches!(
                vector.data_type().scalar(),
                Scalar::I8 | Scalar::U8 | Scalar::I32 | Scalar::I64 | Scalar::Bool
            ) {
                return Err(Error::unsupported(format!("{name} of {:?}", vector.data_type())));
            }
        }
        let mut vectors = [None; VECTORS];
        for (vector, [desc, there, _]) in vectors.iter_mut().zip(LABELS) {
            *vector = pack.tensor(desc).copied().filter(|_| pack.number(there) != 0);
        }
        let statistics = if of_batch { [SUM, SQUARES] } else { [MEAN, VARIANCE] };
        if let Some(missing) = statistics.into_iter().find(|&k| vectors[k].is_none()) {
            return Err(Error::mismatch(format!("{} has a placeholder of NULL", NAMES[missing])));
        }
        Ok(Finalise { of_batch, channels, vectors })
    }

    /// Bytes of workspace: mean and variance in binary64, ones and zeros.
    pub(super) fn workspace(&self) -> usize {
        4 * self.channels as usize * size_of::<f64>()
    }

    /// The one plan.
    ///
    /// # Errors
    /// Bad parameter for a count below 1, or an epsilon that is negative or no number.
    pub(super) fn parts(&self, numbers: Numbers) -> Result<Vec<Part>> {
        if self.of_batch && numbers.count < 1 {
            return Err(Error::argument(
                "CUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT",
                numbers.count,
                "at least 1",
            ));
        }
        if numbers.epsilon.is_nan() || numbers.epsilon < 0.0 {
            return Err(Error::mismatch(format!("epsilon is {}, it must not be negative", numbers.epsilon)));
        }
        let mut operands = [Operand::untouched("", Scalar::F64); VECTORS + 1];
        for (k, operand) in operands[..VECTORS].iter_mut().enumerate() {
            let role = match k {
                _ if k >= SUM || !self.of_batch && (k == MEAN || k == VARIANCE) => Role::Read,
                MEAN | VARIANCE => Role::blended(1.0 - numbers.factor),
                _ => Role::Write,
            };
            *operand = Operand { role, ..Operand::untouched(NAMES[k], Scalar::F32) };
            if let Some(vector) = &self.vectors[k] {
                let span = agree::byte_span(vector.layout()?, vector.data_type())?;
                *operand = Operand { span, scalar: vector.data_type().scalar(), ..*operand };
            }
        }
        let span = (0, self.workspace() as i64);
        operands[WORKSPACE] = Operand { name: "workspace", role: Role::Scratch, scalar: Scalar::F64, span };
        let mut places: Vec<Place> = LABELS.iter().map(|labels| place_of(labels[2])).collect();
        places.push(Place::workspace(0));
        let plan = FinalisePlan { problem: self.clone(), numbers, operands };
        Ok(vec![Part { plan: Box::new(plan), places }])
    }
}

/// `mean = ySum / count`, `variance = ySqSum / count - mean * mean`, not below 0;
/// `savedInvStd = 1 / sqrt(variance + epsilon)`; `eqScale = scale / sqrt(variance + epsilon)`,
/// `eqBias = bias - mean * eqScale`; the running statistics take in the new ones with their factor,
/// the variance times `count / (count - 1)`. All in binary64.
#[derive(Debug)]
struct FinalisePlan {
    problem: Finalise,
    numbers: Numbers,
    operands: [Operand; VECTORS + 1],
}

/// A vector of numbers: an operand, where it begins in it, and how far its channels are apart, in
/// scalars.
#[derive(Clone, Copy)]
struct Vector {
    slot: usize,
    offset: i64,
    stride: i64,
}

/// Runs `function` over the channels.
struct Channels<'a, 'b> {
    plan: &'a FinalisePlan,
    sink: StepSink<'b>,
}

impl Channels<'_, '_> {
    fn nest<const N: usize>(&self, vectors: [Vector; N]) -> LoopNest<N> {
        let axis = Axis { extent: self.plan.problem.channels, strides: vectors.map(|v| v.stride) };
        let mut nest = LoopNest::new(&[axis], vectors.map(|v| v.offset));
        nest.canonicalise();
        nest
    }

    fn scalar(&self, vector: Vector) -> Scalar {
        self.plan.operands[vector.slot].scalar
    }

    fn set(&mut self, to: Vector, value: f64) -> Result<()> {
        let set = Set { nest: self.nest([to]), dst: Scalar::F64, cell: value.to_bits() };
        (self.sink)(Step::Set(&set), &[to.slot])
    }

    /// `to = function(alpha[0] * a, alpha[1] * b) + beta * to`
    fn map(&mut self, function: Function, to: Vector, from: [Vector; 2], factors: Factors) -> Result<()> {
        let vectors = [to, from[0], from[1]];
        let map = Map {
            nest: self.nest(vectors),
            scalars: vectors.map(|v| self.scalar(v)),
            compute: Compute::Double,
            function,
            parameter: 0.0,
            factors,
        };
        (self.sink)(Step::Map(&map), &vectors.map(|v| v.slot))
    }

    /// `to = scale * (x - mean) / sqrt(variance + epsilon) + bias`
    fn normalise(&mut self, to: Vector, from: [Vector; 5]) -> Result<()> {
        let [x, mean, variance, scale, bias] = from;
        let vectors = [to, x, mean, variance, scale, bias];
        let map = Map {
            nest: self.nest(vectors),
            scalars: vectors.map(|v| self.scalar(v)),
            compute: Compute::Double,
            function: Function::Normalise,
            parameter: self.plan.numbers.epsilon,
            factors: Factors::NONE,
        };
        (self.sink)(Step::WideMap(&map), &vectors.map(|v| v.slot))
    }
}

impl Plan for FinalisePlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let Finalise { of_batch, channels, vectors } = &self.problem;
        let numbers = &self.numbers;
        let given = |slot: usize| {
            vectors[slot].map(|vector| Vector { slot, offset: 0, stride: vector.strides()[CHANNEL] })
        };
        let scratch = |k: i64| Vector { slot: WORKSPACE, offset: k * channels, stride: 1 };
        let [mut mean, mut variance, ones, zeros] = [0, 1, 2, 3].map(scratch);
        let mut run = Channels { plan: self, sink };
        run.set(ones, 1.0)?;
        run.set(zeros, 0.0)?;
        let times = |alpha: f64, beta: f64| Factors { alpha: [alpha, 1.0], beta };
        if *of_batch {
            let (Some(sum), Some(squares)) = (given(SUM), given(SQUARES)) else {
                return Err(Error::Internal("statistics that were checked are gone".into()));
            };
            let share = 1.0 / numbers.count as f64;
            run.map(Function::First, mean, [sum; 2], times(share, 0.0))?;
            run.map(Function::First, variance, [squares; 2], times(share, 0.0))?;
            run.map(Function::Mul, variance, [mean; 2], times(-1.0, 1.0))?;
            run.map(Function::ReluOrNan, variance, [variance; 2], Factors::NONE)?;
            let unbiased = if numbers.count > 1 { 1.0 / (1.0 - share) } else { 1.0 };
            for (to, from, factor) in [(MEAN, mean, 1.0), (VARIANCE, variance, unbiased)] {
                if let Some(to) = given(to) {
                    let factors = times(numbers.factor * factor, 1.0 - numbers.factor);
                    run.map(Function::First, to, [from; 2], factors)?;
                }
            }
            if let Some(to) = given(SAVED_MEAN) {
                run.map(Function::First, to, [mean; 2], Factors::NONE)?;
            }
            if let Some(to) = given(SAVED_INVERSE) {
                run.normalise(to, [ones, zeros, variance, ones, zeros])?;
            }
        } else if let (Some(given_mean), Some(given_variance)) = (given(MEAN), given(VARIANCE)) {
            (mean, variance) = (given_mean, given_variance);
        }
        let (scale, bias) = (given(SCALE).unwrap_or(ones), given(BIAS).unwrap_or(zeros));
        if let Some(to) = given(EQ_SCALE) {
            run.normalise(to, [ones, zeros, variance, scale, zeros])?;
        }
        if let Some(to) = given(EQ_BIAS) {
            run.normalise(to, [zeros, mean, variance, scale, bias])?;
        }
        Ok(())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for FinalisePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
