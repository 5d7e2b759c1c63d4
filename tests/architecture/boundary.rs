//! The exported functions: each has a row in the catalogue, and the row says what the source does.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue;
use crate::source::{Source, sources};

/// An exported function as the source defines it.
pub struct EntryPoint {
    /// File and line.
    pub place: String,
    pub name: String,
    /// The lines of its docstring, without their slashes.
    pub doc: Vec<String>,
    pub body: String,
}

impl EntryPoint {
    /// Whether all it does is to answer that it is not built.
    fn is_stub(&self) -> bool {
        let body = self.body.trim();
        body.starts_with("stub!(") || body.starts_with("stub_on!(")
    }
}

/// The exported functions of a file.
pub fn functions(source: &Source) -> Vec<EntryPoint> {
    let mut found = Vec::new();
    let mut doc = Vec::new();
    let mut exported = false;
    let mut lines = source.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        } else if line == "#[unsafe(no_mangle)]" {
            exported = true;
        } else if exported && line.contains("extern \"C\" fn ") {
            let (_, name) = line.split_once("extern \"C\" fn ").expect("as just asked");
            let name = name.split('(').next().unwrap_or_default().to_owned();
            let mut opened = line.ends_with('{');
            let mut body = String::new();
            for (_, line) in lines.by_ref() {
                match line {
                    "}" => break,
                    _ if opened => body += &format!("{line}\n"),
                    _ => opened = line.ends_with('{'),
                }
            }
            let place = format!("{}:{}", source.path, at + 1);
            found.push(EntryPoint { place, name, doc: std::mem::take(&mut doc), body });
            exported = false;
        } else if !line.starts_with("#[") && !line.starts_with(' ') {
            doc.clear();
            exported = false;
        }
    }
    found
}

#[test]
fn functions_are_found_in_a_source() {
    let text = "/// One line.\n///\n/// Status: none.\n#[unsafe(no_mangle)]\n#[deprecated]\npub extern \"C\" fn cudnnA(\n    \
                a: i32,\n) -> i32 {\n    stub!(cudnnA(a))\n}\n\n/// Not exported.\nfn b() {}\n\n/// Two.\n\
                #[unsafe(no_mangle)]\npub extern \"C\" fn cudnnC() -> i32 {\n    3\n}\n";
    let found = functions(&Source::new("src/capi/a.rs", text));
    let names: Vec<(&str, bool)> = found.iter().map(|f| (f.name.as_str(), f.is_stub())).collect();
    assert_eq!(names, [("cudnnA", true), ("cudnnC", false)]);
    assert_eq!(found[0].doc, ["One line.", "", "Status: none."]);
    assert_eq!(found[1].doc, ["Two."]);
    assert_eq!(found[1].body, "    3\n");
}

#[test]
fn the_catalogue_says_what_the_sources_do() {
    let rows = catalogue::rows();
    let listed: BTreeMap<&str, bool> = rows.iter().map(|row| (row.symbol, row.is_stub())).collect();
    assert_eq!(listed.len(), rows.len(), "a symbol has two rows");
    for row in &rows {
        assert!(
            ["stub", "host", "CPU", "CUDA", "CPU, CUDA"].contains(&row.core),
            "{}: {}",
            row.symbol,
            row.core
        );
        assert!(
            row.types.is_empty() || row.core.contains('C'),
            "{}: types of what does not compute",
            row.symbol
        );
    }
    let sources = sources();
    let defined: Vec<EntryPoint> =
        sources.iter().filter(|s| s.layer() == Some("capi")).flat_map(functions).collect();
    let names: BTreeSet<&str> = defined.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(
        names,
        listed.keys().copied().collect(),
        "symbols that are defined, and those of src/catalogue.tsv"
    );
    let wrong = |function: &&EntryPoint| listed[function.name.as_str()] != function.is_stub();
    let wrong: Vec<String> =
        defined.iter().filter(wrong).map(|f| format!("{}: {}", f.place, f.name)).collect();
    assert!(wrong.is_empty(), "src/catalogue.tsv is wrong about\n{}\n", wrong.join("\n"));
}
