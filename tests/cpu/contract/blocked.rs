//! Channels in blocks of 8 and 16 (nChw8c, nChw16c): which kernel takes such a layer, and that it
//! computes what the reference does.

use cudnn::backend::{self, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Geometry, Role, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling, Step};

use super::cpu::assert_images_do_not_depend_on_the_batch;
use super::runs::{assert_is_steady, assert_referenced, sources};
use testkit::convolution::{Convolution, Direction};
use testkit::random::Rng;
use testkit::tensor::Tensor;

/// Images, channels, rows and columns of the image.
type Image = [i64; 4];

/// Filters, taps, stride, groups.
type Filters = [i64; 4];

/// Layers as networks have them, in small.
const LAYERS: &[(Image, Filters)] = &[
    // One tap: whole tiles, tiles of half the width, and of any other.
    ([2, 64, 5, 7], [64, 1, 1, 1]),
    ([1, 16, 9, 5], [96, 1, 1, 1]),
    ([1, 32, 7, 7], [24, 1, 1, 1]),
    ([2, 48, 6, 5], [16, 1, 2, 1]),
    ([1, 400, 3, 5], [144, 1, 1, 1]),
    // Windows: with many channels they may be transformed.
    ([1, 32, 15, 17], [64, 3, 1, 1]),
    ([2, 48, 13, 14], [32, 3, 1, 1]),
    ([1, 40, 14, 13], [40, 3, 1, 1]),
    ([1, 16, 10, 11], [32, 3, 2, 1]),
    // Few channels of one block.
    ([2, 3, 17, 19], [32, 3, 2, 1]),
    ([1, 3, 18, 30], [64, 7, 2, 1]),
    ([1, 4, 16, 20], [16, 3, 1, 1]),
    ([1, 5, 12, 16], [72, 3, 1, 1]),
    // Groups, and one for each channel.
    ([1, 64, 9, 9], [64, 3, 1, 2]),
    ([2, 48, 9, 11], [48, 3, 1, 48]),
    ([1, 80, 7, 7], [80, 3, 1, 80]),
    ([1, 16, 30, 33], [16, 5, 2, 16]),
    // So few pixels that sums go along the filters.
    ([2, 24, 7, 7], [40, 3, 1, 1]),
    ([2, 16, 9, 7], [24, 3, 2, 1]),
];

fn layer(&([n, c, h, w], [k, taps, stride, groups]): &(Image, Filters), flip: bool) -> Convolution {
    let out = |extent: i64| (extent + taps / 2 * 2 - taps) / stride + 1;
    Convolution {
        x: vec![n, c, h, w],
        w: vec![k, c / groups, taps, taps],
        y: vec![n, k, out(h), out(w)],
        geometry: Geometry {
            padding: Dims::new(&[taps / 2; 2]),
            strides: Dims::new(&[stride; 2]),
            dilation: Dims::new(&[1; 2]),
            groups,
            flip,
        },
    }
}

/// A tensor in blocks of so many channels, or in NCHW or NHWC.
fn tensor(dims: &[i64], block: i64, value: impl FnMut() -> f64) -> Tensor {
    let tensor = match block {
        0 => Tensor::packed(dims, &[0, 1, 2, 3], Scalar::F32),
        1 => Tensor::packed(dims, &[0, 2, 3, 1], Scalar::F32),
        _ => Tensor::new(Layout::blocked(dims, 1, block).unwrap(), Scalar::F32),
    };
    tensor.fill(value)
}

/// Small integers, of which every sum is exact, with all that may follow a sum: the bytes of the
/// reference on every machine. Residuals in blocks as well, and one of the tensors in a plain
/// format now and then.
#[test]
fn channels_in_blocks_agree_with_the_reference() {
    let mut rng = Rng(61);
    for (number, shape) in LAYERS.iter().enumerate() {
        for (case, block) in [8, 16, 8].into_iter().enumerate() {
            let conv = layer(shape, rng.below(3) == 0);
            for direction in [Direction::Forward, Direction::Data] {
                let dims = conv.dims(direction);
                let mut form = |at: usize| match rng.below(6) {
                    _ if at == 2 => case as i64 % 2,
                    0 if case == 2 => rng.pick(&[0, 1, 16]),
                    _ => block,
                };
                let forms = [0, 1, 2, 0].map(&mut form);
                let mut value = || rng.below(5) as f64 - 2.0;
                let [mut a, mut b, mut z] =
                    [(1, 1), (2, 2), (0, 3)].map(|(at, form)| tensor(dims[at], forms[form], &mut value));
                let mut bias = tensor(&[1, dims[0][1], 1, 1], 0, &mut value);
                let scaling = Scaling { alpha: [1.0, 2.0][case % 2], beta: [0.0, 0.0, -1.0][case] };
                let dst = tensor(dims[0], forms[0], || if scaling.beta == 0.0 { f64::NAN } else { value() });
                let relu = Activation { function: Function::ClippedRelu, parameter: 9.0 };
                let terms = match (number + case) % 4 {
                    0 => {
                        Terms { z: Some((z.side(), 3.0)), bias: Some(bias.side()), ..Terms::scaled(scaling) }
                    }
                    1 => Terms { bias: Some(bias.side()), activation: Some(relu), ..Terms::scaled(scaling) },
                    2 => Terms::scaled(Scaling::MOVE),
                    _ => {
                        Terms { z: Some((z.side(), -1.0)), activation: Some(relu), ..Terms::scaled(scaling) }
                    }
                };
                let Ok(steps) = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms) else {
                    continue;
                };
                let at = sources(&steps[0], [&mut a, &mut b, &mut z, &mut bias]);
                assert_referenced(
                    &steps,
                    &dst,
                    &at,
                    format_args!("layer {number}, {forms:?}, {direction:?}"),
                );
            }
        }
    }
}

