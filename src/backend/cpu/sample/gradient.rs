//! The gradients of sampling: of x, by planes of sums, and of the grid.

use super::Job;
use super::cells::Cells;
use super::chunk::{CHUNK, Chunk, Sink};
use crate::backend::cpu::threads;
use crate::backend::function::Real;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::sample::Sample;

/// Sums that a thread keeps while it walks the positions, if it keeps those of several channels.
const ACC_TILE: usize = 1 << 17;
/// Sums that it keeps at most: of larger planes, it walks the positions once for each band.
const MAX_ACC_TILE: usize = 1 << 22;

/// A share of the gradient of x: some channels of a picture, and a band of their pixels, row by
/// row.
struct Share {
    n: i64,
    channels: [i64; 2],
    pixels: [i64; 2],
}

impl Job<'_> {
    /// # Safety
    /// As for [`run`](fn@super::run); elements of dy are `cells`.
    pub(super) unsafe fn data_gradient<T: Real + Math>(&self, cells: impl Cells<T>) -> Result<()> {
        let Sample { channels, source: [rows, columns], images, .. } = *self.step;
        let pixels = (rows * columns) as usize;
        let threads = self.threads(images * channels * (rows * columns + self.step.positions()));
        let band = pixels.min(MAX_ACC_TILE);
        let bands = pixels.div_ceil(band);
        // As many channels as are near, but work for all threads.
        let fair = (images as usize * channels as usize).div_ceil(threads).max(1);
        let group = (ACC_TILE / band).clamp(1, channels as usize).min(fair);
        let groups = (channels as usize).div_ceil(group);
        let bytes = size_of::<Chunk<T>>() + group * band * size_of::<T>();
        threads::in_ranges(threads, images as usize * groups * bands, bytes, &|scratch, range| {
            // SAFETY: scratch for a chunk and the sums behind it, on a cache line.
            let chunk = unsafe { Chunk::<T>::new(scratch) };
            let sums = scratch.wrapping_add(size_of::<Chunk<T>>()).cast::<T>();
            for item in range {
                let (n, rest) = (item / (groups * bands), item % (groups * bands));
                let (first, begin) = (rest / bands * group, rest % bands * band);
                let share = Share {
                    n: n as i64,
                    channels: [first as i64, channels.min((first + group) as i64)],
                    pixels: [begin as i64, (begin + band).min(pixels) as i64],
                };
                // SAFETY: shares are apart, and the scratch has room for one.
                unsafe { self.share(cells, &share, chunk, sums) };
            }
        })
    }

    /// # Safety
    /// As for [`data_gradient`](Self::data_gradient); the sums have room for the share.
    unsafe fn share<T: Real + Math>(
        &self, cells: impl Cells<T>, share: &Share, chunk: &mut Chunk<T>, sums: *mut T,
    ) {
        let Sample { x, y, source: [_, columns], target, .. } = *self.step;
        let (grid, sink) = (self.grid::<T>(2), self.sink::<T>(x.scalar));
        let dy = self.at[1].pointer().cast_const();
        let [begin, end] = share.pixels;
        let band = (end - begin) as usize;
        let planes = (share.channels[1] - share.channels[0]) as usize;
        // SAFETY: zeros are numbers, and there are `planes * band` of them.
        unsafe { sums.write_bytes(0, planes * band) };
        let positions = self.step.positions();
        for first in (0..positions).step_by(CHUNK) {
            let count = CHUNK.min((positions - first) as usize);
            // SAFETY: places of the grid.
            unsafe { chunk.find(self.step, &grid, share.n, first, count) };
            for plane in 0..planes {
                let c = share.channels[0] + plane as i64;
                let sums = sums.wrapping_add(plane * band);
                chunk.rows(first, count, target[1], |part, h, w, width| {
                    let from = y.offset([share.n, c, h, w]);
                    for k in 0..width {
                        let i = part + k;
                        // SAFETY: an element of dy.
                        let given: T = unsafe { cells.get(dy, from + k as i64 * y.strides[3]) };
                        let corner = chunk.corner[i][0] * columns + chunk.corner[i][1];
                        for (tap, step) in [0, 1, columns, columns + 1].into_iter().enumerate() {
                            let pixel = corner + step;
                            if chunk.inside[i] >> tap & 1 == 1 && (begin..end).contains(&pixel) {
                                let sum = sums.wrapping_add((pixel - begin) as usize);
                                // SAFETY: a sum of the band.
                                unsafe { sum.write(sum.read() + given * chunk.weights[i][tap]) };
                            }
                        }
                    }
                });
            }
        }
        for plane in 0..planes {
            let c = share.channels[0] + plane as i64;
            let mut pixel = begin;
            while pixel < end {
                let (h, w) = (pixel / columns, pixel % columns);
                let width = (columns - w).min(end - pixel) as usize;
                // SAFETY: sums of the band, and pixels of dx.
                unsafe {
                    let sums = sums.add(plane * band + (pixel - begin) as usize);
                    for k in 0..width {
                        sums.add(k).write(sums.add(k).read().canonical());
                    }
                    let to = sink.place(self.at[0], x.offset([share.n, c, h, w]));
                    sink.put(to, sink.bytes(x.strides[3]), sums, width);
                }
                pixel += width as i64;
            }
        }
    }

    /// # Safety
    /// As for [`run`](fn@super::run); elements of x and dy are `cells`.
    pub(super) unsafe fn grid_gradient<T: Real + Math>(&self, cells: impl Cells<T>) -> Result<()> {
        let Sample { x, y, channels, target: [_, columns], .. } = *self.step;
        let halves = self.step.halves().map(T::from_f64);
        let (grid, sink): (_, Sink<T>) = (self.grid::<T>(3), self.sink(self.step.grid));
        let (pixels, dy) = (self.at[1], self.at[2]);
        self.by_chunks::<T>(|chunk, n, first, count| {
            // SAFETY: places of the grid.
            unsafe { chunk.find(self.step, &grid, n, first, count) };
            chunk.pairs.fill(T::ZERO);
            let [row, column] = chunk.steps;
            for i in 0..count {
                let place = first + i as i64;
                let (h, w) = (place / columns, place % columns);
                let inside = chunk.inside[i];
                if inside == 0 {
                    continue;
                }
                let ([above, below], [left, right]) = (chunk.down[i], chunk.across[i]);
                let mut sums = [T::ZERO; 2];
                for c in 0..channels {
                    let from = x.channel(n, c) + chunk.first[i];
                    let tap = |k: usize, offset: i64| {
                        if inside >> k & 1 == 1 {
                            // SAFETY: a pixel.
                            unsafe { cells.get(pixels.pointer().cast_const(), from + offset) }
                        } else {
                            T::ZERO
                        }
                    };
                    let v = [tap(0, 0), tap(1, column), tap(2, row), tap(3, row + column)];
                    // SAFETY: an element of dy.
                    let given: T = unsafe { cells.get(dy.pointer().cast_const(), y.offset([n, c, h, w])) };
                    let along = (v[1] - v[0]) * above + (v[3] - v[2]) * below;
                    let across = (v[2] - v[0]) * left + (v[3] - v[1]) * right;
                    sums = [sums[0] + given * along, sums[1] + given * across];
                }
                chunk.pairs[2 * i] = (sums[0] * halves[1]).canonical();
                chunk.pairs[2 * i + 1] = (sums[1] * halves[0]).canonical();
            }
            let to = sink.place(self.at[0], (n * self.step.positions() + first) * 2);
            // SAFETY: places of the gradient.
            unsafe { sink.put(to, sink.cell(), chunk.pairs.as_ptr(), 2 * count) };
        })
    }
}
