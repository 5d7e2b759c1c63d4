//! Runs problems in child processes: two at a time, which draw the same and have other numbers of
//! threads, so that their results must be the same bits.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::problem::{Bench, Verdict};
use crate::{common, disturbed, draw, driver, exhausted, library};
use testkit::random::Rng;

/// What is asked of each problem.
#[derive(Clone, Copy, PartialEq)]
pub enum Question {
    /// Whether the results are those of the reference.
    Results,
    /// Whether memory that runs out is survived, see `exhausted.rs`.
    Memory,
    /// Whether signals, children and threads that cannot be made change anything, see
    /// `disturbed.rs`.
    Disturbances,
    /// Whether a driver that fails is survived, see `driver.rs`.
    Driver,
}

/// All of them, by the part that asks them.
const QUESTIONS: [Question; 4] =
    [Question::Results, Question::Memory, Question::Disturbances, Question::Driver];

impl Question {
    /// The name of the part, as `CUDNN_SHIM_FUZZ_PART` takes it.
    pub fn part(self) -> &'static str {
        match self {
            Question::Results => "problems",
            Question::Memory => "memory",
            Question::Disturbances => "disturbances",
            Question::Driver => "driver",
        }
    }

    /// What stands before a line that is to be run again.
    fn prefix(self) -> &'static str {
        match self {
            Question::Results => "",
            Question::Memory => "memory ",
            Question::Disturbances => "disturbances ",
            Question::Driver => "driver ",
        }
    }

    /// This program again, as a child process.
    fn child(self, scratch: &Path) -> Command {
        let mut child = common::itself();
        match self {
            Question::Results => &mut child,
            // As in a program that is linked with the library: of one that is loaded later, the C
            // library makes room for the variables of a thread when the thread asks for them first,
            // and ends the process where there is none.
            Question::Memory => child.env("LD_PRELOAD", common::library()),
            Question::Disturbances => child.env("LD_PRELOAD", disturbed::shim(scratch)),
            // Operands lie where the program's other data do.
            Question::Driver => driver::beside(&mut child),
        };
        child
    }

    fn bench(self) -> Bench {
        let mut library = library();
        if self == Question::Memory {
            library.around = exhausted::around;
        }
        Bench::new(library, if self == Question::Driver { "cuda" } else { "cpu" })
    }

    /// Judges a line; what can be left out of it is, once `end` is over.
    fn judge(self, bench: &Bench, line: &str, end: Instant) -> Result<Verdict, String> {
        match self {
            Question::Results => bench.judge(line),
            Question::Memory => exhausted::judge(bench, line, end),
            Question::Disturbances => disturbed::judge(bench, line, end),
            Question::Driver => driver::judge(bench, line, end),
        }
    }
}

/// Set in a child process: the part, the seed of its first problem, the seconds it may take, and
/// the file for the line at hand.
const CHILD: &str = "CUDNN_SHIM_FUZZ_CHILD";

/// The names that `CUDNN_SHIM_ISA` takes on x86-64; a processor that lacks a level has the next
/// lower one instead.
const LEVELS: [&str; 7] = ["portable", "avx2", "avx2vnni", "avx512", "avx512vnni", "amxmodel", "amx"];
const THREADS: [usize; 5] = [1, 2, 3, 5, 8];

/// Calls of these names promise the same bits at every level, and have no handle by which to ask
/// for the reference.
const SAME_AT_ALL_LEVELS: &str = "CausalConv1d";

/// A problem that computes longer hangs, or a run of it while memory runs out; so does one that
/// waits longer, for which a machine with much other work is no reason.
const COMPUTES: libc::time_t = 60;
const WAITS: u32 = 600;

/// Seconds after which some problem has begun threads, by far.
const LONG: u64 = 300;

/// So many faults are printed; all are counted.
const SHOWN: usize = 40;

/// The kinds of problems that are asked for.
fn kinds() -> Vec<String> {
    let text = env::var("CUDNN_SHIM_FUZZ_KINDS").unwrap_or_default();
    text.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned).collect()
}

