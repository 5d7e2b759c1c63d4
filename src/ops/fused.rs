//! Fused operations as sequences of plans: scale, bias and activation before a convolution or its filter gradient, and
//! sums of the output behind it.
//!
//! Scale, bias and activation are a depthwise convolution of one tap, whose result lies in the workspace.

use super::convolution::{Convolution, ConvolutionPlan, Direction, Fused};
use super::{FillPlan, Number, Plan, ReducePlan, Scaling};
use crate::desc::fused::{ConstantPack, PackedDescriptor};
use crate::desc::tensor::{CHANNEL, Format};
use crate::desc::{
    ActivationDescriptor, ActivationMode, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode,
    FilterDescriptor, MathType, NanPropagation, ReduceDescriptor, ReduceOp, TensorDescriptor,
};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::mode::Mode;

/// Labels of constant parameters.
mod constant {
    pub const X: i32 = 0;
    pub const X_POINTER: i32 = 1;
    pub const MODE: i32 = 2;
    pub const EQ_SCALE_BIAS: i32 = 3;
    pub const EQ_SCALE_POINTER: i32 = 4;
    pub const EQ_BIAS_POINTER: i32 = 5;
    pub const ACTIVATION: i32 = 6;
    pub const CONVOLUTION: i32 = 7;
    pub const W: i32 = 8;
    pub const W_POINTER: i32 = 9;
    pub const DW: i32 = 10;
    pub const DW_POINTER: i32 = 11;
    pub const Y: i32 = 12;
    pub const Y_POINTER: i32 = 13;
    pub const DY: i32 = 14;
    pub const DY_POINTER: i32 = 15;
    pub const SUMS: i32 = 16;
    pub const SUM_POINTER: i32 = 17;
    pub const SQUARES_POINTER: i32 = 18;
}

/// Labels of variant parameters.
mod variant {
    pub const X: i32 = 0;
    pub const EQ_SCALE: i32 = 1;
    pub const EQ_BIAS: i32 = 2;
    pub const W: i32 = 3;
    pub const DW: i32 = 4;
    pub const Y: i32 = 5;
    pub const DY: i32 = 6;
    pub const SUM: i32 = 7;
    pub const SQUARES: i32 = 8;
    pub const WORKSPACE: i32 = 9;
}

/// Placeholder of a pointer that is there and aligned to 16 bytes.
const ALIGNED: i32 = 2;

/// Where an operand of a part lies: a variant parameter, and bytes from there.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Label of the variant parameter.
    pub label: i32,
    /// Bytes from its pointer on.
    pub offset: usize,
}

impl Place {
    const fn of(label: i32) -> Self {
        Place { label, offset: 0 }
    }
}

/// One plan of a fused operation, with the places of its operands.
pub struct Part {
    /// The plan.
    pub plan: Box<dyn Plan>,
    /// One place per operand.
    pub places: Vec<Place>,
}

/// A fused operation whose parameters fit each other.
#[derive(Clone, Debug)]
pub struct FusedProblem {
    convolution: Convolution,
    /// Scale and bias per channel, and whether each is there.
    affine: Option<(TensorDescriptor, [bool; 2])>,
    activation: Option<ActivationDescriptor>,
    /// Sums per channel of y, and whether sums and sums of squares are there.
    sums: Option<(TensorDescriptor, [bool; 2])>,
    /// Scale, bias and activation applied.
    scaled: TensorDescriptor,
}

impl FusedProblem {
    /// Checks the parameters of operations 0 and 1.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, shapes that do not fit, mode 0 of batch normalisation. Not supported: other
    /// operations; in strict mode what the original does not compute.
    pub fn new(pack: &ConstantPack, mode: Mode) -> Result<Self> {
        let operation = pack.operation.number();
        let (direction, w_label, y_label) = match operation {
            0 => (Direction::Forward, constant::W, constant::Y),
            1 => (Direction::BackwardFilter, constant::DW, constant::DY),
            _ => return refuse(pack),
        };
        let x = tensor(pack, constant::X, "x")?;
        let (Some(PackedDescriptor::Convolution(desc)), Some(PackedDescriptor::Filter(w))) =
            (pack.descriptor(constant::CONVOLUTION), pack.descriptor(w_label))
        else {
            return Err(Error::mismatch("the convolution or its filter was never set"));
        };
        let y = tensor(pack, y_label, "y")?;
        if pack.number(constant::MODE) == 0 {
            return Err(Error::argument("CUDNN_PARAM_BN_MODE", 0, "statistics are per channel: mode 1 or 2"));
        }
        let convolution = Convolution::new(direction, desc, x, w, y, mode)?;
        let affine = pack.tensor(constant::EQ_SCALE_BIAS).copied();
        let sums = pack.tensor(constant::SUMS).copied();
        let channels = x.dims()[CHANNEL];
        for (name, vector, wanted) in
            [("eqScaleBias", &affine, channels), ("yStats", &sums, y.dims()[CHANNEL])]
        {
            if let Some(vector) = vector {
                check_vector(name, vector, x.rank(), wanted)?;
            }
        }
        let activation = match pack.descriptor(constant::ACTIVATION) {
            Some(PackedDescriptor::Activation(activation)) => Some(*activation),
            _ => None,
        };
        if mode.is_strict() {
            check_strict(pack, &convolution, activation.as_ref())?;
        }
        let is_there = |label: i32| pack.number(label) != 0;
        let both = |labels: [i32; 2]| labels.map(is_there);
        let affine = affine
            .map(|vector| (vector, both([constant::EQ_SCALE_POINTER, constant::EQ_BIAS_POINTER])))
            .filter(|(_, there)| there.contains(&true));
        let sums = sums
            .map(|vector| (vector, both([constant::SUM_POINTER, constant::SQUARES_POINTER])))
            .filter(|(_, there)| there.contains(&true));
        let rank = x.rank() as i64;
        let scaled =
            TensorDescriptor::with_format(x.data_type(), Format::Nhwc, rank, &x.dims(), Mode::Extended)?;
        Ok(FusedProblem { convolution, affine, activation, sums, scaled })
    }

