//! Which kernels take a contraction. What a kernel computes other tests check; where its limits lie
//! only time shows. So the committed table counts what each kernel takes of many problems around
//! these limits, and is first asked for: who moves a limit sees how far it reaches, and writes the
//! table with `CUDNN_SHIM_TEST_WRITE=1`. Of how the same contractions are brought into order there
//! are hashes, see `testkit::snapshot`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cudnn::backend::{self, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::layout::format::packed_strides;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Geometry, Parts, Phases, Side, Terms};
use cudnn::ops::{Contract, Scaling, Step};

use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::random::Rng;
use testkit::snapshot;

const FILE: &str = "tests/data/kernels_taken.tsv";

const TYPES: &[([Scalar; 3], Accumulate)] = &[
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F32; 3], Accumulate::Single),
    ([Scalar::F16; 3], Accumulate::Single),
    ([Scalar::Bf16; 3], Accumulate::Single),
    ([Scalar::F64; 3], Accumulate::Double),
    ([Scalar::I8; 3], Accumulate::Int32),
    ([Scalar::F32, Scalar::U8, Scalar::I8], Accumulate::Int32),
];

/// Elements of a tensor at most; no memory is taken.
const ELEMENTS: i64 = 1 << 24;

/// What became of problems so far.
#[derive(Default)]
struct Seen {
    /// By level and kernel, of how many problems it is the first one that takes them, and how many
    /// it takes.
    taken: BTreeMap<(String, String), [usize; 2]>,
    /// The steps that kernels were asked for.
    steps: String,
}

fn count(step: Step<'_>, seen: &mut Seen) {
    for isa in Isa::all() {
        // The model of tiles has every other kernel of this processor's highest level.
        let is_here = |name: &str| isa.name() != "amxmodel" || name.starts_with("tiles");
        let kernels = backend::kernels(step, Machine { isa, threads: 2 });
        for (place, name) in kernels.into_iter().enumerate().filter(|(_, name)| is_here(name)) {
            let counts = seen.taken.entry((isa.name().to_owned(), name.to_owned())).or_default();
            counts[0] += usize::from(place == 0);
            counts[1] += 1;
        }
    }
}

fn count_steps(mut steps: Vec<Contract>, rng: &mut Rng, seen: &mut Seen) {
    let (tiles, winograd) = (rng.below(2) == 0, rng.below(2) == 0);
    for step in &mut steps {
        *step = step.canonical();
        (step.allow_tiles, step.allow_winograd) = (tiles, winograd);
        // How a device cuts its sums, too, and those of factors of which one is narrow.
        let mut mixed = *step;
        mixed.b = Scalar::F16;
        let parts = [Parts::of(step), Parts::of(&mixed)];
        writeln!(seen.steps, "{step} {parts:?}").expect("a string takes all");
    }
    steps.iter().for_each(|step| count(Step::Contract(step), seen));
    if steps.len() > 1 {
        count(Step::Phases(&Phases(steps)), seen);
    }
}

/// Channels outermost, or side by side; now and then with gaps, or in blocks.
fn layout(dims: &[i64], rng: &mut Rng) -> Layout {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    match rng.below(8) {
        0..=3 => {}
        4..=6 => order[1..].rotate_left(1),
        _ => order.rotate_left(1),
    }
    let gap = if rng.below(6) == 0 { 1 } else { 0 };
    let outer: Vec<i64> = dims.iter().map(|dim| dim + gap).collect();
    if dims.len() > 2 && rng.below(8) == 0 {
        let block = rng.pick(&[4, 8, 16]);
        if dims[1] % block == 0 {
            return Layout::blocked(dims, 1, block).expect("whole blocks");
        }
    }
    Layout { dims: Dims::new(dims), strides: packed_strides(&outer, &order).expect("small"), split: None }
}

/// A convolution in the plane with its sizes around the limits of kernels.
fn near_limits(rng: &mut Rng) -> Convolution {
    let is_winograd = rng.below(6) == 0;
    let groups = if is_winograd { 1 } else { rng.pick(&[1, 1, 1, 1, 2, 7, 8, 40]) };
    let few = [1, 1, 1, 2, 3, 4, 7, 8, 9, 16];
    let many = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 128, 129];
    let wide = [31, 32, 33, 64];
    let [c, k] = [0; 2].map(|_| match groups {
        1 if is_winograd => rng.pick(&wide),
        1 => rng.pick(&many),
        _ => rng.pick(&few),
    });
    let taps = if is_winograd { 3 } else { rng.pick(&[1, 2, 3, 3, 3, 5, 7]) };
    let stride = if is_winograd { 1 } else { rng.pick(&[1, 1, 2, 3]) };
    let dilation = if is_winograd { 1 } else { rng.pick(&[1, 1, 1, 2]) };
    let extents = [0; 2].map(|_| taps + rng.pick(&[0, 1, 4, 7, 9, 10, 11, 13, 14, 15, 16, 31, 56, 112]));
    let padding = rng.pick(&[0, 0, 1, 1, taps / 2]);
    let out = extents.map(|extent| {
        let room = extent + 2 * padding - (taps - 1) * dilation - 1;
        if room < 0 { 0 } else { room / stride + 1 }
    });
    let sizes = |value: i64| Dims::new(&[value; 2]);
    let n = rng.pick(&[1, 1, 2, 8]);
    Convolution {
        geometry: Geometry {
            padding: sizes(padding),
            strides: sizes(stride),
            dilation: sizes(dilation),
            groups,
            flip: rng.below(4) == 0,
        },
        x: vec![n, c * groups, extents[0], extents[1]],
        w: vec![k * groups, c, taps, taps],
        y: vec![n, k * groups, out[0], out[1]],
    }
}

