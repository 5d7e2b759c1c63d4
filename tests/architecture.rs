//! Reads the tree and holds it to the sentences about layers and files that the crate's documentation states.
//!
//! Every check is a function from one file to its violations, and is shown a sample that it must object to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// Modules without unsafe code.
const SAFE: &[&str] = &["desc", "ops", "layout", "dtype"];

/// Where the CUDA driver is named.
const DRIVER: &str = "src/backend/cuda/driver.rs";

/// Files hold one topic in about 500 lines.
const MAX_LINES: usize = 520;

/// Generated files and tables of constants, which grow with what they list.
const LONG: &[&str] = &["include/cudnn.h", "include/v8/cudnn.h", "src/capi/types/backend_attribute.rs"];

/// What people read.
const FOLDERS: &[&str] = &[
    "src", "build", "tests", "xtask", "cli", "examples", "c_tests", "demo", "docs", "include", "benches", ".ci",
    ".cargo",
];

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The layer of a file of the library: `src/layout/nest.rs` and `src/layout.rs` are of `layout`.
    fn layer(&self) -> Option<&str> {
        let name = self.path.strip_prefix("src/")?.split('/').next()?;
        Some(name.strip_suffix(".rs").unwrap_or(name))
    }

    /// The lines without comments (a `//` inside a string hides what follows it, which no check minds).
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
    }
}

/// Every source below [`FOLDERS`] and in the root.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for entry in fs::read_dir(root).expect("the root can be listed") {
        let path = entry.expect("the root can be listed").path();
        if path.is_file() {
            read(root, &path, &mut found);
        }
    }
    FOLDERS.iter().for_each(|folder| walk(root, &root.join(folder), &mut found));
    for sample in [
        "src/lib.rs",
        "xtask/Cargo.toml",
        "xtask/templates/cudnn.pc.in",
        "docs/performance.md",
        ".ci/run",
        "tests/install/finders.cmake",
        "tests/install/projects/meson/meson.build",
        "tests/install/projects/pkg_config/Makefile",
    ] {
        assert!(found.iter().any(|source| source.path == sample), "the walk misses {sample}");
    }
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("a folder can be listed").path();
        if !path.is_dir() {
            read(root, &path, found);
        } else if !path.ends_with("target") && !path.ends_with("data") {
            walk(root, &path, found);
        }
    }
}

fn read(root: &Path, path: &Path, found: &mut Vec<Source>) {
    const TEXT: &[&str] = &[
        "rs", "c", "cc", "cpp", "h", "cu", "cuh", "py", "md", "toml", "sh", "txt", "run", "in", "cmake",
        "build", "Makefile",
    ];
    let extension = path.extension().or(path.file_name()).and_then(|name| name.to_str());
    if extension.is_some_and(|extension| TEXT.contains(&extension)) {
        let name =
            path.strip_prefix(root).expect("the walk starts at the root").to_string_lossy().into_owned();
        found.push(Source { path: name, text: fs::read_to_string(path).expect("sources are UTF-8") });
    }
}

/// `check` must object to each of the `bad` samples and to no `good` one; then it is asked about the tree.
fn hold(check: impl Fn(&Source) -> Vec<String>, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(!check(&Source::new(path, text)).is_empty(), "this goes unnoticed in {path}: {text}");
    }
    for (path, text) in good {
        assert_eq!(check(&Source::new(path, text)), Vec::<String>::new(), "in {path}: {text}");
    }
    let violations: Vec<String> = sources().iter().flat_map(&check).collect();
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

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

#[test]
fn the_c_boundary_and_the_driver_have_one_place_each() {
    let check = |source: &Source| {
        if !source.is_rust() || source.layer().is_none() {
            return Vec::new();
        }
        let mut violations = Vec::new();
        for (at, line) in source.code() {
            if line.contains("cudarc") && source.path != DRIVER {
                violations.push(format!("{}:{at}: cudarc is named outside {DRIVER}", source.path));
            }
            // The driver's entry points are C functions too: called there, never defined.
            let boundary = source.layer() == Some("capi");
            if line.contains("\"cudnn8\"") && !boundary {
                violations.push(format!("{}:{at}: versions 8 and 9 differ outside src/capi/", source.path));
            }
            if line.contains("no_mangle") && !boundary {
                violations.push(format!("{}:{at}: a C name outside src/capi/", source.path));
            }
            if line.contains("extern \"C\"") && !boundary && source.path != DRIVER {
                violations.push(format!("{}:{at}: extern \"C\" outside src/capi/", source.path));
            }
        }
        violations
    };
    hold(
        check,
        &[
            ("src/backend/cuda/module.rs", "use cudarc::driver;"),
            ("src/exec/context.rs", "pub extern \"C\" fn f() {}"),
            ("src/backend/cuda/driver.rs", "#[unsafe(no_mangle)]"),
            ("src/desc/tensor.rs", "#[cfg(feature = \"cudnn8\")]"),
        ],
        &[
            (
                "src/backend/cuda/driver.rs",
                "use cudarc::driver; type F = unsafe extern \"C\" fn(u32) -> i32;",
            ),
            ("src/capi/tensor.rs", "#[unsafe(no_mangle)] pub unsafe extern \"C\" fn cudnnX() {}"),
        ],
    );
}

