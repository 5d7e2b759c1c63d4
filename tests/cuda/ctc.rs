//! CTC losses on both cores, equal in every bit: labels of the host and of the device, among them
//! such as are none.

use cudnn::desc::{CtcLossDescriptor, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::Address;
use cudnn::mode::Mode;
use cudnn::ops::Plan;
use cudnn::ops::ctc::{CtcPlan, Lengths, Tensors};

use crate::cores::{Cores, check_counts};
use crate::double::{self, Memory};
use crate::tensors::{Words, strided};

/// Bytes of numbers of a type.
fn bytes(data_type: DataType, numbers: &[f64]) -> Vec<u8> {
    match data_type {
        DataType::Double => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ => numbers.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
    }
}

fn words(integers: &[i32]) -> Vec<u8> {
    integers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs a plan on both cores and compares the first two operands, costs and gradients.
fn agree(cores: &mut Cores, plan: &CtcPlan, contents: &[Vec<u8>]) {
    crate::memory::working_on(plan);
    let mut host: Vec<Words> = contents.iter().map(|content| Words::new(content)).collect();
    let at: Vec<Address> = host.iter_mut().map(|words| words.address_mut().into()).collect();
    // SAFETY: every operand is as large as the plan says.
    unsafe { cores.cpu.run(plan, &at) }.expect("the CPU core");
    let device: Vec<Memory> = contents.iter().map(|content| Memory::new(content)).collect();
    let at: Vec<Address> = device.iter().map(|memory| Address::from(memory.pointer())).collect();
    // SAFETY: as above, on the device.
    unsafe { cores.cuda.run(plan, &at) }.expect("the CUDA core");
    for (k, what) in ["costs", "gradients"].into_iter().enumerate() {
        assert!(device[k].read() == host[k].bytes(), "{plan}\n{what} differ");
    }
    for k in 3..contents.len() {
        assert!(device[k].read() == contents[k], "{plan}\noperand {k} is written");
    }
    cores.solved += 1;
}

fn problem(cores: &mut Cores, case: usize) {
    let rng = &mut cores.rng;
    let samples = if case == 1 { 3 } else { 1 + rng.below(3) as i64 };
    let (rows, classes) = (1 + rng.below(12) as i64, 1 + rng.below(if case == 0 { 300 } else { 7 }) as i64);
    // A label that one pass of a block does not hold, in an input that does, and more integers than
    // a parameter.
    let longest = if case == 1 { 400 } else { rng.below(1 + rows as usize / 2) };
    let (rows, classes) = if case == 1 { (440, 60) } else { (rows, classes) };
    let data_type = rng.pick(&[DataType::Float, DataType::Double]);
    let loss = CtcLossDescriptor {
        compute_type: data_type,
        normalization: rng.below(2) as i32,
        gradient: rng.below(2) as i32,
        max_label_length: longest as i32,
    };
    let dims = [rows, samples, classes];
    let tensor = |data_type, order: usize| {
        let strides = match order {
            0 => [classes, classes * rows, 1],
            1 => [1, rows, rows * samples],
            _ => [samples * classes, classes, 1],
        };
        strided(data_type, &dims, &strides).desc
    };
    let probs: TensorDescriptor = tensor(data_type, rng.below(4));
    let to = if rng.below(4) == 0 { DataType::Half } else { data_type };
    let gradients: TensorDescriptor = tensor(to, rng.below(4));
    let tensors = Tensors {
        loss: &loss,
        probs: &probs,
        gradients: Some(&gradients),
        has_gradients: rng.below(6) > 0,
        algorithm: 1,
    };
    let count = (rows * samples * classes) as usize;
    let numbers: Vec<f64> = match loss.normalization {
        0 => (0..count).map(|_| rng.below(1001) as f64 / 1000.0).collect(),
        _ => (0..count).map(|_| rng.below(8001) as f64 / 1000.0 - 4.0).collect(),
    };
    let label_lengths: Vec<i32> = (0..samples)
        .map(|_| if case == 1 { longest as i32 } else { rng.below(1 + longest) as i32 })
        .collect();
    let total = label_lengths.iter().sum::<i32>() as usize;
    // With one class there is no label.
    let one = |rng: &mut crate::tensors::Rng| 1 + rng.below((classes - 1).max(1) as usize) as i32;
    let mut labels: Vec<i32> = (0..total).map(|_| one(rng)).collect();
    let inputs: Vec<i32> =
        (0..samples).map(|_| if case == 1 { 440 } else { rows as i32 - rng.below(3) as i32 }).collect();
    let before = |count: i64, data_type: DataType| vec![0xff; count as usize * data_type.size()];
    let mut contents = vec![
        before(samples, data_type),
        before(rows * samples * classes, to),
        Vec::new(),
        bytes(data_type, &numbers),
    ];
    if !tensors.has_gradients {
        contents[1] = vec![0; 16];
    }
    if total == 0 || classes > 1 {
        let lengths = Lengths { labels: &label_lengths, inputs: &inputs };
        let size = tensors.size(lengths, Mode::Extended).expect("a size");
        contents[2] = vec![0xff; size];
        let plan =
            CtcPlan::with_host_labels(tensors, &labels, lengths, size, Mode::Extended).expect("a plan");
        agree(cores, &plan, &contents);
    }
    // Integers that are no labels and no lengths.
    let rng = &mut cores.rng;
    let (mut label_lengths, mut inputs) = (label_lengths, inputs);
    if rng.below(3) == 0 {
        let n = rng.below(samples as usize);
        inputs[n] = rng.pick(&[i32::MIN, -1, 0, i32::MAX]);
        label_lengths[n] = rng.pick(&[i32::MIN, -1, label_lengths[n]]);
    }
    if total > 0 && rng.below(4) == 0 {
        let k = rng.below(total);
        labels[k] = rng.pick(&[0, -1, i32::MAX, classes as i32]);
    }
    labels.push(1);
    let size = tensors.size_of_longest(Mode::Extended).expect("a size");
    contents[2] = vec![0xff; size];
    contents.extend([words(&labels), words(&label_lengths), words(&inputs)]);
    let plan = CtcPlan::with_device_labels(tensors, size, Mode::Extended).expect("a plan");
    assert_eq!(plan.operands().len(), contents.len());
    agree(cores, &plan, &contents);
}

/// All of them, which launch every kernel of the kind.
fn problems() {
    let mut cores = Cores::new();
    (0..60).for_each(|case| problem(&mut cores, case));
    let kernels = cudnn::backend::cuda::module::kernels().iter().map(|kernel| kernel.name);
    check_counts(kernels.filter(|name| name.starts_with("ctc_") || name.starts_with("words_")));
    println!("{} problems, equal on both cores", cores.solved);
}

#[test]
fn both_cores_align_alike() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], problems);
}

#[test]
fn both_cores_align_alike_with_threads_in_the_other_order() {
    double::run(&[("DRIVER_DOUBLE_ORDER", "reverse")], problems);
}
