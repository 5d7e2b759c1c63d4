//! Batch normalisation on the CPU core: every machine computes what the reference computes, and
//! that is what the formulas in binary64 give.

mod large;
mod small;
pub mod tensors;

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::desc::normalization::{BatchNormMode, parameters};
use cudnn::desc::{ActivationDescriptor, ActivationMode, Format, NanPropagation, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::exec::Context;
use cudnn::mode::Mode;
use cudnn::ops::batch_norm::{
    Backward, BackwardPlan, Forward, ForwardPlan, Fused, Parameters, Source, reserve_size,
};
use cudnn::ops::{Plan, Scaling};
use tensors::{Memory, groups, laid_out};
use testkit::normal::plain_forward;
use testkit::random::Rng;

const TYPES: [DataType; 5] =
    [DataType::Float, DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const ACTIVATIONS: [ActivationMode; 7] = [
    ActivationMode::Relu,
    ActivationMode::ClippedRelu,
    ActivationMode::Sigmoid,
    ActivationMode::Tanh,
    ActivationMode::Elu,
    ActivationMode::Swish,
    ActivationMode::Identity,
];

/// Runs every step on one machine, or by the reference.
fn run(plan: &dyn Plan, memory: &mut [Memory], machine: Option<Machine>) {
    let at: Vec<Address> = memory.iter_mut().map(Memory::at).collect();
    plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| at[slot]).collect();
        // SAFETY: the memory is that of the descriptors.
        unsafe {
            match machine {
                Some(machine) => backend::run(step, &at, false, machine),
                None => reference::run(step, &at),
            }
        }
    })
    .expect("runs");
}

fn machines() -> impl Iterator<Item = Machine> {
    Isa::available().flat_map(|isa| [1, 3].map(|threads| Machine { isa, threads }))
}

fn some_dims(rng: &mut Rng, big: bool) -> Vec<i64> {
    if big {
        return rng
            .pick(&[[3, 5, 40, 33], [4, 64, 20, 20], [2, 300, 5, 7], [1, 3, 130, 130], [70, 33, 9, 3]])
            .to_vec();
    }
    let rank = 2 + rng.below(4);
    (0..rank).map(|_| rng.pick(&[1, 2, 3, 5, 8, 17])).collect()
}

/// Tensors of one shape, and what is normalised in them; in every fifth case many small groups, one
/// behind the other.
fn some_tensors<const N: usize>(
    rng: &mut Rng, case: usize,
) -> (Vec<i64>, BatchNormMode, [TensorDescriptor; N]) {
    let data_type = rng.pick(&TYPES);
    if case.is_multiple_of(5) {
        let dims = [1, 4 + rng.below(300) as i64, 1 + rng.below(6) as i64, 1 + rng.below(18) as i64];
        let tensor =
            TensorDescriptor::with_format(data_type, Format::Nchw, 4, &dims, Mode::Extended).unwrap();
        return (dims.to_vec(), BatchNormMode::Spatial, std::array::from_fn(|_| tensor));
    }
    let dims = some_dims(rng, case.is_multiple_of(13));
    let mode =
        rng.pick(&[BatchNormMode::PerActivation, BatchNormMode::Spatial, BatchNormMode::SpatialPersistent]);
    let tensors = std::array::from_fn(|_| laid_out(rng, data_type, &dims));
    (dims, mode, tensors)
}

fn some_fused(rng: &mut Rng) -> Option<Fused> {
    let activation = ActivationDescriptor {
        mode: rng.pick(&ACTIVATIONS),
        nan: rng.pick(&[NanPropagation::Drop, NanPropagation::Keep]),
        coefficient: rng.pick(&[0.5, 1.0]),
        swish_beta: 1.25,
    };
    let adds = rng.pick(&[false, true]);
    rng.pick(&[false, true]).then_some(Fused { adds, activation })
}

