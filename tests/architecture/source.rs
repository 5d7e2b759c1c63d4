//! The files that the checks read, and how a check is held to its samples and to the tree.

use std::fs;
use std::path::Path;

/// What people read.
const FOLDERS: &[&str] = &[
    "src",
    "build",
    "macros",
    "reserve",
    "tests",
    "testkit",
    "models",
    "problems",
    "xtask",
    "cli",
    "host-cuda",
    "examples",
    "c_tests",
    "demo",
    "docs",
    "include",
    "benches",
    ".ci",
    ".cargo",
];

pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The layer of a file of the library: `src/layout/nest.rs` and `src/layout.rs` are of
    /// `layout`.
    pub fn layer(&self) -> Option<&str> {
        let name = self.path.strip_prefix("src/")?.split('/').next()?;
        Some(name.strip_suffix(".rs").unwrap_or(name))
    }

    /// The lines without comments (a `//` inside a string hides what follows it, which no check
    /// minds).
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
    }
}

/// Every source below [`FOLDERS`] and in the root.
pub fn sources() -> Vec<Source> {
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
        "tests/library/install/finders.cmake",
        "tests/library/install/projects/meson/meson.build",
        "tests/library/install/projects/pkg_config/Makefile",
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

/// `check` must object to each of the `bad` samples and to no `good` one; then it is asked about
/// the tree.
pub fn hold(check: impl Fn(&Source) -> Vec<String>, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(!check(&Source::new(path, text)).is_empty(), "this goes unnoticed in {path}: {text}");
    }
    for (path, text) in good {
        assert_eq!(check(&Source::new(path, text)), Vec::<String>::new(), "in {path}: {text}");
    }
    let violations: Vec<String> = sources().iter().flat_map(&check).collect();
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}
