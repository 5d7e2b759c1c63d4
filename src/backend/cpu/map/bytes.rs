//! Functions of one byte: a table of the results of all 256 bytes, in which cells are looked up.
//!
//! The table is made by the conversions and the kernel that would have computed the cells.

use crate::backend::cpu::Isa;
use crate::backend::cpu::stage::Stage;
use crate::backend::cpu::stream::{Distance, LINE, Stream};

/// Cells from which on a table takes less time than their arithmetic.
pub(super) const LEAST_CELLS: usize = 8192;

/// Results that are put together before they are streamed.
const STAGE_BYTES: usize = 1024;

/// The results of all bytes.
pub(super) type Results = [u8; 256];

/// Looks up `n` bytes.
///
/// # Safety
/// `n` bytes are readable at `from` and writable at `out`, which are the same bytes or apart. The
/// processor has the instructions that the function was chosen for.
type LookUp = unsafe fn(out: *mut u8, from: *const u8, n: usize, results: &Results);

pub(super) struct Table {
    results: Results,
    look_up: LookUp,
}

impl Table {
    /// `compute` is given all bytes, and where their results go.
    pub fn new(isa: Isa, compute: impl FnOnce(*mut u8, *const u8)) -> Self {
        let bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        let mut results = [0; 256];
        compute(results.as_mut_ptr(), bytes.as_ptr());
        #[cfg(target_arch = "x86_64")]
        let look_up = match () {
            () if isa.has_avx512_vbmi() => avx512,
            () if isa.has_avx2() => avx2,
            () => portable as LookUp,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let (look_up, _) = (portable as LookUp, isa);
        Table { results, look_up }
    }

    /// Looks up `n` cells, and writes their results, past the caches if `stream` is given.
    ///
    /// # Safety
    /// As for [`Kernel`](super::Kernel).
    pub unsafe fn run(&self, out: *mut u8, from: *const u8, n: usize, stream: Option<Stream>) {
        let mut stage = Stage::<STAGE_BYTES>::new();
        // The first piece ends on a line, so that every later one starts on one.
        let mut piece = STAGE_BYTES - out.addr() % LINE;
        let mut done = 0;
        while done < n {
            piece = piece.min(n - done);
            let (out, from) = (out.wrapping_add(done), from.wrapping_add(done));
            Distance::Read.fetch(from, piece);
            // SAFETY: a piece of the cells, which fits the stage.
            unsafe {
                match stream {
                    None => (self.look_up)(out, from, piece, &self.results),
                    Some(stream) => {
                        (self.look_up)(stage.ptr(), from, piece, &self.results);
                        stream(out, stage.ptr(), piece);
                    }
                }
            }
            done += piece;
            piece = STAGE_BYTES;
        }
    }
}

/// # Safety
/// As for [`LookUp`].
unsafe fn portable(out: *mut u8, from: *const u8, n: usize, results: &Results) {
    for i in 0..n {
        // SAFETY: `n` bytes are readable, and as many writable.
        unsafe { out.add(i).write(results[usize::from(from.add(i).read())]) };
    }
}

/// # Safety
/// As for [`LookUp`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(out: *mut u8, from: *const u8, n: usize, results: &Results) {
    use std::arch::x86_64::*;
    let whole = n / 32 * 32;
    for at in (0..whole).step_by(32) {
        // SAFETY: 32 bytes from `at` on are below `n`; a row of the table has 16 bytes.
        unsafe {
            let cells = _mm256_loadu_si256(from.add(at).cast());
            let mut found = _mm256_setzero_si256();
            for row in 0..16 {
                let table =
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(results.as_ptr().add(16 * row).cast()));
                // What belongs to this row is below 16 now; 112 more, and all others have the bit
                // for which shuffles give 0.
                let below = _mm256_xor_si256(cells, _mm256_set1_epi8((16 * row) as i8));
                let index = _mm256_adds_epu8(below, _mm256_set1_epi8(112));
                found = _mm256_or_si256(found, _mm256_shuffle_epi8(table, index));
            }
            _mm256_storeu_si256(out.add(at).cast(), found);
        }
    }
    // SAFETY: as many bytes are left behind the whole vectors.
    unsafe { portable(out.add(whole), from.add(whole), n - whole, results) };
}

/// # Safety
/// As for [`LookUp`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn avx512(out: *mut u8, from: *const u8, n: usize, results: &Results) {
    use std::arch::x86_64::*;
    // SAFETY: a quarter of the table has 64 bytes; of the cells, only those below `n` are read and
    // written.
    unsafe {
        let quarter = |k: usize| _mm512_loadu_si512(results.as_ptr().add(64 * k).cast());
        let table = [quarter(0), quarter(1), quarter(2), quarter(3)];
        for at in (0..n).step_by(64) {
            let some = u64::MAX >> (64 - (n - at).min(64));
            let cells = _mm512_maskz_loadu_epi8(some, from.add(at).cast());
            let low = _mm512_permutex2var_epi8(table[0], cells, table[1]);
            let high = _mm512_permutex2var_epi8(table[2], cells, table[3]);
            let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(cells), low, high);
            _mm512_mask_storeu_epi8(out.add(at).cast(), some, found);
        }
    }
}
