//! What scores and weights of attention have besides, in single operations: a bias and its
//! gradient, slopes, a cap, sinks and dropout are parts of one step on the CPU core, which gives
//! what single operations give.

use cudnn::ops::graph::{BandMask, Strategy};
use testkit::operations::described::{ADD, EXP, IDENTITY, LOWEST_BEFORE, MUL, ONE, SCALE, STATS, SUB, map};
use testkit::operations::masked::{Call, LOWEST, Mask, NEAREST};

use super::attends::{DIV, TANH, TANH_BACKWARD, WHOLE, attends, given, is_of, planned};
use super::*;

/// Of any extents that broadcast, before or after a band, either way about: what plain operations
/// give, in either direction.
#[test]
fn a_bias_in_single_operations_is_one_step() {
    for (dims, data_type) in [
        ([2, 4, 24, 20], DataType::Float),
        ([1, 4, 24, 20], DataType::Half),
        ([2, 1, 1, 20], DataType::Bfloat16),
        ([1, 1, 24, 1], DataType::Float),
        ([1, 1, 1, 1], DataType::Float),
    ] {
        let bias = packed(410, data_type, &dims);
        for mask in [Mask::None, Mask::Causal] {
            let call = Call { dims: [2, 4, 24, 20], width: 8, mask, data_type: DataType::Float };
            let (mut operations, _, results) = call.described();
            add_to_scores(&mut operations, &bias, |operation| {
                matches!(&operation.kind, Kind::Pointwise(of) if of.mode == SUB)
                    && operation.reads.iter().any(|link| link.tensor.uid == STATS)
            });
            same_as_whole(&operations, &results, &format!("gradients, {dims:?} {mask:?}"));
            for is_late in [false, true] {
                let (mut operations, o) = forward_of_operations(&call);
                add_to_scores(&mut operations, &bias, |operation| match operation.kind {
                    Kind::Softmax(_) => is_late,
                    Kind::BandMask(_) => !is_late,
                    _ => false,
                });
                if is_late || !matches!(mask, Mask::None) {
                    same_as_whole(&operations, &[o], &format!("forward, {dims:?} {mask:?} {is_late}"));
                }
            }
        }
    }
}

/// A factor or a divisor within the hyperbolic tangent, whose derivative reads either side of that.
#[test]
fn a_cap_in_single_operations_is_one_step() {
    let call = Call { dims: [2, 4, 24, 20], width: 8, mask: Mask::Causal, data_type: DataType::Float };
    for (inner_mode, reads) in [(MUL, Port::X), (MUL, Port::Y), (DIV, Port::X), (DIV, Port::Y)] {
        let (mut operations, _, results) = call.described();
        add_cap(&mut operations, inner_mode, reads);
        same_as_whole(&operations, &results, &format!("gradients, {inner_mode} {reads:?}"));
        // A derivative by something else, or of other numbers.
        let at = operations.iter().position(|operation| operation.read(Port::Dy).is_some());
        let at = at.expect("it is there");
        let all = float(440, &call.dims);
        for port in [Port::Dy, reads] {
            let mut other = operations.clone();
            let links = &mut other[at].reads;
            links.iter_mut().find(|link| link.port == port).expect("it reads it").tensor = all.clone();
            assert!(!attends(&planned(&other, Strategy::CPU)), "{inner_mode} {reads:?} {port:?}");
        }
        let mut other = operations.clone();
        let last =
            other.iter().rposition(|operation| operation.reads.iter().any(|link| link.tensor.uid == INNER));
        let links = &mut other[last.expect("it is there")].reads;
        let number = links.iter_mut().find(|link| link.tensor.uid == INNER).expect("it reads it");
        number.tensor = by_value(OUTER, DataType::Float, 4);
        assert!(!attends(&planned(&other, Strategy::CPU)), "{inner_mode} {reads:?}");
    }
    let (mut operations, o) = forward_of_operations(&call);
    add_cap(&mut operations, DIV, Port::Y);
    same_as_whole(&operations, &[o], "forward");
    // What somebody reads of it on the way.
    let tanh = operations.iter().find(|operation| is_of(operation, TANH)).expect("it is there");
    let seen = map(IDENTITY, &[&tanh.writes[0].tensor], &float(441, &call.dims));
    operations.push(seen);
    assert!(!attends(&planned(&operations, Strategy::CPU)));
}

/// By value.
const INNER: i64 = 430;
const OUTER: i64 = 431;

