//! What an ELF file says of itself, and which files the loader would take for what it needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use object::elf::{
    DF_1_NOW, DF_BIND_NOW, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

use crate::{Failure, Result};

/// Beginnings of the names that libraries of CUDA and cuDNN export, those of the
/// [driver](is_of_driver) apart. `cuda` and `cublas` fall under `cu`, but so would much else.
const PREFIXES: [&str; 5] = ["cudnn", "cuda", "__cuda", "cublas", "curand"];

/// Whether a function is the CUDA driver's: `cuInit`, `cuCtxGetCurrent`.
pub fn is_of_driver(function: &str) -> bool {
    function
        .strip_prefix("cu")
        .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

/// A text of the CUDA runtime that programs hold if it is linked statically: the name under which
/// copies of it meet. It is read from its end, so that this tool does not hold it.
const STATIC_RUNTIME: &[u8] = b".mhs.traduc/";

/// [`STATIC_RUNTIME`] from its start.
fn static_runtime() -> Vec<u8> {
    std::hint::black_box(STATIC_RUNTIME).iter().rev().copied().collect()
}

/// Part of the names of functions that compilers make of kernels, for the host to call.
const DEVICE_STUB: &str = "__device_stub__";

/// Whether a function of the runtime launches kernels: `cudaLaunchKernel`, `cudaLaunchKernelExC`,
/// `__cudaLaunchKernel` of CUDA 13, `cudaLaunchCooperativeKernel`, `cudaLaunch` of old;
/// `cudaLaunchHostFunc` does not.
fn is_launch(function: &str) -> bool {
    let rest = function.trim_start_matches('_').strip_prefix("cudaLaunch");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("Kernel") || rest.starts_with("Cooperative"))
}

/// The machine that this tool was built for, as ELF files name it.
const MACHINE: object::elf::Machine =
    if cfg!(target_arch = "aarch64") { object::elf::EM_AARCH64 } else { object::elf::EM_X86_64 };

/// What an ELF file says of the libraries that it needs.
pub struct Elf {
    /// Whether it is for the processor of this machine.
    pub runs_here: bool,
    /// The libraries that it asks for.
    pub needed: Vec<String>,
    /// Folders of RPATH or RUNPATH.
    pub path: Vec<String>,
    /// Whether these come before LD_LIBRARY_PATH.
    pub path_first: bool,
    /// Whether the loader looks for every function when it starts, and not when each is called
    /// first.
    pub bind_now: bool,
    /// Names of CUDA and cuDNN that others have to define, and names that it defines.
    pub imports: BTreeSet<String>,
    pub exports: BTreeSet<String>,
    /// Whether it launches kernels of its own, as far as its names tell.
    pub launches: bool,
    /// Whether its table of symbols is there, without which the names of what is linked statically
    /// are not.
    pub has_names: bool,
    /// Whether the CUDA runtime is linked statically.
    pub static_runtime: bool,
    /// Whether it brings code for GPUs.
    pub device_code: bool,
}

