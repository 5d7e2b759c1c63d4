//! The driver double that executes PTX: instructions by the manual, and texts that are wrong.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::child;
use crate::complaints::{self, Start, ints};
use crate::double::{self, Memory, Runs};

pub fn libraries() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| double::built("driver_double", Runs::Ptx, &[])).clone()
}

/// A kernel of that body. It knows its thread in %r1, the address of the thread's int in %rd4, that
/// of all in %rd2, and the choice in %r3.
pub fn text(directives: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry tried(\n.param .align 8 .b8 tried_param_0[16]\n)\n\
         {directives}\n{{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<20>;\n\
         .reg .f64 %fd<9>;\n.shared .align 16 .b8 tile[256];\n.shared .align 16 .b8 other[256];\n\
         ld.param.u64 %rd1, [tried_param_0];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n\
         mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\nld.param.u32 %r3, [tried_param_0+8];\n\
         mov.u32 %r5, tile;\nshl.b32 %r6, %r1, 2;\nadd.s32 %r7, %r5, %r6;\n{body}\nret;\n}}\n"
    )
}

/// The parts that several kernels have: a thread stores its number in the tile, and takes its
/// neighbour's from there.
const STORE: &str = "st.shared.u32 [%r7], %r1;\n";
const TAKE: &str = "xor.b32 %r8, %r7, 4;\nld.shared.u32 %r9, [%r8];\n";

pub fn expect_complaint(start: Start, text: &str, complaint: &str) {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        assert_eq!(start.run(text, memory.address), start.code);
    });
    complaints::check(output, complaint);
}

/// A kernel that the double has to leave with that code and complaint.
macro_rules! faults {
    ($($name:ident: $code:literal, $complaint:literal, $body:expr;)*) => {
        $(#[test]
        fn $name() {
            let start = Start { code: $code, ..Start::of("tried") };
            expect_complaint(start, &text("", $body), $complaint);
        })*
    };
}

