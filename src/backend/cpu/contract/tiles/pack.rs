//! Operands into strips of tiles: sixteen rows with a run of the sum in each, or for sixteen lanes
//! cells of four bytes of the sum.

use std::mem::MaybeUninit;

use super::call::{ROW, TILE, TILE_ROWS};
use super::sum::Stretch;
use crate::backend::cpu::Isa;
use crate::backend::cpu::contract::operands::pack::transpose_many;
use crate::backend::cpu::contract::operands::points::OperandOffsets;
use crate::backend::cpu::contract::operands::source::Source;
use crate::ops::contract::MAX_BOUNDS;

/// Bytes of a cell: a number in binary32, two halves or four bytes.
const CELL: usize = 4;

/// Steps of the sum at most that are packed at once: strips of a block stay in a first-level cache,
/// four of them with sums in a second.
pub const STEPS: usize = 32;

/// Bytes of the lines of a strip that are put together before they become tiles; a line more than
/// they have, so that lines do not share cache sets.
pub const LINES: usize = TILE_ROWS * LINE;
const LINE: usize = STEPS * ROW + ROW;

/// How far lanes are apart at most that are packed across, and from which length on stretches are
/// packed along.
const MAX_PITCH: i64 = 8;
const LONG: usize = 16;

/// What a strip is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The rows of the first operand of a product of tiles.
    Rows,
    /// The lanes of the second.
    Lanes,
}

/// Packs some terms of up to [`TILE_ROWS`] rows or lanes: `steps` tiles, one behind the other. What
/// is outside the bounds, in other rows or lanes, or behind the terms, is 0.
///
/// # Safety
/// Every element inside the bounds is readable and aligned; `to` has room for the tiles, and
/// `lines` for [`LINES`] bytes.
pub unsafe fn pack(
    source: &Source<'_>, form: Form, lanes: &[OperandOffsets], terms: &[Stretch], steps: usize, to: *mut u8,
    lines: *mut u8,
) {
    assert!(
        lanes.len() <= TILE_ROWS && steps <= STEPS,
        "a strip has {TILE_ROWS} lanes, and a block {STEPS} steps"
    );
    let slot = source.slot;
    if cfg!(debug_assertions) {
        for (lane, terms) in lanes.iter().flat_map(|lane| terms.iter().map(move |terms| (lane, terms))) {
            let (low, high) = terms.inside(lane, source.bounds);
            let by = if terms.is_run() { 1 } else { terms.by() };
            source.held.assert_holds(lane.at[slot] + terms.first() + low as i64 * by, by, high - low);
        }
    }
    let total: usize = terms.iter().map(Stretch::len).sum();
    let is_run = terms.iter().all(Stretch::is_run);
    let apart = lanes.get(1).map_or(0, |lane| lane.at[slot] - lanes[0].at[slot]);
    let is_even = lanes.windows(2).all(|pair| pair[1].at[slot] - pair[0].at[slot] == apart);
    // Of lanes that are near each other a cell of all of them is put together at once, unless
    // stretches are long.
    let is_near =
        if is_run { apart == 1 && total < LONG * terms.len() } else { (1..=MAX_PITCH).contains(&apart) };
    let is_across = is_even && is_near;
    // SAFETY: elements are read inside the bounds only, and tiles written up to their end.
    unsafe {
        if lanes.len() < TILE_ROWS || total * source.scalar.size() < steps * ROW {
            to.write_bytes(0, steps * TILE);
        }
        if is_across {
            return across(source, form, lanes, apart, terms, to);
        }
        if form == Form::Rows && is_run {
            for (l, lane) in lanes.iter().enumerate() {
                let mut row = Row { to: to.wrapping_add(l * ROW), at: 0 };
                terms.iter().for_each(|stretch| row.add(source, lane, stretch));
            }
            return;
        }
        let size = source.scalar.size();
        let mut starts = [std::ptr::null::<u32>(); TILE_ROWS];
        let in_place = |stretch: &Stretch| {
            let whole = source.bounds.is_empty() && (stretch.len() * size).is_multiple_of(CELL);
            is_run && whole && terms.len() == 1
        };
        for (l, lane) in lanes.iter().enumerate() {
            starts[l] = match terms {
                [stretch] if in_place(stretch) => element(source, lane.at[slot] + stretch.first()).cast(),
                _ => {
                    let line = lines.wrapping_add(l * LINE);
                    stage(source, lane, terms, line);
                    line.cast()
                }
            };
        }
        let starts = &starts[..lanes.len()];
        let cells = (total * size).div_ceil(CELL);
        match form {
            Form::Lanes => transpose_many(starts, cells, to.cast::<u32>(), TILE_ROWS as isize, source.isa),
            Form::Rows => {
                for (l, line) in starts.iter().enumerate() {
                    let mut row = Row { to: to.wrapping_add(l * ROW), at: 0 };
                    row.copy(line.cast(), cells * CELL);
                }
            }
        }
    }
}

