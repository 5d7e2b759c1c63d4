//! Softmax and its gradient: the CPU core against the reference loop, bit for bit, at every
//! instruction set level, for 1, 2 and 3 threads; and the reference loop against plain formulas in
//! binary64.

use cudnn::backend::{Address, Isa, Machine, kernels, reference, run_by, run_rows};
use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::{Compute, RowFunction, Rows, Scaling, Step};

use testkit::random::Rng;

const FUNCTIONS: [RowFunction; 4] = [
    RowFunction::Softmax,
    RowFunction::LogSoftmax,
    RowFunction::SoftmaxGradient,
    RowFunction::LogSoftmaxGradient,
];

/// Every kernel that accepts a step, on every machine.
fn forced(rows: &Rows) -> impl Iterator<Item = (Machine, &'static str)> {
    let machines = Isa::available().flat_map(|isa| (1..=3).map(move |threads| Machine { isa, threads }));
    machines
        .flat_map(|machine| kernels(Step::Rows(rows), machine).into_iter().map(move |name| (machine, name)))
}

/// Words of any content, as memory of any scalar.
fn memory(scalars: i64, scalar: Scalar, rng: &mut Rng) -> Vec<u64> {
    let words = (scalars as usize * scalar.size()).div_ceil(8) + 2;
    let number = |rng: &mut Rng| (rng.below(4000) as f32 - 2000.0) / 150.0;
    let word = |rng: &mut Rng| match scalar {
        Scalar::F32 => u64::from(number(rng).to_bits()) << 32 | u64::from(number(rng).to_bits()),
        Scalar::F64 => f64::from(number(rng)).to_bits(),
        // Numbers of 2 bytes that are no NaNs in either format.
        Scalar::F16 | Scalar::Bf16 => rng.word() & 0x3fff_3fff_bfff_3fff,
        _ => rng.word(),
    };
    (0..words).map(|_| word(rng)).collect()
}

/// Loops over groups and over elements: the axes of one tensor, dealt out; operands in orders of
/// their own.
fn random_loops(extents: &[i64], is_element: &[bool], rng: &mut Rng) -> (LoopNest<3>, LoopNest<3>, i64) {
    let mut nests = [LoopNest::new(&[], [0; 3]), LoopNest::new(&[], [0; 3])];
    let mut strides = vec![[0; 3]; extents.len()];
    let mut need = 0;
    (0..3).for_each(|k| {
        let mut order: Vec<usize> = (0..extents.len()).collect();
        if rng.below(3) == 0 {
            (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
        }
        let mut step = 1;
        for &i in order.iter().rev() {
            strides[i][k] = step;
            step = step * extents[i] + if rng.below(5) == 0 { 3 } else { 0 };
        }
        need = need.max(step);
    });
    for (i, (&extent, &strides)) in extents.iter().zip(&strides).enumerate() {
        nests[usize::from(is_element[i])].push(Axis { extent, strides });
    }
    nests.iter_mut().for_each(LoopNest::canonicalise);
    let [groups, elements] = nests;
    (groups, elements, need)
}

#[test]
fn groups_agree_with_the_reference() {
    let mut rng = Rng(21);
    for case in 0..900 {
        let mut extents: Vec<i64> = (0..1 + rng.below(4)).map(|_| 1 + rng.below(12) as i64).collect();
        if case % 20 == 0 {
            // Several blocks of the tree; large enough for threads.
            extents = vec![2, 1 + rng.below(5000) as i64, 1 + rng.below(30) as i64];
        }
        let is_element: Vec<bool> = extents.iter().map(|_| rng.below(2) == 0).collect();
        let (groups, elements, need) = random_loops(&extents, &is_element, &mut rng);
        let scalar =
            |rng: &mut Rng| rng.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16, Scalar::I8]);
        let scalars = if rng.below(2) == 0 { [Scalar::F32; 3] } else { [(); 3].map(|()| scalar(&mut rng)) };
        let rows = Rows {
            groups,
            elements,
            scalars,
            compute: rng.pick(&[Compute::Single, Compute::Double]),
            function: FUNCTIONS[case % FUNCTIONS.len()],
            scaling: Scaling { alpha: rng.pick(&[1.0, -0.5]), beta: rng.pick(&[0.0, 0.0, 2.0]) },
        };
        let [before, mut x, mut dy] = scalars.map(|scalar| memory(need, scalar, &mut rng));
        let operands = [x.as_mut_ptr().cast(), dy.as_mut_ptr().cast::<u8>()];
        let mut want = before.clone();
        // SAFETY: every operand is as long as its loops reach.
        unsafe { reference::rows(&rows, [want.as_mut_ptr().cast(), operands[0], operands[1]]) };
        for (machine, name) in forced(&rows) {
            let mut got = before.clone();
            let at = [got.as_mut_ptr().cast(), operands[0], operands[1]].map(Address::from);
            // SAFETY: as above; the destination's offsets are distinct.
            unsafe { run_by(name, Step::Rows(&rows), &at, machine) }.unwrap();
            assert!(got == want, "case {case} by {name} on {machine:?}: {rows}");
        }
    }
}