faults! {
    a_result_of_what_was_never_computed: 719, "what is stored was never computed",
        "add.s32 %r9, %r8, 1;\nst.global.u32 [%rd4], %r9;";
    a_pair_of_which_half_was_never_computed: 719, "what is stored was never computed",
        "and.b64 %rd9, %rd4, -8;\nst.global.v2.u32 [%rd9], {%r1, %r8};";
    an_address_that_was_never_computed: 719, "the address was never computed",
        "st.global.u32 [%rd9], %r1;";
    a_branch_on_what_was_never_computed: 719, "the predicate was never computed",
        "@%p2 bra $L1;\nst.global.u32 [%rd4], %r1;\n$L1:";
    a_choice_by_what_was_never_computed: 719, "what is stored was never computed",
        "selp.b32 %r9, 1, 2, %p3;\nst.global.u32 [%rd4], %r9;";
    a_shuffled_value_that_was_never_computed: 719, "what is stored was never computed",
        "shfl.sync.bfly.b32 %r9, %r8, 1, 31, -1;\nst.global.u32 [%rd4], %r9;";
    shared_memory_without_a_barrier: 719, "with no barrier between", &format!("{STORE}{TAKE}");
    two_writes_without_a_barrier: 719, "with no barrier between", "st.shared.u32 [tile], %r1;";
    a_write_behind_a_read_without_a_barrier: 719, "with no barrier between",
        &format!("{STORE}bar.sync 0;\n{TAKE}st.shared.u32 [%r7], %r9;");
    a_barrier_of_each_warp_is_none_of_the_block: 719, "with no barrier between",
        &format!("{STORE}bar.warp.sync -1;\n{}", TAKE.replace("%r7, 4", "%r7, 128"));
    shared_memory_that_nobody_wrote: 719, "what is stored was never computed",
        "ld.shared.u32 %r9, [%r7];\nst.global.u32 [%rd4], %r9;";
    shared_memory_of_which_nobody_wrote_a_part: 719, "what is stored was never computed",
        "st.shared.u16 [%r7], %rs1;\nst.shared.u16 [%r7], 7;\nld.shared.u32 %r9, [%r7];\nst.global.u32 [%rd4], %r9;";
    an_address_in_shared_memory_that_nobody_wrote: 719, "the address was never computed",
        "ld.shared.u32 %r9, [%r7];\ncvt.u64.u32 %rd9, %r9;\nadd.s64 %rd9, %rd9, %rd2;\nst.global.u32 [%rd9], %r1;";
    shared_memory_behind_its_array: 700, "which no declaration covers", "st.shared.u32 [tile+256], %r1;";
    shared_memory_in_front_of_its_array: 700, "which no declaration covers", "st.shared.u32 [tile+-4], %r1;";
    shared_memory_across_the_end_of_its_array: 700, "which no declaration covers",
        "mov.u32 %r9, 252;\nadd.s32 %r9, %r9, %r5;\nmov.u64 %rd9, 7;\nst.shared.u64 [%r9], %rd9;";
    a_parameter_beyond_its_size: 700, "of parameter memory, which no declaration covers",
        "ld.param.u32 %r9, [tried_param_0+16];";
    a_parameter_that_is_written: 700, "of parameter memory, which no declaration covers",
        "st.param.b32 [tried_param_0], %r1;";
    a_parameter_off_its_alignment: 716, "a parameter off its alignment", "ld.param.u32 %r9, [tried_param_0+2];";
    barriers_that_differ: 719, "while others wait at that of line",
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $L1;\nbar.sync 0;\nbra.uni $L2;\n$L1:\nbar.sync 0;\n$L2:";
    a_barrier_that_some_miss: 719, "others", "setp.lt.u32 %p1, %r1, 60;\n@%p1 bra $L1;\nret;\n$L1:\nbar.sync 0;";
    a_barrier_for_fewer_threads: 719, "a barrier for 32 threads in a block of 64", "bar.sync 0, 32;";
    a_barrier_for_more_threads: 719, "a barrier for 96 threads in a block of 64", "bar.sync 0, 96;";
    a_barrier_for_as_many_threads_as_was_never_computed: 719, "the number of threads was never computed",
        "bar.sync 0, %r9;";
    a_count_at_a_barrier_that_some_miss: 719, "others",
        "setp.lt.u32 %p1, %r1, 60;\n@%p1 bra $L1;\nret;\n$L1:\nbar.red.popc.u32 %r8, 0, %p1;";
    a_count_of_what_was_never_computed: 719, "the predicate was never computed", "bar.red.popc.u32 %r8, 0, %p3;";
    a_barrier_of_a_warp_that_a_lane_misses: 719, "of its warp",
        "setp.eq.s32 %p1, %r1, 3;\n@%p1 bra $L1;\nbar.warp.sync -1;\n$L1:";
    a_mask_without_the_lane_itself: 719, "which lacks its own lane", "shfl.sync.bfly.b32 %r8, %r1, 1, 31, -2;";
    masks_that_differ: 719, "with another mask",
        "setp.eq.s32 %p1, %r1, 3;\nselp.b32 %r9, 255, -1, %p1;\nshfl.sync.bfly.b32 %r8, %r1, 1, 31, %r9;";
    a_shuffle_that_meets_a_vote: 719, "do something else",
        "setp.eq.s32 %p1, %r1, 3;\n@%p1 bra $L1;\nshfl.sync.bfly.b32 %r8, %r1, 1, 31, -1;\nret;\n\
         $L1:\nvote.sync.ballot.b32 %r8, %p1, -1;";
    a_mask_that_was_never_computed: 719, "the mask was never computed", "bar.warp.sync %r9;";
    a_product_of_what_was_never_computed: 719, "an element of the product was never computed",
        "mov.u32 %r8, 0;\nmma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r9, %r10}, {%r8}, {%r11}, {%r8, %r8};";
    a_shuffle_without_some_lanes: 719, "of its warp",
        "and.b32 %r9, %r1, 31;\nsetp.gt.u32 %p1, %r9, 20;\n@%p1 bra $L1;\n\
         shfl.sync.bfly.b32 %r8, %r1, 1, 31, -1;\n$L1:";
    a_shuffle_from_a_lane_that_is_not_of_the_mask: 719, "wants the value of lane",
        "and.b32 %r9, %r1, 31;\nsetp.gt.u32 %p1, %r9, 15;\n@%p1 bra $L1;\n\
         shfl.sync.idx.b32 %r8, %r1, 16, 31, 65535;\n$L1:";
    a_vote_without_some_lanes: 719, "of its warp",
        "setp.eq.s32 %p1, %r1, 3;\n@%p1 bra $L1;\nvote.sync.ballot.b32 %r8, %p1, -1;\n$L1:";
    a_product_without_some_lanes: 719, "of its warp",
        "setp.eq.s32 %p1, %r1, 3;\nmov.u32 %r8, 0;\n@%p1 bra $L1;\n\
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r9, %r10}, {%r8}, {%r8}, {%r8, %r8};\n$L1:";
    a_vector_off_its_alignment: 716, "is not aligned to 16 bytes",
        "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd2+8];";
    a_word_off_its_alignment: 716, "is not aligned to 4 bytes", "ld.global.u32 %r8, [%rd2+2];";
    a_vector_across_the_end_of_an_allocation: 700, "from the start of an allocation",
        "setp.eq.s32 %p1, %r1, 0;\n@%p1 ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd2+256];";
    a_copy_off_its_alignment: 716, "is not aligned to 16 bytes",
        "cp.async.cg.shared.global [%r5], [%rd4], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;";
    a_copy_behind_its_array: 700, "which no declaration covers",
        "add.s32 %r9, %r5, 256;\ncp.async.ca.shared.global [%r9], [%rd4], 4;";
    a_shared_vector_off_its_alignment: 716, "is not aligned to 8 bytes",
        "st.shared.v2.u32 [tile+4], {%r1, %r1};";
    device_memory_behind_its_allocation: 700, "from the start of an allocation",
        "ld.global.u32 %r8, [%rd2+256];";
    a_copy_that_is_read_early: 719, "with no barrier between",
        "shl.b64 %rd5, %rd3, 0;\nadd.s64 %rd6, %rd2, %rd5;\nmov.u32 %r8, 4;\n\
         cp.async.ca.shared.global [%r7], [%rd6], 4, %r8;\ncp.async.commit_group;\n\
         xor.b32 %r9, %r7, 4;\nld.shared.u32 %r10, [%r9];\ncp.async.wait_group 0;";
    a_copy_that_nobody_waits_for: 719, "copies to shared memory that it has not waited for",
        "mov.u32 %r8, 4;\ncp.async.ca.shared.global [%r7], [%rd4], 4, %r8;\ncp.async.commit_group;";
}

