//! `cargo xtask prove`: the long checks, those first that passed longest ago, and what the record
//! says of each.

mod checks;
mod figure;
mod record;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell;
use checks::{CHECKS, Check};
use record::{Proof, Record};

pub const ARGUMENTS: &str = "[NAME]...     only these checks
--minutes N   starts no check that would end later
--list        runs nothing, and tells what is not proven of the sources as they are";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    names: Vec<String>,
    minutes: Option<u64>,
    list: bool,
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Asked> {
        let mut asked = Asked { names: Vec::new(), minutes: None, list: false };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => asked.list = true,
                "--minutes" => {
                    let minutes = words.next().context("--minutes needs a number")?;
                    asked.minutes = Some(
                        minutes.parse().with_context(|| format!("`{minutes}` is no number of minutes"))?,
                    );
                }
                name if CHECKS.iter().any(|check| check.name == name) => asked.names.push(name.to_owned()),
                _ => {
                    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
                    bail!("there is no check `{word}`; there are {}", names.join(", "))
                }
            }
        }
        Ok(asked)
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let asked = Asked::parse(arguments)?;
    let mut record = Record::read()?;
    record.write()?;
    let mut failed = Vec::new();
    if !asked.list {
        let head = record::head()?;
        let (start, limit) = (Instant::now(), asked.minutes.map(|minutes| Duration::from_secs(60 * minutes)));
        for check in due(&record, &asked.names) {
            let takes =
                Duration::from_secs(60 * record.of(check.name).map_or(check.minutes, |proof| proof.minutes));
            if limit.is_some_and(|limit| start.elapsed() + takes > limit) {
                println!("{} takes some {} minutes, which are not left", check.name, takes.as_secs() / 60);
                continue;
            }
            println!("\n==== {}: {}", check.name, check.about);
            let start = Instant::now();
            match check.prove() {
                Ok(figure) => {
                    let minutes = start.elapsed().as_secs().div_ceil(60);
                    println!("{} passed: {figure}", check.name);
                    record
                        .note(check.name, Proof { commit: head.clone(), ended: now()?, minutes, figure })?;
                }
                Err(error) => {
                    println!("{} FAILED: {error:#}", check.name);
                    failed.push(check.name);
                }
            }
        }
    }
    println!("\nnot proven of these sources:");
    for check in CHECKS {
        match record.of(check.name) {
            Some(proof) if record::same_sources(&proof.commit) => {}
            Some(proof) => {
                println!("  {:10} passed last at {}, on {}", check.name, proof.ended, proof.commit)
            }
            None => println!("  {:10} never passed", check.name),
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// The checks of these names, or all that are not proven of the sources; those first that passed
/// longest ago, and among those that never did the shortest.
fn due(record: &Record, names: &[String]) -> Vec<&'static Check> {
    let wanted = |check: &&Check| {
        let proven = || record.of(check.name).is_some_and(|proof| record::same_sources(&proof.commit));
        if names.is_empty() { !proven() } else { names.iter().any(|name| name == check.name) }
    };
    let mut checks: Vec<&Check> = CHECKS.iter().filter(wanted).collect();
    checks.sort_by_key(|check| (record.of(check.name).map(|proof| proof.ended.clone()), check.minutes));
    checks
}

/// Day and minute, in UTC.
fn now() -> Result<String> {
    shell::output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_check_is_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = Asked::parse(&words("--minutes 60 miri steps")).unwrap();
        assert_eq!(asked, Asked { names: words("miri steps"), minutes: Some(60), list: false });
        assert!(Asked::parse(&words("--minutes")).is_err());
        assert!(Asked::parse(&words("--minutes soon")).is_err());
        let error = Asked::parse(&words("miry")).unwrap_err().to_string();
        assert!(error.contains("`miry`") && error.contains("miri"), "{error}");
    }

    #[test]
    fn what_never_passed_comes_first_and_the_shortest_of_it() {
        let names: Vec<String> = CHECKS.iter().map(|check| check.name.to_owned()).collect();
        let order = due(&Record::default(), &names);
        assert!(order.is_sorted_by_key(|check| check.minutes) && order.len() == CHECKS.len());
        let last = order[0].name;
        let record = Record::passed(last, "2026-11-28 09:30");
        assert_eq!(due(&record, &names).last().unwrap().name, last);
    }
}
