//! Causal: convolutions along a sequence that never look ahead, with their gradients.
//!
//! A kind of step of its own, because what a gradient needs of the forward pass - the sum before
//! the activation, the projections of a gated pair - is computed anew where it is needed: the calls
//! have no workspace for it.

use std::fmt;

use super::Compute;
use crate::dtype::Scalar;

/// What is computed, for each sequence of the batch and each channel.
///
/// Tap `k` of `K` reads `K - 1 - k` positions back; taps before the sequence are left out, and so
/// are gradients behind it. `causal(x, w)[t] = sum over k of w[k] x[t - (K - 1) + k]`, and
/// `transposed(g, w)[s] = sum over k of w[k] g[s + (K - 1) - k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CausalFunction {
    /// `y = act(causal(x, weight) + bias)`; operands y, x, weight, bias.
    Forward,
    /// `dx = transposed(g, weight)` with `g = dy act'(causal(x, weight) + bias)`; operands dx, x,
    /// weight, bias, dy.
    Data,
    /// `dweight[k]` is the sum of `g[t] x[t - (K - 1) + k]`, `dbias` that of `g`; operands dweight,
    /// dbias, x, weight, bias, dy.
    Weights,
    /// With `p[q] = causal(x[q], projection[q])` and `u = p[1] p[2]`:
    /// `y = causal(u, mixer) + skip u`, and `y p[0]`; operands y, gated y, x, projections, mixer,
    /// skip.
    Gated,
    /// `dx[q] = transposed(dp[q], projection[q])` with `dp[0] = dy y`, `d = dy p[0]`,
    /// `du = transposed(d, mixer) + skip d`, `dp[1] = du p[2]` and `dp[2] = du p[1]`; operands dx,
    /// x, projections, mixer, skip, y, dy.
    GatedData,
    /// The sums of `dp[q]` with x for the projections, of `d` with u for the mixer, and of `d u`
    /// for skip; operands dprojections, dmixer, dskip, x, projections, mixer, skip, y, dy.
    GatedWeights,
}

impl CausalFunction {
    /// Whether it is one of a gated pair of convolutions.
    pub const fn is_gated(self) -> bool {
        matches!(self, CausalFunction::Gated | CausalFunction::GatedData | CausalFunction::GatedWeights)
    }

    /// Whether it computes the gradients of weights.
    pub const fn is_of_weights(self) -> bool {
        matches!(self, CausalFunction::Weights | CausalFunction::GatedWeights)
    }
}

/// Lanes of the sums over a batch of sequences: position `t` of any sequence belongs to lane
/// `t % LANES`.
pub const LANES: usize = 32;

/// Taps from which on transforms are faster than sums.
pub const TRANSFORMED_TAPS: i64 = 512;

/// Sequences of a gated pair: a gate, and two that are multiplied.
pub const PARTS: i64 = 3;

/// A batch of sequences, all packed.
///
/// # Order
/// Numbers are of the computation type, each operation rounded once. Sums over taps start from +0
/// and go by ascending positions; the bias, or the product with skip, comes last. Gradients of
/// weights: each lane adds its products from +0, sequence by sequence, by ascending positions;
/// lanes are joined in halves, lane `j` with `j + LANES / 2` and so on. What is there is added
/// last.
///
/// Where it [is transformed](Causal::is_transformed), the CPU core computes sums over taps, and
/// over positions for gradients of weights, in binary64 and rounds them once, in an order of its
/// own that depends on nothing but length and taps.
///
/// # Memory
/// x, y and their gradients are `[batch, channels, length]`, or `[batch, length, channels]` with
/// [`channels_inside`](Causal::channels_inside); weights are `[channels, taps]` and
/// `[taps, channels]`. Of a gated pair x and dx are `[batch, channels, 3, length]`, and projections
/// `[channels, 3, taps]`. Operands need not be aligned on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Causal {
    /// What is computed.
    pub function: CausalFunction,
    /// Number of sequences.
    pub batch: i64,
    /// Channels of each.
    pub channels: i64,
    /// Positions of each.
    pub length: i64,
    /// Taps of the weight, or of the projections.
    pub taps: i64,
    /// Taps of the mixer of a gated pair.
    pub mixer: i64,
    /// Whether neighbours in memory are channels, not positions.
    pub channels_inside: bool,
    /// Whether the weight begins with the tap of the newest position.
    pub newest_first: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether the activation is `v / (1 + exp(-v))`; else there is none.
    pub silu: bool,
    /// Whether gradients of weights are added to what is there.
    pub adds: bool,
    /// Scalar type of everything but the gradients of weights.
    pub scalar: Scalar,
    /// Scalar type of the gradients of weights.
    pub gradient: Scalar,
}

impl Causal {
    /// The computation type.
    pub const fn compute(&self) -> Compute {
        match self.scalar {
            Scalar::F64 => Compute::Double,
            _ => Compute::Single,
        }
    }

    /// Whether the gradient of the sum before the activation is `dy` itself.
    pub const fn is_linear(&self) -> bool {
        !self.silu
    }

    /// Whether the CPU core convolves by Fourier transforms, which compute sums in another order.
    pub const fn is_transformed(&self) -> bool {
        self.newest_first && self.taps >= TRANSFORMED_TAPS && self.length >= self.taps
    }

    /// Where position 0 of a channel of a sequence lies; positions are [`stride`](Causal::stride)
    /// apart.
    pub const fn line(&self, sequence: i64, channel: i64) -> i64 {
        let first = sequence * self.channels * self.length;
        if self.channels_inside { first + channel } else { first + channel * self.length }
    }

    /// From position to position.
    pub const fn stride(&self) -> i64 {
        if self.channels_inside { self.channels } else { 1 }
    }

    /// Where position 0 of a part of a channel of a gated pair lies.
    pub const fn part(&self, sequence: i64, channel: i64, part: i64) -> i64 {
        ((sequence * self.channels + channel) * PARTS + part) * self.length
    }

    /// Where tap `k` of a channel lies, counted from the oldest position.
    pub const fn tap(&self, channel: i64, k: i64) -> i64 {
        let k = if self.newest_first { self.taps - 1 - k } else { k };
        if self.channels_inside { k * self.channels + channel } else { channel * self.taps + k }
    }

    /// Where tap `k` of a projection lies.
    pub const fn projection(&self, channel: i64, part: i64, k: i64) -> i64 {
        (channel * PARTS + part) * self.taps + k
    }
}

/// Kind, types and extents in one line, for the log.
impl fmt::Display for Causal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Causal { function, batch, channels, length, taps, mixer, scalar, gradient, .. } = self;
        write!(f, "causal {function:?} {}", scalar.name())?;
        if function.is_of_weights() {
            write!(f, " to {}", gradient.name())?;
        }
        let order = if self.channels_inside { "nwc" } else { "ncw" };
        write!(f, " {batch}x{channels}x{length} {order} taps={taps}")?;
        if function.is_gated() {
            write!(f, " mixer={mixer}")?;
        }
        let words = [
            (self.newest_first, " newest-first"),
            (self.bias, " bias"),
            (self.silu, " silu"),
            (self.adds, " adds"),
        ];
        words.iter().filter(|(is_so, _)| *is_so).try_for_each(|(_, word)| f.write_str(word))
    }
}
