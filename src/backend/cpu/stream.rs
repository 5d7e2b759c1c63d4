//! Stores that bypass the caches, for results that leave them before anyone reads them.
//!
//! An ordinary store reads its line from memory before it overwrites it, so that writing costs twice. A line that
//! is written whole, by stores with a streaming hint, is not read. Bytes before the first and after the last whole
//! line go through the caches.

use super::Isa;

/// Results from this size on are larger than a core's share of most last-level caches.
pub(super) const STREAMING_BYTES: usize = 16 << 20;

/// A cache line.
pub(super) const LINE: usize = 64;

/// Copies `n` bytes past the caches. Whoever hands the result to another thread must first call [`fence`].
///
/// # Safety
/// `n` bytes are readable at `src` and writable at `dst`; they are the same bytes or do not overlap. The processor has the instructions of
/// the [`Isa`] that the function was chosen for.
pub(super) type Stream = unsafe fn(dst: *mut u8, src: *const u8, n: usize);

/// The streaming copy, if the processor has one.
pub(super) fn stream(isa: Isa) -> Option<Stream> {
    #[cfg(target_arch = "x86_64")]
    return Some(if isa.has_avx512() { x86::avx512 } else { x86::sse2 });
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        None
    }
}

/// Orders what was streamed before every later write of this thread.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE belongs to the architecture.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Asks for a line that is read soon.
#[inline(always)]
pub(super) fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Bytes from `p` to the next line.
pub(super) fn to_line(p: *const u8) -> usize {
    p.addr().wrapping_neg() % LINE
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE, to_line};
    use std::arch::x86_64::*;

    /// Defines one copy by how it moves a line.
    macro_rules! stream {
        ($name:ident, $feature:literal, |$to:ident, $from:ident| $line:block) => {
            /// # Safety
            /// As for [`super::Stream`].
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, n: usize) {
                let head = to_line(dst).min(n);
                let lines = (n - head) / LINE;
                let tail = n - head - lines * LINE;
                // SAFETY: the three parts make up the n bytes; every line starts at one.
                unsafe {
                    dst.copy_from(src, head);
                    let (mut $to, mut $from) = (dst.add(head), src.add(head));
                    for _ in 0..lines {
                        $line
                        $to = $to.add(LINE);
                        $from = $from.add(LINE);
                    }
                    $to.copy_from($from, tail);
                }
            }
        };
    }

    stream!(avx512, "avx512f", |to, from| {
        _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast()))
    });

    stream!(sse2, "sse2", |to, from| {
        for quarter in 0..4 {
            let value = _mm_loadu_si128(from.cast::<__m128i>().add(quarter));
            _mm_stream_si128(to.cast::<__m128i>().add(quarter), value);
        }
    });
}
