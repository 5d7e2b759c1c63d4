//! Libraries for programs that ask for a part, such as `libcudnn_ops.so.9`: every call jumps into
//! the main library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::api::Api;
use crate::machine::Machine;
use crate::shell::Scratch;
use crate::{shell, tables, tools};

/// The parts of the original and the calls that each shares with its main library.
pub fn of(api: Api) -> Result<BTreeMap<String, Vec<String>>> {
    let end = format!(".so.{}", api.major());
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in tables::read("parts")?.into_iter().filter(|row| row["library"].ends_with(&end)) {
        // Some parts share nothing; they are there for programs that name them when they link.
        let symbols = parts.entry(row["library"].clone()).or_default();
        symbols.extend(Some(row["symbol"].clone()).filter(|symbol| !symbol.is_empty()));
    }
    Ok(parts)
}

/// A library of jumps into another one.
///
/// It holds nothing else, so that there is one copy of every state whatever a program links or
/// loads.
pub struct Jumps<'a> {
    /// What programs ask the dynamic linker for, and its version node, as in the original.
    pub soname: &'a str,
    /// What it exports, and the function of the other library that each jumps to.
    pub calls: &'a [(String, String)],
    /// The other library, which lies beside it when programs run.
    pub library: &'a Path,
    /// The version node of the other library's functions.
    pub node: &'a str,
}

/// Links the part `soname` of the library in `lib` at `file`.
pub fn link(api: Api, soname: &str, symbols: &[String], lib: &Path, file: &Path) -> Result<()> {
    let calls: Vec<(String, String)> = symbols.iter().map(|name| (name.clone(), name.clone())).collect();
    let (library, node) = (lib.join(api.soname()), api.soname());
    Jumps { soname, calls: &calls, library: &library, node: &node }.link(file)
}

impl Jumps<'_> {
    /// Links the library at `file`.
    pub fn link(&self, file: &Path) -> Result<()> {
        let soname = self.soname;
        let scratch = Scratch::new("parts")?;
        let source = scratch.0.join(soname).with_extension("s");
        fs::write(&source, self.assembly()?).with_context(|| format!("cannot write {}", source.display()))?;
        let script = source.with_extension("map");
        fs::write(&script, node(soname, self.calls.iter().map(|(name, _)| name.as_str())))
            .with_context(|| format!("cannot write {}", script.display()))?;
        shell::run(
            tools::c_compiler(Machine::target()?)?
                .args([
                    "-shared",
                    "-nostdlib",
                    "-fuse-ld=bfd",
                    "-Wl,-z,noexecstack",
                    "-Wl,-z,now",
                    "-Wl,-z,defs",
                    "-Wl,--no-as-needed",
                    "-s",
                ])
                .args([&format!("-Wl,-soname,{soname}"), "-Wl,-rpath,$ORIGIN"])
                .arg(format!("-Wl,--version-script={}", script.display()))
                .arg(&source)
                .arg(self.library)
                .arg("-o")
                .arg(file),
        )
    }

    /// One jump for each call: it keeps all registers and the stack, so that it serves any
    /// signature.
    fn assembly(&self) -> Result<String> {
        let mut text = "    .text\n".to_owned();
        // Several names may lead to one function.
        let functions: BTreeSet<&str> = self.calls.iter().map(|(_, function)| function.as_str()).collect();
        for function in functions {
            writeln!(text, "    .symver to_{function}, {function}@{}", self.node)?;
        }
        for (name, function) in self.calls {
            let jump = match Machine::target()?.arch {
                "x86_64" => format!("    jmp *to_{function}@GOTPCREL(%rip)\n"),
                "aarch64" => format!(
                    "    adrp x16, :got:to_{function}\n    ldr x16, [x16, :got_lo12:to_{function}]\n    br x16\n"
                ),
                other => bail!("the jump of a part is not written for {other}"),
            };
            write!(
                text,
                "    .globl {name}\n    .type {name}, %function\n{name}:\n{jump}    .size {name}, . - {name}\n"
            )?;
        }
        Ok(text)
    }
}

/// A version script with one node, which holds these symbols and no others.
pub fn node<'a>(name: &str, symbols: impl Iterator<Item = &'a str>) -> String {
    let global: String = symbols.map(|symbol| format!("    {symbol};\n")).collect();
    let global = if global.is_empty() { global } else { format!("  global:\n{global}") };
    format!("{name} {{\n{global}  local:\n    *;\n}};\n")
}
