//! `cargo xtask gpu-model`: how long rows of the device's tables would take, and what binds them,
//! on a machine without a device.
//!
//! The driver double runs some blocks of each launch, counts what a device would issue for them
//! (`c_tests/driver_double/ptx/issue.cpp`), and a [model] with a few constants makes a time of it.

mod model;
mod rows;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::rows::Bench;
use self::table::Row;
use crate::shell;
use crate::test::Tally;

/// A row whose longest warp has more instructions takes seconds to count: the check leaves it out.
const LONG: f64 = 40_000.0;
/// The check counts every so manyth of the others.
const SAMPLE: usize = 8;

pub const ARGUMENTS: &str = "\
ROW...    counts the rows whose names contain one of these, and shows their terms
--write   counts the rows of layers and sums, and writes tests/data/gpu_issue.tsv
--check   counts a sample of the rows, and fails if one has grown or is beyond its budget, or if the model leaves what was measured
          without arguments the committed table is shown";

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => show(&table::committed()?),
        [flag] if flag == "--write" => {
            let rows = count(&library()?, rows::is_listed, |row| println!("{}", table::shown(row)))?;
            table::write(&rows)?;
            report(&table::complaints(&rows)?)
        }
        [flag] if flag == "--check" => {
            ensure_kept(&library()?).map(|count| println!("{count} rows are as before"))
        }
        [flag, ..] if flag.starts_with('-') => bail!("there is no option {flag}\n{ARGUMENTS}"),
        names => {
            println!("{}", table::shown_head());
            let wanted = |row: &str| names.iter().any(|name| row.contains(name.as_str()));
            let rows = count(&library()?, wanted, |row| println!("{}", table::shown(row)))?;
            ensure!(!rows.is_empty(), "no row of the device's tables has such a name");
            Ok(())
        }
    }
}

/// What `cargo xtask test` asks: whether a sample of the rows is as it was, counted with `library`.
pub fn check(library: &Path) -> Result<Tally> {
    let count = ensure_kept(library)?;
    println!("{count} rows are as before, and the model is as near to what was measured");
    Ok(Tally::PASS)
}

fn ensure_kept(library: &Path) -> Result<usize> {
    let committed = table::committed()?;
    let measured = rows::measured()?;
    let mut wrong = table::complaints(&committed)?;
    for (name, _) in measured.iter().filter(|(name, _)| rows::is_listed(name)) {
        if committed.iter().all(|row| row.name != *name) {
            wrong.push(format!("{name}: the table lacks it"));
        }
    }
    let short = committed.iter().filter(|row| row.longest < LONG);
    let sample: Vec<&Row> = short.step_by(SAMPLE).collect();
    let now = count(library, |name| sample.iter().any(|row| row.name == name), |_| ())?;
    for row in &now {
        let before = committed.iter().find(|before| before.name == row.name).context("a row of the table")?;
        wrong.extend(table::growth(before, row));
    }
    ensure!(!now.is_empty(), "no row was counted");
    report(&wrong).map(|()| now.len())
}

fn report(wrong: &[String]) -> Result<()> {
    let advice = "cargo xtask gpu-model --write writes the table";
    ensure!(wrong.is_empty(), "{}\n{advice}", wrong.join("\n"));
    Ok(())
}

fn show(rows: &[Row]) -> Result<()> {
    println!("{}", table::shown_head());
    rows.iter().for_each(|row| println!("{}", table::shown(row)));
    Ok(())
}

/// Counts the rows that are wanted, in the order of the measured tables.
fn count(library: &Path, wanted: impl Fn(&str) -> bool, mut each: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let bench = Bench::of(library)?;
    let resources = model::resources()?;
    let mut found = Vec::new();
    for (name, time) in rows::measured()? {
        if wanted(&name) {
            let row = Row::of(&name, &bench.run(&name)?, time, &resources)?;
            each(&row);
            found.push(row);
        }
    }
    Ok(found)
}

/// The library as tests have it, built.
fn library() -> Result<PathBuf> {
    shell::run(shell::cargo().args(["build", "--quiet", "--package", "cudnn-shim", "--lib"]))?;
    Ok(shell::target().join("debug/libcudnn.so"))
}
