//! `cargo xtask cubins [FAMILY]...`: the machine code of the CUDA kernels, a pack for each family,
//! for a build with `CUDNN_SHIM_CUBINS`. The assembler is the one of `cargo xtask ptx`, and each
//! image is sealed to the text that it is made of. Nothing is assembled twice.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail, ensure};
use lzma_rust2::{LzmaOptions, LzmaWriter};

use crate::pack::{self, ARCHITECTURES};
use crate::ptx::parallel;
use crate::split::{self, Family};
use crate::{ptx, shell};

/// What `cargo xtask cubins --help` tells.
pub const ARGUMENTS: &str = "[FAMILY]...   only these; all if none is named
--out DIR     where to, target/cubins if not given";

pub fn run(arguments: &[String]) -> Result<()> {
    let (mut out, mut families) = (None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => out = Some(std::path::absolute(words.next().context("--out DIR")?)?),
            flag if flag.starts_with('-') => bail!("the arguments are [FAMILY]... and --out DIR, not {flag}"),
            family => families.push(family.to_owned()),
        }
    }
    let out = out.unwrap_or_else(folder);
    let packed = make(&families, &out)?;
    println!("{} bytes of packed machine code in {}", packed.iter().sum::<u64>(), out.display());
    Ok(())
}

/// What a build of the library reads the folder of the packs from.
pub const VARIABLE: &str = "CUDNN_SHIM_CUBINS";

/// What leaves the machine code out of a release.
pub const WITHOUT: &str = "--ptx-alone";

/// Where the packs lie of which a release is built.
fn folder() -> PathBuf {
    shell::target().join("cubins")
}

/// The packs of every family, for a release.
pub fn of_release() -> Result<PathBuf> {
    make(&[], &folder()).with_context(|| {
        format!("a release has machine code of its CUDA kernels; {WITHOUT} makes one with PTX alone")
    })?;
    Ok(folder())
}

/// Makes the packs of these families, of all if none is named, in `out`: the bytes of each.
fn make(families: &[String], out: &Path) -> Result<Vec<u64>> {
    let texts = shell::root().join(ptx::PTX);
    let names = fs::read_dir(&texts)?.map(|entry| Ok(entry?.path()));
    let names = names.collect::<Result<Vec<PathBuf>>>()?.into_iter();
    let names = names.filter(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    let all: BTreeSet<String> =
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    for family in families {
        ensure!(all.contains(family), "there is no {}/{family}.ptx; there are {all:?}", ptx::PTX);
    }
    let assembler = ptx::assembler().context("there is no machine code without the assembler")?;
    let kept = shell::target().join("cuda-tools/kept");
    fs::create_dir_all(&kept)?;
    if out.exists() {
        // What is left of a family that is gone.
        for entry in fs::read_dir(out)? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if path.extension().is_some_and(|extension| extension == "cubins") && !all.contains(&*stem) {
                fs::remove_file(&path)?;
            }
        }
    }
    fs::create_dir_all(out)?;
    let wanted: Vec<&String> =
        all.iter().filter(|name| families.is_empty() || families.contains(name)).collect();
    let made = parallel::pipe(
        &wanted,
        |name| {
            let path = texts.join(format!("{name}.ptx"));
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        },
        |name, text| family(name, text, &assembler, &kept, out).with_context(|| format!("of {name}")),
    )?;
    Ok(made.into_iter().map(|(_, bytes)| bytes).collect())
}

/// Makes the pack of one family, if there is not one of this text: its bytes.
fn family(name: &str, text: &str, assembler: &Path, kept: &Path, out: &Path) -> Result<u64> {
    let Family { preamble, kernels } = split::split(text).map_err(anyhow::Error::msg)?;
    let modules: Vec<(&str, String)> =
        kernels.iter().map(|kernel| (kernel.name, format!("{preamble}{}", kernel.text))).collect();
    let file = out.join(format!("{name}.cubins"));
    if let Ok(bytes) = fs::read(&file)
        && pack::read(&bytes).and_then(|pack| pack.check(&modules)).is_ok()
    {
        return Ok(bytes.len() as u64);
    }
    let (mut images, mut code) = (Vec::new(), Vec::new());
    for architecture in ARCHITECTURES {
        for (kernel, text) in modules.iter().filter(|(_, text)| pack::takes(text, architecture)) {
            let seal = pack::seal(text, architecture);
            let image = image(kernel, text, architecture, seal, assembler, kept)?;
            images.push((architecture, *kernel, seal, image.len()));
            code.extend(image);
        }
    }
    let bytes = pack::write(images.into_iter(), &compressed(&code)?);
    pack::read(&bytes).and_then(|pack| pack.check(&modules)).map_err(|error| anyhow!(error))?;
    // Renamed when complete, so that an interrupted run leaves nothing to be taken for a result.
    let partial = out.join(format!("{name}.partial-{}", std::process::id()));
    fs::write(&partial, &bytes)?;
    fs::rename(&partial, &file)?;
    Ok(bytes.len() as u64)
}

