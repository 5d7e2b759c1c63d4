//! Masks of ReLU: a bit for each element of a tensor, whether it is above 0.
//!
//! The layout is documented nowhere, and private to operations 5 and 6. The one client that is
//! known (Paddle's residual unit) describes a mask as INT32 of
//! `roundup(rows, 32) x roundup(C, 64) / 32 x 1`, where the positions of all images are rows; here
//! bit `c % 32` of word `[row][c / 32]` is channel c, and bits beyond the last channel or row
//! are 0.

use std::fmt;

use super::constant;
use crate::desc::TensorDescriptor;
use crate::desc::fused::ConstantPack;
use crate::desc::tensor::CHANNEL;
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Axis, Dims, LoopNest};
use crate::mode::Mode;
use crate::ops::contract::{Accumulate, Contract, Side, Terms};
use crate::ops::fill::Set;
use crate::ops::function::Function;
use crate::ops::map::{Factors, Map};
use crate::ops::plan::{self, Operand, Plan, Role, Step, StepSink};
use crate::ops::random::Random;
use crate::ops::words::Words;
use crate::ops::{Compute, Scaling, agree};

/// Bits of a byte: a mask is written as products of 8 zeros and ones with these.
const BYTE: [f32; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Bytes of a mask's weights and of the number 0 in the workspace, each in a part of its own.
const PART: usize = 64;

/// The mask of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    /// What it is a mask of.
    of: TensorDescriptor,
    /// Positions of all images.
    rows: i64,
    /// Bits of a row, those beyond the channels too.
    bits: i64,
    /// Rows that are written.
    all_rows: i64,
}

impl Mask {
    /// The mask that a pack describes, of a tensor of an activation by ReLU.
    ///
    /// # Errors
    /// Bad parameter: a description that is not of INT32 or too small. Not supported: another
    /// activation; channels in blocks.
    pub fn new(pack: &ConstantPack, of: &TensorDescriptor) -> Result<Self> {
        use crate::desc::ActivationMode::Relu;
        if super::activation(pack).is_none_or(|activation| activation.mode != Relu) {
            return Err(Error::unsupported("a bit mask is that of an activation by RELU"));
        }
        if of.layout()?.split.is_some() {
            return Err(Error::unsupported("a bit mask of a tensor with channels in blocks"));
        }
        let dims = of.dims();
        let channels = dims[CHANNEL];
        let rows = dims.iter().product::<i64>() / channels;
        let bits = (channels + 63) / 64 * 64;
        let mut all_rows = rows;
        if let Some(desc) = pack.tensor(constant::MASK) {
            let (least, given) = (rows * bits / 32, desc.dims().iter().product::<i64>());
            if desc.data_type() != DataType::Int32 || given < least {
                return Err(Error::mismatch(format!(
                    "the bit mask is {:?} of {}: {least} words of INT32 are needed for {dims}",
                    desc.data_type(),
                    desc.dims()
                )));
            }
            all_rows = given / (bits / 32);
        }
        Ok(Mask { of: *of, rows, bits, all_rows })
    }

    /// Bytes of workspace: a number for each bit, and what makes bytes of them.
    pub fn room(&self) -> usize {
        (self.rows * self.bits) as usize * Scalar::F32.size() + 2 * PART
    }

    fn bytes(&self) -> i64 {
        self.all_rows * self.bits / 8
    }

    /// Strides over the elements of the tensor by which bits are counted: rows of channels.
    fn strides(&self) -> Dims {
        let dims = self.of.dims();
        let mut strides = Dims::filled(dims.rank(), 1);
        let mut row = self.bits;
        for axis in (0..dims.rank()).rev().filter(|&axis| axis != CHANNEL) {
            strides[axis] = row;
            row *= dims[axis];
        }
        strides
    }

    /// Loops over all elements: offsets in `to`, in the tensor, and bits.
    fn nest(&self, to: &TensorDescriptor) -> Result<LoopNest<3>> {
        let (to, of, bits) = (to.layout()?.strides, self.of.layout()?.strides, self.strides());
        let axis = |k: usize| Axis { extent: self.of.dims()[k], strides: [to[k], of[k], bits[k]] };
        let axes: Vec<_> = (0..bits.rank()).map(axis).collect();
        Ok(LoopNest::new(&axes, [0; 3]))
    }
}

/// Writes the mask of a tensor. Operands: the mask, the tensor, [`Mask::room`] bytes of workspace,
/// aligned to 64.
#[derive(Clone, Debug)]
pub(super) struct WriteMask {
    mask: Mask,
    operands: [Operand; 3],
    words: Words,
}

impl WriteMask {
    pub fn new(mask: &Mask) -> Result<Self> {
        let words = Words(BYTE.iter().map(|bit| bit.to_bits()).collect());
        let scalar = mask.of.data_type().scalar();
        let operand = |name, role, scalar, span| Operand { name, role, scalar, span };
        let operands = [
            operand("the bit mask", Role::Write, Scalar::U8, (0, mask.bytes())),
            operand("y", Role::Read, scalar, agree::byte_span(mask.of.layout()?, mask.of.data_type())?),
            operand("workspace", Role::Scratch, Scalar::F32, (0, mask.room() as i64)),
        ];
        Ok(WriteMask { mask: mask.clone(), operands, words })
    }
}

