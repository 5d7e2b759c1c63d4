//! `cargo xtask test`: every test there is, and one summary of all of them.

use std::fmt;
use std::fs::File;
use std::iter::Sum;
use std::ops::Add;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::dist::{self, Dist};
use crate::machine::Machine;
use crate::{cubins, demo, dependencies, examples, frontend, gpu_model, package, shell, tools};
use numpy::Extent;

pub mod numpy;
mod quick;

/// The library is one file that is quickly fetched and loaded: below this many bytes, as it is
/// installed.
const LIBRARY_BYTES: u64 = 24_000_000;

/// How many tests passed, failed or were skipped. Printed as `3 passed, 0 failed, 1 skipped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    pub const PASS: Tally = Tally { passed: 1, failed: 0, skipped: 0 };
    pub const FAIL: Tally = Tally { passed: 0, failed: 1, skipped: 0 };
    pub const SKIP: Tally = Tally { passed: 0, failed: 0, skipped: 1 };

    /// Reads what [`Display`](fmt::Display) prints.
    pub fn parse(line: &str) -> Option<Tally> {
        let mut counts = line.split(", ").zip([" passed", " failed", " skipped"]);
        let mut next = || counts.next().and_then(|(part, name)| part.strip_suffix(name)?.parse().ok());
        Some(Tally { passed: next()?, failed: next()?, skipped: next()? })
    }

    /// How many failed.
    pub fn failed(self) -> usize {
        self.failed
    }

    /// A runner that ended badly although it reported no failure has failed all the same.
    pub fn judged(self, status: ExitStatus) -> Tally {
        if status.success() || self.failed > 0 { self } else { self + Tally::FAIL }
    }
}

impl Add for Tally {
    type Output = Tally;
    fn add(self, other: Tally) -> Tally {
        Tally {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), Add::add)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => everything(),
        [flag] if flag == "--quick" => quick::run(None),
        [flag, of, kind] if flag == "--quick" && of == "--kind" => quick::run(Some(kind)),
        [flag] if flag == LIBRARY => sum_up(&of_library(false)?),
        [flag] if flag == RELEASED => sum_up(&of_library(true)?),
        _ => bail!("usage: cargo xtask test [--quick [--kind KIND] | {LIBRARY} | {RELEASED}]"),
    }
}

fn everything() -> Result<()> {
    tools::install_all();
    // Both halves use what this builds.
    let built = timed("build", || counted(build_tests()));
    let beside = Beside::start()?;
    let mut outcomes = vec![built, timed("cargo test", || counted(cargo_test()))];
    outcomes.extend(beside.finish()?);
    sum_up(&outcomes)
}

/// The argument that asks for what uses an installed library alone, in the profile of the tests.
const LIBRARY: &str = "--library";

/// The same of the release library, and its size.
const RELEASED: &str = "--released";

/// Lays the library out as an installation has it, and tests that.
fn of_library(release: bool) -> Result<Vec<Outcome>> {
    let start = Instant::now();
    let packs = if release { cubins::of_release().map(Some) } else { Ok(None) };
    let without =
        packs.as_ref().err().map(|error| format!("skipped: the machine code of a release: {error:#}"));
    let dist = dist::build(release, packs.ok().flatten().as_deref())?;
    let built = Outcome { name: "library".to_owned(), tally: Tally::default(), took: start.elapsed() };
    let mut outcomes = vec![built];
    if release {
        outcomes.push(timed("machine code", || {
            runner("machine code", || {
                without.iter().for_each(|line| println!("{line}"));
                Ok(if without.is_some() { Tally::SKIP } else { Tally::PASS })
            })
        }));
        outcomes.push(timed("size", || runner("size", || size(&dist))));
        // Pages and links have tests of their own; building what makes the site takes minutes.
        outcomes.push(timed("docs site", || runner("docs site", examples::site)));
    }
    outcomes.extend([
        timed("dependencies", || runner("dependencies", dependencies::check)),
        timed("demo", || demo_runs(&dist)),
        timed("NumPy differential", || runner("NumPy differential", || numpy::run(&dist, Extent::asked()))),
        timed("cudnn-frontend", || runner("cudnn-frontend", || frontend::test(&dist))),
        timed("Python examples", || runner("Python examples", || examples::python(&dist))),
        timed("MPI ranks", || runner("MPI ranks", || examples::mpi(&dist))),
        timed("sequences", || runner("sequences", || examples::sequences(&dist))),
        timed("GPU model", || runner("GPU model", || gpu_model::check(&dist.library()))),
        timed("aarch64", || runner("aarch64", other_processor)),
        timed("packages", || runner("packages", || package::verify(&dist, false))),
    ]);
    Ok(outcomes)
}

