//! The layers: arrows point downwards only.

use crate::source::{Source, hold};

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
        ],
        &[
            ("src/capi/mod.rs", "use crate::{Error, exec::Context, ops};"),
            ("src/layout/dims.rs", "//! See [`crate::ops`].\nuse crate::Result;\nuse crate::layout::Dims;"),
            ("tests/x.rs", "use cudnn::capi;"),
        ],
    );
}
