//! Products of bytes over their whole range, of every pair of signs, at every level: kernels take
//! signs from one operand and put back what that adds, multiply four bytes at a time, and finish
//! tiles of many runs at once.

use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout, format};
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Geometry, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling};

use super::runs::{assert_referenced, sources};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::Tensor;

const SIGNS: [[Scalar; 2]; 4] =
    [[Scalar::I8, Scalar::I8], [Scalar::U8, Scalar::I8], [Scalar::I8, Scalar::U8], [Scalar::U8, Scalar::U8]];

const RESULTS: [Scalar; 5] = [Scalar::I8, Scalar::I32, Scalar::F32, Scalar::U8, Scalar::F16];

/// Any byte, often one of those at the ends.
fn byte(scalar: Scalar, rng: &mut Rng) -> f64 {
    let low = if scalar == Scalar::I8 { -128.0 } else { 0.0 };
    low + match rng.below(4) {
        0 => 0.0,
        1 => 255.0,
        _ => rng.below(256) as f64,
    }
}

/// Planes, channels side by side, or channels in blocks where they fill some.
fn layout(dims: &[i64], form: usize) -> Layout {
    let block = [0, 0, 4, 32][form];
    if block > 0 && dims[1] % block == 0 {
        return Layout::blocked(dims, 1, block).unwrap();
    }
    let order = [[0, 1, 2, 3], [0, 2, 3, 1]][form % 2];
    let order: Vec<usize> = if dims.len() == 4 { order.to_vec() } else { (0..dims.len()).collect() };
    Layout { dims: Dims::new(dims), strides: format::packed_strides(dims, &order).unwrap(), split: None }
}

/// What follows the sums, by number; the bias is one per channel.
fn terms<'a>(case: usize, bias: &'a Tensor, scalar: Scalar) -> Terms<'a> {
    // Where the sums of many products would all be the largest byte.
    let alpha = if scalar.size() == 1 { 1.0 / 512.0 } else { 1.0 };
    let scaling = Scaling { alpha, beta: [0.0, 0.0, 0.0, 2.0][case % 4] };
    let activation = [
        None,
        Some(Activation { function: Function::Relu, parameter: 0.0 }),
        Some(Activation { function: Function::ClippedReluOrNan, parameter: 60.0 }),
    ][case % 3];
    Terms { scaling, z: None, bias: (case % 5 > 2).then_some(bias.side()), activation }
}

fn convolution(case: usize, conv: &Convolution, direction: Direction, form: usize, rng: &mut Rng) {
    let ([a, b], result) = (SIGNS[case % 4], RESULTS[case / 4 % 5]);
    let dims = conv.dims(direction);
    let tensor = |at: usize, scalar: Scalar| Tensor::new(layout(dims[at], form), scalar);
    let dst = tensor(0, result).fill(|| rng.below(9) as f64);
    let mut a = tensor(1, a).fill(|| byte(a, rng));
    let mut b = tensor(2, b).fill(|| byte(b, rng));
    let mut of_bias = vec![1; dims[0].len()];
    of_bias[1] = dims[0][1];
    let mut bias = Tensor::new(layout(&of_bias, 0), Scalar::F32).fill(|| rng.below(99) as f64 - 49.0);
    let bias_of_terms = bias.clone();
    let terms = terms(case, &bias_of_terms, result);
    let steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Int32, &terms).unwrap();
    let mut none = dst.clone();
    let at = sources(&steps[0], [&mut a, &mut b, &mut none, &mut bias]);
    assert_referenced(&steps, &dst, &at, format_args!("case {case}, {direction:?}"));
}

#[test]
fn random_convolutions_of_bytes_agree_with_the_reference() {
    let mut rng = Rng(31);
    for case in 0..400 {
        let conv = Convolution::random(100_000, &mut rng);
        // Groups of channels need not be whole blocks.
        let form = rng.below(if conv.geometry.groups > 1 { 2 } else { 4 });
        convolution(case, &conv, DIRECTIONS[case / 3 % 3], form, &mut rng);
    }
}

