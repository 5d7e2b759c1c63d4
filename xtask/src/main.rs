//! Maintainers' tasks: `cargo xtask <task>`. Each task is one module; [`TASKS`] lists them.

mod api;
mod archive;
mod bench;
mod cubins;
mod demo;
mod dependencies;
mod dist;
mod docs;
mod examples;
mod frontend;
mod fuzz;
mod gpu_kit;
mod gpu_model;
mod header;
mod host_cuda;
mod install;
mod kernels;
mod locate;
mod machine;
mod manifest;
mod matrix;
mod mutants;
#[path = "../../build/cubins.rs"]
mod pack;
mod package;
mod parts;
mod prove;
mod ptx;
mod routes;
mod sanitize;
mod shell;
#[path = "../../build/ptx.rs"]
mod split;
mod tables;
mod test;
mod tool;
mod tools;
mod tree;

use std::process::ExitCode;

/// One thing `cargo xtask` can do.
struct Task {
    name: &'static str,
    about: &'static str,
    /// What may follow its name, and what that means; empty if nothing may.
    arguments: &'static str,
    /// Gets the arguments behind the task's name.
    run: fn(&[String]) -> anyhow::Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "bench",
        about: "times calls, transforms, arithmetic, layers and contractions against copies, and against PyTorch, oneDNN \
                and NumPy if installed",
        arguments: "[NAME]...   only these rows of the transforms and of the steps",
        run: bench::run,
    },
    Task {
        name: "cubins",
        about: "assembles the CUDA kernels for the architectures that a release has machine code for",
        arguments: cubins::ARGUMENTS,
        run: cubins::run,
    },
    Task {
        name: "demo",
        about: "from plain C: sends a photograph through layouts and back, and trains a network on handwritten digits",
        arguments: "",
        run: demo::run,
    },
    Task {
        name: "dist",
        about: "builds the library and lays out target/dist/{lib,include}",
        arguments: dist::ARGUMENTS,
        run: dist::run,
    },
    Task {
        name: "docs",
        about: "makes the site of docs/ in target/book/html",
        arguments: "",
        run: docs::run,
    },
    Task {
        name: "fuzz",
        about: "checks random variations of every kind of step, random problems and random calls, for a minute or as many \
                SECONDS as are given",
        arguments: "[SECONDS]      how long, 60 if not given
--again LINE   only the problem or the calls of a line that a run has shown",
        run: fuzz::run,
    },
    Task {
        name: "gpu-kit",
        about: "lays out what a machine with a GPU but no compiler needs to test and time the CUDA core",
        arguments: "[DIR [--of LIBRARY TESTS DOUBLE]]   the folder to write, target/gpu-kit if not given; --of: of what tests have built",
        run: gpu_kit::run,
    },
    Task {
        name: "gpu-model",
        about: "tells how long rows of a device's tables would take, and what binds them, by what the driver double counts",
        arguments: gpu_model::ARGUMENTS,
        run: gpu_model::run,
    },
    Task {
        name: "header",
        about: "writes include/{,v8/}cudnn.h; --check only compares",
        arguments: "[--check]   writes nothing, and fails if the headers are not what the sources make",
        run: header::run,
    },
    Task {
        name: "host-cuda",
        about: "lays out target/host-cuda/{lib,include}/host-cuda: the CUDA runtime, cuBLAS and cuRAND on host memory",
        arguments: "[--debug [DIR]]   without optimisation; the folder, if not target/host-cuda",
        run: host_cuda::run,
    },
    Task {
        name: "install",
        about: "puts it all below --prefix DIR (and DESTDIR); --api 8 for version 8",
        arguments: install::ARGUMENTS,
        run: install::run,
    },
    Task {
        name: "kernels",
        about: "writes docs/kernels.md; --check only compares",
        arguments: "[--check]   writes nothing, and fails if docs/kernels.md is not what the sources make",
        run: kernels::run,
    },
    Task {
        name: "matrix",
        about: "writes MATRIX.md; --check only compares",
        arguments: "[--check]   writes nothing, and fails if MATRIX.md is not what the sources make",
        run: matrix::run,
    },
    Task {
        name: "mutants",
        about: "changes the library in small ways, all in one build, and tells which of them no quick test notices",
        arguments: mutants::ARGUMENTS,
        run: mutants::run,
    },
    Task {
        name: "package",
        about: "makes what a release consists of: a tarball, packages for Debian and for RPM, a wheel",
        arguments: package::ARGUMENTS,
        run: package::run,
    },
    Task {
        name: "prove",
        about: "runs the checks that take hours, those first that passed longest ago, and writes docs/proof.md",
        arguments: prove::ARGUMENTS,
        run: prove::run,
    },
    Task {
        name: "ptx",
        about: "compiles the CUDA kernels to PTX, all or each FAMILY that is named; --check only compares",
        arguments: "[FAMILY]...   only these; all if none is named
--check       writes nothing, and fails if the PTX is not what the sources make",
        run: ptx::run,
    },
    Task {
        name: "sanitize",
        about: "runs tests under a checker that needs a nightly toolchain, or on another processor that is emulated",
        arguments: sanitize::ARGUMENTS,
        run: sanitize::run,
    },
    Task {
        name: "tools",
        about: "installs the programs that tests use, where that is possible, and names those that cannot be had",
        arguments: "",
        run: tools::run,
    },
    Task {
        name: "where",
        about: "says where a function is written, planned, run, tested and described",
        arguments: "FUNCTION   such as cudnnPoolingForward",
        run: locate::run,
    },
    Task {
        name: "uninstall",
        about: "removes what install put below --prefix DIR, by its list; --api 8 for version 8",
        arguments: install::UNINSTALL_ARGUMENTS,
        run: install::uninstall,
    },
    Task {
        name: "test",
        about: "runs every test there is and sums them up; --quick: those that take little time",
        arguments: "[--quick [--kind KIND]]   only what takes little time; for the kernels of one kind of step, such as contract",
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
    if arguments[1..].iter().any(|argument| matches!(argument.as_str(), "-h" | "--help")) {
        print!("{}", help(task));
        return ExitCode::SUCCESS;
    }
    match (task.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\ncargo xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What one task does and takes.
fn help(task: &Task) -> String {
    let Task { name, about, arguments, .. } = task;
    let some = if arguments.is_empty() { "takes no arguments" } else { "arguments:" };
    let lines: String = arguments.lines().map(|line| format!("  {line}\n")).collect();
    format!("cargo xtask {name}: {about}\n\n{some}\n{lines}")
}

fn usage() -> String {
    let width = TASKS.iter().map(|task| task.name.len()).max().unwrap_or(0);
    let rows = TASKS.iter().map(|task| format!("  {:width$}  {}\n", task.name, task.about));
    format!("usage: cargo xtask <task>, or cargo xtask <task> --help\n\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{TASKS, help};

    #[test]
    fn every_task_says_what_it_takes() {
        for task in TASKS {
            let text = help(task);
            assert!(text.contains(task.name) && text.contains(task.about), "{text}");
            assert!(text.contains("takes no arguments") || text.lines().count() > 3, "{text}");
        }
        let install = TASKS.iter().find(|task| task.name == "install").map(help).unwrap_or_default();
        assert!(install.contains("--prefix DIR") && install.contains("second full build"), "{install}");
    }
}
