//! `CUDNN_SHIM_HOST_CHECK=1`: every block ends at a page that nobody may touch, and fresh memory is
//! full of NaN.
//!
//! What is read before it was written shows as NaN. What reaches past the end stops the program at
//! the instruction, with a sentence about the block, but for the up to 15 bytes that alignment
//! leaves before the page: these, and those between the page before a block and its start, are
//! filled, and the program is stopped when the block is freed, or at its end, if they were written.
//! GPUs have no such debugger.

use std::sync::LazyLock;

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
    pub(crate) fn new(size: usize) -> Option<Guarded> {
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
    pub(crate) fn start(&self) -> usize {
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
        written.next().map(|at| self.distance(at))
    }

    /// Of a byte around the block from it: negative before it.
    fn distance(&self, at: usize) -> isize {
        let end = self.start + self.size;
        if at < self.start { -((self.start - at) as isize) } else { (at - end) as isize + 1 }
    }

    /// Whether this address lies in the block or in the pages around it.
    pub(crate) fn surrounds(&self, address: usize) -> bool {
        (self.map..self.map + self.length).contains(&address)
    }

    /// Says that a byte around the block was touched.
    pub(crate) fn tell_touched(&self, address: usize) {
        self.accuse("touched", self.distance(address));
    }

    /// Says whether bytes around the block were written; whether they were.
    pub(crate) fn tell(&self) -> bool {
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
    pub(crate) fn release(self) {
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
pub(crate) fn stop() -> ! {
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
