//! Graphs: operations and what each comes after. A launch runs them in an order that this allows,
//! before it returns.

mod entry;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Error, Result};
use super::operation::Operation;
use super::state::{Handle, State};

/// An operation of a graph.
#[derive(Clone)]
struct Node {
    operation: Operation,
    after: Vec<Handle>,
}

/// A graph: its nodes by handle, which is also the order in which they were added.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: BTreeMap<Handle, Node>,
    /// Of a copy: the node for each node of the original.
    origins: BTreeMap<Handle, Handle>,
}

/// A graph that can be launched.
pub struct Executable {
    /// In an order that the dependencies allow; a node that is disabled does nothing.
    steps: Vec<Step>,
    flags: u64,
}

struct Step {
    node: Handle,
    operation: Operation,
    enabled: bool,
}

impl Graph {
    /// Adds a node behind others.
    pub(super) fn add(&mut self, node: Handle, operation: Operation, after: Vec<Handle>) {
        self.nodes.insert(node, Node { operation, after });
    }

    /// Whether a node is one of this graph.
    pub(super) fn has(&self, node: Handle) -> bool {
        self.nodes.contains_key(&node)
    }

    /// Whether every node comes before one of these, or is one.
    pub(super) fn ends_in(&self, last: &[Handle]) -> bool {
        let followed: BTreeSet<Handle> =
            self.nodes.values().flat_map(|node| node.after.iter().copied()).collect();
        self.nodes.keys().all(|node| followed.contains(node) || last.contains(node))
    }

    /// From each node to those that come after it.
    fn edges(&self) -> Vec<(Handle, Handle)> {
        let edges =
            self.nodes.iter().flat_map(|(&node, data)| data.after.iter().map(move |&after| (after, node)));
        edges.collect()
    }

    /// The nodes, each behind those that it comes after; nothing if they go in a circle.
    fn order(&self) -> Option<Vec<Handle>> {
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
    fn steps(&self) -> Result<Vec<Step>> {
        let circle = || Error::InvalidValue.because("the nodes of the graph wait for each other in a circle");
        let order = self.order().ok_or_else(circle)?;
        let step =
            |node: Handle| Step { node, operation: self.nodes[&node].operation.clone(), enabled: true };
        Ok(order.into_iter().map(step).collect())
    }
}

/// A graph by its handle.
fn graph(state: &State, handle: Handle) -> Result<&Graph> {
    let unknown =
        || Error::InvalidValue.because(format_args!("{handle:#x} is no graph: never made, or destroyed"));
    state.graphs.get(&handle).ok_or_else(unknown)
}

/// The graph of a node, by its handle.
fn owner(state: &State, node: Handle) -> Result<Handle> {
    let found = state.graphs.iter().find(|(_, graph)| graph.has(node)).map(|(handle, _)| *handle);
    found.ok_or_else(|| Error::InvalidValue.because(format_args!("{node:#x} is no node of a graph")))
}

/// The step of a node in a graph that can be launched.
fn step(state: &mut State, executable: Handle, node: Handle) -> Result<&mut Step> {
    let steps = state.executables.get_mut(&executable).map(|executable| &mut executable.steps);
    let found = steps.and_then(|steps| steps.iter_mut().find(|step| step.node == node));
    let rule = "that is no graph that can be launched, or no node of the graph that it was made of";
    found.ok_or_else(|| Error::InvalidValue.because(format_args!("{executable:#x}, {node:#x}: {rule}")))
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