#[test]
fn safe_layers_forbid_unsafe_code() {
    let check = |source: &Source| {
        let root = SAFE.iter().any(|layer| source.path == format!("src/{layer}/mod.rs"));
        if root && !source.code().any(|(_, line)| line.trim() == "#![forbid(unsafe_code)]") {
            return vec![format!("{}: #![forbid(unsafe_code)] is missing", source.path)];
        }
        Vec::new()
    };
    hold(
        check,
        &[
            ("src/ops/mod.rs", "//! Ops.\npub mod transform;"),
            ("src/desc/mod.rs", "//! #![forbid(unsafe_code)]"),
        ],
        &[("src/ops/mod.rs", "//! Ops.\n#![forbid(unsafe_code)]"), ("src/capi/mod.rs", "")],
    );
    let seen = sources().iter().filter(|s| SAFE.iter().any(|l| s.path == format!("src/{l}/mod.rs"))).count();
    assert_eq!(seen, SAFE.len(), "a safe layer has no mod.rs");
}

#[test]
fn files_are_short_and_say_what_lives_in_them() {
    let check = |source: &Source| {
        let mut violations = Vec::new();
        let lines = source.text.lines().count();
        let document = [".md", ".txt"].iter().any(|end| source.path.ends_with(end));
        if lines > MAX_LINES && !document && !LONG.contains(&source.path.as_str()) {
            violations.push(format!("{}: {lines} lines, more than {MAX_LINES}", source.path));
        }
        let first = source.text.lines().next().unwrap_or("");
        let told = first.strip_prefix("//! ").is_some_and(|text| text != "placeholder");
        if source.is_rust() && !told {
            violations.push(format!("{}: the first line does not say what lives here", source.path));
        }
        violations
    };
    let long = "//! Long.\n".repeat(MAX_LINES + 1);
    hold(
        check,
        &[
            ("src/a.rs", &long),
            ("c_tests/a.c", &long),
            ("src/a.rs", "use std::fmt;"),
            ("src/a.rs", ""),
            ("src/a.rs", "//! placeholder"),
        ],
        &[("include/cudnn.h", &long), ("src/a.rs", "//! Here lives A."), ("c_tests/a.c", "/* A. */")],
    );
}

#[test]
fn nothing_is_left_undone_and_no_machine_is_named() {
    // Put together here, so that this file does not contain what it looks for.
    let undone = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ig", "nore")];
    let machine = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/t", "mp/")];
    let check = |source: &Source| {
        let mut violations = Vec::new();
        for (at, line) in source.text.lines().enumerate() {
            for word in undone.iter().filter(|_| source.is_rust()).chain(&machine) {
                if line.contains(word) {
                    violations.push(format!("{}:{}: {word}", source.path, at + 1));
                }
            }
        }
        violations
    };
    let undone_body = format!("fn f() {{ {}) }}", undone[0]);
    let unimplemented_body = format!("fn f() {{ {}) }}", undone[1]);
    let ignored_test = format!("{}]\nfn f() {{}}", undone[2]);
    let own_path = format!("see {}notes", machine[0]);
    let scratch_path = format!("path = \"{}x\"", machine[3]);
    hold(
        check,
        &[
            ("src/a.rs", &undone_body),
            ("tests/a.rs", &unimplemented_body),
            ("tests/a.rs", &ignored_test),
            ("README.md", &own_path),
            ("tests/numpy/a.py", &scratch_path),
            ("docs/a.md", &own_path),
            ("xtask/templates/a.pc.in", &own_path),
        ],
        &[("README.md", "see docs/notes"), ("src/a.rs", "fn todo() {}")],
    );
}

/// The names of our environment variables in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| -> String {
        rest.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect()
    };
    let prefix = "CUDNN_SHIM_";
    text.split(prefix).skip(1).map(name).filter(|n| !n.is_empty()).map(|n| format!("{prefix}{n}")).collect()
}

#[test]
fn the_readme_lists_every_environment_variable() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    let listed = variables(&readme.expect("README.md can be read"));
    let check = |source: &Source| {
        if source.layer().is_none() {
            return Vec::new();
        }
        let missing = variables(&source.text).into_iter().filter(|name| !listed.contains(name));
        missing.map(|name| format!("{}: {name} is not listed in README.md", source.path)).collect()
    };
    hold(check, &[("src/a.rs", "var(\"CUDNN_SHIM_NEVER_HEARD_OF\")")], &[("src/a.rs", "var(\"PATH\")")]);
}

#[test]
fn every_package_carries_the_licences() {
    for (file, words) in [("LICENSE-MIT", "MIT License"), ("LICENSE-APACHE", "Apache License")] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
        assert!(text.contains(words), "{file} does not hold the {words}");
    }
    let check = |source: &Source| {
        let package = source.path.ends_with("Cargo.toml") && source.text.contains("[package]");
        if package && !source.text.contains("license = \"MIT OR Apache-2.0\"") {
            return vec![format!("{}: no licence", source.path)];
        }
        Vec::new()
    };
    hold(
        check,
        &[("x/Cargo.toml", "[package]\nname = \"x\"")],
        &[("x/Cargo.toml", "[package]\nlicense = \"MIT OR Apache-2.0\""), ("Cargo.toml", "[workspace]")],
    );
    let packages = sources().iter().filter(|source| source.path.ends_with("Cargo.toml")).count();
    assert_eq!(packages, 3, "the library, the tool and xtask");
}
