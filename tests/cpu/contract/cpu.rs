//! The CPU core against the definition: small integers, whose sums are exact, in every direction,
//! layout and type, at every level, for several numbers of threads.

use std::ops::Range;

use cudnn::backend::{Isa, Machine, run_contract};
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling};

use super::runs::{assert_bytes, assert_is_steady, assert_referenced, run, sources, with_values};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// Types of dst, a and b, and what they are summed in.
const TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F64; 3], Accumulate::Double),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::I32, Scalar::I8, Scalar::I8], Accumulate::Int32),
    ([Scalar::F32, Scalar::U8, Scalar::I8], Accumulate::Int32),
    ([Scalar::F32, Scalar::F16, Scalar::F32], Accumulate::Single),
];

/// The same for layers that have kernels of their own.
const LAYER_TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::U8, Scalar::U8, Scalar::I8], Accumulate::Int32),
    ([Scalar::F32, Scalar::F16, Scalar::Bf16], Accumulate::Single),
    ([Scalar::F32, Scalar::I8, Scalar::I8], Accumulate::Int32),
];

fn convolutions(seed: u64, cases: Range<usize>, cells: i64, plain: bool) {
    let mut rng = Rng(seed);
    for case in cases {
        let direction = DIRECTIONS[case % 3];
        let (types, accumulate) = rng.pick(TYPES);
        let conv = Convolution::random(cells, &mut rng);
        let [dst, a, b] = conv.tensors(direction, types, plain, &mut rng);
        let beta = rng.pick(&[0.0, 0.0, 2.0]);
        // Without beta the destination must not be read.
        let dst = if beta == 0.0 { Tensor::new(dst.layout, dst.scalar) } else { dst };
        let terms = Terms::scaled(Scaling { alpha: rng.pick(&[1.0, 1.0, -2.0]), beta });
        let Ok(steps) = conv.steps(direction, [&dst, &a, &b], accumulate, &terms) else { continue };
        let sums = conv.expected(direction, &a, &b);
        let (mut want, mut next) = (dst.clone(), sums.iter());
        each(&dst.layout.dims, |index| {
            let scaled = terms.scaling.alpha * next.next().unwrap()[0];
            want.set(index, if beta == 0.0 { scaled } else { scaled + beta * dst.get(index) });
        });
        let (mut a, mut b) = (a, b);
        let sources = [a.base(), b.base()];
        assert_bytes(&steps, &dst, &sources, &want, format_args!("case {case}, {direction:?}"));
    }
}

#[test]
fn convolutions_of_any_layout_agree_with_the_definition() {
    convolutions(11, extent::cases(90, 1500), 40_000, false);
}

#[test]
fn convolutions_of_common_layouts_agree_with_the_definition() {
    convolutions(12, extent::cases(50, 900), 400_000, true);
}

#[test]
fn matrix_products_agree_with_the_reference() {
    let mut rng = Rng(13);
    for case in extent::cases(60, 600) {
        let (types, accumulate) = rng.pick(TYPES);
        // Of all sizes, with few rows or columns, and small.
        let most = match case % 20 {
            0 => [2, 300, 300, 900],
            1..4 => [2, 5, 60, 900],
            4..7 => [2, 60, 5, 900],
            _ => [3, 40, 40, 60],
        };
        let [g, m, n, k] = most.map(|most| 1 + rng.below(most) as i64);
        let mut matrix = |rows: i64, columns: i64, scalar: Scalar, repeats: bool| {
            let dims = [if repeats && rng.below(3) == 0 { 1 } else { g }, rows, columns];
            let order = rng.pick(&[[0, 1, 2], [0, 2, 1], [1, 2, 0]]);
            let outer = [dims[0], dims[1] + rng.below(2) as i64, dims[2] + rng.below(2) as i64];
            let strides = cudnn::layout::format::packed_strides(&outer, &order).unwrap();
            let layout = Layout { dims: Dims::new(&dims), strides, split: None };
            let low = if scalar == Scalar::U8 { 0.0 } else { -1.0 };
            Tensor::new(layout, scalar).fill(|| low + rng.below(3) as f64)
        };
        let c = matrix(m, n, types[0], false);
        let (mut a, mut b) = (matrix(m, k, types[1], true), matrix(k, n, types[2], true));
        let mut z = matrix(m, n, types[0], true);
        // A bias in binary32 is added to narrow results where they are in registers.
        let single = case % 7 > 2 && types[0] != Scalar::F64;
        let bias_type = if single { Scalar::F32 } else { types[0] };
        let mut bias = matrix(rng_one(case, m), n, bias_type, true);
        let activation = [None, Some(Function::Relu), Some(Function::ClippedReluOrNan)][case % 3];
        let activation = activation.map(|function| Activation { function, parameter: 6.0 });
        let scaling = Scaling { alpha: 1.0, beta: [0.0, 1.0][case % 2] };
        let with = |on: bool, tensor: &Tensor| on.then_some((tensor.layout, tensor.scalar));
        let (zs, bs) = (with(case % 4 > 1, &z), with(case % 5 > 2, &bias));
        let side = |t: &(Layout, Scalar)| (t.0, t.1);
        let (zl, bl) = (zs.as_ref().map(side), bs.as_ref().map(side));
        let terms = Terms {
            scaling,
            z: zl
                .as_ref()
                .map(|(layout, scalar)| (cudnn::ops::contract::Side { layout, scalar: *scalar }, 2.0)),
            bias: bl.as_ref().map(|(layout, scalar)| cudnn::ops::contract::Side { layout, scalar: *scalar }),
            activation,
        };
        let step = Contract::matmul(c.side(), a.side(), b.side(), accumulate, &terms).unwrap();
        let at = sources(&step, [&mut a, &mut b, &mut z, &mut bias]);
        assert_referenced(&[step], &c, &at, format_args!("case {case}"));
    }
}

