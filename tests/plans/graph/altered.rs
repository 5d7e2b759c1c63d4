//! What becomes of graphs of which one thing is another one - an extent, a stride, a type, a
//! setting, a link -, see `testkit::snapshot`: which parts they have, or which rule refuses them.

use std::fmt::Write;

use cudnn::ops::graph::{Padding, Strategy, Vector};
use testkit::operations::masked::{Call, Mask};
use testkit::snapshot;

use super::*;

/// How often each graph is altered.
const TIMES: u64 = 10;

/// How often by each strategy where a hash is kept.
const MANY: u64 = 24;

/// The graphs that tests compute, the gradients of attention by single operations, what
/// cudnn-frontend makes of them, and random chains.
fn graphs() -> Vec<(String, Vec<Operation>)> {
    let problems = operations::problems();
    let mut graphs: Vec<_> = problems.into_iter().map(|problem| (problem.name, problem.operations)).collect();
    for mask in [Mask::None, Mask::Causal, Mask::Window(5)] {
        let call = Call { dims: [2, 4, 24, 20], width: 8, mask, data_type: DataType::Half };
        let copies = |what: &str, operations: Vec<Operation>| {
            (0..8).map(|k| (format!("{what}, {mask:?} {k}"), operations.clone())).collect::<Vec<_>>()
        };
        graphs.extend(copies("attention", call.operations(true).0));
        graphs.extend(copies("gradients of attention", call.described().0));
    }
    for (name, text, _) in attends::RECORDED {
        let graph = cudnn::desc::graph::text::graph(text.as_bytes()).expect("a plan's text");
        let graph = Graph::of(&graph).expect("a graph");
        graphs.extend((0..8).map(|k| (format!("the frontend's, {name} {k}"), graph.operations.clone())));
    }
    graphs.extend((0..50).map(|case| {
        let (graph, ..) = fused::random_graph(&mut Rng(500 + case));
        (format!("random graph {case}"), graph.operations)
    }));
    for (kv_heads, is_forward) in [(2, true), (2, false), (4, true), (4, false)] {
        let call = Call { dims: [2, 8, 24, 20], width: 8, mask: Mask::None, data_type: DataType::Half };
        let mut operations = call.operations(is_forward).0;
        for link in operations.iter_mut().flat_map(|of| of.reads.iter_mut().chain(&mut of.writes)) {
            if link.tensor.dims[1] == 1 {
                let dims = [2, kv_heads, link.tensor.dims[2], link.tensor.dims[3]];
                link.tensor = packed(link.tensor.uid, DataType::Half, &dims);
            }
        }
        graphs.push((format!("{kv_heads} heads of keys, forward: {is_forward}"), operations));
    }
    graphs
}

/// A tensor that is another one in one respect, and in which.
fn other(rng: &mut Rng, tensor: &Tensor) -> (Tensor, String) {
    let mut own = tensor.clone();
    let axis = rng.below(tensor.dims.rank().max(1));
    let what = match rng.below(9) {
        0..=2 if tensor.dims.rank() > 0 => {
            own.dims[axis] = rng.pick(&[1, tensor.dims[axis] + 1, (tensor.dims[axis] - 1).max(0), 0]);
            format!("dim {axis} {}", own.dims[axis])
        }
        3 if tensor.dims.rank() > 0 => {
            own.strides[axis] = rng.pick(&[0, tensor.strides[axis] + 1, 2 * tensor.strides[axis]]);
            format!("stride {axis} {}", own.strides[axis])
        }
        4 if tensor.dims.rank() > 1 => {
            let next = (axis + 1) % tensor.dims.rank();
            let [a, b] = [axis, next].map(|axis| own.strides[axis]);
            (own.strides[axis], own.strides[next]) = (b, a);
            format!("strides {axis} and {next} swapped")
        }
        5 => {
            own.vector = Some(Vector {
                count: rng.pick(&[4, 32]),
                dimension: rng.pick(&[axis, axis, tensor.dims.rank()]) as i64,
            });
            format!("vectors of {:?}", own.vector)
        }
        6 => {
            own.is_virtual = !own.is_virtual;
            format!("virtual: {}", own.is_virtual)
        }
        7 => {
            own.reorder = rng.pick(&[1, 2, 3]);
            format!("reordering {}", own.reorder)
        }
        _ => {
            let types = [
                DataType::Float,
                DataType::Half,
                DataType::Double,
                DataType::Int32,
                DataType::Int8,
                DataType::Boolean,
            ];
            own.data_type = rng.pick(&types).into();
            format!("type {}", own.data_type)
        }
    };
    (own, format!("tensor {}: {what}", tensor.uid))
}

