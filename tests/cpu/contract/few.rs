//! Layers of few channels, and of few pixels and many filters: what they have kernels of their own
//! for, against the reference.

use cudnn::backend::{Isa, Machine, reference};
use cudnn::dtype::Scalar;
use cudnn::layout::Dims;
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Geometry, Role, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling};

use super::runs::{assert_bytes, assert_is_steady, assert_referenced, run, sources, with_values};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::Tensor;

/// NCHW and NHWC.
const ORDERS: [[usize; 4]; 2] = [[0, 1, 2, 3], [0, 2, 3, 1]];

fn tensor(dims: &[i64], order: &[usize; 4], scalar: Scalar, value: impl FnMut() -> f64) -> Tensor {
    Tensor::packed(dims, order, scalar).fill(value)
}

/// `c` and `k` channels of a group, images, their extents, and taps.
struct Layer {
    groups: i64,
    channels: [i64; 2],
    images: i64,
    extents: [i64; 2],
    taps: [i64; 2],
}

impl Layer {
    fn convolution(&self, strides: [i64; 2], dilation: [i64; 2], rng: &mut Rng) -> Convolution {
        let ([c, k], g) = (self.channels, self.groups);
        let padding = [rng.below(3) as i64, rng.below(4) as i64];
        let out = |d: usize| {
            (self.extents[d] + 2 * padding[d] - (self.taps[d] - 1) * dilation[d] - 1) / strides[d] + 1
        };
        Convolution {
            x: vec![self.images, c * g, self.extents[0], self.extents[1]],
            w: vec![k * g, c, self.taps[0], self.taps[1]],
            y: vec![self.images, k * g, out(0), out(1)],
            geometry: Geometry {
                padding: Dims::new(&padding),
                strides: Dims::new(&strides),
                dilation: Dims::new(&dilation),
                groups: g,
                flip: rng.below(3) == 0,
            },
        }
    }
}

/// On every machine the bits of the reference, of small integers.
fn assert_is_exact(
    conv: &Convolution, direction: Direction, scalars: [Scalar; 3], case: usize, rng: &mut Rng,
) {
    let dims = conv.dims(direction);
    // Most often one format, else any.
    let format = ORDERS[case / 3 % 2];
    let orders = [0; 3].map(|_| if rng.below(4) == 0 { rng.pick(&ORDERS) } else { format });
    let mut any = |at: usize| tensor(dims[at], &orders[at], scalars[at], || rng.below(9) as f64 - 4.0);
    let [dst, mut a, mut b] = [0, 1, 2].map(&mut any);
    let mut z = any(0);
    let mut bias = tensor(&[1, dims[0][1], 1, 1], &ORDERS[0], Scalar::F32, || rng.below(9) as f64 - 4.0);
    let scaling = Scaling { alpha: [1.0, 2.0][case % 2], beta: [0.0, 0.0, -1.0][case % 3] };
    let terms = match case % 5 {
        0 => Terms {
            scaling,
            z: Some((z.side(), 3.0)),
            bias: Some(bias.side()),
            activation: Some(Activation { function: Function::ReluOrNan, parameter: 0.0 }),
        },
        1 => Terms { bias: Some(bias.side()), ..Terms::scaled(scaling) },
        2 | 3 => Terms::scaled(scaling),
        _ => Terms::scaled(Scaling::MOVE),
    };
    let steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
    let at = sources(&steps[0], [&mut a, &mut b, &mut z, &mut bias]);
    assert_referenced(&steps, &dst, &at, format_args!("case {case}, {direction:?}"));
}

const TYPES: [[Scalar; 3]; 3] =
    [[Scalar::F32; 3], [Scalar::F16; 3], [Scalar::F32, Scalar::Bf16, Scalar::F32]];

#[test]
fn layers_of_few_channels_agree_with_the_reference() {
    let mut rng = Rng(21);
    for case in 0..90 {
        let direction = DIRECTIONS[case % 3];
        let few = rng.pick(&[1, 2, 3, 4, 8, 11, 16, 17]);
        let many = rng.pick(&[8, 16, 19, 32, 33, 64, 70]);
        let layer = Layer {
            groups: rng.pick(&[1, 1, 1, 2]),
            channels: if rng.below(4) == 0 { [many, few] } else { [few, many] },
            images: 1 + rng.below(3) as i64,
            extents: [rng.pick(&[7, 9, 14]), rng.pick(&[8, 15, 20, 33])],
            taps: rng.pick(&[[3, 3], [3, 3], [5, 4], [7, 7], [1, 3], [3, 1]]),
        };
        let strides = rng.pick(&[[1, 1], [1, 1], [2, 2], [1, 3]]);
        let dilation = rng.pick(&[[1, 1], [1, 1], [1, 1], [2, 1], [1, 2]]);
        let reach = |d: usize| (layer.taps[d] - 1) * dilation[d] + 1;
        if (0..2).any(|d| reach(d) > layer.extents[d]) {
            continue;
        }
        let conv = layer.convolution(strides, dilation, &mut rng);
        assert_is_exact(&conv, direction, TYPES[case / 3 % 3], case, &mut rng);
    }
}

