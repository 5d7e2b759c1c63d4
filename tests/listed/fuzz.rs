//! Random variations of the rows of `problems/problems.txt` and `problems/steps.txt`, other
//! extents, types, layouts, functions, scalings, windows and places in memory, against the
//! reference, bit for bit. Cases have numbers: `CUDNN_SHIM_FUZZ_FROM` says which is the first, and
//! `CUDNN_SHIM_FUZZ_SECONDS` asks for as many as that time allows, as `cargo xtask fuzz` does.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cudnn::dtype::Scalar;
use cudnn::ops::aggregate::Join;
use cudnn::ops::attend::{Cap, Dropout, Kept};
use cudnn::ops::contract::Accumulate;
use cudnn::ops::function::TABLE;
use cudnn::ops::sample::{Pictures, SampleFunction};
use cudnn::ops::window::WindowFunction;
use cudnn::ops::{AttendBackward, Compute, Draw, Map, Scaling};
use testkit::agree::{Counts, Setting, check};
use testkit::problems::Row;
use testkit::random::Rng;
use testkit::steps::{Owned, Vary, norms};
use testkit::{drawn, problems, run_step, steps};

/// Cases of a run that is not told how long to go on.
const CASES: u64 = 2000;

/// Extents at which kernels change: lanes, registers and lines of cells of every width, and their
/// neighbours.
const EXTENTS: [i64; 28] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 16, 17, 20, 24, 31, 32, 33, 48, 56, 63, 64, 65, 96, 127, 129, 256,
];

/// Cells of a case at most: most are small, some have several tiles, and few are streamed.
fn cells(rng: &mut Rng) -> i64 {
    match rng.below(60) {
        0 => 6_000_000,
        1..20 => 150_000,
        _ => 6_000,
    }
}

fn vary(row: &Row, rng: &mut Rng) -> Row {
    let mut row = if rng.below(2) == 0 { row.clone() } else { row.inverse() };
    for axis in 0..row.dims.len() {
        if rng.below(2) == 0 {
            row = row.with_extent(axis, rng.pick(&EXTENTS));
        }
    }
    row = row.shrunk(cells(rng));
    if rng.below(2) == 0 {
        row.src.scalar = rng.pick(&Scalar::ALL);
        row.dst.scalar = if rng.below(2) == 0 { row.src.scalar } else { rng.pick(&Scalar::ALL) };
    }
    row.scaling = match rng.below(8) {
        0..5 => row.scaling,
        5 => Scaling::MOVE,
        6 => Scaling { alpha: -1.5, beta: 0.0 },
        _ => Scaling { alpha: 0.75, beta: 2.0 },
    };
    let dims = row.dims.clone();
    for side in [&mut row.src, &mut row.dst] {
        if side.layout.contains(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if rng.below(3) == 0 {
            let letters: Vec<char> = side.layout.chars().collect();
            side.layout = rng.order(letters.len()).into_iter().map(|i| letters[i]).collect();
        }
        if rng.below(5) == 0 {
            side.window_of = Some(dims.iter().map(|&extent| extent + rng.below(9) as i64).collect());
        }
    }
    row
}

fn setting(rng: &mut Rng) -> Setting {
    let mut offset = || if rng.below(2) == 0 { 0 } else { rng.below(64) };
    Setting { offsets: [offset(), offset()], threads: 1 + rng.below(3) }
}

/// Runs `body` on the numbers of the cases that are asked for; returns how many ran.
fn cases(count: u64, body: impl FnMut(u64)) -> u64 {
    drawn::cases(count, "--test listed fuzz::", body)
}

#[test]
fn variations_of_the_listed_problems_equal_the_reference() {
    let rows = problems::read();
    let mut counts = Counts::new();
    let ran = cases(CASES, |case| {
        let mut rng = Rng(case);
        let row = vary(&rows[rng.below(rows.len())], &mut rng);
        let setting = setting(&mut rng);
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&row, setting, &mut counts)));
        if let Err(panic) = outcome {
            eprintln!("case {case}: {row:?} {setting:?}");
            resume_unwind(panic);
        }
    });
    println!("{counts:?}");
    for name in ["transform_rows", "interleave", "transpose", "transform_strided", "padded_blocks"] {
        assert!(ran < CASES || counts.contains_key(name), "no case for {name}: {counts:?}");
    }
}

/// The types that steps of any kind take.
const NUMBERS: [Scalar; 6] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16, Scalar::I8, Scalar::U8];

/// Those that products and statistics are of.
const FLOATS: [Scalar; 4] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16];

/// Those whose products are summed as integers.
const BYTES: [Scalar; 2] = [Scalar::I8, Scalar::U8];

/// The computation type of these types, or a wider one that is asked for.
fn at_least(scalars: &[Scalar], compute: Compute) -> Compute {
    if compute == Compute::Double { compute } else { Compute::of(scalars) }
}

