//! A graph under other extents is the graph that was described with them.

use super::*;
use cudnn::ops::graph::{Override, Strategy};

fn channels_last(uid: i64, dims: [i64; 4], is_virtual: bool) -> Arc<Tensor> {
    let [_, c, h, w] = dims;
    let strides = [c * h * w, 1, w * c, c];
    Arc::new(Tensor { is_virtual, ..Tensor::new(uid, DataType::Float, &dims, &strides) })
}

/// A convolution with a bias and a ReLU, its sums over rows and columns, and the largest element of
/// each image.
fn convolved(batch: i64, height: i64, width: i64) -> Graph {
    let (x, w) = (channels_last(1, [batch, 4, height, width], false), channels_last(2, [6, 4, 3, 3], false));
    let out = [batch, 6, height / 2, width / 2];
    let (sum, biased) = (channels_last(10, out, true), channels_last(11, out, true));
    let (bias, y) = (float(3, &[1, 6, 1, 1]), channels_last(4, out, false));
    let (total, largest) = (hidden(12, DataType::Float, &[batch, 6, 1, 1]), float(5, &[batch, 1, 1, 1]));
    let spatial = Spatial {
        before: Dims::new(&[1, 1]),
        after: Dims::new(&[0, 0]),
        strides: Dims::new(&[2, 2]),
        dilation: Dims::new(&[1, 1]),
    };
    let reduced = |operator: i32, x: &Arc<Tensor>, y: &Arc<Tensor>| {
        let settings = Reduction { operator, math: DataType::Float.into() };
        Operation::new(Kind::Reduction(settings), &[(Port::X, x)], &[(Port::Y, y)])
    };
    Graph {
        // Not in the order of their results.
        operations: vec![
            reduced(3, &total, &largest),
            unary(100, &biased, &y),
            reduced(0, &biased, &total),
            binary(0, &sum, &bias, &biased),
            convolution([&x, &w], &sum, spatial),
        ],
    }
}

/// What the tensors of the caller's are in a graph.
pub(super) fn extents(graph: &Graph) -> Vec<Override> {
    let links = graph.operations.iter().flat_map(|operation| operation.links());
    let real = links.map(|link| &link.tensor).filter(|tensor| !tensor.is_virtual);
    real.map(|tensor| Override {
        uid: tensor.uid,
        dims: tensor.dims.to_vec(),
        strides: tensor.strides.to_vec(),
    })
    .collect()
}

#[test]
fn virtual_tensors_follow() {
    let small = convolved(2, 6, 4);
    assert_eq!(convolved(5, 12, 10).overridden(&extents(&small)).expect("it follows"), small);
}

#[test]
fn products_and_broadcasts_follow() {
    let product = |batch: i64, rows: i64, columns: i64| {
        let (a, b) = (float(1, &[batch, rows, 7]), float(2, &[1, 7, columns]));
        let (bias, c) = (float(3, &[1, rows, 1]), float(4, &[batch, rows, columns]));
        let hidden = [10, 11].map(|uid| hidden(uid, DataType::Float, &[batch, rows, columns]));
        let [product, sum] = hidden;
        Graph {
            operations: vec![
                matmul(&a, &b, &product),
                binary(0, &bias, &product, &sum),
                unary(100, &sum, &c),
            ],
        }
    };
    for (batch, rows, columns) in [(1, 2, 3), (4, 9, 1), (3, 1, 8)] {
        let wanted = product(batch, rows, columns);
        assert_eq!(product(4, 9, 8).overridden(&extents(&wanted)).expect("it follows"), wanted);
    }
}