/// Groups whose elements lie side by side: whole tiles of them and some more, right behind one
/// another or not, also in place.
#[test]
fn groups_one_behind_the_other_agree_with_the_reference() {
    let mut rng = Rng(22);
    for case in 0..240 {
        let scalar = rng.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16, Scalar::I8]);
        // Few elements are turned in their own way.
        let most = if case % 3 == 0 { 8 } else { 199 };
        let (len, count) = (2 + rng.below(most) as i64, 32 + rng.below(600) as i64);
        let pitches = [(); 3].map(|()| len + rng.pick(&[0, 0, 5]));
        let rows = Rows {
            groups: LoopNest::new(&[Axis { extent: count, strides: pitches }], [0; 3]),
            elements: LoopNest::new(&[Axis { extent: len, strides: [1; 3] }], [0; 3]),
            scalars: [scalar; 3],
            compute: if scalar == Scalar::F64 { Compute::Double } else { Compute::Single },
            function: FUNCTIONS[case % FUNCTIONS.len()],
            scaling: Scaling { alpha: rng.pick(&[1.0, -0.5]), beta: rng.pick(&[0.0, 0.0, 2.0]) },
        };
        let [before, mut x, mut dy] = pitches.map(|pitch| memory(count * pitch, scalar, &mut rng));
        let in_place = pitches[0] == pitches[1] && rng.below(2) == 0;
        let before = if in_place { x.clone() } else { before };
        let at = |dst: &mut [u64], x: &mut [u64], dy: &mut [u64]| {
            let dst = dst.as_mut_ptr().cast::<u8>();
            [dst, if in_place { dst } else { x.as_mut_ptr().cast() }, dy.as_mut_ptr().cast()]
        };
        let mut want = before.clone();
        // The reference reads a group anew for each of its elements.
        let apart = [want.as_mut_ptr().cast(), x.as_mut_ptr().cast(), dy.as_mut_ptr().cast()];
        // SAFETY: every operand is as long as its loops reach.
        unsafe { reference::rows(&rows, apart) };
        for (machine, name) in forced(&rows) {
            let mut got = before.clone();
            let at = at(&mut got, &mut x, &mut dy).map(Address::from);
            // SAFETY: as above; the destination's offsets are distinct.
            unsafe { run_by(name, Step::Rows(&rows), &at, machine) }.unwrap();
            assert!(got == want, "case {case} by {name} on {machine:?}, in place {in_place}: {rows}");
        }
    }
}

/// Results that are written past the caches, as they are and converted.
#[test]
fn large_results_agree_with_the_reference() {
    let mut rng = Rng(23);
    let cases = [
        (Scalar::F32, RowFunction::LogSoftmax),
        (Scalar::Bf16, RowFunction::Softmax),
        (Scalar::F16, RowFunction::SoftmaxGradient),
    ];
    for (scalar, function) in cases {
        // No tile ends where a line does.
        let count = (16 << 20) / scalar.size() as i64 / 3 + 101;
        let nest = |extent, step| LoopNest::new(&[Axis { extent, strides: [step; 3] }], [0; 3]);
        let (groups, elements) = (nest(count, 1), nest(3, count));
        let scaling = Scaling { alpha: if scalar == Scalar::F32 { 1.0 } else { -0.5 }, beta: 0.0 };
        let rows =
            Rows { groups, elements, scalars: [scalar; 3], compute: Compute::Single, function, scaling };
        let [before, mut x, mut dy] = [(); 3].map(|()| memory(3 * count, scalar, &mut rng));
        let operands = [x.as_mut_ptr().cast(), dy.as_mut_ptr().cast::<u8>()];
        let mut want = before.clone();
        // SAFETY: every operand is as long as its loops reach.
        unsafe { reference::rows(&rows, [want.as_mut_ptr().cast(), operands[0], operands[1]]) };
        for isa in Isa::available() {
            let mut got = before.clone();
            let machine = Machine { isa, threads: 2 };
            // SAFETY: as above; the destination's offsets are distinct.
            unsafe { run_rows(&rows, [got.as_mut_ptr().cast(), operands[0], operands[1]], machine) }.unwrap();
            assert!(got == want, "{machine:?}: {rows}");
        }
    }
}

