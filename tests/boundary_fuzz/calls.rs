//! Any calls at all: every C function with live, stale, wrong-kind and wild handles, NULL and
//! numbers at the edges, in sequences that leave descriptors in every state.
//!
//! A call may answer with any status but those that say that the library itself went wrong, writes
//! nothing beside its outputs, and ends. Data pointers are real where all tensors of the call are
//! small, else NULL: what a tensor spans is the caller's word.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::call::{Library, Machine};
use crate::{common, library, problems};
use testkit::pages::{Pages, Side};
use testkit::random::Rng;

/// Set in a child process: the seed of its first sequence, the milliseconds it may take, and the
/// file for the call at hand.
const CHILD: &str = "CUDNN_SHIM_FUZZ_CALLS_CHILD";
/// Calls of a sequence.
const CALLS: usize = 80;
/// Bytes of memory that calls may use as data, and those that a tensor of such a call may span.
const ARENA: usize = 8 << 20;
const SPAN: i64 = 8 << 10;
/// The largest extent of a tensor without a descriptor: four of them, and some bytes an element,
/// stay inside of the arena.
const MOST_EXTENT: i64 = 24;
/// Registers of a kind.
const REGISTERS: usize = 3;

/// What these return is no status.
const NO_STATUS: [&str; 5] =
    ["GetVersion", "GetMaxDeviceVersion", "GetCudartVersion", "GetErrorString", "GetLastErrorString"];

/// The original's answer to types that it has no sequences of is an internal error, which is
/// recorded and given.
const INTERNAL: [&str; 2] = ["SetSeqDataDescriptor", "GetSeqDataDescriptor"];

/// What these write or read is not told by the tensors that they are given: they get no data.
const UNBOUNDED: [&str; 5] = [
    "Im2Col",
    "SpatialTfGridGeneratorForward",
    "SpatialTfGridGeneratorBackward",
    "SetFusedOpsVariantParamPackAttribute",
    "FusedOpsExecute",
];

/// Arrays of these are as long as an integer among the arguments says.
const LISTED: [&str; 2] = ["SetRNNDataDescriptor", "SetSeqDataDescriptor"];

/// Arrays of these are as long as a tensor has samples, which may be more than there is memory for:
/// they get none.
const OF_SAMPLES: [&str; 3] = ["GetCTCLossWorkspaceSize", "CTCLoss", "CTCLoss_v8"];

/// A C function and its parameters: type and name.
struct Function {
    name: String,
    parameters: Vec<(String, String)>,
    is_stub: bool,
}

impl Function {
    fn all() -> Vec<Function> {
        let path = common::project_root().join("tests/data/abi/functions.tsv");
        let table = fs::read_to_string(path).expect("table of C functions");
        let stubs = common::catalogue::stubs();
        let parameters = |list: &str| -> Vec<(String, String)> {
            let both = list.split("; ").filter_map(|parameter| parameter.rsplit_once(' '));
            both.map(|(ty, name)| (ty.to_owned(), name.to_owned())).collect()
        };
        let function = |line: &str| {
            let mut columns = line.split('\t');
            let c_name = columns.next()?;
            let name = c_name.strip_prefix("cudnn")?.to_owned();
            Some(Function { name, parameters: parameters(columns.nth(3)?), is_stub: stubs.contains(c_name) })
        };
        table.lines().skip(1).filter_map(function).collect()
    }
}

/// The first letters of a handle's type: its kind. Registers are named by it.
fn kind(ty: &str) -> Option<&str> {
    let ty = ty.trim_start_matches("const ").trim_start_matches("cudnn");
    let of = |suffix: &str| ty.strip_suffix(suffix);
    if ty == "Handle_t" {
        return Some("Handle");
    }
    of("Descriptor_t").or_else(|| of("Pack_t")).or_else(|| of("Plan_t")).or_else(|| of("Performance_t"))
}

fn number(rng: &mut Rng, small: bool) -> i64 {
    match rng.below(if small { 9 } else { 12 }) {
        0..6 => rng.below(6) as i64,
        6 => rng.below(17) as i64,
        7 => -1 - rng.below(3) as i64,
        8 => rng.pick(&[0, 1, i64::from(i32::MIN)]),
        9 => rng.below(300) as i64,
        _ => rng.pick(&[
            i64::from(i32::MAX),
            i64::from(i32::MAX) - 1,
            i64::from(i32::MIN) + 1,
            1 << 30,
            65_535,
            65_536,
            46_341,
            0x4000_0001,
        ]),
    }
}

/// A sequence of calls: the same for the same seed.
struct Sequence<'a> {
    functions: &'a [Function],
    library: &'a Library,
    rng: Rng,
    machine: Machine,
    arena: u64,
    /// Registers that were created, by kind.
    made: BTreeMap<String, BTreeSet<String>>,
}

