//! The calls that begin, end and ask for captures.

use std::ffi::c_void;

use super::{MODE, begin, invalidate, invalidated, may_begin, of, refuse_question};
use crate::runtime::error::{Error, Result};
use crate::runtime::model::Handle;
use crate::runtime::model::capture::{GLOBAL, RELAXED};
use crate::runtime::model::graph::Graph;
use crate::runtime::state::{State, state};
use crate::runtime::{Out, put};

/// Copies a list of nodes that C passes.
pub(in crate::runtime) fn list(nodes: *const Handle, count: usize) -> Result<Vec<Handle>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if nodes.is_null() || count > isize::MAX as usize / size_of::<Handle>() {
        return Err(Error::InvalidValue.because(format_args!("{count} nodes at {nodes:p}")));
    }
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| {
        Error::MemoryAllocation.because(format_args!("no memory for a list of {count} nodes"))
    })?;
    // SAFETY: not NULL, and the caller has as many handles there.
    list.extend_from_slice(unsafe { std::slice::from_raw_parts(nodes, count) });
    Ok(list)
}

/// Where cudaStreamGetCaptureInfo stores what it finds; any but the status may be NULL.
struct Info<'a> {
    status: Out<'a, i32>,
    id: Out<'a, u64>,
    graph: Out<'a, Handle>,
    nodes: Out<'a, *const Handle>,
    edges: Out<'a, *const c_void>,
    count: Out<'a, usize>,
}

fn info(on: Handle, info: Info) -> Result {
    let mut state = state();
    state.has_stream(on)?;
    let id = of(&state, on);
    if id.is_none() {
        refuse_question(&state, on)?;
    }
    let capture = id.and_then(|id| state.captures.get_mut(&id));
    // `cudaStreamCaptureStatus`: none, active, invalidated.
    let status = capture.as_ref().map_or(0, |capture| if capture.invalid { 2 } else { 1 });
    put(info.status, "captureStatus_out", status)?;
    let Some(capture) = capture.filter(|capture| !capture.invalid) else { return Ok(()) };
    capture.shown = capture.tails.get(&on).cloned().unwrap_or_default();
    if let Some(out) = info.id {
        out.write(id.unwrap_or(0));
    }
    if let Some(out) = info.graph {
        out.write(capture.graph);
    }
    if let Some(out) = info.nodes {
        out.write(capture.shown.as_ptr());
    }
    if let Some(out) = info.edges {
        out.write(std::ptr::null());
    }
    if let Some(out) = info.count {
        out.write(capture.shown.len());
    }
    Ok(())
}

fn update(on: Handle, nodes: *const Handle, count: usize, flags: u32) -> Result {
    let nodes = list(nodes, count)?;
    let mut state = state();
    state.has_stream(on)?;
    let Some(id) = of(&state, on) else {
        return Err(Error::IllegalState.because("the stream does not capture"));
    };
    let State { captures, graphs, .. } = &mut *state;
    let Some(capture) = captures.get_mut(&id) else { return Ok(()) };
    let all = graphs.get(&capture.graph).is_some_and(|graph| nodes.iter().all(|&node| graph.has(node)));
    let Some(tail) = capture.tails.get_mut(&on).filter(|_| all && flags <= 1) else {
        return Err(
            Error::InvalidValue.because(format_args!("flags is {flags}, or a node is not of the capture"))
        );
    };
    // `cudaStreamSetCaptureDependencies`, or those that are added.
    if flags == 1 {
        tail.clear();
    }
    tail.extend(nodes);
    tail.sort_unstable();
    tail.dedup();
    Ok(())
}

