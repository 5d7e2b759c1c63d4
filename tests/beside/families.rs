//! Every family of the route on a GPU, in every way: `c_tests/beside/families.c`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use cudnn::original::{FAMILIES, Family};

use crate::double::{Core, driver, setting};
use crate::twins::names;

/// On the default stream; in captures; by threads that share descriptors; with descriptors that
/// change.
const WAYS: &[&str] = &["directly", "captured", "threads", "generations"];

/// What a run has printed, and what the double was asked.
struct Outcome {
    results: Vec<String>,
    counts: BTreeMap<String, u64>,
}

/// Runs all families in a way in which `server` has to serve all of them. `None`, said as a skip,
/// without a device.
fn run(way: &str, server: &str, variables: &[(&str, &str)]) -> Option<Outcome> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let (setting, driver) = (setting()?, driver()?);
    let program = PROGRAM.get_or_init(|| setting.gpu_program("beside/families.c", driver));
    let mut command = setting.command_on(Core::Gpu, program, setting.whole());
    // Data lies on the device, and work waits in its queue.
    command.env_remove("DRIVER_DOUBLE_PAGEABLE").env_remove("CUDA_LAUNCH_BLOCKING");
    command.arg(way).env("SERVER", server).env("CUDNN_SHIM_ROUTE", "all=original");
    let (counts, output) = setting.counted(command.envs(variables.iter().copied()), way);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let results = text.lines().filter(|line| line.starts_with("result ")).map(str::to_owned).collect();
    Some(Outcome { results, counts })
}

/// What this library computes alone.
fn ours() -> Option<Outcome> {
    run("directly", "ours", &[("CUDNN_SHIM_ROUTE", "all=ours")])
}

#[test]
fn every_family_is_served_in_every_way() {
    let Some(ours) = ours() else { return };
    let named: BTreeSet<&str> = ours.results.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(named, FAMILIES.iter().map(|family| family.name).collect());
    for way in WAYS {
        let Some(theirs) = run(way, "original", &[]) else { return };
        assert_eq!(theirs.results, ours.results, "{way}");
        for family in FAMILIES {
            let asked = family.calls().any(|call| theirs.counts.contains_key(call));
            assert!(asked, "{way}: {}", family.name);
        }
        // Twins end with their descriptors.
        for (name, count) in &theirs.counts {
            let Some(object) = name.strip_prefix("cudnnCreate") else { continue };
            let destroyed = theirs.counts.get(&format!("cudnnDestroy{object}"));
            assert_eq!(destroyed, Some(count), "{way}: {object}");
        }
    }
}

/// Where the original refuses every call, or makes no descriptor, all families are this library's.
#[test]
fn every_family_is_served_by_us_where_the_original_does_not() {
    let Some(ours) = ours() else { return };
    let calls = FAMILIES.iter().flat_map(Family::calls).chain(["cudnnBackendFinalize"]);
    let calls: String = calls.map(|call| format!("{call},")).collect();
    let makers = format!(
        "{}{}cudnnBackendCreateDescriptor,",
        names("cudnnCreate", "Descriptor"),
        names("cudnnCreate", "FusedOps")
    );
    for (variable, value) in
        [("DOUBLE_REFUSES", &calls), ("DOUBLE_REFUSES", &makers), ("DOUBLE_FAILS", &makers)]
    {
        for way in WAYS {
            let Some(outcome) = run(way, "ours", &[(variable, value)]) else { return };
            assert_eq!(outcome.results, ours.results, "{way}, {variable}={value}");
        }
    }
}
