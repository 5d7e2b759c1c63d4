//! Attention by single operations of which one has another setting: what it gives is what they
//! give, whether it is one step or not.

use cudnn::ops::graph::{BandMask, Padding, Softmax};
use testkit::operations::described::{ADD, IDENTITY, MUL};
use testkit::operations::masked::{Call, LOWEST, Mask};

use super::attend_changes::{KEPT, NUMBERS, add_cap, add_dropout, forward_of_operations};
use super::attends::{ALWAYS, DIV, WHOLE, attends, given, is_of, planned};
use super::planned::in_tiles;
use super::*;

/// Lengths of queries and keys.
const LENGTHS: [i64; 2] = [500, 501];

/// Every other setting that an operation may have, and what that is.
fn others(operation: &Operation) -> Vec<(Operation, &'static str)> {
    let (double, mut kinds) = (DataType::Double.into(), Vec::new());
    match &operation.kind {
        Kind::Pointwise(of) => {
            for (at, factor) in (0..operation.reads.len().min(2)).flat_map(|at| [(at, 2.0), (at, 0.0)]) {
                let mut other = of.clone();
                other.alpha[at] = factor;
                kinds.push((Kind::Pointwise(other), "a factor"));
            }
            kinds.push((Kind::Pointwise(Pointwise { math: double, ..of.clone() }), "DOUBLE"));
            for mode in
                [ADD, MUL].into_iter().filter(|&mode| operation.read(Port::B).is_some() && mode != of.mode)
            {
                kinds.push((Kind::Pointwise(Pointwise { mode, ..of.clone() }), "a function"));
            }
        }
        Kind::Matmul(of) => {
            kinds.push((Kind::Matmul(Matmul { math: double, ..of.clone() }), "DOUBLE"));
            for at in 0..2 {
                let mut other = of.clone();
                other.transposed[at] = !other.transposed[at];
                kinds.push((Kind::Matmul(other), "a transpose"));
            }
        }
        Kind::Reduction(of) => {
            kinds.push((Kind::Reduction(Reduction { math: double, ..of.clone() }), "DOUBLE"));
        }
        Kind::Padding(of) => {
            let &Padding { rows, columns, .. } = of;
            kinds.push((Kind::Padding(Padding { value: -2.0, ..of.clone() }), "a value"));
            kinds.push((Kind::Padding(Padding { rows: columns, columns: rows, ..of.clone() }), "axes"));
            kinds.push((Kind::Padding(Padding { columns: rows, ..of.clone() }), "one axis"));
        }
        Kind::BandMask(_) => {
            for comparison in [300, 302, 304, 305] {
                kinds.push((Kind::BandMask(BandMask { comparison }), "a comparison"));
            }
        }
        Kind::Softmax(_) => kinds.push((Kind::Softmax(Softmax { log2: true }), "a logarithm")),
        _ => {}
    }
    kinds.into_iter().map(|(kind, what)| (Operation { kind, ..operation.clone() }, what)).collect()
}

/// What values are without zeros beyond their length.
const VALUES: i64 = 503;

/// Sets what lies beyond lengths to minus infinity before weights are made, and values there to 0.
fn add_lengths(operations: &mut Vec<Operation>) {
    let is_softmax = |operation: &Operation| matches!(operation.kind, Kind::Softmax(_));
    let at = operations.iter().position(is_softmax).expect("it is there");
    let x = Arc::clone(&operations[at].reads[0].tensor);
    let y = hidden(502, DataType::Float, &x.dims);
    let [rows, columns] = LENGTHS.map(|uid| packed(uid, DataType::Int32, &[1, 1, 1, 1]));
    let kind = Kind::Padding(Padding { rows: 2, columns: 3, value: f64::NEG_INFINITY });
    let reads = [(Port::X, &x), (Port::LengthQ, &rows), (Port::LengthKv, &columns)];
    operations.push(Operation::new(kind, &reads, &[(Port::Y, &y)]));
    operations[at].reads[0].tensor = y;
    let weights = operations[at].writes[0].tensor.uid;
    let product =
        operations.iter_mut().find(|operation| operation.read(Port::A).is_some_and(|a| a.uid == weights));
    let link =
        product.expect("it is there").reads.iter_mut().find(|link| link.port == Port::B).expect("values");
    let values = Arc::new(Tensor { uid: VALUES, ..Tensor::clone(&link.tensor) });
    let padded = hidden(504, DataType::Float, &values.dims);
    link.tensor = Arc::clone(&padded);
    let kind = Kind::Padding(Padding { rows: 2, columns: 3, value: 0.0 });
    operations.push(Operation::new(
        kind,
        &[(Port::X, &values), (Port::LengthQ, &columns)],
        &[(Port::Y, &padded)],
    ));
}

