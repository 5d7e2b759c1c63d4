//! Budgets of what listed steps ask of memory: 32-byte sectors of a warp's access, and divisions
//! per element, as the driver double counts them in the kernels' sources.
//! `tests/data/gpu_traffic.tsv` has a line for each; `CUDNN_SHIM_TEST_WRITE=1` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cudnn::exec::{Address, Context};
use cudnn::ops::{Operand, Plan};

use crate::complaints::{self, Start};
use crate::cores::Cores;
use crate::double::{self, Memory, Runs, Traffic};
use crate::{child, common};
use testkit::problems;
use testkit::steps::{self, Row, Vary};

/// Turns of all loops of a row together at most, and bytes of a transform at which its extents are
/// halved no more: the driver double is a slow device.
const TURNS: i64 = 4_000;
const BYTES: usize = 96 << 10;
const MOST: usize = 1 << 20;
/// Extents are not halved below it: tiles are that wide.
const SHORTEST: i64 = 32;
const FILE: &str = "tests/data/gpu_traffic.tsv";
const HEAD: &str = "\
# What a part of each listed row asks of memory, as the driver double counts it: 32-byte sectors of an access of a warp, read and
# written, how many times the bytes that its lanes want those hold, and divisions for each 16 bytes written.
row\tread\ttimes\twritten\ttimes\tdivisions
";

/// Bytes of the widest access.
const VECTOR: i64 = 16;

/// Where element 0 of an operand lies in its buffer: off a vector as far as in memory that begins
/// at one.
fn first(operand: &Operand) -> isize {
    (operand.span.0.rem_euclid(VECTOR) - operand.span.0) as isize
}

/// Runs a plan on memory of the device that holds zeros.
fn run(cuda: &Context, plan: &dyn Plan) -> bool {
    let operands = plan.operands();
    let held: Vec<Memory> = operands
        .iter()
        .map(|operand| Memory::new(&vec![0; (operand.span.1 - operand.span.0) as usize + VECTOR as usize]))
        .collect();
    let places = held.iter().zip(operands).map(|(memory, operand)| match operand.span.0 == operand.span.1 {
        true => Address::NULL,
        false => Address::from(memory.pointer().wrapping_byte_offset(first(operand))),
    });
    let places: Vec<Address> = places.collect();
    // SAFETY: all buffers hold their operands' whole spans, at multiples of their scalars.
    let ran = unsafe { cuda.run(plan, &places) }.is_ok();
    // Results are fetched, so that everything is done.
    held.iter().for_each(|memory| _ = memory.read());
    ran
}

/// The columns of a row behind its name.
fn columns([read, written]: [Traffic; 2], divisions: u64) -> [f64; 5] {
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    [
        ratio(read.sectors, read.accesses),
        ratio(32 * read.sectors, read.bytes),
        ratio(written.sectors, written.accesses),
        ratio(32 * written.sectors, written.bytes),
        ratio(16 * divisions, written.bytes),
    ]
}

/// A part of a transform that its kernels see no difference in: extents stay odd, or multiples of
/// what vectors need.
fn part_of(problem: problems::Row) -> problems::Row {
    let mut part = problem.with_batch_for(1, true).unwrap_or(problem);
    while part.bytes() > BYTES {
        let halves =
            |&k: &usize| part.dims[k] >= 2 * SHORTEST && (part.dims[k] % 8 == 0 || part.dims[k] % 2 == 1);
        let longest = (0..part.dims.len()).filter(halves).max_by_key(|&k| part.dims[k]);
        let Some(longest) = longest else { break };
        part = part.with_extent(longest, (part.dims[longest] / 2) | (part.dims[longest] % 2));
    }
    part
}

/// Every row's figures now.
fn counted(cuda: &Context) -> BTreeMap<String, [f64; 5]> {
    let mut rows = BTreeMap::new();
    let mut count = |name: &str, plan: &dyn Plan| {
        double::traffic();
        if run(cuda, plan) {
            let (traffic, divisions) = double::traffic();
            rows.insert(name.to_owned(), columns(traffic, divisions));
        }
    };
    for problem in problems::read() {
        for problem in [problem.inverse(), problem] {
            let part = part_of(problem);
            // What has many short dimensions stays large.
            if part.bytes() <= MOST {
                count(&problem_name(&part.name), &part.tensors().plan());
            }
        }
    }
    for step in steps::of_both_cores() {
        count(&step.name, &Row::new(&step.name, step.step.shrunk(TURNS)).expect("a part of the step"));
    }
    rows
}

