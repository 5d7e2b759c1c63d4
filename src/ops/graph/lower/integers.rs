//! Integers of 64 bits, exactly: binary64, in which functions are computed, has 53 bits, and so
//! each is two halves.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Pointwise, Port, mode};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::Dims;
use crate::ops::function::Function;
use crate::ops::{Compute, NanRule, Reduction};

const HALF: f64 = 4_294_967_296.0;
const QUARTER: f64 = 65_536.0;

/// `high * 2^32 + low`; as integers have them, low is from 0 up to 2^32, and high from -2^31 up to
/// 2^31.
#[derive(Clone, Copy)]
struct Halves {
    high: View,
    low: View,
}

/// Whether an operand has 64 bits, and all are integers.
fn are_long(views: &[View]) -> bool {
    let is_integer = |view: &View| {
        matches!(view.scalar, Scalar::I64 | Scalar::I32 | Scalar::I8 | Scalar::U8 | Scalar::Bool)
            && view.layout.split.is_none()
    };
    views.iter().any(|view| view.scalar == Scalar::I64) && views.iter().all(is_integer)
}

/// Adds the steps of a pointwise operation, if it is one of integers of 64 bits that has an exact
/// result: sums, differences and products (modulo 2^64), opposites, the smaller and the larger one,
/// comparisons and selections.
///
/// # Errors
/// Not supported: tensors that do not broadcast.
pub(super) fn pointwise(of: &Pointwise, steps: &mut Builder<'_>) -> Result<bool> {
    let is_unary = matches!(of.mode, mode::IDENTITY | mode::NEG | mode::ABS);
    let is_binary = matches!(
        of.mode,
        mode::ADD | mode::SUB | mode::MUL | mode::MIN | mode::MAX | mode::SELECT | mode::EQUAL
            ..=mode::LESS_OR_EQUAL
    );
    if of.alpha != [1.0; 2] || !(is_unary || is_binary) {
        return Ok(false);
    }
    let (Some(y), Some(x)) = (steps.wanted(Port::Y, 0.0)?, steps.given(Port::X)?) else { return Ok(false) };
    let b = if is_binary { steps.given(Port::B)? } else { Some(x) };
    let Some(b) = b.filter(|b| are_long(&[x, *b]) && y.layout.split.is_none()) else { return Ok(false) };
    if y.is_empty() {
        return Ok(true);
    }
    steps.compute = Compute::Double;
    let (a, b) = (halves(steps, &x)?, halves(steps, &b)?);
    let result = Halves { high: steps.wide(y.dims())?, low: steps.wide(y.dims())? };
    let both = |steps: &mut Builder<'_>, function: Function, alpha: [f64; 2]| {
        steps.map_with(&result.high, function, &[a.high, b.high], 0.0, alpha)?;
        steps.map_with(&result.low, function, &[a.low, b.low], 0.0, alpha)
    };
    match of.mode {
        mode::ADD => both(steps, Function::Add, [1.0, 1.0])?,
        mode::SUB => both(steps, Function::Add, [1.0, -1.0])?,
        mode::MUL => product(steps, &result, &a, &b)?,
        mode::IDENTITY | mode::NEG => {
            let sign = if of.mode == mode::NEG { -1.0 } else { 1.0 };
            steps.map_with(&result.high, Function::First, &[a.high], 0.0, [sign, 1.0])?;
            steps.map_with(&result.low, Function::First, &[a.low], 0.0, [sign, 1.0])?;
        }
        mode::ABS => {
            let zero = steps.constant(0.0, y.dims())?;
            let is_negative = steps.joined(Function::Less, &a.high, &zero)?;
            for (to, from) in [(&result.high, &a.high), (&result.low, &a.low)] {
                steps.map_with(to, Function::First, &[*from], 0.0, [-1.0, 1.0])?;
                steps.map(to, Function::Select, &[*to, *from, is_negative])?;
            }
        }
        mode::MIN | mode::MAX => {
            let is_less = if of.mode == mode::MIN { less(steps, &a, &b)? } else { less(steps, &b, &a)? };
            select(steps, &result, [&a, &b], &is_less)?;
        }
        mode::SELECT => {
            let flags = steps.read(Port::T)?;
            select(steps, &result, [&a, &b], &flags)?;
        }
        _ => {
            let holds = compared(of.mode, steps, &a, &b)?;
            steps.transform(&y, &holds)?;
            return Ok(true);
        }
    }
    store(steps, &y, &result)?;
    Ok(true)
}

