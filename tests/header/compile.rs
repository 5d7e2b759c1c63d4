//! Compiling small C and C++ sources against the headers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::interface::Interface;

/// One compiler and the language it is asked for.
#[derive(Clone, Copy)]
pub struct Compiler {
    pub program: &'static str,
    pub language: &'static str,
    /// The Debian package that brings it.
    package: &'static str,
}

pub const GCC: Compiler = Compiler { program: "gcc", language: "c", package: "gcc" };
pub const GXX: Compiler = Compiler { program: "g++", language: "c++", package: "g++" };
pub const CLANG: Compiler = Compiler { program: "clang", language: "c", package: "clang" };
pub const CLANGXX: Compiler = Compiler { program: "clang++", language: "c++", package: "clang" };

impl Compiler {
    /// Whether it is installed. gcc has to be; a missing other one is a skip, and printed.
    pub fn is_there(self) -> bool {
        let there = Command::new(self.program).arg("--version").output().is_ok();
        assert!(there || self.program != GCC.program, "gcc is needed to check the headers");
        if !there {
            let Compiler { program, package, .. } = self;
            println!("skipped: {program} is not installed; install it: apt-get install {package}");
        }
        there
    }

    /// Checks `source` without making code; what the compiler said if it refused.
    pub fn check(self, interface: Interface, source: &str, flags: &[&str]) -> Result<String, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("header-{}-{}.src", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, source).expect("the target's scratch folder is writable");
        let output = Command::new(self.program)
            .args(["-fsyntax-only", "-x", self.language])
            .args(flags)
            .arg("-I")
            .arg(interface.include())
            .arg(&file)
            .env("LC_ALL", "C")
            .output()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.program));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = std::fs::remove_file(&file);
        if output.status.success() { Ok(said) } else { Err(said) }
    }
}

/// Minimal CUDA headers: only what cudnn.h takes from the real ones.
pub fn cuda_stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/header/cuda")
}
