//! The loops around a kernel: an odometer over tiles, divided among threads.

use std::ops::Range;

use super::{Machine, shape::Loop, stream, threads};
use crate::backend::Operands;
use crate::error::Result;
use crate::layout::MAX_AXES;

/// Bytes written below which waking threads costs more than it saves.
const THREADING_BYTES: usize = 256 << 10;

/// Tasks per thread, so that a thread that was held up leaves work to the others.
const TASKS_PER_THREAD: usize = 4;

/// The tiles of a nest: `K` kernel loops cut into blocks, all other loops taken one turn at a time.
pub(super) struct Grid<const K: usize> {
    /// Outermost first; the last `K` are the kernel loops.
    loops: [TileLoop; MAX_AXES],
    rank: usize,
    start: [isize; 2],
    tiles: usize,
}

#[derive(Clone, Copy)]
struct TileLoop {
    extent: usize,
    block: usize,
    turns: usize,
    /// Bytes from tile to tile.
    dst: isize,
    src: isize,
}

/// One call of a kernel.
pub(super) struct Tile<const K: usize> {
    /// The first cell of either operand.
    pub dst: *mut u8,
    pub src: *const u8,
    /// The first cell of the source of the tile after this one, or of this one if it is the last.
    pub next: *const u8,
    /// Turns of each kernel loop, in the order given to [`Grid::new`].
    pub extents: [usize; K],
}

impl<const K: usize> Grid<K> {
    /// Cuts the loops `kernel[k].0` into blocks of at most `kernel[k].1` turns; the last of them turns fastest.
    pub fn new(loops: &[Loop], start: [isize; 2], kernel: [(usize, usize); K]) -> Self {
        Grid::around(loops, |_| false, start, kernel)
    }

    /// The same, leaving out the loops that the kernel walks itself.
    pub fn around(
        loops: &[Loop],
        inside: impl Fn(usize) -> bool,
        start: [isize; 2],
        kernel: [(usize, usize); K],
    ) -> Self {
        let idle = TileLoop { extent: 1, block: 1, turns: 1, dst: 0, src: 0 };
        let mut grid = Grid { loops: [idle; MAX_AXES], rank: 0, start, tiles: 1 };
        for (i, &l) in loops.iter().enumerate() {
            if kernel.iter().all(|k| k.0 != i) && !inside(i) {
                grid.push(l, 1);
            }
        }
        for (i, block) in kernel {
            grid.push(loops[i], block.clamp(1, loops[i].extent));
        }
        grid
    }

    fn push(&mut self, l: Loop, block: usize) {
        let turns = l.extent.div_ceil(block);
        self.loops[self.rank] = TileLoop {
            extent: l.extent,
            block,
            turns,
            dst: l.dst * block as isize,
            src: l.src * block as isize,
        };
        self.rank += 1;
        self.tiles *= turns;
    }

    /// Calls `kernel` for every tile, on several threads if `bytes` (written in all) is worth it. The tiles are
    /// cut into contiguous ranges that depend on nothing but the machine and the sizes.
    ///
    /// # Errors
    /// As for [`threads::run`].
    pub fn run(
        &self,
        machine: Machine,
        bytes: usize,
        operands: Operands,
        kernel: impl Fn(Tile<K>) + Sync,
    ) -> Result<()> {
        let threads = machine.threads.min(self.tiles);
        if threads <= 1 || bytes < THREADING_BYTES {
            self.walk(0..self.tiles, operands, &kernel);
            return Ok(());
        }
        let tasks = self.tiles.min(threads * TASKS_PER_THREAD);
        // In 128 bits, as tiles * tasks may leave 64.
        let bound = |task: usize| (self.tiles as u128 * task as u128 / tasks as u128) as usize;
        threads::run(threads, tasks, &|task| self.walk(bound(task)..bound(task + 1), operands, &kernel))
    }

    fn walk(&self, tiles: Range<usize>, operands: Operands, kernel: &impl Fn(Tile<K>)) {
        if tiles.is_empty() {
            return;
        }
        let loops = &self.loops[..self.rank];
        let mut index = [0; MAX_AXES];
        let [mut dst, mut src] = self.start;
        let mut rest = tiles.start;
        for (i, l) in loops.iter().enumerate().rev() {
            index[i] = rest % l.turns;
            rest /= l.turns;
            dst += l.dst * index[i] as isize;
            src += l.src * index[i] as isize;
        }
        let inner = self.rank - K;
        let end = tiles.end;
        for at in tiles {
            let extents = std::array::from_fn(|k| {
                let l = &loops[inner + k];
                l.block.min(l.extent - index[inner + k] * l.block)
            });
            let here = [dst, src];
            if at + 1 < end {
                for (i, l) in loops.iter().enumerate().rev() {
                    index[i] += 1;
                    dst += l.dst;
                    src += l.src;
                    if index[i] < l.turns {
                        break;
                    }
                    dst -= l.dst * l.turns as isize;
                    src -= l.src * l.turns as isize;
                    index[i] = 0;
                }
            }
            // Only kernels dereference; that the nest's cells may be is promised to them.
            kernel(Tile {
                dst: operands.dst.wrapping_offset(here[0]),
                src: operands.src.wrapping_offset(here[1]),
                next: operands.src.wrapping_offset(src),
                extents,
            });
        }
        // What kernels streamed comes before the signal that the task is done.
        stream::fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Isa;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn tiles_cover_every_index_once_whatever_the_threads() {
        let loops = [
            Loop { extent: 3, dst: 1000, src: -7 },
            Loop { extent: 7, dst: 100, src: 0 },
            Loop { extent: 13, dst: 1, src: 50 },
        ];
        let mut want = BTreeSet::new();
        for (i, j, k) in (0..3).flat_map(|i| (0..7).flat_map(move |j| (0..13).map(move |k| (i, j, k)))) {
            want.insert((5 + i * 1000 + j * 100 + k, 9 - 7 * i + 50 * k));
        }
        for threads in 1..4 {
            let seen = Mutex::new(Vec::new());
            let operands = Operands { dst: std::ptr::null_mut(), src: std::ptr::null() };
            let machine = Machine { isa: Isa::PORTABLE, threads };
            Grid::new(&loops, [5, 9], [(1, 2), (2, 5)])
                .run(machine, usize::MAX, operands, |tile| {
                    for j in 0..tile.extents[0] as isize {
                        for k in 0..tile.extents[1] as isize {
                            let (dst, src) = (tile.dst.addr() as isize, tile.src.addr() as isize);
                            seen.lock().unwrap().push((dst + j * 100 + k, src + 50 * k));
                        }
                    }
                })
                .unwrap();
            let seen = seen.into_inner().unwrap();
            assert_eq!(seen.len(), want.len());
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), want);
        }
    }
}
