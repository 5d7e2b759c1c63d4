//! Graph aggregation: from the sizes of a graph to the step of a call.

use std::fmt;

use super::aggregate::{Aggregate, AggregateFunction, Join};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use crate::dtype::{DataType, Scalar};
use crate::error::{Error, Result};

/// A call's arguments but its pointers.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Numbers of sources, of targets and of edges.
    pub graph: [i64; 3],
    /// Columns of node, edge and concatenated features.
    pub columns: [i32; 3],
    /// Type of features, and of indices, none for a number that names no type.
    pub types: [Option<DataType>; 2],
    /// How rows are joined, as a number.
    pub join: i32,
    /// Whether there is a map from edges to their rows.
    pub mapped: bool,
}

/// An aggregation, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct AggregatePlan {
    step: Aggregate,
    operands: [Operand; 8],
}

impl AggregatePlan {
    /// Plans `cudnnGnnAggSimpleForward`. Operands: output, outPositions, nodeFeatures,
    /// edgeFeatures, concatFeatures, cscOffsets, cscIndices, mapCscToCoo.
    ///
    /// # Errors
    /// In this order. Bad parameter: negative sizes; neither node nor edge features; indices that
    /// are not INT32 or INT64; an unknown way to join; more elements than bytes can be counted. Not
    /// supported: features that are not FLOAT, HALF or BFLOAT16.
    pub fn forward(call: &Call) -> Result<Self> {
        let step = checked(call, AggregateFunction::Forward)?;
        let [node, edge, concat] = step.columns;
        let float = |name, role, rows: i64, columns: i64| operand(name, role, step.scalar, rows * columns);
        let positions = if step.join.is_choice() { step.targets * step.joined() } else { 0 };
        let [offsets, indices, map] = graph(&step);
        let operands = [
            float("output", Role::Write, step.targets, step.width()),
            operand("outPositions", Role::Write, step.index, positions),
            float("nodeFeatures", Role::Read, step.sources, node),
            float("edgeFeatures", Role::Read, step.edges, edge),
            float("concatFeatures", Role::Read, step.targets, concat),
            offsets,
            indices,
            map,
        ];
        Ok(AggregatePlan { step, operands })
    }

    /// Plans `cudnnGnnAggSimpleBackward`. Operands: gradNodeFeatures, gradEdgeFeatures,
    /// gradConcatFeatures, gradOutput, outPositions, cscOffsets, cscIndices, mapCscToCoo.
    ///
    /// # Errors
    /// As for [`AggregatePlan::forward`].
    pub fn backward(call: &Call) -> Result<Self> {
        let step = checked(call, AggregateFunction::Backward)?;
        let [node, edge, concat] = step.columns;
        let float = |name, role, rows: i64, columns: i64| operand(name, role, step.scalar, rows * columns);
        let positions = if step.join.is_choice() { step.targets * step.joined() } else { 0 };
        let [offsets, indices, map] = graph(&step);
        let operands = [
            float("gradNodeFeatures", Role::Update, step.sources, node),
            float("gradEdgeFeatures", Role::Update, step.edges, edge),
            float("gradConcatFeatures", Role::Write, step.targets, concat),
            float("gradOutput", Role::Read, step.targets, step.width()),
            operand("outPositions", Role::Read, step.index, positions),
            offsets,
            indices,
            map,
        ];
        Ok(AggregatePlan { step, operands })
    }
}

fn operand(name: &'static str, role: Role, scalar: Scalar, elements: i64) -> Operand {
    Operand { name, role, scalar, span: (0, elements * scalar.size() as i64) }
}

/// The operands that say which rows are joined.
fn graph(step: &Aggregate) -> [Operand; 3] {
    let index = |name, elements| operand(name, Role::Read, step.index, elements);
    let map = if step.mapped { step.edges } else { 0 };
    [index("cscOffsets", step.targets + 1), index("cscIndices", step.edges), index("mapCscToCoo", map)]
}

fn checked(call: &Call, function: AggregateFunction) -> Result<Aggregate> {
    for (name, value) in ["nSrcNodes", "nDstNodes", "nIndices"].into_iter().zip(call.graph) {
        if value < 0 {
            return Err(Error::argument(name, value, "must not be negative"));
        }
    }
    for (name, value) in ["nodeFeatDim", "edgeFeatDim", "concatFeatDim"].into_iter().zip(call.columns) {
        if value < 0 {
            return Err(Error::argument(name, value.into(), "must not be negative"));
        }
    }
    let columns = call.columns.map(i64::from);
    if columns[..2] == [0, 0] {
        return Err(Error::mismatch("nodeFeatDim and edgeFeatDim are both 0: there is nothing to join"));
    }
    let index = match call.types[1] {
        Some(DataType::Int32) => Scalar::I32,
        Some(DataType::Int64) => Scalar::I64,
        other => return Err(Error::mismatch(format!("idxType is {other:?}: INT32 and INT64 are indices"))),
    };
    let join = match call.join {
        0 => Join::Sum,
        1 => Join::Mean,
        2 => Join::Max,
        3 => Join::Min,
        other => {
            return Err(Error::argument("aggOp", other.into(), "0 sum, 1 mean, 2 maximum, 3 minimum"));
        }
    };
    let [sources, targets, edges] = call.graph;
    let width = columns.iter().sum::<i64>();
    let fits = [sources, targets + 1, edges]
        .iter()
        .all(|rows| rows.checked_mul(width + 1).and_then(|elements| elements.checked_mul(8)).is_some());
    if !fits {
        return Err(Error::mismatch("nodes or edges times features: more bytes than can be counted"));
    }
    let scalar = match call.types[0] {
        Some(DataType::Float) => Scalar::F32,
        Some(DataType::Half) => Scalar::F16,
        Some(DataType::Bfloat16) => Scalar::Bf16,
        other => {
            return Err(Error::unsupported(format!(
                "dataType is {other:?}: FLOAT, HALF and BFLOAT16 are joined"
            )));
        }
    };
    let mapped = call.mapped;
    Ok(Aggregate { function, join, sources, targets, edges, columns, scalar, index, mapped })
}

impl Plan for AggregatePlan {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        sink(Step::Aggregate(&self.step), &[0, 1, 2, 3, 4, 5, 6, 7])
    }

    fn is_one_step(&self) -> bool {
        true
    }
}

/// Its step, as the log shows it.
impl fmt::Display for AggregatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
