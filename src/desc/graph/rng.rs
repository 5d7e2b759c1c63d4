//! Random numbers.

use super::attribute::rows;
use super::check::Check;
use crate::error::Result;

rows! {
    /// The attributes of RNG.
    SETTINGS:
    RNG_DISTRIBUTION 2300 [RngDistribution] One mistyped(BadParam);
    RNG_NORMAL_DIST_MEAN 2301 [Double] One;
    RNG_NORMAL_DIST_STANDARD_DEVIATION 2302 [Double] One;
    RNG_UNIFORM_DIST_MAXIMUM 2303 [Double] One;
    RNG_UNIFORM_DIST_MINIMUM 2304 [Double] One;
    RNG_BERNOULLI_DIST_PROBABILITY 2305 [Double] One;
}

rows! {
    /// The attributes of OPERATION_RNG.
    OPERATION:
    OPERATION_RNG_YDESC 2310 [Descriptor] -> Tensor Any output();
    OPERATION_RNG_SEED 2311 [Int64 Descriptor] -> Tensor One;
    OPERATION_RNG_DESC 2312 [Descriptor] -> Rng Any;
    OPERATION_RNG_OFFSET_DESC 2313 [Descriptor] -> Tensor Any;
}

pub(super) fn check_settings(check: Check<'_>) -> Result<()> {
    let real = |attribute| check.fields.real(attribute);
    match check.fields.int_or(RNG_DISTRIBUTION, 0) {
        0 => {
            let probability = real(RNG_BERNOULLI_DIST_PROBABILITY);
            let fits = probability.is_some_and(|probability| (0.0..=1.0).contains(&probability));
            check.require(fits, RNG_BERNOULLI_DIST_PROBABILITY, "has to be set, to 0 to 1")
        }
        1 => {
            let (least, most) = (real(RNG_UNIFORM_DIST_MINIMUM), real(RNG_UNIFORM_DIST_MAXIMUM));
            let fits = least.zip(most).is_none_or(|(least, most)| least <= most);
            check.require(fits, RNG_UNIFORM_DIST_MAXIMUM, "is not below the minimum")
        }
        2 => {
            let fits = real(RNG_NORMAL_DIST_STANDARD_DEVIATION).is_none_or(|deviation| deviation >= 0.0);
            check.require(fits, RNG_NORMAL_DIST_STANDARD_DEVIATION, "is not negative")
        }
        _ => Err(check.bad(RNG_DISTRIBUTION, "the distributions are 0 to 2")),
    }
}

/// A seed that is a tensor has one element.
pub(super) fn check(check: Check<'_>) -> Result<()> {
    let ones = |values: &[i64]| values.iter().all(|&value| value == 1);
    let fits =
        check.any_tensor(OPERATION_RNG_SEED).is_none_or(|seed| ones(&seed.dims) && ones(&seed.strides));
    check.require(fits, OPERATION_RNG_SEED, "a tensor has extents and strides of 1")
}