/// Adds the steps of a reduction of integers of 64 bits, if it is a sum (modulo 2^64), a minimum or
/// a maximum. Each element of y joins all elements along a dimension or one.
///
/// # Errors
/// Not supported for dims that are no multiples.
pub(super) fn reduce(reduction: Reduction, y: &View, x: &View, steps: &mut Builder<'_>) -> Result<bool> {
    let joins = |(&many, &few): (&i64, &i64)| few == 1 || few == many;
    let fits = x.dims().rank() == y.dims().rank() && x.dims().iter().zip(y.dims().iter()).all(joins);
    let terms = x.dims().iter().product::<i64>() / y.dims().iter().product::<i64>().max(1);
    // So that sums of halves are exact.
    if !are_long(&[*x]) || y.layout.split.is_some() || !fits || !(1..1 << 20).contains(&terms) {
        return Ok(false);
    }
    let own = std::mem::replace(&mut steps.compute, Compute::Double);
    let result = Halves { high: steps.wide(y.dims())?, low: steps.wide(y.dims())? };
    let sign = match reduction {
        Reduction::Add => 0.0,
        Reduction::Max(_) => 1.0,
        Reduction::Min(_) => -1.0,
        _ => {
            steps.compute = own;
            return Ok(false);
        }
    };
    let parts = halves(steps, x)?;
    if sign == 0.0 {
        steps.reduce(&result.high, Reduction::Add, &parts.high)?;
        steps.reduce(&result.low, Reduction::Add, &parts.low)?;
    } else {
        // A minimum is minus the largest opposite. Of the lower halves those count whose upper half
        // is the largest.
        let largest = Reduction::Max(NanRule::Propagate);
        let [highs, lows] = [steps.wide(x.dims())?, steps.wide(x.dims())?];
        steps.map_with(&highs, Function::First, &[parts.high], 0.0, [sign, 1.0])?;
        steps.map_with(&lows, Function::First, &[parts.low], 0.0, [sign, 1.0])?;
        steps.reduce(&result.high, largest, &highs)?;
        let is_largest = steps.joined(Function::Equal, &highs, &result.high)?;
        let least = steps.constant(-HALF, x.dims())?;
        steps.map(&lows, Function::Select, &[lows, least, is_largest])?;
        steps.reduce(&result.low, largest, &lows)?;
        for half in [result.high, result.low] {
            steps.map_with(&half, Function::First, &[half], 0.0, [sign, 1.0])?;
        }
    }
    store(steps, y, &result)?;
    Ok(true)
}

/// The lower and the upper half of each integer as an integer of 32 bits, where they lie.
fn cells(view: &View) -> [View; 2] {
    let mut strides = view.layout.strides;
    strides.iter_mut().for_each(|stride| *stride *= 2);
    let low = View { scalar: Scalar::I32, offset: 2 * view.offset, ..view.with(*view.dims(), strides) };
    [low, View { offset: low.offset + 1, ..low }]
}

fn halves(steps: &mut Builder<'_>, view: &View) -> Result<Halves> {
    let dims = *view.dims();
    let [high, low] = [steps.wide(&dims)?, steps.wide(&dims)?];
    if view.scalar == Scalar::I64 {
        let [lower, upper] = cells(view);
        steps.transform(&high, &upper)?;
        steps.transform(&low, &lower)?;
        let zero = steps.constant(0.0, &dims)?;
        let is_negative = steps.joined(Function::Less, &low, &zero)?;
        steps.map_with(&low, Function::Add, &[low, is_negative], 0.0, [1.0, HALF])?;
    } else {
        steps.transform(&low, view)?;
        steps.map_with(&high, Function::First, &[low], 0.0, [1.0 / HALF, 1.0])?;
        steps.map(&high, Function::Floor, &[high])?;
        steps.map_with(&low, Function::Add, &[low, high], 0.0, [1.0, -HALF])?;
    }
    Ok(Halves { high, low })
}

/// `to = of - size * floor(of / size)`, and the quotient.
fn split(steps: &mut Builder<'_>, to: &View, of: &View, size: f64) -> Result<View> {
    let quotient = steps.wide(of.dims())?;
    steps.map_with(&quotient, Function::First, &[*of], 0.0, [1.0 / size, 1.0])?;
    steps.map(&quotient, Function::Floor, &[quotient])?;
    steps.map_with(to, Function::Add, &[*of, quotient], 0.0, [1.0, -size])?;
    Ok(quotient)
}

