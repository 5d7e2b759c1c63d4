//! Streams that capture: what is put on them becomes nodes of a graph and does not happen.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::thread::ThreadId;

use super::error::{Error, Failure, Result};
use super::graph::Graph;
use super::operation::{LibraryCall, Operation};
use super::state::{Handle, State, state};
use super::stream::{self, PER_THREAD};
use super::{Out, put};

/// `cudaStreamCaptureMode`: other threads, or this one, may not do what a capture cannot hold.
const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;

/// Streams that capture into one graph.
pub struct Capture {
    graph: Handle,
    origin: Handle,
    mode: i32,
    thread: ThreadId,
    invalid: bool,
    /// For each stream, the nodes that its next one comes after.
    tails: HashMap<Handle, Vec<Handle>>,
    /// The list that cudaStreamGetCaptureInfo showed last.
    shown: Vec<Handle>,
}

thread_local! {
    /// What this thread exchanged; it begins global.
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// The capture that a stream takes part in.
pub(super) fn of(state: &State, stream: Handle) -> Option<u64> {
    state.captures.iter().find(|(_, capture)| capture.tails.contains_key(&stream)).map(|(id, _)| *id)
}

/// Has a capture fail in the end.
pub(super) fn invalidate(state: &mut State, id: u64) {
    if let Some(capture) = state.captures.get_mut(&id) {
        capture.invalid = true;
    }
}

/// Fails for calls that a capture cannot hold, such as allocations and waiting, and spoils the captures concerned.
pub(super) fn refuse_unsafe(state: &mut State) -> Result {
    let (mode, thread) = (MODE.get(), std::thread::current().id());
    let concerned = |capture: &Capture| match capture.mode.max(mode) {
        GLOBAL => true,
        THREAD_LOCAL => capture.thread == thread,
        _ => false,
    };
    let mut any = false;
    for capture in state.captures.values_mut().filter(|capture| concerned(capture)) {
        (capture.invalid, any) = (true, true);
    }
    if any {
        return Err(
            Error::StreamCaptureUnsupported.because("a stream captures, and its graph cannot hold this call")
        );
    }
    Ok(())
}

/// Fails for work on the default stream that would wait for a stream that captures.
fn refuse_implicit(state: &mut State, on: Handle) -> Result {
    if on >= PER_THREAD {
        return Ok(());
    }
    let State { captures, streams, .. } = state;
    let blocking = |stream: &Handle| streams.get(stream).is_none_or(|stream| !stream.is_non_blocking());
    let mut any = false;
    for capture in captures.values_mut().filter(|capture| capture.tails.keys().any(blocking)) {
        (capture.invalid, any) = (true, true);
    }
    if any {
        let rule = "the default stream waits for streams that were made blocking, and one of them captures";
        return Err(Error::StreamCaptureImplicit.because(rule));
    }
    Ok(())
}

fn invalidated() -> Failure {
    Error::StreamCaptureInvalidated.because("a call before this one spoiled the capture")
}

/// Adds a node behind what the stream captured so far; false if the stream does not capture.
fn keep(state: &mut State, on: Handle, operation: impl FnOnce() -> Operation) -> Result<bool> {
    stream::known(state, on)?;
    let Some(id) = of(state, on) else {
        refuse_implicit(state, on)?;
        return Ok(false);
    };
    let node = state.handle();
    let State { captures, graphs, .. } = state;
    let Some(capture) = captures.get_mut(&id).filter(|capture| !capture.invalid) else {
        return Err(invalidated());
    };
    let after = capture.tails.insert(on, vec![node]).unwrap_or_default();
    match graphs.get_mut(&capture.graph) {
        Some(graph) => graph.add(node, operation(), after),
        None => return Err(invalidated()),
    }
    Ok(true)
}

/// Puts work on a stream: done before this returns, unless the stream captures.
///
/// # Safety
/// As [`Operation::run`], now or when the graph is launched.
pub unsafe fn submit(on: Handle, operation: Operation) -> Result {
    if keep(&mut state(), on, || operation.clone())? {
        return Ok(());
    }
    // SAFETY: as this function's caller says.
    unsafe { operation.run() }
}

/// Records a library's call if the stream captures; false if it does not, and the library does it now. The call gets
/// everything it needs by value: numbers that the program passes by address are read before. It returns whether it
/// succeeded, when the graph is launched.
pub fn library_call(on: usize, name: &'static str, call: impl FnOnce() -> LibraryCall) -> Result<bool> {
    keep(&mut state(), on, || Operation::Library(name, call()))
}

/// Whether a stream captures.
pub fn is_capturing(on: usize) -> bool {
    on != 0 && of(&state(), on).is_some()
}

/// Records an event in a capture; false if the stream does not capture.
pub(super) fn record(state: &mut State, on: Handle, event: Handle, external: bool) -> Result<bool> {
    if external {
        return keep(state, on, || Operation::Record(event));
    }
    let Some(id) = of(state, on) else {
        refuse_implicit(state, on)?;
        return Ok(false);
    };
    let State { captures, events, .. } = state;
    let Some(capture) = captures.get(&id).filter(|capture| !capture.invalid) else {
        return Err(invalidated());
    };
    if let (Some(event), Some(tail)) = (events.get_mut(&event), capture.tails.get(&on)) {
        event.captured = Some((id, tail.clone()));
    }
    Ok(true)
}

/// Has a stream wait for an event: joins the capture that it was recorded in.
pub(super) fn wait(state: &mut State, on: Handle, event: Handle, external: bool) -> Result {
    if external {
        return keep(state, on, || Operation::Wait(event)).map(|_| ());
    }
    let captured = state.events.get(&event).and_then(|event| event.captured.clone());
    match (of(state, on), captured) {
        (None, None) => refuse_implicit(state, on),
        (Some(id), None) => {
            invalidate(state, id);
            let rule = "the stream captures, and the event was not recorded in the capture";
            Err(Error::StreamCaptureIsolation.because(rule))
        }
        (Some(own), Some((id, _))) if own != id => {
            invalidate(state, own);
            invalidate(state, id);
            Err(Error::StreamCaptureMerge.because("stream and event belong to two captures"))
        }
        (_, Some((id, nodes))) => {
            if on < PER_THREAD {
                invalidate(state, id);
                return Err(Error::StreamCaptureImplicit.because("the default stream cannot join a capture"));
            }
            if let Some(capture) = state.captures.get_mut(&id) {
                let tail = capture.tails.entry(on).or_default();
                tail.extend(nodes);
                tail.sort_unstable();
                tail.dedup();
            }
            Ok(())
        }
    }
}

/// Begins a capture into a graph, behind some of its nodes.
fn begin(state: &mut State, origin: Handle, graph: Handle, after: Vec<Handle>, mode: i32) {
    let id = state.handle() as u64;
    let capture = Capture {
        graph,
        origin,
        mode,
        thread: std::thread::current().id(),
        invalid: false,
        tails: HashMap::from([(origin, after)]),
        shown: Vec::new(),
    };
    state.captures.insert(id, capture);
}

/// Whether a stream may begin to capture.
fn may_begin(state: &State, on: Handle, mode: i32) -> Result {
    if !(GLOBAL..=RELAXED).contains(&mode) {
        return Err(Error::InvalidValue.because(format_args!("mode is {mode}, not 0 to 2")));
    }
    stream::known(state, on)?;
    if on < PER_THREAD {
        return Err(Error::StreamCaptureUnsupported.because("the default stream does not capture"));
    }
    if of(state, on).is_some() {
        return Err(Error::IllegalState.because("the stream captures already"));
    }
    shared()
}

/// Whether the libraries of this process find this copy of the runtime. Beside one that was linked statically they would
/// compute at once what they should leave to the graph.
fn shared() -> Result {
    let own: extern "C" fn(_) -> _ = cudnnShimHostIsCapturing;
    // SAFETY: a text that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cudnnShimHostIsCapturing".as_ptr()) };
    if found.addr() == own as usize {
        return Ok(());
    }
    let rule = "the runtime is linked statically, where libraries do not find it; captures need libcudart.so";
    Err(Error::NotSupported.because(rule))
}

/// Whether a stream captures, not 0 if it does, for libraries that leave their calls to graphs.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimHostIsCapturing(stream: Handle) -> i32 {
    i32::from(of(&state(), stream).is_some())
}

