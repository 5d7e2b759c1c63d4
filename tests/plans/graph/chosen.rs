//! What is computed as a chain: the limits of one, on either side. Results do not tell.

use cudnn::ops::graph::Strategy;

use super::*;

/// The absolute value.
const ABS: i32 = 10;

/// Chains of whatever has the shape.
const CHAINS: Strategy = Strategy { chains: 0, block: 96, ..Strategy::CPU };

/// How many parts a plan has, and how many of them are chains.
fn parts(operations: Vec<Operation>, strategy: Strategy) -> [usize; 2] {
    let execution = Execution::planned(&Graph { operations }, strategy).expect("it is planned");
    let parts: Vec<String> = execution.parts().collect();
    [parts.len(), parts.iter().filter(|part| part.contains("chain: ")).count()]
}

/// So many functions of elements, one of another.
fn functions(count: i64, dims: &[i64]) -> Vec<Operation> {
    let tensor = |uid: i64| match uid {
        0 => float(1, dims),
        last if last == count => float(2, dims),
        between => hidden(2 + between, DataType::Float, dims),
    };
    (0..count).map(|at| unary(ABS, &tensor(at), &tensor(at + 1))).collect()
}

#[test]
fn chains_have_two_operations_and_no_more_than_they_may() {
    for (count, found) in [(1, [1, 0]), (2, [1, 1]), (3, [1, 1]), (64, [1, 1]), (65, [2, 1])] {
        assert_eq!(parts(functions(count, &[4, 96]), CHAINS), found, "{count} operations");
    }
}

/// A normalisation of the rows of a matrix.
fn norm(dims: [i64; 2], y: &Arc<Tensor>) -> Operation {
    let (x, epsilon) = (float(101, &dims), float(102, &[1, 1]));
    let (mean, inverse) = (float(103, &[dims[0], 1]), float(104, &[dims[0], 1]));
    let reads = [(Port::X, &x), (Port::Epsilon, &epsilon)];
    let writes = [(Port::Y, y), (Port::Mean, &mean), (Port::InverseVariance, &inverse)];
    Operation::new(Kind::NormForward(Norm { mode: 0, training: true }), &reads, &writes)
}

#[test]
fn chains_have_rows_that_are_not_too_long_and_elements_enough() {
    for (dims, is_chain) in [([4, 96], true), ([2, 1 << 17], true), ([2, (1 << 17) + 1], false)] {
        let (between, y) = (hidden(1, DataType::Float, &dims), float(2, &dims));
        let [_, chains] = parts(vec![norm(dims, &between), unary(ABS, &between, &y)], CHAINS);
        assert_eq!(chains, usize::from(is_chain), "{dims:?}");
    }
    for (least, is_chain) in [(383, true), (384, true), (385, false)] {
        let found = parts(functions(2, &[4, 96]), Strategy { chains: least, ..CHAINS });
        assert_eq!(found, if is_chain { [1, 1] } else { [2, 0] }, "from {least} elements on");
    }
}

#[test]
fn a_normalisation_alone_is_a_chain_where_it_is_no_single_step() {
    let operations = || vec![norm([33, 48], &float(2, &[33, 48]))];
    assert_eq!(parts(operations(), CHAINS), [1, 0], "one step of rows");
    assert_eq!(parts(operations(), Strategy { rows: None, ..CHAINS }), [1, 1], "steps of its own");
}
