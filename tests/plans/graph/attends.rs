//! Attention in one step, and its gradients: which graphs have it, and what it gives against plain
//! loops.

use cudnn::ops::graph::{Attends, Link, Strategy};
use testkit::operations::described::{ADD, EXP, IDENTITY, LOWEST_BEFORE, MUL, ONE, SCALE, STATS, SUB, map};
use testkit::operations::masked::{Call, LOWEST, Mask, NEAREST};

use super::overrides::extents;
use super::*;

/// On either core.
const BOTH: [Strategy; 2] = [Strategy::CUDA, Strategy::CPU];

/// However few queries there are.
pub(super) const ALWAYS: [Strategy; 2] = [
    Strategy { attends: Some(Attends { least: 0, ..Attends::CUDA }), ..Strategy::CUDA },
    Strategy { attends: Some(Attends { least: 0, ..Attends::CPU }), ..Strategy::CPU },
];

pub(super) const DIV: i32 = 6;
pub(super) const TANH: i32 = 101;
pub(super) const TANH_BACKWARD: i32 = 201;

/// Whether attention is one step.
pub(super) fn attends(execution: &Execution) -> bool {
    execution.parts().any(|part| part.contains("attend "))
}

pub(super) fn planned(operations: &[Operation], strategy: Strategy) -> Execution {
    Execution::planned(&Graph { operations: operations.to_vec() }, strategy).expect("the graph runs")
}

/// Lengths, bands from either corner, shared heads, pages and packed sequences are one step in
/// either direction, and on the CPU core a bias, a cap, sinks and dropout.
#[test]
fn attention_in_one_step_gives_what_plain_loops_give() {
    for (strategy, least) in ALWAYS.into_iter().zip([[10, 5, 6], [20, 9, 0]]) {
        let counts = attended_problems(strategy);
        let is_enough = counts.iter().zip(least).all(|(&count, least)| count > least);
        assert!(is_enough, "{counts:?} in one step, in one step backward, in several steps");
    }
}

/// How many problems are one step, how many of these are gradients, and how many are none.
fn attended_problems(strategy: Strategy) -> [i32; 3] {
    let [mut one, mut gradients, mut others] = [0; 3];
    let has_changes = strategy == ALWAYS[1];
    for problem in operations::problems() {
        let problem = problem.without_maxima();
        let Some(operation) = problem.attention() else { continue };
        let (Kind::AttentionForward(settings) | Kind::AttentionBackward(settings)) = &operation.kind else {
            continue;
        };
        // Lengths that are the distances of ends are other tensors than those of a band.
        let has_ends = operation.read(Port::CumulativeKv).is_some();
        let moves = |operation: &Operation| {
            [Port::LengthKv, Port::CumulativeKv].iter().any(|&port| operation.read(port).is_some())
        };
        let is_band = |operation: &Operation| {
            matches!(operation.kind, Kind::BandMask(_)) && !(has_ends && moves(operation))
        };
        let is_change =
            |operation: &Operation| [ADD, DIV, TANH, MUL].iter().any(|&mode| is_of(operation, mode));
        let is_known = |operation: &Operation| is_band(operation) || has_changes && is_change(operation);
        let is_plain_graph =
            settings.modifier.as_ref().is_none_or(|modifier| modifier.operations.iter().all(is_known));
        let is_wide = operation.read(Port::Q).is_some_and(|q| operations::data_type(q) == DataType::Double);
        let is_backward = matches!(operation.kind, Kind::AttentionBackward(_));
        let others_read = [Port::DescaleQ, Port::DescaleK, Port::DescaleS, Port::ScaleS];
        let is_plain = others_read.iter().all(|&port| operation.read(port).is_none())
            // Gradients have no sink in the step.
            && (has_changes || is_backward || operation.read(Port::Sink).is_none())
            && operation.write(Port::AmaxS).is_none();
        let execution = planned(&problem.operations, strategy);
        let expected = (has_changes || settings.dropout == 0.0) && is_plain_graph && is_plain && !is_wide;
        assert_eq!(attends(&execution), expected, "{}", problem.name);
        let mut world = World::default();
        problem.given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
        problem.wanted.iter().for_each(|(tensor, _)| world.room(tensor));
        world.execute(&execution);
        problem.check(&|tensor| world.get(tensor));
        if expected {
            one += 1
        } else {
            others += 1
        }
        gradients += i32::from(execution.parts().any(|part| part.contains("attend backward ")));
    }
    [one, gradients, others]
}

