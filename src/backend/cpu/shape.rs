//! What a kernel sees of a transform: loops in bytes over cells of 1 to 16 bytes.

use super::held::Held;
use crate::backend::Operands;
use crate::layout::MAX_AXES;
use crate::ops::Transform;

/// One loop; the steps are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// Number of turns, at least 1.
    pub extent: usize,
    /// Step of the destination.
    pub dst: isize,
    /// Step of the source.
    pub src: isize,
}

/// A transform as byte strides; always at least one loop.
///
/// Candidates are meant for canonical nests (destination strides descending, neighbours folded),
/// but what they compute never depends on it: they look the strides up.
pub(crate) struct Shape<'a> {
    pub transform: &'a Transform,
    /// Bytes of one destination cell.
    pub dst_cell: usize,
    /// Bytes of one source cell.
    pub src_cell: usize,
    /// Where destination and source start, in bytes.
    pub start: [isize; 2],
    loops: [Loop; MAX_AXES],
    rank: usize,
}

impl<'a> Shape<'a> {
    /// What `body` makes of the shape of `transform`. A shape is half a kilobyte, which small calls
    /// notice each time that it is copied: so it stays where it is built.
    pub fn with<R>(transform: &'a Transform, body: impl FnOnce(&Self) -> R) -> R {
        let (dst_cell, src_cell) = (transform.dst.size(), transform.src.size());
        let bytes =
            |[dst, src]: [i64; 2]| [dst as isize * dst_cell as isize, src as isize * src_cell as isize];
        let mut shape = Shape {
            transform,
            dst_cell,
            src_cell,
            start: bytes(transform.nest.offsets),
            loops: const { [Loop { extent: 0, dst: 0, src: 0 }; MAX_AXES] },
            rank: transform.nest.axes().len(),
        };
        for (to, from) in shape.loops.iter_mut().zip(transform.nest.axes()) {
            let [dst, src] = bytes(from.strides);
            *to = Loop { extent: from.extent as usize, dst, src };
        }
        if shape.rank == 0 {
            // A single element is one turn of a contiguous loop.
            shape.loops[0] = Loop { extent: 1, dst: dst_cell as isize, src: src_cell as isize };
            shape.rank = 1;
        }
        shape.merge_cells();
        body(&shape)
    }

    /// A move of short contiguous runs is a move of wider cells: the 4 lanes of an INT8x4 become
    /// one of 4 bytes.
    fn merge_cells(&mut self) {
        let run = self.loops[self.rank - 1];
        let bytes = run.extent * self.dst_cell;
        if self.is_move() && self.rank > 1 && self.is_run(run) && matches!(bytes, 2 | 4 | 8 | 16) {
            (self.dst_cell, self.src_cell) = (bytes, bytes);
            self.rank -= 1;
        }
    }

    /// What destination and source hold.
    pub(super) fn held(&self, operands: Operands) -> [Held; 2] {
        let reaches = |step: fn(&Loop) -> isize| {
            self.loops().iter().map(move |l| [0, (l.extent as isize - 1) * step(l)])
        };
        [
            Held::of(operands.dst, self.dst_cell, self.start[0], reaches(|l| l.dst)),
            Held::of(operands.src, self.src_cell, self.start[1], reaches(|l| l.src)),
        ]
    }

    /// The loops, outermost first.
    pub fn loops(&self) -> &[Loop] {
        &self.loops[..self.rank]
    }

    /// The innermost loop.
    pub fn innermost(&self) -> Loop {
        self.loops[self.rank - 1]
    }

    /// Whether the bits are kept.
    pub fn is_move(&self) -> bool {
        self.transform.dst == self.transform.src && self.transform.scaling.is_move()
    }

    /// Whether `l` walks neighbours in both operands.
    pub fn is_run(&self, l: Loop) -> bool {
        l.dst == self.dst_cell as isize && l.src == self.src_cell as isize
    }

    /// The two different loops along which destination and source lie contiguously, if there are
    /// such: `(index of the destination's, index of the source's)`.
    pub fn crossed_units(&self) -> Option<(usize, usize)> {
        let dst = self.loops().iter().position(|l| l.dst == self.dst_cell as isize && l.extent > 1)?;
        let src = self.loops().iter().position(|l| l.src == self.src_cell as isize && l.extent > 1)?;
        (dst != src && !self.is_run(self.loops[dst])).then_some((dst, src))
    }

    /// Cells in all.
    pub fn cells(&self) -> usize {
        self.loops().iter().map(|l| l.extent).product()
    }

    /// Bytes written in all: what decides whether threads pay.
    pub fn bytes(&self) -> usize {
        self.cells() * self.dst_cell
    }
}

/// Runs `$body` with `$W` bound to the unsigned integer of `$bytes` bytes, which is 1, 2, 4, 8
/// or 16.
macro_rules! with_cell {
    ($bytes:expr, $W:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $W = u8;
                $body
            }
            2 => {
                type $W = u16;
                $body
            }
            4 => {
                type $W = u32;
                $body
            }
            8 => {
                type $W = u64;
                $body
            }
            _ => {
                type $W = u128;
                $body
            }
        }
    };
}
pub(super) use with_cell;
