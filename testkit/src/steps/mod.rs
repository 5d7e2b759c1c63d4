//! Reads `problems/steps.txt`, the list of steps that tests check and benchmarks measure, a line
//! each. A line is what the log shows of a step: any line of a log is a test case.
#![allow(missing_docs, reason = "no part of the library")]

pub mod attention;
pub mod losses;
pub mod norms;
pub mod offsets;
mod operands;
mod parse;
mod pictures;
mod products;
mod sequences;
mod text;
mod vary;

use std::fmt;

use cudnn::error::Result;
pub use cudnn::ops::OwnedStep as Owned;
use cudnn::ops::{Operand, Plan, StepSink};
#[allow(unused_imports, reason = "every program uses its own part of this module")]
pub use vary::Vary;

/// Reads a step. The error says what is expected where.
pub fn parse(line: &str) -> std::result::Result<Owned, String> {
    parse::step(line)
}

/// A line of the list: a name, and a step with its operands.
#[derive(Clone)]
pub struct Row {
    pub name: String,
    pub step: Owned,
    pub operands: Vec<Operand>,
}

impl Row {
    /// A step and its operands. The error says what does not fit.
    pub fn new(name: &str, step: Owned) -> std::result::Result<Row, String> {
        let operands = operands::of(&step)?;
        Ok(Row { name: name.to_owned(), step, operands })
    }

    /// Reads a name and a step.
    pub fn parse(line: &str) -> std::result::Result<Row, String> {
        let (name, step) = line.split_once(char::is_whitespace).ok_or("a name and a step are expected")?;
        Row::new(name, parse::step(step)?)
    }

    /// Whether the CUDA core has kernels for it, too.
    pub fn is_for_cuda(&self) -> bool {
        match &self.step {
            Owned::Attend(step) => attention::is_for_cuda(step),
            Owned::AttendBackward(step) => attention::is_for_cuda(&step.forward) && !step.is_changed(),
            _ => true,
        }
    }

    /// Bytes that the step reads and writes, if it touches all that its operands span.
    pub fn bytes(&self) -> usize {
        self.operands.iter().map(|operand| (operand.span.1 - operand.span.0) as usize).sum()
    }
}

/// The step as a plan, with all its operands.
impl Plan for Row {
    fn operands(&self) -> &[Operand] {
        &self.operands
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let slots: Vec<usize> = (0..self.operands.len()).collect();
        sink(self.step.step(), &slots)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.step)
    }
}

/// Every line of the list. Panics with the line that cannot be read.
pub fn read() -> Vec<Row> {
    rows("problems/steps.txt", include_str!("../../../problems/steps.txt"))
}

/// Those that both cores have kernels for.
pub fn of_both_cores() -> Vec<Row> {
    read().into_iter().filter(Row::is_for_cuda).collect()
}

/// Every line of a list; empty ones and those that begin with `#` do not count. Panics with the one
/// that cannot be read.
pub fn rows(file: &str, list: &str) -> Vec<Row> {
    let lines = list.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| Row::parse(line).unwrap_or_else(|error| panic!("{file}:{at}: {error}\n{line}")))
        .collect()
}

/// A listed step whose loops keep their order.
pub struct Ordered(pub Row);

impl Plan for Ordered {
    fn operands(&self) -> &[Operand] {
        self.0.operands()
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        self.0.steps(sink)
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
