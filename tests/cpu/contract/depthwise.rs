//! Gradients of depthwise filters: sums over the pixels of single channels, in one to three
//! dimensions, in planes and with channels side by side.

use cudnn::backend::{Isa, Machine, reference};
use cudnn::dtype::Scalar;
use cudnn::layout::format::packed_strides;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Geometry, Terms};
use cudnn::ops::{Contract, Scaling};

use super::cpu::assert_images_do_not_depend_on_the_batch;
use super::runs::{assert_referenced, run};
use testkit::convolution::{Convolution, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::Tensor;

pub const TYPES: [[Scalar; 3]; 4] = [
    [Scalar::F32; 3],
    [Scalar::F16; 3],
    [Scalar::F32, Scalar::Bf16, Scalar::F32],
    [Scalar::F16, Scalar::F32, Scalar::F16],
];

/// One dimension: elements, taps, padding, stride and dilation.
pub type Dim = [i64; 5];

pub fn convolution(images: i64, channels: i64, dims: &[Dim], flip: bool) -> Convolution {
    let of = |k: usize| dims.iter().map(|dim| dim[k]).collect::<Vec<_>>();
    let out = |dim: &Dim| {
        let [extent, taps, pad, stride, dilation] = *dim;
        (extent + 2 * pad - (taps - 1) * dilation - 1) / stride + 1
    };
    let with = |first: [i64; 2], rest: Vec<i64>| first.into_iter().chain(rest).collect();
    Convolution {
        x: with([images, channels], of(0)),
        w: with([channels, 1], of(1)),
        y: with([images, channels], dims.iter().map(out).collect()),
        geometry: Geometry {
            padding: Dims::new(&of(2)),
            strides: Dims::new(&of(3)),
            dilation: Dims::new(&of(4)),
            groups: channels,
            flip,
        },
    }
}

/// With the channels side by side and `gap` elements between pixels, or in planes.
pub fn tensor(dims: &[i64], near: bool, gap: i64, scalar: Scalar, value: impl FnMut() -> f64) -> Tensor {
    let rank = dims.len();
    let order: Vec<usize> =
        if near { [0].into_iter().chain(2..rank).chain([1]).collect() } else { (0..rank).collect() };
    let mut outer = dims.to_vec();
    outer[order[rank - 1]] += gap;
    let strides = packed_strides(&outer, &order).unwrap();
    Tensor::new(Layout { dims: Dims::new(dims), strides, split: None }, scalar).fill(value)
}

fn gradient(conv: &Convolution, tensors: [&Tensor; 3], scaling: Scaling) -> Contract {
    conv.steps(Direction::Filter, tensors, Accumulate::Single, &Terms::scaled(scaling)).unwrap()[0]
}

/// Small integers, of which every sum is exact: the bits of the reference on every machine.
#[test]
fn gradients_of_depthwise_filters_agree_with_the_reference() {
    let mut rng = Rng(31);
    let wide: [&[Dim]; 8] = [
        // More than a piece of a row, and windows that leave it on both sides.
        &[[1500, 7, 3, 1, 1]],
        &[[17_000, 5, 2, 1, 1]],
        &[[700, 3, 100, 1, 90]],
        &[[40, 3, 1, 1, 1], [300, 11, 5, 1, 1]],
        &[[200, 3, 1, 1, 1], [180, 3, 1, 1, 1]],
        &[[6, 3, 1, 1, 1], [14, 3, 1, 1, 1], [15, 3, 1, 1, 1]],
        &[[5, 2, 0, 2, 1], [9, 3, 1, 1, 2], [33, 3, 2, 2, 1]],
        &[[7, 7, 3, 1, 1], [7, 7, 3, 1, 1]],
    ];
    for case in extent::cases(30, 120) {
        let mut dims = match wide.get(case / 2) {
            Some(dims) => dims.to_vec(),
            None => (0..1 + case % 3)
                .map(|_| {
                    let taps = rng.pick(&[1, 2, 3, 3, 5, 7]);
                    let dilation = rng.pick(&[1, 1, 1, 2, 4]);
                    let extent = (taps - 1) * dilation + 1 + rng.below(30) as i64;
                    [extent, taps, rng.below(5) as i64, rng.pick(&[1, 1, 2, 3]), dilation]
                })
                .collect(),
        };
        if rng.below(6) == 0 {
            dims[0] = [dims[0][0], 1, 0, 1, 1];
        }
        let long = dims.iter().map(|dim| dim[0]).product::<i64>() > 4000;
        let most = if long { &[8, 16, 19, 33][..] } else { &[1, 5, 8, 16, 19, 33, 64, 70, 300] };
        let (near, gap) = (case % 2 == 0, rng.pick(&[0, 0, 3]));
        let conv = convolution(1 + rng.below(3) as i64, rng.pick(most), &dims, rng.below(3) == 0);
        let types = TYPES[rng.below(4)];
        // Of few products, so that halves hold every sum.
        let mut value = || if rng.below(8) == 0 { rng.below(5) as f64 - 2.0 } else { 0.0 };
        let shapes = conv.dims(Direction::Filter);
        let mut dst = tensor(shapes[0], near, 0, types[0], || 1.0);
        let [mut a, mut b] = [1, 2].map(|at| tensor(shapes[at], near, gap, types[at], &mut value));
        let scaling = Scaling { alpha: [1.0, 2.0][case / 2 % 2], beta: [0.0, 0.0, -1.0][case % 3] };
        if scaling.beta == 0.0 {
            dst = dst.fill(|| f64::NAN);
        }
        let step = gradient(&conv, [&dst, &a, &b], scaling);
        assert_referenced(&[step], &dst, &[a.base(), b.base()], format_args!("case {case}, {dims:?}"));
    }
}

/// Real numbers: the same bits whatever the number of threads and whether operands are narrow, and
/// within the bound.
#[test]
fn gradients_of_depthwise_filters_keep_their_bits() {
    let mut rng = Rng(32);
    let unit = f64::from(f32::EPSILON) / 2.0;
    let layers: [&[Dim]; 4] = [
        &[[3000, 7, 3, 1, 1]],
        &[[40, 3, 1, 1, 1], [41, 3, 1, 1, 1]],
        &[[40, 5, 2, 2, 1], [300, 5, 2, 2, 1]],
        &[[6, 3, 1, 1, 1], [20, 3, 1, 1, 1], [21, 3, 1, 1, 1]],
    ];
    for (case, dims) in layers.iter().enumerate() {
        for near in [false, true] {
            let conv = convolution(2, 39, dims, case % 2 == 1);
            // What halves hold.
            let mut real = || (rng.word() >> 54) as f64 / 512.0 - 1.0;
            let shapes = conv.dims(Direction::Filter);
            let mut tensors = [0, 1, 2].map(|at| tensor(shapes[at], near, 0, Scalar::F32, &mut real));
            let [dst, a, b] = &mut tensors;
            let step = gradient(&conv, [dst, a, b], Scaling::MOVE);
            let narrow = |wide: &Tensor| {
                let mut all = Vec::new();
                testkit::tensor::each(&wide.layout.dims, |index| all.push(wide.get(index)));
                let mut next = all.into_iter();
                tensor(&wide.layout.dims, near, 0, Scalar::F16, || next.next().unwrap())
            };
            let [mut half_a, mut half_b] = [narrow(a), narrow(b)];
            let half_step = gradient(&conv, [dst, &half_a, &half_b], Scaling::MOVE);
            for isa in Isa::available() {
                let mut results = Vec::new();
                for threads in [1, 2, 3, 8] {
                    for (step, a, b) in [(&step, &mut *a, &mut *b), (&half_step, &mut half_a, &mut half_b)] {
                        results.push(run(&[*step], dst, &[a.base(), b.base()], Machine { isa, threads }));
                    }
                }
                let same = results.iter().all(|got| got.same_bytes(&results[0]));
                assert!(same, "case {case} on {isa:?}: {step}");
                let products = conv.y[0] * conv.y[2..].iter().product::<i64>();
                let sums = results[0].base().cast::<f32>();
                // SAFETY: as above.
                unsafe {
                    reference::sums(&step, a.base(), b.base(), |at, sum, magnitude| {
                        let error = (f64::from(sums.offset(at[0] as isize).read()) - sum).abs();
                        let bound = 2.0 * products as f64 * unit * magnitude;
                        assert!(error <= bound, "case {case} on {isa:?}: {error}");
                    });
                }
            }
        }
    }
}

/// Windows of more taps than there are outputs look like gradients of filters: an image has its
/// bits in any batch all the same.
#[test]
fn windows_of_many_taps_have_the_same_bits_in_any_batch() {
    let mut rng = Rng(33);
    let layers: [&[Dim]; 5] = [
        &[[90, 70, 3, 1, 1]],
        &[[7, 7, 1, 1, 1], [7, 7, 1, 1, 1]],
        &[[7, 7, 3, 1, 1], [7, 7, 3, 1, 1]],
        &[[5, 4, 1, 1, 1], [7, 6, 1, 1, 1], [8, 7, 1, 1, 1]],
        &[[40, 33, 0, 2, 1], [3, 1, 0, 1, 1]],
    ];
    for dims in layers {
        for near in [false, true] {
            let conv = convolution(3, 17, dims, false);
            let mut real = || rng.real();
            let shapes = conv.dims(Direction::Forward);
            let tensors = [0, 1, 2].map(|at| tensor(shapes[at], near, 0, Scalar::F32, &mut real));
            assert_images_do_not_depend_on_the_batch(conv, tensors, &[0, 2]);
        }
    }
}
