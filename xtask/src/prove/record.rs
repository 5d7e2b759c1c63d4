//! `docs/proof.md`: when each long check passed last, on which commit, and what it did.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::checks::CHECKS;
use crate::shell;

/// When a check passed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The commit, in full.
    pub commit: String,
    /// The second it ended, in UTC, as `2026-11-28 09:30`; text that sorts by time.
    pub ended: String,
    pub minutes: u64,
    pub figure: String,
}

/// What the table says, by names of checks.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Record(BTreeMap<String, Proof>);

impl Record {
    /// Reads the table; an empty one if there is none yet.
    ///
    /// # Errors
    /// The file cannot be read, or a line of its table is none of this task's.
    pub fn read() -> Result<Record> {
        let path = path();
        if !path.exists() {
            return Ok(Record::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Record::parse(&text)
    }

    fn parse(text: &str) -> Result<Record> {
        let mut proofs = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, _, _, ended, commit, minutes, figure] = cells[..] else {
                anyhow::bail!("docs/proof.md: `{line}` has {} cells, not 7", cells.len());
            };
            if ended == NEVER {
                continue;
            }
            let minutes = minutes
                .parse()
                .with_context(|| format!("docs/proof.md: `{minutes}` is no number of minutes"))?;
            let [commit, ended, figure] =
                [commit, ended, figure].map(|cell| cell.trim_matches('`').to_owned());
            proofs.insert(name.trim_matches('`').to_owned(), Proof { commit, ended, minutes, figure });
        }
        Ok(Record(proofs))
    }

    pub fn of(&self, check: &str) -> Option<&Proof> {
        self.0.get(check)
    }

    /// Takes a proof down, and writes the file. Other runs may have written it since it was read:
    /// what they noted stays.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn note(&mut self, check: &str, proof: Proof) -> Result<()> {
        *self = Record::read()?;
        self.0.insert(check.to_owned(), proof);
        self.write()
    }

    /// Writes the file, with a line for each check.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> Result<()> {
        let path = path();
        fs::write(&path, self.page()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A record of one proof.
    #[cfg(test)]
    pub fn passed(check: &str, ended: &str) -> Record {
        let proof =
            Proof { commit: String::new(), ended: ended.to_owned(), minutes: 1, figure: String::new() };
        Record([(check.to_owned(), proof)].into())
    }

    /// The page.
    fn page(&self) -> String {
        let mut text = String::from(HEAD);
        for check in CHECKS {
            let proven = self.of(check.name).map_or_else(
                || format!("{NEVER} | - | - | -"),
                |proof| {
                    format!(
                        "{} | `{}` | {} | {}",
                        proof.ended,
                        proof.commit,
                        proof.minutes,
                        proof.figure.replace('|', "/")
                    )
                },
            );
            _ = writeln!(text, "| `{}` | {} | `{}` | {proven} |", check.name, check.about, check.command());
        }
        text
    }
}

const NEVER: &str = "never";

const HEAD: &str = "# Proof

The checks that take too long for every change. `cargo xtask prove` runs them, those first that passed longest ago, and writes this table; do
not edit it. `cargo xtask prove --minutes 60` ends before an hour has passed, and the next run goes on where it stopped; `cargo xtask prove NAME...`
runs only these; `--list` says what is not proven of the sources as they are. A proof holds as long as nothing but documents and figures has
changed since its commit.

| check | what it shows | command | passed (UTC) | commit | minutes | figure |
|---|---|---|---|---|---|---|
";

fn path() -> PathBuf {
    shell::root().join("docs/proof.md")
}

/// The commit that is checked out.
///
/// # Errors
/// This is no clone of the repository, or its sources are not those of a commit.
pub fn head() -> Result<String> {
    let changed = shell::output(git(["status", "--porcelain", "--untracked-files=no", "--"]).args(SOURCES))?;
    if !changed.is_empty() {
        anyhow::bail!("the sources are not those of a commit, of which the record could speak:\n{changed}");
    }
    shell::output(&mut git(["rev-parse", "--short=12", "HEAD"]))
}

/// Everything but documents and figures, whose changes no check would notice.
const SOURCES: [&str; 4] = [".", ":!docs", ":!*.md", ":!benches/results"];

/// Whether the sources of a commit are those that are checked out.
pub fn same_sources(commit: &str) -> bool {
    git(["diff", "--quiet", commit, "HEAD", "--"]).args(SOURCES).status().is_ok_and(|status| status.success())
}

fn git<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(Path::new(shell::root()));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let mut record = Record::default();
        let proof = Proof {
            commit: "0123456789ab".to_owned(),
            ended: "2026-11-28 09:30".to_owned(),
            minutes: 65,
            figure: "1,000 problems in 3600 s, of which 10 were refused; 0 faults".to_owned(),
        };
        record.0.insert(CHECKS[1].name.to_owned(), proof);
        assert_eq!(Record::parse(&record.page()).unwrap(), record);
        assert_eq!(Record::parse(&Record::default().page()).unwrap(), Record::default());
    }

    #[test]
    fn a_line_of_another_shape_is_an_error() {
        assert!(Record::parse("| `steps` | a | b |").is_err());
    }

    #[test]
    fn the_committed_page_has_every_check() {
        let text = fs::read_to_string(path()).unwrap();
        let record = Record::parse(&text).unwrap();
        assert_eq!(record.page(), text, "run cargo xtask prove --list");
    }
}
