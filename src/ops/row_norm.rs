//! RowNorm: rows of elements that lie side by side, each normalised by its own statistics, which
//! may be results themselves: layer, RMS and instance normalisation in one read of a row.
//!
//! A kind of step of its own beside [`Normalise`](super::Normalise), whose sums are in binary64 and
//! whose groups share their parameters, while here each element of a row may have its own. The
//! arithmetic is that of the steps which compute a normalisation one by one (a sum, a difference, a
//! sum of squares, and so on), each rounded as they round: the results have their bits.

use std::fmt;

use super::Compute;
use crate::dtype::Scalar;
use crate::layout::LoopNest;

/// A parameter of a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The type of its numbers.
    pub scalar: Scalar,
    /// Whether each element of a row has its own, side by side; else a row has one.
    pub each: bool,
}

/// `y = (x - mean) * inverse * scale + bias`, with `inverse = 1 / sqrt(variance + epsilon)`;
/// operands y, mean, inverse, x, scale, bias, epsilon.
///
/// The mean of a row is its sum by [`Reduce`](super::Reduce)'s tree over the number of elements.
/// The variance is the mean of the squares of `x - mean`, of which the same tree makes a norm,
/// whose square it is. Without a mean it is the mean of squares. If a row has one scale, the
/// inverse is multiplied by it first. Each operation is rounded to the computation type.
#[derive(Clone, Copy)]
pub struct RowNorm {
    /// One turn for each row: offsets in scalars of y, mean, inverse, x, scale and bias. Canonical.
    pub rows: LoopNest<6>,
    /// Elements of a row, side by side in x and y.
    pub length: i64,
    /// Scalar types of y and x.
    pub data: [Scalar; 2],
    /// The type of intermediate results.
    pub compute: Compute,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// The types in which mean and inverse are written, if they are.
    pub saved: [Option<Scalar>; 2],
    /// Scale and bias, if there are some.
    pub parameters: [Option<Parameter>; 2],
    /// The type of epsilon, and where it is.
    pub epsilon: (Scalar, i64),
}

impl RowNorm {
    /// How many operands a step has, the first of which are written.
    pub const OPERANDS: usize = 7;
    /// Which operand x is; those before it are results.
    pub const X: usize = 3;

    /// Scalar types of all operands; of those that are not touched, that of x.
    pub fn scalars(&self) -> [Scalar; Self::OPERANDS] {
        let [y, x] = self.data;
        let [mean, inverse] = self.saved.map(|saved| saved.unwrap_or(x));
        let [scale, bias] = self.parameters.map(|of| of.map_or(x, |of| of.scalar));
        [y, mean, inverse, x, scale, bias, self.epsilon.0]
    }

    /// Which operands are touched.
    pub fn touches(&self) -> [bool; Self::OPERANDS] {
        let ([mean, inverse], [scale, bias]) = (self.saved, self.parameters);
        [true, mean.is_some(), inverse.is_some(), true, scale.is_some(), bias.is_some(), true]
    }
}

/// The gradients of [`RowNorm`], of mean and inverse that it saved; operands dx, dscale, dbias, x,
/// dy, scale, mean, inverse.
///
/// With `h = (x - mean) * inverse` and `g = dy * scale`, or dy if there is no scale, and means over
/// the elements of a row, in the tree of [`Reduce`](super::Reduce):
/// `dx = (g - h * mean(g * h) - mean(g)) * inverse`, without the last mean if there is no mean of
/// x. The gradients of the parameters are sums of `dy * h` and of `dy` over all rows, by
/// [`Tree::ROWS`](super::normalise::Tree). Each operation is rounded to the computation type.
#[derive(Clone, Copy)]
pub struct RowNormBackward {
    /// One turn for each row: offsets in scalars of dx, x, dy, scale, mean and inverse. Canonical.
    pub rows: LoopNest<6>,
    /// Elements of a row, side by side in dx, x, dy, scale, dscale and dbias.
    pub length: i64,
    /// Scalar types of dx, x and dy.
    pub data: [Scalar; 3],
    /// The type of intermediate results.
    pub compute: Compute,
    /// The types of scale and mean, if there are some.
    pub parameters: [Option<Scalar>; 2],
    /// The type of the inverse.
    pub inverse: Scalar,
    /// The types of dscale and dbias and where they begin, if they are wanted.
    pub sums: [Option<(Scalar, i64)>; 2],
}

impl RowNormBackward {
    /// How many operands a step has, the first of which are written.
    pub const OPERANDS: usize = 8;
    /// Which operand x is; those before it are results.
    pub const X: usize = 3;

    /// Scalar types of all operands; of those that are not touched, that of x.
    pub fn scalars(&self) -> [Scalar; Self::OPERANDS] {
        let [dx, x, dy] = self.data;
        let [scale, mean] = self.parameters.map(|of| of.unwrap_or(x));
        let [dscale, dbias] = self.sums.map(|sum| sum.map_or(x, |(scalar, _)| scalar));
        [dx, dscale, dbias, x, dy, scale, mean, self.inverse]
    }

    /// Which operands are touched.
    pub fn touches(&self) -> [bool; Self::OPERANDS] {
        let ([scale, mean], [dscale, dbias]) = (self.parameters, self.sums);
        let [scale, mean] = [scale, mean].map(|of| of.is_some());
        [true, dscale.is_some(), dbias.is_some(), true, true, scale, mean, true]
    }

    /// Which operand of the loops over rows an operand is; dscale and dbias are none.
    pub fn place(operand: usize) -> Option<usize> {
        match operand {
            0 => Some(0),
            Self::X.. => Some(operand - 2),
            _ => None,
        }
    }
}

/// Types and loops in one line, for the log.
impl fmt::Display for RowNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [y, x] = self.data.map(Scalar::name);
        write!(f, "norm {x}->{}->{y}", self.compute.scalar().name())?;
        if self.centred {
            write!(f, " centred")?;
        }
        write!(f, " epsilon={}{:+}", self.epsilon.0.name(), self.epsilon.1)?;
        for (name, saved) in ["mean", "inverse"].into_iter().zip(self.saved) {
            saved.map_or(Ok(()), |saved| write!(f, " {name}={}", saved.name()))?;
        }
        for (name, of) in ["scale", "bias"].into_iter().zip(self.parameters) {
            let Some(Parameter { scalar, each }) = of else { continue };
            write!(f, " {name}={}*{}", scalar.name(), u8::from(each))?;
        }
        write!(f, " {} in each of {}", self.length, self.rows)
    }
}

/// Types and loops in one line, for the log.
impl fmt::Display for RowNormBackward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [dx, x, dy] = self.data.map(Scalar::name);
        write!(f, "norm backward {x},{dy}->{}->{dx}", self.compute.scalar().name())?;
        for (name, of) in ["scale", "mean"].into_iter().zip(self.parameters) {
            of.map_or(Ok(()), |scalar| write!(f, " {name}={}", scalar.name()))?;
        }
        write!(f, " inverse={}", self.inverse.name())?;
        for (name, sum) in ["dscale", "dbias"].into_iter().zip(self.sums) {
            sum.map_or(Ok(()), |(scalar, at)| write!(f, " {name}={}{at:+}", scalar.name()))?;
        }
        write!(f, " {} in each of {}", self.length, self.rows)
    }
}
