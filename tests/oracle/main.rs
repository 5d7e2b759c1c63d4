//! Replays the recorded answers of the original on the built shared library, through its C functions only.
//!
//! Strict mode must answer exactly as recorded. The default mode may differ only where a named departure says so, with
//! the status that departure promises, and the number of cases per departure is committed next to the recordings.

mod call;
mod case;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod replay;
mod signature;

use std::collections::BTreeSet;
use std::process::ExitCode;

use case::{Area, Case};
use compare::{Difference, Level, compare};
use signature::Signatures;

/// So many differing steps are printed per mode; all are counted.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    if replay::run_as_child(signatures) {
        return ExitCode::SUCCESS;
    }
    signature::check_parser();
    compare::check_comparison();
    let areas = case::areas(&common::project_root().join("tests/data/oracle"));
    assert!(areas.iter().map(|area| area.cases.len()).sum::<usize>() > 4000, "recorded cases are missing");
    if strict(&areas) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn signatures() -> Signatures {
    let path = common::project_root().join("tests/data/abi/functions.tsv");
    Signatures::parse(&std::fs::read_to_string(path).expect("table of C functions"))
}

/// The cases of an area that only use implemented functions, and the number of the others.
fn implemented(area: &Area, stubs: &BTreeSet<String>) -> (Vec<Case>, usize) {
    let uses_stub =
        |case: &&Case| case.steps.iter().any(|step| stubs.contains(&format!("cudnn{}", step.function)));
    let skipped = area.cases.iter().filter(uses_stub).count();
    (area.cases.iter().filter(|case| !uses_stub(case)).cloned().collect(), skipped)
}

/// Prints one differing step with what was recorded.
fn show(shown: &mut usize, case: &Case, difference: &Difference) {
    *shown += 1;
    if *shown <= SHOWN {
        let step = &case.steps[difference.step];
        let observed =
            difference.observed.as_ref().map_or("the process died".to_owned(), |tokens| tokens.join(" "));
        let level = difference.level as u8;
        println!(
            "  {} level {level}: {} = {} but: {observed}",
            case.id,
            step.call(),
            step.observed.join(" ")
        );
    }
}

/// Strict mode: the original's answers, case for case.
fn strict(areas: &[Area]) -> bool {
    let library = common::library();
    let scratch = common::scratch_dir("oracle-strict");
    let stubs = common::stub_functions();
    let (mut shown, mut total) = (0, [0; 5]);
    let mut failed = 0;
    println!("strict mode ({} functions are stubs)", stubs.len());
    println!("{:<28}{:>8}{:>9}{:>8}{:>9}{:>9}", "file", "cases", "matched", "stub", "level 1", "level 2");
    for area in areas {
        let (cases, skipped) = implemented(area, &stubs);
        let observations = replay::replay(&library, &scratch, &cases, &[("CUDNN_SHIM_STRICT", "1")]);
        let mut row = [area.cases.len(), 0, skipped, 0, 0];
        for (case, observation) in cases.iter().zip(&observations) {
            let differences = compare(case, observation);
            match differences.iter().map(|difference| difference.level).min() {
                None => row[1] += 1,
                Some(Level::Required) => row[3] += 1,
                Some(Level::Nice) => row[4] += 1,
            }
            differences.iter().for_each(|difference| show(&mut shown, case, difference));
        }
        print_row(&area.name, &row);
        total.iter_mut().zip(row).for_each(|(total, count)| *total += count);
        if !area.quirk {
            failed += row[3] + row[4];
        }
    }
    print_row("all", &total);
    if failed > 0 {
        println!("strict mode: {failed} cases differ from the original (quirks not counted)");
    }
    failed == 0
}

fn print_row(name: &str, row: &[usize; 5]) {
    println!("{name:<28}{:>8}{:>9}{:>8}{:>9}{:>9}", row[0], row[1], row[2], row[3], row[4]);
}
