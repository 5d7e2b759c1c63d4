//! Every kernel that accepts a contraction computes it: also those that it never reaches, as
//! another one is asked before.

use std::collections::BTreeMap;

use cudnn::backend::{self, Address, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::Step;
use cudnn::ops::contract::{Accumulate, Phases, Terms};
use cudnn::ops::{Contract, Scaling};

use super::runs::{lines, referenced};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent::{self, levels};
use testkit::random::Rng;
use testkit::tensor::Tensor;

/// Types of dst, a and b, and what they are summed in.
const TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::F32, Scalar::Bf16, Scalar::Bf16], Accumulate::Single),
    ([Scalar::F64; 3], Accumulate::Double),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::F32, Scalar::U8, Scalar::I8], Accumulate::Int32),
];

/// Layers that only few kernels are for: each with the channels and filters of a group, extents,
/// stride and groups.
const LAYERS: &[([i64; 2], [i64; 2], i64, i64)] = &[
    ([32, 40], [15, 16], 1, 1),
    ([40, 32], [15, 17], 1, 1),
    ([1, 1], [16, 18], 1, 40),
    ([1, 1], [17, 18], 2, 33),
    ([1, 2], [16, 15], 1, 9),
    ([3, 32], [18, 17], 1, 1),
    ([4, 16], [40, 40], 1, 1),
];

/// How often each kernel computed something.
type Forced = BTreeMap<&'static str, usize>;

/// Runs a step by every kernel that accepts it, at every level, and wants the bytes of the
/// reference.
fn assert_alike(
    step: Step<'_>, steps: &[Contract], dst: &Tensor, sources: &[*mut u8], what: &str, forced: &mut Forced,
) {
    let want = referenced(steps, dst, sources);
    for (isa, threads) in levels(step).into_iter().zip([2, 3].into_iter().cycle()) {
        let machine = Machine { isa, threads };
        let kernels = backend::kernels(step, machine);
        if matches!(step, Step::Contract(_)) {
            let first = backend::kernel(step, false, machine);
            assert_eq!(kernels.first().copied(), first, "{what} on {machine:?}");
        }
        for name in kernels {
            let mut got = dst.clone();
            let at: Vec<Address> =
                std::iter::once(got.base()).chain(sources.iter().copied()).map(Address::from).collect();
            // SAFETY: the memory of the tensors holds all their elements.
            let outcome = unsafe { backend::run_by(name, step, &at, machine) };
            assert_eq!(outcome, Ok(()), "{what} by {name} on {machine:?}: {}", lines(steps));
            assert!(got.same_bytes(&want), "{what} by {name} on {machine:?}: {}", lines(steps));
            *forced.entry(name).or_default() += 1;
        }
    }
}

/// One direction of a layer, with small integers, whose sums are exact in every kernel.
fn assert_layer(
    conv: &Convolution, direction: Direction, (types, sums): ([Scalar; 3], Accumulate), near: bool,
    rng: &mut Rng, what: &str, forced: &mut Forced,
) {
    let dims = conv.dims(direction);
    let mut order: Vec<usize> = (0..dims[0].len()).collect();
    if near {
        order[1..].rotate_left(1);
    }
    let [dst, mut a, mut b] = [0, 1, 2].map(|at| {
        let low = if types[at] == Scalar::U8 { 0.0 } else { -2.0 };
        Tensor::packed(dims[at], &order, types[at]).fill(|| low + rng.below(5) as f64)
    });
    let terms = Terms::scaled(Scaling { alpha: 1.0, beta: rng.pick(&[0.0, 1.0]) });
    let Ok(mut steps) = conv.steps(direction, [&dst, &a, &b], sums, &terms) else { return };
    steps.iter_mut().for_each(|step| {
        *step = step.canonical();
        (step.allow_tiles, step.allow_winograd) = (true, true);
    });
    let sources = [a.base(), b.base()];
    for step in &steps {
        assert_alike(Step::Contract(step), &[*step], &dst, &sources, what, forced);
    }
    if steps.len() > 1 {
        let phases = Phases(steps);
        assert_alike(Step::Phases(&phases), &phases.0, &dst, &sources, what, forced);
    }
}

