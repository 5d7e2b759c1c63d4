//! The patches of tiles whose lanes are filters.

use std::ops::Range;

use super::filters::FilterLanes;
use super::{EIGHT, ELEMENTS, load, patch, store};
use crate::backend::cpu::contract::kernel::simd::Simd;
use crate::backend::cpu::contract::operands::pack::{MANY, transpose_many};
use crate::backend::cpu::contract::operands::points::Loop;
use crate::backend::cpu::stream::fetch;
use crate::ops::Scaling;

/// Tiles whose patches are transformed block by block of channels.
const TOGETHER: usize = 8;

impl<S: Simd<Scalar = f32, KGroup = f32, Acc = f32>> FilterLanes<'_, S> {
    /// Cells of the channels outside the image, and of those of a patch that are converted, or of
    /// an image that are turned and before that converted.
    pub(super) fn pixels(&self) -> usize {
        let positions = self.positions();
        match (self.planar, self.view.a.convert) {
            (false, None) => self.channels.extent,
            (false, Some(_)) => (1 + ELEMENTS) * self.channels.extent,
            (true, _) => MANY * (1 + positions[0] * positions[1] + positions[1]),
        }
    }

    /// Rows and columns of an image that planes have; of others nobody asks.
    fn positions(&self) -> [usize; 2] {
        self.dims.each_ref().map(|dim| if self.planar { dim.positions() } else { 0 })
    }

    /// Transforms the patches of some tiles: `[element][tile][channel]`, a slab from element to
    /// element. Of planes some channels, else all.
    ///
    /// # Safety
    /// As for [`task`](FilterLanes::task); there is room for the [`pixels`](FilterLanes::pixels).
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    #[allow(clippy::too_many_arguments, reason = "which patches, from where, to where")]
    pub(super) unsafe fn patches(
        &self, place: i64, tiles: Range<usize>, channels: Range<usize>, slab: usize, pixels: *mut f32,
        to: *mut f32,
    ) {
        if self.planar {
            let each = self.tiles() / self.images.len();
            for image in tiles.start / each..tiles.end.div_ceil(each) {
                let own = tiles.start.max(image * each)..tiles.end.min((image + 1) * each);
                let at = place + self.images.offset(image, 1);
                let to = to.wrapping_add((own.start - tiles.start) * self.tile_cells());
                for first in channels.clone().step_by(MANY) {
                    let transposed = first..channels.end.min(first + MANY);
                    // SAFETY: the tiles are those of the block, and the slab has room for them.
                    unsafe { self.transposed(at, transposed, own.clone(), slab, pixels, to) };
                }
            }
            return;
        }
        let channels = self.channels.extent;
        // SAFETY: there is room for a pixel of zeros.
        unsafe { pixels.write_bytes(0, channels) };
        if let Some(blocks) = &self.channel_blocks {
            // SAFETY: the tiles are those of the block, and the slab has room for them.
            return unsafe { self.blocks(place, tiles, blocks, slab, pixels, to) };
        }
        for (row, tile) in tiles.enumerate() {
            let mut from = self.pixels_of(place, tile, pixels);
            if let Some(convert) = self.view.a.convert {
                for (i, from) in from.iter_mut().enumerate().filter(|(_, from)| **from != pixels.cast_const())
                {
                    let near = pixels.wrapping_add((1 + i) * channels);
                    // SAFETY: the channels of a pixel lie side by side, and `near` has room for
                    // them.
                    unsafe { convert(near.cast(), from.cast(), channels, Scaling::MOVE) };
                    *from = near;
                }
            }
            // SAFETY: every pixel has its channels, one outside the image zeros, and the patches
            // have a place for the row.
            unsafe { transform(&from, channels, slab, to.wrapping_add(row * self.tile_cells())) };
        }
    }

    /// The same of channels in blocks, a few tiles at a time: else two pixels of every block would
    /// be read in turn, and lines asked for too late.
    ///
    /// # Safety
    /// As for [`patches`](FilterLanes::patches).
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn blocks(
        &self, place: i64, tiles: Range<usize>, blocks: &Loop, slab: usize, pixels: *mut f32, to: *mut f32,
    ) {
        let mut from = [[std::ptr::null(); ELEMENTS]; TOGETHER];
        for first in tiles.clone().step_by(TOGETHER) {
            let some = TOGETHER.min(tiles.end - first);
            for (from, tile) in from[..some].iter_mut().zip(first..) {
                *from = self.pixels_of(place, tile, pixels);
            }
            for block in (0..self.channels.extent).step_by(blocks.extent) {
                let to = to.wrapping_add((first - tiles.start) * self.tile_cells() + block);
                for (row, from) in from[..some].iter_mut().enumerate() {
                    for line in from.chunks(4) {
                        fetch(line[1].wrapping_add(TOGETHER * 2 * blocks.extent).cast());
                    }
                    // SAFETY: every pixel has the channels of a block, one outside the image zeros,
                    // and the patches have a place for the row.
                    unsafe { transform(from, blocks.extent, slab, to.wrapping_add(row * self.tile_cells())) };
                    for from in from.iter_mut().filter(|from| **from != pixels.cast_const()) {
                        *from = from.wrapping_offset(blocks.by.at[1] as isize);
                    }
                }
            }
        }
    }

    /// Where the pixels of the patch of a tile are; of those outside the image, `outside`.
    #[inline(always)]
    fn pixels_of(&self, place: i64, tile: usize, outside: *const f32) -> [*const f32; ELEMENTS] {
        let (image, at) = self.tile(tile);
        let mut from = [outside; ELEMENTS];
        for (i, from) in from.iter_mut().enumerate() {
            let Some([y, x]) = self.position(at, i) else { continue };
            let along = self.dims[0].offset(y) + self.dims[1].offset(x);
            let at = (place + image.at[1] + along) * self.view.a.scalar.size() as i64;
            *from = self.view.a.data.wrapping_offset(at as isize).cast();
        }
        from
    }

    /// The position of one element of the patch of a tile, if the image has it.
    #[inline(always)]
    fn position(&self, tile: [usize; 2], element: usize) -> Option<[i64; 2]> {
        let places = [element / 4, element % 4];
        let at = |d: usize| self.dims[d].first_position() + (2 * tile[d] + places[d]) as i64;
        let [y, x] = [at(0), at(1)];
        (self.dims[0].holds(y) && self.dims[1].holds(x)).then_some([y, x])
    }

    /// Transforms some channels of the patches of some tiles of an image whose rows are contiguous,
    /// of which those channels are turned before.
    ///
    /// # Safety
    /// As for [`patches`](FilterLanes::patches).
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
    unsafe fn transposed(
        &self, place: i64, channels: Range<usize>, tiles: Range<usize>, slab: usize, pixels: *mut f32,
        to: *mut f32,
    ) {
        let [high, wide] = self.positions();
        let (size, image) = (self.view.a.scalar.size() as i64, pixels.wrapping_add(MANY));
        let converted = image.wrapping_add(high * wide * MANY);
        let mut lines = [std::ptr::null(); MANY];
        // SAFETY: the image has these rows and channels; `pixels` has room for as many, and for a
        // row of them.
        unsafe {
            pixels.write_bytes(0, MANY);
            for y in 0..high {
                for (number, channel) in channels.clone().enumerate() {
                    let along = self.channels.by.at[1] * channel as i64;
                    let at = place + along + self.dims[0].offset(y as i64) + self.dims[1].offset(0);
                    let from = self.view.a.data.wrapping_offset((at * size) as isize);
                    lines[number] = match self.view.a.convert {
                        Some(convert) => {
                            let near = converted.wrapping_add(number * wide);
                            convert(near.cast(), from, wide, Scaling::MOVE);
                            near.cast_const()
                        }
                        None => from.cast(),
                    };
                }
                let to = image.wrapping_add(y * wide * MANY);
                transpose_many(&lines[..channels.len()], wide, to, MANY as isize, self.view.a.isa);
            }
            for (row, tile) in tiles.enumerate() {
                let (_, at) = self.tile(tile);
                let from: [*const f32; ELEMENTS] = std::array::from_fn(|i| match self.position(at, i) {
                    Some([y, x]) => image.wrapping_add((y as usize * wide + x as usize) * MANY).cast_const(),
                    None => pixels.cast_const(),
                });
                let to = to.wrapping_add(row * self.tile_cells() + channels.start);
                transform(&from, channels.len(), slab, to);
            }
        }
    }
}

/// Transforms some channels, a multiple of [`EIGHT`], of a patch whose positions are at `from`.
///
/// # Safety
/// As many numbers are readable at every position, and writable in every slab.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn transform(from: &[*const f32; ELEMENTS], channels: usize, slab: usize, to: *mut f32) {
    for channel in (0..channels).step_by(EIGHT) {
        // SAFETY: each of the positions has as many readable numbers, and each slab as many places.
        unsafe {
            // Loops: what `map` calls is not inlined, as it has other instructions than this.
            let mut d = [[[0.0; EIGHT]; 4]; 4];
            for (line, from) in d.iter_mut().zip(from.as_chunks::<4>().0) {
                for (d, from) in line.iter_mut().zip(from) {
                    *d = load(from.add(channel));
                }
                *line = patch(*line);
            }
            for j in 0..4 {
                let column = patch([d[0][j], d[1][j], d[2][j], d[3][j]]);
                for (i, &v) in column.iter().enumerate() {
                    store(to.add((i * 4 + j) * slab + channel), v);
                }
            }
        }
    }
}
