//! The exported functions: each has a row in the catalogue, which says what the source does, and a
//! docstring of one shape.

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
    /// Whether it returns a status.
    pub tells: bool,
    /// Whether it runs inside `#[entry]`: the panic boundary, the last error, the log.
    pub guarded: bool,
    pub body: String,
}

impl EntryPoint {
    /// Whether all it does is to answer that it is not built.
    fn is_stub(&self) -> bool {
        self.body.trim() == "Err(Error::unsupported(NOT_BUILT))"
    }

    /// What its docstring lacks. All say in one line what they do, then, where they return one,
    /// which statuses; those that compute give the formula in that line, and have all [`SECTIONS`]
    /// in their order, with lists of operands and statuses, or the name of the function that they
    /// share them with.
    fn faults(&self, computes: bool) -> Vec<String> {
        let at = |section: &str| {
            let begins = |line: &String| {
                line.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ':']))
            };
            self.doc.iter().position(begins)
        };
        let mut faults = Vec::new();
        if self.doc.is_empty() || self.doc.get(1).is_some_and(|line| !line.is_empty()) {
            faults.push("its first paragraph is not one line".to_owned());
        }
        if self.tells && at("Status").is_none() {
            faults.push("no `Status`".to_owned());
        }
        if self.tells != self.guarded {
            faults.push("#[entry] belongs to functions that return a status, and to no others".to_owned());
        }
        let literals = self.body.split('"').skip(1).step_by(2);
        let is_name = |text: &&str| {
            text.starts_with("cudnn") && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        for other in literals.filter(is_name).filter(|name| *name != self.name) {
            faults.push(format!("listeners hear of it as {other}"));
        }
        if computes {
            if !self.doc.first().is_some_and(|line| line.contains('`')) {
                faults.push("no formula in the first line".to_owned());
            }
            let places = SECTIONS.map(at);
            faults.extend(
                SECTIONS
                    .iter()
                    .zip(places)
                    .filter(|(_, place)| place.is_none())
                    .map(|(s, _)| format!("no `{s}`")),
            );
            if !places.iter().flatten().is_sorted() {
                faults.push(format!("not in the order {SECTIONS:?}"));
            }
            for (section, place) in [("Operands", places[0]), ("Status", places[2])] {
                let Some(place) = place else { continue };
                let lists = self.doc.get(place + 1).is_some_and(|line| line.starts_with("- "));
                if !lists && !self.doc[place].contains("as cudnn") {
                    faults.push(format!("`{section}` has no list"));
                }
            }
        }
        faults
    }
}

/// The parts of the docstring of a function that computes, behind its formula.
const SECTIONS: [&str; 6] = ["Operands", "Workspace", "Status", "Aliasing", "Source", "# Safety"];

/// The exported functions of a file.
pub fn functions(source: &Source) -> Vec<EntryPoint> {
    let mut found = Vec::new();
    let mut doc = Vec::new();
    let (mut exported, mut guarded) = (false, false);
    let mut lines = source.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        } else if line == "#[unsafe(no_mangle)]" {
            exported = true;
        } else if line == "#[entry]" {
            guarded = true;
        } else if exported && line.contains("extern \"C\" fn ") {
            let (_, name) = line.split_once("extern \"C\" fn ").expect("as just asked");
            let name = name.split('(').next().unwrap_or_default().to_owned();
            let mut opened = line.ends_with('{');
            let mut tells = line.contains("-> cudnnStatus_t");
            let mut body = String::new();
            for (_, line) in lines.by_ref() {
                match line {
                    "}" => break,
                    _ if opened => body += &format!("{line}\n"),
                    _ => {
                        opened = line.ends_with('{');
                        tells |= line.contains("-> cudnnStatus_t");
                    }
                }
            }
            let place = format!("{}:{}", source.path, at + 1);
            found.push(EntryPoint { place, name, doc: std::mem::take(&mut doc), tells, guarded, body });
            (exported, guarded) = (false, false);
        } else if !line.starts_with("#[") && !line.starts_with(' ') {
            doc.clear();
            (exported, guarded) = (false, false);
        }
    }
    found
}

