//! The loops around a kernel: an odometer over tiles, divided among threads.

use std::ops::Range;

use super::{Machine, shape::Loop, stream, threads};
use crate::backend::{Address, Operands};
use crate::error::Result;
use crate::layout::MAX_AXES;

/// The tiles of a nest over `N` operands: `K` kernel loops cut into blocks, all other loops taken
/// one turn at a time.
pub(super) struct Grid<const K: usize, const N: usize = 2> {
    /// Outermost first; the last `K` are the kernel loops.
    loops: [TileLoop<N>; MAX_AXES],
    rank: usize,
    kernel: [KernelLoop; K],
    start: [isize; N],
    tiles: usize,
}

/// A loop from tile to tile.
#[derive(Clone, Copy)]
struct TileLoop<const N: usize> {
    turns: usize,
    /// Bytes from tile to tile.
    steps: [isize; N],
}

/// A loop inside a tile.
#[derive(Clone, Copy)]
struct KernelLoop {
    /// Turns of all tiles.
    extent: usize,
    /// Turns of one tile, unless it is the last.
    block: usize,
}

/// One call of a kernel.
pub(super) struct Tile<const K: usize> {
    /// The first cell of either operand.
    pub dst: *mut u8,
    pub src: *const u8,
    /// The first cell of the source of the tile after this one, or of this one if it is the last.
    pub next: *const u8,
    /// The same of the destination.
    pub next_dst: *mut u8,
    /// Turns of each kernel loop, in the order given to [`Grid::new`].
    pub extents: [usize; K],
    /// Turns of each kernel loop before this tile, and after it.
    pub before: [usize; K],
    pub after: [usize; K],
}

/// The part of a kernel loop that a tile has.
#[derive(Clone, Copy)]
struct TileRange {
    before: usize,
    turns: usize,
    after: usize,
}

impl<const K: usize> Grid<K> {
    /// Cuts the loops `kernel[k].0` into blocks of at most `kernel[k].1` turns; the last of them
    /// turns fastest.
    pub fn new(loops: &[Loop], start: [isize; 2], kernel: [(usize, usize); K]) -> Self {
        Grid::around(loops, |_| false, start, kernel)
    }

    /// The same, leaving out the loops that the kernel walks itself.
    pub fn around(
        loops: &[Loop], inside: impl Fn(usize) -> bool, start: [isize; 2], kernel: [(usize, usize); K],
    ) -> Self {
        Grid::over(loops.iter().map(|l| (l.extent, [l.dst, l.src])), inside, start, kernel)
    }

    /// As [`for_each`](Grid::for_each), for a destination and a source.
    ///
    /// # Errors
    /// As for [`threads::run`].
    pub fn run(
        &self, machine: Machine, bytes: usize, operands: Operands, kernel: impl Fn(Tile<K>) + Sync,
    ) -> Result<()> {
        self.run_with(machine, bytes, 0, operands, |_, tile| kernel(tile))
    }

    /// The same with `scratch` bytes for the kernel, as in [`threads::run_with`]: it keeps them
    /// from tile to tile, and tiles that may run at the same time never share them.
    ///
    /// # Errors
    /// As for [`threads::run_with`].
    pub fn run_with(
        &self, machine: Machine, bytes: usize, scratch: usize, operands: Operands,
        kernel: impl Fn(*mut u8, Tile<K>) + Sync,
    ) -> Result<()> {
        let bases = [operands.dst, operands.src.cast_mut()];
        self.divide(machine, bytes, scratch, bases, |scratch, [dst, src], [next_dst, next], cuts| {
            let (extents, before) = (cuts.map(|cut| cut.turns), cuts.map(|cut| cut.before));
            let after = cuts.map(|cut| cut.after);
            kernel(scratch, Tile { dst, src, next, next_dst, extents, before, after });
        })
    }
}

