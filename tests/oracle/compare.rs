//! Compares what the library answered with what the original answered.

use super::case::{Case, Step};
use super::replay::Observation;

/// How much a difference weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A status, an output of a successful call, a stray write, or a crash.
    Required = 1,
    /// An output of a call that the original refused.
    Nice = 2,
}

/// One step that was answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Index of the step in its case.
    pub step: usize,
    /// How much it weighs.
    pub level: Level,
    /// The answer of the library under test, `None` if it died in this step.
    pub observed: Option<Vec<String>>,
}

/// All differences of one case, in order of its steps.
pub fn compare(case: &Case, observation: &Observation) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (step, recorded) in case.steps.iter().enumerate() {
        let Some(observed) = observation.steps.get(step) else {
            // The rest of the case is lost with the process; one difference stands for it.
            differences.push(Difference { step, level: Level::Required, observed: None });
            break;
        };
        if !is_cut_list_alike(recorded, observed)
            && let Some(level) = differs(&recorded.observed, recorded.status(), observed)
        {
            differences.push(Difference { step, level, observed: Some(observed.clone()) });
        }
    }
    if observation.died && differences.is_empty() {
        let step = case.steps.len() - 1;
        differences.push(Difference { step, level: Level::Required, observed: None });
    }
    differences
}

fn differs(expected: &[String], status: i64, observed: &[String]) -> Option<Level> {
    let violation = observed.iter().any(|token| token.starts_with('!'));
    let same_status =
        observed.first() == expected.first() || expected.first().is_some_and(|status| status == "?");
    let same_outputs = observed.len() == expected.len()
        && expected.iter().zip(observed).skip(1).all(|(expected, observed)| agree(expected, observed));
    match (violation || !same_status, same_outputs) {
        (false, true) => None,
        (false, false) if status != 0 => Some(Level::Nice),
        _ => Some(Level::Required),
    }
}

/// Whether two output tokens mean the same: equal text, a wildcard, equal numbers, or arrays of
/// such elements.
fn agree(expected: &str, observed: &str) -> bool {
    if expected == observed || expected == "?" {
        return true;
    }
    if let (Some(expected), Some(observed)) = (elements(expected), elements(observed)) {
        if expected.contains(':') {
            return same_records(expected, observed);
        }
        return expected.split(',').count() == observed.split(',').count()
            && expected
                .split(',')
                .zip(observed.split(','))
                .all(|(expected, observed)| agree(expected, observed));
    }
    // Only numbers written as floating point: integers above 2^53 must not be compared as such.
    let floating =
        |token: &str| token.contains(['.', 'n', 'N', 'e']).then(|| token.parse::<f64>().ok()).flatten();
    match (floating(expected), floating(observed)) {
        (Some(expected), Some(observed)) => expected == observed || (expected.is_nan() && observed.is_nan()),
        _ => false,
    }
}

/// Whether two lists hold the same records, and what is refused in the same order; that of the
/// others is the original's taste.
fn same_records(expected: &str, observed: &str) -> bool {
    if refused(expected) != refused(observed) {
        return false;
    }
    let fields = |record: &str| record.split(':').map(str::to_owned).collect::<Vec<_>>();
    let mut rest: Vec<_> = observed.split(',').map(fields).collect();
    expected.split(',').map(fields).all(|expected| {
        let same = |observed: &Vec<String>| {
            expected.len() == observed.len() && expected.iter().zip(observed).all(|(e, o)| agree(e, o))
        };
        rest.iter().position(same).map(|at| rest.remove(at)).is_some()
    }) && rest.is_empty()
}

/// Number and math type of the records that a list refuses.
fn refused(list: &str) -> Vec<(&str, &str)> {
    let fields = list.split(',').map(|record| record.split(':').collect::<Vec<_>>());
    fields.filter(|f| f.len() == 6 && f[1] != "0").map(|f| (f[0], f[5])).collect()
}

