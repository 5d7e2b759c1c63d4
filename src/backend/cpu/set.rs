//! One value in every cell.

use super::shape::with_cell;
use super::stream::STREAMING_BYTES;
use super::{Isa, Machine, grid::Grid};
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::Set;

/// Bytes per tile at most, so that one long run can be divided among threads.
const TILE_BYTES: usize = 512 << 10;

/// # Safety
/// Every cell of the nest is writable and aligned to its scalar.
pub(in crate::backend) unsafe fn run(set: &Set, dst: *mut u8, machine: Machine) -> Result<()> {
    let cell = set.dst.size();
    let one = [Axis { extent: 1, strides: [1] }];
    let axes = if set.nest.axes().is_empty() { &one } else { set.nest.axes() };
    let loops = axes.iter().map(|a| (a.extent as usize, [a.strides[0] as isize * cell as isize]));
    let step = axes[axes.len() - 1].strides[0] as isize * cell as isize;
    let start = [set.nest.offsets[0] as isize * cell as isize];
    let grid = Grid::over(loops, |_| false, start, [(axes.len() - 1, TILE_BYTES / cell)]);
    let bytes = set.nest.len() as usize * cell;
    let pattern = pattern(set);
    let uniform = pattern.iter().all(|&byte| byte == pattern[0]);
    let streams = bytes >= STREAMING_BYTES;
    grid.for_each(machine, bytes, [dst], |[dst], _, [n]| {
        // SAFETY: every cell that the tile touches belongs to the nest.
        unsafe {
            if step != cell as isize {
                strided(cell, dst, step, n, &pattern);
            } else if uniform && !streams {
                dst.write_bytes(pattern[0], n * cell);
            } else {
                run_of(cell, dst, n, &pattern, streams, machine.isa);
            }
        }
    })
}

/// A cache line full of the cell.
fn pattern(set: &Set) -> [u8; 64] {
    // A word full of it as a product: a division for each byte takes as long as setting a small tensor.
    let ones = u64::MAX / (u64::MAX >> (64 - 8 * set.dst.size()));
    let word = set.cell * ones;
    let mut pattern = [0; 64];
    pattern.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| *chunk = word.to_le_bytes());
    pattern
}

/// # Safety
/// `n` cells are writable at these steps.
unsafe fn strided(cell: usize, dst: *mut u8, step: isize, n: usize, pattern: &[u8; 64]) {
    with_cell!(cell, W => {
        // SAFETY: the pattern is longer than any cell; the cells are the caller's promise.
        unsafe {
            let value = pattern.as_ptr().cast::<W>().read_unaligned();
            for i in 0..n as isize {
                dst.offset(i * step).cast::<W>().write_unaligned(value);
            }
        }
    });
}

/// # Safety
/// `n` cells are writable at `dst`, which is aligned to the cell.
unsafe fn run_of(cell: usize, dst: *mut u8, n: usize, pattern: &[u8; 64], streams: bool, isa: Isa) {
    // Whole lines start at a multiple of the cell, as the cell divides the line and `dst` is aligned to it.
    let head = dst.align_offset(64).min(n * cell);
    let lines = (n * cell - head) / 64;
    // SAFETY: the three parts are the run.
    unsafe {
        strided(cell, dst, cell as isize, head / cell, pattern);
        fill_lines(dst.add(head), lines, pattern, streams, isa);
        let done = head + lines * 64;
        strided(cell, dst.add(done), cell as isize, n - done / cell, pattern);
    }
}

/// # Safety
/// `lines` times 64 bytes are writable at `dst`, which is 64-byte aligned. If they are streamed, a caller that passes them to another
/// thread must first call [`stream::fence`](super::stream::fence), as the grid does.
unsafe fn fill_lines(dst: *mut u8, lines: usize, pattern: &[u8; 64], streams: bool, isa: Isa) {
    // SAFETY: the caller's promise; the processor has AVX2 where that is used.
    unsafe {
        match (isa.has_avx2(), streams) {
            #[cfg(target_arch = "x86_64")]
            (true, true) => lines_avx2::<true>(dst, lines, pattern),
            #[cfg(target_arch = "x86_64")]
            (true, false) => lines_avx2::<false>(dst, lines, pattern),
            _ => (0..lines).for_each(|i| dst.add(i * 64).cast::<[u8; 64]>().write(*pattern)),
        }
    }
}

/// # Safety
/// As for [`fill_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn lines_avx2<const STREAMS: bool>(dst: *mut u8, lines: usize, pattern: &[u8; 64]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_store_si256, _mm256_stream_si256};
    // SAFETY: the pattern is 64 bytes long; the lines are the caller's promise.
    unsafe {
        let halves = [0, 32].map(|at| _mm256_loadu_si256(pattern.as_ptr().add(at).cast()));
        for i in 0..lines {
            let line = dst.add(i * 64).cast::<__m256i>();
            for (k, half) in halves.into_iter().enumerate() {
                if STREAMS {
                    _mm256_stream_si256(line.add(k), half)
                } else {
                    _mm256_store_si256(line.add(k), half)
                }
            }
        }
    }
}
