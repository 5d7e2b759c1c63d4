//! Streams that capture: what is put on them becomes nodes of a graph and does not happen.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use super::error::{Error, Failure, Result};
use super::model::Handle;
use super::model::capture::{Capture, GLOBAL, RELAXED, THREAD_LOCAL};
use super::model::operation::{LibraryCall, Operation};
use super::model::stream::{PER_THREAD, Stream};
use super::state::{State, state};

pub mod entry;

pub(super) use entry::list;

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

/// Fails for calls that a capture cannot hold, such as allocations and waiting, and spoils the
/// captures concerned.
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

/// Whether a stream waits for one that this capture has: it is the default stream, and one of them
/// was made blocking.
fn waits(on: Handle, capture: &Capture, streams: &HashMap<Handle, Stream>) -> bool {
    let is_blocking = |stream: &Handle| streams.get(stream).is_none_or(|stream| !stream.is_non_blocking());
    on < PER_THREAD && capture.tails.keys().any(is_blocking)
}

fn implicit() -> Failure {
    let rule = "the default stream waits for streams that were made blocking, and one of them captures";
    Error::StreamCaptureImplicit.because(rule)
}

/// Fails for work on the default stream that would wait for a stream that captures, and spoils the
/// captures concerned.
pub(super) fn refuse_implicit(state: &mut State, on: Handle) -> Result {
    let State { captures, streams, .. } = state;
    let mut any = false;
    for capture in captures.values_mut().filter(|capture| waits(on, capture, streams)) {
        (capture.invalid, any) = (true, true);
    }
    if any { Err(implicit()) } else { Ok(()) }
}

/// Fails for a question about the default stream while it would wait for a stream that captures;
/// the capture goes on.
fn refuse_question(state: &State, on: Handle) -> Result {
    let any = state.captures.values().any(|capture| waits(on, capture, &state.streams));
    if any { Err(implicit()) } else { Ok(()) }
}

/// Fails for a call that no graph holds, on a stream that captures or waits for one, and spoils the
/// captures concerned.
pub(super) fn refuse_unheld(state: &mut State, on: Handle) -> Result {
    state.has_stream(on)?;
    let Some(id) = of(state, on) else { return refuse_implicit(state, on) };
    invalidate(state, id);
    Err(Error::StreamCaptureUnsupported.because("the stream captures, and its graph cannot hold this call"))
}

/// Fails for a library's call that waits for the device, as cudaMemcpy does, while a capture
/// forbids it.
///
/// # Errors
/// As cudaMemcpy in a capture, which it spoils.
pub fn refuse_waiting() -> Result {
    refuse_unsafe(&mut state())
}

fn invalidated() -> Failure {
    Error::StreamCaptureInvalidated.because("a call before this one spoiled the capture")
}

/// Adds a node behind what the stream captured so far; false if the stream does not capture.
fn keep(state: &mut State, on: Handle, operation: impl FnOnce() -> Operation) -> Result<bool> {
    state.has_stream(on)?;
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

impl Operation {
    /// Does it.
    ///
    /// # Safety
    /// The memory that it names is still there, and the functions that it calls may be called from
    /// here.
    pub unsafe fn run(&self) -> Result {
        match self {
            Operation::Empty | Operation::Wait(_) => Ok(()),
            Operation::Copy(copy) => {
                // SAFETY: as this function's caller says.
                unsafe { copy.run() };
                Ok(())
            }
            Operation::Set(set) => {
                // SAFETY: as this function's caller says.
                unsafe { set.run() };
                Ok(())
            }
            Operation::Host(call) => {
                if let Some(function) = call.function {
                    // SAFETY: as this function's caller says.
                    unsafe { function(call.data) };
                }
                Ok(())
            }
            Operation::Record(event) => state().take_time(*event),
            // SAFETY: as this function's caller says.
            Operation::Child(operations) => operations.iter().try_for_each(|each| unsafe { each.run() }),
            Operation::Library(name, call) => {
                if call() {
                    return Ok(());
                }
                Err(Error::IllegalState
                    .because(format_args!("{name}, recorded in the graph, fails at the launch")))
            }
        }
    }
}

/// Does a checked copy or filling before it returns, which no capture holds.
pub(super) fn now(operation: Operation) -> Result {
    {
        let mut state = state();
        refuse_unsafe(&mut state)?;
        state.check(&operation)?;
    }
    // SAFETY: the check found the rows inside their blocks; memory of the program's own is its
    // caller's to vouch for.
    unsafe { operation.run() }
}

/// Does a checked copy or filling in the order of a stream.
pub(super) fn ordered(on: Handle, operation: Operation) -> Result {
    state().check(&operation)?;
    // SAFETY: as for `now`.
    unsafe { submit(on, operation) }
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

/// Records a library's call if the stream captures; false if it does not, and the library does it
/// now. The call gets everything it needs by value: numbers that the program passes by address are
/// read before. It returns whether it succeeded, when the graph is launched.
pub fn library_call(on: usize, name: &'static str, call: impl FnOnce() -> LibraryCall) -> Result<bool> {
    keep(&mut state(), on, || Operation::Library(name, call()))
}

/// Whether a stream captures, or waits for one that does.
pub fn is_held(on: usize) -> bool {
    let state = state();
    of(&state, on).is_some() || refuse_question(&state, on).is_err()
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
    state.has_stream(on)?;
    if on < PER_THREAD {
        return Err(Error::StreamCaptureUnsupported.because("the default stream does not capture"));
    }
    if of(state, on).is_some() {
        return Err(Error::IllegalState.because("the stream captures already"));
    }
    shared()
}

/// Whether the libraries of this process find this copy of the runtime. Beside one that was linked
/// statically they would compute at once what they should leave to the graph.
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

/// Whether a stream captures or waits for one that does, not 0 if so, for libraries that leave
/// their calls to graphs. On the default stream, which captures nothing, the graph then does not
/// take the call.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnShimHostIsCapturing(stream: Handle) -> i32 {
    i32::from(is_held(stream))
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

/// Leaves a call of a library to the graph that a stream captures: `run(data)` at each launch, from
/// any thread, and `release(data)` once when no graph holds it any more. 0 if it was taken; 1, with
/// nothing called, if the stream does not capture or its capture is spoiled.
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
