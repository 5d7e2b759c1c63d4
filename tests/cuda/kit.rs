//! The kit for a machine with a GPU, on the driver double: every step of its script runs, and
//! leaves what it promises.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use cudnn::backend::cuda::module::kernels;

use crate::{child, common, double};

/// Stands for a tool around a program: it runs the program, and says with what it was started, and
/// with which cache.
const AROUND: &str = "#!/bin/sh\necho \"around: $*\"\necho \"cache: $CUDA_CACHE_PATH\"\nwhile :; do\n    case $1 in\n    --*) shift 2 ;;\n    \
                      *) exec \"$@\" ;;\n    esac\ndone\n";

/// A cache of the caller's, which no step may use.
const INHERITED: &str = "/nonexistent/cache";

/// The kit as `cargo xtask gpu-kit` lays it out, of this program, the library under test and the
/// driver double.
fn laid_out(name: &str) -> PathBuf {
    let scratch = common::scratch_dir(name);
    let (kit, library) = (scratch.join("kit"), common::install_layout(&scratch).join("libcudnn.so.9"));
    let mut xtask = Command::new(env!("CARGO"));
    xtask.args(["run", "--quiet", "--package", "xtask", "--", "gpu-kit"]).arg(&kit).arg("--of").arg(library);
    xtask.arg(env::current_exe().expect("this program")).arg(double::libraries());
    let output = xtask.current_dir(common::project_root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", child::text(&output));
    fs::create_dir_all(kit.join("tools")).expect("a folder");
    for tool in ["compute-sanitizer", "ncu"] {
        let path = kit.join("tools").join(tool);
        fs::write(&path, AROUND).expect("a tool");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a tool that can run");
    }
    kit
}

/// Runs the script with a driver that lies in `driver`; `original` is a folder with the library to
/// compare with.
fn run(kit: &Path, driver: &Path, original: &[PathBuf], variables: &[(&str, &str)]) -> (Output, String) {
    let path = env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.arg(kit.join("run.sh")).arg(kit.join("report")).args(original);
    command.env("KIT_QUICK", "1").env("LD_LIBRARY_PATH", driver).env_remove("CUDNN_SHIM_BACKEND");
    command.env("CUDA_CACHE_PATH", INHERITED).envs(variables.iter().copied());
    command.env("PATH", format!("{}:{path}", kit.join("tools").display()));
    let output = command.output().expect("a shell");
    let summary = fs::read_to_string(kit.join("report/summary.txt")).expect("the summary");
    (output, summary)
}

#[test]
fn every_step_runs() {
    let kit = laid_out("gpu_kit");
    let (output, summary) = run(&kit, &double::libraries(), &[kit.join("lib")], &[]);
    let file = |name: &str| fs::read_to_string(kit.join("report").join(name)).unwrap_or_default();
    let failed = || {
        let lines = summary.lines().filter(|line| line.contains("FAILED"));
        let names = lines.filter_map(|line| line.split("see ").nth(1));
        names.map(|name| format!("\n== {name}\n{}", file(name))).collect::<String>()
    };
    assert!(output.status.success(), "{}{}", child::text(&output), failed());
    for number in 1..=10 {
        assert!(
            summary.lines().any(|line| line.starts_with(&format!("{number:02} "))),
            "{number}\n{summary}"
        );
    }
    assert!(!summary.contains("FAILED") && !summary.contains("skipped"), "{summary}");
    assert!(file("01-device.txt").contains("compute capability, major: 9"));
    let probe = file("02-probe.txt");
    assert_eq!(probe.matches(" kernels loaded in ").count(), 4, "{probe}");
    for kernel in kernels() {
        assert_eq!(probe.matches(&format!("\n  {} ", kernel.name)).count(), 4, "{}\n{probe}", kernel.name);
    }
    for kind in ["managed", "page-locked", "registered", "pooled", "second segment", "enabled peer"] {
        assert!(
            probe.lines().any(|line| line.starts_with(kind) && line.contains("access 3")),
            "{kind}\n{probe}"
        );
    }
    for behind in ["freed", "malloc", "behind them"] {
        assert!(
            probe.lines().any(|line| line.starts_with(behind) && line.contains("type 0")),
            "{behind}\n{probe}"
        );
    }
    // Ours beside another library, which is ours here: the same bits, and a speed-up.
    for table in ["09-transforms.txt", "09-reductions.txt", "09-convolutions.txt", "09-layers.txt"] {
        let text = file(table);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(" same ")).collect();
        assert!(!rows.is_empty(), "{text}");
        assert!(text.contains("host us") && !text.contains("refused"), "{text}");
        assert!(!text.contains("not supported"), "{text}");
    }
    // Each with its gradient.
    let layers = file("09-layers.txt");
    for layer in ["max-3x3", "relu", "softmax", "training", "response-5", "dropout", "sampler"] {
        for row in [format!("{layer}/"), format!("{layer}-back/")] {
            let is_compared = |line: &str| line.starts_with(&row) && line.contains(" same ");
            assert!(layers.lines().any(is_compared), "{row}\n{layers}");
        }
    }
    assert!(layers.lines().any(|line| line.starts_with("bias-back/") && line.contains(" same ")), "{layers}");
    assert!(file("09-steps.txt").contains(" steps\n"));
    let profile = file("10-profile.txt");
    assert_eq!(
        profile.matches("around: --set basic --launch-count 3").count(),
        2,
        "the worst rows\n{profile}"
    );
    let sanitizer = file("08-sanitizer.txt");
    assert_eq!(sanitizer.matches("around: --tool ").count(), 4);
    let caches = sanitizer.lines().filter(|line| line.starts_with("cache: ")).collect::<BTreeSet<_>>();
    assert_eq!(caches.len(), 4, "each step has a cache of its own: {caches:?}");
    assert!(!caches.iter().any(|cache| cache.contains(INHERITED)), "{caches:?}");
}

