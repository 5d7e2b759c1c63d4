//! Attention in one step on the CUDA core: near the definition in binary64, the same bits each
//! time, and those of each batch alone; on the kernels' sources and on their PTX.

use cudnn::backend::cuda::module;
use cudnn::exec::Address;
use cudnn::ops::{Attend, Role};

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
        let ([batch, heads, rows, keys], [of_k, of_v], [width, columns]) =
            (self.extents, self.heads, self.widths);
        let (o, q) = (self.strides(heads, rows, columns), self.strides(heads, rows, width));
        let (k, v) = (self.strides(of_k, keys, width), self.strides(of_v, keys, columns));
        format!(
            "call attend {} {batch}x{heads}x{rows}x{keys} widths={width},{columns} heads={of_k},{of_v} o={o} q={q} k={k} v={v}{}",
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
    let Owned::Attend(step) = &row.step else { panic!("{line}") };
    let before = run_step::contents(&row, rng);
    let held = || (0..row.operands.len()).map(|k| Memory::new(&bytes_of(&before, k))).collect::<Vec<_>>();
    let got = left(cores, &row, &held());
    let mut wanted = before.clone();
    let at = wanted.places(&row);
    // SAFETY: as above.
    unsafe { cores.cpu.run(&row, &at) }.unwrap_or_else(|error| panic!("{row}: {error}"));
    let wanted: Vec<Vec<u8>> = (0..row.operands.len()).map(|k| bytes_of(&wanted, k)).collect();
    assert_near(&row, step, &got, &wanted);
    assert!(left(cores, &row, &held()) == got, "{line}: other bits the second time");
    alone(cores, &row, step, &held(), &got);
    cores.solved += 1;
}

/// The last batch alone leaves the bits that it leaves among others.
fn alone(cores: &Cores, row: &Row, step: &Attend, held: &[Memory], got: &[Vec<u8>]) {
    let last = step.extents[0] - 1;
    let mut one = *step;
    one.extents[0] = 1;
    let own = Row::new(&row.name, Owned::Attend(one)).expect("a part of the step");
    let strides = [
        step.strides[0][0],
        step.stats.map_or(0, |strides| strides[0]),
        step.strides[1][0],
        step.strides[2][0],
        step.strides[3][0],
        0,
        0,
        step.lengths[0].map_or(0, |(_, stride)| stride),
        step.lengths[1].map_or(0, |(_, stride)| stride),
        0,
        0,
    ];
    let places = held.iter().zip(&row.operands).zip(strides).map(|((memory, operand), stride)| {
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

/// Rows and keys around the ends of blocks, columns of every kernel, heads that share keys, and
/// rows that are no vectors.
fn problems(runs: Runs) {
    let mut cores = Cores::new();
    let mut rng = Rng(71);
    let shapes = [
        ([2, 2, 70, 130], [2, 2], [16, 16], false),
        ([1, 4, 64, 64], [2, 1], [64, 64], true),
        ([2, 2, 33, 200], [1, 2], [128, 128], true),
        ([1, 2, 130, 65], [2, 2], [80, 40], false),
        ([2, 1, 1, 100], [1, 1], [72, 96], false),
        ([1, 2, 129, 7], [1, 1], [24, 128], true),
    ];
    for (at, (extents, heads, widths, inside)) in shapes.into_iter().enumerate() {
        for (of, scalar) in ["f16", "bf16", "f32"].into_iter().enumerate() {
            for number in 0..7 {
                // On PTX, which takes longer, each once.
                if runs == Runs::Ptx && (at + of + number) % 4 != 0 {
                    continue;
                }
                for gap in [0, 3] {
                    if gap > 0 && (number + of) % 3 != 0 {
                        continue;
                    }
                    let rest = rest(extents, number).leak();
                    let call = Call { extents, heads, widths, scalar, inside, gap, rest };
                    solve(&mut cores, &call.line(), &mut rng);
                }
            }
        }
    }
    // Keys whose columns lie apart, and results, too.
    for scalar in ["f16", "bf16", "f32"] {
        let line = format!(
            "call attend {scalar} 1x2x70x90 widths=32,24 heads=1,2 o=(3360,1680,1,70) q=(4480,2240,32,1) k=(2880,2880,1,90) \
             v=(4320,2160,24,1) stats=(140,1,2) scale=f32 fill=f32 right=none"
        );
        solve(&mut cores, &line, &mut rng);
    }
    let kernels = module::kernels().iter().filter(|kernel| kernel.family().starts_with("attend"));
    check_counts(kernels.map(|kernel| kernel.name));
    println!("{} problems", cores.solved);
}

#[test]
fn attention_in_one_step_is_near_its_definition() {
    child::run(&double::of(Runs::Source), &[("DRIVER_DOUBLE_ORDER", "reverse")], || problems(Runs::Source));
}

#[test]
fn attention_in_one_step_is_near_its_definition_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], || problems(Runs::Ptx));
}
