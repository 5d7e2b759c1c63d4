//! The K blocks of a sum: what is packed and multiplied at once.

use super::share;
use crate::backend::cpu::contract::kernel::simd::Simd;
use crate::error::Result;
use crate::reserve::list;

/// What a cell is: its parts, and the cells that packing adds to a line.
#[derive(Clone, Copy)]
pub struct KGroupShape {
    per: usize,
    tails: usize,
}

impl KGroupShape {
    pub const fn of<S: Simd>() -> KGroupShape {
        KGroupShape { per: S::K_PACK, tails: S::COMPENSATION }
    }
}

/// Cells of the sum per block (KC): with AVX2 a micro-panel of lanes fills most of the first-level
/// cache. With AVX-512 it is twice as large; shorter ones gained nothing there.
pub const KC: usize = 384;

/// Part of the sum: points or channels, cells, and the segments that rows in place are read in.
#[derive(Clone, Copy)]
pub struct KBlock {
    pub begin: usize,
    pub end: usize,
    /// Cells that are packed before, for what is packed once for all tasks.
    pub before: usize,
    pub cells: usize,
    /// Cells and the tails of lines.
    pub packed: usize,
}

/// The sum in K blocks of about [`KC`] cells: of `turns` points or channels with `unit` cells each.
/// Where the innermost loop turns `inner` times, whole loops or parts of one.
pub fn k_blocks(
    KGroupShape { per, tails }: KGroupShape, loops: usize, inner: usize, unit: usize,
) -> Result<Vec<KBlock>> {
    let most = (KC / unit).max(1) * per;
    let whole = if inner > 1 { inner } else { per };
    let count = match inner > most {
        true => loops / inner * inner.div_ceil(most),
        false => loops.div_ceil(whole).div_ceil((most / whole).max(1)),
    };
    let mut list: Vec<KBlock> = list(count)?;
    let mut push = |begin: usize, end: usize| {
        let before = list.last().map_or(0, |s| s.before + s.packed);
        let cells = (end - begin).div_ceil(per) * unit;
        list.push(KBlock { begin, end, before, cells, packed: cells + tails });
    };
    if loops == 0 {
        return Ok(list);
    }
    if inner > most {
        let (pieces, cells) = (inner.div_ceil(most), inner.div_ceil(per));
        for outer in 0..loops / inner {
            for piece in 0..pieces {
                let (begin, end) = share(cells, pieces, piece);
                push(outer * inner + begin * per, outer * inner + inner.min(end * per));
            }
        }
    } else {
        // Whole cells, so that only the last one may have room left.
        let (wholes, pieces) = (loops.div_ceil(whole), count);
        for piece in 0..pieces {
            let (begin, end) = share(wholes, pieces, piece);
            push(begin * whole, loops.min(end * whole));
        }
    }
    Ok(list)
}