/// Whether this is a query for fewer records than there are, answered with as many that serve:
/// which ones is heuristics; what is refused behind them is not.
fn is_cut_list_alike(recorded: &Step, observed: &[String]) -> bool {
    let most = match recorded.function.as_str() {
        "GetConvolutionForwardAlgorithm_v7" => 10,
        "GetConvolutionBackwardDataAlgorithm_v7" => 8,
        "GetConvolutionBackwardFilterAlgorithm_v7" => 9,
        _ => return false,
    };
    let count = |tokens: &[String]| tokens.get(1).and_then(|count| count.parse::<i64>().ok());
    let serving = |tokens: &[String]| {
        let records = tokens.get(2).and_then(|list| elements(list)).unwrap_or_default().split(',');
        records.map(|record| record.split(':').nth(1) == Some("0")).collect::<Vec<_>>()
    };
    let refused = |tokens: &[String]| {
        let list = tokens.get(2).and_then(|list| elements(list)).unwrap_or_default();
        refused(list).into_iter().map(|(number, math)| format!("{number} {math}")).collect::<Vec<_>>()
    };
    let written = count(&recorded.observed);
    written.is_some_and(|written| written < most && recorded.int(5) == Some(written))
        && recorded.observed[0] == observed[0]
        && written == count(observed)
        && serving(&recorded.observed) == serving(observed)
        && refused(&recorded.observed) == refused(observed)
        && !observed.iter().any(|token| token.starts_with('!'))
}

fn elements(token: &str) -> Option<&str> {
    token.strip_prefix('[')?.strip_suffix(']')
}

/// Shows that the comparison can fail: every kind of deviation from a recorded answer is reported,
/// at its level.
pub fn check_comparison() {
    assert!(agree("[1:0:-1.0:?:1:0,0:0:-1.0:?:0:0,~]", "[0:0:-1.0:16:0:0,1:0:-1.0:16:1:0,~]"));
    assert!(!agree("[1:0:-1.0:?:1:0,0:0:-1.0:?:0:0,~]", "[0:0:-1.0:16:0:0,1:3000:-1.0:16:1:0,~]"));
    assert!(!agree("[1:0:-1.0:?:1:0,~]", "[1:0:-1.0:16:1:0,1:0:-1.0:16:1:0]"));
    assert!(agree("[5:3000:-1.0:?:1:0,4:3000:-1.0:?:1:0]", "[5:3000:-1.0:0:1:0,4:3000:-1.0:0:1:0]"));
    assert!(!agree("[5:3000:-1.0:?:1:0,4:3000:-1.0:?:1:0]", "[4:3000:-1.0:0:1:0,5:3000:-1.0:0:1:0]"));
    let line = "c-1\tCreateTensorDescriptor T0 = 0 set\tGetLRNDescriptor L0 @ @ = 0 1e-05 nan\t\
                GetTensorNdDescriptor T0 2 @2 = 2000 [1,~]";
    let case = Case::parse(line).expect("well-formed");
    let faithful =
        || Observation { steps: case.steps.iter().map(|step| step.observed.clone()).collect(), died: false };
    let with = |step: usize, token: usize, text: &str| {
        let mut observation = faithful();
        let tokens = &mut observation.steps[step];
        tokens.resize(tokens.len().max(token + 1), String::new());
        tokens[token] = text.to_owned();
        compare(&case, &observation)
    };
    let none = |differences: Vec<Difference>| assert!(differences.is_empty(), "{differences:?}");
    let one = |differences: Vec<Difference>, step: usize, level: Level| {
        assert_eq!(differences.len(), 1, "{differences:?}");
        assert_eq!((differences[0].step, differences[0].level), (step, level));
    };
    none(compare(&case, &faithful()));
    none(with(1, 1, "0.00001"));
    none(with(1, 2, "NaN"));
    one(with(0, 0, "2000"), 0, Level::Required);
    one(with(0, 1, "~"), 0, Level::Required);
    one(with(1, 1, "1.1e-05"), 1, Level::Required);
    one(with(2, 0, "3000"), 2, Level::Required);
    one(with(2, 1, "[1,2]"), 2, Level::Nice);
    one(with(2, 1, "[1]"), 2, Level::Nice);
    one(with(2, 2, "!overrun:0"), 2, Level::Required);
    let mut cut = faithful();
    cut.steps.truncate(1);
    cut.died = true;
    one(compare(&case, &cut), 1, Level::Required);
    one(compare(&case, &Observation { died: true, ..faithful() }), 2, Level::Required);
}