/// Real numbers: within the bound of a sum, the same bits for every number of threads, and those of
/// an image alone in a batch.
#[test]
fn channels_in_blocks_keep_their_bits() {
    let mut rng = Rng(62);
    for (number, shape) in LAYERS.iter().enumerate() {
        let conv = layer(shape, false);
        let dims = conv.dims(Direction::Forward);
        let [dst, mut a, mut b] =
            [0, 1, 2].map(|at| tensor(dims[at], if at == 2 { number as i64 % 2 } else { 8 }, || rng.real()));
        let terms = Terms::scaled(Scaling::MOVE);
        let steps = conv.steps(Direction::Forward, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
        // Of F(2x2, 3x3) the bound is another one.
        if shape.1[1] != 3 || shape.1[2] != 1 || shape.0[1] < 32 {
            let what = format_args!("layer {number}");
            assert_is_steady(&conv, Direction::Forward, &steps, [&mut dst.clone(), &mut a, &mut b], what);
        }
        if shape.0[0] > 1 {
            assert_images_do_not_depend_on_the_batch(conv, [dst, a, b], &[0, 1]);
        }
    }
}

/// Lanes are the channels of blocks, and taps, channels and filters are what the kernels of
/// contiguous channels make of them.
#[test]
fn channels_in_blocks_have_the_kernels_of_contiguous_ones() {
    let layers = [
        (([1, 64, 56, 56], [64, 1, 1, 1]), "gemm"),
        (([1, 24, 56, 56], [144, 1, 1, 1]), "gemm"),
        (([1, 128, 56, 56], [128, 3, 2, 1]), "gemm"),
        (([1, 64, 56, 56], [64, 3, 1, 1]), "winograd_filters"),
        (([1, 3, 224, 224], [32, 3, 2, 1]), "conv_few_channels"),
        (([1, 3, 224, 224], [64, 7, 2, 1]), "conv_few_channels"),
        (([1, 144, 56, 56], [144, 3, 1, 144]), "depthwise_interleaved"),
    ];
    // Other processors have fewer kernels.
    let tables = backend::tables();
    let there =
        |name: &str| tables.iter().flat_map(|(_, kernels)| kernels).any(|(kernel, _)| *kernel == name);
    for (shape, want) in layers.into_iter().filter(|(_, want)| there(want)) {
        let (conv, c) = (layer(&shape, false), shape.0[1]);
        for block in
            [8, 16].into_iter().filter(|block| shape.1[0] % block == 0 && (c < *block || c % block == 0))
        {
            let dims = conv.dims(Direction::Forward);
            let [y, x, w] = [0, 1, 2].map(|at| tensor(dims[at], if at == 2 { 0 } else { block }, || 0.0));
            let terms = Terms::scaled(Scaling::MOVE);
            let steps = conv.steps(Direction::Forward, [&y, &x, &w], Accumulate::Single, &terms).unwrap();
            let mut step: Contract = steps[0].canonical();
            step.allow_winograd = true;
            for isa in Isa::available().filter(|isa| *isa != Isa::PORTABLE) {
                let kernel = backend::kernel(Step::Contract(&step), false, Machine { isa, threads: 2 });
                assert_eq!(kernel, Some(want), "{shape:?} in blocks of {block} on {isa:?}: {step}");
            }
        }
    }
}

/// Of a few pixels reading the filters is most of the work: sums go along them, and of more pixels
/// along the image, whatever the batch.
#[test]
fn sums_of_few_pixels_go_along_the_filters() {
    for (image, along_filters) in
        [([1, 16, 7, 7], true), ([5, 16, 8, 8], true), ([1, 16, 9, 8], false), ([5, 16, 9, 8], false)]
    {
        let conv = layer(&(image, [24, 3, 1, 1]), false);
        let dims = conv.dims(Direction::Forward);
        let [y, x, w] = [0, 1, 2].map(|at| tensor(dims[at], if at == 2 { 1 } else { 8 }, || 0.0));
        let terms = Terms::scaled(Scaling::MOVE);
        let step =
            conv.steps(Direction::Forward, [&y, &x, &w], Accumulate::Single, &terms).unwrap()[0].canonical();
        let falls = |slot: usize| {
            step.loops(Role::K)
                .map(|(_, axis)| axis.strides[slot])
                .is_sorted_by(|outer, inner| outer >= inner)
        };
        assert_eq!([falls(1), falls(2)], [!along_filters, along_filters], "{step}");
    }
}

/// Eight phases of a stride look like a block of eight channels in the destination. Rows stay lanes
/// where the image goes on along them.
#[test]
fn phases_of_a_stride_of_eight_are_no_block() {
    let conv = Convolution {
        x: vec![1, 16, 64, 64],
        w: vec![32, 16, 8, 8],
        y: vec![1, 32, 8, 8],
        geometry: Geometry {
            padding: Dims::new(&[0; 2]),
            strides: Dims::new(&[8; 2]),
            dilation: Dims::new(&[1; 2]),
            groups: 1,
            flip: false,
        },
    };
    let dims = conv.dims(Direction::Data);
    let [dx, dy, w] = [0, 1, 2].map(|at| tensor(dims[at], 0, || 0.0));
    let terms = Terms::scaled(Scaling::MOVE);
    let steps = conv.steps(Direction::Data, [&dx, &dy, &w], Accumulate::Single, &terms).unwrap();
    assert_eq!(steps.len(), 1);
    let step: Contract = steps[0].canonical();
    let kernel = backend::kernel(Step::Contract(&step), false, Machine { isa: Isa::best(), threads: 2 });
    assert_eq!(kernel, Some("gemm_planes"), "{step}");
}
