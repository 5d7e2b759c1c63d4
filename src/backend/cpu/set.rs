//! One value in every cell.

use super::kind::{self, Call, Kind, Table};
use super::shape::with_cell;
use super::stream::STREAMING_BYTES;
use super::{Isa, Machine, grid::Grid};
use crate::backend::choice::{self, Kernel};
use crate::error::Result;
use crate::layout::Axis;
use crate::ops::Set;

/// Bytes per tile at most, so that one long run can be divided among threads.
const TILE_BYTES: usize = 512 << 10;

/// What a kernel sees of a step: cells along its innermost loop.
struct Cells {
    /// Bytes of a cell.
    cell: usize,
    /// Bytes from cell to cell.
    step: isize,
    /// A cache line full of the cell.
    pattern: [u8; 64],
    /// Whether all loops together write more than stays in the caches.
    is_large: bool,
    isa: Isa,
}

impl Cells {
    fn new(set: &Set, isa: Isa) -> Self {
        let cell = set.dst.size();
        let stride = set.nest.axes().last().map_or(1, |axis| axis.strides[0]);
        let is_large = set.nest.len() as usize * cell >= STREAMING_BYTES;
        Cells { cell, step: stride as isize * cell as isize, pattern: pattern(set), is_large, isa }
    }

    fn are_run(&self) -> bool {
        self.step == self.cell as isize
    }

    fn are_uniform(&self) -> bool {
        self.pattern.iter().all(|&byte| byte == self.pattern[0])
    }
}

/// Writes `n` cells.
///
/// # Safety
/// They are writable from `dst` on, which is aligned to the cell, and the kernel accepts them.
type Run = unsafe fn(cells: &Cells, dst: *mut u8, n: usize);

/// How a kernel writes cells, if it accepts them.
type Accept = fn(&Cells) -> Option<Run>;

/// The kernels; the first one that accepts a step runs it.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "set_bytes",
        when: "neighbours of which all bytes are the same, as zeros, less than 16 MiB of them",
        accept: |cells| (cells.are_run() && cells.are_uniform() && !cells.is_large).then_some(bytes),
    },
    Kernel {
        name: "set_lines",
        when: "neighbours: whole cache lines, from 16 MiB on past the caches",
        accept: |cells| cells.are_run().then_some(run_of),
    },
    Kernel { name: "set_strided", when: "all nests: cell by cell", accept: |_| Some(strided) },
];

impl Kind for Set {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, machine: Machine) -> Vec<&'static str> {
        let cells = Cells::new(self, machine.isa);
        choice::names(KERNELS, |accept| accept(&cells))
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (set, machine, [dst]) = (self, call.machine, call.pointers());
        if set.nest.is_empty() {
            return Ok(());
        }
        let cells = Cells::new(set, machine.isa);
        let (_, write) = call.choice.of(KERNELS, |accept| accept(&cells))?;
        let cell = set.dst.size();
        let one = [Axis { extent: 1, strides: [1] }];
        let axes = if set.nest.axes().is_empty() { &one } else { set.nest.axes() };
        let loops = axes.iter().map(|a| (a.extent as usize, [a.strides[0] as isize * cell as isize]));
        let start = [set.nest.offsets[0] as isize * cell as isize];
        let grid = Grid::over(loops, |_| false, start, [(axes.len() - 1, TILE_BYTES / cell)]);
        let bytes = set.nest.len() as usize * cell;
        grid.for_each(machine, bytes, [dst], |[dst], _, [n]| {
            // SAFETY: every cell that the tile touches belongs to the nest; the kernel accepts
            // them.
            unsafe { write(&cells, dst, n) }
        })
    }
}

fn pattern(set: &Set) -> [u8; 64] {
    // A word full of it as a product: a division for each byte takes as long as setting a small
    // tensor.
    let ones = u64::MAX / (u64::MAX >> (64 - 8 * set.dst.size()));
    let word = set.cell * ones;
    let mut pattern = [0; 64];
    pattern.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| *chunk = word.to_le_bytes());
    pattern
}

/// # Safety
/// As for [`Run`].
unsafe fn bytes(cells: &Cells, dst: *mut u8, n: usize) {
    // SAFETY: `n` cells are writable.
    unsafe { dst.write_bytes(cells.pattern[0], n * cells.cell) }
}

/// # Safety
/// As for [`Run`].
unsafe fn strided(cells: &Cells, dst: *mut u8, n: usize) {
    with_cell!(cells.cell, W => {
        // SAFETY: `n` cells are writable that step apart; the pattern is longer than any cell.
        unsafe {
            let value = cells.pattern.as_ptr().cast::<W>().read_unaligned();
            for i in 0..n as isize {
                dst.offset(i * cells.step).cast::<W>().write_unaligned(value);
            }
        }
    });
}

/// # Safety
/// As for [`Run`].
unsafe fn run_of(cells: &Cells, dst: *mut u8, n: usize) {
    let cell = cells.cell;
    // Whole lines start at a multiple of the cell, as the cell divides the line and `dst` is
    // aligned to it.
    let head = dst.align_offset(64).min(n * cell);
    let lines = (n * cell - head) / 64;
    // SAFETY: the three parts are the run.
    unsafe {
        strided(cells, dst, head / cell);
        fill_lines(cells, dst.add(head), lines);
        let done = head + lines * 64;
        strided(cells, dst.add(done), n - done / cell);
    }
}

/// # Safety
/// `lines` times 64 bytes are writable at `dst`, which is 64-byte aligned. If they are streamed, a
/// caller that passes them to another thread must first call
/// [`stream::fence`](super::stream::fence), as the grid does.
unsafe fn fill_lines(cells: &Cells, dst: *mut u8, lines: usize) {
    let pattern = &cells.pattern;
    // SAFETY: `lines` aligned lines are writable; the processor has AVX2 where that is used.
    unsafe {
        match (cells.isa.has_avx2(), cells.is_large) {
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
    // SAFETY: `lines` aligned lines of 64 bytes are writable; the pattern is as long as one.
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