fn call(extent: i64, width: i64, mask: Mask, data_type: DataType) -> Call {
    Call { dims: [2, 4, extent, extent], width, mask, data_type }
}

/// Of more than a few queries; nothing of the scores is in the workspace.
#[test]
fn attention_in_one_step_has_no_room_for_scores() {
    for mask in [Mask::None, Mask::Causal, Mask::Window(5)] {
        for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16] {
            for (extent, is_forward) in
                [16, 64, 2048].into_iter().flat_map(|extent| [(extent, true), (extent, false)])
            {
                let (operations, ..) = call(extent, 64, mask, data_type).operations(is_forward);
                for strategy in BOTH {
                    let execution = planned(&operations, strategy);
                    assert!(attends(&execution), "{mask:?} {data_type:?} {extent}");
                    // What is passed by value.
                    assert!(execution.workspace() <= 1024, "{} bytes", execution.workspace());
                }
            }
            for is_forward in [true, false] {
                let (operations, ..) = call(15, 64, mask, data_type).operations(is_forward);
                for strategy in BOTH {
                    assert!(!attends(&planned(&operations, strategy)));
                }
            }
        }
    }
    for is_forward in [true, false] {
        for (width, data_type, expected) in [
            (128, DataType::Half, [true, true]),
            (129, DataType::Half, [false, true]),
            (256, DataType::Float, [false, true]),
            (257, DataType::Half, [false, false]),
            (64, DataType::Double, [false, false]),
        ] {
            let (operations, ..) = call(64, width, Mask::Causal, data_type).operations(is_forward);
            let found = BOTH.map(|strategy| attends(&planned(&operations, strategy)));
            assert_eq!(found, expected, "{width} columns of {data_type:?}");
        }
    }
}

/// What a graph gives, of random operands and these numbers by value.
pub(super) fn given(
    operations: &[Operation], results: &[Arc<Tensor>], numbers: &[(i64, f64)], of: Strategy,
) -> Vec<Vec<f64>> {
    let world = world_given(operations, results, numbers, of);
    results.iter().map(|tensor| world.get(tensor)).collect()
}

/// Where a graph has run on them.
fn world_given(
    operations: &[Operation], results: &[Arc<Tensor>], numbers: &[(i64, f64)], of: Strategy,
) -> World {
    let (mut world, mut rng) = (World::default(), Rng(61));
    let writes: Vec<i64> =
        operations.iter().flat_map(|operation| &operation.writes).map(|link| link.tensor.uid).collect();
    let reads = operations.iter().flat_map(|operation| &operation.reads).map(|link| &link.tensor);
    let mut tensors: Vec<_> = reads.filter(|x| !x.is_virtual && !writes.contains(&x.uid)).collect();
    tensors.sort_by_key(|tensor| tensor.uid);
    tensors.dedup_by_key(|tensor| tensor.uid);
    for tensor in tensors {
        match numbers.iter().find(|(uid, _)| *uid == tensor.uid) {
            Some((_, number)) => world.put(tensor, &[*number]),
            None => drop(world.random(&mut rng, tensor)),
        }
    }
    results.iter().for_each(|tensor| world.room(tensor));
    world.execute(&planned(operations, of));
    world
}

pub(super) const WHOLE: Strategy = Strategy { attends: None, ..Strategy::CUDA };

