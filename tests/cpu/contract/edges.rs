//! Every kernel on operands between pages that nobody may touch: what it accepts is what its loops
//! index, on both sides, and an image has the same bits in any batch.

use std::collections::BTreeMap;

use cudnn::backend::{self, Isa, Machine, run_contract};
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Geometry, Terms};
use cudnn::ops::{Contract, Scaling, Step};

use super::pages::{EDGES, Edge, Pages, at_case};
use super::runs::{levels, lines, referenced, run};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::Tensor;

/// Types of dst, a and b, and what they are summed in.
const TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::F32, Scalar::Bf16, Scalar::F32], Accumulate::Single),
    ([Scalar::F64; 3], Accumulate::Double),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::F32, Scalar::U8, Scalar::I8], Accumulate::Int32),
];

/// Those whose sums are rounded.
const FLOATS: usize = 6;

/// NCHW and NHWC, of any number of dimensions.
fn format(rank: usize, near: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    if near {
        order[1..].rotate_left(1);
    }
    order
}

/// Small integers in one of the usual formats for all three, most often, else in any.
fn tensors(conv: &Convolution, direction: Direction, types: [Scalar; 3], rng: &mut Rng) -> [Tensor; 3] {
    let dims = conv.dims(direction);
    let usual = rng.below(3);
    [0, 1, 2].map(|at| {
        let tensor = match usual {
            _ if rng.below(6) == 0 => Tensor::random(dims[at], types[at], false, rng),
            0 | 1 => Tensor::packed(dims[at], &format(dims[at].len(), usual == 1), types[at]),
            _ => Tensor::random(dims[at], types[at], true, rng),
        };
        let tensor = if at > 0 && rng.below(8) == 0 { tensor.strewn(rng) } else { tensor };
        let low = if types[at] == Scalar::U8 { 0.0 } else { -4.0 };
        tensor.fill(|| low + rng.below(9) as f64)
    })
}

/// How often each kernel computed something.
type Taken = BTreeMap<&'static str, usize>;

fn kernel(step: &Contract, machine: Machine) -> Option<&'static str> {
    backend::kernel(Step::Contract(step), false, machine)
}

/// Runs the steps at every level with all operands at either edge, and wants the bytes of the
/// reference.
fn assert_stays_inside(steps: &[Contract], [dst, a, b]: &mut [Tensor; 3], what: &str, taken: &mut Taken) {
    let want = referenced(steps, dst, &[a.base(), b.base()]);
    for edge in EDGES {
        let pages = [&*dst, &*a, &*b].map(|tensor| Pages::of(tensor, edge));
        let at: Vec<*mut u8> = pages.iter().map(Pages::base).collect();
        for isa in levels(steps) {
            let machine = Machine { isa, threads: if edge == Edge::Front { 1 } else { 3 } };
            pages[0].set(dst);
            for step in steps {
                kernel(step, machine).into_iter().for_each(|name| *taken.entry(name).or_default() += 1);
                // SAFETY: the pages hold all elements of the tensors.
                let outcome = unsafe { run_contract(step, &at, machine) };
                assert_eq!(outcome, Ok(()), "{what}, {edge:?} on {machine:?}: {step}");
            }
            let same = pages[0].bytes() == want.span().0;
            assert!(same, "{what}, {edge:?} on {machine:?}: {}", lines(steps));
        }
    }
}