#[test]
fn functions_are_found_in_a_source() {
    let text = "/// One line.\n///\n/// Status: none.\n#[entry]\n#[unsafe(no_mangle)]\n#[deprecated]\npub extern \"C\" fn cudnnA(\n    \
                a: i32,\n) -> cudnnStatus_t {\n    Err(Error::unsupported(NOT_BUILT))\n}\n\n/// Not exported.\nfn b() {}\n\n/// Two.\n\
                #[unsafe(no_mangle)]\npub extern \"C\" fn cudnnC() -> i32 {\n    3\n}\n";
    let found = functions(&Source::new("src/capi/a.rs", text));
    let names: Vec<(&str, bool)> = found.iter().map(|f| (f.name.as_str(), f.is_stub())).collect();
    assert_eq!(names, [("cudnnA", true), ("cudnnC", false)]);
    assert_eq!(found[0].doc, ["One line.", "", "Status: none."]);
    assert_eq!(
        found.iter().map(|f| (f.tells, f.guarded)).collect::<Vec<_>>(),
        [(true, true), (false, false)]
    );
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

/// Callers read these instead of a manual.
#[test]
fn what_is_built_is_documented_in_one_shape() {
    let rows = catalogue::rows();
    let rows: BTreeMap<&str, _> = rows.iter().map(|row| (row.symbol, row)).collect();
    let mut wrong = Vec::new();
    let mut computing = 0;
    for source in sources().iter().filter(|source| source.layer() == Some("capi")) {
        for function in functions(source).iter().filter(|function| !function.is_stub()) {
            let computes = rows.get(function.name.as_str()).is_some_and(|row| row.core.contains('C'));
            computing += usize::from(computes);
            let faults = function.faults(computes).into_iter();
            wrong.extend(faults.map(|fault| format!("{} {}: {fault}", function.place, function.name)));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(computing >= 44, "{computing} functions compute");
}

#[test]
fn docstrings_of_another_shape_are_found() {
    let good = "/// `y = x`.\n///\n/// Operands\n/// - `x`, `y`\n///\n/// Workspace: none.\n///\n/// Status, in this \
                order: as cudnnB.\n///\n/// Aliasing: none.\n///\n/// Source: none.\n///\n/// # Safety\n/// None.\n";
    let faults_of = |doc: &str, attribute: &str, body: &str| {
        let text = format!(
            "{doc}{attribute}#[unsafe(no_mangle)]\npub extern \"C\" fn cudnnA() -> cudnnStatus_t {{\n    {body}\n}}\n"
        );
        functions(&Source::new("src/capi/a.rs", &text))[0].faults(true)
    };
    let faults = |doc: &str| faults_of(doc, "#[entry]\n", "compute(\"cudnnA\", \"cudnnB is a sentence\")");
    assert_eq!(faults_of(good, "", "3").len(), 1);
    assert_eq!(faults_of(good, "#[entry]\n", "compute(\"cudnnB\")"), ["listeners hear of it as cudnnB"]);
    assert_eq!(faults(good), Vec::<String>::new());
    for (part, other, fault) in [
        ("`y = x`.\n", "`y = x`,\n/// in two lines.\n", "its first paragraph is not one line"),
        ("`y = x`", "A copy", "no formula in the first line"),
        ("/// - `x`, `y`\n", "/// `x`, `y`\n", "`Operands` has no list"),
        ("Workspace: none.", "No workspace.", "no `Workspace`"),
        ("as cudnnB", "BAD_PARAM", "`Status` has no list"),
        ("Aliasing: none.", "Source: none.", "no `Aliasing`"),
        ("# Safety", "Safety", "no `# Safety`"),
    ] {
        assert_eq!(faults(&good.replace(part, other)), [fault], "{part}");
    }
    let turned =
        good.replace("Workspace", "W").replace("Aliasing", "Workspace").replace("/// W:", "/// Aliasing:");
    assert_eq!(faults(&turned), [format!("not in the order {SECTIONS:?}")]);
}
