//! Attention in one step, and its gradients: which graphs have it, and what it gives against plain
//! loops.

use cudnn::ops::graph::{Override, Strategy};
use testkit::operations::masked::{Call, Mask};

use super::*;

/// As for a GPU, however few queries there are.
const ALWAYS: Strategy = Strategy { attends: Some(0), ..Strategy::CUDA };

/// Whether attention is one step.
fn attends(execution: &Execution) -> bool {
    execution.parts().any(|part| part.contains("attend "))
}

fn planned(operations: &[Operation], strategy: Strategy) -> Execution {
    Execution::planned(&Graph { operations: operations.to_vec() }, strategy).expect("the graph runs")
}

/// Lengths, bands from either corner, shared heads, pages and packed sequences are one step in
/// either direction; what changes scores in another way, sinks and dropout are not.
#[test]
fn attention_in_one_step_gives_what_plain_loops_give() {
    let (mut one, mut others, mut gradients) = (0, 0, 0);
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
        let has_only_bands =
            settings.modifier.as_ref().is_none_or(|modifier| modifier.operations.iter().all(is_band));
        let is_wide = operation.read(Port::Q).is_some_and(|q| operations::data_type(q) == DataType::Double);
        let others_read = [Port::Sink, Port::DescaleQ, Port::DescaleK, Port::DescaleS, Port::ScaleS];
        let is_plain = others_read.iter().all(|&port| operation.read(port).is_none())
            && operation.write(Port::AmaxS).is_none();
        let execution = planned(&problem.operations, ALWAYS);
        let expected = settings.dropout == 0.0 && has_only_bands && is_plain && !is_wide;
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
        gradients += usize::from(execution.parts().any(|part| part.contains("attend backward ")));
    }
    assert!(
        one > 10 && gradients > 5 && others > 6,
        "{one} in one step, {gradients} backward, {others} are not"
    );
}

fn call(extent: i64, width: i64, mask: Mask, data_type: DataType) -> Call {
    Call { dims: [2, 4, extent, extent], width, mask, data_type }
}

/// On the CUDA core alone, and of more than a few queries; nothing of the scores is in the
/// workspace.
#[test]
fn a_gpu_has_attention_in_one_step_and_no_room_for_scores() {
    for mask in [Mask::None, Mask::Causal, Mask::Window(5)] {
        for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16] {
            for (extent, is_forward) in
                [16, 64, 2048].into_iter().flat_map(|extent| [(extent, true), (extent, false)])
            {
                let (operations, ..) = call(extent, 64, mask, data_type).operations(is_forward);
                let execution = planned(&operations, Strategy::CUDA);
                assert!(attends(&execution), "{mask:?} {data_type:?} {extent}");
                // What is passed by value.
                assert!(execution.workspace() <= 1024, "{} bytes", execution.workspace());
                assert!(!attends(&planned(&operations, Strategy::CPU)));
            }
            for is_forward in [true, false] {
                let (operations, ..) = call(15, 64, mask, data_type).operations(is_forward);
                assert!(!attends(&planned(&operations, Strategy::CUDA)));
            }
        }
    }
    for is_forward in [true, false] {
        let (operations, ..) = call(64, 128, Mask::Causal, DataType::Half).operations(is_forward);
        assert!(attends(&planned(&operations, Strategy::CUDA)));
        for (width, data_type) in [(129, DataType::Half), (64, DataType::Double)] {
            let (operations, ..) = call(64, width, Mask::Causal, data_type).operations(is_forward);
            assert!(!attends(&planned(&operations, Strategy::CUDA)), "{width} columns of {data_type:?}");
        }
    }
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
        let smaller = call(3, 40, Mask::None, DataType::Half).operations(is_forward).0;
        let of = |tensor: &Arc<Tensor>| Override {
            uid: tensor.uid,
            dims: tensor.dims.to_vec(),
            strides: tensor.strides.to_vec(),
        };
        let links = smaller.iter().flat_map(|operation| operation.reads.iter().chain(&operation.writes));
        let overrides: Vec<_> = links.map(|link| of(&link.tensor)).collect();
        let own = whole.overridden(&overrides).expect("the graph runs");
        assert!(attends(&own) && own.workspace() <= whole.workspace());
    }
}
