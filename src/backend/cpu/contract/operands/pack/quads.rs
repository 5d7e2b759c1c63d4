//! Packing of bytes in cells of four, as they lie in memory: nothing is converted, but signs may be
//! turned over.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::Source;
use super::transpose::{FOUR, MANY, transpose_lines, transpose_many};
use crate::backend::cpu::contract::kernel::simd::MAX_NR;
use crate::backend::cpu::contract::operands::points::{OperandOffsets, StridedRun};

/// Cells of a line: a whole K block of the sum, and the tail.
const LINE: usize = 512 + 1;

/// Bytes of a cell.
const K_PACK: usize = 4;

/// What turns a sign over.
const SIGN: u8 = 0x80;

/// [`pack`](super::pack) of bytes; the tail of a line is the sum of its bytes, with signs, times
/// the weight.
///
/// # Safety
/// As for [`pack`](super::pack), and `to` has room for one more cell of each lane.
pub(super) unsafe fn pack(
    source: Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun], width: usize, to: *mut i32,
) {
    let total: usize = sum.iter().map(|even| even.terms(K_PACK)).sum();
    let cells = total.div_ceil(K_PACK);
    assert!(cells < LINE, "a k_block of the sum has fewer than {LINE} cells");
    let mut froms = [std::ptr::null::<u8>(); MAX_NR];
    for (from, lane) in froms.iter_mut().zip(lanes) {
        *from = source.data.wrapping_offset(lane.at[source.slot] as isize);
    }
    let froms = &froms[..lanes.len()];
    // SAFETY: elements are read inside the bounds only, and `to` has room for a cell of each lane
    // more than is kept.
    unsafe {
        if lanes.len() < width {
            to.write_bytes(0, (cells + 1) * width);
        }
        if are_cells(&source, froms, sum) {
            return copy(source, lanes, sum, width, to);
        }
        // Lines as they lie in memory.
        if let [even] = sum
            && even.by == 1
            && even.group_offsets.is_none()
            && source.bounds.is_empty()
            && !source.is_shifted
            && total.is_multiple_of(K_PACK)
            && froms.len() >= MANY / 2
            && froms.iter().all(|from| from.wrapping_offset(even.at as isize).cast::<i32>().is_aligned())
        {
            for (group, froms) in froms.chunks(MANY).enumerate() {
                let mut lines = [std::ptr::null::<i32>(); MANY];
                for (line, from) in lines.iter_mut().zip(froms) {
                    *line = from.wrapping_offset(even.at as isize).cast();
                }
                let (lines, to) = (&lines[..froms.len()], to.add(group * MANY));
                transpose_many(lines, cells, to, width as isize, source.isa);
                for (l, line) in lines.iter().enumerate() {
                    to.add(cells * width + l).write(tail(source, line.cast(), cells));
                }
            }
            return;
        }
        let mut staged = [const { MaybeUninit::<[i32; LINE]>::uninit() }; FOUR];
        for (group, lanes) in lanes.chunks(FOUR).enumerate() {
            let mut lines = [std::ptr::null::<i32>(); FOUR];
            for (l, lane) in lanes.iter().enumerate() {
                let line = staged[l].as_mut_ptr().cast::<u8>();
                let mut begin = 0;
                for even in sum {
                    let from = froms[group * FOUR + l].wrapping_offset(even.at as isize);
                    stage(source, lane, even, from, line.add(begin));
                    begin += even.terms(K_PACK);
                }
                line.add(total).write_bytes(0, cells * K_PACK - total);
                if source.is_shifted {
                    (0..cells * K_PACK).for_each(|k| *line.add(k) ^= SIGN);
                }
                line.cast::<i32>().add(cells).write(tail(source, line, cells));
                lines[l] = line.cast();
            }
            transpose_lines(&lines[..lanes.len()], cells + 1, to.add(group * FOUR), width as isize);
        }
    }
}

