//! `CUDNN_SHIM_HOST_CHECK=1`: every block ends at a page that nobody may touch, and fresh memory is
//! full of NaN.
//!
//! What is read before it was written shows as NaN. What reaches past the end stops the program at
//! the instruction, with a sentence about the block, but for the up to 15 bytes that alignment
//! leaves before the page: these, and those between the page before a block and its start, are
//! filled, and the program is stopped when the block is freed, or at its end, if they were written.
//! GPUs have no such debugger.

use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Once};

use super::state::{state, state_unless_locked};
use crate::report;

static ON: LazyLock<bool> = LazyLock::new(|| {
    std::env::var("CUDNN_SHIM_HOST_CHECK").is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
});

/// Whether blocks are guarded; read once.
pub fn is_on() -> bool {
    *ON
}

/// Every byte of fresh memory: NaN in each floating type, -1 in each integer.
const FRESH: u8 = 0xff;
/// The bytes between a block's end and the page behind it, for its start is aligned.
const FENCE: u8 = 0xc5;

/// What guarded blocks begin at a multiple of, so that they end near the page: what vectors of
/// CUDA's types need. Blocks that are not guarded have more.
const ALIGNMENT: usize = 16;

/// A block between two pages that nobody may touch.
pub struct Guarded {
    map: usize,
    length: usize,
    start: usize,
    size: usize,
}

impl Guarded {
    /// At least `size` fresh bytes; nothing if the machine has no more.
    pub(super) fn new(size: usize) -> Option<Guarded> {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(watch);
        let page = page();
        let body = size.checked_next_multiple_of(page)?;
        let length = body.checked_add(2 * page)?;
        // SAFETY: a fresh mapping that no one else knows.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0)
        };
        if map == libc::MAP_FAILED {
            return None;
        }
        let map = map.expose_provenance();
        let guarded =
            Guarded { map, length, start: map + page + (body - size) / ALIGNMENT * ALIGNMENT, size };
        let inside: *mut u8 = std::ptr::with_exposed_provenance_mut(map + page);
        // SAFETY: the pages between the first and the last are of this mapping, and are writable
        // before they are written.
        let opened = unsafe { libc::mprotect(inside.cast(), body, libc::PROT_READ | libc::PROT_WRITE) } == 0;
        if !opened {
            guarded.unmap();
            return None;
        }
        let before = guarded.start - (map + page);
        // SAFETY: the body is writable now, and the three parts make it up.
        unsafe {
            inside.write_bytes(FENCE, before);
            inside.add(before).write_bytes(FRESH, size);
            inside.add(before + size).write_bytes(FENCE, body - before - size);
        }
        Some(guarded)
    }

    /// The first byte of the block.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The distance from the block of the first byte around it, up to the pages, that was written:
    /// negative before it.
    fn broken(&self) -> Option<isize> {
        let (first, end) = (self.map + page(), self.map + self.length - page());
        let around = (first..self.start).chain(self.start + self.size..end);
        let mut written = around.filter(|&at| {
            // SAFETY: between the two closed pages, which nobody unmaps while the block is there.
            let byte = unsafe { std::ptr::with_exposed_provenance::<u8>(at).read_volatile() };
            byte != FENCE
        });
        let distance = |at: usize| {
            let end = self.start + self.size;
            if at < self.start { -((self.start - at) as isize) } else { (at - end) as isize + 1 }
        };
        written.next().map(distance)
    }

    /// Says whether bytes around the block were written; whether they were.
    fn tell(&self) -> bool {
        let broken = self.broken();
        if let Some(distance) = broken {
            self.accuse("written", distance);
        }
        broken.is_some()
    }

    fn accuse(&self, what: &str, distance: isize) {
        let side = if distance < 0 { "before the start" } else { "past the end" };
        report::always(format_args!(
            "{what} {} bytes {side} of the block of {} bytes at {:#x}",
            distance.unsigned_abs(),
            self.size,
            self.start
        ));
    }

    /// Checks the bytes around the block, stops the program if they were written, and gives the
    /// block back; who touches it later is stopped.
    pub(super) fn release(self) {
        if self.tell() {
            stop();
        }
        self.unmap();
    }

    fn unmap(&self) {
        // SAFETY: the whole mapping, which is not used after this.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.map), self.length) };
    }
}

/// Ends the program with SIGABRT, its output written.
fn stop() -> ! {
    // SAFETY: NULL stands for all streams; nothing of this library is needed any more.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::abort()
    }
}

fn page() -> usize {
    // SAFETY: a query without pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
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
        stop();
    }
}

/// The program stops when this returns: the default action is back, and the access is tried again.
extern "C" fn touched(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO this structure.
    let address = unsafe { (*info).si_addr() }.addr();
    let Some(state) = state_unless_locked() else { return };
    let near = state.memory.guarded().find(|block| (block.map..block.map + block.length).contains(&address));
    if let Some(block) = near {
        let end = block.start + block.size;
        let distance = if address < block.start {
            -((block.start - address) as isize)
        } else {
            (address - end) as isize + 1
        };
        block.accuse("touched", distance);
    }
}
