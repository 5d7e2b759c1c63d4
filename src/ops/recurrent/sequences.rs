//! A batch of sequences, and the order in which their steps are computed.

use crate::desc::RnnDataDescriptor;
use crate::desc::sequence::RnnDataLayout;

/// Neighbouring time steps at which the same sequences are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first of these steps.
    pub step: i64,
    /// How many they are.
    pub steps: i64,
    /// Active sequences: those of rank 0 to `active - 1`.
    pub active: i64,
    /// Rows of all steps before.
    pub row: i64,
}

/// A batch of sequences. A row is one time step of one sequence; rows are counted in the order that
/// `ops/recurrent` describes, and the rank of a sequence is its place among those sorted by falling
/// length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    layout: RnnDataLayout,
    max_length: i64,
    lengths: Vec<i64>,
    /// The sequence of each rank.
    order: Vec<usize>,
    segments: Vec<Segment>,
}

/// One time step of a direction: the rows that are active, and where the states before them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStep {
    /// The row of rank 0.
    pub row: i64,
    /// Active sequences: ranks from 0.
    pub active: i64,
    /// Active sequences that go on; the others begin here, from their first state.
    pub continuing: i64,
    /// The row of rank 0 at the step before in this direction; of no meaning where none goes on.
    pub before: i64,
}

/// Rows that are regular loops in both orders: time steps around ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Time steps.
    pub steps: i64,
    /// Ranks.
    pub ranks: i64,
    /// The first row in our order, and how many rows a time step goes on; a rank goes on by one.
    pub row: (i64, i64),
    /// The first row in the caller's order, and how many rows a time step and a rank go on.
    pub theirs: (i64, i64, i64),
}

impl Sequences {
    /// The batch of a descriptor.
    pub fn of(data: &RnnDataDescriptor) -> Sequences {
        let lengths = data.lengths().iter().map(|&length| length.into()).collect();
        Sequences::new(data.layout(), data.max_length().into(), lengths)
    }

    /// The batch in the packed layout whose number of active sequences at each time step is that of
    /// `batches`. Pre: these never increase, and none is negative.
    pub fn from_batches(batches: &[i64]) -> Sequences {
        let batch = batches.first().copied().unwrap_or(0);
        // The length of a sequence is the number of steps at which more sequences than its rank are
        // active.
        let lengths =
            (0..batch).map(|rank| batches.partition_point(|&active| active > rank) as i64).collect();
        Sequences::new(RnnDataLayout::TimeMajorPacked, batches.len() as i64, lengths)
    }

    /// A batch of sequences of these lengths. Pre: none is negative or above `max_length`; in the
    /// packed layout none increases.
    pub fn new(layout: RnnDataLayout, max_length: i64, lengths: Vec<i64>) -> Sequences {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
        let (mut segments, mut step, mut row) = (Vec::new(), 0, 0);
        let mut active = order.len();
        while active > 0 {
            let length = lengths[order[active - 1]];
            if length > step {
                segments.push(Segment { step, steps: length - step, active: active as i64, row });
                row += (length - step) * active as i64;
                step = length;
            }
            active -= 1;
        }
        Sequences { layout, max_length, lengths, order, segments }
    }

    /// Sequences of the batch.
    pub fn batch(&self) -> i64 {
        self.lengths.len() as i64
    }

    /// Rows: the sum of all lengths.
    pub fn rows(&self) -> i64 {
        self.segments.last().map_or(0, |last| last.row + last.steps * last.active)
    }

    /// The longest length.
    pub fn steps(&self) -> i64 {
        self.segments.last().map_or(0, |last| last.step + last.steps)
    }

    /// The time steps in runs that have the same active sequences, the first steps first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Calls `f` with every time step of one direction, from its first to its last one, or from the
    /// last one back.
    pub fn for_each_time_step<E>(
        &self, reverse: bool, back: bool, mut f: impl FnMut(TimeStep) -> Result<(), E>,
    ) -> Result<(), E> {
        let falls = reverse != back;
        for k in 0..self.segments.len() {
            let index = if falls { self.segments.len() - 1 - k } else { k };
            let segment = self.segments[index];
            for k in 0..segment.steps {
                let step = if falls { segment.steps - 1 - k } else { k };
                f(self.time_step(reverse, index, step))?;
            }
        }
        Ok(())
    }

