//! `cudnn-shim doctor`: this machine as the library sees it, and what becomes of a program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use cudnn::original::{self, Asked};
use serde_json::{Value, json};

use crate::elf::{self, Elf};
use crate::explain::say;
use crate::library;
use crate::place::Place;
use crate::program::{self, Weight};
use crate::{Failure, Result};

/// Where the variables are listed that the library reads, and those of the stand-ins for CUDA's
/// libraries.
const PAGES: [&str; 2] = [include_str!("../data/behaviour.md"), include_str!("../data/without-a-gpu.md")];

/// Runs the command. The exit status: 0 if a program runs, 1 if it will stop, 2 if it cannot start,
/// 3 if that cannot be told.
pub fn run(given: &ArgMatches) -> Result<ExitCode> {
    let place = Place::find(given.get_one::<String>("lib").map(String::as_str));
    let Some(name) = given.get_one::<String>("program") else {
        show(&of_machine(place)?, given.get_flag("json"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let (verdict, facts, status) = of_program(name, place.ok())?;
    if !given.get_flag("json") {
        say(&format!("{:<20}{verdict}\n", "verdict"))?;
    }
    show(&facts, given.get_flag("json"))?;
    Ok(ExitCode::from(status))
}

/// Prints facts: as JSON, or a line for each; the verdict is printed by itself.
fn show(facts: &Value, as_json: bool) -> Result<()> {
    if as_json {
        return say(&format!("{facts:#}\n"));
    }
    let mut text = String::new();
    let lines = facts.as_object().into_iter().flatten().filter(|(name, _)| !HIDDEN.contains(&name.as_str()));
    for (name, value) in lines {
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

/// What is said in other words by the lines that are printed.
const HIDDEN: [&str; 3] = ["verdict", "exit_status", "functions"];

fn shown(value: &Value) -> String {
    if let Some(sentence) = value.get("sentence").and_then(Value::as_str) {
        return sentence.to_owned();
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The environment variables in the tables of the pages: the names in the first column of what is
/// under "Environment".
pub fn variables() -> BTreeSet<&'static str> {
    let tables =
        PAGES.into_iter().filter_map(|page| page.split("\n## Environment").nth(1)?.split("\n## ").next());
    let rows = tables.flat_map(str::lines).filter_map(|line| line.strip_prefix("| `"));
    let names = |row: &'static str| row.split('|').flat_map(|cell| cell.split('`'));
    let is_name = |word: &&str| {
        word.len() > 6 && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    rows.flat_map(names).filter(is_name).collect()
}

fn of_machine(place: Result<Place>) -> Result<Value> {
    let known = variables();
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
    let version = library::version()?;
    let (core, name, threads) = match library::described() {
        Ok((core, handle)) => (core, handle.core()?, handle.threads()?),
        Err(Failure(error)) => (format!("cudnnCreate fails: {error}"), "none".to_owned(), 0),
    };
    // SAFETY: a C string; the library's initialisers are those of the CUDA driver, which every
    // program of it runs.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY) };
    Ok(json!({
        "version": version,
        "stands_for": format!("libcudnn.so.{}", if version < 10_000 { version / 1000 } else { version / 10_000 }),
        "core": name,
        "core_details": core,
        "cuda_driver": if driver.is_null() { "libcuda.so.1 is not found" } else { "libcuda.so.1 is found" },
        "original": original(),
        "processor": processor(),
        "threads": threads,
        "environment_read": read,
        "environment_ignored": ignored,
        "run_takes": match place {
            Ok(Place { lib, host_cuda: Some(_) }) => format!("{} and host-cuda in it", lib.display()),
            Ok(Place { lib, host_cuda: None }) => format!("{}; no host-cuda is there", lib.display()),
            Err(Failure(text)) => text,
        },
    }))
}

/// What the environment asks for of the original cuDNN, and what would be found.
fn original() -> String {
    let found = |asked: &Asked| asked.files(9).into_iter().find(|file| file.is_file());
    match Asked::read() {
        Asked::Off => match found(&Asked::Auto) {
            Some(file) => format!("not asked for; {}=auto would take {}", original::VARIABLE, file.display()),
            None => "not asked for, and none is found".to_owned(),
        },
        asked => match found(&asked) {
            Some(file) => format!("{} serves beside this library", file.display()),
            None => format!("{} finds no libcudnn.so.9", original::VARIABLE),
        },
    }
}

/// What the processor has of that which the library uses.
fn processor() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let asked = [
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("f16c", std::arch::is_x86_feature_detected!("f16c")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx512bw", std::arch::is_x86_feature_detected!("avx512bw")),
        ("avx512vl", std::arch::is_x86_feature_detected!("avx512vl")),
    ];
    #[cfg(target_arch = "aarch64")]
    let asked = [
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        ("dotprod", std::arch::is_aarch64_feature_detected!("dotprod")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let asked: [(&str, bool); 0] = [];
    asked.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

fn of_program(name: &str, place: Option<Place>) -> Result<(String, Value, u8)> {
    let path = program::find(Path::new(name))?;
    let examined = program::examine(&path, place.as_ref())?;
    let (verdict, weight) = (examined.verdict(), examined.weight());
    let status = match weight {
        Weight::Note => 0,
        Weight::Stop => 1,
        Weight::Start => 2,
        Weight::Unknown => 3,
    };
    let reasons: Vec<Value> = examined
        .reasons
        .iter()
        .map(|reason| {
            json!({
                "weight": reason.weight.name(),
                "about": reason.about,
                "text": reason.text,
                "advice": reason.advice,
                "functions": reason.functions,
                "sentence": reason.sentence(),
            })
        })
        .collect();
    let with_run: Vec<String> = examined
        .libraries
        .iter()
        .map(|library| match &library.file {
            None => format!("{}: not found", library.soname),
            Some(file) if library.ours => format!("{} => {} (cudnn-shim)", library.soname, file.display()),
            Some(file) => format!("{} => {} (not cudnn-shim)", library.soname, file.display()),
        })
        .collect();
    // What the loader takes if nobody helps it.
    let folders = elf::environment();
    let alone: Vec<String> = match Elf::read(&path) {
        Ok(elf) => examined
            .libraries
            .iter()
            .map(|library| {
                Ok(match elf.resolve(&path, &library.soname, &folders)? {
                    Some(file) => format!("{} => {}", library.soname, file.display()),
                    None => format!("{}: not found", library.soname),
                })
            })
            .collect::<Result<_>>()?,
        Err(_) => Vec::new(),
    };
    let version = examined.libraries.iter().find_map(|library| {
        library.soname.starts_with("libcudnn").then(|| program::major_of(&library.soname)).flatten()
    });
    let answer = if version == Some(8) { Ok(8907) } else { library::version() };
    let check = if let (Ok(answer), true) = (answer, examined.functions.contains("cudnnGetVersion")) {
        format!("cudnnGetVersion answers {answer}; CUDNN_SHIM_VERSION changes that")
    } else if examined.functions.contains("cudnnGetVersion") {
        "cudnnGetVersion is asked".to_owned()
    } else {
        "asks for no version".to_owned()
    };
    let facts = json!({
        "program": path.display().to_string(),
        "verdict": verdict,
        "exit_status": status,
        "reasons": reasons,
        "functions": examined.functions,
        "functions_asked_for": examined.functions.len(),
        "with_run": with_run,
        "without_run": alone,
        "version_check": check,
    });
    Ok((verdict, facts, status))
}
