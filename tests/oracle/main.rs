//! Replays the recorded answers of the original on the built shared library, through its C
//! functions only.
//!
//! Strict mode must answer exactly as recorded. The default mode may differ only where a named
//! departure says so, with the status that departure promises, and the number of cases per
//! departure is committed next to the recordings.
//!
//! `cargo test --test oracle -- WORD... --skip=WORD...` replays the files whose names contain one
//! of the words, and none that has one of `--skip`; with `--fail-fast` up to the first one of which
//! strict mode answers otherwise.

mod arithmetic;
mod call;
mod case;
mod causal;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod convolutions;
mod departures;
mod filters;
mod layers;
mod losses;
mod normal;
mod replay;
mod signature;
mod training;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use case::{Area, Case, Step};
use compare::{Difference, Level, compare};
use departures::{Promise, Tensor};
use filters::Filter;
use signature::Signatures;

/// So many differing steps are printed per mode; all are counted.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    if replay::run_as_child(signatures) {
        return ExitCode::SUCCESS;
    }
    signature::check_parser();
    compare::check_comparison();
    let mut areas = case::areas(&common::project_root().join("tests/data/oracle"));
    assert!(areas.iter().map(|area| area.cases.len()).sum::<usize>() > 4000, "recorded cases are missing");
    let all = areas.len();
    let asked = Asked::of(std::env::args().skip(1));
    areas.retain(|area| asked.wants(&area.name));
    let strict = strict(&areas, asked.fail_fast);
    let default = if asked.fail_fast && strict.failed > 0 {
        Counts::default()
    } else {
        default_mode(&areas, areas.len() == all)
    };
    common::conclude(
        strict.passed + default.passed,
        strict.failed + default.failed,
        strict.skipped + default.skipped,
    )
}

/// Which files are replayed: all where there is no word.
#[derive(Default)]
struct Asked {
    words: Vec<String>,
    skipped: Vec<String>,
    fail_fast: bool,
}

impl Asked {
    fn of(arguments: impl Iterator<Item = String>) -> Asked {
        let mut asked = Asked::default();
        for argument in arguments {
            match argument.strip_prefix("--skip=") {
                Some(word) => asked.skipped.push(word.to_owned()),
                None if argument == "--fail-fast" => asked.fail_fast = true,
                // Of the usual test runner.
                None if argument.starts_with('-') => {}
                None => asked.words.push(argument),
            }
        }
        asked
    }

    fn wants(&self, name: &str) -> bool {
        let has = |words: &[String]| words.iter().any(|word| name.contains(word.as_str()));
        (self.words.is_empty() || has(&self.words)) && !has(&self.skipped)
    }
}

fn signatures() -> Signatures {
    // Those of version 9, and those that it has removed.
    let tables = ["functions.tsv", "functions_v8_only.tsv"].map(|name| {
        let path = common::project_root().join("tests/data/abi").join(name);
        std::fs::read_to_string(path).expect("table of C functions")
    });
    Signatures::parse(&tables)
}

/// How a mode fared, in cases.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
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
fn strict(areas: &[Area], fail_fast: bool) -> Counts {
    let library = common::library();
    let scratch = common::scratch_dir("oracle-strict");
    let stubs = common::catalogue::stubs();
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
        if fail_fast && failed > 0 {
            break;
        }
    }
    print_row("all", &total);
    if failed > 0 {
        println!("strict mode: {failed} cases differ from the original (quirks not counted)");
    }
    Counts { passed: total[1], failed, skipped: total[2] }
}

fn print_row(name: &str, row: &[usize; 5]) {
    println!("{name:<28}{:>8}{:>9}{:>8}{:>9}{:>9}", row[0], row[1], row[2], row[3], row[4]);
}

