//! The programs of `c_tests/` on the CUDA core: the same checks, with tensors moved to the device
//! around each call, or left where they are on a device that reaches the memory of the host.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

use crate::double::{self, Runs};
use crate::{child, common};

/// How the device comes to the tensors of a program.
#[derive(Clone, Copy, PartialEq)]
enum Tensors {
    /// `on_device.h` moves them.
    Moved,
    /// It reaches them where they are, and every call waits for its end, as the program does not.
    InPlace,
}

/// Compiles and runs one program in C; it has to pass and to be silent.
fn passes(name: &str) {
    compiled_passes([name, "c", "gcc", "-std=c11"], &[], Tensors::Moved, Runs::asked());
}

/// The same, with its tensors in place.
fn passes_in_place(name: &str) {
    passes_in_place_with(name, &[]);
}

fn passes_in_place_with(name: &str, arguments: &[&str]) {
    if double::is_real() {
        return println!("skipped: {name}, for not every device reaches the memory of the host");
    }
    compiled_passes([name, "c", "gcc", "-std=c11"], arguments, Tensors::InPlace, Runs::asked());
}

fn compiled_passes(
    [name, extension, compiler, standard]: [&str; 4], arguments: &[&str], tensors: Tensors, runs: Runs,
) {
    let source = common::project_root().join("c_tests").join(format!("{name}.{extension}"));
    let output = compiled_prints((&source, compiler, standard), arguments, tensors, runs);
    let text = child::text(&output);
    assert!(output.status.success() && text.is_empty(), "{}\n{text}", output.status);
}

/// What a program leaves that is compiled so and runs with these arguments.
fn compiled_prints(
    (source, compiler, standard): (&Path, &str, &str), arguments: &[&str], tensors: Tensors, runs: Runs,
) -> Output {
    let of_ptx = if runs == Runs::asked() { "" } else { "_on_ptx" };
    let name = source.file_stem().and_then(|name| name.to_str()).expect("a name of text");
    let scratch = common::scratch_dir(&format!("cuda_programs{of_ptx}/{name}"));
    let lib = common::install_layout(&scratch);
    let binary = scratch.join(name);
    let c_tests = common::project_root().join("c_tests");
    let double = double::of(runs);
    let mut command = Command::new(compiler);
    if tensors == Tensors::Moved {
        command.arg("-include").arg(c_tests.join("on_device.h"));
    }
    let output = command
        .args([
            standard,
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-O1",
            "-g",
        ])
        .arg("-I")
        .arg(common::project_root().join("include"))
        .arg("-I")
        .arg(c_tests.join("driver_double"))
        .arg(source)
        .arg("-o")
        .arg(&binary)
        .arg("-L")
        .arg(&lib)
        .arg("-L")
        .arg(&double)
        .args(["-lcudnn", "-lcudart", "-lm", "-lpthread", "-Wl,--allow-shlib-undefined"])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; install it: apt-get install {compiler}"));
    assert!(output.status.success(), "{}", child::text(&output));
    let mut command = Command::new(&binary);
    if tensors == Tensors::InPlace {
        command.envs([("DRIVER_DOUBLE_PAGEABLE", "1"), ("CUDA_LAUNCH_BLOCKING", "1")]);
    }
    command
        .args(arguments)
        .current_dir(common::project_root())
        .env("LD_LIBRARY_PATH", joined(&[&lib, &double]))
        .env("CUDNN_SHIM_BACKEND", "cuda")
        .env("CUDNN_SHIM_CHECK", "1")
        .env_remove("CUDNN_SHIM_STRICT")
        .output()
        .expect("the program starts")
}

fn joined(paths: &[&Path]) -> OsString {
    std::env::join_paths(paths).expect("paths without colons")
}

#[test]
fn transform() {
    passes("transform");
}

#[test]
fn blocked() {
    passes("blocked");
}

#[test]
fn threads() {
    passes("threads");
}

#[test]
fn context() {
    passes("context");
}

#[test]
fn descriptors() {
    passes("descriptors");
}

