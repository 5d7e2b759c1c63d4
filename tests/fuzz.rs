//! Random variations of the rows of `benches/problems.txt`, other extents, types, layouts, scalings, windows and places in memory,
//! against the reference, bit for bit. Cases have numbers: `CUDNN_SHIM_FUZZ_FROM` says which is the first, and
//! `CUDNN_SHIM_FUZZ_SECONDS` asks for as many as that time allows, as `cargo xtask fuzz` does.

#[path = "common/agree.rs"]
mod agree;
#[path = "../benches/problems/mod.rs"]
mod problems;
#[path = "common/random.rs"]
mod random;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

use agree::{Counts, Setting, check};
use cudnn::dtype::Scalar;
use cudnn::ops::Scaling;
use problems::Row;
use random::Rng;

/// Cases of a run that is not told how long to go on.
const CASES: u64 = 2000;

/// Extents at which kernels change: lanes, registers and lines of cells of every width, and their neighbours.
const EXTENTS: [i64; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 16, 17, 20, 24, 31, 32, 33, 48, 56, 63, 64, 65, 96, 127, 129, 256,
];

/// Cells of a case at most: most are small, some have several tiles, and few are streamed.
fn cells(rng: &mut Rng) -> i64 {
    match rng.below(60) {
        0 => 6_000_000,
        1..20 => 150_000,
        _ => 6_000,
    }
}

fn vary(row: &Row, rng: &mut Rng) -> Row {
    let mut row = if rng.below(2) == 0 { row.clone() } else { row.inverse() };
    for axis in 0..row.dims.len() {
        if rng.below(2) == 0 {
            row = row.with_extent(axis, rng.pick(&EXTENTS));
        }
    }
    row = row.shrunk(cells(rng));
    if rng.below(2) == 0 {
        row.src.scalar = rng.pick(&Scalar::ALL);
        row.dst.scalar = if rng.below(2) == 0 { row.src.scalar } else { rng.pick(&Scalar::ALL) };
    }
    row.scaling = match rng.below(8) {
        0..5 => row.scaling,
        5 => Scaling::MOVE,
        6 => Scaling { alpha: -1.5, beta: 0.0 },
        _ => Scaling { alpha: 0.75, beta: 2.0 },
    };
    let dims = row.dims.clone();
    for side in [&mut row.src, &mut row.dst] {
        if side.layout.contains(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if rng.below(3) == 0 {
            let letters: Vec<char> = side.layout.chars().collect();
            side.layout = rng.order(letters.len()).into_iter().map(|i| letters[i]).collect();
        }
        if rng.below(5) == 0 {
            side.window_of = Some(dims.iter().map(|&extent| extent + rng.below(9) as i64).collect());
        }
    }
    row
}

fn setting(rng: &mut Rng) -> Setting {
    let mut offset = || if rng.below(2) == 0 { 0 } else { rng.below(64) };
    Setting { offsets: [offset(), offset()], threads: 1 + rng.below(3) }
}

/// The number in an environment variable, if it is set.
fn number<T: FromStr<Err: Debug>>(variable: &str) -> Option<T> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error:?}")))
}

#[test]
fn variations_of_the_listed_problems_equal_the_reference() {
    let rows = problems::read();
    let from = number::<u64>("CUDNN_SHIM_FUZZ_FROM").unwrap_or(0);
    let until = number("CUDNN_SHIM_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let goes_on = |case: u64| until.map_or(case < from + CASES, |until| Instant::now() < until);
    let mut counts = Counts::new();
    let mut case = from;
    while goes_on(case) {
        let mut rng = Rng(case);
        let row = vary(&rows[rng.below(rows.len())], &mut rng);
        let setting = setting(&mut rng);
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&row, setting, &mut counts)));
        if let Err(panic) = outcome {
            eprintln!(
                "case {case}: {row:?} {setting:?}\nagain: CUDNN_SHIM_FUZZ_FROM={case} cargo test --release --test fuzz"
            );
            resume_unwind(panic);
        }
        case += 1;
    }
    assert!(case > from, "there was no time for a single case");
    println!("cases {from} to {case}: {counts:?}");
    for name in ["rows", "interleave", "transpose", "strided", "padded"] {
        assert!(case < from + CASES || counts.contains_key(name), "no case for {name}: {counts:?}");
    }
}
