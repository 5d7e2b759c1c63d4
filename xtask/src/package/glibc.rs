//! Files that start with an older glibc than the one of the machine that links them.
//!
//! The linker binds a call to the newest version of its symbol that the machine's glibc has. glibc
//! 2.34 moved threads and `dlopen` into libc.so.6 and gave them new versions, although nothing
//! about them had changed; the old versions are there, too. So each of these calls goes by a jump
//! to the old one, put in its place with `--wrap`. The start of a program was changed then, too.

mod aarch64;
mod x86_64;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::{shell, tools};

/// The oldest glibc that a release starts with: that of RHEL 8 and of the wheels called
/// manylinux_2_28.
pub const OLDEST: &str = "2.28";

/// Calls with a version newer than [`OLDEST`], which are bound to the first one that they had; of
/// x86-64, one of another number.
const OLDER: &[&str] = &[
    "dladdr",
    "dlclose",
    "dlerror",
    "dlopen",
    "dlsym",
    "exp",
    "log",
    "pow",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_attr_setguardsize",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_detach",
    "pthread_getattr_np",
    "pthread_getspecific",
    "pthread_join",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_kill",
    "pthread_once",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_unlock",
    "pthread_rwlock_wrlock",
    "pthread_setname_np",
    "pthread_setspecific",
    "pthread_sigmask",
];
const LATER: (&str, &str) = ("pthread_setname_np", "2.12");

/// Calls that Rust's standard library makes only where they exist. Under another name, which nobody
/// defines, they exist nowhere, and it goes the way that it has for older systems.
const UNBOUND: [&str; 1] = ["posix_spawn_file_actions_addchdir_np"];

/// The name of the object in the folder of the build.
const OBJECT: &str = "glibc.o";

/// Assembles the jumps in `folder`; the arguments for the linker that put them in the place of the
/// calls.
pub fn link_arguments(machine: &Machine, folder: &Path) -> Result<Vec<String>> {
    let parts = parts(machine)?;
    let source = folder.join("glibc.s");
    fs::write(&source, assembly(&parts)).with_context(|| format!("cannot write {}", source.display()))?;
    shell::run(tools::c_compiler(machine)?.arg("-c").arg(&source).arg("-o").arg(folder.join(OBJECT)))?;
    // What compilers find as -lgcc_s also names libgcc.a, in which a __wrap_pthread_create of its
    // own would be taken first.
    fs::write(folder.join("libgcc_s.so"), "INPUT(libgcc_s.so.1)\n")?;
    // Relative to the root of the workspace, where cargo starts rustc for its members: flags are
    // part of the names of symbols, which must not depend on the folder of a clone.
    let folder = folder.strip_prefix(shell::root()).unwrap_or(folder);
    let mut arguments = vec![folder.join(OBJECT).display().to_string(), format!("-L{}", folder.display())];
    let names = OLDER.iter().copied().chain(parts.newer.iter().map(|row| row.0)).chain(UNBOUND);
    arguments.extend(names.map(|name| format!("-Wl,--wrap={name}")));
    // Before 2.34 these libraries had the old versions; they are there, empty, ever since.
    arguments.extend(
        ["-Wl,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2", "-Wl,--as-needed"].map(str::to_owned),
    );
    Ok(arguments)
}

/// What differs by processor.
struct Parts {
    first: &'static str,
    later: Option<(&'static str, &'static str)>,
    jump: fn(&str) -> String,
    newer: &'static [(&'static str, &'static str)],
    stat: [(&'static str, &'static str); 4],
    start: &'static str,
}

fn parts(machine: &Machine) -> Result<Parts> {
    Ok(match machine.arch {
        "x86_64" => Parts {
            first: x86_64::FIRST,
            later: Some(LATER),
            jump: x86_64::jump,
            newer: x86_64::NEWER,
            stat: x86_64::STAT,
            start: x86_64::START,
        },
        "aarch64" => Parts {
            first: aarch64::FIRST,
            later: None,
            jump: aarch64::jump,
            newer: aarch64::NEWER,
            stat: aarch64::STAT,
            start: aarch64::START,
        },
        other => bail!("no release is made for {other}"),
    })
}

fn assembly(parts: &Parts) -> String {
    let mut text = "    .text\n".to_owned();
    let mut function = |name: &str, body: &str| {
        write!(
            text,
            "    .globl __wrap_{name}\n    .hidden __wrap_{name}\n    .type __wrap_{name}, %function\n\
             __wrap_{name}:\n{body}    .size __wrap_{name}, . - __wrap_{name}\n"
        )
        .expect("a String takes all");
    };
    for name in OLDER {
        let version =
            parts.later.filter(|(later, _)| later == name).map_or(parts.first, |(_, version)| version);
        let jump = (parts.jump)(name);
        function(name, &format!("    .symver old_{name}, {name}@GLIBC_{version}\n{jump}"));
    }
    parts.newer.iter().for_each(|(name, body)| function(name, body));
    for (name, version) in parts.stat {
        writeln!(text, "    .symver old_{name}, {name}@GLIBC_{version}").expect("a String takes all");
    }
    text + parts.start + "    .section .note.GNU-stack, \"\", %progbits\n"
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

    use super::{OLDEST, asked_for, link_arguments, newest_version};
    use crate::machine::{MACHINES, Machine};
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
        for machine in &MACHINES {
            match machine.lacking() {
                Some(line) => println!("skipped {}: {line}", machine.arch),
                None => links_and_starts(machine),
            }
        }
    }

    fn links_and_starts(machine: &'static Machine) {
        let folder = shell::target().join("tmp").join(machine.folder("glibc"));
        fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("program.c"), folder.join("linked/program"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&source, PROGRAM).unwrap();
        let arguments = link_arguments(machine, &folder).unwrap();
        let mut compiler = tools::c_compiler(machine).unwrap();
        compiler
            .arg("-D_LARGEFILE64_SOURCE")
            .arg("-D_FILE_OFFSET_BITS=64")
            .arg(&source)
            .arg("-o")
            .arg(&program);
        shell::run(compiler.args(arguments).arg("-lm").current_dir(shell::root())).unwrap();
        shell::run(machine.command(&program, None).args(["a", "b"])).unwrap();
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
