//! The plans of the three directions: one contraction each, with bias, sum and activation in its
//! last step.

mod workspace;

use std::fmt;

pub use workspace::{TAKES_ALL, Takes};

use super::arrange::Moves;
use super::place::Place;
use super::{Algorithm, Convolution, Direction, support};
use crate::desc::{ActivationDescriptor, ConvolutionMode, FilterDescriptor, TensorDescriptor};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mode::Mode;
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract, Geometry, Phases, Side, Terms};
use crate::ops::fill::zero_tail;
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};
use crate::ops::{Scaling, agree};

/// What the fused call adds to the sum.
#[derive(Clone, Copy, Debug)]
pub struct Fused<'a> {
    /// Factor of the sum.
    pub alpha: f64,
    /// Added with its factor.
    pub z: (&'a TensorDescriptor, f64),
    /// Added.
    pub bias: &'a TensorDescriptor,
    /// Applied to the whole.
    pub activation: &'a ActivationDescriptor,
}

/// A convolution, or one of its gradients, ready to run. Its operands are the destination, the two
/// factors, then z and the bias of the fused call.
#[derive(Clone, Debug)]
pub struct ConvolutionPlan {
    direction: Direction,
    operands: Vec<Operand>,
    /// Destination and factors, in the order of the operands.
    sides: [Place; 3],
    geometry: Geometry,
    accumulate: Accumulate,
    scaling: Scaling,
    z: Option<(Place, f64)>,
    bias: Option<Place>,
    activation: Option<Activation>,
    allow_conversion: bool,
    allow_tiles: bool,
    allow_winograd: bool,
    /// Whether z has its elements where the destination has them.
    z_in_place: bool,
    /// Bytes of workspace for parts of sums, which come first there; it is the last operand if
    /// there is any.
    given: usize,
    /// What is moved to the workspace, behind the parts of sums.
    moves: Option<Moves>,
}

impl ConvolutionPlan {
    /// Plans `dst = alpha * sum + beta * dst`.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied, or not summed in the compute type.
    pub fn new(convolution: &Convolution, scaling: Scaling) -> Result<Self> {
        let names = convolution.direction.names();
        let Convolution { direction, desc, x, y, groups, .. } = convolution;
        let w = filter_tensor(&convolution.w)?;
        let tensors = match direction {
            Direction::Forward => [(names[2], y), (names[0], x), (names[1], &w)],
            Direction::BackwardData => [(names[0], x), (names[2], y), (names[1], &w)],
            Direction::BackwardFilter => [(names[1], &w), (names[0], x), (names[2], y)],
        };
        let accumulate = convolution.accumulate()?;
        let [(dst_name, dst), ..] = tensors;
        agree::check_destination(dst.layout()?, dst_name)?;
        let mut operands = Vec::with_capacity(5);
        for (name, tensor) in tensors {
            let role = if operands.is_empty() { Role::blended(scaling.beta) } else { Role::Read };
            operands.push(operand(name, role, tensor, operands.is_empty() || scaling.alpha != 0.0)?);
        }
        let geometry = Geometry {
            padding: desc.geometry.padding(),
            strides: desc.geometry.strides(),
            dilation: desc.geometry.dilation(),
            groups: *groups,
            flip: desc.geometry.mode() == ConvolutionMode::Convolution,
        };
        let is_data = *direction == Direction::BackwardData;
        let has_rows =
            *direction == Direction::BackwardFilter || geometry.has_part_rows(&dst.layout()?.dims, is_data);
        let [dst, a, b] = tensors.map(|(_, tensor)| Place::of(tensor));
        let (dst, a, b) = (dst?, a?, b?);
        Ok(ConvolutionPlan {
            direction: *direction,
            operands,
            sides: [dst, a, b],
            geometry,
            accumulate,
            scaling,
            z: None,
            bias: None,
            activation: None,
            allow_conversion: desc.math_type.allows_conversion(),
            allow_tiles: desc.math_type.allows_tiles() && (a.scalar != Scalar::F32 || has_rows),
            allow_winograd: false,
            z_in_place: false,
            given: 0,
            moves: None,
        })
    }

