//! The tables of the original's C surface in `tests/data/abi`.

use std::path::Path;

/// One line of a table, read by column name.
pub struct Row<'a> {
    columns: &'a [String],
    cells: Vec<String>,
}

impl Row<'_> {
    /// The cell under `column`; an empty one where the table has nothing to say.
    pub fn get(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| name == column);
        self.cells.get(at.unwrap_or_else(|| panic!("no column {column}"))).map_or("", String::as_str)
    }

    /// Whether the cell says "yes".
    pub fn is(&self, column: &str) -> bool {
        self.get(column) == "yes"
    }
}

pub struct Table {
    columns: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Reads `tests/data/abi/<name>.tsv`.
    pub fn read(name: &str) -> Table {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/abi").join(name).with_extension("tsv");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
        let columns = lines.next().expect("a table has a line of column names");
        Table { columns, lines: lines.collect() }
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.lines.iter().map(|cells| Row { columns: &self.columns, cells: cells.clone() })
    }
}
