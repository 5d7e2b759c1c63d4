//! Attention without its scores on the CUDA core: one step gives what plain loops give, and tiles
//! of several heads what these, whole matrices of scores and the CPU core give, on the kernels'
//! sources and on their PTX.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use cudnn::dtype::DataType;
use cudnn::exec::Execution;
use cudnn::ops::graph::{Attends, Graph, Kind, Operation, Strategy, Tensor, Tiles};
use testkit::operations::described::{LOWEST_BEFORE, ONE, SCALE, STATS};
use testkit::operations::masked::{Call, LOWEST, Mask, NEAREST};
use testkit::operations::{self, by_value, float};

use crate::child;
use crate::composed::{self, Numbers};
use crate::cores::Cores;
use crate::double::{self, Runs};

/// The strategy of the CUDA core with tiles of these rows and columns, of this many scores
/// together, however few there are.
fn in_tiles(rows: i64, columns: i64, together: i64) -> Strategy {
    Strategy { tiles: Tiles { rows, columns, least: 0, together }, attends: None, ..Strategy::CUDA }
}

const WHOLE: Strategy = Strategy { tiles: Tiles::NONE, attends: None, ..Strategy::CUDA };

fn planned(operations: &[Operation], strategy: Strategy) -> Execution {
    let execution = Execution::planned(&Graph { operations: operations.to_vec() }, strategy);
    let execution = execution.expect("the graph runs");
    let streams = execution.parts().any(|part| part.contains("in tiles of"));
    assert_eq!(streams, strategy.tiles != Tiles::NONE);
    execution
}

/// Masks, lengths, biases, caps, sinks, shared heads, pages and packed sequences.
fn plain_loops(runs: Runs) {
    let mut cores = Cores::new();
    let is_attention = |operation: &Operation| {
        matches!(operation.kind, Kind::AttentionForward(_) | Kind::AttentionBackward(_))
    };
    let problems = operations::problems();
    let of_attention = problems.iter().filter(|problem| problem.operations.iter().any(is_attention));
    for (number, problem) in of_attention.enumerate() {
        // One head at a time, some of them, and all.
        let tiles = [in_tiles(2, 3, 0), in_tiles(3, 2, 12), in_tiles(2, 2, 1 << 20)];
        let few = &tiles[number % 3..][..1];
        for &strategy in if runs == Runs::Ptx { few } else { &tiles[..] } {
            drop(planned(&problem.operations, strategy));
            composed::run(&mut cores, problem, strategy);
        }
    }
    println!("{} problems", cores.solved);
    assert!(cores.solved > 20);
}

/// The same in one step in either direction, where it is one: lengths, bands, shared heads, pages
/// and packed sequences.
fn in_one_step() {
    let mut cores = Cores::new();
    let strategy = Strategy { attends: Some(Attends { least: 0, ..Attends::CUDA }), ..Strategy::CUDA };
    for problem in operations::problems() {
        let problem = problem.without_maxima();
        let graph = Graph { operations: problem.operations.clone() };
        if problem.attention().is_none() {
            continue;
        }
        let execution = Execution::planned(&graph, strategy).expect("the graph runs");
        if execution.parts().any(|part| part.contains("attend ")) {
            composed::run(&mut cores, &problem, strategy);
        }
    }
    println!("{} problems", cores.solved);
    assert!(cores.solved > 10);
}

/// What is given to a call, without statistics and results.
fn numbers_of(cores: &mut Cores, call: &Call, given: &[Arc<Tensor>]) -> Vec<Numbers> {
    let mut random = |tensor: &Arc<Tensor>| {
        let count: i64 = tensor.dims.iter().product();
        let numbers = (0..count).map(|_| (cores.rng.below(257) as f64 - 128.0) / 64.0).collect();
        (Arc::clone(tensor), numbers)
    };
    let mut all: Vec<Numbers> = given.iter().map(&mut random).collect();
    let bound = if let Mask::Window(bound) = call.mask { bound as f64 } else { 0.0 };
    all.push((by_value(LOWEST, DataType::Float, 4), vec![f64::NEG_INFINITY]));
    all.push((by_value(NEAREST, DataType::Float, 4), vec![bound]));
    all
}

/// The statistics of the forward pass, with whole matrices.
fn statistics(cores: &Cores, call: &Call, given: &[Numbers]) -> Numbers {
    let (operations, _, results) = call.operations(true);
    let found = composed::results(&cores.cuda, &planned(&operations, WHOLE), given, &results);
    let stats = &results[1];
    (Arc::clone(stats), found[&stats.uid].clone())
}

