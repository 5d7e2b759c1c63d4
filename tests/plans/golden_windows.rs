//! Pooling, response normalisation and the columns of a convolution against sums that the original
//! has left on a GPU.

use cudnn::desc::convolution::{ConvolutionGeometry, ConvolutionMode};
use cudnn::desc::{
    ConvolutionDescriptor, FilterDescriptor, Format, LrnDescriptor, NanPropagation, PoolingDescriptor,
    PoolingMode, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::columns::ColumnsPlan;
use cudnn::ops::pooling::{self, Forward};
use cudnn::ops::{Plan, Scaling, response};

/// `amplitude * sin(0.7 * i + 0.3) + 0.1 * (i % 5) - 0.2` in float, `i` counted from `first`.
fn waves(count: usize, amplitude: f32, first: usize) -> Vec<f32> {
    let wave = |i: usize| amplitude * (0.7 * i as f32 + 0.3).sin() + 0.1 * (i % 5) as f32 - 0.2;
    (first..first + count).map(wave).collect()
}

/// Compares sum |v|, sum v*v and sum |v|*(1+i%7) of an output with the recorded line of that case.
fn assert_sums(case: &str, output: &[f32]) {
    let lines = include_str!("../data/golden/rtx3060.tsv").lines();
    let (_, want) =
        lines.filter_map(|line| line.split_once('\t')).find(|(name, _)| *name == case).expect(case);
    let mut got = [0.0_f64; 3];
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
    let rank = dims.len() as i64;
    TensorDescriptor::with_format(DataType::Float, Format::Nchw, rank, dims, Mode::Strict).expect("valid")
}

fn cells(tensor: &TensorDescriptor) -> usize {
    tensor.dims().iter().product::<i64>() as usize
}

/// Runs a plan whose operands are these, as many as it has.
fn run(plan: &dyn Plan, dst: &mut [f32], source: &[f32], gradient: &[f32]) {
    let at = [dst.as_mut_ptr().into(), source.as_ptr().into(), gradient.as_ptr().into()];
    // SAFETY: the arrays are as long as the tensors.
    unsafe { Context::cpu().run(plan, &at[..plan.operands().len()]) }.expect("runs");
}

fn descriptor(mode: PoolingMode, window: &[i64], padding: &[i64], strides: &[i64]) -> PoolingDescriptor {
    let [window, padding, strides] = [window, padding, strides].map(Dims::new);
    PoolingDescriptor::new(mode, NanPropagation::Drop, window, padding, strides).expect("a pooling")
}

fn outputs(desc: &PoolingDescriptor, x: &TensorDescriptor) -> TensorDescriptor {
    let dims: Vec<i64> = desc
        .output_dims(x, Mode::Strict)
        .and_then(|dims| dims.collect::<Result<_, _>>())
        .expect("output dims");
    packed(&dims)
}

#[test]
fn gradients_of_pooling_are_those_of_the_original() {
    for (case, mode, window, padding, stride) in [
        ("pool backward max 2x2 s2", PoolingMode::Max, 2, 0, 2),
        ("pool backward max 3x3 p1 s1", PoolingMode::Max, 3, 1, 1),
        ("pool backward max-det 3x3 p1 s2", PoolingMode::MaxDeterministic, 3, 1, 2),
        ("pool backward avg incl 3x3 p1 s2", PoolingMode::AverageWithPadding, 3, 1, 2),
        ("pool backward avg excl 3x3 p1 s2", PoolingMode::AverageWithoutPadding, 3, 1, 2),
    ] {
        let desc = descriptor(mode, &[window; 2], &[padding; 2], &[stride; 2]);
        let x = packed(&[2, 3, 7, 6]);
        let y = outputs(&desc, &x);
        let (input, dy, mut dx) =
            (waves(cells(&x), 2.0, 0), waves(cells(&y), 1.0, 5), waves(cells(&x), 0.4, 2));
        let scaling = Scaling { alpha: 1.5, beta: 0.5 };
        let forward = Some(Forward { x: &x, y: &y });
        let plan = pooling::backward(&desc, forward, &y, &x, scaling, Mode::Strict).expect("a plan");
        run(&plan, &mut dx, &input, &dy);
        assert_sums(case, &dx);
    }
}

#[test]
fn pooling_in_three_dimensions_is_that_of_the_original() {
    let desc = descriptor(PoolingMode::Max, &[2, 2, 2], &[0, 1, 0], &[1, 2, 2]);
    let x = packed(&[1, 2, 3, 4, 5]);
    let y = outputs(&desc, &x);
    let (input, mut output) = (waves(cells(&x), 2.0, 0), vec![f32::NAN; cells(&y)]);
    let plan = pooling::forward(&desc, &x, &y, Scaling::MOVE, Mode::Strict).expect("a plan");
    run(&plan, &mut output, &input, &[]);
    assert_sums("pool 3-D max forward", &output);
    let (dy, mut dx) = (waves(cells(&y), 1.0, 3), vec![f32::NAN; cells(&x)]);
    let forward = Some(Forward { x: &x, y: &y });
    let plan = pooling::backward(&desc, forward, &y, &x, Scaling::MOVE, Mode::Strict).expect("a plan");
    run(&plan, &mut dx, &input, &dy);
    assert_sums("pool 3-D max backward", &dx);
}

#[test]
fn response_normalisation_is_that_of_the_original() {
    for n in [5, 4, 1] {
        let desc = LrnDescriptor::new(n, 0.3, 0.75, 1.5).expect("a descriptor");
        let x = packed(&[2, 7, 3, 2]);
        let (input, dy) = (waves(cells(&x), 1.5, 0), waves(cells(&x), 1.0, 6));
        let mut output = vec![f32::NAN; cells(&x)];
        let plan = response::cross_channel(&desc, &x, &x, Scaling::MOVE, Mode::Strict).expect("a plan");
        run(&plan, &mut output, &input, &[]);
        assert_sums(&format!("lrn {n} forward"), &output);
        output.fill(f32::NAN);
        let plan = response::cross_channel_gradient(&desc, &x, &x, &x, Scaling::MOVE, Mode::Strict);
        run(&plan.expect("a plan"), &mut output, &input, &dy);
        assert_sums(&format!("lrn {n} backward"), &output);
    }
}

#[test]
fn columns_are_those_of_the_original() {
    let x = packed(&[2, 3, 6, 5]);
    let filter = FilterDescriptor::new(DataType::Float, Format::Nchw, 4, &[4, 3, 3, 2], Mode::Strict);
    let filter = filter.expect("a filter");
    for (case, mode) in [
        ("columns of a cross-correlation", ConvolutionMode::CrossCorrelation),
        ("columns of a convolution", ConvolutionMode::Convolution),
    ] {
        let [padding, strides, dilation] = [[1, 0], [2, 1], [1, 2]].map(|values| Dims::new(&values));
        let geometry = ConvolutionGeometry::new(mode, DataType::Float, padding, strides, dilation);
        let geometry = geometry.expect("a geometry");
        let desc = ConvolutionDescriptor { geometry, ..ConvolutionDescriptor::default() };
        let plan = ColumnsPlan::new(&x, &filter, &desc, Mode::Strict).expect("a plan");
        let mut output = vec![f32::NAN; 324];
        run(&plan, &mut output, &waves(cells(&x), 1.0, 0), &[]);
        assert_sums(case, &output);
    }
}
