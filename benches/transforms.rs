//! Every transform of `problems.txt` and its inverse beside a copy of the same bytes on the same
//! threads, in turns, so that both meet the same neighbours on the machine.
//!
//! `cargo bench --bench transforms -- [rounds=N] [size=beyond|inside|all] [offset=BYTES] [list=FILE] [grow] [dump] [NAME...]`
//! - `size`: buffers that together exceed the caches (about 128 MiB or more), that fit them (about
//!   8 MiB or less), or both.
//! - `offset`: where buffers start in a cache line; large blocks of `malloc` start at 16.
//! - `list`: rows of another file, in the form of `problems.txt`.
//! - `grow`: each row again with every extent one larger.
//! - `dump`: the steps from each problem to its canonical nest, instead of measuring.

use std::time::Instant;

use cudnn::backend::cpu::threads;
use cudnn::backend::{self, Machine};
use cudnn::exec::Context;
use cudnn::layout::nests;
use cudnn::ops::{Plan, Step};
use testkit::problems;
use testkit::problems::Row;

/// Buffers that together exceed any last-level cache we know of, in bytes.
const BEYOND: usize = 128 << 20;
/// Buffers that fit the second and third level of most processors, in bytes.
const INSIDE: usize = 8 << 20;

struct Options {
    rounds: usize,
    sizes: Vec<&'static str>,
    offset: usize,
    rows: Vec<Row>,
    grow: bool,
    dump: bool,
    names: Vec<String>,
}

impl Options {
    fn parse() -> Options {
        let mut options = Options {
            rounds: 15,
            sizes: vec!["beyond", "inside"],
            offset: 0,
            rows: problems::read(),
            grow: false,
            dump: false,
            names: Vec::new(),
        };
        for word in std::env::args().skip(1).filter(|word| !word.starts_with("--")) {
            match word.split_once('=') {
                Some(("rounds", n)) => options.rounds = n.parse().expect("rounds=N"),
                Some(("offset", n)) => options.offset = n.parse().expect("offset=BYTES"),
                Some(("list", file)) => {
                    let list =
                        std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
                    options.rows = problems::rows(file, &list);
                }
                Some(("size", "beyond")) => options.sizes = vec!["beyond"],
                Some(("size", "inside")) => options.sizes = vec!["inside"],
                Some(("size", "all")) => {}
                Some(_) => panic!("unknown option {word}"),
                None if word == "grow" => options.grow = true,
                None if word == "dump" => options.dump = true,
                None => options.names.push(word),
            }
        }
        options
    }

    fn wants(&self, row: &Row) -> bool {
        let name = row.name.trim_end_matches('\'');
        self.names.is_empty() || self.names.iter().any(|n| *n == row.name || n == name)
    }
}

fn main() {
    let options = Options::parse();
    let machine = Machine::host();
    println!("# {}, threads: {}, buffers at {} mod 64", machine.isa.name(), machine.threads, options.offset);
    println!(
        "# best GB/s of ours and of the copy; best and median of ours / copy over {} rounds",
        options.rounds
    );
    let mut ratios = Vec::new();
    let rows = options.rows.iter().flat_map(|row| [row.inverse(), row.clone()]);
    for row in rows.filter(|row| options.wants(row)) {
        if options.dump {
            dump(&row);
            continue;
        }
        for &size in &options.sizes {
            let Some(row) = sized(&row, size) else { continue };
            ratios.push((size, measure(&row, size, &options)));
            let axes = if options.grow { row.dims.len() } else { 0 };
            for grown in (0..axes).map(|axis| row.with_extent(axis, row.dims[axis] + 1)) {
                measure(&grown, size, &options);
            }
        }
    }
    for size in options.sizes {
        let of_size = || ratios.iter().filter(|r| r.0 == size).map(|r| r.1);
        let mean = (of_size().map(f64::ln).sum::<f64>() / of_size().count().max(1) as f64).exp();
        let least = of_size().fold(f64::INFINITY, f64::min);
        println!("# {size}: {} rows, geometric mean {mean:.2}, least {least:.2}", of_size().count());
    }
}

/// The row with a batch that makes its buffers exceed or fit the caches; `None` where it has no
/// batch to change and is of the other kind.
fn sized(row: &Row, size: &str) -> Option<Row> {
    let (bytes, beyond) = if size == "beyond" { (BEYOND, true) } else { (INSIDE, false) };
    if row.bytes() >= 1 << 16
        && let Some(row) = row.with_batch_for(bytes, beyond)
    {
        return Some(row);
    }
    let fits = if beyond { row.bytes() * 2 > BEYOND } else { row.bytes() <= 2 * INSIDE };
    fits.then(|| row.clone())
}

