//! Plans of convolutions: against sums that the original has left on a GPU, against each other, and
//! what they ask for.

use cudnn::backend::{Address, Isa};
use cudnn::desc::tensor::Format;
use cudnn::desc::{
    ActivationDescriptor, ActivationMode, ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode,
    FilterDescriptor, MathType, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::exec::Context;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::bias;
use cudnn::ops::convolution::{Algorithm, Convolution, ConvolutionPlan, Direction, Fused, TAKES_ALL};
use cudnn::ops::{Plan, Scaling};

/// `amplitude * sin(0.7 * i + 0.3) + 0.1 * (i % 5) - 0.2` in float, `i` counted from `first`.
fn waves(count: usize, amplitude: f32, first: usize) -> Vec<f32> {
    let wave = |i: usize| amplitude * (0.7 * i as f32 + 0.3).sin() + 0.1 * (i % 5) as f32 - 0.2;
    (first..first + count).map(wave).collect()
}

/// A recorded problem.
struct Case<'a> {
    name: &'static str,
    x: &'a [i64],
    w: &'a [i64],
    /// Padding, stride and dilation of every spatial dimension.
    steps: [i64; 3],
    mode: ConvolutionMode,
    format: Format,
    data_type: DataType,
}

const fn case<'a>(name: &'static str, x: &'a [i64], w: &'a [i64], steps: [i64; 3]) -> Case<'a> {
    let (mode, format) = (ConvolutionMode::CrossCorrelation, Format::Nchw);
    Case { name, x, w, steps, mode, format, data_type: DataType::Float }
}

fn cases() -> Vec<Case<'static>> {
    vec![
        case("conv 3x3 pad1", &[2, 4, 8, 8], &[6, 4, 3, 3], [1, 1, 1]),
        case("conv 3x2 pad2 s2 d2", &[1, 3, 9, 8], &[4, 3, 3, 2], [2, 2, 2]),
        Case {
            mode: ConvolutionMode::Convolution,
            ..case("conv flipped g2", &[2, 4, 7, 7], &[6, 2, 3, 3], [1, 1, 1])
        },
        case("conv depthwise s2", &[1, 4, 6, 6], &[4, 1, 3, 3], [1, 2, 1]),
        Case { format: Format::Nhwc, ..case("conv nhwc 3x3", &[2, 3, 5, 6], &[4, 3, 3, 3], [1, 1, 1]) },
        case("conv 3-D", &[1, 2, 4, 5, 5], &[3, 2, 2, 3, 3], [1, 1, 1]),
        Case {
            data_type: DataType::Double,
            ..case("conv double s2", &[2, 3, 6, 6], &[4, 3, 3, 3], [1, 2, 1])
        },
    ]
}

impl Case<'_> {
    fn desc(&self) -> ConvolutionDescriptor {
        let all = |value: i64| Dims::filled(self.x.len() - 2, value);
        let [padding, stride, dilation] = self.steps.map(all);
        let geometry = ConvolutionGeometry::new(self.mode, self.data_type, padding, stride, dilation);
        ConvolutionDescriptor { geometry: geometry.expect("valid"), ..ConvolutionDescriptor::default() }
    }

    fn tensor(&self, dims: &[i64]) -> TensorDescriptor {
        let rank = dims.len() as i64;
        TensorDescriptor::with_format(self.data_type, self.format, rank, dims, Mode::Strict).expect("valid")
    }

    fn problem(&self, direction: Direction, mode: Mode) -> Convolution {
        let rank = self.w.len() as i64;
        let w = FilterDescriptor::new(self.data_type, self.format, rank, self.w, mode).expect("valid");
        let mut y = vec![self.x[0], self.w[0]];
        let [padding, stride, dilation] = self.steps;
        for axis in 2..self.x.len() {
            y.push(1 + (self.x[axis] + 2 * padding - ((self.w[axis] - 1) * dilation + 1)) / stride);
        }
        let (x, y) = (self.tensor(self.x), self.tensor(&y));
        Convolution::new(direction, &self.desc(), &x, &w, &y, mode).expect("the original computes it")
    }
}

