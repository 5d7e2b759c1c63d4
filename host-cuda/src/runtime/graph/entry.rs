//! Functions of whole graphs: making, copying, launching and looking at them.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::{graph, owner, step};
use crate::runtime::error::{Error, Result};
use crate::runtime::model::Handle;
use crate::runtime::model::graph::{Executable, Graph};
use crate::runtime::model::operation::Operation;
use crate::runtime::state::{State, state};
use crate::runtime::{Out, capture, put};

/// `cudaGraphExecUpdateResultInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UpdateResult {
    result: i32,
    node: Handle,
    from: Handle,
}

/// `cudaGraphExecUpdateErrorTopologyChanged`.
const TOPOLOGY_CHANGED: i32 = 2;

/// `cudaGraphInstantiateParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InstantiateParameters {
    flags: u64,
    upload: Handle,
    error_node: Handle,
    result: i32,
}

fn instantiate(out: Out<Handle>, from: Handle, flags: u64) -> Result {
    /// `cudaGraphInstantiateFlagDeviceLaunch`.
    const DEVICE_LAUNCH: u64 = 4;
    if flags & DEVICE_LAUNCH != 0 || flags > 15 {
        return Err(Error::InvalidValue
            .because(format_args!("flags is {flags}: below 16, and no launch by the device")));
    }
    let mut state = state();
    let steps = graph(&state, from)?.steps()?;
    let handle = state.handle();
    put(out, "pGraphExec", handle)?;
    state.executables.insert(handle, Executable { steps, flags });
    Ok(())
}

/// The operations of a graph that can be launched.
fn operations(state: &State, executable: Handle) -> Result<Arc<[Operation]>> {
    let Some(executable) = state.executables.get(&executable) else {
        let rule = format!("{executable:#x} is no graph that can be launched: never made, or destroyed");
        return Err(Error::InvalidValue.because(rule));
    };
    let enabled = executable.steps.iter().filter(|step| step.enabled);
    Ok(enabled.map(|step| step.operation.clone()).collect())
}

/// Replaces the operations of an executable by those of a graph with as many nodes of the same
/// kinds in the same order.
fn update(executable: Handle, from: Handle) -> Result<std::result::Result<(), Handle>> {
    let mut state = state();
    let steps = graph(&state, from)?.steps()?;
    let Some(executable) = state.executables.get_mut(&executable) else {
        return Err(
            Error::InvalidValue.because(format_args!("{executable:#x} is no graph that can be launched"))
        );
    };
    if steps.len() != executable.steps.len() {
        return Ok(Err(0));
    }
    let kind = |operation: &Operation| std::mem::discriminant(operation);
    for (old, new) in executable.steps.iter().zip(&steps) {
        if kind(&old.operation) != kind(&new.operation) {
            return Ok(Err(new.node));
        }
    }
    for (old, new) in executable.steps.iter_mut().zip(steps) {
        old.operation = new.operation;
    }
    Ok(Ok(()))
}

/// Fills `list`, which has room for `count` handles, and stores how many there are; only that if
/// there is no list.
fn show(found: &[Handle], list: *mut Handle, count: Option<&mut usize>) -> Result {
    let Some(count) = count else { return Err(Error::InvalidValue.because("the number of nodes is NULL")) };
    if !list.is_null() {
        for at in 0..*count {
            // Behind the last there are zeros.
            let handle = found.get(at).copied().unwrap_or(0);
            // SAFETY: the caller has room for `count` handles.
            unsafe { list.add(at).write(handle) };
        }
    }
    *count = if list.is_null() { found.len() } else { found.len().min(*count) };
    Ok(())
}

fn show_edges(of: Handle, from: *mut Handle, to: *mut Handle, count: Option<&mut usize>) -> Result {
    let edges = graph(&state(), of)?.edges();
    let Some(count) = count else { return Err(Error::InvalidValue.because("numEdges is NULL")) };
    if from.is_null() != to.is_null() {
        return Err(Error::InvalidValue.because("from and to: one of them is NULL"));
    }
    let (firsts, seconds): (Vec<Handle>, Vec<Handle>) = edges.into_iter().unzip();
    let mut room = *count;
    show(&firsts, from, Some(&mut room))?;
    show(&seconds, to, Some(count))
}

