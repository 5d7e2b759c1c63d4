//! Numbered cases of a fuzzing test: some in every run of the tests, and as many as there is time
//! for where `cargo xtask fuzz` asks.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The number in an environment variable, if it is set.
fn number<T: FromStr<Err: Debug>>(variable: &str) -> Option<T> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error:?}")))
}

/// Runs `body` on the numbers of cases, and says which of them failed, and how `cargo test` repeats
/// it with these arguments. `CUDNN_SHIM_FUZZ_FROM` is the first number, 0 without it; there are
/// `count` of them, or as many as `CUDNN_SHIM_FUZZ_SECONDS` allows. Returns how many ran.
pub fn cases(count: u64, arguments: &str, mut body: impl FnMut(u64)) -> u64 {
    let from = number::<u64>("CUDNN_SHIM_FUZZ_FROM").unwrap_or(0);
    let until = number("CUDNN_SHIM_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let goes_on = |case: u64| until.map_or(case < from + count, |until| Instant::now() < until);
    let mut case = from;
    while goes_on(case) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(case))) {
            eprintln!("again: CUDNN_SHIM_FUZZ_FROM={case} cargo test --release {arguments}");
            resume_unwind(panic);
        }
        case += 1;
    }
    assert!(case > from, "there was no time for a single case");
    println!("cases {from} to {case}");
    case - from
}
