//! Every reduction that a step can ask for.

use cudnn::ops::{NanRule, Reduction};

pub const REDUCTIONS: [Reduction; 12] = [
    Reduction::Add,
    Reduction::Mul,
    Reduction::Min(NanRule::Ignore),
    Reduction::Min(NanRule::Propagate),
    Reduction::Max(NanRule::Ignore),
    Reduction::Max(NanRule::Propagate),
    Reduction::Amax(NanRule::Ignore),
    Reduction::Amax(NanRule::Propagate),
    Reduction::Avg,
    Reduction::Norm1,
    Reduction::Norm2,
    Reduction::MulNoZeros,
];
