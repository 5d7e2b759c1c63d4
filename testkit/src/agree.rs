//! Compares what the CPU core makes of a row of the problem list with the reference, bit for bit.

use std::collections::BTreeMap;

use cudnn::backend::{Isa, Machine, Operands, kernels, reference, run_by};
use cudnn::ops::{Plan, Step};

use crate::problems::Row;
use crate::random::Rng;

/// How often each candidate ran.
pub type Counts = BTreeMap<&'static str, usize>;

/// Where the tensors lie, and who works on them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Scalars between the start of a cache line and that of the source and of the destination.
    pub offsets: [usize; 2],
    pub threads: usize,
}

/// As many bytes as a cache line has, and aligned so.
#[derive(Clone, Copy, PartialEq)]
#[repr(align(64))]
struct Line([u64; 8]);

/// A tensor in the midst of bytes that nobody should touch.
#[derive(Clone, PartialEq)]
struct Memory {
    lines: Vec<Line>,
    offset: usize,
}

impl Memory {
    /// Room for `bytes`, `offset` bytes behind the start of a line, filled with what no conversion
    /// treats as plain numbers only.
    fn new(bytes: usize, offset: usize, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let lines = 2 + (offset + bytes).div_ceil(size_of::<Line>());
        let lines = (0..lines).map(|_| Line(std::array::from_fn(|_| rng.word()))).collect();
        Memory { lines, offset }
    }

    fn ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast::<u8>().wrapping_add(size_of::<Line>() + self.offset)
    }
}

/// Runs every problem of the row with every candidate that takes it, at every instruction set
/// level. Panics where one of them differs from the reference, or touches what is not its own.
pub fn check(row: &Row, setting: Setting, counts: &mut Counts) {
    let tensors = row.tensors();
    let plan = tensors.plan();
    let [y_span, x_span] = [0, 1].map(|k| plan.operands()[k].span);
    let memory = |(low, high): (i64, i64), k: usize| {
        let scalar = [row.src.scalar, row.dst.scalar][k].size();
        Memory::new((high - low) as usize, setting.offsets[k] * scalar, 1 + k as u64)
    };
    let (mut x, before) = (memory(x_span, 0), memory(y_span, 1));
    let src = x.ptr().wrapping_offset(-x_span.0 as isize).cast_const();
    let at = |y: &mut Memory| Operands { dst: y.ptr().wrapping_offset(-y_span.0 as isize), src };
    let outcome = plan.for_each(&mut |problem| {
        let mut want = before.clone();
        // SAFETY: both buffers hold their spans.
        unsafe { reference::run(problem, &at(&mut want).addresses()) }?;
        for isa in Isa::available() {
            let machine = Machine { isa, threads: setting.threads };
            let mut agrees = |name: &'static str, got: &Memory| {
                assert!(got == &want, "{name} at {}: {} {setting:?}", isa.name(), row.title());
                // The kernels of zeros have names that those of transforms have, too.
                if !matches!(problem, Step::Scale(_)) {
                    *counts.entry(name).or_default() += 1;
                }
            };
            let names = kernels(problem, machine);
            assert!(!names.is_empty(), "no part of a transform: {problem}");
            for name in names {
                let mut got = before.clone();
                // SAFETY: as above.
                unsafe { run_by(name, problem, &at(&mut got).addresses(), machine) }?;
                agrees(name, &got);
            }
        }
        Ok(())
    });
    outcome.expect("every problem runs");
}