    fn time_step(&self, reverse: bool, index: usize, step: i64) -> TimeStep {
        let segment = self.segments[index];
        let active = segment.active;
        let row = segment.row + step * active;
        if reverse {
            let next = self.segments.get(index + 1).map_or(0, |next| next.active);
            let continuing = if step + 1 < segment.steps { active } else { next };
            return TimeStep { row, active, continuing, before: row + active };
        }
        let before = match index.checked_sub(1).map(|index| self.segments[index]) {
            _ if step > 0 => active,
            Some(last) => last.active,
            None => 0,
        };
        TimeStep { row, active, continuing: if before > 0 { active } else { 0 }, before: row - before }
    }

    /// Calls `f` with the ranks of sequences that end together in one direction - the first, and
    /// how many - and the row of the last state of the first of them; the others follow. Sequences
    /// without steps have none.
    pub fn for_each_end<E>(
        &self, reverse: bool, mut f: impl FnMut([i64; 2], i64) -> Result<(), E>,
    ) -> Result<(), E> {
        if reverse {
            let active = self.segments.first().map_or(0, |first| first.active);
            return if active > 0 { f([0, active], 0) } else { Ok(()) };
        }
        for (index, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map_or(0, |next| next.active);
            let row = segment.row + (segment.steps - 1) * segment.active + next;
            f([next, segment.active - next], row)?;
        }
        Ok(())
    }

    /// The ranks of sequences without steps: the first, and how many.
    pub fn empty(&self) -> [i64; 2] {
        let active = self.segments.first().map_or(0, |first| first.active);
        [active, self.batch() - active]
    }

    /// The sequence of each rank.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Whether the caller's sequences are sorted already, so that states have our order.
    pub fn is_sorted(&self) -> bool {
        self.order.is_sorted()
    }

    /// Whether lengths can put rows and states of a batch of this layout out of our order. Where
    /// they can, every batch has room for moving them: what suffices for the longest sequences
    /// suffices for all.
    pub fn may_need_moves(&self) -> bool {
        self.layout != RnnDataLayout::TimeMajorPacked && self.batch() > 1
    }

    /// Whether the caller's rows lie in our order.
    pub fn is_ours(&self) -> bool {
        let alike = self.segments.len() <= 1 && self.segments.iter().all(|only| only.active == self.batch());
        match self.layout {
            RnnDataLayout::TimeMajorPacked => true,
            RnnDataLayout::TimeMajorPadded => alike,
            RnnDataLayout::BatchMajorPadded => alike && self.batch() <= 1,
        }
    }

    /// How many rows of the caller lie between neighbouring steps, and between neighbouring
    /// sequences. Not of the packed layout.
    fn theirs(&self) -> (i64, i64) {
        match self.layout {
            RnnDataLayout::BatchMajorPadded => (1, self.max_length),
            _ => (self.batch(), 1),
        }
    }

    /// Rows of the caller's memory, padding included.
    pub fn caller_rows(&self) -> i64 {
        match self.layout {
            RnnDataLayout::TimeMajorPacked => self.rows(),
            _ => self.max_length * self.batch(),
        }
    }

    /// Calls `f` with all rows, in as few pieces as there are runs of ranks that are neighbours in
    /// the caller's batch.
    pub fn for_each_piece<E>(&self, mut f: impl FnMut(Piece) -> Result<(), E>) -> Result<(), E> {
        if self.is_ours() {
            let rows = self.rows();
            let whole = Piece { steps: 1, ranks: rows, row: (0, rows), theirs: (0, rows, 1) };
            return if rows > 0 { f(whole) } else { Ok(()) };
        }
        let (step_rows, sequence_rows) = self.theirs();
        for segment in &self.segments {
            for_each_run(&self.order[..segment.active as usize], |rank, run, first| {
                f(Piece {
                    steps: segment.steps,
                    ranks: run,
                    row: (segment.row + rank, segment.active),
                    theirs: (segment.step * step_rows + first * sequence_rows, step_rows, sequence_rows),
                })
            })?;
        }
        Ok(())
    }