#[test]
fn bytes_that_two_blocks_write() {
    let start = Start { blocks: 2, code: 719, ..Start::of("tried") };
    expect_complaint(start, &text("", "st.global.u32 [%rd4], %r1;"), "in the same launch");
}

#[test]
fn dynamic_shared_memory_behind_what_the_launch_gives() {
    let array = ".extern .shared .align 16 .b8 more[];\n.visible";
    let text = text("", "mov.u32 %r9, more;\nst.shared.u32 [%r9+60], %r3;\nst.shared.u32 [%r9+64], %r3;");
    let start = Start { threads: 1, shared: 64, code: 700, ..Start::of("tried") };
    expect_complaint(
        start,
        &text.replace(".visible", array),
        "4 bytes at 64 of 64 bytes of dynamic shared memory",
    );
}

/// Static and dynamic arrays together are more than a block has, each of them is not.
#[test]
fn more_shared_memory_than_a_block_has() {
    let text = text("", "mov.u32 %r9, large;\nst.shared.u32 [%r9], %r3;").replace(
        ".shared .align 16 .b8 tile[256];",
        ".shared .align 16 .b8 tile[256];\n.shared .align 16 .b8 large[40000];",
    );
    let start = Start { shared: 9000, code: 1, ..Start::of("tried") };
    expect_complaint(start, &text, "threads with 9000 bytes of shared memory");
}

