//! A transform in pieces: boxes of the tensor that touch little memory on either side are read from
//! a mapped file, transformed into a buffer and written where they belong, while the next one is
//! transformed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use cudnn::dtype::DataType;

use crate::library::{Handle, Tensor};
use crate::{Failure, Result, memory};

/// Bytes of both sides that one tile may touch.
const BUDGET: i64 = 40 << 20;

/// What a file is read in: the system maps this much around a byte that is missing
/// (fault_around_bytes of Linux).
const READ: i64 = 64 << 10;

/// What a file is written in.
const PAGE: i64 = 4096;

/// A strided tensor, by its axes in logical order. Strides are in elements and positive.
#[derive(Clone, Debug)]
pub struct Side {
    /// Type of its elements.
    pub data_type: DataType,
    /// Stride of every axis.
    pub strides: Vec<i64>,
    /// Where the first element lies.
    pub first: i64,
}

/// A transform between two strided tensors of equal extents.
#[derive(Clone, Debug)]
pub struct Job {
    /// Extents of the axes.
    pub dims: Vec<i64>,
    /// What is read.
    pub src: Side,
    /// What is written; elements do not overlap.
    pub dst: Side,
    /// Factor of every element.
    pub scale: f64,
}

impl Job {
    /// Bytes that a box of these extents touches on one side, in whole pages.
    fn footprint(&self, side: &Side, extents: &[i64], page: i64) -> i64 {
        let size = side.data_type.size() as i64;
        let mut axes: Vec<(i64, i64)> = extents
            .iter()
            .zip(&side.strides)
            .filter(|(extent, _)| **extent > 1)
            .map(|(e, s)| (s * size, *e))
            .collect();
        axes.sort_unstable();
        // A run of nearby elements, and how many such runs there are.
        let (mut run, mut count) = (size, 1_i64);
        for (stride, extent) in axes {
            if stride <= run.max(page) {
                run += (extent - 1) * stride;
            } else {
                count = count.saturating_mul(extent);
            }
        }
        // A run may begin in the midst of a page.
        let pages = if run % page == 0 { run / page } else { run / page + 2 };
        count.saturating_mul(pages * page)
    }

    /// The same on both sides.
    fn touched(&self, extents: &[i64]) -> i64 {
        self.footprint(&self.src, extents, READ).saturating_add(self.footprint(&self.dst, extents, PAGE))
    }

    /// Extents of the tiles: the whole, halved along the axis that saves most until it fits.
    fn tile(&self) -> Vec<i64> {
        let mut extents = self.dims.clone();
        let both = |extents: &[i64]| self.touched(extents);
        while both(&extents) > BUDGET {
            let halved = |axis: usize| {
                let mut smaller = extents.clone();
                smaller[axis] = (smaller[axis] + 1) / 2;
                smaller
            };
            // Of equals the one that leaves the longest runs in the destination.
            let best = (0..extents.len())
                .filter(|&axis| extents[axis] > 1)
                .min_by_key(|&axis| (both(&halved(axis)), std::cmp::Reverse(self.dst.strides[axis])));
            match best {
                Some(axis) => extents = halved(axis),
                None => break,
            }
        }
        extents
    }

