//! `cargo xtask package`: what a release consists of - a tarball, packages for Debian and for RPM,
//! a wheel -, with the same bytes from every clone.

mod contents;
mod cross;
mod debian;
mod glibc;
pub mod notices;
mod rpm;
mod tarball;
mod verify;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::api::Api;
use crate::dist::{self, Dist};
use crate::machine::Machine;
use crate::{cubins, shell};

pub use verify::verify;

/// The version of a release: that of the crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `cargo xtask package --help` tells.
pub const ARGUMENTS: &str = "--for aarch64    for another processor, by its cross compiler; before all other arguments
--out DIR        where to, target/package/out if not given
--ptx-alone      without machine code of the CUDA kernels, which takes an assembler from the Python index
--check [TREE]   packs TREE, an installation, or the library of this machine, and uses each artefact as a user would
--keep           behind --check: leaves the artefacts, the wheel among them, in target/package-test/out
SOURCE_DATE_EPOCH=SECONDS in the environment: the date of every file; that of the last commit if not given";

/// The trees that a release is made of, and where it goes.
pub struct Release {
    /// Version 9 of the library with everything around it, as installed below a prefix.
    nine: PathBuf,
    /// Version 8 in the same form. The tests go without, for it is a full build of its own.
    eight: Option<PathBuf>,
    /// Where the artefacts are written.
    out: PathBuf,
    /// Folders that are made on the way; emptied first.
    work: PathBuf,
    /// The date of every file, in seconds since 1970.
    date: String,
    /// The oldest glibc that the files start with, as measured on them: `2.28`.
    glibc: String,
    compression: Compression,
    /// The processor that the files are for.
    machine: &'static Machine,
}

/// How hard archives are compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Of what is published.
    Best,
    /// Of what is unpacked at once and thrown away: a fourth of the time.
    Fast,
}

impl Compression {
    /// The level of xz.
    fn level(self) -> u8 {
        match self {
            Compression::Best => 9,
            Compression::Fast => 1,
        }
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    if let [flag, arch, rest @ ..] = arguments
        && flag == "--for"
    {
        return run_for(Machine::named(arch)?, rest);
    }
    let machine = Machine::target()?;
    let (without, arguments): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|argument| argument == cubins::WITHOUT);
    let cubins = || if without.is_empty() { cubins::of_release().map(Some) } else { Ok(None) };
    let out = match &arguments[..] {
        [] => shell::target().join(machine.folder("package")).join("out"),
        [flag, folder] if flag == "--out" => std::path::absolute(folder)?,
        [flag, rest @ ..] if flag == "--check" => {
            let (tree, keeps) = checked(rest)?;
            let dist =
                tree.map_or_else(|| dist::build(true, cubins()?.as_deref()), |tree| Ok(Dist::at(&tree)))?;
            return check(&dist, keeps);
        }
        _ => bail!(USAGE),
    };
    // First: where there is no assembler, nothing is built in vain.
    let cubins = cubins()?;
    let build = shell::target().join(machine.folder("package"));
    let stage = |api: Api| build.join("stage").join(api.major());
    for api in [Api::Nine, Api::Eight] {
        install_portably(api, &build, &stage(api), cubins.as_deref())?;
    }
    let [nine, eight] = [Api::Nine, Api::Eight].map(stage);
    let release = Release::new(nine, Some(eight), out, build.join("work"), Compression::Best)?;
    if release.glibc != glibc::OLDEST {
        bail!("the files ask for glibc {}, not {}: xtask/src/package/glibc.rs", release.glibc, glibc::OLDEST);
    }
    for artefact in release.make()? {
        println!("{}", artefact.display());
    }
    Ok(())
}

const USAGE: &str =
    "the arguments are --for ARCH, then --out DIR, or --check [TREE] [--keep]; and --ptx-alone";

/// The same for a processor: of another one in a process of its own, whose environment says so to
/// all that is started.
fn run_for(machine: &'static Machine, arguments: &[String]) -> Result<()> {
    if let Some(line) = machine.lacking() {
        if arguments.iter().any(|argument| argument == "--check") {
            println!("skipped: {line}\n{}", crate::test::Tally::SKIP);
            return Ok(());
        }
        bail!(line);
    }
    let mut command = Command::new(std::env::current_exe()?);
    machine.build_by(command.arg("package").args(arguments));
    shell::run(&mut command)
}

/// What is behind `--check`: the tree, if one is named, and whether the artefacts stay.
fn checked(arguments: &[String]) -> Result<(Option<PathBuf>, bool)> {
    let (options, trees): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let keeps = match options[..] {
        [] => false,
        [option] if option == "--keep" => true,
        _ => bail!(USAGE),
    };
    match trees[..] {
        [] => Ok((None, keeps)),
        [tree] => Ok((Some(PathBuf::from(tree)), keeps)),
        _ => bail!(USAGE),
    }
}

