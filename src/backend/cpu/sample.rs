//! Sampling on the CPU: the taps of a chunk of positions are found once and serve all channels.
//!
//! What is summed over positions - the gradient of x - is summed in scratch, in planes or in bands
//! of planes, each by one thread in the order of the positions.

mod cells;
mod chunk;
mod gradient;

use self::cells::{Cells, with_cells};
use self::chunk::{CHUNK, Chunk, Numbers, Sink};
use super::kind::{self, Call, Kind, Table};
use super::{Machine, row, threads};
use crate::backend::Address;
use crate::backend::choice::{self, Kernel};
use crate::backend::function::{Real, with_real};
use crate::dtype::Scalar;
use crate::dtype::numbers::Math;
use crate::error::Result;
use crate::ops::Scaling;
use crate::ops::sample::{LANES, Pictures, Sample, SampleFunction};

/// What the taps of a position serve at a time.
#[derive(Clone, Copy, PartialEq)]
enum Taps {
    /// All its channels.
    Channels,
    /// One of them.
    Channel,
}

/// What the taps of a position serve by a kernel, if it accepts the step.
type Accept = fn(&Sample) -> Option<Taps>;

/// The kernels; the first one that accepts a step runs it.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "sample_interleaved",
        when: "pictures of which channels lie side by side before and after: those of a position are blended together",
        accept: |step| are_beside(step).then_some(Taps::Channels),
    },
    Kernel {
        name: "sample_planar",
        when: "all grids, pictures and gradients: channel by channel",
        accept: |_| Some(Taps::Channel),
    },
];

fn are_beside(step: &Sample) -> bool {
    let side_by_side = |at: &Pictures| at.block == 1 && at.strides[1] == 1;
    let is_blend = step.function == SampleFunction::Bilinear && step.channels > 1;
    is_blend && side_by_side(&step.x) && side_by_side(&step.y)
}

impl Kind for Sample {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        choice::names(KERNELS, |accept| accept(self))
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (_, taps) = call.choice.of(KERNELS, |accept| accept(self))?;
        with_real!(self.compute, T => {
            let job = Job { step: self, at: call.at, machine: call.machine };
            // SAFETY: in every arm the destination has distinct elements, which are apart from
            // those that are read.
            unsafe {
                match self.function {
                    SampleFunction::AffineGrid => job.affine_grid::<T>(),
                    SampleFunction::AffineGradient => job.affine_gradient::<T>(),
                    SampleFunction::Bilinear => with_cells!(self.x.scalar, T, cells => job.bilinear::<T>(cells, taps)),
                    SampleFunction::DataGradient => with_cells!(self.y.scalar, T, cells => job.data_gradient::<T>(cells)),
                    SampleFunction::GridGradient => with_cells!(self.y.scalar, T, cells => job.grid_gradient::<T>(cells)),
                }
            }
        })
    }
}

/// A step on its operands.
struct Job<'a> {
    step: &'a Sample,
    at: &'a [Address],
    machine: Machine,
}

/// The coordinate of pixel `i` of `n`.
#[inline(always)]
fn coordinate<T: Real>(i: i64, n: i64) -> T {
    if n == 1 { T::ZERO } else { T::from_f64((2 * i - (n - 1)) as f64) / T::from_f64((n - 1) as f64) }
}

