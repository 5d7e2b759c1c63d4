//! Pointwise operations: a function of the table, or a few of them.

use super::super::mode;
use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Pointwise, Port};
use super::integers;
use crate::desc::NanPropagation;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::function::{Function, Scaled};

/// Adds the steps.
///
/// # Errors
/// Not supported: modes that there are none of, tensors that are missing or do not broadcast.
pub fn lower(of: &Pointwise, steps: &mut Builder<'_>) -> Result<()> {
    if integers::pointwise(of, steps)? {
        return Ok(());
    }
    match of.mode {
        mode::GEN_INDEX => indices(of, steps),
        mode::RELU_BACKWARD..=mode::GELU_TANH_BACKWARD => backward(of, steps),
        mode::RELU => relu(of, steps),
        mode::SOFTPLUS => {
            let y = steps.write(Port::Y)?;
            let x = steps.read(Port::X)?;
            let beta = of.softplus_beta;
            let inner = scaled(steps, x, of.alpha[0] * beta)?;
            steps.map_with(&y, Function::Softplus, &[inner], 0.0, [1.0 / beta, 1.0])
        }
        _ => of_table(of, steps),
    }
}

/// The function that a mode is of one operand without a factor, with its parameter; `None` for
/// modes that take several steps or further operands.
pub(in super::super) fn activation(of: &Pointwise) -> Option<(Function, f64)> {
    let keeps_nan = of.nan == NanPropagation::Keep;
    Some(match (of.mode, Bounds::of(of), keeps_nan) {
        (mode::RELU, Bounds::Plain, false) => (Function::Relu, 0.0),
        (mode::RELU, Bounds::Plain, true) => (Function::ReluOrNan, 0.0),
        (mode::RELU, Bounds::Above(c), false) => (Function::ClippedRelu, c),
        (mode::RELU, Bounds::Above(c), true) => (Function::ClippedReluOrNan, c),
        (mode::TANH, ..) => (Function::Tanh, 0.0),
        (mode::SIGMOID, ..) => (Function::Sigmoid, 0.0),
        (mode::ELU, ..) => (Function::Elu, of.elu_alpha),
        (mode::SWISH, ..) => (Function::Swish, of.swish_beta),
        (mode::GELU, ..) => (Function::Gelu, 0.0),
        (mode::GELU_TANH, ..) => (Function::GeluTanh, 0.0),
        _ => return None,
    })
}

/// Which function a mode is, and whether its operands change places.
fn function(of: &Pointwise) -> Result<(Function, bool)> {
    let keeps_nan = of.nan == NanPropagation::Keep;
    let function = match of.mode {
        mode::ADD | mode::SUB => Function::Add,
        mode::MUL => Function::Mul,
        mode::MIN if keeps_nan => Function::MinOrNan,
        mode::MIN => Function::MinNumber,
        mode::MAX if keeps_nan => Function::MaxOrNan,
        mode::MAX => Function::MaxNumber,
        // The larger one of a number and its opposite.
        mode::ABS => Function::MaxOrNan,
        mode::SQRT => Function::Sqrt,
        mode::ADD_SQUARE => Function::AddSquare,
        mode::DIV => Function::Div,
        mode::MOD => Function::Remainder,
        mode::POW => Function::Power,
        mode::CEIL => Function::Ceil,
        mode::COS => Function::Cos,
        mode::EXP => Function::Exp,
        mode::FLOOR => Function::Floor,
        mode::LOG => Function::Log,
        mode::NEG | mode::IDENTITY => Function::First,
        mode::RSQRT => Function::ReciprocalRoot,
        mode::SIN => Function::Sin,
        mode::TAN => Function::Tan,
        mode::ERF => Function::Erf,
        mode::RECIPROCAL => Function::Reciprocal,
        mode::ATAN2 => Function::Atan2,
        mode::FLOOR_MOD => Function::FloorRemainder,
        mode::TANH => Function::Tanh,
        mode::SIGMOID => Function::Sigmoid,
        mode::ELU => Function::Elu,
        mode::GELU => Function::Gelu,
        mode::SWISH => Function::Swish,
        mode::GELU_TANH => Function::GeluTanh,
        mode::EQUAL => Function::Equal,
        mode::NOT_EQUAL => Function::NotEqual,
        mode::LESS => Function::Less,
        mode::LESS_OR_EQUAL => Function::LessOrEqual,
        mode::GREATER => return Ok((Function::Less, true)),
        mode::GREATER_OR_EQUAL => return Ok((Function::LessOrEqual, true)),
        mode::AND => Function::And,
        mode::OR => Function::Or,
        mode::NOT => Function::IsZero,
        mode::SELECT => Function::Select,
        other => return Err(Error::unsupported(format!("mode {other} is no pointwise mode"))),
    };
    Ok((function, false))
}

