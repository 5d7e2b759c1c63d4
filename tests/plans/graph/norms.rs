//! Normalisations of rows in one step: the bits of the steps that it stands for.

use cudnn::ops::graph::Strategy;

use super::*;

/// Rows in one step, by themselves, in blocks of a chain, and as the CUDA core has them; and the
/// steps one by one.
const STRATEGIES: [Strategy; 4] = [
    Strategy { chains: i64::MAX, ..Strategy::CPU },
    Strategy { chains: 0, block: 96, ..Strategy::CPU },
    Strategy::CUDA,
    Strategy::BY_OPERATION,
];

/// What a line has of a step of rows.
const STEP: &str = " epsilon=";

/// The absolute value.
const ABS: i32 = 10;

fn has(parts: &[String], text: &str) -> bool {
    parts.iter().any(|part| part.contains(text))
}

/// Numbers of some size, zeros of either sign among them; and last of all what is none, if `odd`
/// says so.
fn fill(world: &mut World, rng: &mut Rng, tensor: &Arc<Tensor>, odd: Option<f64>) {
    let count = tensor.dims.iter().product::<i64>() as usize;
    let mut numbers: Vec<f64> = (0..count)
        .map(|_| match rng.below(50) {
            0 => -0.0,
            1 => 0.0,
            _ => (rng.below(4001) as f64 - 2000.0) / 1024.0,
        })
        .collect();
    if let Some(odd) = odd {
        numbers[count - 1] = odd;
    }
    world.put(tensor, &numbers);
}

/// What a normalisation of these dims joins, and where its scale has more than one number.
struct Case {
    mode: i32,
    dims: &'static [i64],
    statistics: &'static [i64],
    scale: &'static [i64],
}

const CASES: [Case; 9] = [
    Case { mode: 0, dims: &[7, 5], statistics: &[7, 1], scale: &[1, 5] },
    Case { mode: 0, dims: &[3, 4, 96], statistics: &[3, 4, 1], scale: &[1, 1, 96] },
    Case { mode: 0, dims: &[2, 1000], statistics: &[2, 1], scale: &[1, 1000] },
    Case { mode: 0, dims: &[3, 5003], statistics: &[3, 1], scale: &[1, 5003] },
    Case { mode: 0, dims: &[5, 2, 3, 7], statistics: &[5, 1, 1, 1], scale: &[1, 2, 3, 7] },
    Case { mode: 4, dims: &[33, 48], statistics: &[33, 1], scale: &[1, 48] },
    Case { mode: 5, dims: &[3, 4, 31], statistics: &[3, 4, 1], scale: &[3, 1, 31] },
    Case { mode: 1, dims: &[3, 5, 6, 7], statistics: &[3, 5, 1, 1], scale: &[1, 5, 1, 1] },
    Case { mode: 1, dims: &[1, 5, 6, 7], statistics: &[1, 5, 1, 1], scale: &[1, 5, 1, 1] },
];