/// Another setting of an operation, where it has some that can be another one.
fn reset(rng: &mut Rng, kind: &mut Kind) -> Option<String> {
    let double = DataType::Double.into();
    match kind {
        Kind::Pointwise(of) => match rng.below(8) {
            0 => of.alpha[rng.below(2)] = 2.0,
            4 => (of.elu_alpha, of.slope) = (2.0, 0.25),
            5 => (of.softplus_beta, of.swish_beta) = (2.0, 4.0),
            6 => of.clip = [-1.0, 2.0],
            1 => of.math = double,
            2 => of.axis = Some(rng.pick(&[-1, 1, 2, 3, 4, 5])),
            _ => of.mode = rng.pick(&[0, 1, 3, 9, 10, 100, 101, 301, 303, 305]),
        },
        Kind::Reduction(of) => match rng.below(2) {
            0 => of.math = double,
            _ => of.operator = rng.pick(&[0, 1, 2, 3, 4, 5, 6]),
        },
        Kind::Matmul(of) => match rng.below(3) {
            0 => of.math = double,
            1 => of.padding = 1.0,
            _ => of.transposed[0] = !of.transposed[0],
        },
        Kind::Padding(Padding { rows, columns, value }) => match rng.below(3) {
            0 => *value = 0.0,
            1 => std::mem::swap(rows, columns),
            _ => *rows = rng.below(5),
        },
        Kind::BandMask(of) => of.comparison = rng.pick(&[300, 302, 303, 304, 305]),
        Kind::NormForward(of) | Kind::NormBackward(of) => match rng.below(2) {
            0 => of.mode = rng.pick(&[0, 1, 2, 3, 4]),
            _ => of.training = !of.training,
        },
        Kind::Convolution(of) => {
            let axis = rng.below(of.spatial.strides.rank());
            match rng.below(6) {
                0 => of.alpha = 2.0,
                1 => of.beta = 1.0,
                2 => of.math = double,
                3 => of.spatial.before[axis] = rng.pick(&[0, 1, 2]),
                4 => of.spatial.strides[axis] = rng.pick(&[1, 2]),
                _ => of.spatial.dilation[axis] = rng.pick(&[1, 2]),
            }
        }
        Kind::ResampleForward(of) | Kind::ResampleBackward(of) => match rng.below(4) {
            0 => of.mode = rng.pick(&[0, 1, 2, 3, 4]),
            1 => of.padding = rng.pick(&[0, 1, 2]),
            2 => of.alpha = 2.0,
            _ => of.beta = 1.0,
        },
        Kind::Softmax(of) => of.log2 = !of.log2,
        Kind::Concat(of) => of.axis = rng.pick(&[-1, 0, 1, 2, 3, 4]),
        Kind::Dequantize(of) | Kind::Quantize(of) => {
            of.sizes = rng.pick(&[&[][..], &[16], &[32], &[128], &[2, 16]]).to_vec();
        }
        Kind::AttentionForward(of) | Kind::AttentionBackward(of) => of.dropout = 0.5,
        _ => return None,
    }
    Some("another setting".to_owned())
}

/// A graph of which one thing is another one, and which.
fn altered(rng: &mut Rng, operations: &[Operation]) -> (Vec<Operation>, String) {
    let mut operations = operations.to_vec();
    let at = rng.below(operations.len());
    match rng.below(8) {
        0 | 1 => {
            if let Some(what) = reset(rng, &mut operations[at].kind) {
                return (operations, format!("operation {at}: {what}"));
            }
        }
        2 if !operations[at].reads.is_empty() => {
            let link = rng.below(operations[at].reads.len());
            let link = operations[at].reads.remove(link);
            return (operations, format!("operation {at} without {:?}", link.port));
        }
        3 => {
            let all: Vec<Arc<Tensor>> =
                operations.iter().flat_map(Operation::links).map(|link| Arc::clone(&link.tensor)).collect();
            let instead = &all[rng.below(all.len())];
            let count = operations[at].reads.len();
            if count > 0 {
                let link = &mut operations[at].reads[rng.below(count)];
                link.tensor = Arc::clone(instead);
                let what = format!("operation {at}: tensor {} as {:?}", instead.uid, link.port);
                return (operations, what);
            }
        }
        _ => {}
    }
    let links: Vec<Arc<Tensor>> = operations[at].links().map(|link| Arc::clone(&link.tensor)).collect();
    let link = rng.below(links.len());
    let (own, what) = other(rng, &links[link]);
    replace(&mut operations, &Arc::new(own));
    (operations, what)
}

/// The first words of `part 3, matmul: contract f32*f32->f32 ...` behind the number.
fn begin(part: &str) -> String {
    part.split(' ').skip(2).take(3).collect::<Vec<_>>().join(" ")
}

/// What becomes of the operations: how they are planned, or why they are not.
fn outcome(operations: Vec<Operation>, strategy: Strategy, part: impl Fn(&str) -> String) -> String {
    match Execution::planned(&Graph { operations }, strategy) {
        Ok(execution) => execution.parts().map(|text| part(&text)).collect::<Vec<_>>().join(", "),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

#[test]
fn altered_graphs_are_planned_or_refused_as_before() {
    let mut text = String::new();
    for (at, (name, operations)) in graphs().into_iter().enumerate() {
        for time in 0..TIMES {
            let mut rng = Rng(at as u64 * TIMES + time + 1);
            let (operations, what) = altered(&mut rng, &operations);
            let answer = outcome(operations, attends::ALWAYS[1], begin);
            writeln!(text, "{name} {time}: {what}\n  {}", snapshot::short(&answer)).expect("there is memory");
        }
    }
    let how = "cargo test --test plans -- altered_graphs";
    assert_eq!(snapshot::compare("altered_graphs.txt", how, &text, |_| true), 0);
}

/// The same of many more alterations, by every strategy, of which a hash is kept.
#[test]
fn many_altered_graphs_are_planned_or_refused_as_before() {
    let mut text = String::new();
    for (at, (name, operations)) in graphs().into_iter().enumerate() {
        writeln!(text, "{name}").expect("there is memory");
        for (way, (words, strategy)) in planned::STRATEGIES.into_iter().enumerate() {
            let answers = (0..MANY).map(|time| {
                let mut rng = Rng((1 << 32) + (at * 8 + way) as u64 * MANY + time);
                let (operations, what) = altered(&mut rng, &operations);
                format!("{what}: {}\n", outcome(operations, strategy, str::to_owned))
            });
            let hash = snapshot::hash(&answers.collect::<String>());
            writeln!(text, "  {words}: {hash:08x}").expect("there is memory");
        }
    }
    let how = "cargo test --test plans -- many_altered_graphs";
    assert_eq!(snapshot::compare("many_altered_graphs.txt", how, &text, |_| true), 0);
}
