//! Few channels: joining up to 8 planes into packed pixels, and splitting them again. Any pair of types.

use std::mem::MaybeUninit;

use super::output::Output;
use super::shape::{Shape, with_cell};
use super::{Isa, Machine, grid::Grid};
use crate::backend::Operands;
use crate::error::Result;

/// Pixels per tile that goes through a buffer: long enough for whole cache lines of any type; 8 planes of them at 8
/// bytes fill 64 KiB, 3 planes at 4 bytes 12 KiB.
const BUFFERED_PIXELS: usize = 1024;

/// Pixels per tile of a move that is written directly.
const MOVE_PIXELS: usize = 4096;

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
    // Whole registers of channels transpose better.
    let few = |extent: usize| extent <= 8 && !extent.is_multiple_of((16 / shape.src_cell).max(2));
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
    // Cells are interleaved on the narrow side of a conversion, unless old ones of the destination come into it.
    let converts_first = shape.dst_cell < cell && shape.transform.scaling.beta == 0.0;
    let (cell, moved) = if converts_first { (shape.dst_cell, output.converted()) } else { (cell, output) };
    let kernel = kernel(way, cell, channels, machine.isa);
    let direct = moved.is_direct_move();
    let pixels = if shape.is_move() && direct { MOVE_PIXELS } else { BUFFERED_PIXELS };
    let grid = Grid::new(loops, shape.start, [(channel, channels), (pixel, pixels)]);
    let (src_plane, dst_plane) = (loops[channel].src, loops[channel].dst);
    let plane = |src_plane, dst_plane| if way == Way::Join { src_plane } else { dst_plane };
    if shape.is_move() && direct {
        return grid.run(machine, shape.bytes(), operands, |tile| {
            // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place.
            unsafe { kernel(tile.dst, tile.src, plane(src_plane, dst_plane), tile.extents[1]) }
        });
    }
    grid.run(machine, shape.bytes(), operands, |tile| {
        let n = tile.extents[1];
        let (dst, mut src, mut src_plane) = (tile.dst, tile.src, src_plane);
        let buffer_plane = (n * cell) as isize;
        let mut buffers = [MaybeUninit::<[u64; 4 * BUFFERED_PIXELS]>::uninit(); 2];
        // SAFETY: every cell of the tile belongs to the nest; crossed operands are never in place. Both buffers
        // together hold at most 8 channels of n <= BUFFERED_PIXELS cells of at most 8 bytes; what is converted first
        // has at most 4, and takes one of them.
        unsafe {
            let mut buffer = buffers.as_mut_ptr().cast::<u8>();
            if converts_first {
                match way {
                    Way::Join => {
                        for c in 0..channels as isize {
                            output.convert(buffer.offset(c * buffer_plane), src.offset(c * src_plane), n);
                        }
                    }
                    Way::Split => output.convert(buffer, src, n * channels),
                }
                (src, src_plane) = (buffer, buffer_plane);
                buffer = buffer.add(size_of_val(&buffers[0]));
            }
            if direct {
                return kernel(dst, src, plane(src_plane, dst_plane), n);
            }
            kernel(buffer, src, plane(src_plane, buffer_plane), n);
            match way {
                Way::Join => moved.write(dst, buffer, n * channels),
                Way::Split => {
                    for c in 0..channels as isize {
                        moved.write(dst.offset(c * dst_plane), buffer.offset(c * buffer_plane), n);
                    }
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
