//! Compiling small C and C++ sources against the headers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::tools;
use crate::interface::Interface;

/// One compiler and the language it is asked for.
#[derive(Clone, Copy)]
pub struct Compiler {
    pub program: &'static str,
    pub language: &'static str,
}

pub const GCC: Compiler = Compiler { program: "gcc", language: "c" };
pub const GXX: Compiler = Compiler { program: "g++", language: "c++" };
pub const CLANG: Compiler = Compiler { program: "clang", language: "c" };
pub const CLANGXX: Compiler = Compiler { program: "clang++", language: "c++" };

impl Compiler {
    /// Whether it is installed. gcc has to be; a missing other one is a skip, and printed.
    pub fn is_there(self) -> bool {
        let there = tools::works(self.program);
        assert!(there || self.program != GCC.program, "gcc is needed to check the headers");
        if !there {
            println!("{}", tools::Tool::named(self.program).skip());
        }
        there
    }

    /// Checks `source` without making code; what the compiler said if it refused.
    pub fn check(self, interface: Interface, source: &str, flags: &[&str]) -> Result<String, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("header-{}-{}.src", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&file, source).expect("the target's scratch folder is writable");
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
        let _ = fs::remove_file(&file);
        if output.status.success() { Ok(said) } else { Err(said) }
    }
}

/// What the toolkit's headers that cudnn.h names include in turn, from version 11 to 13. Those of
/// the first column that are not in `tests/library/header/cuda` declare nothing that cudnn.h takes.
const INCLUDES: [(&str, &[&str]); 16] = [
    ("cuda_runtime_api.h", &["crt/host_defines.h", "builtin_types.h", "cuda_device_runtime_api.h"]),
    ("library_types.h", &[]),
    (
        "builtin_types.h",
        &["device_types.h", "driver_types.h", "surface_types.h", "texture_types.h", "vector_types.h"],
    ),
    ("device_types.h", &["crt/host_defines.h"]),
    ("driver_types.h", &["crt/host_defines.h", "vector_types.h"]),
    ("surface_types.h", &["driver_types.h"]),
    ("texture_types.h", &["driver_types.h"]),
    ("vector_types.h", &["crt/host_defines.h"]),
    ("cuda_device_runtime_api.h", &["driver_types.h", "crt/host_defines.h"]),
    ("crt/host_defines.h", &[]),
    (
        "cuda_runtime.h",
        &[
            "crt/host_config.h",
            "builtin_types.h",
            "library_types.h",
            "channel_descriptor.h",
            "cuda_runtime_api.h",
            "driver_functions.h",
            "vector_functions.h",
        ],
    ),
    ("channel_descriptor.h", &["cuda_runtime_api.h"]),
    ("driver_functions.h", &["builtin_types.h", "driver_types.h"]),
    ("vector_functions.h", &["cuda_runtime_api.h", "vector_functions.hpp"]),
    ("vector_functions.hpp", &[]),
    ("crt/host_config.h", &[]),
];

/// The names of the toolkit's headers that either version of cudnn.h comes to.
pub fn cuda_headers() -> impl Iterator<Item = &'static str> {
    INCLUDES.iter().map(|(name, _)| *name)
}

/// A folder called `name` with stand-ins for those of the toolkit's headers that `is_there` says.
pub fn cuda_folder(name: &str, is_there: impl Fn(&str) -> bool) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header-cuda").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("crt")).expect("the target's scratch folder is writable");
    let declarations = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/header/cuda");
    for (header, includes) in INCLUDES.iter().filter(|(header, _)| is_there(header)) {
        let guard: String = header.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let includes: String = includes.iter().map(|name| format!("#include \"{name}\"\n")).collect();
        let declared = fs::read_to_string(declarations.join(header)).unwrap_or_default();
        let text =
            format!("#ifndef INCLUDED_{guard}\n#define INCLUDED_{guard}\n{includes}{declared}#endif\n");
        fs::write(folder.join(header), text).expect("the target's scratch folder is writable");
    }
    folder
}

/// Minimal CUDA headers: only what cudnn.h takes from the real ones.
pub fn cuda_stand_in() -> PathBuf {
    static WHOLE: OnceLock<PathBuf> = OnceLock::new();
    WHOLE.get_or_init(|| cuda_folder("whole", |_| true)).clone()
}
