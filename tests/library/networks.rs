//! Compiles the program of `examples/networks` as a user would, and holds its results to those that
//! PyTorch gave for the same weights (`tests/data/networks`, recorded by
//! `examples/networks/check.py --record`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use cudnn::backend::Isa;

use crate::common;

/// Largest difference from PyTorch, as a share of the largest result.
const TOLERANCE: f32 = 1e-3;

struct Setting {
    scratch: PathBuf,
    lib: PathBuf,
    program: PathBuf,
}

/// The program, compiled by the first test that needs it.
fn setting() -> Option<&'static Setting> {
    static SETTING: OnceLock<Option<Setting>> = OnceLock::new();
    SETTING
        .get_or_init(|| {
            let scratch = common::scratch_dir("networks");
            let (lib, program) = (common::install_layout(&scratch), scratch.join("networks"));
            let sources = ["main.cpp", "network.cpp", "train.cpp"].map(|name| folder().join(name));
            common::compiled("g++", &["-std=c++17", "-lpthread"], &sources, &lib, &program)?;
            Some(Setting { scratch, lib, program })
        })
        .as_ref()
}

fn folder() -> PathBuf {
    common::project_root().join("examples/networks")
}

impl Setting {
    fn run(&self, table: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(&self.program);
        command.arg(table).args(arguments).env("LD_LIBRARY_PATH", &self.lib);
        command.env("CUDNN_SHIM_BACKEND", "cpu").envs(environment.iter().copied());
        command.output().expect("the program starts")
    }

    /// What the program writes for a table of the examples, as bits.
    fn results(&self, table: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<f32> {
        let name = format!("{table}-{}-{environment:?}.out", arguments.join(""));
        let out = self.scratch.join(name.replace(['/', '"', ' '], ""));
        let arguments = [arguments, &["--out", out.to_str().expect("a path of text")]].concat();
        let output = self.run(&folder().join(format!("{table}.txt")), &arguments, environment);
        assert!(output.status.success(), "{arguments:?}: {}", common::printed(&output));
        results(&out)
    }
}

fn results(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).expect("results");
    bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().expect("four"))).collect()
}

fn recorded(name: &str) -> Vec<f32> {
    let path = common::project_root().join("tests/data/networks").join(name);
    let text = fs::read_to_string(path).expect("recorded results");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.parse().expect("a number")).collect()
}

/// `share` is what a difference is a share of: the largest result, or each by itself.
fn assert_close(what: &str, got: &[f32], want: &[f32], each: bool) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = largest(want);
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        let scale = if each { w.abs().max(1e-6) } else { largest };
        assert!((g - w).abs() <= TOLERANCE * scale, "{what}: result {k} is {g}, PyTorch gives {w}");
    }
}

fn largest(of: &[f32]) -> f32 {
    of.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()))
}

/// Where the largest result is.
fn choice(of: &[f32]) -> Option<usize> {
    (0..of.len()).max_by(|&a, &b| of[a].total_cmp(&of[b]))
}

/// Types of fewer bits, and what they may lose of the largest result: twice or more of what these
/// networks showed.
const TYPES: [(&str, f32); 3] = [("bf16", 0.015), ("f16", 0.002), ("int8", 0.08)];

/// Largest difference, as a share of the largest result.
fn assert_within(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{what}");
    let differences: Vec<f32> = got.iter().zip(want).map(|(g, w)| g - w).collect();
    let share = largest(&differences) / largest(want);
    // Numbers of another type that are the same to the last bit were not computed in it.
    assert!(share > 0.0 && share <= tolerance, "{what}: {share} of the largest result");
}

const LAYOUTS: [&str; 3] = ["NCHW", "NHWC", "NCHW8C"];

#[test]
fn a_small_network_gives_what_pytorch_gives_in_every_layout() {
    let Some(setting) = setting() else { return };
    let want = recorded("small.txt");
    for layout in LAYOUTS {
        let got = setting.results("small", &["--batch", "2", "--layout", layout], &[]);
        assert_close(layout, &got, &want, false);
    }
}

#[test]
fn a_step_of_training_has_the_loss_and_the_gradients_of_pytorch() {
    let Some(setting) = setting() else { return };
    let want = recorded("small-train.txt");
    for layout in ["NCHW", "NHWC"] {
        let got = setting.results("small", &["--batch", "4", "--train", "--layout", layout], &[]);
        assert_close(layout, &got, &want, true);
    }
}