fn show_neighbours(node: Handle, list: *mut Handle, count: Option<&mut usize>, before: bool) -> Result {
    let state = state();
    let edges = state.graphs[&owner(&state, node)?].edges();
    let found: Vec<Handle> = if before {
        edges.iter().filter(|(_, to)| *to == node).map(|(from, _)| *from).collect()
    } else {
        edges.iter().filter(|(from, _)| *from == node).map(|(_, to)| *to).collect()
    };
    show(&found, list, count)
}

fn change_edges(of: Handle, from: *const Handle, to: *const Handle, count: usize, add: bool) -> Result {
    let (from, to) = (capture::list(from, count)?, capture::list(to, count)?);
    let mut state = state();
    graph(&state, of)?;
    let Some(graph) = state.graphs.get_mut(&of) else { return Ok(()) };
    // All are checked before any is changed.
    for (&from, &to) in from.iter().zip(&to) {
        let there = graph.nodes.get(&to).is_some_and(|node| node.after.contains(&from));
        if !graph.has(from) || !graph.has(to) || from == to || there == add {
            let rule = if add { "two nodes of the graph without this edge" } else { "an edge of the graph" };
            return Err(Error::InvalidValue.because(format_args!("{from:#x} to {to:#x}: not {rule}")));
        }
    }
    for (&from, &to) in from.iter().zip(&to) {
        if let Some(node) = graph.nodes.get_mut(&to) {
            if add {
                node.after.push(from);
            } else {
                node.after.retain(|&other| other != from);
            }
        }
    }
    Ok(())
}

