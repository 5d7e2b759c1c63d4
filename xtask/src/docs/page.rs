//! The page of a call - signature, formula, operands, statuses, departures, an example - and those
//! of the groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::calls::Call;

/// The parts of a docstring behind its first line, as they stand there. `# Safety` is for callers
/// in Rust.
const SECTIONS: [&str; 6] = ["Operands", "Workspace", "Status", "Aliasing", "Source", "# Safety"];

/// A row of the tables of departures.
pub struct Departure {
    /// Patterns of the names of the calls that it is about, such as `cudnnPooling*`.
    calls: Vec<String>,
    theirs: String,
    ours: String,
}

impl Departure {
    fn concerns(&self, call: &Call) -> bool {
        self.calls.iter().any(|pattern| matches(pattern, &call.name))
    }
}

/// Whether a name is of a pattern, in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.strip_prefix(head).is_some_and(|rest| (0..=rest.len()).any(|at| matches(tail, &rest[at..])))
        }
    }
}

/// The patterns of calls that a text begins with, spans of code with commas between, and what comes
/// behind the last one.
fn patterns(text: &str) -> (Vec<String>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((pattern, behind)) = rest.strip_prefix("`cudnn").and_then(|rest| rest.split_once('`')) {
        found.push(format!("cudnn{pattern}"));
        rest = behind.strip_prefix(", ").unwrap_or(behind);
    }
    (found, rest)
}

/// The rows of the tables of departures in `docs/behaviour.md`. Below a heading stand the calls
/// that its table is about; a row that begins with calls and a colon is about these alone.
pub fn departures(behaviour: &str) -> Result<Vec<Departure>> {
    let (_, rest) =
        behaviour.split_once("\n## Departures\n").context("docs/behaviour.md has no Departures")?;
    let mut rows = Vec::new();
    let mut of_heading = Vec::new();
    for line in rest.split("\n## ").next().unwrap_or(rest).lines() {
        let named = patterns(line).0;
        if !named.is_empty() {
            of_heading = named;
        }
        let cells = line.strip_prefix("| ").and_then(|row| row.trim_end_matches(" |").split_once(" | "));
        let Some((theirs, ours)) = cells.filter(|(theirs, _)| *theirs != "cuDNN") else { continue };
        let (own, behind) = patterns(theirs);
        let (calls, theirs) = match behind.strip_prefix(": ") {
            Some(theirs) if !own.is_empty() => (own, theirs),
            _ => (of_heading.clone(), theirs),
        };
        let linked = |text: &str| text.replace("](", "](../");
        rows.push(Departure { calls, theirs: linked(theirs), ours: linked(ours) });
    }
    Ok(rows)
}

/// A prototype with its parameters below the name, for a telephone has no room beside it.
fn one_below_another(prototype: &str) -> String {
    let lines: Vec<&str> = prototype.lines().map(str::trim).collect();
    let [first, rest @ ..] = lines.as_slice() else { return String::new() };
    match first.split_once('(') {
        Some((name, parameter)) if !rest.is_empty() => {
            let parameters = std::iter::once(parameter.trim_end()).chain(rest.iter().copied());
            format!("{name}(\n    {}", parameters.collect::<Vec<_>>().join("\n    "))
        }
        _ => prototype.to_owned(),
    }
}