/// Whether every entry of the sum is a cell, and those of the lanes are neighbours, as pixels of
/// four channels are.
fn are_cells(source: &Source<'_>, froms: &[*const u8], sum: &[StridedRun]) -> bool {
    let is_cell = |run: &StridedRun| run.len == K_PACK && run.by == 1 && run.group_offsets.is_none();
    let neighbours = |pair: &[*const u8]| pair[1].addr() == pair[0].addr() + K_PACK;
    let plain = !source.is_shifted && source.compensation == 0;
    plain && sum.len() > 1 && sum.iter().all(is_cell) && froms.windows(2).all(neighbours)
}

/// Cells of [neighbouring lanes](are_cells), whose tails are 0.
///
/// # Safety
/// As for [`pack`].
unsafe fn copy(source: Source<'_>, lanes: &[OperandOffsets], sum: &[StridedRun], width: usize, to: *mut i32) {
    let from = source.data.wrapping_offset(lanes[0].at[source.slot] as isize);
    for (k, even) in sum.iter().enumerate() {
        let (from, to) = (from.wrapping_offset(even.at as isize), to.wrapping_add(k * width).cast::<u8>());
        let whole = source.bounds.is_empty()
            || lanes.iter().all(|lane| even.inside(lane, source.bounds) == (0, K_PACK));
        // SAFETY: of what is outside nothing is read, and `to` has the lanes of every cell.
        unsafe {
            match (whole, lanes.len()) {
                // A constant, for strips of rows.
                (true, 6) => {
                    to.cast::<[u8; 6 * K_PACK]>().write_unaligned(from.cast::<[u8; 6 * K_PACK]>().read())
                }
                (true, count) => to.copy_from_nonoverlapping(from, count * K_PACK),
                (false, _) => {
                    for (l, lane) in lanes.iter().enumerate() {
                        stage(source, lane, even, from.wrapping_add(l * K_PACK), to.add(l * K_PACK));
                    }
                }
            }
        }
    }
    // SAFETY: behind the cells of the sum there is room for a byte of each lane.
    unsafe { to.add(sum.len() * width).write_bytes(0, lanes.len()) };
}

/// The terms of one entry of the sum, in the order of cells.
///
/// # Safety
/// As for [`pack`]; there is room for as many bytes.
#[inline(never)]
unsafe fn stage(source: Source<'_>, lane: &OperandOffsets, even: &StridedRun, from: *const u8, to: *mut u8) {
    let (by, len) = (even.by as isize, even.len);
    // SAFETY: the bytes of all cells are readable, and there is room for them.
    unsafe {
        match even.group_offsets {
            Some([1, 2, 3]) if by == 4 => to.copy_from_nonoverlapping(from, len * K_PACK),
            Some([a, b, c]) => {
                let at = |far: i64| from.wrapping_offset(far as isize);
                quads([from, at(a), at(b), at(c)], by, len, to, false);
            }
            None => {
                let (low, high) = even.inside(lane, source.bounds);
                if (low, high) != (0, len) {
                    to.write_bytes(0, len);
                }
                let first = from.wrapping_offset(low as isize * by);
                if by == 1 {
                    to.add(low).copy_from_nonoverlapping(first, high - low);
                } else {
                    for k in 0..high - low {
                        to.add(low + k).write(first.wrapping_offset(k as isize * by).read());
                    }
                }
            }
        }
    }
}