/// A graph that is attention, with its results.
struct Described {
    name: &'static str,
    operations: Vec<Operation>,
    results: Vec<Arc<Tensor>>,
}

/// Forward with lengths, and with a cap and dropout in either direction. All matrices are square,
/// so that another one fits as well.
fn graphs() -> Vec<Described> {
    let call = Call { dims: [1, 2, 7, 7], width: 7, mask: Mask::Causal, data_type: DataType::Float };
    let mut graphs = Vec::new();
    let mut add = |name, operations, results| graphs.push(Described { name, operations, results });
    let (mut operations, o) = forward_of_operations(&call);
    add_lengths(&mut operations);
    add("lengths", operations, vec![o]);
    let (mut operations, o) = forward_of_operations(&call);
    add_dropout(&mut operations, &float(KEPT, &call.dims), false);
    add("weights that are multiplied", operations, vec![o]);
    for inner in [MUL, DIV] {
        let (mut operations, o) = forward_of_operations(&call);
        add_cap(&mut operations, inner, Port::Y);
        add_dropout(&mut operations, &hidden(KEPT, DataType::Float, &call.dims), true);
        add("forward", operations, vec![o]);
        for reads in [Port::X, Port::Y] {
            let (mut operations, _, results) = call.described();
            add_dropout(&mut operations, &float(KEPT, &call.dims), false);
            add_cap(&mut operations, inner, reads);
            add("gradients", operations, results);
        }
    }
    graphs
}

/// What is passed by value, and lengths.
fn numbers() -> Vec<(i64, f64)> {
    [&NUMBERS[..], &[(LENGTHS[0], 8.0), (LENGTHS[1], 5.0)]].concat()
}

/// In one step, or in tiles, operations give what they give one by one.
fn assert_alike(operations: &[Operation], results: &[Arc<Tensor>], numbers: &[(i64, f64)], what: &str) {
    let whole = given(operations, results, numbers, WHOLE);
    for strategy in [ALWAYS[1], in_tiles(0)] {
        let own = given(operations, results, numbers, strategy);
        for (k, (own, whole)) in own.iter().zip(&whole).enumerate() {
            assert_near(own, whole, 1e-5, &format!("{what}, result {k}"));
        }
    }
}

#[test]
fn another_setting_gives_what_single_operations_give() {
    for Described { name, operations, results } in graphs() {
        assert!(attends(&planned(&operations, ALWAYS[1])), "{name}");
        for (at, operation) in operations.iter().enumerate() {
            for (other, setting) in others(operation) {
                let what = format!("{name}, {setting} of operation {at}, {:?}", operation.kind);
                // A band without its diagonal, weights in powers of two, and what moves a result.
                let stays = match &other.kind {
                    Kind::BandMask(of) => of.comparison == 302,
                    Kind::Softmax(_) => true,
                    // Values are read with their zeros then.
                    Kind::Padding(_) => other.read(Port::X).is_some_and(|x| x.uid == VALUES),
                    _ => is_of(&other, IDENTITY),
                };
                let mut changed = operations.clone();
                changed[at] = other;
                // A sum in place of a product may be a bias or none, and so may another product.
                let is_known = !["a function", "a transpose"].contains(&setting);
                assert!(!is_known || attends(&planned(&changed, ALWAYS[1])) == stays, "{what}");
                assert_alike(&changed, &results, &numbers(), &what);
            }
        }
    }
}

/// The graph in which this tensor stands for the one of its number.
fn with_tensor(operations: &[Operation], other: &Arc<Tensor>) -> Vec<Operation> {
    let mut changed = operations.to_vec();
    replace(&mut changed, other);
    changed
}

/// The tensors of a graph.
fn tensors_of(operations: &[Operation]) -> Vec<Arc<Tensor>> {
    let links = operations.iter().flat_map(Operation::links);
    let mut tensors: Vec<Arc<Tensor>> = links.map(|link| Arc::clone(&link.tensor)).collect();
    tensors.sort_by_key(|tensor| tensor.uid);
    tensors.dedup_by_key(|tensor| tensor.uid);
    tensors
}

