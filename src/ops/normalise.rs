//! Normalise: groups of elements that share a mean, a deviation and two parameters, and the
//! gradients of a normalisation.
//!
//! A kind of step of its own, because its statistics are joined in binary64 and are results
//! themselves (saved, and blended into running averages), and because a group is computed while it
//! is in the cache.

use std::fmt;

use super::activation::Activation;
pub use super::tree::Tree;
use super::{Compute, Scaling};
use crate::dtype::Scalar;
use crate::layout::LoopNest;

/// How a group is cut into parts for several blocks of a GPU's threads. Each is a whole subtree of
/// the sum, so that their sums are leaves of the same [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// How many parts there are.
    pub count: usize,
    /// Elements of each but the last.
    pub elements: usize,
}

impl Parts {
    /// The most parts of a group.
    pub const MOST: usize = 256;
    /// Neighbouring groups that a block of threads works on, where neighbours in memory belong to
    /// neighbouring groups.
    pub const ROW: usize = 32;
    /// Blocks of the tree in the smallest part: one for each warp.
    const LEAST_BLOCKS: usize = 8;
    /// Blocks of threads that keep any GPU busy without cutting groups.
    const ENOUGH: usize = 512;
    /// Bytes of the sums of a part, and of what is computed from those of a group.
    const SUMS: usize = 16;
    const CONSTANTS: usize = 32;

    /// The parts of a group of that size.
    pub fn new(members: usize, tree: Tree) -> Parts {
        let blocks = members.div_ceil(tree.block);
        let each = blocks.div_ceil(Parts::MOST).next_power_of_two().max(Parts::LEAST_BLOCKS);
        Parts { count: blocks.div_ceil(each), elements: each * tree.block }
    }

    /// Bytes that the sums of all groups take; what is computed from them lies behind.
    pub fn sums_size(&self, groups: usize, tree: Tree) -> usize {
        let groups = if tree == Tree::ROWS { groups.next_multiple_of(Parts::ROW) } else { groups };
        groups * self.count * Parts::SUMS
    }

    /// The parts that these groups are cut into, if that is worth it and the workspace has room.
    pub fn of(groups: usize, members: usize, tree: Tree, workspace: usize) -> Option<Parts> {
        let parts = Parts::new(members, tree);
        let units = if tree == Tree::ROWS { groups.div_ceil(Parts::ROW) } else { groups };
        let needed = parts.sums_size(groups, tree).checked_add(groups.checked_mul(Parts::CONSTANTS)?)?;
        (parts.count > 1 && units < Parts::ENOUGH && needed <= workspace).then_some(parts)
    }

    /// Bytes of workspace for every way to cut these groups, or fewer of them, whatever their
    /// layout; 0 for members too few to be cut. It grows with both.
    pub fn workspace(groups: usize, members: usize) -> usize {
        // The most parts are those of the smallest blocks.
        let least = members.div_ceil(Tree::ROWS.block).div_ceil(Parts::LEAST_BLOCKS);
        if least < 2 {
            return 0;
        }
        // More groups than these are never cut.
        let groups = groups.min(Parts::ENOUGH * Parts::ROW);
        groups.next_multiple_of(Parts::ROW) * (least.min(Parts::MOST) * Parts::SUMS + Parts::CONSTANTS)
    }
}

/// Where mean and deviation come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistics {
    /// Operands that are read: mean and variance.
    Given,
    /// The group itself: with `K` its first element, `d = x - K` in binary64, and `m` elements, the
    /// mean is `K + sum(d) / m` and the variance `(sum(d * d) - sum(d) * (sum(d) / m)) / m`, at
    /// least 0.
    Batch {
        /// What the new mean, and the variance of `m - 1` degrees of freedom, weigh in running
        /// averages; 1 does not read the old ones, 0 leaves them.
        factor: f64,
        /// Whether there is a running mean, and a running variance.
        running: [bool; 2],
        /// Whether mean and `1 / sqrt(variance + epsilon)` are saved.
        saves: bool,
    },
}

/// `y = alpha * act((x - mean) * (scale / sqrt(variance + epsilon)) + bias + z) + beta * y` for
/// every element.
///
/// Numbers are of the computation type, each operation rounded once; statistics that are computed
/// are rounded to it first, as they are saved. With given statistics, the factor is
/// `scale / sqrt(variance + epsilon)`, else the saved inverse times the scale.
#[derive(Clone, Copy)]
pub struct Normalise {
    /// One turn per group: offsets in scalars of y, x, z and the reserve space, and of a group's
    /// parameters and statistics. Canonical.
    pub groups: LoopNest<5>,
    /// What a group holds: offsets of y, x, z and the reserve space. Canonical.
    pub members: LoopNest<4>,
    /// Scalar type of y, x and z.
    pub data: Scalar,
    /// The computation type, which is that of parameters and statistics.
    pub compute: Compute,
    /// Where the statistics come from.
    pub statistics: Statistics,
    /// What is added to a variance.
    pub epsilon: f64,
    /// Alpha and beta.
    pub scaling: Scaling,
    /// Whether z is added.
    pub adds: bool,
    /// What follows, if anything.
    pub activation: Option<Activation>,
    /// The type in which the slope of the activation is kept for the backward pass, if it is.
    pub slopes: Option<Scalar>,
    /// Bytes of workspace: with enough of it, [`Parts`] of a group are summed by several blocks of
    /// a GPU's threads.
    pub workspace: usize,
}

