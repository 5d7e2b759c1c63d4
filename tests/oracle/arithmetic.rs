//! The departures of AddTensor, OpTensor, ReduceTensor and SetTensor: more ranks, types, vectors,
//! broadcasts and aliases.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{OK, Promise, Tensor, VECT_C};

/// What the descriptors of a case's operations hold.
#[derive(Default)]
pub struct Arithmetic {
    /// Computation type.
    ops: HashMap<String, i64>,
    reductions: HashMap<String, Reduction>,
}

struct Reduction {
    op: i64,
    indexed: bool,
    index_type: i64,
}

/// MIN, MAX and AMAX.
const SELECTING: std::ops::RangeInclusive<i64> = 2..=4;

impl Arithmetic {
    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        let tensor = |index: usize| tensors.get(step.args.get(index)?).filter(|tensor| has_data(tensor));
        let complete = |ignored: &[usize]| {
            let given = |(index, token): (usize, &String)| token != "NULL" || ignored.contains(&index);
            step.args.iter().enumerate().all(given)
        };
        let done = |departure, fits: bool| fits.then_some(Promise { departure, status: OK });
        match step.function.as_str() {
            "AddTensor" if step.status() != OK => {
                let (a, c) = (tensor(2)?, tensor(5)?);
                done("add", complete(&[]) && a.data_type == c.data_type && broadcasts(a, c))
            }
            "OpTensor" if step.status() != OK => {
                let (computation, a, b, c) =
                    (*self.ops.get(&step.args[1])?, tensor(3)?, tensor(6)?, tensor(9)?);
                let types = a.data_type == b.data_type && op_types_fit(computation, a.data_type, c.data_type);
                done("op", complete(&[]) && types && broadcasts(a, c) && broadcasts(b, c))
            }
            "ReduceTensor" if step.status() != OK => {
                let (reduction, a, c) = (self.reductions.get(&step.args[1])?, tensor(7)?, tensor(10)?);
                let outputs: i64 = c.dims.iter().product();
                let width = [4, 8, 2, 1][reduction.index_type as usize];
                let indexed = reduction.indexed && SELECTING.contains(&reduction.op);
                let room = !indexed || step.int(3)? >= outputs * width;
                // A workspace may be missing, but not too small; the recorded ones are empty or
                // ample.
                let room = room && (step.args[4] == "NULL" || step.int(5)? > 0);
                let types = !WRONG_REDUCTIONS.contains(&(a.data_type, c.data_type));
                done("reduce", complete(&[2, 4]) && room && types && broadcasts(c, a))
            }
            "SetTensor" if step.status() != OK => done("set", complete(&[]) && tensor(1).is_some()),
            // 64-bit indices take 8 bytes each.
            "GetReductionIndicesSize" => {
                let reduction = self.reductions.get(&step.args[1])?;
                done("index-size", reduction.indexed && reduction.index_type == 1)
            }
            _ => None,
        }
    }

    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        match (step.function.as_str(), step.int(1), step.int(2)) {
            ("SetOpTensorDescriptor", _, Some(computation)) => {
                self.ops.insert(step.args[0].clone(), computation);
            }
            ("SetReduceTensorDescriptor", Some(op), _) => {
                let (indexed, index_type) = (step.int(4) == Some(1), step.int(5).unwrap_or(0));
                self.reductions.insert(step.args[0].clone(), Reduction { op, indexed, index_type });
            }
            _ => {}
        }
    }
}

/// Vectors of a type without vectors describe no data.
fn has_data(tensor: &Tensor) -> bool {
    tensor.format != Some(VECT_C) || [5, 7, 8].contains(&tensor.data_type)
}

/// Each dim is the other's, channels counted one by one, or 1; one element of several channels goes
/// with elements of as many.
fn broadcasts(small: &Tensor, large: &Tensor) -> bool {
    let (counted, wanted) = (small.scalar_dims(), large.scalar_dims());
    let one = |k: usize| small.dims[k] == 1 && (counted[k] == 1 || small.lanes() == large.lanes());
    small.rank == large.rank && (0..counted.len()).all(|k| counted[k] == wanted[k] || one(k))
}

/// Pairs of types (A, C) that ReduceTensor refuses as wrong.
const WRONG_REDUCTIONS: [(i64, i64); 8] = [(0, 1), (1, 0), (1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)];

/// Whether OpTensor does not refuse the types as wrong: `B` in the table of the rules.
fn op_types_fit(computation: i64, a: i64, c: i64) -> bool {
    let row = match (computation, a) {
        (0, 0) => "0B00NNNNN0",
        (0, 2) => "0B0BNNNNNN",
        (0, 3) => "0NB0NNNNNB",
        (0, 9) => "0NNBNNNNN0",
        (1, 1) => "B0BBNNNNNB",
        (0, _) | (_, 1) => "BNBBNNNNNB",
        (_, 0 | 2) => "NBNNNNNNNN",
        _ => "NNNNNNNNNN",
    };
    row.as_bytes().get(c as usize).is_none_or(|&answer| answer != b'B')
}
