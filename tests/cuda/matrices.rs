//! The driver double loads matrices as `ldmatrix` does, and finds what is wrong with a load, or
//! with the copies that it follows.

use crate::complaints::{self, KERNELS, Start, ints};
use crate::double::{self, Memory};
use crate::{child, ptx};

/// The number in a row and a column of what is loaded.
fn number(row: usize, column: usize) -> u32 {
    (8 * row + column) as u32
}

/// The word that a lane gets of matrix `m`, whose row `r` is the one that `row` gives for
/// `8 m + r`, by the manual's figure.
fn word(m: usize, lane: usize, transposed: bool, row: impl Fn(usize) -> usize) -> u32 {
    let (line, first) = (lane / 4, lane % 4 * 2);
    let half = |k: usize| match transposed {
        true => number(row(8 * m + first + k), line),
        false => number(row(8 * m + line), first + k),
    };
    half(0) | half(1) << 16
}

/// Every thread's int goes to `tile`, through registers.
const FILL: &str = "ld.global.u32 %r9, [%rd4];\nst.shared.u32 [%r7], %r9;\n";
/// The lane and the address of the row that it names.
const ROW: &str = "and.b32 %r10, %r1, 31;\nmad.lo.s32 %r11, %r10, 5, 3;\nand.b32 %r11, %r11, 15;\n\
                   shl.b32 %r11, %r11, 4;\nadd.s32 %r11, %r11, %r5;\n";
const LOAD: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r11];\n";
/// A product of what was loaded.
const MULTIPLY: &str = "mov.f32 %f1, 0f00000000;\n\
                        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, \
                        {%r12, %r13, %r14, %r15}, {%r12, %r13}, {%f1, %f1, %f1, %f1};\n";
/// 16 bytes from each of 16 threads to `tile`.
const COPY: &str = "setp.lt.u32 %p1, %r1, 16;\nshl.b32 %r8, %r1, 4;\nadd.s32 %r8, %r8, %r5;\n\
                    mul.wide.u32 %rd5, %r1, 16;\nadd.s64 %rd6, %rd2, %rd5;\n\
                    @%p1 cp.async.cg.shared.global [%r8], [%rd6], 16;\ncp.async.commit_group;\n";

#[test]
fn matrices_are_loaded_as_the_manual_says() {
    child::run(&ptx::libraries(), &[], || {
        double::use_device(0);
        for (count, transposed) in [1, 2, 4].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let numbers: Vec<u8> = (0..512_u16).flat_map(u16::to_le_bytes).collect();
            let memory = Memory::new(&numbers);
            let registers = ["%r12", "%r12, %r13", "", "%r12, %r13, %r14, %r15"][count - 1];
            let order = if transposed { ".trans" } else { "" };
            // The address is that of the row by its offset.
            let body = format!(
                "{FILL}bar.sync 0;\n{ROW}sub.s32 %r11, %r11, 64;\n\
                 mov.u32 %r12, 0;\nmov.u32 %r13, 0;\nmov.u32 %r14, 0;\nmov.u32 %r15, 0;\n\
                 ldmatrix.sync.aligned.m8n8.x{count}{order}.shared.b16 {{{registers}}}, [%r11+64];\n\
                 shl.b64 %rd5, %rd3, 2;\nadd.s64 %rd6, %rd2, %rd5;\n\
                 st.global.v4.u32 [%rd6], {{%r12, %r13, %r14, %r15}};"
            );
            assert_eq!(Start::of("tried").run(&ptx::text("", &body), memory.address), 0);
            let want = (0..64 * 4).map(|i| {
                let (lane, m) = (i / 4 % 32, i % 4);
                let row = |of: usize| (5 * of + 3) % 16;
                if m < count { word(m, lane, transposed, row) as i32 } else { 0 }
            });
            assert!(memory.read() == ints(want), "{count} {order}");
        }
    });
}

#[test]
fn sources_load_matrices_in_the_same_way() {
    for (choice, transposed) in [(0, false), (1, true)] {
        child::run(&complaints::libraries(), &[], || {
            double::use_device(0);
            let numbers: Vec<u8> = (0..128_u16).flat_map(u16::to_le_bytes).collect();
            let memory = Memory::new(&numbers);
            let start = Start { choice, ..Start::of("loaded_matrices") };
            assert_eq!(start.run(&complaints::ptx(KERNELS, 16), memory.address), 0);
            let want = (0..64).map(|i| word(i / 32, i % 32, transposed, |of| of) as i32);
            assert!(memory.read() == ints(want), "{transposed}");
        });
    }
}

