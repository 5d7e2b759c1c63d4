//! Activations and softmax as shares of a copy of the same traffic, on as many threads.
//!
//! `cargo bench --bench layers`: one row per problem; `share` is the time of a copy that moves as
//! many bytes over that of the row, best and median; words after `--` choose the rows whose names
//! hold all of them. `benches/layers_peers.py` times the same problems with PyTorch.

use cudnn::backend::Machine;
use cudnn::desc::{
    ActivationDescriptor, ActivationMode, Format, SoftmaxAlgorithm, SoftmaxMode, TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::softmax::Choices;
use cudnn::ops::{ActivationPlan, Plan, Scaling, SoftmaxPlan};

mod timing;

use timing::{BYTES, Pointer, ROUNDS, divided, times};

const ACTIVATIONS: [ActivationMode; 7] = [
    ActivationMode::Relu,
    ActivationMode::ClippedRelu,
    ActivationMode::Identity,
    ActivationMode::Sigmoid,
    ActivationMode::Tanh,
    ActivationMode::Elu,
    ActivationMode::Swish,
];

fn tensor(data_type: DataType, format: Format, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, format, 4, dims, Mode::Extended).expect("valid")
}

fn main() {
    let mut memory = vec![vec![0_u32; BYTES / 4]; 3];
    let [a, b, c] = [0, 1, 2].map(|k| Pointer(memory[k].as_mut_ptr().cast()));
    let others = vec![1.0_f32; BYTES / 4];
    println!("{} threads, best / median of {ROUNDS} rounds in turns", Machine::host().threads);
    println!("{:<34}{:>16}{:>16}{:>16}", "problem", "ms", "copy, ms", "share");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let row = |name: &str, traffic: usize, body: &mut dyn FnMut()| {
        if !wanted.iter().all(|word| name.contains(word.as_str())) {
            return;
        }
        let mut copy = || {
            divided(|i, n| {
                // SAFETY: parts of different buffers.
                unsafe { c.at(i).copy_from_nonoverlapping(a.at(i), n) }
            })
        };
        let [body, copy] = times(&others, [body, &mut copy]);
        let of = |times: &[f64], bytes: usize| {
            [times[0], times[ROUNDS / 2]].map(|s| s * 1e3 * traffic as f64 / bytes as f64)
        };
        let (ours, copy) = (of(&body, traffic), of(&copy, 2 * BYTES));
        print!("{name:<34}");
        [ours, copy, [copy[0] / ours[0], copy[1] / ours[1]]]
            .iter()
            .for_each(|[best, median]| print!("{best:>8.2} /{median:>6.2}"));
        println!();
    };
    for (data_type, size) in [(DataType::Float, 4), (DataType::Half, 2), (DataType::Bfloat16, 2)] {
        for (k, to) in [&a, &b, &c].into_iter().enumerate() {
            for i in 0..BYTES / 4 {
                // SAFETY: a word of the buffer, which nobody else uses.
                unsafe { to.at(4 * i).cast::<u32>().write(word(data_type, i, k)) };
            }
        }
        let dims = [BYTES as i64 / size / (64 * 56 * 56), 64, 56, 56];
        let bytes = (dims.iter().product::<i64>() * size) as usize;
        let full = tensor(data_type, Format::Nhwc, &dims);
        for mode in ACTIVATIONS {
            let activation =
                ActivationDescriptor { mode, coefficient: 1.0, ..ActivationDescriptor::default() };
            row(&format!("{mode:?} {data_type:?}"), 2 * bytes, &mut || {
                let plan =
                    ActivationPlan::forward(&activation, [&full; 2], Scaling::MOVE, false, Mode::Extended);
                run(&plan.expect("valid"), &[c.at(0).into(), a.at(0).into()]);
            });
            row(&format!("{mode:?} gradient {data_type:?}"), 3 * bytes, &mut || {
                let plan = ActivationPlan::backward(
                    &activation,
                    [&full; 3],
                    None,
                    Scaling::MOVE,
                    false,
                    Mode::Extended,
                );
                let at = [c.at(0).into(), b.at(0).into(), a.at(0).into(), Address::NULL];
                run(&plan.expect("valid"), &at);
            });
        }
        for classes in [10, 100, 1000] {
            for format in [Format::Nchw, Format::Nhwc] {
                let dims = [BYTES as i64 / size / classes / 784, classes, 28, 28];
                let bytes = (size * dims.iter().product::<i64>()) as usize;
                let full = tensor(data_type, format, &dims);
                for algorithm in [SoftmaxAlgorithm::Accurate, SoftmaxAlgorithm::Log] {
                    let choices = || Choices { algorithm: Ok(algorithm), mode: Ok(SoftmaxMode::Channel) };
                    let name = format!("softmax {algorithm:?} {classes} {format:?} {data_type:?}");
                    row(&name, 2 * bytes, &mut || {
                        let plan = SoftmaxPlan::forward(choices(), [&full; 2], Scaling::MOVE, Mode::Extended);
                        run(&plan.expect("valid"), &[c.at(0).into(), a.at(0).into()]);
                    });
                }
                row(&format!("softmax gradient {classes} {format:?} {data_type:?}"), 3 * bytes, &mut || {
                    let choices =
                        Choices { algorithm: Ok(SoftmaxAlgorithm::Accurate), mode: Ok(SoftmaxMode::Channel) };
                    let plan = SoftmaxPlan::backward(choices, [&full; 3], Scaling::MOVE, Mode::Extended);
                    run(&plan.expect("valid"), &[c.at(0).into(), b.at(0).into(), a.at(0).into()]);
                });
            }
        }
    }
}

/// Numbers around 0 of this type, as many as a word holds: those of one word of buffer `k`.
fn word(data_type: DataType, i: usize, k: usize) -> u32 {
    let number = |i: usize| ((i * 7 + k) % 1000) as f32 / 125.0 - 4.0;
    let both =
        |bits: &dyn Fn(f32) -> u16| u32::from(bits(number(2 * i + 1))) << 16 | u32::from(bits(number(2 * i)));
    match data_type {
        DataType::Half => both(&|x| half::f16::from_f32(x).to_bits()),
        DataType::Bfloat16 => both(&|x| half::bf16::from_f32(x).to_bits()),
        _ => number(i).to_bits(),
    }
}

/// Runs a plan on the CPU core. The buffers are at least as long as the tensors.
fn run(plan: &dyn Plan, at: &[Address]) {
    // SAFETY: see above; nobody else uses them.
    unsafe { Context::cpu().run(plan, at) }.expect("runs");
}
