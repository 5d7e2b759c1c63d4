//! Words: integers of the host that a call brings along, written where its other steps find them.

use std::fmt;

/// `dst[i] = words[i]`, 32 bits each.
///
/// What a caller passes in arrays of the host has to reach the device without waiting for it, and
/// the caller may change the arrays as soon as the call is back. So a core takes the words into
/// what it queues: the CUDA core passes them as parameters of kernels, which a stream that captures
/// takes as well.
#[derive(Clone, Debug, Default)]
pub struct Words(pub Vec<u32>);

/// How many there are, for the log.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "words {}", self.0.len())
    }
}
