//! Sizes and the calls that take them: `c_tests/beside/pairs.c`, with each of both refused.

use std::collections::BTreeMap;

use crate::common;
use crate::double::{Core, Setting, setting};

/// A query, and the call that takes what it has told.
const PAIRS: &[(&str, &str)] = &[
    ("cudnnGetConvolutionForwardWorkspaceSize", "cudnnConvolutionForward"),
    ("cudnnGetConvolutionBackwardDataWorkspaceSize", "cudnnConvolutionBackwardData"),
    ("cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnConvolutionBackwardFilter"),
    ("cudnnGetReductionWorkspaceSize", "cudnnReduceTensor"),
    ("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", "cudnnBatchNormalizationForwardTrainingEx"),
    ("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", "cudnnBatchNormalizationForwardTrainingEx"),
    ("cudnnGetCTCLossWorkspaceSize", "cudnnCTCLoss"),
    ("cudnnMakeFusedOpsPlan", "cudnnFusedOpsExecute"),
];

/// Who has served each call, and the results.
struct Outcome {
    served: BTreeMap<String, String>,
    results: Vec<String>,
}

fn run(setting: &Setting, variables: &[(&str, &str)]) -> Outcome {
    run_on(Core::Host, setting, variables)
}

fn run_on(core: Core, setting: &Setting, variables: &[(&str, &str)]) -> Outcome {
    let program = setting.program("beside/pairs.c");
    let mut command = setting.command_on(core, &program, setting.whole());
    command.env("CUDNN_SHIM_ROUTE", "all=original").envs(variables.iter().copied());
    let (_, output) = setting.counted(&mut command, "pairs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let served = text.lines().filter_map(|line| line.strip_prefix("served ")).map(|line| {
        let (name, server) = line.split_once(' ').expect("a name and a server");
        (name.to_owned(), server.to_owned())
    });
    let results = text.lines().filter(|line| line.starts_with("result ")).map(str::to_owned).collect();
    Outcome { served: served.collect(), results }
}

#[test]
fn no_call_takes_a_size_of_the_other_that_is_too_small() {
    let Some(setting) = setting() else { return };
    for core in setting.cores() {
        sizes_suffice(core, setting);
    }
}

fn sizes_suffice(core: Core, setting: &Setting) {
    let run = |setting, variables: &[(&str, &str)]| run_on(core, setting, variables);
    let alone = run(setting, &[("CUDNN_SHIM_ROUTE", "all=ours")]);
    assert!(alone.served.values().all(|server| server == "ours"), "{:?}", alone.served);
    assert_eq!(alone.results.len(), 10);
    let plain = run(setting, &[]);
    assert!(plain.served.values().all(|server| server == "original"), "{:?}", plain.served);
    assert_eq!(plain.results, alone.results);
    for (query, call) in PAIRS {
        for refused in [format!("{query},"), format!("{call},"), format!("{query},{call},")] {
            let outcome = run(setting, &[("DOUBLE_REFUSES", &refused)]);
            assert_eq!(outcome.results, alone.results, "{refused}");
            let by_us = |name: &str| outcome.served[name] == "ours";
            assert_eq!(by_us(query), refused.starts_with(query), "{refused}: {:?}", outcome.served);
            // What is refused in a query is not run, and the other way round.
            assert!(by_us(call), "{refused}: {:?}", outcome.served);
            let others = PAIRS.iter().filter(|(_, other)| other != call);
            for (other_query, other) in others {
                assert!(!by_us(other_query) && !by_us(other), "{refused}: {:?}", outcome.served);
            }
        }
    }
}

/// The objects of a fused operation have twins, which end with them, and a refusal is told once.
#[test]
fn fused_operations_go_to_the_original_attribute_by_attribute() {
    let Some(setting) = setting() else { return };
    let program = setting.program("beside/pairs.c");
    let counts = |variable: &str, calls: &str| {
        let mut command = setting.command(&program, setting.whole());
        command.envs([("CUDNN_LOGLEVEL_DBG", "2"), ("CUDNN_LOGDEST_DBG", "stdout")]);
        command.env("CUDNN_SHIM_ROUTE", "all=ours,fused=original").env(variable, calls);
        let (counts, output) = setting.counted(&mut command, "fused");
        let told = common::printed(&output).matches("cudnnFusedOpsExecute: the original refuses").count();
        (counts, told)
    };
    let (plain, told) = counts("DOUBLE_REFUSES", "");
    for (call, count) in [
        ("cudnnMakeFusedOpsPlan", 1),
        ("cudnnFusedOpsExecute", 2),
        ("cudnnCreateFusedOpsConstParamPack", 1),
        ("cudnnSetFusedOpsConstParamPackAttribute", 9),
        // A pack before and after it is changed; one of another operation has none.
        ("cudnnCreateFusedOpsVariantParamPack", 2),
        ("cudnnSetFusedOpsVariantParamPackAttribute", 18),
    ] {
        assert_eq!(plain.get(call), Some(&count), "{call}: {plain:?}");
    }
    for object in ["FusedOpsConstParamPack", "FusedOpsVariantParamPack", "FusedOpsPlan", "TensorDescriptor"] {
        let of = |verb: &str| plain.get(&format!("cudnn{verb}{object}"));
        assert_eq!(of("Create"), of("Destroy"), "{object}: {plain:?}");
    }
    assert_eq!(told, 0);
    let (refused, told) = counts("DOUBLE_REFUSES", "cudnnFusedOpsExecute,");
    assert_eq!((refused["cudnnFusedOpsExecute"], told), (2, 1));
    // Without a twin of the plan, or of what its pack holds, the plan is this library's.
    for failing in [
        "cudnnSetFusedOpsConstParamPackAttribute,",
        "cudnnCreateFusedOpsConstParamPack,",
        "cudnnCreateFusedOpsPlan,",
    ] {
        let (without, _) = counts("DOUBLE_FAILS", failing);
        assert_eq!(without.get("cudnnFusedOpsExecute"), None, "{failing}: {without:?}");
    }
}

/// The gradient reads what the forward call has left in the reserve space, in a form of its own.
#[test]
fn a_gradient_goes_where_its_forward_call_went() {
    let Some(setting) = setting() else { return };
    let gradient = "cudnnBatchNormalizationBackwardEx";
    let outcome = run(setting, &[("DOUBLE_REFUSES", "cudnnBatchNormalizationForwardTrainingEx,")]);
    assert_eq!(outcome.served[gradient], "ours");
    for refused in
        ["cudnnBatchNormalizationBackwardEx,", "cudnnGetBatchNormalizationBackwardExWorkspaceSize,"]
    {
        let outcome = run(setting, &[("DOUBLE_REFUSES", refused), ("UNBOUND", "1")]);
        assert_eq!(outcome.served["cudnnBatchNormalizationForwardTrainingEx"], "original");
    }
}

/// A rule for a call moves the calls that share its sizes.
#[test]
fn the_environment_does_not_part_a_pair() {
    let Some(setting) = setting() else { return };
    for (query, call) in PAIRS {
        for (name, server) in [(query, "ours"), (call, "ours"), (query, "original"), (call, "original")] {
            let other = if server == "ours" { "original" } else { "ours" };
            let outcome = run(setting, &[("CUDNN_SHIM_ROUTE", &format!("all={other},{name}={server}"))]);
            assert_eq!(
                [&outcome.served[*query], &outcome.served[*call]],
                [server, server],
                "{name}={server}"
            );
        }
    }
}