/// Where an element is.
fn element(source: &Source<'_>, at: i64) -> *const u8 {
    source.data.wrapping_offset(at as isize * source.scalar.size() as isize)
}

/// A row of tiles that is being written: its place in the first of them, and bytes that are there.
struct Row {
    to: *mut u8,
    at: usize,
}

impl Row {
    /// A stretch of a lane.
    ///
    /// # Safety
    /// As for [`pack`]; the stretch is a run.
    #[inline(always)]
    unsafe fn add(&mut self, source: &Source<'_>, lane: &OperandOffsets, stretch: &Stretch) {
        let (size, (low, high)) = (source.scalar.size(), stretch.inside(lane, source.bounds));
        let from = element(source, lane.at[source.slot] + stretch.first() + low as i64);
        // SAFETY: elements from `low` to `high` are readable, and the tiles have room.
        unsafe {
            self.clear(low * size);
            self.copy(from, (high - low) * size);
            self.clear((stretch.len() - high) * size);
        }
    }

    /// # Safety
    /// As many bytes are readable, and the row has room for them.
    #[inline(always)]
    unsafe fn copy(&mut self, mut from: *const u8, mut bytes: usize) {
        while bytes > 0 {
            let (step, at) = (self.at / ROW, self.at % ROW);
            let to = self.to.wrapping_add(step * TILE + at);
            let count = bytes.min(ROW - at);
            // SAFETY: `count` bytes are readable and writable.
            unsafe {
                if count == ROW {
                    to.cast::<[u8; ROW]>().write_unaligned(from.cast::<[u8; ROW]>().read_unaligned());
                } else {
                    to.copy_from_nonoverlapping(from, count);
                }
            }
            (self.at, from, bytes) = (self.at + count, from.wrapping_add(count), bytes - count);
        }
    }

    /// # Safety
    /// The row has room for as many bytes.
    #[inline(always)]
    unsafe fn clear(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let (step, at) = (self.at / ROW, self.at % ROW);
            let count = bytes.min(ROW - at);
            // SAFETY: `count` bytes are writable.
            unsafe { self.to.wrapping_add(step * TILE + at).write_bytes(0, count) };
            (self.at, bytes) = (self.at + count, bytes - count);
        }
    }
}

/// The terms of a lane, side by side, and zeros up to a whole cell.
///
/// # Safety
/// As for [`pack`]; `to` has room for a line.
unsafe fn stage(source: &Source<'_>, lane: &OperandOffsets, terms: &[Stretch], mut to: *mut u8) {
    let size = source.scalar.size();
    for stretch in terms {
        let (low, high) = stretch.inside(lane, source.bounds);
        let by = if stretch.is_run() { 1 } else { stretch.by() };
        let from = element(source, lane.at[source.slot] + stretch.first() + low as i64 * by);
        let count = high - low;
        // SAFETY: elements from `low` to `high` are readable, and the line has room for all.
        unsafe {
            to.write_bytes(0, low * size);
            let here = to.add(low * size);
            match (size, by) {
                (_, 1) => here.copy_from_nonoverlapping(from, count * size),
                (2, _) => gather(from.cast::<u16>(), by as isize, count, here.cast::<u16>()),
                (4, _) => gather(from.cast::<u32>(), by as isize, count, here.cast::<u32>()),
                _ => gather(from, by as isize, count, here),
            }
            to.add(high * size).write_bytes(0, (stretch.len() - high) * size);
            to = to.add(stretch.len() * size);
        }
    }
    // SAFETY: a line has room for whole cells.
    unsafe { to.write_bytes(0, CELL) };
}

