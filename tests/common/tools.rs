//! The programs that tests, demo and examples use besides cargo: how to see whether each works,
//! what brings it, and what is skipped without. `cargo xtask tools` installs them.
#![allow(dead_code, reason = "each user has some of it")]

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A row of [`TOOLS`].
pub struct Tool {
    pub name: &'static str,
    /// A command line that succeeds if the tool does what is asked of it, and what it reads:
    /// programs that are there may still lack the headers or libraries that they need.
    pub probe: (&'static [&'static str], &'static str),
    pub from: Source,
    /// What is skipped without it.
    pub serves: &'static str,
}

/// What brings a tool.
pub enum Source {
    /// Packages of Debian.
    Packages(&'static [&'static str]),
    /// Arguments of `rustup`.
    Rustup(&'static [&'static str]),
}

impl Source {
    /// The line that installs it.
    pub fn line(&self) -> String {
        match self {
            Source::Packages(packages) => format!("apt-get install {}", packages.join(" ")),
            Source::Rustup(arguments) => format!("rustup {}", arguments.join(" ")),
        }
    }
}

const C: &str = "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n";
const CPP: &str = "#include <vector>\nint main() { return int(std::vector<int>().size()); }\n";
const MPI: &str = "#include <mpi.h>\nint main(int n, char **list) { return MPI_Init(&n, &list); }\n";
const SANITIZE: &str = "-fsanitize=address,undefined";

/// In the order in which they are installed.
pub const TOOLS: &[Tool] = &[
    tool("gcc", &["gcc", "-x", "c", "-", "-o", "/dev/null"], C, &["gcc", "libc6-dev"], "C programs by gcc"),
    tool(
        "g++",
        &["g++", "-x", "c++", "-", "-o", "/dev/null"],
        CPP,
        &["g++"],
        "C++ programs, networks, the driver double",
    ),
    tool("make", &["make", "-f", "-"], "all:\n\t@true\n", &["make"], "projects of make and CMake"),
    tool("binutils", &["objcopy", "--version"], "", &["binutils"], "the identity of the built files"),
    tool(
        "clang",
        &["clang", "-x", "c", "-", "-o", "/dev/null"],
        C,
        &["clang", "libc6-dev"],
        "C programs by clang",
    ),
    tool(
        "clang++",
        &["clang++", "-x", "c++", "-", "-o", "/dev/null"],
        CPP,
        &["clang", "g++"],
        "C++ programs by clang",
    ),
    tool(
        "sanitizers of gcc",
        &["gcc", SANITIZE, "-x", "c", "-", "-o", "/dev/null"],
        C,
        &["gcc"],
        "C programs with gcc's sanitizers",
    ),
    tool(
        "sanitizers of clang",
        &["clang", SANITIZE, "-x", "c", "-", "-o", "/dev/null"],
        C,
        &["libclang-rt-dev"],
        "C programs with clang's sanitizers",
    ),
    tool("clang-format", &["clang-format"], "int x;\n", &["clang-format"], "the format of demo and examples"),
    tool(
        "valgrind",
        &["valgrind", "--quiet", "--error-exitcode=1", "true"],
        "",
        &["valgrind", "libc6-dbg"],
        "C programs under valgrind",
    ),
    tool("abidiff", &["abidiff", "--version"], "", &["abigail-tools"], "the comparison of interfaces"),
    tool("cmake", &["cmake", "-E", "true"], "", &["cmake"], "projects of CMake"),
    tool("meson", &["meson", "--version"], "", &["meson"], "projects of meson"),
    tool("pkg-config", &["pkg-config", "--version"], "", &["pkg-config"], "projects of pkg-config"),
    tool(
        "python3",
        &["python3", "-c", "import ensurepip, venv"],
        "",
        &["python3", "python3-venv"],
        "the comparison with NumPy, Python examples, device code",
    ),
    tool(
        "mpicxx",
        &["mpicxx", "-x", "c++", "-", "-o", "/dev/null"],
        MPI,
        &["libopenmpi-dev"],
        "the example of MPI",
    ),
    tool("mpirun", &["mpirun", "--version"], "", &["openmpi-bin"], "the example of MPI"),
    tool("dpkg-deb", &["dpkg-deb", "--version"], "", &["dpkg"], "the files of a release"),
    tool("rpmbuild", &["rpmbuild", "--version"], "", &["rpm"], "the files of a release"),
    tool("cpio", &["cpio", "--version"], "", &["cpio"], "the files of a release"),
    tool("xz", &["xz", "--version"], "", &["xz-utils"], "the files of a release"),
    Tool {
        name: "rustfmt",
        probe: (&["rustfmt", "--version"], ""),
        from: Source::Rustup(&["component", "add", "rustfmt"]),
        serves: "the format",
    },
    Tool {
        name: "clippy",
        probe: (&["cargo-clippy", "--version"], ""),
        from: Source::Rustup(&["component", "add", "clippy"]),
        serves: "lints",
    },
    Tool {
        name: "Rust for aarch64",
        probe: (
            &[
                "rustc",
                "--target",
                "aarch64-unknown-linux-gnu",
                "--crate-type=lib",
                // Not to a path: rustc renames its file over what is there, `/dev/null` included.
                "--emit=metadata=-",
                "-",
            ],
            "pub fn one() -> usize { 1 }\n",
        ),
        from: Source::Rustup(&["target", "add", "aarch64-unknown-linux-gnu"]),
        serves: "the check for another processor",
    },
    tool(
        "gcc for aarch64",
        &["aarch64-linux-gnu-gcc", "-x", "c", "-", "-o", "/dev/null"],
        C,
        &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        "tests on another processor",
    ),
    tool(
        "emulator of aarch64",
        &["qemu-aarch64", "--version"],
        "",
        &["qemu-user"],
        "tests on another processor",
    ),
];

const fn tool(
    name: &'static str, command: &'static [&'static str], reads: &'static str,
    packages: &'static [&'static str], serves: &'static str,
) -> Tool {
    Tool { name, probe: (command, reads), from: Source::Packages(packages), serves }
}

impl Tool {
    /// The row of this name, which is there.
    pub fn named(name: &str) -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == name).unwrap_or_else(|| panic!("no row for {name}"))
    }

    /// Whether it does what is asked of it, now.
    pub fn works(&self) -> bool {
        let (command, reads) = self.probe;
        let mut child = Command::new(command[0]);
        child.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = child.spawn() else { return false };
        // One that does not read to the end says so by its status.
        let _ = child.stdin.take().is_some_and(|mut input| input.write_all(reads.as_bytes()).is_ok());
        child.wait().is_ok_and(|status| status.success())
    }

    /// What a test says that needs it.
    pub fn skip(&self) -> String {
        format!("skipped: {} does not work here; install it: {}", self.name, self.from.line())
    }
}

/// Whether the tool of this name works; asked once in a process.
pub fn works(name: &str) -> bool {
    static KNOWN: Mutex<Option<HashMap<String, bool>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if !known.contains_key(name) {
        known.insert(name.to_owned(), Tool::named(name).works());
    }
    known[name]
}