/// Prints what the artefacts of `dist` are worth; fails if one does not serve.
fn check(dist: &Dist, keeps: bool) -> Result<()> {
    let tally = verify(dist, keeps)?;
    println!("{tally}");
    if tally.failed() > 0 { bail!("an artefact does not serve") } else { Ok(()) }
}

/// Runs `cargo xtask install` into `stage`, built so that neither the machine's glibc nor its
/// folders show in the files.
fn install_portably(api: Api, build: &Path, stage: &Path, packs: Option<&Path>) -> Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    fs::create_dir_all(build)?;
    let linked = glibc::link_arguments(Machine::target()?, build)?;
    let mut flags: Vec<String> = linked.iter().map(|argument| format!("-Clink-arg={argument}")).collect();
    flags.extend(remapped_paths()?);
    let mut install = Command::new(std::env::current_exe()?);
    install.args(["install", "--api", api.major(), "--prefix"]).arg(stage);
    // A build for a named target leaves build scripts without these flags, and has a folder of its
    // own.
    Machine::target()?.build_by(&mut install);
    install.env("CARGO_TARGET_DIR", build.join("build"));
    install.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    match packs {
        Some(folder) => install.env(cubins::VARIABLE, folder),
        None => install.env_remove(cubins::VARIABLE),
    };
    // Host CUDA is linked by the C compiler.
    install.env("LDFLAGS", linked.join(" "));
    shell::run(install.current_dir(shell::root()))
}

/// What stands in the files for the folders of the one who builds: panics name the source that they
/// come from.
fn remapped_paths() -> Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let sources = home.context("HOME is not set")?.join("registry/src");
    let mut registries: Vec<PathBuf> =
        fs::read_dir(&sources).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    // A folder is read in any order, and flags in another one build everything anew.
    registries.sort();
    let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    Ok(std::iter::once(flag(shell::root(), "cudnn-shim"))
        .chain(registries.iter().map(|registry| flag(registry, "crates")))
        .collect())
}

impl Release {
    /// A release of installed trees; `out` and `work` are emptied.
    pub fn new(
        nine: PathBuf, eight: Option<PathBuf>, out: PathBuf, work: PathBuf, compression: Compression,
    ) -> Result<Release> {
        for folder in [&out, &work] {
            if folder.exists() {
                fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
            }
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let date = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(date) => date,
            Err(_) => last_commit().unwrap_or_else(|_| "0".to_owned()),
        };
        let trees: Vec<&Path> = std::iter::once(nine.as_path()).chain(eight.as_deref()).collect();
        let glibc = glibc::asked_for(&trees)?;
        Ok(Release { nine, eight, out, work, date, glibc, compression, machine: Machine::target()? })
    }

    /// Makes every artefact and the file of their sums; what was made.
    pub fn make(&self) -> Result<Vec<PathBuf>> {
        let tree = contents::lay_out(self)?;
        let mut artefacts =
            vec![tarball::make(self, &tree)?, debian::make(self, &tree)?, rpm::make(self, &tree)?];
        artefacts.push(wheel::make(self, &tree)?);
        let names = artefacts.iter().map(|file| file.file_name().expect("an artefact is a file"));
        let sums = shell::output(Command::new("sha256sum").args(names).current_dir(&self.out))?;
        let file = self.out.join("SHA256SUMS");
        fs::write(&file, sums + "\n")?;
        artefacts.push(file);
        Ok(artefacts)
    }

    /// A command whose files carry the date of the release.
    fn dated(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.date).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }
}

fn last_commit() -> Result<String> {
    shell::output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(shell::root()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{VERSION, checked};
    use crate::shell;

    #[test]
    fn the_artefacts_stay_where_they_are_wanted() {
        let read = |words: &[&str]| checked(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let tree = Some(PathBuf::from("tree"));
        assert_eq!(read(&[]).unwrap(), (None, false));
        assert_eq!(read(&["--keep"]).unwrap(), (None, true));
        assert_eq!(read(&["tree"]).unwrap(), (tree.clone(), false));
        assert_eq!(read(&["tree", "--keep"]).unwrap(), (tree.clone(), true));
        assert_eq!(read(&["--keep", "tree"]).unwrap(), (tree, true));
        for wrong in [&["--kept"][..], &["a", "b"], &["--keep", "--keep"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_file_that_states_the_version_states_the_same() {
        for (file, line) in [
            ("Cargo.toml", "version"),
            ("cli/Cargo.toml", "version"),
            ("host-cuda/Cargo.toml", "version"),
            ("macros/Cargo.toml", "version"),
            ("xtask/Cargo.toml", "version"),
            ("python/pyproject.toml", "version"),
            ("python/src/cudnn_shim/__init__.py", "__version__"),
        ] {
            let text = std::fs::read_to_string(shell::root().join(file)).unwrap();
            assert!(text.lines().any(|said| said == format!("{line} = \"{VERSION}\"")), "{file}");
        }
    }
}
