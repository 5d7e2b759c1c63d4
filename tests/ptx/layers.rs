//! Launches of every kernel of functions, activations and softmax.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::tensor::Format;
use cudnn::desc::{ActivationDescriptor, SoftmaxAlgorithm, SoftmaxMode, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::softmax::Choices;
use cudnn::ops::{ActivationPlan, Plan, Scaling, SoftmaxPlan};

use crate::{SCALED, collected, packed, place, strided};
use testkit::steps::{Ordered, Row};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let mut push = |kernels: &[&str], launches: Vec<Launch>| {
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
    };
    let activation = ActivationDescriptor::default();
    let sigmoid = |y: &TensorDescriptor| {
        let plan = ActivationPlan::forward(&activation, [y, y], Scaling::MOVE, false, Mode::Extended);
        collected(&plan.unwrap(), &[place(0x1000), place(0x2000)])
    };
    let (float, double) = (DataType::Float, DataType::Double);
    push(&["formula_run"], sigmoid(&packed(DataType::Int8, Format::Nchw, &[2, 8, 4, 4])));
    // What vectors leave of a run.
    push(&["formula_run", "formula_f32_i32"], sigmoid(&packed(DataType::Int8, Format::Nchw, &[1, 1001])));
    for (data_type, kernel) in [
        (float, "activation_sigmoid_f32"),
        (DataType::Half, "activation_sigmoid_f16"),
        (DataType::Bfloat16, "activation_sigmoid_bf16"),
    ] {
        push(&[kernel], sigmoid(&packed(data_type, Format::Nchw, &[2, 8, 4, 4])));
        push(&[kernel, "formula_f32_i32"], sigmoid(&packed(data_type, Format::Nchw, &[1, 1001])));
    }
    push(&["formula_f32_i64"], sigmoid(&strided(float, &[5, 7], &[1 << 34, 1])));
    push(&["formula_f64_i64"], sigmoid(&strided(double, &[5, 7], &[9, 1])));
    push(&["formula_ordered"], sigmoid(&strided(float, &[4, 4], &[2, 1])));
    let sine = |types: &str, loops: &str| {
        let step = format!("map Sin {types} alpha=[1, 1] beta=0 dst/src1/src2: {loops} +0,+0,+0");
        Row::parse(&format!("sine {step}")).expect("a step")
    };
    let launched = |plan: &dyn Plan| {
        let at: Vec<_> = (1..=plan.operands().len()).map(|k| place(k << 12)).collect();
        collected(plan, &at)
    };
    push(&["graph_formula_run"], launched(&sine("f32->f32->f32", "1024*(1,1,0)")));
    push(&["graph_formula_f32_i32"], launched(&sine("f32->f32->f32", "35*(2,1,0)")));
    push(&["graph_formula_f32_i64"], launched(&sine("f64->f32->f32", "35*(2,1,0)")));
    push(&["graph_formula_f64_i64"], launched(&sine("f64->f64->f64", "35*(2,1,0)")));
    push(&["graph_formula_ordered"], launched(&Ordered(sine("f32->f32->f32", "35*(0,1,0)"))));
    let softmax = |y: &TensorDescriptor| {
        let choices = Choices { algorithm: Ok(SoftmaxAlgorithm::Accurate), mode: Ok(SoftmaxMode::Channel) };
        let plan = SoftmaxPlan::forward(choices, [y, y], SCALED, Mode::Extended);
        collected(&plan.unwrap(), &[place(0x1000), place(0x2000)])
    };
    for (data_type, by_thread, by_warp) in [
        (float, "rows_by_thread_f32", "rows_by_warp_f32"),
        (double, "rows_by_thread_f64", "rows_by_warp_f64"),
    ] {
        push(&[by_thread], softmax(&packed(data_type, Format::Nchw, &[2, 10, 4, 4])));
        push(&[by_warp], softmax(&packed(data_type, Format::Nhwc, &[2, 10, 4, 4])));
    }
    list
}