#[test]
fn rows_in_one_step_have_the_bits_of_the_steps_that_it_stands_for() {
    use DataType::{Bfloat16, Double, Float, Half};
    let mut rng = Rng(17);
    for (number, case) in CASES.iter().enumerate() {
        for (x_type, y_type, scale_type) in
            [(Float, Float, Float), (Half, Half, Float), (Bfloat16, Float, Bfloat16), (Double, Half, Float)]
        {
            for variant in 0..6 {
                let (x, y) = (packed(1, x_type, case.dims), packed(2, y_type, case.dims));
                let one = vec![1; case.dims.len()];
                let (scale, bias) = (packed(3, scale_type, case.scale), packed(4, Float, case.scale));
                let (mean, inverse) =
                    (packed(5, Float, case.statistics), packed(6, scale_type, case.statistics));
                let epsilon = float(7, &one);
                let (is_rms, training) = (case.mode == 4, variant % 2 == 0);
                let mut reads = vec![(Port::X, &x), (Port::Epsilon, &epsilon)];
                if variant < 4 {
                    reads.push((Port::Scale, &scale));
                }
                if variant != 2 && variant < 5 && !is_rms {
                    reads.push((Port::Bias, &bias));
                }
                let mut writes = vec![(Port::Y, &y)];
                if training {
                    writes.push((Port::InverseVariance, &inverse));
                    if !is_rms {
                        writes.push((Port::Mean, &mean));
                    }
                } else if variant > 3 || case.mode == 5 {
                    // Nothing tells what is joined.
                    continue;
                }
                let norm = Norm { mode: case.mode, training };
                let operation = Operation::new(Kind::NormForward(norm), &reads, &writes);
                // What follows makes a chain of both.
                let absolute = packed(8, y_type, case.dims);
                let graph = Graph { operations: vec![operation, unary(ABS, &y, &absolute)] };
                let mut world = World::default();
                let mut results: Vec<_> = writes.iter().map(|(_, tensor)| Arc::clone(tensor)).collect();
                results.push(Arc::clone(&absolute));
                for (_, tensor) in &reads {
                    let odd = [None, Some(f64::NAN), Some(f64::INFINITY)][variant % 3];
                    fill(&mut world, &mut rng, tensor, odd.filter(|_| tensor.uid == 1));
                }
                world.put(&epsilon, &[1e-5]);
                let found = STRATEGIES.map(|strategy| {
                    let execution = Execution::planned(&graph, strategy).expect("it is planned");
                    let parts: Vec<String> = execution.parts().collect();
                    let (is_one, is_chain) = (has(&parts, STEP), has(&parts, "chain: "));
                    assert_eq!(is_one, strategy.rows.is_some(), "case {number}.{variant}: {parts:?}");
                    assert_eq!(is_chain, strategy.chains == 0, "case {number}.{variant}: {parts:?}");
                    results.iter().for_each(|tensor| world.room(tensor));
                    world.execute(&execution);
                    let number = |x: &f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
                    results
                        .iter()
                        .map(|tensor| world.get(tensor).iter().map(number).collect::<Vec<_>>())
                        .collect::<Vec<_>>()
                });
                let what = format!("case {number}.{variant} of {x_type:?}, {y_type:?}, {scale_type:?}");
                assert!(found[3].iter().flatten().any(|bits| *bits != u64::MAX), "{what}: numbers");
                for (own, how) in found[..3].iter().zip(["by itself", "in a chain", "on a GPU"]) {
                    assert!(*own == found[3], "{what} {how}");
                }
            }
        }
    }
}

/// dx has the bits of single steps; the gradients of scale and bias are summed in another order.
#[test]
fn gradients_of_rows_in_one_step_are_those_of_the_steps() {
    use DataType::{Bfloat16, Double, Float, Half};
    let mut rng = Rng(19);
    for (number, case) in CASES.iter().enumerate() {
        for (x_type, scale_type) in [(Float, Float), (Half, Float), (Bfloat16, Bfloat16), (Double, Float)] {
            for variant in 0..4 {
                let of_x = |uid| packed(uid, x_type, case.dims);
                let (x, dy, dx, double) = (of_x(1), of_x(2), of_x(3), of_x(4));
                let scale = packed(5, scale_type, case.scale);
                let (mean, inverse) = (float(6, case.statistics), float(7, case.statistics));
                let (dscale, dbias) = (float(8, case.scale), float(9, case.scale));
                let mut reads = vec![(Port::X, &x), (Port::Dy, &dy), (Port::InverseVariance, &inverse)];
                let mut writes = vec![(Port::Dx, &dx)];
                if case.mode != 4 {
                    reads.push((Port::Mean, &mean));
                }
                if variant != 1 || case.mode == 5 {
                    reads.push((Port::Scale, &scale));
                }
                if variant != 2 {
                    writes.push((Port::Dscale, &dscale));
                }
                if variant == 0 {
                    writes.push((Port::Dbias, &dbias));
                }
                let norm = Kind::NormBackward(Norm { mode: case.mode, training: true });
                let operations = vec![unary(ABS, &x, &double), Operation::new(norm, &reads, &writes)];
                let graph = Graph { operations };
                let mut world = World::default();
                for (_, tensor) in &reads {
                    fill(&mut world, &mut rng, tensor, None);
                }
                let results: Vec<_> = writes.iter().map(|(_, tensor)| Arc::clone(tensor)).collect();
                let found = STRATEGIES.map(|strategy| {
                    let execution = Execution::planned(&graph, strategy).expect("it is planned");
                    let parts: Vec<String> = execution.parts().collect();
                    // A scale of each group, and of each batch, belong to other steps.
                    let is_one = strategy.rows.is_some() && ![1, 5].contains(&case.mode);
                    if ![1, 5].contains(&case.mode) || strategy.rows.is_none() {
                        assert_eq!(
                            has(&parts, "norm backward "),
                            is_one,
                            "case {number}.{variant}: {parts:?}"
                        );
                    }
                    results.iter().chain([&double]).for_each(|tensor| world.room(tensor));
                    world.execute(&execution);
                    results.iter().map(|tensor| world.get(tensor)).collect::<Vec<_>>()
                });
                let what = format!("case {number}.{variant} of {x_type:?}, {scale_type:?}");
                for own in &found[..3] {
                    assert!(own[0] == found[3][0], "dx of {what}");
                    for (own, single) in own[1..].iter().zip(&found[3][1..]) {
                        assert_near(own, single, 1e-5, &what);
                    }
                }
            }
        }
    }
}

