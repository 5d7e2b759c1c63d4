//! Random: elements that are kept and scaled or dropped, by the bits of a mask that is drawn first
//! or was drawn before.

use std::fmt;

use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::LoopNest;

/// `dst = bit ? scale * src : 0` for every offset triple of the nest.
///
/// # The mask
/// Bit `i % 32` of the 32-bit word `i / 32` belongs to element `i`. A mask that is drawn
/// ([`draw`](Random::draw)) is written whole, also where the nest has fewer elements than the mask;
/// bits beyond the last element are 0. Its bits are numbers of Philox4x32-10 (Salmon, Moraes, Dror,
/// Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011): with key `(seed % 2^32, seed / 2^32)`
/// and counter `(b % 2^32, b / 2^32, call % 2^32, call / 2^32)`, where `b = 8 * (i / 32) + i % 8`,
/// element `i` is kept if word `i % 32 / 8` of the four is at least the threshold. Seed and call
/// number are the two 64-bit words of the states; the call number is one higher afterwards, unless
/// the mask lies over the states: then the mask stays.
#[derive(Clone, Copy)]
pub struct Random {
    /// Offsets in scalars of destination and source, and the numbers of elements. Canonical.
    pub nest: LoopNest<3>,
    /// Scalar type of destination and source: a floating one.
    pub scalar: Scalar,
    /// The factor of elements that are kept.
    pub scale: f64,
    /// Draws the mask, if it is not there.
    pub draw: Option<Draw>,
}

impl Random {
    /// Refuses loops that ask for bits which the mask does not have. Every core asks before it runs
    /// a step.
    ///
    /// # Errors
    /// Internal for a number below 0 or, where the mask is drawn, beyond its elements.
    pub fn check(&self) -> Result<()> {
        if self.nest.is_empty() {
            return Ok(());
        }
        let elements = self.draw.map_or(u64::MAX, |draw| draw.elements);
        match self.nest.span(2) {
            Some((low, high)) if low >= 0 && (high as u64) < elements => Ok(()),
            _ => Err(Error::Internal(format!("the mask has no bit for some cells: {self}").into())),
        }
    }
}

/// How a mask is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Number of elements.
    pub elements: u64,
    /// Random numbers below it drop their element; at most 2^32, which drops all.
    pub threshold: u64,
}

impl Draw {
    /// 32-bit words of the mask.
    pub const fn words(&self) -> u64 {
        self.elements.div_ceil(32)
    }
}

/// Types, factor and loops in one line, for the log.
impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Random { nest, scalar, scale, draw } = self;
        match draw {
            Some(Draw { elements, threshold }) => {
                write!(f, "random draw elements={elements} threshold={threshold} ")?
            }
            None => write!(f, "random mask ")?,
        }
        write!(f, "{} scale={scale} {nest}", scalar.name())
    }
}
