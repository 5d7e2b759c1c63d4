//! Events, with the time that really passes between them.

use super::capture;
use super::error::{Error, Result};
use super::model::Handle;
use super::model::event::Event;
use super::state::state;
use super::{Out, put};

/// `cudaEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;
/// The flags of an event: blocking, no timing, for other processes.
const FLAGS: u32 = 7;
/// `cudaEventRecordExternal`.
const EXTERNAL: u32 = 1;

fn create(out: Out<Handle>, flags: u32) -> Result {
    // What other processes see cannot have a time.
    if flags > FLAGS || flags & 4 != 0 && flags & DISABLE_TIMING == 0 {
        return Err(Error::InvalidValue.because(format_args!("flags is {flags}: 0 to 7, and 4 only with 2")));
    }
    let mut state = state();
    let handle = state.handle();
    put(out, "event", handle)?;
    state.events.insert(handle, Event { flags, ..Event::default() });
    Ok(())
}

fn record(event: Handle, on: Handle, flags: u32) -> Result {
    if flags > EXTERNAL {
        return Err(Error::InvalidValue.because(format_args!("flags is {flags}, not 0 or 1")));
    }
    {
        let mut state = state();
        state.has_event(event)?;
        state.has_stream(on)?;
        if capture::record(&mut state, on, event, flags == EXTERNAL)? {
            return Ok(());
        }
    }
    state().take_time(event)
}

/// Whether an event has happened, which one outside of captures has.
fn happened(event: Handle) -> Result {
    let mut state = state();
    state.has_event(event)?;
    let captured = state.events.get(&event).and_then(|event| event.captured.as_ref().map(|(id, _)| *id));
    match captured {
        None => Ok(()),
        Some(id) => {
            capture::invalidate(&mut state, id);
            Err(Error::CapturedEvent.because("the event was recorded in a capture; it happens at the launch"))
        }
    }
}

fn elapsed(out: Out<f32>, start: Handle, end: Handle) -> Result {
    let state = state();
    let mut times = [None; 2];
    for (time, (name, handle)) in times.iter_mut().zip([("start", start), ("end", end)]) {
        state.has_event(handle)?;
        let event = &state.events[&handle];
        *time = event.recorded.filter(|_| event.flags & DISABLE_TIMING == 0);
        if time.is_none() {
            let rule = format!("{name} has no time: it was never recorded, or made without timing");
            return Err(Error::InvalidResourceHandle.because(rule));
        }
    }
    let [Some(start), Some(end)] = times else { return Ok(()) };
    let before = start.saturating_duration_since(end).as_secs_f64();
    let milliseconds = 1e3 * (end.saturating_duration_since(start).as_secs_f64() - before);
    put(out, "ms", milliseconds as f32)
}

runtime! {
    /// An event with a time.
    ///
    /// Status: cudaErrorInvalidValue for NULL.
    fn cudaEventCreate(event: Out<Handle>) {
        create(event, 0)
    }

    /// An event; of the flags, 2 leaves out the time.
    ///
    /// Status: cudaErrorInvalidValue for NULL, unknown flags, or 4 without 2.
    fn cudaEventCreateWithFlags(event: Out<Handle>, flags: u32) {
        create(event, flags)
    }

    /// Ends an event.
    ///
    /// Status: cudaErrorInvalidResourceHandle for one that was not made or is destroyed already.
    fn cudaEventDestroy(event: Handle) {
        let mut state = state();
        state.has_event(event)?;
        state.events.remove(&event);
        Ok(())
    }

    /// Takes the time, in the order of a stream: all before it is done.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown event or stream.
    fn cudaEventRecord(event: Handle, stream: Handle) {
        record(event, stream, 0)
    }

    /// The same; with flag 1, a capture records when its graph is launched.
    ///
    /// Status: as cudaEventRecord; cudaErrorInvalidValue for flags above 1.
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) {
        record(event, stream, flags)
    }

    /// Waits for an event: it has happened.
    ///
    /// Status: cudaErrorInvalidResourceHandle for an unknown event; cudaErrorCapturedEvent for one
    /// of a capture.
    fn cudaEventSynchronize(event: Handle) {
        happened(event)
    }

    /// Whether an event has happened: it has.
    ///
    /// Status: as cudaEventSynchronize.
    fn cudaEventQuery(event: Handle) {
        happened(event)
    }

    /// Milliseconds from one event to another, negative if the second came first.
    ///
    /// Status: cudaErrorInvalidValue for NULL; cudaErrorInvalidResourceHandle for an unknown event,
    /// and one without a time.
    fn cudaEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}
