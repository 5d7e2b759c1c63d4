//! Every transform of `benches/problems.txt` and its inverse, shrunk to at most 300,000 cells, and again with each
//! extent one larger: whatever candidate takes it equals the reference, bit for bit, at every instruction set level.

#[path = "../benches/problems/mod.rs"]
mod problems;

use std::collections::BTreeMap;

use cudnn::backend::{CANDIDATES, Isa, Machine, Operands, reference, run_fill, run_padded};
use cudnn::ops::Problem;
use problems::Row;

/// Cells per row at most, so that all rows together stay quick in an unoptimised build.
const CELLS: i64 = 300_000;

/// The row with its extents halved, longest first, until it is small enough.
fn shrunk(row: &Row) -> Row {
    let mut row = row.clone();
    while row.dims.iter().product::<i64>() > CELLS {
        let longest = (0..row.dims.len()).max_by_key(|&k| row.dims[k]).expect("there are dims");
        row = row.with_extent(longest, row.dims[longest] / 2 + row.dims[longest] % 2);
    }
    row
}

/// The bytes that a plan spans in each operand, filled with what no conversion treats as plain numbers only.
fn memory(len: usize, seed: u64) -> Vec<u64> {
    let mut x = seed;
    let mut next = || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        x ^ (x >> 29)
    };
    (0..len.div_ceil(8) + 1).map(|_| next()).collect()
}

/// Runs every problem of the row with every candidate that takes it; counts the runs of each.
fn check(row: &Row, counts: &mut BTreeMap<&'static str, usize>) {
    let tensors = row.tensors();
    let plan = tensors.plan();
    let [x_span, y_span] = plan.byte_spans();
    let len = |(low, high): (i64, i64)| (high - low) as usize;
    let (mut x, before) = (memory(len(x_span), 1), memory(len(y_span), 2));
    let src = x.as_mut_ptr().cast::<u8>().wrapping_offset(-x_span.0 as isize).cast_const();
    let at = |y: &mut Vec<u64>| {
        let dst = y.as_mut_ptr().cast::<u8>().wrapping_offset(-y_span.0 as isize);
        Operands { dst, src }
    };
    let outcome = plan.for_each(&mut |problem| {
        let mut want = before.clone();
        // SAFETY: both buffers hold their spans.
        unsafe { reference::run(problem, at(&mut want)) }?;
        for isa in Isa::available() {
            let machine = Machine { isa, threads: 2 };
            match problem {
                Problem::Transform(transform) => {
                    for candidate in CANDIDATES.iter().filter(|c| c.accepts(transform)) {
                        let mut got = before.clone();
                        // SAFETY: as above.
                        unsafe { candidate.run(transform, at(&mut got), machine) }?;
                        assert!(got == want, "{} at {}: {}", candidate.name, isa.name(), row.title());
                        *counts.entry(candidate.name).or_default() += 1;
                    }
                }
                Problem::Fill(fill) => {
                    let mut got = before.clone();
                    // SAFETY: as above.
                    unsafe { run_fill(fill, at(&mut got).dst, machine) }?;
                    assert!(got == want, "fill at {}: {}", isa.name(), row.title());
                    *counts.entry("fill").or_default() += 1;
                }
                Problem::Padded(padded) => {
                    let mut got = before.clone();
                    // SAFETY: as above.
                    unsafe { run_padded(padded, at(&mut got), machine) }?;
                    assert!(got == want, "padded at {}: {}", isa.name(), row.title());
                    *counts.entry("padded").or_default() += 1;
                }
            }
        }
        Ok(())
    });
    outcome.expect("every problem runs");
}

#[test]
fn every_listed_problem_equals_the_reference() {
    let mut counts = BTreeMap::new();
    let rows = problems::read();
    assert!(rows.len() > 30, "only {} rows", rows.len());
    for row in rows.iter().flat_map(|row| [row.clone(), row.inverse()]) {
        let row = shrunk(&row);
        check(&row, &mut counts);
        for axis in 0..row.dims.len() {
            check(&row.with_extent(axis, row.dims[axis] + 1), &mut counts);
        }
    }
    println!("{counts:?}");
    for name in ["rows", "interleave", "transpose", "strided", "reference", "padded"] {
        assert!(counts.contains_key(name), "no problem for {name}: {counts:?}");
    }
}
