//! How long every step of `problems/steps.txt` takes on the device, as a table. Full extents with
//! `CUDNN_SHIM_TEST_FULL=1`; what a driver double takes says nothing, and shows that the table can
//! be made.

use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::{Scaling, Transform};

use crate::cores::Cores;
use crate::{child, double};
use testkit::steps::{self, Owned, Row, Vary};

/// Turns of all loops of a row together at most on a double.
const TURNS: i64 = 150;

/// A copy that reads and writes as many bytes together.
fn copy_of(bytes: i64) -> Row {
    let cells = (bytes / 16).max(1);
    let copy = Transform {
        nest: LoopNest::new(&[Axis { extent: cells, strides: [1, 1] }], [0; 2]),
        dst: Scalar::I64,
        src: Scalar::I64,
        scaling: Scaling::MOVE,
    };
    Row::new("copy", Owned::Transform(copy)).expect("a copy")
}

fn table() {
    let cores = Cores::new();
    println!("\n{:<44}{:>12}{:>10}{:>10}", "# step", "best us", "GB/s", "of copy");
    let (mut told, mut rows) = (0, 0);
    for row in steps::of_both_cores() {
        rows += 1;
        let step = if double::is_full() { row.step.clone() } else { row.step.shrunk(TURNS) };
        let row = Row::new(&row.name, step).expect("a part of the step");
        let operands = cudnn::ops::Plan::operands(&row);
        let bytes: i64 = operands.iter().map(|operand| operand.span.1 - operand.span.0).sum();
        // SAFETY: the core makes zeros for every operand.
        let time = |row: &Row| unsafe { cores.cuda.measure(row, &vec![None; row.operands.len()]) };
        match time(&row) {
            Ok(ms) => {
                told += 1;
                let copy = time(&copy_of(bytes)).expect("a copy runs");
                let rate = bytes as f32 / ms / 1e6;
                println!("{:<44}{:>12.1}{rate:>10.1}{:>10.3}", row.name, ms * 1e3, copy / ms);
            }
            Err(error) => println!("{:<44}  {error}", row.name),
        }
    }
    println!("# {told} of {rows} steps");
    assert_eq!(told, rows);
}

#[test]
fn listed_steps_take_time() {
    let Some(output) = child::start(&double::libraries(), &[], table) else { return };
    let text = child::text(&output);
    assert!(output.status.success(), "{text}");
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("# step")).collect();
    let last = table.iter().position(|line| line.contains(" steps")).expect("the last line");
    table[..=last].iter().for_each(|line| println!("{line}"));
}
