//! The layers: arrows point downwards only.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, hold, sources};

/// The modules of the library and those they may name besides themselves: arrows point downwards
/// only. `error`, `mode`, `panics`, `reserve` and `sync` are everybody's; crate-level re-exports
/// belong to `error`.
const LAYERS: &[(&str, &[&str])] = &[
    ("capi", &["exec", "original", "ops", "desc", "layout", "dtype"]),
    ("exec", &["backend", "ops", "layout", "dtype"]),
    ("backend", &["ops", "layout", "dtype"]),
    ("original", &["desc", "layout", "dtype"]),
    ("ops", &["desc", "layout", "dtype"]),
    ("desc", &["layout", "dtype"]),
    ("layout", &["dtype"]),
    ("dtype", &[]),
    ("mode", &[]),
    ("error", &[]),
    ("panics", &[]),
    ("reserve", &[]),
    ("sync", &[]),
];

/// The code of a file, with line breaks and without comments and its unit tests.
fn code(source: &Source) -> String {
    let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
    match code.find("#[cfg(test)]\nmod tests {") {
        Some(tests) => code[..tests].to_owned(),
        None => code,
    }
}

/// The first names of what stands at the start of a path, each with its place: of `{a::{b, c}, d}`
/// those are a and d.
fn first_names(path: &str) -> Vec<(usize, String)> {
    let identifier = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![(0, identifier(path))] };
    let (mut depth, mut start, mut named) = (0, Some(0), Vec::new());
    for (here, c) in list.char_indices() {
        if let Some(from) = start.filter(|_| matches!(c, ',' | '{' | '}' | ':' | ';')) {
            named.push((from + 1, identifier(&list[from..])));
            start = None;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = Some(here + 1),
            _ => {}
        }
    }
    named
}

/// The modules that a file names through `crate::`, each with its line.
fn named_modules(source: &Source) -> Vec<(usize, String)> {
    let code = code(source);
    let mut named = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        for (place, name) in first_names(&code[at + prefix.len()..]) {
            named.push((code[..at + prefix.len() + place].matches('\n').count() + 1, name));
        }
    }
    named.extend(named_from_above(source, &code));
    named
}

/// How many folders a file lies below another, where the file of a module counts as its folder.
fn depth(path: &str) -> usize {
    path.strip_suffix("/mod").unwrap_or(path).split('/').count()
}

/// The modules that a file names by going up to the root with `super::`, each with its line.
fn named_from_above(source: &Source, code: &str) -> Vec<(usize, String)> {
    let Some(path) = source.path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) else {
        return Vec::new();
    };
    let mut named = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].find("super::") {
        let first = at + found;
        let mut rest = &code[first..];
        let mut ups = 0;
        while let Some(further) = rest.strip_prefix("super::") {
            (rest, ups) = (further, ups + 1);
        }
        at = code.len() - rest.len();
        if ups >= depth(path) {
            let line = code[..first].matches('\n').count() + 1;
            named.extend(first_names(rest).into_iter().map(|(_, name)| (line, name)));
        }
    }
    named
}

#[test]
fn arrows_point_downwards_only() {
    let check = |source: &Source| {
        let Some(layer) = source.layer().filter(|layer| *layer != "lib") else { return Vec::new() };
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            return vec![format!("{}: `{layer}` is no layer that this test knows", source.path)];
        };
        let mut violations = Vec::new();
        for (at, name) in named_modules(source) {
            let shared = ["error", "mode", "panics", "reserve", "sync"].contains(&name.as_str())
                || name.starts_with(char::is_uppercase);
            let is_module = LAYERS.iter().any(|(layer, _)| *layer == name);
            if is_module && !shared && name != layer && !below.contains(&name.as_str()) {
                violations.push(format!("{}:{at}: {layer} names {name}", source.path));
            }
        }
        violations
    };
    hold(
        check,
        &[
            ("src/layout/dims.rs", "use crate::ops::Problem;"),
            ("src/dtype/mod.rs", "use crate::{error::Result, layout::Dims};"),
            ("src/backend/mod.rs", "use crate::{dtype::{Scalar, DataType}, exec};"),
            ("src/backend/mod.rs", "use crate::{\n    dtype::Scalar,\n    exec::Context,\n};"),
            ("src/ops/mod.rs", "fn f() -> crate::backend::Core { todo() }"),
            ("src/utils.rs", "use crate::dtype::Scalar;"),
            ("src/backend/mod.rs", "use super::exec::Context;"),
            ("src/capi/functions/a.rs", "use crate::backend::Address;"),
            ("src/layout/dims.rs", "use super::super::ops::Plan;"),
            ("src/backend/cpu/tile.rs", "use super::super::super::{dtype::Scalar, capi};"),
        ],
        &[
            ("src/capi/mod.rs", "use crate::{Error, exec::Context, ops};"),
            ("src/capi/functions/a.rs", "use super::backend;"),
            ("src/layout/dims.rs", "//! See [`crate::ops`].\nuse crate::Result;\nuse crate::layout::Dims;"),
            ("tests/x.rs", "use cudnn::capi;"),
            ("src/backend/cpu/tile.rs", "use super::layout::Strip;"),
        ],
    );
}