#[test]
fn misuse() {
    passes("misuse");
}

#[test]
fn misuse_pointwise() {
    passes("misuse_pointwise");
}

#[test]
fn misuse_reduce() {
    passes("misuse_reduce");
}

#[test]
fn misuse_filter() {
    passes("misuse_filter");
}

#[test]
fn small_descriptors() {
    passes("small_descriptors");
}

#[test]
fn set_up() {
    passes("set_up");
}

#[test]
fn attention() {
    passes("attention");
}

#[test]
fn arrays_of_the_host() {
    passes_in_place("host_arrays");
}

#[test]
fn attention_training() {
    passes("attention_training");
}

#[test]
fn spatial_transformer() {
    passes("spatial_transformer");
}

#[test]
fn perceptron() {
    passes("perceptron");
}

#[test]
fn not_built() {
    passes("not_built");
}

#[test]
fn convolution() {
    passes("convolution");
}

#[test]
fn cpp() {
    compiled_passes(["cpp", "cpp", "g++", "-std=c++11"], &[], Tensors::Moved, Runs::asked());
}

#[test]
fn convolution_directions() {
    passes_in_place("convolution_directions");
}

#[test]
fn convolution_fused() {
    passes_in_place("convolution_fused");
}

#[test]
fn convolution_queries() {
    passes_in_place("convolution_queries");
}

#[test]
fn convolution_sums() {
    // Of one type on a double, where a million terms take half a minute.
    passes_in_place_with("convolution_sums", if double::is_full() { &[] } else { &["1"] });
}

#[test]
fn convolution_workspaces() {
    passes_in_place("convolution_workspaces");
}

#[test]
fn strict_answers() {
    passes_in_place("strict_answers");
}

#[test]
fn layers() {
    passes_in_place("layers");
}

#[test]
fn ctc() {
    passes_in_place("ctc");
}

#[test]
fn in_place() {
    passes_in_place("in_place");
}

#[test]
fn fused_operations() {
    passes_in_place("fused_operations");
}

#[test]
fn matmul() {
    passes_in_place("matmul");
}

#[test]
fn graph() {
    passes_in_place("graph");
}

#[test]
fn recurrent() {
    passes_in_place("recurrent");
}

#[test]
fn sequences_and_graphs() {
    passes("sequences_and_graphs");
}

/// Programs of each family whose kernels' PTX is executed in seconds; `CUDNN_SHIM_DOUBLE=ptx` has
/// all of the others execute theirs.
#[test]
fn programs_of_every_family_pass_on_ptx() {
    if double::is_real() {
        return println!("skipped: a real driver runs the programs above");
    }
    for name in
        ["transform", "blocked", "perceptron", "spatial_transformer", "convolution", "sequences_and_graphs"]
    {
        compiled_passes([name, "c", "gcc", "-std=c11"], &[], Tensors::Moved, Runs::Ptx);
    }
    for name in ["layers", "ctc", "fused_operations", "matmul", "graph", "recurrent"] {
        compiled_passes([name, "c", "gcc", "-std=c11"], &[], Tensors::InPlace, Runs::Ptx);
    }
}

