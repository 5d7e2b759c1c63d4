//! Attention in one step on the CUDA core, and its gradients: near the definition in binary64, the
//! same bits each time, and those of each batch alone; on the kernels' sources and on their PTX.

use cudnn::backend::cuda::module;
use cudnn::backend::reference;
use cudnn::exec::Address;
use cudnn::ops::{Attend, AttendBackward, Role};

use crate::child;
use crate::cores::{Cores, check_counts};
use crate::double::{self, Memory, Runs};
use testkit::attend::assert_near;
use testkit::random::Rng;
use testkit::run_step;
use testkit::steps::{Owned, Row};

/// A call whose matrices lie one row after the other, heads of a row side by side or not.
struct Call {
    extents: [i64; 4],
    heads: [i64; 2],
    widths: [i64; 2],
    scalar: &'static str,
    /// Whether heads are inside of rows.
    inside: bool,
    /// Elements between rows.
    gap: i64,
    rest: &'static str,
}

impl Call {
    fn strides(&self, heads: i64, rows: i64, width: i64) -> String {
        let (own, row) =
            (width + self.gap, if self.inside { heads * (width + self.gap) } else { width + self.gap });
        let head = if self.inside { own } else { rows * own };
        format!("({},{head},{row},1)", heads * rows * own)
    }

    fn line(&self) -> String {
        format!("call attend {}", self.text())
    }

    /// The line of its gradients.
    fn backward(&self) -> String {
        let ([_, heads, rows, keys], [of_k, of_v], [width, columns]) =
            (self.extents, self.heads, self.widths);
        let (dq, dk) = (self.strides(heads, rows, width), self.strides(of_k, keys, width));
        let (dv, own) = (self.strides(of_v, keys, columns), self.strides(heads, rows, columns));
        format!("call attend backward {} dq={dq} dk={dk} dv={dv} do={own}", self.text())
    }

    fn text(&self) -> String {
        let ([batch, heads, rows, keys], [of_k, of_v], [width, columns]) =
            (self.extents, self.heads, self.widths);
        let (o, q) = (self.strides(heads, rows, columns), self.strides(heads, rows, width));
        let (k, v) = (self.strides(of_k, keys, width), self.strides(of_v, keys, columns));
        format!(
            "{} {batch}x{heads}x{rows}x{keys} widths={width},{columns} heads={of_k},{of_v} o={o} q={q} k={k} v={v}{}",
            self.scalar, self.rest
        )
    }
}

/// What there may be besides matrices: statistics, the factor, lengths and bands on either side,
/// from the upper left corner and from the lower right one.
fn rest([batch, heads, rows, _]: [i64; 4], number: usize) -> String {
    let stats = format!(" stats=({},{rows},1)", heads * rows);
    let step = i64::from(batch > 1);
    let lengths = format!(" queries=s32*{step} keys=s32*{step}");
    match number {
        0 => String::new(),
        1 => format!("{stats} scale=f32 fill=f32 right=none"),
        2 => format!("{stats} log2 scale=f32{lengths} padded"),
        3 => format!("{stats} scale=f16 fill=f32 right=s32 left=s32 strict"),
        4 => format!("{stats} fill=f32{lengths} padded right=none moves"),
        5 => format!("{stats} scale=f32 fill=f32{lengths} right=s64 strict moves left=f32 moves"),
        _ => format!("{stats} scale=f32 fill=f64 left=none"),
    }
}

/// What a step leaves of operands with these contents.
fn left(cores: &Cores, row: &Row, held: &[Memory]) -> Vec<Vec<u8>> {
    let places = held.iter().zip(&row.operands).map(|(memory, operand)| match operand.is_touched() {
        true => Address::from(memory.pointer().wrapping_byte_offset(run_step::first(operand))),
        false => Address::NULL,
    });
    let places: Vec<Address> = places.collect();
    // SAFETY: every operand has its span, between guards.
    unsafe { cores.cuda.run(row, &places) }.unwrap_or_else(|error| panic!("{row}: {error}"));
    held.iter().map(Memory::read).collect()
}

