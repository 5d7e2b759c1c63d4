//! Functions of single nodes: adding them, their parameters, and removing them.

use std::ffi::c_void;

use super::{graph, owner, step};
use crate::runtime::copy;
use crate::runtime::error::{Error, Failure, Result};
use crate::runtime::model::Handle;
use crate::runtime::model::copy::Copy;
use crate::runtime::model::operation::{HostCall, Operation};
use crate::runtime::state::state;
use crate::runtime::{Out, capture, put, set};

/// Adds a node behind the nodes of a list.
fn add(out: Out<Handle>, to: Handle, after: *const Handle, count: usize, operation: Operation) -> Result {
    let mut after = capture::list(after, count)?;
    let mut state = state();
    let known = graph(&state, to)?;
    if let Some(other) = after.iter().find(|node| !known.has(**node)) {
        return Err(Error::InvalidValue.because(format_args!("{other:#x} is no node of the graph")));
    }
    state.check(&operation)?;
    let node = state.handle();
    put(out, "pGraphNode", node)?;
    after.sort_unstable();
    after.dedup();
    if let Some(graph) = state.graphs.get_mut(&to) {
        graph.add(node, operation, after);
    }
    Ok(())
}

/// Gives a node other parameters of the same kind.
fn change(node: Handle, operation: Operation) -> Result {
    let mut state = state();
    state.check(&operation)?;
    let owner = owner(&state, node)?;
    let node = state.graphs.get_mut(&owner).and_then(|graph| graph.nodes.get_mut(&node));
    node.map_or(Ok(()), |node| exchange(&mut node.operation, operation))
}

/// The same in what can be launched.
fn change_step(executable: Handle, node: Handle, operation: Operation) -> Result {
    let mut state = state();
    state.check(&operation)?;
    exchange(&mut step(&mut state, executable, node)?.operation, operation)
}

fn exchange(old: &mut Operation, new: Operation) -> Result {
    if std::mem::discriminant(old) != std::mem::discriminant(&new) {
        return Err(Error::InvalidValue.because("the node is of another kind"));
    }
    *old = new;
    Ok(())
}

/// What a node does.
fn operation(node: Handle) -> Result<Operation> {
    let state = state();
    Ok(state.graphs[&owner(&state, node)?].nodes[&node].operation.clone())
}

fn given<T>(parameters: Option<&T>) -> Result<&T> {
    parameters.ok_or_else(null)
}

fn null() -> Failure {
    Error::InvalidValue.because("the structure of parameters is NULL")
}

fn other_kind() -> Failure {
    Error::InvalidValue.because("the node is of another kind")
}

fn copying(parameters: Option<&copy::Parameters>) -> Result<Operation> {
    Ok(Operation::Copy(given(parameters)?.copy()?))
}

fn setting(parameters: Option<&set::Parameters>) -> Result<Operation> {
    Ok(Operation::Set(given(parameters)?.set()?))
}

fn calling(parameters: Option<&HostCall>) -> Result<Operation> {
    Ok(Operation::Host(*given(parameters)?))
}

fn flat(to: *mut c_void, from: *const c_void, count: usize, kind: i32) -> Operation {
    Operation::Copy(copy::flat(to, from, count, kind))
}

fn symbol(
    symbol: *const c_void, other: *mut c_void, count: usize, at: usize, kind: i32, to: bool,
) -> Result<Operation> {
    let copy: Copy = copy::with_symbol(symbol, other, count, at, kind, to)?;
    Ok(Operation::Copy(copy))
}