impl Job<'_> {
    /// How many threads share work on `elements` elements.
    fn threads(&self, elements: i64) -> usize {
        self.machine.threads_for((elements as usize).saturating_mul(size_of::<f32>()))
    }

    /// From numbers to elements of the destination.
    fn sink<T: Real>(&self, scalar: Scalar) -> Sink<T> {
        Sink::new(scalar, self.step.scaling, self.machine)
    }

    /// How the numbers of a grid are read, operand `operand`.
    fn grid<T: Real>(&self, operand: usize) -> Numbers {
        Numbers {
            base: self.at[operand],
            cell: self.step.grid.size(),
            widen: row::between(self.step.grid, T::SCALAR, Scaling::MOVE, self.machine.isa),
        }
    }

    /// Calls `work` with chunks of positions of the grid - picture, first position, number of
    /// positions - on all threads, each with a chunk of its own.
    fn by_chunks<T: Real>(&self, work: impl Fn(&mut Chunk<T>, i64, i64, usize) + Sync) -> Result<()> {
        let positions = self.step.positions();
        let chunks = (positions as usize).div_ceil(CHUNK);
        let threads = self.threads(self.step.images * positions * self.step.channels);
        let items = self.step.images as usize * chunks;
        threads::in_ranges(threads, items, size_of::<Chunk<T>>(), &|scratch, range| {
            // SAFETY: scratch of this size, on a cache line.
            let chunk = unsafe { Chunk::<T>::new(scratch) };
            for item in range {
                let first = (item % chunks * CHUNK) as i64;
                let count = CHUNK.min((positions - first) as usize);
                work(chunk, (item / chunks) as i64, first, count);
            }
        })
    }

    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn affine_grid<T: Real + Math>(&self) -> Result<()> {
        let [rows, columns] = self.step.target;
        let (maps, sink) = (self.grid::<T>(1), self.sink::<T>(self.step.grid));
        self.by_chunks::<T>(|chunk, n, first, count| {
            let mut map = [T::ZERO; 6];
            // SAFETY: the map of a picture.
            unsafe { maps.read(n * 6, 6, map.as_mut_ptr()) };
            let [a, b, c, d, e, f] = map;
            let (mut h, mut w) = (first / columns, first % columns);
            for i in 0..count {
                let (x, y): (T, T) = (coordinate(w, columns), coordinate(h, rows));
                chunk.pairs[2 * i] = (a * x + b * y + c).canonical();
                chunk.pairs[2 * i + 1] = (d * x + e * y + f).canonical();
                w += 1;
                if w == columns {
                    (h, w) = (h + 1, 0);
                }
            }
            let to = sink.place(self.at[0], (n * self.step.positions() + first) * 2);
            // SAFETY: places of the grid.
            unsafe { sink.put(to, sink.cell(), chunk.pairs.as_ptr(), 2 * count) };
        })
    }

    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn affine_gradient<T: Real + Math>(&self) -> Result<()> {
        let [rows, columns] = self.step.target;
        let positions = self.step.positions();
        let (given, sink) = (self.grid::<T>(1), self.sink::<T>(self.step.grid));
        let threads = self.threads(self.step.images * positions);
        let bytes = size_of::<Chunk<T>>() + 6 * LANES * size_of::<f64>();
        threads::in_ranges(threads, self.step.images as usize, bytes, &|scratch, range| {
            // SAFETY: scratch for a chunk and the lanes behind it, on a cache line; zeros are
            // numbers.
            let (chunk, lanes) = unsafe {
                let lanes = scratch.add(size_of::<Chunk<T>>()).cast::<[[f64; LANES]; 6]>();
                lanes.write_bytes(0, 1);
                (Chunk::<T>::new(scratch), &mut *lanes)
            };
            for n in range {
                lanes.iter_mut().for_each(|lane| lane.fill(0.0));
                let (mut h, mut w) = (0, 0);
                for first in (0..positions).step_by(CHUNK) {
                    let count = CHUNK.min((positions - first) as usize);
                    // SAFETY: places of the gradient.
                    unsafe {
                        given.read((n as i64 * positions + first) * 2, 2 * count, chunk.pairs.as_mut_ptr())
                    };
                    for i in 0..count {
                        let (x, y): (T, T) = (coordinate(w, columns), coordinate(h, rows));
                        let (x, y) = (x.to_f64(), y.to_f64());
                        let [g, f] =
                            [chunk.pairs[2 * i], chunk.pairs[2 * i + 1]].map(|number| number.to_f64());
                        let terms = [g * x, g * y, g, f * x, f * y, f];
                        lanes.iter_mut().zip(terms).for_each(|(lane, term)| lane[i] += term);
                        w += 1;
                        if w == columns {
                            (h, w) = (h + 1, 0);
                        }
                    }
                }
                let mut map = [T::ZERO; 6];
                for (number, lanes) in map.iter_mut().zip(lanes.iter_mut()) {
                    let mut half = LANES / 2;
                    while half > 0 {
                        (0..half).for_each(|j| lanes[j] += lanes[j + half]);
                        half /= 2;
                    }
                    *number = T::from_f64(lanes[0]).canonical();
                }
                // SAFETY: the map of a picture.
                unsafe { sink.put(sink.place(self.at[0], n as i64 * 6), sink.cell(), map.as_ptr(), 6) };
            }
        })
    }

    /// # Safety
    /// As for [`Kind::run`]; elements of x are `cells`.
    unsafe fn bilinear<T: Real + Math>(&self, cells: impl Cells<T>, taps: Taps) -> Result<()> {
        let Sample { x, y, channels, target: [_, columns], .. } = self.step;
        let (grid, sink) = (self.grid::<T>(2), self.sink::<T>(y.scalar));
        self.by_chunks::<T>(|chunk, n, first, count| {
            // SAFETY: places of the grid, and taps inside x.
            unsafe {
                chunk.find(self.step, &grid, n, first, count);
                if taps == Taps::Channels {
                    for i in 0..count {
                        let place = first + i as i64;
                        let to = y.offset([n, 0, place / columns, place % columns]);
                        for c in (0..*channels).step_by(2 * CHUNK) {
                            let width = (2 * CHUNK).min((channels - c) as usize);
                            self.blend_channels(cells, chunk, i, x.channel(n, c), width);
                            let to = sink.place(self.at[0], to + c);
                            sink.put(to, sink.cell(), chunk.pairs.as_ptr(), width);
                        }
                    }
                    return;
                }
                for c in 0..*channels {
                    let from = x.channel(n, c);
                    for i in 0..count {
                        chunk.pairs[i] = self.blend(cells, chunk, i, from);
                    }
                    chunk.rows(first, count, *columns, |begin, h, w, width| {
                        let to = sink.place(self.at[0], y.offset([n, c, h, w]));
                        sink.put(to, sink.bytes(y.strides[3]), chunk.pairs.as_ptr().add(begin), width);
                    });
                }
            }
        })
    }

    /// The sum of the taps of position `i` of a chunk in the channel that starts at `from`.
    ///
    /// # Safety
    /// As for [`bilinear`](Self::bilinear).
    #[inline(always)]
    unsafe fn blend<T: Real + Math>(&self, cells: impl Cells<T>, chunk: &Chunk<T>, i: usize, from: i64) -> T {
        let (x, [row, column]) = (self.at[1].pointer().cast_const(), chunk.steps);
        let (from, mut total) = (from + chunk.first[i], T::ZERO);
        for (k, offset) in [0, column, row, row + column].into_iter().enumerate() {
            if chunk.inside[i] >> k & 1 == 1 {
                // SAFETY: a pixel.
                total = total + chunk.weights[i][k] * unsafe { cells.get(x, from + offset) };
            }
        }
        total.canonical()
    }

    /// The same for `width` channels that lie side by side from `from` on, into the pairs.
    ///
    /// # Safety
    /// As for [`bilinear`](Self::bilinear).
    unsafe fn blend_channels<T: Real + Math>(
        &self, cells: impl Cells<T>, chunk: &mut Chunk<T>, i: usize, from: i64, width: usize,
    ) {
        let (x, [row, column]) = (self.at[1].pointer().cast_const(), chunk.steps);
        let from = from + chunk.first[i];
        let numbers = &mut chunk.pairs[..width];
        numbers.fill(T::ZERO);
        for (k, offset) in [0, column, row, row + column].into_iter().enumerate() {
            if chunk.inside[i] >> k & 1 == 1 {
                let weight = chunk.weights[i][k];
                for (c, number) in (from + offset..).zip(numbers.iter_mut()) {
                    // SAFETY: a pixel.
                    *number = *number + weight * unsafe { cells.get(x, c) };
                }
            }
        }
        numbers.iter_mut().for_each(|number| *number = number.canonical());
    }
}
