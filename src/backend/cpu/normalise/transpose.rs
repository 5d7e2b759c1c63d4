//! Small groups that follow one another, turned: one element of each of many groups is a row then,
//! so that groups are lanes.

use super::kernels::{GROUPS, LANES};
use crate::backend::cpu::Isa;
use crate::backend::cpu::interleave::{self, Kernel};
use crate::backend::cpu::stream::LINE;
use crate::backend::cpu::tile::{self, Even, Matrix, Next, Order, Store, Transpose};
use crate::backend::function::Real;
use crate::ops::Scaling;

/// How groups of one size are turned.
pub(super) struct GroupTranspose {
    transpose: Transpose<Even, Even>,
    /// The kernel for groups of a few elements, which transposes move one by one.
    few: Option<Kernel>,
    /// Elements of a group.
    len: usize,
    /// Numbers from one row to the next.
    pub pitch: usize,
}

impl GroupTranspose {
    /// For up to `width` groups of `len` numbers each, [`LANES`] at most.
    pub fn of<T: Real>(len: usize, width: usize, isa: Isa) -> Self {
        let number = size_of::<T>();
        // An odd number of lines, so that rows spread over the sets of a cache.
        let pitch = ((width * number).div_ceil(LINE) | 1) * LINE / number;
        debug_assert!(len <= LANES, "longer groups are summed as they are");
        GroupTranspose {
            transpose: tile::transpose(number, Store::Cached, isa),
            // From eight on rows fill tiles.
            few: interleave::split_and_join(number, len, isa).filter(|_| len < 8).map(|[split, _]| split),
            len,
            pitch,
        }
    }

    /// How many numbers turned groups take, with those that are read behind the last one.
    pub fn room(&self) -> usize {
        self.len * self.pitch + GROUPS
    }

    /// Turns `width` groups.
    ///
    /// # Safety
    /// Their numbers are readable, and there is [room](Self::room) for them, which does not overlap
    /// them.
    pub unsafe fn transpose<T: Real>(&self, to: *mut T, from: *const T, width: usize) {
        let (dst, src) = (to.cast(), from.cast());
        let [dst_rows, src_rows] = [self.pitch, self.len].map(|numbers| (numbers * size_of::<T>()) as isize);
        // SAFETY: `width` groups of `len` numbers are readable, and there is room for as many rows.
        unsafe {
            match self.few {
                Some(split) => split(dst, src, dst_rows, width),
                None => (self.transpose)(Matrix {
                    dst,
                    src,
                    rows: width,
                    columns: self.len,
                    dst_rows: Even(dst_rows),
                    src_rows: Even(src_rows),
                    next: Next::none(Even(src_rows)),
                    order: Order::AlongDst,
                    scaling: Scaling::MOVE,
                }),
            }
        }
    }
}