/// # Safety
/// `count` elements are readable, `by` apart, and as many writable.
unsafe fn gather<E: Copy>(from: *const E, by: isize, count: usize, to: *mut E) {
    for k in 0..count {
        // SAFETY: k < count.
        unsafe { to.add(k).write_unaligned(from.wrapping_offset(k as isize * by).read()) };
    }
}

/// [`pack`] where the lanes are `apart` in memory.
///
/// # Safety
/// As for [`pack`].
unsafe fn across(
    source: &Source<'_>, form: Form, lanes: &[OperandOffsets], apart: i64, terms: &[Stretch], to: *mut u8,
) {
    let (slot, size) = (source.slot, source.scalar.size());
    let all = u16::MAX >> (TILE_ROWS - lanes.len());
    let mut reach = [(0, 0); MAX_BOUNDS];
    for (d, reach) in reach.iter_mut().enumerate().take(source.bounds.len()) {
        let positions = lanes.iter().map(|lane| lane.pos[d]);
        *reach = positions.fold((i64::MAX, i64::MIN), |(low, high), pos| (low.min(pos), high.max(pos)));
    }
    let inside = |stretch: &Stretch, k: usize| {
        let mut mask = all;
        for (d, (bound, (low, high))) in source.bounds.iter().zip(reach).enumerate() {
            let position = bound.start + stretch.position(k, d);
            if position + low >= 0 && position + high < bound.extent {
                continue;
            }
            for (l, lane) in lanes.iter().enumerate() {
                let is_in = (0..bound.extent).contains(&(position + lane.pos[d]));
                mask &= !(u16::from(!is_in) << l);
            }
        }
        mask
    };
    let mut tile = [const { MaybeUninit::<u32>::uninit() }; TILE_ROWS * TILE_ROWS];
    let tile = tile.as_mut_ptr().cast::<u32>();
    let (per, mut cell, mut part) = (CELL / size, 0, 0);
    let (mut from, mut masks) = ([std::ptr::null(); CELL], [0_u16; CELL]);
    let put = |cell: usize, from: &[*const u8; CELL], masks: &[u16; CELL]| {
        // SAFETY: elements that the masks name are readable; tiles have room for the cells.
        unsafe {
            match form {
                Form::Lanes => cells(from, masks, (size, apart), to.add(cell * ROW).cast(), source.isa),
                Form::Rows => {
                    cells(from, masks, (size, apart), tile.add(cell % TILE_ROWS * TILE_ROWS), source.isa);
                    if cell % TILE_ROWS == TILE_ROWS - 1 {
                        transpose_tile(tile, TILE_ROWS, to.add(cell / TILE_ROWS * TILE), source.isa);
                    }
                }
            }
        }
    };
    for stretch in terms {
        for k in 0..stretch.len() {
            let by = if stretch.is_run() { 1 } else { stretch.by() };
            from[part] = element(source, lanes[0].at[slot] + stretch.first() + k as i64 * by);
            masks[part] = if source.bounds.is_empty() { all } else { inside(stretch, k) };
            part += 1;
            if part == per {
                put(cell, &from, &masks);
                (cell, part, masks) = (cell + 1, 0, [0; CELL]);
            }
        }
    }
    if part > 0 {
        put(cell, &from, &masks);
        cell += 1;
    }
    if form == Form::Rows && cell % TILE_ROWS > 0 {
        // SAFETY: as many cells are there, and the tile has room for them.
        unsafe { transpose_tile(tile, cell % TILE_ROWS, to.add(cell / TILE_ROWS * TILE), source.isa) };
    }
}