impl Normalise {
    /// How sums are joined.
    pub fn tree(&self) -> Tree {
        let groups = self.groups.axes().iter().map(|axis| axis.strides[1]);
        Tree::of(groups, self.members.axes().iter().map(|axis| axis.strides[1]))
    }
}

/// Where the slope of the activation comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slope {
    /// There is no activation.
    One,
    /// The slope is computed again from x.
    Of(Activation),
    /// The reserve space holds the slope, in this type.
    Kept(Scalar),
}

/// The gradients of [`Normalise`] with the statistics of the batch.
///
/// With `g = dy * slope`, `m` elements in a group, and sums in binary64 as [`Tree`] describes:
/// `dBias = sum(g)` and `dScale = sum(g * (x - mean)) * inverse`, both blended with the old values
/// by the second pair of factors;
/// `dx = (g - dBias / m - (x - mean) * (inverse * dScale / m)) * (scale * inverse)`, blended by the
/// first; `dz = g`.
#[derive(Clone, Copy)]
pub struct NormaliseBackward {
    /// One turn per group: offsets in scalars of dx, x, dy, dz and the reserve space, and of a
    /// group's parameters and statistics. Canonical.
    pub groups: LoopNest<6>,
    /// What a group holds: offsets of dx, x, dy, dz and the reserve space. Canonical.
    pub members: LoopNest<5>,
    /// Scalar type of dx, x, dy and dz.
    pub data: Scalar,
    /// The computation type, which is that of parameters and statistics.
    pub compute: Compute,
    /// Whether mean and inverse were saved, or are computed again.
    pub saved: bool,
    /// What is added to a variance.
    pub epsilon: f64,
    /// Alpha and beta of dx.
    pub scaling: Scaling,
    /// Alpha and beta of dScale and dBias.
    pub parameter_scaling: Scaling,
    /// The slope of the activation.
    pub slope: Slope,
    /// Whether dz is written.
    pub splits: bool,
    /// Bytes of workspace, as in [`Normalise`].
    pub workspace: usize,
}

impl NormaliseBackward {
    /// How sums are joined.
    pub fn tree(&self) -> Tree {
        let groups = self.groups.axes().iter().map(|axis| axis.strides[1]);
        Tree::of(groups, self.members.axes().iter().map(|axis| axis.strides[1]))
    }
}

/// `given`, or `batch factor=0.1 running=mean,variance saved`.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statistics::Batch { factor, running, saves } = self else { return f.write_str("given") };
        let running = match running {
            [false, false] => "none",
            [true, false] => "mean",
            [false, true] => "variance",
            [true, true] => "mean,variance",
        };
        write!(f, "batch factor={factor} running={running}{}", if *saves { " saved" } else { "" })
    }
}

/// Types, factors and loops in one line, for the log.
impl fmt::Display for Normalise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Normalise { groups, members, data, statistics, epsilon, scaling, .. } = self;
        let compute = self.compute.scalar().name();
        write!(f, "normalise {} in {compute} {statistics} epsilon={epsilon}", data.name())?;
        if !scaling.is_move() {
            write!(f, " alpha={} beta={}", scaling.alpha, scaling.beta)?;
        }
        if self.adds {
            write!(f, " add")?;
        }
        if let Some(activation) = self.activation {
            write!(f, " {activation}")?;
        }
        if let Some(scalar) = self.slopes {
            write!(f, " slopes {}", scalar.name())?;
        }
        if self.workspace > 0 {
            write!(f, " workspace={}", self.workspace)?;
        }
        write!(f, " groups {groups} of {members}")
    }
}

/// Types, factors and loops in one line, for the log.
impl fmt::Display for NormaliseBackward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NormaliseBackward { groups, members, data, scaling, parameter_scaling, .. } = self;
        let compute = self.compute.scalar().name();
        write!(f, "normalise backward {} in {compute} epsilon={}", data.name(), self.epsilon)?;
        if self.saved {
            write!(f, " saved")?;
        }
        for Scaling { alpha, beta } in [scaling, parameter_scaling] {
            write!(f, " alpha={alpha} beta={beta}")?;
        }
        match self.slope {
            Slope::One => {}
            Slope::Of(activation) => write!(f, " {activation}")?,
            Slope::Kept(scalar) => write!(f, " slopes {}", scalar.name())?,
        }
        if self.splits {
            write!(f, " add")?;
        }
        if self.workspace > 0 {
            write!(f, " workspace={}", self.workspace)?;
        }
        write!(f, " groups {groups} of {members}")
    }
}
