//! Causal convolutions: from sizes and types to the steps of a call.

use std::fmt;

use super::causal::{Causal, CausalFunction, PARTS};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::{Scaling, Transform};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Axis, LoopNest};
use crate::mode::Mode;

/// Sizes as a call names them.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of sequences.
    pub batch: i32,
    /// Channels of each.
    pub dim: i32,
    /// Positions of each.
    pub length: i32,
    /// Taps, with the name of the argument and the most that the original takes.
    pub taps: (&'static str, i32, i32),
    /// Taps of the mixer of a gated pair, likewise.
    pub mixer: Option<(&'static str, i32, i32)>,
}

/// Which of the calls it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `cudnnCausalConv1d...`, and `cudnnCausalConv1dNwh...` with the channels inside.
    Direct {
        /// Whether neighbours in memory are channels.
        channels_inside: bool,
        /// Whether `v / (1 + exp(-v))` follows.
        silu: bool,
    },
    /// `cudnnB2BCausalConv1d...`
    Gated,
    /// `cudnnFFTCausalConv1d...`
    Fourier,
    /// `cudnnLongFFTCausalConv1d...`
    Long,
}

/// Bytes of workspace of the long form, which uses none: no size that a caller allocates is 0.
pub const WORKSPACE: usize = 64;

/// Bytes that the parts of a reserve space are a multiple of.
const PART: i64 = 64;

/// The sizes of a call, checked.
///
/// # Errors
/// Bad parameter: batch, dim or length below 1, and numbers of taps below 1, or in strict mode
/// outside the range of the original; more elements than bytes can be counted.
fn checked(form: Form, sizes: &Sizes, mode: Mode) -> Result<Causal> {
    for (name, value) in [("batch", sizes.batch), ("dim", sizes.dim), ("seqLen", sizes.length)] {
        if value < 1 {
            return Err(Error::argument(name, value.into(), "must be at least 1"));
        }
    }
    let least = if mode.is_strict() && matches!(form, Form::Direct { .. } | Form::Gated) { 2 } else { 1 };
    for (name, value, most) in [Some(sizes.taps), sizes.mixer].into_iter().flatten() {
        if value < least || (mode.is_strict() && value > most) {
            let rule = match mode {
                Mode::Strict => format!("strict mode: {least} to {most}"),
                Mode::Extended => "must be at least 1".to_owned(),
            };
            return Err(Error::argument(name, value.into(), rule));
        }
    }
    let step = Causal {
        function: CausalFunction::Forward,
        batch: sizes.batch.into(),
        channels: sizes.dim.into(),
        length: sizes.length.into(),
        taps: sizes.taps.1.into(),
        mixer: sizes.mixer.map_or(0, |(_, taps, _)| taps.into()),
        channels_inside: matches!(form, Form::Direct { channels_inside: true, .. }),
        newest_first: matches!(form, Form::Fourier | Form::Long),
        bias: matches!(form, Form::Direct { .. }),
        silu: matches!(form, Form::Direct { silu: true, .. }),
        adds: false,
        scalar: Scalar::F32,
        gradient: Scalar::F32,
    };
    let widest = Scalar::F64.size() as i64 * PARTS;
    let count = |extents: &[i64]| extents.iter().try_fold(widest, |all, &n| all.checked_mul(n));
    let counts = [
        count(&[step.batch, step.channels, step.length]),
        count(&[step.channels, step.taps]),
        count(&[step.channels, step.mixer]),
    ];
    if counts.contains(&None) {
        return Err(Error::mismatch(
            "batch * dim * seqLen, or dim * kernelSize: more bytes than can be counted",
        ));
    }
    Ok(step)
}

/// The scalar type of data, and that of the gradients of weights.
///
/// # Errors
/// Not supported: data that is not FLOAT, DOUBLE, HALF or BFLOAT16; gradients that are not DOUBLE
/// with DOUBLE, else FLOAT.
fn types(data_type: Option<DataType>, gradient: Option<Option<DataType>>) -> Result<[Scalar; 2]> {
    let shown = |data_type: Option<DataType>| {
        data_type.map_or("an unknown type".to_owned(), |data_type| format!("{data_type:?}"))
    };
    let scalar = match data_type {
        Some(DataType::Float) => Scalar::F32,
        Some(DataType::Double) => Scalar::F64,
        Some(DataType::Half) => Scalar::F16,
        Some(DataType::Bfloat16) => Scalar::Bf16,
        _ => {
            return Err(Error::unsupported(format!(
                "dataType is {}: FLOAT, DOUBLE, HALF and BFLOAT16 are convolved",
                shown(data_type)
            )));
        }
    };
    let Some(given) = gradient else { return Ok([scalar, scalar]) };
    let wanted = if scalar == Scalar::F64 { DataType::Double } else { DataType::Float };
    if given != Some(wanted) {
        return Err(Error::unsupported(format!(
            "dwDataType is {}: with data of {} it must be {wanted:?}",
            shown(given),
            shown(data_type)
        )));
    }
    Ok([scalar, wanted.scalar()])
}

