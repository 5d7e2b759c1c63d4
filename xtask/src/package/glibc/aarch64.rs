//! Those of aarch64, whose first glibc was 2.17.

/// The version that the oldest calls have.
pub const FIRST: &str = "2.17";

/// A jump to the old version of a function.
pub fn jump(name: &str) -> String {
    format!("    adrp x16, :got:old_{name}\n    ldr x16, [x16, :got_lo12:old_{name}]\n    br x16\n")
}

/// Calls that older versions of glibc do not have at all, and what stands for them: the struct of
/// `__xstat` has the number 0 here.
pub const NEWER: &[(&str, &str)] = &[
    (
        "stat64",
        "    mov x2, x1\n    mov x1, x0\n    mov w0, wzr\n    adrp x16, :got:old___xstat64\n    \
         ldr x16, [x16, :got_lo12:old___xstat64]\n    br x16\n",
    ),
    (
        "lstat64",
        "    mov x2, x1\n    mov x1, x0\n    mov w0, wzr\n    adrp x16, :got:old___lxstat64\n    \
         ldr x16, [x16, :got_lo12:old___lxstat64]\n    br x16\n",
    ),
    (
        "fstat64",
        "    mov x2, x1\n    mov w1, w0\n    mov w0, wzr\n    adrp x16, :got:old___fxstat64\n    \
         ldr x16, [x16, :got_lo12:old___fxstat64]\n    br x16\n",
    ),
    (
        "fstatat64",
        "    mov w4, w3\n    mov x3, x2\n    mov x2, x1\n    mov w1, w0\n    mov w0, wzr\n    \
         adrp x16, :got:old___fxstatat64\n    ldr x16, [x16, :got_lo12:old___fxstatat64]\n    br x16\n",
    ),
    ("gettid", "    mov x8, #178\n    svc #0\n    ret\n"),
];

/// What [`NEWER`] jumps to.
pub const STAT: [(&str, &str); 4] =
    [("__xstat64", FIRST), ("__lxstat64", FIRST), ("__fxstat64", FIRST), ("__fxstatat64", FIRST)];

/// The start of a program, as that of x86-64.
pub const START: &str = "    .symver old___libc_start_main, __libc_start_main@GLIBC_2.17
    .globl __libc_start_main
    .hidden __libc_start_main
    .type __libc_start_main, %function
__libc_start_main:
    adrp x3, construct
    add x3, x3, :lo12:construct
    mov x4, xzr
    adrp x16, :got:old___libc_start_main
    ldr x16, [x16, :got_lo12:old___libc_start_main]
    br x16
    .size __libc_start_main, . - __libc_start_main
    .weak __init_array_start
    .hidden __init_array_start
    .weak __init_array_end
    .hidden __init_array_end
    .type construct, %function
construct:
    stp x29, x30, [sp, #-64]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    str x23, [sp, #48]
    mov w21, w0
    mov x22, x1
    mov x23, x2
    adrp x19, :got:__init_array_start
    ldr x19, [x19, :got_lo12:__init_array_start]
    adrp x20, :got:__init_array_end
    ldr x20, [x20, :got_lo12:__init_array_end]
1:  cmp x19, x20
    b.hs 2f
    mov w0, w21
    mov x1, x22
    mov x2, x23
    ldr x16, [x19], #8
    blr x16
    b 1b
2:  ldr x23, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #64
    ret
    .size construct, . - construct
";
