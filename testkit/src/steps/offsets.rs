//! Steps that take offsets and indices from memory, or words from the host: their lines, their
//! operands, what these have to hold, and shorter ones.

use cudnn::dtype::{DataType, Scalar};
use cudnn::ops::aggregate::{Aggregate, AggregateFunction, Join};
use cudnn::ops::gnn::{AggregatePlan, Call};
use cudnn::ops::ragged::{Ragged, RaggedFunction};
use cudnn::ops::{Operand, Plan, Role, Words};

use super::operands::{operand, read, span};
use super::parse::Result;
use super::text::Text;
use super::vary::{self, Shorten, shortened};
use crate::random::Rng;

const JOINS: [Join; 4] = [Join::Sum, Join::Mean, Join::Max, Join::Min];

impl Text<'_> {
    /// ` Forward Max f32 by s32 90 to 70 by 400 edges, columns 16+4+3 mapped`
    pub fn aggregate(&mut self) -> Result<Aggregate> {
        self.expect(" ")?;
        let functions = [AggregateFunction::Forward, AggregateFunction::Backward];
        let function = self.one_of(&functions, |f| format!("{f:?} "), "a function of aggregation")?;
        let join = self.one_of(&JOINS, |join| format!("{join:?} "), "a way to join")?;
        let scalar = self.scalar()?;
        let index = self.index()?;
        self.expect(" ")?;
        let sources = self.extent()?;
        self.expect(" to ")?;
        let targets = self.extent()?;
        self.expect(" by ")?;
        let edges = self.extent()?;
        self.expect(" edges, columns ")?;
        let node = self.number("columns of sources")?;
        self.expect("+")?;
        let edge = self.number("columns of edges")?;
        self.expect("+")?;
        let columns = [node, edge, self.number("columns beside them")?];
        let mapped = self.eat(" mapped");
        Ok(Aggregate { function, join, sources, targets, edges, columns, scalar, index, mapped })
    }

    /// ` Load f32 by s32 * 8, 5 batches by 640 of dst/src: 40*(16,8) 8*(1,1) +0,+0`
    pub fn ragged(&mut self) -> Result<Ragged> {
        self.expect(" ")?;
        let functions = [RaggedFunction::Load, RaggedFunction::Store];
        let function = self.one_of(&functions, |f| format!("{f:?} "), "a function of ragged batches")?;
        let scalar = self.scalar()?;
        let index = self.index()?;
        self.expect(" * ")?;
        let multiplier = self.extent()?;
        self.expect(", ")?;
        let batches = self.extent()?;
        self.expect(" batches by ")?;
        let stride = self.extent()?;
        self.expect(" of ")?;
        let nest = self.nest()?;
        if nest.axes().iter().any(|axis| axis.strides.iter().any(|&stride| stride < 0)) {
            return Err("strides of batches are not negative".to_owned());
        }
        Ok(Ragged { function, nest, batches, stride, multiplier, scalar, index })
    }

    /// ` 300`: as many words, which a line does not say.
    pub fn words(&mut self) -> Result<Words> {
        self.expect(" ")?;
        Ok(words(self.extent()?))
    }

    /// ` by s32`
    fn index(&mut self) -> Result<Scalar> {
        self.expect(" by ")?;
        match self.scalar()? {
            index @ (Scalar::I32 | Scalar::I64) => Ok(index),
            _ => Err("offsets and indices are s32 or s64".to_owned()),
        }
    }
}

/// As many words, each another one.
fn words(count: i64) -> Words {
    Words((0..count as u32).map(|word| word.wrapping_mul(0x9e37_79b1)).collect())
}

/// The operands of an aggregation, which are those of the call.
pub fn of_aggregate(step: &Aggregate) -> Result<Vec<Operand>> {
    let narrow = |columns: i64| i32::try_from(columns).map_err(|error| format!("{columns}: {error}"));
    let index = if step.index == Scalar::I32 { DataType::Int32 } else { DataType::Int64 };
    let float = match step.scalar {
        Scalar::F32 => DataType::Float,
        Scalar::F16 => DataType::Half,
        _ => DataType::Bfloat16,
    };
    let [node, edge, beside] = step.columns;
    let call = Call {
        graph: [step.sources, step.targets, step.edges],
        columns: [narrow(node)?, narrow(edge)?, narrow(beside)?],
        types: [Some(float), Some(index)],
        join: step.join as i32,
        mapped: step.mapped,
    };
    let plan = match step.function {
        AggregateFunction::Forward => AggregatePlan::forward(&call),
        AggregateFunction::Backward => AggregatePlan::backward(&call),
    };
    Ok(plan.map_err(|error| error.to_string())?.operands().to_vec())
}

