//! The headers: generated from the sources, clean in every standard, and equal to the original's facts.

mod compile;
mod facts;
mod table;

use compile::{CLANG, CLANGXX, Compiler, GCC, GXX};
use std::process::Command;

/// Every header of the project.
const HEADERS: [&str; 19] = [
    "cudnn.h",
    "cudnn_v9.h",
    "cudnn_version.h",
    "cudnn_version_v9.h",
    "cudnn_graph.h",
    "cudnn_graph_v9.h",
    "cudnn_ops.h",
    "cudnn_ops_v9.h",
    "cudnn_cnn.h",
    "cudnn_cnn_v9.h",
    "cudnn_adv.h",
    "cudnn_adv_v9.h",
    "cudnn_backend.h",
    "cudnn_backend_v9.h",
    "cudnn_subquadratic_ops.h",
    "cudnn_subquadratic_ops_v9.h",
    "cudnn_gnn_ops.h",
    "cudnn_gnn_ops_v9.h",
    "cudnn_shim.h",
];

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

/// Compiles all headers together, twice, with and without CUDA headers and deprecation warnings.
fn clean(compiler: Compiler, standard: &str) {
    let stand_in = compile::cuda_stand_in();
    let stand_in = stand_in.to_str().expect("the repository's path is UTF-8");
    let source: String = HEADERS.iter().chain(&HEADERS).map(|h| format!("#include <{h}>\n")).collect();
    let source = source + "int main(void) { return 0; }\n";
    let standard_flag = format!("-std={standard}");
    // C89 knows neither long long nor a comma behind the last enumerator; every compiler in use does.
    let pedantic = if standard.ends_with("89") || standard.ends_with("98") { "-Wextra" } else { "-pedantic" };
    for cuda in [&["-DCUDNN_SHIM_NO_CUDA_HEADERS"][..], &["-I", stand_in]] {
        for warn in [&[][..], &["-DCUDNN_WARN_DEPRECATED"]] {
            let flags =
                [&[standard_flag.as_str(), "-Wall", "-Wextra", pedantic, "-Werror"], cuda, warn].concat();
            if let Err(said) = compiler.check(&source, &flags) {
                panic!("{} {flags:?}\n{said}", compiler.program);
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
            standards.iter().for_each(|standard| clean(compiler, standard));
        }
    }
}

#[test]
fn every_header_stands_alone() {
    for header in HEADERS {
        // A version header has no declarations of its own, which pedantic C wants at least one of.
        let source = format!("#include \"{header}\"\nint version = CUDNN_VERSION;\n");
        for (compiler, standard) in [(GCC, "-std=c99"), (GXX, "-std=c++11")] {
            if compiler.is_there()
                && let Err(said) =
                    compiler.check(&source, &[standard, "-Wall", "-Wextra", "-pedantic", "-Werror"])
            {
                panic!("{header}: {said}");
            }
        }
    }
}

#[test]
fn a_header_that_is_not_clean_is_noticed() {
    let source = "#include \"cudnn.h\"\nint f(void) { int unused; return 0; }\n";
    assert!(GCC.check(source, &["-Wall", "-Werror"]).is_err());
}

#[test]
fn with_cuda_headers_their_types_are_used() {
    let stand_in = compile::cuda_stand_in();
    let source = "#include \"cudnn.h\"\n#ifndef STAND_IN_CUDA_RUNTIME_API_H\n#error not included\n#endif\n\
                  #ifndef STAND_IN_LIBRARY_TYPES_H\n#error not included\n#endif\n";
    let stand_in = stand_in.to_str().expect("the repository's path is UTF-8");
    GCC.check(source, &["-I", stand_in]).expect("the CUDA headers are included where they are installed");
    assert!(GCC.check(source, &["-I", stand_in, "-DCUDNN_SHIM_NO_CUDA_HEADERS"]).is_err());
}

/// What the finders of 18 projects look for: in either header, from column 0, with exactly one space, a plain
/// decimal and nothing behind it.
#[test]
fn finders_read_the_version_from_either_header() {
    for header in ["cudnn.h", "cudnn_version.h"] {
        let text = std::fs::read_to_string(compile::include().join(header)).expect("the header exists");
        for (name, value) in [("CUDNN_MAJOR", "9"), ("CUDNN_MINOR", "27"), ("CUDNN_PATCHLEVEL", "0")] {
            let found: Vec<&str> =
                text.lines().filter(|line| line.contains(&format!("define {name}"))).collect();
            assert_eq!(found, [format!("#define {name} {value}")], "{header}");
        }
    }
}