    /// Plans `y = activation(alpha * sum + alpha2 * z + bias)`.
    ///
    /// # Errors
    /// Not supported for dims of z or the bias that are neither those of y nor 1, and as
    /// [`ConvolutionPlan::new`]. In strict mode also for other activations than ReLU and the
    /// identity, for a bias that is not one number per channel, a z that is not like y, and a bias
    /// of another type than x (observed on 9.27.0).
    pub fn fused(convolution: &Convolution, fused: &Fused<'_>, mode: Mode) -> Result<Self> {
        let Convolution { y, .. } = convolution;
        let (z, alpha2) = fused.z;
        if mode.is_strict() {
            check_strict(convolution, z, fused.bias)?;
        }
        for (name, tensor) in [("zDesc", z), ("biasDesc", fused.bias)] {
            let (dims, of_y) = (tensor.layout()?.dims, y.layout()?.dims);
            if let Some(axis) = (0..dims.rank()).find(|&k| dims[k] != 1 && dims[k] != of_y[k]) {
                return Err(Error::UnsupportedShape(
                    format!("dimension {axis} of {name} is {}, y has {}", dims[axis], of_y[axis]).into(),
                ));
            }
            if matches!(tensor.data_type(), DataType::Boolean) {
                return Err(Error::UnsupportedType(format!("{name} of {:?}", tensor.data_type()).into()));
            }
        }
        let mut plan = ConvolutionPlan::new(convolution, Scaling { alpha: fused.alpha, beta: 0.0 })?;
        plan.operands.push(operand("z", Role::Read, z, alpha2 != 0.0)?);
        plan.operands.push(operand("bias", Role::Read, fused.bias, true)?);
        plan.z_in_place = agree::same_place(z.layout()?, y.layout()?) && z.data_type() == y.data_type();
        plan.z = Some((Place::of(z)?, alpha2));
        plan.bias = Some(Place::of(fused.bias)?);
        plan.activation = Activation::of(fused.activation);
        Ok(plan)
    }
}

impl ConvolutionPlan {
    /// The same by this algorithm. Without it every result is a plain sum of its products, as it is
    /// by all numbers but those of Winograd's algorithms.
    #[must_use]
    pub fn by(self, algorithm: Algorithm) -> Self {
        ConvolutionPlan { allow_winograd: algorithm.is_winograd(), ..self }
    }
}

impl ConvolutionPlan {
    /// Hands the sums of tensors that lie like these, and z and the bias, to `sink`; operands as
    /// [`Contract`] lists them.
    fn multiply(
        &self, [dst, a, b]: [Side<'_>; 3], [z, bias]: [Option<Side<'_>>; 2], sink: StepSink<'_>,
    ) -> Result<()> {
        let terms = Terms {
            scaling: self.scaling,
            z: z.zip(self.z.as_ref()).map(|(side, (_, alpha2))| (side, *alpha2)),
            bias,
            activation: self.activation,
        };
        let slots: &[usize] = if self.bias.is_some() { &[0, 1, 2, 3, 4, 5] } else { &[0, 1, 2, 3] };
        let prepared = |step: &Contract| {
            let mut step = if self.scaling.alpha == 0.0 { step.without_sum() } else { step.canonical() };
            step.allow_conversion = self.allow_conversion;
            step.allow_tiles = self.allow_tiles;
            step.allow_winograd = self.allow_winograd;
            step
        };
        let mut give = |step: &Contract| {
            let mut step = prepared(step);
            self.give_workspace(&mut step);
            let used = if step.workspace > 0 { slots.len() } else { slots.len() - 1 };
            sink(Step::Contract(&step), &slots[..used])
        };
        match self.direction {
            Direction::Forward => {
                Contract::forward(dst, a, b, &self.geometry, self.accumulate, &terms, &mut give)
            }
            Direction::BackwardData if Phases::are_together(dst.layout, a.layout, &self.geometry) => {
                let mut phases = Phases::default();
                Contract::backward_data(dst, a, b, &self.geometry, self.accumulate, &terms, &mut |step| {
                    phases.0.push(prepared(step));
                    Ok(())
                })?;
                sink(Step::Phases(&phases), &slots[..slots.len() - 1])
            }
            Direction::BackwardData => {
                Contract::backward_data(dst, a, b, &self.geometry, self.accumulate, &terms, &mut give)
            }
            Direction::BackwardFilter => {
                Contract::backward_filter(dst, a, b, &self.geometry, self.accumulate, &terms, &mut give)
            }
        }
    }
}

/// The filter as a tensor.
fn filter_tensor(filter: &FilterDescriptor) -> Result<TensorDescriptor> {
    // A filter that was set was judged then.
    filter.tensor(Mode::Extended)
}

fn operand(name: &'static str, role: Role, tensor: &TensorDescriptor, touched: bool) -> Result<Operand> {
    let scalar = tensor.data_type().scalar();
    if !touched {
        return Ok(Operand::untouched(name, scalar));
    }
    Ok(Operand { name, role, scalar, span: agree::byte_span(tensor.layout()?, tensor.data_type())? })
}