/// The gradients of a plain forward pass.
fn plain_backward<'a>(x: &'a TensorDescriptor, of_group: &'a TensorDescriptor) -> Backward<'a> {
    Backward {
        mode: BatchNormMode::Spatial,
        x,
        dy: x,
        dx: x,
        dz: None,
        parameters: Parameters { name: "s", tensor: of_group },
        saved: [true; 2],
        bias: true,
        epsilon: 1e-5,
        scaling: Scaling::MOVE,
        parameter_scaling: Scaling::MOVE,
        fused: None,
        reserve_size: 0,
        workspace_size: 0,
        names: NAMES,
    }
}

#[test]
fn forward_passes_are_those_of_the_reference_and_of_binary64() {
    let mut rng = Rng(3);
    for case in 0..260 {
        let (dims, mode, [x, y, z]) = some_tensors(&mut rng, case);
        let data_type = x.data_type();
        let of_group = parameters(&x, mode == BatchNormMode::PerActivation, Mode::Extended).unwrap();
        let fused = some_fused(&mut rng);
        let training = rng.below(4) > 0;
        let (running, saved) =
            ([rng.pick(&[false, true]), rng.pick(&[false, true])], [rng.pick(&[false, true]); 2]);
        let factor = rng.pick(&[0.0, 0.1, 1.0, 0.5]);
        let source = if training { Source::Batch { factor, running, saved } } else { Source::Given };
        let epsilon = rng.pick(&[1e-5, 1e-3, 0.0]);
        let scaling = Scaling { alpha: rng.pick(&[1.0, 1.0, -0.5]), beta: rng.pick(&[0.0, 0.0, 0.75]) };
        let adds = fused.is_some_and(|fused| fused.adds);
        let call = Forward {
            mode,
            x: &x,
            y: &y,
            z: adds.then_some(&z),
            parameters: Parameters { name: "bnScaleBiasMeanVarDesc", tensor: &of_group },
            source,
            epsilon,
            scaling,
            fused,
            reserve_size: usize::MAX,
            workspace_size: 0,
            names: NAMES,
        };
        let plan = ForwardPlan::new(call, Mode::Extended).expect("a plan");
        let reserve = reserve_size(&x, fused.as_ref()).unwrap();
        let reserve_desc = TensorDescriptor::with_format(
            DataType::Uint8,
            Format::Nchw,
            2,
            &[1, reserve as i64],
            Mode::Extended,
        )
        .unwrap();
        let far = rng.pick(&[0.0, 0.0, 3.0]);
        let mut first: Vec<Memory> =
            [&y, &of_group, &of_group, &of_group, &of_group, &reserve_desc, &x, &z, &of_group, &of_group]
                .map(|tensor| Memory::new(&mut rng, tensor, 0.0))
                .to_vec();
        first[6] = Memory::new(&mut rng, &x, far);
        if scaling.beta == 0.0 {
            first[0] = Memory::poisoned(&y);
        }
        if training && factor == 1.0 {
            first[3] = Memory::poisoned(&of_group);
            first[4] = Memory::poisoned(&of_group);
        } else {
            // Variances are not negative.
            (0..of_group.size_in_bytes() / of_group.data_type().size())
                .for_each(|i| first[4].set(i as i64, 0.25 + (i % 7) as f64));
        }
        let mut want = first.clone();
        run(&plan, &mut want, None);
        for machine in machines() {
            let mut got = first.clone();
            run(&plan, &mut got, Some(machine));
            for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                let first = got.words.iter().zip(&want.words).find(|(a, b)| a != b);
                assert!(got == want, "case {case}: operand {k}, {first:x?}, of {plan} on {machine:?}");
            }
        }
        // The formulas, in binary64.
        let unit = match data_type {
            DataType::Double => 1e-13,
            DataType::Float => 4e-6,
            DataType::Half => 4e-3,
            _ => 3e-2,
        };
        let numbers = if data_type == DataType::Double { 1e-13 } else { 1e-6 };
        let close = |got: f64, want: f64, scale: f64, bound: f64, what: &str| {
            let is_close =
                (got - want).abs() <= bound * (scale + want.abs()) || got.to_bits() == want.to_bits();
            assert!(is_close, "case {case}: {what}: {got} instead of {want}: {plan}");
        };
        for (group, places) in groups(mode, &dims, &[&x, &y, &z]).iter().enumerate() {
            let m = places.len() as f64;
            let group = group as i64;
            let (mean, variance) = if training {
                let mean = places.iter().map(|at| first[6].get(at[0])).sum::<f64>() / m;
                (mean, places.iter().map(|at| (first[6].get(at[0]) - mean).powi(2)).sum::<f64>() / m)
            } else {
                (first[3].get(group), first[4].get(group))
            };
            let inverse = 1.0 / (variance + epsilon).sqrt();
            if training {
                if saved[0] {
                    close(want[1].get(group), mean, 1.0, numbers, "saved mean");
                    close(want[2].get(group), inverse, 0.0, numbers.max(1e-12), "saved inverse");
                }
                let unbiased = if m > 1.0 { variance * m / (m - 1.0) } else { variance };
                for (k, new) in [(3, mean), (4, unbiased)] {
                    let old = if factor == 1.0 { 0.0 } else { (1.0 - factor) * first[k].get(group) };
                    let average = match running[k - 3] && factor != 0.0 {
                        true => old + factor * new,
                        false => first[k].get(group),
                    };
                    close(want[k].get(group), average, 1.0, numbers, "running average");
                }
            }
            if !inverse.is_finite() || (training && variance < 1e-12) {
                continue;
            }
            for at in places {
                let mut value =
                    first[8].get(group) * (first[6].get(at[0]) - mean) * inverse + first[9].get(group);
                if adds {
                    value += first[7].get(at[2]);
                }
                value = fused.map_or(value, |fused| activated(&fused.activation, value));
                value *= scaling.alpha;
                if scaling.beta != 0.0 {
                    value += scaling.beta * first[0].get(at[1]);
                }
                close(want[0].get(at[1]), value, 4.0 * inverse.max(1.0), unit, "y");
            }
        }
    }
}

