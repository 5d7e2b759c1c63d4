//! The text of an execution plan: its graph, and the engine that runs it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::engine::OPERATION_BY_OPERATION;
use super::fields::{Object, Value};
use super::operation_graph::{OPERATIONGRAPH_MODE, OPERATIONGRAPH_OPS};
use super::tensor::Tensor;

/// The version of the original that the text is written like.
const VERSION: u32 = 92700;

/// The text of a plan of this graph, with its NUL. Attributes of operations and their settings have their names in the header
/// without `CUDNN_ATTR_`, tensors those of their ids.
pub fn plan(graph: &Object) -> Vec<u8> {
    let operations = || graph.fields.links(OPERATIONGRAPH_OPS).iter().flatten();
    let ports = operations().flat_map(|operation| operation.ports());
    let tensors: BTreeMap<i64, &Tensor> =
        ports.filter_map(|(_, _, port)| port.tensor.as_ref()).map(|tensor| (tensor.uid, tensor)).collect();
    let tensors: Vec<String> = tensors.values().map(|tensor| tensor_text(tensor)).collect();
    let nodes: Vec<String> = operations().map(|operation| node(operation)).collect();
    let mode = graph.fields.int_or(OPERATIONGRAPH_MODE, -1);
    let text = format!(
        "{{\"cudnnVersion\":{VERSION},\"schemaVersion\":4,\"operationGraph\":{{\"finalizeMode\":{mode},\"tensors\":[{}],\
         \"nodes\":[{}]}},\"engine\":{{\"engineId\":{OPERATION_BY_OPERATION},\"knobChoices\":{{}}}}}}\0",
        tensors.join(","),
        nodes.join(","),
    );
    text.into_bytes()
}

fn tensor_text(tensor: &Tensor) -> String {
    format!(
        "{{\"name\":\"{}\",\"dataType\":{},\"dim\":{:?},\"stride\":{:?},\"isVirtual\":{},\"isByValue\":{},\"vectCount\":{},\
         \"vectDim\":{},\"ptrAlignment\":{},\"reordering\":{}}}",
        tensor.uid,
        tensor.data_type,
        tensor.dims,
        tensor.strides,
        tensor.is_virtual,
        tensor.by_value,
        tensor.vector_count,
        tensor.vector_dimension,
        tensor.alignment,
        tensor.reordering
    )
}

fn node(operation: &Object) -> String {
    let mut text = format!("{{\"operation\":\"{}\"", operation.kind.name());
    attributes(operation, &mut text);
    text + "}"
}

/// The attributes that were set, each after a comma; settings of another descriptor stand among them.
fn attributes(object: &Object, text: &mut String) {
    for row in object.kind.rows() {
        let name = row.name.trim_start_matches("CUDNN_ATTR_");
        // Writing to a string never fails.
        let _ = match object.fields.get(row.number) {
            Some(Value::Ints(_, values)) if values.len() == 1 => write!(text, ",\"{name}\":{}", values[0]),
            Some(Value::Ints(_, values)) => write!(text, ",\"{name}\":{values:?}"),
            Some(Value::Reals(_, values)) => {
                let numbers: Vec<String> = values.iter().map(|&value| number(value)).collect();
                write!(text, ",\"{name}\":{}", numbers.join(","))
            }
            Some(Value::Links(links)) => {
                let tensors = links.iter().flatten().filter_map(|linked| linked.tensor.as_ref());
                let ids: Vec<String> = tensors.map(|tensor| format!("\"{}\"", tensor.uid)).collect();
                let settings = links.iter().flatten().filter(|linked| linked.tensor.is_none());
                settings.for_each(|linked| attributes(linked, text));
                match ids.as_slice() {
                    [] => Ok(()),
                    [id] => write!(text, ",\"{name}\":{id}"),
                    ids => write!(text, ",\"{name}\":[{}]", ids.join(",")),
                }
            }
            _ => Ok(()),
        };
    }
}

/// A number as JSON has it; what is not finite is a text.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { format!("\"{value}\"") }
}