impl Sequence<'_> {
    /// A register of this kind that was created, or anything else that looks like a handle.
    fn handle(&mut self, kind: &str) -> String {
        let of = |made: &BTreeMap<String, BTreeSet<String>>, kind: &str, rng: &mut Rng| {
            let names: Vec<&String> = made.get(kind)?.iter().collect();
            (!names.is_empty()).then(|| names[rng.below(names.len())].clone())
        };
        match self.rng.below(20) {
            0 => "NULL".to_owned(),
            1 => rng_wild(&mut self.rng, &self.machine, &self.made),
            2 => {
                let kinds: Vec<String> = self.made.keys().cloned().collect();
                let other = if kinds.is_empty() {
                    "Tensor".to_owned()
                } else {
                    kinds[self.rng.below(kinds.len())].clone()
                };
                of(&self.made, &other, &mut self.rng).unwrap_or_else(|| "NULL".to_owned())
            }
            _ => of(&self.made, kind, &mut self.rng).unwrap_or_else(|| "NULL".to_owned()),
        }
    }

    /// The bytes that the tensor or filter behind a register spans; none if it has no answer.
    fn span(&mut self, register: &str) -> Option<i64> {
        let dims = |token: &str| -> Vec<i64> {
            token.trim_matches(['[', ']']).split(',').map_while(|number| number.parse().ok()).collect()
        };
        let answer =
            self.machine.call(self.library, &format!("GetTensorNdDescriptor {register} 8 @ @ @8 @8"));
        if answer[0] == "0" {
            let (extents, strides) = (dims(&answer[3]), dims(&answer[4]));
            let far =
                extents.iter().zip(&strides).map(|(dim, stride)| (dim - 1).saturating_mul(stride.abs()));
            // Vectors of 32 bytes are the largest elements.
            return Some(far.fold(1_i64, i64::saturating_add).saturating_mul(32));
        }
        let answer = self.machine.call(self.library, &format!("GetFilterNdDescriptor {register} 8 @ @ @ @8"));
        (answer[0] == "0").then(|| {
            let elements = dims(&answer[4]).into_iter().filter(|&dim| dim > 0);
            elements.fold(1_i64, i64::saturating_mul).saturating_mul(32)
        })
    }

    /// A call of a function drawn at random.
    fn draw(&mut self) -> String {
        let mut at = self.rng.below(self.functions.len());
        while self.functions[at].is_stub && self.rng.below(12) > 0 {
            at = self.rng.below(self.functions.len());
        }
        let functions = self.functions;
        let function = &functions[at];
        let name = function.name.as_str();
        let asks = name.starts_with("Get") || name.starts_with("Find") || LISTED.contains(&name);
        let mut words = vec![name.to_owned()];
        let mut far = false;
        for (ty, parameter) in &function.parameters {
            let pointer = parameter.contains('*') || parameter.ends_with(']');
            let word = match kind(ty) {
                Some(kind) if pointer => {
                    let register = format!("{kind}{}", self.rng.below(REGISTERS));
                    match self.rng.below(30) {
                        0 => "NULL".to_owned(),
                        // A register that is alive loses its handle, which stays alive.
                        _ if name.starts_with("Create") => register,
                        _ => "NULL".to_owned(),
                    }
                }
                Some(kind) => {
                    let register = self.handle(kind);
                    if matches!(kind, "Tensor" | "Filter") && self.machine.value(&register).is_some() {
                        far |= self.span(&register).is_some_and(|span| span > SPAN);
                    }
                    register
                }
                None if !pointer => self.scalar(name, ty, parameter, asks),
                None => self.pointer(name, ty, parameter),
            };
            words.push(word);
        }
        // Extents are arguments of these; the stream comes first.
        let extends = name.contains("CausalConv1d")
            && words.iter().skip(1).any(|word| word.parse::<i64>().is_ok_and(|extent| extent > MOST_EXTENT));
        if far || extends || UNBOUNDED.contains(&name) {
            words
                .iter_mut()
                .filter(|word| word.starts_with("DATA"))
                .for_each(|word| *word = "NULL".to_owned());
        }
        words.join(" ")
    }

    fn scalar(&mut self, name: &str, ty: &str, parameter: &str, asks: bool) -> String {
        let rng = &mut self.rng;
        match ty.trim_start_matches("const ") {
            "float" | "double" => {
                rng.pick(&["0", "1", "-1", "0.5", "1e-5", "1e30", "nan", "inf", "-inf", "1e-320"]).to_owned()
            }
            "cudnnCallback_t" => "NULL".to_owned(),
            "cudaStream_t" | "cudaGraph_t" => rng.pick(&["NULL", "4096", "8"]).to_owned(),
            "size_t" | "unsigned long long" | "int64_t" | "uint64_t" if parameter == "max_size" => {
                rng.pick(&["0", "1", "2", "64"]).to_owned()
            }
            "size_t" | "unsigned long long" | "int64_t" | "uint64_t" => rng
                .pick(&["0", "1", "16", "4096", "1048576", "-1", "1099511627776", "9223372036854775807"])
                .to_owned(),
            _ => {
                // Lists are 16 long.
                let small = asks || name.starts_with("Destroy");
                number(rng, small).min(if asks { 16 } else { i64::MAX }).to_string()
            }
        }
    }

    fn pointer(&mut self, name: &str, ty: &str, parameter: &str) -> String {
        let rng = &mut self.rng;
        let is_const = ty.starts_with("const ");
        if rng.below(16) == 0 {
            return "NULL".to_owned();
        }
        match ty.trim_start_matches("const ") {
            "char" => "@64".to_owned(),
            "void" if parameter.contains("**") => "@".to_owned(),
            "void" if LISTED.contains(&name) => "0000803f00000000".to_owned(),
            "void" => {
                let bare = parameter.trim_start_matches('*').to_lowercase();
                if bare.starts_with("alpha") || bare.starts_with("beta") || bare == "valueptr" {
                    return rng.pick(&["d:1", "d:0", "d:0.5", "f:1", "f:0", "f:-2", "d:nan"]).to_owned();
                }
                // On a line of memory, or where no scalar of several bytes may be.
                let odd = usize::from(rng.below(12) == 0);
                let place = self.arena + (rng.below(64) * 64 + odd) as u64;
                let register = format!("DATA{}", rng.below(8));
                self.machine.point(&register, place);
                register
            }
            _ if is_const && OF_SAMPLES.contains(&name) => "NULL".to_owned(),
            _ if is_const || name.starts_with("Set") => {
                let small = LISTED.contains(&name);
                let numbers: Vec<String> = (0..9).map(|_| number(rng, small).to_string()).collect();
                format!("[{}]", numbers.join(","))
            }
            _ if parameter.ends_with(']') || ty.ends_with("AlgoPerf_t") => "@16".to_owned(),
            _ => "@".to_owned(),
        }
    }

    /// Makes a call and notes what it created.
    ///
    /// # Errors
    /// What it may not do.
    fn call(&mut self, call: &str) -> Result<(), String> {
        let answer = self.machine.call(self.library, call);
        if answer[0].starts_with("!missing") {
            return Ok(());
        }
        let mut words = call.split(' ');
        let (name, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if answer[0] == "0" && name.starts_with("Create") {
            let kind = first.trim_end_matches(|c: char| c.is_ascii_digit());
            self.made.entry(kind.to_owned()).or_default().insert(first.to_owned());
        }
        let status: i64 = answer[0].parse().unwrap_or(0);
        // Internal error and execution failed, in all their kinds but want of memory.
        let is_ours = ![&NO_STATUS[..], &INTERNAL].concat().contains(&name)
            && ((4000..4003).contains(&status) || status >= 5000);
        if is_ours || answer.iter().any(|token| token.starts_with('!')) {
            return Err(format!("{call} answers {}", answer.join(" ")));
        }
        Ok(())
    }
}

