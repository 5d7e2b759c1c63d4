//! Runs a step of the list: operands with guards around them, and the CPU core against the
//! reference, bit for bit; attention within a bound, with the same bits by any number of threads.

use std::collections::BTreeSet;

use cudnn::backend::{self, Address, Machine, reference};
use cudnn::dtype::Scalar;
use cudnn::ops::{AttendBackward, Operand, Plan, Role};

use crate::attend;
use crate::extent::levels;
use crate::random::Rng;
use crate::steps::{Owned, Row, attention, losses, offsets};

/// Words around every operand.
const MARGIN: usize = 8;

/// The operands of a step in host memory, each in the midst of bytes that nobody should touch.
#[derive(Clone, PartialEq)]
pub struct Memory(Vec<Vec<u64>>);

impl Memory {
    /// Where each operand's data pointer lies.
    pub fn places(&mut self, row: &Row) -> Vec<Address> {
        let both = self.0.iter_mut().zip(row.operands());
        both.map(|(words, operand)| match operand.is_touched() {
            false => Address::NULL,
            true => Address::from(words.as_mut_ptr().cast::<u8>().wrapping_offset(first(operand))),
        })
        .collect()
    }

    /// The words of an operand, its guards among them.
    pub fn words(&self, operand: usize) -> &[u64] {
        &self.0[operand]
    }

    /// The bytes of all operands, with their guards.
    fn bytes(&self) -> Vec<Vec<u8>> {
        let of = |words: &Vec<u64>| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.0.iter().map(of).collect()
    }
}

/// Where the memory of an operand begins, in bytes from its data pointer, which is inside.
fn low(operand: &Operand) -> i64 {
    operand.span.0.min(0)
}

/// Where the data pointer of an operand lies, in bytes from the first word. What the memory begins
/// with lies as far from a multiple of 8 bytes as the data pointer would have it.
pub fn first(operand: &Operand) -> isize {
    (8 * MARGIN) as isize + (low(operand).rem_euclid(8) - low(operand)) as isize
}

/// Contents for the operands of a row: small integers, which contractions sum without rounding, or
/// for the other kinds in half of the cases any bits.
pub fn contents(row: &Row, rng: &mut Rng) -> Memory {
    let exact = matches!(row.step, Owned::Contract(_) | Owned::Normalise(_) | Owned::NormaliseBackward(_));
    // Of a sum of two NaNs either may be the result.
    let of_sums = matches!(row.step, Owned::Causal(_) | Owned::Attend(_) | Owned::AttendBackward(_));
    let wild = !exact && !of_sums && rng.below(2) == 0;
    let positive = matches!(row.step, Owned::Normalise(_) | Owned::NormaliseBackward(_));
    let seed = rng.word();
    let fill = |(k, operand): (usize, &Operand)| {
        let bytes = (operand.span.1 - low(operand)) as usize + 8;
        // Variances and inverse deviations are positive; so may all parameters be.
        let least = if positive && operand.scalar == row_parameters(row) && k > 0 { 1 } else { -2 };
        let is_bits = ["mask", "states"].contains(&operand.name);
        // Coordinates of grids, most of which are inside a picture and between its pixels.
        let unit = match &row.step {
            _ if operand.name == "grid" => 0.375,
            // So that products are rounded, and their order shows.
            Owned::Causal(_) => 0.3,
            // So that weights differ.
            Owned::Attend(_) | Owned::AttendBackward(_) => 0.7,
            _ => 1.0,
        };
        // Labels and lengths that are some, or anything at all.
        let integers = match &row.step {
            Owned::Ctc(step) if rng.below(16) > 0 => losses::integers(step, operand.name),
            _ => None,
        };
        let word = |rng: &mut Rng| match (integers, operand.scalar) {
            (Some([least, most]), _) => {
                let mut one = || (least + rng.below((most - least + 1) as usize) as i64) as u32;
                u64::from(one()) << 32 | u64::from(one())
            }
            _ if wild || is_bits => rng.word(),
            (None, scalar) => word(scalar, least, unit, rng),
        };
        let mut words = vec![0x5a5a_5a5a_5a5a_5a5a; MARGIN];
        let numbers = match &row.step {
            Owned::Attend(step) => attention::numbers(step, operand.name, seed),
            Owned::AttendBackward(step) => attention::numbers(&step.forward, operand.name, seed),
            _ => None,
        };
        let listed = match &row.step {
            Owned::Aggregate(step) => offsets::of_graph(step, operand.name, seed),
            Owned::Ragged(step) => offsets::of_batches(step, operand.name, seed),
            _ => None,
        };
        match (listed, numbers) {
            (Some(listed), _) => words.extend(packed(&listed, operand.scalar)),
            (None, Some(numbers)) => words.extend(packed_numbers(&numbers, operand.scalar)),
            (None, None) => words.extend((0..bytes.div_ceil(8)).map(|_| word(rng))),
        }
        words.extend([0x5a5a_5a5a_5a5a_5a5a; MARGIN]);
        words
    };
    let mut memory = Memory(row.operands().iter().enumerate().map(fill).collect());
    if let Owned::AttendBackward(step) = &row.step {
        let at = memory.places(row);
        // Results and statistics are those of the attention, so that weights sum up to one.
        // SAFETY: every operand has its span.
        unsafe { reference::attend(&step.forward, &at[AttendBackward::FORWARD..]) };
    }
    memory
}