#[test]
fn every_kernel_computes_what_it_accepts() {
    let (mut rng, mut forced) = (Rng(47), Forced::new());
    for (case, &(channels, extents, stride, groups)) in LAYERS.iter().enumerate() {
        for near in [false, true] {
            for direction in DIRECTIONS {
                let conv = Convolution::of_plane(channels, extents, stride, groups, &mut rng);
                let types = TYPES[case % 5];
                let what = format!("layer {case}, {direction:?}, near: {near}");
                assert_layer(&conv, direction, types, near, &mut rng, &what, &mut forced);
            }
        }
    }
    // As many filters and channels as parts of binary32 want.
    for (direction, near) in
        DIRECTIONS.into_iter().flat_map(|direction| [(direction, false), (direction, true)])
    {
        let conv = Convolution::of_plane([128, 130], [12, 13], 1, 1, &mut rng);
        assert_layer(&conv, direction, TYPES[0], near, &mut rng, "many filters", &mut forced);
    }
    // Gradients of filters of one tap, over many pixels of a plane.
    let mut conv = Convolution::of_plane([6, 8], [16, 17], 1, 1, &mut rng);
    (conv.x, conv.w, conv.y) = (vec![2, 6, 16, 17], vec![8, 6, 1, 1], vec![2, 8, 16, 17]);
    conv.geometry.padding = Dims::new(&[0, 0]);
    assert_layer(&conv, Direction::Filter, TYPES[0], false, &mut rng, "one tap", &mut forced);
    for case in extent::cases(80, 160) {
        let conv = Convolution::drawn(if case % 16 == 0 { 60_000 } else { 8_000 }, &mut rng);
        let (direction, types, near) = (DIRECTIONS[case % 3], rng.pick(TYPES), rng.below(2) == 0);
        let what = format!("case {case}, {direction:?}, near: {near}");
        assert_layer(&conv, direction, types, near, &mut rng, &what, &mut forced);
    }
    println!("{forced:?}");
    if Isa::all().count() > 1 {
        let tables = backend::tables().into_iter().filter(|(kind, _)| ["Contract", "Phases"].contains(kind));
        let names = tables.flat_map(|(_, kernels)| kernels).map(|(name, _)| name);
        let missing: Vec<_> = names.filter(|name| !forced.contains_key(name)).collect();
        assert!(missing.is_empty(), "no case for {missing:?}");
    }
}

#[test]
fn kernels_that_do_not_accept_a_step_refuse_it() {
    let layout =
        |dims: [i64; 2]| Layout { dims: Dims::new(&dims), strides: Dims::new(&[dims[1], 1]), split: None };
    let [c, mut a, mut b] =
        [[4, 5], [4, 3], [3, 5]].map(|dims| Tensor::new(layout(dims), Scalar::F32).fill(|| 1.0));
    let terms = Terms::scaled(Scaling::MOVE);
    let step = Contract::matmul(c.side(), a.side(), b.side(), Accumulate::Single, &terms).unwrap();
    let machine = Machine { isa: Isa::best(), threads: 1 };
    let (mut got, sources) = (c.clone(), [a.base(), b.base()]);
    let at = [got.base(), sources[0], sources[1]].map(Address::from);
    for name in ["depthwise_wgrad_interleaved", "depthwise_wgrad_planar", "no such kernel"] {
        // SAFETY: the memory of the tensors holds all their elements.
        let outcome = unsafe { backend::run_by(name, Step::Contract(&step), &at, machine) };
        assert!(outcome.is_err_and(|error| error.to_string().contains(name)), "{name}");
        assert!(got.same_bytes(&c), "{name} writes");
    }
}
