//! `cargo xtask install` and `uninstall`: libraries, headers and what build systems look for, below
//! a prefix.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::api::{Api, Libraries};
use crate::machine::Machine;
use crate::package::notices;
use crate::tree::{EXECUTABLE, PLAIN, Tree, set_mode};
use crate::{archive, host_cuda, manifest, parts, shell, tool};

/// The files that build systems read: where they go below `lib`, and their text.
const TEMPLATES: [(&str, &str); 6] = [
    ("pkgconfig/cudnn.pc", include_str!("../templates/cudnn.pc.in")),
    ("cmake/CUDNN/CUDNNConfig.cmake", include_str!("../templates/CUDNNConfig.cmake.in")),
    ("cmake/CUDNN/CUDNNConfigVersion.cmake", include_str!("../templates/CUDNNConfigVersion.cmake.in")),
    ("cmake/CUDNN/cudnn-config.cmake", include_str!("../templates/cudnn-config.cmake.in")),
    ("cmake/CUDNN/cudnn-config-version.cmake", include_str!("../templates/cudnn-config-version.cmake.in")),
    ("cmake/modules/FindCUDNN.cmake", include_str!("../templates/FindCUDNN.cmake")),
];

/// What `cargo xtask install --help` tells.
pub const ARGUMENTS: &str = "--prefix DIR   where to: `lib` and `include` below it
--api 8|9      the version, 9 if not given; each is a full build of its own, so that 8 beside 9 is a second full build
--debug        without optimisation, for the maintainers' tests
DESTDIR=STAGE  in the environment: writes below STAGE what is meant for DIR";

/// What `cargo xtask uninstall --help` tells.
pub const UNINSTALL_ARGUMENTS: &str = "--prefix DIR   as given to install
--api 8|9      as given to install
DESTDIR=STAGE  as given to install";

/// Other spellings of the package that projects ask pkg-config for.
const PC_NAMES: [&str; 2] = ["CUDNN.pc", "cuDNN.pc"];

/// What the user asks for.
#[derive(Debug)]
struct Arguments {
    prefix: PathBuf,
    api: Api,
    release: bool,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Arguments> {
        let (mut prefix, mut api, mut release) = (None, Api::Nine, true);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            let mut value = || {
                value.or_else(|| rest.next().map(String::as_str)).with_context(|| format!("{name} of what?"))
            };
            match name {
                "--prefix" => prefix = Some(std::path::absolute(value()?)?),
                "--api" => api = Api::parse(value()?)?,
                "--debug" => release = false,
                _ => bail!("the arguments are --prefix DIR, --api 8|9 and --debug, not {argument}"),
            }
        }
        // No place is taken unasked.
        let prefix = prefix.context("which place? --prefix DIR names it, for example --prefix /usr/local")?;
        Ok(Arguments { prefix, api, release })
    }

    /// Where the files are written: below DESTDIR, if packagers set it.
    fn root(&self) -> Result<PathBuf> {
        Ok(match destdir() {
            Some(dir) => {
                std::path::absolute(dir)?.join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix))
            }
            None => self.prefix.clone(),
        })
    }
}

fn destdir() -> Option<OsString> {
    std::env::var_os("DESTDIR").filter(|dir| !dir.is_empty())
}

pub fn run(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::parse(arguments)?;
    let (api, root) = (arguments.api, arguments.root()?);
    refuse_beside_other(&arguments, &root)?;
    let built = api.build(arguments.release, None)?;
    let program = tool::build(arguments.release)?;
    let host = host_cuda::build(arguments.release)?;
    let manifest = manifest::name(api);
    let mut tree = Tree::listed(root.clone(), arguments.prefix, &manifest)?;
    lay_out(&mut tree, api, &built, arguments.release)
        .and_then(|()| tool::lay_out(&mut tree, &program))
        .and_then(|()| host_cuda::lay_out(&mut tree, &host, arguments.release))
        .and_then(|()| notices::lay_out(&mut tree))
        .context("not all is installed; `cargo xtask uninstall` with the same arguments removes what is")?;
    println!("version {} is installed in {}; list: {manifest}", api.version(), root.display());
    if destdir().is_none() {
        println!("{}", hint(&root.join("lib"), &loader_folders()));
    }
    Ok(())
}

/// How programs find a library in this folder, where the loader reads those `known` through a
/// cache, and no others.
fn hint(lib: &Path, known: &[PathBuf]) -> String {
    let lib = lib.display();
    if known.iter().any(|folder| folder.as_os_str() == lib.to_string().as_str()) {
        return "for programs to find it: sudo ldconfig".to_owned();
    }
    format!("for programs to find it: LD_LIBRARY_PATH={lib}, or link them with -Wl,-rpath,{lib}")
}

/// The folders that the loader knows: its own, and those of its configuration.
fn loader_folders() -> Vec<PathBuf> {
    let mut known: Vec<PathBuf> = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].map(PathBuf::from).to_vec();
    let files = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten().map(|entry| entry.path());
    for file in files.chain([PathBuf::from("/etc/ld.so.conf")]) {
        let text = fs::read_to_string(file).unwrap_or_default();
        known.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    known
}

