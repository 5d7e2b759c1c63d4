//! Two tensors, scaled per channel, added and activated; the first may be what a convolution makes.
//!
//! Two things are known of operation 4: the labels that the original takes, and the description:
//! convolution, scale, bias, sum, activation. It has no bias of the convolution's own, so the bias
//! of z is the one in the description.

use super::affine::{self, Affine};
use super::mask::{Mask, WriteMask};
use super::{Part, Place, check_mode, check_vector, constant, place_of, tensor, variant};
use crate::desc::fused::{ConstantPack, PackedDescriptor};
use crate::desc::tensor::{CHANNEL, Format};
use crate::desc::{ActivationDescriptor, TensorDescriptor};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ops::Scaling;
use crate::ops::convolution::{Convolution, ConvolutionPlan, Direction};

/// Operation 4, `y = activation(conv(x, w) * eqScale + z * zEqScale + zEqBias)`, or operation 5,
/// `y = activation(x * eqScale + eqBias + z * zEqScale + zEqBias)`.
#[derive(Clone, Debug)]
pub struct Sum {
    convolution: Option<Convolution>,
    x: TensorDescriptor,
    y: TensorDescriptor,
    /// What is added.
    z: Option<TensorDescriptor>,
    /// Scale and bias of x (of the convolution), and whether each is there.
    affine: Option<TensorDescriptor>,
    there: [bool; 2],
    /// The same of z.
    z_affine: Option<TensorDescriptor>,
    z_there: [bool; 2],
    activation: ActivationDescriptor,
    /// Which elements of y are above 0, if that is wanted.
    mask: Option<Mask>,
    /// Intermediate results, packed.
    wide: TensorDescriptor,
}

impl Sum {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Bad parameter: a missing descriptor, shapes that do not fit. Not supported: a bit mask of
    /// another activation than RELU.
    pub(super) fn new(pack: &ConstantPack) -> Result<Self> {
        let mode = Mode::Extended;
        let (x, y) = (*tensor(pack, constant::X, "x")?, *tensor(pack, constant::Y, "y")?);
        let convolution = if pack.operation.number() == 4 {
            let (Some(desc), Some(PackedDescriptor::Filter(w))) =
                (super::convolution(pack), pack.descriptor(constant::W))
            else {
                return Err(Error::mismatch("the convolution or its filter was never set"));
            };
            Some(Convolution::new(Direction::Forward, desc, &x, w, &y, mode)?)
        } else {
            check_mode(pack)?;
            None
        };
        let there = |label: i32| pack.number(label) != 0;
        let z = pack.tensor(constant::Z).copied().filter(|_| there(constant::Z_POINTER));
        let mut alike = vec![("z", z)];
        if convolution.is_none() {
            alike.push(("x", Some(x)));
        }
        for (name, other) in alike {
            if let Some(dims) = other.map(|other| other.dims()).filter(|dims| *dims != y.dims()) {
                return Err(Error::mismatch(format!("{name} is {dims}, y {}", y.dims())));
            }
        }
        let vector = |name: &str, label: i32| -> Result<Option<TensorDescriptor>> {
            let vector = pack.tensor(label).copied();
            if let Some(vector) = &vector {
                check_vector(name, vector, y.rank(), y.dims()[CHANNEL])?;
            }
            Ok(vector)
        };
        let affine = vector("eqScaleBias", constant::EQ_SCALE_BIAS)?;
        let z_affine = vector("zEqScaleBias", constant::Z_SCALE_BIAS)?;
        let mask = there(constant::MASK_POINTER).then(|| Mask::new(pack, &y)).transpose()?;
        let both = |labels: [i32; 2], vector: bool| labels.map(|label| vector && there(label));
        let is_double = [Some(x), Some(y), z].iter().flatten().any(|t| t.data_type() == DataType::Double);
        let wide = if is_double { DataType::Double } else { DataType::Float };
        let (rank, dims) = (y.rank() as i64, y.dims());
        Ok(Sum {
            there: both([constant::EQ_SCALE_POINTER, constant::EQ_BIAS_POINTER], affine.is_some()),
            z_there: both([constant::Z_SCALE_POINTER, constant::Z_BIAS_POINTER], z_affine.is_some()),
            activation: super::activation(pack).unwrap_or_else(super::identity),
            wide: TensorDescriptor::with_format(wide, Format::Nhwc, rank, &dims, mode)?,
            convolution,
            mask,
            x,
            y,
            z,
            affine,
            z_affine,
        })
    }

    /// Bytes of workspace: what the convolution makes, z with its scale, and a scale and a bias for
    /// either; then, in their place, what the mask takes.
    pub(super) fn workspace(&self) -> usize {
        let of_sums = 2 * affine::room(&self.wide) + 2 * affine::neutral_room(&self.wide);
        self.mask.as_ref().map_or(0, Mask::room).max(of_sums)
    }

    /// The plans, in the order in which they run.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied.
    pub(super) fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let [convolved, scaled] = [0, 1].map(|k| Place::workspace(k * affine::room(&self.wide)));
        let neutral = 2 * affine::room(&self.wide);
        let mut from = (&self.x, place_of(variant::X));
        if let Some(convolution) = &self.convolution {
            let convolution = Convolution { y: self.wide, ..*convolution };
            let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE)?;
            let places = vec![convolved, from.1, place_of(variant::W)];
            parts.push(Part { plan: Box::new(plan), places });
            from = (&self.wide, convolved);
        }
        let place = |there: bool, label: i32| there.then_some(place_of(label));
        let z_scale = place(self.z_there[0], variant::Z_SCALE);
        let z_bias = place(self.z_there[1], variant::Z_BIAS);
        // The bias of operation 4 is there without z too.
        let (bias, vector, bias_of_z) = match &self.convolution {
            Some(_) => (z_bias, self.affine.as_ref().or(self.z_affine.as_ref()), None),
            None => (place(self.there[1], variant::EQ_BIAS), self.affine.as_ref(), z_bias),
        };
        if let Some(z) = &self.z {
            let affine = Affine {
                from: (z, place_of(variant::Z)),
                to: (&self.wide, scaled),
                vector: self.z_affine.as_ref(),
                scale: z_scale,
                bias: bias_of_z,
                plus: None,
                activation: super::identity(),
                neutral: neutral + affine::neutral_room(&self.wide),
            };
            affine.add(&mut parts)?;
        }
        let affine = Affine {
            from,
            to: (&self.y, place_of(variant::Y)),
            vector,
            scale: place(self.there[0], variant::EQ_SCALE),
            bias,
            plus: self.z.as_ref().map(|_| (&self.wide, scaled)),
            activation: self.activation,
            neutral,
        };
        affine.add(&mut parts)?;
        if let Some(mask) = &self.mask {
            let places = vec![place_of(variant::MASK), place_of(variant::Y), Place::workspace(0)];
            parts.push(Part { plan: Box::new(WriteMask::new(mask)?), places });
        }
        Ok(parts)
    }
}
