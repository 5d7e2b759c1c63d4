//! `cudnn-shim run`: a program, with the library and the stand-ins for CUDA's libraries in its
//! path, on the CPU core; or with the original beside the library, on a GPU.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;
use cudnn::original::{self, Asked};

use crate::place::Place;
use crate::program::{self, Weight};
use crate::{Failure, Result, arguments};

/// The interface that the original has to have.
const MAJOR: i32 = 9;

/// The loader's path: what it has to find first, and behind it what the environment names.
fn path(folders: &[PathBuf]) -> Result<OsString> {
    let given = std::env::var_os("LD_LIBRARY_PATH").filter(|given| !given.is_empty());
    let mut path = OsString::new();
    for folder in folders {
        if folder.to_string_lossy().contains([':', ';']) {
            let text =
                format!("{}: the loader's path holds no folder with a colon or semicolon", folder.display());
            return Err(Failure::new(text));
        }
        if !path.is_empty() {
            path.push(":");
        }
        path.push(folder);
    }
    if let Some(given) = given {
        path.push(":");
        path.push(given);
    }
    Ok(path)
}

/// What is said of a program whose name looks like an option: it is taken for the program, as what
/// is behind that is its own.
fn unknown_option(name: &Path) -> Option<String> {
    let text = name.to_str().filter(|text| text.starts_with('-'))?;
    Some(arguments::unknown("run", text.split('=').next().unwrap_or(text)))
}

/// Runs the command: says what stands against it, and becomes the program. Returns only if that
/// cannot be.
///
/// # Errors
/// No such program; no library; what the system says of starting it.
pub fn run(given: &ArgMatches) -> Result<()> {
    let mut words = given.get_many::<OsString>("command").into_iter().flatten();
    let name = words.next().map(Path::new).unwrap_or(Path::new(""));
    let found = program::find(name).map_err(|failure| match unknown_option(name) {
        Some(sentence) => Failure::new(sentence),
        None => failure,
    })?;
    let place = Place::find(given.get_one::<String>("lib").map(String::as_str))?;
    if let Some(original) = given.get_one::<OsString>("original") {
        return beside(original, &found, name, words, &place);
    }
    match program::examine(&found, Some(&place)) {
        Ok(examined) => {
            for reason in examined.reasons.iter().filter(|reason| reason.weight <= Weight::Stop) {
                eprintln!("cudnn-shim run: {}", reason.sentence());
            }
        }
        // Whoever cannot be looked at may still run.
        Err(Failure(text)) => eprintln!("cudnn-shim run: {text}"),
    }
    let mut command = Command::new(&found);
    let path = path(&place.folders())?;
    command.arg0(name).args(words).env("LD_LIBRARY_PATH", path).env("CUDNN_SHIM_BACKEND", "cpu");
    if given.get_flag("check") {
        command.env("CUDNN_SHIM_HOST_CHECK", "1");
    }
    if let Some(threads) = given.get_one::<u32>("threads") {
        command.env("CUDNN_SHIM_NUM_THREADS", threads.to_string());
    }
    Err(become_program(command, &found))
}

/// Becomes a program on the GPU, with the original beside the library: no stand-ins.
///
/// # Errors
/// There is no original at this place; what the system says of starting the program.
fn beside<'a>(
    original: &OsStr, found: &Path, name: &Path, words: impl Iterator<Item = &'a OsString>, place: &Place,
) -> Result<()> {
    let asked = Asked::of(original.to_owned());
    if asked.files(MAJOR).iter().all(|file| !file.is_file()) {
        let text = format!("{}: no libcudnn.so.{MAJOR} is here", original.display());
        return Err(Failure::new(text));
    }
    let mut command = Command::new(found);
    command.arg0(name).args(words).env("LD_LIBRARY_PATH", path(std::slice::from_ref(&place.lib))?);
    command.env(original::VARIABLE, original);
    Err(become_program(command, found))
}

/// Returns only if the program cannot be started, with what the system says.
fn become_program(mut command: Command, found: &Path) -> Failure {
    let error = command.exec();
    let text = error.to_string();
    Failure::new(format!("{}: {}", found.display(), text.split(" (os").next().unwrap_or_default()))
}
