//! Transforms into blocks that their source does not fill: a problem of its own, as cells and zeros
//! share cache lines.

use std::fmt;

use super::{Scale, Scaling, Transform};
use crate::dtype::Scalar;
use crate::layout::{Axis, LoopNest};

/// `dst = convert(alpha * src)` in the first cells of every block, zeros in the cells behind them.
///
/// It means exactly its two parts, [`transform`](Padded::transform) and [`fill`](Padded::fill),
/// which any core may run one after the other.
#[derive(Clone, Copy)]
pub struct Padded {
    /// Where every block starts, and the source of its first cell; canonical.
    pub blocks: LoopNest<2>,
    /// The cells of a block that have a source; they are neighbours in the destination (stride 1).
    pub cells: Axis<2>,
    /// How many zeros follow them, at least 1.
    pub zeros: i64,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// Scalar type of the source.
    pub src: Scalar,
    /// Factor of the source; the old destination is never read.
    pub alpha: f64,
}

impl Padded {
    /// The cells that have a source.
    pub fn transform(&self) -> Transform {
        let nest = self.blocks.times(&LoopNest::new(&[self.cells], [0; 2])).canonical();
        Transform { nest, dst: self.dst, src: self.src, scaling: self.scaling() }
    }

    /// The zeros.
    pub fn fill(&self) -> Scale {
        let mut nest = LoopNest::new(&[], [self.blocks.offsets[0] + self.cells.extent]);
        for axis in self.blocks.axes() {
            nest.push(Axis { extent: axis.extent, strides: [axis.strides[0]] });
        }
        nest.push(Axis { extent: self.zeros, strides: [1] });
        Scale { nest: nest.canonical(), dst: self.dst, beta: 0.0 }
    }

    /// What becomes of the cells that have a source.
    pub fn scaling(&self) -> Scaling {
        Scaling { alpha: self.alpha, beta: 0.0 }
    }

    /// Scalars of a block, zeros included.
    pub fn block(&self) -> i64 {
        self.cells.extent + self.zeros
    }
}

/// The transform with its blocks as the loops, then what a block holds:
/// `in blocks of 1*(1,3136) and 15 zeros`.
impl fmt::Display for Padded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Padded { blocks, cells, zeros, dst, src, alpha } = self;
        write!(f, "transform {}->{}", src.name(), dst.name())?;
        if *alpha != 1.0 {
            write!(f, " alpha={alpha} beta=0")?;
        }
        let [to, from] = cells.strides;
        let plural = if *zeros == 1 { "" } else { "s" };
        write!(f, " {blocks} in blocks of {}*({to},{from}) and {zeros} zero{plural}", cells.extent)
    }
}