/// As cudnn-frontend describes them, with any mask that it has, and with keys that heads share; its
/// sums are written all the same. Other numbers than it passes give what single operations give.
#[test]
fn gradients_by_single_operations_are_one_step() {
    for mask in [Mask::None, Mask::Causal, Mask::Window(5)] {
        for (data_type, bound) in
            [(DataType::Float, 1e-5), (DataType::Half, 0.01), (DataType::Bfloat16, 0.05)]
        {
            for heads in [1, 4] {
                let call = Call { dims: [2, heads, 24, 20], width: 8, mask, data_type };
                let (operations, _, results) = call.described();
                let what = format!("{mask:?} {data_type:?}, {heads} heads");
                let execution = planned(&operations, Strategy::CUDA);
                assert!(BOTH.iter().all(|&strategy| attends(&planned(&operations, strategy))), "{what}");
                let products = execution.parts().filter(|part| part.contains("matmul"));
                assert_eq!(products.count(), 0, "{what}");
                let mut numbers = [
                    (SCALE, 0.125),
                    (ONE, 1.0),
                    (LOWEST, f64::NEG_INFINITY),
                    (NEAREST, 5.0),
                    (LOWEST_BEFORE, f64::NEG_INFINITY),
                ];
                let of = |numbers: &[_], strategy| given(&operations, &results, numbers, strategy);
                let parts =
                    |numbers: &[_]| world_given(&operations, &results, numbers, Strategy::CUDA).ran[0];
                // One more where numbers are set before.
                let most = execution.parts().count() + 1;
                assert!(parts(&numbers) <= most, "{what}");
                let (own, whole) = (of(&numbers, Strategy::CUDA), of(&numbers, WHOLE));
                for (k, (own, whole)) in own.iter().zip(&whole).enumerate() {
                    assert_near(own, whole, bound, &format!("{what}, result {k}"));
                }
                let others = if let Mask::None = mask { &[1][..] } else { &[1, 2][..] };
                for &other in others {
                    let before = std::mem::replace(&mut numbers[other].1, -2.0);
                    let found = of(&numbers, Strategy::CUDA);
                    assert!(found == of(&numbers, WHOLE), "{what}, other numbers");
                    assert_ne!(found[1], whole[1], "{what}, other numbers");
                    assert!(parts(&numbers) > most, "{what}, other numbers");
                    numbers[other].1 = before;
                }
            }
        }
    }
}

/// What version 1.32.0 of the package makes of `sdpa_backward`, by its arguments, and whether that
/// is one step on the CUDA core, and on the CPU core.
pub(super) const RECORDED: [(&str, &str, [bool; 2]); 10] = [
    ("plain", include_str!("../../data/frontend/plain.json"), [true; 2]),
    ("causal", include_str!("../../data/frontend/causal.json"), [true; 2]),
    ("a window, BFLOAT16", include_str!("../../data/frontend/window.json"), [true; 2]),
    ("causal from the lower right corner, FLOAT", include_str!("../../data/frontend/float.json"), [true; 2]),
    ("deterministic", include_str!("../../data/frontend/deterministic.json"), [true; 2]),
    ("a bias", include_str!("../../data/frontend/bias.json"), [false, true]),
    ("the gradient of a bias", include_str!("../../data/frontend/bias_gradient.json"), [false, true]),
    ("slopes, causal", include_str!("../../data/frontend/slopes.json"), [false, true]),
    ("dropout", include_str!("../../data/frontend/dropout.json"), [false, true]),
    ("lengths", include_str!("../../data/frontend/lengths.json"), [false; 2]),
];

#[test]
fn recorded_gradients_of_cudnn_frontend_are_one_step() {
    for (name, text, expected) in RECORDED {
        let graph = cudnn::desc::graph::text::graph(text.as_bytes()).expect("a plan's text");
        let graph = Graph::of(&graph).expect("a graph");
        let found = BOTH.map(|strategy| attends(&planned(&graph.operations, strategy)));
        assert_eq!(found, expected, "{name}");
    }
}

