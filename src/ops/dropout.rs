//! Dropout: from two tensors of as many elements and a mask to the loops over both.

use std::fmt;

use super::agree;
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::random::{Draw, Random};
use super::{Scale, fill};
use crate::desc::{DropoutDescriptor, TensorDescriptor, dropout};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{self, Dims, Layout, LoopNest};
use crate::mode::Mode;

/// One pass of a dropout, checked and ready to run on any core.
#[derive(Clone, Debug)]
pub struct DropoutPlan {
    /// Destination, source, and the numbers of elements, row-major over the dimensions.
    layouts: [Layout; 3],
    operands: Vec<Operand>,
    scale: f64,
    draw: Option<Draw>,
}

/// The tensors of one pass, with what the C call names them.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// What is read: x, or dy.
    pub src: (&'static str, &'a TensorDescriptor),
    /// What is written: y, or dx.
    pub dst: (&'static str, &'a TensorDescriptor),
    /// Bytes of the mask.
    pub reserve_size: usize,
    /// Whether both are one pointer.
    pub in_place: bool,
}

impl DropoutPlan {
    /// Plans `cudnnDropoutForward`: draws a mask and applies it. Operands: y, reserveSpace, states,
    /// x.
    ///
    /// # Errors
    /// In this order. Bad parameter: types differ; numbers of elements differ; a tensor was never
    /// set; a stride that is not positive (in strict mode of any tensor, else a stride of 0 of the
    /// destination); a destination that overlaps itself (in strict mode also such a source); one
    /// pointer for two layouts; a mask that is too small. Not supported: types that are not
    /// floating (in strict mode also BFLOAT16 and FP8); different dims of tensors that are not
    /// packed.
    pub fn forward(desc: &DropoutDescriptor, pass: Pass<'_>, mode: Mode) -> Result<Self> {
        let mut plan = DropoutPlan::new(desc, pass, mode)?;
        let elements = plan.elements();
        plan.draw = Some(Draw { elements, threshold: threshold(desc.probability()) });
        let [y, x, mask] = plan.operands[..] else { unreachable!("a pass has three operands") };
        let mask = Operand { role: Role::Write, ..mask };
        let states = Operand {
            name: "states",
            role: Role::Update,
            scalar: Scalar::I64,
            span: (0, dropout::STATES_SIZE as i64),
        };
        plan.operands = vec![y, mask, states, x];
        Ok(plan)
    }

    /// Plans `cudnnDropoutBackward`: applies a mask that was drawn before. Operands: dx, dy,
    /// reserveSpace.
    ///
    /// # Errors
    /// As [`DropoutPlan::forward`].
    pub fn backward(desc: &DropoutDescriptor, pass: Pass<'_>, mode: Mode) -> Result<Self> {
        DropoutPlan::new(desc, pass, mode)
    }

    /// Refuses a forward pass whose mask takes the place of its states, unless it can be served.
    ///
    /// # Errors
    /// Not supported on the CUDA core, where some threads would read the states while others write
    /// the mask. Bad parameter for states with less room than the mask takes.
    pub fn check_mask_over_states(&self, desc: &DropoutDescriptor, on_cuda: bool) -> Result<()> {
        if on_cuda {
            return Err(Error::unsupported(
                "reserveSpace is the states of dropoutDesc: the CUDA core does not draw a mask over its own states",
            ));
        }
        let needed = 4 * self.elements().div_ceil(32);
        if (desc.states_size() as u64) < needed {
            return Err(Error::mismatch(format!(
                "reserveSpace is the states of dropoutDesc, which have {} bytes: the mask takes {needed}",
                desc.states_size()
            )));
        }
        Ok(())
    }