/// Transforms and steps may have the same name.
fn problem_name(name: &str) -> String {
    format!("transform {name}")
}

fn text(rows: &BTreeMap<String, [f64; 5]>) -> String {
    let mut text = HEAD.to_owned();
    for (name, figures) in rows {
        write!(text, "{name}").expect("a string takes all");
        figures.iter().for_each(|figure| write!(text, "\t{figure:.2}").expect("a string takes all"));
        text.push('\n');
    }
    text
}

fn budgets_are_kept() {
    let rows = counted(&Cores::new().cuda);
    let file = common::project_root().join(FILE);
    if std::env::var_os("CUDNN_SHIM_TEST_WRITE").is_some() {
        return std::fs::write(file, text(&rows)).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(file).expect("the committed budgets");
    let wrong = departures(&committed, &rows);
    assert!(
        wrong.is_empty(),
        "what is asked of memory is not what the budgets of {FILE} allow; CUDNN_SHIM_TEST_WRITE=1 writes them\n{}",
        wrong.join("\n")
    );
    println!("{} rows are within their budgets", rows.len());
}

/// What is wrong with the rows' figures by the committed budgets: more than they allow, no row for
/// a budget, or no budget for a row.
fn departures(committed: &str, rows: &BTreeMap<String, [f64; 5]>) -> Vec<String> {
    const NAMES: [&str; 5] =
        ["sectors read", "times the bytes read", "sectors written", "times the bytes written", "divisions"];
    let mut wrong = Vec::new();
    let mut compared = BTreeSet::new();
    for line in committed.lines().skip_while(|line| !line.starts_with("row\t")).skip(1) {
        let (name, figures) = line.split_once('\t').expect("a name and its figures");
        compared.insert(name);
        let Some(now) = rows.get(name) else {
            wrong.push(format!("{name}: there is no such row any more"));
            continue;
        };
        for ((figure, now), what) in figures.split('\t').zip(now).zip(NAMES) {
            let budget: f64 = figure.parse().expect("a number");
            if *now > budget * 1.02 + 0.01 {
                wrong.push(format!("{name}: {now:.2} {what}, its budget is {budget:.2}"));
            }
        }
    }
    let unknown = rows.keys().filter(|name| !compared.contains(name.as_str()));
    wrong.extend(unknown.map(|name| format!("{name}: there is no budget for it")));
    wrong
}

#[test]
fn departures_from_the_budgets_are_found() {
    let row = |name: &str, read| (name.to_owned(), [read, 1.0, 4.0, 1.0, 0.0]);
    let committed = text(&BTreeMap::from([row("kept", 16.0), row("worse", 4.0), row("gone", 4.0)]));
    let now = BTreeMap::from([row("kept", 16.0), row("worse", 8.0), row("new", 4.0)]);
    let wrong = departures(&committed, &now);
    let want = [
        "gone: there is no such row any more",
        "worse: 8.00 sectors read, its budget is 4.00",
        "new: there is no budget for it",
    ];
    assert_eq!(wrong, want);
}

/// The counter itself, on one access of a warp to neighbours, and on ones to what lies apart: twice
/// as many sectors for as many bytes. A vector is one access.
#[test]
fn sectors_of_a_warp_are_counted() {
    child::run(&complaints::libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&complaints::ints(0..64));
        let text = complaints::ptx(complaints::KERNELS, 16);
        let read = |start: Start| {
            double::traffic();
            assert_eq!(start.run(&text, memory.address), 0);
            let ([read, _], _) = double::traffic();
            (read.accesses, read.sectors, read.bytes)
        };
        let apart = |choice| Start { threads: 32, choice, ..Start::of("reads_apart") };
        assert_eq!(read(apart(1)), (1, 4, 128));
        assert_eq!(read(apart(2)), (1, 8, 128));
        assert_eq!(read(Start { threads: 64, ..apart(1) }), (2, 8, 256));
        assert_eq!(read(Start { threads: 1, choice: 2, ..Start::of("misaligned_vector") }), (1, 1, 16));
    });
}

#[test]
fn listed_steps_ask_no_more_of_memory_than_their_budgets() {
    if double::is_real() {
        println!("skipped: a real driver counts no sectors");
        return;
    }
    // PTX has vectors in other parts; what it asks for is counted for `tests/data/gpu_issue.tsv`.
    child::run(&double::of(Runs::Source), &[], budgets_are_kept);
}
