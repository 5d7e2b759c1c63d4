//! cudnn-frontend's Python package, as its registry has it, on the library: the graphs of
//! `tests/frontend` - on arrays of NumPy, and on tensors of PyTorch where that is installed -, the
//! program of the page about graphs, and the example of a transformer block.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::Dist;
use crate::test::Tally;
use crate::{shell, tool, tools};

/// The page, and the heading under which its program is.
const PAGE: &str = "docs/graphs.md";
const HEADING: &str = "## cudnn-frontend in Python\n";

/// Runs all.
pub fn test(dist: &Dist) -> Result<Tally> {
    let python = match tools::frontend() {
        Ok(python) => python,
        Err(lines) => {
            println!("skipped: Python with cudnn-frontend is missing; install it: {lines}");
            return Ok(Tally::SKIP);
        }
    };
    // As the tests have it: it only starts the interpreter.
    let tool = tool::build(false)?;
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(&tool);
        command.arg("run").arg("--lib").arg(&dist.lib).arg(&python).arg(program).args(arguments);
        // Where there are several runtimes it complains at every start until it is told which.
        command.env("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.12");
        command
    };
    let mut tally = Tally::default();
    let mut programs = vec!["graphs.py"];
    if tools::has_pytorch(&python) {
        programs.push("tensors.py");
    } else {
        println!(
            "skipped: graphs on tensors of PyTorch, which is not installed; install it: target/venv/bin/pip install torch"
        );
        tally = tally + Tally::SKIP;
    }
    for program in programs {
        let program = shell::root().join("tests/frontend").join(program);
        for arguments in [&[][..], &["--rounds", "1", "--negative-control"]] {
            let mut reported = None;
            let status = shell::stream(&mut run(&program, arguments), |line| {
                reported = Tally::parse(line).or(reported);
            })?;
            tally = tally + reported.unwrap_or_default().judged(status);
        }
    }
    let program = shell::target().join("frontend_page.py");
    std::fs::write(&program, page_program()?)?;
    let block = shell::root().join("examples/graphs/gpt2_block.py");
    for (program, arguments) in [(&program, &[][..]), (&block, &["--length", "200"][..])] {
        tally = tally + shell::run(&mut run(program, arguments)).map_or(Tally::FAIL, |()| Tally::PASS);
    }
    Ok(tally)
}

/// The program that the page shows.
fn page_program() -> Result<String> {
    let page = std::fs::read_to_string(shell::root().join(PAGE))?;
    let section = page.split_once(HEADING).map(|(_, section)| section);
    let program = section.and_then(|section| section.split_once("```python\n")?.1.split_once("```"));
    Ok(program.with_context(|| format!("{PAGE} has no program of the frontend"))?.0.to_owned())
}
