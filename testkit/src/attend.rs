//! Attention in one step, and its gradients: what two cores leave, within a bound, and nothing
//! else.

use cudnn::dtype::Scalar;
use cudnn::ops::{Attend, AttendBackward};

use crate::run_step;
use crate::steps::{Owned, Row, attention};

/// The number of these bytes.
fn number(bytes: &[u8], scalar: Scalar) -> f64 {
    let two = || u16::from_ne_bytes([bytes[0], bytes[1]]);
    match scalar {
        Scalar::F32 => f64::from(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        Scalar::F16 => half::f16::from_bits(two()).to_f64(),
        _ => half::bf16::from_bits(two()).to_f64(),
    }
}

/// Where the elements of an operand of these extents and strides lie, in bytes from its pointer.
fn places(extents: &[i64], strides: &[i64], size: usize) -> Vec<isize> {
    let mut all = vec![0];
    for (&extent, &stride) in extents.iter().zip(strides) {
        all = all.iter().flat_map(|at| (0..extent).map(move |index| at + index * stride)).collect();
    }
    all.into_iter().map(|at: i64| at as isize * size as isize).collect()
}

/// Results of type `scalar` differ by no more than this times the largest value: by what sums in
/// binary32 lose of scores of a hundred; in 16 bits by the rounding of the result, and of each
/// weight.
fn bound(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::F32 => 2e-5,
        Scalar::F16 => 1.1 / 1024.0,
        _ => 1.1 / 128.0,
    }
}

/// What a row leaves on two cores.
struct Left<'a> {
    row: &'a Row,
    got: Vec<Vec<u8>>,
    want: &'a [Vec<u8>],
}

impl Left<'_> {
    /// The first byte of an element, which lies so many from the operand's pointer.
    fn first(&self, operand: usize, at: isize) -> usize {
        (run_step::first(&self.row.operands[operand]) + at) as usize
    }

    /// The largest magnitude of these elements of an operand.
    fn largest(&self, operand: usize, places: &[isize], scalar: Scalar) -> f64 {
        let bytes = |&at: &isize| &self.want[operand][self.first(operand, at)..];
        places.iter().map(|at| number(bytes(at), scalar).abs()).fold(1e-30, f64::max)
    }

    /// Each of these elements is as near the wanted one as a bound says.
    fn check(&mut self, operand: usize, places: &[isize], scalar: Scalar, bound: impl Fn(f64) -> f64) {
        for &at in places {
            let first = self.first(operand, at);
            let wanted = &self.want[operand][first..][..scalar.size()];
            let own = &mut self.got[operand][first..][..scalar.size()];
            let [x, y] = [&*own, wanted].map(|bytes| number(bytes, scalar));
            let is_near = x == y || (x - y).abs() <= bound(y);
            let (name, row) = (&self.row.name, self.row);
            assert!(is_near, "{name}: byte {at} of operand {operand} is {x} instead of {y}\n{row}");
            own.copy_from_slice(wanted);
        }
    }

    /// Nothing but what was checked differs.
    fn check_rest(&self) {
        for (k, (got, want)) in self.got.iter().zip(self.want).enumerate() {
            let (name, row) = (&self.row.name, self.row);
            assert!(got == want, "{name}: more than elements of operand {k} is written\n{row}");
        }
    }
}

/// Whether a step is attention or its gradients, whose sums have an order of each core's own.
pub fn is_of_attention(step: &Owned) -> bool {
    matches!(step, Owned::Attend(_) | Owned::AttendBackward(_))
}

/// Every result is near the wanted one, and all other bytes are the same. Each operand has the
/// guards of [`run_step::contents`]. Panics where that is not so.
pub fn assert_near(row: &Row, got: &[Vec<u8>], want: &[Vec<u8>]) {
    let mut left = Left { row, got: got.to_vec(), want };
    match &row.step {
        Owned::Attend(step) => check_results(&mut left, step),
        Owned::AttendBackward(step) => check_gradients(&mut left, step),
        _ => panic!("{row}"),
    }
    left.check_rest();
}

fn check_results(left: &mut Left<'_>, step: &Attend) {
    let [batch, heads, rows, _] = step.extents;
    let (dims, size) = (attention::matrices(step), step.scalar.size());
    // What multiplies weights is below 2.
    let most = if step.dropout.is_some() { 2.0 } else { 1.0 };
    let largest = most * left.largest(4, &places(&dims[3], &step.strides[3], size), step.scalar);
    left.check(0, &places(&dims[0], &step.strides[0], size), step.scalar, |_| bound(step.scalar) * largest);
    if let Some(strides) = step.stats {
        let places = places(&[batch, heads, rows], &strides, 4);
        left.check(1, &places, Scalar::F32, |y| 1e-5 * y.abs().max(1.0));
    }
}

/// A gradient is a sum of terms that may cancel: it counts as no less than a term of the largest
/// factors.
fn check_gradients(left: &mut Left<'_>, step: &AttendBackward) {
    let (scalar, size) = (step.forward.scalar, step.forward.scalar.size());
    let places: Vec<_> = attention::gradients(step)
        .into_iter()
        .zip(step.strides)
        .map(|(dims, strides)| places(&dims, &strides, size))
        .collect();
    let bound = if scalar == Scalar::F32 { 1e-4 } else { 2.0 * bound(scalar) };
    for (operand, places) in places.iter().enumerate().take(AttendBackward::DO) {
        let largest = left.largest(operand, places, scalar).max(1.0);
        left.check(operand, places, scalar, |_| bound * largest);
    }
    if let Some((scalar, strides)) = step.bias {
        let places = self::places(&attention::bias_gradient(step, strides), &strides, scalar.size());
        let operand = AttendBackward::BIAS;
        let largest = left.largest(operand, &places, scalar).max(1.0);
        left.check(operand, &places, scalar, |_| bound.max(self::bound(scalar)) * largest);
    }
}