/// Limits what the factor makes, and, where gradients are multiplied by it once more, these before.
pub(super) fn add_cap(operations: &mut Vec<Operation>, inner_mode: i32, reads: Port) {
    let numbers = [INNER, OUTER].map(|uid| by_value(uid, DataType::Float, 4));
    let [inner, outer] = &numbers;
    let is_scale = |operation: &Operation| operation.reads.iter().any(|link| link.tensor.uid == SCALE);
    let places: Vec<usize> = (0..operations.len()).filter(|&at| is_scale(&operations[at])).collect();
    let scaled = Arc::clone(&operations[places[0]].writes[0].tensor);
    let between = |uid| hidden(uid, DataType::Float, &scaled.dims);
    let [x, y, capped] = [432, 433, 434].map(between);
    for operation in operations.iter_mut() {
        for link in operation.reads.iter_mut().filter(|link| link.tensor.uid == scaled.uid) {
            link.tensor = Arc::clone(&capped);
        }
    }
    operations.extend([
        map(inner_mode, &[&scaled, inner], &x),
        map(TANH, &[&x], &y),
        map(MUL, &[&y, outer], &capped),
    ]);
    let Some(&back) = places.get(1) else { return };
    let [first, second, third] = [435, 436, 437].map(between);
    let of_scores = std::mem::replace(&mut operations[back].reads[0].tensor, Arc::clone(&third));
    let kind = Kind::Pointwise(Pointwise::new(TANH_BACKWARD));
    let own = if reads == Port::X { &x } else { &y };
    operations.extend([
        map(MUL, &[&of_scores, outer], &first),
        Operation::new(kind, &[(Port::Dy, &first), (reads, own)], &[(Port::Dx, &second)]),
        map(inner_mode, &[&second, inner], &third),
    ]);
}

/// As cudnn-frontend describes it, of some batches and heads, with anything else that there may be.
#[test]
fn the_gradient_of_a_bias_is_a_part_of_one_step() {
    let call = |mask| Call { dims: [2, 4, 24, 20], width: 8, mask, data_type: DataType::Float };
    let is_apart = |operation: &Operation| {
        is_of(operation, SUB) && operation.reads.iter().any(|link| link.tensor.uid == STATS)
    };
    for mask in [Mask::None, Mask::Causal, Mask::Window(5)] {
        for dims in [[2, 4, 24, 20], [1, 4, 24, 20], [2, 1, 24, 20], [1, 1, 24, 20]] {
            let (mut operations, _, mut results) = call(mask).described();
            add_to_scores(&mut operations, &float(410, &dims), is_apart);
            results.push(add_bias_gradient(&mut operations, &dims));
            same_as_whole(&operations, &results, &format!("{mask:?} {dims:?}"));
            let (mut operations, _, mut results) = call(mask).described();
            add_to_scores(&mut operations, &float(410, &dims), is_apart);
            add_dropout(&mut operations, &hidden(KEPT, DataType::Float, &[2, 4, 24, 20]), true);
            results.push(add_bias_gradient(&mut operations, &dims));
            add_cap(&mut operations, DIV, Port::Y);
            same_as_whole(&operations, &results, &format!("with all, {mask:?} {dims:?}"));
        }
    }
    // Of rows or columns together.
    for dims in [[2, 4, 1, 20], [2, 4, 24, 1]] {
        let (mut operations, ..) = call(Mask::None).described();
        add_bias_gradient(&mut operations, &dims);
        assert!(!attends(&planned(&operations, Strategy::CPU)), "{dims:?}");
    }
}

/// Sums up what is multiplied by the factor of scores in the end.
fn add_bias_gradient(operations: &mut Vec<Operation>, dims: &[i64; 4]) -> Arc<Tensor> {
    let reads_scale = |operation: &Operation| operation.reads.iter().any(|link| link.tensor.uid == SCALE);
    let last = operations.iter().rfind(|operation| reads_scale(operation)).expect("it is there");
    let (x, y) = (Arc::clone(&last.reads[0].tensor), float(480, dims));
    let of = Reduction { operator: 0, math: DataType::Float.into() };
    operations.push(Operation::new(Kind::Reduction(of), &[(Port::X, &x)], &[(Port::Y, &y)]));
    y
}

