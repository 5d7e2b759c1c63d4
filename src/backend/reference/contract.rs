//! The obvious loop of contractions: one element of the destination at a time, one product at a
//! time, in binary64.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, MAX_AXES};
use crate::ops::activation::Activation;
use crate::ops::contract::{Accumulate, Contract, Phases, Role};
use crate::ops::function::Function;
use crate::ops::{Compute, Scaling};

/// What is called with an index, and the offsets of all operands there.
type Visit<'a> = &'a mut dyn FnMut(&mut [i64; MAX_AXES], [i64; 5]);

/// Calls `f` with every index tuple of `axes`, the last one turning fastest; `offsets` are those
/// where all of these are 0.
fn for_each(axes: &[(usize, Axis<5>)], index: &mut [i64; MAX_AXES], mut offsets: [i64; 5], f: Visit<'_>) {
    let Some((&(at, axis), inner)) = axes.split_first() else { return f(index, offsets) };
    for i in 0..axis.extent {
        index[at] = i;
        for_each(inner, index, offsets, f);
        for (offset, stride) in offsets.iter_mut().zip(axis.strides) {
            // Behind the last index it may leave 64 bits, and is not used.
            *offset = offset.wrapping_add(stride);
        }
    }
}

/// Calls `f` for every element of the destination with the offsets of all operands where its K
/// loops begin, the sum of its products, and the sum of their magnitudes; both in binary64, which
/// is exact for bytes.
///
/// # Safety
/// Every element of `a` inside the bounds and every element of `b` that meets one is readable and
/// aligned.
pub unsafe fn sums(step: &Contract, a: *const u8, b: *const u8, mut f: impl FnMut([i64; 5], f64, f64)) {
    let all = || step.nest.axes().iter().copied().enumerate();
    let outer: Vec<_> = all().filter(|&(i, _)| step.roles()[i] != Role::K).collect();
    let inner: Vec<_> = all().filter(|&(i, _)| step.roles()[i] == Role::K).collect();
    for_each(&outer, &mut [0; MAX_AXES], step.nest.offsets, &mut |index, begin| {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for_each(&inner, index, begin, &mut |index, offsets| {
            let inside = step.bounds().iter().all(|bound| {
                let [first, second] = bound.axes.map(|axis| index[usize::from(axis)]);
                (0..bound.extent).contains(&bound.position(first, second))
            });
            if inside {
                // SAFETY: the element of `a` is inside the bounds, and that of `b` meets it: both
                // are readable.
                let (x, y): (f64, f64) =
                    unsafe { (load(step.a, a, offsets[1]), load(step.b, b, offsets[2])) };
                sum += x * y;
                magnitude += (x * y).abs();
            }
        });
        f(begin, sum, magnitude);
    });
}

/// Runs `step`. Sums are exact or in binary64, whatever the step accumulates in; the epilogue is as
/// the step says.
///
/// # Safety
/// As for [`sums`] with `at[1]` and `at[2]`; every element of the destination is writable, and
/// readable if `beta != 0`, every element of z and of the bias readable where the epilogue reads
/// them; all aligned.
pub unsafe fn contract(step: &Contract, at: &[*mut u8]) {
    // SAFETY: every element that the sums and the epilogue read is readable, and the destination is
    // writable.
    unsafe {
        sums(step, at[1], at[2], |offsets, sum, _| {
            let result = epilogue(step, at, offsets, sum);
            store(step.dst, at[0], offsets[0], result, Scaling::MOVE);
        });
    }
}

/// The value of one element of the destination.
///
/// # Safety
/// As for [`contract`].
unsafe fn epilogue(step: &Contract, at: &[*mut u8], offsets: [i64; 5], sum: f64) -> f64 {
    let rounded = |x: f64| match step.real() {
        Compute::Single => f64::from(x as f32),
        Compute::Double => x,
    };
    let epilogue = &step.epilogue;
    let read = |scalar: Scalar, slot: usize, operand: usize| -> f64 {
        // SAFETY: the operand has this element, which is read only where its factor is not 0.
        unsafe { load(scalar, at[slot], offsets[operand]) }
    };
    let sum = if step.accumulate == Accumulate::Single { f64::from(sum as f32) } else { sum };
    let mut r = rounded(rounded(epilogue.scaling.alpha) * rounded(sum));
    if epilogue.scaling.beta != 0.0 {
        r = rounded(r + rounded(rounded(epilogue.scaling.beta) * rounded(read(step.dst, 0, 0))));
    }
    if let (Some((scalar, alpha2)), Some(slot)) = (epilogue.z, step.z_slot())
        && alpha2 != 0.0
    {
        r = rounded(r + rounded(rounded(alpha2) * rounded(read(scalar, slot, 3))));
    }
    if let (Some(scalar), Some(slot)) = (epilogue.bias, step.bias_slot()) {
        r = rounded(r + rounded(read(scalar, slot, 4)));
    }
    rounded(activate(epilogue.activation, r))
}

fn activate(activation: Option<Activation>, x: f64) -> f64 {
    let Some(Activation { function, parameter }) = activation else { return x };
    match function {
        Function::ReluOrNan | Function::ClippedReluOrNan if x.is_nan() => x,
        Function::Relu | Function::ReluOrNan => x.max(0.0),
        Function::ClippedRelu | Function::ClippedReluOrNan => x.max(0.0).min(parameter),
        Function::Elu if x > 0.0 => x,
        Function::Elu => parameter * x.exp_m1(),
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
        Function::Swish => x / (1.0 + (-parameter * x).exp()),
        other => unreachable!("{other:?} has no formula here: write one"),
    }
}

impl Kind for Contract {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { contract(self, &at.iter().map(|address| address.pointer()).collect::<Vec<_>>()) };
        Ok(())
    }
}

impl Kind for Phases {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of each phase.
        self.0.iter().try_for_each(|step| unsafe { step.run(at) })
    }
}