/// What the original's transforms take.
///
/// # Errors
/// Not supported, in strict mode: other numbers of taps and positions.
fn check_fourier(form: Form, step: &Causal, mode: Mode) -> Result<()> {
    if !mode.is_strict() {
        return Ok(());
    }
    let is_wide = step.scalar == Scalar::F64;
    let (least, most) = match form {
        Form::Fourier => (128, if is_wide { 4096 } else { 16_384 }),
        Form::Long => (4096, if is_wide { 1 << 23 } else { 1 << 24 }),
        Form::Direct { .. } | Form::Gated => return Ok(()),
    };
    let is_power = step.taps.count_ones() == 1 && (least..=most).contains(&step.taps);
    let fits = match form {
        Form::Long => step.length == step.taps,
        _ => step.length % step.taps == 0,
    };
    if !is_power || !fits {
        return Err(Error::unsupported(format!(
            "strict mode: kernelSize = {} with seqLen = {}: a power of two from {least} to {most} that {}",
            step.taps,
            step.length,
            if form == Form::Long { "is seqLen" } else { "divides seqLen" }
        )));
    }
    Ok(())
}

/// A call, checked and ready to run on any core.
#[derive(Clone)]
pub struct CausalPlan {
    operands: Vec<Operand>,
    /// What is copied to the reserve space first: destination, source and elements.
    copies: Vec<([usize; 2], i64)>,
    steps: Vec<(Causal, Vec<usize>)>,
}

/// Sizes of the operands of a form, in elements.
struct Extents {
    line: i64,
    weight: i64,
    mixer: i64,
    channels: i64,
}

impl Extents {
    fn of(step: &Causal) -> Self {
        Extents {
            line: step.batch * step.channels * step.length,
            weight: step.channels * step.taps,
            mixer: step.channels * step.mixer,
            channels: step.channels,
        }
    }
}

fn operand(name: &'static str, role: Role, scalar: Scalar, elements: i64) -> Operand {
    Operand { name, role, scalar, span: (0, elements * scalar.size() as i64) }
}

/// A call's arguments but its pointers.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which of the calls.
    pub form: Form,
    /// Its sizes.
    pub sizes: Sizes,
    /// Type of the data, none for a number that names no type.
    pub data_type: Option<DataType>,
    /// Type of the gradients of weights, where the call names one.
    pub gradient: Option<Option<DataType>>,
}

impl CausalPlan {
    fn step(call: &Call, mode: Mode) -> Result<Causal> {
        let Call { form, sizes, data_type, gradient } = *call;
        let step = checked(form, &sizes, mode)?;
        let [scalar, gradient] = types(data_type, gradient)?;
        let step = Causal { scalar, gradient, ..step };
        check_fourier(form, &step, mode)?;
        Ok(step)
    }

    /// Plans a forward call. Operands: y, x, weight, bias; of a gated pair y, yGated, x,
    /// weightsProj, weightsMixer, skipBias; of the transforms y, x, weight; of the long one y, the
    /// two [parts](reserve) of the reserve space, x, weight.
    ///
    /// # Errors
    /// In this order. Bad parameter: sizes below 1, or outside the range of the original in strict
    /// mode. Not supported: types that are not convolved; in strict mode sizes that the original's
    /// transforms do not take.
    pub fn forward(call: &Call, mode: Mode) -> Result<Self> {
        let step = CausalPlan::step(call, mode)?;
        let Extents { line, weight, mixer, channels } = Extents::of(&step);
        let scalar = step.scalar;
        let read = |name, elements| operand(name, Role::Read, scalar, elements);
        let write = |name, elements| operand(name, Role::Write, scalar, elements);
        let (y, x) = (write("y", line), read("x", line));
        let (operands, slots) = match call.form {
            Form::Direct { .. } => {
                (vec![y, x, read("weight", weight), read("bias", channels)], vec![0, 1, 2, 3])
            }
            Form::Gated => {
                let gated = vec![
                    y,
                    write("yGated", line),
                    read("x", PARTS * line),
                    read("weightsProj", PARTS * weight),
                    read("weightsMixer", mixer),
                    read("skipBias", channels),
                ];
                (gated, vec![0, 1, 2, 3, 4, 5])
            }
            // No bias: nobody looks at the operand in its place.
            Form::Fourier => (vec![y, x, read("weight", weight)], vec![0, 1, 2, 2]),
            Form::Long => {
                let reserve = "reserveSpace";
                let parts = [write(reserve, line), write(reserve, weight)];
                (vec![y, parts[0], parts[1], x, read("weight", weight)], vec![0, 3, 4, 4])
            }
        };
        let copies = match call.form {
            Form::Long => vec![([1, 3], line), ([2, 4], weight)],
            _ => Vec::new(),
        };
        let function = if call.form == Form::Gated { CausalFunction::Gated } else { CausalFunction::Forward };
        Ok(CausalPlan { operands, copies, steps: vec![(Causal { function, ..step }, slots)] })
    }