/// Its layers also slice, join and enlarge images, which blocked channels have to be staged for.
#[test]
fn yolo_gives_the_same_in_every_layout() {
    let Some(setting) = setting() else { return };
    let want = setting.results("yolov3_tiny", &[], &[]);
    for (name, tolerance) in TYPES {
        let got = setting.results("yolov3_tiny", &["--type", name, "--layout", "NHWC"], &[]);
        assert_within(name, &got, &want, tolerance);
    }
    for layout in ["NHWC", "NCHW8C"] {
        assert_close(layout, &setting.results("yolov3_tiny", &["--layout", layout], &[]), &want, false);
    }
}

#[test]
fn resnet_50_gives_what_pytorch_gives() {
    let Some(setting) = setting() else { return };
    let (got, want) = (setting.results("resnet50", &[], &[]), recorded("resnet50.txt"));
    assert_close("resnet50", &got, &want, false);
    assert_eq!(choice(&got), choice(&want));
}

#[test]
fn types_of_fewer_bits_stay_near_pytorch_in_every_layout() {
    let Some(setting) = setting() else { return };
    let want = recorded("small.txt");
    for (name, tolerance) in TYPES {
        for layout in LAYOUTS {
            let what = format!("{name} in {layout}");
            let arguments = ["--batch", "2", "--type", name, "--layout", layout, "--runs", "2"];
            let got = setting.results("small", &arguments, &[]);
            assert_within(&what, &got, &want, tolerance);
            for threads in ["1", "3"] {
                let again = setting.results("small", &arguments, &[("CUDNN_SHIM_NUM_THREADS", threads)]);
                assert_eq!(again, got, "{what} with {threads} threads");
            }
        }
    }
}

#[test]
fn resnet_50_in_fewer_bits_chooses_what_pytorch_chooses() {
    let Some(setting) = setting() else { return };
    let want = recorded("resnet50.txt");
    for (name, tolerance) in TYPES {
        let got = setting.results("resnet50", &["--type", name, "--layout", "NHWC"], &[]);
        assert_within(name, &got, &want, tolerance);
        assert_eq!(choice(&got), choice(&want), "{name}");
    }
}

#[test]
fn results_do_not_depend_on_threads_processes_or_how_algorithms_are_chosen() {
    let Some(setting) = setting() else { return };
    let want = setting.results("small", &["--batch", "2"], &[]);
    for threads in ["1", "2", "3"] {
        let got = setting.results("small", &["--batch", "2"], &[("CUDNN_SHIM_NUM_THREADS", threads)]);
        assert_eq!(got, want, "{threads} threads");
    }
    for arguments in [["--threads", "4"], ["--processes", "4"], ["--choose", "limit"], ["--choose", "find"]] {
        let got = setting.results("small", &[&["--batch", "2"], &arguments[..]].concat(), &[]);
        // The numbers of Winograd may be within the bound of other numbers instead.
        if arguments[0] == "--choose" {
            assert_close(arguments[1], &got, &want, false)
        } else {
            assert_eq!(got, want)
        }
    }
}

