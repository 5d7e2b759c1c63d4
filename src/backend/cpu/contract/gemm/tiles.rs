//! The tiles of a block of lanes, and where the elements of their lanes are.

use crate::backend::cpu::contract::epilogue::run::Run;
use crate::backend::cpu::contract::kernel::fills;
use crate::backend::cpu::contract::operands::planes::Block;
use crate::backend::cpu::contract::operands::points::OperandOffsets;

/// One tile.
#[derive(Clone, Copy, Debug)]
pub struct LaneTile {
    /// The first lane, counted in cells of the planes.
    pub at: usize,
    /// Its runs.
    pub first: usize,
    pub end: usize,
    /// Lanes up to the last one that is stored.
    pub lanes: usize,
    /// Whether all lanes of a kernel are one run of neighbours in the destination.
    pub whole: bool,
}

/// The tiles of a block, and the runs of all of them.
#[derive(Default)]
pub struct Tiles {
    pub list: Vec<LaneTile>,
    pub runs: Vec<Run>,
}

impl Tiles {
    fn push(&mut self, at: usize, first: usize, nr: usize) {
        let runs = &self.runs[first..];
        let lanes = runs.last().map_or(0, |run| (run.lane + run.len) as usize);
        let whole = runs.len() == 1 && runs[0].by[0] == 1 && fills(lanes, nr);
        self.list.push(LaneTile { at, first, end: self.runs.len(), lanes, whole });
    }

    /// Adds elements to the runs of the tile that began with run `first`.
    fn add(&mut self, first: usize, run: Run) {
        if self.runs.len() > first
            && let Some(last) = self.runs.last_mut()
            && last.lane + last.len == run.lane
        {
            // Two single elements are a run whatever lies between them.
            let distance: [i64; 5] = std::array::from_fn(|k| run.at[k] - last.at[k]);
            if last.len == 1 && run.len == 1 {
                last.by = distance;
            }
            let next: [i64; 5] = last.by.map(|by| by * i64::from(last.len));
            let same = run.len == 1 || run.by == last.by;
            if distance == next && same {
                last.len += run.len;
                return;
            }
        }
        self.runs.push(run);
    }

    /// Tiles of lanes that are packed one after the other.
    pub fn of_points(&mut self, points: &[OperandOffsets], nr: usize) {
        for (number, points) in points.chunks(nr).enumerate() {
            let first = self.runs.len();
            for (lane, point) in points.iter().enumerate() {
                let at = [point.at[0], 0, 0, point.at[3], point.at[4]];
                self.add(first, Run { lane: lane as u32, len: 1, at, by: [1, 0, 0, 0, 0] });
            }
            self.push(number * nr, first, nr);
        }
    }

    /// Tiles of the outputs of a block of planes: each begins at the first output that no earlier
    /// one has.
    pub fn of_planes(
        &mut self, start: &OperandOffsets, [slow, fast]: [&OperandOffsets; 2], block: &Block, nr: usize,
    ) {
        let output = |at: [i64; 5]| [at[0], 0, 0, at[3], at[4]];
        let by = output(fast.at);
        let (mut begin, mut first, mut open) = (0, 0, false);
        for row in 0..block.rows {
            let mut column = 0;
            while column < block.columns {
                let cell = row * block.pitch + column;
                if !open || cell >= begin + nr {
                    if open {
                        self.push(begin, first, nr);
                    }
                    (begin, first, open) = (cell, self.runs.len(), true);
                }
                let len = (block.columns - column).min(begin + nr - cell);
                let mut point = *start;
                point.add(slow, row as i64);
                point.add(fast, column as i64);
                let lane = (cell - begin) as u32;
                self.add(first, Run { lane, len: len as u32, at: output(point.at), by });
                column += len;
            }
        }
        if open {
            self.push(begin, first, nr);
        }
    }
}