/// 7 groups of 1,500 neighbours, or of 1,500 elements 7 apart.
fn two_ways() -> [(LoopNest<3>, LoopNest<3>); 2] {
    let nest = |extent, step| LoopNest::new(&[Axis { extent, strides: [step; 3] }], [0; 3]);
    [(nest(7, 1500), nest(1500, 1)), (nest(7, 1), nest(1500, 7))]
}

#[test]
fn groups_agree_with_plain_formulas() {
    let mut rng = Rng(22);
    for (groups, elements) in two_ways() {
        let x: Vec<f64> = (0..7 * 1500).map(|_| (rng.below(2000) as f64 - 1000.0) / 70.0).collect();
        let dy: Vec<f64> = (0..7 * 1500).map(|_| (rng.below(2000) as f64 - 1000.0) / 500.0).collect();
        for function in FUNCTIONS {
            let scalars = [Scalar::F64; 3];
            let rows = Rows {
                groups,
                elements,
                scalars,
                compute: Compute::Double,
                function,
                scaling: Scaling::MOVE,
            };
            let mut got = vec![0.0_f64; x.len()];
            let at = [got.as_mut_ptr().cast(), x.as_ptr().cast_mut().cast(), dy.as_ptr().cast_mut().cast()];
            // SAFETY: as long as the loops reach.
            unsafe { run_rows(&rows, at, Machine::host()) }.unwrap();
            for group in 0..7 {
                let place = |i: usize| {
                    (group * groups.axes()[0].strides[0] + i as i64 * elements.axes()[0].strides[0]) as usize
                };
                let each = |f: &dyn Fn(usize) -> f64| (0..1500).map(|i| f(place(i))).sum::<f64>();
                let peak = (0..1500).map(|i| x[place(i)]).fold(f64::NEG_INFINITY, f64::max);
                let sum = each(&|i| (x[i] - peak).exp());
                let (dot, total) = (each(&|i| x[i] * dy[i]), each(&|i| dy[i]));
                for i in (0..1500).map(place) {
                    let want = match function {
                        RowFunction::Softmax => (x[i] - peak).exp() / sum,
                        RowFunction::LogSoftmax => x[i] - peak - sum.ln(),
                        RowFunction::SoftmaxGradient => x[i] * (dy[i] - dot),
                        RowFunction::LogSoftmaxGradient => dy[i] - x[i].exp() * total,
                    };
                    let bound = 1e-12
                        * want.abs().max(1.0).max(
                            x[i].abs().exp()
                                * f64::from(u8::from(function == RowFunction::LogSoftmaxGradient)),
                        );
                    assert!((got[i] - want).abs() <= bound, "{function:?}: {} instead of {want}", got[i]);
                }
            }
        }
    }
}

#[test]
fn infinities_and_nans_are_as_they_come() {
    let inf = f32::INFINITY;
    let cases: &[(&[f32], &[f32], &[f32])] = &[
        (&[0.0, -inf], &[1.0, 0.0], &[0.0, -inf]),
        (&[-inf, -inf], &[f32::NAN; 2], &[f32::NAN; 2]),
        (&[inf, 0.0], &[f32::NAN; 2], &[f32::NAN; 2]),
        (&[f32::NAN, 0.0], &[f32::NAN; 2], &[f32::NAN; 2]),
        (&[3e38, -3e38], &[1.0, 0.0], &[0.0, -inf]),
        (&[-1000.0, -1000.0], &[0.5, 0.5], &[-std::f32::consts::LN_2; 2]),
    ];
    for (x, softmax, logarithm) in cases {
        for (function, want) in [(RowFunction::Softmax, softmax), (RowFunction::LogSoftmax, logarithm)] {
            let elements = LoopNest::new(&[Axis { extent: x.len() as i64, strides: [1; 3] }], [0; 3]);
            let groups = LoopNest::new(&[], [0; 3]);
            let (compute, scalars) = (Compute::Single, [Scalar::F32; 3]);
            let rows = Rows { groups, elements, scalars, compute, function, scaling: Scaling::MOVE };
            let mut got = vec![7.0_f32; x.len()];
            let from = x.as_ptr().cast_mut().cast();
            // SAFETY: as long as the loops reach.
            unsafe { run_rows(&rows, [got.as_mut_ptr().cast(), from, from], Machine::host()) }.unwrap();
            for (got, want) in got.iter().zip(*want) {
                let same = got == want || got.is_nan() && want.is_nan() || (got - want).abs() < 1e-6;
                assert!(same, "{function:?} of {x:?}: {got} instead of {want}");
            }
        }
    }
}