/// Which siblings a file names, whose part of a folder this is. What the folder's own file holds is
/// everybody's.
fn parts_of(folder: &str, source: &Source) -> Option<(String, BTreeSet<String>)> {
    let path = source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let part = path.split('/').next().filter(|part| *part != "mod")?.to_owned();
    let (_, below) = folder.split_once("src").expect("a folder of sources");
    let from_root = format!("crate{below}/").replace('/', "::");
    let from_below = "super::".repeat(depth(path));
    let code = code(source);
    let mut named = BTreeSet::new();
    for prefix in [from_root, from_below] {
        for (at, _) in code.match_indices(prefix.as_str()) {
            // A longer chain goes further up.
            if !code[..at].ends_with("super::") {
                named.extend(first_names(&code[at + prefix.len()..]).into_iter().map(|(_, name)| name));
            }
        }
    }
    named.remove(&part);
    Some((part, named))
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Who names whom in a folder.
fn edges(folder: &str, sources: &[Source]) -> Edges {
    let mut edges = Edges::new();
    for (part, named) in sources.iter().filter_map(|source| parts_of(folder, source)) {
        edges.entry(part).or_default().extend(named);
    }
    let parts: BTreeSet<String> = edges.keys().cloned().collect();
    edges.values_mut().for_each(|named| named.retain(|name| parts.contains(name)));
    edges
}

/// Every part that can be reached from one.
fn reached(edges: &Edges, start: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(part) = next.pop() {
        let further = edges.get(part).into_iter().flatten();
        next.extend(further.filter(|further| seen.insert((*further).clone())).map(String::as_str));
    }
    seen
}

/// A part that comes back to itself, if there is one.
fn circle(edges: &Edges) -> Option<String> {
    edges.keys().find(|start| reached(edges, start).contains(*start)).cloned()
}

/// The crates whose folders are looked at.
const ROOTS: [&str; 3] = ["src/", "cli/src/", "host-cuda/src/"];

#[test]
fn the_parts_of_a_folder_form_no_circle() {
    let bad = [
        Source::new("src/backend/a.rs", "use super::{b::{X, d}, Machine};"),
        Source::new("src/backend/b/c.rs", "use super::super::d::Y;"),
        Source::new("src/backend/d.rs", "fn f() -> crate::backend::a::Z {}"),
    ];
    assert_eq!(circle(&edges("src/backend", &bad[..2])), None);
    assert_eq!(circle(&edges("src/backend", &bad)).as_deref(), Some("a"));
    let below = [
        Source::new("src/backend/cpu/a.rs", "use super::b::X;"),
        Source::new("src/backend/cpu/b/mod.rs", "use crate::backend::cpu::{a, c};"),
    ];
    assert_eq!(circle(&edges("src/backend/cpu", &below)).as_deref(), Some("a"));
    assert_eq!(circle(&edges("src/backend", &below)), None);

    let sources = sources();
    let folders: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.is_rust() && ROOTS.iter().any(|root| source.path.starts_with(root)))
        .filter_map(|source| Some(source.path.rsplit_once('/')?.0))
        .collect();
    for folder in ["src/backend/cpu", "src/desc/graph", "host-cuda/src/runtime"] {
        assert!(folders.contains(folder), "{folders:?}");
    }
    for folder in folders {
        let edges = edges(folder, &sources);
        let start = circle(&edges);
        assert!(start.is_none(), "{folder}: {start:?} comes back to itself: {edges:?}");
    }
}
