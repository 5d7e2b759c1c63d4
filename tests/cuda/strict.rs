//! The driver double is as strict as hardware: kernels that go well on most devices most of the
//! time.

use std::ptr;

use crate::child;
use crate::complaints::{KERNELS, Start, check, expect_complaint, ints, libraries, ptx};
use crate::double::{self, Memory};

#[test]
fn vectors_off_their_alignment() {
    let start = Start { threads: 1, choice: 1, code: 716, ..Start::of("misaligned_vector") };
    expect_complaint(start, "misaligned_vector: an access at 0x");
}

#[test]
fn vectors_of_shared_memory_off_their_alignment() {
    let start = Start { code: 716, ..Start::of("misaligned_shared_vector") };
    expect_complaint(start, "is not aligned to 16 bytes");
}

#[test]
fn aligned_vectors_are_left_alone() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let start = Start { threads: 1, choice: 2, ..Start::of("misaligned_vector") };
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
        let want = (0..8).chain(4..8).chain(12..64);
        assert_eq!(memory.read(), ints(want));
        let start = Start { choice: 2, ..Start::of("misaligned_shared_vector") };
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
    });
}

/// What a kernel finds in shared memory that no thread of its block has written.
const UNWRITTEN: i32 = -1;

#[test]
fn shared_memory_that_nobody_wrote() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for choice in [-1, 5] {
            let memory = Memory::new(&ints(0..64));
            let start = Start { choice, ..Start::of("unwritten_shared") };
            assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
            let want = (0..64).rev().map(|k| if k == choice { UNWRITTEN } else { k });
            assert_eq!(memory.read(), ints(want));
        }
    });
}

#[test]
fn shared_memory_that_another_block_wrote() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let start = Start { blocks: 2, ..Start::of("inherited_shared") };
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).map(|_| UNWRITTEN)));
    });
}

#[test]
fn shuffles_order_no_memory() {
    let complaint = "touch one byte of shared memory with no barrier between";
    expect_complaint(Start { code: 719, ..Start::of("unordered_shuffle") }, complaint);
}

#[test]
fn ballots_order_no_memory() {
    let complaint = "touch one byte of shared memory with no barrier between";
    expect_complaint(Start { code: 719, ..Start::of("unordered_ballot") }, complaint);
}

#[test]
fn barriers_of_a_warp_order_memory() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        assert_eq!(Start::of("ordered_warp").run(&ptx(KERNELS, 16), memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).map(|k| k ^ 1)));
    });
}

#[test]
fn halves_of_a_warp_go_their_own_ways() {
    for order in ["forward", "reverse"] {
        child::run(&libraries(), &[("DRIVER_DOUBLE_ORDER", order)], || {
            double::use_device(0);
            let memory = Memory::new(&ints(0..64));
            assert_eq!(Start::of("halves").run(&ptx(KERNELS, 16), memory.address), 0);
            let sum = |k: i32| {
                let size = if k % 32 < 16 { 16 } else { 8 };
                (k / size * size..).take(size as usize).sum::<i32>()
            };
            assert_eq!(memory.read(), ints((0..64).map(sum)));
        });
    }
}

#[test]
fn masks_that_name_lanes_that_have_ended() {
    expect_complaint(Start { code: 719, ..Start::of("mask_of_the_ended") }, "while others of its warp wait");
}

#[test]
fn masks_that_name_lanes_that_had_ended() {
    let output = child::start(&libraries(), &[("DRIVER_DOUBLE_ORDER", "reverse")], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let code = Start::of("mask_of_the_ended").run(&ptx(KERNELS, 16), memory.address);
        assert_eq!(code, 719);
    });
    check(output, "which names lanes that have ended");
}

#[test]
fn masks_that_lack_the_caller() {
    expect_complaint(Start { code: 719, ..Start::of("mask_without_the_caller") }, "which lacks its own lane");
}

#[test]
fn masks_that_differ() {
    expect_complaint(
        Start { code: 719, ..Start::of("masks_that_differ") },
        "others wait there with another mask",
    );
}

#[test]
fn shuffles_from_lanes_outside_the_mask() {
    let start = Start { code: 719, ..Start::of("shuffle_from_outside") };
    expect_complaint(start, "shuffles with the mask 0xffff and wants the value of lane 16");
}

#[test]
fn different_exchanges_at_once() {
    let start = Start { code: 719, ..Start::of("shuffle_against_ballot") };
    expect_complaint(start, "others of that mask do something else");
}

#[test]
fn bytes_that_two_blocks_write() {
    let start = Start { blocks: 2, code: 719, ..Start::of("written_by_two_blocks") };
    expect_complaint(start, "block 1 writes a byte that block 0 writes in the same launch");
}

#[test]
fn bytes_that_one_block_writes_and_another_reads() {
    let start = Start { blocks: 2, code: 719, ..Start::of("read_from_another_block") };
    expect_complaint(start, "block 1 reads a byte that block 0 writes in the same launch");
}

