//! `explain`: the tables of the concepts, the orders in memory, the pictures.

use serde_json::{Value, json};

use crate::{folder, says, snapshot};

fn facts(arguments: &[&str]) -> Value {
    let text = says(&[&["explain", "--json"], arguments].concat());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn strides_are_those_that_frameworks_show() {
    for (dims, layout, strides) in [
        ("10,3,32,32", "PyTorch", json!([3072, 1024, 32, 1])),
        ("10,3,32,32", "PyTorch:channels_last", json!([3072, 1, 96, 3])),
        ("10,3,32,32", "TensorFlow", json!([3072, 1, 96, 3])),
        ("10,3,32,32", "Caffe", json!([3072, 1024, 32, 1])),
        ("2,16,5,4", "NCHW", json!([320, 20, 4, 1])),
        ("2,16,5,4", "NHWC", json!([320, 1, 64, 16])),
        ("2,16,5,4", "CHWN", json!([1, 40, 8, 2])),
        ("2,16,5,4", "nhwc", json!([320, 1, 64, 16])),
        ("2,16,5,4", "KRSC", json!([320, 1, 64, 16])),
        ("2,16,5,4", "oihw", json!([320, 20, 4, 1])),
        ("7,3,5", "BMN:row", json!([15, 5, 1])),
        ("7,3,5", "BMN:col", json!([15, 1, 3])),
    ] {
        let facts = facts(&["--dims", dims, "--layout", layout]);
        assert_eq!(facts["strides"], strides, "{layout}");
        assert_eq!(
            (&facts["packed"], &facts["overlapping"], &facts["block"]),
            (&json!(true), &json!(false), &Value::Null)
        );
        let name = facts["layout"].as_str().expect("it has a name");
        assert_eq!(self::facts(&["--dims", dims, "--layout", name])["strides"], strides);
    }
}

#[test]
fn verdicts_follow_the_definitions() {
    let verdict = |arguments: &[&str]| {
        let facts = facts(arguments);
        ["packed", "spatially_packed", "overlapping", "broadcast"]
            .map(|name| facts[name].as_bool().expect("yes or no"))
    };
    let strided = |strides| verdict(&["--dims", "2,8,5,4", "--strides", strides]);
    assert_eq!(strided("160,20,4,1"), [true, true, false, false]);
    assert_eq!(strided("20,40,4,1"), [true, true, false, false]);
    assert_eq!(strided("160,1,32,8"), [true, false, false, false]);
    assert_eq!(strided("400,40,4,1"), [false, true, false, false]);
    assert_eq!(strided("0,1,0,0"), [false, false, true, true]);
    assert_eq!(strided("160,20,3,1"), [false, false, true, false]);
    assert_eq!(strided("160,20,-4,1"), [false, false, false, false]);
    let facts = facts(&["--dims", "1,17,5,4", "--layout", "nChw16c", "--type", "half"]);
    assert_eq!(facts["strides"], json!([640, 320, 64, 16]));
    assert_eq!(
        (&facts["block"], &facts["elements"], &facts["bytes"]),
        (&json!(16), &json!(340), &json!(1280))
    );
    assert_eq!((&facts["layout"], &facts["packed"]), (&json!("NC/16HW16"), &json!(true)));
}

/// What the tool prints of memory, as numbers; `None` for what it leaves out.
fn memory(dims: &str, layout: &str) -> Vec<(i64, Vec<Option<i64>>)> {
    let text = says(&["explain", "--dims", dims, "--layout", layout]);
    let (_, memory) = text.split_once("memory, ").expect("it shows memory");
    let runs = memory.lines().skip(2).filter_map(|line| line.split_once(':'));
    runs.map(|(offset, cells)| {
        let cells = cells.split_whitespace().map(|cell| cell.parse().ok()).collect();
        (offset.trim().parse().expect("an offset"), cells)
    })
    .collect()
}

/// The orders of the two examples, from the published figures.
#[test]
fn memory_has_the_published_order() {
    let some = |values: &[i64]| values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
    let runs = memory("1,64,5,4", "NCHW");
    assert_eq!(runs[0], (0, some(&[0, 1, 2, 3])));
    assert_eq!(runs[1], (4, some(&[4, 5, 6, 7])));
    let runs = memory("1,64,5,4", "NHWC");
    assert_eq!(runs[0], (0, [&some(&[0, 20, 40, 60])[..], &[None], &some(&[1240, 1260])].concat()));
    assert_eq!(runs[1].1[..4], some(&[1, 21, 41, 61]));
    let runs = memory("1,64,5,4", "NC/32HW32");
    assert_eq!(runs[0], (0, [&some(&[0, 20, 40, 60])[..], &[None], &some(&[600, 620])].concat()));
    assert_eq!(runs[1], (32, [&some(&[1, 21, 41, 61])[..], &[None], &some(&[601, 621])].concat()));
    assert!(
        runs.contains(&(640, [&some(&[640, 660, 680, 700])[..], &[None], &some(&[1240, 1260])].concat()))
    );
    let runs = memory("2,16,5,4", "CHWN");
    assert_eq!(runs[..2], [(0, some(&[0, 320])), (2, some(&[1, 321]))]);
    let runs = memory("2,16,5,4", "nChw8c");
    assert_eq!(runs[0], (0, some(&[0, 20, 40, 60, 80, 100, 120, 140])));
    let runs = memory("1,3,2,2", "NHWC");
    assert_eq!(runs[0], (0, some(&[0, 4, 8])));
    // A mirrored row begins below the pointer.
    let text = says(&["explain", "--dims", "2,3", "--strides", "3,-1"]);
    assert!(text.contains("  -2: 2 1 0\n"), "{text}");
}

#[test]
fn a_blocked_tail_is_padding() {
    let runs = memory("1,3,1,2", "nChw4c");
    assert_eq!(
        runs,
        [(0, vec![Some(0), Some(2), Some(4), None]), (4, vec![Some(1), Some(3), Some(5), None])]
    );
}

#[test]
fn the_pictures_are_those_that_were_looked_at() {
    for (file, arguments) in [
        ("nc32hw32", &["--dims", "1,64,5,4", "--layout", "NC/32HW32"][..]),
        ("nchw", &["--dims", "1,64,5,4", "--layout", "NCHW"]),
        ("nhwc", &["--dims", "1,64,5,4", "--layout", "NHWC"]),
        ("rgb-to-nchw", &["--dims", "1,3,4,5", "--layout", "NHWC", "--to", "NCHW"]),
        ("nchw8c-tail", &["--dims", "1,10,2,3", "--layout", "nChw8c"]),
        ("column-major", &["--dims", "2,3,4", "--layout", "BMN:col"]),
        ("window", &["--dims", "2,2,3,3", "--strides", "40,20,5,1"]),
    ] {
        let text = says(&[&["explain"], arguments].concat());
        // The plan is the library's, which has its own tests.
        let text = text.split("\nplan of").next().unwrap_or_default();
        snapshot(&format!("{file}.txt"), text);
        snapshot(&format!("{file}.svg"), &says(&[&["explain", "--svg", "-"], arguments].concat()));
    }
}

#[test]
fn two_layouts_come_with_the_plan() {
    let text = says(&["explain", "--dims", "2,3,4,5", "--layout", "NHWC", "--to", "NCHW", "--type", "half"]);
    let (_, plan) = text.split_once("plan of the transform\n").expect("a plan");
    assert!(plan.contains("f16"), "{plan}");
    let facts = facts(&["--dims", "2,3,4,5", "--layout", "NHWC", "--to", "NC/4HW4"]);
    assert_eq!(facts["to"]["layout"], "NC/4HW4");
    assert!(facts["plan"].as_str().is_some_and(|plan| !plan.is_empty()));
}

#[test]
fn it_answers_at_once() {
    let times = (0..5).map(|_| {
        let began = std::time::Instant::now();
        says(&["explain", "--dims", "1,64,5,4", "--layout", "NC/32HW32"]);
        began.elapsed()
    });
    // Of a quiet moment: 50 ms is promised of a release build, this one is not and shares its
    // processor.
    let best = times.min().expect("five times");
    assert!(best.as_millis() < 500, "{best:?}");
}

/// The text of a plan: `relu(x + b)`, of which the sum has no memory.
pub const PLAN: &str = r#"{"operationGraph": {"tensors": [
    {"name": "1", "dataType": 0, "dim": [2, 3], "stride": [3, 1], "ptrAlignment": 4},
    {"name": "2", "dataType": 0, "dim": [1, 3], "stride": [3, 1], "ptrAlignment": 4},
    {"name": "3", "dataType": 0, "dim": [2, 3], "stride": [3, 1], "ptrAlignment": 4, "isVirtual": true},
    {"name": "4", "dataType": 0, "dim": [2, 3], "stride": [3, 1], "ptrAlignment": 4}],
  "nodes": [
    {"operation": "OPERATION_POINTWISE", "OPERATION_POINTWISE_XDESC": "3", "OPERATION_POINTWISE_YDESC": "4",
     "OPERATION_POINTWISE_PW_DESCRIPTOR": {"operation": "POINTWISE", "POINTWISE_MODE": 100}},
    {"operation": "OPERATION_POINTWISE", "OPERATION_POINTWISE_XDESC": "1", "OPERATION_POINTWISE_BDESC": "2",
     "OPERATION_POINTWISE_YDESC": "3", "OPERATION_POINTWISE_PW_DESCRIPTOR": {"operation": "POINTWISE", "POINTWISE_MODE": 0}}]}}"#;

#[test]
fn a_graph_is_told_operation_by_operation() {
    let file = folder("graph").join("plan.json");
    std::fs::write(&file, PLAN).expect("writable");
    let said = says(&["explain", "--graph", file.to_str().expect("a path in UTF-8")]);
    let lines: Vec<&str> = said.lines().collect();
    let [sum, relu, end] = lines[..] else { panic!("three lines: {said}") };
    assert!(
        sum.starts_with("part 0, pointwise: map Add") && relu.starts_with("part 1, pointwise: map Relu"),
        "{said}"
    );
    assert!(end.ends_with("tensors that need a pointer: [1, 2, 4]"), "{said}");
}