    /// Where the elements of a box lie in the file, in runs of `run` elements that follow each
    /// other in the box's own packed order.
    fn runs(&self, start: &[i64], extents: &[i64]) -> (Vec<usize>, usize) {
        // Axes of the destination from the outermost. Those that follow each other without gaps,
        // from the innermost on, are one run.
        let mut order: Vec<usize> = (0..extents.len()).filter(|&axis| extents[axis] > 1).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(self.dst.strides[axis]));
        let mut run = 1;
        while let Some(&axis) = order.last().filter(|&&axis| self.dst.strides[axis] == run) {
            run *= extents[axis];
            order.pop();
        }
        let base: i64 = start.iter().zip(&self.dst.strides).map(|(at, stride)| at * stride).sum();
        let mut offsets = vec![(self.dst.first + base) as usize];
        for axis in order {
            let stride = self.dst.strides[axis] as usize;
            let steps = extents[axis] as usize;
            offsets =
                offsets.into_iter().flat_map(|at| (0..steps).map(move |step| at + step * stride)).collect();
        }
        (offsets, run as usize)
    }

    /// Strides of a box that is packed in the destination's order.
    fn packed(&self, extents: &[i64]) -> Vec<i64> {
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|&axis| (self.dst.strides[axis], self.dims[axis]));
        let mut strides = vec![1; extents.len()];
        let mut reach = 1;
        for axis in order {
            strides[axis] = reach;
            reach *= extents[axis];
        }
        strides
    }

    /// Runs it: from the bytes of a mapped file to the file, `skip` bytes behind its beginning.
    ///
    /// `forget` gives the pages back that were read; `advance` hears of the bytes that are written.
    pub fn run(
        &self, handle: &Handle, src: &[u8], dst: &File, skip: u64, forget: &dyn Fn(),
        advance: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let tile = self.tile();
        let size = self.dst.data_type.size();
        let counts: Vec<i64> =
            self.dims.iter().zip(&tile).map(|(dim, tile)| (dim + tile - 1) / tile).collect();
        // Tiles in the order of the destination, so that a disk sees them one behind the other.
        let mut order: Vec<usize> = (0..tile.len()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse((self.dst.strides[axis], self.dims[axis])));
        let total: i64 = counts.iter().product();
        thread::scope(|scope| {
            let (full, to_write): (SyncSender<Piece>, Receiver<Piece>) = sync_channel(1);
            let (empty, to_fill): (SyncSender<Vec<u64>>, Receiver<Vec<u64>>) = sync_channel(2);
            let write = move || -> std::io::Result<()> {
                memory::thread_runs();
                for piece in to_write {
                    let bytes = piece.bytes();
                    for (k, offset) in piece.offsets.iter().enumerate() {
                        let at = skip + (offset * size) as u64;
                        dst.write_all_at(&bytes[k * piece.run * size..(k + 1) * piece.run * size], at)?;
                    }
                    // Nobody waits for it at the end.
                    let _ = empty.send(piece.buffer);
                }
                Ok(())
            };
            memory::starts_thread();
            let writer = thread::Builder::new().spawn_scoped(scope, write).map_err(Failure::new)?;
            let mut made = 0;
            for at in 0..total {
                let (mut rest, mut start) = (at, vec![0; tile.len()]);
                for &axis in order.iter().rev() {
                    start[axis] = rest % counts[axis] * tile[axis];
                    rest /= counts[axis];
                }
                let extents: Vec<i64> =
                    (0..tile.len()).map(|axis| tile[axis].min(self.dims[axis] - start[axis])).collect();
                let (offsets, run) = self.runs(&start, &extents);
                let len = offsets.len() * run;
                let mut buffer = match to_fill.try_recv() {
                    Ok(buffer) => buffer,
                    Err(_) if made < 2 => {
                        made += 1;
                        Vec::new()
                    }
                    Err(_) => match to_fill.recv() {
                        Ok(buffer) => buffer,
                        // The writer has given up; what it says comes below.
                        Err(_) => break,
                    },
                };
                buffer.resize((len * size).div_ceil(8), 0);
                self.transform(handle, src, &start, &extents, &mut buffer)?;
                forget();
                if full.send(Piece { buffer, offsets, run, len: len * size }).is_err() {
                    break;
                }
                advance((len * size) as u64);
            }
            drop(full);
            match writer.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(Failure::new(error)),
                Err(_) => Err(Failure::new("the thread that writes died")),
            }
        })
    }

    /// Transforms one box into a packed buffer.
    fn transform(
        &self, handle: &Handle, src: &[u8], start: &[i64], extents: &[i64], to: &mut [u64],
    ) -> Result<()> {
        let from = Tensor::strided(self.src.data_type, extents, &self.src.strides)?;
        let into = Tensor::strided(self.dst.data_type, extents, &self.packed(extents))?;
        let base: i64 = start.iter().zip(&self.src.strides).map(|(at, stride)| at * stride).sum();
        let base = self.src.first + base;
        let last: i64 =
            extents.iter().zip(&self.src.strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let size = self.src.data_type.size();
        let source = &src[base as usize * size..(base + last + 1) as usize * size];
        let double = self.dst.data_type == DataType::Double;
        // SAFETY: the slice holds every element that the box reaches, the buffer as many as the box
        // has.
        unsafe {
            handle.transform(
                self.scale,
                (&from, source.as_ptr()),
                (&into, to.as_mut_ptr().cast()),
                double,
                None,
            )
        }
    }
}

/// A tile that is ready to be written.
struct Piece {
    buffer: Vec<u64>,
    /// Where its runs go, in elements.
    offsets: Vec<usize>,
    /// Elements of a run.
    run: usize,
    /// Bytes.
    len: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        // SAFETY: words without padding, of which the tile fills the first bytes.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(dims: &[i64], src: &[i64], dst: &[i64]) -> Job {
        let side = |strides: &[i64]| Side { data_type: DataType::Float, strides: strides.to_vec(), first: 0 };
        Job { dims: dims.to_vec(), src: side(src), dst: side(dst), scale: 1.0 }
    }

    #[test]
    fn tiles_are_small_on_both_sides() {
        // 4 GB: channels innermost to channels outermost, and the batch innermost to the batch
        // outermost.
        let hwc = job(&[1, 64, 4096, 4096], &[1 << 30, 1, 1 << 18, 64], &[1 << 30, 1 << 24, 1 << 12, 1]);
        let chwn = job(&[4096, 64, 64, 64], &[1, 1 << 24, 1 << 18, 1 << 12], &[1 << 18, 1 << 12, 64, 1]);
        for job in [hwc, chwn] {
            let tile = job.tile();
            let bytes = tile.iter().product::<i64>() * 4;
            assert!(job.touched(&tile) <= BUDGET, "{tile:?}");
            assert!(bytes > BUDGET / 16, "{tile:?} wastes what it touches");
        }
    }

    #[test]
    fn runs_cover_a_box_once() {
        let job = job(&[2, 6, 4, 5], &[120, 1, 30, 6], &[120, 20, 5, 1]);
        let (offsets, run) = job.runs(&[1, 2, 0, 0], &[1, 3, 4, 5]);
        assert_eq!((offsets, run), (vec![120 + 40], 60));
        let (offsets, run) = job.runs(&[0, 2, 1, 0], &[2, 2, 2, 5]);
        assert_eq!((offsets, run), (vec![45, 65, 165, 185], 10));
    }
}