    /// Whether anything happens to x before the convolution.
    fn is_scaled(&self) -> bool {
        self.affine.is_some() || self.activation.is_some()
    }

    /// Bytes of workspace: x with scale, bias and activation applied, and a scale and a bias if they are not there.
    pub fn workspace(&self) -> usize {
        if self.is_scaled() { self.scaled_size() + 2 * self.vector_size() } else { 0 }
    }

    fn scaled_size(&self) -> usize {
        self.scaled.size_in_bytes().next_multiple_of(64)
    }

    fn vector_size(&self) -> usize {
        let channels = self.scaled.dims()[CHANNEL] as usize;
        (channels * DataType::Double.size()).next_multiple_of(64)
    }

    /// The plans, in the order in which they run.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut convolution = self.convolution;
        let mut x = Place::of(variant::X);
        if self.is_scaled() {
            self.add_scale(&mut parts)?;
            convolution.x = self.scaled;
            x = Place::of(variant::WORKSPACE);
        }
        let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE)?;
        let places = match convolution.direction {
            Direction::BackwardFilter => [Place::of(variant::DW), x, Place::of(variant::DY)],
            _ => [Place::of(variant::Y), x, Place::of(variant::W)],
        };
        parts.push(Part { plan: Box::new(plan), places: places.to_vec() });
        if let Some((vector, there)) = &self.sums {
            self.add_sums(vector, *there, &mut parts)?;
        }
        Ok(parts)
    }

    /// `scaled = activation(x * eqScale + eqBias)`, with 1 and 0 for what is not there.
    fn add_scale(&self, parts: &mut Vec<Part>) -> Result<()> {
        let x = &self.convolution.x;
        let rank = x.rank();
        let channels = x.dims()[CHANNEL];
        let (vector, there) = match self.affine {
            Some(affine) => affine,
            None => {
                let mut dims = Dims::filled(rank, 1);
                dims[CHANNEL] = channels;
                let vector = TensorDescriptor::with_format(
                    DataType::Float,
                    Format::Nchw,
                    rank as i64,
                    &dims,
                    Mode::Extended,
                )?;
                (vector, [false; 2])
            }
        };
        let mut vectors = [Place::of(variant::EQ_SCALE), Place::of(variant::EQ_BIAS)];
        for (k, neutral) in [1.0, 0.0].into_iter().enumerate().filter(|&(k, _)| !there[k]) {
            vectors[k] =
                Place { label: variant::WORKSPACE, offset: self.scaled_size() + k * self.vector_size() };
            let plan = FillPlan::set(&vector, Number::Real(neutral), Mode::Extended)?;
            parts.push(Part { plan: Box::new(plan), places: vec![vectors[k]] });
        }
        let mut dims = Dims::filled(rank, 1);
        dims[0] = channels;
        let scale =
            FilterDescriptor::new(vector.data_type(), Format::Nchw, rank as i64, &dims, Mode::Extended)?;
        let desc = one_tap(rank)?;
        let depthwise = Convolution::new(Direction::Forward, &desc, x, &scale, &self.scaled, Mode::Extended)?;
        let identity =
            ActivationDescriptor { mode: ActivationMode::Identity, ..ActivationDescriptor::default() };
        let activation = self.activation.unwrap_or(identity);
        let fused = Fused { alpha: 1.0, z: (&self.scaled, 0.0), bias: &vector, activation: &activation };
        let plan = ConvolutionPlan::fused(&depthwise, &fused, Mode::Extended)?;
        let (scaled, x) = (Place::of(variant::WORKSPACE), Place::of(variant::X));
        let places = vec![scaled, x, vectors[0], scaled, vectors[1]];
        parts.push(Part { plan: Box::new(plan), places });
        Ok(())
    }

    /// `ySum = sum of y`, `ySqSum = sum of y * y`, per channel.
    fn add_sums(&self, vector: &TensorDescriptor, there: [bool; 2], parts: &mut Vec<Part>) -> Result<()> {
        let y = &self.convolution.y;
        if there[0] {
            let rule = ReduceDescriptor {
                op: ReduceOp::Add,
                compute_type: DataType::Float,
                nan: NanPropagation::Keep,
                ..ReduceDescriptor::default()
            };
            let plan = ReducePlan::new(&rule, y, vector, Scaling::MOVE, Mode::Extended)?;
            let places = plan.operands().iter().map(|operand| match operand.name {
                "C" => Place::of(variant::SUM),
                _ => Place::of(variant::Y),
            });
            let places = places.collect();
            parts.push(Part { plan: Box::new(plan), places });
        }
        if there[1] {
            // A depthwise filter gradient of y with itself, of one tap.
            let rank = y.rank();
            let mut dims = Dims::filled(rank, 1);
            dims[0] = y.dims()[CHANNEL];
            let squares =
                FilterDescriptor::new(vector.data_type(), Format::Nchw, rank as i64, &dims, Mode::Extended)?;
            let desc = one_tap(rank)?;
            let gradient =
                Convolution::new(Direction::BackwardFilter, &desc, y, &squares, y, Mode::Extended)?;
            let plan = ConvolutionPlan::new(&gradient, Scaling::MOVE)?;
            let places = [variant::SQUARES, variant::Y, variant::Y].map(Place::of).to_vec();
            parts.push(Part { plan: Box::new(plan), places });
        }
        Ok(())
    }
}