runtime! {
    /// Begins to capture what is put on a stream.
    ///
    /// Status: cudaErrorInvalidValue for an unknown mode; cudaErrorInvalidResourceHandle for an
    /// unknown stream; cudaErrorStreamCaptureUnsupported for the default stream;
    /// cudaErrorIllegalState if it captures already; cudaErrorNotSupported if the runtime is linked
    /// statically.
    fn cudaStreamBeginCapture(stream: Handle, mode: i32) {
        let mut state = state();
        may_begin(&state, stream, mode)?;
        let graph = state.handle();
        state.graphs.insert(graph, Graph::default());
        begin(&mut state, stream, graph, Vec::new(), mode);
        Ok(())
    }

    /// The same into a graph that is there, behind some of its nodes.
    ///
    /// Status: as cudaStreamBeginCapture; cudaErrorInvalidValue for an unknown graph or node.
    fn cudaStreamBeginCaptureToGraph(
        stream: Handle, graph: Handle, nodes: *const Handle, edges: *const c_void, count: usize, mode: i32,
    ) {
        let _ = edges;
        let after = list(nodes, count)?;
        let mut state = state();
        may_begin(&state, stream, mode)?;
        if !state.graphs.get(&graph).is_some_and(|graph| after.iter().all(|&node| graph.has(node))) {
            return Err(Error::InvalidValue.because(format_args!("{graph:#x} is no graph with these nodes")));
        }
        begin(&mut state, stream, graph, after, mode);
        Ok(())
    }

    /// Ends a capture; the graph of what it holds.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown stream; cudaErrorIllegalState if it
    /// does not capture; cudaErrorStreamCaptureUnmatched if another stream began;
    /// cudaErrorStreamCaptureWrongThread if another thread did; cudaErrorStreamCaptureInvalidated
    /// if a call spoiled it; cudaErrorStreamCaptureUnjoined if work on other streams was not waited
    /// for; cudaErrorInvalidValue for NULL.
    fn cudaStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let Some(out) = graph else { return Err(Error::InvalidValue.because("pGraph is NULL")) };
        out.write(0);
        let mut state = state();
        state.has_stream(stream)?;
        let Some(id) = of(&state, stream) else {
            return Err(Error::IllegalState.because("the stream does not capture"));
        };
        let capture = &state.captures[&id];
        if capture.origin != stream {
            invalidate(&mut state, id);
            return Err(Error::StreamCaptureUnmatched.because("the capture began on another stream"));
        }
        if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
            return Err(Error::StreamCaptureWrongThread.because("another thread began the capture"));
        }
        let Some(capture) = state.captures.remove(&id) else { return Err(invalidated()) };
        for event in state.events.values_mut() {
            event.captured.take_if(|(other, _)| *other == id);
        }
        let tail = &capture.tails[&stream];
        let joined = state.graphs.get(&capture.graph).is_some_and(|graph| graph.ends_in(tail));
        if capture.invalid || !joined {
            state.graphs.remove(&capture.graph);
            return Err(if capture.invalid {
                invalidated()
            } else {
                Error::StreamCaptureUnjoined.because("work on another stream of the capture was not waited for")
            });
        }
        out.write(capture.graph);
        Ok(())
    }

    /// Whether a stream captures: 0 no, 1 yes, 2 in vain.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidResourceHandle for an unknown
    /// stream; cudaErrorStreamCaptureImplicit for the default stream while one that it waits for
    /// captures.
    fn cudaStreamIsCapturing(stream: Handle, status: Out<i32>) {
        info(stream, Info { status, id: None, graph: None, nodes: None, edges: None, count: None })
    }

    /// The same with the number of the capture.
    ///
    /// Status: as cudaStreamIsCapturing.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: Out<i32>, id: Out<u64>) {
        info(stream, Info { status, id, graph: None, nodes: None, edges: None, count: None })
    }

    /// The same with its graph, and the nodes that the next comes after.
    ///
    /// Status: as cudaStreamIsCapturing.
    fn cudaStreamGetCaptureInfo_v2(
        stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>, count: Out<usize>,
    ) {
        info(stream, Info { status, id, graph, nodes, edges: None, count })
    }

    /// The same with data of edges, of which there is none.
    ///
    /// Status: as cudaStreamIsCapturing.
    fn cudaStreamGetCaptureInfo_v3(
        stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>,
        edges: Out<*const c_void>, count: Out<usize>,
    ) {
        info(stream, Info { status, id, graph, nodes, edges, count })
    }

    /// Adds nodes that the next one comes after (flags 0), or replaces them (1).
    ///
    /// Status: cudaErrorIllegalState if the stream does not capture; cudaErrorInvalidValue for
    /// other nodes or flags.
    fn cudaStreamUpdateCaptureDependencies(stream: Handle, nodes: *const Handle, count: usize, flags: u32) {
        update(stream, nodes, count, flags)
    }

    /// The same with data of edges, which says nothing here.
    ///
    /// Status: as cudaStreamUpdateCaptureDependencies.
    fn cudaStreamUpdateCaptureDependencies_v2(
        stream: Handle, nodes: *const Handle, edges: *const c_void, count: usize, flags: u32,
    ) {
        let _ = edges;
        update(stream, nodes, count, flags)
    }

    /// Exchanges how far this thread minds captures.
    ///
    /// Status: cudaErrorInvalidValue for NULL or an unknown mode.
    fn cudaThreadExchangeStreamCaptureMode(mode: Option<&mut i32>) {
        match mode {
            Some(mode) if (GLOBAL..=RELAXED).contains(mode) => {
                *mode = MODE.replace(*mode);
                Ok(())
            }
            mode => Err(Error::InvalidValue.because(format_args!("mode is {mode:?}, not one of 0 to 2"))),
        }
    }
}
