//! `cargo xtask mutants`: small changes of the sources, each of which a quick test must notice.
//!
//! All changes of a sample are compiled into one copy of the library, and an environment variable
//! says which of them a process has: a mutant costs a run of the tests, not a build.

mod rewrite;
mod sites;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::shell;
use sites::{Change, Functions, Site};
use tree::Tree;
use trial::Trial;

pub const ARGUMENTS: &str = "--seed N       which sample is drawn; another one each time if not given
--count N      how many changes, 400 if not given
--list         only prints the sample, with those that turn out not to compile
--only N,...   runs only these of the sample";

/// What is changed: folders or files, and which functions of them. The kernels of contractions
/// decide in `new`, and in the functions of their table, whether they take a problem.
const SOURCES: &[(&str, Functions)] = &[
    ("src/layout/", Functions::All),
    ("src/ops/", Functions::All),
    ("src/desc/", Functions::All),
    ("src/backend/cpu/contract/table.rs", Functions::All),
    ("src/backend/cpu/contract/", Functions::Named("new")),
];

/// How many mutants run at a time.
const LANES: usize = 2;

/// What is asked for.
struct Asked {
    seed: u64,
    count: usize,
    list: bool,
    only: Option<BTreeSet<usize>>,
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Asked> {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut asked = Asked { seed, count: 400, list: false, only: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--seed" => asked.seed = value()?.parse().context("--seed takes a number")?,
                "--count" => asked.count = value()?.parse().context("--count takes a number")?,
                "--only" => {
                    let numbers = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                    asked.only = Some(numbers.context("--only takes numbers and commas")?);
                }
                "--list" => asked.list = true,
                _ => bail!("usage: cargo xtask mutants [--seed N] [--count N] [--list] [--only N,...]"),
            }
        }
        Ok(asked)
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let asked = Asked::parse(arguments)?;
    let mut sample = all()?;
    println!("{} of {} changes, seed {}", asked.count.min(sample.len()), sample.len(), asked.seed);
    shuffle(&mut sample, asked.seed);
    // Some do not compile; those that come next take their place.
    sample.truncate(asked.count + asked.count / 6 + 4);
    if asked.list {
        sample.truncate(asked.count);
        for (number, site) in (1..).zip(&sample) {
            println!("{}", shown(number, site)?);
        }
        return Ok(());
    }
    let (tree, compiling) = Tree::of(&sample)?;
    let trial = Trial::built(&tree)?;
    for suite in &trial.suites {
        println!("{}: {:.1} s without a mutant", suite.name, suite.takes.as_secs_f64());
    }
    let mut mutants: Vec<usize> = compiling.into_iter().take(asked.count).collect();
    if let Some(only) = &asked.only {
        mutants.retain(|number| only.contains(number));
    }
    report(&asked, &sample, &mutants, &verdicts(&trial, &sample, &mutants)?)
}

/// All changes that can be made.
fn all() -> Result<Vec<Site>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "src/*.rs"]).current_dir(shell::root());
    let mut sites = Vec::new();
    for file in shell::output(&mut list)?.lines() {
        if let Some(&(_, functions)) = SOURCES.iter().find(|(place, _)| file.starts_with(place)) {
            sites.extend(sites::find(file, &fs::read_to_string(shell::root().join(file))?, functions)?);
        }
    }
    Ok(sites)
}

/// Any order is as likely as any other.
fn shuffle(sites: &mut [Site], seed: u64) {
    let mut state = seed;
    for last in (1..sites.len()).rev() {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        sites.swap(last, (bits % (last as u64 + 1)) as usize);
    }
}

/// Runs the mutants, some at a time, and tells for each which test has noticed it.
fn verdicts(
    trial: &Trial, sample: &[Site], mutants: &[usize],
) -> Result<BTreeMap<usize, Option<&'static str>>> {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let start = Instant::now();
    let work = |lane: usize| -> Result<()> {
        while let Some(&mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let noticed = trial.noticed(mutant, &sample[mutant - 1].file, lane)?;
            let mut verdicts = verdicts.lock().expect("no lane panics");
            verdicts.insert(mutant, noticed);
            let by = noticed.unwrap_or("nothing: it survives");
            println!("noticed by {by}: {}", shown(mutant, &sample[mutant - 1])?);
            if verdicts.len() % 20 == 0 {
                println!("{} of {} after {} s", verdicts.len(), mutants.len(), start.elapsed().as_secs());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || work(lane))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("no lane panics"))
    })?;
    Ok(verdicts.into_inner().expect("no lane panics"))
}

fn report(
    asked: &Asked, sample: &[Site], mutants: &[usize], verdicts: &BTreeMap<usize, Option<&'static str>>,
) -> Result<()> {
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    verdicts.values().flatten().for_each(|suite| *by.entry(suite).or_default() += 1);
    let survivors: Vec<usize> = mutants.iter().copied().filter(|mutant| verdicts[mutant].is_none()).collect();
    println!();
    for &mutant in &survivors {
        println!("{}", shown(mutant, &sample[mutant - 1])?);
    }
    let noticed = mutants.len() - survivors.len();
    let by: Vec<String> = by.iter().map(|(suite, count)| format!("{suite} {count}")).collect();
    println!(
        "seed {}: {} mutants, {noticed} noticed ({}), {} survive, {:.1} % noticed",
        asked.seed,
        mutants.len(),
        by.join(", "),
        survivors.len(),
        100.0 * noticed as f64 / mutants.len().max(1) as f64
    );
    Ok(())
}

/// `number file:line: was -> becomes`, on one line.
fn shown(number: usize, site: &Site) -> Result<String> {
    let text = fs::read_to_string(shell::root().join(&site.file))?;
    let change = match &site.change {
        Change::Becomes(other) => format!("{} -> {}", short(&text[site.range.clone()]), short(other)),
        Change::Returns(value) => {
            // The name of the function is in what comes before its body.
            let before = &text[..site.range.start];
            let head = before.rfind("fn ").map_or("", |at| &before[at..]);
            format!(
                "{} returns {}",
                short(head.split('(').next().unwrap_or(head)),
                if value.is_empty() { "()" } else { value }
            )
        }
    };
    Ok(format!("{number} {}:{}: {change}", site.file, site.line))
}

/// The text in one line that is not too long.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= 100 { line } else { line.chars().take(97).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_one_sample() {
        let site =
            |line| Site { file: String::new(), line, range: 0..1, change: Change::Returns(String::new()) };
        let draw = |seed| {
            let mut sites: Vec<Site> = (0..100).map(site).collect();
            shuffle(&mut sites, seed);
            sites.iter().map(|site| site.line).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut sorted = draw(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn arguments_are_numbers() {
        let parse = |line: &str| Asked::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let asked = parse("--seed 7 --count 3 --only 1,9").expect("arguments");
        assert_eq!((asked.seed, asked.count, asked.list), (7, 3, false));
        assert_eq!(asked.only, Some(BTreeSet::from([1, 9])));
        assert!(parse("--seed").is_err() && parse("--count x").is_err() && parse("--other").is_err());
    }
}
