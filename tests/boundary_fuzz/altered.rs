//! What problems answer of which one number is another one: who sees it, and which rule says what
//! is wrong with it. `tests/data/altered.txt` has some of each kind.
//!
//! Numbers become less, never more, and buffers have room for elements of any type: what is still a
//! problem, though another one, stays inside of them.

use testkit::random::Rng;
use testkit::snapshot;

use crate::problem::Bench;
use crate::{common, draw, library, plans};

/// Set in a child process to the name of its mode.
const CHILD: &str = "CUDNN_SHIM_FUZZ_ALTERED";

/// Problems of each kind, and alterations of each.
const OF_KIND: u64 = 20;
const ALTERATIONS: u64 = 3;

/// Bytes of the widest element for each of the narrowest.
const ROOM: i64 = 8;

/// Attributes of the graph interface that say which buffer is whose.
const NAMES: [&str; 5] = ["906", "1000", "1001", "1003", "1004"];

/// The part of the program that runs in a child process; returns whether this is one.
pub fn run_as_child() -> bool {
    let Ok(mode) = std::env::var(CHILD) else { return false };
    let mut bench = Bench::new(library(), "cpu");
    bench.room = ROOM;
    for kind in draw::kinds() {
        for number in 0..OF_KIND {
            let line = draw::problem(&mut Rng(0x0a17_e2ed_0000 + number), &[kind.to_owned()]);
            for alteration in 0..ALTERATIONS {
                let mut rng = Rng(number * ALTERATIONS + alteration + 1);
                let Some((line, call)) = altered(&mut rng, &line) else { continue };
                println!("{mode} {kind} {number}.{alteration}: {call}");
                let run = bench.run_tested(&line, &mut |call, _| call());
                let calls = run.answers.len();
                let last = line.split("; ").nth(calls - 1).and_then(|call| call.split(' ').next());
                let text = match run.reason.as_str() {
                    "" => "every call answers 0".to_owned(),
                    reason => {
                        format!("{} answers {}: {reason}", last.unwrap_or_default(), run.answers[calls - 1])
                    }
                };
                println!("  {}", snapshot::short(&text));
            }
        }
    }
    true
}

/// A line with one number less, and the call that has it; `None` for lines that set nothing.
fn altered(rng: &mut Rng, line: &str) -> Option<(String, String)> {
    let calls: Vec<&str> = line.split("; ").collect();
    let mut numbers = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let mut words = call.split(' ');
        let is_setting = match words.next()? {
            "BackendSetAttribute" => words.nth(1).is_some_and(|attribute| !NAMES.contains(&attribute)),
            // Packs have their settings behind pointers.
            name => name.starts_with("Set") && !name.starts_with("SetFusedOps"),
        };
        // Of an attribute only its values.
        let from = if call.starts_with("Backend") { call.find('[') } else { call.find(' ') };
        if let (true, Some(from)) = (is_setting, from) {
            numbers.extend(positive(call, from).map(|span| (at, span)));
        }
    }
    if numbers.is_empty() {
        return None;
    }
    let (at, span) = numbers[rng.below(numbers.len())].clone();
    let value: i64 = calls[at][span.clone()].parse().ok()?;
    let less = [0, 1, value / 2, value - 1].into_iter().filter(|&less| less < value).collect::<Vec<_>>();
    let mut call = calls[at].to_owned();
    call.replace_range(span, &less[rng.below(less.len())].to_string());
    let all: Vec<&str> =
        calls.iter().enumerate().map(|(k, of)| if k == at { call.as_str() } else { of }).collect();
    Some((all.join("; "), call))
}

/// Where the positive integers of a call are that stand alone or in lists, from a byte on.
fn positive(call: &str, from: usize) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let is_between = |byte: u8| matches!(byte, b' ' | b',' | b'[' | b']');
    let bytes = call.as_bytes();
    let mut at = from;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            while at < bytes.len() && !is_between(bytes[at]) {
                at += 1;
            }
            let span = begin..at;
            at += 1;
            if call[span.clone()].parse::<i64>().is_ok_and(|value| value > 0) {
                return Some(span);
            }
        }
        None
    })
}

/// Runs all of them, and returns how many answer otherwise than the file says.
pub fn run() -> usize {
    let answers = |(mode, is_strict)| {
        plans::told(common::itself().env(CHILD, mode).env("CUDNN_SHIM_STRICT", is_strict))
    };
    let text: String = [("default", "0"), ("strict", "1")].map(answers).concat();
    snapshot::compare("altered.txt", "cargo test --test boundary_fuzz -- altered", &text, |_| true)
}
