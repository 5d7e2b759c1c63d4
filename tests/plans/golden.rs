//! Tensor arithmetic and transforms against sums, indices and bits that the original has left on a
//! GPU.

use std::f32::consts::PI;

use cudnn::desc::{
    ActivationDescriptor, ActivationMode, Choice, Format, NanPropagation, OpTensorDescriptor, OpTensorOp,
    ReduceDescriptor, ReduceIndices, ReduceOp, SoftmaxAlgorithm, SoftmaxMode, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::activation::{Saved, saved};
use cudnn::ops::add;
use cudnn::ops::op::Factors;
use cudnn::ops::softmax::Choices;
use cudnn::ops::{
    ActivationPlan, FillPlan, Number, OpPlan, Plan, ReducePlan, Scaling, SoftmaxPlan, TransformPlan,
};

/// `amplitude * sin(0.7 * i + 0.3) + 0.1 * (i % 5) - 0.2` in float, `i` counted from `first`.
fn waves(count: usize, amplitude: f32, first: usize) -> Vec<f32> {
    let wave = |i: usize| amplitude * (0.7 * i as f32 + 0.3).sin() + 0.1 * (i % 5) as f32 - 0.2;
    (first..first + count).map(wave).collect()
}

/// Case and expectation of the recorded lines that start so.
fn lines(start: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines =
        include_str!("../data/golden/rtx3060.tsv").lines().filter(move |line| line.starts_with(start));
    lines.map(|line| line.split_once('\t').expect("two columns"))
}

/// Compares sum |v|, sum v*v and sum |v|*(1+i%7) of an output.
fn assert_sums<T: Copy + Into<f64>>(case: &str, output: &[T], want: &str) {
    let mut got = [0.0; 3];
    for (i, v) in output.iter().map(|&v| v.into().abs()).enumerate() {
        got[0] += v;
        got[1] += v * v;
        got[2] += v * (1 + i % 7) as f64;
    }
    for (got, want) in got.iter().zip(want.split(' ')) {
        let want: f64 = want.parse().expect("a sum");
        assert!((got - want).abs() <= 1e-5 * want, "{case}: {got} instead of {want}");
    }
}

fn tensor(data_type: DataType, format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, format, 4, dims, Mode::Strict).expect("valid")
}

fn packed(dims: &[i64]) -> TensorDescriptor {
    tensor(DataType::Float, Format::Nchw, dims)
}

/// Runs a plan on the CPU core. The arrays are as long as the tensors.
fn run(plan: &dyn Plan, at: &[Address]) {
    // SAFETY: see above; nobody else uses them.
    unsafe { Context::cpu().run(plan, at) }.expect("runs");
}

#[test]
fn reductions_are_those_of_the_original() {
    let (mut sums, mut indices) = (0, 0);
    for (case, want) in lines("reduce ").filter(|(case, _)| !case.ends_with("same shape")) {
        let words: Vec<&str> = case.split(' ').collect();
        let op = ReduceOp::from_code(words[1].parse().expect("an operation")).expect("known");
        let dims: Vec<i64> = words[3].split('x').map(|d| d.parse().expect("an extent")).collect();
        let outputs = dims.iter().product::<i64>() as usize;
        let wants_indices = words.last() == Some(&"indices");
        let desc = ReduceDescriptor {
            op,
            indices: if wants_indices { ReduceIndices::Flattened } else { ReduceIndices::None },
            ..ReduceDescriptor::default()
        };
        let scaling = Scaling { alpha: 1.5, beta: 0.5 };
        let plan = ReducePlan::new(&desc, &packed(&[2, 3, 4, 5]), &packed(&dims), scaling, Mode::Strict)
            .expect("the original reduces it");
        let (a, mut c, mut found) = (waves(120, 2.0, 0), waves(outputs, 1.0, 2), vec![0_u32; outputs]);
        run(&plan, &[c.as_mut_ptr().into(), found.as_mut_ptr().into(), a.as_ptr().into(), Address::NULL]);
        if wants_indices {
            let listed: Vec<String> = found.iter().map(u32::to_string).collect();
            assert_eq!(format!("{}: {}", 4 * outputs, listed.join(" ")), want, "{case}");
            indices += 1;
            continue;
        }
        assert_sums(case, &c, want);
        sums += 1;
    }
    assert_eq!((sums, indices), (30, 12), "recorded cases");
}

