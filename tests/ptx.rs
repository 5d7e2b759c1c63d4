//! The kernels' PTX against what is launched, against its sources, and against the assembler.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cudnn::backend::cuda::params::{Divisor, Index};
use cudnn::backend::cuda::plan::{self, Launch, Pointers};
use cudnn::desc::tensor::Format;
use cudnn::desc::{
    OpTensorDescriptor, ReduceDescriptor, ReduceIndices, ReduceOp, TensorDescriptor, TransformDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::mode::Mode;
use cudnn::ops::op::Factors;
use cudnn::ops::{FillPlan, Number, OpPlan, Plan, ReducePlan, Scaling, TransformPlan};

/// Generates the PTX and the table of resources again, with the pinned compiler and assembler, and compares.
#[test]
fn ptx_and_resources_are_what_the_sources_generate() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "ptx", "--check"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("cannot fetch nvidia-cuda-") {
        println!(
            "skipped: the pinned compiler is not here and cannot be fetched; install python3-pip, go online"
        );
        return;
    }
    assert!(output.status.success(), "{errors}");
}

/// Every entry of the PTX with the size of its one parameter.
fn entries() -> BTreeMap<String, usize> {
    let mut entries = BTreeMap::new();
    for entry in plan::PTX.split(".visible .entry ").skip(1) {
        let (name, rest) = entry.split_once('(').expect("an entry has parameters");
        let parameters = rest.split_once(')').expect("parameters end").0;
        assert_eq!(parameters.matches(".param").count(), 1, "{name} takes one struct");
        let size = parameters.rsplit_once('[').expect("a struct").1.trim().trim_end_matches(']');
        entries.insert(name.to_owned(), size.parse().expect("a size in bytes"));
    }
    entries
}

/// A tensor that is never touched, so that it may be as large as one likes.
fn strided(data_type: DataType, dims: &[i64], strides: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_strides(data_type, dims.len() as i64, dims, strides, Mode::Extended).unwrap()
}

fn packed(data_type: DataType, format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, format, dims.len() as i64, dims, Mode::Extended).unwrap()
}

const ALIGNED: Pointers = Pointers { dst: 0x1_0000, src: 0x2_0000 };
const SCALED: Scaling = Scaling { alpha: 2.0, beta: 0.0 };

/// An address of the device.
fn place(address: usize) -> Address {
    std::ptr::without_provenance_mut::<u8>(address).into()
}

fn launches(plan: &dyn Plan, at: Pointers) -> Vec<Launch> {
    collected(plan, &[place(at.dst as usize), place(at.src as usize)])
}

/// Everything that a plan launches.
fn collected(plan: &dyn Plan, at: &[Address]) -> Vec<Launch> {
    let mut found = Vec::new();
    plan::launches(plan, at, &mut |launch| {
        found.push(*launch);
        Ok(())
    })
    .unwrap();
    found
}

/// The one launch of a plain transform.
fn launch(src: &TensorDescriptor, dst: &TensorDescriptor, scaling: Scaling, at: Pointers) -> Launch {
    let launches = launches(&TransformPlan::new(src, dst, scaling, Mode::Extended).unwrap(), at);
    assert_eq!(launches.len(), 1, "one problem is one launch");
    launches[0]
}

/// An element type of each width.
const WIDTHS: [(i64, DataType); 4] =
    [(1, DataType::Int8), (2, DataType::Half), (4, DataType::Float), (8, DataType::Double)];

const COMMON: [(&str, DataType); 5] = [
    ("f32", DataType::Float),
    ("f16", DataType::Half),
    ("bf16", DataType::Bfloat16),
    ("s8", DataType::Int8),
    ("u8", DataType::Uint8),
];

