//! Element-wise operations and reductions of the CPU core against the reference loops, bit for bit,
//! at every instruction set level of this processor, for 1, 2 and 3 threads, with guard bytes
//! around and between the cells; and how exact long sums are, at the highest level.

use cudnn::backend::{Address, Isa, Machine, kernels, reference, run_by, run_map, run_reduce};
use cudnn::desc::{Format, ReduceDescriptor, ReduceOp, TensorDescriptor};
use cudnn::dtype::{DataType, Scalar};
use cudnn::layout::{Axis, LoopNest};
use cudnn::mode::Mode;
use cudnn::ops::function::{Function, TABLE};
use cudnn::ops::map::Factors;
use cudnn::ops::{Compute, Indices, Map, Plan, Reduce, ReducePlan, Scaling, Set, Step, bias};

use testkit::every_reduction::REDUCTIONS;
use testkit::extent::{self, is_full};
use testkit::random::Rng;

fn machines() -> impl Iterator<Item = Machine> {
    Isa::available().flat_map(|isa| (1..=3).map(move |threads| Machine { isa, threads }))
}

/// Memory in words, so that every scalar is aligned: `front` scalars, the cells, and a guard
/// behind.
#[derive(Clone, PartialEq, Debug)]
struct Memory(Vec<u64>);

