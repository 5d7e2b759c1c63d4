//! `cudnn-shim`: sees tensor layouts, transforms arrays and images between them, and says which libcudnn a program gets.
//!
//! ```text
//!  arguments.rs  the command line
//!  explain.rs    what strides and names mean: facts, terminal, JSON
//!  figure.rs     which elements a picture shows; the picture in the terminal
//!  svg.rs        the picture as SVG
//!  transform.rs  from file to file: reads, plans the tiles, writes
//!  tiles.rs      a transform in pieces that keep little of either file in memory
//!  npy.rs        .npy headers
//!  pixels.rs     PNG, JPEG and PPM
//!  library.rs    the library's C interface, as far as it is used here
//!  doctor.rs     this machine, and what a program asks of libcudnn
//! ```
//! Whatever is wrong with the input is one line on the error stream and exit status 2.

mod arguments;
mod changes;
mod doctor;
mod explain;
mod figure;
mod library;
mod npy;
mod pixels;
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
    // A reader that goes away ends the program quietly, as it ends other tools.
    // SAFETY: no other thread runs yet, and the default action has no preconditions.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let matches = arguments::command().get_matches();
    let outcome = match matches.subcommand() {
        Some(("explain", given)) => explain::run(given),
        Some(("transform", given)) => transform::run(given),
        Some(("doctor", given)) => doctor::run(given),
        Some(("completions", given)) => arguments::completions(given),
        Some(("man", _)) => arguments::man(),
        _ => Err(Failure::new("no command")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            eprintln!("cudnn-shim: {text}");
            ExitCode::from(2)
        }
    }
}
