//! `cargo xtask install` and `uninstall`: libraries, headers and what build systems look for, below a prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::api::Api;
use crate::{archive, parts, shell};

/// The files that build systems read: where they go below `lib`, and their text.
const TEMPLATES: [(&str, &str); 3] = [
    ("pkgconfig/cudnn.pc", include_str!("../templates/cudnn.pc.in")),
    ("cmake/CUDNN/CUDNNConfig.cmake", include_str!("../templates/CUDNNConfig.cmake.in")),
    ("cmake/CUDNN/CUDNNConfigVersion.cmake", include_str!("../templates/CUDNNConfigVersion.cmake.in")),
];

/// Other spellings of the package that projects ask pkg-config for.
const PC_NAMES: [&str; 2] = ["CUDNN.pc", "cuDNN.pc"];

/// What the user asks for.
struct Arguments {
    prefix: PathBuf,
    api: Api,
    release: bool,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Arguments> {
        let mut parsed = Arguments { prefix: PathBuf::from("/usr/local"), api: Api::Nine, release: true };
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
                "--prefix" => parsed.prefix = std::path::absolute(value()?)?,
                "--api" => parsed.api = Api::parse(value()?)?,
                "--debug" => parsed.release = false,
                _ => bail!("the arguments are --prefix DIR, --api 8|9 and --debug, not {argument}"),
            }
        }
        Ok(parsed)
    }

    /// Where the files are written: below DESTDIR, if packagers set it.
    fn tree(&self) -> Tree {
        let destdir = std::env::var_os("DESTDIR").filter(|dir| !dir.is_empty());
        let root = match destdir {
            Some(dir) => Path::new(&dir).join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix)),
            None => self.prefix.clone(),
        };
        Tree { root, files: Vec::new() }
    }

    fn manifest(&self) -> String {
        format!("lib/cudnn-shim/install_manifest_v{}.txt", self.api.major())
    }
}

pub fn run(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::parse(arguments)?;
    let mut tree = arguments.tree();
    lay_out(&mut tree, arguments.api, arguments.release)?;
    // The list names the files where they will be used, and itself last.
    let manifest = arguments.manifest();
    let files = tree.files.iter().chain([&manifest]);
    let list: String = files.map(|file| format!("{}\n", arguments.prefix.join(file).display())).collect();
    tree.write(&manifest, &list)?;
    println!("{} files in {}; list: {manifest}", tree.files.len(), tree.root.display());
    Ok(())
}

/// Removes what the list of an installation names, and the folders that hold nothing else.
pub fn uninstall(arguments: &[String]) -> Result<()> {
    let arguments = Arguments::parse(arguments)?;
    let root = arguments.tree().root;
    let manifest = root.join(arguments.manifest());
    let list = fs::read_to_string(&manifest)
        .with_context(|| format!("nothing to remove: cannot read {}", manifest.display()))?;
    for file in list.lines() {
        let file = root.join(Path::new(file).strip_prefix(&arguments.prefix)?);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
        // Fails for a folder that holds something, which then stays.
        let folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(&root));
        let _ = folders.map(fs::remove_dir).take_while(Result::is_ok).count();
    }
    Ok(())
}

/// The files below a folder, and which of them we have put there.
pub struct Tree {
    root: PathBuf,
    /// Relative to the root.
    files: Vec<String>,
}

impl Tree {
    /// An installation below `root`.
    pub fn new(root: PathBuf) -> Tree {
        Tree { root, files: Vec::new() }
    }

    /// Where `file` goes; whatever is there is removed, for a library that is in use must not be overwritten.
    fn place(&mut self, file: &str) -> Result<PathBuf> {
        let path = self.root.join(file);
        let folder = path.parent().context("a file lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        self.files.push(file.to_owned());
        Ok(path)
    }

    fn write(&mut self, file: &str, text: &str) -> Result<()> {
        let path = self.place(file)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn copy(&mut self, from: &Path, file: &str) -> Result<PathBuf> {
        let path = self.place(file)?;
        fs::copy(from, &path)
            .with_context(|| format!("cannot copy {} to {}", from.display(), path.display()))?;
        Ok(path)
    }

    /// A link to `name`, which lies in the same folder.
    fn link(&mut self, name: &str, file: &str) -> Result<()> {
        let path = self.place(file)?;
        #[cfg(unix)]
        std::os::unix::fs::symlink(name, &path).with_context(|| format!("cannot link {}", path.display()))?;
        #[cfg(not(unix))]
        fs::copy(path.with_file_name(name), &path)?;
        Ok(())
    }
}

/// Builds the library and puts all of its files into the tree.
pub fn lay_out(tree: &mut Tree, api: Api, release: bool) -> Result<()> {
    let built = api.build(release)?;
    let (soname, version) = (api.soname(), api.version());
    let real = format!("libcudnn.so.{version}");
    let library = tree.copy(&built.shared, &format!("lib/{real}"))?;
    tree.link(&real, &format!("lib/{soname}"))?;
    tree.link(&soname, "lib/libcudnn.so")?;
    let archive = tree.place("lib/libcudnn_static.a")?;
    archive::make(api, &built.archive, &archive, release)?;
    if release {
        strip(&library)?;
    }
    let lib = tree.root.join("lib");
    for (part, symbols) in parts::of(api)? {
        let stem = part.split(".so").next().unwrap_or(&part);
        let real = format!("{stem}.so.{version}");
        let file = tree.place(&format!("lib/{real}"))?;
        parts::link(api, &part, &symbols, &lib, &file)?;
        tree.link(&real, &format!("lib/{part}"))?;
        tree.link(&part, &format!("lib/{stem}.so"))?;
    }
    let mut headers: Vec<PathBuf> =
        fs::read_dir(api.include())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    headers.sort();
    for header in headers.iter().filter(|file| file.extension().is_some_and(|end| end == "h")) {
        let name = header.file_name().and_then(|name| name.to_str()).context("a header has a name")?;
        tree.copy(header, &format!("include/{name}"))?;
    }
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
    if !shell::on_path("strip") {
        println!("{} keeps its debug information; to strip it: apt-get install binutils", file.display());
        return Ok(());
    }
    shell::run(Command::new("strip").arg("--strip-unneeded").arg(file))
}

#[cfg(test)]
mod tests {
    use super::{Api, Arguments};

    fn parse(words: &[&str]) -> anyhow::Result<Arguments> {
        Arguments::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_in_both_spellings() {
        let parsed = parse(&["--prefix", "/opt/x", "--api=8", "--debug"]).unwrap();
        assert_eq!(parsed.prefix.to_str(), Some("/opt/x"));
        assert_eq!((parsed.api, parsed.release), (Api::Eight, false));
        assert_eq!(parsed.manifest(), "lib/cudnn-shim/install_manifest_v8.txt");
        assert_eq!(parse(&["--prefix=/opt/x"]).unwrap().api, Api::Nine);
        for wrong in [&["--prefix"][..], &["--api", "7"], &["/opt/x"]] {
            assert!(parse(wrong).is_err());
        }
    }
}
