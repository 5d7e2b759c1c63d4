//! Python interpreters: whether PyTorch is installed for one, which brings a cuDNN of its own.

use std::fs;
use std::path::{Path, PathBuf};

/// PyTorch as an interpreter would import it.
#[derive(Debug)]
pub struct Torch {
    folder: PathBuf,
    /// Whether it is a build for GPUs.
    for_gpus: bool,
}

impl Torch {
    /// What is there.
    pub fn text(&self) -> String {
        let build = if self.for_gpus {
            "built for GPUs, with a cuDNN and kernels of its own"
        } else {
            "built for CPUs, without cuDNN"
        };
        format!(
            "Python, and in {} PyTorch, {build}: what a script imports is not seen here",
            self.folder.display()
        )
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        if self.for_gpus {
            "no library takes the place of what PyTorch brings: without a GPU let it compute on its device `cpu`; the calls of this library \
             are in the Python package `cudnn_shim`"
        } else {
            "PyTorch calls no cuDNN there; the calls of this library are in the Python package `cudnn_shim`"
        }
    }
}

/// PyTorch of the interpreter at this place; `None` if it is none of Python, or has no PyTorch.
pub fn torch(interpreter: &Path) -> Option<Torch> {
    let is_python = |file: &Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("python").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    };
    if !is_python(interpreter) {
        return None;
    }
    // An environment has a link to the interpreter: its packages are beside the link, those of the
    // system beside the file.
    let real = fs::canonicalize(interpreter).unwrap_or_default();
    let prefixes = [interpreter, &real].into_iter().filter_map(|file| file.parent()?.parent());
    let folders = prefixes.flat_map(|prefix| {
        let versions =
            fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
        versions
            .filter(|folder| is_python(folder))
            .flat_map(|folder| ["site-packages", "dist-packages"].map(|name| folder.join(name).join("torch")))
    });
    let folder = folders.into_iter().find(|folder| folder.join("__init__.py").exists())?;
    let for_gpus = folder.join("lib/libtorch_cuda.so").exists();
    Some(Torch { folder, for_gpus })
}
