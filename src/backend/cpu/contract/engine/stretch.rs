//! The sum in stretches: what is packed and multiplied at once.

use super::share;
use crate::backend::cpu::contract::simd::Simd;

/// Cells of the sum per block: with AVX2 a panel of lanes fills most of the first-level cache. With AVX-512 it is twice as
/// large; shorter ones gained nothing there.
pub(in super::super) const SUM: usize = 384;

/// Part of the sum: points or channels, cells, and the segments that rows in place are read in.
#[derive(Clone, Copy)]
pub(in super::super) struct Stretch {
    pub(in super::super) begin: usize,
    pub(in super::super) end: usize,
    /// Cells before, for what is packed once for all tasks.
    pub(in super::super) before: usize,
    pub(in super::super) cells: usize,
}

/// The sum in stretches of about [`SUM`] cells: of `turns` points or channels with `unit` cells each. Where the innermost
/// loop turns `inner` times, whole loops or parts of one.
pub(in super::super) fn stretches<S: Simd>(turns: usize, inner: usize, unit: usize) -> Vec<Stretch> {
    let most = (SUM / unit).max(1) * S::PER;
    let mut list: Vec<Stretch> = Vec::new();
    let mut push = |begin: usize, end: usize| {
        let before = list.last().map_or(0, |s| s.before + s.cells);
        list.push(Stretch { begin, end, before, cells: (end - begin).div_ceil(S::PER) * unit });
    };
    if turns == 0 {
        return list;
    }
    if inner > most {
        let pieces = inner.div_ceil(most);
        for outer in 0..turns / inner {
            for piece in 0..pieces {
                let (begin, end) = share(inner, pieces, piece);
                push(outer * inner + begin, outer * inner + end);
            }
        }
    } else {
        // Whole cells, so that only the last one may have room left.
        let unit = if inner > 1 { inner } else { S::PER };
        let count = turns.div_ceil(unit);
        let pieces = count.div_ceil((most / unit).max(1));
        for piece in 0..pieces {
            let (begin, end) = share(count, pieces, piece);
            push(begin * unit, turns.min(end * unit));
        }
    }
    list
}
