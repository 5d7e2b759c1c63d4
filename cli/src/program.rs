//! What becomes of a program under `cudnn-shim run`: the libraries that it would get, the functions
//! that these refuse, and what else keeps it from running without a GPU.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::{self, Elf};
use crate::place::Place;
use crate::{Failure, Result, python};

/// How to find out what a program loads while it runs.
const SEE: &str = "`CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=stderr cudnn-shim run PROGRAM` shows each call that reaches this library";

/// What is built of cuDNN and what is a stub, symbol by symbol.
const CATALOGUE: &str = include_str!("../data/catalogue.tsv");

/// The same of CUDA's libraries, with the major versions that have a symbol.
const TABLES: [(&str, &str); 5] = [
    ("cuda", include_str!("../data/cuda.tsv")),
    ("cudart", include_str!("../data/cudart.tsv")),
    ("cublas", include_str!("../data/cublas.tsv")),
    ("cublasLt", include_str!("../data/cublasLt.tsv")),
    ("curand", include_str!("../data/curand.tsv")),
];

/// Libraries of CUDA for which nothing stands in, by the beginnings of their names.
const WITHOUT_STAND_IN: [&str; 8] =
    ["libcufft", "libcusolver", "libcusparse", "libnccl", "libnpp", "libnvidia-", "libnvinfer", "libnvrtc"];

/// How much a reason weighs; the heaviest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The loader does not start the program.
    Start,
    /// The program comes to an end somewhere.
    Stop,
    /// What the program does is not seen in its file.
    Unknown,
    /// Worth knowing.
    Note,
}

impl Weight {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Start => "start",
            Weight::Stop => "stop",
            Weight::Unknown => "unknown",
            Weight::Note => "note",
        }
    }
}

/// One thing about a program.
#[derive(Debug)]
pub struct Reason {
    pub weight: Weight,
    /// The library that it is about, or `program`.
    pub about: String,
    pub text: String,
    /// What to do about it.
    pub advice: String,
    /// Functions that it is about.
    pub functions: Vec<String>,
}

impl Reason {
    /// One sentence.
    pub fn sentence(&self) -> String {
        let Reason { about, text, advice, functions, .. } = self;
        let names = if functions.is_empty() { String::new() } else { format!(" {}", functions.join(", ")) };
        let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        format!("{about}: {text}{names}{advice}")
    }
}

/// A library that a program asks for, or one of its libraries.
#[derive(Debug)]
pub struct Library {
    pub soname: String,
    /// What the loader would take.
    pub file: Option<PathBuf>,
    /// Whether that is of this project.
    pub ours: bool,
}

/// What was found out about a program.
#[derive(Debug, Default)]
pub struct Examined {
    /// The heaviest first.
    pub reasons: Vec<Reason>,
    /// Libraries of cuDNN and CUDA.
    pub libraries: Vec<Library>,
    /// Functions of cuDNN and CUDA that are asked for.
    pub functions: BTreeSet<String>,
}

impl Examined {
    /// The heaviest weight.
    pub fn weight(&self) -> Weight {
        self.reasons.first().map_or(Weight::Note, |reason| reason.weight)
    }

    fn add(&mut self, weight: Weight, about: &str, text: impl Into<String>, advice: impl Into<String>) {
        let (about, text, advice) = (about.to_owned(), text.into(), advice.into());
        self.reasons.push(Reason { weight, about, text, advice, functions: Vec::new() });
    }

    /// What will happen, in one line.
    pub fn verdict(&self) -> String {
        let first = self.reasons.first();
        match (self.weight(), first) {
            (Weight::Start, Some(reason)) => format!("does not start: {}: {}", reason.about, what(reason)),
            (Weight::Stop, Some(reason)) => format!("starts, stops at: {}", what(reason)),
            (Weight::Unknown, Some(reason)) => format!("cannot tell: {}", what(reason)),
            _ => "starts and runs on the CPU with `cudnn-shim run`".to_owned(),
        }
    }
}

/// The point of a reason.
fn what(reason: &Reason) -> &str {
    reason.functions.first().unwrap_or(&reason.text)
}