/// The shapes and types of z and the bias that the original takes: dims of the bias, then z, then
/// the types that it multiplies, then that of the bias.
fn check_strict(convolution: &Convolution, z: &TensorDescriptor, bias: &TensorDescriptor) -> Result<()> {
    let Convolution { x, y, desc, .. } = convolution;
    let of_bias = bias.dims();
    let wanted = |axis: usize| if axis == 1 { y.dims()[1] } else { 1 };
    let text =
        |axis: usize| format!("dimension {axis} of biasDesc is {}, not {}", of_bias[axis], wanted(axis));
    // Computed in HALF, and for a single filter of any type but DOUBLE, the original takes another
    // number of channels for another type.
    let is_half = desc.geometry.compute_type() == DataType::Half;
    let is_single = y.dims()[1] == 1 && x.data_type() != DataType::Double;
    let is_type = |axis: usize| (is_half || is_single) && axis == 1 && of_bias[axis] != 1;
    let mut wrong = (0..of_bias.rank()).filter(|&axis| of_bias[axis] != wanted(axis));
    if let Some(axis) = wrong.clone().find(|&axis| !is_type(axis)) {
        return Err(Error::UnsupportedShape(text(axis).into()));
    }
    let unit = |axis: usize| y.stored_dims()[axis] == 1;
    let alike = z.data_type() == y.data_type()
        && z.dims() == y.dims()
        && z.vector() == y.vector()
        && (0..y.rank()).all(|axis| unit(axis) || z.strides()[axis] == y.strides()[axis]);
    if !alike {
        return Err(Error::UnsupportedShape("zDesc is not like yDesc".into()));
    }
    support::check_fused_types(convolution)?;
    if let Some(axis) = wrong.next() {
        return Err(Error::UnsupportedType(text(axis).into()));
    }
    let wanted = if x.data_type().scalar().size() == 1 { DataType::Float } else { x.data_type() };
    if bias.data_type() != wanted {
        let text = format!("biasDesc has type {:?}, strict mode takes {wanted:?}", bias.data_type());
        return Err(Error::UnsupportedType(text.into()));
    }
    Ok(())
}

impl Convolution {
    /// The type that products are summed in.
    ///
    /// # Errors
    /// Not supported for types that are not multiplied, and for floating products in INT32.
    fn accumulate(&self) -> Result<Accumulate> {
        let types = match self.direction {
            Direction::Forward => [self.x.data_type(), self.w.data_type()],
            Direction::BackwardData => [self.w.data_type(), self.y.data_type()],
            Direction::BackwardFilter => [self.x.data_type(), self.y.data_type()],
        };
        let known =
            |data_type: &DataType| !matches!(data_type.scalar(), Scalar::I32 | Scalar::I64 | Scalar::Bool);
        if let Some(unknown) = types.iter().find(|data_type| !known(data_type)) {
            return Err(Error::unsupported(format!("{unknown:?} is no type that convolutions multiply")));
        }
        let scalars = types.map(DataType::scalar);
        let compute = self.desc.geometry.compute_type();
        if let Some(exact) = Accumulate::of_bytes(scalars, self.terms()) {
            return Ok(exact);
        }
        if compute == DataType::Int32 {
            return Err(Error::unsupported(format!(
                "products of {:?} and {:?} are not summed in INT32",
                types[0], types[1]
            )));
        }
        let is_wide = compute == DataType::Double || scalars.contains(&Scalar::F64);
        Ok(if is_wide { Accumulate::Double } else { Accumulate::Single })
    }

    /// The most products that one result sums; `None` beyond 64 bits.
    fn terms(&self) -> Option<i64> {
        let (w, y) = (filter_tensor(&self.w).ok()?, self.y.layout().ok()?);
        let dims = w.layout().ok()?.dims;
        let product = |dims: &[i64]| dims.iter().try_fold(1_i64, |product, &dim| product.checked_mul(dim));
        match self.direction {
            Direction::Forward => product(&dims[1..]),
            Direction::BackwardData => product(&dims[2..])?.checked_mul(dims[0] / self.groups),
            Direction::BackwardFilter => product(&y.dims[2..])?.checked_mul(y.dims[0]),
        }
    }
}

impl Plan for ConvolutionPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn filters(&self) -> Option<usize> {
        // The last of the destination and both factors, but that of their gradient.
        (self.direction != Direction::BackwardFilter).then_some(2)
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        (read, write) == (3, 0) && self.z_in_place
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            3 => self.z.as_ref().map(|(place, _)| &place.layout),
            4 => self.bias.as_ref().map(|place| &place.layout),
            _ => self.sides.get(operand).map(|place| &place.layout),
        }
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let Some(moves) = &self.moves else {
            let z = self.z.as_ref().map(|(place, _)| place);
            let (z, bias) = (z.map(Place::side), self.bias.as_ref().map(Place::side));
            self.multiply(self.sides.each_ref().map(Place::side), [z, bias], &mut |step, slots| {
                sink(step, slots)
            })?;
            let dst = &self.sides[0];
            return zero_tail(&dst.layout, dst.scalar, false)
                .map_or(Ok(()), |fill| sink(Step::Scale(&fill), &[0]));
        };
        self.moved_steps(moves, sink)
    }

    fn is_one_step(&self) -> bool {
        // A stride makes several phases of the gradient of the data.
        let is_stepping = self.geometry.strides.iter().any(|&stride| stride != 1);
        let is_whole = self.direction != Direction::BackwardData || !is_stepping;
        is_whole && self.moves.is_none() && self.sides.iter().all(|side| side.side().layout.split.is_none())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ConvolutionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
