//! Files of a release for another processor: what their heads say, and a program that links with
//! them, emulated.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::api::Api;
use crate::machine::Machine;
use crate::test::Tally;
use crate::{archive, shell, tools};

/// Programs of `c_tests` that are quick where they are emulated.
const PROGRAMS: [&str; 4] = ["layers", "convolution", "convolution_directions", "matmul"];

/// Whether the tree at `prefix` below `root` serves: all files are of the processor, the library
/// has its name and its symbols, [`PROGRAMS`] link with it and pass, emulated, and the tool starts.
pub fn serve(machine: &Machine, root: &Path, prefix: &str) -> Result<Tally> {
    let tree = root.join(prefix);
    let count = all_are_of(machine, &tree)?;
    library(machine, &tree.join("lib").join(Api::Nine.soname()))?;
    for name in PROGRAMS {
        let (source, program) =
            (shell::root().join("c_tests").join(name).with_extension("c"), root.join(name));
        let mut compile = tools::c_compiler(machine)?;
        compile.args(["-std=c99", "-O2", "-I"]).arg(tree.join("include")).arg(source).arg("-o").arg(&program);
        shell::run(compile.arg("-L").arg(tree.join("lib")).args(["-lcudnn", "-lm"]))?;
        let mut run = machine.command(&program, Some(&tree.join("lib")));
        shell::run(run.env("CUDNN_SHIM_BACKEND", "cpu").stdout(Stdio::null()))?;
    }
    let version = shell::output(machine.command(&tree.join("bin/cudnn-shim"), None).arg("--version"))?;
    if !version.contains(super::VERSION) {
        bail!("the tool says that it is {version}, not {}", super::VERSION);
    }
    println!("{count} files of {}; {} link with them and pass, emulated", machine.arch, PROGRAMS.join(", "));
    Ok(Tally::PASS)
}

/// How many ELF files there are below `root`; fails if one is of another processor, or none is
/// there.
pub fn all_are_of(machine: &Machine, root: &Path) -> Result<usize> {
    let (mut pending, mut count) = (vec![root.to_path_buf()], 0);
    while let Some(path) = pending.pop() {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            pending.extend(fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
        } else if let Some(of) = machine_of(&path)? {
            if of != machine.elf {
                bail!("{} is of the processor {of}, not {}", path.display(), machine.elf);
            }
            count += 1;
        }
    }
    if count == 0 { bail!("there is no ELF file below {}", root.display()) } else { Ok(count) }
}

/// The number of the processor in the head of an ELF file.
fn machine_of(path: &PathBuf) -> Result<Option<u16>> {
    let mut head = Vec::new();
    fs::File::open(path)?.take(20).read_to_end(&mut head)?;
    let is_elf = head.len() == 20 && head.starts_with(b"\x7fELF");
    Ok(is_elf.then(|| u16::from_le_bytes([head[18], head[19]])))
}

/// Fails unless a library has the processor, the name and the symbols of the interface, and no
/// other symbols.
pub fn library(machine: &Machine, file: &Path) -> Result<()> {
    let file = &file.canonicalize().with_context(|| format!("{} is missing", file.display()))?;
    if machine_of(file)? != Some(machine.elf) {
        bail!("{} is not of {}", file.display(), machine.arch);
    }
    let read = |what: &str| shell::output(Command::new("readelf").args(["--wide", what]).arg(file));
    let (soname, said) = (Api::Nine.soname(), read("--dynamic")?);
    if !said.contains(&format!("Library soname: [{soname}]")) {
        bail!("{} is not called {soname}:\n{said}", file.display());
    }
    let (wanted, there) = (archive::symbols(Api::Nine)?, exported(&read("--dyn-syms")?));
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    if wanted != there {
        let [missing, more] =
            [(&wanted, &there), (&there, &wanted)].map(|(a, b)| a.difference(b).collect::<Vec<_>>());
        bail!("{} lacks {missing:?}, and exports {more:?} beyond the interface", file.display());
    }
    Ok(())
}

/// The names of the functions that a library exports, by what readelf prints.
fn exported(text: &str) -> Vec<String> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter_map(|row| match row[..] {
        // A number: of a section, neither of nothing nor of a version node.
        [_, _, _, _, "GLOBAL" | "WEAK", "DEFAULT", place, name, ..] if place.parse::<u16>().is_ok() => {
            Some(name.split('@').next().unwrap_or(name).to_owned())
        }
        _ => None,
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::exported;

    #[test]
    fn exported_functions_are_read() {
        let text = "Symbol table '.dynsym' contains 4 entries:\n   Num:    Value          Size Type    Bind   Vis      Ndx Name\n     \
                    1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.17 (2)\n     \
                    2: 000000000001a2b0    60 FUNC    GLOBAL DEFAULT   12 cudnnCreate@@libcudnn.so.9\n     \
                    3: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS libcudnn.so.9\n";
        assert_eq!(exported(text), ["cudnnCreate"]);
    }
}