#[test]
fn a_reduction_to_the_same_shape_is_refused_as_the_original_refuses_it() {
    let (case, want) = lines("reduce to the same shape").next().expect("recorded");
    let same = packed(&[2, 3, 4, 5]);
    let plan = ReducePlan::new(&ReduceDescriptor::default(), &same, &same, Scaling::MOVE, Mode::Strict);
    let class = plan.expect_err("nothing is reduced").kind();
    assert_eq!((class, want), (ErrorKind::BadParam, "2000"), "{case}");
}

#[test]
fn operations_on_nhwc_with_a_packed_operand_are_those_of_the_original() {
    let mut cases = 0;
    for (case, want) in lines("op ") {
        let code = case.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("an operation");
        let op = OpTensorOp::from_code(code).expect("known");
        let rule = OpTensorDescriptor { op, compute_type: DataType::Float, nan: NanPropagation::Drop };
        let (c, b) = (tensor(DataType::Float, Format::Nhwc, &[2, 3, 4, 5]), packed(&[2, 1, 4, 5]));
        let factors = Factors { alpha: [1.5, -0.5], beta: 0.25 };
        let plan =
            OpPlan::new(&rule, [&c, &b, &c], factors, false, Mode::Strict).expect("the original does it");
        let mut first = waves(120, 1.0, 0);
        if op == OpTensorOp::Sqrt {
            first = (0..120).map(|i| 0.1 + 0.05 * i as f32).collect();
        }
        let (second, mut output) = (waves(40, 1.0, 3), waves(120, 0.5, 7));
        run(&plan, &[output.as_mut_ptr().into(), first.as_ptr().into(), second.as_ptr().into()]);
        assert_sums(case, &output, want);
        cases += 1;
    }
    assert_eq!(cases, 6, "recorded cases");
}

#[test]
fn a_transform_to_double_in_nhwc_is_that_of_the_original() {
    let (case, sums) = lines("transform nchw").next().expect("recorded");
    let (_, first_four) = lines("transform, first four").next().expect("recorded");
    let dims = [2, 3, 4, 5];
    let (x, y) = (packed(&dims), tensor(DataType::Double, Format::Nhwc, &dims));
    let scaling = Scaling { alpha: 1.5, beta: 0.25 };
    let plan = TransformPlan::new(&x, &y, scaling, Mode::Strict).expect("the original transforms it");
    let input = waves(120, 1.0, 0);
    let mut output: Vec<f64> = waves(120, 0.5, 3).into_iter().map(f64::from).collect();
    run(&plan, &[output.as_mut_ptr().into(), input.as_ptr().into()]);
    assert_sums(case, &output, sums);
    for (got, want) in output.iter().zip(first_four.split(' ')) {
        let want: f64 = want.parse().expect("a number");
        assert!((got - want).abs() <= 1e-5 * want.abs(), "{case}: {got} instead of {want}");
    }
}

#[test]
fn a_bias_on_nhwc_is_that_of_the_original() {
    let (case, want) = lines("add bias to nhwc").next().expect("recorded");
    let (a, c) = (packed(&[1, 3, 1, 1]), tensor(DataType::Float, Format::Nhwc, &[2, 3, 4, 5]));
    let scaling = Scaling { alpha: 1.5, beta: 0.25 };
    let plan = add::plan(&a, &c, scaling, Mode::Strict).expect("the original adds it");
    let (bias, mut output) = (waves(3, 1.0, 0), waves(120, 0.5, 7));
    run(plan.as_plan(), &[output.as_mut_ptr().into(), bias.as_ptr().into()]);
    assert_sums(case, &output, want);
}

#[test]
fn a_half_set_to_one_and_a_half_has_the_bits_of_the_original() {
    let (_, want) = lines("set half to 1.5").next().expect("recorded");
    let y = tensor(DataType::Half, Format::Nchw, &[1, 2, 3, 4]);
    let plan = FillPlan::set(&y, Number::Real(1.5), Mode::Strict).expect("the original sets it");
    let mut bits = vec![0_u16; 24];
    run(&plan, &[bits.as_mut_ptr().into()]);
    assert!(bits.iter().all(|bits| format!("{bits:x}") == want), "{bits:x?}");
}

