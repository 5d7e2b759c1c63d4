//! Those of x86-64.

/// The version that the oldest calls have.
pub const FIRST: &str = "2.2.5";

/// A jump to the old version of a function.
pub fn jump(name: &str) -> String {
    format!("    jmp *old_{name}@GOTPCREL(%rip)\n")
}

/// Calls that older versions of glibc do not have at all, and what stands for them: before 2.33
/// `stat` and its kin were inlined calls of `__xstat` with the number of the struct in front;
/// `gettid` is a call of the kernel.
pub const NEWER: &[(&str, &str)] = &[
    (
        "stat64",
        "    mov %rsi, %rdx\n    mov %rdi, %rsi\n    mov $1, %edi\n    jmp *old___xstat64@GOTPCREL(%rip)\n",
    ),
    (
        "lstat64",
        "    mov %rsi, %rdx\n    mov %rdi, %rsi\n    mov $1, %edi\n    jmp *old___lxstat64@GOTPCREL(%rip)\n",
    ),
    (
        "fstat64",
        "    mov %rsi, %rdx\n    mov %edi, %esi\n    mov $1, %edi\n    jmp *old___fxstat64@GOTPCREL(%rip)\n",
    ),
    (
        "fstatat64",
        "    mov %ecx, %r8d\n    mov %rdx, %rcx\n    mov %rsi, %rdx\n    mov %edi, %esi\n    mov $1, %edi\n    \
         jmp *old___fxstatat64@GOTPCREL(%rip)\n",
    ),
    ("gettid", "    mov $186, %eax\n    syscall\n    ret\n"),
];

/// What [`NEWER`] jumps to.
pub const STAT: [(&str, &str); 4] =
    [("__xstat64", "2.2.5"), ("__lxstat64", "2.2.5"), ("__fxstat64", "2.2.5"), ("__fxstatat64", "2.4")];

/// The start of a program. 2.34 changed what it leaves to `__libc_start_main`: an older one runs
/// the constructors that the caller hands over, and none without. So this one hands over a function
/// that runs them, which newer ones take as well. As the program's own symbol it takes the place of
/// the newest one; the libraries are linked with the same object and have no start.
pub const START: &str = "    .symver old___libc_start_main, __libc_start_main@GLIBC_2.2.5
    .globl __libc_start_main
    .hidden __libc_start_main
    .type __libc_start_main, %function
__libc_start_main:
    lea construct(%rip), %rcx
    xor %r8d, %r8d
    jmp *old___libc_start_main@GOTPCREL(%rip)
    .size __libc_start_main, . - __libc_start_main
    .weak __init_array_start
    .hidden __init_array_start
    .weak __init_array_end
    .hidden __init_array_end
    .type construct, %function
construct:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    mov %edi, %r12d
    mov %rsi, %r13
    mov %rdx, %r14
    mov __init_array_start@GOTPCREL(%rip), %rbx
    mov __init_array_end@GOTPCREL(%rip), %rbp
1:  cmp %rbp, %rbx
    jae 2f
    mov %r12d, %edi
    mov %r13, %rsi
    mov %r14, %rdx
    call *(%rbx)
    add $8, %rbx
    jmp 1b
2:  pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .size construct, . - construct
";