/// Copies that are waited for in two groups, and places with offsets.
#[test]
fn groups_arrive_one_after_the_other() {
    child::run(&ptx::libraries(), &[], || {
        double::use_device(0);
        let body = "add.s32 %r9, %r7, -16;\nadd.s64 %rd9, %rd4, -16;\nmov.u32 %r10, other;\nadd.s32 %r10, %r10, %r6;\n\
                    cp.async.ca.shared.global [%r9+16], [%rd9+16], 4;\ncp.async.commit_group;\n\
                    cp.async.ca.shared.global [%r10], [%rd4], 4;\ncp.async.commit_group;\n\
                    cp.async.wait_group 1;\nbar.sync 0;\n\
                    xor.b32 %r11, %r7, 4;\nld.shared.u32 %r12, [%r11];\ncp.async.wait_group 0;\nbar.sync 0;\n\
                    xor.b32 %r11, %r10, 8;\nld.shared.u32 %r13, [%r11];\nmad.lo.s32 %r14, %r13, 100, %r12;\n\
                    st.global.u32 [%rd4], %r14;";
        let memory = Memory::new(&ints(0..64));
        assert_eq!(Start::of("tried").run(&ptx::text("", body), memory.address), 0);
        assert_eq!(memory.read(), ints((0..64).map(|i| 100 * (i ^ 2) + (i ^ 1))));
    });
}

/// A kernel that the double has to leave with that code and complaint.
macro_rules! faults {
    ($($name:ident: $code:literal, $complaint:literal, $body:expr;)*) => {
        $(#[test]
        fn $name() {
            let start = Start { code: $code, ..Start::of("tried") };
            ptx::expect_complaint(start, &ptx::text("", &$body), $complaint);
        })*
    };
}

faults! {
    a_group_that_is_waited_for_too_late: 719, "an element of the product was never computed",
        format!("{COPY}cp.async.commit_group;\ncp.async.wait_group 2;\nbar.sync 0;\n{ROW}{LOAD}{MULTIPLY}cp.async.wait_group 0;");
    a_copy_that_nobody_waited_for_before_the_barrier: 719, "what is stored was never computed",
        format!("{COPY}bar.sync 0;\nld.shared.u32 %r9, [%r7];\nst.global.u32 [%rd4], %r9;\ncp.async.wait_group 0;");
    matrices_of_copies_without_a_barrier: 719, "with no barrier between",
        format!("{COPY}cp.async.wait_group 0;\n{ROW}{LOAD}{MULTIPLY}");
    matrices_of_stores_without_a_barrier: 719, "with no barrier between", format!("{FILL}{ROW}{LOAD}");
    a_copy_over_matrices_without_a_barrier: 719, "with no barrier between",
        format!("{FILL}bar.sync 0;\n{ROW}{LOAD}{COPY}cp.async.wait_group 0;");
    matrices_that_nobody_wrote: 719, "an element of the product was never computed", format!("{ROW}{LOAD}{MULTIPLY}");
    matrices_off_their_alignment: 716, "is not aligned to 16 bytes",
        format!("{FILL}bar.sync 0;\n{ROW}add.s32 %r11, %r11, 8;\n{LOAD}");
    matrices_behind_their_array: 700, "which no declaration covers",
        format!("{FILL}bar.sync 0;\n{ROW}{}", LOAD.replace("%r11]", "%r11+128]"));
    matrices_at_an_address_that_was_never_computed: 719, "the address was never computed",
        LOAD.replace("%r11]", "%r16]");
    matrices_without_some_lanes: 719, "of its warp",
        format!("{FILL}bar.sync 0;\n{ROW}setp.eq.s32 %p1, %r1, 3;\n@%p1 bra $L1;\n{LOAD}$L1:");
    a_load_of_matrices_that_meets_a_product: 719, "do something else",
        format!("{FILL}bar.sync 0;\n{ROW}mov.u32 %r12, 0;\nmov.u32 %r13, 0;\nmov.u32 %r14, 0;\nmov.u32 %r15, 0;\n\
                 setp.eq.s32 %p1, %r1, 3;\n@%p1 bra $L1;\n{LOAD}ret;\n$L1:\n{MULTIPLY}");
}

/// The same of sources.
#[test]
fn sources_that_load_matrices_without_a_barrier() {
    let start = Start { choice: 2, code: 719, ..Start::of("loaded_matrices") };
    complaints::expect_complaint(start, "with no barrier between");
}

#[test]
fn sources_that_load_matrices_without_some_lanes() {
    let start = Start { choice: 3, code: 719, ..Start::of("loaded_matrices") };
    complaints::expect_complaint(start, "a load of matrices");
}

#[test]
fn sources_that_load_matrices_off_their_alignment() {
    let start = Start { choice: 4, code: 716, ..Start::of("loaded_matrices") };
    complaints::expect_complaint(start, "is not aligned to 16 bytes");
}

/// Texts that are refused when they are loaded, each with a part of what is said of it.
const REFUSED: [(&str, &str); 3] = [
    (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13}, [%r5];",
        "a register for each matrix is expected",
    ),
    (
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r12, %r13, %r14}, [%r5];",
        "no form \"ldmatrix.sync.aligned.m8n8.x3",
    ),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%rd5}, [%r5];", "has another width than the type"),
];

#[test]
fn loads_of_other_forms_are_refused() {
    let output = child::start(&ptx::libraries(), &[], || {
        double::use_device(0);
        for (body, _) in REFUSED {
            assert_eq!(Start::of("tried").run(&ptx::text("", body), 0), 218, "{body}");
        }
    });
    let Some(output) = output else { return };
    for (body, said) in REFUSED {
        assert!(child::text(&output).contains(said), "{body}: {}", child::text(&output));
    }
}