/// Numbers of one of the two types that the cases have.
#[derive(Clone)]
enum Array {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Array {
    fn waves(data_type: DataType, count: i64, amplitude: f32, first: usize) -> Self {
        let waves = waves(count as usize, amplitude, first);
        match data_type {
            DataType::Double => Array::Double(waves.into_iter().map(f64::from).collect()),
            _ => Array::Single(waves),
        }
    }

    fn address(&mut self) -> Address {
        match self {
            Array::Single(values) => values.as_mut_ptr().into(),
            Array::Double(values) => values.as_mut_ptr().into(),
        }
    }

    fn values(&self) -> Vec<f64> {
        match self {
            Array::Single(values) => values.iter().map(|&v| v.into()).collect(),
            Array::Double(values) => values.clone(),
        }
    }
}

fn run(plan: &ConvolutionPlan, operands: &mut [&mut Array]) {
    let at: Vec<Address> = operands.iter_mut().map(|operand| operand.address()).collect();
    // SAFETY: every array is as long as its packed tensor.
    unsafe { Context::cpu().run(plan, &at) }.expect("runs");
}

#[test]
fn all_directions_are_those_of_the_original() {
    let mut compared = 0;
    for case in cases() {
        let of = |dims: &[i64]| dims.iter().product::<i64>();
        let shape = case.problem(Direction::Forward, Mode::Strict);
        let outputs = of(&shape.y.dims());
        let data = |count: i64, amplitude, first| Array::waves(case.data_type, count, amplitude, first);
        let (mut x, mut w) = (data(of(case.x), 1.0, 0), data(of(case.w), 0.5, 3));
        let (mut dy, mut y) = (data(outputs, 0.8, 7), data(outputs, 0.3, 11));
        let (mut dx, mut dw) = (data(of(case.x), 0.3, 13), data(of(case.w), 0.3, 17));
        let plan = |direction, scaling| {
            ConvolutionPlan::new(&case.problem(direction, Mode::Strict), scaling).expect("computed")
        };
        run(&plan(Direction::Forward, Scaling::MOVE), &mut [&mut y, &mut x, &mut w]);
        let scaling = Scaling { alpha: 0.5, beta: 0.25 };
        run(&plan(Direction::BackwardData, scaling), &mut [&mut dx, &mut dy, &mut w]);
        run(&plan(Direction::BackwardFilter, Scaling::MOVE), &mut [&mut dw, &mut x, &mut dy]);
        let channels = shape.y.dims()[1];
        let mut ones = vec![1; case.x.len()];
        ones[1] = channels;
        let bias = bias::gradient(&shape.y, &case.tensor(&ones), scaling, Mode::Strict).expect("computed");
        let mut db = data(channels, 0.5, 0);
        // SAFETY: every array is as long as its packed tensor.
        unsafe { Context::cpu().run(&bias, &[db.address(), dy.address()]) }.expect("runs");
        let results =
            [("forward", &y), ("backward data", &dx), ("backward filter", &dw), ("backward bias", &db)];
        for (what, array) in results {
            assert_sums(&format!("{} {what}", case.name), &array.values());
            compared += 1;
        }
        let dims: Vec<String> = shape.y.dims().iter().map(i64::to_string).collect();
        assert_eq!(dims.join("x"), recorded(&format!("{} y", case.name)));
        compared += 1;
    }
    assert_eq!(compared, lines().filter(|(line, _)| line.starts_with("conv ")).count(), "recorded cases");
}

/// Cases and what was recorded of them.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("../data/golden/rtx3060.tsv").lines().filter_map(|line| line.split_once('\t'))
}

fn recorded(name: &str) -> &'static str {
    lines().find(|(line, _)| *line == name).expect("recorded").1
}

/// Compares sum |v|, sum v*v and sum |v|*(1+i%7) with the recorded line.
fn assert_sums(name: &str, values: &[f64]) {
    let mut got = [0.0; 3];
    for (i, v) in values.iter().map(|v| v.abs()).enumerate() {
        got[0] += v;
        got[1] += v * v;
        got[2] += v * (1 + i % 7) as f64;
    }
    for (got, want) in got.iter().zip(recorded(name).split(' ')) {
        let want: f64 = want.parse().expect("a sum");
        assert!((got - want).abs() <= 2e-6 * want, "{name}: {got} instead of {want}");
    }
}

