//! Random graphs with features, for both cores.

use cudnn::dtype::{DataType, Scalar};
use cudnn::ops::gnn::{AggregatePlan, Call};
use cudnn::ops::{Operand, Plan, Role};

use crate::random::Rng;

/// Types of features.
pub const TYPES: [DataType; 3] = [DataType::Float, DataType::Half, DataType::Bfloat16];

/// A graph: the edges of target v are `offsets[v]` to `offsets[v + 1]`.
#[derive(Clone)]
pub struct Graph {
    pub sources: usize,
    pub offsets: Vec<i64>,
    pub indices: Vec<i64>,
    /// Rows of the edges, in any order, if there is a map.
    pub map: Option<Vec<i64>>,
}

impl Graph {
    /// Targets of no edges, of few and of many; several edges between two vertices.
    pub fn random(rng: &mut Rng, sources: usize, targets: usize, most: usize) -> Self {
        let mut offsets = vec![0];
        for _ in 0..targets {
            let degree = if rng.below(4) == 0 { 0 } else { rng.below(most + 1) };
            offsets.push(offsets[offsets.len() - 1] + degree as i64);
        }
        let edges = offsets[targets] as usize;
        let indices = (0..edges).map(|_| rng.below(sources) as i64).collect();
        let map = (rng.below(2) == 0).then(|| rng.order(edges).into_iter().map(|row| row as i64).collect());
        Graph { sources, offsets, indices, map }
    }

    pub fn targets(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn edges(&self) -> usize {
        self.indices.len()
    }

    pub fn row(&self, edge: usize) -> usize {
        self.map.as_ref().map_or(edge, |map| map[edge] as usize)
    }

    pub fn of_target(&self, target: usize) -> std::ops::Range<usize> {
        self.offsets[target] as usize..self.offsets[target + 1] as usize
    }

    /// A call on it, joined in this way, with indices of this type.
    pub fn call(&self, columns: [i32; 3], types: [DataType; 2], join: i32) -> Call {
        let graph = [self.sources, self.targets(), self.edges()].map(|n| n as i64);
        Call { graph, columns, types: types.map(Some), join, mapped: self.map.is_some() }
    }

    /// Contents of an operand: the graph, NaNs where something is only written, else numbers from
    /// -2 to 2, among them equals.
    pub fn contents(&self, operand: &Operand, rng: &mut Rng) -> Vec<u8> {
        let index = |list: &[i64]| -> Vec<u8> {
            let bytes = |&number: &i64| match operand.scalar {
                Scalar::I32 => (number as i32).to_le_bytes().to_vec(),
                _ => number.to_le_bytes().to_vec(),
            };
            list.iter().flat_map(bytes).collect()
        };
        let size = operand.span.1 as usize;
        match operand.name {
            "cscOffsets" => index(&self.offsets),
            "cscIndices" => index(&self.indices),
            "mapCscToCoo" => self.map.as_deref().map_or(Vec::new(), index),
            _ if operand.role == Role::Write => vec![0xff; size],
            _ => {
                let number = |rng: &mut Rng| (rng.below(33) as f32 - 16.0) / 8.0;
                let cells = size / operand.scalar.size();
                (0..cells).flat_map(|_| bytes_of(operand.scalar, number(rng))).collect()
            }
        }
    }

    /// Contents of all operands of a plan.
    pub fn all_contents(&self, plan: &AggregatePlan, rng: &mut Rng) -> Vec<Vec<u8>> {
        plan.operands().iter().map(|operand| self.contents(operand, rng)).collect()
    }
}

fn bytes_of(scalar: Scalar, number: f32) -> Vec<u8> {
    match scalar {
        Scalar::F32 => number.to_le_bytes().to_vec(),
        Scalar::F16 => half::f16::from_f32(number).to_le_bytes().to_vec(),
        Scalar::Bf16 => half::bf16::from_f32(number).to_le_bytes().to_vec(),
        Scalar::I32 => (number as i32).to_le_bytes().to_vec(),
        _ => (number as i64).to_le_bytes().to_vec(),
    }
}

/// Both plans of a call.
pub fn plans(call: &Call) -> [AggregatePlan; 2] {
    [AggregatePlan::forward(call), AggregatePlan::backward(call)].map(|plan| plan.expect("a plan"))
}

/// The numbers in bytes of this type.
pub fn numbers(scalar: Scalar, bytes: &[u8]) -> Vec<f64> {
    let cells = bytes.chunks_exact(scalar.size());
    cells
        .map(|cell| match scalar {
            Scalar::F32 => f32::from_le_bytes(cell.try_into().expect("4 bytes")).into(),
            Scalar::F16 => half::f16::from_le_bytes(cell.try_into().expect("2 bytes")).to_f64(),
            Scalar::Bf16 => half::bf16::from_le_bytes(cell.try_into().expect("2 bytes")).to_f64(),
            Scalar::I32 => i32::from_le_bytes(cell.try_into().expect("4 bytes")).into(),
            _ => i64::from_le_bytes(cell.try_into().expect("8 bytes")) as f64,
        })
        .collect()
}
