//! The one problem language: every line of `problems/steps.txt` is read, shown as it was, and run
//! on the CPU core at every instruction set level, by one thread and by two, against the reference
//! loops, bit for bit; attention within a bound.

use std::collections::BTreeSet;

#[cfg(target_arch = "x86_64")]
use cudnn::backend::cuda;
use cudnn::backend::{self, Isa};
use testkit::random::Rng;
use testkit::steps::{Row, Vary};
use testkit::{run_step, steps};

/// Turns of all loops of a row together at most, so that all rows stay quick in an unoptimised
/// build, and where they are interpreted.
const TURNS: i64 = if cfg!(miri) { 100 } else { 60_000 };

/// Bytes that the operands of a part span at most, where an interpreter fills them one by one.
const SPAN: Option<usize> = if cfg!(miri) { Some(24 << 10) } else { None };

/// Numbers of threads, and rounds with other numbers in the operands. An interpreter takes long for
/// threads that wait.
const THREADS: &[usize] = if cfg!(miri) { &[1] } else { &[1, 2] };
const ROUNDS: usize = if cfg!(miri) { 1 } else { 2 };

/// Kinds of which other tests run every kernel: `tests/cpu/candidates`, `tests/cpu/padded.rs`, and
/// `tests/cpu/contract/kernels.rs`.
const CASES_ELSEWHERE: [&str; 4] = ["Transform", "Padded", "Contract", "Phases"];

#[test]
fn every_listed_step_equals_the_reference() {
    let mut rng = Rng(41);
    let (mut kinds, mut forced) = (BTreeSet::new(), BTreeSet::new());
    let mut too_long = 0;
    for row in steps::read() {
        let line = row.to_string();
        kinds.insert(
            line.split(' ').take(1 + usize::from(line.contains(" backward "))).collect::<Vec<_>>().join(" "),
        );
        let again = steps::parse(&line).unwrap_or_else(|error| panic!("{line}\n{error}"));
        assert_eq!(again.to_string(), line, "{}", row.name);
        let small = Row::new(&row.name, row.step.shrunk(TURNS)).expect("a part of the step");
        if SPAN.is_some_and(|span| small.bytes() > span) {
            too_long += 1;
            continue;
        }
        let kind = line.split(' ').next().unwrap_or_default();
        for _ in 0..ROUNDS {
            let kernels = run_step::check(&small, THREADS, &mut rng);
            forced.extend(kernels.into_iter().map(|kernel| (kind.to_owned(), kernel)));
        }
    }
    if too_long > 0 {
        println!("skipped {too_long} steps whose operands are too long to interpret");
    }
    let all = [
        "aggregate",
        "attend",
        "attend backward",
        "causal",
        "contract",
        "ctc",
        "map",
        "norm",
        "norm backward",
        "normalise",
        "normalise backward",
        "ragged",
        "random",
        "reduce",
        "rows",
        "sample",
        "scale",
        "set",
        "transform",
        "window",
        "words",
    ];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all);
    // An interpreter sees too few of them.
    if Isa::all().count() > 1 && too_long == 0 {
        let tables = backend::tables().into_iter().filter(|(kind, _)| !CASES_ELSEWHERE.contains(kind));
        let kernels = tables.flat_map(|(kind, kernels)| {
            kernels.into_iter().map(move |(name, _)| (kind.to_lowercase(), name))
        });
        // Sums that are transformed have bits of their own, which `tests/cpu/causal.rs` holds to a
        // bound.
        let kernels = kernels.filter(|(_, name)| *name != "causal_fft");
        let missing: Vec<_> = kernels.filter(|kernel| !forced.contains(kernel)).collect();
        assert!(missing.is_empty(), "no listed step is accepted by {missing:?}");
    }
}

/// Results of fewer bits, with a bias and a residual of their type or none, side by side and apart;
/// depthwise of whole vectors and of others.
#[test]
fn ends_in_fewer_bits_equal_the_reference() {
    let mut rng = Rng(43);
    for line in [
        "rows contract bf16*bf16->bf16 in f32 z=bf16*1 bias=bf16 ReluOrNan m:12*(80,32,0,80,0) n:80*(1,0,32,1,1) \
         k:32*(0,1,1,0,0) at 0,0,0,0,0",
        "bytes contract s8*s8->s8 in s32 alpha=0.25 beta=0 z=s8*1.25 bias=f32 ReluOrNan m:12*(80,32,0,80,0) \
         n:80*(1,0,32,1,1) k:32*(0,1,1,0,0) at 0,0,0,0,0",
        "own contract s8*s8->s8 in s32 alpha=0.25 beta=0 z=s8*0.5 bias=s8 m:9*(70,16,0,70,0) n:70*(1,0,16,1,1) \
         k:16*(0,1,1,0,0) at 0,0,0,0,0",
        "planes contract s8*s8->s8 in s32 alpha=0.25 beta=0 z=s8*1.25 bias=f32 ReluOrNan m:37*(1,1,0,1,0) \
         n:20*(37,0,16,37,1) k:16*(0,37,1,0,0) at 0,0,0,0,0",
        "apart contract f16*f16->f16 in f32 z=f16*0.5 bias=f16 m:24*(24,80,0,1,0) n:24*(1,0,80,24,1) \
         k:80*(0,1,1,0,0) at 0,0,0,0,0",
        "channels contract bf16*bf16->bf16 in f32 z=bf16*1 bias=bf16 ClippedReluOrNan c=6 b:24*(1,1,9,1,1) \
         m:2*(600,1944,0,600,0) m:5*(120,432,0,120,0) m:5*(24,48,0,24,0) k:3*(0,216,3,0,0) k:3*(0,24,1,0,0) \
         at 0,-240,0,0,0 | 0..9: -1 +2*m2 +1*k4 | 0..9: -1 +2*m3 +1*k5",
        "others contract f16*f16->f16 in f32 z=f16*0 bias=f32 b:20*(1,1,9,1,1) m:2*(500,1620,0,500,0) \
         m:5*(100,360,0,100,0) m:5*(20,40,0,20,0) k:3*(0,180,3,0,0) k:3*(0,20,1,0,0) at 0,-200,0,0,0 \
         | 0..9: -1 +2*m2 +1*k4 | 0..9: -1 +2*m3 +1*k5",
        "depthwise contract s8*s8->s8 in s32 alpha=0.25 beta=0 z=s8*0.5 bias=f32 ClippedReluOrNan c=100 \
         b:80*(1,1,9,1,1) m:9*(720,720,0,720,0) m:9*(80,80,0,80,0) k:3*(0,720,3,0,0) k:3*(0,80,1,0,0) \
         at 0,-800,0,0,0 | 0..9: -1 +1*m1 +1*k3 | 0..9: -1 +1*m2 +1*k4",
    ] {
        let row = Row::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        for _ in 0..2 {
            run_step::check(&row, &[1, 2], &mut rng);
        }
    }
}