#[test]
fn a_parameter_that_a_call_did_not_pass() {
    let taker = ".func taker(\n.param .b32 taker_param_0\n)\n{\n.reg .b32 %q<3>;\n.reg .b64 %qd<3>;\n\
                 ld.param.u32 %q1, [taker_param_0];\ncvt.u64.u32 %qd1, %q1;\nst.global.u32 [%qd1], 7;\nret;\n}\n.visible";
    let text = text("", "{\n.param .b32 param0;\ncall.uni taker, (param0);\n}");
    let start = Start { code: 719, ..Start::of("tried") };
    expect_complaint(start, &text.replace(".visible", taker), "the address was never computed");
}

#[test]
fn barriers_order_what_is_shared() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let memory = Memory::new(&ints(0..64));
        let text = text("", &format!("{STORE}bar.sync 0;\n{TAKE}st.global.u32 [%rd4], %r9;"));
        assert_eq!(Start::of("tried").run(&text, memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).map(|i| i ^ 1)));
    });
}

/// A block of 64 threads, which the text does not allow.
fn expect_other_block(directive: &str) {
    let start = Start { code: 1, ..Start::of("tried") };
    expect_complaint(start, &text(directive, ""), "a grid of 1 x 1 x 1 blocks of 64 x 1 x 1 threads");
}

#[test]
fn a_block_of_more_threads_than_the_text_allows() {
    expect_other_block(".maxntid 32, 1, 1");
}

#[test]
fn a_block_of_other_threads_than_the_text_demands() {
    expect_other_block(".reqntid 128");
}

