//! `cargo xtask where cudnnPoolingForward`: where a function is written, planned, run, tested and
//! described. What it prints is read from the sources: names, `use` lines and the lines that give
//! each kind of step to its kernels.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

pub fn run(arguments: &[String]) -> Result<()> {
    let [name] = arguments else { bail!("usage: cargo xtask where FUNCTION") };
    let sources = Sources::read(shell::root())?;
    let found = sources.find(name).with_context(|| {
        format!(
            "no function {name} is written in src/capi; MATRIX.md lists all names, and those that are stubs"
        )
    })?;
    for (what, lines) in found {
        println!("{what}");
        lines.iter().for_each(|line| println!("  {line}"));
    }
    Ok(())
}

/// The names of the recordings of functions whose plans may have steps of this kind, as
/// `tests/oracle` is asked for them.
pub fn recordings(kind: &str) -> Result<BTreeSet<String>> {
    Ok(Sources::read(shell::root())?.recordings(kind))
}

/// What is searched: the text of each file, by its path below the root.
struct Sources(Vec<(PathBuf, String)>);

/// A heading, and the lines below it.
type Section = (&'static str, Vec<String>);

impl Sources {
    fn read(root: &Path) -> Result<Sources> {
        let mut files = Vec::new();
        for folder in ["src", "tests", "testkit", "c_tests", "docs", "demo", "examples", "benches"] {
            collect(root, &root.join(folder), &mut files)?;
        }
        files.sort();
        Ok(Sources(files))
    }

    /// The file that defines a function, its text, and the line.
    fn entry(&self, name: &str) -> Option<(&Path, &str, usize)> {
        let head = format!("fn {name}(");
        let (file, text) = self.below("src/capi").find(|(_, text)| text.contains(&head))?;
        Some((file, text, 1 + text[..text.find(&head)?].matches('\n').count()))
    }

    /// The files whose functions say that they make plans of this call; else those that the file of
    /// its entry imports, or those of `src/capi` that it leans on.
    fn plans(&self, name: &str, entry: &str) -> Vec<&Path> {
        let says = format!("`{name}`");
        let is_told = |line: &str| line.trim_start().starts_with("///") && line.contains(&says);
        let told: Vec<&Path> = self
            .below("src/ops")
            .filter(|(_, text)| text.lines().any(is_told))
            .map(|(file, _)| file)
            .collect();
        let operations = |text: &str| self.imported(text, "crate::ops::", &["src/ops"]);
        let beside = || {
            let files = self.imported(entry, "super::", &["src/capi/functions"]).into_iter();
            let found: BTreeSet<&Path> =
                files.filter_map(|file| self.text(file)).flat_map(operations).collect();
            found.into_iter().collect()
        };
        [told, operations(entry)].into_iter().find(|files| !files.is_empty()).unwrap_or_else(beside)
    }

    /// All that is known of this function; nothing if no file of `src/capi` defines it.
    fn find(&self, name: &str) -> Option<Vec<Section>> {
        let (file, text, line) = self.entry(name)?;
        let plans = self.plans(name, text);
        let kinds = self.kinds(&plans);
        let kernels = kinds.iter().map(|kind| self.kernels(kind)).collect();
        let paths = |files: &[&Path]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let mentions = |folders: &[&str]| {
            let named = |text: &str| {
                contains_word(text, name) || contains_word(text, name.trim_start_matches("cudnn"))
            };
            let all = folders.iter().flat_map(|folder| self.below(folder));
            all.filter(|(file, text)| !file.starts_with(EVERY_NAME) && named(text))
                .map(|(file, _)| file.display().to_string())
                .collect()
        };
        let sections = vec![
            ("entry", vec![format!("{}:{line}", file.display())]),
            ("plan", paths(&plans)),
            ("steps that its plans may have, and where their kernels begin", kernels),
            ("tests, recordings among them", mentions(&["tests", "testkit", "c_tests"])),
            ("benchmarks, demo and examples", mentions(&["benches", "demo", "examples"])),
            ("pages", mentions(&["docs"])),
        ];
        Some(sections.into_iter().filter(|(_, lines)| !lines.is_empty()).collect())
    }

    /// The recordings of functions whose plans may have steps of this kind.
    fn recordings(&self, kind: &str) -> BTreeSet<String> {
        let functions = self.text(Path::new(CATALOGUE)).into_iter().flat_map(str::lines).skip(1);
        let functions = functions.filter_map(|row| row.split('\t').next());
        let has_kind = |name: &&str| {
            let entry = self.entry(name);
            entry.is_some_and(|(_, text, _)| self.kinds(&self.plans(name, text)).contains(kind))
        };
        let names: Vec<&str> =
            functions.filter(has_kind).map(|name| name.trim_start_matches("cudnn")).collect();
        let is_of = |text: &str| names.iter().any(|name| contains_word(text, name));
        let files = self.below(RECORDINGS).filter(|(file, text)| {
            file.parent() == Some(Path::new(RECORDINGS))
                && file.extension().is_some_and(|end| end == "tsv")
                && is_of(text)
        });
        files.filter_map(|(file, _)| Some(file.file_stem()?.to_str()?.to_owned())).collect()
    }

    /// The files below a folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&Path, &str)> {
        self.0.iter().filter(move |(file, _)| file.starts_with(folder)).map(|(file, text)| (&**file, &**text))
    }

    /// The files of the modules that `text` imports by lines `use PREFIX...`, if they lie in one of
    /// these folders: the module's own, and those of its folder.
    fn imported(&self, text: &str, prefix: &str, folders: &[&str]) -> Vec<&Path> {
        let uses = text.lines().filter_map(|line| line.strip_prefix("use ")?.strip_prefix(prefix));
        let modules: BTreeSet<&str> = uses
            .filter_map(|path| {
                path.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| !word.is_empty())
            })
            .collect();
        let is_of = |file: &Path, module: &str| {
            folders.iter().any(|folder| {
                let place = Path::new(folder).join(module);
                file == place.with_extension("rs") || file.starts_with(place)
            })
        };
        self.0
            .iter()
            .map(|(file, _)| &**file)
            .filter(|file| modules.iter().any(|module| is_of(file, module)))
            .collect()
    }

    /// The kinds of steps that these files, their folders, and what they import from beside them
    /// may make.
    fn kinds(&self, plans: &[&Path]) -> BTreeSet<String> {
        let mut files: BTreeSet<&Path> = BTreeSet::new();
        for plan in plans {
            let Some(text) = self.text(plan) else { continue };
            let folder = plan.parent().and_then(Path::to_str).unwrap_or_default();
            files.insert(plan);
            files.extend(self.below(&plan.with_extension("").to_string_lossy()).map(|(file, _)| file));
            files.extend(self.imported(text, "super::", &[folder]));
            files.extend(self.imported(text, "crate::ops::", &["src/ops"]));
        }
        let texts = files.into_iter().filter_map(|file| self.text(file));
        texts
            .flat_map(|text| text.split("Step::").skip(1))
            .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next())
            .filter(|kind| kind.starts_with(char::is_uppercase))
            .map(str::to_owned)
            .collect()
    }

    /// A kind, and the lines with which the cores begin to run it.
    fn kernels(&self, kind: &str) -> String {
        let row = format!("    {kind}(");
        let rows = self.text(Path::new(KINDS)).into_iter().flat_map(str::lines);
        let problems = rows.filter_map(|line| line.strip_prefix(&row)?.split(['<', ')']).next());
        let begins = problems.take(1).flat_map(|problem| {
            let implements = format!(" Kind for {problem}");
            self.below(CORES).flat_map(move |(file, text)| {
                let is_begin = |line: &str| {
                    let rest = line.split_once(&implements).map(|(_, rest)| rest);
                    rest.is_some_and(|rest| rest.starts_with([' ', '<']))
                };
                let lines = text.lines().enumerate().filter(|(_, line)| is_begin(line));
                lines.map(|(at, _)| format!("{}:{}", file.display(), at + 1)).collect::<Vec<_>>()
            })
        });
        format!("{kind}: {}", begins.collect::<Vec<_>>().join(", "))
    }

    fn text(&self, file: &Path) -> Option<&str> {
        let at = self.0.binary_search_by(|(path, _)| path.as_path().cmp(file)).ok()?;
        Some(&self.0[at].1)
    }
}