fn activated(activation: &ActivationDescriptor, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation.mode {
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Relu => x.max(0.0),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::ClippedRelu => x.clamp(0.0, activation.coefficient),
        ActivationMode::Elu => {
            if x > 0.0 {
                x
            } else {
                activation.coefficient * x.exp_m1()
            }
        }
        ActivationMode::Swish => x * sigmoid(activation.swish_beta * x),
        ActivationMode::Identity => x,
    }
}

#[test]
fn gradients_are_those_of_the_reference_and_of_binary64() {
    let mut rng = Rng(4);
    for case in 0..260 {
        let (dims, mode, [x, dy, dx, dz]) = some_tensors(&mut rng, case);
        let data_type = x.data_type();
        let of_group = parameters(&x, mode == BatchNormMode::PerActivation, Mode::Extended).unwrap();
        let fused = some_fused(&mut rng);
        let adds = fused.is_some_and(|fused| fused.adds);
        let saved = rng.pick(&[false, true]);
        let scaling = Scaling { alpha: rng.pick(&[1.0, 1.0, -0.5]), beta: rng.pick(&[0.0, 0.0, 0.75]) };
        let parameter_scaling = Scaling { alpha: rng.pick(&[1.0, 2.0]), beta: rng.pick(&[0.0, 0.5]) };
        let epsilon = 1e-3;
        let call = Backward {
            mode,
            x: &x,
            dy: &dy,
            dx: &dx,
            dz: adds.then_some(&dz),
            parameters: Parameters { name: "dBnScaleBiasDesc", tensor: &of_group },
            saved: [saved; 2],
            bias: true,
            epsilon,
            scaling,
            parameter_scaling,
            fused,
            reserve_size: usize::MAX,
            workspace_size: 0,
            names: NAMES,
        };
        let plan = BackwardPlan::new(call, Mode::Extended).expect("a plan");
        let reserve = reserve_size(&x, fused.as_ref()).unwrap();
        let reserve_desc = TensorDescriptor::with_format(
            DataType::Uint8,
            Format::Nchw,
            2,
            &[1, reserve as i64],
            Mode::Extended,
        )
        .unwrap();
        let mut first: Vec<Memory> = [
            &dx,
            &of_group,
            &of_group,
            &dz,
            &x,
            &dy,
            &of_group,
            &of_group,
            &of_group,
            &of_group,
            &reserve_desc,
        ]
        .map(|tensor| Memory::new(&mut rng, tensor, 0.0))
        .to_vec();
        let mask = fused.is_some_and(|fused| {
            adds && matches!(fused.activation.mode, ActivationMode::Relu | ActivationMode::ClippedRelu)
        });
        let has_reserve =
            adds && fused.is_some_and(|fused| fused.activation.mode != ActivationMode::Identity);
        if has_reserve && !mask {
            // Slopes of 1.
            let one =
                if data_type == DataType::Double { 0x3ff0_0000_0000_0000 } else { 0x3f80_0000_3f80_0000 };
            first[10].words.fill(one);
        } else {
            first[10].words.iter_mut().for_each(|word| *word = 0x0101_0001_0001_0101);
        }
        if saved {
            // Those of the batch, so that the gradients are true ones.
            for (group, places) in groups(mode, &dims, &[&x]).iter().enumerate() {
                let m = places.len() as f64;
                let mean = places.iter().map(|at| first[4].get(at[0])).sum::<f64>() / m;
                let variance = places.iter().map(|at| (first[4].get(at[0]) - mean).powi(2)).sum::<f64>() / m;
                first[8].set(group as i64, mean);
                first[9].set(group as i64, 1.0 / (variance + epsilon).sqrt());
            }
        }
        if scaling.beta == 0.0 {
            first[0] = Memory::poisoned(&dx);
        }
        if parameter_scaling.beta == 0.0 {
            first[1] = Memory::poisoned(&of_group);
            first[2] = Memory::poisoned(&of_group);
        }
        let mut want = first.clone();
        run(&plan, &mut want, None);
        for machine in machines() {
            let mut got = first.clone();
            run(&plan, &mut got, Some(machine));
            for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                let first = got.words.iter().zip(&want.words).find(|(a, b)| a != b);
                assert!(got == want, "case {case}: operand {k}, {first:x?}, of {plan} on {machine:?}");
            }
        }
        if fused.is_some_and(|fused| fused.activation.mode != ActivationMode::Identity) {
            continue; // their slopes are those of the activations' own tests
        }
        let unit = match data_type {
            DataType::Double => 1e-11,
            DataType::Float => 2e-4,
            DataType::Half => 1e-2,
            _ => 6e-2,
        };
        for (group, places) in groups(mode, &dims, &[&x, &dy, &dx, &dz]).iter().enumerate() {
            let (m, group) = (places.len() as f64, group as i64);
            let mean = places.iter().map(|at| first[4].get(at[0])).sum::<f64>() / m;
            let variance = places.iter().map(|at| (first[4].get(at[0]) - mean).powi(2)).sum::<f64>() / m;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            let d_bias: f64 = places.iter().map(|at| first[5].get(at[1])).sum();
            let d_scale: f64 =
                places.iter().map(|at| first[5].get(at[1]) * (first[4].get(at[0]) - mean) * inverse).sum();
            let close = |got: f64, want: f64, scale: f64, what: &str| {
                assert!(
                    (got - want).abs() <= unit * (scale + want.abs()),
                    "case {case}: {what}: {got} instead of {want}: {plan}"
                );
            };
            for (k, sum) in [(1, d_scale), (2, d_bias)] {
                let Scaling { alpha, beta } = parameter_scaling;
                let old = if beta == 0.0 { 0.0 } else { beta * first[k].get(group) };
                close(
                    want[k].get(group),
                    alpha * sum + old,
                    m.sqrt() * inverse.max(1.0),
                    "gradient of a parameter",
                );
            }
            for at in places {
                let normal = (first[4].get(at[0]) - mean) * inverse;
                let gradient =
                    first[6].get(group) * inverse * (first[5].get(at[1]) - d_bias / m - normal * d_scale / m);
                let old = if scaling.beta == 0.0 { 0.0 } else { scaling.beta * first[0].get(at[2]) };
                close(
                    want[0].get(at[2]),
                    scaling.alpha * gradient + old,
                    4.0 * inverse * inverse.max(1.0),
                    "dx",
                );
                if adds {
                    assert_eq!(want[3].get(at[3]), first[5].get(at[1]), "case {case}: dz");
                }
            }
        }
    }
}

