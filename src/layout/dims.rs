//! A short array of extents, strides or coordinates, one entry per dimension.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// The largest rank a descriptor can have (`CUDNN_DIM_MAX`).
pub const MAX_RANK: usize = 8;

/// Up to [`MAX_RANK`] signed 64-bit values, outermost dimension first. Behaves as a slice of its
/// rank.
#[derive(Clone, Copy)]
pub struct Dims {
    rank: u8,
    values: [i64; MAX_RANK],
}

impl Dims {
    /// No dimensions at all.
    pub const EMPTY: Dims = Dims { rank: 0, values: [0; MAX_RANK] };

    /// Copies `values`; panics if there are more than [`MAX_RANK`] of them (callers check the rank
    /// first).
    pub fn new(values: &[i64]) -> Self {
        let rank = values.len();
        assert!(rank <= MAX_RANK, "rank {rank} exceeds {MAX_RANK}");
        Dims { rank: rank as u8, values: std::array::from_fn(|k| if k < rank { values[k] } else { 0 }) }
    }

    /// `rank` times the same value; panics if `rank` exceeds [`MAX_RANK`].
    pub fn filled(rank: usize, value: i64) -> Self {
        assert!(rank <= MAX_RANK, "rank {rank} exceeds {MAX_RANK}");
        let mut values = [0; MAX_RANK];
        values[..rank].fill(value);
        Dims { rank: rank as u8, values }
    }

    /// Adds an innermost entry; panics beyond [`MAX_RANK`].
    pub fn push(&mut self, value: i64) {
        self.values[self.rank()] = value;
        self.rank += 1;
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// Product of all entries, `None` when it leaves 64 bits.
    pub fn product(&self) -> Option<i64> {
        self.iter().try_fold(1_i64, |p, &d| p.checked_mul(d))
    }
}

impl Deref for Dims {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.values[..self.rank()]
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [i64] {
        let rank = self.rank();
        &mut self.values[..rank]
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Self) -> bool {
        // Not as slices: of so few entries, comparing takes less than calling what compares memory.
        self.rank == other.rank && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}

impl Eq for Dims {}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Prints `2x3x4`.
impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}
