//! `tests/data/gpu_issue.tsv`: what was counted of every row that a device measured, what the model
//! makes of it, and the budgets that rows keep to.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::model::{Launch, Resources, Terms};
use super::rows::Run;
use crate::{shell, tables};

const FILE: &str = "tests/data/gpu_issue.tsv";
const EXCEPTIONS: &str = "tests/data/gpu_issue_exceptions.tsv";
const HEAD: &str = "\
# What the driver double counts of the rows that a device has measured, and what the model of `cargo xtask gpu-model` makes of it:
# warp-instructions a byte, instructions of the longest warp and its waits for memory and for what is near; microseconds by issue, by
# the serial chain, by bytes moved, and of the whole; what binds; and what the device measured, in microseconds.
";
const COLUMNS: &str =
    "row\tlaunches\tinstructions/byte\tlongest\tfar\tnear\tissue\tserial\tmemory\tmodel\tbinds\tmeasured";

/// Warp-instructions that a row which maps elements may issue for each byte that it moves, and one
/// whose function is a comparison or a product.
const MAP: f64 = 0.25;
const SIMPLE_MAP: f64 = 0.15;
/// A serial chain may take this many times what the bytes take.
const SERIAL: f64 = 3.0;
/// The model may be this many times off, in this share of the rows.
const OFF: f64 = 1.6;
const OFF_SHARE: f64 = 0.05;
/// A figure that was counted may be this much above the committed one.
const GROWTH: f64 = 1.02;

/// The budget of exceptions for rows that were measured with other kernels.
const MEASURED: &str = "measured";

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    pub launches: usize,
    pub per_byte: f64,
    pub longest: f64,
    pub far: f64,
    pub near: f64,
    /// Microseconds.
    pub issue: f64,
    pub serial: f64,
    pub memory: f64,
    pub model: f64,
    pub binds: String,
    pub measured: f64,
}

impl Row {
    /// What was counted of a row.
    pub fn of(name: &str, run: &Run, measured: f64, resources: &BTreeMap<String, Resources>) -> Result<Row> {
        let terms = Terms::of(&run.launches, run.moved, resources)?;
        let most = |figure: fn(&Launch) -> f64| run.launches.iter().map(figure).fold(0.0, f64::max);
        let instructions: f64 = run.launches.iter().map(Launch::instructions).sum();
        Ok(Row {
            name: name.to_owned(),
            launches: run.launches.len(),
            per_byte: instructions / run.moved,
            longest: most(|launch| launch.longest),
            far: most(|launch| launch.far),
            near: most(|launch| launch.near),
            issue: terms.issue * 1e6,
            serial: terms.serial * 1e6,
            memory: terms.memory * 1e6,
            model: terms.time * 1e6,
            binds: terms.binding().to_owned(),
            measured,
        })
    }

    fn read(cells: &tables::Row) -> Result<Row> {
        let text = |column: &str| cells.get(column).with_context(|| format!("{FILE}: no column {column}"));
        let number = |column: &str| -> Result<f64> {
            text(column)?.parse().with_context(|| format!("{FILE}: {column} is no number"))
        };
        Ok(Row {
            name: text("row")?.clone(),
            launches: number("launches")? as usize,
            per_byte: number("instructions/byte")?,
            longest: number("longest")?,
            far: number("far")?,
            near: number("near")?,
            issue: number("issue")?,
            serial: number("serial")?,
            memory: number("memory")?,
            model: number("model")?,
            binds: text("binds")?.clone(),
            measured: number("measured")?,
        })
    }

    fn line(&self) -> String {
        let Row { name, launches, per_byte, longest, far, near, binds, measured, .. } = self;
        let Row { issue, serial, memory, model, .. } = self;
        format!(
            "{name}\t{launches}\t{per_byte:.3}\t{longest:.0}\t{far:.1}\t{near:.1}\t{issue:.1}\t{serial:.1}\t{memory:.1}\t{model:.1}\t{binds}\t{measured}"
        )
    }

    /// What a row that maps elements may issue for a byte; nothing for other rows.
    fn map_budget(&self) -> Option<f64> {
        match self.name.split('/').next()? {
            "relu" | "relu-back" | "inference" | "dropout-back" => Some(SIMPLE_MAP),
            "tanh" | "dropout" => Some(MAP),
            _ => None,
        }
    }

