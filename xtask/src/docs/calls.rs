//! What the sources and headers say of each exported call.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::{matrix, shell};

/// An exported call.
pub struct Call {
    pub name: String,
    /// What it belongs to, as MATRIX.md groups it: `legacy-ops: pooling`.
    pub group: String,
    /// `stub`, or where it computes.
    pub core: String,
    /// The types that it takes; empty if it does not compute.
    pub types: String,
    /// Its docstring, without slashes.
    pub doc: Vec<String>,
    /// The header that declares it, and its prototype there.
    pub declared: Option<(&'static str, String)>,
}

/// The headers in the order in which they are asked for a prototype.
const HEADERS: [(&str, &str); 3] = [
    ("cudnn.h", "include/cudnn.h"),
    ("cudnn.h of version 8", "include/v8/cudnn.h"),
    ("cudnn_shim.h", "include/cudnn_shim.h"),
];

/// Every call of the catalogue, group by group.
pub fn read() -> Result<Vec<Call>> {
    let mut docs = BTreeMap::new();
    let folder = shell::root().join("src/capi/functions");
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "rs") {
            docs.extend(docstrings(&fs::read_to_string(&path)?));
        }
    }
    let mut headers = Vec::new();
    for (name, file) in HEADERS {
        headers.push((name, prototypes(&fs::read_to_string(shell::root().join(file))?)));
    }
    let declared = |name: &str| {
        headers.iter().find_map(|(header, found)| found.get(name).map(|text| (*header, text.clone())))
    };
    let symbols = matrix::catalogued()?.into_iter();
    let mut calls = symbols
        .map(|symbol| {
            let doc =
                docs.remove(&symbol.name).with_context(|| format!("{} is defined nowhere", symbol.name))?;
            let declared = declared(&symbol.name);
            let group = format!("{}: {}", symbol.group, symbol.subgroup);
            Ok(Call { name: symbol.name, group, core: symbol.core, types: symbol.types, doc, declared })
        })
        .collect::<Result<Vec<Call>>>()?;
    calls.sort_by(|one, other| one.group.cmp(&other.group));
    Ok(calls)
}

/// The docstrings of the exported functions of a source, by name.
fn docstrings(source: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let (mut doc, mut exported) = (Vec::new(), false);
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        } else if line == "#[unsafe(no_mangle)]" {
            exported = true;
        } else if let Some((_, name)) = line.split_once("extern \"C\" fn ").filter(|_| exported) {
            let name = name.split('(').next().unwrap_or_default();
            found.insert(name.to_owned(), std::mem::take(&mut doc));
            exported = false;
        } else if !line.starts_with("#[") {
            doc.clear();
            exported = false;
        }
    }
    found
}

/// The prototypes of a header, by name.
fn prototypes(header: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        let name = line.split('(').next().and_then(|head| head.rsplit([' ', '*']).next()).unwrap_or_default();
        let begins = line.contains('(') && line.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || !name.starts_with("cudnn") || line.starts_with("typedef") {
            continue;
        }
        let mut text = line.to_owned();
        while !text.ends_with(';') {
            let Some(next) = lines.next() else { break };
            text = text + "\n" + next;
        }
        found.insert(name.to_owned(), text);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docstrings_are_those_of_exported_functions() {
        let source = "/// Lost.\nfn a() {\n}\n\n/// One.\n///\n/// Two.\n#[unsafe(no_mangle)]\n#[deprecated]\npub extern \
                      \"C\" fn cudnnA(\n    a: i32,\n) {\n}\n";
        let found = docstrings(source);
        assert_eq!(found.len(), 1);
        assert_eq!(found["cudnnA"], ["One.", "", "Two."]);
    }

    #[test]
    fn prototypes_may_take_lines() {
        let header = "/** cudnnX(); */\nvoid cudnnA(int a,\n            int b);\nconst char *cudnnB(int a);\n\
                      typedef void (*cudnnC)(int);\n";
        let found = prototypes(header);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["cudnnA", "cudnnB"]);
        assert_eq!(found["cudnnA"], "void cudnnA(int a,\n            int b);");
    }
}