fn assert_near(own: &HashMap<i64, Vec<f64>>, whole: &HashMap<i64, Vec<f64>>, bound: f64, what: &str) {
    for (uid, whole) in whole {
        let largest = whole.iter().fold(1.0_f64, |a, x| a.max(x.abs()));
        for (k, (a, b)) in own[uid].iter().zip(whole).enumerate() {
            let is_near = a == b || (a - b).abs() <= bound * largest;
            assert!(is_near, "{what}: element {k} of tensor {uid} is {a} instead of {b}");
        }
    }
}

/// Several tiles of rows and columns, the last ones of fewer, of some heads of a batch, and of all
/// heads of some batches: near whole matrices and the CPU core. A batch by itself has the same
/// bits.
fn whole_matrices(runs: Runs) {
    let mut cores = Cores::new();
    for (mask, data_type) in [
        (Mask::None, DataType::Float),
        (Mask::Causal, DataType::Half),
        (Mask::Window(9), DataType::Float),
        (Mask::Window(1), DataType::Bfloat16),
    ] {
        let call = Call { dims: [2, 4, 21, 37], width: 8, mask, data_type };
        let bound = if data_type == DataType::Float { 1e-5 } else { 0.02 };
        for is_forward in [true, false] {
            let what = format!("{mask:?} {data_type:?}, forward: {is_forward}");
            let (operations, given, results) = call.operations(is_forward);
            let mut given = numbers_of(&mut cores, &call, &given);
            if !is_forward {
                let stats = statistics(&cores, &call, &given);
                given.push(stats);
            }
            let own =
                |strategy| composed::results(&cores.cuda, &planned(&operations, strategy), &given, &results);
            let whole = own(WHOLE);
            let tiles = in_tiles(8, 16, 2 * 8 * 16);
            let found = own(tiles);
            assert_near(&found, &whole, bound, &what);
            let on_cpu = composed::results(&cores.cpu, &planned(&operations, tiles), &given, &results);
            assert_near(&found, &on_cpu, bound, &format!("{what}, the CPU core"));
            let one = own(Strategy { attends: Some(Attends { least: 0, ..Attends::CUDA }), ..WHOLE });
            assert_near(&one, &whole, bound, &format!("{what}, one step"));
            if runs == Runs::Source {
                // Of other heads together bits are the same.
                for together in [0, 4 * 8 * 16, 1 << 20] {
                    assert!(own(in_tiles(8, 16, together)) == found, "{what}, {together} scores");
                }
            }
            // So they are alone.
            let one = Call { dims: [1, 4, 21, 37], ..call };
            let (operations, _, own_results) = one.operations(is_forward);
            let second = |numbers: &Numbers| {
                let (tensor, numbers) = numbers;
                let mut tensor = Tensor::clone(tensor);
                if tensor.by_value {
                    return (Arc::new(tensor), numbers.clone());
                }
                tensor.dims[0] = 1;
                (Arc::new(tensor), numbers[numbers.len() / 2..].to_vec())
            };
            let given: Vec<Numbers> = given.iter().map(second).collect();
            let alone = composed::results(&cores.cuda, &planned(&operations, tiles), &given, &own_results);
            for (uid, numbers) in &alone {
                let both = &found[uid];
                assert!(*numbers == both[both.len() / 2..], "{what}, tensor {uid} of a batch alone");
            }
            cores.solved += 1;
        }
    }
    println!("{} problems", cores.solved);
}

/// Gradients as cudnn-frontend describes them, in one step: near whole matrices on both cores.
fn by_single_operations() {
    let mut cores = Cores::new();
    let one_step = Strategy { attends: Some(Attends { least: 0, ..Attends::CUDA }), ..WHOLE };
    for (mask, data_type, heads) in [
        (Mask::None, DataType::Float, 4),
        (Mask::Causal, DataType::Half, 4),
        (Mask::Window(9), DataType::Float, 1),
        (Mask::Window(3), DataType::Bfloat16, 2),
    ] {
        let call = Call { dims: [2, heads, 21, 37], width: 8, mask, data_type };
        let what = format!("{mask:?} {data_type:?}, {heads} heads");
        let (operations, given, results) = call.described();
        let mut given = numbers_of(&mut cores, &call, &given);
        let (stats, count) = (float(STATS, &[2, heads, 21, 1]), 2 * heads as usize * 21);
        given.push((stats, (0..count).map(|_| 3.0 + cores.rng.below(65) as f64 / 64.0).collect()));
        given.push((by_value(SCALE, DataType::Float, 4), vec![0.25]));
        given.push((by_value(ONE, DataType::Float, 4), vec![1.0]));
        given.push((by_value(LOWEST_BEFORE, DataType::Float, 4), vec![f64::NEG_INFINITY]));
        let execution = planned(&operations, one_step);
        assert!(execution.parts().any(|part| part.contains("attend backward ")), "{what}");
        let found = composed::results(&cores.cuda, &execution, &given, &results);
        let bound = if data_type == DataType::Float { 1e-5 } else { 0.02 };
        for (core, name) in [(&cores.cuda, "whole matrices"), (&cores.cpu, "the CPU core")] {
            let whole = composed::results(core, &planned(&operations, WHOLE), &given, &results);
            assert_near(&found, &whole, bound, &format!("{what}, {name}"));
        }
    }
}