/// Lines of cells as rows of a tile.
///
/// # Safety
/// `count` lines of [`TILE_ROWS`] cells are there, and the tile is writable.
unsafe fn transpose_tile(lines: *const u32, count: usize, to: *mut u8, isa: Isa) {
    let starts: [*const u32; TILE_ROWS] = std::array::from_fn(|line| lines.wrapping_add(line * TILE_ROWS));
    // SAFETY: each line has as many cells.
    unsafe { transpose_many(&starts[..count], TILE_ROWS, to.cast(), TILE_ROWS as isize, isa) };
}

/// A line of cells: of lane l the elements that are l times as far as lanes are apart from those of
/// `from` whose masks have bit l, and 0 for the others; by the bytes of an element, and how many
/// elements lanes are apart.
///
/// # Safety
/// Those elements are readable, and [`TILE_ROWS`] cells are writable.
#[inline(always)]
unsafe fn cells(
    from: &[*const u8; CELL], masks: &[u16; CELL], (size, apart): (usize, i64), to: *mut u32, isa: Isa,
) {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() && apart == 1 {
        // SAFETY: the processor has AVX-512.
        return unsafe {
            match size {
                4 => singles_avx512(from[0], masks[0], to),
                2 => halves_avx512(from, masks, to),
                _ => bytes_avx512(from, masks, to),
            }
        };
    }
    let _ = isa;
    // SAFETY: elements that masks name are readable, and there is room for every lane.
    unsafe {
        match size {
            4 => some::<u32>(from, masks, apart, to),
            2 => some::<u16>(from, masks, apart, to),
            _ => some::<u8>(from, masks, apart, to),
        }
    }
}

/// # Safety
/// As for [`cells`].
unsafe fn some<E: Copy + Into<u32>>(from: &[*const u8; CELL], masks: &[u16; CELL], apart: i64, to: *mut u32) {
    let bits = 8 * size_of::<E>();
    for l in 0..TILE_ROWS {
        let mut cell = 0_u32;
        for (part, (from, mask)) in from.iter().zip(masks).enumerate().take(CELL / size_of::<E>()) {
            if mask >> l & 1 == 1 {
                let from = from.cast::<E>().wrapping_offset(l as isize * apart as isize);
                // SAFETY: the element is readable.
                let element: u32 = unsafe { from.read() }.into();
                cell |= element << (part * bits);
            }
        }
        // SAFETY: there is room for every lane.
        unsafe { to.add(l).write(cell) };
    }
}

/// # Safety
/// As for [`cells`], of binary32; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn singles_avx512(from: *const u8, mask: u16, to: *mut u32) {
    use std::arch::x86_64::*;
    // SAFETY: only elements that the mask names are read.
    unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_loadu_epi32(mask, from.cast())) };
}

/// # Safety
/// As for [`cells`], of halves; the processor has AVX-512 BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn halves_avx512(from: &[*const u8; CELL], masks: &[u16; CELL], to: *mut u32) {
    use std::arch::x86_64::*;
    // SAFETY: only elements that the masks name are read.
    unsafe {
        let low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(masks[0], from[0].cast()));
        let high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(masks[1], from[1].cast()));
        _mm512_storeu_si512(to.cast(), _mm512_or_si512(low, _mm512_slli_epi32::<16>(high)));
    }
}

/// # Safety
/// As for [`cells`], of bytes; the processor has AVX-512 BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn bytes_avx512(from: &[*const u8; CELL], masks: &[u16; CELL], to: *mut u32) {
    use std::arch::x86_64::*;
    // SAFETY: only elements that the masks name are read.
    unsafe {
        let mut wide = [_mm512_setzero_si512(); CELL];
        let mut k = 0;
        while k < CELL {
            wide[k] = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(masks[k], from[k].cast()));
            k += 1;
        }
        let low = _mm512_or_si512(wide[0], _mm512_slli_epi32::<8>(wide[1]));
        let high = _mm512_or_si512(_mm512_slli_epi32::<16>(wide[2]), _mm512_slli_epi32::<24>(wide[3]));
        _mm512_storeu_si512(to.cast(), _mm512_or_si512(low, high));
    }
}