impl Memory {
    fn of(scalars: i64, scalar: Scalar, rng: &mut Rng) -> Self {
        let words = (scalars as usize * scalar.size()).div_ceil(8) + 2;
        let small = rng.below(2) == 0;
        let specials = [0.0_f32, -0.0, 1.0, -1.5, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 4.0, 3e38];
        let word = |rng: &mut Rng| match scalar {
            Scalar::F32 if small => {
                let mut half = || match rng.below(20) {
                    0 => u64::from(rng.pick(&specials).to_bits()),
                    _ => u64::from((rng.word() as i32 as f32 / 1e9).to_bits()),
                };
                half() | half() << 32
            }
            Scalar::F64 if small => (rng.word() as i64 as f64 / 1e18).to_bits(),
            _ => rng.word(),
        };
        Memory((0..words).map(|_| word(rng)).collect())
    }

    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Loops of the given extents over `N` operands, each in an order of its own, some with gaps or
/// negative strides; operands but the first may repeat. Starts where every offset is positive. The
/// scalars that each operand needs.
fn random_nest<const N: usize>(extents: &[i64], rng: &mut Rng) -> (LoopNest<N>, [i64; N]) {
    let mut axes: Vec<Axis<N>> = extents.iter().map(|&extent| Axis { extent, strides: [0; N] }).collect();
    for k in 0..N {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        if rng.below(2) == 0 {
            (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
        }
        let mut step = 1;
        for &i in order.iter().rev() {
            axes[i].strides[k] = if rng.below(6) == 0 { -step } else { step };
            if k > 0 && rng.below(4) == 0 {
                axes[i].strides[k] = 0;
            }
            step *= axes[i].extent;
            step += if rng.below(4) == 0 { rng.below(3) as i64 } else { 0 };
        }
    }
    let mut nest = LoopNest::new(&axes, [0; N]);
    let spans: [(i64, i64); N] = std::array::from_fn(|k| nest.span(k).expect("small"));
    nest.offsets = spans.map(|(low, _)| 3 - low);
    (nest.canonical(), spans.map(|(low, high)| high - low + 6))
}

#[test]
fn operations_agree_with_the_reference() {
    let mut rng = Rng(11);
    for case in 0..3000 {
        let rank = rng.below(4);
        let mut extents: Vec<i64> = (0..rank).map(|_| 1 + rng.below(12) as i64).collect();
        if case % 30 == 0 {
            extents = vec![3, 1 + rng.below(70_000) as i64];
        }
        let (nest, need) = random_nest::<6>(&extents, &mut rng);
        let scalars =
            if rng.below(2) == 0 { [Scalar::F32; 6] } else { [(); 6].map(|()| rng.pick(&Scalar::ALL)) };
        let factor = |rng: &mut Rng| rng.pick(&[0.0, 1.0, -0.5, 3.0]);
        let problem = Map {
            nest,
            scalars,
            compute: rng.pick(&[Compute::Single, Compute::Double]),
            function: TABLE[case % TABLE.len()].function,
            parameter: rng.pick(&[1.0, 0.5, -2.0, 6.0]),
            factors: Factors { alpha: [factor(&mut rng), factor(&mut rng)], beta: factor(&mut rng) },
        };
        let mut operands: [Memory; 6] = std::array::from_fn(|k| Memory::of(need[k], scalars[k], &mut rng));
        let before = operands[0].clone();
        let [_, a, b, c, d, e] = operands.each_mut().map(Memory::ptr);
        let mut want = before.clone();
        // SAFETY: every operand is as long as its span.
        unsafe { reference::map(&problem, [want.ptr(), a, b, c, d, e]) };
        for machine in machines() {
            for name in kernels(Step::WideMap(&problem), machine) {
                let mut got = before.clone();
                let at = [got.ptr(), a, b, c, d, e].map(Address::from);
                // SAFETY: as above; the destination's offsets are distinct.
                unsafe { run_by(name, Step::WideMap(&problem), &at, machine) }.unwrap();
                assert!(got == want, "case {case} by {name} on {machine:?}: {problem}");
            }
        }
    }
}

#[test]
fn operations_in_place_and_past_the_caches_agree_with_the_reference() {
    let mut rng = Rng(12);
    // Those of OpTensor, and two that take longer; how the others write does not differ.
    let functions = TABLE.iter().map(|row| row.function).take(extent::cases(4, 12).len());
    for (case, function) in functions.enumerate() {
        // More than is written through the caches.
        let extent = (5 << 20) + 7;
        let nest = LoopNest::new(&[Axis { extent, strides: [1; 3] }], [1, 1, 1]);
        let factors = Factors { alpha: [1.0, -2.0], beta: 0.0 };
        let problem = Map {
            nest,
            scalars: [Scalar::F32; 3],
            compute: Compute::Single,
            function,
            parameter: 1.5,
            factors,
        };
        let [mut a, mut b, before] = [(); 3].map(|()| Memory::of(extent + 3, Scalar::F32, &mut rng));
        let (mut want, mut want_in_place) = (before.clone(), a.clone());
        let cells = want_in_place.ptr();
        // SAFETY: all are as long as the loop, and aliased cell by cell only.
        unsafe {
            reference::map(&problem, [want.ptr(), a.ptr(), b.ptr()]);
            reference::map(&problem, [cells, cells, b.ptr()]);
        }
        for machine in machines() {
            let (mut got, mut in_place) = (before.clone(), a.clone());
            let cells = in_place.ptr();
            // SAFETY: as above.
            unsafe {
                run_map(&problem, [got.ptr(), a.ptr(), b.ptr()], machine).unwrap();
                run_map(&problem, [cells, cells, b.ptr()], machine).unwrap();
            }
            assert!(got == want, "{case} on {machine:?}: {problem}");
            assert!(in_place == want_in_place, "{case} in place on {machine:?}: {problem}");
        }
    }
}

#[test]
fn runs_of_16_bit_cells_agree_with_the_reference() {
    let mut rng = Rng(13);
    for case in extent::cases(10 * TABLE.len(), 40 * TABLE.len()) {
        let scalar = rng.pick(&[Scalar::F16, Scalar::Bf16]);
        // Once for some functions, more than is written through the caches.
        let extent = if case % 37 == 0 && case < if is_full() { 150 } else { 1 } {
            (8 << 20) + 77
        } else {
            1 + rng.below(700) as i64
        };
        runs_agree(case, TABLE[case % TABLE.len()].function, [scalar; 6], extent, &mut rng);
    }
}

#[test]
fn runs_of_bytes_agree_with_the_reference() {
    let mut rng = Rng(14);
    let of_one: Vec<_> =
        TABLE.iter().map(|row| row.function).filter(|function| function.arity() == 1).collect();
    let types: Vec<_> = Scalar::ALL.into_iter().filter(|scalar| scalar.size() == 1).collect();
    for case in 0..20 * of_one.len() {
        let scalars = std::array::from_fn(|_| rng.pick(&types));
        // Few, and more than are computed one by one, and once more than is written through the
        // caches.
        let extent = if case == 0 {
            (16 << 20) + 77
        } else {
            1 + {
                let most = rng.pick(&[700, 30_000]);
                rng.below(most) as i64
            }
        };
        runs_agree(case, of_one[case % of_one.len()], scalars, extent, &mut rng);
    }
}

/// Side by side, apart and in place.
fn runs_agree(case: usize, function: Function, scalars: [Scalar; 6], extent: i64, rng: &mut Rng) {
    let offsets: [i64; 6] = std::array::from_fn(|_| rng.below(40) as i64);
    let factors =
        Factors { alpha: [rng.pick(&[1.0, -0.5]), rng.pick(&[1.0, 3.0])], beta: rng.pick(&[0.0, 0.0, 2.0]) };
    let mut problem = Map {
        nest: LoopNest::new(&[Axis { extent, strides: [1; 6] }], offsets),
        scalars,
        compute: Compute::Single,
        function,
        parameter: rng.pick(&[1.0, 0.5, 6.0]),
        factors,
    };
    let mut operands: [Memory; 6] = scalars.map(|scalar| Memory::of(extent + 40, scalar, rng));
    let before = operands[0].clone();
    let [_, a, b, c, d, e] = operands.each_mut().map(Memory::ptr);
    let mut want = before.clone();
    // SAFETY: every operand is as long as its span.
    unsafe { reference::map(&problem, [want.ptr(), a, b, c, d, e]) };
    let of_a = operands[1].clone();
    problem.nest.offsets[0] = offsets[1];
    let mut want_in_place = of_a.clone();
    let cells = want_in_place.ptr();
    // SAFETY: as above, aliased cell by cell only.
    unsafe { reference::map(&problem, [cells, cells, b, c, d, e]) };
    for machine in machines() {
        let (mut got, mut in_place) = (before.clone(), of_a.clone());
        let cells = in_place.ptr();
        // SAFETY: as above.
        unsafe {
            run_map(&problem, [cells, cells, b, c, d, e], machine).unwrap();
            problem.nest.offsets[0] = offsets[0];
            run_map(&problem, [got.ptr(), a, b, c, d, e], machine).unwrap();
            problem.nest.offsets[0] = offsets[1];
        }
        assert!(got == want, "case {case} on {machine:?}: {problem}");
        assert!(in_place == want_in_place, "case {case} in place on {machine:?}: {problem}");
    }
}

#[test]
fn values_are_set_everywhere_and_nowhere_else() {
    let mut rng = Rng(13);
    // Runs that exceed the caches, which take longest.
    let large = extent::cases(2, 6).len();
    for case in 0..600 {
        let rank = rng.below(4);
        let mut extents: Vec<i64> = (0..rank).map(|_| 1 + rng.below(12) as i64).collect();
        if case % (600 / large) == 0 {
            extents = vec![(18 << 20) + rng.below(100) as i64];
        }
        let (nest, [need]) = random_nest::<1>(&extents, &mut rng);
        let scalar = rng.pick(&Scalar::ALL);
        let set = Set { nest, dst: scalar, cell: rng.word() >> (64 - 8 * scalar.size()) };
        let before = Memory::of(need, scalar, &mut rng);
        let mut want = before.clone();
        // SAFETY: the memory is as long as the span.
        unsafe { reference::set(&set, want.ptr()) };
        for machine in machines() {
            for name in kernels(Step::Set(&set), machine) {
                let mut got = before.clone();
                // SAFETY: as above.
                unsafe { run_by(name, Step::Set(&set), &[got.ptr().into()], machine) }.unwrap();
                assert!(got == want, "case {case} by {name} on {machine:?}: {:?}", set.nest);
            }
        }
    }
}

/// A reduction of a packed or permuted tensor over some of its dimensions, through its plan.
fn random_reduction(case: usize, rng: &mut Rng) -> (Vec<Reduce>, [i64; 2], usize) {
    let rank = 2 + rng.below(4);
    let mut dims: Vec<i64> = (0..rank).map(|_| 1 + rng.below(9) as i64).collect();
    let long = rng.below(rank);
    dims[long] = match case % 8 {
        // Enough for several chunks of one output, and for more than one thread.
        0 => {
            dims.fill(1 + rng.below(2) as i64);
            1 + rng.below(60_000) as i64
        }
        _ => 1 + rng.below(60) as i64,
    };
    let mut order: Vec<usize> = (0..rank).collect();
    (1..rank).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
    let mut strides = vec![0; rank];
    let mut step = 1;
    for &k in order.iter().rev() {
        strides[k] = if rng.below(8) == 0 { -step } else { step };
        step = step * dims[k] + if rng.below(6) == 0 { 1 } else { 0 };
    }
    let results: Vec<i64> = dims.iter().map(|&d| if rng.below(2) == 0 { 1 } else { d }).collect();
    let types = [DataType::Float, DataType::Half, DataType::Double, DataType::Int8, DataType::Bfloat16];
    let data_type = rng.pick(&types);
    let a = TensorDescriptor::with_strides(data_type, rank as i64, &dims, &strides, Mode::Extended).unwrap();
    let mut packed = vec![1; rank];
    (1..rank).rev().for_each(|k| packed[k - 1] = packed[k] * results[k]);
    let c =
        TensorDescriptor::with_strides(data_type, rank as i64, &results, &packed, Mode::Extended).unwrap();
    let desc = ReduceDescriptor {
        op: ReduceOp::Max,
        compute_type: rng.pick(&[DataType::Float, DataType::Double]),
        indices: cudnn::desc::ReduceIndices::Flattened,
        ..ReduceDescriptor::default()
    };
    let scaling = Scaling { alpha: rng.pick(&[1.0, -0.5]), beta: rng.pick(&[0.0, 1.0, 2.0]) };
    let plan = ReducePlan::new(&desc, &a, &c, scaling, Mode::Extended).unwrap();
    let mut problems = vec![];
    plan.for_each(&mut |problem| {
        let mut problem = *problem;
        problem.reduction = REDUCTIONS[case % REDUCTIONS.len()];
        let width = rng.pick(&[None, Some(Indices::Bits32), Some(Indices::Bits64)]);
        problem.indices = width.filter(|_| problem.reduction.selects());
        problems.push(problem);
        Ok(())
    })
    .unwrap();
    let [c_span, a_span] = [0, 2].map(|k| plan.operands()[k].span);
    let size = data_type.size() as i64;
    for problem in &mut problems {
        problem.outputs.offsets[0] -= c_span.0 / size;
        problem.outputs.offsets[1] -= a_span.0 / size;
    }
    let scalars = [c_span, a_span].map(|(low, high)| (high - low) / size);
    (problems, scalars, results.iter().product::<i64>() as usize)
}

#[test]
fn reductions_agree_with_the_reference_for_every_number_of_threads() {
    let mut rng = Rng(14);
    for case in 0..1200 {
        let (problems, [c_len, a_len], outputs) = random_reduction(case, &mut rng);
        for problem in problems {
            let mut a = Memory::of(a_len, problem.src, &mut rng);
            let before = Memory::of(c_len, problem.dst, &mut rng);
            let index_memory = Memory(vec![!0; outputs + 1]);
            let (mut want, mut want_indices) = (before.clone(), index_memory.clone());
            // SAFETY: the memory is as long as the spans, and there is room for an index of 8 bytes
            // per output.
            unsafe { reference::reduce(&problem, want.ptr(), a.ptr(), want_indices.ptr()) };
            for machine in machines() {
                let (mut got, mut indices) = (before.clone(), index_memory.clone());
                // SAFETY: as above.
                unsafe { run_reduce(&problem, got.ptr(), a.ptr(), indices.ptr(), machine) }.unwrap();
                assert!(got == want, "case {case} on {machine:?}: {problem}: {got:x?} instead of {want:x?}");
                assert!(indices == want_indices, "indices of case {case} on {machine:?}: {problem}");
            }
        }
    }
}

/// Planes whose blocks end in the next image, and pixels that follow one another or not, as in the
/// gradient of a bias.
#[test]
fn sums_of_channels_agree_with_the_reference_in_either_layout() {
    let mut rng = Rng(16);
    for (format, dims, gap) in [
        (Format::Nchw, [5, 7, 56, 56], 0),
        (Format::Nchw, [3, 40, 33, 32], 3),
        (Format::Nhwc, [2, 64, 40, 29], 0),
        (Format::Nhwc, [2, 64, 64, 33], 1),
        (Format::Nhwc, [1, 600, 40, 8], 0),
        (Format::Nhwc, [3, 17, 32, 31], 0),
    ] {
        for data_type in [DataType::Float, DataType::Half, DataType::Double] {
            let [images, channels, rows, columns] = dims;
            let (pixels, pitch) = (rows * columns, channels + gap);
            let strides = match format {
                Format::Nhwc => [pixels * pitch, 1, columns * pitch, pitch],
                _ => [channels * (pixels + gap), pixels + gap, columns, 1],
            };
            let dy = TensorDescriptor::with_strides(data_type, 4, &dims, &strides, Mode::Extended).unwrap();
            let one = [1, channels, 1, 1];
            let db = TensorDescriptor::with_format(data_type, Format::Nchw, 4, &one, Mode::Extended).unwrap();
            let plan = bias::gradient(&dy, &db, Scaling::MOVE, Mode::Extended).unwrap();
            let from = Memory::of(images * strides[0], data_type.scalar(), &mut rng);
            let before = Memory::of(channels, data_type.scalar(), &mut rng);
            plan.for_each(&mut |problem| {
                let (mut from, mut want) = (from.clone(), before.clone());
                let none = std::ptr::null_mut();
                // SAFETY: the memory is as long as the tensors.
                unsafe { reference::reduce(problem, want.ptr(), from.ptr(), none) };
                for machine in machines() {
                    let mut got = before.clone();
                    // SAFETY: as above.
                    unsafe { run_reduce(problem, got.ptr(), from.ptr(), none, machine) }.unwrap();
                    assert!(got == want, "{problem} on {machine:?}: {got:x?} instead of {want:x?}");
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

/// Sums `count` numbers in the given layout of memory, on two threads.
fn sum_of(numbers: &[f32], count: i64, stride: i64) -> f32 {
    let dims = [1, count];
    let a = TensorDescriptor::with_strides(DataType::Float, 2, &dims, &[1, stride], Mode::Extended).unwrap();
    let c = TensorDescriptor::with_strides(DataType::Float, 2, &[1, 1], &[1, 1], Mode::Extended).unwrap();
    let desc = ReduceDescriptor::default();
    let plan = ReducePlan::new(&desc, &a, &c, Scaling::MOVE, Mode::Extended).unwrap();
    let mut sum = f32::NAN;
    plan.for_each(&mut |problem| {
        let (to, from) = ((&raw mut sum).cast::<u8>(), numbers.as_ptr().cast::<u8>());
        let machine = Machine { isa: Isa::best(), threads: 2 };
        // SAFETY: one output, and as many numbers as the tensor has.
        unsafe { run_reduce(problem, to, from, std::ptr::null_mut(), machine) }
    })
    .unwrap();
    sum
}

#[test]
fn a_float_sum_of_a_hundred_million_ones_is_exact() {
    assert_eq!(sum_of(&[1.0], 100_000_000, 0), 100_000_000.0);
    let ones = vec![1.0_f32; 20_000_001];
    assert_eq!(sum_of(&ones, 20_000_001, 1), 20_000_001_i32 as f32);
}

#[test]
fn random_float_sums_are_off_by_less_than_two_units_per_level() {
    let mut rng = Rng(15);
    for count in [100, 1000, 1024, 1025, 5000, 100_000, 3_000_000] {
        let numbers: Vec<f32> = (0..count).map(|_| (rng.word() >> 40) as f32 / 16_777_216.0).collect();
        let exact: f64 = numbers.iter().map(|&x| f64::from(x)).sum();
        let sum = sum_of(&numbers, count as i64, 1);
        let unit = f64::from((exact as f32).next_up() - exact as f32);
        let bound = 2.0 * (count as f64).log2() * unit;
        assert!((f64::from(sum) - exact).abs() <= bound, "{count}: {sum} instead of {exact}");
    }
}