/// The gradients are the transposes of the forward sum: with whole numbers every one of these
/// products is exact.
#[test]
fn the_three_directions_are_adjoint() {
    for case in cases() {
        let shape = case.problem(Direction::Forward, Mode::Strict);
        let of = |dims: &[i64]| dims.iter().product::<i64>() as usize;
        let whole = |count: usize, step: usize| -> Array {
            let values = (0..count).map(|i| ((i * step) % 7) as f64 - 3.0);
            match case.data_type {
                DataType::Double => Array::Double(values.collect()),
                _ => Array::Single(values.map(|v| v as f32).collect()),
            }
        };
        let (mut x, mut w) = (whole(of(case.x), 5), whole(of(case.w), 3));
        let mut dy = whole(of(&shape.y.dims()), 11);
        let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
        let plan = |direction| {
            let problem = case.problem(direction, Mode::Strict);
            ConvolutionPlan::new(&problem, Scaling::MOVE).expect("computed")
        };
        run(&plan(Direction::Forward), &mut [&mut y, &mut x, &mut w]);
        run(&plan(Direction::BackwardData), &mut [&mut dx, &mut dy, &mut w]);
        run(&plan(Direction::BackwardFilter), &mut [&mut dw, &mut x, &mut dy]);
        let product =
            |a: &Array, b: &Array| -> f64 { a.values().iter().zip(b.values()).map(|(a, b)| a * b).sum() };
        let forward = product(&y, &dy);
        assert_eq!(forward, product(&x, &dx), "{}: data gradient", case.name);
        assert_eq!(forward, product(&w, &dw), "{}: filter gradient", case.name);
    }
}

/// Item i of a batch has the same bits alone and in the batch.
#[test]
fn a_batch_has_the_bits_of_its_items() {
    let batch = case("batch", &[5, 6, 9, 8], &[7, 6, 3, 3], [1, 1, 1]);
    let single = case("single", &[1, 6, 9, 8], &[7, 6, 3, 3], [1, 1, 1]);
    let (inputs, outputs) = (6 * 9 * 8, 7 * 9 * 8);
    let x = waves(5 * inputs, 1.0, 0);
    let mut w = Array::Single(waves(7 * 6 * 9, 0.5, 3));
    let plan = |case: &Case<'_>| {
        ConvolutionPlan::new(&case.problem(Direction::Forward, Mode::Strict), Scaling::MOVE)
            .expect("computed")
    };
    let mut whole = Array::Single(vec![f32::NAN; 5 * outputs]);
    run(&plan(&batch), &mut [&mut whole, &mut Array::Single(x.clone()), &mut w]);
    for item in 0..5 {
        let mut one = Array::Single(vec![f32::NAN; outputs]);
        let mut part = Array::Single(x[item * inputs..(item + 1) * inputs].to_vec());
        run(&plan(&single), &mut [&mut one, &mut part, &mut w]);
        assert_eq!(one.values(), whole.values()[item * outputs..(item + 1) * outputs], "item {item}");
    }
}

/// The fused call is the sum of its parts.
#[test]
fn bias_sum_and_activation_are_fused() {
    let case = case("fused", &[2, 3, 5, 5], &[4, 3, 3, 3], [1, 1, 1]);
    let problem = case.problem(Direction::Forward, Mode::Strict);
    let (mut x, mut w) = (Array::Single(waves(150, 1.0, 0)), Array::Single(waves(108, 0.5, 3)));
    let (mut z, mut bias) = (Array::Single(waves(200, 0.7, 5)), Array::Single(waves(4, 0.4, 9)));
    let mut sum = Array::Single(vec![f32::NAN; 200]);
    let plain = ConvolutionPlan::new(&problem, Scaling::MOVE).expect("computed");
    run(&plain, &mut [&mut sum, &mut x, &mut w]);
    let vector = case.tensor(&[1, 4, 1, 1]);
    let relu = ActivationDescriptor { mode: ActivationMode::Relu, ..ActivationDescriptor::default() };
    let fused = Fused { alpha: 1.0, z: (&problem.y, 0.5), bias: &vector, activation: &relu };
    let plan = ConvolutionPlan::fused(&problem, &fused, Mode::Strict).expect("the original computes it");
    let mut y = Array::Single(vec![f32::NAN; 200]);
    run(&plan, &mut [&mut y, &mut x, &mut w, &mut z, &mut bias]);
    let (sums, zs, biases) = (sum.values(), z.values(), bias.values());
    for (i, got) in y.values().iter().enumerate() {
        let terms = sums[i] as f32 + 0.5 * zs[i] as f32 + biases[i / 25 % 4] as f32;
        assert_eq!(*got as f32, terms.max(0.0), "element {i}");
    }
    let mut in_place = z.clone();
    let at = in_place.address();
    let others = [x.address(), w.address()];
    // SAFETY: every array is as long as its tensor; z is y.
    unsafe { Context::cpu().run(&plan, &[at, others[0], others[1], at, bias.address()]) }.expect("runs");
    assert_eq!(in_place.values(), y.values(), "z in the place of y");
}