/// Units of offsets in which all batches have room to be full.
fn units(step: &Ragged) -> i64 {
    let reach = step.nest.span(1).map_or(0, |(_, last)| last + 1);
    step.batches * ((reach + step.multiplier - 1) / step.multiplier)
}

/// The operands of ragged batches, in the order of the step.
pub fn of_ragged(step: &Ragged) -> Result<Vec<Operand>> {
    let (first, last) = span(&step.nest, 0)?;
    let dense = (first, last + (step.batches - 1) * step.stride);
    let lists = (0, units(step) * step.multiplier - 1);
    let offsets = Operand { name: "offsets", ..read((0, step.batches), step.index) };
    Ok(match step.function {
        RaggedFunction::Load => {
            vec![operand(Role::Write, dense, step.scalar), read(lists, step.scalar), offsets]
        }
        RaggedFunction::Store => {
            vec![operand(Role::Update, lists, step.scalar), read(dense, step.scalar), offsets]
        }
    })
}

/// The operand of words.
pub fn of_words(step: &Words) -> Vec<Operand> {
    vec![operand(Role::Write, (0, step.0.len() as i64 - 1), Scalar::I32)]
}

/// Numbers from 0 to `end` that do not decrease, `count` and one more; the last is `end` in half of
/// the cases.
fn ascending(count: i64, end: i64, rng: &mut Rng) -> Vec<i64> {
    let mut all: Vec<i64> = (0..=count).map(|_| rng.below(end as usize + 1) as i64).collect();
    all.sort_unstable();
    if rng.below(2) == 0 {
        all[count as usize] = end;
    }
    all
}

/// Where the edges of each target begin: every edge belongs to one.
fn edges_of_targets(step: &Aggregate, seed: u64) -> Vec<i64> {
    let mut offsets = ascending(step.targets, step.edges, &mut Rng(seed));
    (offsets[0], offsets[step.targets as usize]) = (0, step.edges);
    offsets
}

/// What an operand that holds offsets or indices of an aggregation has to hold, if it is one. All
/// operands of a step have the same seed.
pub fn of_graph(step: &Aggregate, name: &str, seed: u64) -> Option<Vec<i64>> {
    let rng = &mut Rng(seed ^ 1);
    match name {
        "cscOffsets" => Some(edges_of_targets(step, seed)),
        "cscIndices" => Some((0..step.edges).map(|_| rng.below(step.sources as usize) as i64).collect()),
        // No two edges share a row.
        "mapCscToCoo" => Some(rng.order(step.edges as usize).into_iter().map(|row| row as i64).collect()),
        // Of each target one of its edges.
        "outPositions" if step.function == AggregateFunction::Backward => {
            let mut chosen = Vec::new();
            for edges in edges_of_targets(step, seed).windows(2) {
                chosen.extend((0..step.joined()).map(|_| match edges[1] - edges[0] {
                    0 => -1,
                    some => edges[0] + rng.below(some as usize) as i64,
                }));
            }
            Some(chosen)
        }
        _ => None,
    }
}

/// What the operand of offsets has to hold.
pub fn of_batches(step: &Ragged, name: &str, seed: u64) -> Option<Vec<i64>> {
    (name == "offsets").then(|| ascending(step.batches, units(step), &mut Rng(seed)))
}

/// The aggregation with other extents.
pub fn shorter_aggregate(step: &Aggregate, f: Shorten<'_>) -> Aggregate {
    let mut short = *step;
    for extent in [&mut short.sources, &mut short.targets, &mut short.edges] {
        *extent = shortened(*extent, f);
    }
    short.columns = step.columns.map(|columns| if columns > 0 { shortened(columns, f) } else { 0 });
    short
}

/// The ragged batches with other extents; batches of the dense tensor stay as far apart.
pub fn shorter_ragged(step: &Ragged, f: Shorten<'_>) -> Ragged {
    Ragged { nest: vary::nest(&step.nest, f), batches: shortened(step.batches, f), ..*step }
}

/// Fewer words.
pub fn fewer_words(step: &Words, f: Shorten<'_>) -> Words {
    words(shortened(step.0.len() as i64, f))
}
