//! What the committed budgets promise: how much each kind of kernel keeps in flight, and what follows for listed problems.

use std::collections::BTreeMap;

use cudnn::ops::Plan;

use crate::estimate::{self, Figures};
use crate::{problems, steps};

/// Kernels that wait for every load, and why that stays.
const ONE_LOAD: [(&str, &str); 5] = [
    ("window_columns", "every cell is a tap of its own"),
    ("sample_affine_gradient", "a thread sums its own lane, one position after the other"),
    ("random_advance", "one number is read in all"),
    ("reduce_chunks_", "a thread reads four numbers in all"),
    ("set_", "nothing is read"),
];

/// Bytes in flight of a thread that families promise.
const PROMISES: [(&str, u64); 10] = [
    ("copy_", 64),
    ("transpose_w", 64),
    ("transpose_shifted_w", 64),
    ("convert_f", 64),
    ("convert_bf16", 64),
    ("strided_w4", 32),
    ("strided_w8", 32),
    ("strided_w16", 64),
    ("reduce_blocks_of_f32", 64),
    ("transpose_convert_f32", 64),
];

#[test]
fn no_kernel_waits_for_one_load_at_a_time() {
    for (kernel, figures) in estimate::figures() {
        let most = figures.loads.values().max().copied().unwrap_or(0);
        let excused = ONE_LOAD.iter().any(|(family, _)| kernel.starts_with(family));
        assert!(most >= 2 || excused, "{kernel} has {most} loads in flight");
    }
}

#[test]
fn families_keep_their_promises() {
    for (family, bytes) in PROMISES {
        let figures = estimate::figures();
        let kernels: Vec<(&&str, &Figures)> =
            figures.iter().filter(|(name, _)| name.starts_with(family)).collect();
        assert!(!kernels.is_empty(), "there is no {family}");
        for (kernel, figures) in kernels {
            assert!(figures.bytes >= bytes, "{kernel} has {} bytes in flight, not {bytes}", figures.bytes);
        }
    }
}

/// The share of a copy that is asked of listed problems, by the estimate.
const SHARE: f64 = 0.6;

#[test]
fn no_problem_that_fills_a_device_is_expected_to_fall_short() {
    let figures = estimate::figures();
    let mut short: BTreeMap<String, f64> = BTreeMap::new();
    let mut rows = 0;
    let mut row = |name: String, plan: &dyn Plan| {
        rows += 1;
        let found = estimate::of(plan, &figures).unwrap_or_else(|| panic!("{name} launches nothing"));
        if let Some(share) = found.share.filter(|&share| share < SHARE && !found.is_small) {
            short.insert(name, share);
        }
    };
    for problem in problems::read() {
        for problem in [problem.inverse(), problem] {
            row(format!("transform {}", problem.name), &problem.tensors().plan());
        }
    }
    steps::read().into_iter().for_each(|step| row(step.name.clone(), &step));
    assert!(rows > 150, "only {rows} rows");
    assert!(short.is_empty(), "these rows are expected to fall short of {SHARE} of a copy: {short:#?}");
}
