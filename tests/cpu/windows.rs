//! Windows on the CPU core at every instruction set level, against the reference loops, bit for
//! bit.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::ops::{Plan, Role};

use testkit::random::Rng;
use testkit::windows as problems;
use testkit::windows::{Problem, draw};

/// Operands of a problem in host memory, each in the midst of bytes that nobody should touch.
struct Memory {
    buffers: Vec<Vec<u64>>,
    places: Vec<Address>,
}

/// Words around every operand.
const MARGIN: usize = 8;

impl Memory {
    fn new(plan: &dyn Plan, contents: &[Vec<u8>]) -> Self {
        let mut buffers: Vec<Vec<u64>> = Vec::new();
        let mut places = Vec::new();
        for (operand, bytes) in plan.operands().iter().zip(contents) {
            let words = bytes.len().div_ceil(8) + 2 * MARGIN;
            let mut buffer = vec![0x5a5a_5a5a_5a5a_5a5a; words];
            let start = buffer.as_mut_ptr().wrapping_add(MARGIN).cast::<u8>();
            // SAFETY: the buffer is longer than the bytes.
            unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            let base = start.wrapping_offset(-(operand.span.0 as isize));
            places.push(if operand.is_touched() { Address::from(base) } else { Address::NULL });
            buffers.push(buffer);
        }
        Memory { buffers, places }
    }
}

/// Runs a plan by `run`, step by step.
fn solve(plan: &dyn Plan, memory: &Memory, run: impl Fn(cudnn::ops::Step<'_>, &[Address])) {
    let outcome = plan.steps(&mut |step, slots| {
        let at: Vec<Address> =
            slots.iter().map(|&slot| *memory.places.get(slot).unwrap_or(&Address::NULL)).collect();
        run(step, &at);
        Ok(())
    });
    outcome.expect("every step runs");
}

fn check(problem: &Problem, rng: &mut Rng) {
    let plan = &*problem.plan;
    let contents = problem.contents(rng);
    let want = Memory::new(plan, &contents);
    // SAFETY: every operand has its span.
    solve(plan, &want, |step, at| unsafe { reference::run(step, at) }.expect("the reference runs"));
    for isa in Isa::available() {
        for threads in [1, 3] {
            let machine = Machine { isa, threads };
            let got = Memory::new(plan, &contents);
            // SAFETY: as above; no address is written twice.
            solve(plan, &got, |step, at| {
                // SAFETY: every operand has its span, and no address is written twice unless the
                // plan is ordered.
                unsafe { backend::run(step, at, plan.is_ordered(), machine) }.expect("the core runs");
            });
            for (operand, (got, want)) in plan.operands().iter().zip(got.buffers.iter().zip(&want.buffers)) {
                let at = got.iter().zip(want).position(|(a, b)| a != b);
                assert!(
                    at.is_none(),
                    "{} at {} with {threads} threads: {} differs at word {at:?}\n{plan}\n{:x?}\n{:x?}",
                    problem.title,
                    isa.name(),
                    operand.name,
                    at.map(|at| got[at]),
                    at.map(|at| want[at])
                );
            }
        }
    }
    assert!(plan.operands().iter().any(|operand| operand.role != Role::Read));
}

/// Problems per test; `WINDOW_PROBLEMS` asks for another number.
fn count() -> usize {
    std::env::var("WINDOW_PROBLEMS").ok().and_then(|n| n.parse().ok()).unwrap_or(600)
}

#[test]
fn gradients_over_several_bands_of_rows_agree_with_the_reference() {
    let mut rng = Rng(11);
    problems::tall(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
}

#[test]
fn windows_that_share_columns_agree_with_the_reference() {
    let mut rng = Rng(12);
    problems::shared(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
}

#[test]
fn gradients_of_windows_that_hold_a_plane_agree_with_the_reference() {
    let mut rng = Rng(13);
    problems::whole(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
}

#[test]
fn results_written_past_the_caches_agree_with_the_reference() {
    let mut rng = Rng(14);
    problems::streamed(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
}

#[test]
fn random_windows_agree_with_the_reference_in_every_bit() {
    let mut rng = Rng(7);
    let mut seen = std::collections::BTreeMap::new();
    problems::wide(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
    for _ in 0..count() {
        let problem = draw(&mut rng);
        *seen.entry(problem.kind).or_insert(0) += 1;
        check(&problem, &mut rng);
    }
    println!("{seen:?}");
    assert!(seen.len() >= problems::KINDS, "every kind comes: {seen:?}");
}

#[test]
fn responses_of_long_rows_and_wide_windows_agree_with_the_reference_in_every_bit() {
    let mut rng = Rng(8);
    problems::long_rows(&mut rng).iter().for_each(|problem| check(problem, &mut rng));
}
