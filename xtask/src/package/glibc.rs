//! Files that start with an older glibc than the one of the machine that links them.
//!
//! The linker binds a call to the newest version of its symbol that the machine's glibc has. glibc
//! 2.34 moved threads and `dlopen` into libc.so.6 and gave them new versions, although nothing
//! about them had changed; the old versions are there, too. So each of these calls goes by a jump
//! to the old one, put in its place with `--wrap`. The start of a program was changed then, too.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{shell, tools};

/// The oldest glibc that a release starts with: that of RHEL 8 and of the wheels called
/// manylinux_2_28.
pub const OLDEST: &str = "2.28";

/// The only target for which a release is made.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Calls with a version newer than [`OLDEST`], and the version to bind them to instead.
const OLDER: &[(&str, &str)] = &[
    ("dladdr", "2.2.5"),
    ("dlclose", "2.2.5"),
    ("dlerror", "2.2.5"),
    ("dlopen", "2.2.5"),
    ("dlsym", "2.2.5"),
    ("exp", "2.2.5"),
    ("log", "2.2.5"),
    ("pow", "2.2.5"),
    ("pthread_attr_getguardsize", "2.2.5"),
    ("pthread_attr_getstack", "2.2.5"),
    ("pthread_attr_setguardsize", "2.2.5"),
    ("pthread_attr_setstacksize", "2.2.5"),
    ("pthread_create", "2.2.5"),
    ("pthread_detach", "2.2.5"),
    ("pthread_getattr_np", "2.2.5"),
    ("pthread_getspecific", "2.2.5"),
    ("pthread_join", "2.2.5"),
    ("pthread_key_create", "2.2.5"),
    ("pthread_key_delete", "2.2.5"),
    ("pthread_kill", "2.2.5"),
    ("pthread_once", "2.2.5"),
    ("pthread_rwlock_rdlock", "2.2.5"),
    ("pthread_rwlock_unlock", "2.2.5"),
    ("pthread_rwlock_wrlock", "2.2.5"),
    ("pthread_setname_np", "2.12"),
    ("pthread_setspecific", "2.2.5"),
    ("pthread_sigmask", "2.2.5"),
];

/// Calls that older versions of glibc do not have at all, and what stands for them: before 2.33
/// `stat` and its kin were inlined calls of `__xstat` with the number of the struct in front;
/// `gettid` is a call of the kernel.
const NEWER: &[(&str, &str)] = &[
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

/// Calls that Rust's standard library makes only where they exist. Under another name, which nobody
/// defines, they exist nowhere, and it goes the way that it has for older systems.
const UNBOUND: [&str; 1] = ["posix_spawn_file_actions_addchdir_np"];

/// What [`NEWER`] jumps to.
const STAT: [(&str, &str); 4] =
    [("__xstat64", "2.2.5"), ("__lxstat64", "2.2.5"), ("__fxstat64", "2.2.5"), ("__fxstatat64", "2.4")];

/// The start of a program. 2.34 changed what it leaves to `__libc_start_main`: an older one runs
/// the constructors that the caller hands over, and none without. So this one hands over a function
/// that runs them, which newer ones take as well. As the program's own symbol it takes the place of
/// the newest one; the libraries are linked with the same object and have no start.
const START: &str = "    .symver old___libc_start_main, __libc_start_main@GLIBC_2.2.5
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

/// The name of the object in the folder of the build.
const OBJECT: &str = "glibc.o";

/// Assembles the jumps in `folder`; the arguments for the linker that put them in the place of the
/// calls.
pub fn link_arguments(folder: &Path) -> Result<Vec<String>> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("a release is made on x86-64, for x86-64");
    }
    let source = folder.join("glibc.s");
    fs::write(&source, assembly()).with_context(|| format!("cannot write {}", source.display()))?;
    shell::run(tools::c_compiler()?.arg("-c").arg(&source).arg("-o").arg(folder.join(OBJECT)))?;
    // What compilers find as -lgcc_s also names libgcc.a, in which a __wrap_pthread_create of its
    // own would be taken first.
    fs::write(folder.join("libgcc_s.so"), "INPUT(libgcc_s.so.1)\n")?;
    // Relative to the root of the workspace, where cargo starts rustc for its members: flags are
    // part of the names of symbols, which must not depend on the folder of a clone.
    let folder = folder.strip_prefix(shell::root()).unwrap_or(folder);
    let mut arguments = vec![folder.join(OBJECT).display().to_string(), format!("-L{}", folder.display())];
    let names = OLDER.iter().map(|row| row.0).chain(NEWER.iter().map(|row| row.0)).chain(UNBOUND);
    arguments.extend(names.map(|name| format!("-Wl,--wrap={name}")));
    // Before 2.34 these libraries had the old versions; they are there, empty, ever since.
    arguments.extend(
        ["-Wl,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2", "-Wl,--as-needed"].map(str::to_owned),
    );
    Ok(arguments)
}

