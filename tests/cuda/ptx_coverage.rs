//! Every kernel of the shipped PTX, and every form of its instructions, in a small problem each:
//! the double that executes the PTX leaves the bits that the one of the sources leaves. A form is
//! an opcode with all of its suffixes.
//!
//! `ptx_coverage.txt` lists steps, as `problems/steps.txt` does; here are those that no line says.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs, ptr};

use cudnn::backend::cuda::launch::Device;
use cudnn::backend::cuda::{module, plan};
use cudnn::desc::{Folding, Format, TransformDescriptor};
use cudnn::dtype::{DataType, Scalar};
use cudnn::exec::{Address, Context};
use cudnn::mode::Mode;
use cudnn::ops::ragged::RaggedFunction;
use cudnn::ops::{Operand, Plan, Role, Scaling, TransformPlan, Words};

use crate::complaints::ints;
use crate::double::{self, Memory, Runs};
use crate::tensors::{Tensor, format, strided};
use crate::{child, common};
use testkit::random::Rng;
use testkit::steps::{self, Ordered, Owned, Row};
use testkit::{causal, graphs, ragged, run_step};

/// The capabilities whose contractions differ: without Tensor Cores, with those of 7.5, and with
/// those from 8.0 on, where all other kernels run, too.
const CAPABILITIES: [u32; 3] = [70, 75, 80];

/// The steps that lines say.
const LIST: &str = "tests/cuda/ptx_coverage.txt";

/// Where a child writes what its problems left, and the variable that tells it the file.
const RESULTS: &str = "CUDNN_SHIM_TEST_RESULTS";

/// Of an operand that spans more than this only so many bytes at either end are looked at; the
/// elements of such a problem lie there.
const LONG: usize = 64 << 20;
const END: usize = 4 << 10;
/// Of more bytes than this only a hash is noted.
const SHOWN: usize = 64 << 10;
/// Of a long grid so many blocks run at the start, in the middle and at the end.
const BLOCKS: u32 = 2;

/// What problems leave, a line for each operand of each.
struct Results {
    cuda: Context,
    capability: u32,
    text: String,
    /// The kernels that were launched.
    seen: BTreeSet<&'static str>,
}

