//! Writes, for each library, the functions that are exported and refused:
//! `$OUT_DIR/<library>_refused.rs`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// The tables in `symbols/`, a library each.
const LIBRARIES: [&str; 5] = ["cuda", "cudart", "cublas", "cublasLt", "curand"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Captures ask whether libraries find the runtime: in tests it is part of the program.
    println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=cudnnShimHostIsCapturing");
    println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=cudnnShimHostCapture");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the folder"));
    println!("cargo::rerun-if-changed=symbols/errors.tsv");
    let errors = fs::read_to_string("symbols/errors.tsv").expect("the table of errors");
    fs::write(out.join("errors.rs"), known(&errors)).expect("the output folder takes files");
    for library in LIBRARIES {
        let table = format!("symbols/{library}.tsv");
        println!("cargo::rerun-if-changed={table}");
        let text = fs::read_to_string(&table).unwrap_or_else(|error| panic!("{table}: {error}"));
        let functions = refused(&text).unwrap_or_else(|error| panic!("{table}: {error}"));
        fs::write(out.join(format!("{library}_refused.rs")), functions)
            .expect("the output folder takes files");
    }
}

/// A function for each refused row. It takes no parameters: the caller removes its own, in every
/// calling convention that Linux has.
fn refused(table: &str) -> Result<String, String> {
    let mut functions = String::new();
    let mut names = Vec::new();
    for (at, line) in table.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (symbol, detail) = match cells[..] {
            [symbol, _, "refused", reason] if !reason.is_empty() => (symbol, reason),
            [_, _, "built"] | [_, _, "built", _] => continue,
            _ => return Err(format!("line {}: neither `built` nor `refused` with a reason", at + 1)),
        };
        // Some have a row for each major version.
        if names.contains(&symbol) {
            continue;
        }
        names.push(symbol);
        writeln!(
            functions,
            "#[unsafe(no_mangle)]\nextern \"C\" fn {symbol}() -> Refusal {{\n    refuse({symbol:?}, {detail:?})\n}}"
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(functions)
}

/// The errors of the runtime by code: name, and text.
fn known(table: &str) -> String {
    let rows = table.lines().skip(1).map(|line| {
        let (code, name) = line.split_once('\t').expect("a code and a name");
        format!("    Known {{ code: {code}, name: c{name:?}, text: c{:?} }},\n", words(name))
    });
    format!("&[\n{}]\n", rows.collect::<String>())
}

/// The words of an error's name: "invalid device function" of `cudaErrorInvalidDeviceFunction`.
fn words(name: &str) -> String {
    match name {
        "cudaSuccess" => return "no error".to_owned(),
        // Everybody looks for these words.
        "cudaErrorMemoryAllocation" => return "out of memory".to_owned(),
        _ => {}
    }
    let name = name.strip_prefix("cudaError").unwrap_or(name);
    let letters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let next_is_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let after_small = at > 0 && letters[at - 1].is_lowercase();
        if at > 0 && letter.is_uppercase() && (next_is_small || after_small) {
            words.push(' ');
        }
        // Abbreviations stay as they are.
        let alone = letter.is_uppercase() && !next_is_small;
        words.push(if alone { *letter } else { letter.to_ascii_lowercase() });
    }
    words
}