/// The part of the program that runs in a child process; returns whether this is one.
pub fn run_as_child() -> bool {
    let Ok(text) = env::var(CHILD) else { return false };
    let mut words = text.splitn(4, ' ');
    let part = words.next();
    let question = QUESTIONS.into_iter().find(|it| Some(it.part()) == part);
    let question = question.expect("a part");
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (first, milliseconds) = (number(), number());
    let state = File::create(words.next().expect("a file")).expect("the file for the line at hand");
    let bench = question.bench();
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let kinds = kinds();
    let mut out = std::io::stdout().lock();
    for seed in first.. {
        if Instant::now() >= end {
            break;
        }
        let line = draw::problem(&mut Rng(seed), &kinds);
        // What is left of it if the process dies: a line ends at the first line break.
        state.write_all_at(format!("{seed} {line}\n").as_bytes(), 0).expect("the line is noted");
        end_if_it_hangs();
        let word = match question.judge(&bench, &line, end) {
            Ok(Verdict { refused: Some(reason), .. }) => format!("refused {reason}"),
            Ok(verdict) => format!("{:016x} {}", verdict.digest, verdict.disturbances),
            Err(text) => format!("FAULT {text}\t{line}"),
        };
        writeln!(out, "{seed} {word}").expect("the parent listens");
    }
    true
}

/// Ends this process if it hangs before this is called again.
pub fn end_if_it_hangs() {
    let of = |tv_sec| libc::timeval { tv_sec, tv_usec: 0 };
    let limit = libc::itimerval { it_interval: of(0), it_value: of(COMPUTES) };
    // SAFETY: plain system calls; the default action of either signal ends a process.
    unsafe {
        assert_eq!(libc::setitimer(libc::ITIMER_PROF, &raw const limit, std::ptr::null_mut()), 0);
        libc::alarm(WAITS);
    }
}

/// What a child made of its problems.
#[derive(Default)]
struct Report {
    ran: usize,
    refused: usize,
    /// How often each reason was given, its numbers aside.
    reasons: BTreeMap<String, usize>,
    /// How often calls had no memory or were disturbed.
    disturbances: usize,
    /// By seed.
    digests: HashMap<u64, String>,
    /// What is wrong, and the line.
    faults: Vec<(String, String)>,
}

/// Runs problems from `seed` on for so long at a level with so many threads; after a crash it goes
/// on with the next problem.
fn child(
    question: Question, level: &str, threads: usize, seed: u64, time: Duration, scratch: &Path,
) -> Report {
    let part = question.part();
    let state = scratch.join(format!("{part}-{level}-{threads}"));
    let end = Instant::now() + time;
    let mut report = Report::default();
    let mut next = seed;
    while let left = end.saturating_duration_since(Instant::now())
        && left > Duration::from_millis(200)
    {
        let output = question
            .child(scratch)
            .env("CUDNN_SHIM_FUZZ_NO_THREAD", disturbed::no_thread(seed))
            .env("CUDNN_SHIM_FUZZ_REFUSED", disturbed::refused(scratch))
            .env(CHILD, format!("{part} {next} {} {}", left.as_millis(), state.display()))
            .env("CUDNN_SHIM_ISA", level)
            .env("CUDNN_SHIM_NUM_THREADS", threads.to_string())
            .stderr(Stdio::null())
            .output()
            .expect("the test program starts itself");
        for line in output.stdout.lines() {
            let line = line.expect("text");
            let (seed, word) = line.split_once(' ').expect("a seed and what became of it");
            report.ran += 1;
            match word.strip_prefix("FAULT ").and_then(|text| text.split_once('\t')) {
                Some((text, line)) => report.faults.push((text.to_owned(), line.to_owned())),
                None if word.starts_with("refused ") => {
                    report.refused += 1;
                    let reason = word["refused ".len()..].replace(|c: char| c.is_ascii_digit(), "");
                    *report.reasons.entry(reason).or_default() += 1;
                }
                None => {
                    let (digest, disturbances) = word.split_once(' ').expect("two numbers");
                    report.disturbances += disturbances.parse::<usize>().expect("a number");
                    report.digests.insert(seed.parse().expect("a seed"), digest.to_owned());
                }
            }
        }
        if output.status.success() {
            break;
        }
        let noted = fs::read(&state).unwrap_or_default();
        let noted = String::from_utf8_lossy(noted.split(|&byte| byte == b'\n').next().unwrap_or_default());
        let (seed, line) = noted.split_once(' ').unwrap_or(("", "no problem at all"));
        report.ran += 1;
        report.faults.push((format!("the process ended: {}", output.status), line.to_owned()));
        next = seed.parse::<u64>().map_or(next, |seed| seed) + 1;
    }
    report
}