/// A convolution of one tap, summed in binary32.
fn one_tap(rank: usize) -> Result<ConvolutionDescriptor> {
    let all = |value: i64| Dims::filled(rank - 2, value);
    let mode = ConvolutionMode::CrossCorrelation;
    let geometry = ConvolutionGeometry::new(mode, DataType::Float, all(0), all(1), all(1))?;
    Ok(ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() })
}

/// What is said of the operations that are not computed.
fn refuse(pack: &ConstantPack) -> Result<FusedProblem> {
    if pack.is_empty() {
        return Err(Error::mismatch("the descriptors of the operation were never set"));
    }
    Err(Error::unsupported(format!(
        "operation {}: only scale, bias and activation before a convolution or its filter gradient are fused",
        pack.operation.number()
    )))
}

fn tensor<'a>(pack: &'a ConstantPack, label: i32, name: &str) -> Result<&'a TensorDescriptor> {
    pack.tensor(label).ok_or_else(|| Error::mismatch(format!("the descriptor of {name} was never set")))
}

/// One number per channel.
fn check_vector(name: &str, vector: &TensorDescriptor, rank: usize, channels: i64) -> Result<()> {
    let dims = vector.dims();
    let fits = dims.rank() == rank
        && dims.iter().enumerate().all(|(axis, &dim)| dim == if axis == CHANNEL { channels } else { 1 });
    if fits {
        return Ok(());
    }
    Err(Error::mismatch(format!("{name} is {dims}, where one number for each of {channels} channels fits")))
}

/// What the original does not compute.
fn check_strict(
    pack: &ConstantPack,
    convolution: &Convolution,
    activation: Option<&ActivationDescriptor>,
) -> Result<()> {
    let refuse = |text: &'static str| Err(Error::unsupported(text));
    let Convolution { x, w, y, desc, .. } = convolution;
    let is_half = [x.data_type(), w.data_type(), y.data_type()].iter().all(|&t| t == DataType::Half);
    if !is_half || w.format() != Format::Nhwc {
        return refuse("strict mode fuses HALF in NHWC only");
    }
    if !matches!(desc.math_type, MathType::TensorOp | MathType::TensorOpWithConversion) {
        return refuse("strict mode fuses with math types of tensor cores only");
    }
    if activation.is_some_and(|activation| activation.mode != ActivationMode::Relu) {
        return refuse("strict mode fuses RELU only");
    }
    let (needed, optional): (&[i32], &[i32]) = match convolution.direction {
        Direction::Forward => (
            &[constant::X_POINTER, constant::W_POINTER, constant::Y_POINTER],
            &[
                constant::EQ_SCALE_POINTER,
                constant::EQ_BIAS_POINTER,
                constant::SUM_POINTER,
                constant::SQUARES_POINTER,
            ],
        ),
        _ => (
            &[constant::X_POINTER, constant::DW_POINTER, constant::DY_POINTER],
            &[constant::EQ_SCALE_POINTER, constant::EQ_BIAS_POINTER],
        ),
    };
    let aligned = needed.iter().all(|&label| pack.number(label) == ALIGNED)
        && optional.iter().all(|&label| matches!(pack.number(label), 0 | ALIGNED));
    if !aligned {
        return refuse("strict mode fuses pointers aligned to 16 bytes only");
    }
    Ok(())
}
