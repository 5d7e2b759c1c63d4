//! A copy of the repository with a sample of changes in it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::rewrite::{MODULE, Rewritten, rewrite};
use super::sites::Site;
use crate::shell;

/// What declares the modules of the library.
const LIBRARY: &str = "src/lib.rs";
/// A change may make a number that is known to overflow, or an index that is known to miss, which
/// the compiler refuses to build.
const PERMIT: &str = "#![allow(arithmetic_overflow, unconditional_panic)]";
/// The module that only the copy has.
const MUTANT: &str = "src/mutant.rs";

/// The copy, below target/mutants.
pub struct Tree {
    root: PathBuf,
    build: PathBuf,
}

impl Tree {
    /// A copy with those changes of `sample` that compile; returns their numbers, by their place in
    /// it from 1 on, too.
    pub fn of(sample: &[Site]) -> Result<(Tree, BTreeSet<usize>)> {
        let tree =
            Tree { root: shell::target().join("mutants/tree"), build: shell::target().join("mutants/build") };
        tree.copy(sample)?;
        let kept = tree.change(sample)?;
        Ok((tree, kept))
    }

    /// Brings what is not changed up to date. What is as it was keeps its time, so that cargo
    /// builds only what differs.
    fn copy(&self, sample: &[Site]) -> Result<()> {
        let changed: HashSet<&str> =
            sample.iter().map(|site| site.file.as_str()).chain([LIBRARY, MUTANT]).collect();
        let mut list = Command::new("git");
        list.args(["ls-files", "-z"]).current_dir(shell::root());
        let list = shell::output(&mut list)?;
        let listed: HashSet<&str> = list.split('\0').filter(|name| !name.is_empty()).collect();
        for name in listed.difference(&changed) {
            let from = shell::root().join(name);
            // What is removed, but not from the index.
            if from.is_file() {
                write(&self.root.join(name), &fs::read(&from)?)?;
            }
        }
        self.remove_others(&self.root, &listed)
    }

    fn remove_others(&self, folder: &Path, listed: &HashSet<&str>) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(&self.root)?.to_str().context("a name that is no text")?;
            if path.is_dir() {
                self.remove_others(&path, listed)?;
            } else if !listed.contains(name) && name != MUTANT {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Cargo in the copy. As tests are always built: without optimisation the sums take many times
    /// as long.
    pub fn cargo(&self) -> Command {
        let mut command = shell::cargo();
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.build);
        command.env("CARGO_INCREMENTAL", "0");
        command
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes what of `sample` compiles, and returns its numbers.
    fn change(&self, sample: &[Site]) -> Result<BTreeSet<usize>> {
        let library = fs::read_to_string(shell::root().join(LIBRARY))?;
        write(&self.root.join(LIBRARY), format!("{PERMIT}\n{library}\nmod mutant;\n").as_bytes())?;
        write(&self.root.join(MUTANT), MODULE.as_bytes())?;
        let mut kept: BTreeSet<usize> = (1..=sample.len()).collect();
        // What the compiler has refused of the same sample need not be tried again, which takes
        // minutes.
        let known = shell::target().join("mutants/refused");
        let head = format!("{:x}\n", digest(sample)?);
        let before = fs::read_to_string(&known).unwrap_or_default();
        for number in before.strip_prefix(&head).unwrap_or_default().lines() {
            kept.remove(&number.parse().context("a number of a change")?);
        }
        loop {
            let files = self.write(sample, &kept)?;
            let refused = self.check(&files)?;
            if refused.is_empty() {
                let others = (1..=sample.len()).filter(|number| !kept.contains(number));
                let others: String = others.map(|number| format!("{number}\n")).collect();
                fs::write(&known, head + &others)?;
                return Ok(kept);
            }
            println!("{} of {} do not compile", refused.len(), kept.len());
            kept.retain(|number| !refused.contains(number));
        }
    }

    /// Writes all files of the sample with what is kept of it.
    fn write(&self, sample: &[Site], kept: &BTreeSet<usize>) -> Result<BTreeMap<String, Rewritten>> {
        let mut changes: BTreeMap<&str, Vec<(usize, &Site)>> = BTreeMap::new();
        for (number, site) in (1..).zip(sample) {
            let file = changes.entry(&site.file).or_default();
            if kept.contains(&number) {
                file.push((number, site));
            }
        }
        let mut files = BTreeMap::new();
        for (file, mut changes) in changes {
            changes.sort_by_key(|(_, site)| (site.range.start, std::cmp::Reverse(site.range.end)));
            let rewritten = rewrite(&fs::read_to_string(shell::root().join(file))?, &changes);
            write(&self.root.join(file), rewritten.text.as_bytes())?;
            files.insert(file.to_owned(), rewritten);
        }
        Ok(files)
    }

    /// The changes that the compiler objects to.
    fn check(&self, files: &BTreeMap<String, Rewritten>) -> Result<BTreeSet<usize>> {
        let mut command = self.cargo();
        command.args(["check", "--quiet", "--package", "cudnn-shim", "--lib", "--message-format=json"]);
        let output = command.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let errors: Vec<Value> = messages.filter(|message| message["message"]["level"] == "error").collect();
        let mut refused = BTreeSet::new();
        for error in &errors {
            let of = spans(&error["message"]).into_iter().find_map(|(file, bytes)| {
                Some(files.get(&file)?.blamed(&bytes)).filter(|blamed| !blamed.is_empty())
            });
            refused.extend(of.unwrap_or_default());
        }
        if refused.is_empty() && !output.status.success() {
            let said = errors.iter().filter_map(|error| error["message"]["rendered"].as_str());
            bail!("the copy does not compile:\n{}", said.collect::<String>());
        }
        Ok(refused)
    }
}

/// A number of the changes and of the files that they are in.
fn digest(sample: &[Site]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let files: BTreeSet<&str> = sample.iter().map(|site| site.file.as_str()).collect();
    for file in files {
        fs::read_to_string(shell::root().join(file))?.hash(&mut hasher);
    }
    sample.iter().for_each(|site| site.key().hash(&mut hasher));
    Ok(hasher.finish())
}

/// Where a message of the compiler points: first what it is about.
fn spans(message: &Value) -> Vec<(String, Range<usize>)> {
    let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let read = |span: &&Value| {
        let number = |name: &str| span[name].as_u64().map(|number| number as usize);
        Some((span["file_name"].as_str()?.to_owned(), number("byte_start")?..number("byte_end")?))
    };
    spans.iter().filter_map(read).collect()
}

/// Writes a file that is not there or is another.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