#[test]
fn every_number_serves_and_tells_its_workspace() {
    for (direction, count) in
        [(Direction::Forward, 8), (Direction::BackwardData, 6), (Direction::BackwardFilter, 7)]
    {
        for case in cases() {
            let problem = case.problem(direction, Mode::Extended);
            // As on a GPU, where all numbers but 0 have a use for more than the least.
            let records = problem.records(Mode::Extended, Some(TAKES_ALL), false);
            let mut numbers: Vec<i32> = records.iter().map(|record| record.algorithm.number()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{}", case.name);
            for record in records {
                let told = problem.workspace(record.algorithm, Some(TAKES_ALL));
                assert_eq!(record.workspace, told, "{}: {}", case.name, record.algorithm);
                let told = told.expect("serves");
                let takes = record.algorithm.number() != 0;
                assert!(if takes { told >= 16 } else { told == 0 });
                assert_eq!(problem.workspace(record.algorithm, None), Ok(if takes { 16 } else { 0 }));
            }
        }
        for number in [-1, count] {
            let error = Algorithm::new(direction, number).expect_err("no such algorithm");
            assert_eq!(error.kind(), ErrorKind::NotSupported);
        }
    }
}

/// The workspace of a GPU that moves no operands is at most 64 MiB and twice the filter, and makes
/// no jumps as images grow, in layers that other libraries ask for gigabytes for, and in the layers
/// of ordinary networks.
#[test]
fn workspaces_stay_small_and_grow_smoothly() {
    // Channels, filters, taps, padding, stride.
    let layers: [[i64; 5]; 8] = [
        [3, 64, 7, 3, 2],
        [64, 64, 3, 1, 1],
        [256, 256, 3, 1, 1],
        [512, 128, 1, 0, 1],
        [64, 64, 7, 3, 1],
        [2048, 1024, 1, 0, 2],
        [16, 16, 5, 2, 1],
        [1, 8, 3, 1, 1],
    ];
    let mut most = 0;
    for (layer, format) in layers.iter().flat_map(|layer| [(layer, Format::Nchw), (layer, Format::Nhwc)]) {
        let &[channels, filters, taps, padding, stride] = layer;
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let mut before = None;
            for extent in 180..=260 {
                let (x, w) = ([4, channels, extent, extent], [filters, channels, taps, taps]);
                let case = Case { format, ..case("sweep", &x, &w, [padding, stride, 1]) };
                let problem = case.problem(direction, Mode::Extended);
                let algorithm = Algorithm::new(direction, 1).expect("an algorithm");
                let told = problem.workspace(algorithm, Some(TAKES_ALL)).expect("serves");
                let without = Algorithm::new(direction, 0).expect("an algorithm");
                assert_eq!(problem.workspace(without, Some(TAKES_ALL)), Ok(0));
                let filter = w.iter().product::<i64>() as usize * 4;
                assert!(told <= (64 << 20) + 2 * filter, "{direction:?} {layer:?} {extent}: {told} bytes");
                if let Some(before) = before.replace(told) {
                    let (low, high) = (told.min(before), told.max(before));
                    assert!(
                        high <= 2 * low + (1 << 20),
                        "{direction:?} {layer:?} {extent}: {before}, then {told} bytes"
                    );
                }
                most = most.max(told);
            }
        }
    }
    assert!(most > 1 << 20, "the gradients of some layers are worth cutting");
}

