//! What is built: the rows of `src/catalogue.tsv`, one per exported symbol.
#![allow(dead_code, reason = "every test program uses its own part of this module")]

use std::collections::BTreeSet;

const TABLE: &str = include_str!("../../src/catalogue.tsv");

/// One exported symbol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub symbol: &'static str,
    /// `stub`, or where it computes: `host` for a call that works on the host whatever the core.
    pub core: &'static str,
    /// The element types of a call that computes.
    pub types: &'static str,
}

impl Row {
    pub fn is_stub(&self) -> bool {
        self.core == "stub"
    }
}

/// All rows, in the order of the table.
pub fn rows() -> Vec<Row> {
    let mut lines = TABLE.lines();
    assert_eq!(lines.next(), Some("symbol\tcore\ttypes"), "the columns of the catalogue");
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let mut cell = || cells.next().unwrap_or_default();
            Row { symbol: cell(), core: cell(), types: cell() }
        })
        .collect()
}

/// The functions that are exported and not built.
pub fn stubs() -> BTreeSet<String> {
    rows().iter().filter(|row| row.is_stub()).map(|row| row.symbol.to_owned()).collect()
}
