//! Stores that bypass the caches, for results that leave them before anyone reads them.
//!
//! An ordinary store reads its line from memory before it overwrites it, so that writing costs
//! twice. A line that is written whole, by stores with a streaming hint, is not read. Bytes before
//! the first and after the last whole line go through the caches.

use super::Isa;

/// Results from this size on are larger than a core's share of most last-level caches.
pub(super) const STREAMING_BYTES: usize = 16 << 20;

/// A cache line.
pub(super) const LINE: usize = 64;

/// Copies `n` bytes past the caches. A caller that passes the result to another thread must first
/// call [`fence`].
///
/// # Safety
/// `n` bytes are readable at `src` and writable at `dst`; they are the same bytes or do not
/// overlap. The processor has the instructions of the [`Isa`] that the function was chosen for.
pub(super) type Stream = unsafe fn(dst: *mut u8, src: *const u8, n: usize);

/// Contiguous bytes of the destination that are put together piece by piece and streamed as they
/// come.
///
/// Pieces start where they may, lines where they must: of a piece from byte `a` to `b`, what is
/// written ends `to_line(dst)` bytes behind `b - LINE`, where a line starts. The rest is kept: a
/// copy of the last line of a piece lies before the next one.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    /// Where byte 0 of the first piece goes.
    pub dst: *mut u8,
    /// The bytes that are to be written.
    pub from: usize,
    pub end: usize,
}

impl Stretch {
    /// Nothing.
    pub const NONE: Self = Stretch { dst: std::ptr::null_mut(), from: 0, end: 0 };

    /// Writes what has come with the `n` bytes of `piece`, which are those of the stretch from
    /// `begin` on; all of it if they are the last, else up to a line. `copy` is called at most
    /// once, with its destination, source and bytes.
    ///
    /// # Safety
    /// The piece is readable, and the destination's bytes are writable. Unless this is the only
    /// piece, the line before it is writable and holds the bytes before `begin`, as many as there
    /// are.
    pub unsafe fn write(
        &self, mut copy: impl FnMut(*mut u8, *const u8, usize), piece: *mut u8, begin: usize, n: usize,
        last: bool,
    ) {
        let lag = LINE - to_line(self.dst);
        let low = begin.saturating_sub(lag).max(self.from);
        let high = if last { self.end } else { (begin + n).saturating_sub(lag).min(self.end) };
        // SAFETY: `low` to `high` are bytes of the piece or of the line before it, with places in
        // the destination.
        unsafe {
            if low < high {
                copy(self.dst.add(low), piece.wrapping_add(low).wrapping_sub(begin), high - low);
            }
            if !last {
                keep(piece, n);
            }
        }
    }
}

/// Copies the last line of a piece of `n` bytes before it. If the piece has less than a line, what
/// was before it is a part of that.
///
/// # Safety
/// The piece is readable, and the line before it readable and writable.
#[inline(always)]
unsafe fn keep(piece: *mut u8, n: usize) {
    // SAFETY: the piece and the line before it end with a whole line; the one before it is
    // writable.
    unsafe {
        let last = piece.wrapping_add(n).wrapping_sub(LINE).cast::<[u8; LINE]>().read();
        piece.sub(LINE).cast::<[u8; LINE]>().write(last);
    }
}

/// Streams the whole lines of a piece of each stretch: `lines` lines of their bytes from `begin`
/// on, less what lags behind. Their pieces are `pitch` bytes apart. Of the first ones, what comes
/// before the first line is left out.
///
/// # Safety
/// As for [`Stretch::write`]; none of the pieces is the last, or its stretch ends where the last
/// line of it does.
pub(super) type StreamPieces =
    unsafe fn(stretches: &[Stretch], pieces: *mut u8, pitch: usize, begin: usize, lines: usize);

/// How a processor writes past its caches.
#[derive(Clone, Copy)]
pub(super) struct Streams {
    pub copy: Stream,
    pub pieces: StreamPieces,
}

/// The streaming stores, if the processor has any.
pub(super) fn streams(isa: Isa) -> Option<Streams> {
    #[cfg(target_arch = "x86_64")]
    return Some(if isa.has_avx512() { x86::avx512::STREAMS } else { x86::sse2::STREAMS });
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        None
    }
}

/// Bytes that are streamed before something else is asked for.
const PART: usize = 4 * LINE;

/// Streams `n` bytes, and calls `between` after each of [`parts`]: memory is busy meanwhile, and
/// what it is asked for then comes sooner than what it is asked for at once, before or after.
///
/// # Safety
/// As for [`Stream`].
pub(super) unsafe fn in_parts(
    copy: Stream, dst: *mut u8, src: *const u8, n: usize, mut between: impl FnMut(),
) {
    let mut done = 0;
    while done < n {
        // Each ends where a line does.
        let part = (PART + to_line(dst.wrapping_add(done))).min(n - done);
        // SAFETY: some of the bytes.
        unsafe { copy(dst.add(done), src.add(done), part) };
        between();
        done += part;
    }
}