#[test]
fn what_does_not_fit_names_the_extent_that_would() {
    let case = case("wrong", &[2, 4, 8, 8], &[6, 4, 3, 3], [1, 1, 1]);
    let problem = case.problem(Direction::Forward, Mode::Strict);
    let refused = |y: &[i64]| {
        let y = case.tensor(y);
        let (desc, x, w) = (case.desc(), &problem.x, &problem.w);
        Convolution::new(Direction::Forward, &desc, x, w, &y, Mode::Extended).expect_err("refused")
    };
    for (dims, text) in [
        (&[2, 6, 8, 7], "dimension 3 of y is 7, where x and w make 8"),
        (&[2, 5, 8, 8], "y has 5 channels, one per filter of w makes 6"),
        (&[1, 6, 8, 8], "y has a batch of 1, x one of 2"),
    ] {
        let error = refused(dims);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::BadParam, text));
    }
}

/// The kernel of each contraction of a plan.
fn kernels(case: &Case, direction: Direction) -> Vec<&'static str> {
    kernels_by(case, direction, 1)
}

/// The same where a program asks for this number.
fn kernels_by(case: &Case, direction: Direction, number: i32) -> Vec<&'static str> {
    let plan =
        ConvolutionPlan::new(&case.problem(direction, Mode::Extended), Scaling::MOVE).expect("computed");
    let algorithm = Algorithm::new(direction, number).expect("an algorithm");
    Context::cpu().kernels(&plan.by(algorithm), &[])
}

#[test]
fn kernels_are_known_by_name() {
    let planes = case("planes", &[1, 3, 20, 20], &[8, 3, 3, 3], [1, 1, 1]);
    assert_eq!(kernels(&planes, Direction::Forward), ["gemm_planes"]);
    let pixels = case("1x1", &[2, 64, 14, 14], &[64, 64, 1, 1], [0, 1, 1]);
    assert_eq!(kernels(&Case { format: Format::Nhwc, ..pixels }, Direction::Forward), ["gemm"]);
    if Isa::best() == Isa::PORTABLE {
        return;
    }
    let first = || case("first", &[1, 3, 20, 20], &[32, 3, 3, 3], [1, 1, 1]);
    let channels = Case { format: Format::Nhwc, ..first() };
    assert_eq!(kernels(&first(), Direction::BackwardFilter), ["wgrad_few_filters"]);
    assert_eq!(kernels(&channels, Direction::BackwardFilter), ["wgrad_few_filters"]);
    assert_eq!(kernels(&channels, Direction::BackwardData), ["gemm_planes"]);
    assert_eq!(kernels(&channels, Direction::Forward), ["conv_few_channels"]);
    let double = case("3x3 double", &[2, 64, 28, 28], &[64, 64, 3, 3], [1, 1, 1]);
    assert_eq!(kernels(&Case { data_type: DataType::Double, ..double }, Direction::Forward), ["gemm_planes"]);
}

