//! Tables of text: the facts about the original's C surface in `tests/data/abi`, and the catalogue
//! of symbols.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell;

/// One line of a table: cells by column name.
pub type Row = BTreeMap<String, String>;

/// Reads `tests/data/abi/<name>.tsv`.
pub fn read(name: &str) -> Result<Vec<Row>> {
    read_file(&shell::root().join("tests/data/abi").join(name).with_extension("tsv"))
}

/// Reads a table of cells that tabs separate, with a line of column names behind comments; cells
/// may be missing at a line's end.
pub fn read_file(path: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.map(|line| line.split('\t').map(str::to_owned));
    let columns: Vec<String> = lines.next().context("the table is empty")?.collect();
    Ok(lines.map(|cells| columns.iter().cloned().zip(cells).collect()).collect())
}
