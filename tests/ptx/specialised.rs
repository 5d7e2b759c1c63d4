//! Launches of every kernel whose function and type are constants, by the steps that
//! `tests/cuda/ptx_coverage.txt` has for them.

use cudnn::backend::cuda::launch::Launch;
use cudnn::backend::cuda::module::kernels;
use cudnn::ops::Plan;

use crate::{collected, place};
use testkit::steps;

/// The families of such kernels.
const FAMILIES: [&str; 10] = [
    "activation",
    "softmax",
    "row_sums",
    "pool",
    "plane",
    "response",
    "random_of",
    "row_norm",
    "row_norm_any",
    "row_norm_sums",
];
const LIST: &str = "tests/cuda/ptx_coverage.txt";

/// Each with the kernel that it must begin with, the only one but for what vectors leave of a run.
pub fn launches() -> Vec<(String, Launch)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST);
    let list = std::fs::read_to_string(path).expect("the list of steps");
    let is_one = |name: &str| {
        kernels().iter().any(|kernel| kernel.name == name && FAMILIES.contains(&kernel.family()))
    };
    let rows = steps::rows(LIST, &list).into_iter().filter(|row| is_one(&row.name));
    let mut found = Vec::new();
    for row in rows {
        let at: Vec<_> = (1..=row.operands().len()).map(|k| place(k << 24)).collect();
        let launches = collected(&row, &at);
        assert_eq!(launches.first().map(|launch| launch.kernel), Some(row.name.as_str()));
        found.extend(launches.into_iter().map(|launch| (launch.kernel.to_owned(), launch)));
    }
    assert!(!found.is_empty(), "{LIST} has no such steps");
    found
}