/// Dropout of values alone, weights that are seen, another factor, operands the other way about:
/// single operations;
/// and a bias where there are no kernels for it, or if it is more than one tensor of the caller's.
#[test]
fn what_is_almost_a_gradient_of_attention_keeps_its_steps() {
    let call = Call { dims: [2, 4, 24, 20], width: 8, mask: Mask::Causal, data_type: DataType::Half };
    let (operations, ..) = call.described();
    let find = |is: &dyn Fn(&Operation) -> bool| operations.iter().position(is).expect("it is there");
    let is = |operation: &Operation, wanted: i32| matches!(&operation.kind, Kind::Pointwise(of) if of.mode == wanted);
    let reads = |operation: &Operation, uid: i64| operation.reads.iter().any(|link| link.tensor.uid == uid);
    let apart = find(&|operation| is(operation, SUB) && reads(operation, STATS));
    let difference = find(&|operation| is(operation, SUB) && !reads(operation, STATS));
    let exponential = find(&|operation| is(operation, EXP));
    let weights = &operations[exponential].writes[0].tensor;
    let turned =
        find(&|operation| matches!(operation.kind, Kind::Reshape(_)) && reads(operation, weights.uid));
    let last = operations.iter().rposition(|operation| is(operation, MUL) && reads(operation, SCALE));
    let last = last.expect("it is there");
    // Something before what an operation reads.
    let after = |at: usize, mode: i32, other: &Arc<Tensor>| {
        let mut operations = operations.clone();
        let x = Arc::clone(&operations[at].reads[0].tensor);
        let y = hidden(400, DataType::Float, &x.dims);
        operations.push(map(mode, &[&x, other], &y));
        operations[at].reads[0].tensor = y;
        operations
    };
    let all = float(401, &call.dims);
    let changed = after(apart, ADD, &all);
    assert!(!attends(&planned(&changed, Strategy::CUDA)) && attends(&planned(&changed, Strategy::CPU)));
    let mut near = vec![
        ("dropout of values alone", after(turned, MUL, &all)),
        ("weights that are scaled", after(turned, MUL, &by_value(405, DataType::Float, 4))),
        ("another factor", after(last, MUL, &by_value(402, DataType::Float, 4))),
    ];
    let seen = map(IDENTITY, &[weights], &all);
    near.push(("weights that are seen", [operations.clone(), vec![seen]].concat()));
    let mut other = operations.clone();
    other[last].reads[1].tensor = by_value(402, DataType::Float, 4);
    near.push(("the factor of another tensor", other));
    let mut other = operations.clone();
    let [x, b] = &mut other[difference].reads[..] else { panic!("two operands") };
    std::mem::swap(&mut x.tensor, &mut b.tensor);
    near.push(("a difference the other way about", other));
    let mut other = operations.clone();
    let Kind::Pointwise(of) = &mut other[exponential].kind else { panic!("an exponential") };
    of.alpha[0] = 2.0;
    near.push(("twice the scores", other));
    let mut other = operations.clone();
    let Kind::Pointwise(of) = &mut other[apart].kind else { panic!("a difference") };
    of.alpha[1] = 2.0;
    near.push(("twice the statistics", other));
    // A bias that is not the caller's, of other extents, or twice.
    let own = hidden(403, DataType::Float, &call.dims);
    near.push(("a bias of its own", [vec![map(IDENTITY, &[&all], &own)], after(apart, ADD, &own)].concat()));
    let mut other = changed.clone();
    let y = hidden(404, DataType::Float, &call.dims);
    other.push(map(ADD, &[&other[apart].reads[0].tensor.clone(), &all], &y));
    other[apart].reads[0].tensor = y;
    near.push(("two biases", other));
    for strategy in BOTH {
        assert!(attends(&planned(&operations, strategy)));
        for (what, operations) in &near {
            assert!(!attends(&planned(operations, strategy)), "{what}");
        }
    }
}

pub(super) fn is_of(operation: &Operation, mode: i32) -> bool {
    matches!(&operation.kind, Kind::Pointwise(of) if of.mode == mode)
}

