//! Sample: pictures read between their pixels, at the places of a grid; the grids of affine maps;
//! the gradients of both.
//!
//! A kind of step of its own, because where it reads is data: no loops describe it.

use std::fmt;

use super::{Compute, Scaling};
use crate::dtype::Scalar;
use crate::layout::Layout;

/// What is computed. Coordinates, picture by picture, are x and y: the column first, then the row.
///
/// An axis of `n` pixels spans -1 to 1, its first and its last pixel at the ends: pixel `i` lies at
/// `(2 * i - (n - 1)) / (n - 1)`, that of an axis of one pixel at 0, and coordinate `g` at pixel
/// `(g + 1) * ((n - 1) / 2)`. A place between pixels has four taps: with `p` its pixel along an
/// axis and `l = floor(p)`, the taps are `l` with the weight `1 - (p - l)` and `l + 1` with
/// `p - l`; weights of both axes are multiplied. Taps outside a picture count as 0, and are not
/// read; so are all taps of a coordinate that is a NaN or further than a pixel outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SampleFunction {
    /// `grid[n, h, w, i] = theta[n, i, 0] * x(w) + theta[n, i, 1] * y(h) + theta[n, i, 2]`;
    /// operands grid, theta.
    AffineGrid,
    /// `dtheta[n, i, j]` is the sum over h and w of `dgrid[n, h, w, i]` times `x(w)`, `y(h)` or 1;
    /// operands dtheta, dgrid.
    ///
    /// Products and sums are in binary64: [`LANES`] lanes join the positions `lane`,
    /// `lane + LANES`, ... in row-major order, starting from +0, and are joined in halves, lane `j`
    /// with `j + LANES / 2` and so on.
    AffineGradient,
    /// `y[n, c, h, w]` is the sum of the taps in row-major order, from +0; operands y, x, grid.
    Bilinear,
    /// `dx[n, c, i]` is the sum of `dy` times the weight of each tap that is pixel i, by positions
    /// of the grid in row-major order, from +0; operands dx, dy, grid.
    DataGradient,
    /// The sum over the channels, in their order from +0, of `dy` times the slope of
    /// [`Bilinear`](SampleFunction::Bilinear) along each axis, times `(n - 1) / 2`; operands dgrid,
    /// x, dy, grid.
    GridGradient,
}

/// Lanes of [`SampleFunction::AffineGradient`].
pub const LANES: usize = 256;

/// Where the pixels of a batch of pictures lie, in scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Scalar type.
    pub scalar: Scalar,
    /// From picture to picture, from group to group of channels, from row to row and from column to
    /// column.
    pub strides: [i64; 4],
    /// Channels of a group, which lie side by side.
    pub block: i64,
}

impl Pictures {
    /// Pictures in a layout of 4 dimensions, of which only the channels may be blocked.
    pub fn new(scalar: Scalar, layout: &Layout) -> Self {
        Pictures { scalar, strides: std::array::from_fn(|k| layout.strides[k]), block: layout.block(1) }
    }

    /// None, where a step has no such operand.
    pub const fn none(scalar: Scalar) -> Self {
        Pictures { scalar, strides: [0; 4], block: 1 }
    }

    /// Where a channel of a picture starts.
    pub fn channel(&self, n: i64, c: i64) -> i64 {
        n * self.strides[0] + c / self.block * self.strides[1] + c % self.block
    }

    /// Where a pixel lies.
    pub fn offset(&self, [n, c, h, w]: [i64; 4]) -> i64 {
        self.channel(n, c) + h * self.strides[2] + w * self.strides[3]
    }
}

/// A batch of pictures and a grid, or a grid and its maps.
///
/// Grids and maps are packed: `[n, h, w, 2]` and `[n, 2, 3]`. Numbers are of the computation type,
/// each operation rounded once.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// What is computed.
    pub function: SampleFunction,
    /// Number of pictures.
    pub images: i64,
    /// Channels of each; 1 where there are grids only.
    pub channels: i64,
    /// Rows and columns of x.
    pub source: [i64; 2],
    /// Rows and columns of the grid, and of y.
    pub target: [i64; 2],
    /// x or dx.
    pub x: Pictures,
    /// y or dy; a gradient has the scalar type of x.
    pub y: Pictures,
    /// Scalar type of grids and maps.
    pub grid: Scalar,
    /// The computation type.
    pub compute: Compute,
    /// Alpha and beta.
    pub scaling: Scaling,
}

impl Sample {
    /// Positions of the grid of one picture.
    pub fn positions(&self) -> i64 {
        self.target[0] * self.target[1]
    }

    /// Pixels per unit of a coordinate along y and x.
    pub fn halves(&self) -> [f64; 2] {
        self.source.map(|extent| (extent - 1) as f64 * 0.5)
    }
}

/// Kind, types, factors, extents and strides in one line, for the log.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { function, images, channels, source, target, x, y, grid, compute, scaling } = self;
        let is_affine = matches!(function, SampleFunction::AffineGrid | SampleFunction::AffineGradient);
        write!(f, "sample {function:?} grid {} in {}", grid.name(), compute.scalar().name())?;
        if !scaling.is_move() {
            write!(f, " alpha={} beta={}", scaling.alpha, scaling.beta)?;
        }
        write!(f, " {images}x{channels} at {}x{}", target[0], target[1])?;
        if is_affine {
            return Ok(());
        }
        write!(f, " of {}x{}", source[0], source[1])?;
        for (name, at) in [("x", x), ("y", y)] {
            write!(f, " {name} {}{:?}", at.scalar.name(), at.strides)?;
            if at.block > 1 {
                write!(f, "x{}", at.block)?;
            }
        }
        Ok(())
    }
}