    /// The budgets that the row exceeds, each with a sentence.
    fn excesses(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if let Some(budget) = self.map_budget().filter(|budget| self.per_byte > *budget) {
            found.push(("issue", format!("{:.2} warp-instructions a byte, of {budget}", self.per_byte)));
        }
        if self.serial > SERIAL * self.memory.max(1.0) {
            let (serial, memory) = (self.serial, self.memory);
            found.push(("serial", format!("a chain of {serial:.1} us where the bytes take {memory:.1}")));
        }
        found
    }
}

/// Rows that may exceed a budget: the beginning of their names, which budget, why, since when.
struct Exception {
    rows: String,
    budget: String,
}

fn exceptions() -> Result<Vec<Exception>> {
    let rows = tables::read_file(&shell::root().join(EXCEPTIONS))?;
    rows.iter()
        .map(|row| {
            let cell = |column: &str| row.get(column).filter(|cell| !cell.is_empty()).cloned();
            let all = ["rows", "budget", "since", "reason"].map(cell);
            let [Some(rows), Some(budget), Some(_), Some(_)] = all else {
                anyhow::bail!("{EXCEPTIONS}: a row without rows, budget, since or reason")
            };
            Ok(Exception { rows, budget })
        })
        .collect()
}

/// The committed rows.
pub fn committed() -> Result<Vec<Row>> {
    tables::read_file(&shell::root().join(FILE))?.iter().map(Row::read).collect()
}

/// Writes the table.
pub fn write(rows: &[Row]) -> Result<()> {
    let mut text = format!("{HEAD}{COLUMNS}\n");
    rows.iter().for_each(|row| writeln!(text, "{}", row.line()).expect("a string takes all"));
    fs::write(shell::root().join(FILE), text).with_context(|| format!("cannot write {FILE}"))
}

/// For people: a head, and a row.
pub fn shown_head() -> String {
    format!(
        "{:36}{:>7}{:>9}{:>9}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}  {:8}{:>9}{:>7}",
        "row",
        "launch",
        "instr/B",
        "longest",
        "far",
        "near",
        "issue us",
        "serial",
        "memory",
        "model",
        "binds",
        "measured",
        "ratio"
    )
}

pub fn shown(row: &Row) -> String {
    let Row { name, launches, per_byte, longest, far, near, binds, measured, .. } = row;
    let Row { issue, serial, memory, model, .. } = row;
    let ratio = model / measured;
    format!(
        "{name:36}{launches:>7}{per_byte:>9.3}{longest:>9.0}{far:>8.1}{near:>8.1}{issue:>9.1}{serial:>9.1}{memory:>9.1}{model:>9.1}  {binds:8}{measured:>9.1}{ratio:>7.2}"
    )
}

/// What is wrong with the table itself: a model that leaves what was measured, and rows beyond
/// their budgets.
pub fn complaints(rows: &[Row]) -> Result<Vec<String>> {
    ensure!(!rows.is_empty(), "{FILE} has no rows");
    Ok(judge(rows, &exceptions()?))
}

fn judge(rows: &[Row], exceptions: &[Exception]) -> Vec<String> {
    let mut wrong = Vec::new();
    let covers = |exception: &Exception, row: &Row, budget: &str| {
        row.name.starts_with(&exception.rows) && exception.budget == budget
    };
    // What a device measured of kernels that a row has no more says nothing about the model.
    let is_as_measured = |row: &&Row| !exceptions.iter().any(|exception| covers(exception, row, MEASURED));
    let told: Vec<&Row> = rows.iter().filter(is_as_measured).collect();
    let is_off = |row: &&&Row| !(1.0 / OFF..=OFF).contains(&(row.model / row.measured));
    let off: Vec<&str> = told.iter().filter(is_off).map(|row| row.name.as_str()).collect();
    if off.len() as f64 > OFF_SHARE * told.len() as f64 {
        let names = &off;
        let (off, all) = (off.len(), told.len());
        wrong.push(format!(
            "the model is more than {OFF} times off in {off} of {all} rows: {}",
            names.join(", ")
        ));
    }
    for row in rows {
        for (budget, what) in row.excesses() {
            if !exceptions.iter().any(|exception| covers(exception, row, budget)) {
                wrong.push(format!("{}: {what}", row.name));
            }
        }
    }
    for exception in exceptions {
        let needs = |row: &Row| row.excesses().iter().any(|(budget, _)| covers(exception, row, budget));
        let needed = rows.iter().any(|row| needs(row) || covers(exception, row, MEASURED));
        if !needed {
            wrong.push(format!(
                "no row {}... exceeds its {} budget any more: strike it",
                exception.rows, exception.budget
            ));
        }
    }
    wrong
}

