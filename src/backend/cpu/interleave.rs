//! Few channels: joining up to 8 planes into packed pixels, and splitting them again. Any pair of
//! types. Some more planes of narrow cells are joined in two steps: neighbours into wider cells,
//! and these into pixels.

use cudnn_shim_macros::vectorized;

use super::output::Output;
use super::shape::{Shape, with_cell};
use super::stage::Stage;
use super::stream::{self, LINE};
use super::tile::{Ahead, Even, Next};
use super::{Isa, Machine, grid::Grid};
use crate::backend::Operands;
use crate::error::Result;

/// Bytes of the buffer of a tile: what is interleaved before it is converted, or after it.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes of a plane of the narrower cells, of a tile that goes through the buffer: 3 planes of
/// `f32` take 12 KiB.
const PLANE_BYTES: usize = 4 << 10;

/// Pixels per tile that is interleaved to where it belongs.
const DIRECT_PIXELS: usize = 4096;

/// Bytes of the pixels that are joined or split in two steps at a time: both steps stay in the
/// first-level cache.
const STEP_BYTES: usize = 4 << 10;

/// Bytes of a lane of a register, in which a transpose works.
const LANE: usize = 16;

/// The two directions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The destination is packed pixels.
    Join,
    /// The source is packed pixels.
    Split,
}

/// How many neighbours are joined first, and how many of these cells make up a pixel, where that is
/// faster than one step: there the compiler is at a loss for shuffles.
fn steps(cell: usize, channels: usize) -> Option<(usize, usize)> {
    match (cell, channels) {
        (1, 6 | 10 | 14) | (2, 8 | 10 | 12) => Some((2, channels / 2)),
        (1, 8 | 12 | 20) => Some((4, channels / 4)),
        _ => None,
    }
}

/// Direction, index of the channel loop, index of the pixel loop.
fn classify(shape: &Shape) -> Option<(Way, usize, usize)> {
    let (d, s) = shape.crossed_units()?;
    let (along_dst, along_src) = (shape.loops()[d], shape.loops()[s]);
    // Several lanes of whole registers transpose better, if they are not converted as well.
    let has_lanes = |extent: usize| {
        let bytes = extent * shape.src_cell;
        bytes.is_multiple_of(LANE) && bytes > LANE && shape.is_move()
    };
    let in_steps = |extent| steps(shape.src_cell, extent).is_some() && shape.is_move();
    let few = |extent: usize| extent <= 8 && !has_lanes(extent) || in_steps(extent);
    if few(along_dst.extent) && along_src.dst == (along_dst.extent * shape.dst_cell) as isize {
        Some((Way::Join, d, s))
    } else if few(along_src.extent) && along_dst.src == (along_src.extent * shape.src_cell) as isize {
        Some((Way::Split, s, d))
    } else {
        None
    }
}

pub(in crate::backend) fn accepts(shape: &Shape) -> bool {
    shape.src_cell <= 8 && classify(shape).is_some()
}