/// Runs problems of seeds from `from` on for so many seconds, and returns how many showed a fault.
pub fn run(question: Question, from: u64, seconds: u64) -> usize {
    println!("{} through the C boundary: CUDNN_SHIM_FUZZ_FROM={from}", question.part());
    let scratch = common::scratch_dir("boundary_fuzz");
    disturbed::prepare(&scratch);
    let start = Instant::now();
    let (mut ran, mut refused, mut faults, mut shown) = (0, 0, 0, 0);
    let mut disturbances = 0;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut rng = Rng(from);
    let rounds = (seconds / 60).max(1);
    let time = Duration::from_secs(seconds) / (rounds * LEVELS.len() as u64) as u32;
    let (mut seed, mut of_levels) = (0, HashMap::new());
    for (round, level) in (0..rounds).flat_map(|round| LEVELS.map(|level| (round, level))) {
        let order = rng.order(THREADS.len());
        let threads = [THREADS[order[0]], THREADS[order[1]]];
        // The two draw the same problems, in every other round those of all levels; else every
        // level draws others.
        let are_same = (from + round).is_multiple_of(2);
        if !are_same || level == LEVELS[0] {
            seed = rng.word() >> 1;
            of_levels.clear();
        }
        let reports = thread::scope(|scope| {
            let children = threads.map(|threads| {
                let scratch = &scratch;
                scope.spawn(move || child(question, level, threads, seed, time, scratch))
            });
            children.map(|child| child.join().expect("no child's keeper panics"))
        });
        let refused_thread = match question {
            Question::Disturbances => format!("CUDNN_SHIM_FUZZ_NO_THREAD={} ", disturbed::no_thread(seed)),
            _ => String::new(),
        };
        let mut tell = |level: &str, threads: usize, text: &str, line: &str| {
            shown += 1;
            if shown <= SHOWN {
                println!(
                    "{text}\n  {refused_thread}CUDNN_SHIM_ISA={level} CUDNN_SHIM_NUM_THREADS={threads} cargo xtask fuzz --again '{}{}'",
                    question.prefix(),
                    line.replace('\'', "'\\''")
                );
            }
        };
        for (report, threads) in reports.iter().zip(threads) {
            (ran, refused) = (ran + report.ran, refused + report.refused);
            report
                .reasons
                .iter()
                .for_each(|(reason, count)| *reasons.entry(reason.clone()).or_default() += count);
            disturbances += report.disturbances;
            faults += report.faults.len();
            report.faults.iter().for_each(|(text, line)| tell(level, threads, text, line));
        }
        for (seed, digest) in &reports[0].digests {
            if reports[1].digests.get(seed).is_some_and(|other| other != digest) {
                faults += 1;
                let line = draw::problem(&mut Rng(*seed), &kinds());
                tell(level, threads[1], &format!("other bits than with {} threads", threads[0]), &line);
            }
        }
        for (seed, digest) in reports[0].digests.iter().filter(|_| are_same) {
            let line = draw::problem(&mut Rng(*seed), &kinds());
            if !line.contains(SAME_AT_ALL_LEVELS) {
                continue;
            }
            let (first, other): &(&str, String) = of_levels.entry(*seed).or_insert((level, digest.clone()));
            if other != digest {
                faults += 1;
                tell(level, threads[0], &format!("other bits than at level {first}"), &line);
            }
        }
    }
    let memory = match question {
        Question::Results => String::new(),
        Question::Memory => format!("; {disturbances} calls without memory"),
        Question::Disturbances => format!("; {disturbances} signals and children"),
        Question::Driver => format!("; {disturbances} calls met a driver that failed"),
    };
    println!(
        "{ran} problems in {} s, of which {refused} were refused{memory}; {faults} faults",
        start.elapsed().as_secs()
    );
    if let Some((reason, count)) = reasons.iter().max_by_key(|(_, count)| **count) {
        println!("the most common reason, {count} times: {reason}");
    }
    assert!(ran > 0 && refused * 3 < ran, "too few problems were computed");
    assert!(question == Question::Results || disturbances > 0, "nothing was done to any call");
    if question == Question::Disturbances && seconds >= LONG {
        assert!(disturbed::refused(&scratch).exists(), "each thread could be made");
    }
    faults
}

/// Runs one line.
pub fn again(line: &str) -> ExitCode {
    // The prefix of results is empty, and so each line has one.
    let stripped = QUESTIONS.iter().rev().find_map(|it| Some((*it, line.strip_prefix(it.prefix())?)));
    let (question, line) = stripped.expect("a question");
    if question != Question::Results && env::var_os(CHILD).is_none() {
        let scratch = common::scratch_dir("boundary_fuzz");
        disturbed::prepare(&scratch);
        let status =
            question.child(&scratch).env(CHILD, "").status().expect("the test program starts itself");
        return if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match question.judge(&question.bench(), line, Instant::now() + Duration::from_secs(3600)) {
        Ok(Verdict { refused: Some(reason), .. }) => println!("refused: {reason}"),
        Ok(verdict) => println!("as the reference: {:016x}", verdict.digest),
        Err(text) => {
            println!("{text}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
