//! Few channels: joining up to 8 planes into packed pixels, and splitting them again. Any pair of types.

use super::output::Output;
use super::shape::{Shape, with_cell};
use super::stage::Stage;
use super::{Isa, Machine, grid::Grid};
use crate::backend::Operands;
use crate::error::Result;

/// Bytes of the buffer of a tile: what is interleaved before it is converted, or after it.
const BUFFER_BYTES: usize = 64 << 10;

/// Pixels per tile that goes through the buffer: long enough for whole cache lines of any type, and at most 8 planes of
/// cells of 8 bytes; 3 planes at 4 bytes take 12 KiB.
const BUFFERED_PIXELS: usize = BUFFER_BYTES / (8 * 8);

/// Pixels per tile that is interleaved to where it belongs.
const DIRECT_PIXELS: usize = 4096;

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

/// Direction, index of the channel loop, index of the pixel loop.
fn classify(shape: &Shape) -> Option<(Way, usize, usize)> {
    let (d, s) = shape.crossed_units()?;
    let (along_dst, along_src) = (shape.loops()[d], shape.loops()[s]);
    // Several lanes of whole registers transpose better, if they are not converted as well.
    let has_lanes = |extent: usize| {
        let bytes = extent * shape.src_cell;
        bytes.is_multiple_of(LANE) && bytes > LANE && shape.is_move()
    };
    let few = |extent: usize| extent <= 8 && !has_lanes(extent);
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
    // Cells are interleaved on the narrow side of a conversion, unless old ones of the destination come into it. What
    // is streamed keeps to the order in which the conversion comes last.
    let narrows = shape.dst_cell < cell && shape.transform.scaling.beta == 0.0 && !output.streams();
    let cell = if narrows { shape.dst_cell } else { cell };
    let kernel = kernel(way, cell, channels, machine.isa);
    let pixels = match (direct, narrows) {
        (true, _) => DIRECT_PIXELS,
        (_, true) => DIRECT_PIXELS.min(BUFFER_BYTES / (channels * cell)),
        _ => BUFFERED_PIXELS,
    };
    let grid = Grid::new(loops, shape.start, [(channel, channels), (pixel, pixels)]);
    let (src_plane, dst_plane) = (loops[channel].src, loops[channel].dst);
    if direct {
        let plane = if way == Way::Join { src_plane } else { dst_plane };
        return grid.run(machine, shape.bytes(), operands, |tile| {
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
            unsafe { kernel(tile.dst, tile.src, plane, tile.extents[1]) }
        });
    }
    grid.run(machine, shape.bytes(), operands, |tile| {
        let n = tile.extents[1];
        let buffer_plane = (n * cell) as isize;
        let mut buffer = Stage::<BUFFER_BYTES>::new();
        let buffer = buffer.ptr();
        let (dst, src) = (tile.dst, tile.src);
        let in_dst = |c: usize| dst.wrapping_offset(c as isize * dst_plane);
        let in_src = |c: usize| src.wrapping_offset(c as isize * src_plane);
        let in_buffer = |c: usize| buffer.wrapping_offset(c as isize * buffer_plane);
        // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place. The tile's cells
        // fit the buffer, on the side of the conversion where they are interleaved.
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
                    output.write(dst, buffer, n * channels);
                }
                (Way::Split, false) => {
                    kernel(buffer, src, buffer_plane, n);
                    (0..channels).for_each(|c| output.write(in_dst(c), in_buffer(c), n));
                }
            }
        }
    })
}

/// Joins planes `plane` bytes apart into packed pixels, or splits packed pixels into such planes.
///
/// # Safety
/// `n` pixels of each channel are readable at `src` and writable at `dst`, without overlap. The processor has
/// the instructions of the [`Isa`] that the function was chosen for.
type Kernel = unsafe fn(dst: *mut u8, src: *const u8, plane: isize, n: usize);

fn kernel(way: Way, cell: usize, channels: usize, isa: Isa) -> Kernel {
    macro_rules! pick {
        ($W:ident, $($c:literal)*) => {
            match (way, channels) {
                $((Way::Join, $c) => pick!(@isa join, $W, $c),
                (Way::Split, $c) => pick!(@isa split, $W, $c),)*
                _ => unreachable!("classify takes 2 to 8 channels"),
            }
        };
        (@isa $name:ident, $W:ident, $c:literal) => {{
            #[cfg(target_arch = "x86_64")]
            if isa.has_avx512() {
                return avx512::$name::<$W, $c>;
            } else if isa.has_avx2() {
                return avx2::$name::<$W, $c>;
            }
            let _ = isa;
            $name::<$W, $c>
        }};
    }
    with_cell!(cell, W => pick!(W, 2 3 4 5 6 7 8))
}

/// # Safety
/// As for [`Kernel`].
#[inline(always)]
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
#[inline(always)]
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

/// The same loops, compiled for more instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($isa:ident, $features:literal) => {
        mod $isa {
            /// # Safety
            /// As for [`super::Kernel`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn join<W: Copy, const C: usize>(
                dst: *mut u8,
                src: *const u8,
                plane: isize,
                n: usize,
            ) {
                // SAFETY: handed on.
                unsafe { super::join::<W, C>(dst, src, plane, n) }
            }

            /// # Safety
            /// As for [`super::Kernel`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn split<W: Copy, const C: usize>(
                dst: *mut u8,
                src: *const u8,
                plane: isize,
                n: usize,
            ) {
                // SAFETY: handed on.
                unsafe { super::split::<W, C>(dst, src, plane, n) }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");
