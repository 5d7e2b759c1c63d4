//! The two versions of the interface: where their headers lie, and what the tables say of each.

use std::path::{Path, PathBuf};

use crate::table::Table;

/// One version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// 9.27, `libcudnn.so.9`.
    Nine,
    /// 8.9.7, `libcudnn.so.8`.
    Eight,
}

pub const BOTH: [Interface; 2] = [Interface::Nine, Interface::Eight];

/// A function that a header declares.
pub struct Declaration {
    pub name: String,
    pub result: String,
    /// As the table spells them: `type name` joined by `; `.
    pub parameters: String,
    pub deprecated: bool,
}

impl Interface {
    /// The folder of its headers.
    pub fn include(self) -> PathBuf {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        if self == Interface::Nine { include } else { include.join("v8") }
    }

    /// The column that holds its values.
    pub fn values(self) -> &'static str {
        if self == Interface::Nine { "value_9.27" } else { "value_8.9.7" }
    }

    /// The column that tells whether it has something.
    pub fn presence(self) -> &'static str {
        if self == Interface::Nine { "in_9.27" } else { "in_8.9.7" }
    }

    /// Major, minor, patch level.
    pub fn version(self) -> [&'static str; 3] {
        if self == Interface::Nine { ["9", "27", "0"] } else { ["8", "9", "7"] }
    }

    /// What programs ask the dynamic linker for; also the version of every symbol.
    pub fn soname(self) -> &'static str {
        if self == Interface::Nine { "libcudnn.so.9" } else { "libcudnn.so.8" }
    }

    /// The symbols of the original's library: the rows of a table.
    pub fn symbols(self) -> Table {
        Table::read(if self == Interface::Nine { "symbols" } else { "symbols_v8" })
    }

    /// What the original of this version declares.
    pub fn functions(self) -> Vec<Declaration> {
        match self {
            Interface::Nine => read("functions", "deprecated_9.27", "exported_libcudnn.so.9"),
            Interface::Eight => {
                let mut functions = read("functions", "deprecated_8.9.7", "in_8.9.7");
                functions.extend(read("functions_v8_only", "deprecated_8.9.7", "in_8.9.7"));
                functions
            }
        }
    }

    /// What only earlier versions of the original declare; as deprecated as it was there.
    pub fn restored(self) -> Vec<Declaration> {
        let mut functions = read("functions_v7_only", "deprecated_8.9.7", "");
        if self == Interface::Nine {
            functions.extend(read("functions_v8_only", "deprecated_8.9.7", "in_8.9.7"));
        }
        functions
    }

    /// The names of the calls that `cudnn_shim.h` declares.
    pub fn extensions(self) -> Vec<String> {
        let text = std::fs::read_to_string(self.include().join("cudnn_shim.h")).expect("the header exists");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let declared = text.split("\ncudnnStatus_t ").skip(1);
        declared.map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default().to_owned()).collect()
    }
}

/// The rows of a table for which `present` says yes, or all without that column.
fn read(table: &str, deprecated: &str, present: &str) -> Vec<Declaration> {
    let table = Table::read(table);
    let rows = table.rows().filter(|row| present.is_empty() || row.is(present));
    rows.map(|row| Declaration {
        name: row.get("name").to_owned(),
        result: row.get("return_type").to_owned(),
        parameters: row.get("parameters").to_owned(),
        deprecated: row.is(deprecated),
    })
    .collect()
}
