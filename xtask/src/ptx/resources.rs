//! What each kernel takes of every architecture, by the assembler's own report, and what it keeps
//! in flight.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::flight::{self, Flight};
use crate::shell;
use crate::split::{self, Family};

/// What the PTX must assemble for, without spilling.
const ARCHITECTURES: [&str; 8] = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// Whose machine code is read.
const READ: &str = "sm_90";

/// Names this form of the rows, so that no row of another one is taken for one of it.
const FORM: &str = "registers, then flight 1";

/// What the tables say of themselves.
const HEAD: &str = "\
# Of every kernel: bytes of static shared memory, registers per thread on each architecture; no kernel spills or uses local memory.
# Of its machine code for sm_90: bytes that a thread loads before it needs the first of them, how many loads of which width those are
# at most, innermost loops that wait for every load by itself; and how many divisions of integers its text has.
# The seal is of that row, the kernel's text and the programs that made one of the other.
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
    /// Which they are.
    pub versions: String,
    /// Where they leave what goes from one to the other.
    pub folder: PathBuf,
}

/// A kernel in a module of its own, as the library hands it to the driver.
struct Module {
    name: String,
    text: String,
}

/// The table of a family: one row per kernel, with its shared memory, its registers on each
/// architecture and what it keeps in flight. A row of the `committed` table whose seal fits is what
/// would be made again: eight architectures take seconds for a kernel. Fails when one spills or
/// keeps anything in local memory.
pub fn table(ptx: &str, tools: &Tools, committed: &str) -> Result<String> {
    let Family { preamble, mut kernels } = split::split(ptx).map_err(anyhow::Error::msg)?;
    kernels.sort_by_key(|kernel| kernel.name);
    let columns = ARCHITECTURES.join("\t");
    let mut table = format!("{HEAD}kernel\tshared\t{columns}\tbytes\tloads\tlone\tdivisions\tseal\n");
    for kernel in kernels {
        ensure!(kernel.parameter <= 4096, "{} takes more than 4 KiB", kernel.name);
        let module = Module { name: kernel.name.to_owned(), text: format!("{preamble}{}", kernel.text) };
        let sealed = |row: &str| format!("{row}\t{:016x}", seal(&[&tools.versions, FORM, &module.text, row]));
        let known = committed.lines().find(|line| {
            line.split('\t').next() == Some(kernel.name)
                && line.rsplit_once('\t').is_some_and(|(row, _)| sealed(row) == **line)
        });
        if let Some(line) = known {
            writeln!(table, "{line}")?;
            continue;
        }
        let row = row(&module, tools).with_context(|| format!("assembling {}", module.name))?;
        writeln!(table, "{}", sealed(&format!("{}\t{row}", module.name)))?;
    }
    Ok(table)
}

/// FNV-1a of these texts: the same in every version of the compiler.
fn seal(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

/// The row of one kernel, less its name.
fn row(module: &Module, tools: &Tools) -> Result<String> {
    let input = tools.folder.join(format!("{}-{}.ptx", module.name, std::process::id()));
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

/// The divisions in the text of a kernel: by numbers known before the launch, which are the upper
/// half of a product, and all others.
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
    use std::path::PathBuf;

    use super::{FORM, Tools, Usage, seal, table, usage};

    #[test]
    fn a_seal_tells_texts_apart() {
        // The function's published value of "a", and of a zero behind it.
        assert_eq!(seal(&["a"]), 0xAF63_DC4C_8601_EC8C_u64.wrapping_mul(0x100_0000_01B3));
        assert_ne!(seal(&["ab", "c"]), seal(&["a", "bc"]));
    }

    #[test]
    fn only_a_row_whose_seal_fits_is_taken() {
        let none = || PathBuf::from("no such program");
        let folder = std::env::temp_dir();
        let tools = Tools { assembler: none(), disassembler: none(), versions: "1".to_owned(), folder };
        let preamble = ".version 8.0\n.target sm_50\n";
        let text = ".visible .entry copy(\n.param .b8 p[8]\n)\n{\nret;\n}\n";
        let row = "copy\t0\t8";
        let of = |text: &str, row: &str| seal(&["1", FORM, &format!("{preamble}{text}"), row]);
        let committed = |seal: u64| format!("{row}\t{seal:016x}\n");
        let made = |committed: &str| table(&format!("{preamble}{text}"), &tools, committed);
        assert!(made(&committed(of(text, row))).unwrap().ends_with(&committed(of(text, row))));
        for wrong in [of(&text.replace("ret", "exit"), row), of(text, "copy\t0\t9")] {
            let error = made(&committed(wrong)).unwrap_err().to_string();
            assert_eq!(error, "assembling copy");
        }
    }

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
