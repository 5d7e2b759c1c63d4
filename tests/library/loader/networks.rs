//! A whole network: one program on either version of the library, and with the library preloaded in
//! the original's place.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::original::original;
use super::{lib, with_path};
use crate::installed::{installed, run, scratch};
use crate::interface::Interface;

/// The program of `examples/networks`, compiled and linked against the installation of a version.
fn program(interface: Interface, folder: &Path) -> PathBuf {
    let (sources, program) = (examples(), folder.join("networks"));
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O1", "-DCUDNN_SHIM_NO_CUDA_HEADERS", "-pthread", "-I"]);
    compiler.arg(installed(interface).join("include"));
    compiler.args(["main.cpp", "network.cpp", "train.cpp"].map(|name| sources.join(name)));
    run(compiler.arg("-o").arg(&program).arg(format!("-L{}", lib(interface).display())).arg("-lcudnn"));
    program
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/networks")
}

/// What a command makes of the small network, to the bit.
fn results(mut command: Command, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let out = folder.join("results");
    let _ = std::fs::remove_file(&out);
    command.arg(examples().join("small.txt")).args(["--batch", "2", "--out"]).arg(&out).args(arguments);
    run(command.env("CUDNN_SHIM_BACKEND", "cpu"));
    std::fs::read(&out).expect("results")
}

#[test]
fn a_network_gives_the_same_on_both_versions_and_preloaded() {
    let folders = [Interface::Nine, Interface::Eight].map(|interface| {
        let folder = scratch(&format!("networks-{interface:?}"));
        original(interface, &folder);
        (interface, program(interface, &folder), folder)
    });
    for arguments in
        [&[][..], &["--train"], &["--choose", "limit"], &["--threads", "4"], &["--processes", "4"]]
    {
        let (nine, program, folder) = &folders[0];
        let want = results(with_path(program, &lib(*nine)), arguments, folder);
        assert!(want.len() >= 4 && want.iter().any(|&byte| byte != want[0]), "{arguments:?}: {want:?}");
        for (interface, program, folder) in &folders {
            let got = results(with_path(program, &lib(*interface)), arguments, folder);
            assert!(got == want, "{interface:?} {arguments:?} differs from version 9's results");
            // The folder has the stand-in: only what is preloaded can compute.
            let mut preloaded = with_path(program, folder);
            preloaded.env("LD_PRELOAD", lib(*interface).join(interface.soname()));
            let got = results(preloaded, arguments, folder);
            assert!(got == want, "{interface:?} {arguments:?} differs when it is preloaded");
        }
    }
    let (_, program, folder) = &folders[0];
    let output = with_path(program, folder).arg(examples().join("small.txt")).output().expect("starts");
    assert!(!output.status.success(), "a library that computes nothing cannot run a network");
    // Of two choices by measurement, each may be another algorithm, whose numbers lie within the
    // bound.
    for (interface, program, folder) in &folders {
        let floats = |bytes: Vec<u8>| -> Vec<f32> {
            bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().expect("four"))).collect()
        };
        let want = floats(results(with_path(program, &lib(*interface)), &[], folder));
        let got = floats(results(with_path(program, &lib(*interface)), &["--choose", "find"], folder));
        let largest = want.iter().fold(0_f32, |largest, x| largest.max(x.abs()));
        assert!(want.iter().zip(&got).all(|(w, g)| (w - g).abs() <= 1e-3 * largest), "{want:?}\n{got:?}");
    }
}