/// Integers, or what their type makes of them if it is another one. Pre: halves that are whole
/// numbers, below 2^52 in size.
fn store(steps: &mut Builder<'_>, to: &View, from: &Halves) -> Result<()> {
    let dims = *from.low.dims();
    let [high, low] = [steps.wide(&dims)?, steps.wide(&dims)?];
    let carry = split(steps, &low, &from.low, HALF)?;
    // From -2^31 on, as both halves of 64 bits are stored.
    let half = steps.constant(HALF / 2.0, &dims)?;
    let shifted = steps.joined(Function::Add, &from.high, &carry)?;
    steps.map(&shifted, Function::Add, &[shifted, half])?;
    split(steps, &high, &shifted, HALF)?;
    steps.subtract(&high, &high, &half)?;
    if to.scalar != Scalar::I64 {
        let whole = steps.joined_with(Function::Add, &high, &low, [HALF, 1.0])?;
        return steps.transform(to, &whole);
    }
    let is_large = steps.joined(Function::LessOrEqual, &half, &low)?;
    steps.map_with(&low, Function::Add, &[low, is_large], 0.0, [1.0, -HALF])?;
    let [lower, upper] = cells(to);
    steps.transform(&lower, &low)?;
    steps.transform(&upper, &high)
}

/// Four digits of 16 bits, the lowest first, modulo 2^64.
fn digits(steps: &mut Builder<'_>, of: &Halves) -> Result<[View; 4]> {
    let dims = *of.low.dims();
    let high = steps.wide(&dims)?;
    split(steps, &high, &of.high, HALF)?;
    let [first, third] = [steps.wide(&dims)?, steps.wide(&dims)?];
    let second = split(steps, &first, &of.low, QUARTER)?;
    let fourth = split(steps, &third, &high, QUARTER)?;
    Ok([first, second, third, fourth])
}

/// The product modulo 2^64: sums of products of digits, each below 2^34.
fn product(steps: &mut Builder<'_>, to: &Halves, a: &Halves, b: &Halves) -> Result<()> {
    let (a, b) = (digits(steps, a)?, digits(steps, b)?);
    let dims = Dims::new(to.low.dims());
    let mut sums = Vec::with_capacity(4);
    for place in 0..4 {
        let sum = steps.wide(&dims)?;
        steps.fill(&sum, 0.0);
        for k in 0..=place {
            let term = steps.wide(&dims)?;
            steps.map(&term, Function::Mul, &[a[k], b[place - k]])?;
            steps.map(&sum, Function::Add, &[sum, term])?;
        }
        sums.push(sum);
    }
    steps.map_with(&to.low, Function::Add, &[sums[0], sums[1]], 0.0, [1.0, QUARTER])?;
    steps.map_with(&to.high, Function::Add, &[sums[2], sums[3]], 0.0, [1.0, QUARTER])
}

/// 1 where they are equal, else 0.
fn equal(steps: &mut Builder<'_>, a: &Halves, b: &Halves) -> Result<View> {
    let high = steps.joined(Function::Equal, &a.high, &b.high)?;
    let low = steps.joined(Function::Equal, &a.low, &b.low)?;
    steps.joined(Function::And, &high, &low)
}

/// 1 where the first one is smaller, else 0.
fn less(steps: &mut Builder<'_>, a: &Halves, b: &Halves) -> Result<View> {
    let high = steps.joined(Function::Less, &a.high, &b.high)?;
    let same = steps.joined(Function::Equal, &a.high, &b.high)?;
    let low = steps.joined(Function::Less, &a.low, &b.low)?;
    let low = steps.joined(Function::And, &same, &low)?;
    steps.joined(Function::Or, &high, &low)
}

fn compared(mode: i32, steps: &mut Builder<'_>, a: &Halves, b: &Halves) -> Result<View> {
    let (holds, is_opposite) = match mode {
        mode::EQUAL => (equal(steps, a, b)?, false),
        mode::NOT_EQUAL => (equal(steps, a, b)?, true),
        mode::GREATER => (less(steps, b, a)?, false),
        mode::GREATER_OR_EQUAL => (less(steps, a, b)?, true),
        mode::LESS => (less(steps, a, b)?, false),
        _ => (less(steps, b, a)?, true),
    };
    if is_opposite {
        steps.map(&holds, Function::IsZero, &[holds])?;
    }
    Ok(holds)
}

/// The first one where the flag is set, else the second one.
fn select(steps: &mut Builder<'_>, to: &Halves, [a, b]: [&Halves; 2], flags: &View) -> Result<()> {
    steps.map(&to.high, Function::Select, &[a.high, b.high, *flags])?;
    steps.map(&to.low, Function::Select, &[a.low, b.low, *flags])
}
