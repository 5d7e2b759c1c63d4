//! ReduceTensor, AddTensor and SetTensor against sums, indices and bits that the original has left on a GPU.

use cudnn::backend::{Machine, Operands, run, run_reduce, run_set};
use cudnn::desc::{Choice, Format, ReduceDescriptor, ReduceIndices, ReduceOp, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::add::{self, AddPlan};
use cudnn::ops::fill::Part;
use cudnn::ops::{FillPlan, Number, ReducePlan, Scaling};

/// `amplitude * sin(0.7 * i + 0.3) + 0.1 * (i % 5) - 0.2` in float, `i` counted from `first`.
fn waves(count: usize, amplitude: f32, first: usize) -> Vec<f32> {
    let wave = |i: usize| amplitude * (0.7 * i as f32 + 0.3).sin() + 0.1 * (i % 5) as f32 - 0.2;
    (first..first + count).map(wave).collect()
}

/// Case and expectation of the recorded lines that start so.
fn lines(start: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("data/golden/rtx3060.tsv").lines().filter(move |line| line.starts_with(start));
    lines.map(|line| line.split_once('\t').expect("two columns"))
}

/// Compares sum |v|, sum v*v and sum |v|*(1+i%7) of an output.
fn assert_sums(case: &str, output: &[f32], want: &str) {
    let mut got = [0.0; 3];
    for (i, v) in output.iter().map(|&v| f64::from(v).abs()).enumerate() {
        got[0] += v;
        got[1] += v * v;
        got[2] += v * (1 + i % 7) as f64;
    }
    for (got, want) in got.iter().zip(want.split(' ')) {
        let want: f64 = want.parse().expect("a sum");
        assert!((got - want).abs() <= 1e-5 * want, "{case}: {got} instead of {want}");
    }
}

fn packed(dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(DataType::Float, Format::Nchw, 4, dims, Mode::Strict).expect("valid")
}

#[test]
fn reductions_are_those_of_the_original() {
    let (mut sums, mut indices) = (0, 0);
    for (case, want) in lines("reduce ") {
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
        plan.for_each(&mut |problem| {
            let (to, from) = (c.as_mut_ptr().cast(), a.as_ptr().cast());
            // SAFETY: the arrays are as long as the tensors.
            unsafe { run_reduce(problem, to, from, found.as_mut_ptr().cast(), Machine::host()) }
        })
        .expect("runs");
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
fn a_bias_on_nhwc_is_that_of_the_original() {
    let (case, want) = lines("add bias to nhwc").next().expect("recorded");
    let tensor = |format, dims: &[i64]| {
        TensorDescriptor::with_format(DataType::Float, format, 4, dims, Mode::Strict).expect("valid")
    };
    let (a, c) = (tensor(Format::Nchw, &[1, 3, 1, 1]), tensor(Format::Nhwc, &[2, 3, 4, 5]));
    let scaling = Scaling { alpha: 1.5, beta: 0.25 };
    let Ok(AddPlan::Add(plan)) = add::plan(&a, &c, scaling, Mode::Strict) else {
        panic!("the original adds it")
    };
    let (bias, mut output) = (waves(3, 1.0, 0), waves(120, 0.5, 7));
    let operands = Operands { dst: output.as_mut_ptr().cast(), src: bias.as_ptr().cast() };
    // SAFETY: the arrays are as long as the tensors.
    plan.for_each(&mut |problem| unsafe { run(problem, operands) }).expect("runs");
    assert_sums(case, &output, want);
}

#[test]
fn a_half_set_to_one_and_a_half_has_the_bits_of_the_original() {
    let (_, want) = lines("set half to 1.5").next().expect("recorded");
    let y = TensorDescriptor::with_format(DataType::Half, Format::Nchw, 4, &[1, 2, 3, 4], Mode::Strict)
        .expect("valid");
    let plan = FillPlan::set(&y, Number::Real(1.5), Mode::Strict).expect("the original sets it");
    let mut bits = vec![0_u16; 24];
    plan.for_each(&mut |part| match part {
        // SAFETY: the array is as long as the tensor.
        Part::Set(set) => unsafe { run_set(set, bits.as_mut_ptr().cast(), Machine::host()) },
        Part::Fill(_) => panic!("nothing is padded"),
    })
    .expect("runs");
    assert!(bits.iter().all(|bits| format!("{bits:x}") == want), "{bits:x?}");
}
