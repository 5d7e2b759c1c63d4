//! Launches for two axes that trade places (`kernels/tiled.cuh`, `kernels/channels.cu`).

use super::bytes::ByteNest;
use super::general::loops;
use super::launch::{Launch, Pointers};
use super::linear::{COMMON_PAIRS, VECTOR};
use super::params::{Divisor, Index, Loop, Operation, Params};
use crate::error::Result;
use crate::layout::{Axis, LoopNest, MAX_AXES};
use crate::ops::Transform;

/// Threads of a block.
const THREADS: u64 = 256;
/// Bytes of a side of a square of a tile.
const SQUARE: u64 = 128;
/// Elements of a tile of a conversion along `a` and `b`: of a pair of types with a kernel of its
/// own, and of any.
const CONVERT_TILE: [u64; 2] = [64, 64];
const CONVERT_ANY_TILE: [u64; 2] = [64, 32];
/// Bytes of a channel of the source that a block has, where few channels are converted; twice as
/// many of up to 4.
const FEW_CONVERTED: u64 = 2048;
/// Planes that are few enough for the kernels of few channels.
const FEW: std::ops::RangeInclusive<i64> = 2..=8;
/// Bytes that both axes must have for a tile to be worth its barrier.
const WORTH: u64 = 16;

/// Two axes that trade places, `a` contiguous in the destination and `b` in the source:
/// `transpose_*`, `interleave_*` and `separate_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Tiled {
    /// Where both operands start.
    pub at: Pointers,
    /// What a conversion computes; moves by width ignore it.
    pub operation: Operation,
    /// Elements along `a`.
    pub extent_a: u64,
    /// Elements along `b`.
    pub extent_b: u64,
    /// Bytes the destination moves per step of `b`.
    pub dst_b: i64,
    /// Bytes the source moves per step of `a`.
    pub src_a: i64,
    /// Tiles along `a`, for 32-bit indices.
    pub tiles_a: Divisor,
    /// Tiles along `b`, for 32-bit indices.
    pub tiles_b: Divisor,
    /// log2 of the squares of a tile that lie side by side along `b`.
    pub squares_b: u32,
    /// 1 if every row of the destination starts on 16 bytes.
    pub vector_dst: u32,
    /// 1 if every row of the source starts on 16 bytes.
    pub vector_src: u32,
    /// Number of loops of the batch.
    pub rank: u32,
    /// The loops of the batch, innermost first, for 32-bit indices.
    pub loops: [Loop; MAX_AXES - 2],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Tiled>() == 16 + 32 + 32 + 48 + 16 + 40 * (MAX_AXES - 2));

/// A transpose whose rows do not start on 16 bytes: `transpose_shifted_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Shifted {
    /// The tiles.
    pub tiled: Tiled,
    /// Where the source begins and ends, if it has no gaps: so much may be read of it. Else
    /// `u64::MAX` and 0.
    pub source: [u64; 2],
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Shifted>() == size_of::<Tiled>() + 16);

/// A nest taken apart: the axis contiguous in the destination, the one contiguous in the source,
/// and the rest.
struct Parts {
    a: Axis<2>,
    b: Axis<2>,
    batch: LoopNest<2>,
}

/// Finds the two axes; `sizes` are the bytes of an element of either operand.
fn parts(nest: &LoopNest<2>, sizes: [u64; 2]) -> Option<Parts> {
    let unit =
        |operand: usize| nest.axes().iter().rposition(|axis| axis.strides[operand] == sizes[operand] as i64);
    let (a, b) = (unit(0)?, unit(1)?);
    if a == b {
        return None;
    }
    let mut batch = LoopNest::new(&[], [0, 0]);
    for (_, &axis) in nest.axes().iter().enumerate().filter(|&(k, _)| k != a && k != b) {
        batch.push(axis);
    }
    Some(Parts { a: nest.axes()[a], b: nest.axes()[b], batch })
}

/// The launch over tiles of these many elements, or `None` if the tiles are too many for one grid.
fn launch(
    kernel: &'static str, parts: &Parts, tile: [u64; 2], fill_in: impl FnOnce(&mut Tiled),
) -> Option<Launch> {
    tiled(parts, tile, fill_in).map(|(blocks, params)| of_blocks(kernel, blocks, Params::new(&params)))
}

/// A launch of these many blocks.
fn of_blocks(kernel: &'static str, blocks: u32, params: Params) -> Launch {
    Launch { kernel, grid: [blocks, 1, 1], block: [THREADS as u32, 1, 1], shared: 0, params }
}