/// The rows of a bias: one, or as many as the product has.
fn rng_one(case: usize, m: i64) -> i64 {
    if case.is_multiple_of(2) { 1 } else { m }
}

/// Layers that have kernels of their own: windows of 3 x 3 over many channels, and depthwise ones.
/// Halves and bytes take the same ones, converted first.
#[test]
fn layers_with_kernels_of_their_own_agree_with_the_definition() {
    let mut rng = Rng(16);
    for case in extent::cases(24, 42) {
        let (types, accumulate) = LAYER_TYPES[case / 3 % LAYER_TYPES.len()];
        let extents = [13, 15].map(|least| least + rng.below(4) as i64);
        let conv = if case % 3 == 0 {
            let channels = [32, 32].map(|least| least + rng.below(4) as i64);
            Convolution::of_plane(channels, extents, 1, 1, &mut rng)
        } else {
            let extents =
                extents.map(|extent| extent * (1 + rng.below(if case % 3 == 1 { 8 } else { 2 }) as i64));
            let groups = if case % 3 == 1 { 7 } else { 8 + rng.below(30) as i64 };
            Convolution::of_plane([1, 1], extents, 1 + rng.below(2) as i64, groups, &mut rng)
        };
        for direction in DIRECTIONS {
            let [dst, mut a, mut b] = conv.tensors(direction, types, true, &mut rng);
            let terms = Terms::scaled(Scaling::MOVE);
            let steps = conv.steps(direction, [&dst, &a, &b], accumulate, &terms).unwrap();
            let sums = conv.expected(direction, &a, &b);
            let want = with_values(&dst, sums.iter().map(|[sum, _]| *sum));
            let sources = [a.base(), b.base()];
            assert_bytes(&steps, &dst, &sources, &want, format_args!("case {case}, {direction:?}"));
        }
    }
}

/// 3 x 3 layers in NHWC, with all that may follow a sum.
#[test]
fn layers_of_contiguous_channels_agree_with_the_reference() {
    let mut rng = Rng(17);
    // A sample has half of the pairs of directions.
    let is_sampled = |case: &usize| extent::is_full() || (case / 2).is_multiple_of(2);
    extent::say((0..16).filter(is_sampled).count(), 16);
    for case in (0..16).filter(is_sampled) {
        let direction = [Direction::Forward, Direction::Data][case % 2];
        let summed = 32 + 8 * rng.below(3) as i64;
        // The last ones have 171 tiles, whose blocks differ in size, and many panels.
        let uneven = case >= 12;
        let lanes = if uneven { 192 } else { 32 + rng.below(70) as i64 };
        let channels = if direction == Direction::Forward { [summed, lanes] } else { [lanes, summed] };
        let extents = if uneven { [18, 38] } else { [15, 16].map(|least| least + rng.below(4) as i64) };
        let groups = if uneven { 1 } else { rng.pick(&[1, 1, 2]) };
        let mut conv = Convolution::of_plane(channels, extents, 1, groups, &mut rng);
        if uneven {
            conv.geometry.padding = Dims::new(&[1, 1]);
            (conv.y[2], conv.y[3]) = (18, 38);
        }
        let images = if uneven { 1 } else { 1 + rng.below(3) as i64 };
        (conv.x[0], conv.y[0]) = (images, images);
        let dims = conv.dims(direction);
        let mut tensor = |dims: &[i64], scalar| {
            Tensor::packed(dims, &[0, 2, 3, 1], scalar).fill(|| rng.below(9) as f64 - 4.0)
        };
        let scalar = [Scalar::F32, Scalar::F16][case / 2 % 2];
        let [dst, mut a, mut b] =
            [0, 1, 2].map(|at| tensor(dims[at], if at == 0 { scalar } else { Scalar::F32 }));
        let mut z = tensor(dims[0], Scalar::F32);
        let mut bias = tensor(&[1, dims[0][1], 1, 1], Scalar::F32);
        let scaling = Scaling { alpha: 2.0, beta: [0.0, -1.0][case / 4 % 2] };
        let terms = match case % 3 {
            0 => Terms::scaled(scaling),
            rest => Terms {
                scaling,
                z: Some((z.side(), 3.0)),
                bias: (rest == 1).then_some(bias.side()),
                activation: Some(Activation { function: Function::ReluOrNan, parameter: 0.0 }),
            },
        };
        let steps = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
        let at = sources(&steps[0], [&mut a, &mut b, &mut z, &mut bias]);
        assert_referenced(&steps, &dst, &at, format_args!("case {case}"));
    }
}

