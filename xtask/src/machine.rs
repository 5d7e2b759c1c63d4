//! The processors that a release is for: that of this machine, and others by cross compilers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// A processor, and what programs of its kind are called by those who name them.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// As Rust, RPM and wheels name it.
    pub arch: &'static str,
    pub triple: &'static str,
    /// As Debian names it.
    pub debian: &'static str,
    /// Its number in the head of an ELF file.
    pub elf: u16,
    /// What compiler and binutils of Debian have in front of their names where they are not those
    /// of the machine itself; behind `/usr/` its libraries.
    gnu: &'static str,
}

pub const MACHINES: [Machine; 2] = [
    Machine {
        arch: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        elf: 62,
        gnu: "x86_64-linux-gnu",
    },
    Machine {
        arch: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        elf: 183,
        gnu: "aarch64-linux-gnu",
    },
];

/// Where cargo reads for which target it builds.
pub const VARIABLE: &str = "CARGO_BUILD_TARGET";

impl Machine {
    /// The processor of this name.
    pub fn named(arch: &str) -> Result<&'static Machine> {
        let known = MACHINES.iter().find(|machine| machine.arch == arch);
        known.with_context(|| format!("a release is for x86_64 or aarch64, not for {arch}"))
    }

    /// What cargo builds for: the target that the environment names, or this machine.
    pub fn target() -> Result<&'static Machine> {
        let named = std::env::var(VARIABLE).ok();
        let triple = named.as_deref().unwrap_or_default();
        Machine::named(
            triple.split('-').next().filter(|arch| !arch.is_empty()).unwrap_or(std::env::consts::ARCH),
        )
    }

    /// Whether this is the processor that runs this.
    pub fn is_this(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }

    /// A folder below that of cargo's outputs, by processor.
    pub fn folder(&self, name: &str) -> String {
        if self.is_this() { name.to_owned() } else { format!("{name}-{}", self.arch) }
    }

    /// The compiler or a program of binutils for it.
    pub fn tool(&self, name: &str) -> String {
        if self.is_this() { name.to_owned() } else { format!("{}-{name}", self.gnu) }
    }

    /// What runs programs of another processor.
    pub fn emulator(&self) -> [String; 3] {
        [format!("qemu-{}", self.arch), "-L".to_owned(), format!("/usr/{}", self.gnu)]
    }

    /// A command that runs a program of this processor, with libraries from `libraries`.
    pub fn command(&self, program: &Path, libraries: Option<&Path>) -> Command {
        if self.is_this() {
            let mut command = Command::new(program);
            command.envs(libraries.map(|folder| ("LD_LIBRARY_PATH", folder)));
            return command;
        }
        let [emulator, arguments @ ..] = self.emulator();
        let mut command = Command::new(emulator);
        command.args(arguments);
        // The emulator itself would look there, too.
        if let Some(folder) = libraries {
            command.arg("-E").arg(format!("LD_LIBRARY_PATH={}", folder.display()));
        }
        command.arg(program);
        command
    }

    /// The line that installs what is missing to build for it and to run what is built.
    pub fn lacking(&self) -> Option<String> {
        if self.is_this() {
            return None;
        }
        let [emulator, ..] = self.emulator();
        let programs = ["gcc", "objcopy"].map(|name| self.tool(name)).into_iter().chain([emulator]);
        let missing: Vec<String> = programs.filter(|name| !shell::on_path(name)).collect();
        let names = missing.join(", ");
        (!missing.is_empty()).then(|| {
            let Machine { gnu, debian, .. } = self;
            format!("{names} missing: apt-get install gcc-{gnu} libc6-dev-{debian}-cross qemu-user")
        })
    }

    /// Has cargo, started by this command, build for this processor and run its tests.
    pub fn build_by(&self, command: &mut Command) {
        command.env(VARIABLE, self.triple);
        self.run_by(command);
    }

    /// The same where its target is named.
    pub fn run_by(&self, command: &mut Command) {
        if !self.is_this() {
            let of =
                |what: &str| format!("CARGO_TARGET_{}_{what}", self.triple.replace('-', "_").to_uppercase());
            command.env(of("LINKER"), self.tool("gcc")).env(of("RUNNER"), self.emulator().join(" "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MACHINES, Machine};

    #[test]
    fn this_machine_is_one_of_them_and_needs_no_emulator() {
        let this = Machine::named(std::env::consts::ARCH).unwrap();
        assert!(this.is_this() && this.tool("ar") == "ar" && this.lacking().is_none());
        let others: Vec<&Machine> = MACHINES.iter().filter(|machine| !machine.is_this()).collect();
        assert_eq!(others.len(), 1);
        for other in others {
            assert_eq!(other.folder("dist"), format!("dist-{}", other.arch));
            let command = other.command("/p".as_ref(), Some("/l".as_ref()));
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words[2..], ["-E", "LD_LIBRARY_PATH=/l", "/p"]);
        }
        assert!(Machine::named("riscv64").is_err());
    }
}