/// The blocks over tiles of these many elements, and their parameters; `None` if they are too many
/// for one grid.
fn tiled(
    Parts { a, b, batch }: &Parts, tile: [u64; 2], fill_in: impl FnOnce(&mut Tiled),
) -> Option<(u32, Tiled)> {
    let tiles_a = (a.extent as u64).div_ceil(tile[0]);
    let tiles_b = (b.extent as u64).div_ceil(tile[1]);
    let blocks = tiles_a.checked_mul(tiles_b)?.checked_mul(batch.len() as u64)?;
    let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks < 1 << 31)?;
    let mut params = Tiled {
        at: Pointers { dst: 0, src: 0 },
        operation: Operation::MOVE,
        extent_a: a.extent as u64,
        extent_b: b.extent as u64,
        dst_b: b.strides[0],
        src_a: a.strides[1],
        tiles_a: Divisor::new(tiles_a as i64, Index::I32),
        tiles_b: Divisor::new(tiles_b as i64, Index::I32),
        squares_b: 0,
        vector_dst: 0,
        vector_src: 0,
        rank: batch.axes().len() as u32,
        loops: loops(batch, Index::I32),
    };
    fill_in(&mut params);
    Some((blocks, params))
}

/// Whether all of these are multiples of a vector, as a flag.
fn aligned(at: u64, batch: &LoopNest<2>, operand: usize, rows: i64) -> u32 {
    let strides =
        batch.axes().iter().fold(rows.unsigned_abs(), |all, axis| all | axis.strides[operand].unsigned_abs());
    u32::from((at | strides).is_multiple_of(VECTOR))
}

/// A move by width whose two contiguous axes differ, if it is one and the tiles pay.
pub(super) fn transpose(bytes: &ByteNest) -> Result<Option<Launch>> {
    let width = bytes.width;
    let Some(parts) = parts(&bytes.nest, [width; 2]) else { return Ok(None) };
    if let Some(launch) = few_channels(bytes, &parts) {
        return Ok(Some(launch));
    }
    let (a, b) = (parts.a.extent as u64, parts.b.extent as u64);
    if a.min(b) * width < WORTH {
        return Ok(None);
    }
    // The squares of a tile, as many as an element has bytes, lie where they leave the fewest
    // tiles; of several such ways, where a tile covers all of an axis: its rows are then one piece
    // of memory.
    let side = SQUARE / width;
    let tile = |squares_b: u32| [side * (width >> squares_b), side << squares_b];
    let tiles = |&squares_b: &u32| {
        let [tile_a, tile_b] = tile(squares_b);
        (a.div_ceil(tile_a) * b.div_ceil(tile_b), tile_a < a && tile_b < b, tile_a)
    };
    let squares_b = (0..=width.trailing_zeros()).min_by_key(tiles).unwrap_or(0);
    let params = tiled(&parts, tile(squares_b), |params| {
        params.at = bytes.at;
        params.squares_b = squares_b;
        params.vector_dst = aligned(bytes.at.dst, &parts.batch, 0, parts.b.strides[0]);
        params.vector_src = aligned(bytes.at.src, &parts.batch, 1, parts.a.strides[1]);
    });
    let Some((blocks, params)) = params else { return Ok(None) };
    let is_aligned = params.vector_dst != 0 && params.vector_src != 0;
    Ok(Some(if width >= VECTOR || is_aligned {
        let kernel = TRANSPOSE[width.trailing_zeros() as usize];
        of_blocks(kernel, blocks, Params::new(&params))
    } else {
        let kernel = TRANSPOSE_SHIFTED[width.trailing_zeros() as usize];
        of_blocks(kernel, blocks, Params::new(&Shifted { tiled: params, source: source(bytes) }))
    }))
}

/// Where the source begins and ends, if every byte of that is one of its elements; else an empty
/// range.
fn source(bytes: &ByteNest) -> [u64; 2] {
    let count = bytes.nest.axes().iter().fold(1, |all, axis| i128::from(axis.extent) * all);
    let (low, high) = bytes.reach()[1];
    let size = i128::from(high) - i128::from(low) + i128::from(bytes.width);
    if size != count * i128::from(bytes.width) {
        return [u64::MAX, 0];
    }
    let begin = bytes.at.src.wrapping_add_signed(low);
    [begin, begin.wrapping_add(size as u64)]
}