/// The program that a name stands for: a file, or one of that name on `PATH`.
///
/// # Errors
/// There is none, or it is a folder.
pub fn find(name: &Path) -> Result<PathBuf> {
    let plain = name.components().count() == 1 && !name.to_string_lossy().contains('/');
    let found = if plain {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
    } else {
        Some(name.to_owned()).filter(|file| file.exists())
    };
    match found {
        None if plain && name.exists() => Err(Failure::new(format!(
            "{}: not found on PATH; a file of this folder is ./{0}",
            name.display()
        ))),
        None if plain => Err(Failure::new(format!(
            "{}: no program of this name on PATH, and no file in this folder",
            name.display()
        ))),
        None => Err(Failure::new(format!("{}: No such file or directory", name.display()))),
        Some(folder) if folder.is_dir() => {
            Err(Failure::new(format!("{}: a directory, not a program", folder.display())))
        }
        Some(file) => Ok(file),
    }
}

/// The program that a script is for, by its first line.
///
/// # Errors
/// The file cannot be read.
pub fn interpreter(script: &Path) -> Result<Option<PathBuf>> {
    let unread = |error: std::io::Error| Failure::new(format!("{}: {error}", script.display()));
    let bytes = fs::read(script).map_err(unread)?;
    let line =
        String::from_utf8_lossy(bytes.split(|&byte| byte == b'\n').next().unwrap_or_default()).into_owned();
    let Some(rest) = line.strip_prefix("#!") else { return Ok(None) };
    let mut words = rest.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    // `env` looks for the program itself; behind its options.
    let named = if first.ends_with("/env") {
        words.find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or(first)
    } else {
        first
    };
    Ok(Some(PathBuf::from(named)))
}

/// Looks at a program, and at the libraries that it brings, as they would be loaded from `place`.
///
/// # Errors
/// It cannot be read.
pub fn examine(program: &Path, place: Option<&Place>) -> Result<Examined> {
    let mut examined = found_in(program, place)?;
    // Reasons of one weight stay in the order in which they were found, which is that of their
    // meaning.
    examined.reasons.sort_by_key(|reason| reason.weight);
    Ok(examined)
}

/// As [`examine`], in the order of the search.
fn found_in(program: &Path, place: Option<&Place>) -> Result<Examined> {
    let mut examined = Examined::default();
    let mut file = program.to_owned();
    for _ in 0..4 {
        if Elf::is_one(&file) {
            break;
        }
        let Some(interpreter) = interpreter(&file)? else { break };
        let text = format!("a script for {}; what that loads later is not seen here", interpreter.display());
        examined.add(Weight::Unknown, "program", text, SEE);
        match find(&interpreter) {
            Ok(found) => file = found,
            Err(Failure(text)) => {
                examined.add(Weight::Start, "program", text, "install what the script is for");
                return Ok(examined);
            }
        }
    }
    Search { place, examined, seen: BTreeSet::new(), defined: BTreeSet::new() }.of(&file)
}

/// The search through a program and its libraries.
struct Search<'a> {
    place: Option<&'a Place>,
    examined: Examined,
    seen: BTreeSet<String>,
    /// What the program and its own libraries define of the names of CUDA.
    defined: BTreeSet<String>,
}

