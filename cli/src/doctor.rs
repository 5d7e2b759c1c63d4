//! `cudnn-shim doctor`: this machine as the library sees it, and what a program asks of libcudnn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;
use cudnn::exec::Context;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::read::elf::{Dyn, ElfFile64};
use object::{Endianness, Object, ObjectSymbol};
use serde_json::{Value, json};

use crate::explain::say;
use crate::library::{self, Handle};
use crate::{Failure, Result};

/// Where the variables that the library reads are listed.
const BEHAVIOUR: &str = include_str!("../../docs/behaviour.md");

/// What is built and what is a stub, symbol by symbol.
const CATALOGUE: &str = include_str!("../../src/catalogue.tsv");

/// Runs the command.
pub fn run(given: &ArgMatches) -> Result<()> {
    let facts = match given.get_one::<String>("program") {
        Some(program) => of_program(program)?,
        None => of_machine()?,
    };
    if given.get_flag("json") {
        return say(&format!("{facts:#}\n"));
    }
    let mut text = String::new();
    for (name, value) in facts.as_object().into_iter().flatten() {
        let name = name.replace('_', " ");
        match value {
            Value::Array(values) if values.is_empty() => text += &format!("{name:<20}none\n"),
            Value::Array(values) => {
                for (k, value) in values.iter().enumerate() {
                    text += &format!("{:<20}{}\n", if k == 0 { &name } else { "" }, shown(value));
                }
            }
            value => text += &format!("{name:<20}{}\n", shown(value)),
        }
    }
    say(&text)
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The names of environment variables in a text.
fn variables(text: &str) -> BTreeSet<&str> {
    let in_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !in_name(c))
        .filter(|word| word.starts_with("CUDNN_SHIM_") || word.starts_with("CUDNN_LOG"))
        .collect()
}

fn of_machine() -> Result<Value> {
    // The table of the section alone: elsewhere macros are named that programs define.
    let table = BEHAVIOUR
        .split("\n## Environment")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap_or_default();
    let known = variables(table);
    let (mut read, mut ignored) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if known.contains(name.as_str()) {
            read.push(format!("{name}={}", value.to_string_lossy()));
        } else if name.starts_with("CUDNN_") {
            ignored.push(format!("{name}: not read by this library"));
        }
    }
    read.sort();
    ignored.sort();
    // What a new handle would get, or why there would be none.
    let (core, name, threads) = match (Context::create(), Handle::new()) {
        (Ok(context), Ok(handle)) => (context.core_name(), handle.core()?, handle.threads()?),
        (Err(error), _) => (format!("cudnnCreate fails: {error}"), "none".to_owned(), 0),
        (_, Err(Failure(error))) => (format!("cudnnCreate fails: {error}"), "none".to_owned(), 0),
    };
    // SAFETY: a C string; the library's initialisers are those of the CUDA driver, which every program of it runs.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY) };
    Ok(json!({
        "version": library::version(),
        "stands_for": format!("libcudnn.so.{}", library::version() / 10_000),
        "core": name,
        "core_details": core,
        "cuda_driver": if driver.is_null() { "libcuda.so.1 is not found" } else { "libcuda.so.1 is found" },
        "processor": processor(),
        "threads": threads,
        "environment_read": read,
        "environment_ignored": ignored,
    }))
}

/// What the processor has of that which the library uses.
fn processor() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let asked = [
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
            ("f16c", std::arch::is_x86_feature_detected!("f16c")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx512bw", std::arch::is_x86_feature_detected!("avx512bw")),
            ("avx512vl", std::arch::is_x86_feature_detected!("avx512vl")),
        ];
        found.extend(asked.into_iter().filter(|(_, there)| *there).map(|(name, _)| name));
    }
    found
}

/// What an ELF file says of the libraries that it needs.
struct Elf {
    needed: Vec<String>,
    /// Folders of RPATH or RUNPATH.
    path: Vec<String>,
    /// Whether these come before LD_LIBRARY_PATH.
    first: bool,
    /// Names that others have to define, and names that it defines.
    imports: BTreeSet<String>,
    exports: BTreeSet<String>,
}