#[test]
fn a_batch_far_from_zero_keeps_the_digits_of_its_deviation() {
    let mut rng = Rng(5);
    for (format, dims) in
        [(Format::Nchw, [8, 3, 50, 50]), (Format::Nhwc, [8, 3, 50, 50]), (Format::Nchw, [2, 1, 1000, 900])]
    {
        let x = TensorDescriptor::with_format(DataType::Float, format, 4, &dims, Mode::Extended).unwrap();
        let of_group = parameters(&x, false, Mode::Extended).unwrap();
        let mut memory: Vec<Memory> = (0..10)
            .map(|k| {
                if k == 0 || k == 6 || k == 7 {
                    Memory::new(&mut rng, &x, 1e4)
                } else {
                    Memory::new(&mut rng, &of_group, 0.0)
                }
            })
            .collect();
        // An outlier comes first.
        memory[6].set(0, 0.0);
        let source = Source::Batch { factor: 1.0, running: [false; 2], saved: [true; 2] };
        let call = Forward { epsilon: 0.0, ..plain_forward(&x, &of_group, source) };
        let plan = ForwardPlan::new(call, Mode::Extended).unwrap();
        let before = memory.clone();
        run(&plan, &mut memory, Some(Machine::host()));
        for (group, places) in groups(BatchNormMode::Spatial, &dims, &[&x]).iter().enumerate() {
            let m = places.len() as f64;
            let mean = places.iter().map(|at| before[6].get(at[0])).sum::<f64>() / m;
            let variance = places.iter().map(|at| (before[6].get(at[0]) - mean).powi(2)).sum::<f64>() / m;
            let (got, want) = (memory[2].get(group as i64), 1.0 / variance.sqrt());
            assert!((got / want - 1.0).abs() < 1e-6, "{format:?} {dims:?}: {got} instead of {want}");
        }
    }
}