impl Results {
    /// Runs a plan on operands in this memory, and notes what it leaves there.
    fn run(&mut self, name: &str, plan: &dyn Plan, memory: &[Memory], at: &[Address]) {
        let mut kernels = BTreeSet::new();
        let device = Device { capability: self.capability };
        plan::launches(plan, at, device, &mut |launch| {
            kernels.insert(launch.kernel);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}\n{plan}"));
        // A name begins with the kernel that its problem is there for, or with those of a family.
        let wanted = name.split('/').next().unwrap_or(name);
        let is_there = kernels.iter().any(|kernel| kernel.starts_with(wanted));
        assert!(is_there, "{name} launches {kernels:?}\n{plan}");
        self.seen.append(&mut kernels);
        // SAFETY: every operand has its span.
        unsafe { self.cuda.run(plan, at) }.unwrap_or_else(|error| panic!("{name}: {error}\n{plan}"));
        // In a workspace NaN has the bits that arithmetic gives it, which on a host are those of an
        // operand.
        let of_results = memory.iter().zip(plan.operands()).enumerate();
        for (k, (memory, _)) in of_results.filter(|(_, (_, operand))| operand.role != Role::Scratch) {
            write!(self.text, "{name} {k} ").expect("a string takes all");
            let bytes: Vec<u8> = ends(memory.size).flat_map(|(from, to)| read(memory, from, to)).collect();
            if bytes.len() > SHOWN {
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                write!(self.text, "{:016x}", hasher.finish()).expect("a string takes all");
            } else {
                bytes.iter().for_each(|byte| write!(self.text, "{byte:02x}").expect("a string takes all"));
            }
            self.text.push('\n');
        }
    }

    /// Runs a step on operands whose contents follow from its number.
    fn step(&mut self, row: &Row, seed: u64) {
        let mut rng = Rng(seed);
        // What the ends of operands hold that are too long to be filled.
        let size = |operand: &Operand| (operand.span.1 - operand.span.0) as usize;
        let short = row.operands.iter().map(|operand| match size(operand) > LONG {
            true => Operand { span: (operand.span.0, operand.span.0 + END as i64), ..*operand },
            false => *operand,
        });
        let short = Row { operands: short.collect(), ..row.clone() };
        let contents = run_step::contents(&short, &mut rng);
        let bytes =
            |k: usize| contents.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let held = row.operands.iter().enumerate().map(|(k, operand)| match size(operand) > LONG {
            true => {
                let memory = Memory::untouched((size(operand) - END + bytes(k).len()).next_multiple_of(8));
                ends(memory.size).for_each(|(from, to)| memory.write_at(from, &bytes(k)[..to - from]));
                memory
            }
            false => Memory::new(&bytes(k)),
        });
        let held: Vec<Memory> = held.collect();
        let places = held.iter().zip(&row.operands).map(|(memory, operand)| match operand.is_touched() {
            true => Address::from(memory.pointer().wrapping_byte_offset(run_step::first(operand))),
            false => Address::NULL,
        });
        let places: Vec<Address> = places.collect();
        if row.name.ends_with("/ordered") {
            self.run(&row.name, &Ordered(row.clone()), &held, &places);
        } else {
            self.run(&row.name, row, &held, &places);
        }
    }

    /// Runs a plan on operands with these contents.
    fn plan(&mut self, name: &str, plan: &dyn Plan, contents: &[Vec<u8>]) {
        let memory: Vec<Memory> = contents.iter().map(|bytes| Memory::new(bytes)).collect();
        let at = memory.iter().zip(plan.operands()).map(|(memory, operand)| match operand.is_touched() {
            true => memory.pointer().into(),
            false => Address::NULL,
        });
        let at: Vec<Address> = at.collect();
        self.run(name, plan, &memory, &at);
    }
}

/// The parts of an operand of so many bytes that are looked at.
fn ends(size: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = if size > LONG { vec![(0, END), (size - END, size)] } else { vec![(0, size)] };
    parts.into_iter()
}

fn read(memory: &Memory, from: usize, to: usize) -> Vec<u8> {
    let mut bytes = vec![0; to - from];
    memory.read_at(from, &mut bytes);
    bytes
}

/// The capability of the device that runs a kernel.
fn capability_of(kernel: &str) -> u32 {
    match kernel {
        _ if kernel.starts_with("contract_mma75") => 75,
        _ if kernel.starts_with("contract_mma") => 80,
        _ if kernel.starts_with("contract_multistage") || kernel.starts_with("contract_gradient") => 80,
        _ if kernel.starts_with("contract_") => 70,
        _ => 80,
    }
}

/// Runs every problem of a device of this capability, and returns what they left.
fn results(capability: u32) -> String {
    double::use_device(0);
    double::sample(BLOCKS);
    let cuda = Context::create().expect("a handle");
    let mut results = Results { cuda, capability, text: String::new(), seen: BTreeSet::new() };
    let list = fs::read_to_string(common::project_root().join(LIST)).expect("the list");
    for (seed, row) in steps::rows(LIST, &list).iter().enumerate() {
        if capability_of(&row.name) == capability {
            results.step(row, seed as u64 + 1);
        }
    }
    if capability == 80 {
        transforms(&mut results);
        causal(&mut results);
        aggregates(&mut results);
        batches(&mut results);
        words(&mut results);
        quotients_beyond_32_bits(&mut results);
    }
    let wanted =
        module::kernels().iter().map(|kernel| kernel.name).filter(|name| capability_of(name) == capability);
    let missing: Vec<_> = wanted.filter(|name| !results.seen.contains(name)).collect();
    assert!(missing.is_empty(), "kernels that no problem launches: {missing:?}");
    results.text
}

/// Transforms that pad and fold, of every size, moved and blended; and ones that crop dimensions of
/// as many elements as 31 bits count.
fn transforms(results: &mut Results) {
    use DataType::{Bfloat16, Double, Float, Half, Int8, Int64};
    let (halved, doubled) = (Scaling { alpha: 0.5, beta: 2.0 }, Scaling { alpha: 1.5, beta: 2.0 });
    let pads = |map: &mut TransformDescriptor, fold| {
        (map.pad_before[2], map.pad_after[3], map.pad_before[1]) = (1, 2, -1);
        map.fold[0] = fold;
    };
    for (src, dst, direction, fold, scaling) in [
        (Float, Float, Folding::Fold, 2, Scaling::MOVE),
        (Int8, Int8, Folding::Unfold, 2, Scaling::MOVE),
        (Half, Half, Folding::Fold, 0, Scaling::MOVE),
        (Double, Double, Folding::Unfold, 2, Scaling::MOVE),
        (Int64, Bfloat16, Folding::Fold, 2, halved),
        (Float, Int8, Folding::Fold, 2, doubled),
    ] {
        let mut map = TransformDescriptor { direction, ..TransformDescriptor::default() };
        pads(&mut map, fold);
        let channels = if direction == Folding::Fold { 3 } else { 9 };
        let x = format(src, Format::Nchw, &[2, channels, 4, 5]);
        let extents = map.destination(&x.desc, Mode::Extended).expect("a destination");
        let extents: Vec<i64> = extents.dims().iter().copied().collect();
        transform(results, "map_i32", &map, [format(dst, Format::Nhwc, &extents), x], scaling);
    }
    let extent = i32::MAX;
    let mut map = TransformDescriptor::default();
    (map.pad_before[0], map.pad_after[0]) = (-(extent - 7), -3);
    (map.pad_before[3], map.pad_after[2]) = (1, 2);
    for (src, dst, scaling) in [
        (Int8, Int8, Scaling::MOVE),
        (Double, Half, halved),
        (Int8, Float, Scaling::MOVE),
        (Float, Int8, doubled),
    ] {
        let x = strided(src, &[extent.into(), 2, 3, 5], &[0, 15, 5, 1]);
        let y = format(dst, Format::Nhwc, &[4, 2, 5, 6]);
        transform(results, "map_i64", &map, [y, x], scaling);
    }
}

/// Runs one of them, from the second tensor to the first.
fn transform(
    results: &mut Results, name: &str, map: &TransformDescriptor, tensors: [Tensor; 2], scaling: Scaling,
) {
    let mut rng = Rng(results.text.len() as u64);
    let [y, x] = &tensors;
    let plan = TransformPlan::with_map(map, &x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
    let held = tensors.map(|tensor| Memory::new(&rng.bytes(tensor.size())));
    let at = [(&held[0], y), (&held[1], x)]
        .map(|(memory, tensor)| memory.pointer().wrapping_byte_add(tensor.base()).into());
    results.run(name, &plan, &held, &at);
}

/// Causal convolutions of every form and type, forwards and back.
fn causal(results: &mut Results) {
    let mut rng = Rng(8);
    for form in causal::FORMS {
        for data_type in causal::TYPES {
            let call = causal::call(form, [2, 3, 33, 3, 2], data_type);
            for plan in causal::plans(&call) {
                let contents = causal::all_contents(&plan, &mut rng, false);
                results.plan("causal", &plan, &contents);
            }
        }
    }
}

/// Aggregates of neighbours of every kind, forwards and back.
fn aggregates(results: &mut Results) {
    let mut rng = Rng(9);
    for join in 0..4 {
        for (data_type, index) in
            graphs::TYPES.into_iter().zip([DataType::Int32, DataType::Int64].into_iter().cycle())
        {
            let graph = graphs::Graph::random(&mut rng, 5, 6, 4);
            for columns in [[33, 1, 0], [2, 0, 3]] {
                for plan in graphs::plans(&graph.call(columns, [data_type, index], join)) {
                    let contents = graph.all_contents(&plan, &mut rng);
                    results.plan("aggregate", &plan, &contents);
                }
            }
        }
    }
}

/// Batches by their offsets, of every size of an element, to and fro.
fn batches(results: &mut Results) {
    let mut rng = Rng(10);
    for function in [RaggedFunction::Load, RaggedFunction::Store] {
        for _ in 0..12 {
            let problem = ragged::Problem::random(&mut rng, function);
            let contents = problem.contents(&mut rng);
            results.plan("ragged", &problem, &contents);
        }
    }
}

/// Integers that a call brings along.
fn words(results: &mut Results) {
    let words: Vec<u32> = (0..1030).map(|k: u32| k.wrapping_mul(0x0102_0305)).collect();
    let span = (0, 4 * words.len() as i64);
    let operand = Operand { name: "words", role: Role::Write, scalar: Scalar::I32, span };
    let row =
        Row { name: "words_write".to_owned(), step: Owned::Words(Words(words)), operands: vec![operand] };
    results.plan("words_write", &row, &[vec![0xff; span.1 as usize]]);
}

/// Divisions of 64 bits by 64: none of a problem that has memory needs them, for the text divides
/// by 32 where that is enough. These launches work on the first of more rows than any device holds.
fn quotients_beyond_32_bits(results: &mut Results) {
    // The softmax of the first of 2^33 rows, each of one number; the sample has one row.
    let [probs, statistics] = [3.5_f32, -1.0].map(|number| Memory::new(&number.to_le_bytes()));
    let lengths = Memory::new(&ints([1, 0].into_iter()));
    let mut of_ctc = [0; 26];
    of_ctc[2] = probs.address;
    (of_ctc[4], of_ctc[8]) = (lengths.address, lengths.address + 4);
    of_ctc[13] = statistics.address;
    // Rows, frames, samples and classes.
    of_ctc[14..18].copy_from_slice(&[1 << 33, 1 << 33, 1, 1]);
    run_shipped("ctc", "ctc_statistics_f32", [i32::MAX as u32, 128], &mut of_ctc);
    assert_eq!(statistics.read(), 3.5_f32.to_le_bytes());
    // The gradients of the first 16 of 2^40 channels, in no sequences.
    let weights = Memory::new(&[0xff; 64]);
    let mut of_causal = [0; 23];
    of_causal[0] = weights.address;
    // Blocks, sequences, channels, their length and taps.
    of_causal[9..14].copy_from_slice(&[1, 0, 1 << 40, 0, 1]);
    run_shipped("causal", "causal_weights_f32", [1, 512], &mut of_causal);
    double::sample(BLOCKS);
    assert_eq!(weights.read(), [0; 64]);
    writeln!(results.text, "quotients").expect("a string takes all");
}

/// Runs a shipped kernel with these parameters in blocks of so many threads, of which a few at the
/// start, in the middle and at the end.
fn run_shipped(family: &str, kernel: &str, [blocks, threads]: [u32; 2], parameters: &mut [u64]) {
    let path = common::project_root().join(format!("src/backend/cuda/ptx/{family}.ptx"));
    let text = CString::new(fs::read_to_string(path).expect("a text")).expect("PTX");
    let name = CString::new(kernel).expect("a name");
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let none: double::Object = ptr::null_mut();
    let mut places = [parameters.as_mut_ptr().cast::<c_void>()];
    double::sample(1);
    // SAFETY: C strings, places for results, and as many bytes of parameters as the kernel has.
    unsafe {
        let image = text.as_ptr();
        assert_eq!(double::cuModuleLoadDataEx(&mut module, image, 0, ptr::null_mut(), none.cast()), 0);
        assert_eq!(double::cuModuleGetFunction(&mut function, module, name.as_ptr()), 0);
        let places = places.as_mut_ptr();
        let code =
            double::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, none, places, none.cast());
        assert_eq!(code, 0);
        assert_eq!(double::cuCtxSynchronize(), 0);
    }
}

/// What processes executed, as the double writes it to `DRIVER_DOUBLE_COVERAGE`.
#[derive(Default)]
struct Executed {
    /// Whether each kernel that was loaded ran, and each of its instructions.
    kernels: BTreeMap<String, (bool, Vec<bool>)>,
    forms: BTreeMap<String, bool>,
}

impl Executed {
    fn read(path: &Path) -> Executed {
        let mut all = Executed::default();
        for line in fs::read_to_string(path).expect("what was executed").lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["kernel", name, ran, instructions] => {
                    let instructions = instructions.bytes().map(|digit| digit == b'1');
                    let known = all.kernels.entry(name.to_owned()).or_default();
                    known.0 |= ran == "1";
                    known.1.resize(instructions.len(), false);
                    known.1.iter_mut().zip(instructions).for_each(|(old, new)| *old |= new);
                }
                ["form", name, ran] => *all.forms.entry(name.to_owned()).or_default() |= ran == "1",
                _ => panic!("no line of the double: {line:?}"),
            }
        }
        all
    }
}

