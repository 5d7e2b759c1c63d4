//! Texts of what is planned, kept in a file: no result depends on most of it, but time and memory
//! do, so that it changes on purpose only. `CUDNN_SHIM_TEST_WRITE=1` writes a file anew.
//!
//! A line names a problem, and the lines below it, further in, say what it is planned as.

use std::fs;
use std::path::Path;

/// What stands of a line; of the rest a hash.
const WIDTH: usize = 120;

/// So many problems are printed that are planned otherwise; all are counted.
const SHOWN: usize = 10;

/// FNV-1a.
pub fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A line as a file has it.
pub fn short(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        None => line.to_owned(),
        Some((end, _)) => format!("{} ... {} bytes, {:08x}", &line[..end], line.len(), hash(line)),
    }
}

/// The problems of a text, each with what is below it.
fn problems(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut problems: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(plan) => problems.last_mut().expect("a problem comes first").1.push(plan),
            None => problems.push((line, Vec::new())),
        }
    }
    problems
}

/// How many problems of `text` are planned otherwise than the file of this name in `tests/data`
/// says, which keeps others as well that are not `asked`. `how` is what writes it.
///
/// # Panics
/// There is no such file.
pub fn compare(name: &str, how: &str, text: &str, asked: impl Fn(&str) -> bool) -> usize {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name);
    if std::env::var_os("CUDNN_SHIM_TEST_WRITE").is_some() {
        let before = fs::read_to_string(&file).unwrap_or_default();
        let mut whole =
            format!("# What problems are planned as, written by\n# CUDNN_SHIM_TEST_WRITE=1 {how}\n{text}");
        for (problem, plans) in problems(&before).into_iter().filter(|(problem, _)| !asked(problem)) {
            whole += &format!("{problem}\n");
            plans.iter().for_each(|plan| whole += &format!("  {plan}\n"));
        }
        fs::write(&file, whole).expect("the file can be written");
    }
    let known = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (mut known, found) = (problems(&known), problems(text));
    known.retain(|(name, _)| asked(name));
    let other: Vec<_> = known.iter().zip(&found).filter(|(known, found)| known != found).collect();
    for ((problem, known), (found_problem, found)) in other.iter().take(SHOWN) {
        println!("{problem} is planned otherwise than {name} says ({found_problem}):");
        known.iter().filter(|line| !found.contains(line)).for_each(|line| println!("- {line}"));
        found.iter().filter(|line| !known.contains(line)).for_each(|line| println!("+ {line}"));
    }
    println!("{} problems are planned, {} otherwise than before", found.len(), other.len());
    other.len() + known.len().abs_diff(found.len())
}
