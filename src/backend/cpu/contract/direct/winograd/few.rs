//! Few tiles and many filters: tasks transform a panel of filters and multiply it at once, instead
//! of writing all of them to memory and reading them again. The patches of all tiles are
//! transformed before.
use super::filters::{FilterLanes, LINE, PASS};
use super::{ELEMENTS, TAPS};
use crate::backend::cpu::contract::gemm::engine::Shared;
use crate::backend::cpu::contract::kernel::simd::Simd;
use crate::backend::cpu::{arena, threads};
use crate::error::Result;

/// Bytes of transformed filters from which on they are not worth keeping, and of patches up to
/// which those are.
const FILTERS: usize = 1 << 20;
const PATCHES: usize = 16 << 20;

/// Tiles whose sums are kept at once.
const TILES: usize = 64;

/// Tiles that are transformed by one task, or channels of an image in planes.
const TILES_GRAIN: usize = 8;
const CHANNELS_GRAIN: usize = 64;

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> FilterLanes<'_, S> {
    /// Whether tasks with filters of their own pay, for as many threads. Results do not depend on
    /// it.
    pub(super) fn has_few_tiles(&self, threads: usize) -> bool {
        let panels = self.view.batch.len() * self.panels();
        let bytes = size_of::<f32>() * ELEMENTS;
        let filters = panels * self.panel_cells() * bytes;
        let patches = self.view.batch.len() * self.slab(self.tiles()) * bytes;
        filters >= FILTERS && patches <= filters.min(PATCHES) && (threads == 1 || panels >= 2 * threads)
    }

    /// Transforms the filters of all panels, one panel behind the other.
    ///
    /// # Safety
    /// As for [`run`](FilterLanes::run); there is room for every panel.
    pub(super) unsafe fn all_filters(&self, threads: usize, to: &Shared<f32>) -> Result<()> {
        let panels = self.view.batch.len() * self.panels();
        let cells = ELEMENTS * self.panel_cells();
        let packed = TAPS * PASS * Self::NR * size_of::<f32>();
        // There may be a single panel.
        let passes = self.passes();
        let parts = if threads > 1 { (4 * threads).div_ceil(panels).min(passes) } else { 1 };
        threads::run_with(threads, panels * parts, packed, &|scratch, index| {
            let (panel, part) = (index / parts, index % parts);
            let own = passes * part / parts..passes * (part + 1) / parts;
            // SAFETY: every panel has its filters and a place of its own, in which every pass has
            // its channels.
            unsafe { self.filters(to.at(panel * cells), scratch.cast(), panel, own) };
        })
    }

    /// Runs the contraction, with filters that are transformed, if they are.
    ///
    /// # Safety
    /// As for [`run`](FilterLanes::run), with sums of one panel at once.
    pub(super) unsafe fn run_few(&self, threads: usize, filters: Option<&Shared<f32>>) -> Result<()> {
        let (products, tiles) = (self.view.batch.len(), self.tiles());
        let slab = self.slab(tiles);
        let cells = [
            ELEMENTS * self.panel_cells(),
            TAPS * PASS * Self::NR,
            ELEMENTS * self.acc_len(tiles.min(TILES)),
            4 * Self::NR,
        ];
        arena::with(products * ELEMENTS * slab * size_of::<f32>(), |memory| {
            let shared = Shared(memory.cast::<f32>());
            let channels = self.channels.extent;
            let (pieces, each) = match self.planar {
                true => (self.images.len(), CHANNELS_GRAIN),
                false => (tiles.div_ceil(TILES_GRAIN), channels),
            };
            let parts = channels.div_ceil(each);
            let scratch = (self.pixels() + LINE) * size_of::<f32>();
            threads::run_with(threads, products * pieces * parts, scratch, &|scratch, index| {
                let (product, piece, first) =
                    (index / parts / pieces, index / parts % pieces, index % parts * each);
                let own = tiles * piece / pieces..tiles * (piece + 1) / pieces;
                let to = shared.at(product * ELEMENTS * slab + own.start * self.tile_cells());
                let some = first..channels.min(first + each);
                // SAFETY: the image has these channels, and every channel of every tile has a place
                // of its own.
                unsafe { self.patches(self.place(product).at[1], own, some, slab, scratch.cast(), to) };
            })?;
            let tasks = products * self.panels();
            let scratch = cells.iter().sum::<usize>() * size_of::<f32>();
            threads::run_with(threads, tasks, scratch, &|scratch, number| {
                let product = number / self.panels();
                let patches = shared.at(product * ELEMENTS * slab);
                // SAFETY: the patches are there, tasks write disjoint elements, and the scratch is
                // this one's.
                unsafe { self.panel(number, filters, (patches, slab), scratch.cast(), cells) };
            })
        })
    }

    /// Computes all tiles for one panel of filters.
    ///
    /// # Safety
    /// As for [`run`](FilterLanes::run); the patches are transformed; the scratch has as many cells
    /// for transformed filters, filters, sums and lines.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn panel(
        &self, number: usize, filters: Option<&Shared<f32>>, (patches, slab): (*const f32, usize),
        scratch: *mut f32, cells: [usize; 4],
    ) {
        let (place, panel) = (self.place(number / self.panels()), number % self.panels());
        let packed = scratch.wrapping_add(cells[0]);
        let acc = packed.wrapping_add(cells[1]);
        let lines = acc.wrapping_add(cells[2]);
        let transformed = match filters {
            Some(filters) => filters.at(number * cells[0]),
            None => {
                // SAFETY: the scratch has room for a panel of transformed filters, and for those of
                // a pass.
                unsafe { self.filters(scratch, packed, number, 0..self.passes()) };
                scratch
            }
        };
        let offsets = self.steps();
        let all = self.tiles();
        for first in (0..all).step_by(TILES) {
            let count = TILES.min(all - first);
            let acc_slab = self.acc_len(count);
            for e in 0..ELEMENTS {
                let filters = transformed.wrapping_add(e * self.panel_cells());
                let patches = patches.wrapping_add(e * slab + first * self.tile_cells());
                let to = acc.wrapping_add(e * acc_slab);
                // SAFETY: the patches and the filters are transformed, and there is room for the
                // sums.
                unsafe { self.multiply(panel, filters, (patches, count), &offsets, to) };
            }
            for tile in first..first + count {
                let from = acc.wrapping_add((tile - first) * Self::NR).cast_const();
                let own = panel..panel + 1;
                // SAFETY: the sums of the panel are there.
                unsafe { self.results(&place, tile, own, (from, acc_slab, count * Self::NR), lines) };
            }
        }
    }
}
