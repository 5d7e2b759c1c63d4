//! `lib/host-cuda`: the CUDA runtime, cuBLAS and cuRAND on host memory, in a folder that no loader
//! looks into unasked.
//!
//! One library holds the code; each library of CUDA, of each major version, is a file of jumps into
//! it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::machine::Machine;
use crate::parts::{self, Jumps};
use crate::shell::Scratch;
use crate::tree::{EXECUTABLE, PLAIN, Tree, set_mode};
use crate::{archive, shell, tables, tools};

/// The library that holds the code.
const CORE: &str = "libcudnn_shim_host.so";
/// Its version node, which counts changes that the files of jumps would notice.
const NODE: &str = "CUDNN_SHIM_HOST_1";
/// The version of CUDA that the headers, the static runtime and the names without a number stand
/// for.
const MAJOR: &str = "12";
/// What only [`CORE`] exports, for `libcudnn.so` to find.
const HOOKS: &str = "hooks";

/// A library of CUDA, of one major version.
struct Library {
    /// Its table in `host-cuda/symbols`.
    name: String,
    major: String,
    soname: String,
}

fn folder() -> PathBuf {
    shell::root().join("host-cuda")
}

fn table(name: &str) -> Result<Vec<tables::Row>> {
    tables::read_file(&folder().join("symbols").join(name).with_extension("tsv"))
}

fn libraries() -> Result<Vec<Library>> {
    let library = |row: tables::Row| Library {
        name: row["library"].clone(),
        major: row["major"].clone(),
        soname: row["soname"].clone(),
    };
    Ok(table("libraries")?.into_iter().map(library).collect())
}

impl Library {
    /// What it exports, and the function of [`CORE`] that each jumps to.
    fn calls(&self) -> Result<Vec<(String, String)>> {
        let rows = table(&self.name)?;
        let ours = rows.iter().filter(|row| row["majors"].split(' ').any(|major| major == self.major));
        ours.map(|row| {
            let symbol = row["symbol"].clone();
            let function = match (row["state"].as_str(), row.get("detail").map(String::as_str)) {
                ("refused", _) | ("built", None | Some("")) => symbol.clone(),
                ("built", Some(function)) => function.to_owned(),
                (state, _) => bail!("{symbol}: {state} is neither built nor refused"),
            };
            Ok((symbol, function))
        })
        .collect()
    }

    /// Whether the names without a number stand for it. Of some libraries there is one for all
    /// versions of CUDA.
    fn is_default(&self) -> bool {
        self.major == MAJOR || ["cuda", "curand"].contains(&self.name.as_str())
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let (release, folder) = match arguments {
        [] => (true, None),
        [debug] if debug == "--debug" => (false, None),
        [debug, folder] if debug == "--debug" => (false, Some(folder)),
        _ => bail!("the arguments are --debug and a folder"),
    };
    let root = match folder {
        Some(folder) => std::path::absolute(folder)?,
        None => shell::target().join("host-cuda"),
    };
    lay_out(&mut Tree::new(root.clone()), &build(release)?, release)?;
    println!("{}", root.display());
    Ok(())
}

/// Builds the archive that holds the code; where it is.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut command = shell::cargo();
    command.args(["build", "--package", "cudnn-shim-host-cuda", "--message-format=json-render-diagnostics"]);
    if release {
        command.arg("--release");
    }
    let messages = shell::output(command.stderr(Stdio::inherit()))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files = messages
        .filter(|message| message["target"]["name"] == "cudnn_shim_host")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from));
    let archive = files.into_iter().find(|file| file.extension().is_some_and(|end| end == "a"));
    archive.context("cargo has built no libcudnn_shim_host.a")
}

/// Puts the libraries made of the archive `built`, the headers and what CMake reads into the tree.
pub fn lay_out(tree: &mut Tree, built: &Path, release: bool) -> Result<()> {
    let libraries = libraries()?;
    let core = tree.place(&format!("lib/host-cuda/{CORE}"))?;
    let mut exported: BTreeSet<String> = table(HOOKS)?.iter().map(|row| row["symbol"].clone()).collect();
    for library in &libraries {
        exported.extend(library.calls()?.into_iter().map(|(_, function)| function));
    }
    link(&exported, built, &core, release)?;
    set_mode(&core, EXECUTABLE)?;
    for library in &libraries {
        let (soname, calls) = (library.soname.as_str(), library.calls()?);
        let file = tree.place(&format!("lib/host-cuda/{soname}"))?;
        Jumps { soname, calls: &calls, library: &core, node: NODE }.link(&file)?;
        set_mode(&file, EXECUTABLE)?;
        if library.is_default() {
            tree.link(soname, &format!("lib/host-cuda/lib{}.so", library.name))?;
            if library.name == "cudart" {
                let file = tree.place("lib/host-cuda/libcudart_static.a")?;
                archive::with(&calls, built, &file, release)?;
                set_mode(&file, PLAIN)?;
            }
        }
    }
    copy_all(tree, &folder().join("include"), "include/host-cuda")?;
    copy_all(tree, &folder().join("cmake"), "lib/host-cuda/cmake/CUDAToolkit")
}

/// Copies the files of a folder and of those in it.
fn copy_all(tree: &mut Tree, from: &Path, to: &str) -> Result<()> {
    let list = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    let mut files: Vec<PathBuf> = list.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).context("our names are ASCII")?;
        let to = format!("{to}/{name}");
        if file.is_dir() {
            copy_all(tree, &file, &to)?;
        } else {
            tree.copy(&file, &to, PLAIN)?;
        }
    }
    Ok(())
}

/// Links [`CORE`] at `file`: of the archive, what the exported functions need.
fn link(exported: &BTreeSet<String>, archive: &Path, file: &Path, release: bool) -> Result<()> {
    let scratch = Scratch::new("host-cuda")?;
    let (script, wanted) = (scratch.0.join("core.map"), scratch.0.join("wanted.txt"));
    fs::write(&script, parts::node(NODE, exported.iter().map(String::as_str)))?;
    fs::write(&wanted, exported.iter().map(|symbol| format!("-Wl,-u,{symbol}\n")).collect::<String>())?;
    let mut command = tools::c_compiler(Machine::target()?)?;
    command
        .args(["-shared", "-fuse-ld=bfd", "-Wl,--gc-sections", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack"])
        // Worker threads may outlive a dlclose, so the code has to stay mapped.
        .args(["-Wl,-z,now", "-Wl,-z,defs", "-Wl,-z,nodelete"])
        .arg(format!("-Wl,-soname,{CORE}"))
        .arg(format!("-Wl,--version-script={}", script.display()))
        .arg(format!("@{}", wanted.display()))
        .arg(archive)
        .args(["-lgcc_s", "-lm", "-lpthread", "-ldl", "-lrt", "-lutil"]);
    if release {
        command.arg("-s");
    }
    // As everywhere else, what a packager wants of the linker.
    command.args(std::env::var("LDFLAGS").unwrap_or_default().split_whitespace());
    shell::run(command.arg("-o").arg(file))
}