#[test]
fn sums_of_real_numbers_stay_within_the_bound_and_keep_their_bits() {
    let mut rng = Rng(14);
    for case in extent::cases(30, 200) {
        let direction = DIRECTIONS[case % 3];
        let conv = Convolution::random(600_000, &mut rng);
        let plain = case % 4 > 0;
        let [dst, a, b] = conv.tensors(direction, [Scalar::F32; 3], plain, &mut rng);
        let mut real = |t: Tensor| t.fill(|| rng.real());
        let (mut a, mut b) = (real(a), real(b));
        let terms = Terms::scaled(Scaling::MOVE);
        let Ok(steps) = conv.steps(direction, [&dst, &a, &b], Accumulate::Single, &terms) else { continue };
        assert_is_steady(
            &conv,
            direction,
            &steps,
            [&mut { dst }, &mut a, &mut b],
            format_args!("case {case}"),
        );
    }
}

#[test]
fn an_image_has_the_same_bits_in_any_batch() {
    let mut rng = Rng(15);
    for case in extent::cases(24, 120) {
        let types = [[Scalar::F32; 3], [Scalar::F16; 3], [Scalar::F32, Scalar::F16, Scalar::Bf16]][case % 3];
        let mut conv = Convolution::random(150_000, &mut rng);
        if case % 6 == 3 {
            // A matrix by a vector for one image, a product of matrices for all.
            conv = Convolution::of_plane([1, 1], [3, 3], 1, 1, &mut rng);
            conv.geometry.padding = Dims::new(&[0, 0]);
            let [c, k] = [900, 40].map(|most| most - rng.below(20) as i64);
            (conv.x, conv.w, conv.y) = (vec![1, c, 1, 1], vec![k, c, 1, 1], vec![1, k, 1, 1]);
        }
        let images = 3 + case as i64 % 4;
        (conv.x[0], conv.y[0]) = (images, images);
        let tensors = conv.tensors(Direction::Forward, types, true, &mut rng);
        let tensors = tensors.map(|t| t.fill(|| rng.real()));
        assert_images_do_not_depend_on_the_batch(conv, tensors, &[0, 1, 2]);
    }
}

/// A few vectors by a matrix that lies either way, and among more of them.
#[test]
fn vectors_have_the_same_bits_in_any_product() {
    let mut rng = Rng(19);
    for case in 0..48 {
        let (m, few) = (9, 1 + case as i64 / 2 % 4);
        let [k, n] = [900, 5000].map(|most| most - rng.below(700) as i64);
        let k = if case % 5 == 0 { [33, 20, 8][case / 5 % 3] } else { k };
        let mut matrix = |rows: i64, columns: i64, order: [usize; 3]| {
            Tensor::packed(&[1, rows, columns], &order, Scalar::F32).fill(|| rng.real())
        };
        let order = [[0, 1, 2], [0, 2, 1]][case % 2];
        let (all, mut a, mut b) = (matrix(m, n, [0, 1, 2]), matrix(m, k, [0, 1, 2]), matrix(k, n, order));
        let sources = [a.base(), b.base()];
        let product = |rows: i64, threads: usize, isa: Isa| {
            let with = |tensor: &Tensor| {
                let mut layout = tensor.layout;
                layout.dims[1] = rows;
                layout
            };
            let (of_c, of_a) = (with(&all), with(&a));
            let side = |layout| cudnn::ops::contract::Side { layout, scalar: Scalar::F32 };
            let terms = Terms::scaled(Scaling::MOVE);
            let step =
                Contract::matmul(side(&of_c), side(&of_a), b.side(), Accumulate::Single, &terms).unwrap();
            run(&[step], &all, &sources, Machine { isa, threads })
        };
        for isa in Isa::available() {
            let many = product(m, 2, isa);
            for threads in [1, 2, 3] {
                let alone = product(few, threads, isa);
                each(&[1, few, n], |at| {
                    let bits = [&alone, &many].map(|tensor| tensor.get(at).to_bits());
                    assert!(bits[0] == bits[1], "case {case} at {at:?}, {threads} threads on {isa:?}");
                });
            }
        }
    }
}