/// F(2x2, 3x3) is taken for the numbers of Winograd's algorithms alone, and queries rank these
/// first where it is, outside strict mode and FMA math.
#[test]
fn only_the_numbers_of_winograd_compute_by_fewer_products() {
    let wide = || case("3x3", &[2, 64, 28, 28], &[64, 64, 3, 3], [1, 1, 1]);
    let layers = [
        (wide(), "winograd_pixels"),
        (Case { format: Format::Nhwc, ..wide() }, "winograd_filters"),
        (case("few tiles", &[1, 64, 14, 14], &[64, 64, 3, 3], [1, 1, 1]), "winograd_filters"),
        (Case { data_type: DataType::Double, ..wide() }, ""),
        (case("few channels", &[2, 31, 28, 28], &[64, 31, 3, 3], [1, 1, 1]), ""),
        (case("5x5", &[2, 64, 28, 28], &[64, 64, 5, 5], [2, 1, 1]), ""),
        (case("strided", &[2, 64, 28, 28], &[64, 64, 3, 3], [1, 2, 1]), ""),
    ];
    for (layer, transform) in &layers {
        for (direction, count, winograd) in [
            (Direction::Forward, 8, [6, 7]),
            (Direction::BackwardData, 6, [4, 5]),
            (Direction::BackwardFilter, 7, [5, 4]),
        ] {
            let has_kernel = Isa::best() != Isa::PORTABLE
                && !transform.is_empty()
                && direction != Direction::BackwardFilter;
            for number in 0..count {
                let kernels = kernels_by(layer, direction, number);
                let taken = kernels.iter().any(|kernel| kernel.starts_with("winograd"));
                let wanted = has_kernel && winograd.contains(&number);
                assert_eq!(taken, wanted, "{} {direction:?} by {number}: {kernels:?}", layer.name);
                assert!(!wanted || kernels == [*transform], "{}: {kernels:?}", layer.name);
            }
            let mut problem = layer.problem(direction, Mode::Extended);
            let plan = ConvolutionPlan::new(&problem, Scaling::MOVE).expect("computed");
            assert!(!Context::cpu().takes_winograd(&plan));
            let plan = plan.by(Algorithm::winograd(direction));
            assert_eq!(Context::cpu().takes_winograd(&plan), has_kernel, "{} {direction:?}", layer.name);
            let first = problem.records(Mode::Extended, None, has_kernel)[0].algorithm.number();
            assert_eq!(first, if has_kernel { winograd[0] } else { 1 }, "{} {direction:?}", layer.name);
            assert!(
                problem.may_prefer_winograd(Mode::Extended) && !problem.may_prefer_winograd(Mode::Strict)
            );
            problem.desc.math_type = MathType::Fma;
            assert!(!problem.may_prefer_winograd(Mode::Extended));
        }
    }
}

/// Strict mode computes groups of integers of one kind: single channels, in fours, whose filters
/// come in eights, summed into INT32.
#[test]
fn integers_come_in_groups_of_single_channels() {
    let computes = |x: i64, w: [i64; 2], y: DataType| {
        let of = |data_type, dims: &[i64]| {
            TensorDescriptor::with_format(data_type, Format::Nhwc, 4, dims, Mode::Strict).expect("valid")
        };
        let filter =
            FilterDescriptor::new(DataType::Int8, Format::Nhwc, 4, &[w[0], w[1], 3, 3], Mode::Strict);
        let [one, zero] = [1, 0].map(|value| Dims::filled(2, value));
        let mode = ConvolutionMode::CrossCorrelation;
        let geometry = ConvolutionGeometry::new(mode, DataType::Int32, zero, one, one).expect("valid");
        let groups = (x / w[1]) as i32;
        let desc = ConvolutionDescriptor { geometry, groups, ..ConvolutionDescriptor::default() };
        let (x, y) = (of(DataType::Int8, &[1, x, 8, 8]), of(y, &[1, w[0], 6, 6]));
        let problem =
            Convolution::new(Direction::Forward, &desc, &x, &filter.expect("valid"), &y, Mode::Strict);
        let algorithm = Algorithm::new(Direction::Forward, 1).expect("an algorithm");
        problem.and_then(|problem| algorithm.check(&problem, Mode::Strict)).is_ok()
    };
    assert!(computes(8, [64, 1], DataType::Int32) && computes(4, [64, 1], DataType::Int32));
    assert!(computes(8, [16, 8], DataType::Int8), "no groups");
    assert!(!computes(8, [64, 2], DataType::Int32), "two channels");
    assert!(!computes(6, [48, 1], DataType::Int32), "no fours");
    assert!(!computes(8, [32, 1], DataType::Int32), "no eights");
    assert!(!computes(8, [64, 1], DataType::Int8), "no sums");
}

#[test]
fn a_log_line_shows_the_contraction() {
    let case = case("line", &[1, 1, 4, 4], &[1, 1, 3, 3], [1, 1, 1]);
    let plan = ConvolutionPlan::new(&case.problem(Direction::Forward, Mode::Strict), Scaling::MOVE);
    let plan = plan.expect("computed");
    assert!(plan.to_string().starts_with("contract f32*f32->f32 in f32"), "{plan}");
    assert_eq!(plan.operands().iter().map(|operand| operand.name).collect::<Vec<_>>(), ["y", "x", "w"]);
}
