//! Every step of `steps.txt`, from the fastest level on all threads, beside a copy of as many
//! bytes, in turns.
//!
//! `cargo bench --bench layer_steps -- [list=FILE] [NAME...]`: rows whose names contain one of
//! these; those of another list.

#[allow(dead_code, reason = "other benchmarks use the rest")]
mod timing;

use cudnn::backend::{self, Machine, Operands, run_transform};
use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::{Scaling, Transform};

use testkit::random::Rng;
use testkit::{run_step, steps};

fn main() {
    let (lists, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'))
        .partition(|name| name.starts_with("list="));
    let rows = match lists.iter().find_map(|list| list.strip_prefix("list=")) {
        None => steps::read(),
        Some(file) => steps::rows(file, &std::fs::read_to_string(file).expect("a list of steps")),
    };
    let machine = Machine::host();
    println!("{machine:?}; a copy of the bytes that a step touches takes 1.00\n");
    println!("{:20}{:>12}{:>10}{:>10}", "step", "best", "best", "median");
    let mut rng = Rng(5);
    for row in rows {
        if !names.is_empty() && !names.iter().any(|name| row.name.contains(name.as_str())) {
            continue;
        }
        let mut memory = run_step::contents(&row, &mut rng);
        let at = memory.places(&row);
        let cells = (row.bytes() / 2).div_ceil(8) as i64;
        let copy = Transform {
            nest: LoopNest::new(&[Axis { extent: cells, strides: [1, 1] }], [0; 2]),
            dst: Scalar::I64,
            src: Scalar::I64,
            scaling: Scaling::MOVE,
        };
        let (from, mut to) = (vec![1_u64; cells as usize], vec![0_u64; cells as usize]);
        let operands = Operands { dst: to.as_mut_ptr().cast(), src: from.as_ptr().cast() };
        // SAFETY: every operand has its span, and nothing overlaps.
        let mut step =
            || unsafe { backend::run(row.step.step(), &at, false, machine) }.expect("the step runs");
        // SAFETY: both buffers have as many cells.
        let mut copy = || unsafe { run_transform(&copy, operands, machine) }.expect("the copy runs");
        let [step, copy] = timing::times(&[], [&mut step, &mut copy]);
        let median = |times: &[f64]| times[times.len() / 2];
        println!(
            "{:20}{:>9.1} us{:>10.2}{:>10.2}",
            row.name,
            step[0] * 1e6,
            copy[0] / step[0],
            median(&copy) / median(&step)
        );
    }
}