/// What is behind a dequantisation follows, though the scales have extents of their own.
#[test]
fn products_of_dequantised_factors_follow() {
    let graph = |rows: i64| {
        let (x, b) = (packed(1, DataType::Int8, &[1, rows, 64]), float(3, &[1, 64, 5]));
        let (scale, c) = (float(2, &[1, rows, 2]), float(4, &[1, rows, 5]));
        let whole = hidden(10, DataType::Float, &[1, rows, 64]);
        let settings = cudnn::ops::graph::Blocks { sizes: vec![1, 32], ..Default::default() };
        let reads = [(Port::X, &x), (Port::Scale, &scale)];
        let dequantise = Operation::new(Kind::Dequantize(settings), &reads, &[(Port::Y, &whole)]);
        Graph { operations: vec![dequantise, matmul(&whole, &b, &c)] }
    };
    assert_eq!(graph(7).overridden(&extents(&graph(3))).expect("it follows"), graph(3));
}

/// Of packed sequences clients give strides of tokens, heads and elements: where a batch begins its
/// offsets say.
#[test]
fn packed_sequences_may_have_three_strides() {
    let graph = |batch: i64, rows: i64, heads: i64, token: i64| {
        let offset = packed(2, DataType::Int32, &[batch + 1, 1, 1, 1]);
        let ragged = |uid: i64| {
            let ragged = cudnn::ops::graph::Ragged { offset: Arc::clone(&offset), multiplier: 1 };
            let strides = [rows * token, 8, token, 1];
            let tensor = Tensor::new(uid, DataType::Float, &[batch, heads, rows, 8], &strides);
            Arc::new(Tensor { ragged: Some(ragged), ..tensor })
        };
        // One of another kind before it.
        let plain = unary(100, &float(5, &[2, 3, 4, 8]), &float(6, &[2, 3, 4, 8]));
        Graph { operations: vec![plain, unary(100, &ragged(1), &ragged(3))] }
    };
    let offsets = Override { uid: 2, dims: vec![4, 1, 1, 1], strides: vec![1; 4] };
    let with = |dims: &[i64], uid: i64| Override { uid, dims: dims.to_vec(), strides: vec![40, 8, 1] };
    let wanted = graph(3, 9, 4, 40);
    let given = [with(&[3, 4, 9, 8], 1), with(&[3, 4, 9, 8], 3), offsets];
    assert_eq!(graph(2, 5, 2, 16).overridden(&given).expect("it follows"), wanted);
    // Extents of tokens, heads and width say nothing of batches and rows.
    let given = [with(&[17, 4, 8], 1), with(&[17, 4, 8], 3)];
    assert_eq!(graph(3, 9, 2, 16).overridden(&given).expect("it follows"), wanted);
    // Others have a stride for each dimension.
    for dims in [&[3, 4, 8][..], &[2, 3, 4, 8]] {
        let refused = wanted.overridden(&[with(dims, 5)]).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::BadParam, "{dims:?}");
    }
}

#[test]
fn what_does_not_follow_or_fit_is_refused() {
    let (x, z) = (float(1, &[4, 6]), float(2, &[2, 12]));
    let y = hidden(10, DataType::Float, &[2, 12]);
    let reshape =
        Operation::new(Kind::Reshape(Reshape { logical: true }), &[(Port::X, &x)], &[(Port::Y, &y)]);
    let graph = Graph { operations: vec![reshape, unary(100, &y, &z)] };
    let with = |uid: i64, dims: &[i64], strides: &[i64]| Override {
        uid,
        dims: dims.to_vec(),
        strides: strides.to_vec(),
    };
    let refused = |overrides: &[Override]| graph.overridden(overrides).expect_err("refused").kind();
    let (given, result) = (with(1, &[2, 6], &[6, 1]), with(2, &[1, 12], &[12, 1]));
    assert_eq!(refused(&[given.clone(), result.clone()]), ErrorKind::NotSupported);
    let all = [given, result, with(10, &[1, 12], &[12, 1]), with(99, &[3], &[1])];
    let small = graph.overridden(&all).expect("everything is given");
    assert_eq!(*small.operations[1].reads[0].tensor.dims, [1, 12]);
    for wrong in
        [with(1, &[12], &[1]), with(1, &[2, 6], &[6]), with(1, &[-2, 6], &[6, 1]), with(1, &[2, 6], &[-6, 1])]
    {
        assert_eq!(refused(&[wrong]), ErrorKind::BadParam);
    }
}