    /// Plans a backward call. Operands: dx, dweight, dbias, x, weight, bias, dy; of a gated pair
    /// dx, dweightsProj, dweightsMixer, dskipBias, x, weightsProj, weightsMixer, skipBias, y, dy;
    /// of the transforms dx, dweight, x, weight, dy, of which the long one finds x and weight in
    /// the [parts](reserve) of the reserve space.
    ///
    /// # Errors
    /// As for [`CausalPlan::forward`]; not supported: another type of the weights' gradients.
    pub fn backward(call: &Call, mode: Mode) -> Result<Self> {
        let step = CausalPlan::step(call, mode)?;
        let Extents { line, weight, mixer, channels } = Extents::of(&step);
        let Causal { scalar, gradient, .. } = step;
        let read = |name, elements| operand(name, Role::Read, scalar, elements);
        let sum = |name, elements| operand(name, Role::Update, gradient, elements);
        let dx = operand("dx", Role::Write, scalar, line);
        let step = Causal { adds: true, ..step };
        let (data, weights) = match call.form {
            Form::Gated => (CausalFunction::GatedData, CausalFunction::GatedWeights),
            _ => (CausalFunction::Data, CausalFunction::Weights),
        };
        let of = |function, adds, slots: &[usize]| (Causal { function, adds, ..step }, slots.to_vec());
        let (operands, steps) = match call.form {
            Form::Direct { .. } => (
                vec![
                    dx,
                    sum("dweight", weight),
                    sum("dbias", channels),
                    read("x", line),
                    read("weight", weight),
                    read("bias", channels),
                    read("dy", line),
                ],
                vec![of(data, false, &[0, 3, 4, 5, 6]), of(weights, true, &[1, 2, 3, 4, 5, 6])],
            ),
            Form::Gated => (
                vec![
                    operand("dx", Role::Write, scalar, PARTS * line),
                    sum("dweightsProj", PARTS * weight),
                    sum("dweightsMixer", mixer),
                    sum("dskipBias", channels),
                    read("x", PARTS * line),
                    read("weightsProj", PARTS * weight),
                    read("weightsMixer", mixer),
                    read("skipBias", channels),
                    read("y", line),
                    read("dy", line),
                ],
                vec![
                    of(data, false, &[0, 4, 5, 6, 7, 8, 9]),
                    of(weights, true, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
                ],
            ),
            Form::Fourier | Form::Long => {
                let kept = if call.form == Form::Long { ["reserveSpace"; 2] } else { ["x", "weight"] };
                let dweight = operand("dweight", Role::Write, scalar, weight);
                (
                    vec![dx, dweight, read(kept[0], line), read(kept[1], weight), read("dy", line)],
                    // No bias: nobody looks at the operands in its places.
                    vec![of(data, false, &[0, 2, 3, 3, 4]), of(weights, false, &[1, 1, 2, 3, 3, 4])],
                )
            }
        };
        Ok(CausalPlan { operands, copies: Vec::new(), steps })
    }
}

/// Where the copy of the weight starts in the reserve space of the long form, behind that of x, and
/// the bytes of both.
///
/// # Errors
/// As for [`CausalPlan::forward`].
pub fn reserve(call: &Call, mode: Mode) -> Result<(usize, usize)> {
    let step = CausalPlan::step(call, mode)?;
    let Extents { line, weight, .. } = Extents::of(&step);
    let part = |elements: i64| (elements * step.scalar.size() as i64 + PART - 1) / PART * PART;
    Ok((part(line) as usize, (part(line) + part(weight)) as usize))
}

impl Plan for CausalPlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        for (slots, elements) in &self.copies {
            let nest = LoopNest::new(&[Axis { extent: *elements, strides: [1, 1] }], [0, 0]);
            let scalar = self.operands[slots[0]].scalar;
            let copy = Transform { nest, src: scalar, dst: scalar, scaling: Scaling::MOVE };
            sink(Step::Transform(&copy), slots)?;
        }
        self.steps.iter().try_for_each(|(step, slots)| sink(Step::Causal(step), slots))
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for CausalPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
