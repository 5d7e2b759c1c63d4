//! Bad twins: an original that makes no handle, no descriptor, or cannot set or destroy one.

use std::collections::BTreeMap;

use cudnn::original::family_of;

use crate::double::{Setting, setting, symbols};

/// Programs that check what they compute, and that nobody refuses anything.
const PROGRAMS: &[&str] =
    &["convolution_directions.c", "recurrent.c", "attention.c", "attention_training.c", "perceptron.c"];

/// What the double was asked of calls that it could serve.
fn served(setting: &Setting, source: &str, variables: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let mut command = setting.command(&setting.program(source), setting.whole());
    command.env("CUDNN_SHIM_ROUTE", "all=original").envs(variables.iter().copied());
    let (counts, _) = setting.counted(&mut command, source);
    counts.into_iter().filter(|(name, _)| family_of(name).is_some()).collect()
}

/// Functions with this beginning and this part that are no calls of the route, a comma behind each.
pub fn names(beginning: &str, part: &str) -> String {
    let all = symbols();
    let is_named =
        |name: &&String| name.starts_with(beginning) && name.contains(part) && family_of(name).is_none();
    let list: String = all.iter().filter(is_named).map(|name| format!("{name},")).collect();
    assert!(!list.is_empty(), "{beginning}, {part}");
    list
}

/// Without a handle nothing is asked, whatever status it is that the original answers.
#[test]
fn a_handle_that_the_original_does_not_make_is_served_by_us() {
    let Some(setting) = setting() else { return };
    for variable in ["DOUBLE_REFUSES", "DOUBLE_FAILS"] {
        for source in PROGRAMS {
            let asked = served(setting, source, &[(variable, "cudnnCreate,")]);
            assert!(asked.is_empty(), "{source}: {asked:?}");
        }
    }
}

/// A descriptor without a twin goes to us with every call that it is an argument of.
#[test]
fn descriptors_that_the_original_does_not_make_or_set_are_served_by_us() {
    let Some(setting) = setting() else { return };
    for variable in ["DOUBLE_REFUSES", "DOUBLE_FAILS"] {
        for beginning in ["cudnnCreate", "cudnnSet"] {
            let all = names(beginning, "Descriptor");
            for source in PROGRAMS {
                let mut asked = served(setting, source, &[(variable, &all)]);
                // A size that belongs to no descriptor.
                asked.remove("cudnnDropoutGetStatesSize");
                assert!(asked.is_empty(), "{source}: {variable}={all}: {asked:?}");
            }
        }
    }
}

/// One kind at a time: calls with the others go on to be the original's.
#[test]
fn one_kind_of_bad_twins_leaves_the_other_kinds() {
    let Some(setting) = setting() else { return };
    for (kind, call, other) in [
        ("Pooling", "cudnnPoolingForward", "cudnnActivationForward"),
        ("Activation", "cudnnActivationForward", "cudnnPoolingForward"),
        ("Convolution", "cudnnConvolutionForward", "cudnnPoolingForward"),
        ("Filter", "cudnnConvolutionForward", "cudnnActivationForward"),
    ] {
        for beginning in ["cudnnCreate", "cudnnSet"] {
            let variables = [("DOUBLE_FAILS", names(beginning, kind))];
            let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
            let asked = served(setting, "beside/legacy.c", &variables);
            assert!(!asked.contains_key(call) && asked.contains_key(other), "{beginning}{kind}: {asked:?}");
        }
    }
}

/// A twin that cannot be destroyed is left behind, and nobody hears of it.
#[test]
fn a_twin_that_cannot_be_destroyed_changes_nothing() {
    let Some(setting) = setting() else { return };
    for source in PROGRAMS {
        let plain = served(setting, source, &[]);
        assert_eq!(served(setting, source, &[("DOUBLE_FAILS", &names("cudnnDestroy", ""))]), plain);
        assert!(!plain.is_empty(), "{source}");
    }
}