/// The default mode: differs exactly where a departure promises it, and as promised; in all areas
/// together as often as is committed.
fn default_mode(areas: &[Area], are_all: bool) -> Counts {
    let library = common::library();
    let scratch = common::scratch_dir("oracle-default");
    let stubs = common::catalogue::stubs();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut compared, mut skipped, mut failed) = (0, 0, 0);
    let mut probes = Vec::new();
    // The quirks are what a failing setter leaves behind; where it no longer fails there is nothing
    // to compare.
    for area in areas.iter().filter(|area| !area.quirk) {
        let (cases, stubbed) = implemented(area, &stubs);
        let observations = replay::replay(&library, &scratch, &cases, &[]);
        compared += cases.len();
        skipped += stubbed;
        for (case, observation) in cases.iter().zip(&observations) {
            let promises = departures::promises(case);
            let differences = compare(case, observation);
            for (index, step) in case.steps.iter().enumerate() {
                let difference = differences.iter().find(|difference| difference.step == index);
                match (&promises[index], difference) {
                    (None, None) => {}
                    (Some(promise), Some(difference)) if kept(promise, difference) => {
                        *counts.entry(promise.departure).or_default() += 1;
                        probes.extend(probe(case, index, promise.status == departures::OK));
                    }
                    (promise, difference) => {
                        failed += 1;
                        if failed <= SHOWN {
                            let observed = difference.map(|difference| &difference.observed);
                            println!("  {}: {} = {:?}", case.id, step.call(), step.observed);
                            println!("    promised {promise:?}, observed {observed:?}");
                        }
                    }
                }
            }
        }
    }
    failed += round_trips(&probes, &replay::replay(&library, &scratch, &probes, &[]));
    println!(
        "default mode: {compared} cases compared, {skipped} skipped (stub), {} round trips",
        probes.len()
    );
    println!("{:<28}{:>8}", "departure", "steps");
    counts.iter().for_each(|(departure, count)| println!("{departure:<28}{count:>8}"));
    let table: String = counts.iter().map(|(departure, count)| format!("{departure}\t{count}\n")).collect();
    let path = common::project_root().join("tests/data/oracle/departures.tsv");
    let committed = std::fs::read_to_string(path).expect("committed counts");
    let committed: Vec<_> = committed.lines().filter(|line| !line.starts_with('#')).collect();
    if are_all && table.lines().collect::<Vec<_>>() != committed {
        println!("the counts are not the committed ones (departures.tsv): {committed:?}");
        failed += 1;
    }
    if failed > 0 {
        println!("default mode: {failed} failures");
    }
    Counts { passed: compared.saturating_sub(failed), failed, skipped }
}

fn kept(promise: &Promise, difference: &Difference) -> bool {
    let status = difference.observed.as_ref().and_then(|tokens| tokens.first()?.parse::<i64>().ok());
    let violated = difference.observed.iter().flatten().any(|token| token.starts_with('!'));
    status == Some(promise.status) && !violated
}

/// The case up to a setter that answered as promised, and then the getter that shows what it set,
/// or, if it was refused, that it set nothing.
fn probe(case: &Case, setter: usize, accepted: bool) -> Option<Case> {
    let list = |values: &[i64], rest: &str| {
        let mut tokens: Vec<_> = values.iter().map(i64::to_string).collect();
        tokens.resize(8, rest.to_owned());
        format!("[{}]", tokens.join(","))
    };
    let step = &case.steps[setter];
    let (function, request, outputs) = if let Some(tensor) = Tensor::of_setter(step).filter(|_| accepted) {
        let rank = tensor.rank as usize;
        let (dims, strides) =
            (list(&tensor.dims[..rank], "~"), list(&tensor.expected_strides()[..rank], "~"));
        let outputs = vec![tensor.data_type.to_string(), rank.to_string(), dims, strides];
        ("GetTensorNdDescriptor", "8 @ @ @8 @8", outputs)
    } else if let Some(filter) = Filter::of_setter(step) {
        // Every recorded filter is set once, so that a refused one is still all zeros.
        let scalars = if accepted { [filter.data_type, filter.format, filter.rank] } else { [0; 3] };
        let dims = if accepted { list(&filter.dims, "0") } else { list(&[], "0") };
        let outputs = scalars.iter().map(i64::to_string).chain([dims]).collect();
        ("GetFilterNdDescriptor", "8 @ @ @ @8", outputs)
    } else {
        return None;
    };
    let mut steps = case.steps[..=setter].to_vec();
    let args = [step.args[0].as_str()].into_iter().chain(request.split(' ')).map(str::to_owned).collect();
    let observed = [vec!["0".to_owned()], outputs].concat();
    steps.push(Step { function: function.to_owned(), args, observed });
    Some(Case { id: format!("{} (round trip)", case.id), steps })
}

/// What was set must be what is read back; returns the number of failures.
fn round_trips(probes: &[Case], observations: &[replay::Observation]) -> usize {
    let mut failed = 0;
    for (case, observation) in probes.iter().zip(observations) {
        let last = case.steps.len() - 1;
        for difference in compare(case, observation).iter().filter(|difference| difference.step == last) {
            show(&mut failed, case, difference);
        }
    }
    failed
}