/// Scores that something else reads stay, and so do their steps.
#[test]
fn scores_that_are_seen_keep_their_steps() {
    let (operations, ..) = call(32, 16, Mask::None, DataType::Float).operations(true);
    let [q, k, v, o] = [Port::Q, Port::K, Port::V, Port::O].map(|port| {
        let operation = &operations[0];
        Arc::clone(operation.read(port).or_else(|| operation.write(port)).expect("a matrix"))
    });
    let dims = [2, 4, 32, 32];
    let (scores, weights) = (hidden(50, DataType::Float, &dims), hidden(51, DataType::Float, &dims));
    let transposed = {
        let dims = [k.dims[0], k.dims[1], k.dims[3], k.dims[2]];
        let strides = [k.strides[0], k.strides[1], k.strides[3], k.strides[2]];
        Arc::new(Tensor::new(k.uid, DataType::Float, &dims, &strides))
    };
    let product = |a: &Arc<Tensor>, b: &Arc<Tensor>, c: &Arc<Tensor>| {
        let of = Matmul { math: DataType::Float.into(), padding: 0.0, transposed: [false; 2] };
        Operation::new(Kind::Matmul(of), &[(Port::A, a), (Port::B, b)], &[(Port::C, c)])
    };
    let softmax =
        Operation::new(Kind::Softmax(Softmax { log2: false }), &[(Port::X, &scores)], &[(Port::Y, &weights)]);
    let alone = vec![product(&q, &transposed, &scores), softmax, product(&weights, &v, &o)];
    assert!(attends(&planned(&alone, Strategy::CUDA)));
    let seen = float(52, &dims);
    let identity = Pointwise::new(21);
    let watcher = Operation::new(Kind::Pointwise(identity), &[(Port::X, &scores)], &[(Port::Y, &seen)]);
    assert!(!attends(&planned(&[alone, vec![watcher]].concat(), Strategy::CUDA)));
}

/// Under smaller extents, however few, it stays one step, and takes no more workspace.
#[test]
fn smaller_extents_take_no_more_workspace() {
    for is_forward in [true, false] {
        let graph = Graph { operations: call(64, 64, Mask::None, DataType::Half).operations(is_forward).0 };
        let whole = Execution::planned(&graph, Strategy::CUDA).expect("the graph runs");
        let smaller = Graph { operations: call(3, 40, Mask::None, DataType::Half).operations(is_forward).0 };
        let own = whole.overridden(&extents(&smaller)).expect("the graph runs");
        assert!(attends(&own) && own.workspace() <= whole.workspace());
    }
}

/// Scales of eight bits, each alone and with the largest result told: factors of what is computed.
#[test]
fn scales_of_attention_are_factors() {
    let call = Call { dims: [1, 2, 7, 7], width: 4, mask: Mask::None, data_type: DataType::Float };
    let (plain, _, results) = call.operations(true);
    let largest = float(701, &[1, 1, 1, 1]);
    let links = |of: &[(Port, &Arc<Tensor>)]| -> Vec<Link> {
        of.iter().map(|&(port, tensor)| Link { port, tensor: Arc::clone(tensor) }).collect()
    };
    let with = |reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]| {
        let mut operations = plain.clone();
        operations[0].reads.extend(links(reads));
        operations[0].writes.extend(links(writes));
        operations
    };
    let want = given(&plain, &results, &[], WHOLE).remove(0);
    let scale = by_value(700, DataType::Float, 4);
    let of_result = [Port::DescaleV, Port::DescaleS, Port::ScaleS, Port::ScaleO];
    for (port, tells) in of_result.into_iter().flat_map(|port| [(port, false), (port, true)]) {
        let told = [(Port::AmaxO, &largest)];
        let operations = with(&[(port, &scale)], if tells { &told } else { &[] });
        let mut wanted = results.clone();
        wanted.extend(tells.then(|| largest.clone()));
        for strategy in [WHOLE, ALWAYS[0], ALWAYS[1]] {
            let found = given(&operations, &wanted, &[(700, 4.0)], strategy);
            let scaled: Vec<f64> = want.iter().map(|x| 4.0 * x).collect();
            assert_near(&found[0], &scaled, 1e-5, &format!("{port:?}, the largest told: {tells}"));
            if tells {
                // Before the scale of the result.
                let by = if port == Port::ScaleO { 1.0 } else { 4.0 };
                let most = want.iter().fold(0.0_f64, |most, x| most.max(by * x.abs()));
                assert_near(&found[2], &[most], 1e-5, &format!("the largest by {port:?}"));
            }
        }
    }
    // Scores that are scaled and scaled back.
    let inverse = by_value(702, DataType::Float, 4);
    let operations = with(&[(Port::DescaleQ, &scale), (Port::DescaleK, &inverse)], &[]);
    let found = given(&operations, &results, &[(700, 4.0), (702, 0.25)], ALWAYS[1]);
    assert_near(&found[0], &want, 1e-5, "queries and keys");
}
