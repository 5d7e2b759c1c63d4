//! How much rows press into the sets of the first-level cache: where many rows start in few sets, a
//! line leaves the cache before its other cells are needed.

use crate::backend::cpu::stream::LINE;
use crate::backend::cpu::tile::LINES_IN_CONFLICT;

/// Rows this far apart start in the same set of the first-level cache.
const PAGE: usize = 4096;

/// Lines that a set of the first-level cache holds, of most processors: 8 to 12.
const WAYS: usize = 12;

/// Rows of a block, a constant stride apart, in the first-level cache.
#[derive(Clone, Copy)]
pub(super) struct SetConflicts {
    /// Sets that they start in.
    sets: usize,
    /// Lines that they have a part of.
    lines: usize,
}

impl SetConflicts {
    /// Rows of a block of cells of 4 bytes.
    pub const BLOCK: usize = 16;

    /// Rows of the source that a tile of such cells has if it is streamed.
    pub const TILE: usize = 128;

    /// Lines of stores that are under way at a time: as many as wait in the queue of a recent
    /// processor (56 of Skylake, 104 of Zen 5), or a little less.
    const UNDER_WAY: usize = 96;

    /// Rows that hinder nobody.
    const NONE: Self = SetConflicts { sets: Self::BLOCK, lines: Self::BLOCK };

    pub fn new(rows: usize, stride: isize) -> Self {
        let stride = stride.unsigned_abs();
        if stride < LINE {
            // They share lines.
            return SetConflicts::NONE;
        }
        let lines = if stride.is_multiple_of(LINE) { 1 } else { 2 };
        SetConflicts { sets: SetConflicts::sets(rows, stride, 1), lines: rows * lines }
    }

    /// Pieces of `bytes` bytes of each of `rows` rows.
    pub fn of_pieces(rows: usize, stride: isize, bytes: usize) -> Self {
        let stride = stride.unsigned_abs();
        if stride < LINE {
            return SetConflicts::NONE;
        }
        let lines = bytes.div_ceil(LINE) + usize::from(!stride.is_multiple_of(LINE));
        // Neighbours may share a line.
        let all = (rows * lines).min((rows * stride).div_ceil(LINE));
        SetConflicts { sets: SetConflicts::sets(rows, stride, lines), lines: all }
    }

    /// A line of each row of a block.
    pub fn of_block(stride: isize) -> Self {
        SetConflicts::of_pieces(Self::BLOCK, stride, 1)
    }

    /// Sets of the first `lines` lines of rows that are `stride` bytes apart.
    fn sets(rows: usize, stride: usize, lines: usize) -> usize {
        let first = u64::MAX >> (64 - lines.min(64));
        let start = |row| (stride % PAGE * row % PAGE / LINE) as u32;
        // Then they start over.
        let different = rows.min(PAGE >> stride.trailing_zeros().min(PAGE.ilog2()));
        (0..different).fold(0, |sets, row| sets | first.rotate_left(start(row))).count_ones() as usize
    }

    /// Lines of a row of a destination that are to be written together, so that the sets hold all
    /// that are under way.
    pub fn lines_to_write(stride: isize) -> usize {
        let fits = |&lines: &usize| {
            !SetConflicts::of_pieces(Self::UNDER_WAY / lines, stride, lines * LINE).overflows()
        };
        [1, 2, 4].into_iter().find(fits).unwrap_or(LINES_IN_CONFLICT)
    }

    /// Whether the sets cannot hold the lines.
    pub fn overflows(self) -> bool {
        self.lines > WAYS * self.sets
    }

    /// Whether the sets cannot hold the lines and as many that come with them.
    pub fn is_tight(self) -> bool {
        2 * self.lines > WAYS * self.sets
    }

    /// Whether to follow these rows of a source, rather than `others` of a destination. Writing
    /// suffers more.
    pub fn is_denser(self, others: SetConflicts) -> bool {
        self.sets < others.sets || self.sets == others.sets && 2 * self.sets >= Self::BLOCK
    }
}

/// How much the rows of a block press into cache sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressure {
    None,
    /// The rows of four blocks, one below the other, do not stay.
    Some,
    /// Nor do those of one, with what comes with them.
    High,
}

impl Pressure {
    pub fn of(stride: isize) -> Self {
        if SetConflicts::of_block(stride).is_tight() {
            Pressure::High
        } else if SetConflicts::of_pieces(4 * SetConflicts::BLOCK, stride, 1).overflows() {
            Pressure::Some
        } else {
            Pressure::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_all_rows() {
        for stride in [64, 72, 192, 196, 1024, 1028, 4096, 4100, 12_544, 200_704] {
            for (rows, lines) in [(16, 1), (64, 1), (128, 2), (300, 4)] {
                let all: std::collections::BTreeSet<usize> = (0..rows)
                    .flat_map(|row| (0..lines).map(move |line| (stride * row % PAGE / LINE + line) % 64))
                    .collect();
                assert_eq!(
                    SetConflicts::sets(rows, stride, lines),
                    all.len(),
                    "{rows} rows, {stride} bytes apart"
                );
            }
        }
    }

    #[test]
    fn more_lines_are_written_together_the_more_rows_conflict() {
        for (stride, lines) in
            [(320, 1), (12_544, 1), (1024, 2), (3072, 2), (2048, 4), (4096, 8), (1 << 20, 8)]
        {
            assert_eq!(SetConflicts::lines_to_write(stride), lines, "rows {stride} bytes apart");
        }
    }
}