/// A layer of `k` filters over `c` channels, in one image.
fn layer([c, k]: [i64; 2], [taps, stride, padding]: [i64; 3], extents: [i64; 2], flip: bool) -> Convolution {
    let out = |d: usize| (extents[d] + 2 * padding - taps) / stride + 1;
    Convolution {
        geometry: Geometry {
            padding: Dims::new(&[padding; 2]),
            strides: Dims::new(&[stride; 2]),
            dilation: Dims::new(&[1, 1]),
            groups: 1,
            flip,
        },
        x: vec![1, c, extents[0], extents[1]],
        w: vec![k, c, taps, taps],
        y: vec![1, k, out(0), out(1)],
    }
}

/// Layers of networks, of few pixels: many channels, whole and not whole cells, windows that leave
/// the image, strides.
#[test]
fn layers_of_bytes_agree_with_the_reference() {
    let mut rng = Rng(32);
    for case in 0..96 {
        let [c, k] = [[64, 96], [32, 160], [67, 70], [8, 64], [3, 130], [100, 33]][case / 4 % 6];
        let taps = rng.pick(&[1, 1, 3]);
        let (stride, padding) = (rng.pick(&[1, 1, 2]), if taps == 3 { rng.below(2) as i64 } else { 0 });
        let extents = [5, 9].map(|least| least + rng.below(14) as i64);
        let conv = layer([c, k], [taps, stride, padding], extents, case % 7 == 0);
        convolution(case, &conv, Direction::Forward, case / 24, &mut rng);
    }
}

/// First layers with channels side by side, whose taps of a row are one run: whole and not whole
/// cells of it, filters that fill vectors and that do not.
#[test]
fn runs_of_bytes_agree_with_the_reference() {
    const SIDE_BY_SIDE: usize = 1;
    let mut rng = Rng(34);
    for case in extent::cases(15, 120) {
        let channels = rng.pick(&[2, 3, 3, 4, 5, 6, 12]);
        let filters = rng.pick(&[17, 24, 64, 70, 130]);
        let taps = rng.pick(&[2, 3, 5, 7]);
        let shape = [taps, rng.pick(&[1, 2, 3]), rng.below(taps as usize) as i64];
        let extents = [9, 31].map(|least| least + rng.below(14) as i64);
        let conv = layer([channels, filters], shape, extents, case % 7 == 0);
        convolution(case, &conv, Direction::Forward, SIDE_BY_SIDE, &mut rng);
    }
}

/// Sums that take several stretches, and rows and columns of every remainder.
#[test]
fn deep_products_of_bytes_agree_with_the_reference() {
    let mut rng = Rng(33);
    for case in 0..80 {
        let ([of_a, of_b], result) = (SIGNS[case % 4], RESULTS[case / 4 % 5]);
        let [m, n] = [1 + rng.below(70) as i64, 1 + rng.below(140) as i64];
        let k = rng.pick(&[5, 64, 1537, 2048, 3300]) + rng.below(4) as i64 * rng.below(2) as i64;
        let mut matrix = |rows: i64, columns: i64, scalar: Scalar| {
            let dims = [1, rows, columns];
            let order = rng.pick(&[[0, 1, 2], [0, 1, 2], [0, 2, 1]]);
            Tensor::packed(&dims, &order, scalar)
        };
        let (c, a, b) = (matrix(m, n, result), matrix(m, k, of_a), matrix(k, n, of_b));
        let bias = matrix(1, n, Scalar::F32);
        let c = c.fill(|| rng.below(9) as f64);
        let (mut a, mut b) = (a.fill(|| byte(of_a, &mut rng)), b.fill(|| byte(of_b, &mut rng)));
        let mut bias = bias.fill(|| rng.below(99) as f64 - 49.0);
        let bias_of_terms = bias.clone();
        let terms = terms(case, &bias_of_terms, result);
        let step = Contract::matmul(c.side(), a.side(), b.side(), Accumulate::Int32, &terms).unwrap();
        let mut none = c.clone();
        let at = sources(&step, [&mut a, &mut b, &mut none, &mut bias]);
        assert_referenced(&[step], &c, &at, format_args!("case {case}"));
    }
}