    fn new(desc: &DropoutDescriptor, pass: Pass<'_>, mode: Mode) -> Result<Self> {
        let Pass { src: (src_name, src), dst: (dst_name, dst), reserve_size, in_place } = pass;
        let data_type = src.data_type();
        if data_type != dst.data_type() {
            return Err(Error::mismatch(format!(
                "{src_name} is {data_type:?} and {dst_name} {:?}: the types must be equal",
                dst.data_type()
            )));
        }
        let (from, to) = (src.stored_dims(), dst.stored_dims());
        if from.product() != to.product() {
            return Err(Error::mismatch(format!(
                "{src_name} of {from} and {dst_name} of {to} hold different numbers of elements"
            )));
        }
        for (name, tensor) in [(src_name, src), (dst_name, dst)] {
            if !tensor.is_set() {
                return Err(Error::mismatch(format!("{name} was never set")));
            }
            if mode.is_strict() {
                strict_strides(name, tensor)?;
            }
        }
        agree::check_destination(dst.layout()?, dst_name)?;
        if agree::repeats(dst, dst.layout()?) {
            return Err(Error::mismatch(format!("{dst_name}: elements of a destination share an address")));
        }
        if in_place && src.strides() != dst.strides() {
            return Err(Error::mismatch(format!(
                "{src_name} and {dst_name} of one pointer must have the same strides"
            )));
        }
        let needed = from.product().map_or(usize::MAX, |n| 4 * (n as usize).div_ceil(32));
        if reserve_size < needed {
            let rule = format!("a bit for each element of {from} takes {needed} bytes");
            return Err(Error::argument("reserveSpaceSizeInBytes", reserve_size as i64, rule));
        }
        let floating = matches!(data_type, DataType::Float | DataType::Double | DataType::Half);
        let added = matches!(data_type, DataType::Bfloat16 | DataType::Fp8E4m3 | DataType::Fp8E5m2);
        if !floating && (mode.is_strict() || !added) {
            return Err(Error::unsupported(format!(
                "dropout of {data_type:?}: only floating types are scaled"
            )));
        }
        let [to, from] = same_dims((dst_name, dst.layout()?), (src_name, src.layout()?))?;
        let numbers = Layout { strides: agree::row_major(&to.dims), split: None, dims: to.dims };
        let scalar = data_type.scalar();
        let operand = |name, role, layout| -> Result<Operand> {
            Ok(Operand { name, role, scalar, span: agree::byte_span(layout, data_type)? })
        };
        let mask =
            Operand { name: "reserveSpace", role: Role::Read, scalar: Scalar::I32, span: (0, needed as i64) };
        Ok(DropoutPlan {
            operands: vec![
                operand(pointer_name(dst_name), Role::Write, &to)?,
                operand(pointer_name(src_name), Role::Read, &from)?,
                mask,
            ],
            layouts: [to, from, numbers],
            scale: factor(desc.probability(), scalar),
            draw: None,
        })
    }

    fn elements(&self) -> u64 {
        self.layouts[0].dims.iter().product::<i64>() as u64
    }

    fn tail(&self) -> Option<Scale> {
        fill::zero_tail(&self.layouts[0], self.operands[0].scalar, false)
    }
}

impl Plan for DropoutPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn works_in_place(&self, read: usize, write: usize) -> bool {
        // A mask may take the place of the states, which are read before.
        if self.draw.is_some() && (read, write) == (2, 1) {
            return true;
        }
        write == 0
            && self.operands[read].name == self.source().0
            && agree::same_place(&self.layouts[1], &self.layouts[0])
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        match operand {
            0 => Some(&self.layouts[0]),
            _ if operand == self.source().1 => Some(&self.layouts[1]),
            _ => None,
        }
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let [to, from, numbers] = &self.layouts;
        let slots: &[usize] = if self.draw.is_some() { &[0, 3, 1, 2] } else { &[0, 1, 2] };
        let mut draw = self.draw;
        let mut outcome = Ok(());
        layout::nests([to, from, numbers], &mut |nest| {
            nest.canonicalise();
            // The first of several nests draws for all.
            let draw = draw.take();
            let step = Random { nest: *nest, scalar: self.operands[0].scalar, scale: self.scale, draw };
            if outcome.is_ok() {
                outcome = sink(Step::Random(&step), if draw.is_some() { slots } else { &slots[..3] });
            }
        });
        outcome?;
        self.tail().map_or(Ok(()), |tail| sink(Step::Scale(&tail), &[0]))
    }

    fn is_one_step(&self) -> bool {
        self.layouts.iter().all(|layout| layout.split.is_none())
    }
}