/// The block that reads comes first.
#[test]
fn bytes_that_one_block_reads_and_another_writes() {
    let output = child::start(&libraries(), &[("DRIVER_DOUBLE_ORDER", "reverse")], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let start = Start { blocks: 2, threads: 32, ..Start::of("read_from_another_block") };
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 719);
    });
    check(output, "block 0 writes a byte that block 1 reads in the same launch");
}

#[test]
fn blocks_of_later_launches_and_apart_are_left_alone() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        for doubled in [2, 4] {
            let start = Start { blocks: 2, ..Start::of("blocks_apart") };
            assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
            assert_eq!(memory.read(), ints((0..64).map(|k| k * doubled)));
        }
        let start = Start { threads: 32, ..Start::of("written_by_two_blocks") };
        assert_eq!(start.run(&ptx(KERNELS, 16), memory.address), 0);
    });
}

#[test]
fn shifts_beyond_the_width() {
    let start = Start { threads: 1, choice: 32, code: 719, ..Start::of("long_shift") };
    expect_complaint(start, "a shift beyond the width of its type");
}

/// Calls of the driver that are nobody's launch.
fn plain(calls: impl FnOnce(), complaint: &str) {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        calls();
    });
    check(output, complaint);
}

#[test]
fn contexts_that_were_created_and_destroyed() {
    plain(
        || {
            let mut context = ptr::null_mut();
            // SAFETY: plain calls with places for their results; the double keeps the object to
            // recognise it.
            unsafe {
                assert_eq!(double::cuCtxCreate_v2(&mut context, 0, 0), 0);
                assert_eq!(double::cuCtxDestroy_v2(context), 0);
                assert_eq!(double::cuCtxPushCurrent_v2(context), 709);
            }
        },
        "a context is pushed that was created and destroyed",
    );
}

/// Starts a capture of `mode` in another thread, which stays, and tells what `call` returns in this
/// one.
fn beside_a_capture(mode: u32, call: impl FnOnce() -> i32) -> i32 {
    let (begun, waits) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            double::use_device(0);
            let mut stream = ptr::null_mut();
            // SAFETY: plain calls with a place for the result.
            unsafe {
                assert_eq!(double::cuStreamCreate(&mut stream, 0), 0);
                assert_eq!(double::cuStreamBeginCapture_v2(stream, mode), 0);
            }
            begun.wait();
            waits.wait();
            let mut graph = ptr::null_mut();
            // SAFETY: as above.
            let code = unsafe { double::cuStreamEndCapture(stream, &mut graph) };
            assert!(matches!(code, 0 | 901));
        });
        begun.wait();
        let code = call();
        waits.wait();
        code
    })
}

/// What is not allowed while something is captured: an allocation.
fn unsafe_call() -> i32 {
    let mut address = 0;
    // SAFETY: a place for the result.
    unsafe { double::cuMemAlloc_v2(&mut address, 4) }
}

#[test]
fn global_captures_of_other_threads() {
    plain(|| assert_eq!(beside_a_capture(0, unsafe_call), 900), "cuMemAlloc is forbidden while a stream");
}

#[test]
fn contexts_that_are_made_beside_a_capture() {
    let create = || {
        let mut context = ptr::null_mut();
        // SAFETY: a place for the result.
        unsafe { double::cuCtxCreate_v2(&mut context, 0, 1) }
    };
    plain(|| assert_eq!(beside_a_capture(0, create), 900), "cuCtxCreate is forbidden while a stream");
}

#[test]
fn contexts_that_are_held_beside_a_capture() {
    let retain = || {
        let mut context = ptr::null_mut();
        // SAFETY: a place for the result.
        unsafe { double::cuDevicePrimaryCtxRetain(&mut context, 0) }
    };
    plain(|| assert_eq!(beside_a_capture(0, retain), 900), "cuDevicePrimaryCtxRetain is forbidden while");
}

#[test]
fn addresses_that_are_asked_for_beside_a_capture() {
    let query = || {
        let (mut attribute, mut memory_type) = (2, 0_u32);
        let mut place: *mut std::ffi::c_void = (&raw mut memory_type).cast();
        // SAFETY: one attribute, and a place for it.
        unsafe { double::cuPointerGetAttributes(1, &mut attribute, &mut place, 0x1000) }
    };
    plain(|| assert_eq!(beside_a_capture(0, query), 900), "cuPointerGetAttributes is forbidden while");
}

#[test]
fn captures_of_other_threads_that_hold_up_nobody() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for mode in [1, 2] {
            assert_eq!(beside_a_capture(mode, unsafe_call), 0);
        }
    });
}

#[test]
fn forked_children_have_no_driver() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        // SAFETY: the child calls the double, which returns at once, and ends without running
        // anybody's exit handlers.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut context = ptr::null_mut();
                let code = double::cuCtxGetCurrent(&mut context);
                libc::_exit(i32::from(code != 3 || double::cuInit(0) != 3));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    });
}
