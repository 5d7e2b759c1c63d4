//! `cargo xtask mutants`: small changes of the sources, each of which a quick test must notice.
//!
//! All changes of a sample are compiled into one copy of the library, and an environment variable
//! says which of them a process has: a mutant costs a run of tests, not a build. A run of each test
//! without a mutant notes which changes it comes by; only those tests are run for one.

mod equivalent;
mod rewrite;
mod sites;
mod tree;
mod trial;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::{locate, shell};
use sites::{Functions, Site};
use tree::Tree;
use trial::Trial;

pub const ARGUMENTS: &str =
    "--seed N,...   which samples are drawn, all in one build; another one each time if not given
--count N      how many changes a sample has, 400 if not given
--list         only prints the samples, with those that turn out not to compile
--only N,...   runs only these of the samples, by their number in the list
--equivalent   runs those that equivalent.tsv says no test can notice, in place of samples";

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
    seeds: Vec<u64>,
    count: usize,
    list: bool,
    equivalent: bool,
    only: Option<BTreeSet<usize>>,
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Asked> {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut asked = Asked { seeds: vec![seed], count: 400, list: false, equivalent: false, only: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--seed" => asked.seeds = numbers(value()?).context("--seed takes numbers and commas")?,
                "--count" => asked.count = value()?.parse().context("--count takes a number")?,
                "--only" => {
                    asked.only = Some(numbers(value()?).context("--only takes numbers and commas")?);
                }
                "--list" => asked.list = true,
                "--equivalent" => asked.equivalent = true,
                _ => bail!(
                    "usage: cargo xtask mutants [--seed N,...] [--count N] [--list] [--equivalent] [--only N,...]"
                ),
            }
        }
        Ok(asked)
    }
}

fn numbers<T: FromStr, L: FromIterator<T>>(text: &str) -> Result<L, T::Err> {
    text.split(',').map(str::parse).collect()
}

/// Some changes, by their place in the list of all that are drawn.
struct Sample {
    name: String,
    order: Vec<usize>,
}

pub fn run(arguments: &[String]) -> Result<()> {
    let asked = Asked::parse(arguments)?;
    let all = all()?;
    let equivalent = equivalent::read(&all)?;
    let (drawn, samples) = draw(&all, &asked, &equivalent);
    // Numbers begin at 1: 0 is none.
    let sites: Vec<Site> = drawn.iter().map(|&site| all[site].clone()).collect();
    println!("{} of {} changes", sites.len(), all.len());
    if asked.list {
        (1..).zip(&sites).for_each(|(number, site)| println!("{}", shown(number, site)));
        return Ok(());
    }
    let (tree, compiling) = Tree::of(&sites)?;
    let trial = Trial::built(&tree, sites.len())?;
    for (program, (count, takes)) in trial.programs() {
        println!("{program}: {count} suites of tests, {:.1} s without a mutant", takes.as_secs_f64());
    }
    let is_equivalent = |number: usize| equivalent.contains_key(&drawn[number - 1]);
    let samples: Vec<(String, Vec<usize>)> = samples
        .into_iter()
        .map(|Sample { name, order }| {
            // Those that come next take the place of what does not compile.
            let mut mutants: Vec<usize> = order.into_iter().map(|at| at + 1).collect();
            mutants.retain(|number| compiling.contains(number));
            mutants.truncate(if asked.equivalent { usize::MAX } else { asked.count });
            mutants.retain(|number| asked.only.as_ref().is_none_or(|only| only.contains(number)));
            (name, mutants)
        })
        .collect();
    let mut mutants: Vec<usize> = Vec::new();
    for &number in samples.iter().flat_map(|(_, mutants)| mutants) {
        // Without being asked for nothing is run that no test can notice.
        let wanted = asked.equivalent || asked.only.is_some() || !is_equivalent(number);
        if wanted && !mutants.contains(&number) {
            mutants.push(number);
        }
    }
    let verdicts = verdicts(&trial, &sites, &mutants)?;
    for (name, mutants) in &samples {
        report(name, &sites, mutants, &verdicts, &is_equivalent);
    }
    for number in mutants.into_iter().filter(|&number| is_equivalent(number)) {
        if let Some(suite) = verdicts[&number] {
            bail!("{suite} notices what is listed as equivalent: {}", shown(number, &sites[number - 1]));
        }
    }
    Ok(())
}