impl Search<'_> {
    fn of(mut self, file: &Path) -> Result<Examined> {
        let elf = Elf::read(file)?;
        if !elf.runs_here {
            self.examined.add(Weight::Start, "program", "it is for another processor", "");
            return Ok(self.examined);
        }
        let bind_now = elf.bind_now || std::env::var_os("LD_BIND_NOW").is_some_and(|value| !value.is_empty());
        let mut folders = self.place.map(Place::folders).unwrap_or_default();
        folders.extend(elf::environment());
        let mut queue = vec![(file.to_owned(), elf)];
        while let Some((at, elf)) = queue.pop() {
            self.contents(&at, &elf, at == file);
            for soname in &elf.needed {
                if !self.seen.insert(soname.clone()) {
                    continue;
                }
                let found = elf.resolve(&at, soname, &folders)?;
                let read = found.as_ref().and_then(|file| Elf::read(file).ok());
                if let Some(next) = self.library(&at, &elf, soname, found, read) {
                    queue.push(next);
                }
            }
        }
        self.functions(bind_now);
        if let Some(torch) = python::torch(file) {
            self.examined.add(Weight::Unknown, "program", torch.text(), torch.advice());
        }
        if self.examined.libraries.is_empty() {
            let text = "asks for no libcudnn and no library of CUDA; it may still load one itself (dlopen)";
            self.examined.add(Weight::Unknown, "program", text, SEE);
        }
        Ok(self.examined)
    }

    /// What is inside a file beside its needs.
    fn contents(&mut self, at: &Path, elf: &Elf, is_program: bool) {
        let name = at.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let about = if is_program { "program" } else { name.as_str() };
        self.defined.extend(elf.exports.iter().cloned());
        self.examined.functions.extend(elf.imports.iter().cloned());
        if elf.static_runtime {
            self.examined.add(
                Weight::Stop,
                about,
                "its first call of CUDA: the runtime is linked statically, and wants a GPU's driver",
                "link it again with `nvcc -cudart shared`, or with the libcudart_static.a of host-cuda",
            );
        }
        if elf.device_code && elf.launches {
            self.examined.add(
                Weight::Stop,
                about,
                "the first kernel of its own: it brings code for GPUs (.nv_fatbin), which no CPU runs",
                "build it without its kernels, or with a path for the CPU",
            );
        } else if elf.device_code {
            let text = if elf.static_runtime && !elf.has_names {
                "brings code for GPUs (.nv_fatbin); whether it launches any is not seen, for its names are stripped"
            } else {
                "brings code for GPUs (.nv_fatbin), and launches none of it"
            };
            self.examined.add(Weight::Note, about, text, "");
        }
    }

    /// Judges a library that the file at `at` asks for; what to look into next.
    fn library(
        &mut self, at: &Path, elf: &Elf, soname: &str, found: Option<PathBuf>, read: Option<Elf>,
    ) -> Option<(PathBuf, Elf)> {
        let is_cudnn = soname.starts_with("libcudnn");
        let is_stood_in = is_cudnn || family_of(soname).is_some();
        let folders = self.place.map(Place::folders).unwrap_or_default();
        let is_ours = found.as_ref().is_some_and(|file| folders.iter().any(|dir| file.starts_with(dir)));
        let Some(file) = found else {
            let advice = self.missing(soname, is_stood_in);
            self.examined.add(Weight::Start, soname, "not found", advice);
            if is_stood_in {
                self.examined.libraries.push(Library { soname: soname.to_owned(), file: None, ours: false });
            }
            return None;
        };
        if is_stood_in {
            if !is_ours && elf.path_first && self.place.is_some() {
                self.examined.add(
                    Weight::Stop,
                    soname,
                    format!("{}, which the RPATH of {} puts before all others", file.display(), at.display()),
                    format!("`patchelf --remove-rpath {}` lets it find the one here", at.display()),
                );
            }
            let ours = is_ours || read.is_some_and(|elf| elf.exports.contains("cudnnShimGetCore"));
            self.examined.libraries.push(Library { soname: soname.to_owned(), file: Some(file), ours });
            return None;
        }
        // What is of this project calls nothing that it has not.
        read.filter(|_| !is_ours).map(|elf| (file, elf))
    }

    /// What to do about a library that nobody has.
    fn missing(&self, soname: &str, is_stood_in: bool) -> String {
        if WITHOUT_STAND_IN.iter().any(|start| soname.starts_with(start)) {
            return "nothing stands in for it here; build the program without it".to_owned();
        }
        if soname.starts_with("libcudnn") {
            return match major_of(soname) {
                Some(8) => "cargo xtask install --api 8 --prefix DIR makes version 8".to_owned(),
                Some(9) => "cargo xtask dist makes it; --lib DIR names the folder of one that is elsewhere"
                    .to_owned(),
                _ => "of cuDNN there are the versions 8 and 9 here".to_owned(),
            };
        }
        match self.place {
            Some(Place { lib, host_cuda: None }) if is_stood_in => {
                format!(
                    "there is no host-cuda in {}, which would hold it; cargo xtask dist makes it",
                    lib.display()
                )
            }
            None if is_stood_in => "cargo xtask dist makes what stands in for it".to_owned(),
            _ if is_stood_in => "host-cuda has other versions of it".to_owned(),
            _ => "install it".to_owned(),
        }
    }

    /// Judges the functions that are asked for.
    fn functions(&mut self, bind_now: bool) {
        let catalogue: BTreeMap<&str, &str> =
            CATALOGUE.lines().skip(1).filter_map(|line| line.split_once('\t')).collect();
        let wanted: Vec<String> = self.examined.functions.difference(&self.defined).cloned().collect();
        let mut of = |family: &str, state: &mut dyn FnMut(&str, u32) -> State| {
            let library = self.examined.libraries.iter().find(|library| match family {
                "cudnn" => library.soname.starts_with("libcudnn"),
                _ => family_of(&library.soname) == Some(family),
            });
            let Some(library) = library.filter(|library| library.ours) else { return };
            let (soname, major) = (library.soname.clone(), major_of(&library.soname).unwrap_or(0));
            let mut missing = Vec::new();
            let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for name in wanted.iter().filter(|name| library_of(name) == family) {
                match state(name, major) {
                    State::Built => {}
                    State::Refused(why) => refused.entry(why).or_default().push(name.clone()),
                    State::Missing => missing.push(name.clone()),
                }
            }
            let mut add = |weight, text: String, advice: &str, functions| {
                let (about, advice) = (soname.clone(), advice.to_owned());
                self.examined.reasons.push(Reason { weight, about, text, advice, functions });
            };
            if !missing.is_empty() {
                let weight = if bind_now { Weight::Start } else { Weight::Stop };
                add(weight, "has no".to_owned(), "", missing);
            }
            for (why, functions) in refused {
                let text = format!("answers NOT_SUPPORTED ({why}):");
                add(Weight::Stop, text, "", functions);
            }
        };
        for (family, table) in TABLES {
            // A symbol may have a row for each set of major versions.
            let mut rows: BTreeMap<&str, Vec<[&str; 3]>> = BTreeMap::new();
            for line in table.lines().skip(1) {
                let mut cells = line.split('\t');
                let mut cell = || cells.next().unwrap_or_default();
                rows.entry(cell()).or_default().push([cell(), cell(), cell()]);
            }
            of(family, &mut |name, major| {
                let is_of =
                    |[majors, ..]: &&[&str; 3]| majors.split(' ').any(|known| known == major.to_string());
                match rows.get(name).and_then(|rows| rows.iter().find(is_of)) {
                    Some([_, "refused", why]) => State::Refused((*why).to_owned()),
                    Some(_) => State::Built,
                    None => State::Missing,
                }
            });
        }
        of("cudnn", &mut |name, _| match catalogue.get(name) {
            Some(&"stub") => State::Refused("a stub".to_owned()),
            Some(_) => State::Built,
            None => State::Missing,
        });
    }
}

enum State {
    Built,
    Refused(String),
    Missing,
}

/// The table of a library of CUDA for which something stands in.
fn family_of(soname: &str) -> Option<&'static str> {
    let stem = soname.strip_prefix("lib")?.split(".so").next()?;
    TABLES.iter().map(|(family, _)| *family).find(|family| *family == stem)
}

/// The library that a function is of, by its name.
fn library_of(function: &str) -> &'static str {
    if elf::is_of_driver(function) {
        return "cuda";
    }
    let starts = [("cudnn", "cudnn"), ("cublasLt", "cublasLt"), ("cublas", "cublas"), ("curand", "curand")];
    starts.iter().find(|(start, _)| function.starts_with(start)).map_or("cudart", |(_, library)| library)
}

/// The major version behind `.so.`.
pub fn major_of(soname: &str) -> Option<u32> {
    soname.split(".so.").nth(1)?.split('.').next()?.parse().ok()
}