/// The page of a call.
pub fn of_call(call: &Call, departures: &[Departure], example: Option<(&str, String)>) -> String {
    let (first, rest) = call.doc.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    // A first paragraph of several lines goes on in `rest`.
    let mut text = format!("# {}\n\n{first}\n", call.name);
    let mut sections = parts(rest);
    let about = sections.remove(0).1;
    let gap = if rest.first().is_some_and(String::is_empty) { "\n" } else { "" };
    let _ = write!(text, "{gap}{about}\n\n");
    match &call.declared {
        Some((header, prototype)) => {
            let _ =
                write!(text, "Declared in `{header}`:\n\n```c\n{}\n```\n\n", one_below_another(prototype));
        }
        None => text += "No header declares it.\n\n",
    }
    let state = match call.core.as_str() {
        "stub" => "**A stub**: it answers `CUDNN_STATUS_NOT_SUPPORTED` with a sentence.".to_owned(),
        "host" => "Built; it computes on the host, whatever the core of the handle.".to_owned(),
        core => format!("Built, on these cores: {core}. Of GPUs only an H100 has run the CUDA core."),
    };
    let _ = writeln!(text, "{state}\n");
    if !call.types.is_empty() {
        let _ = writeln!(text, "Types: {}.\n", call.types);
    }
    for (title, body) in sections {
        let _ = write!(text, "## {title}\n\n{body}\n\n");
    }
    let rows: Vec<&Departure> = departures.iter().filter(|departure| departure.concerns(call)).collect();
    if !rows.is_empty() {
        text += "## Departures\n\n| cuDNN | this library |\n|---|---|\n";
        for row in rows {
            let _ = writeln!(text, "| {} | {} |", row.theirs, row.ours);
        }
        text +=
            "\n[Behaviour and departures](../behaviour.md) has the rule, and what holds for every call.\n\n";
    }
    if let Some((file, statement)) = example {
        let _ = write!(text, "## Example\n\nFrom `{file}`:\n\n```c\n{statement}\n```\n\n");
    }
    let _ = writeln!(text, "See also [{}]({}).", title(&call.group), group_file(&call.group));
    text
}

/// What a docstring says behind its first line: before any section, and section by section with its
/// title.
fn parts(doc: &[String]) -> Vec<(String, String)> {
    let mut parts = vec![(String::new(), String::new())];
    let mut behind_blank = false;
    for line in doc {
        let begins = |section: &&&str| {
            behind_blank
                && line
                    .strip_prefix(**section)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ':']))
        };
        if SECTIONS.iter().find(begins).is_some() {
            let (title, body) = line.split_once(':').unwrap_or((line, ""));
            let title = title.trim_start_matches("# ").replace("Safety", "For callers in Rust");
            parts.push((title, capital(body.trim())));
        } else if let Some((_, body)) = parts.last_mut() {
            body.push('\n');
            *body += line;
        }
        behind_blank = line.is_empty();
    }
    for (_, body) in &mut parts {
        *body = body.trim_end().trim_start_matches('\n').to_owned();
    }
    parts
}

/// The text with a capital in front, but for names.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !text.starts_with("cudnn") => first.to_uppercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

/// How readers know a group: `legacy-ops: pooling` is Pooling.
fn title(group: &str) -> String {
    let (family, part) = group.split_once(": ").unwrap_or(("", group));
    let words = match family {
        "algorithm-descriptor" => format!("{family}, {part}"),
        _ if part.starts_with("removed") => format!("{family}, {part}"),
        "newer" => format!("{part} (newer)"),
        "cudnn_shim.h" => return format!("cudnn_shim.h: {part}"),
        _ => part.to_owned(),
    };
    let spelt = |word: &str| {
        match word {
            "conv" => "convolution",
            "attn" => "attention",
            "ops" => "operations",
            "batchnorm" => "batch normalisation",
            "norm" => "normalisation",
            "seqdata" => "sequence data",
            "lrn" => "LRN",
            "ctc" => "CTC",
            "gnn" => "graph neural networks",
            "rnn" => "RNN",
            word => word,
        }
        .to_owned()
    };
    let words: Vec<String> = words.split(['-', ' ']).map(spelt).collect();
    capital(&words.join(" "))
}

/// The page of a group.
fn group_file(group: &str) -> String {
    let words = group.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("group-{}.md", words.collect::<Vec<_>>().join("-"))
}

/// The groups with their calls.
fn groups(calls: &[Call]) -> BTreeMap<&str, Vec<&Call>> {
    let mut groups: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        groups.entry(&call.group).or_default().push(call);
    }
    groups
}

/// The pages of the groups by file name, and the list of them.
pub fn of_groups(calls: &[Call]) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut list = "# Every call\n\nEach exported call has a page: what it computes, its operands, its statuses in the order of the checks, \
                    and where it departs from cuDNN. The search of this site finds calls by name.\n\n\
                    | group | calls | stubs among them |\n|---|---|---|\n"
        .to_owned();
    for (group, members) in groups(calls) {
        let stubs = members.iter().filter(|call| call.core == "stub").count();
        let _ = writeln!(list, "| [{}]({}) | {} | {stubs} |", title(group), group_file(group), members.len());
        let mut text = format!("# {}\n\n| call | |\n|---|---|\n", title(group));
        for call in members {
            let stub = if call.core == "stub" { " (stub)" } else { "" };
            let first = call.doc.iter().take_while(|line| !line.is_empty()).map(String::as_str);
            let first = first.collect::<Vec<_>>().join(" ").replace('|', "\\|");
            let _ = writeln!(text, "| [`{0}`]({0}.md){stub} | {first} |", call.name);
        }
        pages.push((group_file(group), text));
    }
    pages.push(("index.md".to_owned(), list));
    pages
}

