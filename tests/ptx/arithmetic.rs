//! Launches of every kernel that computes.

use cudnn::backend::cuda::launch::Launch;
use cudnn::desc::tensor::Format;
use cudnn::desc::{OpTensorDescriptor, ReduceDescriptor, ReduceIndices, ReduceOp, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::mode::Mode;
use cudnn::ops::op::Factors;
use cudnn::ops::{FillPlan, Number, OpPlan, ReducePlan, Scaling};

use crate::moves::of_plan;
use crate::{ALIGNED, collected, packed, place, strided};

/// Each with the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let mut push = |kernels: &[&str], launches: Vec<Launch>| {
        assert_eq!(launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>(), kernels);
        list.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
    };
    let float = DataType::Float;
    let set = |y: &TensorDescriptor, at: usize| {
        let plan = FillPlan::set(y, Number::Real(1.0), Mode::Extended).unwrap();
        collected(&plan, &[place(at)])
    };
    push(&["set_run"], set(&packed(float, Format::Nhwc, &[2, 3, 5, 7]), 0x1004));
    for (width, kernels) in [
        (1, ["set_w1_i32", "set_w1_i64"]),
        (2, ["set_w2_i32", "set_w2_i64"]),
        (4, ["set_w4_i32", "set_w4_i64"]),
        (8, ["set_w8_i32", "set_w8_i64"]),
        (16, ["set_w16_i32", "set_w16_i64"]),
    ] {
        for (row, kernel) in [(48, kernels[0]), (1 << 34, kernels[1])] {
            push(&[kernel], set(&strided(DataType::Int8, &[3, width], &[row, 1]), 0x1000));
        }
    }
    let op = |c: &TensorDescriptor, compute_type: DataType| {
        let rule = OpTensorDescriptor { compute_type, ..OpTensorDescriptor::default() };
        let factors = Factors { alpha: [1.0, 1.0], beta: 0.0 };
        let plan = OpPlan::new(&rule, [c, c, c], factors, false, Mode::Extended).unwrap();
        collected(&plan, &[0x1000, 0x2000, 0x3000].map(place))
    };
    for (data_type, kernel) in
        [(float, "op_run_f32"), (DataType::Half, "op_run_f16"), (DataType::Bfloat16, "op_run_bf16")]
    {
        let c = packed(data_type, Format::Nchw, &[2, 8, 4, 4]);
        push(&[kernel], op(&c, float));
        // What vectors leave of a run.
        push(&[kernel, "op_f32_i32"], op(&packed(data_type, Format::Nchw, &[1, 1001]), float));
        // A bias of every channel.
        let bias = packed(data_type, Format::Nchw, &[1, 8, 1, 1]);
        let scaling = Scaling { alpha: 1.0, beta: 1.0 };
        let plan = cudnn::ops::add::plan(&bias, &c, scaling, Mode::Extended).unwrap();
        push(&[kernel], of_plan(plan.as_plan(), ALIGNED));
    }
    for (row, single, double) in [(9, "op_f32_i32", "op_f64_i32"), (1 << 34, "op_f32_i64", "op_f64_i64")] {
        push(&[single], op(&strided(float, &[5, 7], &[row, 1]), float));
        push(&[double], op(&strided(DataType::Double, &[5, 7], &[row, 1]), DataType::Double));
    }
    push(&["op_ordered"], op(&strided(float, &[4, 4], &[2, 1]), float));
    for (data_type, compute_type, indices, blocks, rows, chunks) in [
        (float, float, false, "reduce_blocks_of_f32", "reduce_rows_of_f32", "reduce_chunks_f32"),
        (DataType::Half, float, false, "reduce_blocks_of_f16", "reduce_rows_of_f16", "reduce_chunks_f32"),
        (
            DataType::Bfloat16,
            float,
            false,
            "reduce_blocks_of_bf16",
            "reduce_rows_of_bf16",
            "reduce_chunks_f32",
        ),
        (DataType::Int8, float, false, "reduce_blocks_f32", "reduce_rows_f32", "reduce_chunks_f32"),
        (
            float,
            float,
            true,
            "reduce_blocks_indexed_of_f32",
            "reduce_rows_indexed_f32",
            "reduce_chunks_indexed_f32",
        ),
        (
            DataType::Half,
            float,
            true,
            "reduce_blocks_indexed_f32",
            "reduce_rows_indexed_f32",
            "reduce_chunks_indexed_f32",
        ),
        (
            DataType::Double,
            DataType::Double,
            false,
            "reduce_blocks_f64",
            "reduce_rows_f64",
            "reduce_chunks_f64",
        ),
        (
            DataType::Double,
            DataType::Double,
            true,
            "reduce_blocks_indexed_f64",
            "reduce_rows_indexed_f64",
            "reduce_chunks_indexed_f64",
        ),
    ] {
        let rule = ReduceDescriptor {
            op: ReduceOp::Max,
            compute_type,
            indices: if indices { ReduceIndices::Flattened } else { ReduceIndices::None },
            ..ReduceDescriptor::default()
        };
        for (strides, kernel) in [([1 << 20, 1], blocks), ([1, 70], rows)] {
            let a = strided(data_type, &[70, 1 << 20], &strides);
            let c = strided(data_type, &[70, 1], &[1, 1]);
            let plan = ReducePlan::new(&rule, &a, &c, Scaling::MOVE, Mode::Extended).unwrap();
            let at = [0x1000, 0x2001, 0x10_0000, 0x8000_0001].map(place);
            // Without room for parts each of a few outputs has a block.
            push(&[blocks], collected(&plan, &at));
            // With room for parts, they are joined by a second kernel.
            let size = reduce_workspace(&rule, &a, &c);
            push(&[kernel, chunks], collected(&plan.with_workspace(size), &at));
            push(&[blocks], collected(&plan.with_workspace(size - 1), &at));
        }
    }
    list
}

fn reduce_workspace(rule: &ReduceDescriptor, a: &TensorDescriptor, c: &TensorDescriptor) -> usize {
    let size = cudnn::ops::reduce::workspace_size(rule, a, c, Mode::Extended);
    assert!((17..=(2 << 20) + 16).contains(&size), "{size} bytes of workspace");
    size
}
