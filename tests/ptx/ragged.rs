//! The launch of the kernel of ragged batches.

use cudnn::backend::cuda::launch::Launch;
use cudnn::ops::ragged::RaggedFunction;

use crate::{collected, place};
use testkit::ragged::Problem;
use testkit::random::Rng;

/// With the kernel that it must end in.
pub fn launches() -> Vec<(String, Launch)> {
    let at = [0x1000, 0x2000, 0x3000].map(place);
    let launches = collected(&Problem::random(&mut Rng(1), RaggedFunction::Load), &at);
    launches.into_iter().map(|launch| ("ragged".to_owned(), launch)).collect()
}
