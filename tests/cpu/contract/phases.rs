//! Gradients of the data of depthwise convolutions with a stride, whose phases are computed
//! together where a kernel writes whole rows.

use cudnn::backend::{self, Address, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Phases, Terms};
use cudnn::ops::function::Function;
use cudnn::ops::{Contract, Scaling, Step};

use super::depthwise::{Dim, TYPES, convolution, tensor};
use super::runs::{machines, referenced, run, sources};
use testkit::convolution::{Convolution, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// The steps of a gradient as a plan hands them over.
fn phases(conv: &Convolution, tensors: [&Tensor; 3], terms: &Terms<'_>) -> Phases {
    let steps = conv.steps(Direction::Data, tensors, Accumulate::Single, terms).unwrap();
    Phases(steps.iter().map(Contract::canonical).collect())
}

fn run_together(phases: &Phases, dst: &Tensor, sources: &[*mut u8], machine: Machine) -> Tensor {
    let mut got = dst.clone();
    let at: Vec<Address> = [&[got.base()], sources].concat().into_iter().map(Address::from).collect();
    // SAFETY: the memory of the tensors holds all their elements.
    unsafe { backend::run(Step::Phases(phases), &at, false, machine) }.unwrap();
    got
}

/// Small integers, of which every sum is exact: the bits of the reference on every machine.
#[test]
fn phases_agree_with_the_reference() {
    let mut rng = Rng(41);
    let wide: [&[Dim]; 9] = [
        &[[9000, 7, 3, 2, 1]],
        // Rows of more than one tile, and planes of more than one part, whose last rows are not
        // those of all phases.
        &[[112, 3, 1, 2, 1], [113, 3, 1, 2, 1]],
        &[[111, 5, 2, 2, 1], [300, 5, 2, 2, 1]],
        &[[301, 3, 1, 2, 1], [160, 3, 1, 2, 1]],
        // Rows that all phases share, or columns; more than two phases in a row.
        &[[40, 3, 1, 1, 1], [41, 4, 1, 2, 1]],
        &[[41, 4, 1, 2, 1], [40, 3, 1, 1, 1]],
        &[[31, 5, 2, 3, 1], [50, 9, 4, 4, 1]],
        &[[7, 3, 1, 1, 1], [30, 3, 1, 2, 1], [31, 3, 1, 2, 1]],
        // One phase reads a column that the others do not.
        &[[24, 1, 2, 1, 1], [7, 3, 3, 3, 1]],
    ];
    for case in extent::cases(45, 160) {
        let dims = match wide.get(case / 4) {
            Some(dims) => dims.to_vec(),
            None => (0..1 + case % 3)
                .map(|_| {
                    let taps = rng.pick(&[1, 2, 3, 3, 5, 7]);
                    let dilation = rng.pick(&[1, 1, 1, 2, 3]);
                    let extent = (taps - 1) * dilation + 1 + rng.below(30) as i64;
                    [extent, taps, rng.below(4) as i64, rng.pick(&[1, 2, 2, 2, 3]), dilation]
                })
                .collect(),
        };
        let long = dims.iter().map(|dim| dim[0]).product::<i64>() > 4000;
        let channels = rng.pick(if long { &[3, 5, 9][..] } else { &[2, 5, 16, 33, 70] });
        let (near, gap) = (case % 4 == 3, rng.pick(&[0, 0, 3]));
        let conv = convolution(1 + rng.below(3) as i64, channels, &dims, rng.below(3) == 0);
        let types = TYPES[rng.below(4)];
        let mut value = || rng.below(5) as f64 - 2.0;
        let shapes = conv.dims(Direction::Data);
        let mut dst = tensor(shapes[0], near, gap, types[0], &mut value);
        let [mut a, mut b] = [1, 2].map(|at| tensor(shapes[at], near, 0, types[at], &mut value));
        // Terms of one element per channel, per column and per element.
        let mut dims_of_bias = vec![1; shapes[0].len()];
        let axis = if case % 2 == 0 { 1 } else { shapes[0].len() - 1 };
        dims_of_bias[axis] = shapes[0][axis];
        let mut bias = tensor(&dims_of_bias, near, 0, Scalar::F32, &mut value);
        let mut z = tensor(shapes[0], near, 0, types[0], &mut value);
        let scaling = Scaling { alpha: [1.0, 2.0][case / 4 % 2], beta: [0.0, 0.0, -1.0][case % 3] };
        if scaling.beta == 0.0 {
            dst = dst.fill(|| f64::NAN);
        }
        let relu = Activation { function: Function::ReluOrNan, parameter: 0.0 };
        let terms = Terms {
            z: (case % 5 == 0).then_some((z.side(), 3.0)),
            bias: (case % 5 < 2).then_some(bias.side()),
            activation: (case % 5 < 3).then_some(relu),
            ..Terms::scaled(if case % 5 == 4 { Scaling::MOVE } else { scaling })
        };
        let phases = phases(&conv, [&dst, &a, &b], &terms);
        let at = sources(&phases.0[0], [&mut a, &mut b, &mut z, &mut bias]);
        let want = referenced(&phases.0, &dst, &at);
        for machine in machines(&phases.0) {
            let got = run_together(&phases, &dst, &at, machine);
            assert!(got.same_bytes(&want), "case {case}, {dims:?} on {machine:?}: {phases}");
        }
    }
}

/// Real numbers, infinities and NaN: the same bits for every number of threads, whether the
/// operands are narrow, and whether phases are computed one by one.
#[test]
fn phases_keep_their_bits() {
    let mut rng = Rng(42);
    let layers: [&[Dim]; 5] = [
        &[[3000, 7, 3, 2, 1]],
        &[[41, 3, 1, 2, 1], [40, 3, 1, 2, 1]],
        &[[40, 5, 2, 2, 1], [300, 5, 2, 3, 1]],
        &[[7, 3, 1, 2, 1], [20, 3, 1, 2, 1], [21, 3, 1, 2, 1]],
        &[[150, 3, 1, 2, 1], [151, 3, 1, 2, 1]],
    ];
    for (case, dims) in layers.iter().enumerate() {
        let conv = convolution(2, 39, dims, case % 2 == 1);
        // What halves hold.
        let mut real = || match rng.below(997) {
            0 => f64::INFINITY,
            1 => -0.0,
            _ => (rng.word() >> 54) as f64 / 512.0 - 1.0,
        };
        let shapes = conv.dims(Direction::Data);
        let [dst, mut a, mut b] = [0, 1, 2].map(|at| tensor(shapes[at], false, 0, Scalar::F32, &mut real));
        let mut half = tensor(shapes[1], false, 0, Scalar::F16, || 0.0);
        each(&a.layout.dims, |index| half.set(index, a.get(index)));
        let terms = Terms::scaled(Scaling::MOVE);
        let wide_phases = phases(&conv, [&dst, &a, &b], &terms);
        let half_phases = phases(&conv, [&dst, &half, &b], &terms);
        let [wide, half] = [&mut a, &mut half].map(|a| [a.base(), b.base()]);
        for isa in Isa::available() {
            let first = run(&wide_phases.0, &dst, &wide, Machine { isa, threads: 1 });
            for threads in [1, 2, 3, 8] {
                let machine = Machine { isa, threads };
                for (phases, at) in [(&wide_phases, &wide), (&half_phases, &half)] {
                    let got = run_together(phases, &dst, at, machine);
                    assert!(got.same_bytes(&first), "case {case} on {machine:?}: {phases}");
                }
            }
        }
    }
}

/// The phases of planes, whatever is left of the last ones, and rows that are whole in one
/// dimension.
#[test]
fn phases_of_single_channels_are_computed_together() {
    for extents in [[12, 12], [13, 12], [12, 13], [17, 31], [112, 112], [14, 14]] {
        for (taps, strides) in [(3, [2, 2]), (5, [2, 2]), (3, [1, 2]), (5, [3, 2]), (5, [2, 4])] {
            let dims = [0, 1].map(|d| [extents[d], taps, taps / 2, strides[d], 1]);
            let conv = convolution(2, 5, &dims, false);
            let shapes = conv.dims(Direction::Data);
            let [dx, dy, w] = [0, 1, 2].map(|at| tensor(shapes[at], false, 0, Scalar::F32, || 1.0));
            let phases = phases(&conv, [&dx, &dy, &w], &Terms::scaled(Scaling::MOVE));
            assert_eq!(phases.0.len() as i64, strides[0] * strides[1]);
            for isa in Isa::available() {
                let kernel = backend::kernel(Step::Phases(&phases), false, Machine { isa, threads: 2 });
                assert_eq!(kernel, Some("depthwise_stride_phases"), "{dims:?} on {isa:?}: {phases}");
            }
        }
    }
}
