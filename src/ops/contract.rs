//! Contractions: sums of products over shared loops, of which convolutions and matrix products are
//! cases.
//!
//! One step kind serves all of them. Its loops are batch, m, n or k:
//!
//! | loop  | moves `dst` | moves `a` | moves `b` |
//! |-------|-------------|-----------|-----------|
//! | Batch | yes         | any       | any       |
//! | M     | yes         | yes       | no        |
//! | N     | yes         | no        | yes       |
//! | K     | no          | any       | any       |
//!
//! `dst[m, n] = f(alpha * sum over k of a[m, k] * b[k, n] + beta * dst[m, n] + alpha2 * z[m, n] + bias[m, n])`
//!
//! Operand `a` may be seen through a window: a [`Bound`] ties an M loop to a K loop and says
//! between which positions `a` has elements; a product outside counts as 0, and no element of `a`
//! is read for it. Kernels may multiply its factor of `b` by a zero, though: finite factors leave
//! no trace, infinities and NaN may. Everything else about a window (stride, dilation, padding,
//! flipped taps) is in the strides and the offset of `a`. Convolutions map to it as
//!
//! | direction       | dst | a (windowed) | b  | M          | N       | K             | Batch  |
//! |-----------------|-----|--------------|----|------------|---------|---------------|--------|
//! | forward         | y   | x            | w  | n, p, q    | k       | c, r, s       | groups |
//! | backward data   | dx  | dy           | w  | n, h, w    | c       | k, some r, s  | groups |
//! | backward filter | dw  | x            | dy | c, r, s    | k       | n, p, q       | groups |
//!
//! Backward data with a stride is a step per phase of the stride: the rows `h` of one remainder
//! modulo the stride meet the same taps, and their positions in dy are affine again. Without groups
//! phases whose taps follow each other are one step, in which an N loop moves h and r. A phase
//! without taps has an empty K loop and writes `f(beta * dst + ...)`. Phases of single channels go
//! to the core together, as [`Phases`]: each writes every second element of a row, all of them
//! whole rows.
//!
//! # Operands
//! In the order of [`Contract::slots`]: dst, a, b, then z if there is one, then bias if there is
//! one, then the workspace if [`Contract::workspace`] is not 0.

use std::fmt;

use super::Scaling;
use super::activation_function::Activation;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, LoopNest, MAX_AXES};

mod build;
mod canonical;
mod parts;
mod phases;

pub use build::{Geometry, Side, Terms};
pub use parts::Parts;
pub use phases::Phases;

/// What a loop moves; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A product of its own per turn.
    Batch,
    /// Rows of the destination, of `a` and not of `b`.
    M,
    /// Columns of the destination, of `b` and not of `a`.
    N,
    /// What is summed over.
    K,
}

/// What products are summed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// binary32; products may be fused.
    Single,
    /// binary64; products may be fused.
    Double,
    /// 32-bit integers; the caller sees to it that sums fit.
    Int32,
}

impl Accumulate {
    /// For products of bytes: 32-bit integers if sums of `terms` products fit, else binary64, where
    /// they stay exact, too; `None` terms are more than 64 bits count. `None` for other products.
    pub fn of_bytes(factors: [Scalar; 2], terms: Option<i64>) -> Option<Accumulate> {
        let largest = |scalar: Scalar| match scalar {
            Scalar::I8 => Some(128),
            Scalar::U8 => Some(255),
            _ => None,
        };
        let product = largest(factors[0])? * largest(factors[1])?;
        let fits = terms.is_some_and(|terms| terms <= i64::from(i32::MAX) / product);
        Some(if fits { Accumulate::Int32 } else { Accumulate::Double })
    }
}

/// Where `a` has elements along one dimension: at
/// `start + first * index of loop first + second * index of loop second`, if that lies in
/// `0..extent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The loops, as indices into the nest: an M loop and a K loop.
    pub axes: [u8; 2],
    /// How far one turn of either moves the position.
    pub steps: [i64; 2],
    /// The position where both loops begin.
    pub start: i64,
    /// The number of elements.
    pub extent: i64,
}