/// Two of them at a time from one plan, each asked for again and again.
#[test]
fn a_plan_keeps_what_it_ran_under() {
    let execution = Execution::new(&convolved(5, 12, 10)).expect("it runs");
    let made: Vec<_> = (1..=10).map(|batch| extents(&convolved(batch, 6, 4))).collect();
    let first = execution.overridden(&made[0]).expect("it runs");
    assert!(Arc::ptr_eq(&first, &execution.overridden(&made[0]).expect("it runs")));
    for of in &made[1..] {
        assert!(!Arc::ptr_eq(&first, &execution.overridden(of).expect("it runs")));
    }
    // It was forgotten, and what was made of it still runs.
    assert!(!Arc::ptr_eq(&first, &execution.overridden(&made[0]).expect("it runs")));
    assert_eq!(first.workspace(), Execution::new(&convolved(1, 6, 4)).expect("it runs").workspace());
}

/// Queries and keys grow apart: what is left of a large tensor may not take a small one. What
/// suffices for the largest suffices for all.
#[test]
fn smaller_extents_take_no_more_workspace() {
    let mut rng = Rng(31);
    let mut tighter = 0;
    for _ in 0..400 {
        let mut extent = |most: usize| 1 + rng.below(most) as i64;
        let (batch, rows, inner, columns) = (extent(3), extent(300), extent(300), extent(300));
        let most = [batch, rows, inner, columns];
        let less = most.map(|most| extent(most as usize));
        // a = x y, a chain of functions of it, then b = a z, c = a^T x, sums of both.
        let graph = |[batch, rows, inner, columns]: [i64; 4]| {
            let (x, y) = (float(1, &[batch, rows, inner]), float(2, &[batch, inner, columns]));
            let (z, out) = (float(3, &[batch, columns, inner]), float(4, &[batch, rows, 1]));
            let virtual_of = |uid, dims: &[i64]| hidden(uid, DataType::Float, dims);
            let (a, b) = (virtual_of(10, &[batch, rows, columns]), virtual_of(11, &[batch, rows, columns]));
            let (c, d) = (virtual_of(12, &[batch, rows, inner]), virtual_of(13, &[batch, rows, inner]));
            let e = virtual_of(14, &[batch, rows, 1]);
            let total = |x: &Arc<Tensor>, y: &Arc<Tensor>| {
                let settings = Reduction { operator: 0, math: DataType::Float.into() };
                Operation::new(Kind::Reduction(settings), &[(Port::X, x)], &[(Port::Y, y)])
            };
            Graph {
                operations: vec![
                    matmul(&x, &y, &a),
                    unary(100, &a, &b),
                    matmul(&b, &z, &c),
                    unary(100, &c, &d),
                    total(&d, &e),
                    unary(100, &e, &out),
                ],
            }
        };
        let (whole, part) = (graph(most), graph(less));
        // Every tensor between is in the workspace.
        let plan = |graph| Execution::planned(graph, Strategy::BY_OPERATION).expect("it runs");
        let (execution, alone) = (plan(&whole), plan(&part));
        let under = execution.overridden(&extents(&part)).expect("it runs");
        assert!(under.workspace() <= execution.workspace(), "{less:?} of {most:?}");
        if alone.workspace() > execution.workspace() {
            tighter += 1;
            let [batch, rows, inner, columns] = less;
            let run = |execution: &Execution| {
                let (mut world, mut rng) = (World::default(), Rng(32));
                world.random(&mut rng, &float(1, &[batch, rows, inner]));
                world.random(&mut rng, &float(2, &[batch, inner, columns]));
                world.random(&mut rng, &float(3, &[batch, columns, inner]));
                let out = float(4, &[batch, rows, 1]);
                world.room(&out);
                world.execute(execution);
                world.get(&out).into_iter().map(f64::to_bits).collect::<Vec<_>>()
            };
            assert_eq!(run(&under), run(&alone), "{less:?} of {most:?}");
        }
    }
    assert!(tighter > 0, "no problem needs the places of the largest");
}