/// How many parts of about [`PART`] bytes `bytes` bytes are.
pub(super) fn parts(bytes: usize) -> usize {
    bytes / PART + 1
}

/// Orders what was streamed before every later write of this thread.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE belongs to the architecture.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Defines how to ask for a line.
macro_rules! fetch {
    ($(#[$doc:meta])* $name:ident, $hint:ident, $operation:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name(line: *const u8) {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64::{$hint, _mm_prefetch};
                // SAFETY: a prefetch touches nothing.
                unsafe { _mm_prefetch::<$hint>(line.cast()) };
            }
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            // SAFETY: a prefetch touches nothing; an address that cannot be read is ignored.
            unsafe {
                std::arch::asm!(
                    concat!("prfm ", $operation, ", [{}]"),
                    in(reg) line.addr(),
                    options(nomem, nostack, preserves_flags)
                )
            };
            #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
            let _ = line;
        }
    };
}

fetch!(
    /// Asks for a line that is read soon.
    fetch,
    _MM_HINT_T0,
    "pldl1keep"
);

fetch!(
    /// Prefetches a line into L2: it is read after more than the first-level cache holds.
    prefetch_l2,
    _MM_HINT_T1,
    "pldl2keep"
);

/// Asks for bytes that are read soon, where processors do not foresee it: they come from several
/// places in alternation.
#[inline(always)]
pub(super) fn fetch_run(from: *const u8, bytes: usize) {
    (0..bytes).step_by(LINE).for_each(|offset| fetch(from.wrapping_add(offset)));
}

/// Bytes between the cells in work and those that are asked for meanwhile, by loops along straight
/// lines. Processors foresee these, but not beyond a page, and ask for fewer lines at a time than
/// memory can deliver.
#[derive(Clone, Copy)]
pub(super) enum Distance {
    /// For cells that are read.
    Read = 2 << 10,
    /// For cells that are written, which are in the first-level cache until then.
    Written = 1 << 10,
    /// For cells that are read and written: loops that do both wait for the same lines more often.
    Updated = 4 << 10,
}

impl Distance {
    /// Asks for what is to come behind these bytes.
    #[inline(always)]
    pub fn fetch(self, from: *const u8, bytes: usize) {
        fetch_run(from.wrapping_add(self as usize), bytes);
    }
}

/// Bytes from `p` to the next line.
pub(super) fn to_line(p: *const u8) -> usize {
    p.addr().wrapping_neg() % LINE
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE, Streams, Stretch, keep, to_line};
    use std::arch::x86_64::*;

    /// Defines a module by how it moves a line.
    macro_rules! streams {
        ($name:ident, $feature:literal, |$to:ident, $from:ident| $line:block) => {
            pub(super) mod $name {
                use super::*;

                pub const STREAMS: Streams = Streams { copy, pieces };

                /// # Safety
                /// The lines are readable and writable; they start where lines do in the
                /// destination.
                #[target_feature(enable = $feature)]
                #[inline]
                unsafe fn stream(mut $to: *mut u8, mut $from: *const u8, lines: usize) {
                    for _ in 0..lines {
                        // SAFETY: a line.
                        unsafe { $line }
                        ($to, $from) = ($to.wrapping_add(LINE), $from.wrapping_add(LINE));
                    }
                }

                /// # Safety
                /// As for [`Stream`](super::super::Stream).
                #[target_feature(enable = $feature)]
                unsafe fn copy(dst: *mut u8, src: *const u8, n: usize) {
                    let head = to_line(dst).min(n);
                    let lines = (n - head) / LINE;
                    let end = head + lines * LINE;
                    // SAFETY: the three parts make up the n bytes; every line starts at one.
                    unsafe {
                        if head > 0 {
                            dst.copy_from(src, head);
                        }
                        stream(dst.add(head), src.add(head), lines);
                        if end < n {
                            dst.add(end).copy_from(src.add(end), n - end);
                        }
                    }
                }

                /// # Safety
                /// As for [`StreamPieces`](super::super::StreamPieces).
                #[target_feature(enable = $feature)]
                unsafe fn pieces(
                    stretches: &[Stretch], pieces: *mut u8, pitch: usize, begin: usize, lines: usize,
                ) {
                    let first = usize::from(begin == 0);
                    for (i, stretch) in stretches.iter().enumerate() {
                        let piece = pieces.wrapping_add(i * pitch);
                        let ahead = first * LINE + to_line(stretch.dst);
                        // SAFETY: lines of the piece and the one before it.
                        unsafe {
                            let (to, from) = (stretch.dst.add(begin + ahead), piece.add(ahead));
                            stream(to.sub(LINE), from.sub(LINE), lines - first);
                            keep(piece, lines * LINE);
                        }
                    }
                }
            }
        };
    }

    streams!(avx512, "avx512f", |to, from| {
        _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast()))
    });

    streams!(sse2, "sse2", |to, from| {
        for quarter in 0..4 {
            let value = _mm_loadu_si128(from.cast::<__m128i>().add(quarter));
            _mm_stream_si128(to.cast::<__m128i>().add(quarter), value);
        }
    });
}