/// A call of a library outside, which is 0 if it succeeds, and what frees its data.
struct Foreign {
    run: unsafe extern "C" fn(*const c_void) -> i32,
    release: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: the library gives data that serves any thread, and several at once.
unsafe impl Send for Foreign {}
// SAFETY: the data serves several threads at once.
unsafe impl Sync for Foreign {}

impl Foreign {
    fn succeeds(&self) -> bool {
        // SAFETY: the data is that of the function, and not released yet.
        unsafe { (self.run)(self.data) == 0 }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: this is the data's only owner.
        unsafe { (self.release)(self.data) }
    }
}

/// Leaves a call of a library to the graph that a stream captures: `run(data)` at each launch, from any thread, and `release(data)` once
/// when no graph holds it any more. 0 if it was taken; 1, with nothing called, if the stream does not capture or its capture is spoiled.
///
/// # Safety
/// Both functions take `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnShimHostCapture(
    stream: Handle, run: unsafe extern "C" fn(*const c_void) -> i32,
    release: unsafe extern "C" fn(*mut c_void), data: *mut c_void,
) -> i32 {
    let taken = library_call(stream, "a call of cuDNN", || {
        let call = Foreign { run, release, data };
        Arc::new(move || call.succeeds())
    });
    i32::from(!matches!(taken, Ok(true)))
}

/// Copies a list of nodes that C passes.
pub(super) fn list(nodes: *const Handle, count: usize) -> Result<Vec<Handle>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if nodes.is_null() || count > isize::MAX as usize / size_of::<Handle>() {
        return Err(Error::InvalidValue.because(format_args!("{count} nodes at {nodes:p}")));
    }
    // SAFETY: not NULL, and the caller has as many handles there.
    Ok(unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec())
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
    stream::known(&state, on)?;
    let id = of(&state, on);
    if id.is_none() {
        refuse_implicit(&mut state, on)?;
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
    stream::known(&state, on)?;
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
    /// Status: cudaErrorInvalidValue for an unknown mode; cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorStreamCaptureUnsupported for the default stream; cudaErrorIllegalState if it captures already;
    /// cudaErrorNotSupported if the runtime is linked statically.
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
    /// Status: cudaErrorInvalidResourceHandle for an unknown stream; cudaErrorIllegalState if it does not capture;
    /// cudaErrorStreamCaptureUnmatched if another stream began; cudaErrorStreamCaptureWrongThread if another thread did;
    /// cudaErrorStreamCaptureInvalidated if a call spoiled it; cudaErrorStreamCaptureUnjoined if work on other streams was
    /// not waited for; cudaErrorInvalidValue for NULL.
    fn cudaStreamEndCapture(stream: Handle, graph: Out<Handle>) {
        let Some(out) = graph else { return Err(Error::InvalidValue.because("pGraph is NULL")) };
        out.write(0);
        let mut state = state();
        stream::known(&state, stream)?;
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
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorStreamCaptureImplicit for the default stream while one that it waits for captures.
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
    /// Status: cudaErrorIllegalState if the stream does not capture; cudaErrorInvalidValue for other nodes or flags.
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
