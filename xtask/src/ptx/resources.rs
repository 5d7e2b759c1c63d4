//! What each kernel takes of every architecture, by the assembler's own report, and what it keeps in flight.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Kept;
use super::flight::{self, Flight};
use crate::shell;
use crate::split::{self, Family};

/// What the PTX must assemble for, without spilling.
const ARCHITECTURES: [&str; 8] = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// Whose machine code is read.
const READ: &str = "sm_90";

/// Names this form of the rows, so that no row of another one is taken from those that are kept.
const FORM: &str = "registers, then flight 1";

/// What the tables say of themselves.
const HEAD: &str = "\
# Of every kernel: bytes of static shared memory, registers per thread on each architecture; no kernel spills or uses local memory.
# Of its machine code for sm_90: bytes that a thread loads before it needs the first of them, how many loads of which width those are
# at most, innermost loops that wait for every load by itself; and how many divisions of integers its text has.
";

/// What one kernel takes of one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    registers: u32,
    /// Bytes of static shared memory.
    shared: u32,
}

/// The programs that a kernel goes through.
pub struct Tools {
    pub assembler: PathBuf,
    pub disassembler: PathBuf,
}

/// A kernel in a module of its own, as the library hands it to the driver.
struct Module {
    name: String,
    text: String,
}

/// The table of a family: one row per kernel, with its shared memory, its registers on each architecture and what it
/// keeps in flight. Fails when one spills or keeps anything in local memory.
pub fn table(ptx: &str, tools: &Tools, kept: &Kept) -> Result<String> {
    let Family { preamble, mut kernels } = split::split(ptx).map_err(anyhow::Error::msg)?;
    kernels.sort_by_key(|kernel| kernel.name);
    let columns = ARCHITECTURES.join("\t");
    let mut table = format!("{HEAD}kernel\tshared\t{columns}\tbytes\tloads\tlone\tdivisions\n");
    for kernel in kernels {
        ensure!(kernel.parameter <= 4096, "{} takes more than 4 KiB", kernel.name);
        let module = Module { name: kernel.name.to_owned(), text: format!("{preamble}{}", kernel.text) };
        let inputs = [
            &*tools.assembler.to_string_lossy(),
            &*tools.disassembler.to_string_lossy(),
            FORM,
            &*module.text,
        ];
        let row = kept.or_make("row", &inputs.concat(), || {
            row(&module, tools, kept.folder()).with_context(|| format!("assembling {}", module.name))
        })?;
        writeln!(table, "{}\t{row}", module.name)?;
    }
    Ok(table)
}

/// The row of one kernel, less its name.
fn row(module: &Module, tools: &Tools, folder: &Path) -> Result<String> {
    let input = folder.join(format!("{}-{}.ptx", module.name, std::process::id()));
    let output = input.with_extension("cubin");
    fs::write(&input, &module.text)?;
    let number = |text: &str| text.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
    let target = module.text.lines().find_map(|line| number(line.strip_prefix(".target ")?));
    let target = target.context("the text names no target")?;
    let mut usages = Vec::new();
    let mut flight = Flight::default();
    for architecture in ARCHITECTURES {
        // Its text is of no use to older ones.
        if number(architecture) < Some(target) {
            usages.push(None);
            continue;
        }
        let mut command = Command::new(&tools.assembler);
        command.args(["--verbose", "--warn-on-spills", "--gpu-name", architecture]).arg(&input);
        let result = command.arg("--output-file").arg(&output).output().context("cannot start ptxas")?;
        let report =
            String::from_utf8_lossy(&result.stderr).into_owned() + &String::from_utf8_lossy(&result.stdout);
        ensure!(result.status.success(), "ptxas fails for {architecture}\n{report}");
        usages.push(Some(usage(&report).with_context(|| format!("for {architecture}"))?));
        if architecture == READ {
            let sass = shell::output(Command::new(&tools.disassembler).arg("-c").arg(&output))?;
            flight = flight::read(&sass, &module.name)?;
        }
    }
    fs::remove_file(&input)?;
    fs::remove_file(&output)?;
    let shared = usages.iter().flatten().next().context("no architecture takes it")?.shared;
    if usages.iter().flatten().any(|usage| usage.shared != shared) {
        bail!("different shared memory on different architectures");
    }
    let column = |usage: &Option<Usage>| usage.map_or("-".to_owned(), |usage| usage.registers.to_string());
    let registers: Vec<String> = usages.iter().map(column).collect();
    let divisions = divisions(&module.text);
    Ok(format!("{shared}\t{}\t{}\t{divisions}", registers.join("\t"), flight.columns()))
}

/// The divisions in the text of a kernel: by numbers known before the launch, which are the upper half of a product, and all
/// others.
fn divisions(text: &str) -> usize {
    let divides = |line: &&str| {
        let name = line.trim_start();
        let is_integer = |rest: &str| rest.starts_with(['u', 's']);
        name.starts_with("mul.hi.")
            || ["div.", "rem."].iter().any(|word| name.strip_prefix(word).is_some_and(is_integer))
    };
    text.lines().filter(divides).count()
}

/// Reads the assembler's report on one kernel.
fn usage(report: &str) -> Result<Usage> {
    let mut usage = None;
    let mut kernel = None;
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().map(str::to_owned);
        } else if line.contains("spill stores") {
            let clean = line.trim() == "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
            ensure!(clean, "{}: {}", kernel.unwrap_or_default(), line.trim());
        } else if let Some((_, rest)) = line.split_once("Used ") {
            let number =
                |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
            let registers = number(rest).with_context(|| format!("no registers in {line}"))?;
            let shared = rest.split(", ").find(|part| part.ends_with(" smem")).and_then(number).unwrap_or(0);
            ensure!(kernel.take().is_some(), "no kernel in front of {line}");
            usage = Some(Usage { registers, shared });
        }
    }
    usage.with_context(|| format!("the assembler names no kernel\n{report}"))
}

#[cfg(test)]
mod tests {
    use super::{Usage, usage};

    const REPORT: &str = "\
ptxas info    : 304 bytes gmem
ptxas info    : Compiling entry function 'copy_w1' for 'sm_70'
ptxas info    : Function properties for copy_w1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 1 barriers, 16384 bytes smem, 428 bytes cmem[0]";

    #[test]
    fn the_report_is_read() {
        assert_eq!(usage(REPORT).unwrap(), Usage { registers: 20, shared: 16384 });
        let plain = REPORT.replace("used 1 barriers, 16384 bytes smem, ", "");
        assert_eq!(usage(&plain).unwrap(), Usage { registers: 20, shared: 0 });
    }

    #[test]
    fn a_spill_is_an_error() {
        let spilling = REPORT.replacen("0 bytes spill stores", "8 bytes spill stores", 1);
        assert!(usage(&spilling).unwrap_err().to_string().contains("copy_w1"));
        let stack = REPORT.replacen("0 bytes stack frame", "16 bytes stack frame", 1);
        assert!(usage(&stack).is_err());
        assert!(usage("nothing").is_err());
    }
}
