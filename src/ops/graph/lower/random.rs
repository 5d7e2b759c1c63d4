//! Random numbers, of the generator that dropout has.
//!
//! Element `i`, row-major over the dims whatever the strides, is of the numbers that [`Random`]
//! describes, with the seed as key and the offset as the number of the call: the same on either
//! core. A Bernoulli element is 1 where its own number is not below the threshold. Elements of
//! other distributions take words of 32 bits, lowest first, of a mask of even chances: uniform ones
//! word `i`, normal ones words `2 i` and `2 i + 1`.

use super::super::expand::BERNOULLI;
use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Port, Rng};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{self, Dims, Layout, LoopNest};
use crate::ops::function::Function;
use crate::ops::{Compute, Draw, Random, agree};

/// The other distributions, by their numbers in the C interface.
mod distribution {
    pub const UNIFORM: i32 = 1;
    pub const NORMAL: i32 = 2;
}

/// Random numbers below this one come with a chance of one half.
const EVEN: u64 = 1 << 31;

/// Adds the steps.
///
/// # Errors
/// Not supported: no seed; a probability outside of 0 to 1; other distributions.
pub fn lower(of: &Rng, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    if y.is_empty() {
        return Ok(());
    }
    let states = states(of, steps)?;
    match of.distribution {
        BERNOULLI => bernoulli(of.probability, steps, &y, &states),
        distribution::UNIFORM => {
            let number = uniform(steps, &y, &states, 1)?;
            let [least, most] = of.uniform;
            let shift = steps.constant(least, &Dims::filled(y.dims().rank(), 1))?;
            steps.map_with(&y, Function::Add, &[number[0], shift], 0.0, [most - least, 1.0])
        }
        distribution::NORMAL => {
            let [radius, angle] = <[View; 2]>::try_from(uniform(steps, &y, &states, 2)?)
                .map_err(|_| Error::Internal("two numbers for each element".into()))?;
            // Box and Muller: the logarithm is of numbers above 0, up to 1.
            let one = steps.constant(1.0, &Dims::filled(y.dims().rank(), 1))?;
            steps.subtract(&radius, &one, &radius)?;
            steps.map(&radius, Function::Log, &[radius])?;
            steps.map_with(&radius, Function::Sqrt, &[radius], 0.0, [-2.0, 1.0])?;
            steps.map_with(&angle, Function::Cos, &[angle], 0.0, [std::f64::consts::TAU, 1.0])?;
            steps.map(&radius, Function::Mul, &[radius, angle])?;
            let [mean, deviation] = of.normal;
            let shift = steps.constant(mean, &Dims::filled(y.dims().rank(), 1))?;
            steps.map_with(&y, Function::Add, &[radius, shift], 0.0, [deviation, 1.0])
        }
        other => Err(Error::unsupported(format!("random numbers of distribution {other}"))),
    }
}

/// Seed and number of the call, of which the latter changes when a mask is drawn.
///
/// # Errors
/// Not supported: no seed; more than one number.
pub(super) fn states(of: &Rng, steps: &mut Builder<'_>) -> Result<View> {
    let states = steps.piece(Scalar::I64, 2)?;
    let (seed, offset) = (steps.given(Port::Seed)?, steps.given(Port::Offset)?);
    if seed.is_none() && of.seed.is_none() {
        return Err(Error::unsupported("random numbers without a seed"));
    }
    let numbers = [seed.ok_or(of.seed.unwrap_or(0)), offset.ok_or(0)];
    for (place, number) in (0..).zip(numbers) {
        let to = states.part(0, place, 1, 1)?;
        match number {
            Err(number) => steps.fill_bits(&to, number as u64),
            Ok(tensor) if tensor.dims().product() == Some(1) => {
                steps.transform(&to, &tensor.with(Dims::new(&[1]), Dims::new(&[1])))?;
            }
            Ok(tensor) => {
                return Err(Error::unsupported(format!("a seed or an offset of {}", tensor.dims())));
            }
        }
    }
    Ok(states)
}

