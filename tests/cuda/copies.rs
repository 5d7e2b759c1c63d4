//! The driver double brings what is copied asynchronously when it is waited for, not earlier.

use crate::child;
use crate::complaints::{KERNELS, Start, expect_complaint, ints, libraries, ptx};
use crate::double::{self, Memory};

/// What shared memory holds that nothing has come to.
const NOTHING: i32 = -1;

/// What 64 threads find that use the numbers the other way round.
fn outcome(kernel: &'static str, choice: i32, want: impl Fn(i32) -> i32) {
    for order in ["forward", "reverse"] {
        child::run(&libraries(), &[("DRIVER_DOUBLE_ORDER", order)], || {
            double::use_device(0);
            let memory = Memory::new(&ints(0..64));
            let start = Start { choice, ..Start::of(kernel) };
            assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
            assert_eq!(memory.read(), ints((0..64).map(&want)), "{order}");
        });
    }
}

#[test]
fn copies_that_are_waited_for() {
    outcome("waited_copy", -1, |k| 63 - k);
}

#[test]
fn copies_of_what_is_not_there() {
    outcome("waited_copy", 3, |k| if (48..52).contains(&k) { 0 } else { 63 - k });
}

#[test]
fn copies_that_are_read_early() {
    outcome("early_read_of_a_copy", 0, |_| NOTHING);
}

#[test]
fn copies_that_belong_to_no_group() {
    let start = Start { code: 719, ..Start::of("copy_of_no_group") };
    expect_complaint(start, "ends with copies to shared memory that it has not waited for");
}

#[test]
fn copies_that_nobody_waits_for() {
    let start = Start { code: 719, ..Start::of("copy_without_a_wait") };
    expect_complaint(start, "ends with copies to shared memory that it has not waited for");
}

#[test]
fn copies_that_others_read_without_a_barrier() {
    let start = Start { code: 719, ..Start::of("copy_without_a_barrier") };
    expect_complaint(start, "touch one byte of shared memory with no barrier between");
}

#[test]
fn copies_off_their_alignment() {
    let start = Start { code: 716, ..Start::of("misaligned_copy") };
    expect_complaint(start, "is not aligned to 16 bytes");
}