fn assembly() -> String {
    let mut text = "    .text\n".to_owned();
    let mut function = |name: &str, body: &str| {
        write!(
            text,
            "    .globl __wrap_{name}\n    .hidden __wrap_{name}\n    .type __wrap_{name}, %function\n\
             __wrap_{name}:\n{body}    .size __wrap_{name}, . - __wrap_{name}\n"
        )
        .expect("a String takes all");
    };
    for (name, version) in OLDER {
        function(
            name,
            &format!("    .symver old_{name}, {name}@GLIBC_{version}\n    jmp *old_{name}@GOTPCREL(%rip)\n"),
        );
    }
    NEWER.iter().for_each(|(name, body)| function(name, body));
    for (name, version) in STAT {
        writeln!(text, "    .symver old_{name}, {name}@GLIBC_{version}").expect("a String takes all");
    }
    text + START + "    .section .note.GNU-stack, \"\", %progbits\n"
}

/// The newest version of glibc that a file in these trees asks for, as `2.28`.
pub fn asked_for(trees: &[&Path]) -> Result<String> {
    let mut newest = (2, 0);
    let mut pending: Vec<PathBuf> = trees.iter().map(|tree| tree.to_path_buf()).collect();
    while let Some(path) = pending.pop() {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            pending.extend(fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
        } else if is_linked(&path) {
            let said = shell::output(Command::new("readelf").args(["--version-info", "--wide"]).arg(&path))?;
            newest = newest.max(newest_version(&said));
        }
    }
    Ok(format!("{}.{}", newest.0, newest.1))
}

/// Whether it is a program or a shared library; archives are linked by their users.
fn is_linked(path: &Path) -> bool {
    let mut head = [0; 18];
    let read = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    // ELF, of type EXEC or DYN.
    read.is_ok() && head.starts_with(b"\x7fELF") && matches!(head[16], 2 | 3)
}

/// The newest `GLIBC_2.N` in what readelf prints.
fn newest_version(text: &str) -> (u32, u32) {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.max().unwrap_or((2, 0))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::{OLDEST, asked_for, link_arguments, newest_version};
    use crate::{shell, tools};

    /// With threads and constructors, which ask for what has newer versions.
    const PROGRAM: &str = "
        #include <pthread.h>
        #include <stdio.h>
        #include <sys/stat.h>
        static int counted;
        __attribute__((constructor)) static void count(int argc, char **argv) { counted = argv[argc] ? 0 : argc; }
        static void *add(void *x) { ++*(int *)x; return x; }
        int main(int argc, char **argv) {
            pthread_t thread;
            struct stat of;
            int one = 0;
            if (pthread_create(&thread, NULL, add, &one) || pthread_join(thread, NULL)) return 2;
            return counted == argc && one == 1 && stat(argv[0], &of) == 0 && of.st_size > 0 ? 0 : 1;
        }";

    #[test]
    fn a_linked_program_asks_for_the_oldest_and_starts() {
        let folder = shell::target().join("tmp/glibc");
        fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("program.c"), folder.join("linked/program"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&source, PROGRAM).unwrap();
        let arguments = link_arguments(&folder).unwrap();
        let mut compiler = tools::c_compiler().unwrap();
        compiler
            .arg("-D_LARGEFILE64_SOURCE")
            .arg("-D_FILE_OFFSET_BITS=64")
            .arg(&source)
            .arg("-o")
            .arg(&program);
        shell::run(compiler.args(arguments).arg("-lm").current_dir(shell::root())).unwrap();
        shell::run(Command::new(&program).args(["a", "b"])).unwrap();
        let asked = asked_for(&[program.parent().unwrap()]).unwrap();
        let number =
            |version: &str| version.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok()).unwrap();
        assert!(number(&asked) <= number(OLDEST), "{asked}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let said = "  0x0010:   Name: GLIBC_2.2.5  Flags: none\n  0x0020:   Name: GLIBC_2.14  Flags: none\n";
        assert_eq!(newest_version(said), (2, 14));
        assert_eq!(newest_version("no version information"), (2, 0));
        assert_eq!(newest_version("Name: GLIBC_PRIVATE Name: GLIBC_2.9"), (2, 9));
    }
}
