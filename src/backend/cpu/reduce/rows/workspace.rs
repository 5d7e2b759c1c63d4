//! What one thread needs for its tiles, cut out of its scratch before anything is written.

use super::super::sequence::Blocks;
use super::super::tree::{Lanes, Subtrees, depth};
use super::Task;
use crate::backend::cpu::scratch::Parts;
use crate::backend::function::{Fold, GreatestOrNan, Real, Sum};
use crate::backend::row_function::RowFormula;
use crate::ops::Reduce;

pub(super) type SumLane<T> = <Sum as Fold>::Lane<T>;
pub(super) type PeakLane<T> = <GreatestOrNan as Fold>::Lane<T>;

pub(super) struct Workspace<'a, T: Real> {
    /// Room for a block of each operand that is read, and for results on their way.
    pub blocks: [Blocks; 3],
    /// Room for a tile that is turned, twice.
    pub transposed: [*mut u8; 2],
    pub lanes: Lanes<'a, SumLane<T>>,
    pub subtrees: Subtrees<'a, SumLane<T>>,
    /// Where the elements of a group are, of each operand, if they come as rows.
    pub offsets: [&'a mut [isize]; 3],
    pub peaks: &'a mut [PeakLane<T>],
    pub peak: &'a mut [T],
    pub statistic: &'a mut [T],
    pub terms: *mut T,
    pub results: *mut T,
}

/// How long its parts are.
#[derive(Clone, Copy)]
struct Lengths {
    width: usize,
    transposed: usize,
    lanes: usize,
    subtrees: usize,
    offsets: usize,
    terms: usize,
    results: usize,
}

impl<T: Real, F: RowFormula> Task<T, F> {
    fn lengths(&self) -> Lengths {
        let (width, len) = (self.width, self.len());
        let results = if self.by_rows { width } else { Reduce::BLOCK.min(len) };
        Lengths {
            width,
            transposed: self.transpose.map_or(0, |transpose| transpose.bytes()),
            lanes: if self.by_rows { Reduce::LANES.min(len) * width } else { 0 },
            subtrees: depth(len.div_ceil(Reduce::BLOCK)) * width,
            offsets: if self.by_rows { len } else { 0 },
            terms: if self.kept() { width * len } else { results },
            results,
        }
    }

    /// Bytes of a workspace.
    pub(super) fn scratch(&self) -> usize {
        let mut parts = Parts::new(std::ptr::null_mut());
        let Lengths { width, transposed, lanes, subtrees, offsets, terms, results } = self.lengths();
        for bytes in [Blocks::BYTES, Blocks::BYTES, Blocks::BYTES, transposed, transposed] {
            parts.take::<u8>(bytes);
        }
        for sums in [lanes, subtrees] {
            parts.take::<SumLane<T>>(sums);
        }
        for rows in [offsets; 3] {
            parts.take::<isize>(rows);
        }
        parts.take::<PeakLane<T>>(width);
        for numbers in [width, width, terms, results] {
            parts.take::<T>(numbers);
        }
        parts.bytes
    }

    /// # Safety
    /// There are as many bytes of [`scratch`](Self::scratch), and nobody else uses them meanwhile.
    pub(super) unsafe fn workspace<'a>(&self, scratch: *mut u8) -> Workspace<'a, T> {
        let mut parts = Parts::new(scratch);
        let Lengths { width, transposed, lanes, subtrees, offsets, terms, results } = self.lengths();
        let any = Sum::lane(Sum::identity::<T>());
        let lowest = GreatestOrNan::lane(GreatestOrNan::identity::<T>());
        // SAFETY: the same parts as in `scratch`, in the same order.
        unsafe {
            let mut work = Workspace {
                blocks: [(); 3].map(|()| Blocks::new(parts.take(Blocks::BYTES))),
                transposed: [(); 2].map(|()| parts.take(transposed)),
                lanes: Lanes::new(parts.filled(lanes, any), any, width),
                subtrees: Subtrees::new(parts.filled(subtrees, any), width),
                offsets: [(); 3].map(|()| parts.filled(offsets, 0)),
                peaks: parts.filled(width, lowest),
                peak: parts.filled(width, T::ZERO),
                statistic: parts.filled(width, T::ZERO),
                terms: parts.take(terms),
                results: parts.take(results),
            };
            if self.by_rows {
                self.fill_offsets(&mut work.offsets);
            }
            work
        }
    }

    /// Where the elements of a group are, from its first one.
    fn fill_offsets(&self, offsets: &mut [&mut [isize]; 3]) {
        for (k, offsets) in offsets.iter_mut().enumerate().take(1 + F::ARITY) {
            let mut places = offsets.iter_mut();
            match self.transpose {
                Some(transpose) => {
                    places.enumerate().for_each(|(row, place)| *place = row as isize * transpose.pitch)
                }
                None => self.steps[k].each(0..self.len(), |offset, _| {
                    *places.next().expect("a place for each element") = offset;
                }),
            }
        }
    }
}
