//! Attention in one step: what two cores leave, within a bound, and nothing else.

use cudnn::dtype::Scalar;
use cudnn::ops::Attend;

use crate::run_step;
use crate::steps::Row;

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

/// Every result is near the wanted one, and all other bytes are the same. Each operand has the
/// guards of [`run_step::contents`]. Panics where that is not so.
pub fn assert_near(row: &Row, step: &Attend, got: &[Vec<u8>], want: &[Vec<u8>]) {
    let [batch, heads, rows, keys] = step.extents;
    let size = step.scalar.size();
    let bytes_at = |bytes: &[u8], k: usize, at: isize, size: usize| {
        let first = (run_step::first(&row.operands[k]) + at) as usize;
        bytes[first..][..size].to_vec()
    };
    let values = places(&[batch, step.heads[1], keys, step.widths[1]], &step.strides[3], size);
    let of_values = values.iter().map(|&at| number(&bytes_at(&want[4], 4, at, size), step.scalar).abs());
    let largest = of_values.fold(1e-30, f64::max);
    let mut results =
        vec![(0, places(&[batch, heads, rows, step.widths[1]], &step.strides[0], size), step.scalar)];
    if let Some(strides) = step.stats {
        results.push((1, places(&[batch, heads, rows], &strides, 4), Scalar::F32));
    }
    let mut got = got.to_vec();
    for (k, places, scalar) in results {
        for at in places {
            let size = scalar.size();
            let [own, wanted] = [&got[k], &want[k]].map(|bytes| bytes_at(bytes, k, at, size));
            let [x, y] = [&own, &wanted].map(|bytes| number(bytes, scalar));
            let bound = if k == 0 { bound(scalar) * largest } else { 1e-5 * y.abs().max(1.0) };
            let is_near = x == y || (x - y).abs() <= bound;
            assert!(is_near, "{}: byte {at} of operand {k} is {x} instead of {y}\n{row}", row.name);
            let first = (run_step::first(&row.operands[k]) + at) as usize;
            got[k][first..][..size].copy_from_slice(&wanted);
        }
    }
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(got == want, "{}: more than elements of operand {k} is written\n{row}", row.name);
    }
}