/// The lines of the table of contents.
pub fn contents(calls: &[Call]) -> String {
    let mut text = "- [Every call](calls/index.md)\n".to_owned();
    for (group, members) in groups(calls) {
        let _ = writeln!(text, "  - [{}](calls/{})", title(group), group_file(group));
        let names: BTreeSet<&str> = members.iter().map(|call| call.name.as_str()).collect();
        for name in names {
            let _ = writeln!(text, "    - [{name}](calls/{name}.md)");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{shell, tables};

    fn call(name: &str) -> Call {
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        Call {
            name: name.to_owned(),
            group: "legacy-ops: pooling".to_owned(),
            core: "CPU, CUDA".to_owned(),
            types: "any".to_owned(),
            doc: lines(
                "`y = x`.\n\nMore.\n\nOperands\n- `x`\n\nStatus, in this order: none of\nall.\n\n# Safety\nNone.",
            ),
            declared: Some(("cudnn.h", "void f(void);".to_owned())),
        }
    }

    #[test]
    fn a_docstring_becomes_a_page() {
        let page = of_call(&call("cudnnPoolingForward"), &[], Some(("a.c", "f();".to_owned())));
        let parts = [
            "# cudnnPoolingForward\n\n`y = x`.\n\nMore.\n\n",
            "```c\nvoid f(void);\n```\n",
            "## Operands\n\n- `x`\n\n",
            "## Status, in this order\n\nNone of\nall.\n\n",
            "## For callers in Rust\n\nNone.\n\n",
            "## Example\n\nFrom `a.c`:\n\n```c\nf();\n```\n\n",
            "See also [Pooling](group-legacy-ops-pooling.md).\n",
        ];
        let mut rest = page.as_str();
        for part in parts {
            let (_, behind) = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is not in\n{page}"));
            rest = behind;
        }
    }

    #[test]
    fn parameters_stand_below_the_name() {
        let aligned = "int f(int a,\n      int b);";
        assert_eq!(one_below_another(aligned), "int f(\n    int a,\n    int b);");
        assert_eq!(one_below_another("void f(void);"), "void f(void);");
    }

    #[test]
    fn departures_go_to_their_calls() {
        let table = departures(
            "\n## Departures\n\n### Pooling\n\n`cudnnPooling*`, `cudnnGetPooling*Dim`\n\n| cuDNN | this library |\n|---|---|\n\
             | a: no | yes |\n| `cudnnPoolingBackward`: b | [c](c.md) |\n\n### Other\n\n`cudnnX`\n\n| d | e |\n",
        )
        .unwrap();
        let of = |name: &str| -> Vec<bool> { table.iter().map(|row| row.concerns(&call(name))).collect() };
        assert_eq!(of("cudnnPoolingForward"), [true, false, false]);
        assert_eq!(of("cudnnPoolingBackward"), [true, true, false]);
        assert_eq!(of("cudnnGetPooling2dForwardOutputDim"), [true, false, false]);
        assert_eq!(of("cudnnGetPooling2dDescriptor"), [false, false, false]);
        assert_eq!(of("cudnnX"), [false, false, true]);
        assert_eq!((table[0].theirs.as_str(), table[1].theirs.as_str()), ("a: no", "b"));
        assert_eq!(table[1].ours, "[c](../c.md)");
    }

    #[test]
    fn every_departure_is_on_the_page_of_a_call() {
        let behaviour = fs::read_to_string(shell::root().join("docs/behaviour.md")).unwrap();
        let table = departures(&behaviour).unwrap();
        assert!(table.len() >= 50, "{}", table.len());
        let rows = tables::read_file(&shell::root().join("src/catalogue.tsv")).unwrap();
        for row in &table {
            assert!(!row.calls.is_empty(), "{} is about no call", row.theirs);
            for pattern in &row.calls {
                let known = rows.iter().any(|row| matches(pattern, &row["symbol"]));
                assert!(known, "{pattern} is no call: {}", row.theirs);
            }
        }
    }
}
