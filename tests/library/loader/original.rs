//! Stand-ins for the original's libraries: programs are linked against them, and they live beside
//! ours.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::{answers, compile, lib, with_path};
use crate::installed::{installed, quiet, run, scratch};
use crate::interface::{BOTH, Interface};

/// A library with this name and symbols; every call in it returns `answer`.
pub fn stand_in(folder: &Path, soname: &str, symbols: &[String], answer: &str) {
    let mut source = String::new();
    for name in symbols {
        writeln!(source, "long {name}(void) {{ return {answer}; }}").expect("writes to a string");
    }
    let stem = soname.split(".so").next().expect("a library's name");
    let (c, map) = (folder.join(stem).with_extension("c"), folder.join(stem).with_extension("map"));
    std::fs::write(&c, source + "static const char empty[] __attribute__((used)) = \"\";\n")
        .expect("writable");
    std::fs::write(&map, format!("{soname} {{ global: cudnn*; local: *; }};\n")).expect("writable");
    run(Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join(soname))
        .arg(c)
        .arg(format!("-Wl,-soname,{soname}"))
        .arg(format!("-Wl,--version-script={}", map.display())));
    std::os::unix::fs::symlink(soname, folder.join(format!("{stem}.so"))).expect("writable");
}

/// The original's main library; every call in it returns 77.
pub fn original(interface: Interface, folder: &Path) {
    let table = interface.symbols();
    let symbols: Vec<String> = table.rows().map(|row| row.get("symbol").to_owned()).collect();
    stand_in(folder, interface.soname(), &symbols, "77");
}

#[test]
fn preloaded_it_takes_the_originals_place() {
    for interface in BOTH {
        let folder = scratch(&format!("preload-{interface:?}"));
        original(interface, &folder);
        let flag = format!("-L{}", folder.display());
        let program = compile(interface, "answers", &folder, &[&flag, "-lcudnn"]);
        let plain = with_path(&program, &folder).output().expect("starts");
        assert_eq!(plain.status.code(), Some(1), "the stand-in does not answer as we do");
        let ours = lib(interface).join(interface.soname());
        assert_eq!(quiet(with_path(&program, &folder).env("LD_PRELOAD", &ours)), answers(interface));
        // Programs that know nothing of it do not notice.
        assert_eq!(quiet(Command::new("ls").arg("-d").arg("/").env("LD_PRELOAD", &ours)), "/\n");
    }
}

#[test]
fn it_works_beside_the_original_in_one_process() {
    for interface in BOTH {
        let folder = scratch(&format!("beside-{interface:?}"));
        original(interface, &folder);
        let program = compile(interface, "both", &folder, &[]);
        let ours = installed(interface).join("lib").join(interface.soname());
        let says = if interface == Interface::Nine { "92700 2000" } else { "8907 3" };
        let says = format!("{says} CUDNN_STATUS_BAD_PARAM");
        // The original is there first and for everyone to see; our library answers for itself.
        let mut command = with_path(&program, &folder);
        command.arg(&ours).env("LD_PRELOAD", folder.join(interface.soname()));
        assert_eq!(quiet(&mut command), format!("{says}\n").repeat(2));
    }
}