/// The last, incomplete quad of a line of `cells` cells.
///
/// # Safety
/// They are readable.
#[inline(never)]
unsafe fn tail(source: Source<'_>, line: *const u8, cells: usize) -> i32 {
    if source.compensation == 0 {
        return 0;
    }
    let bytes = cells * K_PACK;
    // SAFETY: `cells` times four bytes are readable.
    #[cfg(not(target_arch = "x86_64"))]
    let sum = (0..bytes).fold(0, |sum, k| sum + i32::from(unsafe { line.add(k).cast::<i8>().read() }));
    // SAFETY: `cells` times four bytes are readable; the instructions belong to the base set.
    #[cfg(target_arch = "x86_64")]
    let sum = unsafe {
        // Without signs, every byte is 128 more than it is.
        let signs = _mm_set1_epi8(SIGN as i8);
        let mut acc = _mm_setzero_si128();
        let whole = bytes - bytes % 16;
        for k in (0..whole).step_by(16) {
            let some = _mm_xor_si128(_mm_loadu_si128(line.add(k).cast()), signs);
            acc = _mm_add_epi64(acc, _mm_sad_epu8(some, _mm_setzero_si128()));
        }
        let sum = _mm_cvtsi128_si32(acc) + _mm_cvtsi128_si32(_mm_unpackhi_epi64(acc, acc));
        (whole..bytes)
            .fold(sum - 128 * whole as i32, |sum, k| sum + i32::from(line.add(k).cast::<i8>().read()))
    };
    sum * source.compensation
}

/// Cells of the bytes of four rows, `step` apart, whose signs are turned over if `is_shifted`;
/// bytes of a row at null are 0.
///
/// # Safety
/// All elements are readable, and as many cells writable.
#[inline(never)]
pub unsafe fn quads(from: [*const u8; 4], step: isize, len: usize, to: *mut u8, is_shifted: bool) {
    // Plain loops: closures of `map` are not inlined.
    const EIGHT: usize = 8;
    let sign = if is_shifted { SIGN } else { 0 };
    // SAFETY: `len` elements are readable a step apart, and as many cells writable; the
    // instructions are of the base set.
    unsafe {
        let mut i = 0;
        // Sixteen bytes of every second one reach one further than the eight of them.
        let last = if step == 1 { len } else { len.max(1) - 1 };
        if matches!(step, 1 | 2) && last >= EIGHT {
            #[cfg(target_arch = "x86_64")]
            let signs = _mm_set1_epi8(sign as i8);
            while i < last {
                // The last eight are some of those before as well.
                i = i.min(last - EIGHT);
                #[cfg(target_arch = "aarch64")]
                {
                    let mut rows = [vdup_n_u8(sign); K_PACK];
                    for k in 0..K_PACK {
                        if from[k].is_null() {
                            continue;
                        }
                        let some = match step {
                            1 => vld1_u8(from[k].add(i)),
                            _ => vld2_u8(from[k].add(2 * i)).0,
                        };
                        rows[k] = veor_u8(rows[k], some);
                    }
                    vst4_u8(to.add(i * K_PACK), uint8x8x4_t(rows[0], rows[1], rows[2], rows[3]));
                    i += EIGHT;
                }
                #[cfg(target_arch = "x86_64")]
                {
                    let mut rows = [_mm_setzero_si128(); K_PACK];
                    for k in 0..K_PACK {
                        if from[k].is_null() {
                            continue;
                        }
                        rows[k] = if step == 1 {
                            _mm_loadl_epi64(from[k].add(i).cast())
                        } else {
                            let both = _mm_loadu_si128(from[k].add(2 * i).cast());
                            let some = _mm_and_si128(both, _mm_set1_epi16(0xff));
                            _mm_packus_epi16(some, some)
                        };
                    }
                    let (low, high) =
                        (_mm_unpacklo_epi8(rows[0], rows[1]), _mm_unpacklo_epi8(rows[2], rows[3]));
                    let (first, second) = (_mm_unpacklo_epi16(low, high), _mm_unpackhi_epi16(low, high));
                    let to = to.add(i * K_PACK).cast::<__m128i>();
                    _mm_storeu_si128(to, _mm_xor_si128(first, signs));
                    _mm_storeu_si128(to.add(1), _mm_xor_si128(second, signs));
                    i += EIGHT;
                }
            }
        }
        while i < len {
            let mut cell = [sign; K_PACK];
            for k in 0..K_PACK {
                if !from[k].is_null() {
                    cell[k] ^= from[k].wrapping_offset(i as isize * step).read();
                }
            }
            to.add(i * K_PACK).cast::<[u8; K_PACK]>().write_unaligned(cell);
            i += 1;
        }
    }
}
