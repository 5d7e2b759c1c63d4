//! Element-wise operations and reductions as ratios to a copy and a fill of the same traffic, on as
//! many threads.
//!
//! `cargo bench --bench arithmetic`: one row per problem; `ratio` is its time over that of the
//! faster of a copy and a fill that move as many bytes; words after `--` choose the rows whose
//! names hold all of them. The target is 1.15, and NHWC within 1.1 of NCHW.

use std::hint::black_box;

use cudnn::backend::Machine;
use cudnn::desc::{Format, OpTensorDescriptor, OpTensorOp, ReduceDescriptor, ReduceOp, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::add;
use cudnn::ops::op::Factors;
use cudnn::ops::{FillPlan, Number, OpPlan, Plan, ReducePlan, Scaling};

mod timing;

use timing::{BYTES, Pointer, ROUNDS, divided, times};

const DIMS: [i64; 4] = [16, 256, 64, 64];

fn tensor(format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(DataType::Float, format, 4, dims, Mode::Extended).expect("valid")
}

fn main() {
    let mut memory: Vec<Vec<f32>> = (0..3).map(|k| vec![k as f32 + 0.5; BYTES / 4]).collect();
    let [a, b, c] = [0, 1, 2].map(|k| Pointer(memory[k].as_mut_ptr().cast()));
    let bias = vec![0.0_f32; 1024];
    let others = vec![1.0_f32; BYTES / 4];
    let mut copy = || {
        divided(|i, n| {
            // SAFETY: parts of different buffers.
            unsafe { c.at(i).copy_from_nonoverlapping(a.at(i), n) }
        })
    };
    let mut fill = || {
        divided(|i, n| {
            // SAFETY: a part of the buffer; any byte will do in a float.
            unsafe { c.at(i).write_bytes(1, n) }
        })
    };
    println!("{} threads, best / median of {ROUNDS} rounds in turns", Machine::host().threads);
    println!("{:<26}{:>15}{:>15}{:>15}{:>15}", "problem", "ms", "copy, ms", "fill, ms", "ratio");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut row = |name: &str, traffic: usize, body: &mut dyn FnMut()| {
        if !wanted.iter().all(|word| name.contains(word.as_str())) {
            return;
        }
        let [body, copy, fill] = times(&others, [body, &mut copy, &mut fill]);
        // Milliseconds for the traffic of the row.
        let scaled = |times: &[f64], bytes: usize| {
            [times[0], times[ROUNDS / 2]].map(|s| s * 1e3 * traffic as f64 / bytes as f64)
        };
        let (ours, copy, fill) = (scaled(&body, traffic), scaled(&copy, 2 * BYTES), scaled(&fill, BYTES));
        let ratio = [0, 1].map(|k| ours[k] / copy[k].min(fill[k]));
        print!("{name:<26}");
        [ours, copy, fill, ratio].iter().for_each(|[best, median]| print!("{best:>8.2} /{median:>5.2}"));
        println!();
    };
    for (format, name) in [(Format::Nchw, "nchw"), (Format::Nhwc, "nhwc")] {
        let full = tensor(format, &DIMS);
        let channels = tensor(format, &[1, DIMS[1], 1, 1]);
        for dims in [DIMS, [16, 64, 112, 112], [16, 1024, 28, 28]] {
            let [_, count, h, w] = dims;
            let (full, channels) = (tensor(format, &dims), tensor(format, &[1, count, 1, 1]));
            let bytes = 4 * dims.iter().product::<i64>() as usize;
            row(&format!("add bias {count}x{h}x{w} {name}"), 2 * bytes, &mut || {
                let scaling = Scaling { alpha: 1.0, beta: 1.0 };
                let plan = add::plan(&channels, &full, scaling, Mode::Extended).expect("valid");
                run(plan.as_plan(), &[c.at(0).into(), bias.as_ptr().into()]);
            });
        }
        for op in [OpTensorOp::Add, OpTensorOp::Mul] {
            row(&format!("op {op:?} {name}"), 3 * BYTES, &mut || {
                let rule = OpTensorDescriptor { op, ..OpTensorDescriptor::default() };
                let factors = Factors { alpha: [1.0, 1.0], beta: 0.0 };
                let plan = OpPlan::new(&rule, [&full; 3], factors, false, Mode::Extended).expect("valid");
                run(&plan, &[c.at(0).into(), a.at(0).into(), b.at(0).into()]);
            });
        }
        row(&format!("set {name}"), BYTES, &mut || {
            let plan = FillPlan::set(&full, Number::Real(1.5), Mode::Extended).expect("valid");
            run(&plan, &[c.at(0).into()]);
        });
        row(&format!("scale {name}"), 2 * BYTES, &mut || {
            let plan = FillPlan::scale(&full, 0.999, Mode::Extended).expect("valid");
            run(&plan, &[c.at(0).into()]);
        });
        let one = tensor(format, &[1, 1, 1, 1]);
        for (what, to) in [("full", &one), ("per channel", &channels)] {
            for op in [ReduceOp::Add, ReduceOp::Max] {
                row(&format!("reduce {op:?} {what} {name}"), BYTES, &mut || {
                    let desc = ReduceDescriptor { op, ..ReduceDescriptor::default() };
                    let plan =
                        ReducePlan::new(&desc, &full, to, Scaling::MOVE, Mode::Extended).expect("valid");
                    let mut results = vec![0.0_f32; 256];
                    run(&plan, &[results.as_mut_ptr().into(), Address::NULL, a.at(0).into(), Address::NULL]);
                    black_box(&results);
                });
            }
        }
    }
}

/// Runs a plan on the CPU core. The buffers are at least as long as the tensors.
fn run(plan: &dyn Plan, at: &[Address]) {
    // SAFETY: see above; nobody else uses them.
    unsafe { Context::cpu().run(plan, at) }.expect("runs");
}