/// Fails where the other version is installed: both have a `cudnn.h`, a `libcudnn.so` and more
/// files of one name.
fn refuse_beside_other(arguments: &Arguments, root: &Path) -> Result<()> {
    let other = if arguments.api == Api::Eight { Api::Nine } else { Api::Eight };
    if root.join(manifest::name(other)).exists() {
        bail!(
            "version {} is installed in {} and has files of the same names; choose another --prefix, or remove it \
             first: cargo xtask uninstall --api {} --prefix {}",
            other.major(),
            root.display(),
            other.major(),
            arguments.prefix.display()
        );
    }
    Ok(())
}

/// Removes what the list of an installation names, and the folders that the installation made.
pub fn uninstall(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::parse(arguments)?;
    let root = arguments.root()?;
    manifest::remove(&root, &manifest::name(arguments.api))?;
    if let Some(stage) = destdir() {
        // The way to the prefix was made for it; what holds anything else stays.
        let stage = std::path::absolute(stage)?;
        for folder in root.ancestors().take_while(|folder| *folder != stage && folder.starts_with(&stage)) {
            if folder.exists() && fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Puts all of the files into the tree.
pub fn lay_out(tree: &mut Tree, api: Api, built: &Libraries, release: bool) -> Result<()> {
    let (soname, version) = (api.soname(), api.version());
    let real = format!("libcudnn.so.{version}");
    let library = tree.copy(&built.shared, &format!("lib/{real}"), EXECUTABLE)?;
    tree.link(&real, &format!("lib/{soname}"))?;
    tree.link(&soname, "lib/libcudnn.so")?;
    let archive = tree.place("lib/libcudnn_static.a")?;
    archive::make(api, &built.archive, &archive, release)?;
    set_mode(&archive, PLAIN)?;
    // For `-static -lcudnn`, which is what pkg-config says; without `-static` linkers prefer the
    // shared library.
    tree.link("libcudnn_static.a", "lib/libcudnn.a")?;
    if release {
        strip(&library)?;
    }
    let lib = tree.root().join("lib");
    for (part, symbols) in parts::of(api)? {
        let stem = part.split(".so").next().unwrap_or(&part);
        let real = format!("{stem}.so.{version}");
        let file = tree.place(&format!("lib/{real}"))?;
        parts::link(api, &part, &symbols, &lib, &file)?;
        set_mode(&file, EXECUTABLE)?;
        tree.link(&real, &format!("lib/{part}"))?;
        tree.link(&part, &format!("lib/{stem}.so"))?;
    }
    let mut headers: Vec<PathBuf> =
        fs::read_dir(api.include())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    headers.sort();
    for header in headers.iter().filter(|file| file.extension().is_some_and(|end| end == "h")) {
        let name = header.file_name().and_then(|name| name.to_str()).context("a header has a name")?;
        tree.copy(header, &format!("include/{name}"), PLAIN)?;
    }
    // One text for both versions: it is above the C header, whichever that is.
    tree.copy(&shell::root().join("include/cudnn.hpp"), "include/cudnn.hpp", PLAIN)?;
    let numbers: Vec<&str> = version.split('.').collect();
    for (file, template) in TEMPLATES {
        let mut text = template.replace("@VERSION@", version);
        for (name, number) in ["@MAJOR@", "@MINOR@", "@PATCH@"].iter().zip(&numbers) {
            text = text.replace(name, number);
        }
        tree.write(&format!("lib/{file}"), &text)?;
    }
    PC_NAMES.iter().try_for_each(|name| tree.link("cudnn.pc", &format!("lib/pkgconfig/{name}")))
}

/// Takes out what only debuggers read.
fn strip(file: &Path) -> Result<()> {
    let strip = Machine::target()?.tool("strip");
    if !shell::on_path(&strip) {
        println!("{} keeps its debug information; to strip it: apt-get install binutils", file.display());
        return Ok(());
    }
    shell::run(Command::new(strip).arg("--strip-unneeded").arg(file))
}

#[cfg(test)]
mod tests {
    use super::{Api, Arguments, hint};
    use std::path::{Path, PathBuf};

    fn parse(words: &[&str]) -> anyhow::Result<Arguments> {
        Arguments::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_in_both_spellings() {
        let parsed = parse(&["--prefix", "/opt/x", "--api=8", "--debug"]).unwrap();
        assert_eq!(parsed.prefix.to_str(), Some("/opt/x"));
        assert_eq!((parsed.api, parsed.release), (Api::Eight, false));
        assert_eq!(parse(&["--prefix=/opt/x"]).unwrap().api, Api::Nine);
        for wrong in [&["--prefix"][..], &["--prefix", "/x", "--api", "7"], &["/opt/x"]] {
            assert!(parse(wrong).is_err());
        }
        for nowhere in [&[][..], &["--api", "8"]] {
            assert!(parse(nowhere).unwrap_err().to_string().contains("--prefix"));
        }
    }

    #[test]
    fn the_hint_fits_the_prefix() {
        let known = ["/usr/lib", "/usr/local/lib"].map(PathBuf::from);
        assert_eq!(hint(Path::new("/usr/local/lib"), &known), "for programs to find it: sudo ldconfig");
        let elsewhere = hint(Path::new("/opt/nn/lib"), &known);
        assert!(
            elsewhere.contains("LD_LIBRARY_PATH=/opt/nn/lib") && !elsewhere.contains("ldconfig"),
            "{elsewhere}"
        );
    }
}
