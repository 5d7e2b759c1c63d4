//! The order of the operations of a graph, and the tensors between them.

use std::collections::HashMap;

use super::{Graph, Link, Operation, Tensor};
use crate::error::{Error, Result};

/// Operations in an order in which each comes after those that write what it reads.
pub(super) struct Dag<'a> {
    /// The operations, by that order.
    pub operations: Vec<&'a Operation>,
    /// Which operation, by that order, writes the tensor of a uid.
    pub writers: HashMap<i64, usize>,
}

impl Graph {
    /// Whether the graph can be finalised.
    ///
    /// # Errors
    /// Bad parameter: no operation; a tensor that two operations write, or an operation reads and
    /// writes; a circle.
    pub fn check(&self) -> Result<()> {
        Dag::new(self).map(|_| ())
    }

    /// The uids of all tensors that a caller has to bring a pointer of (constants have none), each
    /// once, in ascending order.
    pub fn uids(&self) -> Vec<i64> {
        let links = self.operations.iter().flat_map(Operation::links);
        let mut uids: Vec<i64> = links
            .flat_map(|link| {
                let offset = link.tensor.ragged.as_ref().map(|ragged| &ragged.offset);
                [Some(&link.tensor), offset].into_iter().flatten()
            })
            .filter(|tensor| !tensor.is_virtual && tensor.constant.is_none())
            .map(|tensor| tensor.uid)
            .collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }
}

impl Operation {
    /// Every tensor of it.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.reads.iter().chain(&self.writes)
    }

    /// The uids that it reads.
    pub(super) fn sources(&self) -> impl Iterator<Item = i64> {
        self.reads.iter().flat_map(|link| {
            let offset = link.tensor.ragged.as_ref().map(|ragged| ragged.offset.uid);
            [Some(link.tensor.uid), offset].into_iter().flatten()
        })
    }
}

impl<'a> Dag<'a> {
    /// Sorts the operations; those that wait for nothing keep the order in which they were set.
    ///
    /// # Errors
    /// As for [`Graph::check`].
    pub fn new(graph: &'a Graph) -> Result<Self> {
        let operations = &graph.operations;
        if operations.is_empty() {
            return Err(Error::mismatch("a graph without operations"));
        }
        let mut writers = HashMap::new();
        for (index, operation) in operations.iter().enumerate() {
            for link in &operation.writes {
                let uid = link.tensor.uid;
                if writers.insert(uid, index).is_some() {
                    return Err(Error::mismatch(format!("tensor {uid} is written twice")));
                }
                if operation.sources().any(|source| source == uid) {
                    return Err(Error::mismatch(format!(
                        "operation {index} reads tensor {uid}, which it writes"
                    )));
                }
            }
        }
        let mut order = Vec::with_capacity(operations.len());
        let mut placed = vec![false; operations.len()];
        let ready = |operation: &Operation, placed: &[bool]| {
            operation.sources().all(|uid| writers.get(&uid).is_none_or(|&writer| placed[writer]))
        };
        while let Some(next) = (0..operations.len()).find(|&k| !placed[k] && ready(&operations[k], &placed)) {
            placed[next] = true;
            order.push(next);
        }
        if order.len() < operations.len() {
            return Err(Error::mismatch("operations wait for each other in a circle"));
        }
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &index)| place[index] = at);
        let writers = writers.into_iter().map(|(uid, index)| (uid, place[index])).collect();
        Ok(Dag { operations: order.iter().map(|&index| &operations[index]).collect(), writers })
    }

    /// The tensor as its writer describes it, or as it is described here if nothing writes it.
    pub fn described<'b>(&'b self, tensor: &'b Tensor) -> &'b Tensor {
        let writer = self.writers.get(&tensor.uid);
        let links = writer.map(|&at| &self.operations[at].writes);
        let written = links.and_then(|links| links.iter().find(|link| link.tensor.uid == tensor.uid));
        written.map_or(tensor, |link| &link.tensor)
    }

    /// The last operation that reads or writes the tensor of a uid.
    pub fn last_use(&self, uid: i64) -> usize {
        let touches = |operation: &&Operation| {
            operation.sources().any(|source| source == uid)
                || operation.writes.iter().any(|link| link.tensor.uid == uid)
        };
        self.operations.iter().rposition(touches).unwrap_or(0)
    }
}