/// A number that is no handle: near one, or far from all.
fn rng_wild(rng: &mut Rng, machine: &Machine, made: &BTreeMap<String, BTreeSet<String>>) -> String {
    let names: Vec<&String> = made.values().flatten().collect();
    let near = if names.is_empty() { 8 } else { machine.value(names[rng.below(names.len())]).unwrap_or(8) };
    let wild = match rng.below(6) {
        0 => near ^ (1 << rng.below(64)),
        1 => near.wrapping_add(16),
        2 => near.wrapping_sub(16),
        3 => near ^ (rng.word() & 0x00ff_ffff_0000_0000),
        4 => rng.word(),
        _ => rng.pick(&[1, 8, 4096, u64::MAX, 1 << 63]),
    };
    (wild as i64).to_string()
}

/// What sequences are run with.
struct Bench {
    library: Library,
    functions: Vec<Function>,
    arena: Pages,
}

impl Bench {
    fn new() -> Bench {
        Bench { library: library(), functions: Function::all(), arena: Pages::new(ARENA, Side::Begin) }
    }

    /// Runs the sequence of this seed; `look` sees every call before it is made.
    ///
    /// # Errors
    /// What a call may not do.
    fn run(&self, seed: u64, mut look: impl FnMut(&str)) -> Result<usize, String> {
        let mut sequence = Sequence {
            functions: &self.functions,
            library: &self.library,
            rng: Rng(seed),
            machine: Machine::default(),
            arena: self.arena.address() as u64 + ARENA as u64 / 2,
            made: BTreeMap::new(),
        };
        let mut result = Ok(());
        let mut count = 0;
        let begin: Vec<String> = self
            .functions
            .iter()
            .filter(|function| function.name.starts_with("Create") && function.parameters.len() == 1)
            .filter_map(|function| Some(format!("{} {}0", function.name, kind(&function.parameters[0].0)?)))
            .collect();
        let mut turns = begin.into_iter();
        for turn in 0.. {
            let call = match turns.next() {
                Some(call) => call,
                None if turn < CALLS => sequence.draw(),
                None => break,
            };
            look(&call);
            count += 1;
            result = sequence.call(&call);
            if result.is_err() {
                break;
            }
        }
        let made = std::mem::take(&mut sequence.made);
        for (kind, register) in
            made.iter().flat_map(|(kind, all)| all.iter().map(move |register| (kind, register)))
        {
            let destroy = match kind.as_str() {
                "Handle" => "Destroy".to_owned(),
                "FusedOpsConstParam" | "FusedOpsVariantParam" => format!("Destroy{kind}Pack"),
                "FusedOps" => "DestroyFusedOpsPlan".to_owned(),
                _ => format!("Destroy{kind}Descriptor"),
            };
            sequence.machine.call(&self.library, &format!("{destroy} {register}"));
        }
        result.map(|()| count)
    }
}