/// Planes to pixels or pixels to planes, with no gap between pixels.
fn few_channels(bytes: &ByteNest, Parts { a, b, batch }: &Parts) -> Option<Launch> {
    let width = bytes.width;
    if width > 8 {
        return None;
    }
    let interleaves = FEW.contains(&a.extent) && b.strides[0] == a.extent * width as i64;
    let separates = FEW.contains(&b.extent) && a.strides[1] == b.extent * width as i64;
    let pixels = THREADS * VECTOR / width;
    let parts = Parts { a: *a, b: *b, batch: *batch };
    let (kernel, tile, rows) = if interleaves && b.extent >= a.extent {
        (
            INTERLEAVE[width.trailing_zeros() as usize][a.extent as usize - 2],
            [a.extent as u64, pixels],
            [0, a.strides[1]],
        )
    } else if separates {
        (
            SEPARATE[width.trailing_zeros() as usize][b.extent as usize - 2],
            [pixels, b.extent as u64],
            [b.strides[0], 0],
        )
    } else {
        return None;
    };
    launch(kernel, &parts, tile, |params| {
        params.at = bytes.at;
        params.vector_dst = aligned(bytes.at.dst, batch, 0, rows[0]);
        params.vector_src = aligned(bytes.at.src, batch, 1, rows[1]);
    })
}

/// A conversion whose two contiguous axes differ, if it is one and the tiles pay. Pre: the nest is
/// canonical.
pub(super) fn transpose_convert(transform: &Transform, at: Pointers) -> Result<Option<Launch>> {
    let Transform { nest, dst, src, scaling } = transform;
    let bytes = ByteNest::new(nest, [dst.size(), src.size()], at);
    let Some(parts) = parts(&bytes.nest, [dst.size() as u64, src.size() as u64]) else { return Ok(None) };
    let own = COMMON_PAIRS.iter().find(|pair| (pair.0, pair.1) == (*src, *dst));
    let operation = Operation::new(*src, *dst, *scaling);
    if let Some(launch) =
        own.and_then(|pair| few_converted(&bytes, &parts, pair.4, src.size() as u64, operation))
    {
        return Ok(Some(launch));
    }
    // Half a tile is still better than rows of neighbours that lie apart.
    if parts.a.extent.min(parts.b.extent) < 4 {
        return Ok(None);
    }
    let (kernel, tile) =
        own.map_or(("transpose_convert_any", CONVERT_ANY_TILE), |pair| (pair.3, CONVERT_TILE));
    Ok(launch(kernel, &parts, tile, |params| {
        params.at = bytes.at;
        params.vector_dst = aligned(bytes.at.dst, &parts.batch, 0, parts.b.strides[0]);
        params.vector_src = aligned(bytes.at.src, &parts.batch, 1, parts.a.strides[1]);
        params.operation = operation;
    }))
}

/// Planes to pixels or pixels to planes, with no gap between pixels, converted by `kernel` from
/// elements of `from` bytes.
fn few_converted(
    bytes: &ByteNest, parts: &Parts, kernel: &'static str, from: u64, operation: Operation,
) -> Option<Launch> {
    let Parts { a, b, batch } = parts;
    let interleaves =
        FEW.contains(&a.extent) && b.strides[0] == a.extent * bytes.width as i64 && b.extent >= a.extent;
    let separates = FEW.contains(&b.extent) && a.strides[1] == b.extent * from as i64;
    let channels = if interleaves { a.extent } else { b.extent } as u64;
    let pixels = FEW_CONVERTED / from * if channels <= 4 { 2 } else { 1 };
    let (tile, rows, flag) = if interleaves {
        ([channels, pixels], [0, a.strides[1]], 0)
    } else if separates {
        ([pixels, channels], [b.strides[0], 0], 1)
    } else {
        return None;
    };
    launch(kernel, parts, tile, |params| {
        params.at = bytes.at;
        params.operation = operation;
        params.squares_b = flag;
        params.vector_dst = aligned(bytes.at.dst, batch, 0, rows[0]);
        params.vector_src = aligned(bytes.at.src, batch, 1, rows[1]);
    })
}

/// The names of one family of few-channel kernels: a row per width 1, 2, 4, 8; an entry per number
/// of channels.
macro_rules! channel_kernels {
    ($family:literal) => {
        channel_kernels!($family, "1", "2", "4", "8")
    };
    ($family:literal, $($width:literal),*) => {
        [$([
            concat!($family, "_w", $width, "_c2"),
            concat!($family, "_w", $width, "_c3"),
            concat!($family, "_w", $width, "_c4"),
            concat!($family, "_w", $width, "_c5"),
            concat!($family, "_w", $width, "_c6"),
            concat!($family, "_w", $width, "_c7"),
            concat!($family, "_w", $width, "_c8"),
        ]),*]
    };
}

const TRANSPOSE: [&str; 6] =
    ["transpose_w1", "transpose_w2", "transpose_w4", "transpose_w8", "transpose_w16", "transpose_w32"];
const TRANSPOSE_SHIFTED: [&str; 4] =
    ["transpose_shifted_w1", "transpose_shifted_w2", "transpose_shifted_w4", "transpose_shifted_w8"];
const INTERLEAVE: [[&str; 7]; 4] = channel_kernels!("interleave");
const SEPARATE: [[&str; 7]; 4] = channel_kernels!("separate");