/// Values behind the mask that no tile of it reads may be anything: whole matrices multiply them
/// by zeros.
fn outside_of_masks() {
    let mut cores = Cores::new();
    for (mask, lost) in [(Mask::Causal, 32..48), (Mask::Window(4), 0..8)] {
        let call = Call { dims: [1, 2, 24, 48], width: 8, mask, data_type: DataType::Float };
        let (operations, given, results) = call.operations(true);
        let mut given = numbers_of(&mut cores, &call, &given);
        // The last rows see the first columns of no window; no row sees the last of a causal mask.
        let values = &mut given[2].1;
        values[lost.start * 8..lost.end * 8].fill(f64::NAN);
        let tiles = in_tiles(8, 8, 1 << 20);
        let found = composed::results(&cores.cuda, &planned(&operations, tiles), &given, &results);
        let whole = composed::results(&cores.cuda, &planned(&operations, WHOLE), &given, &results);
        // Rows of the last tile, of which the window leaves the first columns out.
        let last = |of: &HashMap<i64, Vec<f64>>| of[&results[0].uid][16 * 8..24 * 8].to_vec();
        assert!(last(&whole).iter().all(|x| x.is_nan()), "{mask:?}: values do not matter");
        assert!(last(&found).iter().all(|x| x.is_finite()), "{mask:?}: {:?}", last(&found));
    }
}

/// More launches than are held at once, on a stream of the caller's, in a capture of the strictest
/// mode, with what is passed by value: run twice, they leave the same bits as without one.
fn in_a_capture() {
    let mut cores = Cores::new();
    let call = Call { dims: [1, 2, 40, 48], width: 8, mask: Mask::Causal, data_type: DataType::Half };
    let (operations, given, results) = call.operations(true);
    let given = numbers_of(&mut cores, &call, &given);
    let execution = planned(&operations, in_tiles(8, 8, 1 << 20));
    let direct = composed::results(&cores.cuda, &execution, &given, &results);
    let (mut stream, mut graph, mut instance) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: a place for the result.
    unsafe { assert_eq!(double::cuStreamCreate(&mut stream, 0), 0) };
    cores.cuda.set_stream(stream.addr());
    let found = composed::results_around(&cores.cuda, &execution, &given, &results, |run| {
        // SAFETY: plain calls of the driver with places for their results, on a live stream.
        unsafe {
            assert_eq!(double::cuStreamBeginCapture_v2(stream, 0), 0);
            run();
            assert_eq!(double::cuStreamEndCapture(stream, &mut graph), 0);
            assert_eq!(double::cuGraphInstantiateWithFlags(&mut instance, graph, 0), 0);
            for _ in 0..2 {
                assert_eq!(double::cuGraphLaunch(instance, stream), 0);
            }
            assert_eq!(double::cuStreamSynchronize(stream), 0);
        }
    });
    assert!(found == direct && direct[&results[0].uid].iter().all(|x| x.is_finite()));
    cores.cuda.set_stream(0);
    // SAFETY: nobody uses the stream any more.
    unsafe { assert_eq!(double::cuStreamDestroy_v2(stream), 0) };
}

#[test]
fn attention_in_one_step_gives_what_plain_loops_give() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], in_one_step);
}

#[test]
fn gradients_of_attention_by_single_operations_are_near_whole_matrices() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], by_single_operations);
}

#[test]
fn attention_in_tiles_can_be_captured() {
    double::run(&[], in_a_capture);
}

#[test]
fn attention_in_tiles_gives_what_plain_loops_give() {
    child::run(&double::of(Runs::Source), &[], || plain_loops(Runs::Source));
}

#[test]
fn attention_in_tiles_gives_what_plain_loops_give_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || plain_loops(Runs::Ptx));
}

#[test]
fn attention_in_tiles_gives_what_whole_matrices_give() {
    child::run(&double::of(Runs::Source), &[], || whole_matrices(Runs::Source));
}

#[test]
fn attention_in_tiles_gives_what_whole_matrices_give_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || whole_matrices(Runs::Ptx));
}

#[test]
fn tiles_outside_of_masks_are_left_out() {
    double::run(&[], outside_of_masks);
}
