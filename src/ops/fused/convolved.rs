//! Scale, bias and activation before a convolution or its filter gradient, and sums of the output
//! behind it.

use super::affine::{self, Affine, one_tap};
use super::{Part, Place, check_mode, check_vector, constant, place_of, tensor, variant};
use crate::desc::fused::{ConstantPack, PackedDescriptor};
use crate::desc::tensor::{CHANNEL, Format};
use crate::desc::{
    ActivationDescriptor, ActivationMode, FilterDescriptor, MathType, NanPropagation, ReduceDescriptor,
    ReduceOp, TensorDescriptor,
};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::mode::Mode;
use crate::ops::convolution::{Convolution, ConvolutionPlan, Direction};
use crate::ops::{Plan, ReducePlan, Scaling};

/// Placeholder of a pointer that is there and aligned to 16 bytes.
const ALIGNED: i32 = 2;

/// Operation 0 or 1.
#[derive(Clone, Debug)]
pub struct Convolved {
    convolution: Convolution,
    /// Scale and bias per channel, and whether each is there.
    affine: Option<(TensorDescriptor, [bool; 2])>,
    activation: Option<ActivationDescriptor>,
    /// Sums per channel of y, and whether sums and sums of squares are there.
    sums: Option<(TensorDescriptor, [bool; 2])>,
    /// Scale, bias and activation applied.
    scaled: TensorDescriptor,
}

impl Convolved {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, shapes that do not fit, mode 0 of batch normalisation.
    /// Not supported: in strict mode what the original does not compute.
    pub fn new(pack: &ConstantPack, mode: Mode) -> Result<Self> {
        let operation = pack.operation.number();
        let (direction, w_label, y_label) = match operation {
            0 => (Direction::Forward, constant::W, constant::Y),
            _ => (Direction::BackwardFilter, constant::DW, constant::DY),
        };
        let x = tensor(pack, constant::X, "x")?;
        let (Some(desc), Some(PackedDescriptor::Filter(w))) =
            (super::convolution(pack), pack.descriptor(w_label))
        else {
            return Err(Error::mismatch("the convolution or its filter was never set"));
        };
        let y = tensor(pack, y_label, "y")?;
        check_mode(pack)?;
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
        let activation = super::activation(pack);
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
        Ok(Convolved { convolution, affine, activation, sums, scaled })
    }

    /// Whether anything happens to x before the convolution.
    fn is_scaled(&self) -> bool {
        self.affine.is_some() || self.activation.is_some()
    }

    /// Bytes of workspace: x with scale, bias and activation applied, and a scale and a bias if
    /// they are not there.
    pub fn workspace(&self) -> usize {
        if self.is_scaled() { affine::room(&self.scaled) + affine::neutral_room(&self.scaled) } else { 0 }
    }

    /// The plans, in the order in which they run.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut convolution = self.convolution;
        let mut x = place_of(variant::X);
        if self.is_scaled() {
            self.add_scale(&mut parts)?;
            convolution.x = self.scaled;
            x = Place::workspace(0);
        }
        let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE)?;
        let places = match convolution.direction {
            Direction::BackwardFilter => [place_of(variant::DW), x, place_of(variant::DY)],
            _ => [place_of(variant::Y), x, place_of(variant::W)],
        };
        parts.push(Part { plan: Box::new(plan), places: places.to_vec() });
        if let Some((vector, there)) = &self.sums {
            self.add_sums(vector, *there, &mut parts)?;
        }
        Ok(parts)
    }

    /// `scaled = activation(x * eqScale + eqBias)`, with 1 and 0 for what is not there.
    fn add_scale(&self, parts: &mut Vec<Part>) -> Result<()> {
        let there = self.affine.map_or([false; 2], |(_, there)| there);
        let place = |k: usize, label: i32| there[k].then_some(place_of(label));
        let affine = Affine {
            from: (&self.convolution.x, place_of(variant::X)),
            to: (&self.scaled, Place::workspace(0)),
            vector: self.affine.as_ref().map(|(vector, _)| vector),
            scale: place(0, variant::EQ_SCALE),
            bias: place(1, variant::EQ_BIAS),
            plus: None,
            activation: self.activation.unwrap_or_else(super::identity),
            neutral: affine::room(&self.scaled),
        };
        affine.add(parts)
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
                "C" => place_of(variant::SUM),
                _ => place_of(variant::Y),
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
            let places = [variant::SQUARES, variant::Y, variant::Y].map(place_of).to_vec();
            parts.push(Part { plan: Box::new(plan), places });
        }
        Ok(())
    }
}

/// What the original does not compute.
fn check_strict(
    pack: &ConstantPack, convolution: &Convolution, activation: Option<&ActivationDescriptor>,
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
