//! Libraries for programs that ask for a part, such as `libcudnn_ops.so.9`: every call jumps into the main library.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::api::Api;
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

/// Links the part `soname` at `file`. It finds the main library, which lies in `lib`, beside itself.
///
/// It holds jumps and nothing else, so that there is one copy of every state whatever a program links or loads.
pub fn link(api: Api, soname: &str, symbols: &[String], lib: &Path, file: &Path) -> Result<()> {
    let scratch = Scratch::new("parts")?;
    let source = scratch.0.join(soname).with_extension("s");
    fs::write(&source, assembly(api, symbols)?)
        .with_context(|| format!("cannot write {}", source.display()))?;
    // The version node has the name of the part, as in the original.
    let script = source.with_extension("map");
    fs::write(&script, format!("{soname} {{\n  global: cudnn*;\n  local: *;\n}};\n"))
        .with_context(|| format!("cannot write {}", script.display()))?;
    shell::run(
        tools::c_compiler()?
            .args([
                "-shared",
                "-nostdlib",
                "-fuse-ld=bfd",
                "-Wl,-z,noexecstack",
                "-Wl,-z,now",
                "-Wl,--no-as-needed",
            ])
            .args([&format!("-Wl,-soname,{soname}"), "-Wl,-rpath,$ORIGIN"])
            .arg(format!("-Wl,--version-script={}", script.display()))
            .arg(&source)
            .arg(lib.join(api.soname()))
            .arg("-o")
            .arg(file),
    )
}

/// One jump for each call: it keeps all registers and the stack, so that it serves any signature.
fn assembly(api: Api, symbols: &[String]) -> Result<String> {
    let mut text = "    .text\n".to_owned();
    for name in symbols {
        let jump = match std::env::consts::ARCH {
            "x86_64" => format!("    jmp *to_{name}@GOTPCREL(%rip)\n"),
            "aarch64" => {
                format!("    adrp x16, :got:to_{name}\n    ldr x16, [x16, :got_lo12:to_{name}]\n    br x16\n")
            }
            other => bail!("the jump of a part is not written for {other}"),
        };
        write!(
            text,
            "    .symver to_{name}, {name}@{}\n    .globl {name}\n    .type {name}, %function\n\
             {name}:\n{jump}    .size {name}, . - {name}\n",
            api.soname()
        )?;
    }
    Ok(text)
}