#[test]
fn kernels_stay_inside_their_operands() {
    let mut taken = Taken::new();
    for case in extent::cases(600, 1200) {
        at_case(0, case);
        let mut rng = Rng(31_000_000 + case as u64);
        let direction = DIRECTIONS[case % 3];
        let (mut types, mut accumulate) = rng.pick(TYPES);
        let conv = match case % 16 {
            // As many filters and channels as parts of binary32 want.
            1..=3 if case < 16 => {
                (types, accumulate) = TYPES[0];
                Convolution::of_plane([130, 129], [12, 13], 1, 1, &mut rng)
            }
            0 => Convolution::drawn(120_000, &mut rng),
            _ => Convolution::drawn(15_000, &mut rng),
        };
        let mut operands = tensors(&conv, direction, types, &mut rng);
        let scaling = Scaling { alpha: rng.pick(&[1.0, 1.0, -2.0]), beta: rng.pick(&[0.0, 0.0, 2.0]) };
        let [dst, a, b] = &operands;
        let terms = Terms::scaled(scaling);
        let Ok(mut steps) = conv.steps(direction, [dst, a, b], accumulate, &terms) else { continue };
        steps.iter_mut().for_each(|step| step.allow_tiles = case % 4 > 0);
        assert_stays_inside(&steps, &mut operands, &format!("case {case}, {direction:?}"), &mut taken);
    }
    println!("{taken:?}");
    let mut wanted =
        vec!["tiles", "tiles_of_parts", "depthwise_interleaved", "depthwise_planar", "gemm", "gemm_planes"];
    if Isa::all().count() > 1 {
        wanted.extend(["wgrad_few_filters", "depthwise_wgrad_interleaved", "depthwise_wgrad_planar"]);
        wanted.extend(["grouped_few_channels", "conv_few_channels", "gemv"]);
    }
    wanted.retain(|name| !taken.contains_key(name));
    assert!(wanted.is_empty(), "no case for {wanted:?}");
}

/// A layer without padding, given by x, w, stride and groups.
fn layer(x: &[i64], w: &[i64], stride: i64, groups: i64) -> Convolution {
    let rank = x.len() - 2;
    let y = (2..x.len()).map(|d| (x[d] - w[d]) / stride + 1);
    Convolution {
        y: [x[0], w[0]].into_iter().chain(y).collect(),
        x: x.to_vec(),
        w: w.to_vec(),
        geometry: Geometry {
            padding: Dims::new(&vec![0; rank]),
            strides: Dims::new(&vec![stride; rank]),
            dilation: Dims::new(&vec![1; rank]),
            groups,
            flip: false,
        },
    }
}

/// Rows that end in the middle of a block, and lanes that begin in the middle of a group.
#[test]
fn uneven_blocks_and_groups_stay_inside() {
    let mut rng = Rng(33);
    let mut taken = Taken::new();
    let mut layers = vec![
        layer(&[3, 4, 186], &[30, 4, 3], 1, 1),
        layer(&[5, 4, 28, 165], &[32, 4, 1, 5], 1, 1),
        layer(&[3, 20, 1, 256], &[24, 20, 1, 3], 1, 1),
        layer(&[1, 16, 8], &[20, 4, 5], 3, 4),
    ];
    for (filters, channels, groups) in
        [(3, 22, 6), (3, 25, 7), (3, 27, 6), (5, 32, 4), (5, 41, 5), (5, 55, 4), (6, 30, 5), (7, 29, 9)]
    {
        layers.push(layer(&[1, channels * groups, 2, 3], &[filters * groups, channels, 1, 1], 1, groups));
        layers.push(layer(&[2, filters * groups, 3, 4], &[channels * groups, filters, 1, 1], 1, groups));
    }
    for (filters, side) in [(3, 4), (3, 5), (5, 5), (3, 7), (5, 7)] {
        layers.push(layer(&[1, 12, side + 1, side], &[12 * filters, 1, 2, 1], 1, 12));
    }
    let all = 3 * 2 * DIRECTIONS.len() * layers.len();
    extent::say(if extent::is_full() { all } else { all / 3 }, all);
    for (case, conv) in layers.iter().enumerate() {
        at_case(1, case);
        for (direction, near) in DIRECTIONS.into_iter().flat_map(|d| [(d, false), (d, true)]) {
            let dims = conv.dims(direction);
            for (number, (types, accumulate)) in [TYPES[0], TYPES[3], TYPES[7]].into_iter().enumerate() {
                if !extent::is_full() && number != case % 3 {
                    continue;
                }
                let mut operands = [0, 1, 2].map(|at| {
                    let order = format(dims[at].len(), near);
                    Tensor::packed(dims[at], &order, types[at]).fill(|| rng.below(9) as f64 - 4.0)
                });
                let [dst, a, b] = &operands;
                let terms = Terms::scaled(Scaling::MOVE);
                let steps = conv.steps(direction, [dst, a, b], accumulate, &terms).unwrap();
                let what = format!("layer {case}, {direction:?}, channels side by side: {near}");
                assert_stays_inside(&steps, &mut operands, &what, &mut taken);
            }
        }
    }
    println!("{taken:?}");
}

