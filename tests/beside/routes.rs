//! Who serves what: each scenario of `c_tests/beside/routes.c` in its environment.

use std::collections::BTreeMap;

use crate::common;
use crate::double::{Core, Setting, setting};

/// Runs a scenario on each core; what the double counted, which is the same on both.
fn run(setting: &Setting, scenario: &str, variables: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let on = |core| run_on(core, setting, scenario, variables);
    let counts = on(Core::Host);
    if setting.cores().contains(&Core::Gpu) {
        assert_eq!(on(Core::Gpu), counts, "{scenario}");
    }
    counts
}

fn run_on(
    core: Core, setting: &Setting, scenario: &str, variables: &[(&str, &str)],
) -> BTreeMap<String, u64> {
    let program = setting.program("beside/routes.c");
    let mut command = setting.command_on(core, &program, setting.whole());
    command.arg(scenario).env("THE_DOUBLE", setting.whole().join("libcudnn.so.9"));
    command.envs(variables.iter().copied());
    setting.counted(&mut command, scenario).0
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let Some(setting) = setting() else { return };
    let counts = run(setting, "defaults", &[]);
    assert_eq!(counts.get("cudnnSoftmaxForward"), Some(&1));
    assert_eq!(counts.get("cudnnTransformTensor"), None);
    // Two descriptors were used, of which one had a use for a twin.
    assert_eq!(counts.get("cudnnSetTensorNdDescriptor"), Some(&1), "{counts:?}");
    assert_eq!(counts.get("cudnnDestroyTensorDescriptor"), Some(&1), "{counts:?}");
}

#[test]
fn cases_go_another_way_than_their_family() {
    let Some(setting) = setting() else { return };
    run(setting, "cases", &[]);
    run(setting, "settled", &[("CUDNN_SHIM_ROUTE", "pooling=original")]);
    run(setting, "settled", &[("CUDNN_SHIM_ROUTE", "cudnnPoolingForward=original")]);
}

#[test]
fn twins_follow_their_descriptors_and_end_with_them() {
    let Some(setting) = setting() else { return };
    let counts = run(setting, "changes", &[("CUDNN_SHIM_ROUTE", "transform=original")]);
    assert_eq!(counts["cudnnTransformTensor"], 350);
    // One for the source, and one for each state of the destination.
    assert_eq!(counts["cudnnCreateTensorDescriptor"], 351, "{counts:?}");
    assert_eq!(counts["cudnnDestroyTensorDescriptor"], 351, "{counts:?}");
}

#[test]
fn what_has_no_twin_is_served_by_us() {
    let Some(setting) = setting() else { return };
    let counts = run(setting, "no-twin", &[("CUDNN_SHIM_ROUTE", "transform=original")]);
    assert_eq!(counts["cudnnTransformTensor"], 1, "{counts:?}");
}

#[test]
fn refusals_are_served_by_us_and_told_once() {
    let Some(setting) = setting() else { return };
    let counts = run(setting, "refusal", &[("DOUBLE_REFUSES", "cudnnSoftmaxForward,")]);
    assert_eq!(counts["cudnnSoftmaxForward"], 3);
    run(setting, "both", &[("DOUBLE_REFUSES", "cudnnSoftmaxForward,")]);
}

#[test]
fn failures_come_through_with_their_sentence() {
    let Some(setting) = setting() else { return };
    run(setting, "failure", &[("DOUBLE_FAILS", "cudnnSoftmaxForward,")]);
}

#[test]
fn handles_random_states_and_weights_stay_with_their_owner() {
    let Some(setting) = setting() else { return };
    // A stream that is only a number, which no device has.
    run_on(Core::Host, setting, "stream", &[]);
    run(setting, "dropout", &[]);
    let counts = run(setting, "bound", &[("DOUBLE_REFUSES", "cudnnRNNForward,")]);
    assert_eq!(counts["cudnnRNNForward"], 2, "{counts:?}");
    assert_eq!(counts["cudnnGetRNNWeightSpaceSize"], 1, "{counts:?}");
}

#[test]
fn threads_share_twins() {
    let Some(setting) = setting() else { return };
    // Threads that want a twin at once may each make one, of which one stays.
    for core in setting.cores() {
        let counts = run_on(core, setting, "threads", &[("CUDNN_SHIM_ROUTE", "transform=original")]);
        assert_eq!(counts["cudnnTransformTensor"], 800);
        assert_eq!(counts["cudnnCreate"], 5);
        let of_tensors = |call: &str| counts[&format!("cudnn{call}TensorDescriptor")];
        assert_eq!(of_tensors("Create"), of_tensors("Destroy"), "{counts:?}");
    }
}