impl Bound {
    /// The position for the indices of the two loops.
    pub fn position(&self, first: i64, second: i64) -> i64 {
        self.start + first * self.steps[0] + second * self.steps[1]
    }
}

/// Rows of `a` from which on products of binary32 are made in parts, which are split for all
/// columns: pixels of an image, or rows of a matrix.
pub const PART_ROWS: i64 = 128;

/// The most bounds: one per spatial dimension.
pub const MAX_BOUNDS: usize = 6;

const NO_BOUND: Bound = Bound { axes: [0; 2], steps: [0; 2], start: 0, extent: 0 };

/// What happens to a sum on its way to the destination.
///
/// `r = alpha * sum`, then `+ beta * dst`, `+ alpha2 * z`, `+ bias`, each product and each sum
/// rounded by itself; then the activation; then the conversion of [`crate::dtype::convert`],
/// saturating. A factor of 0 leaves its operand unread. Computed in [`Contract::real`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Alpha and beta.
    pub scaling: Scaling,
    /// The type of `z` and its factor.
    pub z: Option<(Scalar, f64)>,
    /// The type of the bias.
    pub bias: Option<Scalar>,
    /// Applied to the sum of all terms.
    pub activation: Option<Activation>,
}

impl Epilogue {
    /// `dst = sum`.
    pub const PLAIN: Epilogue = Epilogue { scaling: Scaling::MOVE, z: None, bias: None, activation: None };
}

/// One contraction; see the module.
#[derive(Clone, Copy)]
pub struct Contract {
    /// Offsets in scalars of dst, a, b, z and bias, whose strides are 0 where there is none.
    pub nest: LoopNest<5>,
    roles: [Role; MAX_AXES],
    bounds: [Bound; MAX_BOUNDS],
    bound_count: u8,
    is_canonical: bool,
    /// Scalar type of the destination.
    pub dst: Scalar,
    /// Scalar type of `a`.
    pub a: Scalar,
    /// Scalar type of `b`.
    pub b: Scalar,
    /// What products are summed in.
    pub accumulate: Accumulate,
    /// From the sum to the destination.
    pub epilogue: Epilogue,
    /// Whether binary32 operands may be rounded to a format that Tensor Cores take: the CPU core
    /// leaves out the smaller parts of products in tiles.
    pub allow_conversion: bool,
    /// Whether sums may have the order of tile instructions: as Tensor Cores, they are no chain of
    /// fused multiply-adds, and count denormal bf16 as 0. The CUDA core asks of binary32 alone.
    pub allow_tiles: bool,
    /// Whether windows of 3 x 3 taps may be computed by Winograd's F(2x2, 3x3), whose bound and
    /// range are not those of a sum; the CUDA core never does.
    pub allow_winograd: bool,
    /// Whether terms of all images are summed, so that no element of the destination is one
    /// image's: its bits may depend on any extent.
    pub is_over_images: bool,
    /// Whether later steps of the plan multiply by the same `b`, which no step writes: the CPU core
    /// keeps what it packs of it until the plan ends. Results do not depend on it.
    pub caches_b: bool,
    /// Bytes of workspace, an operand of its own if not 0; its contents are scratch.
    pub workspace: usize,
}

/// The most operands: dst, a, b, z, bias, workspace.
pub const MAX_OPERANDS: usize = 6;

impl Contract {
    /// A contraction without loops: one product, `dst = a * b`.
    pub fn new(types: [Scalar; 3], accumulate: Accumulate, epilogue: Epilogue) -> Self {
        let [dst, a, b] = types;
        Contract {
            nest: LoopNest::new(&[], [0; 5]),
            roles: [Role::Batch; MAX_AXES],
            bounds: [NO_BOUND; MAX_BOUNDS],
            bound_count: 0,
            is_canonical: false,
            dst,
            a,
            b,
            accumulate,
            epilogue,
            allow_conversion: false,
            allow_tiles: false,
            allow_winograd: false,
            is_over_images: false,
            caches_b: false,
            workspace: 0,
        }
    }