/// The tests of the installed library, beside those of cargo: either half leaves one of two
/// processors idle for most of its time. What they print follows in the end.
struct Beside {
    child: Child,
    output: PathBuf,
}

impl Beside {
    fn start() -> Result<Beside> {
        let output = shell::target().join("library.log");
        let file = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["test", LIBRARY]).stdout(file.try_clone()?).stderr(file);
        built_once(&mut command);
        println!(
            "the installed library is tested at the same time; until that is printed: {}",
            output.display()
        );
        Ok(Beside {
            child: command.spawn().context("cannot start the tests of the installed library")?,
            output,
        })
    }

    /// Waits for the end, prints what was printed, and reads what each runner counted.
    fn finish(mut self) -> Result<Vec<Outcome>> {
        let status = self.child.wait()?;
        let text = String::from_utf8_lossy(&std::fs::read(&self.output)?).into_owned();
        let (output, summary) = text.split_once(&heading(SUMMARY)).unwrap_or((&text, ""));
        println!("{output}");
        let mut outcomes: Vec<Outcome> = summary.lines().filter_map(Outcome::parse).collect();
        let total: Tally = outcomes.iter().map(|outcome| outcome.tally).sum();
        if total.judged(status) != total {
            let name = "installed library".to_owned();
            outcomes.push(Outcome { name, tally: Tally::FAIL, took: Duration::default() });
        }
        Ok(outcomes)
    }
}

/// The unit tests of the CPU core on another processor, emulated, and the lints of the library for
/// it; without an emulator the lints alone.
fn other_processor() -> Result<Tally> {
    let machine = Machine::named("aarch64")?;
    if machine.is_this() {
        return Ok(Tally::default());
    }
    if let Some(line) = tools::lacking("Rust for aarch64") {
        println!("skipped: the standard library for aarch64 is not installed; install it: {line}");
        return Ok(Tally::SKIP);
    }
    let missing = ["gcc for aarch64", "emulator of aarch64"].iter().find_map(|name| tools::lacking(name));
    let mut command = shell::cargo();
    command.arg(if missing.is_some() { "check" } else { "test" });
    command.args(["--package", "cudnn-shim", "--lib", "--target", machine.triple]);
    // Cargo builds what runs on this machine without these flags where a target is named.
    built_once(&mut command).env("RUSTFLAGS", "-D warnings");
    if let Some(line) = missing {
        println!("skipped: tests on an emulated aarch64; install what they need: {line}");
        let checked = shell::run(&mut command).map_or(Tally::FAIL, |()| Tally::PASS);
        return Ok(checked + Tally::SKIP);
    }
    machine.run_by(&mut command);
    // Compiling takes longer than these tests, and a third less without optimisation.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").args(["--", "backend::cpu"]);
    counted_cargo(&mut command)
}

/// Whether the release library is as small as it is meant to be.
fn size(dist: &Dist) -> Result<Tally> {
    let library = dist.library();
    let bytes = library.metadata().with_context(|| format!("{} is missing", library.display()))?.len();
    println!("{} has {bytes} bytes, of {LIBRARY_BYTES} that it may have", library.display());
    Ok(if bytes < LIBRARY_BYTES { Tally::PASS } else { Tally::FAIL })
}

/// What a runner counted, and how long it ran.
#[derive(Debug, PartialEq)]
struct Outcome {
    name: String,
    tally: Tally,
    took: Duration,
}

impl Outcome {
    /// Reads what [`Display`](fmt::Display) prints.
    fn parse(line: &str) -> Option<Outcome> {
        let (head, tally) = line.split_once(" s   ")?;
        let (name, seconds) = head.rsplit_once(' ')?;
        let took = Duration::from_secs(seconds.parse().ok()?);
        Some(Outcome { name: name.trim().to_owned(), tally: Tally::parse(tally)?, took })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { name, tally, took } = self;
        write!(f, "{name:20}{:>6} s   {tally}", took.as_secs())
    }
}