/// Groups of a few channels side by side, whole vectors of them and not: lanes are of several
/// groups.
fn layer_of_groups(case: usize, rng: &mut Rng) -> Convolution {
    let taps = rng.pick(&[[3, 3], [3, 3], [1, 1], [2, 5], [1, 3]]);
    let layer = Layer {
        groups: rng.pick(&[5, 8, 13, 32]),
        channels: [rng.pick(&[1, 1, 2, 3, 4, 7]), rng.pick(&[1, 2, 3, 4, 7, 8])],
        images: 1 + rng.below(2) as i64,
        // Some rows are longer than a block, which others have many of.
        extents: if case % 8 == 7 { [5, 700] } else { [rng.pick(&[7, 12]), rng.pick(&[7, 8, 29])] },
        taps,
    };
    layer.convolution(rng.pick(&[[1, 1], [1, 1], [2, 2], [1, 3]]), rng.pick(&[[1, 1], [1, 1], [2, 1]]), rng)
}

#[test]
fn groups_of_few_channels_agree_with_the_reference() {
    let mut rng = Rng(23);
    for case in 0..72 {
        let conv = layer_of_groups(case, &mut rng);
        // Three cases of each format in turns; most here are NHWC.
        let format = if case % 8 < 7 { 6 * case + 3 + case % 3 } else { case };
        assert_is_exact(&conv, DIRECTIONS[case % 2], TYPES[case / 2 % 3], format, &mut rng);
    }
}

/// Several filters a channel, or channels a filter, in planes and side by side.
#[test]
fn channels_with_a_few_filters_agree_with_the_reference() {
    let mut rng = Rng(26);
    for case in 0..90 {
        let few = rng.pick(&[1, 1, 1, 2, 3]);
        let channels = [few, rng.pick(&[1, 2, 3, 5, 8])];
        let layer = Layer {
            groups: rng.pick(&[1, 3, 9]),
            channels: if rng.below(4) == 0 { [channels[1], few] } else { channels },
            images: 1 + rng.below(2) as i64,
            extents: [rng.pick(&[7, 12]), rng.pick(&[7, 14, 40])],
            taps: rng.pick(&[[3, 3], [3, 3], [5, 5], [1, 3], [3, 1]]),
        };
        let strides = rng.pick(&[[1, 1], [1, 1], [2, 2], [1, 3]]);
        let dilation = if layer.taps[1] < 5 { rng.pick(&[[1, 1], [1, 1], [1, 2]]) } else { [1, 1] };
        let conv = layer.convolution(strides, dilation, &mut rng);
        assert_is_exact(&conv, DIRECTIONS[case / 6 % 3], TYPES[case / 2 % 3], case, &mut rng);
    }
}

/// Gradients of filters that are few vectors of lanes, whose taps are sums over many pixels.
#[test]
fn gradients_of_few_filters_agree_with_the_reference() {
    let mut rng = Rng(37);
    for case in 0..24 {
        let layer = Layer {
            groups: 1,
            channels: [rng.pick(&[3, 8, 20]), rng.pick(&[8, 16, 24, 40])],
            images: 1 + rng.below(2) as i64,
            extents: [rng.pick(&[14, 28]), rng.pick(&[28, 40])],
            taps: rng.pick(&[[3, 3], [3, 3], [1, 3]]),
        };
        let conv = layer.convolution(rng.pick(&[[1, 1], [1, 1], [2, 2]]), [1, 1], &mut rng);
        // Most in NHWC, whose filters are lanes, in every type.
        let format = if case % 6 < 5 { 6 * case + 3 + case % 3 } else { case };
        assert_is_exact(&conv, Direction::Filter, TYPES[case % TYPES.len()], format, &mut rng);
    }
}