/// # Safety
/// As for [`crate::backend::run`], and the problem was accepted.
pub(in crate::backend) unsafe fn run(shape: &Shape, operands: Operands, machine: Machine) -> Result<()> {
    let Some((way, channel, pixel)) = classify(shape) else { return Ok(()) };
    let (loops, cell) = (shape.loops(), shape.src_cell);
    let channels = loops[channel].extent;
    let output = Output::new(shape, machine);
    let direct = shape.is_move() && !output.streams();
    // Cells are interleaved on the narrow side of a conversion, unless old ones of the destination
    // come into it. What is streamed keeps to the order in which the conversion comes last.
    let narrows = shape.dst_cell < cell && shape.transform.scaling.beta == 0.0 && !output.streams();
    let cell = if narrows { shape.dst_cell } else { cell };
    let kernel = kernel(way, cell, channels, machine.isa);
    let pixels = match (direct, narrows) {
        (true, _) => DIRECT_PIXELS,
        (_, true) => DIRECT_PIXELS.min(BUFFER_BYTES / (channels * cell)),
        _ => (PLANE_BYTES / cell.min(shape.dst_cell)).min(BUFFER_BYTES / (channels * cell) / LINE * LINE),
    };
    let grid = Grid::new(loops, shape.start, [(channel, channels), (pixel, pixels)]);
    let (src_plane, dst_plane) = (loops[channel].src, loops[channel].dst);
    if direct {
        let plane = if way == Way::Join { src_plane } else { dst_plane };
        return grid.run(machine, shape.bytes(), operands, |tile| {
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in
            // place.
            unsafe { kernel(tile.dst, tile.src, plane, tile.extents[1]) }
        });
    }
    // What is asked for of the next tile while this one is streamed, so that memory reads and
    // writes at once.
    let ahead = |next: *const u8, n: usize| {
        let (end, bytes) = match way {
            Way::Join => (channels, n * shape.src_cell),
            Way::Split => (1, n * channels * shape.src_cell),
        };
        let later = Ahead::of(Next { src: next, rows: Even(src_plane), first: 0, end, bytes });
        let share = later.lines().div_ceil(stream::parts(n * channels * shape.dst_cell));
        (later, share)
    };
    grid.run_with(machine, shape.bytes(), BUFFER_BYTES, operands, |buffer, tile| {
        let n = tile.extents[1];
        let buffer_plane = (n * cell) as isize;
        let (dst, src) = (tile.dst, tile.src);
        let in_dst = |c: usize| dst.wrapping_offset(c as isize * dst_plane);
        let in_src = |c: usize| src.wrapping_offset(c as isize * src_plane);
        let in_buffer = |c: usize| buffer.wrapping_offset(c as isize * buffer_plane);
        // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
        // The tile's cells fit the buffer, on the side of the conversion where they are
        // interleaved.
        unsafe {
            match (way, narrows) {
                (Way::Join, true) => {
                    (0..channels).for_each(|c| output.write(in_buffer(c), in_src(c), n));
                    kernel(dst, buffer, buffer_plane, n);
                }
                (Way::Split, true) => {
                    output.write(buffer, src, n * channels);
                    kernel(dst, buffer, dst_plane, n);
                }
                (Way::Join, false) => {
                    kernel(buffer, src, src_plane, n);
                    let (mut later, share) = ahead(tile.next, n);
                    output.write_in_parts(dst, buffer, n * channels, || later.fetch(share));
                }
                (Way::Split, false) => {
                    kernel(buffer, src, buffer_plane, n);
                    let (mut later, share) = ahead(tile.next, n);
                    for c in 0..channels {
                        output.write_in_parts(in_dst(c), in_buffer(c), n, || later.fetch(share));
                    }
                }
            }
        }
    })
}

/// Joins planes `plane` bytes apart into packed pixels, or splits packed pixels into such planes.
///
/// # Safety
/// `n` pixels of each channel are readable at `src` and writable at `dst`, without overlap. The
/// processor has the instructions of the [`Isa`] that the function was chosen for.
pub(super) type Kernel = unsafe fn(dst: *mut u8, src: *const u8, plane: isize, n: usize);

/// What splits pixels of a few channels, and what joins them.
pub(super) fn split_and_join(cell: usize, channels: usize, isa: Isa) -> Option<[Kernel; 2]> {
    let is_few = (2..=8).contains(&channels);
    is_few.then(|| [Way::Split, Way::Join].map(|way| kernel(way, cell, channels, isa)))
}

fn kernel(way: Way, cell: usize, channels: usize, isa: Isa) -> Kernel {
    macro_rules! in_one_step {
        ($W:ident, $($c:literal)*) => {
            match (way, channels) {
                $((Way::Join, $c) => join::of::<$W, $c>(isa),
                (Way::Split, $c) => split::of::<$W, $c>(isa),)*
                _ => unreachable!("classify takes 2 to 8 channels, or those with steps"),
            }
        };
    }
    macro_rules! in_two_steps {
        ($W:ident, $X:ident, $F:literal, $C:expr, $($c:literal)*) => {
            match (way, $C) {
                $((Way::Join, $c) => join_twice::of::<$W, $X, $F, $c>(isa),
                (Way::Split, $c) => split_twice::of::<$W, $X, $F, $c>(isa),)*
                _ => unreachable!("steps are these"),
            }
        };
    }
    match (cell, steps(cell, channels)) {
        (1, Some((2, wider))) => in_two_steps!(u8, u16, 2, wider, 3 5 7),
        (1, Some((_, wider))) => in_two_steps!(u8, u32, 4, wider, 2 3 5),
        (_, Some((_, wider))) => in_two_steps!(u16, u32, 2, wider, 4 5 6),
        _ => with_cell!(cell, W => in_one_step!(W, 2 3 4 5 6 7 8)),
    }
}

