//! Graph aggregation on the CPU core: every machine computes what the reference computes, and that
//! is what the formulas in binary64 give; a graph that leads out of its features is refused, with
//! nothing written.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::dtype::{DataType, Scalar};
use cudnn::error::{ErrorKind, Result};
use cudnn::ops::Plan;
use cudnn::ops::gnn::AggregatePlan;
use testkit::graphs::{Graph, TYPES, numbers, plans};
use testkit::random::Rng;

const INDICES: [DataType; 2] = [DataType::Int32, DataType::Int64];
const SUM: i32 = 0;
const MEAN: i32 = 1;
const MAX: i32 = 2;
const MIN: i32 = 3;

/// Bytes in words, with guards behind them.
fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0x5a5a_5a5a_5a5a_5a5a_u64; bytes.len() / 8 + 9];
    // SAFETY: there is room for them.
    unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    words
}

/// Runs a plan on one machine, or by the reference; what it leaves in every operand.
fn run(plan: &AggregatePlan, contents: &[Vec<u8>], machine: Option<Machine>) -> (Result<()>, Vec<Vec<u64>>) {
    let mut memory: Vec<Vec<u64>> = contents.iter().map(|bytes| words(bytes)).collect();
    let at: Vec<Address> = memory.iter_mut().map(|words| words.as_mut_ptr().cast::<u8>().into()).collect();
    let outcome = plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| at[slot]).collect();
        // SAFETY: the memory is that of the plan.
        unsafe {
            match machine {
                Some(machine) => backend::run(step, &at, false, machine),
                None => reference::run(step, &at),
            }
        }
    });
    (outcome, memory)
}

fn machines() -> impl Iterator<Item = Machine> {
    Isa::available().flat_map(|isa| [1, 3].map(|threads| Machine { isa, threads }))
}

/// Runs the plan everywhere; the numbers that the reference leaves, operand by operand.
fn agreed(plan: &AggregatePlan, contents: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let (outcome, want) = run(plan, contents, None);
    outcome.expect("runs");
    for machine in machines() {
        let (outcome, got) = run(plan, contents, Some(machine));
        outcome.expect("runs");
        for (k, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!(got == want, "{machine:?}: {} of {plan}", plan.operands()[k].name);
        }
    }
    let of = |(words, (bytes, operand)): (&Vec<u64>, (&Vec<u8>, &cudnn::ops::Operand))| {
        let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(bytes.len()).collect();
        numbers(operand.scalar, &all)
    };
    want.iter().zip(contents.iter().zip(plan.operands())).map(of).collect()
}

#[test]
fn every_machine_computes_what_the_reference_computes() {
    let mut rng = Rng(51);
    for case in 0..120 {
        let sizes = [rng.pick(&[1, 3, 40]), rng.pick(&[0, 1, 5, 70]), rng.pick(&[1, 4, 9])];
        let graph = Graph::random(&mut rng, sizes[0], sizes[1], sizes[2]);
        let columns = rng.pick(&[[1, 0, 0], [5, 0, 2], [0, 3, 0], [7, 4, 3], [33, 1, 0], [64, 17, 40]]);
        let call = graph.call(columns, [rng.pick(&TYPES), rng.pick(&INDICES)], case % 4);
        for plan in plans(&call) {
            let contents = graph.all_contents(&plan, &mut rng);
            agreed(&plan, &contents);
        }
    }
}

/// The joined rows of a target in binary64.
fn joined(join: i32, rows: &[f64]) -> f64 {
    let first = |better: fn(f64, f64) -> bool| {
        rows.iter().copied().reduce(|old, new| if better(new, old) { new } else { old }).unwrap_or(0.0)
    };
    match join {
        SUM => rows.iter().sum(),
        MEAN if rows.is_empty() => 0.0,
        MEAN => rows.iter().sum::<f64>() / rows.len() as f64,
        MAX => first(|new, old| new > old),
        _ => first(|new, old| new < old),
    }
}

#[test]
fn rows_are_joined_along_the_edges() {
    let mut rng = Rng(52);
    for join in [SUM, MEAN, MAX, MIN] {
        let graph = Graph::random(&mut rng, 9, 12, 5);
        let [node, edge, concat] = [4, 3, 2];
        let call = graph.call([node, edge, concat], [DataType::Float, DataType::Int32], join);
        let [node, edge, concat] = [node, edge, concat].map(|n| n as usize);
        let [plan, _] = plans(&call);
        let contents = graph.all_contents(&plan, &mut rng);
        let left = agreed(&plan, &contents);
        let of = |operand: usize| numbers(Scalar::F32, &contents[operand]);
        let (nodes, edges, concatenated) = (of(2), of(3), of(4));
        let width = node + edge + concat;
        for target in 0..graph.targets() {
            let own = graph.of_target(target);
            for column in 0..width {
                let rows: Vec<f64> = own
                    .clone()
                    .map(|i| match column < node {
                        true => nodes[graph.indices[i] as usize * node + column],
                        false if column < node + edge => edges[graph.row(i) * edge + column - node],
                        false => 0.0,
                    })
                    .collect();
                let want = match column < node + edge {
                    true => joined(join, &rows),
                    false => concatenated[target * concat + column - node - edge],
                };
                let got = left[0][target * width + column];
                assert!((got - want).abs() <= 1e-6 * (1.0 + want.abs()), "{got}, {want}: {plan}");
                if join >= MAX && column < node + edge {
                    // The first of equals.
                    let place = rows.iter().position(|&number| number == want && !rows.is_empty());
                    let place = place.map_or(-1.0, |place| (own.start + place) as f64);
                    assert_eq!(left[1][target * (node + edge) + column], place);
                }
            }
        }
    }
}

