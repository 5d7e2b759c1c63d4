//! Rules of operations that graphs are described by, at their limits: what the text of a plan may
//! say of them.

use cudnn::desc::graph::text;
use cudnn::error::Error;

use super::*;

/// A tensor of a text.
fn tensor(name: &str, dims: &[i64]) -> String {
    format!(
        r#"{{"name":"{name}","dataType":0,"dim":{dims:?},"stride":{:?},"ptrAlignment":16}}"#,
        row_major(dims)
    )
}

/// What becomes of a graph of these tensors and of one operation.
fn described(tensors: &[String], node: &str) -> Result<Graph, Error> {
    let tensors = tensors.join(",");
    let text = format!(r#"{{"operationGraph":{{"tensors":[{tensors}],"nodes":[{node}]}}}}"#);
    let graph = text::graph(text.as_bytes())?;
    Ok(Graph::of(&graph).expect("a graph"))
}

/// Every element from a start on, or every so many.
#[test]
fn slices_have_as_many_elements_as_there_are_from_start_to_limit() {
    for (start, limit, step) in
        (0..5).flat_map(|start| (0..7).flat_map(move |limit| (0..4).map(move |step| (start, limit, step))))
    {
        // Counted one by one.
        let count = (start..limit).step_by(step.max(1) as usize).count() as i64;
        for extent in [count - 1, count, count + 1, (limit - start + 2) * 3] {
            let tensors = [tensor("1", &[2, 5]), tensor("2", &[2, extent.max(1)])];
            let node = format!(
                r#"{{"operation":"OPERATION_SLICE","OPERATION_SLICE_XDESC":"1","OPERATION_SLICE_YDESC":"2",
                "OPERATION_SLICE_START_INDICES":[0,{start}],"OPERATION_SLICE_LIMIT_INDICES":[2,{limit}],
                "OPERATION_SLICE_STRIDES":[1,{step}]}}"#
            );
            let fits = step > 0 && start <= limit && limit <= 5 && extent.max(1) == count;
            let made = described(&tensors, &node);
            assert_eq!(made.is_ok(), fits, "{extent} from {start} to {limit} by {step}: {:?}", made.err());
        }
    }
}
