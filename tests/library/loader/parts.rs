//! The libraries for programs that link or load a part of the original.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::original::stand_in;
use super::{answers, compile, lib, with_path};
use crate::installed::{quiet, run, scratch};
use crate::interface::{BOTH, Interface};
use crate::table::Table;

/// The parts of the original and what each exports.
fn parts(interface: Interface) -> BTreeMap<String, Vec<String>> {
    let end = format!(".so.{}", interface.version()[0]);
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in Table::read("parts").rows().filter(|row| row.get("library").ends_with(&end)) {
        let symbols = parts.entry(row.get("library").to_owned()).or_default();
        symbols.extend(Some(row.get("symbol").to_owned()).filter(|symbol| !symbol.is_empty()));
    }
    parts
}

fn stems(interface: Interface) -> Vec<String> {
    parts(interface).into_keys().map(|name| name.split(".so").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_part_exports_its_calls_under_its_own_version() {
    for interface in BOTH {
        let parts = parts(interface);
        assert_eq!(parts.len(), if interface == Interface::Nine { 9 } else { 6 });
        for (soname, symbols) in parts {
            let file = lib(interface).join(&soname);
            let list =
                quiet(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&file));
            let mut found: Vec<&str> = list
                .lines()
                .filter_map(|line| line.split(' ').skip_while(|word| *word != "T").nth(1))
                .collect();
            let mut expected: Vec<String> =
                symbols.iter().map(|symbol| format!("{symbol}@@{soname}")).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            let dynamic = quiet(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&file));
            let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
            assert_eq!(needed.len(), 1, "{needed:?}");
            assert!(needed[0].contains(interface.soname()), "{needed:?}");
        }
    }
}

#[test]
fn a_program_linked_against_the_originals_parts_runs_unchanged() {
    for interface in BOTH {
        let folder = scratch(&format!("parts-{interface:?}"));
        for (soname, symbols) in parts(interface) {
            stand_in(&folder, &soname, &symbols, "77");
        }
        let libraries: Vec<String> =
            stems(interface).iter().map(|stem| format!("-l{}", &stem["lib".len()..])).collect();
        let path = format!("-L{}", folder.display());
        let mut flags = vec![path.as_str(), "-Wl,--no-as-needed"];
        flags.extend(libraries.iter().map(String::as_str));
        let program = compile(interface, "answers", &folder, &flags);
        for now in ["", "1"] {
            let mut command = with_path(&program, &lib(interface));
            assert_eq!(quiet(command.env("LD_BIND_NOW", now)), answers(interface));
        }
    }
}

#[test]
fn parts_share_the_state_of_the_main_library() {
    for interface in BOTH {
        let program = compile(interface, "parts", &scratch(&format!("share-{interface:?}")), &[]);
        let main = lib(interface).join(interface.soname());
        let part = lib(interface).join(if interface == Interface::Nine {
            "libcudnn_ops.so.9"
        } else {
            "libcudnn_ops_infer.so.8"
        });
        // 2 x 3 x 4 x 5 floats, whichever library is loaded first.
        let sizes = |first: &Path, second: &Path| run(Command::new(&program).args([first, second])).stdout;
        assert_eq!(sizes(&part, &main), b"480\n");
        assert_eq!(sizes(&main, &part), b"480\n");
    }
}