/// A tensor with one element along a dimension serves all of it, where operations let it.
#[test]
fn what_broadcasts_gives_what_single_operations_give() {
    let mut computed = 0;
    for Described { name, operations, results } in graphs() {
        let tensors = tensors_of(&operations);
        for (tensor, axis) in tensors.iter().flat_map(|tensor| (0..4).map(move |axis| (tensor, axis))) {
            if results.iter().any(|result| result.uid == tensor.uid) || tensor.dims[axis] == 1 {
                continue;
            }
            let mut other = Tensor::clone(tensor);
            other.dims[axis] = 1;
            let changed = with_tensor(&operations, &Arc::new(other));
            let graph = Graph { operations: changed.clone() };
            if Execution::planned(&graph, WHOLE).is_ok() {
                let what = format!("{name}, tensor {} along {axis}", tensor.uid);
                assert_alike(&changed, &results, &numbers(), &what);
                computed += 1;
            }
        }
    }
    assert!(computed > 20, "{computed} graphs are computed");
}

/// What is one number for all scores may be one for each row, column, head or score.
#[test]
fn numbers_may_be_one_for_each_score() {
    let mut computed = 0;
    for Described { name, operations, results } in graphs() {
        for tensor in tensors_of(&operations).iter().filter(|tensor| tensor.dims[..] == [1; 4]) {
            for dims in [[1, 1, 7, 1], [1, 1, 1, 7], [1, 2, 1, 1], [1, 2, 7, 7]] {
                let changed = with_tensor(&operations, &float(tensor.uid, &dims));
                let graph = Graph { operations: changed.clone() };
                if tensor.data_type == DataType::Float.into() && Execution::planned(&graph, WHOLE).is_ok() {
                    let numbers: Vec<_> =
                        numbers().into_iter().filter(|(uid, _)| *uid != tensor.uid).collect();
                    assert_alike(
                        &changed,
                        &results,
                        &numbers,
                        &format!("{name}, tensor {} {dims:?}", tensor.uid),
                    );
                    computed += 1;
                }
            }
        }
    }
    assert!(computed > 40, "{computed} graphs are computed");
}

/// Lengths stand before a band, whose number outside is a small one, behind it, or on either side.
#[test]
fn the_last_mask_of_scores_decides() {
    let call = Call { dims: [1, 2, 7, 7], width: 7, mask: Mask::Causal, data_type: DataType::Float };
    let is_band = |operation: &Operation| matches!(operation.kind, Kind::BandMask(_));
    let is_of_scores =
        |operation: &Operation| matches!(&operation.kind, Kind::Padding(of) if of.value == f64::NEG_INFINITY);
    let mut numbers = numbers();
    let lowest = numbers.iter_mut().find(|(uid, _)| *uid == LOWEST).expect("it is there");
    lowest.1 = -0.5;
    let (mut behind, o) = forward_of_operations(&call);
    add_lengths(&mut behind);
    // What the mask reads, the mask, and what the lengths give.
    let [band, padding] = [
        behind.iter().position(is_band).expect("a band"),
        behind.iter().position(is_of_scores).expect("lengths"),
    ];
    let mut before = behind.clone();
    let [first, last] = [&behind[band].reads[0].tensor, &behind[padding].writes[0].tensor];
    let between = &behind[band].writes[0].tensor;
    before[padding].reads[0].tensor = Arc::clone(first);
    before[padding].writes[0].tensor = Arc::clone(between);
    before[band].reads[0].tensor = Arc::clone(between);
    before[band].writes[0].tensor = Arc::clone(last);
    let mut twice = behind.clone();
    let again = hidden(505, DataType::Float, &call.dims);
    let mut other = twice[padding].clone();
    other.reads[0].tensor = Arc::clone(first);
    other.writes[0].tensor = Arc::clone(&again);
    // Fewer keys than the other lengths.
    let fewer = packed(506, DataType::Int32, &[1, 1, 1, 1]);
    let link = other.reads.iter_mut().find(|link| link.port == Port::LengthKv).expect("keys");
    link.tensor = fewer;
    twice[band].reads[0].tensor = again;
    twice.push(other);
    numbers.push((506, 3.0));
    for (operations, what) in [(behind, "behind"), (before, "before"), (twice, "on either side")] {
        assert_alike(&operations, std::slice::from_ref(&o), &numbers, what);
    }
}
