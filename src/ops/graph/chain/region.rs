//! Which operations of a graph belong to one chain.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::super::{Kind, Link, Operation, Strategy, Tensor, lower};
use super::local::{Shape, local};
use crate::layout::Dims;
use crate::ops::agree;
use crate::ops::plan::MAX_OPERANDS;

/// The most elements of dimensions that blocks have whole.
const MOST_OF_A_ROW: i64 = 1 << 17;

/// Operations that are a chain.
pub(super) struct Found {
    /// Their places, in ascending order.
    pub members: Vec<usize>,
    pub shape: Shape,
}

/// The chains of operations, which are in an order in which each comes after those that write what
/// it reads.
pub(super) fn regions(operations: &[Operation], strategy: Strategy) -> Vec<Found> {
    let mut groups = Groups::new(operations);
    for &(writer, reader) in &groups.edges.clone() {
        groups.join(operations, writer, reader);
    }
    let mut found = Vec::new();
    for (of, operation) in operations.iter().enumerate() {
        let members = groups.members(of);
        let Some(shape) = groups.shapes[of].clone().filter(|_| !members.is_empty()) else { continue };
        let is_worth = shape.extents.product().is_some_and(|count| count >= strategy.chains);
        let has_rows = shape.row() <= MOST_OF_A_ROW && shape.whole.contains(&false);
        // What has steps enough of its own.
        let is_long = members.len() > 1
            || matches!(operation.kind, Kind::NormForward(_) | Kind::NormBackward(_) | Kind::Softmax(_))
                && !(strategy.rows.is_some() && lower::is_one_step(operation, strategy.rows));
        if is_worth && has_rows && is_long {
            found.push(Found { members, shape });
        }
    }
    found
}

/// Dimensions in the order of memory, outermost first: that of the largest tensor of the caller.
pub(super) fn order(extents: &Dims, operations: &[Operation]) -> Vec<usize> {
    let tensors = || operations.iter().flat_map(Operation::links).map(|link| &link.tensor);
    let largest = tensors().filter(|tensor| tensor.dims == *extents);
    let strides = largest
        .min_by_key(|tensor| tensor.is_virtual)
        .map_or_else(|| agree::row_major(extents), |tensor| tensor.strides);
    let mut order: Vec<usize> = (0..extents.rank()).collect();
    order.sort_by_key(|&axis| Reverse(strides[axis].unsigned_abs()));
    order
}

/// Which operations are together so far.
struct Groups {
    /// Of each operation the lowest one of its group.
    of: Vec<usize>,
    /// Of that one what they compute; `None` for operations that are no part of a chain.
    shapes: Vec<Option<Shape>>,
    /// Which operation reads what which one writes.
    edges: Vec<(usize, usize)>,
}

impl Groups {
    fn new(operations: &[Operation]) -> Groups {
        let writers: HashMap<i64, usize> = operations
            .iter()
            .enumerate()
            .flat_map(|(at, operation)| operation.writes.iter().map(move |link| (link.tensor.uid, at)))
            .collect();
        let mut edges = Vec::new();
        for (reader, operation) in operations.iter().enumerate() {
            for uid in operation.sources() {
                edges.extend(writers.get(&uid).map(|&writer| (writer, reader)));
            }
        }
        let shapes = operations.iter().map(local).collect();
        Groups { of: (0..operations.len()).collect(), shapes, edges }
    }

    fn members(&self, of: usize) -> Vec<usize> {
        (0..self.of.len()).filter(|&at| self.of[at] == of).collect()
    }

    /// Joins the groups of two operations, if that is a chain.
    fn join(&mut self, operations: &[Operation], writer: usize, reader: usize) {
        let [one, two] = [self.of[writer], self.of[reader]];
        if one == two {
            return;
        }
        let (Some(first), Some(second)) = (&self.shapes[one], &self.shapes[two]) else { return };
        let Some(shape) = first.with(second) else { return };
        if shape.row() > MOST_OF_A_ROW || !shape.whole.contains(&false) || !self.is_closed(one, two) {
            return;
        }
        let members: Vec<usize> =
            (0..self.of.len()).filter(|&at| [one, two].contains(&self.of[at])).collect();
        let is_sum = |link: &Link| shape.sums.contains(&link.tensor.uid);
        // Sums are known after all blocks; other results are of the blocks of all.
        let fits = |operation: &Operation| {
            operation.writes.iter().all(|link| match is_sum(link) {
                true => shape.is_of_no_block(&link.tensor),
                false => shape.is_apart(&link.tensor),
            }) && !operation.reads.iter().any(is_sum)
        };
        let mut tensors: HashMap<i64, &Tensor> = HashMap::new();
        for link in members.iter().flat_map(|&at| operations[at].links()) {
            let known = tensors.entry(link.tensor.uid).or_insert(&link.tensor);
            if known.dims != link.tensor.dims || known.strides != link.tensor.strides {
                return;
            }
        }
        let of_caller = tensors.values().filter(|tensor| !tensor.is_virtual).count();
        let is_small = of_caller < MAX_OPERANDS && members.len() <= MOST_OPERATIONS;
        if !is_small || !members.iter().all(|&at| fits(&operations[at])) {
            return;
        }
        let (low, high) = (one.min(two), one.max(two));
        self.of.iter_mut().filter(|of| **of == high).for_each(|of| *of = low);
        self.shapes[low] = Some(shape);
        self.shapes[high] = None;
    }

    /// Whether nothing outside of two groups reads what one of them writes and writes what one of
    /// them reads, through however many groups.
    fn is_closed(&self, one: usize, two: usize) -> bool {
        let both = [one, two];
        let after = |of: &[usize]| -> Vec<usize> {
            let leaves = self.edges.iter().filter(|(writer, _)| of.contains(&self.of[*writer]));
            leaves.map(|(_, reader)| self.of[*reader]).collect()
        };
        let mut seen: HashSet<usize> = HashSet::new();
        let mut next: Vec<usize> = after(&both).into_iter().filter(|of| !both.contains(of)).collect();
        while let Some(of) = next.pop() {
            if both.contains(&of) {
                return false;
            }
            if seen.insert(of) {
                next.extend(after(&[of]));
            }
        }
        true
    }
}

/// The most operations of a chain.
const MOST_OPERATIONS: usize = 64;