/// Integers in this type, eight bytes each time, and one more word behind them, as every operand
/// has it.
fn packed(integers: &[i64], scalar: Scalar) -> Vec<u64> {
    let bytes: Vec<u8> = match scalar {
        Scalar::I32 => integers.iter().flat_map(|&integer| (integer as i32).to_ne_bytes()).collect(),
        _ => integers.iter().flat_map(|integer| integer.to_ne_bytes()).collect(),
    };
    in_words(&bytes)
}

/// The same of numbers.
fn packed_numbers(numbers: &[f64], scalar: Scalar) -> Vec<u64> {
    let cell = |&number: &f64| match scalar {
        Scalar::F32 => (number as f32).to_ne_bytes().to_vec(),
        Scalar::F64 => number.to_ne_bytes().to_vec(),
        Scalar::F16 => half::f16::from_f64(number).to_ne_bytes().to_vec(),
        Scalar::Bf16 => half::bf16::from_f64(number).to_ne_bytes().to_vec(),
        Scalar::I32 => (number as i32).to_ne_bytes().to_vec(),
        _ => (number as i64).to_ne_bytes().to_vec(),
    };
    in_words(&numbers.iter().flat_map(cell).collect::<Vec<u8>>())
}

/// Bytes as words, and one more word.
fn in_words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(8).map(|some| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_ne_bytes(word)
    });
    words.chain([0]).collect()
}

/// The type of parameters and statistics.
fn row_parameters(row: &Row) -> Scalar {
    match &row.step {
        Owned::Normalise(step) => step.compute.scalar(),
        Owned::NormaliseBackward(step) => step.compute.scalar(),
        _ => Scalar::I64,
    }
}

/// Eight bytes of small integers from `least` to 2 in this type, of floating ones so many `unit`s.
fn word(scalar: Scalar, least: i64, unit: f64, rng: &mut Rng) -> u64 {
    let mut number = || least + rng.below((3 - least) as usize) as i64;
    let halves = |number: f32| match scalar {
        Scalar::F16 => half::f16::from_f32(number).to_bits(),
        _ => half::bf16::from_f32(number).to_bits(),
    };
    match scalar {
        Scalar::F64 => (number() as f64 * unit).to_bits(),
        Scalar::F32 => {
            (0..2).fold(0, |word, _| word << 32 | u64::from((number() as f32 * unit as f32).to_bits()))
        }
        Scalar::F16 | Scalar::Bf16 => {
            (0..4).fold(0, |word, _| word << 16 | u64::from(halves(number() as f32 * unit as f32)))
        }
        Scalar::I64 => number() as u64,
        Scalar::I32 => (0..2).fold(0, |word, _| word << 32 | u64::from(number() as u32)),
        Scalar::U8 => (0..8).fold(0, |word, _| word << 8 | number().unsigned_abs()),
        Scalar::I8 => (0..8).fold(0, |word, _| word << 8 | u64::from(number() as u8)),
        // The bits of small numbers in the formats of 8 bits, and of either truth value.
        _ => rng.word() & 0x0101_0101_0101_0101,
    }
}

/// Has the scratch that the row asks for; builds with debug assertions then see to it that running
/// it needs no more.
fn hold(row: &Row, at: &[Address], machine: Machine) -> backend::Hold {
    // SAFETY: every operand has its span.
    let asked = unsafe { backend::scratch(row.step.step(), at, machine) };
    let asked = asked.unwrap_or_else(|error| panic!("{row}: {error}"));
    backend::hold(asked).expect("there is memory")
}

/// Runs the row on every instruction set level with each of these numbers of threads, by the kernel
/// that is chosen for it and by every other one that accepts it. Panics where that differs from the
/// reference, or attention leaves other bits by other threads. The names of the kernels.
pub fn check(row: &Row, threads: &[usize], rng: &mut Rng) -> BTreeSet<&'static str> {
    let before = contents(row, rng);
    let mut want = before.clone();
    let at = want.places(row);
    // SAFETY: every operand has its span.
    unsafe { reference::run(row.step.step(), &at) }.unwrap_or_else(|error| panic!("{row}: {error}"));
    let mut names = BTreeSet::new();
    for isa in levels(row.step.step()) {
        let mut first: Option<Memory> = None;
        for &threads in threads {
            let machine = Machine { isa, threads };
            let kernels = backend::kernels(row.step.step(), machine);
            names.extend(kernels.iter().copied());
            for kernel in std::iter::once(None).chain(kernels.into_iter().skip(1).map(Some)) {
                let mut got = before.clone();
                let at = got.places(row);
                let held = kernel.is_none().then(|| hold(row, &at, machine));
                assert!(held.is_none() || got == before, "{row}: asking for scratch writes");
                // SAFETY: as above; nothing overlaps, and no destination repeats.
                let outcome = unsafe {
                    match kernel {
                        None => backend::run(row.step.step(), &at, false, machine),
                        Some(name) => backend::run_by(name, row.step.step(), &at, machine),
                    }
                };
                outcome.unwrap_or_else(|error| panic!("{row}: {error}"));
                drop(held);
                if attend::is_of_attention(&row.step) {
                    attend::assert_near(row, &got.bytes(), &want.bytes());
                    let first = first.get_or_insert_with(|| got.clone());
                    assert!(got == *first, "{row}: other bits by {threads} threads at {}", isa.name());
                    continue;
                }
                for (k, operand) in row.operands().iter().enumerate() {
                    if operand.role == Role::Scratch {
                        continue;
                    }
                    let (list, name) = (&row.name, operand.name);
                    let same = got.words(k) == want.words(k);
                    let by = kernel.unwrap_or("the first kernel");
                    assert!(same, "{list} by {by} on {machine:?}: operand {k} ({name}) differs\n{row}");
                }
            }
        }
    }
    names
}