fn count_convolution(conv: &Convolution, rng: &mut Rng, seen: &mut Seen) {
    let (direction, (types, sums)) = (rng.pick(&DIRECTIONS), rng.pick(TYPES));
    let dims = conv.dims(direction);
    if dims.iter().any(|dims| dims.contains(&0) || dims.iter().product::<i64>() > ELEMENTS) {
        return;
    }
    // Mostly all lie alike.
    let like = rng.word();
    let mut own = |dims: &[i64]| {
        let seed = if rng.below(4) == 0 { rng.word() } else { like };
        layout(dims, &mut Rng(seed))
    };
    let layouts = dims.map(&mut own);
    let [dst, a, b] = [0, 1, 2].map(|at| Side { layout: &layouts[at], scalar: types[at] });
    let beta = rng.pick(&[0.0, 0.0, 1.0]);
    let terms = Terms::scaled(Scaling { alpha: 1.0, beta });
    let build = match direction {
        Direction::Forward => Contract::forward,
        Direction::Data => Contract::backward_data,
        Direction::Filter => Contract::backward_filter,
    };
    let mut steps = Vec::new();
    let built = build(dst, a, b, &conv.geometry, sums, &terms, &mut |step| {
        steps.push(*step);
        Ok(())
    });
    if built.is_ok() {
        count_steps(steps, rng, seen);
    }
}

fn count_product(rng: &mut Rng, seen: &mut Seen) {
    let (types, sums) = rng.pick(TYPES);
    let batch = rng.pick(&[1, 1, 3]);
    let sizes = [1, 2, 3, 4, 5, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 256, 511, 512, 513, 2048];
    let [m, n, k] = [rng.pick(&sizes), rng.pick(&sizes), rng.pick(&sizes)];
    let sides = [[m, n], [m, k], [k, n]].map(|[rows, columns]| {
        let order = if rng.below(2) == 0 { [0, 1, 2] } else { [0, 2, 1] };
        let dims = [batch, rows, columns];
        Layout { dims: Dims::new(&dims), strides: packed_strides(&dims, &order).expect("small"), split: None }
    });
    let [c, a, b] = [0, 1, 2].map(|at| Side { layout: &sides[at], scalar: types[at] });
    let terms = Terms::scaled(Scaling { alpha: 1.0, beta: rng.pick(&[0.0, 0.0, 1.0]) });
    if let Ok(step) = Contract::matmul(c, a, b, sums, &terms) {
        count_steps(vec![step], rng, seen);
    }
}

fn text(seen: &Seen) -> String {
    let mut text = String::from("# level\tkernel\tfirst of\ttakes\n");
    for ((level, kernel), [first, takes]) in &seen.taken {
        writeln!(text, "{level}\t{kernel}\t{first}\t{takes}").expect("a string takes all");
    }
    text
}

/// Problems of which one hash is kept.
const TOGETHER: usize = 50;

#[test]
fn kernels_take_what_the_table_says() {
    let (mut rng, mut seen, mut steps) = (Rng(53), Seen::default(), String::new());
    for problem in 0..9000 {
        if problem < 6000 {
            count_convolution(&near_limits(&mut rng), &mut rng, &mut seen);
        } else if problem % 2 == 0 {
            count_convolution(&Convolution::drawn(1 << 20, &mut rng), &mut rng, &mut seen);
        } else {
            count_product(&mut rng, &mut seen);
        }
        if (problem + 1) % TOGETHER == 0 {
            let hash = snapshot::hash(&std::mem::take(&mut seen.steps));
            let first = problem + 1 - TOGETHER;
            writeln!(steps, "contractions {first} to {problem}\n  {hash:08x}").expect("a string takes all");
        }
    }
    let how = "cargo test --test cpu -- contract::choice";
    assert_eq!(snapshot::compare("contractions.txt", how, &steps, |_| true), 0);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("CUDNN_SHIM_TEST_WRITE").is_some() {
        return std::fs::write(file, text(&seen)).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(file).expect("the committed table");
    // Other processors have other levels.
    let levels: BTreeSet<&str> = Isa::all().map(Isa::name).collect();
    let of_here = |line: &&str| line.split('\t').next().is_some_and(|level| levels.contains(level));
    let want: BTreeSet<&str> = committed.lines().filter(of_here).collect();
    let known: BTreeSet<&str> = want.iter().filter_map(|line| line.split('\t').next()).collect();
    let got = text(&seen);
    let got: BTreeSet<&str> = got
        .lines()
        .filter(|line| known.iter().any(|level| line.starts_with(&format!("{level}\t"))))
        .collect();
    assert!(known.contains("portable"), "{FILE} has no level of this processor");
    let changed: Vec<&&str> = got.symmetric_difference(&want).collect();
    assert!(
        changed.is_empty(),
        "kernels take other problems; CUDNN_SHIM_TEST_WRITE=1 writes {FILE}: {changed:#?}"
    );
}
