//! The packages of the real runtime, for their names, versions and headers; fetched once into the
//! target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A package, and where in it things lie.
pub struct Package {
    /// What `pip` asks for.
    pub requirement: &'static str,
    pub soname: &'static str,
    pub library: &'static str,
    pub include: &'static str,
}

/// Those of CUDA 11, 12 and 13: a megabyte or three each.
pub const PACKAGES: [&Package; 3] = [
    &Package {
        requirement: "nvidia-cuda-runtime-cu11==11.8.89",
        soname: "libcudart.so.11.0",
        library: "nvidia/cuda_runtime/lib/libcudart.so.11.0",
        include: "nvidia/cuda_runtime/include",
    },
    &Package {
        requirement: "nvidia-cuda-runtime-cu12==12.9.79",
        soname: "libcudart.so.12",
        library: "nvidia/cuda_runtime/lib/libcudart.so.12",
        include: "nvidia/cuda_runtime/include",
    },
    &Package {
        requirement: "nvidia-cuda-runtime==13.5.37",
        soname: "libcudart.so.13",
        library: "nvidia/cu13/lib/libcudart.so.13",
        include: "nvidia/cu13/include",
    },
];

/// The folder that a package is unpacked in. `None`, said as a skip, where it cannot be had.
pub fn unpacked(package: &Package) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real").join(package.soname);
    if !folder.join(package.library).exists() {
        fs::create_dir_all(&folder).expect("the target's scratch folder is writable");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"]);
        pip.arg(&folder).arg(package.requirement).stdout(Stdio::null()).stderr(Stdio::null());
        let fetched = pip.status().is_ok_and(|status| status.success());
        if !fetched || !folder.join(package.library).exists() {
            println!("skipped: pip cannot fetch {}", package.requirement);
            return None;
        }
    }
    Some(folder)
}
