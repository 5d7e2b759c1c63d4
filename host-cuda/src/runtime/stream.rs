//! Streams. What is put on one has happened when the call returns, unless the stream captures.

use std::ffi::c_void;

use super::capture;
use super::error::{Code, Error, Result, SUCCESS};
use super::model::Handle;
use super::model::operation::{HostCall, HostFunction, Operation};
use super::model::stream::{ATTRIBUTE, DEFAULT, LEGACY, NON_BLOCKING, PRIORITIES, Stream};
use super::state::state;
use super::{Out, put};

fn create(out: Out<Handle>, flags: u32, priority: i32) -> Result {
    if flags > NON_BLOCKING {
        return Err(Error::InvalidValue.because(format_args!("flags is {flags}, not 0 or 1")));
    }
    let mut state = state();
    let handle = state.handle();
    put(out, "pStream", handle)?;
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    state.streams.insert(handle, Stream { flags, priority, attributes: Vec::new() });
    Ok(())
}

/// Nothing is pending on any stream, but a stream that captures, or waits for one that does, must
/// not be asked.
fn finished(stream: Handle) -> Result {
    capture::refuse_unheld(&mut state(), stream)
}

/// `cudaStreamCallback_t`.
type Callback = Option<unsafe extern "C" fn(Handle, Code, *mut c_void)>;