/// What multiplies weights, as cudnn-frontend describes it in either direction: random numbers that
/// nobody keeps, such that the caller gets, and a mask of the caller's, of any extents that
/// broadcast.
#[test]
fn dropout_in_single_operations_is_one_step() {
    let call = Call { dims: [2, 4, 24, 20], width: 8, mask: Mask::Causal, data_type: DataType::Float };
    let drawn = [hidden(KEPT, DataType::Float, &call.dims), hidden(KEPT, DataType::Half, &call.dims)];
    let kept = [float(KEPT, &call.dims)];
    let given = [packed(KEPT, DataType::Half, &[1, 4, 24, 20]), float(KEPT, &[2, 1, 1, 20])];
    for (masks, draws) in [(&drawn[..], true), (&kept, true), (&given, false)] {
        for mask in masks {
            let (mut operations, _, mut results) = call.described();
            add_dropout(&mut operations, mask, draws);
            results.extend((draws && !mask.is_virtual).then(|| mask.clone()));
            same_as_whole(&operations, &results, &format!("gradients, {mask:?}"));
            let (mut operations, o) = forward_of_operations(&call);
            add_dropout(&mut operations, mask, draws);
            results.splice(..results.len() - usize::from(draws && !mask.is_virtual), [o]);
            same_as_whole(&operations, &results, &format!("forward, {mask:?}"));
        }
    }
    // Numbers that something else reads, twice, of other extents, of another distribution.
    let (plain, _) = forward_of_operations(&call);
    let mut operations = plain.clone();
    add_dropout(&mut operations, &drawn[0], true);
    let seen = map(IDENTITY, &[&drawn[0]], &float(465, &call.dims));
    assert!(!attends(&planned(&[operations.clone(), vec![seen]].concat(), Strategy::CPU)));
    let place = |operation: &Operation| operation.read(Port::B).is_some_and(|b| b.uid == KEPT);
    let again = operations.iter().position(place).expect("it is there");
    let x = Arc::clone(&operations[again].reads[0].tensor);
    let between = hidden(466, DataType::Float, &call.dims);
    operations.push(map(MUL, &[&x, &drawn[0]], &between));
    operations[again].reads[0].tensor = between;
    assert!(!attends(&planned(&operations, Strategy::CPU)));
    let mut operations = plain.clone();
    add_dropout(&mut operations, &hidden(KEPT, DataType::Float, &[1, 4, 24, 20]), true);
    assert!(!attends(&planned(&operations, Strategy::CPU)));
    let mut operations = plain;
    add_dropout(&mut operations, &hidden(KEPT, DataType::Float, &call.dims), true);
    let rng = operations.iter_mut().find_map(|operation| match &mut operation.kind {
        Kind::Rng(of) => Some(of),
        _ => None,
    });
    rng.expect("it is there").distribution = 1;
    assert!(!attends(&planned(&operations, Strategy::CPU)));
}

/// What multiplies weights, and by value its factor, and the inverse of that.
pub(super) const KEPT: i64 = 460;
const KEPT_FACTOR: i64 = 461;

/// Multiplies weights and, where there are gradients, those of what they were multiplied by.
pub(super) fn add_dropout(operations: &mut Vec<Operation>, mask: &Arc<Tensor>, draws: bool) {
    let is_exponential = |operation: &Operation| is_of(operation, EXP);
    let is_softmax = |operation: &Operation| matches!(operation.kind, Kind::Softmax(_));
    let makes = operations.iter().find(|operation| is_exponential(operation) || is_softmax(operation));
    let weights = Arc::clone(&makes.expect("it is there").writes[0].tensor);
    let factor = by_value(KEPT_FACTOR, DataType::Float, 4);
    let mut uids = 470..;
    let mut between = || hidden(uids.next().expect("uids"), DataType::Float, &weights.dims);
    let of_values = |operation: &Operation| {
        let reads = operation.reads.iter().any(|link| link.tensor.uid == weights.uid);
        reads && matches!(operation.kind, Kind::Matmul(_) | Kind::Reshape(_))
    };
    let at = operations.iter().position(of_values).expect("it is there");
    let [kept, scaled] = [between(), between()];
    operations[at].reads[0].tensor = Arc::clone(&scaled);
    let mut all = vec![map(MUL, &[&weights, mask], &kept), map(MUL, &[&kept, &factor], &scaled)];
    if draws {
        let seed = packed(462, DataType::Int64, &[1, 1, 1, 1]);
        let of = cudnn::ops::graph::Rng {
            distribution: 0,
            normal: [0.0, 1.0],
            uniform: [0.0, 1.0],
            probability: 0.625,
            seed: None,
        };
        all.push(Operation::new(Kind::Rng(of), &[(Port::Seed, &seed)], &[(Port::Y, mask)]));
    }
    let reads = |operation: &Operation, uid: i64| operation.reads.iter().any(|link| link.tensor.uid == uid);
    let difference = |operation: &Operation| is_of(operation, SUB) && !reads(operation, STATS);
    if let Some(at) = operations.iter().position(difference) {
        let of_weights = Arc::clone(&operations[at].reads[0].tensor);
        let kept = between();
        operations[at].reads[0].tensor = Arc::clone(&kept);
        all.push(map(MUL, &[&of_weights, mask], &kept));
        let last = operations.iter().rposition(|of| is_of(of, MUL) && reads(of, SCALE)).expect("it is there");
        let (of_scores, scaled) = (Arc::clone(&operations[last].reads[0].tensor), between());
        operations[last].reads[0].tensor = Arc::clone(&scaled);
        all.push(map(MUL, &[&of_scores, &factor], &scaled));
    }
    operations.extend(all);
}

