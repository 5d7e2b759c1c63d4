//! Every transform of `problems/problems.txt` and its inverse, shrunk to at most 300,000 cells, and
//! again with each extent one larger: whatever candidate takes it equals the reference, bit for
//! bit, at every instruction set level.

use testkit::agree::{Counts, Setting, check};
use testkit::problems;

/// Cells per row at most, so that all rows together stay quick in an unoptimised build.
const CELLS: i64 = 300_000;

#[test]
fn every_listed_problem_equals_the_reference() {
    let mut counts = Counts::new();
    let rows = problems::read();
    assert!(rows.len() > 30, "only {} rows", rows.len());
    let setting = Setting { offsets: [0, 0], threads: 2 };
    for row in rows.iter().flat_map(|row| [row.clone(), row.inverse()]) {
        let row = row.shrunk(CELLS);
        check(&row, setting, &mut counts);
        for axis in 0..row.dims.len() {
            check(&row.with_extent(axis, row.dims[axis] + 1), setting, &mut counts);
        }
    }
    println!("{counts:?}");
    for name in
        ["transform_rows", "interleave", "transpose", "transform_strided", "reference", "padded_blocks"]
    {
        assert!(counts.contains_key(name), "no problem for {name}: {counts:?}");
    }
}