/// A device of capability 7.5 takes all kernels but those of 8.0, which are counted as skipped.
/// What does not pass the third step, here for a driver too old, is measured no further.
#[test]
fn an_older_device_with_an_older_driver() {
    let kit = laid_out("gpu_kit_on_an_older_device");
    let variables = [("DRIVER_DOUBLE_CAPABILITY", "75"), ("DRIVER_DOUBLE_VERSION", "11040")];
    let (output, summary) = run(&kit, &double::libraries(), &[], &variables);
    assert!(!output.status.success(), "{summary}");
    let of_8_0 =
        ["attend_gradient_mma", "attend_mma", "contract_gradient", "contract_mma", "contract_multistage"];
    assert_eq!(summary.matches("02 probe: passed, 5 skipped\n").count(), 4, "{summary}");
    assert_eq!(summary.matches("02 probe: passed\n").count(), 2, "{summary}");
    assert!(summary.contains("03 smoke: FAILED") && !summary.contains("04 "), "{summary}");
    let probe = fs::read_to_string(kit.join("report/02-probe.txt")).expect("a report");
    let skipped = probe.lines().filter(|line| line.starts_with("skipped: "));
    let is_of_8_0 =
        |line: &str| of_8_0.iter().any(|family| line.starts_with(&format!("skipped: {family}.ptx")));
    assert!(skipped.clone().all(is_of_8_0), "{probe}");
    let first = probe.split(" kernels loaded in ").next().expect("a text");
    let names = first.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let expected = kernels().iter().filter(|kernel| !of_8_0.contains(&kernel.family()));
    assert_eq!(names.collect::<Vec<_>>(), expected.map(|kernel| kernel.name).collect::<Vec<_>>());
}

#[test]
fn a_failure_of_the_probe_ends_the_run() {
    let kit = laid_out("gpu_kit_without_driver");
    let (output, summary) = run(&kit, Path::new("/nonexistent"), &[], &[]);
    assert!(!output.status.success(), "{summary}");
    assert!(summary.contains("02 probe: FAILED") && !summary.contains("03 "), "{summary}");
}
