//! Reads the tree and holds it to the sentences about layers and files that the crate's
//! documentation states.
//!
//! Every check is a function from one file to its violations, and is shown a sample that it must
//! object to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

mod boundary;
#[path = "../common/catalogue.rs"]
mod catalogue;
mod layers;
mod lists;
mod pilots;
mod source;
mod words;

use source::{Source, hold, sources};

/// Modules without unsafe code.
const SAFE: &[&str] = &["desc", "ops", "layout", "dtype"];

/// Where the CUDA driver is named.
const DRIVER: &str = "src/backend/cuda/driver.rs";
/// How tables of its entry points are declared.
const TABLE: &str = "src/backend/cuda/table.rs";
/// Where threads begin, and what a child of `fork` runs first: the system calls these.
const THREADS: &str = "src/backend/cpu/threads/start.rs";
const FORKS: &str = "src/sync.rs";

/// Where a function of the CUDA runtime on host memory is called.
const HOST_RUNTIME: &str = "src/exec/host_runtime.rs";

/// Files hold one topic in about 500 lines.
const MAX_LINES: usize = 530;

/// Where functions of the original cuDNN are called: its layer alone.
const ORIGINAL: &str = "src/original/";

/// Columns of a comment in prose.
const COLUMNS: usize = 100;

/// Generated files and tables of constants, which grow with what they list.
const LONG: &[&str] = &[
    "include/cudnn.h",
    "include/v8/cudnn.h",
    "host-cuda/include/driver_types.h",
    "src/capi/types/backend_attribute.rs",
];

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
            if line.contains("extern \"C\"")
                && !boundary
                && !source.path.starts_with(ORIGINAL)
                && ![DRIVER, TABLE, THREADS, FORKS, HOST_RUNTIME].contains(&source.path.as_str())
            {
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
fn comments_wrap_at_a_hundred_columns() {
    let check = |source: &Source| {
        // The first paragraph of an exported function is a line of tables, whatever its length.
        if !source.is_rust() || source.path.starts_with("src/capi/functions/") {
            return Vec::new();
        }
        let mut violations = Vec::new();
        for (at, line) in source.text.lines().enumerate() {
            let Some(text) = line.trim_start().strip_prefix("//") else { continue };
            let text = text.trim_start_matches(['/', '!']).trim();
            // Tables, columns of topics, formulas and signatures stay on their lines.
            let deep = ["//!  ", "///  "].iter().any(|mark| line.trim_start().starts_with(mark));
            let drawn = deep || text.starts_with(['|', '`']) || text.contains("   ");
            if line.chars().count() > COLUMNS && !drawn {
                violations.push(format!(
                    "{}:{}: a comment of more than {COLUMNS} columns",
                    source.path,
                    at + 1
                ));
            }
        }
        violations
    };
    let long = format!("//! {}", "word ".repeat(COLUMNS / 5));
    hold(
        check,
        &[("src/a.rs", &long), ("tests/a.rs", &long.replace("//!", "    //"))],
        &[("src/a.rs", &long.replace("word ", "word   ")), ("src/a.rs", "//! Short.")],
    );
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

/// Phrases without a noun that a reader could hold on to; CONTRIBUTING says what to write.
const VAGUE: &[&str] = &["handed on", "hands on", "whoever", "so many", "by turns", "is told"];

#[test]
fn comments_name_what_they_speak_of() {
    let check = |source: &Source| {
        if source.layer().is_none() || !source.is_rust() {
            return Vec::new();
        }
        let lines = source.text.lines().enumerate();
        let comments = lines.filter_map(|(at, line)| Some((at + 1, line.split_once("//")?.1.to_lowercase())));
        let found = comments.flat_map(|(at, text)| {
            VAGUE.iter().filter(move |phrase| text.contains(**phrase)).map(move |phrase| (at, phrase))
        });
        found.map(|(at, phrase)| format!("{}:{at}: `{phrase}`", source.path)).collect()
    };
    hold(
        check,
        &[("src/a.rs", "// SAFETY: handed on."), ("src/a.rs", "/// Whoever waits yields.")],
        &[("src/a.rs", "// The pool waits."), ("cli/src/a.rs", "// Whoever.")],
    );
}

/// Words of references to a promise or to another comment.
const REFERENCES: &str = "the this a caller caller's callers function function's entry point promise promises promised vouches as is \
    above below here there in every arm for of all both each them it three four time rest and";

#[test]
fn unsafe_code_says_why_it_is_sound() {
    let refers = |clause: &str| {
        let mut words = clause.split(|c: char| !c.is_alphanumeric() && !"'_`".contains(c));
        let all =
            words.all(|word| word.is_empty() || REFERENCES.split_whitespace().any(|known| known == word));
        all && clause.contains(char::is_alphanumeric)
    };
    let check = |source: &Source| {
        let rooms = ["src/", "host-cuda/src/", "cli/src/"];
        if !source.is_rust() || !rooms.iter().any(|room| source.path.starts_with(room)) {
            return Vec::new();
        }
        let lines: Vec<&str> = source.text.lines().collect();
        let mut violations = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let Some((_, begin)) = line.split_once("// SAFETY:") else { continue };
            let more = lines[at + 1..].iter().map_while(|line| line.trim_start().strip_prefix("// "));
            let text = std::iter::once(begin).chain(more).collect::<Vec<_>>().join(" ").to_lowercase();
            if let Some(clause) = text.split([';', ':', '.', ',']).find(|clause| refers(clause)) {
                violations.push(format!("{}:{}: no fact: `{}`", source.path, at + 1, clause.trim()));
            }
        }
        violations
    };
    hold(
        check,
        &[
            ("src/a.rs", "// SAFETY: the caller's promise."),
            ("src/a.rs", "// SAFETY: as the caller promises, for all three."),
            ("host-cuda/src/a.rs", "// SAFETY: as above; there is room."),
            ("src/a.rs", "// SAFETY: the caller's promise, here\n// and below."),
        ],
        &[
            ("src/a.rs", "// SAFETY: `x` is readable, as the caller of `f` sees to."),
            ("src/a.rs", "/// As the caller promises."),
            ("xtask/src/a.rs", "// SAFETY: as above."),
        ],
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

/// Those of the library on the page of its behaviour, those of the stand-ins for CUDA and of the
/// tool on theirs; `doctor` reads both pages.
#[test]
fn the_docs_list_every_environment_variable() {
    let listed: BTreeSet<String> = ["docs/behaviour.md", "docs/without-a-gpu.md"]
        .into_iter()
        .flat_map(|page| {
            let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page));
            variables(&text.unwrap_or_else(|error| panic!("{page}: {error}")))
        })
        .collect();
    let check = |source: &Source| {
        let rooms = ["host-cuda/src/", "cli/src/"];
        if source.layer().is_none() && !rooms.iter().any(|room| source.path.starts_with(room)) {
            return Vec::new();
        }
        let missing = variables(&source.text).into_iter().filter(|name| !listed.contains(name));
        missing.map(|name| format!("{}: {name} is listed on no page of docs/", source.path)).collect()
    };
    let bad = "var(\"CUDNN_SHIM_NEVER_HEARD_OF\")";
    hold(
        check,
        &[("src/a.rs", bad), ("host-cuda/src/a.rs", bad), ("cli/src/a.rs", bad)],
        &[("src/a.rs", "var(\"PATH\")"), ("xtask/src/a.rs", bad)],
    );
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
    assert_eq!(
        packages, 8,
        "the library, its attributes, its allocator, the tool, CUDA on host memory, the models of its threads, what \
         tests share, and xtask"
    );
}
