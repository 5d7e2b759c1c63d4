//! The runtime as C programs get it: compiled against the headers of this library and the real
//! ones, linked with libraries laid out as an installation has them, and with the real library
//! swapped for ours.

mod headers;
mod real;
mod setting;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use setting::{Headers, compiled, is_there, layout, linked, program, repository, run, scratch};

/// Programs that run to the end in silence, and whether they do with guarded memory, too.
const PROGRAMS: [(&str, bool); 6] = [
    ("memory", true),
    ("misuse", true),
    ("streams", true),
    ("graphs", true),
    ("kernels", true),
    ("driver", true),
];

/// Runs a program with our libraries.
fn started(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments);
    command.env("LD_LIBRARY_PATH", layout().join("lib/host-cuda")).envs(environment.iter().copied());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program that has to succeed; what it said on its error stream.
pub fn succeeds(program: &Path, environment: &[(&str, &str)]) -> String {
    let output = started(program, &[], environment);
    assert!(output.status.success(), "{}: {}\n{}", program.display(), output.status, text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn programs_run_to_the_end() {
    for (name, guarded) in PROGRAMS {
        let Some(file) = program(name, Headers::Ours) else { return };
        let said = succeeds(&file, &[]);
        // Each kernel that is wanted is told once, whatever the environment.
        let sentences = said.lines().count();
        assert_eq!(sentences, usize::from(name == "kernels"), "{name}: {said}");
        assert!(name != "kernels" || said.contains("_Z3addPfS_"), "{said}");
        if guarded {
            succeeds(&file, &[("CUDNN_SHIM_HOST_CHECK", "1")]);
        }
    }
}

/// In the midst of every call, those of cuBLAS and cuRAND, too.
#[test]
fn want_of_memory_is_a_status() {
    let file = scratch("no_memory").join("no_memory");
    let libraries = linked().into_iter().chain(["-lcublas", "-lcurand"].map(str::to_owned));
    let libraries: Vec<String> = libraries.collect();
    let Some(()) = compiled("no_memory", &Headers::Ours.folders(), &libraries, &file) else { return };
    // The libcudnn that was built with this program, where cuBLAS looks for one.
    let built = std::env::current_exe().expect("this program").with_file_name("libcudnn.so");
    let beside = layout().join("lib/libcudnn.so.9");
    if !beside.exists() {
        std::os::unix::fs::symlink(built, &beside).expect("a link");
    }
    for (threads, arguments) in [("1", &[][..]), ("3", &["several"])] {
        let variables = [("CUDNN_SHIM_BACKEND", "cpu"), ("CUDNN_SHIM_NUM_THREADS", threads)];
        let output = started(&file, arguments, &variables);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{threads} threads: {}\n{said}", output.status);
    }
}

#[test]
fn failures_are_told_with_argument_value_and_rule_if_asked_for() {
    let Some(file) = program("misuse", Headers::Ours) else { return };
    let said = succeeds(&file, &[("CUDNN_SHIM_HOST_LOG", "1")]);
    for sentence in [
        "cudaMalloc: InvalidValue: the pointer to store the address at is NULL",
        "cudaMemcpy: InvalidMemcpyDirection: kind is 5, not 0 to 4",
        "freed before",
        "there is one, 0",
    ] {
        assert!(said.contains(sentence), "{sentence} is not in\n{said}");
    }
}

#[test]
fn the_device_is_what_the_environment_says() {
    let Some(file) = program("streams", Headers::Ours) else { return };
    // `streams` compares capability and memory of the properties with attributes.
    succeeds(&file, &[("CUDNN_SHIM_HOST_CAPABILITY", "7.5"), ("CUDNN_SHIM_HOST_MEMORY", "64M")]);
    let Some(file) = program("memory", Headers::Ours) else { return };
    let output = started(&file, &[], &[("CUDNN_SHIM_HOST_MEMORY", "100")]);
    assert!(text(&output.stderr).contains("cudaErrorMemoryAllocation"), "{}", text(&output.stderr));
}

#[test]
fn the_guard_finds_planted_faults() {
    let Some(file) = program("overrun", Headers::Ours) else { return };
    let guarded = [("CUDNN_SHIM_HOST_CHECK", "1")];
    // The case, the signal that ends it, and what is said.
    for (case, signal, sentence) in [
        ("fresh", None, ""),
        ("aligned", None, ""),
        ("end", Some(libc::SIGABRT), "written 1 bytes past the end of the block of 1000 bytes"),
        (
            "before the start",
            Some(libc::SIGABRT),
            "written 1 bytes before the start of the block of 1000 bytes",
        ),
        ("x: at exit", Some(libc::SIGABRT), "written 1 bytes past the end of the block of 1000 bytes"),
        (
            "nr: read of a number",
            Some(libc::SIGSEGV),
            "touched 1 bytes past the end of the block of 400 bytes",
        ),
        (
            "nw: write of a number",
            Some(libc::SIGSEGV),
            "touched 1 bytes past the end of the block of 400 bytes",
        ),
        ("pages", Some(libc::SIGSEGV), "touched 257 bytes past the end of the block of 1000 bytes"),
        ("used after it was freed", Some(libc::SIGSEGV), ""),
        ("overlap", None, ""),
        ("copy", None, ""),
    ] {
        // Without `timeout` in between, which turns signals into statuses.
        let output = Command::new(&file)
            .arg(case)
            .env("LD_LIBRARY_PATH", layout().join("lib/host-cuda"))
            .envs(guarded)
            .output()
            .expect("the program starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.signal(), signal, "{case}: {said}");
        assert!(signal.is_some() || output.status.success(), "{case}: {said}");
        assert!(said.contains(sentence) && said.is_empty() == sentence.is_empty(), "{case}: {said}");
    }
    // Unguarded, nobody notices, as on a GPU.
    for case in ["end", "pages"] {
        let output = started(&file, &[case], &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{case}");
    }
}

#[test]
fn nothing_leaks() {
    if !is_there("valgrind", "valgrind") {
        return;
    }
    for name in ["memory", "graphs"] {
        let Some(file) = program(name, Headers::Ours) else { return };
        let output = Command::new("valgrind")
            .args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=9"])
            .arg(&file)
            .env("LD_LIBRARY_PATH", layout().join("lib/host-cuda"))
            .output()
            .expect("valgrind starts");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn the_static_runtime_links_alone() {
    let archive = layout().join("lib/host-cuda/libcudart_static.a");
    let folder = scratch("static");
    for name in ["memory", "misuse", "streams", "kernels"] {
        let file = folder.join(name);
        let libraries = [archive.to_str().expect("UTF-8"), "-lpthread", "-ldl", "-lrt", "-lm"];
        if compiled(name, &Headers::Ours.folders(), &libraries, &file).is_none() {
            return;
        }
        succeeds(&file, &[]);
        let needed = run(Command::new("readelf").arg("-d").arg(&file));
        assert!(!needed.contains("libcudart") && !needed.contains("cudnn_shim_host"), "{needed}");
    }
    // Libraries would not find it, so that it does not begin what they could not take part in.
    let file = folder.join("graphs");
    let libraries = [archive.to_str().expect("UTF-8"), "-lpthread", "-ldl", "-lrt", "-lm"];
    if compiled("graphs", &Headers::Ours.folders(), &libraries, &file).is_some() {
        let output = started(&file, &[], &[]);
        assert!(text(&output.stderr).contains("answers cudaErrorNotSupported"), "{}", text(&output.stderr));
    }
}

/// The defined functions of a library and the versions that they have.
fn symbols(library: &Path) -> BTreeMap<String, String> {
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let functions = listed.lines().filter_map(|line| {
        let (symbol, version) = line.split_once(" T ")?.1.split_once('@')?;
        Some((symbol.to_owned(), version.trim_start_matches('@').to_owned()))
    });
    functions.collect()
}

fn soname(library: &Path) -> String {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library));
    let name = dynamic.lines().find_map(|line| line.split_once("soname: ["));
    name.map_or_else(String::new, |(_, name)| name.trim_end_matches(']').to_owned())
}

#[test]
fn names_versions_and_soname_are_those_of_the_real_libraries() {
    for package in real::PACKAGES {
        let Some(folder) = real::unpacked(package) else { continue };
        let (theirs, ours) =
            (folder.join(package.library), layout().join("lib/host-cuda").join(package.soname));
        assert_eq!(soname(&theirs), package.soname);
        assert_eq!(soname(&ours), package.soname);
        let (theirs, ours) = (symbols(&theirs), symbols(&ours));
        assert!(theirs.len() > 300, "{}: {} symbols", package.soname, theirs.len());
        assert_eq!(ours, theirs, "{}", package.soname);
        assert!(ours.values().all(|version| version == package.soname));
    }
}

#[test]
fn programs_of_the_real_headers_and_library_run_on_ours() {
    for package in real::PACKAGES {
        let Some(folder) = real::unpacked(package) else { continue };
        let library = folder.join(package.library);
        let headers = [folder.join(package.include), repository().join("c_tests/host_cuda")];
        for name in ["memory", "streams", "graphs", "misuse"] {
            // Graphs are instantiated and updated by other parameters in each version; the program
            // is written for 12.
            if name != "streams" && name != "memory" && package.soname != "libcudart.so.12" {
                continue;
            }
            let file = scratch(&format!("real-{}", package.soname)).join(name);
            let libraries = [library.to_str().expect("UTF-8"), "-lpthread", "-Wl,--allow-shlib-undefined"];
            if compiled(name, &headers, &libraries, &file).is_none() {
                return;
            }
            assert_eq!(succeeds(&file, &[]), "", "{name} of {}", package.soname);
        }
    }
}

#[test]
fn what_is_not_built_answers_so_and_why() {
    let source = "#include \"check.h\"\nint cudaIpcGetMemHandle(void *, void *);\n\
                  int main(void) { EXPECT(cudaIpcGetMemHandle(0, 0) == cudaErrorNotSupported); \
                  EXPECT(cudaGetLastError() == cudaErrorNotSupported); return 0; }\n";
    let folder = scratch("refused");
    let file = folder.join("refused.c");
    fs::write(&file, source).expect("the scratch folder is writable");
    let program = folder.join("refused");
    if setting::compiled_file(&file, &Headers::Ours.folders(), &linked(), &program).is_none() {
        return;
    }
    let said = succeeds(&program, &[("CUDNN_SHIM_HOST_LOG", "1")]);
    assert!(said.contains("cudaIpcGetMemHandle: NotSupported: not built: memory is not shared"), "{said}");
}

#[test]
fn cmake_finds_the_toolkit_if_it_is_asked_to() {
    if !is_there("cmake", "cmake") {
        return;
    }
    let (source, build) = (scratch("cmake-source"), scratch("cmake-build"));
    let lists = "cmake_minimum_required(VERSION 3.17)\nproject(p C)\nfind_package(CUDAToolkit 12 REQUIRED)\n\
                 add_executable(p memory.c)\ntarget_link_libraries(p CUDA::cudart)\n\
                 add_executable(s memory.c)\ntarget_link_libraries(s CUDA::cudart_static)\n";
    fs::write(source.join("CMakeLists.txt"), lists).expect("the scratch folder is writable");
    for name in ["memory.c", "check.h"] {
        let from = repository().join("c_tests/host_cuda").join(name);
        fs::copy(from, source.join(name)).expect("the program can be copied");
    }
    let module = layout().join("lib/host-cuda/cmake/CUDAToolkit");
    run(Command::new("cmake")
        .arg("-S")
        .arg(&source)
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_MODULE_PATH={}", module.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(succeeds(&build.join("p"), &[]), "");
    assert_eq!(succeeds(&build.join("s"), &[]), "");
}

#[test]
fn libcudnn_leaves_its_calls_to_a_stream_that_captures() {
    let folder = scratch("libcudnn");
    let built = std::env::current_exe().expect("this program").with_file_name("libcudnn.so");
    fs::copy(&built, folder.join("libcudnn.so.9")).expect("the library is beside this program");
    let mut libraries = linked().to_vec();
    libraries.push(folder.join("libcudnn.so.9").to_str().expect("UTF-8").to_owned());
    libraries.push(format!("-Wl,-rpath,{}", folder.display()));
    let file = folder.join("captured_call");
    if compiled("captured_call", &Headers::Ours.folders(), &libraries, &file).is_some() {
        let said = succeeds(&file, &[("CUDNN_SHIM_BACKEND", "cpu")]);
        assert_eq!(said, "");
    }
}