/// A mode that is one row of the table.
fn of_table(of: &Pointwise, steps: &mut Builder<'_>) -> Result<()> {
    let (function, swaps) = function(of)?;
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let mut alpha = of.alpha;
    let mut from = vec![x];
    match (of.mode, function.arity()) {
        (mode::ABS, _) => {
            from.push(x);
            alpha[1] = -alpha[0];
        }
        (mode::NEG, _) => alpha[0] = -alpha[0],
        (_, 2..) => from.push(steps.read(Port::B)?),
        _ => {}
    }
    match of.mode {
        mode::SUB => alpha[1] = -alpha[1],
        mode::SELECT => from.push(steps.read(Port::T)?),
        _ => {}
    }
    if swaps {
        from.swap(0, 1);
        alpha.swap(0, 1);
    }
    let parameter = match of.mode {
        mode::ELU => of.elu_alpha,
        mode::SWISH => of.swish_beta,
        _ => 0.0,
    };
    if function.row().scaled == Scaled::Operands {
        return steps.map_with(&y, function, &from, parameter, alpha);
    }
    for (view, alpha) in from.iter_mut().zip(alpha) {
        *view = scaled(steps, *view, alpha)?;
    }
    steps.map_with(&y, function, &from, parameter, [1.0; 2])
}

/// A tensor times a number.
fn scaled(steps: &mut Builder<'_>, view: View, alpha: f64) -> Result<View> {
    if alpha == 1.0 {
        return Ok(view);
    }
    let product = steps.wide(view.dims())?;
    steps.map_with(&product, Function::First, &[view], 0.0, [alpha, 1.0])?;
    Ok(product)
}

/// What the bounds of a ReLU come down to.
enum Bounds {
    /// Below 0 nothing.
    Plain,
    /// The same, and nothing above this.
    Above(f64),
    /// Others, or a slope.
    Any,
}

impl Bounds {
    fn of(of: &Pointwise) -> Bounds {
        // What is not set in binary32 is its largest number.
        let is_open = of.clip[1] >= f64::from(f32::MAX);
        match of.clip[0] == 0.0 && of.slope == 0.0 {
            true if is_open => Bounds::Plain,
            true => Bounds::Above(of.clip[1]),
            false => Bounds::Any,
        }
    }
}

/// Lower and upper bound, and slope, as operands.
fn bounds(of: &Pointwise, steps: &mut Builder<'_>, rank: usize) -> Result<[View; 3]> {
    let one = Dims::filled(rank, 1);
    let high = if of.clip[1] >= f64::from(f32::MAX) { f64::INFINITY } else { of.clip[1] };
    Ok([steps.constant(of.clip[0], &one)?, steps.constant(high, &one)?, steps.constant(of.slope, &one)?])
}

fn relu(of: &Pointwise, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let x = scaled(steps, x, of.alpha[0])?;
    let keeps_nan = of.nan == NanPropagation::Keep;
    match (Bounds::of(of), keeps_nan) {
        (Bounds::Plain, false) => steps.map(&y, Function::Relu, &[x]),
        (Bounds::Plain, true) => steps.map(&y, Function::ReluOrNan, &[x]),
        (Bounds::Above(c), false) => steps.map_with(&y, Function::ClippedRelu, &[x], c, [1.0; 2]),
        (Bounds::Above(c), true) => steps.map_with(&y, Function::ClippedReluOrNan, &[x], c, [1.0; 2]),
        (Bounds::Any, keeps_nan) => {
            let [low, high, slope] = bounds(of, steps, y.dims().rank())?;
            if of.slope == 0.0 {
                let function = if keeps_nan { Function::ClipOrNan } else { Function::ClipNumber };
                return steps.map(&y, function, &[x, low, high]);
            }
            let x = if keeps_nan { x } else { numbers(steps, &x, &low)? };
            steps.map(&y, Function::BoundedRelu, &[x, low, high, slope])
        }
    }
}