    /// Lets tile instructions multiply 16-bit types, if `allowed`, in a step whose rows are those
    /// of a batch: binary32 in parts pays from some rows on, and the bits of a row must not depend
    /// on how many there are.
    pub fn allow_tiles_of_rows(&mut self, allowed: bool) {
        self.allow_tiles = allowed && self.a != Scalar::F32;
    }

    /// Adds an innermost loop and returns its index. Panics beyond [`MAX_AXES`] loops.
    pub fn push(&mut self, role: Role, axis: Axis<5>) -> usize {
        let index = self.nest.axes().len();
        self.nest.push(axis);
        self.roles[index] = role;
        self.is_canonical = false;
        index
    }

    /// Adds a bound. Panics beyond [`MAX_BOUNDS`] of them and for loops that are not there.
    pub fn bind(&mut self, bound: Bound) {
        assert!(bound.axes.iter().all(|&axis| usize::from(axis) < self.nest.axes().len()));
        self.bounds[usize::from(self.bound_count)] = bound;
        self.bound_count += 1;
        self.is_canonical = false;
    }

    /// Whether this came from [`canonical`](Contract::canonical) as it is.
    pub fn is_canonical(&self) -> bool {
        self.is_canonical
    }

    /// The role of every loop of the nest.
    pub fn roles(&self) -> &[Role] {
        &self.roles[..self.nest.axes().len()]
    }

    /// The bounds of `a`.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds[..usize::from(self.bound_count)]
    }

    /// The loops of one role, outermost first, with their indices.
    pub fn loops(&self, role: Role) -> impl Iterator<Item = (usize, &Axis<5>)> {
        self.nest.axes().iter().enumerate().filter(move |&(i, _)| self.roles[i] == role)
    }

    /// How often the loops of one role turn, all together.
    pub fn extent(&self, role: Role) -> i64 {
        self.loops(role).map(|(_, axis)| axis.extent).product()
    }

    /// `count` turns from `first` on of loop `index`, which no bound names, in canonical form: sums
    /// and their order are the same.
    pub fn part(&self, index: usize, first: i64, count: i64) -> Contract {
        let mut part = *self;
        part.nest = LoopNest::new(&[], self.nest.offsets);
        for (k, axis) in self.nest.axes().iter().enumerate() {
            part.nest.push(Axis { extent: if k == index { count } else { axis.extent }, ..*axis });
        }
        let steps = self.nest.axes()[index].strides;
        part.nest.offsets.iter_mut().zip(steps).for_each(|(offset, step)| *offset += first * step);
        part.canonical()
    }

    /// The same with nothing to sum, so that neither factor is read; in canonical form.
    pub fn without_sum(&self) -> Contract {
        let mut empty = Contract::new([self.dst, self.a, self.b], self.accumulate, self.epilogue);
        empty.nest.offsets = self.nest.offsets;
        for (&role, axis) in self.roles().iter().zip(self.nest.axes()).filter(|&(&role, _)| role != Role::K) {
            empty.push(role, *axis);
        }
        empty.push(Role::K, Axis { extent: 0, strides: [0; 5] });
        empty.canonical()
    }

    /// The number of operands.
    pub fn slots(&self) -> usize {
        3 + usize::from(self.epilogue.z.is_some())
            + usize::from(self.epilogue.bias.is_some())
            + usize::from(self.workspace > 0)
    }

    /// Where `z` is among the operands.
    pub fn z_slot(&self) -> Option<usize> {
        self.epilogue.z.map(|_| 3)
    }

    /// Where the bias is among the operands.
    pub fn bias_slot(&self) -> Option<usize> {
        self.epilogue.bias.map(|_| 3 + usize::from(self.epilogue.z.is_some()))
    }

    /// Where the workspace is among the operands.
    pub fn workspace_slot(&self) -> Option<usize> {
        (self.workspace > 0).then(|| self.slots() - 1)
    }

    /// The type that the epilogue computes in: binary64 for sums in binary64 and for destinations
    /// that binary32 does not hold, else binary32.
    pub fn real(&self) -> super::Compute {
        let wide = matches!(self.dst, Scalar::F64 | Scalar::I32 | Scalar::I64);
        if wide || self.accumulate == Accumulate::Double {
            super::Compute::Double
        } else {
            super::Compute::Single
        }
    }

    /// Whether what is summed in can hold the products.
    ///
    /// # Errors
    /// Not supported for sums in integers of operands that are not bytes.
    pub fn check_sums(&self) -> Result<()> {
        let bytes = |scalar| matches!(scalar, Scalar::I8 | Scalar::U8);
        if self.accumulate == Accumulate::Int32 && !(bytes(self.a) && bytes(self.b)) {
            let (a, b) = (self.a.name(), self.b.name());
            return Err(Error::unsupported(format!("sums in integers of {a} times {b}")));
        }
        Ok(())
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        [Role::Batch, Role::M, Role::N].iter().any(|&role| self.extent(role) == 0)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Batch => "b",
            Role::M => "m",
            Role::N => "n",
            Role::K => "k",
        })
    }
}

