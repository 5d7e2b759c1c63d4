//! `cudnn-shim`: sees tensor layouts, transforms arrays and images between them, and says which
//! libcudnn a program gets.
//!
//! ```text
//!  arguments.rs  the command line
//!  explain.rs    what strides and names mean: facts, terminal, JSON
//!  figure.rs     which elements a picture shows; the picture in the terminal
//!  svg.rs        the picture as SVG
//!  source.rs     what is read: mapped files, decoded pictures
//!  transform.rs  from file to file: reads, plans the tiles, writes
//!  tiles.rs      a transform in pieces that keep little of either file in memory
//!  npy.rs        .npy headers
//!  pixels.rs     PNG, JPEG and PPM
//!  library.rs    the library's C interface, as far as it is used here; functions.rs loads it
//!  memory.rs     what happens where no memory is left
//!  place.rs      where the library is that programs are given
//!  elf.rs        what an ELF file says of itself
//!  program.rs    what becomes of a program; python.rs what Python brings
//!  run.rs        a program on the CPU core
//!  doctor.rs     this machine, and what becomes of a program
//! ```
//! Whatever is wrong with the input is one line on the error stream and exit status 2. `run` ends
//! as the program does that it runs, and the exit status of `doctor PROGRAM` is its verdict.

mod arguments;
mod changes;
mod doctor;
mod elf;
mod explain;
mod figure;
mod functions;
mod library;
mod memory;
mod npy;
mod pixels;
mod place;
mod program;
mod python;
mod run;
mod source;
mod svg;
mod tiles;
mod transform;

use std::fmt;
use std::process::ExitCode;

/// What is wrong with the input, in one line.
#[derive(Debug)]
pub struct Failure(String);

/// The outcome of every command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this text; line breaks become spaces.
    pub fn new(text: impl fmt::Display) -> Failure {
        Failure(text.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl From<cudnn::Error> for Failure {
    fn from(error: cudnn::Error) -> Failure {
        Failure::new(error)
    }
}

fn main() -> ExitCode {
    memory::thread_runs();
    // A reader that goes away ends the program quietly, as it ends other tools.
    // SAFETY: no other thread runs yet, and the default action has no preconditions.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let matches = match arguments::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return misread(&error),
    };
    let outcome = match matches.subcommand() {
        Some(("doctor", given)) => doctor::run(given),
        Some(("explain", given)) => explain::run(given).map(|()| ExitCode::SUCCESS),
        Some(("transform", given)) => transform::run(given).map(|()| ExitCode::SUCCESS),
        Some(("run", given)) => run::run(given).map(|()| ExitCode::SUCCESS),
        Some(("completions", given)) => arguments::completions(given).map(|()| ExitCode::SUCCESS),
        Some(("man", given)) => arguments::man(given).map(|()| ExitCode::SUCCESS),
        _ => Err(Failure::new("no command")),
    };
    match outcome {
        Ok(status) => status,
        Err(Failure(text)) => {
            eprintln!("cudnn-shim: {text}");
            ExitCode::from(2)
        }
    }
}

/// What is wrong with the command line, in one line like everything else; help and version as they
/// are.
fn misread(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if asked {
        error.exit();
    }
    if let Some(sentence) = arguments::mistaken(error) {
        eprintln!("cudnn-shim: {sentence}");
        return ExitCode::from(2);
    }
    let text = error.to_string();
    // Behind the first words there are the usage, and where to find more.
    let text = text.split("\nUsage:").next().unwrap_or_default().split("\nFor more information").next();
    let Failure(line) = Failure::new(text.unwrap_or_default());
    eprintln!("cudnn-shim: {}", line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(2)
}