impl Elf {
    fn read(path: &Path) -> Result<Elf> {
        let of_file = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        if path.is_dir() {
            return Err(of_file(&"a directory, not a program"));
        }
        let file = fs::File::open(path)
            .map_err(|error| of_file(&error.to_string().split(" (os").next().unwrap_or_default()))?;
        if file.metadata().is_ok_and(|facts| facts.len() == 0) {
            return Err(of_file(&"the file is empty"));
        }
        // SAFETY: who changes a file while it is read gets what he reads; the parser trusts nothing.
        let data = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| of_file(&error))?;
        if !data.starts_with(b"\x7fELF") {
            return Err(of_file(&"no ELF program or library"));
        }
        let elf = ElfFile64::<Endianness>::parse(&*data).map_err(|error| of_file(&error))?;
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        let (mut needed, mut path_list, mut first) = (Vec::new(), Vec::new(), false);
        if let Some((entries, index)) = sections.dynamic(endian, &*data).map_err(|error| of_file(&error))? {
            let strings = sections.strings(endian, &*data, index).map_err(|error| of_file(&error))?;
            for entry in entries {
                let text =
                    || entry.string(endian, strings).map(|text| String::from_utf8_lossy(text).into_owned());
                match entry.tag32(endian) {
                    Some(DT_NEEDED) => needed.extend(text().ok()),
                    Some(tag @ (DT_RPATH | DT_RUNPATH)) => {
                        first = tag == DT_RPATH;
                        path_list = text().unwrap_or_default().split(':').map(str::to_owned).collect();
                    }
                    _ => {}
                }
            }
        }
        let (mut imports, mut exports) = (BTreeSet::new(), BTreeSet::new());
        for symbol in elf.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            if name.starts_with("cudnn") {
                if symbol.is_undefined() { &mut imports } else { &mut exports }.insert(name.to_owned());
            }
        }
        Ok(Elf { needed, path: path_list, first, imports, exports })
    }

    /// The file that the loader would take for `soname`: as its manual describes, but for folders of hardware levels.
    fn resolve(&self, program: &Path, soname: &str) -> Option<PathBuf> {
        let origin = fs::canonicalize(program).ok()?.parent()?.to_string_lossy().into_owned();
        let own = self.path.iter().map(|dir| dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin));
        let environment = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let environment = environment.split([':', ';']).filter(|dir| !dir.is_empty()).map(str::to_owned);
        let folders: Vec<String> =
            if self.first { own.chain(environment).collect() } else { environment.chain(own).collect() };
        let mut files = folders.into_iter().map(|dir| Path::new(&dir).join(soname));
        files.find(|file| file.exists()).or_else(|| cached(soname)).or_else(|| {
            let system = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(|dir| Path::new(dir).join(soname));
            system.into_iter().find(|file| file.exists())
        })
    }
}

/// What the loader's cache has for `soname`.
fn cached(soname: &str) -> Option<PathBuf> {
    let list = ["ldconfig", "/sbin/ldconfig"]
        .into_iter()
        .find_map(|ldconfig| Command::new(ldconfig).arg("-p").output().ok())?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let line = list.lines().find(|line| line.trim_start().starts_with(&format!("{soname} ")))?;
    line.split(" => ").nth(1).map(PathBuf::from)
}

/// Whether each symbol of the interface is built.
fn built() -> BTreeMap<&'static str, bool> {
    let rows = CATALOGUE.lines().skip(1).filter_map(|line| line.split_once('\t'));
    rows.map(|(name, rest)| (name, rest != "stub")).collect()
}

fn of_program(program: &str) -> Result<Value> {
    let path = Path::new(program);
    let elf = Elf::read(path)?;
    let built = built();
    let asked: Vec<&str> =
        elf.needed.iter().filter(|name| name.starts_with("libcudnn")).map(String::as_str).collect();
    let mut found = Vec::new();
    for soname in &asked {
        found.push(match elf.resolve(path, soname) {
            None => format!("{soname}: not found; the program will not start"),
            Some(file) => {
                let ours = Elf::read(&file).is_ok_and(|elf| elf.exports.contains("cudnnShimGetCore"));
                let part = !soname.starts_with("libcudnn.so");
                let whose = if part {
                    "a part"
                } else if ours {
                    "cudnn-shim"
                } else {
                    "not cudnn-shim"
                };
                format!("{soname} => {} ({whose})", file.display())
            }
        });
    }
    let state = |name: &str| match built.get(name) {
        Some(true) => "built",
        Some(false) => "stub: NOT_SUPPORTED",
        None => "missing: the program will not start",
    };
    let wanting: Vec<String> = elf
        .imports
        .iter()
        .filter(|name| state(name) != "built")
        .map(|name| format!("{name}: {}", state(name)))
        .collect();
    let major =
        asked.iter().find_map(|name| name.split(".so.").nth(1)?.split('.').next()?.parse::<usize>().ok());
    let version = match major {
        Some(8) => 8907,
        _ => library::version(),
    };
    let check = if elf.imports.contains("cudnnGetVersion") {
        format!("cudnnGetVersion answers {version}; CUDNN_SHIM_VERSION changes that")
    } else {
        "asks for no version".to_owned()
    };
    let advice = match major {
        None if elf.imports.is_empty() => "asks for no libcudnn; it may still load one itself (dlopen)",
        Some(8) => "asks for version 8: cargo xtask install --api 8 makes libcudnn.so.8",
        None | Some(9) => "cargo xtask install makes the libcudnn.so.9 that serves it",
        Some(_) => "asks for a version that there is none of here; 8 and 9 are",
    };
    Ok(json!({
        "program": program,
        "asks_for": asked,
        "would_load": found,
        "symbols": elf.imports.len(),
        "symbols_wanting": wanting,
        "version_check": check,
        "advice": advice,
    }))
}
