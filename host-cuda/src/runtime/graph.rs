//! Graphs: operations and what each comes after. A launch runs them in an order that this allows,
//! before it returns.

mod entry;
mod nodes;

use super::error::{Error, Result};
use super::model::Handle;
use super::model::graph::{Graph, Step};
use super::state::State;

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