/// Gradients of `sum of output gradOutput`: each number of the inputs is moved, and the loss is
/// linear in it, but for ties.
#[test]
fn gradients_are_what_each_number_contributes() {
    let mut rng = Rng(53);
    for join in [SUM, MEAN, MAX, MIN] {
        let graph = Graph::random(&mut rng, 6, 8, 4);
        let call = graph.call([3, 2, 1], [DataType::Float, DataType::Int64], join);
        let [forward, backward] = plans(&call);
        let mut given = graph.all_contents(&forward, &mut rng);
        // No equals: where two are, there is no derivative.
        let mut next = 0;
        for bytes in &mut given[2..5] {
            for cell in bytes.chunks_exact_mut(4) {
                next = (next + 37) % 101;
                cell.copy_from_slice(&((next as f32) / 16.0).to_le_bytes());
            }
        }
        let (outcome, memory) = run(&forward, &given, None);
        outcome.expect("runs");
        let mut contents = graph.all_contents(&backward, &mut rng);
        let positions: Vec<u8> = memory[1].iter().flat_map(|word| word.to_le_bytes()).collect();
        contents[4] = positions[..contents[4].len()].to_vec();
        let before: Vec<Vec<f64>> = (0..2).map(|k| numbers(Scalar::F32, &contents[k])).collect();
        let after = agreed(&backward, &contents);
        let weights = numbers(Scalar::F32, &contents[3]);
        let loss = |given: &[Vec<u8>]| -> f64 {
            let output = &agreed(&forward, given)[0];
            output.iter().zip(&weights).map(|(output, weight)| output * weight).sum()
        };
        let base = loss(&given);
        for (k, at) in [2, 3, 4].into_iter().enumerate() {
            for place in 0..given[at].len() / 4 {
                let mut moved = given.clone();
                let cell = &mut moved[at][4 * place..4 * place + 4];
                let number = f32::from_le_bytes((&*cell).try_into().unwrap()) + 1.0 / 64.0;
                cell.copy_from_slice(&number.to_le_bytes());
                let want = (loss(&moved) - base) * 64.0;
                let got = after[k][place] - before.get(k).map_or(0.0, |before| before[place]);
                assert!((got - want).abs() <= 2e-3, "{k} {place}: {got}, {want}: {backward}");
            }
        }
    }
}

#[test]
fn a_graph_that_leads_out_of_its_features_is_refused() {
    let mut rng = Rng(54);
    let graph = Graph {
        sources: 4,
        offsets: vec![0, 2, 5],
        indices: vec![0, 3, 1, 1, 2],
        map: Some(vec![4, 3, 2, 1, 0]),
    };
    /// What a refusal names, and what spoils a graph so.
    type Spoiled = (&'static str, fn(&mut Graph));
    let spoiled: [Spoiled; 6] = [
        ("cscOffsets", |graph| graph.offsets[1] = 6),
        ("cscOffsets", |graph| graph.offsets[1] = -1),
        ("cscOffsets", |graph| graph.offsets = vec![0, 3, 2]),
        ("cscIndices", |graph| graph.indices[4] = 4),
        ("cscIndices", |graph| graph.indices[0] = -1),
        ("mapCscToCoo", |graph| graph.map = Some(vec![0, 1, 2, 3, 5])),
    ];
    let call = graph.call([2, 2, 1], [DataType::Float, DataType::Int32], SUM);
    for (name, spoil) in spoiled {
        let mut graph = graph.clone();
        spoil(&mut graph);
        for plan in plans(&call) {
            let contents = graph.all_contents(&plan, &mut rng);
            for machine in machines().map(Some).chain([None]) {
                let (outcome, left) = run(&plan, &contents, machine);
                let error = outcome.expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::BadParam, "{error}");
                assert!(error.to_string().contains(name), "{error}");
                let before: Vec<_> = contents.iter().map(|bytes| words(bytes)).collect();
                assert!(left == before, "something is written");
            }
        }
    }
    // Two edges of one row: harmless to read, but its gradient belongs to one.
    let shared = Graph { map: Some(vec![0, 1, 2, 3, 3]), ..graph };
    let [forward, backward] = plans(&call);
    let (contents, gradients) =
        (shared.all_contents(&forward, &mut rng), shared.all_contents(&backward, &mut rng));
    agreed(&forward, &contents);
    assert_eq!(run(&backward, &gradients, None).0.expect_err("refused").kind(), ErrorKind::BadParam);
}