/// The page lists the tables that the library was built with, in their order. Other processors have
/// fewer kernels of contractions.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_page_of_kernels_lists_every_table() {
    let page = include_str!("../../docs/kernels.md");
    let (mut page, of_cuda) = page.split_once("\n# Kernels of the CUDA core\n").expect("both cores");
    for (kind, kernels) in backend::tables() {
        let heading = format!("\n## {kind}\n");
        let rows = kernels.iter().map(|(name, when)| format!("\n| `{name}` | {when} |"));
        for line in std::iter::once(heading).chain(rows) {
            let at =
                page.find(&line).unwrap_or_else(|| panic!("docs/kernels.md lacks, or has too early:{line}"));
            page = &page[at + line.len()..];
        }
    }
    assert_eq!(page.trim(), "", "docs/kernels.md lists what is in no table");
    // Contractions have a table of their own, with other columns.
    for name in cuda::plan::tables().into_iter().filter(|name| !name.starts_with("contract_")) {
        let is_listed = of_cuda.lines().any(|line| {
            line.split('`').nth(1).is_some_and(|names| names.split(' ').any(|listed| listed == name))
        });
        assert!(is_listed, "docs/kernels.md lacks {name} of the CUDA core");
    }
}

/// A slip of the pen is an error that says where.
#[test]
fn lines_that_do_not_fit_are_refused() {
    let good = "map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 8*(1,1,0) +0,+0,+0";
    assert!(steps::parse(good).is_ok());
    for (line, part) in [
        ("", "a kind of step"),
        ("maps Relu", "`maps` is no kind of step"),
        ("map Relo f32->f32->f32", "`Relo` is no function"),
        ("map Relu f33->f32->f32", "a type is expected at `f33"),
        ("map Relu f32->s8->f32", "f32 or f64"),
        ("map Relu f32,f32->f32->f32", "reads 1 operands"),
        ("map Relu f32->f32->f32 alpha=[1, 1]", "` beta=` is expected"),
        ("map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 0*(1,1,0) +0,+0,+0", "an extent above 0"),
        (
            "map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src1/src2: 8*(1,1) +0,+0,+0",
            "`,` is expected at `)",
        ),
        ("map Relu f32->f32->f32 alpha=[1, 1] beta=0 dst/src: 8*(1,1) +0,+0", "`/src1` is expected"),
        ("transform f32->f32 dst/src: 8*(1,1) +0,+0 twice", "the end of the line is expected at ` twice`"),
        ("transform f32->f32 alpha=x beta=0 dst/src: +0,+0", "the number alpha is expected at `x"),
        ("set u8 to bits 0x100 dst: +0", "more bits than a u8"),
        ("reduce Add f32->f32->f32 alpha=1 beta=0 indices=32 outputs", "Add has no indices"),
        (
            "reduce Add f32->f32->f32 alpha=1 beta=0 outputs dst/src1/src2: +0,+0,+0 each of",
            "one or two nests",
        ),
        (
            "contract f32*f32->f32 in f32 m:4*(1,1,0) at 0,0,0 | 0..5: 0 +1*m0 +1*k7",
            "a loop that is not there",
        ),
        ("product f32*f32->f32 in f32 bmk*bkn->bmm b=1 m=2 n=2 k=2", "`bmm` is no matrix of m and n"),
        ("product f32*f32->f32 in f32 bmk*bkn->mn b=2 m=2 n=2 k=2", "the product has a batch"),
        ("window most f32", "a function of windows"),
        ("causal Forward s8 1x1x1 ncw taps=1", "numbers are floating"),
        ("causal Forward f32 1x1x1 ncw taps=0", "at least one tap"),
        ("causal Gated f32 1x1x1 nwc taps=1 mixer=1", "a gated pair has positions inside"),
        (
            "window max f32<-f32 in f32 alpha=1 beta=0 8->0:k2s2p0(1,1,0) dst/src1/src2: +0,+0,+0",
            "an extent above 0",
        ),
    ] {
        let error = steps::parse(line).err().unwrap_or_else(|| panic!("this is read: {line}"));
        assert!(error.contains(part), "{line}\n{error}");
    }
    let far = "scale f32 beta=0 dst: 9*(2000000000) +0";
    assert!(Row::new("far", steps::parse(far).expect("a step")).is_err());
    let beyond = "random draw elements=7 threshold=9 f32 scale=2 dst/src1/src2: 8*(1,1,1) +0,+0,+0";
    assert!(Row::new("beyond", steps::parse(beyond).expect("a step")).is_err());
}