/// # Safety
/// As for [`Kernel`].
#[vectorized]
unsafe fn join<W: Copy, const C: usize>(dst: *mut u8, src: *const u8, plane: isize, n: usize) {
    let dst = dst.cast::<W>();
    let planes: [*const W; C] = std::array::from_fn(|c| src.wrapping_offset(c as isize * plane).cast());
    for i in 0..n {
        for (c, plane) in planes.iter().enumerate() {
            // SAFETY: pixel i < n of channel c.
            unsafe { dst.add(i * C + c).write_unaligned(plane.add(i).read_unaligned()) }
        }
    }
}

/// # Safety
/// As for [`Kernel`].
#[vectorized]
unsafe fn split<W: Copy, const C: usize>(dst: *mut u8, src: *const u8, plane: isize, n: usize) {
    let src = src.cast::<W>();
    let planes: [*mut W; C] = std::array::from_fn(|c| dst.wrapping_offset(c as isize * plane).cast());
    for i in 0..n {
        for (c, plane) in planes.iter().enumerate() {
            // SAFETY: pixel i < n of channel c.
            unsafe { plane.add(i).write_unaligned(src.add(i * C + c).read_unaligned()) }
        }
    }
}

/// How many pixels of `pixel` bytes fit [`STEP_BYTES`], in whole lines of cells of one byte.
const fn step(pixel: usize) -> usize {
    STEP_BYTES / pixel / LINE * LINE
}

/// Joins `F` planes of `W` into one of `X`, and `C` of these into pixels.
///
/// # Safety
/// As for [`Kernel`]; an `X` has the bytes of `F` `W`s.
#[vectorized]
unsafe fn join_twice<W: Copy, X: Copy, const F: usize, const C: usize>(
    dst: *mut u8, src: *const u8, plane: isize, n: usize,
) {
    const { assert!(F * size_of::<W>() == size_of::<X>()) };
    let step = const { step(C * size_of::<X>()) };
    let mut stage = Stage::<STEP_BYTES>::new();
    let stage = stage.ptr();
    let wider = step * size_of::<X>();
    // This loop stands below as well: with a closure for what differs, 12 channels of two bytes are
    // not vectorised.
    for first in (0..n).step_by(step) {
        let count = step.min(n - first);
        // SAFETY: these pixels of all channels; the stage has room for as many.
        unsafe {
            let src = src.add(first * size_of::<W>());
            for c in 0..C {
                let planes = src.wrapping_offset((F * c) as isize * plane);
                join::<W, F>(stage.add(c * wider), planes, plane, count);
            }
            join::<X, C>(dst.add(first * C * size_of::<X>()), stage, wider as isize, count);
        }
    }
}

/// Splits pixels into `C` planes of `X`, and each of them into `F` planes of `W`.
///
/// # Safety
/// As for [`join_twice`].
#[vectorized]
unsafe fn split_twice<W: Copy, X: Copy, const F: usize, const C: usize>(
    dst: *mut u8, src: *const u8, plane: isize, n: usize,
) {
    const { assert!(F * size_of::<W>() == size_of::<X>()) };
    let step = const { step(C * size_of::<X>()) };
    let mut stage = Stage::<STEP_BYTES>::new();
    let stage = stage.ptr();
    let wider = step * size_of::<X>();
    for first in (0..n).step_by(step) {
        let count = step.min(n - first);
        // SAFETY: the planes have `count` cells from `first` on, and the stage has room for them.
        unsafe {
            split::<X, C>(stage, src.add(first * C * size_of::<X>()), wider as isize, count);
            let dst = dst.add(first * size_of::<W>());
            for c in 0..C {
                let planes = dst.wrapping_offset((F * c) as isize * plane);
                split::<W, F>(planes, stage.add(c * wider), plane, count);
            }
        }
    }
}
