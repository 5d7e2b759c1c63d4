//! The choices of a softmax, which has no descriptor.

use super::choice::choice;

choice! {
    /// How the softmax is computed.
    SoftmaxAlgorithm:
    /// The original does not guard against overflow; this library does, as in `Accurate`.
    Fast,
    /// The largest element is subtracted first.
    Accurate,
    /// The logarithm of the softmax.
    Log,
}

choice! {
    /// What makes up a group of elements.
    SoftmaxMode:
    /// All of one N.
    Instance,
    /// The channels at one place of one N.
    Channel,
}
