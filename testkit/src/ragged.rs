//! Random ragged batches, for both cores.

use std::fmt;

use cudnn::dtype::Scalar;
use cudnn::error::Result;
use cudnn::layout::{Axis, LoopNest};
use cudnn::ops::ragged::{Ragged, RaggedFunction};
use cudnn::ops::{Operand, Plan, Role, Step, StepSink};

use crate::random::Rng;

/// One step, with its operands and its offsets.
pub struct Problem {
    pub step: Ragged,
    pub offsets: Vec<i64>,
    operands: [Operand; 3],
}

impl Problem {
    /// Batches of no element, of a few, and of all; up to three loops, the inner ones in either
    /// order; gaps.
    pub fn random(rng: &mut Rng, function: RaggedFunction) -> Self {
        let batches = rng.below(5) as i64 + 1;
        let dims = [rng.below(6) as i64 + 1, rng.below(4) as i64 + 1, rng.pick(&[1, 3, 40])];
        let token = dims[1] * dims[2] + rng.below(3) as i64;
        let gap = rng.below(2) as i64;
        let dense = [dims[1] * dims[2] * (1 + gap), dims[2], 1];
        let order: [usize; 3] = rng.order(3).try_into().expect("three");
        let mut nest = LoopNest::new(&[], [rng.below(2) as i64, rng.below(2) as i64]);
        let lists = [token, dims[2], 1];
        order.iter().for_each(|&k| nest.push(Axis { extent: dims[k], strides: [dense[k], lists[k]] }));
        if rng.below(2) == 0 {
            nest.canonicalise();
        }
        let multiplier = rng.pick(&[1, token]);
        let mut offsets = vec![rng.below(3) as i64];
        for _ in 0..batches {
            let tokens = rng.below(dims[0] as usize + 2) as i64;
            offsets.push(offsets[offsets.len() - 1] + tokens * token / multiplier);
        }
        let scalar = rng.pick(&[Scalar::I8, Scalar::Bf16, Scalar::F32, Scalar::F64]);
        let index = rng.pick(&[Scalar::I32, Scalar::I64]);
        let stride = dims[0] * dense[0] + gap;
        Problem::new(Ragged { function, nest, batches, stride, multiplier, scalar, index }, offsets)
    }

    /// A step on memory that has all elements that the offsets say.
    pub fn new(step: Ragged, offsets: Vec<i64>) -> Self {
        let size = step.scalar.size() as i64;
        let inside = |low: Option<(i64, i64)>| low.map_or(0, |(_, high)| high + 1);
        let dense = inside(step.nest.span(0)) + (step.batches - 1) * step.stride;
        let lists = step.nest.offsets[1] + offsets.iter().max().map_or(0, |last| last * step.multiplier) + 1;
        let loads = step.function == RaggedFunction::Load;
        let elements = if loads { [dense, lists] } else { [lists, dense] };
        let operand = |name, role, scalar, bytes| Operand { name, role, scalar, span: (0, bytes) };
        let operands = [
            // What is not written of a destination stays, and is compared, too.
            operand("destination", Role::Update, step.scalar, elements[0] * size),
            operand("source", Role::Read, step.scalar, elements[1] * size),
            operand("offsets", Role::Read, step.index, step.index.size() as i64 * (step.batches + 1)),
        ];
        Problem { step, offsets, operands }
    }

    /// Any bytes, and the offsets.
    pub fn contents(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let bytes = |offset: &i64| match self.step.index {
            Scalar::I32 => (*offset as i32).to_le_bytes().to_vec(),
            _ => offset.to_le_bytes().to_vec(),
        };
        let data = self.operands[..2].iter().map(|operand| operand.span.1 as usize);
        let mut contents: Vec<Vec<u8>> =
            data.map(|size| (0..size).map(|_| rng.below(256) as u8).collect()).collect();
        contents.push(self.offsets.iter().flat_map(bytes).collect());
        contents
    }

    /// The destination as it has to be, by the formula.
    pub fn wanted(&self, contents: &[Vec<u8>]) -> Vec<u8> {
        let Ragged { function, nest, batches, stride, multiplier, scalar, .. } = &self.step;
        let (mut to, from, size) = (contents[0].clone(), &contents[1], scalar.size());
        for batch in 0..*batches {
            let [begin, end] = [0, 1].map(|next| self.offsets[(batch + next) as usize] * multiplier);
            nest.for_each(|[near, far]| {
                let [near, at] = [batch * stride + near, begin + far].map(|place| place as usize * size);
                let is_there = begin + far < end;
                match function {
                    RaggedFunction::Load if is_there => {
                        to[near..near + size].copy_from_slice(&from[at..at + size])
                    }
                    RaggedFunction::Load => to[near..near + size].fill(0),
                    RaggedFunction::Store if is_there => {
                        to[at..at + size].copy_from_slice(&from[near..near + size])
                    }
                    RaggedFunction::Store => {}
                }
            });
        }
        to
    }
}

impl Plan for Problem {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        sink(Step::Ragged(&self.step), &[0, 1, 2])
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:?}", self.step, self.offsets)
    }
}
