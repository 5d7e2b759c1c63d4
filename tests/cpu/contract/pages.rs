//! Memory whose first or last byte is the first or last one of its pages, between pages that nobody
//! may touch.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::tensor::Tensor;

/// Where bytes lie in their pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Front,
    Back,
}

pub const EDGES: [Edge; 2] = [Edge::Front, Edge::Back];

/// Some pages, and one on either side that cannot be accessed.
pub struct Pages {
    map: *mut u8,
    all: usize,
    bytes: *mut u8,
    len: usize,
    /// Where element 0 is, in bytes from the first one.
    zero: isize,
}

impl Pages {
    /// The span of a tensor, at an edge.
    pub fn of(tensor: &Tensor, edge: Edge) -> Pages {
        let (bytes, zero) = tensor.span();
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = bytes.len().next_multiple_of(page);
        let all = inner + 2 * page;
        // SAFETY: new pages, whose inner ones become accessible.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(map.add(page).cast(), inner, access), 0);
            map
        };
        let gap = if edge == Edge::Front { 0 } else { inner - bytes.len() };
        let pages =
            Pages { map, all, bytes: map.wrapping_add(page + gap), len: bytes.len(), zero: zero as isize };
        pages.set(tensor);
        pages
    }

    /// Makes the bytes those of a tensor of the same layout.
    pub fn set(&self, tensor: &Tensor) {
        let (bytes, _) = tensor.span();
        assert_eq!(bytes.len(), self.len);
        // SAFETY: as many bytes of these pages.
        unsafe { self.bytes.copy_from_nonoverlapping(bytes.as_ptr(), self.len) };
    }

    /// Where element 0 lies.
    pub fn base(&self) -> *mut u8 {
        self.bytes.wrapping_offset(self.zero)
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: bytes of these pages, all of them set.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`.
        unsafe { libc::munmap(self.map.cast(), self.all) };
    }
}

/// The case that each test of this program is at, which a fault names.
static CASES: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Says that test `test` is at `case`.
pub fn at_case(test: usize, case: usize) {
    static HANDLER: Once = Once::new();
    // SAFETY: the handler makes calls that are safe in one.
    HANDLER.call_once(|| unsafe {
        let handler: extern "C" fn(libc::c_int) = report;
        libc::signal(libc::SIGSEGV, handler as libc::sighandler_t);
    });
    CASES[test].store(case, Ordering::Relaxed);
}

/// Names the cases, and lets the fault take its course.
extern "C" fn report(signal: libc::c_int) {
    let mut text = *b"outside an operand; tests at the edges of pages are at cases 0000 0000 0000 0000\n";
    let at = text.len() - 20;
    for (test, case) in CASES.iter().enumerate() {
        let mut case = case.load(Ordering::Relaxed);
        for digit in (0..4).rev() {
            text[at + 5 * test + digit] = b'0' + (case % 10) as u8;
            case /= 10;
        }
    }
    // SAFETY: both calls are safe in handlers; the instruction runs again after it, and ends the
    // process.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::signal(signal, libc::SIG_DFL);
    }
}
