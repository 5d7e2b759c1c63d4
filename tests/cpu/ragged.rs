//! Ragged batches on the CPU core: every machine and the reference leave what the formula says, and
//! nothing beside it; offsets that are out of order are refused, with nothing written.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::error::{ErrorKind, Result};
use cudnn::ops::Plan;
use cudnn::ops::ragged::RaggedFunction;
use testkit::ragged::Problem;
use testkit::random::Rng;

/// Bytes in words, with guards behind them.
fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0x5a5a_5a5a_5a5a_5a5a_u64; bytes.len() / 8 + 9];
    // SAFETY: there is room for them.
    unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    words
}

/// Runs a step on one machine, or by the reference; what it leaves in every operand.
fn run(problem: &Problem, contents: &[Vec<u8>], machine: Option<Machine>) -> (Result<()>, Vec<Vec<u64>>) {
    let mut memory: Vec<Vec<u64>> = contents.iter().map(|bytes| words(bytes)).collect();
    let at: Vec<Address> = memory.iter_mut().map(|words| words.as_mut_ptr().into()).collect();
    let outcome = problem.steps(&mut |step, _| {
        // SAFETY: the memory is that of the problem.
        unsafe {
            match machine {
                Some(machine) => backend::run(step, &at, false, machine),
                None => reference::run(step, &at),
            }
        }
    });
    (outcome, memory)
}

fn machines() -> impl Iterator<Item = Option<Machine>> {
    let all = Isa::available().flat_map(|isa| [1, 3].map(|threads| Some(Machine { isa, threads })));
    all.chain([None])
}

#[test]
fn batches_go_where_the_formula_says() {
    let mut rng = Rng(61);
    for _ in 0..100 {
        for function in [RaggedFunction::Load, RaggedFunction::Store] {
            let problem = Problem::random(&mut rng, function);
            let contents = problem.contents(&mut rng);
            let wanted = [words(&problem.wanted(&contents)), words(&contents[1]), words(&contents[2])];
            for machine in machines() {
                let (outcome, left) = run(&problem, &contents, machine);
                outcome.expect("runs");
                assert!(left == wanted, "{machine:?}: {problem}");
            }
        }
    }
}

#[test]
fn offsets_out_of_order_are_refused() {
    let mut rng = Rng(62);
    let spoils: [fn(&mut Vec<i64>); 3] = [
        |offsets| offsets[0] = -1,
        |offsets| {
            let last = offsets.len() - 1;
            offsets[last] = offsets[last - 1] - 1;
        },
        |offsets| offsets[1] = -5,
    ];
    for spoil in spoils {
        for function in [RaggedFunction::Load, RaggedFunction::Store] {
            let mut problem = Problem::random(&mut rng, function);
            spoil(&mut problem.offsets);
            let contents = problem.contents(&mut rng);
            let before: Vec<_> = contents.iter().map(|bytes| words(bytes)).collect();
            for machine in machines() {
                let (outcome, left) = run(&problem, &contents, machine);
                let error = outcome.expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::BadParam, "{error}");
                assert!(error.to_string().contains("ragged offsets"), "{error}");
                assert!(left == before, "something is written");
            }
        }
    }
}
