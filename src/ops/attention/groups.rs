//! Which samples and which time steps have steps in common.

use std::ops::Range;

use super::check::Sequences;
use super::ends::Lengths;
use super::sizes::Extents;

/// What is computed: extents, lengths and windows.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub extents: Extents,
    /// Time steps of queries that are computed.
    pub rows: Range<i64>,
    /// The window of each.
    windows: Vec<[i64; 2]>,
    /// A length for every sample and beam.
    query_lengths: Vec<i64>,
    /// A length for every sample.
    key_lengths: Vec<i64>,
    /// Whether these are only bounds: the lengths are data, which steps read.
    pub lengths_are_data: bool,
}

/// Samples and beams with the same lengths.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub batch: Range<i64>,
    pub beam: Range<i64>,
    /// Time steps of queries that are computed and before the end.
    pub queries: Range<i64>,
    /// Keys before the end.
    pub keys: i64,
}

/// Time steps with the same window.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub queries: Range<i64>,
    /// The keys that they see; none if it is empty.
    pub keys: Range<i64>,
}

impl Problem {
    pub(super) fn new(
        extents: Extents, sequences: Sequences<'_>, rows: Range<i64>, lengths: Lengths<'_>,
        windows: &[[i32; 2]],
    ) -> Problem {
        let of = |which: usize| -> Vec<i64> {
            let own = sequences.desc(which).lengths().iter().map(|&length| i64::from(length));
            match lengths {
                Lengths::Known(shorter) => {
                    own.zip(shorter[which]).map(|(own, &short)| own.min(short.max(0).into())).collect()
                }
                _ => own.collect(),
            }
        };
        Problem {
            extents,
            rows,
            windows: windows.iter().map(|window| window.map(i64::from)).collect(),
            query_lengths: of(0),
            key_lengths: of(1),
            lengths_are_data: matches!(lengths, Lengths::OfDevice),
        }
    }

    /// Samples that are computed together, from the first to the last.
    pub(super) fn chunks(&self, size: i64) -> impl Iterator<Item = Range<i64>> + use<> {
        let batch = self.extents.batch;
        (0..batch).step_by(size.max(1) as usize).map(move |first| first..(first + size).min(batch))
    }

    /// The groups of these samples.
    pub(super) fn groups(&self, samples: Range<i64>) -> Vec<Group> {
        let beam = self.extents.beam as usize;
        let mut groups: Vec<Group> = Vec::new();
        for sample in samples {
            let at = sample as usize;
            let lengths = &self.query_lengths[at * beam..(at + 1) * beam];
            let mut first = 0;
            while first < beam {
                let equal = lengths[first..].iter().take_while(|&&length| length == lengths[first]).count();
                let group = Group {
                    batch: sample..sample + 1,
                    beam: first as i64..(first + equal) as i64,
                    queries: self.rows.start..lengths[first].clamp(self.rows.start, self.rows.end),
                    keys: self.key_lengths[at],
                };
                match groups.last_mut() {
                    // Only whole samples follow each other without a gap.
                    Some(last) if equal == beam && last.continues(&group) => last.batch.end += 1,
                    _ => groups.push(group),
                }
                first += equal;
            }
        }
        groups
    }

    /// Runs of samples whose keys have the same length, with it.
    pub(super) fn key_groups(&self) -> Vec<(Range<i64>, i64)> {
        let mut groups: Vec<(Range<i64>, i64)> = Vec::new();
        for (sample, &length) in self.key_lengths.iter().enumerate() {
            let sample = sample as i64;
            match groups.last_mut() {
                Some((samples, last)) if *last == length => samples.end += 1,
                _ => groups.push((sample..sample + 1, length)),
            }
        }
        groups
    }

    /// The time steps of a group, by their windows.
    pub(super) fn runs(&self, group: &Group) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for row in group.queries.clone() {
            let [low, high] = self.windows[(row - self.rows.start) as usize];
            let (low, high) = (low.max(0), high.min(group.keys));
            let keys = if low < high { low..high } else { 0..0 };
            match runs.last_mut() {
                Some(last) if last.keys == keys => last.queries.end += 1,
                _ => runs.push(Run { queries: row..row + 1, keys }),
            }
        }
        runs
    }
}

impl Group {
    fn continues(&self, next: &Group) -> bool {
        self.beam == next.beam && self.queries == next.queries && self.keys == next.keys
    }
}

/// The keys from the first to the last that any of the runs sees.
pub(super) fn seen(runs: &[Run]) -> Range<i64> {
    let seen = || runs.iter().map(|run| &run.keys).filter(|keys| !keys.is_empty());
    let first = seen().map(|keys| keys.start).min().unwrap_or(0);
    first..seen().map(|keys| keys.end).max().unwrap_or(0)
}