/// The code of one kernel, which stays for the next time under its seal.
fn image(
    kernel: &str, text: &str, architecture: u32, seal: u64, assembler: &Path, kept: &Path,
) -> Result<Vec<u8>> {
    let file = kept.join(format!("{seal:016x}.cubin"));
    if let Ok(image) = fs::read(&file) {
        return Ok(image);
    }
    let input = kept.join(format!("{seal:016x}-{}.ptx", std::process::id()));
    let output = input.with_extension("partial");
    fs::write(&input, text)?;
    let mut command = Command::new(assembler);
    command.args(pack::options(architecture)).arg(&input).arg("--output-file").arg(&output);
    let said = shell::output(&mut command).with_context(|| format!("{kernel} for sm_{architecture}"));
    fs::remove_file(&input)?;
    said?;
    let image = fs::read(&output)?;
    ensure!(image.starts_with(b"\x7fELF"), "ptxas has made no ELF file of {kernel}");
    fs::rename(&output, &file)?;
    Ok(image)
}

/// One stream of all images. An instruction has 16 bytes, which is what positions tell apart.
fn compressed(code: &[u8]) -> Result<Vec<u8>> {
    let dict_size = u32::try_from(code.len().next_multiple_of(4096))?;
    let options =
        LzmaOptions { dict_size, lc: 1, lp: 3, pb: 4, nice_len: 273, ..LzmaOptions::with_preset(6) };
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(code.len() as u64))?;
    writer.write_all(code)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use crate::pack::{self, ARCHITECTURES};

    fn text(body: &str) -> String {
        format!(".version 8.0\n.target sm_90\n.visible .entry copy(\n{body}\n}}\n")
    }

    /// A pack of `copy`, made of this text.
    fn pack_of(text: &str) -> Vec<u8> {
        let images = ARCHITECTURES.into_iter().filter(|architecture| *architecture >= 90);
        pack::write(
            images.map(|architecture| (architecture, "copy", pack::seal(text, architecture), 3)),
            b"stream",
        )
    }

    #[test]
    fn only_code_of_the_embedded_text_is_taken() {
        let made = pack_of(&text("ret;"));
        let pack = pack::read(&made).unwrap();
        assert_eq!(pack.stream, b"stream");
        assert_eq!(pack.images.iter().map(|image| image.end).max(), Some(3 * pack.images.len()));
        assert_eq!(pack.check(&[("copy", text("ret;"))]), Ok(()));
        let another = pack.check(&[("copy", text("exit;"))]).unwrap_err();
        assert_eq!(another, "the code of copy for sm_90 is made from another text");
        let missing = pack.check(&[("copy", text("ret;")), ("set", text("ret;"))]).unwrap_err();
        assert_eq!(missing, "there is no code of set for sm_90");
        assert_eq!(pack.check(&[]).unwrap_err(), "there is code of other kernels");
    }

    #[test]
    fn what_was_changed_later_is_not_taken() {
        let made = pack_of(&text("ret;"));
        let mut damaged = made.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let error = pack::read(&damaged).unwrap().check(&[("copy", text("ret;"))]).unwrap_err();
        assert_eq!(error, "the packed code is damaged");
        let older = String::from_utf8(made).unwrap().replace(pack::ASSEMBLER, "12.8.93");
        let error = pack::read(older.as_bytes()).err().unwrap();
        assert_eq!(error, format!("made by ptxas 12.8.93, not {}", pack::ASSEMBLER));
        assert!(pack::read(b"").is_err());
    }

    #[test]
    fn a_text_has_code_for_its_target_and_later_ones() {
        assert!(pack::takes(&text(""), 90) && pack::takes(&text(""), 120));
        assert!(!pack::takes(&text(""), 80) && !pack::takes("", 80));
    }
}