runtime! {
    /// Adds a node that does nothing, behind others.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown graph, and nodes of another.
    fn cudaGraphAddEmptyNode(out: Out<Handle>, graph: Handle, after: *const Handle, count: usize) {
        add(out, graph, after, count, Operation::Empty)
    }

    /// Adds a node that copies.
    ///
    /// Status: as cudaGraphAddEmptyNode, then as cudaMemcpy3D.
    fn cudaGraphAddMemcpyNode(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: Option<&copy::Parameters>,
    ) {
        add(out, graph, after, count, copying(parameters)?)
    }

    /// Adds a node that copies `bytes` bytes.
    ///
    /// Status: as cudaGraphAddEmptyNode, then as cudaMemcpy.
    fn cudaGraphAddMemcpyNode1D(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, dst: *mut c_void, src: *const c_void,
        bytes: usize, kind: i32,
    ) {
        add(out, graph, after, count, flat(dst, src, bytes, kind))
    }

    /// Adds a node that copies to a variable of the device.
    ///
    /// Status: as cudaGraphAddEmptyNode, then as cudaMemcpyToSymbol.
    fn cudaGraphAddMemcpyNodeToSymbol(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, variable: *const c_void,
        src: *const c_void, bytes: usize, offset: usize, kind: i32,
    ) {
        add(out, graph, after, count, symbol(variable, src.cast_mut(), bytes, offset, kind, true)?)
    }

    /// Adds a node that copies from a variable of the device.
    ///
    /// Status: as cudaGraphAddEmptyNode, then as cudaMemcpyFromSymbol.
    fn cudaGraphAddMemcpyNodeFromSymbol(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, dst: *mut c_void,
        variable: *const c_void, bytes: usize, offset: usize, kind: i32,
    ) {
        add(out, graph, after, count, symbol(variable, dst, bytes, offset, kind, false)?)
    }

    /// Adds a node that sets memory.
    ///
    /// Status: as cudaGraphAddEmptyNode, then as cudaMemset2D; cudaErrorInvalidValue for elements
    /// of other than 1, 2 or 4 bytes.
    fn cudaGraphAddMemsetNode(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: Option<&set::Parameters>,
    ) {
        add(out, graph, after, count, setting(parameters)?)
    }

    /// Adds a node that calls a function of the program.
    ///
    /// Status: as cudaGraphAddEmptyNode; cudaErrorInvalidValue if the function is NULL.
    fn cudaGraphAddHostNode(
        out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: Option<&HostCall>,
    ) {
        add(out, graph, after, count, calling(parameters)?)
    }

    /// Adds the nodes of another graph, as they are now, as one.
    ///
    /// Status: as cudaGraphAddEmptyNode; cudaErrorInvalidValue for an unknown child, or one that
    /// goes in a circle.
    fn cudaGraphAddChildGraphNode(out: Out<Handle>, to: Handle, after: *const Handle, count: usize, child: Handle) {
        let steps = graph(&state(), child)?.steps()?;
        let operations = steps.into_iter().map(|step| step.operation).collect();
        add(out, to, after, count, Operation::Child(operations))
    }

    /// Adds a node that records an event.
    ///
    /// Status: as cudaGraphAddEmptyNode; cudaErrorInvalidResourceHandle for an unknown event.
    fn cudaGraphAddEventRecordNode(out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, event: Handle) {
        add(out, graph, after, count, Operation::Record(event))
    }

    /// Adds a node that waits for an event.
    ///
    /// Status: as cudaGraphAddEventRecordNode.
    fn cudaGraphAddEventWaitNode(out: Out<Handle>, graph: Handle, after: *const Handle, count: usize, event: Handle) {
        add(out, graph, after, count, Operation::Wait(event))
    }

    /// Removes a node and its edges.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node.
    fn cudaGraphDestroyNode(node: Handle) {
        let mut state = state();
        let owner = owner(&state, node)?;
        if let Some(graph) = state.graphs.get_mut(&owner) {
            graph.nodes.remove(&node);
            graph.nodes.values_mut().for_each(|other| other.after.retain(|&after| after != node));
        }
        Ok(())
    }

    /// The kind of a node, as `cudaGraphNodeType`; a library's call is a kernel.
    ///
    /// Status: cudaErrorInvalidValue for NULL or an unknown node.
    fn cudaGraphNodeGetType(node: Handle, kind: Out<i32>) {
        let number = match operation(node)? {
            Operation::Library(..) => 0,
            Operation::Copy(_) => 1,
            Operation::Set(_) => 2,
            Operation::Host(_) => 3,
            Operation::Child(_) => 4,
            Operation::Empty => 5,
            Operation::Wait(_) => 6,
            Operation::Record(_) => 7,
        };
        put(kind, "pType", number)
    }

    /// What a node copies.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown node, or one that does not copy.
    fn cudaGraphMemcpyNodeGetParams(node: Handle, parameters: Out<copy::Parameters>) {
        match operation(node)? {
            Operation::Copy(copy) => put(parameters, "pNodeParams", copy::Parameters::of(&copy)),
            _ => Err(other_kind()),
        }
    }

    /// Has a node copy something else.
    ///
    /// Status: as cudaGraphMemcpyNodeGetParams, then as cudaMemcpy3D.
    fn cudaGraphMemcpyNodeSetParams(node: Handle, parameters: Option<&copy::Parameters>) {
        change(node, copying(parameters)?)
    }

    /// Has a node copy `bytes` bytes.
    ///
    /// Status: as cudaGraphMemcpyNodeGetParams, then as cudaMemcpy.
    fn cudaGraphMemcpyNodeSetParams1D(node: Handle, dst: *mut c_void, src: *const c_void, bytes: usize, kind: i32) {
        change(node, flat(dst, src, bytes, kind))
    }

    /// What a node sets.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown node, or one that does not set.
    fn cudaGraphMemsetNodeGetParams(node: Handle, parameters: Out<set::Parameters>) {
        match operation(node)? {
            Operation::Set(set) => put(parameters, "pNodeParams", set::Parameters::of(&set)),
            _ => Err(other_kind()),
        }
    }

    /// Has a node set something else.
    ///
    /// Status: as cudaGraphMemsetNodeGetParams, then as cudaGraphAddMemsetNode.
    fn cudaGraphMemsetNodeSetParams(node: Handle, parameters: Option<&set::Parameters>) {
        change(node, setting(parameters)?)
    }

    /// What a node calls.
    ///
    /// Status: cudaErrorInvalidValue for NULL, an unknown node, or one that does not call the
    /// program.
    fn cudaGraphHostNodeGetParams(node: Handle, parameters: Out<HostCall>) {
        match operation(node)? {
            Operation::Host(call) => put(parameters, "pNodeParams", call),
            _ => Err(other_kind()),
        }
    }

    /// Has a node call something else.
    ///
    /// Status: as cudaGraphHostNodeGetParams, then as cudaGraphAddHostNode.
    fn cudaGraphHostNodeSetParams(node: Handle, parameters: Option<&HostCall>) {
        change(node, calling(parameters)?)
    }

    /// Has a node of what can be launched copy something else.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node, or one that does not copy; as
    /// cudaMemcpy3D.
    fn cudaGraphExecMemcpyNodeSetParams(executable: Handle, node: Handle, parameters: Option<&copy::Parameters>) {
        change_step(executable, node, copying(parameters)?)
    }

    /// Has a node of what can be launched copy `bytes` bytes.
    ///
    /// Status: as cudaGraphExecMemcpyNodeSetParams.
    fn cudaGraphExecMemcpyNodeSetParams1D(
        executable: Handle, node: Handle, dst: *mut c_void, src: *const c_void, bytes: usize, kind: i32,
    ) {
        change_step(executable, node, flat(dst, src, bytes, kind))
    }

    /// Has a node of what can be launched set something else.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node, or one that does not set; as
    /// cudaGraphAddMemsetNode.
    fn cudaGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, parameters: Option<&set::Parameters>) {
        change_step(executable, node, setting(parameters)?)
    }

    /// Has a node of what can be launched call something else.
    ///
    /// Status: cudaErrorInvalidValue for an unknown node, or one that does not call; as
    /// cudaGraphAddHostNode.
    fn cudaGraphExecHostNodeSetParams(executable: Handle, node: Handle, parameters: Option<&HostCall>) {
        change_step(executable, node, calling(parameters)?)
    }
}