/// A step of training and 360 digits: the weights that are left have the same bits.
#[test]
fn the_network_of_the_demo_learns_the_same_on_ptx_and_on_the_sources() {
    if double::is_real() {
        return println!("skipped: a real driver has no sources to run");
    }
    let source = common::project_root().join("demo/digits.c");
    let [ptx, sources] = [Runs::Ptx, Runs::Source].map(|runs| {
        let arguments = ["--steps", "1", "demo/digits.dat"];
        let output = compiled_prints((&source, "gcc", "-std=c99"), &arguments, Tensors::InPlace, runs);
        assert!(output.status.success(), "{}", child::text(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, weights) = text.rsplit_once("weights ").expect("a line of results");
        weights.trim().to_owned()
    });
    assert_eq!(ptx, sources);
}

/// What these test lies in the memory and the threads of the host, or is said by the CPU core
/// alone, which looks at a reserve.
const OF_THE_HOST: [&str; 20] = [
    "closed_streams",
    "constant_filters",
    "convolution_no_memory",
    "disjoint",
    "factors",
    "float_mode",
    "fork_churn",
    "forked",
    "interrupted",
    "layouts",
    "no_memory",
    "no_memory_first",
    "no_memory_graph",
    "no_memory_layers",
    "no_memory_training",
    "page_faults",
    "panics",
    "pooling_extremes",
    "recurrent_reserve",
    "small_stack",
];

/// Minutes on the double, which takes a thread of the device after the other; `contract.rs` runs
/// the steps of such calls, and `recurrent` the calls of the others.
const TOO_LONG: [&str; 5] = [
    "convolution_large",
    "convolution_threads",
    "convolution_winograd",
    "recurrent_clients",
    "recurrent_doors",
];

#[test]
fn every_program_runs_here() {
    let dir = common::project_root().join("c_tests");
    let files = std::fs::read_dir(dir).expect("c_tests").map(|entry| entry.expect("entry").path());
    let programs = files.filter(|file| file.extension().is_some_and(|e| e == "c" || e == "cpp"));
    let tests = include_str!("programs.rs");
    for program in programs {
        let name = program.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let known = OF_THE_HOST.contains(&name)
            || TOO_LONG.contains(&name)
            || tests.contains(&format!("passes(\"{name}\""))
            || tests.contains(&format!("passes([\"{name}\""))
            || tests.contains(&format!("passes_in_place(\"{name}\""))
            || tests.contains(&format!("passes_in_place_with(\"{name}\""));
        assert!(known, "{name} does not run on the CUDA core");
    }
}

/// Trains the network of the demo for two steps and returns the loss on the images that it has not
/// seen, and how many of them it gets right.
fn digits(on_gpu: bool) -> (f64, i64) {
    let core = if on_gpu { "cuda" } else { "cpu" };
    let scratch = common::scratch_dir(&format!("cuda_programs/digits_{core}"));
    let (lib, binary, root) =
        (common::install_layout(&scratch), scratch.join("digits"), common::project_root());
    let double = double::libraries();
    let mut command = Command::new("gcc");
    command.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root.join("include"));
    if on_gpu {
        command.arg("-DON_GPU").arg("-I").arg(root.join("c_tests/driver_double"));
    }
    command.arg(root.join("demo/digits.c")).arg("-o").arg(&binary).arg("-L").arg(&lib).arg("-L").arg(&double);
    command.args(["-lcudnn", "-lm", "-Wl,--allow-shlib-undefined"]);
    if on_gpu {
        command.arg("-lcudart");
    }
    let output = command.output().unwrap_or_else(|error| panic!("gcc: {error}; apt-get install gcc"));
    assert!(output.status.success(), "{}", child::text(&output));
    let output = Command::new(&binary)
        .args(["--steps", "2"])
        .arg(root.join("demo/digits.dat"))
        .env("LD_LIBRARY_PATH", joined(&[&lib, &double]))
        .env("CUDNN_SHIM_BACKEND", core)
        .env("CUDNN_SHIM_CHECK", "1")
        .env_remove("CUDNN_SHIM_STRICT")
        .output()
        .expect("the program starts");
    let text = child::text(&output);
    assert!(output.status.success(), "{}\n{text}", output.status);
    let after = |mark: &str| text.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark:?} in {text}"));
    let number = |text: &str, end: char| text.split(end).next().unwrap_or_default().trim().to_owned();
    let loss = number(after("that it has not seen: loss "), ';').parse().expect("a loss");
    let right = number(after("\ndigits: "), 'o').parse().expect("a count");
    (loss, right)
}

#[test]
fn a_network_learns_alike_on_both_cores() {
    let ((loss, right), (other_loss, other_right)) = (digits(false), digits(true));
    // Sums are rounded otherwise, and an image in between may fall to either side.
    assert!((loss - other_loss).abs() <= 2e-4 * loss, "a loss of {other_loss} instead of {loss}");
    assert!((right - other_right).abs() <= 2, "{other_right} right instead of {right}");
}