/// An instruction, where its result is, and the result by the manual.
const RESULTS: [(&str, &str, u64); 73] = [
    // To integers: the nearest that there is; NaN.
    ("cvt.rzi.s32.f32 %r9, 0f7FC00000;", "%r9", 0),
    ("cvt.rzi.s32.f32 %r9, 0f4F800000;", "%r9", 0x7fff_ffff),
    ("cvt.rzi.s32.f32 %r9, 0fFF800000;", "%r9", 0x8000_0000),
    ("cvt.rzi.s32.f64 %r9, 0d7FF8000000000000;", "%r9", 0x8000_0000),
    ("cvt.rzi.s64.f32 %rd9, 0f7FC00000;", "%rd9", 1 << 63),
    ("cvt.rzi.u32.f32 %r9, 0fBF800000;", "%r9", 0),
    ("cvt.rzi.s32.f32 %r9, 0fBFC00000;", "%r9", 0xffff_ffff),
    // To integers that stay floats: the even one of two, and down.
    ("cvt.rni.f32.f32 %f1, 0f40200000;", "%f1", 0x4000_0000),
    ("cvt.rni.f32.f32 %f1, 0f40600000;", "%f1", 0x4080_0000),
    ("cvt.rmi.f32.f32 %f1, 0fBF000000;", "%f1", 0xbf80_0000),
    ("cvt.rni.f64.f64 %fd1, 0dC004000000000000;", "%fd1", 0xc000_0000_0000_0000),
    // Halves: the largest, what is too large for them, the smallest, and half of that.
    ("cvt.rn.f16.f32 %rs1, 0f477FEFFF;", "%rs1", 0x7bff),
    ("cvt.rn.f16.f32 %rs1, 0f477FF000;", "%rs1", 0x7c00),
    ("cvt.rn.f16.f32 %rs1, 0f33000000;", "%rs1", 0),
    ("cvt.rn.f16.f32 %rs1, 0f80000000;", "%rs1", 0x8000),
    ("cvt.rn.f16.f32 %rs1, 0f33000001;", "%rs1", 1),
    ("cvt.rn.f16.f32 %rs1, 0f387FE000;", "%rs1", 0x0400),
    ("cvt.rn.f16.f32 %rs1, 0fFFC00000;", "%rs1", 0x7fff),
    ("mov.u16 %rs1, 1;\ncvt.f32.f16 %f1, %rs1;", "%f1", 0x3380_0000),
    ("mov.u16 %rs1, 0x8400;\ncvt.f32.f16 %f1, %rs1;", "%f1", 0xb880_0000),
    ("mov.u16 %rs1, 0x7c01;\ncvt.f32.f16 %f1, %rs1;", "%f1", 0x7fff_ffff),
    ("cvt.rna.tf32.f32 %r9, 0f3F801000;", "%r9", 0x3f80_2000),
    ("cvt.rna.tf32.f32 %r9, 0fBF801000;", "%r9", 0xbf80_2000),
    ("cvt.rna.tf32.f32 %r9, 0f3F800FFF;", "%r9", 0x3f80_0000),
    // Pairs, the first in the upper half; of bfloat16 the even one of two.
    ("cvt.rn.f16x2.f32 %r9, 0f3F800000, 0fC0000000;", "%r9", 0x3c00_c000),
    ("cvt.rn.f16x2.f32 %r9, 0f477FF000, 0fFFC00000;", "%r9", 0x7c00_7fff),
    ("cvt.rn.bf16x2.f32 %r9, 0f3F808000, 0f3F818000;", "%r9", 0x3f80_3f82),
    ("cvt.rn.bf16x2.f32 %r9, 0fFFC00000, 0fBF808001;", "%r9", 0x7fff_bf81),
    // Powers of two; the least normal one, and one that is less.
    ("ex2.approx.ftz.f32 %f1, 0f40400000;", "%f1", 0x4100_0000),
    ("ex2.approx.ftz.f32 %f1, 0f3F000000;", "%f1", 0x3fb5_04f3),
    ("ex2.approx.ftz.f32 %f1, 0fC2FC0000;", "%f1", 0x0080_0000),
    ("ex2.approx.ftz.f32 %f1, 0fC2FC8000;", "%f1", 0),
    ("ex2.approx.ftz.f32 %f1, 0fFF800000;", "%f1", 0),
    ("ex2.approx.ftz.f32 %f1, 0f43000000;", "%f1", 0x7f80_0000),
    ("cvt.rn.f32.f64 %f1, 0d47EFFFFFF0000000;", "%f1", 0x7f80_0000),
    ("cvt.rn.f32.s64 %f1, 0x7fffffffffffffff;", "%f1", 0x5f00_0000),
    ("cvt.rn.f32.s32 %f1, 16777217;", "%f1", 0x4b80_0000),
    // Between integers: by the type of the source, to the width of the register.
    ("mov.u64 %rd8, 0x1ff;\ncvt.s64.s8 %rd9, %rd8;", "%rd9", u64::MAX),
    ("mov.u16 %rs1, 0x80;\ncvt.s16.s8 %rs2, %rs1;", "%rs2", 0xff80),
    ("cvt.u16.u32 %rs1, 0x12345;", "%rs1", 0x2345),
    ("mov.u32 %r8, 0x80000000;\ncvt.s64.s32 %rd9, %r8;", "%rd9", 0xffff_ffff_8000_0000),
    ("mov.u32 %r8, 0x80000000;\ncvt.u64.u32 %rd9, %r8;", "%rd9", 0x8000_0000),
    // Bytes and bits.
    ("prmt.b32 %r9, 0x03020100, 0x87068504, 0x7654;", "%r9", 0x8706_8504),
    ("prmt.b32 %r9, 0x03020100, 0x87068504, 0xf860;", "%r9", 0xff00_0600),
    ("shl.b32 %r9, 1, 32;", "%r9", 0),
    ("shr.s32 %r9, -8, 40;", "%r9", 0xffff_ffff),
    ("shr.u32 %r9, -1, 32;", "%r9", 0),
    ("shl.b16 %rs1, 1, 16;", "%rs1", 0),
    ("shf.l.wrap.b32 %r9, 0x80000000, 1, 33;", "%r9", 3),
    ("bfe.u32 %r9, 0xabcd1234, 8, 8;", "%r9", 0x12),
    ("bfe.u32 %r9, 0xabcd1234, 28, 8;", "%r9", 0xa),
    ("bfe.u32 %r9, 0xabcd1234, 3, 0;", "%r9", 0),
    ("bfe.s32 %r9, 0x00008000, 8, 8;", "%r9", 0xffff_ff80),
    ("bfi.b32 %r9, 15, 0, 30, 4;", "%r9", 0xc000_0000),
    ("bfi.b64 %rd9, 1, 0, 63, 1;", "%rd9", 1 << 63),
    ("mov.b64 %rd9, {%r5, %r5};\nmov.b64 {%r8, %r9}, %rd9;\nsub.s32 %r9, %r8, %r9;", "%r9", 0),
    // Integers.
    ("div.u32 %r9, 5, 0;", "%r9", 0xffff_ffff),
    ("rem.u32 %r9, 5, 0;", "%r9", 5),
    ("mul.hi.u64 %rd9, 0xffffffffffffffff, 2;", "%rd9", 1),
    ("mul.hi.u32 %r9, 0x80000000, 6;", "%r9", 3),
    ("mul.wide.u16 %r9, 65535, 65535;", "%r9", 0xfffe_0001),
    ("mul.wide.s32 %rd9, -1, 2;", "%rd9", 0xffff_ffff_ffff_fffe),
    ("mad.lo.s32 %r9, 0x10000, 0x10000, 7;", "%r9", 7),
    ("abs.s64 %rd9, -5;", "%rd9", 5),
    // Floats: one rounding, and one NaN.
    ("fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002;", "%f1", 0x2880_0000),
    ("add.rn.f32 %f1, 0f7F800000, 0fFF800000;", "%f1", 0x7fff_ffff),
    ("div.rn.f32 %f1, 0f3F800000, 0f40400000;", "%f1", 0x3eaa_aaab),
    ("sqrt.rn.f64 %fd1, 0d4000000000000000;", "%fd1", 0x3ff6_a09e_667f_3bcd),
    // Comparisons with NaN.
    ("setp.ne.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r9, 1, 0, %p1;", "%r9", 0),
    ("setp.neu.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r9, 1, 0, %p1;", "%r9", 1),
    ("setp.ltu.f64 %p1, 0d7FF8000000000000, 0d0000000000000000;\nselp.u32 %r9, 1, 0, %p1;", "%r9", 1),
    ("setp.lt.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r9, 1, 0, %p1;", "%r9", 0),
    ("setp.nan.f32 %p1, 0f7FC00000, 0f00000000;\nselp.u32 %r9, 1, 0, %p1;", "%r9", 1),
];