/// The tensor with a number in the place of each NaN.
fn numbers(steps: &mut Builder<'_>, x: &View, number: &View) -> Result<View> {
    let is_number = steps.joined(Function::Equal, x, x)?;
    let own = steps.wide(x.dims())?;
    steps.map(&own, Function::Select, &[*x, *number, is_number])?;
    Ok(own)
}

/// `dx = dy * slope at x`; some slopes are known from the result, which is computed where only x is
/// there.
fn backward(of: &Pointwise, steps: &mut Builder<'_>) -> Result<()> {
    let dx = steps.write(Port::Dx)?;
    let (dy, x, y) = (steps.read(Port::Dy)?, steps.given(Port::X)?, steps.given(Port::Y)?);
    let dy = scaled(steps, dy, of.alpha[0])?;
    let x = x.map(|x| scaled(steps, x, of.alpha[1])).transpose()?;
    let needs_x = || Error::unsupported("a gradient without x");
    // The result, in the type of the computation if it has to be computed.
    let result = |steps: &mut Builder<'_>, function: Function, parameter: f64| match (x, y) {
        (Some(x), _) => {
            let y = steps.wide(x.dims())?;
            steps.map_with(&y, function, &[x], parameter, [1.0; 2])?;
            Ok(y)
        }
        (None, Some(y)) => Ok(y),
        (None, None) => Err(needs_x()),
    };
    let (function, from, parameter) = match of.mode {
        mode::TANH_BACKWARD => (Function::TanhGradient, result(steps, Function::Tanh, 0.0)?, 0.0),
        mode::SIGMOID_BACKWARD => (Function::SigmoidGradient, result(steps, Function::Sigmoid, 0.0)?, 0.0),
        mode::ELU_BACKWARD => {
            (Function::EluGradient, result(steps, Function::Elu, of.elu_alpha)?, of.elu_alpha)
        }
        mode::GELU_BACKWARD => (Function::GeluGradient, x.ok_or_else(needs_x)?, 0.0),
        mode::GELU_TANH_BACKWARD => (Function::GeluTanhGradient, x.ok_or_else(needs_x)?, 0.0),
        mode::SWISH_BACKWARD => (Function::SwishGradient, x.ok_or_else(needs_x)?, of.swish_beta),
        mode::SOFTPLUS_BACKWARD => {
            let inner = scaled(steps, x.ok_or_else(needs_x)?, of.softplus_beta)?;
            let slope = steps.wide(inner.dims())?;
            steps.map(&slope, Function::Sigmoid, &[inner])?;
            return steps.map(&dx, Function::Mul, &[dy, slope]);
        }
        _ => {
            let keeps_nan = of.nan == NanPropagation::Keep;
            // A result is above 0 and below the bound where x is.
            let x = x.or(y).ok_or_else(needs_x)?;
            match (Bounds::of(of), keeps_nan) {
                (Bounds::Plain, false) => (Function::ReluGradient, x, 0.0),
                (Bounds::Plain, true) => (Function::ReluOrNanGradient, x, 0.0),
                (Bounds::Above(c), false) => (Function::ClippedReluGradient, x, c),
                (Bounds::Above(c), true) => (Function::ClippedReluOrNanGradient, x, c),
                (Bounds::Any, keeps_nan) => {
                    let [low, high, slope] = bounds(of, steps, dx.dims().rank())?;
                    let x = if keeps_nan { x } else { numbers(steps, &x, &low)? };
                    return steps.map(&dx, Function::BoundedReluGradient, &[x, dy, low, high, slope]);
                }
            }
        }
    };
    steps.map_with(&dx, function, &[from, dy], parameter, [1.0; 2])
}

/// `y = index along the axis`: a line of them, which is then repeated.
fn indices(of: &Pointwise, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let rank = y.dims().rank();
    let axis = of.axis.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    let axis = axis.ok_or_else(|| Error::unsupported("indices along no dimension"))?;
    let count = y.dims()[axis];
    if y.is_empty() {
        return Ok(());
    }
    let line = steps.line(rank, axis, count)?;
    steps.transform(&y, &line)
}
