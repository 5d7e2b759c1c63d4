//! A factor and a summand per channel: a depthwise convolution of one tap, with another tensor
//! added, and an activation.

use super::{Part, Place};
use crate::desc::tensor::{CHANNEL, Format};
use crate::desc::{
    ActivationDescriptor, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, FilterDescriptor,
    TensorDescriptor,
};
use crate::dtype::DataType;
use crate::error::Result;
use crate::layout::Dims;
use crate::mode::Mode;
use crate::ops::convolution::{Convolution, ConvolutionPlan, Direction, Fused};
use crate::ops::{FillPlan, Number};

/// `to = activation(from * scale + plus + bias)`, with 1 and 0 for a scale and a bias that are not
/// there.
pub(super) struct Affine<'a> {
    pub from: (&'a TensorDescriptor, Place),
    pub to: (&'a TensorDescriptor, Place),
    /// Scale and bias; in binary32 if there are none.
    pub vector: Option<&'a TensorDescriptor>,
    pub scale: Option<Place>,
    pub bias: Option<Place>,
    pub plus: Option<(&'a TensorDescriptor, Place)>,
    pub activation: ActivationDescriptor,
    /// Where in the workspace there is [`neutral_room`].
    pub neutral: usize,
}

/// Bytes of workspace that a tensor takes.
pub(super) fn room(tensor: &TensorDescriptor) -> usize {
    tensor.size_in_bytes().next_multiple_of(64)
}

/// Bytes of workspace that a scale and a bias take, of any type.
pub(super) fn neutral_room(tensor: &TensorDescriptor) -> usize {
    2 * vector_room(tensor)
}

/// Bytes of workspace that a number of any type for each channel takes.
pub(super) fn vector_room(tensor: &TensorDescriptor) -> usize {
    (tensor.dims()[CHANNEL] as usize * DataType::Double.size()).next_multiple_of(64)
}

impl Affine<'_> {
    /// Adds the plans of it.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied.
    pub fn add(&self, parts: &mut Vec<Part>) -> Result<()> {
        let (from, to) = (self.from.0, self.to.0);
        let (rank, channels) = (from.rank(), from.dims()[CHANNEL]);
        let vector = match self.vector {
            Some(vector) => *vector,
            None => {
                let mut dims = Dims::filled(rank, 1);
                dims[CHANNEL] = channels;
                TensorDescriptor::with_format(
                    DataType::Float,
                    Format::Nchw,
                    rank as i64,
                    &dims,
                    Mode::Extended,
                )?
            }
        };
        let mut places = [self.from.1; 2];
        for (k, (given, neutral)) in [(self.scale, 1.0), (self.bias, 0.0)].into_iter().enumerate() {
            places[k] = given.unwrap_or(Place::workspace(self.neutral + k * vector_room(from)));
            if given.is_none() {
                let plan = FillPlan::set(&vector, Number::Real(neutral), Mode::Extended)?;
                parts.push(Part { plan: Box::new(plan), places: vec![places[k]] });
            }
        }
        let mut dims = Dims::filled(rank, 1);
        dims[0] = channels;
        let scale =
            FilterDescriptor::new(vector.data_type(), Format::Nchw, rank as i64, &dims, Mode::Extended)?;
        let desc = one_tap(rank)?;
        let depthwise = Convolution::new(Direction::Forward, &desc, from, &scale, to, Mode::Extended)?;
        let (z, factor) = self.plus.map_or(((to, self.to.1), 0.0), |plus| (plus, 1.0));
        let fused = Fused { alpha: 1.0, z: (z.0, factor), bias: &vector, activation: &self.activation };
        let plan = ConvolutionPlan::fused(&depthwise, &fused, Mode::Extended)?;
        let places = vec![self.to.1, self.from.1, places[0], z.1, places[1]];
        parts.push(Part { plan: Box::new(plan), places });
        Ok(())
    }
}

/// A convolution of one tap, summed in binary32, or in binary64 where a factor is.
pub(super) fn one_tap(rank: usize) -> Result<ConvolutionDescriptor> {
    let all = |value: i64| Dims::filled(rank - 2, value);
    let mode = ConvolutionMode::CrossCorrelation;
    let geometry = ConvolutionGeometry::new(mode, DataType::Float, all(0), all(1), all(1))?;
    Ok(ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() })
}
