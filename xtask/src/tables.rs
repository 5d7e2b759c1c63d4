//! The facts about the original's C surface in `tests/data/abi`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::shell;

/// One line of a table: cells by column name.
pub type Row = BTreeMap<String, String>;

/// Reads `tests/data/abi/<name>.tsv`: tab-separated, with a line of column names.
pub fn read(name: &str) -> Result<Vec<Row>> {
    let path = shell::root().join("tests/data/abi").join(name).with_extension("tsv");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
    let columns: Vec<String> = lines.next().context("the table is empty")?.collect();
    Ok(lines.map(|cells| columns.iter().cloned().zip(cells).collect()).collect())
}