fn bytes_of(memory: &run_step::Memory, operand: usize) -> Vec<u8> {
    memory.words(operand).iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The call on both cores, twice on this one, and the last batch by itself.
fn solve(cores: &mut Cores, line: &str, rng: &mut Rng) {
    let row = Row::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let before = run_step::contents(&row, rng);
    let held = || (0..row.operands.len()).map(|k| Memory::new(&bytes_of(&before, k))).collect::<Vec<_>>();
    let got = left(cores, &row, &held());
    let mut wanted = before.clone();
    let at = wanted.places(&row);
    // SAFETY: as above.
    unsafe { reference::run(row.step.step(), &at) }.unwrap_or_else(|error| panic!("{row}: {error}"));
    let wanted: Vec<Vec<u8>> = (0..row.operands.len()).map(|k| bytes_of(&wanted, k)).collect();
    assert_near(&row, &got, &wanted);
    assert!(left(cores, &row, &held()) == got, "{line}: other bits the second time");
    alone(cores, &row, &held(), &got);
    cores.solved += 1;
}

/// From batch to batch of the operands of an attention, in elements.
fn batch_strides(step: &Attend) -> [i64; Attend::OPERANDS] {
    let of_lengths = step.lengths.map(|length| length.map_or(0, |(_, stride)| stride));
    let [o, q, k, v] = step.strides.map(|strides| strides[0]);
    let stats = step.stats.map_or(0, |strides| strides[0]);
    let known = [o, stats, q, k, v, 0, 0, of_lengths[0], of_lengths[1]];
    std::array::from_fn(|operand| known.get(operand).copied().unwrap_or(0))
}

/// The last batch alone leaves the bits that it leaves among others.
fn alone(cores: &Cores, row: &Row, held: &[Memory], got: &[Vec<u8>]) {
    let mut one = row.step.clone();
    let (last, strides) = match &mut one {
        Owned::Attend(step) => {
            let strides = batch_strides(step).to_vec();
            (std::mem::replace(&mut step.extents[0], 1) - 1, strides)
        }
        Owned::AttendBackward(AttendBackward { forward, strides, .. }) => {
            let of_gradients = strides.map(|strides| strides[0]);
            let strides = of_gradients.into_iter().chain(batch_strides(forward)).chain([0; 2]).collect();
            (std::mem::replace(&mut forward.extents[0], 1) - 1, strides)
        }
        _ => panic!("{row}"),
    };
    let own = Row::new(&row.name, one).expect("a part of the step");
    let places = held.iter().zip(&row.operands).zip(&strides).map(|((memory, operand), stride)| {
        let moved = last * stride * operand.scalar.size() as i64;
        match operand.is_touched() {
            true => Address::from(
                memory.pointer().wrapping_byte_offset(run_step::first(operand) + moved as isize),
            ),
            false => Address::NULL,
        }
    });
    let places: Vec<Address> = places.collect();
    // SAFETY: the operands of a batch lie in those of all.
    unsafe { cores.cuda.run(&own, &places) }.unwrap_or_else(|error| panic!("{own}: {error}"));
    for (k, operand) in own.operands.iter().enumerate().filter(|(_, operand)| operand.role == Role::Write) {
        if !operand.is_touched() {
            continue;
        }
        let begin =
            run_step::first(&row.operands[k]) + (last * strides[k]) as isize * operand.scalar.size() as isize;
        let part = |bytes: &[u8]| {
            let [low, high] = [operand.span.0, operand.span.1].map(|end| (begin + end as isize) as usize);
            bytes[low..high].to_vec()
        };
        assert!(part(&held[k].read()) == part(&got[k]), "{row}: operand {k} of a batch alone has other bits");
    }
}

/// Extents, heads of keys and values, columns, and whether heads are inside of rows.
type Shape = ([i64; 4], [i64; 2], [i64; 2], bool);

/// Rows and keys around the ends of blocks, columns of every kernel, heads that share keys.
const SHAPES: [Shape; 6] = [
    ([2, 2, 70, 130], [2, 2], [16, 16], false),
    ([1, 4, 64, 64], [2, 1], [64, 64], true),
    ([2, 2, 33, 200], [1, 2], [128, 128], true),
    ([1, 2, 130, 65], [2, 2], [80, 40], false),
    ([2, 1, 1, 100], [1, 1], [72, 96], false),
    ([1, 2, 129, 7], [1, 1], [24, 128], true),
];

/// These in every type with what there may be besides, and rows that are no vectors: on a double
/// those of which `is_sampled` holds, by the numbers of the three.
fn all(is_sampled: impl Fn(usize, usize, usize) -> bool, mut solve: impl FnMut(&Call)) {
    for (at, (extents, heads, widths, inside)) in SHAPES.into_iter().enumerate() {
        for (of, scalar) in ["f16", "bf16", "f32"].into_iter().enumerate() {
            for number in 0..7 {
                if !double::does_all() && !is_sampled(at, of, number) {
                    continue;
                }
                for gap in [0, 3] {
                    if gap > 0 && (number + of) % 3 != 0 {
                        continue;
                    }
                    let rest = rest(extents, number).leak();
                    solve(&Call { extents, heads, widths, scalar, inside, gap, rest });
                }
            }
        }
    }
}

/// Counts the problems of kernels whose names begin so.
fn check(cores: &Cores, of: impl Fn(&str) -> bool) {
    let kernels = module::kernels().iter().map(|kernel| kernel.name);
    check_counts(kernels.filter(|name| name.starts_with("attend") && of(name)));
    println!("{} problems", cores.solved);
}

fn problems(runs: Runs) {
    let mut cores = Cores::new();
    let mut rng = Rng(71);
    // PTX takes longer.
    let apart = if runs == Runs::Ptx { 6 } else { 4 };
    let is_sampled = |at, of, number| (at + of + number) % apart == 0;
    all(is_sampled, |call| solve(&mut cores, &call.line(), &mut rng));
    // Keys whose columns lie apart, and results, too.
    for scalar in ["f16", "bf16", "f32"] {
        let line = format!(
            "call attend {scalar} 1x2x70x90 widths=32,24 heads=1,2 o=(3360,1680,1,70) q=(4480,2240,32,1) k=(2880,2880,1,90) \
             v=(4320,2160,24,1) stats=(140,1,2) scale=f32 fill=f32 right=none"
        );
        solve(&mut cores, &line, &mut rng);
    }
    check(&cores, |name| !name.starts_with("attend_gradient"));
}

fn gradients(runs: Runs) {
    let mut cores = Cores::new();
    let mut rng = Rng(73);
    // PTX takes longer; the shapes that Tensor Cores take are the first two.
    let is_sampled = |at, of, number| match runs {
        Runs::Source => (at + of + number) % 4 == 0,
        Runs::Ptx => at + of + number == 6 && (at + of) % 2 == 0,
    };
    all(is_sampled, |call| {
        if call.rest.contains("stats=") {
            solve(&mut cores, &call.backward(), &mut rng);
        }
    });
    // Keys whose columns lie apart, and gradients, too; a matrix that all heads share.
    for scalar in ["f16", "bf16", "f32"] {
        let line = format!(
            "call attend backward {scalar} 1x2x70x90 widths=32,24 heads=1,2 o=(3360,1680,1,70) q=(4480,2240,32,1) \
             k=(2880,2880,1,90) v=(4320,2160,24,1) stats=(140,1,2) scale=f32 fill=f32 right=none dq=(4480,32,64,1) \
             dk=(2880,2880,1,90) dv=(4320,1,48,2) do=(0,0,0,1)"
        );
        solve(&mut cores, &line, &mut rng);
    }
    check(&cores, |name| name.starts_with("attend_gradient"));
}

#[test]
fn attention_in_one_step_is_near_its_definition() {
    child::run(&double::of(Runs::Source), &[("DRIVER_DOUBLE_ORDER", "reverse")], || problems(Runs::Source));
}

#[test]
fn attention_in_one_step_is_near_its_definition_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || problems(Runs::Ptx));
}

#[test]
fn gradients_in_one_step_are_near_their_definition() {
    child::run(&double::of(Runs::Source), &[("DRIVER_DOUBLE_ORDER", "reverse")], || gradients(Runs::Source));
}

#[test]
fn gradients_in_one_step_are_near_their_definition_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || gradients(Runs::Ptx));
}
