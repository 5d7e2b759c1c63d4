//! Everything the runtime remembers between calls, behind one lock that survives a fork.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, Once};
use std::time::Instant;

use super::error::{Error, Result};
use super::model::Handle;
use super::model::capture::Capture;
use super::model::event::Event;
use super::model::graph::{Executable, Graph};
use super::model::guarded;
use super::model::kernels::Kernels;
use super::model::memory::Memory;
use super::model::operation::{HostCall, Operation};
use super::model::pool::Pool;
use super::model::stream::{PER_THREAD, Stream};

/// Handles count up from here, in steps that pointers have, too.
const FIRST: Handle = 0x10_0000;

/// What the runtime remembers.
#[derive(Default)]
pub struct State {
    pub(super) memory: Memory,
    pub(super) streams: HashMap<Handle, Stream>,
    pub(super) events: HashMap<Handle, Event>,
    pub(super) captures: HashMap<u64, Capture>,
    pub(super) graphs: HashMap<Handle, Graph>,
    pub(super) executables: HashMap<Handle, Executable>,
    pub(super) pools: HashMap<Handle, Pool>,
    pub(super) kernels: Kernels,
    handles: Handle,
}

impl State {
    /// A handle that nobody has.
    pub(super) fn handle(&mut self) -> Handle {
        self.handles += 16;
        FIRST + self.handles
    }

    /// Whether C may use this stream.
    pub(crate) fn has_stream(&self, stream: Handle) -> Result {
        if stream <= PER_THREAD || self.streams.contains_key(&stream) {
            return Ok(());
        }
        Err(Error::InvalidResourceHandle
            .because(format_args!("{stream:#x} is no stream: never made, or destroyed")))
    }

    /// Whether C may use this event.
    pub(super) fn has_event(&self, event: Handle) -> Result {
        if self.events.contains_key(&event) {
            return Ok(());
        }
        Err(Error::InvalidResourceHandle
            .because(format_args!("{event:#x} is no event: never made, or destroyed")))
    }

    /// Checks what an operation names.
    pub(super) fn check(&self, operation: &Operation) -> Result {
        match operation {
            Operation::Copy(copy) => copy.check(&self.memory),
            Operation::Set(set) => set.check(&self.memory),
            Operation::Host(HostCall { function: None, .. }) => {
                Err(Error::InvalidValue.because("fn is NULL"))
            }
            Operation::Record(event) | Operation::Wait(event) => self.has_event(*event),
            _ => Ok(()),
        }
    }

    /// Records an event now.
    pub(super) fn take_time(&mut self, event: Handle) -> Result {
        self.has_event(event)?;
        if let Some(event) = self.events.get_mut(&event) {
            (event.recorded, event.captured) = (Some(Instant::now()), None);
        }
        Ok(())
    }

    /// Forgets everything that a program made; its kernels and variables stay, as it registers them
    /// once.
    pub(super) fn reset(&mut self) {
        let variables = self.kernels.memory();
        self.memory.clear(&variables);
        self.streams.clear();
        self.events.clear();
        self.captures.clear();
        self.graphs.clear();
        self.executables.clear();
        self.pools.clear();
    }
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// The state, locked. No call out of this library may happen while it is: callbacks come back to
/// it.
pub fn state() -> MutexGuard<'static, State> {
    static FIRST_CALL: Once = Once::new();
    FIRST_CALL.call_once(|| {
        if guarded::is_on() {
            watch();
        }
        // SAFETY: the three functions stay mapped as long as the process lives, and do not unwind.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    locked()
}

/// The state, unless somebody has it locked: for signal handlers, which must not wait.
pub fn state_unless_locked() -> Option<MutexGuard<'static, State>> {
    STATE.try_lock().ok()
}

fn locked() -> MutexGuard<'static, State> {
    // Whoever panicked under the lock left the maps whole: they are changed by single insertions
    // and removals.
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The lock, while a thread forks. No variable of the thread: without memory to register its
/// destructor the process would end.
struct Held(UnsafeCell<Option<MutexGuard<'static, State>>>);

// SAFETY: only the thread that holds the lock looks inside.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// The child has the forking thread alone, and needs the state whole and the lock free.
extern "C" fn before_fork() {
    let lock = locked();
    // SAFETY: this thread has the lock.
    unsafe { *HELD.0.get() = Some(lock) };
}

extern "C" fn after_fork() {
    // SAFETY: this thread, or the one it is a copy of, has the lock; it is given up when nothing
    // refers to the place any more.
    let lock = unsafe { (*HELD.0.get()).take() };
    drop(lock);
}

/// Has the blocks that are left checked at the end, and the touch of a closed page told.
fn watch() {
    // SAFETY: the functions stay mapped as long as the process lives; the old action goes to a
    // value of its type.
    unsafe {
        libc::atexit(at_end);
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut old);
        // Programs with a handler of their own keep it.
        if old.sa_sigaction == libc::SIG_DFL {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = touched as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
            libc::sigaction(libc::SIGSEGV, &new, std::ptr::null_mut());
        }
    }
}

extern "C" fn at_end() {
    let broken = state().memory.guarded().filter(|block| block.tell()).count();
    if broken > 0 {
        guarded::stop();
    }
}

/// The program stops when this returns: the default action is back, and the access is tried again.
extern "C" fn touched(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO this structure.
    let address = unsafe { (*info).si_addr() }.addr();
    let Some(state) = state_unless_locked() else { return };
    if let Some(block) = state.memory.guarded().find(|block| block.surrounds(address)) {
        block.tell_touched(address);
    }
}