impl fmt::Display for Accumulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accumulate::Single => "f32",
            Accumulate::Double => "f64",
            Accumulate::Int32 => "s32",
        })
    }
}

/// Types, factors, loops and bounds in one line, for the log:
/// `contract f32*f32->f32 in f32 m:56*(56,56,0) ... k:3*(0,1,1) +0,-57,0 | 0..56: -1 +1*m0 +1*k4`.
impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, epilogue) = ([self.a.name(), self.b.name(), self.dst.name()], &self.epilogue);
        write!(f, "contract {}*{}->{} in {}", names[0], names[1], names[2], self.accumulate)?;
        if !epilogue.scaling.is_move() {
            write!(f, " alpha={} beta={}", epilogue.scaling.alpha, epilogue.scaling.beta)?;
        }
        if let Some((scalar, alpha2)) = epilogue.z {
            write!(f, " z={}*{alpha2}", scalar.name())?;
        }
        if let Some(scalar) = epilogue.bias {
            write!(f, " bias={}", scalar.name())?;
        }
        if let Some(activation) = epilogue.activation {
            write!(f, " {activation}")?;
        }
        if self.allow_conversion {
            f.write_str(" converting")?;
        }
        if self.allow_tiles {
            f.write_str(" tiles")?;
        }
        if self.allow_winograd {
            f.write_str(" winograd")?;
        }
        if self.is_over_images {
            f.write_str(" over images")?;
        }
        if self.caches_b {
            f.write_str(" keeping b")?;
        }
        if self.workspace > 0 {
            write!(f, " workspace={}", self.workspace)?;
        }
        let shown = 3 + 2 * usize::from(epilogue.z.is_some() || epilogue.bias.is_some());
        let list = |f: &mut fmt::Formatter<'_>, values: &[i64]| {
            values.iter().enumerate().try_for_each(|(i, v)| write!(f, "{}{v}", if i == 0 { "" } else { "," }))
        };
        for (role, axis) in self.roles().iter().zip(self.nest.axes()) {
            write!(f, " {role}:{}*(", axis.extent)?;
            list(f, &axis.strides[..shown])?;
            f.write_str(")")?;
        }
        f.write_str(" at ")?;
        list(f, &self.nest.offsets[..shown])?;
        for bound in self.bounds() {
            write!(f, " | 0..{}: {}", bound.extent, bound.start)?;
            for (axis, step) in bound.axes.iter().zip(bound.steps) {
                write!(f, " {step:+}*{}{axis}", self.roles[usize::from(*axis)])?;
            }
        }
        Ok(())
    }
}