/// What a row that was counted now has more of than its committed row.
pub fn growth(committed: &Row, now: &Row) -> Vec<String> {
    type Figure = fn(&Row) -> f64;
    let figures: [(&str, Figure); 3] = [
        ("warp-instructions a byte", |row| row.per_byte),
        ("instructions of the longest warp", |row| row.longest),
        ("microseconds by the model", |row| row.model),
    ];
    let grown = figures.iter().filter(|(_, of)| of(now) > of(committed) * GROWTH + 0.05);
    grown.map(|(what, of)| format!("{}: {:.2} {what}, not {:.2}", now.name, of(now), of(committed))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            launches: 1,
            per_byte: 0.1,
            longest: 100.0,
            far: 1.0,
            near: 0.0,
            issue: 5.0,
            serial: 5.0,
            memory: 20.0,
            model: 25.0,
            binds: "memory".to_owned(),
            measured: 25.0,
        }
    }

    fn exception(rows: &str, budget: &str) -> Exception {
        Exception { rows: rows.to_owned(), budget: budget.to_owned() }
    }

    #[test]
    fn rows_are_held_to_their_budgets() {
        assert!(judge(&[row("relu/f32/nchw"), row("softmax/f32/nchw")], &[]).is_empty());
        let busy = Row { per_byte: 0.2, ..row("relu/f32/nchw") };
        assert_eq!(judge(std::slice::from_ref(&busy), &[]).len(), 1);
        assert!(judge(&[busy], &[exception("relu/", "issue")]).is_empty());
        // A hyperbolic tangent has more to compute.
        assert!(judge(&[Row { per_byte: 0.2, ..row("tanh/f32/nchw") }], &[]).is_empty());
        let long = Row { serial: 61.0, ..row("bias-back/f32/nhwc") };
        assert_eq!(judge(std::slice::from_ref(&long), &[exception("bias-back/", "issue")]).len(), 2);
        assert!(judge(&[long], &[exception("bias-back/", "serial")]).is_empty());
    }

    #[test]
    fn exceptions_that_nothing_needs_are_struck() {
        assert_eq!(judge(&[row("relu/f32/nchw")], &[exception("relu/", "issue")]).len(), 1);
    }

    #[test]
    fn a_model_that_is_off_is_found() {
        let rows: Vec<Row> =
            (0..20).map(|k| Row { measured: if k == 0 { 60.0 } else { 25.0 }, ..row("sum-1") }).collect();
        assert!(judge(&rows, &[]).is_empty());
        let rows: Vec<Row> =
            (0..20).map(|k| Row { measured: if k < 2 { 60.0 } else { 25.0 }, ..row("sum-1") }).collect();
        assert_eq!(judge(&rows, &[]).len(), 1);
        // Rows of kernels that no device has timed are left out.
        let slow = |row: &Row| Row { name: "sum-2".to_owned(), measured: 60.0, ..row.clone() };
        let rows = [rows[5..].to_vec(), vec![slow(&rows[0])]].concat();
        assert_eq!(judge(&rows, &[]).len(), 1);
        assert!(judge(&rows, &[exception("sum-2", "measured")]).is_empty());
        assert_eq!(judge(&rows, &[exception("sum-3", "measured")]).len(), 2);
    }

    #[test]
    fn growth_is_found() {
        let before = row("relu/f32/nchw");
        assert!(growth(&before, &before).is_empty());
        assert_eq!(growth(&before, &Row { longest: 110.0, ..before.clone() }).len(), 1);
    }

    /// A line is read as it was written.
    #[test]
    fn lines_come_back() {
        let before = row("relu/f32/nchw");
        let line = before.line();
        let cells = COLUMNS.split('\t').map(str::to_owned).zip(line.split('\t').map(str::to_owned));
        assert_eq!(Row::read(&cells.collect()).expect("a row"), before);
    }
}