/// Groups whose channels, and most often filters, fill vectors.
#[test]
fn groups_of_vectors_of_channels_agree_with_the_reference() {
    let mut rng = Rng(27);
    for case in 0..48 {
        let layer = Layer {
            groups: rng.pick(&[2, 3, 5]),
            channels: [rng.pick(&[8, 16]), rng.pick(&[8, 16, 17, 21])],
            images: 1 + rng.below(2) as i64,
            extents: if case % 8 == 7 { [5, 700] } else { [rng.pick(&[7, 12]), rng.pick(&[8, 15, 29])] },
            taps: rng.pick(&[[3, 3], [3, 3], [1, 1], [2, 5], [3, 1]]),
        };
        let strides = rng.pick(&[[1, 1], [1, 1], [2, 2], [1, 3]]);
        let conv = layer.convolution(strides, rng.pick(&[[1, 1], [1, 1], [2, 1]]), &mut rng);
        let format = if case % 8 < 6 { 6 * case + 3 + case % 3 } else { case };
        assert_is_exact(&conv, DIRECTIONS[case % 2], TYPES[case / 2 % 3], format, &mut rng);
    }
}

/// Gradients of 1 x 1 filters over so many pixels that both operands are read along them, in planes
/// and not.
#[test]
fn gradients_along_pixels_agree_with_the_reference_and_keep_their_bits() {
    let mut rng = Rng(29);
    for case in 0..36 {
        let layer = Layer {
            groups: rng.pick(&[1, 1, 3]),
            channels: [rng.pick(&[1, 3, 8, 21, 64]), rng.pick(&[1, 2, 5, 12, 70])],
            images: 1 + rng.below(3) as i64,
            extents: rng.pick(&[[16, 16], [9, 31], [25, 41], [1, 1030], [33, 37]]),
            taps: [1, 1],
        };
        let mut conv = layer.convolution([1, 1], [1, 1], &mut rng);
        conv.geometry.padding = Dims::new(&[0, 0]);
        (conv.y[2], conv.y[3]) = (layer.extents[0], layer.extents[1]);
        assert_is_exact(&conv, Direction::Filter, TYPES[case % 3], case / 4, &mut rng);
        if case % 4 == 0 {
            let dims = conv.dims(Direction::Filter);
            let mut real = |at: usize| tensor(dims[at], &ORDERS[0], Scalar::F32, || rng.real());
            let [mut dst, mut a, mut b] = [0, 1, 2].map(&mut real);
            let terms = Terms::scaled(Scaling::MOVE);
            let steps = conv.steps(Direction::Filter, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
            let tensors = [&mut dst, &mut a, &mut b];
            assert_is_steady(&conv, Direction::Filter, &steps, tensors, format_args!("case {case}"));
        }
    }
}

/// Dilated windows most of whose taps see nothing of the image, of so many channels that a tap is a
/// stretch of the sum or more.
#[test]
fn windows_that_are_mostly_outside_agree_with_the_reference() {
    let mut rng = Rng(28);
    for case in 0..8 {
        let layer = Layer {
            groups: 1,
            channels: [[200, 400][case % 2], [19, 48][case / 2 % 2]],
            images: 1,
            extents: [14, 13],
            taps: [3, 3],
        };
        let mut conv = layer.convolution([1, 1], [9, 8], &mut rng);
        conv.geometry.padding = Dims::new(&[9, 8]);
        (conv.y[2], conv.y[3]) = (14, 13);
        assert_is_exact(&conv, DIRECTIONS[case / 4], TYPES[case % 3], 3 + case % 2, &mut rng);
    }
}

#[test]
fn groups_of_few_channels_keep_their_bits() {
    let mut rng = Rng(24);
    for case in 0..24 {
        let conv = layer_of_groups(case, &mut rng);
        let (direction, dims) = (DIRECTIONS[case % 2], conv.dims(DIRECTIONS[case % 2]));
        let mut real = |at: usize| tensor(dims[at], &ORDERS[1], Scalar::F32, || rng.real());
        let [mut dst, mut a, mut b] = [0, 1, 2].map(&mut real);
        let terms = Terms::scaled(Scaling::MOVE);
        let steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
        assert_is_steady(&conv, direction, &steps, [&mut dst, &mut a, &mut b], format_args!("case {case}"));
    }
}

/// Gradients of the data whose phases are alike, in part or all: by the definition, as phases are
/// what the steps say.
#[test]
fn transposed_layers_follow_the_definition() {
    let mut rng = Rng(25);
    for case in 0..60 {
        let (tap, stride) = rng.pick(&[(2, 2), (4, 2), (3, 2), (6, 3), (7, 5), (9, 4), (20, 10), (1, 3)]);
        let layer = Layer {
            groups: [1, 1, 1, 2][case % 4],
            channels: [rng.pick(&[1, 3, 8, 21]), rng.pick(&[2, 8, 33])],
            images: 1 + rng.below(2) as i64,
            extents: [rng.pick(&[7, 9, 12]), rng.pick(&[20, 21, 43])],
            taps: [rng.pick(&[1, 2, 3]), tap],
        };
        let strides = [rng.pick(&[1, 2, 3]), stride];
        let dilation = [1, if tap < 7 { rng.pick(&[1, 1, 2, 3]) } else { 1 }];
        let conv = layer.convolution(strides, dilation, &mut rng);
        let dims = conv.dims(Direction::Data);
        let order = ORDERS[case / 2 % 2];
        let [dst, mut a, mut b] =
            [0, 1, 2].map(|at| tensor(dims[at], &order, Scalar::F32, || rng.below(9) as f64 - 4.0));
        let terms = Terms::scaled(Scaling::MOVE);
        let steps = conv.steps(Direction::Data, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
        let sums = conv.expected(Direction::Data, &a, &b);
        let want = with_values(&dst, sums.iter().map(|[sum, _]| *sum));
        let (dst, sources) = (dst.fill(|| f64::NAN), [a.base(), b.base()]);
        assert_bytes(&steps, &dst, &sources, &want, format_args!("case {case}"));
    }
}

/// Rows longer than a block of pixels, and sums in several parts.
#[test]
fn gradients_of_filters_over_many_pixels_keep_their_bits() {
    let mut rng = Rng(22);
    let unit = f64::from(f32::EPSILON) / 2.0;
    for (case, (channels, extents, images)) in
        [([8, 32], [5, 600], 2), ([3, 48], [40, 41], 6), ([9, 64], [41, 40], 1)].into_iter().enumerate()
    {
        let layer = Layer { groups: 1, channels, images, extents, taps: [3, 3] };
        let conv = layer.convolution([1, 1], [1, 1], &mut rng);
        let mut real = || rng.real();
        let order = ORDERS[case % 2];
        let dims = conv.dims(Direction::Filter);
        let [dst, mut a, mut b] = [0, 1, 2].map(|at| tensor(dims[at], &order, Scalar::F32, &mut real));
        let terms = Terms::scaled(Scaling::MOVE);
        let step: Contract =
            conv.steps(Direction::Filter, [&dst, &a, &b], Accumulate::Single, &terms).unwrap()[0];
        let products = step.extent(Role::K) as f64;
        for isa in Isa::available() {
            let sources = [a.base(), b.base()];
            let mut results =
                [1, 2, 3, 8].map(|threads| run(&[step], &dst, &sources, Machine { isa, threads }));
            assert!(results.iter().all(|got| got.same_bytes(&results[0])), "case {case} on {isa:?}");
            let sums = results[0].base().cast::<f32>();
            // SAFETY: as above.
            unsafe {
                reference::sums(&step, a.base(), b.base(), |at, sum, magnitude| {
                    let error = (f64::from(sums.offset(at[0] as isize).read()) - sum).abs();
                    assert!(error <= 2.0 * products * unit * magnitude, "case {case} on {isa:?}: {error}");
                });
            }
        }
    }
}

/// Fewer tiles of F(2x2, 3x3) than filters: tasks have filters of their own, unless there are more
/// threads than that.
#[test]
fn layers_of_few_pixels_and_many_filters_agree_with_the_reference() {
    let mut rng = Rng(23);
    let is_sampled = |case: &usize| extent::is_full() || case % 2 == case / 3;
    extent::say((0..6).filter(is_sampled).count(), 6);
    for case in 0..6 {
        let direction = [Direction::Forward, Direction::Data][case / 3];
        let (summed, lanes) = ([64, 72][case % 2], [300, 260][case % 2]);
        let layer = Layer {
            groups: 1,
            channels: if direction == Direction::Forward { [summed, lanes] } else { [lanes, summed] },
            images: 1 + case as i64 % 2,
            extents: [13, 14],
            taps: [3, 3],
        };
        let mut conv = layer.convolution([1, 1], [1, 1], &mut rng);
        conv.geometry.padding = Dims::new(&[1, 1]);
        (conv.y[2], conv.y[3]) = (13, 14);
        if is_sampled(&case) {
            assert_is_exact(&conv, direction, TYPES[case % 3], case, &mut rng);
        }
    }
}