runtime! {
    /// A graph without nodes.
    ///
    /// Status: cudaErrorInvalidValue for NULL or flags.
    fn cudaGraphCreate(out: Out<Handle>, flags: u32) {
        if flags != 0 {
            return Err(Error::InvalidValue.because(format_args!("flags is {flags}, not 0")));
        }
        let mut state = state();
        let handle = state.handle();
        put(out, "pGraph", handle)?;
        state.graphs.insert(handle, Graph::default());
        Ok(())
    }

    /// Ends a graph; what was made of it to be launched stays.
    ///
    /// Status: cudaErrorInvalidValue for an unknown graph.
    fn cudaGraphDestroy(handle: Handle) {
        let mut state = state();
        graph(&state, handle)?;
        state.graphs.remove(&handle);
        Ok(())
    }

    /// A copy of a graph.
    ///
    /// Status: cudaErrorInvalidValue for NULL or an unknown graph.
    fn cudaGraphClone(out: Out<Handle>, from: Handle) {
        let mut state = state();
        let original = graph(&state, from)?.clone();
        let handle = state.handle();
        put(out, "pGraphClone", handle)?;
        let names: BTreeMap<Handle, Handle> = original.nodes.keys().map(|&node| (node, state.handle())).collect();
        let mut copy = Graph::default();
        for (node, data) in &original.nodes {
            let after = data.after.iter().map(|after| names[after]).collect();
            copy.add(names[node], data.operation.clone(), after);
        }
        copy.origins = names;
        state.graphs.insert(handle, copy);
        Ok(())
    }

    /// The node of a copy that stands for one of the original.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown graph, or a node of another.
    fn cudaGraphNodeFindInClone(out: Out<Handle>, original: Handle, copy: Handle) {
        let state = state();
        match graph(&state, copy)?.origins.get(&original) {
            Some(&node) => put(out, "pNode", node),
            None => Err(Error::InvalidValue.because(format_args!("{original:#x} is no node of the original"))),
        }
    }

    /// Adds an edge from each of `from` to that of `to`.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown graph or node, and an edge that is there.
    fn cudaGraphAddDependencies(of: Handle, from: *const Handle, to: *const Handle, count: usize) {
        change_edges(of, from, to, count, true)
    }

    /// The same with data of edges, which says nothing here.
    ///
    /// Status: as cudaGraphAddDependencies.
    fn cudaGraphAddDependencies_v2(
        of: Handle, from: *const Handle, to: *const Handle, data: *const c_void, count: usize,
    ) {
        let _ = data;
        change_edges(of, from, to, count, true)
    }

    /// Removes the edge from each of `from` to that of `to`.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown graph or node, and an edge that is not
    /// there.
    fn cudaGraphRemoveDependencies(of: Handle, from: *const Handle, to: *const Handle, count: usize) {
        change_edges(of, from, to, count, false)
    }

    /// The same with data of edges, which says nothing here.
    ///
    /// Status: as cudaGraphRemoveDependencies.
    fn cudaGraphRemoveDependencies_v2(
        of: Handle, from: *const Handle, to: *const Handle, data: *const c_void, count: usize,
    ) {
        let _ = data;
        change_edges(of, from, to, count, false)
    }

    /// The nodes of a graph, or their number if `list` is NULL.
    ///
    /// Status: cudaErrorInvalidValue for an unknown graph, or `count` NULL.
    fn cudaGraphGetNodes(of: Handle, list: *mut Handle, count: Option<&mut usize>) {
        let found: Vec<Handle> = graph(&state(), of)?.nodes.keys().copied().collect();
        show(&found, list, count)
    }

    /// The nodes that come after no other, or their number if `list` is NULL.
    ///
    /// Status: as cudaGraphGetNodes.
    fn cudaGraphGetRootNodes(of: Handle, list: *mut Handle, count: Option<&mut usize>) {
        let state = state();
        let nodes = graph(&state, of)?.nodes.iter();
        let found: Vec<Handle> = nodes.filter(|(_, node)| node.after.is_empty()).map(|(&node, _)| node).collect();
        show(&found, list, count)
    }

    /// The edges of a graph, or their number if both lists are NULL.
    ///
    /// Status: as cudaGraphGetNodes.
    fn cudaGraphGetEdges(of: Handle, from: *mut Handle, to: *mut Handle, count: Option<&mut usize>) {
        show_edges(of, from, to, count)
    }

    /// The same with data of edges, which all are plain and not written.
    ///
    /// Status: as cudaGraphGetEdges; cudaErrorNotSupported if data is asked for.
    fn cudaGraphGetEdges_v2(
        of: Handle, from: *mut Handle, to: *mut Handle, data: *mut c_void, count: Option<&mut usize>,
    ) {
        no_data(data)?;
        show_edges(of, from, to, count)
    }

    /// The nodes that a node comes after, or their number if `list` is NULL.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node, or `count` NULL.
    fn cudaGraphNodeGetDependencies(node: Handle, list: *mut Handle, count: Option<&mut usize>) {
        show_neighbours(node, list, count, true)
    }

    /// The same with data of edges.
    ///
    /// Status: as cudaGraphNodeGetDependencies; cudaErrorNotSupported if data is asked for.
    fn cudaGraphNodeGetDependencies_v2(
        node: Handle, list: *mut Handle, data: *mut c_void, count: Option<&mut usize>,
    ) {
        no_data(data)?;
        show_neighbours(node, list, count, true)
    }

    /// The nodes that come after a node, or their number if `list` is NULL.
    ///
    /// Status: as cudaGraphNodeGetDependencies.
    fn cudaGraphNodeGetDependentNodes(node: Handle, list: *mut Handle, count: Option<&mut usize>) {
        show_neighbours(node, list, count, false)
    }

    /// The same with data of edges.
    ///
    /// Status: as cudaGraphNodeGetDependencies_v2.
    fn cudaGraphNodeGetDependentNodes_v2(
        node: Handle, list: *mut Handle, data: *mut c_void, count: Option<&mut usize>,
    ) {
        no_data(data)?;
        show_neighbours(node, list, count, false)
    }

    /// Makes what can be launched of a graph, as the graph is now.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown graph, nodes that wait in a circle, and
    /// unknown flags.
    fn cudaGraphInstantiate(out: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(out, graph, flags)
    }

    /// The same as CUDA 11 spells it, with a text that stays empty and a node that is none.
    ///
    /// Status: as cudaGraphInstantiate.
    fn cudnnShimHostGraphInstantiate11(
        out: Out<Handle>, graph: Handle, error_node: Out<Handle>, text: *mut c_char, length: usize,
    ) {
        if !text.is_null() && length > 0 {
            // SAFETY: the caller has at least one byte there.
            unsafe { text.write(0) };
        }
        if let Some(node) = error_node {
            node.write(0);
        }
        instantiate(out, graph, 0)
    }

    /// The same with parameters, of which the flags count; says in them that it succeeded.
    ///
    /// Status: as cudaGraphInstantiate; cudaErrorInvalidValue if they are NULL.
    fn cudaGraphInstantiateWithParams(out: Out<Handle>, graph: Handle, parameters: Option<&mut InstantiateParameters>) {
        let Some(parameters) = parameters else { return Err(Error::InvalidValue.because("instantiateParams is NULL")) };
        // `cudaGraphInstantiateSuccess`, or `cudaGraphInstantiateError`.
        (parameters.result, parameters.error_node) = (1, 0);
        instantiate(out, graph, parameters.flags)?;
        parameters.result = 0;
        Ok(())
    }

    /// The flags that a graph was instantiated with.
    ///
    /// Status: cudaErrorInvalidValue for NULL or what cannot be launched.
    fn cudaGraphExecGetFlags(executable: Handle, flags: Out<u64>) {
        let state = state();
        operations(&state, executable)?;
        put(flags, "flags", state.executables[&executable].flags)
    }

    /// Puts a graph on a stream: its nodes have run when this returns, unless the stream captures.
    ///
    /// Status: cudaErrorInvalidValue for what cannot be launched; cudaErrorInvalidResourceHandle
    /// for an unknown stream; what a node answers.
    fn cudaGraphLaunch(executable: Handle, stream: Handle) {
        let operations = operations(&state(), executable)?;
        // SAFETY: the program keeps what the nodes name as long as it launches them.
        unsafe { capture::submit(stream, Operation::Child(operations)) }
    }

    /// Brings a graph to the device ahead of its launch: it is there.
    ///
    /// Status: as cudaGraphLaunch; cudaErrorStreamCaptureUnsupported for a stream that captures.
    fn cudaGraphUpload(executable: Handle, stream: Handle) {
        let mut state = state();
        operations(&state, executable)?;
        capture::refuse_unheld(&mut state, stream)
    }

    /// Ends what can be launched.
    ///
    /// Status: cudaErrorInvalidValue for what cannot be launched.
    fn cudaGraphExecDestroy(executable: Handle) {
        let mut state = state();
        operations(&state, executable)?;
        state.executables.remove(&executable);
        Ok(())
    }

    /// Gives what can be launched the parameters of another graph of the same nodes.
    ///
    /// Status: cudaErrorInvalidValue for NULL or unknown graphs; cudaErrorGraphExecUpdateFailure if
    /// the nodes differ.
    fn cudaGraphExecUpdate(executable: Handle, from: Handle, result: Out<UpdateResult>) {
        let Some(result) = result else { return Err(Error::InvalidValue.because("resultInfo is NULL")) };
        let outcome = update(executable, from)?;
        let node = outcome.err().unwrap_or(0);
        let code = if outcome.is_ok() { 0 } else { TOPOLOGY_CHANGED };
        result.write(UpdateResult { result: code, node, from: 0 });
        outcome.map_err(|_| differ())
    }

    /// The same as CUDA 11 spells it.
    ///
    /// Status: as cudaGraphExecUpdate.
    fn cudnnShimHostGraphExecUpdate11(executable: Handle, from: Handle, node: Out<Handle>, result: Out<i32>) {
        let outcome = update(executable, from)?;
        put(node, "hErrorNode_out", outcome.err().unwrap_or(0))?;
        put(result, "updateResult_out", if outcome.is_ok() { 0 } else { TOPOLOGY_CHANGED })?;
        outcome.map_err(|_| differ())
    }

    /// Has a node run (1) or do nothing (0) when the graph is launched.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node, and for others than copies, sets and
    /// empty ones.
    fn cudaGraphNodeSetEnabled(executable: Handle, node: Handle, enabled: u32) {
        let mut state = state();
        let step = step(&mut state, executable, node)?;
        if !matches!(step.operation, Operation::Copy(_) | Operation::Set(_) | Operation::Empty) {
            return Err(Error::InvalidValue.because("nodes that copy or set are switched, and no others"));
        }
        step.enabled = enabled != 0;
        Ok(())
    }

    /// Whether a node runs when the graph is launched.
    ///
    /// Status: cudaErrorInvalidValue for NULL or an unknown node.
    fn cudaGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: Out<u32>) {
        let mut state = state();
        let is = step(&mut state, executable, node)?.enabled;
        put(enabled, "isEnabled", u32::from(is))
    }
}

fn differ() -> crate::runtime::error::Failure {
    Error::GraphExecUpdateFailure.because("the graph has other nodes than that which was instantiated")
}

fn no_data(data: *mut c_void) -> Result {
    if data.is_null() {
        return Ok(());
    }
    Err(Error::NotSupported.because("edges have no data; ask with NULL"))
}