/// All changes that can be made.
fn all() -> Result<Vec<Site>> {
    let (root, mut sources, mut sites) = (shell::root(), Vec::new(), Vec::new());
    locate::collect(root, &root.join("src"), &mut sources)?;
    // In the order of their names.
    sources.sort();
    for (file, text) in &sources {
        let file = file.to_str().context("a name that is no text")?;
        let of = SOURCES.iter().find(|(place, _)| file.starts_with(place) && file.ends_with(".rs"));
        if let Some(&(_, functions)) = of {
            sites.extend(sites::find(file, text, functions)?);
        }
    }
    Ok(sites)
}

/// The changes that are built, which are one sample for each seed, by their place among all; or
/// those that are listed as equivalent.
fn draw(all: &[Site], asked: &Asked, equivalent: &BTreeMap<usize, String>) -> (Vec<usize>, Vec<Sample>) {
    if asked.equivalent {
        let drawn: Vec<usize> = equivalent.keys().copied().collect();
        let order = (0..drawn.len()).collect();
        return (drawn, vec![Sample { name: "equivalent".to_owned(), order }]);
    }
    // Some do not compile, and those that come next take their place. They have the last numbers,
    // so that others have the same ones in the list.
    let spare = if asked.list { 0 } else { asked.count / 6 + 4 };
    let orders: Vec<Vec<usize>> = asked.seeds.iter().map(|&seed| ordered(all, seed)).collect();
    let wanted = |skip: usize, take: usize| {
        orders.iter().flat_map(move |order| order.iter().copied().skip(skip).take(take))
    };
    let mut places = BTreeMap::new();
    let mut drawn: Vec<usize> = Vec::new();
    for site in wanted(0, asked.count).chain(wanted(asked.count, spare)) {
        places.entry(site).or_insert_with(|| {
            drawn.push(site);
            drawn.len() - 1
        });
    }
    let sample = |(seed, order): (&u64, &Vec<usize>)| {
        let order = order.iter().take(asked.count + spare).map(|site| places[site]).collect();
        Sample { name: format!("seed {seed}"), order }
    };
    let samples = asked.seeds.iter().zip(&orders).map(sample).collect();
    (drawn, samples)
}

/// The places of the changes in an order that the seed gives. What is drawn first stays first
/// whatever changes elsewhere in the sources: the order is that of numbers made of the keys.
fn ordered(sites: &[Site], seed: u64) -> Vec<usize> {
    let number = |at: &usize| {
        let bytes = sites[*at].key().join("\t").into_bytes();
        bytes.into_iter().fold(mixed(seed), |state, byte| mixed(state ^ u64::from(byte)))
    };
    let mut order: Vec<usize> = (0..sites.len()).collect();
    order.sort_by_cached_key(number);
    order
}

/// A step of SplitMix64.
fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Runs the mutants, some at a time, and tells for each which test has noticed it.
fn verdicts(
    trial: &Trial, sites: &[Site], mutants: &[usize],
) -> Result<BTreeMap<usize, Option<&'static str>>> {
    let (start, done) = (Instant::now(), AtomicUsize::new(0));
    let noticed = in_lanes(mutants.len(), |at, lane| {
        let mutant = mutants[at];
        let noticed = trial.noticed(mutant, &sites[mutant - 1].file, lane)?;
        let by = noticed.unwrap_or("nothing: it survives");
        println!("noticed by {by}: {}", shown(mutant, &sites[mutant - 1]));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(20) {
            println!("{done} of {} after {} s", mutants.len(), start.elapsed().as_secs());
        }
        Ok(noticed)
    })?;
    Ok(mutants.iter().copied().zip(noticed).collect())
}

