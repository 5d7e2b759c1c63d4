//! The headers: generated from the sources, clean in every standard, and equal to the original's
//! facts.

mod compile;
mod facts;
mod names;

use crate::interface::{BOTH, Interface};
use compile::{CLANG, CLANGXX, Compiler, GCC, GXX};
use std::path::Path;
use std::process::Command;

/// Every header of a version but the extensions: each is there under a second name, with the major
/// version.
fn headers(interface: Interface) -> Vec<String> {
    let (suffix, parts) = match interface {
        Interface::Nine => ("v9", ["graph", "ops", "cnn", "adv", "backend", "subquadratic_ops", "gnn_ops"]),
        Interface::Eight => {
            ("v8", ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train", "backend"])
        }
    };
    let names = ["cudnn".to_owned(), "cudnn_version".to_owned()];
    let names = names.into_iter().chain(parts.map(|part| format!("cudnn_{part}")));
    names.flat_map(|name| [format!("{name}.h"), format!("{name}_{suffix}.h")]).collect()
}

/// The same and the extensions: what the folder holds.
fn all_headers(interface: Interface) -> Vec<String> {
    let mut headers = headers(interface);
    headers.push("cudnn_shim.h".to_owned());
    headers
}

#[test]
fn the_folders_hold_these_headers_and_nothing_else() {
    for interface in BOTH {
        let files = std::fs::read_dir(interface.include()).expect("the folder exists");
        let mut found: Vec<String> = files
            .map(|entry| entry.expect("readable"))
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().expect("UTF-8"))
            .collect();
        let mut expected = all_headers(interface);
        if interface == Interface::Nine {
            // The objects of C++, which are installed with either version.
            expected.push("cudnn.hpp".to_owned());
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

fn xtask(arguments: &[&str]) {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn cudnn_h_is_what_the_sources_generate() {
    xtask(&["header", "--check"]);
}

#[test]
fn matrix_md_is_what_the_sources_generate() {
    xtask(&["matrix", "--check"]);
}

#[test]
fn kernels_md_is_what_the_sources_generate() {
    xtask(&["kernels", "--check"]);
}

/// Compiles all headers together, twice, with and without CUDA headers and deprecation warnings.
fn clean(interface: Interface, compiler: Compiler, standard: &str) {
    let stand_in = compile::cuda_stand_in();
    let stand_in = stand_in.to_str().expect("the repository's path is UTF-8");
    let headers = all_headers(interface);
    let source: String = headers.iter().chain(&headers).map(|h| format!("#include <{h}>\n")).collect();
    let source = source + "int main(void) { return 0; }\n";
    let standard_flag = format!("-std={standard}");
    // C89 knows neither long long nor a comma behind the last enumerator; every compiler in use
    // does.
    let pedantic = if standard.ends_with("89") || standard.ends_with("98") { "-Wextra" } else { "-pedantic" };
    for cuda in [&["-DCUDNN_SHIM_NO_CUDA_HEADERS"][..], &["-I", stand_in]] {
        for warn in [&[][..], &["-DCUDNN_WARN_DEPRECATED"]] {
            let flags =
                [&[standard_flag.as_str(), "-Wall", "-Wextra", pedantic, "-Werror"], cuda, warn].concat();
            if let Err(said) = compiler.check(interface, &source, &flags) {
                panic!("{} {interface:?} {flags:?}\n{said}", compiler.program);
            }
        }
    }
}

#[test]
fn headers_are_clean_in_every_standard() {
    let c = ["c89", "gnu89", "c99", "c11", "c17"];
    let cpp = ["c++98", "c++11", "c++14", "c++17", "c++20"];
    for (compiler, standards) in [(GCC, c), (CLANG, c), (GXX, cpp), (CLANGXX, cpp)] {
        if compiler.is_there() {
            for (interface, standard) in BOTH.into_iter().flat_map(|i| standards.map(|s| (i, s))) {
                clean(interface, compiler, standard);
            }
        }
    }
}

#[test]
fn headers_of_host_cuda_come_before_or_behind() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/host-cuda/include");
    let ours = "#include <cudnn.h>\n";
    let theirs = "#include <cuda_runtime.h>\n#include <cublas_v2.h>\n";
    for order in [[ours, theirs], [theirs, ours]] {
        let source = order.concat() + "int main(void) { return 0; }\n";
        for (compiler, standard) in [(GCC, "-std=c99"), (CLANG, "-std=c99"), (GXX, "-std=c++11")] {
            let flags = [standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", host];
            if compiler.is_there()
                && let Err(said) = compiler.check(Interface::Nine, &source, &flags)
            {
                panic!("{} {standard} {order:?}\n{said}", compiler.program);
            }
        }
    }
}

#[test]
fn every_header_stands_alone() {
    for (interface, header) in BOTH.into_iter().flat_map(|i| all_headers(i).into_iter().map(move |h| (i, h)))
    {
        // A version header has no declarations of its own, which pedantic C wants at least one of.
        let source = format!("#include \"{header}\"\nint version = CUDNN_VERSION;\n");
        for (compiler, standard) in [(GCC, "-std=c99"), (GXX, "-std=c++11")] {
            if compiler.is_there()
                && let Err(said) = compiler.check(
                    interface,
                    &source,
                    &[standard, "-Wall", "-Wextra", "-pedantic", "-Werror"],
                )
            {
                panic!("{interface:?} {header}: {said}");
            }
        }
    }
}

#[test]
fn a_header_that_is_not_clean_is_noticed() {
    let source = "#include \"cudnn.h\"\nint f(void) { int unused; return 0; }\n";
    assert!(GCC.check(Interface::Nine, source, &["-Wall", "-Werror"]).is_err());
}

#[test]
fn with_cuda_headers_their_types_are_used() {
    let stand_in = compile::cuda_stand_in();
    let stand_in = stand_in.to_str().expect("the repository's path is UTF-8");
    for (interface, runtime) in
        [(Interface::Nine, "CUDA_RUNTIME_API_H"), (Interface::Eight, "CUDA_RUNTIME_H")]
    {
        let source = format!(
            "#include \"cudnn.h\"\n#ifndef STAND_IN_{runtime}\n#error not included\n#endif\n\
             #ifndef STAND_IN_LIBRARY_TYPES_H\n#error not included\n#endif\n"
        );
        GCC.check(interface, &source, &["-I", stand_in])
            .expect("the CUDA headers are included where they are installed");
        let without = ["-I", stand_in, "-DCUDNN_SHIM_NO_CUDA_HEADERS"];
        assert!(GCC.check(interface, &source, &without).is_err());
    }
}

/// Packages bring parts of the toolkit: some have everything but `crt/`, others a header or two.
/// cudnn.h includes none that would not compile, and the program may include those that it has
/// before or behind it.
#[test]
fn with_part_of_the_cuda_headers_it_compiles() {
    let compile = |folder: &Path, missing: &str, compilers: &[Compiler]| {
        let folder = folder.to_str().expect("the repository's path is UTF-8");
        let uses = "cudaStream_t s; cudaGraph_t g; libraryPropertyType p = PATCH_LEVEL;\nint f(void) { return (int)p; }\n";
        let types = if missing == "library_types.h" { "" } else { "#include <library_types.h>\n" };
        for (interface, &compiler) in BOTH.into_iter().flat_map(|i| compilers.iter().map(move |c| (i, c))) {
            for (before, behind) in [(types, ""), ("", types)] {
                let source = format!("{before}#include \"cudnn.h\"\n{behind}{uses}");
                if let Err(said) = compiler.check(interface, &source, &["-Wall", "-Werror", "-I", folder]) {
                    panic!("{} {interface:?} without {missing}\n{source}{said}", compiler.program);
                }
            }
        }
    };
    for missing in compile::cuda_headers() {
        compile(&compile::cuda_folder(missing, |header| header != missing), missing, &[GCC]);
    }
    let folder = compile::cuda_folder("crt", |header| !header.starts_with("crt/"));
    compile(&folder, "crt", &[GCC, GXX]);
    // The stand-ins are like the toolkit's: without what they include they do not compile.
    let flags = ["-I", folder.to_str().expect("UTF-8"), "-DCUDNN_SHIM_HAS_CUDA_HEADERS"];
    assert!(GCC.check(Interface::Nine, "#include \"cudnn.h\"\n", &flags).is_err());
    for only in ["cuda_runtime_api.h", "cuda_runtime.h"] {
        compile(
            &compile::cuda_folder(&format!("only-{only}"), |header| header == only),
            "library_types.h",
            &[GCC],
        );
    }
}

#[test]
fn a_preprocessor_that_cannot_look_for_cuda_headers_takes_those_that_came_before() {
    let stand_in = compile::cuda_stand_in();
    let stand_in = stand_in.to_str().expect("the repository's path is UTF-8");
    let blind = ["-I", stand_in, "-U__has_include"];
    let before = "#include <cuda_runtime_api.h>\n#include <library_types.h>\n#include \"cudnn.h\"\n";
    let behind = "#include \"cudnn.h\"\n#include <cuda_runtime_api.h>\n#include <library_types.h>\n";
    for (interface, compiler) in BOTH.into_iter().flat_map(|i| [GCC, CLANG, GXX, CLANGXX].map(|c| (i, c))) {
        if compiler.is_there() {
            let told = [&blind[..], &["-DCUDNN_SHIM_HAS_CUDA_HEADERS"]].concat();
            for (source, flags) in [(before, &blind[..]), (before, &told), (behind, &told)] {
                if let Err(said) = compiler.check(interface, source, flags) {
                    panic!("{} {interface:?} {flags:?}\n{said}", compiler.program);
                }
            }
            assert!(compiler.check(interface, behind, &blind).is_err(), "{} {interface:?}", compiler.program);
        }
    }
}

/// What the finders of 18 projects look for: in either header, from column 0, with exactly one
/// space, a plain decimal and nothing behind it.
#[test]
fn finders_read_the_version_from_either_header() {
    for (interface, header) in BOTH.into_iter().flat_map(|i| [(i, "cudnn.h"), (i, "cudnn_version.h")]) {
        let text = std::fs::read_to_string(interface.include().join(header)).expect("the header exists");
        let names = ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"];
        for (name, value) in names.into_iter().zip(interface.version()) {
            let found: Vec<&str> =
                text.lines().filter(|line| line.contains(&format!("define {name}"))).collect();
            assert_eq!(found, [format!("#define {name} {value}")], "{header}");
        }
    }
}
