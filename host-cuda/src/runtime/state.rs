//! Everything the runtime remembers between calls, behind one lock that survives a fork.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, Once};

use super::capture::Capture;
use super::event::Event;
use super::graph::{Executable, Graph};
use super::kernel::Kernels;
use super::memory::Memory;
use super::pool::Pool;
use super::stream::Stream;

/// A stream, event, graph or pool as C holds it: a number that was never given out before, so that
/// one that was destroyed or never made is noticed.
pub type Handle = usize;

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
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
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