/// A function of as many operands or fewer, of other types.
fn vary_map<const N: usize>(step: &mut Map<N>, compute: Compute, scaling: Scaling, rng: &mut Rng) {
    let arity = step.function.arity();
    let fits: Vec<_> = TABLE.iter().filter(|row| row.operands.len() <= arity).collect();
    step.function = fits[rng.below(fits.len())].function;
    step.parameter = 1.5;
    step.scalars = step.scalars.map(|_| rng.pick(&NUMBERS));
    step.compute = compute;
    step.factors.beta = scaling.beta;
    step.factors.alpha = [scaling.alpha, 1.0];
}

/// Another step of the same kind: shorter loops, other functions, types and factors.
fn vary_step(step: &Owned, rng: &mut Rng) -> Owned {
    let turns = if rng.below(8) == 0 { 100_000 } else { 4_000 };
    let mut varied = step.with_extents(&mut |extent| match rng.below(3) {
        0 => extent.min(rng.pick(&EXTENTS)),
        1 => 1 + rng.below(extent as usize) as i64,
        _ => extent,
    });
    varied = varied.shrunk(turns);
    let scaling = match rng.below(4) {
        0..2 => Scaling::MOVE,
        2 => Scaling { alpha: -1.5, beta: 0.0 },
        _ => Scaling { alpha: 0.75, beta: 2.0 },
    };
    let compute = if rng.below(4) == 0 { Compute::Double } else { Compute::Single };
    match &mut varied {
        Owned::Transform(step) => {
            (step.dst, step.src, step.scaling) = (rng.pick(&Scalar::ALL), rng.pick(&Scalar::ALL), scaling);
        }
        Owned::Padded(step) => (step.dst, step.src) = (rng.pick(&Scalar::ALL), rng.pick(&Scalar::ALL)),
        Owned::Scale(step) => (step.dst, step.beta) = (rng.pick(&Scalar::ALL), scaling.beta),
        Owned::Map(step) => vary_map(step, compute, scaling, rng),
        Owned::WideMap(step) => vary_map(step, compute, scaling, rng),
        Owned::Rows(step) => {
            step.scalars = step.scalars.map(|_| rng.pick(&NUMBERS));
            (step.compute, step.scaling) = (compute, scaling);
        }
        Owned::RowNorm(step) => {
            *step = norms::of_types(step, || rng.pick(&NUMBERS));
            step.compute = compute;
        }
        Owned::RowNormBackward(step) => {
            *step = norms::backward_of_types(step, || rng.pick(&NUMBERS));
            step.compute = compute;
        }
        Owned::Reduce(step) => {
            (step.dst, step.src) = (rng.pick(&NUMBERS), rng.pick(&NUMBERS));
            (step.compute, step.scaling) = (compute, scaling);
        }
        Owned::Window(step) => {
            step.scaling = scaling;
            step.scalars = match step.function {
                // Moves.
                WindowFunction::Columns => [rng.pick(&NUMBERS); 3],
                _ => step.scalars.map(|_| rng.pick(&NUMBERS)),
            };
            // Plans ask for no wider one, in which the largest of some halves would be scaled and
            // rounded otherwise.
            let layouts = if step.is_gradient() { 3 } else { 2 };
            step.compute = Compute::of(&step.scalars[..layouts]);
        }
        Owned::Normalise(step) => {
            (step.data, step.scaling) = (rng.pick(&FLOATS), scaling);
            step.compute = at_least(&[step.data], compute);
        }
        Owned::NormaliseBackward(step) => {
            (step.data, step.scaling) = (rng.pick(&FLOATS), scaling);
            step.compute = at_least(&[step.data], compute);
        }
        Owned::Contract(step) => {
            step.epilogue.scaling = scaling;
            (step.a, step.b) = (rng.pick(&FLOATS), rng.pick(&FLOATS));
            let wide = compute == Compute::Double || [step.a, step.b].contains(&Scalar::F64);
            step.accumulate = if wide { Accumulate::Double } else { Accumulate::Single };
            if rng.below(4) == 0 {
                (step.a, step.b) = (rng.pick(&BYTES), rng.pick(&BYTES));
                step.accumulate = Accumulate::Int32;
            }
            step.dst = rng.pick(&NUMBERS);
            (step.allow_conversion, step.allow_winograd) = (rng.below(4) == 0, rng.below(2) == 0);
            step.allow_tiles = rng.below(4) > 0;
        }
        Owned::Sample(step) => {
            step.grid = rng.pick(&FLOATS);
            if matches!(step.function, SampleFunction::AffineGrid | SampleFunction::AffineGradient) {
                (step.x, step.y) = (Pictures::none(step.grid), Pictures::none(step.grid));
            } else {
                step.x.scalar = rng.pick(&NUMBERS);
                // Gradients have the type of what they are of.
                let moves = step.function == SampleFunction::Bilinear;
                step.y.scalar = if moves { rng.pick(&NUMBERS) } else { step.x.scalar };
                step.scaling = scaling;
            }
            step.compute = at_least(&[step.x.scalar, step.y.scalar, step.grid], compute);
        }
        Owned::Ctc(step) => {
            step.compute = rng.pick(&[Compute::Single, Compute::Double]);
            (step.softmax, step.skips) = (rng.below(2) == 0, rng.below(2) == 0);
            step.gradients.iter_mut().for_each(|gradients| gradients.scalar = rng.pick(&FLOATS));
        }
        Owned::Random(step) => {
            step.scalar = rng.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16]);
            // A mask may go on behind the elements.
            let more = rng.pick(&[0, 1, 100, 5_000]);
            step.draw = step.draw.map(|draw| Draw { elements: draw.elements + more, ..draw });
        }
        Owned::Causal(step) => {
            step.scalar = rng.pick(&FLOATS);
            let sums = at_least(&[step.scalar], Compute::Single).scalar();
            step.gradient = if step.function.is_of_weights() { sums } else { step.scalar };
            step.adds = step.function.is_of_weights() && rng.below(2) == 0;
            if !step.function.is_gated() {
                let mut one_of_two = || rng.below(2) == 0;
                (step.channels_inside, step.newest_first) = (one_of_two(), one_of_two());
                (step.bias, step.silu) = (one_of_two(), one_of_two());
            }
        }
        Owned::Aggregate(step) => {
            step.scalar = rng.pick(&[Scalar::F32, Scalar::F16, Scalar::Bf16]);
            step.index = rng.pick(&[Scalar::I32, Scalar::I64]);
            step.join = rng.pick(&[Join::Sum, Join::Mean, Join::Max, Join::Min]);
            step.mapped = rng.below(2) == 0;
        }
        Owned::Attend(step) | Owned::AttendBackward(AttendBackward { forward: step, .. }) => {
            step.scalar = rng.pick(&[Scalar::F32, Scalar::F16, Scalar::Bf16]);
            step.fill = rng.pick(&[None, Some(Scalar::F32)]);
            step.scale = rng.pick(&[None, Some(Scalar::F32), Some(Scalar::F16)]);
            (step.log2, step.padded) = (rng.below(2) == 0, rng.below(2) == 0);
            let of = rng.pick(&[Scalar::F32, Scalar::F16, Scalar::Bf16]);
            let one = |rng: &mut Rng| rng.pick(&[Scalar::F32, Scalar::F16]);
            let cap = Cap { inner: one(rng), outer: one(rng), divides: rng.below(2) == 0 };
            step.cap = (rng.below(4) == 0).then_some(cap);
            step.sink = (rng.below(4) == 0).then(|| (one(rng), rng.below(3) as i64));
            step.bias = (rng.below(3) == 0).then(|| (of, bias_strides(step.extents, rng)));
            let kept = match rng.below(2) {
                0 => Kept::Drawn(1 << 30),
                _ => Kept::Given(of, bias_strides(step.extents, rng)),
            };
            let factor = one(rng);
            step.dropout = (rng.below(4) == 0).then_some(Dropout { kept, factor });
            step.slopes = (rng.below(4) == 0).then(|| (one(rng), rng.below(3) as i64));
        }
        Owned::Ragged(step) => {
            step.scalar = rng.pick(&Scalar::ALL);
            step.index = rng.pick(&[Scalar::I32, Scalar::I64]);
            step.multiplier = rng.pick(&[1, 2, 3, 64]);
        }
        // No line says phases.
        Owned::Set(_) | Owned::Words(_) | Owned::Phases(_) => {}
    }
    varied
}

/// Of a bias that has an element for each index of an axis, or the same for all of them, with the
/// axes in their order or the other way about.
fn bias_strides(extents: [i64; 4], rng: &mut Rng) -> [i64; 4] {
    let (mut strides, mut step) = ([0; 4], 1);
    let is_reversed = rng.below(4) == 0;
    for k in 0..4 {
        let axis = if is_reversed { k } else { 3 - k };
        if rng.below(3) > 0 {
            strides[axis] = step;
            step *= extents[axis];
        }
    }
    strides
}

/// Each case is also written and read again, so that what a failure shows can be put into the list.
#[test]
fn variations_of_the_listed_steps_equal_the_reference() {
    let rows = steps::read();
    cases(CASES / 4, |case| {
        let mut rng = Rng(case);
        let row = &rows[rng.below(rows.len())];
        let line = vary_step(&row.step, &mut rng).to_string();
        let read = steps::parse(&line).unwrap_or_else(|error| panic!("case {case}: {error}\n{line}"));
        assert_eq!(read.to_string(), line, "case {case}");
        let row =
            steps::Row::new(&row.name, read).unwrap_or_else(|error| panic!("case {case}: {error}\n{line}"));
        run_step::check(&row, &[1 + rng.below(3)], &mut rng);
    });
}