/// Operands whose neighbours along one dimension are one element, in every direction.
#[test]
fn strides_of_zero_are_strides() {
    let mut rng = Rng(34);
    let mut taken = Taken::new();
    let layers = [
        layer(&[2, 20, 9, 11], &[20, 1, 3, 3], 1, 20),
        layer(&[2, 6, 9, 10], &[9, 6, 3, 3], 1, 1),
        layer(&[1, 6, 7, 9], &[12, 2, 3, 2], 1, 3),
        layer(&[2, 3, 5, 40], &[32, 3, 1, 3], 1, 1),
        layer(&[2, 16, 16, 17], &[5, 16, 1, 1], 1, 1),
    ];
    let mut case = 0;
    for conv in &layers {
        for (direction, near) in DIRECTIONS.into_iter().flat_map(|d| [(d, false), (d, true)]) {
            let dims = conv.dims(direction);
            for (operand, axis) in
                [1, 2].into_iter().flat_map(|operand| (0..4).map(move |axis| (operand, axis)))
            {
                at_case(2, case);
                case += 1;
                let mut operands = [0, 1, 2].map(|at| {
                    let Layout { dims, mut strides, .. } =
                        Tensor::packed(dims[at], &format(4, near), Scalar::F32).layout;
                    if at == operand {
                        strides[axis] = 0;
                    }
                    let layout = Layout { dims, strides, split: None };
                    Tensor::new(layout, Scalar::F32).fill(|| rng.below(9) as f64 - 4.0)
                });
                let [dst, a, b] = &operands;
                let terms = Terms::scaled(Scaling::MOVE);
                let steps = conv.steps(direction, [dst, a, b], Accumulate::Single, &terms).unwrap();
                let what = format!("case {case}, {direction:?}, axis {axis} of operand {operand}");
                assert_stays_inside(&steps, &mut operands, &what, &mut taken);
            }
        }
    }
}

/// The layout of the first image, and how far images are apart, in bytes.
fn image(tensor: &Tensor) -> (Layout, isize) {
    let mut layout = tensor.layout;
    layout.dims[0] = 1;
    (layout, tensor.layout.strides[0] as isize * tensor.scalar.size() as isize)
}