/// The activation that a recorded line names, with its number.
fn activation(words: &[&str]) -> ActivationDescriptor {
    let mode = match words[2] {
        "relu" => ActivationMode::Relu,
        "sigmoid" => ActivationMode::Sigmoid,
        "tanh" => ActivationMode::Tanh,
        "clipped" => ActivationMode::ClippedRelu,
        "elu" => ActivationMode::Elu,
        "swish" => ActivationMode::Swish,
        other => panic!("an activation called {other}"),
    };
    let number = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1.0);
    ActivationDescriptor { mode, nan: NanPropagation::Drop, coefficient: number, swish_beta: number }
}

#[test]
fn gradients_of_activations_are_those_of_the_original() {
    let mut cases = 0;
    for (case, want) in lines("activation backward ") {
        let words: Vec<&str> = case.split(' ').collect();
        let activation = activation(&words);
        let (format, scaling) = match words.last() {
            Some(&"nhwc") => (Format::Nhwc, Scaling::MOVE),
            _ => (Format::Nchw, Scaling { alpha: 2.0, beta: 0.5 }),
        };
        let dims = tensor(DataType::Float, format, &[2, 3, 4, 5]);
        let x = waves(120, 1.5, 0);
        let (mut y, dy, mut dx) = (vec![0.0_f32; 120], waves(120, 1.0, 4), waves(120, 0.5, 8));
        let plan = ActivationPlan::forward(&activation, [&dims, &dims], Scaling::MOVE, false, Mode::Strict);
        run(&plan.expect("the original does it"), &[y.as_mut_ptr().into(), x.as_ptr().into()]);
        let plan = ActivationPlan::backward(&activation, [&dims; 3], None, scaling, false, Mode::Strict);
        let (kept, other) = match saved(activation.mode) {
            Saved::Argument => (&x, &y),
            Saved::Result => (&y, &x),
        };
        let at = [dx.as_mut_ptr().into(), dy.as_ptr().into(), kept.as_ptr().into(), other.as_ptr().into()];
        run(&plan.expect("the original does it"), &at);
        assert_sums(case, &dx, want);
        cases += 1;
    }
    assert_eq!(cases, 12, "recorded cases");
}

#[test]
fn gradients_of_softmax_are_those_of_the_original() {
    let mut cases = 0;
    for (case, want) in lines("softmax backward ") {
        let words: Vec<i32> = case.split(' ').filter_map(|word| word.parse().ok()).collect();
        let choices = || Choices {
            algorithm: Ok(SoftmaxAlgorithm::from_code(words[0]).expect("known")),
            mode: Ok(SoftmaxMode::from_code(words[1]).expect("known")),
        };
        let dims = packed(&[2, 5, 2, 3]);
        let (x, mut y) = (waves(60, 2.0, 0), vec![f32::NAN; 60]);
        let plan = SoftmaxPlan::forward(choices(), [&dims; 2], Scaling::MOVE, Mode::Strict);
        run(&plan.expect("the original does it"), &[y.as_mut_ptr().into(), x.as_ptr().into()]);
        let (dy, mut dx) = (waves(60, 1.0, 9), waves(60, 0.3, 1));
        let scaling = Scaling { alpha: 2.0, beta: 0.5 };
        let plan = SoftmaxPlan::backward(choices(), [&dims; 3], scaling, Mode::Strict);
        let at = [dx.as_mut_ptr().into(), y.as_ptr().into(), dy.as_ptr().into()];
        run(&plan.expect("the original does it"), &at);
        assert_sums(case, &dx, want);
        cases += 1;
    }
    assert_eq!(cases, 6, "recorded cases");
}

#[test]
fn floats_become_the_halves_and_bfloat16_of_the_original() {
    let ulp = f32::powi(2.0, -11);
    let numbers =
        [1.0, 2.5, -3.25, 0.001, 65504.0, 65520.0, 1e-8, PI, 1.0 + ulp, 1.0 + 3.0 * ulp, -0.0, 7e-5];
    for (case, data_type) in
        [("float to half bits", DataType::Half), ("float to bfloat16 bits", DataType::Bfloat16)]
    {
        let (_, want) = lines(case).next().expect("recorded");
        let dims = [1, 12, 1, 1];
        let (x, y) = (packed(&dims), tensor(data_type, Format::Nchw, &dims));
        let plan = TransformPlan::new(&x, &y, Scaling::MOVE, Mode::Strict);
        let mut bits = [0_u16; 12];
        run(&plan.expect("the original transforms it"), &[bits.as_mut_ptr().into(), numbers.as_ptr().into()]);
        assert_eq!(bits.map(|bits| format!("{bits:04x}")).join(" "), want, "{case}");
    }
}