/// Gradients of parameters of more elements than a block has are part of the step where a GPU sums
/// them up.
#[test]
fn long_sums_of_gradients_are_one_step_on_a_gpu() {
    let (x, dy, dx) = (float(1, &[513, 128]), float(2, &[513, 128]), float(3, &[513, 128]));
    let (mean, inverse) = (float(4, &[513, 1]), float(5, &[513, 1]));
    let (scale, dscale, dbias) = (float(6, &[1, 128]), float(7, &[1, 128]), float(8, &[1, 128]));
    let reads = [
        (Port::X, &x),
        (Port::Dy, &dy),
        (Port::Mean, &mean),
        (Port::InverseVariance, &inverse),
        (Port::Scale, &scale),
    ];
    let writes = [(Port::Dx, &dx), (Port::Dscale, &dscale), (Port::Dbias, &dbias)];
    let norm = Kind::NormBackward(Norm { mode: 0, training: true });
    let graph = Graph { operations: vec![Operation::new(norm, &reads, &writes)] };
    let parts = |strategy| -> Vec<String> {
        Execution::planned(&graph, strategy).expect("it is planned").parts().collect()
    };
    let (own, others) = (parts(Strategy::CUDA), parts(Strategy { chains: i64::MAX, ..Strategy::CPU }));
    assert!(has(&own, "dscale=f32+0 dbias=f32+0 128 in each of") && !has(&own, "reduce"), "{own:?}");
    assert!(has(&others, "reduce Add"), "{others:?}");
}

/// Rows whose elements lie apart, groups of channels and running averages keep their steps.
#[test]
fn other_normalisations_keep_their_steps() {
    let apart = Arc::new(Tensor { strides: Dims::new(&[1, 7]), ..(*float(1, &[7, 5])).clone() });
    let (y, mean, inverse) = (float(2, &[7, 5]), float(3, &[7, 1]), float(4, &[7, 1]));
    let epsilon = float(5, &[1, 1]);
    let norm = Kind::NormForward(Norm { mode: 0, training: true });
    let operation = Operation::new(
        norm,
        &[(Port::X, &apart), (Port::Epsilon, &epsilon)],
        &[(Port::Y, &y), (Port::Mean, &mean), (Port::InverseVariance, &inverse)],
    );
    let execution = Execution::planned(&Graph { operations: vec![operation] }, STRATEGIES[0]);
    let parts: Vec<String> = execution.expect("it is planned").parts().collect();
    assert!(has(&parts, "reduce Avg") && !has(&parts, STEP), "{parts:?}");
}