/// Measures one row; the best of ours over the best of the copy.
fn measure(row: &Row, size: &str, options: &Options) -> f64 {
    let tensors = row.tensors();
    let plan = tensors.plan();
    let [y_span, x_span] = [0, 1].map(|k| plan.operands()[k].span);
    let len = |(low, high): (i64, i64)| (high - low) as usize;
    // Both buffers hold the copy too: as many bytes each way as the transform moves in all, halved.
    let moved = row.moved_bytes();
    let copied = moved / 2;
    let mut x = Buffer::new(len(x_span).max(copied), options.offset);
    let mut y = Buffer::new(len(y_span).max(copied), options.offset);
    let context = Context::cpu();
    let at = [
        y.ptr().wrapping_offset(-y_span.0 as isize).into(),
        x.ptr().wrapping_offset(-x_span.0 as isize).into(),
    ];
    // SAFETY: both buffers hold their spans, and nothing else uses them.
    let ours = || unsafe { context.run(&plan, &at) }.expect("it runs");
    let (from, to) = (x.ptr(), y.ptr());
    let copy = || parallel_copy(to, from, copied);
    // Enough turns for a millisecond, so that the clock does not count.
    let turns = ((1 << 24) / moved).clamp(1, 10_000);
    let mut times = Vec::new();
    time(turns, ours);
    time(turns, copy);
    for _ in 0..options.rounds {
        times.push((time(turns, ours), time(turns, copy)));
    }
    let best = |f: fn(&(f64, f64)) -> f64| times.iter().map(f).fold(f64::INFINITY, f64::min);
    let (ours, copied) = (best(|t| t.0), best(|t| t.1));
    let mut each: Vec<f64> = times.iter().map(|t| t.1 / t.0).collect();
    each.sort_by(f64::total_cmp);
    let gbs = |seconds: f64| moved as f64 / seconds / 1e9;
    println!(
        "{:60} {size} {:7.1} {:7.1} {:5.2} {:5.2}   {:9.1} us",
        row.title(),
        gbs(ours),
        gbs(copied),
        copied / ours,
        each[each.len() / 2],
        ours * 1e6
    );
    copied / ours
}

/// Seconds per call.
fn time(turns: usize, mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..turns).for_each(|_| f());
    start.elapsed().as_secs_f64() / turns as f64
}

/// `memcpy` of equal parts on all threads.
fn parallel_copy(dst: *mut u8, src: *const u8, bytes: usize) {
    let parts = if bytes < 256 << 10 { 1 } else { Machine::host().threads };
    let (dst, src) = (dst.expose_provenance(), src.expose_provenance());
    let bound = |part: usize| (bytes * part / parts).next_multiple_of(64).min(bytes);
    let outcome = threads::run(parts, parts, &|part| {
        let (from, to) = (bound(part), bound(part + 1));
        let (dst, src) =
            (std::ptr::with_exposed_provenance_mut::<u8>(dst), std::ptr::with_exposed_provenance::<u8>(src));
        // SAFETY: both buffers hold `bytes` bytes and the parts are disjoint.
        unsafe { dst.add(from).copy_from_nonoverlapping(src.add(from), to - from) };
    });
    outcome.expect("no part panics");
}

/// The loops of each problem of a row, from the dims to the canonical form, and who runs it.
fn dump(row: &Row) {
    println!("{}", row.title());
    let tensors = row.tensors();
    let (x, y) = (tensors.src.layout().expect("it has one"), tensors.dst.layout().expect("it has one"));
    nests([y, x], &mut |nest| {
        for (step, nest) in nest.canonical_steps() {
            println!("  {step:18} {nest}");
        }
    });
    let outcome = tensors.plan().for_each(&mut |problem| {
        let candidate = match problem {
            step @ Step::Transform(_) => backend::kernel(step, false, Machine::host()).unwrap_or_default(),
            Step::Scale(_) => "scale",
            Step::Padded(_) => "padded",
            other => unreachable!("no part of a transform: {other}"),
        };
        println!("  {candidate:18} {problem}");
        Ok(())
    });
    outcome.expect("nothing fails");
}

/// Memory at a chosen place in its cache line, every page touched. Its bytes are ordinary numbers
/// of about 0.01 to 1 in every floating type: subnormal ones would slow the arithmetic down, not
/// the memory.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new(len: usize, offset: usize) -> Buffer {
        let mut bytes = vec![0; len + 128];
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = 0x38 + (i % 7) as u8);
        let start = bytes.as_ptr().align_offset(64) + offset % 64;
        Buffer { bytes, start }
    }

    fn ptr(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }
}
