//! `cargo xtask ptx`: the CUDA kernels as PTX, and what each of them takes of every architecture; with `--check`, only
//! compares. Both compilers are pinned packages of the Python index, so the result is the same on every machine, and no
//! GPU, driver or toolkit is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;

use crate::{header, shell};

const KERNELS: &str = "src/backend/cuda/kernels";
const UNIT: &str = "transform.cu";
const PTX: &str = "src/backend/cuda/ptx/transform.ptx";
const RESOURCES: &str = "src/backend/cuda/ptx/resources.tsv";

/// The compiler that a driver 525 still understands: it writes PTX ISA 8.0.
const NVRTC: Package = Package { name: "nvidia-cuda-nvrtc-cu12", version: "12.0.140" };
/// The assembler: young enough to know every architecture in [`ARCHITECTURES`].
const NVCC: Package = Package { name: "nvidia-cuda-nvcc-cu12", version: "12.9.86" };

/// The oldest architecture that the compiler knows; nothing in the kernels asks for more. There is no second variant
/// for a newer one: what it would gain (asynchronous copies) has to be measured before it is worth its size.
const TARGET: &str = "compute_50";
/// What the PTX must assemble for, without spilling.
const ARCHITECTURES: [&str; 8] = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// No fused multiply-add: products and sums round one by one, as on the CPU.
const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];

pub fn run(arguments: &[String]) -> Result<()> {
    let ptx = compile()?;
    header::write_or_check(PTX, &ptx, arguments, "ptx")?;
    header::write_or_check(RESOURCES, &resources(&ptx)?, arguments, "ptx")
}

/// A package of the Python index.
struct Package {
    name: &'static str,
    version: &'static str,
}

impl Package {
    /// Where the package lies, fetched once.
    fn folder(&self) -> Result<PathBuf> {
        let folder = shell::target().join("cuda-tools").join(format!("{}-{}", self.name, self.version));
        if !folder.exists() {
            // Renamed when complete, so that an interrupted download is not taken for a package.
            let partial = folder.with_extension(format!("partial-{}", std::process::id()));
            let pip =
                ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"];
            let fetched = shell::run(
                Command::new("python3")
                    .args(pip)
                    .arg(&partial)
                    .arg(format!("{}=={}", self.name, self.version)),
            );
            if let Err(error) = fetched {
                let _ = fs::remove_dir_all(&partial);
                return Err(error.context(format!("cannot fetch {} {}", self.name, self.version)));
            }
            if let Err(error) = fs::rename(&partial, &folder) {
                // Another process was faster.
                let _ = fs::remove_dir_all(&partial);
                ensure!(folder.exists(), "cannot rename {}: {error}", partial.display());
            }
        }
        Ok(folder)
    }
}

/// The kernels as PTX text.
fn compile() -> Result<String> {
    let folder = NVRTC.folder()?;
    let nvrtc = Nvrtc::load(&folder.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))?;
    let kernels = shell::root().join(KERNELS);
    let source = fs::read_to_string(kernels.join(UNIT)).with_context(|| format!("cannot read {UNIT}"))?;
    // The compiler gets its headers by name from us: no path of this machine reaches it.
    let mut headers = Vec::new();
    for entry in fs::read_dir(&kernels).with_context(|| format!("cannot list {KERNELS}"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cuh") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            headers.push((name, fs::read_to_string(&path)?));
        }
    }
    headers.sort();
    nvrtc.compile(&source, &headers)
}

type Program = *mut c_void;
type CreateProgram = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type CompileProgram = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetText = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type DestroyProgram = unsafe extern "C" fn(*mut Program) -> c_int;

/// The entry points of the run-time compiler that are used here.
struct Nvrtc(Library);

impl Nvrtc {
    fn load(path: &Path) -> Result<Nvrtc> {
        // SAFETY: the library of a pinned package, whose initialisers have no requirements.
        let library = unsafe { Library::new(path) };
        Ok(Nvrtc(library.with_context(|| format!("cannot load {}", path.display()))?))
    }

    fn compile(&self, source: &str, headers: &[(String, String)]) -> Result<String> {
        let text = |text: &str| CString::new(text).context("a source has a NUL byte");
        let (source, unit) = (text(source)?, text(UNIT)?);
        let names = headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let bodies = headers.iter().map(|(_, body)| text(body)).collect::<Result<Vec<_>>>()?;
        let options = OPTIONS.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
        let target = text(&format!("--gpu-architecture={TARGET}"))?;
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (names, bodies, mut options) = (pointers(&names), pointers(&bodies), pointers(&options));
        options.push(target.as_ptr());

        let mut program = ptr::null_mut();
        // SAFETY: the signatures are those of the library's documentation; every pointer outlives its call, and the
        // buffers have the sizes that the library asked for.
        unsafe {
            let create = self.0.get::<CreateProgram>(b"nvrtcCreateProgram")?;
            let count = names.len() as c_int;
            let rc =
                create(&mut program, source.as_ptr(), unit.as_ptr(), count, bodies.as_ptr(), names.as_ptr());
            ensure!(rc == 0, "nvrtcCreateProgram failed with {rc}");
            let compile = self.0.get::<CompileProgram>(b"nvrtcCompileProgram")?;
            let rc = compile(program, options.len() as c_int, options.as_ptr());
            let log = self.text(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog")?;
            ensure!(rc == 0, "{UNIT} does not compile ({rc})\n{log}");
            // A warning is an error: nobody reads it in a log.
            ensure!(log.trim().is_empty(), "{UNIT} compiles with warnings\n{log}");
            let ptx = self.text(program, b"nvrtcGetPTXSize", b"nvrtcGetPTX")?;
            self.0.get::<DestroyProgram>(b"nvrtcDestroyProgram")?(&mut program);
            Ok(ptx)
        }
    }

    /// One of the texts of a compiled program.
    ///
    /// # Safety
    /// `program` is live; the names are those of a pair of functions that give a text's size and the text.
    unsafe fn text(&self, program: Program, size: &[u8], text: &[u8]) -> Result<String> {
        let mut length = 0;
        // SAFETY: the caller's promise; the buffer has the size that the library gave, terminating NUL included.
        unsafe {
            let rc = self.0.get::<GetSize>(size)?(program, &mut length);
            ensure!(rc == 0, "the size of a text failed with {rc}");
            let mut buffer = vec![0_u8; length.max(1)];
            let rc = self.0.get::<GetText>(text)?(program, buffer.as_mut_ptr().cast());
            ensure!(rc == 0, "a text failed with {rc}");
            Ok(CStr::from_bytes_until_nul(&buffer)?.to_str()?.to_owned())
        }
    }
}

/// What one kernel takes of one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    registers: u32,
    /// Bytes of static shared memory.
    shared: u32,
}