/// Problems that must end in the kernel named, of every family.
fn expected() -> Vec<(String, Launch)> {
    let mut list = Vec::new();
    let (nchw, nhwc) = (Format::Nchw, Format::Nhwc);
    for (width, t) in WIDTHS {
        // A run, of which the operands lie `width` bytes off each other.
        let run = packed(t, nchw, &[2, 3, 50, 50]);
        let off = Pointers { src: ALIGNED.src + width as u64, ..ALIGNED };
        list.push((format!("copy_w{width}"), launch(&run, &run, Scaling::MOVE, off)));
        list.push(("copy_w16".into(), launch(&run, &run, Scaling::MOVE, ALIGNED)));

        // Planes to pixels and back.
        for c in 2..=8 {
            let dims = [2, c, 64, 64];
            let (x, y) = (packed(t, nchw, &dims), packed(t, nhwc, &dims));
            list.push((format!("interleave_w{width}_c{c}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
            list.push((format!("separate_w{width}_c{c}"), launch(&y, &x, Scaling::MOVE, ALIGNED)));
        }
        let dims = [2, 64, 56, 56];
        let (x, y) = (packed(t, nchw, &dims), packed(t, nhwc, &dims));
        list.push((format!("transpose_w{width}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        list.push((format!("transpose_w{width}"), launch(&y, &x, Scaling::MOVE, ALIGNED)));

        // Every second element; and the same beyond 32 bits.
        for (stride, index) in [(2, "i32"), (1 << 34, "i64")] {
            let x = strided(t, &[5, 7], &[7 * stride, stride]);
            let y = strided(t, &[5, 7], &[7, 1]);
            list.push((format!("strided_w{width}_{index}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        }
    }
    // Blocks of channels that travel as one element of 16 or 32 bytes.
    for (block, width) in [(4, 16), (8, 32)] {
        let t = DataType::Float;
        let dims = [2, 16 * block, 8, 8];
        let (x, y) = (packed(t, Format::Blocked(block), &dims), packed(t, nhwc, &dims));
        list.push((format!("transpose_w{width}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        for (row, index) in [(16, "i32"), (1 << 34, "i64")] {
            let (x, y) = (strided(t, &[5, block], &[row, 1]), strided(t, &[5, block], &[2 * block, 1]));
            list.push((format!("strided_w{width}_{index}"), launch(&x, &y, Scaling::MOVE, ALIGNED)));
        }
    }
    // Pairs with kernels of their own, all but those that fit no binary32 on the way or only meet as moves.
    for (from, x) in COMMON {
        for (to, y) in COMMON {
            let bytes = [&from, &to].iter().filter(|name| matches!(**name, &"s8" | &"u8")).count();
            if bytes == 2 || (bytes == 1 && from != "f32" && to != "f32") {
                continue;
            }
            let dims = [2, 64, 10, 10];
            let (a, b, c) = (packed(x, nchw, &dims), packed(y, nchw, &dims), packed(y, nhwc, &dims));
            list.push((format!("convert_{from}_{to}"), launch(&a, &b, SCALED, ALIGNED)));
            list.push((format!("transpose_convert_{from}_{to}"), launch(&a, &c, SCALED, ALIGNED)));
        }
    }
    let (x, y) = (DataType::Double, DataType::Int64);
    let dims = [2, 64, 10, 10];
    list.push((
        "transpose_convert_any".into(),
        launch(&packed(x, nchw, &dims), &packed(y, nhwc, &dims), Scaling::MOVE, ALIGNED),
    ));
    for (stride, index) in [(2, "i32"), (1 << 34, "i64")] {
        let a = strided(x, &[5, 7], &[7 * stride, stride]);
        let b = strided(y, &[5, 7], &[7, 1]);
        list.push((format!("convert_strided_{index}"), launch(&a, &b, Scaling::MOVE, ALIGNED)));
    }
    // Padding in one launch, small and beyond 32 bits; and a destination that writes over itself.
    for (images, index) in [(10, "i32"), (1 << 30, "i64")] {
        let mut pad = TransformDescriptor::default();
        pad.pad_before[3] = 1;
        let x = strided(DataType::Int8, &[images, 1, 1, 7], &[7, 7, 7, 1]);
        let y = strided(DataType::Int8, &[images, 1, 1, 8], &[8, 8, 8, 1]);
        let plan = TransformPlan::with_map(&pad, &x, &y, Scaling::MOVE, Mode::Extended).unwrap();
        let launches = launches(&plan, ALIGNED);
        assert_eq!(launches.len(), 1, "padding is written by the same launch");
        list.push((format!("map_{index}"), launches[0]));
    }
    let x = strided(DataType::Float, &[4, 4], &[4, 1]);
    let y = strided(DataType::Float, &[4, 4], &[2, 1]);
    list.push(("ordered".into(), launch(&x, &y, Scaling::MOVE, ALIGNED)));
    list
}

/// As [`expected`], for calls that compute.
fn arithmetic() -> Vec<(String, Launch)> {
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
        push(&[kernel], launches(plan.as_plan(), ALIGNED));
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
            push(&[kernel], collected(&plan, &at));
            // With room for parts, they are joined by a second kernel.
            let size = reduce_workspace(&rule, &a, &c);
            push(&[kernel, chunks], collected(&plan.with_workspace(size), &at));
            push(&[kernel], collected(&plan.with_workspace(size - 1), &at));
        }
    }
    list
}

fn reduce_workspace(rule: &ReduceDescriptor, a: &TensorDescriptor, c: &TensorDescriptor) -> usize {
    let size = cudnn::ops::reduce::workspace_size(rule, a, c, Mode::Extended);
    assert!((17..=(2 << 20) + 16).contains(&size), "{size} bytes of workspace");
    size
}

#[test]
fn every_family_has_its_problems() {
    for (kernel, launch) in expected() {
        assert_eq!(launch.kernel, kernel);
    }
}

#[test]
fn every_kernel_is_launched_with_the_parameters_it_takes() {
    let entries = entries();
    let mut launched = BTreeSet::new();
    for (_, launch) in expected().into_iter().chain(arithmetic()) {
        assert_eq!(entries.get(launch.kernel), Some(&launch.params.size()), "{}", launch.kernel);
        launched.insert(launch.kernel.to_owned());
    }
    let idle: Vec<_> = entries.keys().filter(|name| !launched.contains(*name)).collect();
    assert!(idle.is_empty(), "the PTX has kernels that nothing launches: {idle:?}");
}

#[test]
fn grids_stay_within_the_limits_of_every_device() {
    for (kernel, launch) in expected().into_iter().chain(arithmetic()) {
        let [x, y, z] = launch.grid;
        assert!((1..1 << 31).contains(&x) && (y, z) == (1, 1), "{kernel}: {:?}", launch.grid);
        let [x, y, z] = launch.block;
        assert!(x % 32 == 0 && x <= 1024 && (y, z) == (1, 1), "{kernel}: {:?}", launch.block);
        assert_eq!(launch.shared, 0, "{kernel}: shared memory is static");
    }
}

/// What the kernels compute, in their integers.
fn quotient(dividend: u64, by: &Divisor, index: Index) -> u64 {
    match index {
        Index::I32 => {
            let (n, m) = (dividend as u32, by.multiplier as u32);
            u64::from((((u64::from(n) * u64::from(m)) >> 32) as u32 + n) >> by.shift)
        }
        Index::I64 => {
            let high = (u128::from(dividend) * u128::from(by.multiplier)) >> 64;
            (high as u64 + dividend) >> by.shift
        }
    }
}

#[test]
fn multiply_and_shift_divides() {
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 1
    };
    for (index, bits) in [(Index::I32, 31), (Index::I64, 63)] {
        let largest = (1_u64 << bits) - 1;
        let mut divisors: Vec<u64> = (1..=1000).chain([largest - 1, largest, 1 << (bits - 1)]).collect();
        divisors.extend((0..2000).map(|k| (random() >> (k % bits)).clamp(1, largest)));
        for divisor in divisors {
            let by = Divisor::new(divisor as i64, index);
            let multiple = largest / divisor * divisor;
            for dividend in [0, 1, divisor - 1, divisor, multiple, multiple - 1, largest, random() & largest]
            {
                assert_eq!(quotient(dividend, &by, index), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }
}

#[test]
fn the_table_of_resources_names_every_kernel() {
    let table = include_str!("../src/backend/cuda/ptx/resources.tsv");
    let rows: BTreeSet<&str> = table.lines().skip(2).filter_map(|row| row.split('\t').next()).collect();
    let entries = entries();
    assert_eq!(rows, entries.keys().map(String::as_str).collect());
}
