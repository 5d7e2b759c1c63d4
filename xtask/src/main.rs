//! Maintainers' tasks: `cargo xtask <task>`. Each task is one module; [`TASKS`] lists them.

mod api;
mod archive;
mod bench;
mod demo;
mod dist;
mod fuzz;
mod header;
mod install;
mod manifest;
mod matrix;
mod parts;
mod ptx;
mod shell;
#[path = "../../build/ptx.rs"]
mod split;
mod tables;
mod test;
mod tools;
mod tree;

use std::process::ExitCode;

/// One thing `cargo xtask` can do.
struct Task {
    name: &'static str,
    about: &'static str,
    /// Gets the arguments behind the task's name.
    run: fn(&[String]) -> anyhow::Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "bench",
        about: "times calls, transforms and arithmetic beside copies, and beside PyTorch, oneDNN and NumPy if installed",
        run: bench::run,
    },
    Task {
        name: "demo",
        about: "from plain C: sends a photograph through layouts and back, and trains a network on handwritten digits",
        run: demo::run,
    },
    Task { name: "dist", about: "builds the library and lays out target/dist/{lib,include}", run: dist::run },
    Task {
        name: "fuzz",
        about: "checks random transforms against the reference, for a minute or as many SECONDS as are given",
        run: fuzz::run,
    },
    Task { name: "header", about: "writes include/{,v8/}cudnn.h; --check only compares", run: header::run },
    Task {
        name: "install",
        about: "puts it all below --prefix DIR (and DESTDIR); --api 8 for version 8",
        run: install::run,
    },
    Task { name: "matrix", about: "writes MATRIX.md; --check only compares", run: matrix::run },
    Task {
        name: "ptx",
        about: "compiles the CUDA kernels to PTX, all or each FAMILY that is named; --check only compares",
        run: ptx::run,
    },
    Task {
        name: "uninstall",
        about: "removes what install put below --prefix DIR, by its list; --api 8 for version 8",
        run: install::uninstall,
    },
    Task {
        name: "test",
        about: "runs every test there is and sums them up; --quick: those that take little time",
        run: test::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map(String::as_str).unwrap_or_default();
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        if !matches!(name, "" | "help" | "-h" | "--help") {
            eprintln!("there is no task `{name}`\n");
        }
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    match (task.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ncargo xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let width = TASKS.iter().map(|task| task.name.len()).max().unwrap_or(0);
    let rows = TASKS.iter().map(|task| format!("  {:width$}  {}\n", task.name, task.about));
    format!("usage: cargo xtask <task>\n\n{}", rows.collect::<String>())
}