/// The part of the program that runs in a child process; returns whether this is one.
pub fn run_as_child() -> bool {
    let Ok(text) = env::var(CHILD) else { return false };
    let mut words = text.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (first, milliseconds) = (number(), number());
    let state = File::create(words.next().expect("a file")).expect("the file for the call at hand");
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let bench = Bench::new();
    let mut out = std::io::stdout().lock();
    for seed in first.. {
        if Instant::now() >= end {
            break;
        }
        state.write_all_at(format!("{seed} \n").as_bytes(), 0).expect("the sequence is noted");
        problems::end_if_it_hangs();
        match bench.run(seed, |_| ()) {
            Ok(count) => writeln!(out, "{count}"),
            Err(text) => writeln!(out, "FAULT {seed} {text}"),
        }
        .expect("the parent listens");
    }
    true
}

/// Runs sequences from `seed` on for so many seconds; returns the number of calls and what is
/// wrong.
fn child(seed: u64, seconds: u64, state: &std::path::Path) -> (usize, Vec<String>) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut calls, mut faults, mut next) = (0, Vec::new(), seed);
    while let left = end.saturating_duration_since(Instant::now())
        && left > Duration::from_millis(200)
    {
        let output = common::itself()
            .env(CHILD, format!("{next} {} {}", left.as_millis(), state.display()))
            .env("CUDNN_SHIM_BACKEND", "cpu")
            .env("CUDNN_SHIM_NUM_THREADS", "2")
            .stderr(Stdio::null())
            .output()
            .expect("the test program starts itself");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.strip_prefix("FAULT ") {
                Some(text) => faults.push(text.to_owned()),
                None => calls += line.parse::<usize>().unwrap_or(0),
            }
        }
        if output.status.success() {
            break;
        }
        let noted = fs::read_to_string(state).unwrap_or_default();
        let seed = noted.split(' ').next().and_then(|seed| seed.parse::<u64>().ok()).unwrap_or(next);
        faults.push(format!("{seed} the process ended: {}", output.status));
        next = seed + 1;
    }
    (calls, faults)
}

/// Runs sequences of seeds from `from` on for so many seconds, in two processes, and returns how
/// many showed a fault.
pub fn run(from: u64, seconds: u64) -> usize {
    println!("calls of any kind: CUDNN_SHIM_FUZZ_FROM={from}");
    let scratch = common::scratch_dir("boundary_fuzz_calls");
    let children = [from, from.wrapping_add(1 << 40)];
    let results = thread::scope(|scope| {
        let threads = children.map(|seed| {
            let state = scratch.join(seed.to_string());
            scope.spawn(move || child(seed, seconds, &state))
        });
        threads.map(|thread| thread.join().expect("no child's keeper panics"))
    });
    let calls: usize = results.iter().map(|(calls, _)| calls).sum();
    let faults: Vec<&String> = results.iter().flat_map(|(_, faults)| faults).collect();
    for fault in faults.iter().take(40) {
        let (seed, text) = fault.split_once(' ').unwrap_or((fault, ""));
        println!("{text}\n  cargo xtask fuzz --again 'calls {seed}'");
    }
    println!("{calls} calls; {} faults", faults.len());
    assert!(calls > 0, "no call was made");
    faults.len()
}

/// Runs the sequence of one seed and shows its calls.
pub fn again(seed: &str) -> ExitCode {
    let Ok(seed) = seed.trim().parse() else {
        println!("`{seed}` is no seed");
        return ExitCode::FAILURE;
    };
    match Bench::new().run(seed, |call| println!("{call}")) {
        Ok(count) => {
            println!("{count} calls, nothing wrong");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}