/// A line for each layer, and one for all of them.
#[test]
fn a_profile_names_every_layer_with_its_time() {
    let Some(setting) = setting() else { return };
    let table = folder().join("small.txt");
    let output = setting.run(&table, &["--profile", "--runs", "3"], &[]);
    assert!(output.status.success(), "{}", common::printed(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let source = fs::read_to_string(&table).expect("a table");
    let names: Vec<&str> = source.lines().filter_map(|line| Some(line.split_once(" = ")?.0.trim())).collect();
    assert_eq!(lines.iter().map(|line| line[0]).collect::<Vec<_>>(), [&names[..], &["all"]].concat());
    for line in &lines {
        let numbers: Vec<f64> = line.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
        // A slow build multiplies little in a microsecond.
        assert!(
            numbers.len() >= 2 && numbers[0] > 0.0 && numbers.iter().all(|&number| number >= 0.0),
            "{line:?}"
        );
    }
    let refused = setting.run(&table, &["--profile", "--train"], &[]);
    assert_eq!(refused.status.code(), Some(2));
}

/// The clipped ReLU is a part of the convolution, and where that is refused a call of its own, with
/// the same bits.
#[test]
fn a_clipped_relu_ends_a_convolution_or_follows_it() {
    let Some(setting) = setting() else { return };
    let want = setting.results("mobilenet_v2", &[], &[]);
    assert_eq!(setting.results("mobilenet_v2", &[], &[("CUDNN_SHIM_STRICT", "1")]), want);
}

/// Memory of layers serves several of them, but never that of the input.
#[test]
fn a_second_forward_pass_computes_the_same() {
    let Some(setting) = setting() else { return };
    for layout in ["NCHW", "NHWC", "NCHW8C"] {
        let passes =
            ["1", "2", "3"].map(|runs| setting.results("small", &["--layout", layout, "--runs", runs], &[]));
        assert!(passes.iter().all(|results| results == &passes[0]), "{layout}");
    }
}

/// The log names the kernel of each contraction; the variable takes one of them away, and the
/// results stay within the bound.
#[test]
fn fewer_products_can_be_turned_off() {
    let Some(setting) = setting() else { return };
    let [table, log, out] =
        ["kernels.txt", "kernels.log", "kernels.out"].map(|name| setting.scratch.join(name));
    let text = "input 32 20 20\nwide = conv input k=32 r=3 p=1 relu\nmean = avgpool wide\n\
                classes = conv mean k=10 r=1 bias\n";
    fs::write(&table, text).expect("a table");
    let run = |value: &str| -> (Vec<String>, Vec<f32>) {
        let _ = fs::remove_file(&log);
        let path = |path: &Path| path.to_str().expect("a path of text").to_owned();
        let environment =
            [("CUDNN_SHIM_WINOGRAD", value), ("CUDNN_LOGLEVEL_DBG", "3"), ("CUDNN_LOGDEST_DBG", &path(&log))];
        let output = setting.run(&table, &["--batch", "2", "--out", &path(&out)], &environment);
        assert!(output.status.success(), "{}", common::printed(&output));
        let (mut kernels, text) = (Vec::new(), fs::read_to_string(&log).expect("a log"));
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.contains("] cudnnConvolution") && line.contains(": contract ") {
                let next = lines.peek().expect("a line for the kernel");
                let (_, kernel) = next.split_once(": by ").expect("its name");
                kernels.push(kernel.to_owned());
            }
        }
        (kernels, results(&out))
    };
    let is_transform = |kernel: &String| kernel.starts_with("winograd");
    let ((on, want), (off, got)) = (run("1"), run("0"));
    assert_close("off", &got, &want, false);
    assert!(off.len() >= 2 && !off.iter().any(is_transform), "{off:?}");
    // The portable level has no such kernel.
    if Isa::best() != Isa::PORTABLE {
        assert!(on.iter().any(is_transform), "{on:?}");
    }
    for (on, off) in on.iter().zip(&off) {
        assert!(on == off || is_transform(on) && off == "gemm_planes", "{on} became {off}");
    }
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let Some(setting) = setting() else { return };
    let table = setting.scratch.join("bad.txt");
    for (text, arguments, says) in [
        ("input 3 8 8\na = conv input k=4 r=9\n", vec![], "line 2: nothing is left of images of 8 x 8"),
        ("input 3 8 8\na = conv other k=4 r=1\n", vec![], "line 2: there is no layer `other` above"),
        ("input 3 8 8\na = conv input k=4 r=1 g=2\n", vec![], "do not make 2 groups"),
        ("input 3 8\n", vec![], "`input` needs three extents"),
        ("input 3 8 8\na = frobnicate input\n", vec![], "there is no operation `frobnicate`"),
        ("", vec![], "no layers"),
        ("input 3 8 8\na = conv input k=4\n", vec!["--batch", "none"], "`none` is no number"),
        ("input 3 8 8\na = conv input k=4\n", vec!["--type", "f8"], "there is no type `f8`"),
        ("input 3 8 8\na = conv input k=4\n", vec!["--type", "bf16", "--train"], "--train is of f32"),
        ("input 3 8 8\na = conv input k=4\n", vec!["--out", "/dev/null/x"], "cannot be written"),
    ] {
        fs::write(&table, text).expect("a table");
        let output = setting.run(&table, &arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{text}: {said}");
    }
}