/// The opcodes with all of their suffixes that stand in the shipped texts, read by other means than
/// the double's.
fn shipped_forms() -> BTreeSet<String> {
    let folder = common::project_root().join("src/backend/cuda/ptx");
    let mut forms = BTreeSet::new();
    for file in fs::read_dir(folder).expect("the texts") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        for line in fs::read_to_string(path).expect("a text").lines() {
            let line = line.trim();
            let line =
                if line.starts_with('@') { line.split_once(char::is_whitespace).unwrap().1 } else { line };
            let word = line.trim().split([' ', '\t', ';']).next().unwrap_or_default();
            let is_form = word.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains([';', ',']);
            let is_name = word.starts_with("param") || word.ends_with(',');
            if is_form && !is_name {
                forms.insert(word.to_owned());
            }
        }
    }
    forms
}

/// The first problems whose results differ.
fn differences(source: &str, ptx: &str) -> Vec<String> {
    assert_eq!(source.lines().count(), ptx.lines().count(), "as many results");
    let mut found = Vec::new();
    for (source, ptx) in source.lines().zip(ptx.lines()).filter(|(source, ptx)| source != ptx) {
        let at = source.bytes().zip(ptx.bytes()).position(|(a, b)| a != b).unwrap_or_default();
        let (from, to) = (at.saturating_sub(8), (at + 16).min(source.len()).min(ptx.len()));
        let what = source.rsplit_once(' ').map_or(source, |(what, _)| what);
        found.push(format!(
            "{what}, byte {}: {} and {}",
            (at - what.len() - 1) / 2,
            &source[from..to],
            &ptx[from..to]
        ));
    }
    found
}

