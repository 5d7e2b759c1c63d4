//! The page of a call - signature, formula, operands, statuses, departures, an example - and those of the groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::calls::Call;
use crate::shell;

/// The parts of a docstring behind its first line, as they stand there. `# Safety` is for callers in Rust.
const SECTIONS: [&str; 6] = ["Operands", "Workspace", "Status", "Aliasing", "Source", "# Safety"];

/// A row of the table of departures.
pub struct Departure {
    original: String,
    ours: String,
}

/// Words of the table of departures that stand for several calls: those whose names begin so.
const TOPICS: [(&str, &str); 13] = [
    ("pooling:", "cudnnPooling"),
    ("output dims of pooling", "cudnnGetPooling"),
    ("convolutions:", "cudnnConvolution"),
    ("a convolution's workspace", "cudnnConvolution"),
    ("workspace sizes of convolutions", "cudnnGetConvolution"),
    ("dropout of", "cudnnDropout"),
    ("divisive normalisation", "cudnnDivisiveNormalization"),
    ("LRN", "cudnnLRN"),
    ("softmax", "cudnnSoftmax"),
    ("BatchNormalization,", "cudnnBatchNormalization"),
    ("Normalization:", "cudnnNormalization"),
    ("SpatialTfSampler", "cudnnSpatialTfSampler"),
    ("in tensor setters", "cudnnSetTensor"),
];

impl Departure {
    fn concerns(&self, call: &Call) -> bool {
        let name = call.name.strip_prefix("cudnn").unwrap_or(&call.name);
        // `TransformTensor(Ex)` stands for both.
        let text = self.original.replace("(Ex)", " TransformTensorEx");
        let named = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
        let meant = |(words, begin): &(&str, &str)| {
            // Of setters those of descriptors: cudnnSetTensor itself writes data.
            call.name.starts_with(begin) && call.name != *begin && self.original.contains(words)
        };
        named || TOPICS.iter().any(meant)
    }
}

/// The rows of the table of departures in `docs/behaviour.md`.
pub fn departures(behaviour: &str) -> Result<Vec<Departure>> {
    let (_, rest) =
        behaviour.split_once("\n## Departures\n").context("docs/behaviour.md has no Departures")?;
    let rows = rest.split("\n## ").next().unwrap_or(rest).lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").split_once(" | "));
    // The first row is the head.
    Ok(cells
        .skip(1)
        .map(|(original, ours)| Departure {
            original: original.to_owned(),
            ours: ours.replace("](", "](../"),
        })
        .collect())
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
        text += "## Departures\n\n| the original | this library |\n|---|---|\n";
        for row in rows {
            let _ = writeln!(text, "| {} | {} |", row.original, row.ours);
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

/// What a docstring says behind its first line: before any section, and section by section with its title.
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
                    and where it departs from the original. The search of this site finds calls by name.\n\n\
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
    use super::*;

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
            "\n## Departures\n\n| the original | this library |\n|---|---|\n| pooling: no | yes |\n| \
                                TransformTensor(Ex): no | [a](a.md) |\n",
        )
        .unwrap();
        let of = |name: &str| -> Vec<bool> { table.iter().map(|row| row.concerns(&call(name))).collect() };
        assert_eq!(of("cudnnPoolingForward"), [true, false]);
        assert_eq!(of("cudnnTransformTensorEx"), [false, true]);
        assert_eq!(of("cudnnTransformTensor"), [false, true]);
        assert_eq!(of("cudnnTransformFilter"), [false, false]);
        assert_eq!(table[1].ours, "[a](../a.md)");
    }

    #[test]
    fn every_topic_is_in_the_table() {
        let behaviour = fs::read_to_string(shell::root().join("docs/behaviour.md")).unwrap();
        let table = departures(&behaviour).unwrap();
        assert!(table.len() >= 30);
        for (words, _) in TOPICS {
            assert!(table.iter().any(|row| row.original.contains(words)), "no departure says {words}");
        }
    }
}