/// The table of registers and shared memory. Fails when a kernel spills or keeps anything in local memory.
fn resources(ptx: &str) -> Result<String> {
    let assembler = NVCC.folder()?.join("nvidia/cuda_nvcc/bin/ptxas");
    let folder = shell::target().join("cuda-tools");
    let input = folder.join(format!("transform-{}.ptx", std::process::id()));
    let output = input.with_extension("cubin");
    fs::write(&input, ptx)?;
    let mut columns = Vec::new();
    for architecture in ARCHITECTURES {
        let mut command = Command::new(&assembler);
        command.args(["--verbose", "--warn-on-spills", "--gpu-name", architecture]).arg(&input);
        let result = command.arg("--output-file").arg(&output).output().context("cannot start ptxas")?;
        let report =
            String::from_utf8_lossy(&result.stderr).into_owned() + &String::from_utf8_lossy(&result.stdout);
        ensure!(result.status.success(), "ptxas fails for {architecture}\n{report}");
        columns.push(usages(&report).with_context(|| format!("assembling for {architecture}"))?);
    }
    fs::remove_file(&input)?;
    fs::remove_file(&output)?;
    table(&columns)
}

/// Reads the assembler's report.
fn usages(report: &str) -> Result<BTreeMap<String, Usage>> {
    let mut usages = BTreeMap::new();
    let mut kernel = None;
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().map(str::to_owned);
        } else if line.contains("spill stores") {
            let clean = line.trim() == "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
            ensure!(clean, "{}: {}", kernel.unwrap_or_default(), line.trim());
        } else if let Some((_, rest)) = line.split_once("Used ") {
            let number =
                |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
            let registers = number(rest).with_context(|| format!("no registers in {line}"))?;
            let shared = rest.split(", ").find(|part| part.ends_with(" smem")).and_then(number).unwrap_or(0);
            let kernel = kernel.take().with_context(|| format!("no kernel in front of {line}"))?;
            usages.insert(kernel, Usage { registers, shared });
        }
    }
    ensure!(!usages.is_empty(), "the assembler names no kernel\n{report}");
    Ok(usages)
}

/// One row per kernel: shared memory, then the registers on each architecture.
fn table(columns: &[BTreeMap<String, Usage>]) -> Result<String> {
    let mut text = String::from(
        "# Bytes of static shared memory and registers per thread of every kernel; no kernel spills or uses local memory.\n",
    );
    writeln!(text, "kernel\tshared\t{}", ARCHITECTURES.join("\t"))?;
    let kernels: BTreeSet<&String> = columns.iter().flat_map(BTreeMap::keys).collect();
    for kernel in kernels {
        let usages: Option<Vec<Usage>> = columns.iter().map(|column| column.get(kernel).copied()).collect();
        let usages = usages.with_context(|| format!("{kernel} is missing on some architecture"))?;
        let shared = usages[0].shared;
        if usages.iter().any(|usage| usage.shared != shared) {
            bail!("{kernel} takes different shared memory on different architectures");
        }
        let registers: Vec<String> = usages.iter().map(|usage| usage.registers.to_string()).collect();
        writeln!(text, "{kernel}\t{shared}\t{}", registers.join("\t"))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Usage, usages};

    const REPORT: &str = "\
ptxas info    : 304 bytes gmem
ptxas info    : Compiling entry function 'copy_w1' for 'sm_70'
ptxas info    : Function properties for copy_w1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 1 barriers, 16384 bytes smem, 428 bytes cmem[0]
ptxas info    : Compiling entry function 'copy_w2' for 'sm_70'
ptxas info    : Function properties for copy_w2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, 428 bytes cmem[0]";

    #[test]
    fn the_report_is_read() {
        let usages = usages(REPORT).unwrap();
        assert_eq!(usages.len(), 2);
        assert_eq!(usages["copy_w1"], Usage { registers: 20, shared: 16384 });
        assert_eq!(usages["copy_w2"], Usage { registers: 16, shared: 0 });
    }

    #[test]
    fn a_spill_is_an_error() {
        let spilling = REPORT.replacen("0 bytes spill stores", "8 bytes spill stores", 1);
        assert!(usages(&spilling).unwrap_err().to_string().contains("copy_w1"));
        let stack = REPORT.replacen("0 bytes stack frame", "16 bytes stack frame", 1);
        assert!(usages(&stack).is_err());
        assert!(usages("nothing").is_err());
    }
}