#[test]
fn every_kernel_and_every_form_of_the_shipped_ptx_leaves_the_bits_of_the_source() {
    if child::is_one() {
        let number = |name: &str| env::var(name).ok().and_then(|value| value.parse().ok());
        let capability = number("DRIVER_DOUBLE_CAPABILITY").expect("a capability");
        let path = env::var_os(RESULTS).expect("a place for results");
        fs::write(path, results(capability)).expect("results are written");
        return;
    }
    if double::is_real() {
        return println!("skipped: a real driver executes no sources to compare with");
    }
    let scratch = common::scratch_dir("ptx_coverage");
    let executed = scratch.join("executed.txt");
    let mut wrong = Vec::new();
    for capability in CAPABILITIES {
        let run = |runs: Runs, name: &str| {
            let path = scratch.join(format!("{name}{capability}.txt"));
            let text = |path: &Path| path.to_str().expect("a path of letters").to_owned();
            let variables = [
                ("DRIVER_DOUBLE_CAPABILITY", capability.to_string()),
                ("DRIVER_DOUBLE_COVERAGE", text(&executed)),
                (RESULTS, text(&path)),
            ];
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (*name, &**value)).collect();
            child::run(&double::of(runs), &variables, || ());
            fs::read_to_string(path).expect("what problems left")
        };
        wrong.extend(differences(&run(Runs::Source, "source"), &run(Runs::Ptx, "ptx")));
    }
    let all = Executed::read(&executed);
    let kernels: Vec<&str> = module::kernels().iter().map(|kernel| kernel.name).collect();
    let is_idle = |name: &&str| !all.kernels.get(*name).is_some_and(|(ran, _)| *ran);
    let idle: Vec<&str> = kernels.iter().copied().filter(is_idle).collect();
    let forms = shipped_forms();
    let missing: Vec<&String> = forms.iter().filter(|form| all.forms.get(*form) != Some(&true)).collect();
    let instructions = all.kernels.values().flat_map(|(_, instructions)| instructions);
    let (of, done) =
        instructions.fold((0, 0), |(of, done), executed| (of + 1, done + usize::from(*executed)));
    println!(
        "PTX executed: {} of {} kernels, {} of {} forms, {done} of {of} instructions",
        kernels.len() - idle.len(),
        kernels.len(),
        forms.len() - missing.len(),
        forms.len(),
    );
    assert!(wrong.is_empty(), "sources and PTX differ:\n{}", wrong.join("\n"));
    assert!(idle.is_empty() && missing.is_empty(), "never executed: kernels {idle:?}, forms {missing:?}");
}