/// More elements than are converted at once, and more pixels than read filters where they lie.
#[test]
fn an_image_has_the_same_bits_in_a_large_batch() {
    let mut rng = Rng(18);
    for case in 0..16 {
        let types =
            [[Scalar::F32, Scalar::F16, Scalar::F32], [Scalar::F32, Scalar::E4m3, Scalar::F32]][case % 2];
        let order = [[0, 1, 2, 3], [0, 2, 3, 1]][case / 2 % 2];
        // The last ones have fewer tiles than filters, but not all together.
        let channels = if case < 6 { [32, 33] } else { [64, 260] };
        let mut conv = Convolution::of_plane(channels, [16, 17], 1, 1, &mut rng);
        if case >= 10 {
            // Single channels, of which two images are converted at once.
            conv = Convolution::of_plane([1, 1], [80, 82], 1 + case as i64 % 2, 64, &mut rng);
        }
        if case >= 14 {
            conv = Convolution::of_plane([4, 3], [16, 17], 1, 8, &mut rng);
        }
        let images = if !(4..14).contains(&case) { (8 << 20) / (32 * 16 * 17) + 1 } else { 5 };
        (conv.x[0], conv.y[0]) = (images, images);
        let dims = conv.dims(Direction::Forward);
        let tensors = [0, 1, 2].map(|at| Tensor::packed(dims[at], &order, types[at]).fill(|| rng.real()));
        assert_images_do_not_depend_on_the_batch(conv, tensors, &[0, images as isize - 1]);
    }
}

/// Some images of a batch, computed alone.
pub fn assert_images_do_not_depend_on_the_batch(
    mut conv: Convolution, tensors: [Tensor; 3], images: &[isize],
) {
    let [dst, mut a, mut b] = tensors;
    let terms = Terms::scaled(Scaling::MOVE);
    let mut all = conv.steps(Direction::Forward, [&dst, &a, &b], Accumulate::Single, &terms).unwrap();
    all[0].allow_winograd = dst.layout.dims[1] % 2 == 0;
    let machine = Machine { isa: Isa::best(), threads: 2 };
    let together = run(&all[..1], &dst, &[a.base(), b.base()], machine);
    let mut alone = together.clone();
    (conv.x[0], conv.y[0]) = (1, 1);
    let one = |t: &Tensor| {
        let mut layout = t.layout;
        layout.dims[0] = 1;
        layout
    };
    let layouts = [one(&dst), one(&a), b.layout];
    let side = |at: usize, t: &Tensor| cudnn::ops::contract::Side { layout: &layouts[at], scalar: t.scalar };
    let (y, x, w) = (side(0, &dst), side(1, &a), side(2, &b));
    let mut step = None;
    let mut keep = |s: &Contract| {
        let mut part = *s;
        part.allow_winograd = all[0].allow_winograd;
        step = Some(part);
        Ok(())
    };
    Contract::forward(y, x, w, &conv.geometry, Accumulate::Single, &terms, &mut keep).unwrap();
    for &image in images {
        let moved = |p: *mut u8, t: &Tensor| {
            p.wrapping_offset(image * t.layout.strides[0] as isize * t.scalar.size() as isize)
        };
        let at = [moved(alone.base(), &dst), moved(a.base(), &a), b.base()];
        // What the batch left there is not to be taken for a result.
        let row = &layouts[0];
        each(&row.dims, |index| {
            let offset = row.offset(index) as isize * dst.scalar.size() as isize;
            // SAFETY: an element of the image.
            unsafe { at[0].wrapping_offset(offset).write_bytes(0x5a, dst.scalar.size()) };
        });
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { run_contract(&step.unwrap(), &at, machine) }.unwrap();
    }
    assert!(alone.same_bytes(&together), "{}", all[0]);
}