    /// Calls `f` with runs of some ranks - the first, and how many - whose sequences are
    /// neighbours: the first rank, how many, the first sequence.
    pub fn for_each_run<E>(
        &self, [first, count]: [i64; 2], mut f: impl FnMut(i64, i64, i64) -> Result<(), E>,
    ) -> Result<(), E> {
        let ranks = &self.order[first as usize..(first + count) as usize];
        for_each_run(ranks, |rank, run, sequence| f(first + rank, run, sequence))
    }

    /// Calls `f` with the caller's rows that belong to no step of a sequence: the first, how many,
    /// and how far they are apart.
    pub fn for_each_padding<E>(&self, mut f: impl FnMut(i64, i64, i64) -> Result<(), E>) -> Result<(), E> {
        if self.layout == RnnDataLayout::TimeMajorPacked {
            return Ok(());
        }
        let (step_rows, sequence_rows) = self.theirs();
        for (index, &length) in self.lengths.iter().enumerate() {
            if length < self.max_length {
                let first = length * step_rows + index as i64 * sequence_rows;
                f(first, self.max_length - length, step_rows)?;
            }
        }
        Ok(())
    }
}

/// Calls `f` with runs of `order` that count up by one.
fn for_each_run<E>(order: &[usize], mut f: impl FnMut(i64, i64, i64) -> Result<(), E>) -> Result<(), E> {
    let mut rank = 0;
    for run in order.chunk_by(|first, second| first + 1 == *second) {
        f(rank, run.len() as i64, run[0] as i64)?;
        rank += run.len() as i64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_packed_layout() {
        let padded = Sequences::new(RnnDataLayout::BatchMajorPadded, 5, vec![1, 4, 0, 4, 2]);
        assert_eq!(padded.order(), [1, 3, 4, 0, 2]);
        let segment = |step, steps, active, row| Segment { step, steps, active, row };
        assert_eq!(padded.segments(), [segment(0, 1, 4, 0), segment(1, 1, 3, 4), segment(2, 2, 2, 7)]);
        assert_eq!((padded.rows(), padded.steps(), padded.caller_rows()), (11, 4, 25));
        let packed = Sequences::from_batches(&[4, 3, 2, 2]);
        assert_eq!(packed.segments(), padded.segments());
        assert!(packed.is_ours() && packed.is_sorted() && !padded.is_ours() && !padded.is_sorted());
    }

    #[test]
    fn every_row_of_the_caller_is_a_step_or_padding_once() {
        for layout in [RnnDataLayout::TimeMajorPadded, RnnDataLayout::BatchMajorPadded] {
            for lengths in
                [vec![1, 4, 0, 4, 2], vec![3, 3], vec![0, 0], vec![5], vec![2], vec![1, 2, 3, 4, 5]]
            {
                let sequences = Sequences::new(layout, 5, lengths);
                let mut visits = vec![0; sequences.caller_rows() as usize];
                let mut ours = vec![0; sequences.rows() as usize];
                sequences
                    .for_each_piece(|piece| {
                        for (step, rank) in
                            (0..piece.steps).flat_map(|s| (0..piece.ranks).map(move |r| (s, r)))
                        {
                            ours[(piece.row.0 + step * piece.row.1 + rank) as usize] += 1;
                            let (first, by_step, by_rank) = piece.theirs;
                            visits[(first + step * by_step + rank * by_rank) as usize] += 1;
                        }
                        Ok::<_, ()>(())
                    })
                    .unwrap();
                sequences
                    .for_each_padding(|first, count, apart| {
                        (0..count).for_each(|k| visits[(first + k * apart) as usize] += 1);
                        Ok::<_, ()>(())
                    })
                    .unwrap();
                assert!(visits.iter().chain(&ours).all(|&visits| visits == 1), "{sequences:?}");
            }
        }
    }
}