/// One sink for each head.
#[test]
fn sinks_are_a_part_of_one_step() {
    let call = Call { dims: [2, 4, 24, 20], width: 8, mask: Mask::Causal, data_type: DataType::Float };
    let (operations, o) = forward_of_operations(&call);
    for (dims, data_type, expected) in [
        ([1, 4, 1, 1], DataType::Float, true),
        ([1, 4, 1, 1], DataType::Half, true),
        ([1, 1, 1, 1], DataType::Float, false),
    ] {
        let sink = packed(450, data_type, &dims);
        let mut operations = operations.clone();
        let softmax = operations.iter_mut().find(|operation| matches!(operation.kind, Kind::Softmax(_)));
        let softmax = softmax.expect("it is there");
        *softmax = Operation::new(
            softmax.kind.clone(),
            &[(Port::X, &softmax.reads[0].tensor), (Port::Sink, &sink)],
            &[(Port::Y, &softmax.writes[0].tensor)],
        );
        if expected {
            same_as_whole(&operations, std::slice::from_ref(&o), &format!("{data_type:?}"));
        } else {
            assert!(!attends(&planned(&operations, Strategy::CPU)), "{dims:?}");
        }
    }
}

/// Slopes of each head (ALiBi), as cudnn-frontend makes what it adds of indices, alone or behind a
/// bias; indices of other axes, or the other way about, are none.
#[test]
fn slopes_in_single_operations_are_one_step() {
    let slopes = float(490, &[1, 4, 1, 1]);
    let is_apart = |operation: &Operation| {
        is_of(operation, SUB) && operation.reads.iter().any(|link| link.tensor.uid == STATS)
    };
    let is_mask = |operation: &Operation| matches!(operation.kind, Kind::BandMask(_));
    let call = Call { dims: [2, 4, 24, 20], width: 8, mask: Mask::Causal, data_type: DataType::Float };
    for has_bias in [false, true] {
        let (mut operations, _, results) = call.described();
        let (mut forward, o) = forward_of_operations(&call);
        if has_bias {
            let bias = float(410, &[1, 4, 24, 20]);
            add_to_scores(&mut operations, &bias, is_apart);
            add_to_scores(&mut forward, &bias, is_mask);
        }
        add_slopes(&mut operations, &slopes, [3, 2], is_apart);
        add_slopes(&mut forward, &slopes, [3, 2], is_mask);
        same_as_whole(&operations, &results, &format!("gradients, {has_bias}"));
        same_as_whole(&forward, &[o], &format!("forward, {has_bias}"));
    }
    for (slopes, axes) in [(&slopes, [2, 3]), (&slopes, [3, 1]), (&float(490, &[2, 4, 1, 1]), [3, 2])] {
        let (mut forward, _) = forward_of_operations(&call);
        add_slopes(&mut forward, slopes, axes, is_mask);
        assert!(!attends(&planned(&forward, Strategy::CPU)), "{axes:?}");
    }
}

