//! Launches of the kernels of attention, by the steps that `tests/cuda/ptx_coverage.txt` has for
//! them.

use cudnn::backend::cuda::launch::{Device, Launch};
use cudnn::ops::Plan;

use crate::{collected_on, place};
use testkit::steps;

const LIST: &str = "tests/cuda/ptx_coverage.txt";

/// Each with the kernel that it must end in, on a device of Tensor Cores.
pub fn launches() -> Vec<(String, Launch)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST);
    let list = std::fs::read_to_string(path).expect("the list of steps");
    let mut found = Vec::new();
    for row in steps::rows(LIST, &list).into_iter().filter(|row| row.name.starts_with("attend")) {
        let at: Vec<_> = (1..=row.operands().len()).map(|k| place(k << 24)).collect();
        let mut launches = collected_on(Device { capability: 80 }, &row, &at);
        // Gradients are several launches.
        if row.name.starts_with("attend_gradient") {
            launches.retain(|launch| launch.kernel == row.name);
            assert!(!launches.is_empty(), "{} is not launched", row.name);
        }
        found.extend(launches.into_iter().map(|launch| (row.name.clone(), launch)));
    }
    assert!(!found.is_empty(), "{LIST} has no such steps");
    found
}
