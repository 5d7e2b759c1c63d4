//! Graphs: operations and what each comes after.

use std::collections::{BTreeMap, BTreeSet};

use super::Handle;
use super::operation::Operation;
use crate::runtime::error::{Error, Result};

/// An operation of a graph.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) operation: Operation,
    pub(crate) after: Vec<Handle>,
}

/// A graph: its nodes by handle, which is also the order in which they were added.
#[derive(Clone, Default)]
pub struct Graph {
    pub(crate) nodes: BTreeMap<Handle, Node>,
    /// Of a copy: the node for each node of the original.
    pub(crate) origins: BTreeMap<Handle, Handle>,
}

/// A graph that can be launched.
pub struct Executable {
    /// In an order that the dependencies allow; a node that is disabled does nothing.
    pub(crate) steps: Vec<Step>,
    pub(crate) flags: u64,
}

pub(crate) struct Step {
    pub(crate) node: Handle,
    pub(crate) operation: Operation,
    pub(crate) enabled: bool,
}

impl Graph {
    /// Adds a node behind others.
    pub(crate) fn add(&mut self, node: Handle, operation: Operation, after: Vec<Handle>) {
        self.nodes.insert(node, Node { operation, after });
    }

    /// Whether a node is one of this graph.
    pub(crate) fn has(&self, node: Handle) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Whether every node comes before one of these, or is one.
    pub(crate) fn ends_in(&self, last: &[Handle]) -> bool {
        let followed: BTreeSet<Handle> =
            self.nodes.values().flat_map(|node| node.after.iter().copied()).collect();
        self.nodes.keys().all(|node| followed.contains(node) || last.contains(node))
    }

    /// From each node to those that come after it.
    pub(crate) fn edges(&self) -> Vec<(Handle, Handle)> {
        let edges =
            self.nodes.iter().flat_map(|(&node, data)| data.after.iter().map(move |&after| (after, node)));
        edges.collect()
    }

    /// The nodes, each behind those that it comes after; nothing if they go in a circle.
    pub(crate) fn order(&self) -> Option<Vec<Handle>> {
        let mut waits: BTreeMap<Handle, usize> =
            self.nodes.iter().map(|(&node, data)| (node, data.after.len())).collect();
        let mut followers: BTreeMap<Handle, Vec<Handle>> = BTreeMap::new();
        for (from, to) in self.edges() {
            followers.entry(from).or_default().push(to);
        }
        let mut ready: BTreeSet<Handle> =
            waits.iter().filter(|(_, count)| **count == 0).map(|(&node, _)| node).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for follower in followers.remove(&node).unwrap_or_default() {
                let count = waits.get_mut(&follower)?;
                *count -= 1;
                if *count == 0 {
                    ready.insert(follower);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }

    /// Its steps.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let circle = || Error::InvalidValue.because("the nodes of the graph wait for each other in a circle");
        let order = self.order().ok_or_else(circle)?;
        let step =
            |node: Handle| Step { node, operation: self.nodes[&node].operation.clone(), enabled: true };
        Ok(order.into_iter().map(step).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Graph, Operation};

    #[test]
    fn nodes_run_behind_those_that_they_come_after() {
        let mut graph = Graph::default();
        for (node, after) in [(16, vec![48]), (32, vec![]), (48, vec![32]), (64, vec![16, 48])] {
            graph.add(node, Operation::Empty, after);
        }
        assert_eq!(graph.order(), Some(vec![32, 48, 16, 64]));
        assert!(graph.ends_in(&[64]) && !graph.ends_in(&[16]));
        graph.add(32, Operation::Empty, vec![64]);
        assert_eq!(graph.order(), None);
        assert!(graph.steps().is_err());
    }
}