/// Adds slopes times the difference of indices along two axes to what such an operation reads.
fn add_slopes(
    operations: &mut Vec<Operation>, slopes: &Arc<Tensor>, axes: [i64; 2], is_it: impl Fn(&Operation) -> bool,
) {
    let at = operations.iter().position(is_it).expect("it is there");
    let x = Arc::clone(&operations[at].reads[0].tensor);
    let of = |uid, data_type| hidden(uid, data_type, &x.dims);
    let [first, second, distance] = [491, 492, 493].map(|uid| of(uid, DataType::Int32));
    let (added, y) = (of(494, DataType::Float), of(495, DataType::Float));
    for (axis, index) in axes.into_iter().zip([&first, &second]) {
        let math = DataType::Int32.into();
        let kind = Pointwise { axis: Some(axis), math, ..Pointwise::new(501) };
        operations.push(Operation::new(Kind::Pointwise(kind), &[(Port::X, &x)], &[(Port::Y, index)]));
    }
    let kind = Pointwise { math: DataType::Int32.into(), ..Pointwise::new(SUB) };
    let reads = [(Port::X, &first), (Port::B, &second)];
    operations.push(Operation::new(Kind::Pointwise(kind), &reads, &[(Port::Y, &distance)]));
    operations.push(map(MUL, &[&distance, slopes], &added));
    operations.push(map(ADD, &[&x, &added], &y));
    operations[at].reads[0].tensor = y;
}

/// Adds a bias to what the first such operation reads first.
fn add_to_scores(operations: &mut Vec<Operation>, bias: &Arc<Tensor>, is_it: impl Fn(&Operation) -> bool) {
    let Some(at) = operations.iter().position(is_it) else { return };
    let x = Arc::clone(&operations[at].reads[0].tensor);
    let y = hidden(420, DataType::Float, &x.dims);
    operations.push(map(ADD, &[bias, &x], &y));
    operations[at].reads[0].tensor = y;
}

/// What graphs are given by value.
pub(super) const NUMBERS: [(i64, f64); 8] = [
    (SCALE, 0.125),
    (ONE, 1.0),
    (LOWEST, f64::NEG_INFINITY),
    (NEAREST, 5.0),
    (LOWEST_BEFORE, f64::NEG_INFINITY),
    (INNER, 0.5),
    (OUTER, 1.5),
    (KEPT_FACTOR, 1.6),
];

/// One step on the CPU core, which gives what single operations give.
fn same_as_whole(operations: &[Operation], results: &[Arc<Tensor>], what: &str) {
    assert!(attends(&planned(operations, Strategy::CPU)), "{what}");
    assert!(!attends(&planned(operations, Strategy::CUDA)), "{what}");
    let own = given(operations, results, &NUMBERS, Strategy::CPU);
    let whole = given(operations, results, &NUMBERS, WHOLE);
    for (k, (own, whole)) in own.iter().zip(&whole).enumerate() {
        assert_near(own, whole, 1e-5, &format!("{what}, result {k}"));
    }
}

/// Attention of a call by single operations, and its result.
pub(super) fn forward_of_operations(call: &Call) -> (Vec<Operation>, Arc<Tensor>) {
    let [batch, heads, rows, columns] = call.dims;
    let of = |uid, heads, rows| packed(uid, call.data_type, &[batch, heads, rows, call.width]);
    let (q, v, o) = (of(1, heads, rows), of(3, 1, columns), of(4, heads, rows));
    let k = packed(2, call.data_type, &[batch, 1, call.width, columns]);
    let [scores, scaled, masked, weights] =
        [50, 51, 52, 53].map(|uid| hidden(uid, DataType::Float, &call.dims));
    let product = |a: &Arc<Tensor>, b: &Arc<Tensor>, c: &Arc<Tensor>| {
        let of = Matmul { math: DataType::Float.into(), padding: 0.0, transposed: [false; 2] };
        Operation::new(Kind::Matmul(of), &[(Port::A, a), (Port::B, b)], &[(Port::C, c)])
    };
    let mut operations = vec![
        product(&q, &k, &scores),
        map(MUL, &[&scores, &by_value(SCALE, DataType::Float, 4)], &scaled),
        product(&weights, &v, &o),
    ];
    let last = if let Mask::None = call.mask { &scaled } else { &masked };
    if last.uid == masked.uid {
        let lowest = by_value(LOWEST, DataType::Float, 4);
        let kind = Kind::BandMask(BandMask { comparison: 303 });
        operations.push(Operation::new(
            kind,
            &[(Port::X, &scaled), (Port::B, &lowest)],
            &[(Port::Y, &masked)],
        ));
    }
    let softmax = Kind::Softmax(Softmax { log2: false });
    operations.push(Operation::new(softmax, &[(Port::X, last)], &[(Port::Y, &weights)]));
    (operations, o)
}