impl Elf {
    /// Whether this file is an ELF file at all.
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; 4];
        fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start)).is_ok()
            && start == *b"\x7fELF"
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it: not there, empty, no ELF file, damaged, of 32 bits.
    pub fn read(path: &Path) -> Result<Elf> {
        let of_file = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        if path.is_dir() {
            return Err(of_file(&"a directory, not a program"));
        }
        let file = fs::File::open(path)
            .map_err(|error| of_file(&error.to_string().split(" (os").next().unwrap_or_default()))?;
        if file.metadata().is_ok_and(|facts| facts.len() == 0) {
            return Err(of_file(&"the file is empty"));
        }
        // SAFETY: who changes a file while it is read gets what he reads; the parser trusts
        // nothing.
        let data = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| of_file(&error))?;
        if !data.starts_with(b"\x7fELF") {
            return Err(of_file(&"no ELF program or library"));
        }
        let elf = ElfFile64::<Endianness>::parse(&*data).map_err(|error| of_file(&error))?;
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        let mut read = Elf {
            runs_here: elf.elf_header().e_machine(endian) == MACHINE,
            needed: Vec::new(),
            path: Vec::new(),
            path_first: false,
            bind_now: false,
            launches: false,
            has_names: elf.symbols().next().is_some(),
            imports: BTreeSet::new(),
            exports: BTreeSet::new(),
            static_runtime: holds(&data, &static_runtime()),
            device_code: elf
                .sections()
                .any(|section| section.name() == Ok(".nv_fatbin") && section.size() > 0),
        };
        if let Some((entries, index)) = sections.dynamic(endian, &*data).map_err(|error| of_file(&error))? {
            let strings = sections.strings(endian, &*data, index).map_err(|error| of_file(&error))?;
            for entry in entries {
                let text =
                    || entry.string(endian, strings).map(|text| String::from_utf8_lossy(text).into_owned());
                let flags = entry.d_val(endian);
                match entry.tag(endian) {
                    DT_NEEDED => read.needed.extend(text().ok()),
                    // The older of the two does not count where both are.
                    DT_RPATH if read.path.is_empty() => {
                        read.path_first = true;
                        read.path = text().unwrap_or_default().split(':').map(str::to_owned).collect();
                    }
                    DT_RUNPATH => {
                        read.path_first = false;
                        read.path = text().unwrap_or_default().split(':').map(str::to_owned).collect();
                    }
                    DT_BIND_NOW => read.bind_now = true,
                    DT_FLAGS => read.bind_now |= flags & DF_BIND_NOW.0 != 0,
                    DT_FLAGS_1 => read.bind_now |= flags & DF_1_NOW.0 != 0,
                    _ => {}
                }
            }
        }
        // What compilers call where a kernel is launched has this in its name, and is the program's
        // own.
        read.launches =
            elf.symbols().any(|symbol| symbol.name().is_ok_and(|name| name.contains(DEVICE_STUB)));
        for symbol in elf.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            if is_of_driver(name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                read.launches |= symbol.is_undefined() && is_launch(name);
                if symbol.is_undefined() { &mut read.imports } else { &mut read.exports }
                    .insert(name.to_owned());
            }
        }
        Ok(read)
    }

    /// The folders of RPATH or RUNPATH of the file at `at`.
    fn own_folders(&self, at: &Path) -> Result<Vec<PathBuf>> {
        let file = unless_no_memory(fs::canonicalize(at))?.unwrap_or_default();
        let origin = file.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
        let whole = |dir: &String| dir.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        Ok(self.path.iter().map(|dir| PathBuf::from(whole(dir))).collect())
    }

    /// The file that the loader would take for `soname`, which the file at `at` needs, with these
    /// folders in `LD_LIBRARY_PATH`: as its manual describes, but for folders of hardware levels.
    ///
    /// # Errors
    /// There is no memory to look for it.
    pub fn resolve(&self, at: &Path, soname: &str, folders: &[PathBuf]) -> Result<Option<PathBuf>> {
        if soname.contains('/') {
            return Ok(Some(PathBuf::from(soname)).filter(|file| file.exists()));
        }
        let own = self.own_folders(at)?;
        let folders = if self.path_first { [&own, folders].concat() } else { [folders, &own].concat() };
        let mut files = folders.into_iter().map(|dir| dir.join(soname));
        if let Some(file) = files.find(|file| file.exists()) {
            return Ok(Some(file));
        }
        Ok(cached(soname)?.or_else(|| {
            let system = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(|dir| Path::new(dir).join(soname));
            system.into_iter().find(|file| file.exists())
        }))
    }
}

/// The folders of `LD_LIBRARY_PATH`.
pub fn environment() -> Vec<PathBuf> {
    let folders = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    folders.split([':', ';']).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect()
}

/// What the loader's cache has for `soname`.
fn cached(soname: &str) -> Result<Option<PathBuf>> {
    static LIST: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    if LIST.get().is_none() {
        let mut list = String::new();
        for ldconfig in ["ldconfig", "/sbin/ldconfig"] {
            if let Some(said) = unless_no_memory(Command::new(ldconfig).arg("-p").output())? {
                list = String::from_utf8_lossy(&said.stdout).into_owned();
                break;
            }
        }
        LIST.get_or_init(|| list);
    }
    let mut lines = LIST.get().map_or("", String::as_str).lines();
    let line = lines.find(|line| line.trim_start().starts_with(&format!("{soname} ")));
    Ok(line.and_then(|line| line.split(" => ").nth(1)).map(PathBuf::from))
}

/// What there is, if it is there; want of memory does not tell whether it is.
fn unless_no_memory<T>(outcome: io::Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Err(Failure::new(error)),
        outcome => Ok(outcome.ok()),
    }
}

/// Whether `data` holds `text`.
fn holds(data: &[u8], text: &[u8]) -> bool {
    let Some((&first, _)) = text.split_first() else { return true };
    let mut rest = data;
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
