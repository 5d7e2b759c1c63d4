//! The layers: arrows point downwards only.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, hold, sources};

/// The modules of the library and those they may name besides themselves: arrows point downwards only.
/// `error` and `mode` are everybody's; crate-level re-exports belong to `error`.
const LAYERS: &[(&str, &[&str])] = &[
    ("capi", &["exec", "backend", "ops", "desc", "layout", "dtype"]),
    ("exec", &["backend", "ops", "layout", "dtype"]),
    ("backend", &["ops", "layout", "dtype"]),
    ("ops", &["desc", "layout", "dtype"]),
    ("desc", &["layout", "dtype"]),
    ("layout", &["dtype"]),
    ("dtype", &[]),
    ("mode", &[]),
    ("error", &[]),
    ("reserve", &[]),
];

/// The modules that a file names through `crate::`, each with its line. Of `crate::{a::{b, c}, d}` those are a and d.
fn named_modules(source: &Source) -> Vec<(usize, String)> {
    let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
    let identifier = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut named = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            named.push((line, identifier(rest)));
            continue;
        };
        let mut depth = 0;
        let mut start = Some(0);
        for (here, c) in list.char_indices() {
            if let Some(from) = start.filter(|_| matches!(c, ',' | '{' | '}')) {
                named.push((line, identifier(&list[from..here])));
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
    }
    named.extend(named_from_above(source, &code));
    named
}

/// The modules that a file names by going up to the root with `super::`, each with its line.
fn named_from_above(source: &Source, code: &str) -> Vec<(usize, String)> {
    let Some(path) = source.path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) else {
        return Vec::new();
    };
    let depth = path.strip_suffix("/mod").unwrap_or(path).split('/').count();
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
        if ups >= depth {
            let line = code[..first].matches('\n').count() + 1;
            for name in rest.trim_start_matches('{').split(',') {
                let name: String =
                    name.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                named.push((line, name));
                if !rest.starts_with('{') {
                    break;
                }
            }
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
            let shared = ["error", "mode"].contains(&name.as_str()) || name.starts_with(char::is_uppercase);
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
            ("src/layout/dims.rs", "use super::super::ops::Plan;"),
            ("src/backend/cpu/tile.rs", "use super::super::super::{dtype::Scalar, capi};"),
        ],
        &[
            ("src/capi/mod.rs", "use crate::{Error, exec::Context, ops};"),
            ("src/layout/dims.rs", "//! See [`crate::ops`].\nuse crate::Result;\nuse crate::layout::Dims;"),
            ("tests/x.rs", "use cudnn::capi;"),
            ("src/backend/cpu/tile.rs", "use super::layout::Strip;"),
        ],
    );
}

/// Which parts of the backend a file names, besides the one that it is of. What the backend's own file holds is everybody's.
fn parts_of_the_backend(source: &Source) -> Option<(String, BTreeSet<String>)> {
    let path = source.path.strip_prefix("src/backend/")?.strip_suffix(".rs")?;
    let part = path.split('/').next().filter(|part| *part != "mod")?.to_owned();
    let depth = path.strip_suffix("/mod").unwrap_or(path).split('/').count();
    let from_root = "super::".repeat(depth);
    let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
    let mut named = BTreeSet::new();
    for prefix in ["crate::backend::", from_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            // A longer chain goes further up.
            if code[..at].ends_with("super::") {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            let list =
                rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or(rest, |(list, _)| list);
            for name in list.split(',').take(if rest.starts_with('{') { usize::MAX } else { 1 }) {
                let name = name.trim_start();
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
                named.insert(name[..end].to_owned());
            }
        }
    }
    named.remove(&part);
    Some((part, named))
}

/// A way from a part back to itself, if there is one.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    edges.keys().find_map(|start| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(part) = next.pop() {
            for further in edges.get(part).into_iter().flatten() {
                if further == start {
                    return Some(format!("{start} comes back to itself through {part}"));
                }
                if edges.contains_key(further) && seen.insert(further) {
                    next.push(further);
                }
            }
        }
        None
    })
}

#[test]
fn the_parts_of_the_backend_form_no_circle() {
    let edges = |sources: &[Source]| {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (part, named) in sources.iter().filter_map(parts_of_the_backend) {
            edges.entry(part).or_default().extend(named);
        }
        edges
    };
    let bad = [
        Source::new("src/backend/a.rs", "use super::{b::X, Machine};"),
        Source::new("src/backend/b/c.rs", "use super::super::d::Y;"),
        Source::new("src/backend/d.rs", "fn f() -> crate::backend::a::Z {}"),
    ];
    assert!(circle(&edges(&bad)).is_some());
    assert_eq!(circle(&edges(&bad[..2])), None);
    assert_eq!(circle(&edges(&sources())), None);
}