impl<const K: usize, const N: usize> Grid<K, N> {
    /// As [`around`](Grid::around), of loops as extents and steps in bytes.
    pub fn over(
        loops: impl Iterator<Item = (usize, [isize; N])> + Clone, inside: impl Fn(usize) -> bool,
        start: [isize; N], kernel: [(usize, usize); K],
    ) -> Self {
        let mut grid = Grid {
            // Beyond the rank they carry no meaning.
            loops: const { [TileLoop { turns: 0, steps: [0; N] }; MAX_AXES] },
            rank: 0,
            kernel: [KernelLoop { extent: 1, block: 1 }; K],
            start,
            tiles: 1,
        };
        for (i, (extent, steps)) in loops.clone().enumerate() {
            if kernel.iter().all(|k| k.0 != i) && !inside(i) {
                grid.push(extent, steps);
            }
        }
        for (k, (i, block)) in kernel.into_iter().enumerate() {
            if let Some((extent, steps)) = loops.clone().nth(i) {
                let block = block.clamp(1, extent);
                grid.kernel[k] = KernelLoop { extent, block };
                grid.push(extent.div_ceil(block), steps.map(|step| step * block as isize));
            }
        }
        grid
    }

    fn push(&mut self, turns: usize, steps: [isize; N]) {
        self.loops[self.rank] = TileLoop { turns, steps };
        self.rank += 1;
        self.tiles *= turns;
    }

    /// Calls `kernel` for every tile: with the place of every operand, with those of the tile after
    /// it (its own if it is the last), and with the turns of each kernel loop. On several threads
    /// if `bytes` (written in all) is worth it; the tiles are cut into contiguous ranges that
    /// depend on nothing but the machine and the sizes.
    ///
    /// # Errors
    /// As for [`threads::run`].
    pub fn for_each(
        &self, machine: Machine, bytes: usize, bases: [*mut u8; N],
        kernel: impl Fn([*mut u8; N], [*mut u8; N], [usize; K]) + Sync,
    ) -> Result<()> {
        self.for_each_with(machine, bytes, 0, bases, |_, here, next, turns| kernel(here, next, turns))
    }

    /// The same with `scratch` bytes for the kernel, as in [`Grid::run_with`].
    ///
    /// # Errors
    /// As for [`threads::run_with`].
    pub fn for_each_with(
        &self, machine: Machine, bytes: usize, scratch: usize, bases: [*mut u8; N],
        kernel: impl Fn(*mut u8, [*mut u8; N], [*mut u8; N], [usize; K]) + Sync,
    ) -> Result<()> {
        self.divide(machine, bytes, scratch, bases, |scratch, here, next, cuts| {
            kernel(scratch, here, next, cuts.map(|cut| cut.turns));
        })
    }

    fn divide(
        &self, machine: Machine, bytes: usize, scratch: usize, bases: [*mut u8; N],
        kernel: impl Fn(*mut u8, [*mut u8; N], [*mut u8; N], [TileRange; K]) + Sync,
    ) -> Result<()> {
        let threads = machine.threads_for(bytes);
        let bases = bases.map(Address::from);
        threads::in_ranges(threads, self.tiles, scratch, &|scratch, tiles| {
            self.walk(tiles, &bases, scratch, &kernel);
        })
    }

    fn walk(
        &self, tiles: Range<usize>, bases: &[Address; N], scratch: *mut u8,
        kernel: &impl Fn(*mut u8, [*mut u8; N], [*mut u8; N], [TileRange; K]),
    ) {
        if tiles.is_empty() {
            return;
        }
        let loops = &self.loops[..self.rank];
        let mut index = [0; MAX_AXES];
        let mut at = self.start;
        let mut rest = tiles.start;
        for (i, l) in loops.iter().enumerate().rev() {
            if rest == 0 {
                break; // at once for the first tile, which small problems have only
            }
            index[i] = rest % l.turns;
            rest /= l.turns;
            (0..N).for_each(|k| at[k] += l.steps[k] * index[i] as isize);
        }
        // Only kernels dereference; that the nest's cells may be is promised to them.
        let places = |at: &[isize; N]| std::array::from_fn(|k| bases[k].pointer().wrapping_offset(at[k]));
        let inner = self.rank - K;
        let end = tiles.end;
        for tile in tiles {
            let cuts = std::array::from_fn(|k| {
                let KernelLoop { extent, block } = self.kernel[k];
                let before = index[inner + k] * block;
                let turns = block.min(extent - before);
                TileRange { before, turns, after: extent - before - turns }
            });
            let here = places(&at);
            if tile + 1 < end {
                for (i, l) in loops.iter().enumerate().rev() {
                    index[i] += 1;
                    (0..N).for_each(|k| at[k] += l.steps[k]);
                    if index[i] < l.turns {
                        break;
                    }
                    (0..N).for_each(|k| at[k] -= l.steps[k] * l.turns as isize);
                    index[i] = 0;
                }
            }
            kernel(scratch, here, places(&at), cuts);
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
