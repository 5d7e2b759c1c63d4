//! Launches of the kernels whose function and type are their own (`kernels/activation.cu`).

use super::formula;
use crate::backend::cuda::launch::{Emit, Launch, column_of, grid};
use crate::backend::cuda::params::Params;
use crate::backend::cuda::selection::Query;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::function::Function;
use crate::ops::{Compute, Map};

/// Threads of a block, and vectors of each; the kernels' source has the same numbers.
const THREADS: u64 = 256;
const VECTORS: u64 = 2;
/// Bytes of a vector.
const VECTOR: u64 = 16;

/// A function along one run of memory: `activation_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// Where the destination and the operands start; of functions of one operand the second is not
    /// read.
    pub at: [u64; 3],
    /// The function's parameter.
    pub parameter: f64,
    /// Vectors of 16 bytes.
    pub count: u64,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 40);

/// The kernels of a function in binary32, binary16 and bfloat16.
struct Row {
    function: Function,
    kernels: [&'static str; 3],
}

macro_rules! rows {
    ($($function:ident $name:literal)*) => {
        &[$(Row {
            function: Function::$function,
            kernels: [
                concat!("activation_", $name, "_f32"),
                concat!("activation_", $name, "_f16"),
                concat!("activation_", $name, "_bf16"),
            ],
        }),*]
    };
}

const ROWS: &[Row] = rows! {
    Relu "relu"
    ReluOrNan "relu_or_nan"
    ReluGradient "relu_gradient"
    ReluOrNanGradient "relu_or_nan_gradient"
    ClippedRelu "clipped_relu"
    ClippedReluOrNan "clipped_relu_or_nan"
    ClippedReluGradient "clipped_relu_gradient"
    ClippedReluOrNanGradient "clipped_relu_or_nan_gradient"
    Sigmoid "sigmoid"
    SigmoidGradient "sigmoid_gradient"
    Tanh "tanh"
    TanhGradient "tanh_gradient"
};

/// The kernel of a function and a type, if there is one. Of bytes only what compares has one.
fn kernel(function: Function, scalar: Scalar) -> Option<&'static str> {
    if scalar == Scalar::I8 {
        return match function {
            Function::Relu => Some("activation_relu_s8"),
            Function::ReluOrNan => Some("activation_relu_or_nan_s8"),
            Function::ClippedRelu => Some("activation_clipped_relu_s8"),
            Function::ClippedReluOrNan => Some("activation_clipped_relu_or_nan_s8"),
            _ => None,
        };
    }
    let column = column_of(scalar)?;
    ROWS.iter().find(|row| row.function == function).map(|row| row.kernels[column])
}

/// Vectors along one run of memory, and what they leave at its end element by element.
pub(super) fn runs<const N: usize>(query: &Query<'_, Map<N>>, emit: Emit<'_>) -> Result<bool> {
    let (map, at) = (query.step, query.places::<N>());
    let (arity, scalar) = (map.function.arity(), map.scalars[0]);
    let &[axis] = map.nest.axes() else { return Ok(false) };
    let Some(kernel) = kernel(map.function, scalar) else { return Ok(false) };
    let plain = map.compute == Compute::Single
        && map.factors.alpha[0] == 1.0
        && map.factors.beta == 0.0
        && (0..=arity).all(|k| map.scalars[k] == scalar && axis.strides[k] == 1);
    let size = scalar.size() as i64;
    let starts: [u64; N] = std::array::from_fn(|k| at[k].wrapping_add_signed(map.nest.offsets[k] * size));
    let aligned = starts[..=arity].iter().all(|start| start.is_multiple_of(VECTOR));
    let lanes = VECTOR as i64 / size;
    let count = (axis.extent / lanes) as u64;
    // Vectors are numbered in 32 bits.
    if !plain || !aligned || count == 0 || count > u64::from(u32::MAX) - THREADS * VECTORS {
        return Ok(false);
    }
    let params = Parameters {
        at: std::array::from_fn(|k| if k <= arity { starts[k] } else { 0 }),
        parameter: map.parameter,
        count,
    };
    emit(&Launch {
        kernel,
        grid: grid(count.div_ceil(THREADS * VECTORS))?,
        block: [THREADS as u32, 1, 1],
        shared: 0,
        params: Params::new(&params),
    })?;
    formula::rest(map, at, axis.extent % lanes, emit)?;
    Ok(true)
}