/// Runs a runner and measures its time.
fn timed(name: &str, run: impl FnOnce() -> Tally) -> Outcome {
    let start = Instant::now();
    Outcome { name: name.to_owned(), tally: run(), took: start.elapsed() }
}

const SUMMARY: &str = "summary";

/// Prints what each runner counted, and the sum as the last line.
fn sum_up(runners: &[Outcome]) -> Result<()> {
    println!("\n{}", heading(SUMMARY));
    runners.iter().for_each(|outcome| println!("{outcome}"));
    let total: Tally = runners.iter().map(|outcome| outcome.tally).sum();
    println!("\n{total}");
    if total.failed > 0 {
        // The summary is the last line; main prints nothing more than an exit status would need.
        std::process::exit(1);
    }
    if total.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// A runner that cannot go on counts as one failure, so that the summary is printed all the same.
fn counted(outcome: Result<Tally>) -> Tally {
    outcome.unwrap_or_else(|error| {
        println!("FAILED: {error:#}");
        Tally::FAIL
    })
}

/// A runner with a heading of its own.
fn runner(title: &str, run: impl FnOnce() -> Result<Tally>) -> Tally {
    println!("\n{}", heading(title));
    counted(run())
}

fn heading(title: &str) -> String {
    format!("==== {title} {}", "=".repeat(90 - title.len()))
}

/// The packages whose tests are built at once. xtask apart: it is there, built alone, and crates
/// that it shares with others have other features when all are built together.
const BUILDS: [&[&str]; 2] = [&["--workspace", "--exclude=xtask"], &["--package=xtask"]];

/// Builds every test program, and with them the library.
fn build_tests() -> Result<Tally> {
    for packages in BUILDS {
        let mut command = shell::cargo();
        command.args(["test", "--no-run"]).args(packages);
        shell::run(built_once(&mut command))?;
    }
    Ok(Tally::default())
}

/// Unit, integration and documentation tests of the whole workspace.
fn cargo_test() -> Result<Tally> {
    let mut tally = Tally::default();
    for packages in BUILDS {
        let mut command = shell::cargo();
        command.arg("test").args(packages);
        tally = tally + counted(counted_cargo(built_once(&mut command)));
    }
    Ok(tally)
}

/// What incremental builds keep is four gigabytes, as much as all else together: they keep nothing
/// here, unless the caller wants it. Both halves build alike, as neither could use what the other
/// has built.
fn built_once(command: &mut Command) -> &mut Command {
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs `cargo test` with these arguments, all of it whatever fails.
fn counted_cargo(command: &mut Command) -> Result<Tally> {
    println!("\n{}", heading("cargo test"));
    let mut count = CargoCount::default();
    // --show-output: the lines of passing tests too, for they may say that they skipped something.
    let filtered = command.get_args().any(|argument| argument == "--");
    command.args(if filtered { &["--show-output"][..] } else { &["--no-fail-fast", "--", "--show-output"] });
    // The tool's test of long files takes this many.
    command.env("CUDNN_SHIM_TEST_GB", "4");
    let status = shell::stream(command, |line| count.look(line))?;
    count.runs(None);
    count.times.print();
    if let [solved, all] = count.sampled
        && solved < all
    {
        println!("\nsamples: {solved} of {all} problems; `cargo xtask fuzz` solves all");
    }
    Ok(count.tally().judged(status))
}

/// What took how long: a list of what a run should do less of if it is too slow.
#[derive(Default)]
struct Times(Vec<(String, f64)>);

impl Times {
    /// Parts that are listed.
    const LISTED: usize = 12;

    fn push(&mut self, part: impl Into<String>, seconds: f64) {
        self.0.push((part.into(), seconds));
    }

    fn print(&mut self) {
        self.0.sort_by(|a, b| b.1.total_cmp(&a.1));
        println!("\nseconds of the slowest parts:");
        for (part, seconds) in self.0.iter().take(Self::LISTED) {
            println!("{seconds:7.1}  {part}");
        }
    }
}

/// Counts what `cargo test -- --show-output` prints. A test that prints a line starting with
/// `skipped: ` counts as skipped, not as passed; every such line counts.
#[derive(Default)]
struct CargoCount {
    reported: Tally,
    skips: usize,
    /// Problems that tests solved of those that they have, where these are samples.
    sampled: [usize; 2],
    skipping_tests: usize,
    this_test_skips: bool,
    /// The test program that runs, and since when. Not all tell their own time.
    program: Option<(String, Instant)>,
    times: Times,
}

impl CargoCount {
    fn look(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let count = |name: &str| {
                let words: Vec<&str> = result.split([' ', ';']).collect();
                words.iter().position(|word| *word == name).map_or(0, |at| words[at - 1].parse().unwrap_or(0))
            };
            let tally = Tally { passed: count("passed"), failed: count("failed"), skipped: count("ignored") };
            self.reported = self.reported + tally;
        } else if let Some(program) = line.trim_start().strip_prefix("Running ") {
            self.runs(Some(program.split(" (").next().unwrap_or(program)));
        } else if line.trim_start().starts_with("Doc-tests ") {
            self.runs(Some(line.trim_start()));
        } else if line.starts_with("---- ") || line == "failures:" {
            self.this_test_skips = false;
        } else if line.starts_with("skipped: ") {
            self.skips += 1;
            self.skipping_tests += usize::from(!self.this_test_skips);
            self.this_test_skips = true;
        } else if let Some(counts) = line.strip_prefix("sampled: ").and_then(sample) {
            self.sampled = [0, 1].map(|at| self.sampled[at] + counts[at]);
        }
    }

    /// From now on `program` runs, or none.
    fn runs(&mut self, program: Option<&str>) {
        let next = program.map(|name| (name.to_owned(), Instant::now()));
        if let Some((name, start)) = std::mem::replace(&mut self.program, next) {
            self.times.push(name, start.elapsed().as_secs_f64());
        }
    }

    fn tally(&self) -> Tally {
        Tally {
            passed: self.reported.passed.saturating_sub(self.skipping_tests),
            failed: self.reported.failed,
            skipped: self.reported.skipped + self.skips,
        }
    }
}

/// Reads what a test says of its sample: `400 of 1200 problems`.
fn sample(counts: &str) -> Option<[usize; 2]> {
    let (solved, all) = counts.strip_suffix(" problems")?.split_once(" of ")?;
    Some([solved.parse().ok()?, all.parse().ok()?])
}

/// The demo checks every step it shows.
fn demo_runs(dist: &Dist) -> Tally {
    println!("\n{}", heading("demo"));
    counted(demo::show(dist).map(|()| Tally::PASS))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CargoCount, Outcome, Tally, counted};

    #[test]
    fn a_runner_that_cannot_go_on_is_one_failure() {
        assert_eq!(counted(Err(anyhow::anyhow!("no compiler"))), Tally::FAIL);
        assert_eq!(counted(Ok(Tally::PASS)), Tally::PASS);
    }

    #[test]
    fn a_tally_survives_printing() {
        let tally = Tally { passed: 12, failed: 3, skipped: 4 };
        assert_eq!(Tally::parse(&tally.to_string()), Some(tally));
        assert_eq!(Tally::parse("12 passed, 3 failed"), None);
        assert_eq!(Tally::parse("all passed, 3 failed, 4 skipped"), None);
    }

    #[test]
    fn an_outcome_survives_printing() {
        let tally = Tally { passed: 100_868, failed: 0, skipped: 6 };
        let took = Duration::from_secs(629);
        let outcome = Outcome { name: "NumPy differential".to_owned(), tally, took };
        assert_eq!(Outcome::parse(&outcome.to_string()), Some(outcome));
        assert_eq!(Outcome::parse("134261 passed, 3 failed, 32 skipped"), None);
    }

    #[test]
    fn results_and_skips_of_cargo_test_are_counted() {
        let output = "\
running 3 tests
---- one stdout ----
skipped: no clang; install it: apt-get install clang
skipped: no valgrind; install it: apt-get install valgrind
---- two stdout ----
nothing to say
sampled: 400 of 1200 problems
---- three stdout ----
sampled: 60 of 200 problems
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/oracle/main.rs (target/debug/deps/oracle-0123456789abcdef)
test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
   Doc-tests cudnn";
        let mut count = CargoCount::default();
        output.lines().for_each(|line| count.look(line));
        assert_eq!(count.tally(), Tally { passed: 7, failed: 1, skipped: 4 });
        assert_eq!(count.sampled, [460, 1400]);
        count.runs(None);
        let timed: Vec<&str> = count.times.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(timed, ["tests/oracle/main.rs", "Doc-tests cudnn"]);
    }
}