#[test]
fn instructions_do_what_the_manual_says() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        for (instruction, place, want) in RESULTS {
            let memory = Memory::new(&[0xa5; 8]);
            let kind = place.trim_end_matches(|c: char| c.is_ascii_digit());
            let (bytes, store) = match kind {
                "%rs" => (2, "u16"),
                "%r" => (4, "u32"),
                "%f" => (4, "f32"),
                "%fd" => (8, "f64"),
                _ => (8, "u64"),
            };
            let start = Start { threads: 1, ..Start::of("tried") };
            let body = format!("{instruction}\nst.global.{store} [%rd2], {place};");
            assert_eq!(start.run(&text("", &body), memory.address), 0, "{instruction}");
            assert_eq!(memory.read()[..bytes], want.to_le_bytes()[..bytes], "{instruction}");
        }
    });
}

/// Texts that are refused when they are loaded, each with a part of what is said of it.
const REFUSED: [(&str, &str); 9] = [
    ("ex2.approx.f32 %f1, %f2;", "no form \"ex2.approx.f32\" is known"),
    ("add.s32 %r8, %rd1, 1;", "the register %rd1 has another width than the type"),
    ("bra $nowhere;", "there is no label \"$nowhere\""),
    ("mov.u32 %r8, %r99;", "\"%r99\" is not declared"),
    ("call.uni absent;", "there is no function \"absent\""),
    ("ld.global.v4.u32 {%r8, %r9}, [%rd2];", "a vector of another length is expected"),
    ("cp.async.cg.shared.global [%r7], [%rd2], 4;", "a copy of that many bytes"),
    ("ld.global.nc.u32 %r8, [%rd2];", "no form \"ld.global.nc.u32\" is known"),
    ("add.s32 %r8, %r9;", "another number of operands is expected"),
];

#[test]
fn what_is_not_known_is_refused() {
    let output = child::start(&libraries(), &[], || {
        double::use_device(0);
        for (body, _) in REFUSED {
            assert_eq!(Start::of("tried").run(&text("", body), 0), 218, "{body}");
        }
    });
    let Some(output) = output else { return };
    for (body, said) in REFUSED {
        assert!(child::text(&output).contains(said), "{body}: {}", child::text(&output));
    }
    complaints::check(Some(output), "line 26: no form");
}
