//! The static library: one object that shows the interface and nothing else, so that it links in
//! any order and beside any other archive that has Rust's standard library in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::api::Api;
use crate::machine::Machine;
use crate::shell::Scratch;
use crate::{shell, tables, tools};

/// Makes the archive `to` of the library's archive `from` that cargo built.
pub fn make(api: Api, from: &Path, to: &Path, release: bool) -> Result<()> {
    let symbols: Vec<(String, String)> =
        symbols(api)?.into_iter().map(|symbol| (symbol.clone(), symbol)).collect();
    with(&symbols, from, to, release)
}

/// Makes the archive `to` of what these symbols need of the archive `from`; beside each stands the
/// function that it is another name of, or itself.
pub fn with(symbols: &[(String, String)], from: &Path, to: &Path, release: bool) -> Result<()> {
    if let Some(line) = tools::lacking("binutils") {
        bail!("binutils are missing; install them: {line}");
    }
    let scratch = Scratch::new("archive")?;
    let folder = &scratch.0;
    // Response files, for hundreds of symbols make long command lines.
    let (keep, undefined) = (folder.join("keep.txt"), folder.join("undefined.txt"));
    fs::write(&keep, symbols.iter().map(|(symbol, _)| format!("{symbol}\n")).collect::<String>())?;
    let wanted = |(symbol, function): &(String, String)| {
        let alias =
            if symbol == function { String::new() } else { format!("-Wl,--defsym={symbol}={function}\n") };
        format!("-Wl,-u,{function}\n{alias}")
    };
    fs::write(&undefined, symbols.iter().map(wanted).collect::<String>())?;
    let (needed, whole, object) = (folder.join("needed.o"), folder.join("whole.o"), folder.join("library.o"));
    let link = |arguments: &[String], from: &Path, to: &Path| {
        let mut command = tools::c_compiler(Machine::target()?)?;
        command.args(["-r", "-nostdlib", "-fuse-ld=bfd"]).args(arguments);
        shell::run(command.arg(from).arg("-o").arg(to))
    };
    link(&["-Wl,--gc-sections".to_owned(), format!("@{}", undefined.display())], from, &needed)?;
    // A section for every function, with its own name, header and relocations, makes the file half
    // as long again.
    let sections = folder.join("sections.ld");
    fs::write(&sections, merged(SECTIONS))?;
    link(&[format!("-Wl,-T,{}", sections.display())], &needed, &whole)?;
    let machine = Machine::target()?;
    let mut objcopy = Command::new(machine.tool("objcopy"));
    // Several modules' LLVM bitcode in one section can no longer be read, and tools with an LLVM
    // plugin try.
    objcopy.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    if release {
        objcopy.arg("--strip-unneeded");
    }
    objcopy.arg(format!("--keep-global-symbols={}", keep.display()));
    shell::run(objcopy.arg(&whole).arg(&object))?;
    if to.exists() {
        fs::remove_file(to)?;
    }
    shell::run(Command::new(machine.tool("ar")).arg("rcs").arg(to).arg(&object))
}

/// Sections of which compilers make one for each function or variable.
const SECTIONS: &[&str] =
    &[".text", ".rodata", ".data.rel.ro", ".data", ".tdata", ".tbss", ".bss", ".gcc_except_table"];

/// A linker script that makes one section of all those whose names begin with its name.
fn merged(sections: &[&str]) -> String {
    let rules: String =
        sections.iter().map(|name| format!("  {name} : {{ *({name} {name}.*) }}\n")).collect();
    format!("SECTIONS {{\n{rules}}}\n")
}

/// Every symbol of the interface.
pub fn symbols(api: Api) -> Result<Vec<String>> {
    let (original, restored) = match api {
        Api::Eight => ("symbols_v8", &["functions_v7_only"][..]),
        Api::Nine => ("symbols", &["functions_v8_only", "functions_v7_only"][..]),
    };
    let mut symbols: Vec<String> = tables::read(original)?.iter().map(|row| row["symbol"].clone()).collect();
    for table in restored {
        symbols.extend(tables::read(table)?.iter().map(|row| row["name"].clone()));
    }
    symbols.extend(Api::extensions()?);
    Ok(symbols)
}