impl Plan for WriteMask {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let (mask, size) = (&self.mask, Scalar::F32.size());
        let scalar = mask.of.data_type().scalar();
        let numbers = mask.rows * mask.bits;
        let line = |extent: i64, offset: i64| LoopNest::new(&[Axis { extent, strides: [1] }], [offset]);
        // Weights of bits first, then the number 0, then bits as numbers.
        let (zero, first) = (PART, 2 * PART / size);
        sink(Step::Words(&self.words), &[2])?;
        let cells = Set {
            nest: line((PART / scalar.size()) as i64, (zero / scalar.size()) as i64),
            dst: scalar,
            cell: 0,
        };
        sink(Step::Set(&cells), &[2])?;
        sink(Step::Set(&Set { nest: line(numbers, first as i64), dst: Scalar::F32, cell: 0 }), &[2])?;
        sink(Step::Set(&Set { nest: line(mask.bytes(), 0), dst: Scalar::U8, cell: 0 }), &[0])?;
        let of = mask.of.layout()?.strides;
        let bits = mask.strides();
        let axis = |k: usize| Axis { extent: mask.of.dims()[k], strides: [bits[k], 0, of[k]] };
        let axes: Vec<_> = (0..bits.rank()).map(axis).collect();
        let mut nest = LoopNest::new(&axes, [first as i64, (zero / scalar.size()) as i64, 0]);
        nest.canonicalise();
        let above = Map {
            nest,
            scalars: [Scalar::F32, scalar, scalar],
            compute: if scalar == Scalar::F64 { Compute::Double } else { Compute::Single },
            function: Function::Less,
            parameter: 0.0,
            factors: Factors::NONE,
        };
        sink(Step::Map(&above), &[2, 2, 1])?;
        let matrix = |data_type, rows: i64, columns: i64| {
            TensorDescriptor::with_strides(data_type, 2, &[rows, columns], &[columns, 1], Mode::Extended)
        };
        let (bytes, eights) =
            (matrix(DataType::Uint8, numbers / 8, 1)?, matrix(DataType::Float, numbers / 8, 8)?);
        let weights = matrix(DataType::Float, 8, 1)?;
        let side = |of: &'_ TensorDescriptor| of.layout().copied();
        let layouts = [side(&bytes)?, side(&eights)?, side(&weights)?];
        let sides = [0, 1, 2]
            .map(|k| Side { layout: &layouts[k], scalar: if k == 0 { Scalar::U8 } else { Scalar::F32 } });
        let [to, a, b] = sides;
        let mut sum = Contract::matmul(to, a, b, Accumulate::Single, &Terms::scaled(Scaling::MOVE))?;
        sum.nest.offsets[1] = first as i64;
        sink(Step::Contract(&sum.canonical()), &[0, 2, 2])
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for WriteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}

/// `to = bit ? from : 0`. Operands: `to`, the tensor of the mask, the mask.
#[derive(Clone)]
pub(super) struct ApplyMask {
    step: Random,
    operands: [Operand; 3],
}

impl ApplyMask {
    /// # Errors
    /// Bad parameter: the types differ, or `to` repeats an address. Not supported: `to` has
    /// channels in blocks.
    pub fn new(mask: &Mask, to: (&'static str, &TensorDescriptor)) -> Result<Self> {
        let (name, to) = to;
        let data_type = mask.of.data_type();
        if to.data_type() != data_type || to.dims() != mask.of.dims() {
            return Err(Error::mismatch(format!(
                "{name} is {:?} of {}, dy {data_type:?} of {}",
                to.data_type(),
                to.dims(),
                mask.of.dims()
            )));
        }
        let layout = *agree::destination(agree::Named { name, tensor: to })?;
        if layout.split.is_some() {
            return Err(Error::unsupported(format!("{name} has channels in blocks")));
        }
        let mut nest = mask.nest(to)?;
        nest.canonicalise();
        let scalar = data_type.scalar();
        let operand = |name, role, scalar, span| Operand { name, role, scalar, span };
        let operands = [
            operand(name, Role::Write, scalar, agree::byte_span(&layout, data_type)?),
            operand("dy", Role::Read, scalar, agree::byte_span(mask.of.layout()?, data_type)?),
            operand("the bit mask", Role::Read, Scalar::I32, (0, mask.rows * mask.bits / 8)),
        ];
        Ok(ApplyMask { step: Random { nest, scalar, scale: 1.0, draw: None }, operands })
    }
}

impl Plan for ApplyMask {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        sink(Step::Random(&self.step), &[0, 1, 2])
    }

    fn is_one_step(&self) -> bool {
        true
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ApplyMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