/// The random number below which an element is dropped that is kept with this probability.
///
/// # Errors
/// Not supported outside of 0 to 1.
pub(super) fn threshold(probability: f64) -> Result<u64> {
    match (0.0..=1.0).contains(&probability) {
        true => Ok((((1.0 - probability) * (1_u64 << 32) as f64).round() as u64).min(1 << 32)),
        false => Err(Error::unsupported(format!("the probability {probability}"))),
    }
}

/// `y = 1` with this probability, else 0.
fn bernoulli(probability: f64, steps: &mut Builder<'_>, y: &View, states: &View) -> Result<()> {
    let threshold = threshold(probability)?;
    let floating = matches!(
        y.scalar,
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 | Scalar::E4m3 | Scalar::E5m2
    );
    let to = if floating && y.layout.split.is_none() { *y } else { steps.wide(y.dims())? };
    let elements = elements(y.dims(), 1)?;
    let mask = steps.piece(Scalar::I32, elements.div_ceil(32) as i64)?;
    let one = steps.scratch(to.scalar, &Dims::filled(y.dims().rank(), 1))?;
    steps.fill(&one, 1.0);
    let from = one.broadcast(y.dims())?;
    let numbers = Layout { dims: *y.dims(), strides: agree::row_major(y.dims()), split: None };
    let mut nest = LoopNest::new(&[], [0; 3]);
    layout::nests([&to.layout, &from.layout, &numbers], &mut |part| nest = *part);
    nest.offsets = [nest.offsets[0] + to.offset, nest.offsets[1] + from.offset, nest.offsets[2]];
    nest.canonicalise();
    let draw = Some(Draw { elements, threshold });
    steps.random(Random { nest, scalar: to.scalar, scale: 1.0, draw }, [&to, &from, &mask, states]);
    if to.slot != y.slot { steps.transform(y, &to) } else { Ok(()) }
}

/// Numbers of 24 bits from 0 up to 1, without 1, `each` of them for every element of y.
fn uniform(steps: &mut Builder<'_>, y: &View, states: &View, each: i64) -> Result<Vec<View>> {
    let words = elements(y.dims(), each)?;
    let mask = steps.piece(Scalar::I32, words as i64)?;
    // A step that draws looks at one element at least: this one is not the first, so that nothing
    // takes it for a run of all.
    let aside = steps.constant(0.0, &[1])?;
    let nest = LoopNest::new(&[], [aside.offset, aside.offset, 1]);
    let draw = Some(Draw { elements: 32 * words, threshold: EVEN });
    steps.random(Random { nest, scalar: aside.scalar, scale: 1.0, draw }, [&aside, &aside, &mask, states]);
    let compute = std::mem::replace(&mut steps.compute, Compute::Double);
    let strides = agree::row_major(y.dims());
    let half = steps.constant(0.5, &Dims::filled(y.dims().rank(), 1))?;
    let mut all = Vec::new();
    for part in 0..each {
        let mut word = mask.with(*y.dims(), strides);
        word.offset += part;
        word.layout.strides.iter_mut().for_each(|stride| *stride *= each);
        let number = steps.wide(y.dims())?;
        // Words are signed here: of their upper 24 bits the lowest is worth 2^-24, and the middle
        // of them is 0.
        steps.map_with(&number, Function::Floor, &[word], 0.0, [1.0 / 256.0, 1.0])?;
        steps.map_with(&number, Function::Add, &[number, half], 0.0, [1.0 / (1 << 24) as f64, 1.0])?;
        all.push(number);
    }
    steps.compute = compute;
    Ok(all)
}

/// The product of dims and `each`: elements whose mask has fewer bits than an integer counts.
fn elements(dims: &Dims, each: i64) -> Result<u64> {
    let count = dims.product().and_then(|count| count.checked_mul(each)).filter(|&count| count < 1 << 55);
    count.map(|count| count as u64).ok_or_else(|| Error::unsupported(format!("random numbers of {dims}")))
}
