//! `cargo xtask ptx [FAMILY]...`: the CUDA kernels as PTX, one text for each `kernels/<family>.cu`,
//! and what each kernel takes of every architecture; with `--check`, only compares. The programs
//! are pinned packages of the Python index, so the result is the same on every machine, and no GPU,
//! driver or toolkit is needed. What is known of a kernel whose text has not changed is not looked
//! at again, but with `--assemble`.

mod budgets;
mod flight;
mod nvrtc;
pub mod parallel;
mod resources;

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{header, pack, shell};
use nvrtc::Nvrtc;
use resources::Tools;

const KERNELS: &str = "src/backend/cuda/kernels";
pub const PTX: &str = "src/backend/cuda/ptx";
/// Kernels that tests run on a device or on the driver double, and the library does not have.
const TESTS: &str = "c_tests/driver_double/fragments";

/// The compiler that a driver 525 still understands: it writes PTX ISA 8.0.
const NVRTC: Package = Package { name: "nvidia-cuda-nvrtc-cu12", version: "12.0.140" };
/// The assembler: young enough to know every architecture that is tried.
const NVCC: Package = Package { name: "nvidia-cuda-nvcc-cu12", version: pack::ASSEMBLER };
/// The disassembler, which reads what older assemblers write, too.
const NVDISASM: Package = Package { name: "nvidia-cuda-nvdisasm", version: "13.5.37" };

/// For the oldest architecture that the compiler knows, unless the first line of a family's source
/// names another. No fused multiply-add: products and sums round one by one, as on the CPU.
const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];
const TARGET: &str = "compute_50";

pub fn run(arguments: &[String]) -> Result<()> {
    let (flags, families): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|argument| argument.starts_with('-'));
    let sources = Sources::read()?;
    let known: Vec<&str> = sources.0.keys().filter_map(|file| file.strip_suffix(".cu")).collect();
    for family in &families {
        ensure!(known.contains(&family.as_str()), "there is no {KERNELS}/{family}.cu; there are {known:?}");
    }
    let kept = Kept(shell::target().join("cuda-tools/kept"));
    fs::create_dir_all(&kept.0)?;
    let tools = Tools {
        assembler: assembler()?,
        disassembler: NVDISASM.folder()?.join("nvidia/cu13/bin/nvdisasm"),
        versions: format!("{} {}", NVCC.version, NVDISASM.version),
        folder: kept.0.clone(),
    };
    let assembles_all = flags.iter().any(|flag| flag == "--assemble");
    let mut units: Vec<(String, String, String)> = Vec::new();
    for family in
        known.iter().filter(|known| families.is_empty() || families.iter().any(|name| name == *known))
    {
        units.push((
            format!("{PTX}/{family}"),
            format!("{family}.cu"),
            sources.0[&format!("{family}.cu")].clone(),
        ));
    }
    if families.is_empty() {
        let source = fs::read_to_string(shell::root().join(format!("{TESTS}.cu")))?;
        units.push((TESTS.to_owned(), "fragments.cu".to_owned(), source));
    }
    // The compiler numbers calls by a counter that all threads of a process share: one at a time.
    let made = parallel::pipe(
        &units,
        |(_, unit, source)| compile(unit, source, &sources, &kept),
        |(file, ..), ptx| {
            let committed = fs::read_to_string(shell::root().join(format!("{file}.tsv")));
            let committed = committed.ok().filter(|_| !assembles_all).unwrap_or_default();
            resources::table(ptx, &tools, &committed)
        },
    )?;
    for ((file, ..), (ptx, table)) in units.iter().zip(&made) {
        header::write_or_check(&format!("{file}.ptx"), ptx, &flags, "ptx")?;
        if file != TESTS {
            budgets::check(&format!("{file}.tsv"), table, &flags)?;
            header::write_or_check(&format!("{file}.tsv"), table, &flags, "ptx")?;
        }
    }
    // What is left of a family that is gone.
    for entry in fs::read_dir(shell::root().join(PTX))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(known.contains(&&*stem), "{} has no source any more; remove it", path.display());
    }
    Ok(())
}

/// The assembler, fetched once.
pub fn assembler() -> Result<PathBuf> {
    Ok(NVCC.folder()?.join("nvidia/cuda_nvcc/bin/ptxas"))
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

/// The kernels' sources by file name.
struct Sources(BTreeMap<String, String>);

impl Sources {
    fn read() -> Result<Sources> {
        let mut files = BTreeMap::new();
        for entry in
            fs::read_dir(shell::root().join(KERNELS)).with_context(|| format!("cannot list {KERNELS}"))?
        {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path)?);
        }
        Ok(Sources(files))
    }

    /// The headers that `text` includes, and those that they include.
    fn headers(&self, text: &str) -> Result<Vec<(String, String)>> {
        let mut found = BTreeMap::new();
        let mut texts = vec![text];
        while let Some(text) = texts.pop() {
            for name in text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next()) {
                let body = self.0.get(name).with_context(|| format!("{KERNELS} has no {name}"))?;
                if found.insert(name.to_owned(), body.clone()).is_none() {
                    texts.push(body);
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The kernels of one source as PTX text.
fn compile(unit: &str, source: &str, sources: &Sources, kept: &Kept) -> Result<String> {
    let headers = sources.headers(source)?;
    let target = format!("--gpu-architecture={}", target(source));
    let options = [OPTIONS[0], OPTIONS[1], &target];
    kept.or_make(&format!("{} {options:?} {source} {headers:?}", NVRTC.version), || {
        let nvrtc = Nvrtc::load(&NVRTC.folder()?.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))?;
        nvrtc.compile(unit, source, &headers, &options)
    })
}

/// The architecture that a source asks for, as in `// compute_80: what for`.
fn target(source: &str) -> &str {
    let first = source.lines().next().unwrap_or_default();
    match first.strip_prefix("// ").and_then(|text| text.split_once(':')) {
        Some((target, _)) if target.starts_with("compute_") => target,
        _ => TARGET,
    }
}

/// What earlier runs made, by all that it was made from: a change of one family compiles that one
/// only.
struct Kept(PathBuf);

impl Kept {
    fn or_make(&self, inputs: &str, make: impl FnOnce() -> Result<String>) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        let file = self.0.join(format!("{:016x}.ptx", hasher.finish()));
        if let Ok(text) = fs::read_to_string(&file) {
            return Ok(text);
        }
        let text = make()?;
        // Renamed when complete, so that an interrupted run leaves nothing to be taken for a
        // result.
        let partial = file.with_extension(format!("partial-{}", std::process::id()));
        fs::write(&partial, &text)?;
        fs::rename(&partial, &file)?;
        Ok(text)
    }
}