runtime! {
    /// A stream.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaStreamCreate(stream: Out<Handle>) {
        create(stream, 0, 0)
    }

    /// A stream that waits for the default stream (0), or not (1).
    ///
    /// Status: cudaErrorInvalidValue for NULL or other flags.
    fn cudaStreamCreateWithFlags(stream: Out<Handle>, flags: u32) {
        create(stream, flags, 0)
    }

    /// The same with a priority, which is cut to those that there are.
    ///
    /// Status: as cudaStreamCreateWithFlags.
    fn cudaStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) {
        create(stream, flags, priority)
    }

    /// Ends a stream; what it captured is lost.
    ///
    /// Status: cudaErrorInvalidResourceHandle for one that was not made or is destroyed already.
    fn cudaStreamDestroy(stream: Handle) {
        let mut state = state();
        if let Some(id) = capture::of(&state, stream) {
            capture::invalidate(&mut state, id);
        }
        match state.streams.remove(&stream) {
            Some(_) => Ok(()),
            None => Err(Error::InvalidResourceHandle.because(format_args!("{stream:#x} is no stream that was made"))),
        }
    }

    /// Waits for a stream: all is done.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown stream;
    /// cudaErrorStreamCaptureUnsupported for one that captures; cudaErrorStreamCaptureImplicit for
    /// the default stream while one that it waits for captures.
    fn cudaStreamSynchronize(stream: Handle) {
        finished(stream)
    }

    /// Whether a stream is done: it is.
    ///
    /// Status: as cudaStreamSynchronize.
    fn cudaStreamQuery(stream: Handle) {
        finished(stream)
    }

    /// Has a stream wait for an event, which has happened; captured, it joins the capture of the
    /// event.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown stream or event; cudaErrorInvalidValue
    /// for flags above 1.
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: u32) {
        if flags > 1 {
            return Err(Error::InvalidValue.because(format_args!("flags is {flags}, not 0 or 1")));
        }
        let mut state = state();
        state.has_stream(stream)?;
        state.has_event(event)?;
        capture::wait(&mut state, stream, event, flags == 1)
    }

    /// The flags that a stream was made with.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidResourceHandle for an unknown
    /// stream.
    fn cudaStreamGetFlags(stream: Handle, flags: Out<u32>) {
        let state = state();
        state.has_stream(stream)?;
        put(flags, "flags", state.streams.get(&stream).map_or(0, |stream| stream.flags))
    }

    /// The priority of a stream.
    ///
    /// Status: as cudaStreamGetFlags.
    fn cudaStreamGetPriority(stream: Handle, priority: Out<i32>) {
        let state = state();
        state.has_stream(stream)?;
        put(priority, "priority", state.streams.get(&stream).map_or(0, |stream| stream.priority))
    }

    /// A number that no other stream has.
    ///
    /// Status: as cudaStreamGetFlags.
    fn cudaStreamGetId(stream: Handle, id: Out<u64>) {
        state().has_stream(stream)?;
        put(id, "streamId", if stream == DEFAULT { LEGACY as u64 } else { stream as u64 })
    }

    /// The device of a stream.
    ///
    /// Status: as cudaStreamGetFlags.
    fn cudaStreamGetDevice(stream: Handle, device: Out<i32>) {
        state().has_stream(stream)?;
        put(device, "device", 0)
    }

    /// Keeps an attribute; nothing follows from it.
    ///
    /// Status: as cudaStreamGetFlags.
    fn cudaStreamSetAttribute(stream: Handle, attribute: i32, value: Option<&[u8; ATTRIBUTE]>) {
        let mut state = state();
        state.has_stream(stream)?;
        let Some(value) = value else { return Err(Error::InvalidValue.because("value_in is NULL")) };
        if let Some(stream) = state.streams.get_mut(&stream) {
            stream.attributes.retain(|(other, _)| *other != attribute);
            stream.attributes.push((attribute, *value));
        }
        Ok(())
    }

    /// An attribute as it was set, zeros if it was not.
    ///
    /// Status: as cudaStreamGetFlags.
    fn cudaStreamGetAttribute(stream: Handle, attribute: i32, value: Out<[u8; ATTRIBUTE]>) {
        let state = state();
        state.has_stream(stream)?;
        let set = state.streams.get(&stream).map_or(&[][..], |stream| &stream.attributes);
        let found = set.iter().find(|(other, _)| *other == attribute);
        put(value, "value_out", found.map_or([0; ATTRIBUTE], |(_, value)| *value))
    }

    /// Gives a stream the attributes of another.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown stream.
    fn cudaStreamCopyAttributes(to: Handle, from: Handle) {
        let mut state = state();
        state.has_stream(to)?;
        state.has_stream(from)?;
        let attributes = state.streams.get(&from).map(|stream| stream.attributes.clone()).unwrap_or_default();
        if let Some(stream) = state.streams.get_mut(&to) {
            stream.attributes = attributes;
        }
        Ok(())
    }

    /// Calls a function of the program in the order of a stream, from this thread.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidResourceHandle for an unknown
    /// stream.
    fn cudaLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) {
        if function.is_none() {
            return Err(Error::InvalidValue.because("fn is NULL"));
        }
        // SAFETY: the program hands the function over for this.
        unsafe { capture::submit(stream, Operation::Host(HostCall { function, data })) }
    }

    /// The same with a mode of waiting behind.
    ///
    /// Status: as cudaLaunchHostFunc.
    fn cudaLaunchHostFunc_v2(stream: Handle, function: Option<HostFunction>, data: *mut c_void, mode: u32) {
        let _ = mode;
        if function.is_none() {
            return Err(Error::InvalidValue.because("fn is NULL"));
        }
        // SAFETY: the program hands the function over for this.
        unsafe { capture::submit(stream, Operation::Host(HostCall { function, data })) }
    }

    /// Calls a function of the program with the stream's status, from this thread.
    ///
    /// Status: as cudaLaunchHostFunc; cudaErrorInvalidValue for flags;
    /// cudaErrorStreamCaptureUnsupported in a capture.
    fn cudaStreamAddCallback(stream: Handle, callback: Callback, data: *mut c_void, flags: u32) {
        let Some(callback) = callback.filter(|_| flags == 0) else {
            return Err(Error::InvalidValue.because(format_args!("callback is NULL, or flags is {flags}, not 0")));
        };
        finished(stream)?;
        // SAFETY: the program hands the function over for this.
        unsafe { callback(stream, SUCCESS, data) };
        Ok(())
    }
}
