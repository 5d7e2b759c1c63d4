//! The headers: each by itself, cudnn.h beside them and alone, half precision and random numbers in
//! C++.

use std::fs;
use std::path::{Path, PathBuf};

use crate::setting::{Headers, compiled, compiled_file, layout, linked, program, repository, scratch};
use crate::succeeds;

#[test]
fn cpp_compiles_with_cudnn_beside_it() {
    let Some(file) = program("headers", Headers::Ours) else { return };
    assert_eq!(succeeds(&file, &[]), "");
}

#[test]
fn halves_are_added_in_place() {
    for standard in ["c++11", "c++17"] {
        let file = scratch(&format!("halves-{standard}")).join("halves");
        let flag = format!("-std={standard}");
        if compiled("halves", &Headers::Ours.folders(), &[&flag, "-pedantic"], &file).is_some() {
            assert_eq!(succeeds(&file, &[]), "", "{standard}");
        }
    }
}

#[test]
fn random_numbers_of_kernels_are_drawn_on_the_host() {
    for standard in ["c++11", "c++17"] {
        let file = scratch(&format!("random-{standard}")).join("random");
        let flag = format!("-std={standard}");
        if compiled("random", &Headers::Ours.folders(), &[&flag, "-lm"], &file).is_some() {
            assert_eq!(succeeds(&file, &[]), "", "{standard}");
        }
    }
}

/// As the original's does: programs include `<cudnn.h>` alone and call the runtime.
#[test]
fn cudnn_h_alone_brings_in_the_runtime() {
    let source = "#include <cudnn.h>\nint main(void) { void *p = 0; return cudaMalloc(&p, 16) != cudaSuccess || \
                  cudaFree(p) != cudaSuccess; }\n";
    for (interface, folder) in [("9", "include"), ("8", "include/v8")] {
        let folders = [repository().join(folder), layout().join("include/host-cuda")];
        for (standard, end) in [("c99", "c"), ("c11", "c"), ("c++11", "cpp"), ("c++20", "cpp")] {
            let place = scratch(&format!("alone-{interface}-{standard}"));
            let (file, program) = (place.join("alone").with_extension(end), place.join("alone"));
            fs::write(&file, source).expect("the scratch folder is writable");
            let mut flags = linked().to_vec();
            flags.push(format!("-std={standard}"));
            if compiled_file(&file, &folders, &flags, &program).is_some() {
                assert_eq!(succeeds(&program, &[]), "", "{interface} {standard}");
            }
        }
    }
}

/// All files of a folder and of those in it, by their names from there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    listed.flat_map(|file| if file.is_dir() { files(&file) } else { vec![file] }).collect()
}

#[test]
fn every_header_stands_alone() {
    let folder = layout().join("include/host-cuda");
    let headers = files(&folder);
    assert!(headers.len() > 20 && headers.contains(&folder.join("crt/host_defines.h")), "{headers:?}");
    let place = scratch("stands-alone");
    for header in headers {
        let name = header.strip_prefix(&folder).expect("of the folder").display().to_string();
        for (standard, end) in [("c99", "c"), ("c++11", "cpp")] {
            let file = place.join("alone").with_extension(end);
            let source = format!("#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n");
            fs::write(&file, source).expect("the scratch folder is writable");
            let flags = [format!("-std={standard}"), format!("-I{}", folder.display())];
            if compiled_file(&file, &[], &flags, &place.join("alone")).is_none() {
                return;
            }
        }
    }
}