impl DropoutPlan {
    /// Name and number of the operand that is the source.
    fn source(&self) -> (&'static str, usize) {
        let at = if self.draw.is_some() { 3 } else { 1 };
        (self.operands[at].name, at)
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for DropoutPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// The random numbers below which an element is dropped with this probability.
pub(super) fn threshold(probability: f32) -> u64 {
    let threshold = (f64::from(probability) * (1_u64 << 32) as f64).round() as u64;
    threshold.min(1 << 32)
}

/// The factor of elements that are kept, rounded to what products of this type are computed in.
pub(super) fn factor(probability: f32, scalar: Scalar) -> f64 {
    match scalar {
        // What is dropped throughout has no factor.
        _ if probability == 1.0 => 0.0,
        Scalar::F64 => 1.0 / (1.0 - f64::from(probability)),
        _ => f64::from(1.0 / (1.0 - probability)),
    }
}

/// The name of a tensor's pointer from that of its descriptor.
fn pointer_name(desc: &'static str) -> &'static str {
    desc.strip_suffix("desc").or(desc.strip_suffix("Desc")).unwrap_or(desc)
}

/// Refuses what the original refuses (observed on 9.27.0): strides that are not positive, elements
/// that share an address.
fn strict_strides(name: &str, tensor: &TensorDescriptor) -> Result<()> {
    let strides = tensor.strides();
    if let Some(k) = (0..strides.rank()).find(|&k| strides[k] <= 0) {
        let rule = format!("strict mode: {name} must have positive strides");
        return Err(Error::element("strideA", k, strides[k], rule));
    }
    if tensor.layout().is_ok_and(|layout| agree::repeats(tensor, layout)) {
        return Err(Error::mismatch(format!("strict mode: elements of {name} share an address")));
    }
    Ok(())
}

/// Both layouts with the same dims: as they are, or, of tensors that are packed row-major, as one
/// run of elements.
///
/// # Errors
/// Not supported for other tensors of different dims.
fn same_dims(dst: (&str, &Layout), src: (&str, &Layout)) -> Result<[Layout; 2]> {
    if dst.1.dims == src.1.dims {
        return Ok([*dst.1, *src.1]);
    }
    let is_run = |layout: &Layout| {
        let packed = agree::row_major(&layout.dims);
        layout.split.is_none()
            && (0..packed.rank()).all(|k| layout.dims[k] == 1 || layout.strides[k] == packed[k])
    };
    if !is_run(dst.1) || !is_run(src.1) {
        return Err(Error::unsupported(format!(
            "{} of {} and {} of {}: only packed tensors may have different dims",
            src.0, src.1.dims, dst.0, dst.1.dims
        )));
    }
    let n = dst.1.dims.iter().product();
    Ok([Layout { dims: Dims::new(&[1, n]), strides: Dims::new(&[n, 1]), split: None }; 2])
}

/// Sets the states of a dropout: its seed, and that no mask has been drawn yet. Operand: states.
#[derive(Clone, Debug)]
pub struct StatesPlan {
    operands: [Operand; 1],
    seed: u64,
}

impl StatesPlan {
    /// Plans what `cudnnSetDropoutDescriptor` writes to states that it is given.
    pub fn new(seed: u64) -> Self {
        let span = (0, dropout::STATES_SIZE as i64);
        StatesPlan {
            operands: [Operand { name: "states", role: Role::Write, scalar: Scalar::I64, span }],
            seed,
        }
    }
}

impl Plan for StatesPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        for (place, cell) in [(0, self.seed), (1, 0)] {
            let nest = LoopNest::new(&[], [place]);
            sink(Step::Set(&super::Set { nest, dst: Scalar::I64, cell }), &[0])?;
        }
        Ok(())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for StatesPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
