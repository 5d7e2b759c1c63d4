//! What the committed budgets promise: how much each kind of kernel keeps in flight, and what
//! follows for listed problems.

use std::collections::BTreeMap;

use cudnn::ops::{Plan, Step};

use testkit::estimate::{self, Figures};
use testkit::{problems, steps};

/// Kernels that wait for every load, and why that stays.
const ONE_LOAD: [(&str, &str); 6] = [
    ("window_columns", "every cell is a tap of its own"),
    ("sample_affine_gradient", "a thread sums its own lane, one position after the other"),
    ("random_advance", "one number is read in all"),
    ("reduce_chunks_", "a thread reads four numbers in all"),
    ("set_", "nothing is read"),
    ("words_", "what is written are parameters"),
];

/// Bytes in flight of a thread that families promise, by the kernel that has the fewest.
const PROMISES: [(&str, u64); 16] = [
    ("copy_", 64),
    ("transpose_w", 64),
    ("transpose_shifted_w", 64),
    ("convert_f", 64),
    ("convert_bf16", 64),
    // As many bytes as elements: a byte takes a register, as four do.
    ("strided_w1", 8),
    ("strided_w2", 16),
    ("strided_w4", 32),
    ("strided_w8", 32),
    ("strided_w16", 64),
    ("strided_w32", 128),
    // A vector of each of two channels at least.
    ("interleave_w", 32),
    ("separate_w", 32),
    ("few_convert_", 64),
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

/// The share of a copy that is asked of listed problems, by the estimate, and of those that only
/// move, in hundredths.
const SHARE: i64 = 60;
const SHARE_OF_MOVES: i64 = 85;

/// Bytes that a copy moves in the two microseconds that a launch takes: of fewer the estimate says
/// nothing.
const FEW: f64 = 8.6e6;

const FEW_SUMS: &str = "the list gives no workspace, without which a block has a whole sum";
const FEW_GROUPS: &str = "the list gives no workspace, without which a block has a group, or 32 channels";

const COLUMNS: &str =
    "a thread goes down a column, a row of cells at a time, and issues a third of what it did";

const PRODUCTS: &str = "products in binary32 take far longer than what is read for them";

/// Rows that are expected below [`SHARE`], and why.
const SLOWER: [(&str, &str); 12] = [
    ("attend-back-causal-f16", PRODUCTS),
    ("sum-all", FEW_SUMS),
    ("bias-gradient", FEW_SUMS),
    ("bias-gradient-nhwc", "as above, and a thread where sums lie side by side"),
    ("training-add-relu", FEW_GROUPS),
    ("training-back-relu", FEW_GROUPS),
    ("training-back-own", FEW_GROUPS),
    ("vector", "the list gives no workspace, without which a thread has a whole product"),
    ("affine-gradient", "a block has all sums of an image"),
    ("max-3x3-f16", COLUMNS),
    ("max-gradient", COLUMNS),
    ("grid-gradient", "a thread has a place, whose gradient is one sum over all channels"),
];

const ROUNDING: &str =
    "as many blocks as there are registers for; more bytes of a tile would take shared memory from them";

/// Rows that only move and are expected below [`SHARE_OF_MOVES`], and why.
const SLOWER_MOVES: [(&str, &str); 6] = [
    ("transform permute8-c", "a byte takes a register while it is under way, and its place another one"),
    ("transform permute8-c'", "as above"),
    ("transform image-u8-f32'", "what is written is a quarter of what is read, which takes more under way"),
    ("transform act64-s8", ROUNDING),
    ("transform act64-s8'", ROUNDING),
    ("scaled-s8", ROUNDING),
];

/// A listed row.
struct Listed {
    name: String,
    share: i64,
    only_moves: bool,
}

/// Every listed row that has something to read, and more of it than a [`FEW`] bytes; transforms
/// have the word in front of their names.
fn rows() -> Vec<Listed> {
    let figures = estimate::figures();
    let (mut rows, mut all) = (Vec::new(), 0);
    let mut row = |name: String, plan: &dyn Plan| {
        all += 1;
        let found = estimate::of(plan, &figures).unwrap_or_else(|| panic!("{name} launches nothing"));
        let mut only_moves = true;
        let walked = plan.steps(&mut |step, _| {
            only_moves &=
                matches!(step, Step::Transform(_) | Step::Padded(_) | Step::Mapped(_) | Step::Scale(_));
            Ok(())
        });
        walked.expect("steps");
        if let Some(share) = found.share.filter(|_| found.moved >= FEW) {
            // In hundredths, as tables show it.
            rows.push(Listed { name, share: (100.0 * share).round() as i64, only_moves });
        }
    };
    for problem in problems::read() {
        for problem in [problem.inverse(), problem] {
            row(format!("transform {}", problem.name), &problem.tensors().plan());
        }
    }
    for problem in problems::devices::read() {
        row(format!("gpu {}", problem.name), &problem.plan());
    }
    steps::of_both_cores().into_iter().for_each(|step| row(step.name.clone(), &step));
    assert!(all > 150, "only {all} rows");
    rows
}

/// The rows that fall short of `share` are those that are known to.
fn check(rows: &[Listed], share: i64, known: &[(&str, &str)]) {
    let short: BTreeMap<&str, i64> =
        rows.iter().filter(|row| row.share < share).map(|row| (&*row.name, row.share)).collect();
    let unknown: Vec<_> =
        short.iter().filter(|(name, _)| !known.iter().any(|(known, _)| known == *name)).collect();
    assert!(
        unknown.is_empty(),
        "these rows are expected to fall short of {share} hundredths of a copy: {unknown:?}"
    );
    let gone: Vec<_> = known.iter().filter(|(name, _)| !short.contains_key(name)).collect();
    assert!(
        gone.is_empty(),
        "these rows do not fall short of {share} hundredths of a copy any more: {gone:?}"
    );
}

#[test]
fn no_problem_of_many_bytes_is_expected_to_fall_short() {
    let rows = rows();
    assert!(rows.len() > 100, "only {} rows of many bytes", rows.len());
    check(&rows, SHARE, &SLOWER);
}

#[test]
fn no_move_of_many_bytes_is_expected_to_fall_short() {
    let moves: Vec<Listed> = rows().into_iter().filter(|row| row.only_moves).collect();
    assert!(moves.len() > 70, "only {} moves of many bytes", moves.len());
    check(&moves, SHARE_OF_MOVES, &SLOWER_MOVES);
}
