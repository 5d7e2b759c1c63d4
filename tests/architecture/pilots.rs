//! What an operation costs: the list of files in CONTRIBUTING.md, against the tree.

use std::fs;
use std::path::Path;

use crate::source::sources;

/// Files that a family may add, and edit.
const MOST: usize = 5;

/// Where an operation is written and tested; it is mentioned elsewhere by who uses it.
const PARTS: &[&str] = &["src/", "tests/oracle/", "tests/numpy/"];

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn a_family_on_known_steps_costs_five_new_and_five_edited_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let (_, table) = text.split_once("### What the pilots cost").expect("the section is there");
    let rows: Vec<Vec<&str>> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let [heads, _, new, edited] = &rows[..] else {
        panic!("a head, a rule and two rows, not {}", rows.len())
    };
    for column in 1..heads.len() {
        let (new, edited) = (quoted(new[column]), quoted(edited[column]));
        assert!(new.len() <= MOST && edited.len() <= MOST, "{}: {new:?} {edited:?}", heads[column]);
        for file in new.iter().chain(&edited) {
            assert!(root.join(file).exists(), "{file} of {} is not there", heads[column]);
        }
        for function in quoted(heads[column]) {
            let name = function.trim_start_matches("cudnn");
            let mention = |path: &str| PARTS.iter().any(|part| path.starts_with(part));
            for source in sources().iter().filter(|s| mention(&s.path) && s.text.contains(name)) {
                let listed = new.iter().chain(&edited).any(|file| *file == source.path);
                assert!(listed, "{function}: {} is not in the list of CONTRIBUTING.md", source.path);
            }
        }
        assert!(heads[column].contains("cudnn"), "no function in {}", heads[column]);
    }
}