/// What `work` makes of the numbers below `count`, some at a time, each in a lane of its own.
///
/// # Errors
/// The first that `work` ends with; what other lanes are at comes to its end.
fn in_lanes<R: Send>(count: usize, work: impl Fn(usize, usize) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let run = |lane: usize| -> Result<Vec<(usize, R)>> {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        numbers.take_while(|&number| number < count).map(|number| Ok((number, work(number, lane)?))).collect()
    };
    let mut made = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || run(lane))).collect();
        let mut made = Vec::new();
        for lane in lanes {
            made.extend(lane.join().expect("no lane panics")?);
        }
        anyhow::Ok(made)
    })?;
    made.sort_by_key(|&(number, _)| number);
    Ok(made.into_iter().map(|(_, result)| result).collect())
}

/// Prints what has survived of a sample, and a line that sums it up.
fn report(
    name: &str, sites: &[Site], mutants: &[usize], verdicts: &BTreeMap<usize, Option<&'static str>>,
    is_equivalent: &impl Fn(usize) -> bool,
) {
    let (equivalent, others): (Vec<usize>, Vec<usize>) =
        mutants.iter().partition(|&&number| is_equivalent(number));
    let survivors: Vec<usize> = others.iter().copied().filter(|mutant| verdicts[mutant].is_none()).collect();
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    others.iter().filter_map(|mutant| verdicts[mutant]).for_each(|suite| *by.entry(suite).or_default() += 1);
    println!();
    survivors.iter().for_each(|&mutant| println!("{}", shown(mutant, &sites[mutant - 1])));
    let noticed = others.len() - survivors.len();
    let by: Vec<String> = by.iter().map(|(suite, count)| format!("{suite} {count}")).collect();
    println!(
        "{name}: {} mutants, {noticed} noticed ({}), {} equivalent, {} survive, {:.1} % noticed of those that differ",
        mutants.len(),
        by.join(", "),
        equivalent.len(),
        survivors.len(),
        100.0 * noticed as f64 / others.len().max(1) as f64
    );
}

/// `number file:line: function: was -> becomes`, on one line.
fn shown(number: usize, site: &Site) -> String {
    format!("{number} {}:{}: {}: {}", site.file, site.line, site.function, site.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_one_sample_whatever_else_is_there() {
        let text = "fn f(a: u8, b: u8) -> bool { a + b < 2 && a - b > 3 }\nfn g(a: u8) -> u8 { a * 2 }";
        let sites = sites::find("a.rs", text, Functions::All).expect("a source file");
        let texts = |sites: &[Site], seed| {
            let texts = ordered(sites, seed).into_iter().map(|at| sites[at].text.clone());
            texts.collect::<Vec<_>>()
        };
        let all = texts(&sites, 1);
        assert_eq!(all, texts(&sites, 1));
        assert_ne!(all, texts(&sites, 2));
        // Another line before them, and a function less.
        let moved = format!("// A remark.\n{}", text.lines().next().unwrap());
        let fewer = sites::find("a.rs", &moved, Functions::All).expect("a source file");
        let left = texts(&fewer, 1);
        assert!(left.len() < all.len());
        assert_eq!(left, all.into_iter().filter(|text| left.contains(text)).collect::<Vec<_>>());
    }

    #[test]
    fn samples_of_several_seeds_share_what_both_draw() {
        let text = "fn f(a: u8, b: u8) -> bool { a + b < 2 && a - b > 3 }";
        let sites = sites::find("a.rs", text, Functions::All).expect("a source file");
        let asked = Asked::parse(&["--seed", "1,2", "--count", "5"].map(str::to_owned)).expect("arguments");
        let (drawn, samples) = draw(&sites, &asked, &BTreeMap::new());
        assert!(drawn.iter().collect::<BTreeSet<_>>().len() == drawn.len());
        for (seed, sample) in [1, 2].into_iter().zip(&samples) {
            let order: Vec<usize> = sample.order.iter().map(|&at| drawn[at]).collect();
            assert_eq!(order, ordered(&sites, seed)[..order.len()]);
        }
    }

    #[test]
    fn arguments_are_numbers() {
        let parse = |line: &str| Asked::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let asked = parse("--seed 7,8 --count 3 --only 1,9").expect("arguments");
        assert_eq!((&asked.seeds[..], asked.count, asked.list), (&[7, 8][..], 3, false));
        assert_eq!(asked.only, Some(BTreeSet::from([1, 9])));
        assert!(parse("--seed").is_err() && parse("--count x").is_err() && parse("--other").is_err());
    }
}
