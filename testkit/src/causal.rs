//! Random causal convolutions with their operands, for both cores.

use cudnn::dtype::{DataType, Scalar};
use cudnn::mode::Mode;
use cudnn::ops::causal_conv::{Call, CausalPlan, Form, Sizes};
use cudnn::ops::{Operand, Plan, Role};

use crate::random::Rng;

pub const TYPES: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// Every form.
pub const FORMS: [Form; 7] = [
    Form::Direct { channels_inside: false, silu: false },
    Form::Direct { channels_inside: false, silu: true },
    Form::Direct { channels_inside: true, silu: false },
    Form::Direct { channels_inside: true, silu: true },
    Form::Gated,
    Form::Fourier,
    Form::Long,
];

/// A call of this form with these sizes.
pub fn call(form: Form, [batch, dim, length, taps, mixer]: [i32; 5], data_type: DataType) -> Call {
    let mixer = (form == Form::Gated).then_some(("kernelSizeMixer", mixer, 256));
    let sizes = Sizes { batch, dim, length, taps: ("kernelSize", taps, 256), mixer };
    let of_weights = if data_type == DataType::Double { DataType::Double } else { DataType::Float };
    let gradient = matches!(form, Form::Direct { .. } | Form::Gated).then_some(Some(of_weights));
    Call { form, sizes, data_type: Some(data_type), gradient }
}

/// Both plans of a call.
pub fn plans(call: &Call) -> [CausalPlan; 2] {
    [CausalPlan::forward(call, Mode::Extended), CausalPlan::backward(call, Mode::Extended)]
        .map(|plan| plan.expect("a plan"))
}

/// Sizes around the edges of tiles, lanes and blocks; products small enough for a double of a
/// device.
pub fn sizes(rng: &mut Rng) -> [i32; 5] {
    let length = rng.pick(&[1, 2, 5, 31, 32, 33, 64, 100]);
    let taps = rng.pick(&[1, 2, 3, 4, 7, 9, 33]);
    [rng.pick(&[1, 2, 3]), rng.pick(&[1, 3, 16, 17, 33]), length, taps, rng.pick(&[1, 2, 5, 8, 40])]
}

/// A number as bytes of this type.
fn bytes_of(scalar: Scalar, number: f64) -> Vec<u8> {
    match scalar {
        Scalar::F64 => number.to_le_bytes().to_vec(),
        Scalar::F32 => (number as f32).to_le_bytes().to_vec(),
        Scalar::F16 => half::f16::from_f64(number).to_le_bytes().to_vec(),
        Scalar::Bf16 => half::bf16::from_f64(number).to_le_bytes().to_vec(),
        other => unreachable!("{other:?} is not convolved"),
    }
}

/// The numbers in bytes of this type.
pub fn numbers(scalar: Scalar, bytes: &[u8]) -> Vec<f64> {
    let cells = bytes.chunks_exact(scalar.size());
    cells
        .map(|cell| match scalar {
            Scalar::F64 => f64::from_le_bytes(cell.try_into().expect("8 bytes")),
            Scalar::F32 => f32::from_le_bytes(cell.try_into().expect("4 bytes")).into(),
            Scalar::F16 => half::f16::from_le_bytes(cell.try_into().expect("2 bytes")).to_f64(),
            Scalar::Bf16 => half::bf16::from_le_bytes(cell.try_into().expect("2 bytes")).to_f64(),
            other => unreachable!("{other:?} is not convolved"),
        })
        .collect()
}

/// Contents of an operand: NaNs where it is only written, numbers from -2 to 2, now and then one
/// that is none.
pub fn contents(operand: &Operand, rng: &mut Rng, wild: bool) -> Vec<u8> {
    let size = operand.span.1 as usize;
    if operand.role == Role::Write {
        return vec![0xff; size];
    }
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    (0..size / operand.scalar.size())
        .flat_map(|_| {
            let number = (rng.below(4001) as f64 - 2000.0) / 1000.0;
            let number = if wild && rng.below(50) == 0 { rng.pick(&odd) } else { number };
            bytes_of(operand.scalar, number)
        })
        .collect()
}

/// Contents of every operand of a plan.
pub fn all_contents(plan: &dyn Plan, rng: &mut Rng, wild: bool) -> Vec<Vec<u8>> {
    plan.operands().iter().map(|operand| contents(operand, rng, wild)).collect()
}