/// Each image alone, in its place in a batch, has the bits that all together have. `None` where
/// images are blocks of channels or not the slowest dimension of the result.
fn assert_images_are_alone(
    conv: &Convolution, direction: Direction, [dst, a, b]: &mut [Tensor; 3], accumulate: Accumulate,
    what: &str,
) -> Option<()> {
    let strides = dst.layout.strides;
    let slower = strides.iter().any(|stride| stride.abs() > strides[0].abs());
    if slower || [&*dst, a].iter().any(|tensor| tensor.layout.split.is_some()) {
        return None;
    }
    let terms = Terms::scaled(Scaling::MOVE);
    let mut together = conv.steps(direction, [dst, a, b], accumulate, &terms).ok()?;
    let ((of_dst, dst_apart), (of_a, a_apart)) = (image(dst), image(a));
    let [one, of_one] =
        [(of_dst, dst.scalar), (of_a, a.scalar)].map(|(layout, scalar)| Tensor::new(layout, scalar));
    let first = |dims: &[i64]| [&[1], &dims[1..]].concat();
    let alone =
        Convolution { geometry: conv.geometry, x: first(&conv.x), w: conv.w.clone(), y: first(&conv.y) };
    let mut alone =
        alone.steps(direction, [&one, &of_one, b], accumulate, &terms).expect("as for all images");
    let is_data = direction == Direction::Data;
    let has_rows = conv.geometry.has_part_rows(&dst.layout.dims, is_data) || direction == Direction::Filter;
    let may = |step: &Contract| step.a != Scalar::F32 || has_rows;
    together.iter_mut().chain(&mut alone).for_each(|step| step.allow_tiles = may(step));
    for isa in levels(&together) {
        let machine = Machine { isa, threads: 2 };
        let want = run(&together, dst, &[a.base(), b.base()], machine);
        let mut got = dst.clone();
        for number in 0..conv.x[0] as isize {
            let at = [
                got.base().wrapping_offset(number * dst_apart),
                a.base().wrapping_offset(number * a_apart),
                b.base(),
            ];
            for step in &alone {
                // SAFETY: the memory of the tensors holds all their elements.
                unsafe { run_contract(step, &at, machine) }.unwrap();
            }
        }
        let names = [&together, &alone].map(|steps| kernel(&steps[0], machine));
        assert!(got.same_bytes(&want), "{what} on {isa:?}, {names:?}:\n{}", lines(&together));
    }
    Some(())
}

#[test]
fn an_image_has_the_same_bits_in_any_batch_of_any_layer() {
    let mut rng = Rng(35);
    let lines =
        [([5, 50, 1, 3], [5, 50, 1, 2]), ([5, 16, 1, 15], [8, 16, 1, 7]), ([4, 50, 1, 4], [16, 50, 1, 1])];
    let mut compared = 0;
    let cases = extent::cases(100, 1200);
    let most = cases.len();
    for case in cases {
        let mut drawn = Rng(32_000_000 + case as u64);
        let direction = DIRECTIONS[case % 2];
        let (types, accumulate) = drawn.pick(&TYPES[..FLOATS]);
        let conv = match lines.get(case / 2) {
            Some((x, w)) => layer(x, w, 1, 1),
            None => Convolution::drawn(if case % 16 == 0 { 120_000 } else { 15_000 }, &mut drawn),
        };
        if conv.x[0] == 1 {
            continue;
        }
        let operands = tensors(&conv, direction, types, &mut drawn);
        let mut operands = operands.map(|t| t.fill(|| rng.real()));
        let what = format!("case {case}, {direction:?}");
        let done = assert_images_are_alone(&conv, direction, &mut operands, accumulate, &what);
        compared += usize::from(done.is_some());
    }
    assert!(compared > most / 2, "{compared} layers");
}

/// Of an image with one output nothing says how far it is from the next one: sums over loops that
/// the filter has in another order.
#[test]
fn an_image_of_one_output_has_the_same_bits_in_any_batch() {
    let mut rng = Rng(36);
    for case in 0..16 {
        let (channels, filters, groups) = ([27, 40][case % 2], [1, 4][case / 2 % 2], [1, 6][case / 4 % 2]);
        let conv = layer(&[3, channels * groups, 5, 7], &[filters * groups, channels, 5, 3], 5, groups);
        let [direction, forward] = [DIRECTIONS[case / 8], Direction::Forward];
        let dims = conv.dims(direction);
        let mut operands = [0, 1, 2].map(|at| {
            let is_filter = dims[at] == conv.dims(forward)[2];
            let order = format(4, is_filter);
            Tensor::packed(dims[at], &order, Scalar::F32).fill(|| rng.real())
        });
        let what = format!("case {case}, {direction:?}");
        assert_images_are_alone(&conv, direction, &mut operands, Accumulate::Single, &what);
    }
}
