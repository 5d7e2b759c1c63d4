//! What an operation costs: the list of files in CONTRIBUTING.md, against the tree.

use std::fs;
use std::path::Path;

use crate::source::sources;

/// Files that a family may add, and edit.
const MOST: usize = 5;

/// Where an operation is written and tested; it is mentioned elsewhere by who uses it.
const PARTS: &[&str] = &["src/", "tests/oracle/", "tests/numpy/"];

/// A file of such a place that lists the calls of all layers, as who uses them.
const LISTS: &str = "tests/numpy/calls.py";

/// Who serves calls beside the original: a family without a row is served by this library.
const ROUTES: &str = "src/original/";

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Whether a text speaks of a function, by its full name or as the recordings call it, and not only
/// of one whose name ends alike.
fn mentions(text: &str, function: &str) -> bool {
    let name = function.trim_start_matches("cudnn");
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end_matches("cudnn");
        !before.ends_with(|c: char| c.is_alphanumeric())
    })
}

/// The tables of the section, each with its rows.
fn tables(text: &str) -> Vec<Vec<Vec<&str>>> {
    let (_, section) = text.split_once("### What the pilots cost").expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut tables: Vec<Vec<Vec<&str>>> = vec![Vec::new()];
    for line in section.lines() {
        match tables.last_mut() {
            Some(rows) if line.starts_with('|') => rows.push(cells(line)),
            Some(rows) if !rows.is_empty() => tables.push(Vec::new()),
            _ => {}
        }
    }
    tables.retain(|rows| !rows.is_empty());
    tables
}

#[test]
fn names_are_told_from_those_that_end_alike() {
    assert!(mentions("x(cudnnActivationForward)", "cudnnActivationForward"));
    assert!(mentions("\"ActivationForward\" =>", "cudnnActivationForward"));
    assert!(!mentions("cudnnConvolutionBiasActivationForward", "cudnnActivationForward"));
}

#[test]
fn a_family_on_known_steps_costs_five_new_and_five_edited_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let tables = tables(&text);
    let [on_known_steps, with_steps] = &tables[..] else { panic!("two tables, not {}", tables.len()) };
    let [heads, _, new, edited] = &on_known_steps[..] else {
        panic!("a head, a rule and two rows, not {}", on_known_steps.len())
    };
    for column in 1..heads.len() {
        let (new, edited) = (quoted(new[column]), quoted(edited[column]));
        assert!(new.len() <= MOST && edited.len() <= MOST, "{}: {new:?} {edited:?}", heads[column]);
    }
    assert!(with_steps.len() == 5, "a head, a rule and three rows, not {}", with_steps.len());
    // Who brings steps is judged by the list alone.
    for (rows, column) in tables.iter().flat_map(|rows| (1..rows[0].len()).map(move |column| (rows, column)))
    {
        let heads = &rows[0];
        let listed: Vec<&str> = rows[2..].iter().flat_map(|row| quoted(row[column])).collect();
        for file in &listed {
            assert!(root.join(file).exists(), "{file} of {} is not there", heads[column]);
        }
        for function in quoted(heads[column]) {
            let is_part = |path: &str| {
                path != LISTS && !path.starts_with(ROUTES) && PARTS.iter().any(|part| path.starts_with(part))
            };
            for source in sources().iter().filter(|s| is_part(&s.path) && mentions(&s.text, function)) {
                let is_listed = listed.contains(&source.path.as_str());
                assert!(is_listed, "{function}: {} is not in the list of CONTRIBUTING.md", source.path);
            }
        }
        assert!(heads[column].contains("cudnn"), "no function in {}", heads[column]);
    }
}