/// The route can send everything to this library, or a call at a time.
#[test]
fn the_environment_says_who_serves() {
    let Some(setting) = setting() else { return };
    let program = setting.program("layers.c");
    let counts = |route: &str| {
        let mut command = setting.command(&program, setting.whole());
        setting.counted(command.env("CUDNN_SHIM_ROUTE", route), "layers-route").0
    };
    let served = |counts: &BTreeMap<String, u64>| {
        let is_served = |name: &&String| cudnn::original::family_of(name).is_some();
        counts.keys().filter(is_served).cloned().collect::<Vec<_>>()
    };
    assert_eq!(served(&counts("all=ours")), Vec::<String>::new());
    let one = "cudnnLRNCrossChannelForward";
    assert_eq!(served(&counts(&format!("all=ours,{one}=original"))), [one]);
}

/// Without the switch, on handles of the host without its other half, and with an original that
/// cannot be loaded, nothing is asked of it, and calls are served.
#[test]
fn nothing_changes_without_the_switch() {
    let Some(setting) = setting() else { return };
    let program = setting.program("layers.c");
    for (variable, value) in
        [("CUDNN_SHIM_ORIGINAL", "off"), ("CUDNN_SHIM_ORIGINAL", ""), ("CUDNN_SHIM_ORIGINAL_HANDLES", "gpu")]
    {
        let mut command = setting.command(&program, setting.whole());
        let (counts, _) = setting.counted(command.env(variable, value), "off");
        let computing = counts.keys().find(|name| *name != "cudnnGetVersion");
        assert_eq!(computing, None, "{variable}={value}");
    }
}

#[test]
fn what_cannot_be_loaded_is_left_out_with_one_warning() {
    let Some(setting) = setting() else { return };
    let program = setting.program("layers.c");
    let text = setting.scratch.join("no_library.so.9");
    std::fs::write(&text, "no library").expect("writable");
    let empty = setting.scratch.join("empty");
    std::fs::create_dir_all(&empty).expect("writable");
    let own = setting.lib.join("libcudnn.so.9");
    let lacking = setting.double("lacking", &["cudnnGetVersion"]);
    let ending = |name: &str, how: &str| {
        let file = setting.scratch.join(format!("{name}.so.9"));
        let source = setting.scratch.join(format!("{name}.c"));
        let text = format!(
            "#include <signal.h>\n#include <stdlib.h>\nvoid start(void) __attribute__((constructor));\nvoid start(void) {{ {how}; }}\n"
        );
        std::fs::write(&source, text).expect("writable");
        common::compiled("gcc", &["-shared", "-fPIC"], &[source], &setting.lib, &file).expect("gcc works");
        file
    };
    let [crash, abort, exit] =
        [ending("crash", "raise(SIGSEGV)"), ending("abort", "abort()"), ending("exit", "exit(3)")];
    for (place, reason) in [
        (text.as_path(), "no_library.so.9: "),
        (empty.as_path(), "no libcudnn.so.9 was found"),
        (own.as_path(), "is this library itself"),
        (lacking.as_path(), "has no cudnnGetVersion"),
        // What ends a process that loads it does not end this one.
        (crash.as_path(), "it ends a process that loads it by signal 11"),
        (abort.as_path(), "it ends a process that loads it by signal 6"),
        (exit.as_path(), "it ends a process that loads it with status 3"),
    ] {
        let mut command = setting.command(&program, place);
        command.env("CUDNN_LOGLEVEL_DBG", "2").env("CUDNN_LOGDEST_DBG", "stdout");
        let (counts, output) = setting.counted(&mut command, "unloaded");
        assert!(counts.is_empty(), "{counts:?}");
        let said = common::printed(&output);
        let warnings: Vec<&str> =
            said.lines().filter(|line| line.contains("the original is left out")).collect();
        assert_eq!(warnings.len(), 1, "{said}");
        assert!(warnings[0].contains(reason), "{said}");
    }
}

/// A later version lacks calls: ours serve them.
#[test]
fn calls_that_the_original_lacks_are_served_by_us() {
    let Some(setting) = setting() else { return };
    let lacks = ["cudnnLRNCrossChannelForward", "cudnnSetReduceTensorDescriptor"];
    let folder = setting.double("without-response", &lacks);
    let mut command = setting.command(&setting.program("layers.c"), &folder);
    let (counts, _) = setting.counted(command.env("CUDNN_SHIM_ROUTE", "all=original"), "without-response");
    assert!(counts.contains_key("cudnnDivisiveNormalizationForward"), "{counts:?}");
    assert!(!counts.contains_key("cudnnReduceTensor"), "a descriptor that cannot be set has no twin");
}

/// The page has a row for each family: who serves it by default, and why.
#[test]
fn the_page_lists_the_families() {
    let page = std::fs::read_to_string(common::project_root().join("docs/beside.md")).expect("the page");
    let rows: Vec<String> = cudnn::original::FAMILIES
        .iter()
        .map(|family| format!("| `{}` | {} | {} |", family.name, family.server.name(), family.why))
        .collect();
    let cases = cudnn::original::CASES
        .iter()
        .map(|case| format!("| `{}` | {} | {} | {} |", case.call, case.when, case.server.name(), case.why));
    let rows: Vec<String> = rows.into_iter().chain(cases).collect();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(listed, rows);
}