#[test]
fn without_saved_statistics_the_gradients_are_the_same_bits() {
    let mut rng = Rng(6);
    let dims = [6, 5, 9, 11];
    for format in [Format::Nchw, Format::Nhwc] {
        let x = TensorDescriptor::with_format(DataType::Float, format, 4, &dims, Mode::Extended).unwrap();
        let s = parameters(&x, false, Mode::Extended).unwrap();
        let mut tensors: Vec<Memory> = (0..3).map(|_| Memory::new(&mut rng, &x, 0.5)).collect();
        let mut numbers: Vec<Memory> = (0..8).map(|_| Memory::new(&mut rng, &s, 0.0)).collect();
        let source = Source::Batch { factor: 1.0, running: [false; 2], saved: [true; 2] };
        let forward = plain_forward(&x, &s, source);
        let plan = ForwardPlan::new(forward, Mode::Extended).unwrap();
        let null = Address::NULL;
        let [y, saved_mean, saved_inverse] = [tensors[2].at(), numbers[0].at(), numbers[1].at()];
        let at = [
            y,
            saved_mean,
            saved_inverse,
            null,
            null,
            null,
            tensors[0].at(),
            null,
            numbers[2].at(),
            numbers[3].at(),
        ];
        // SAFETY: the memory is that of the descriptors.
        unsafe { Context::cpu().run(&plan, &at) }.unwrap();
        let mut results = Vec::new();
        for saved in [true, false] {
            let backward = Backward { saved: [saved; 2], bias: false, ..plain_backward(&x, &s) };
            let plan = BackwardPlan::new(backward, Mode::Extended).unwrap();
            let at = [
                tensors[2].at(),
                numbers[4].at(),
                numbers[5].at(),
                null,
                tensors[0].at(),
                tensors[1].at(),
                numbers[2].at(),
                null,
                if saved { saved_mean } else { null },
                if saved { saved_inverse } else { null },
                null,
            ];
            // SAFETY: the memory is that of the descriptors.
            unsafe { Context::cpu().run(&plan, &at) }.unwrap();
            results.push((tensors[2].clone(), numbers[4].clone(), numbers[5].clone()));
        }
        assert!(results[0] == results[1], "{format:?}");
    }
}