/// The table of all functions, and the folder of the recordings.
const CATALOGUE: &str = "src/catalogue.tsv";
const RECORDINGS: &str = "tests/data/oracle";

/// Tables of all names, which tell nothing about one.
const EVERY_NAME: &str = "tests/data/abi";

/// The table of the kinds of steps, and the folder of the cores that run them.
const KINDS: &str = "src/ops/plan.rs";
const CORES: &str = "src/backend";

/// Whether `word` stands in `text` with no letter, digit or underscore beside it.
fn contains_word(text: &str, word: &str) -> bool {
    let beside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !beside(text[..at].chars().next_back()) && !beside(text[at + word.len()..].chars().next())
    })
}

/// Adds the readable texts below a folder.
pub fn collect(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            files.push((path.strip_prefix(root)?.to_owned(), text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(sections: &'a [Section], what: &str) -> Vec<&'a str> {
        let of = sections.iter().filter(|(heading, _)| heading.starts_with(what));
        of.flat_map(|(_, lines)| lines).map(String::as_str).collect()
    }

    #[test]
    fn a_function_is_found_with_its_plan_kernels_tests_and_pages() {
        let sources = Sources::read(shell::root()).unwrap();
        let pooling = sources.find("cudnnPoolingForward").unwrap();
        assert!(lines(&pooling, "entry")[0].starts_with("src/capi/functions/pooling.rs:"));
        assert_eq!(lines(&pooling, "plan"), ["src/ops/pooling.rs"]);
        let steps = lines(&pooling, "steps");
        let window = steps.iter().find(|line| line.starts_with("Window: ")).expect("a kind of step");
        for core in ["cpu", "cuda", "reference"] {
            assert!(window.contains(&format!("src/backend/{core}/window.rs:")), "{window}");
        }
        assert!(lines(&pooling, "tests").contains(&"c_tests/disjoint.c"));
        assert!(lines(&pooling, "pages").contains(&"docs/networks.md"));
        // A function that keeps a number has a place and no plan.
        let version = sources.find("cudnnGetVersion").unwrap();
        assert!(lines(&version, "steps").is_empty());
        assert!(sources.find("cudnnPooling").is_none());
        let windows = sources.recordings("Window");
        assert!(windows.contains("op_pooling") && !windows.contains("op_ctc"), "{windows:?}");
    }
}
