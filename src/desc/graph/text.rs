//! The text of an execution plan: its graph, and the engine that runs it; written and read.
//!
//! ```json
//! {"cudnnVersion": 92700, "schemaVersion": 4, "operationGraph": {"finalizeMode": 25,
//!  "tensors": [{"name": "97", "dataType": 0, "dim": [1, 2, 3], ...}],
//!  "nodes": [{"operation": "OPERATION_MATMUL", "OPERATION_MATMUL_ADESC": "97", ...}]},
//!  "engine": {"engineId": 1, "knobChoices": {}}}
//! ```
//!
//! A node has the attributes that were set, by their names in the header without `CUDNN_ATTR_`: a
//! tensor by its name, settings as a node inside of it, and so a graph that an operation has. The
//! name of a tensor is its id; further tensors of one id that differ have `/` and a number behind
//! it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::attribute::{Row, Storage, Type};
use super::engine::{self, OPERATION_BY_OPERATION};
use super::finalize::finalize;
use super::json::{self, Json};
use super::kind::Kind;
use super::object::{Fields, Link, Object, Tensor, Value};
use super::operation_graph::{OPERATIONGRAPH_MODE, OPERATIONGRAPH_OPS};
use super::table::attributes;
use super::tensor;
use crate::error::{Error, Result};

/// The version of the original that the text is written like.
const VERSION: u32 = 92700;

/// The text of a plan of this graph, with its NUL.
pub fn plan(graph: &Object) -> Vec<u8> {
    let mut writer = Writer::default();
    let nodes =
        graph.fields.links(OPERATIONGRAPH_OPS).iter().flatten().map(|operation| writer.node(operation));
    let nodes = nodes.collect::<Vec<_>>().join(",");
    let mode = graph.fields.int_or(OPERATIONGRAPH_MODE, -1);
    let text = format!(
        "{{\"cudnnVersion\":{VERSION},\"schemaVersion\":4,\"operationGraph\":{{\"finalizeMode\":{mode},\"tensors\":[{}],\
         \"nodes\":[{nodes}]}},\"engine\":{{\"engineId\":{OPERATION_BY_OPERATION},\"knobChoices\":{{}}}}}}\0",
        writer.texts.join(","),
    );
    text.into_bytes()
}

/// Gives a plan that is made from its text the configuration that it has, whatever engine of the
/// original the text names.
///
/// # Errors
/// Bad parameter for what is no such text; what Finalize refuses of its tensors, operations and
/// graph.
pub(super) fn configure(plan: &mut Fields) -> Result<()> {
    let text = plan.text(engine::EXECUTION_PLAN_JSON_REPRESENTATION).unwrap_or_default();
    let graph = Arc::new(graph(text)?);
    plan.set(
        engine::EXECUTION_PLAN_ENGINE_CONFIG,
        Value::Links(vec![Some(engine::configuration(&graph, 0))]),
    );
    Ok(())
}

/// The name of an attribute in a text.
fn short(row: &Row) -> &'static str {
    row.name.trim_start_matches("CUDNN_ATTR_")
}

/// What has been written of the tensors.
#[derive(Default)]
struct Writer {
    texts: Vec<String>,
    /// What each tensor says but for its name, by its name.
    known: Vec<(String, String)>,
}

impl Writer {
    /// The name of a tensor, which is written if it is new.
    fn tensor(&mut self, tensor: &Tensor) -> String {
        let mut says = format!(
            "\"dataType\":{},\"dim\":{:?},\"stride\":{:?},\"isVirtual\":{},\"isByValue\":{},\"vectCount\":{},\
             \"vectDim\":{},\"ptrAlignment\":{},\"reordering\":{}",
            tensor.data_type,
            tensor.dims,
            tensor.strides,
            tensor.is_virtual,
            tensor.by_value,
            tensor.vector_count,
            tensor.vector_dimension,
            tensor.alignment,
            tensor.reordering
        );
        if let Some(constant) = &tensor.constant {
            // Writing to a string never fails.
            let _ = write!(says, ",\"constant\":{constant:?}");
        }
        if let Some(offset) = tensor.ragged_offset.as_ref().and_then(|offset| offset.tensor.as_ref()) {
            let name = self.tensor(offset);
            let multiplier = tensor.ragged_multiplier;
            // Writing to a string never fails.
            let _ = write!(says, ",\"raggedOffset\":\"{name}\",\"raggedMultiplier\":{multiplier}");
        }
        let of_uid = |name: &str| name.split('/').next() == Some(&tensor.uid.to_string());
        let same = self.known.iter().filter(|(name, _)| of_uid(name));
        if let Some((name, _)) = same.clone().find(|(_, other)| *other == says) {
            return name.clone();
        }
        let name = match same.count() {
            0 => tensor.uid.to_string(),
            others => format!("{}/{others}", tensor.uid),
        };
        self.texts.push(format!("{{\"name\":\"{name}\",{says}}}"));
        self.known.push((name.clone(), says));
        name
    }

    /// A descriptor with its attributes.
    fn node(&mut self, object: &Object) -> String {
        let mut text = format!("{{\"operation\":\"{}\"", object.kind.name());
        for row in attributes(object.kind).rows {
            let values: Vec<String> = match object.fields.get(row.number) {
                Some(Value::Ints(_, values)) => values.iter().map(i64::to_string).collect(),
                Some(Value::Reals(_, values)) => values.iter().map(|&value| number(value)).collect(),
                Some(Value::Fractions(values)) => {
                    values.iter().map(|(above, below)| format!("[{above},{below}]")).collect()
                }
                Some(Value::Links(links)) => links.iter().map(|link| self.link(link)).collect(),
                _ => continue,
            };
            let list = values.join(",");
            // Writing to a string never fails.
            let _ = match values.len() {
                1 if !list.starts_with('[') => write!(text, ",\"{}\":{list}", short(row)),
                _ => write!(text, ",\"{}\":[{list}]", short(row)),
            };
        }
        text + "}"
    }

    fn link(&mut self, link: &Link) -> String {
        match link {
            None => "null".into(),
            Some(object) => match &object.tensor {
                Some(tensor) => format!("\"{}\"", self.tensor(tensor)),
                None => self.node(object),
            },
        }
    }
}

/// A number as JSON has it; what is not finite is a text.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { format!("\"{value}\"") }
}

/// The graph of a plan from its text.
///
/// # Errors
/// Bad parameter for what is no such text; what Finalize refuses of its tensors, operations and
/// graph.
pub fn graph(text: &[u8]) -> Result<Object> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let value = json::read(&text[..end]).map_err(|why| wrong(&why))?;
    let graph = value.field("operationGraph").ok_or_else(|| wrong("no \"operationGraph\""))?;
    let mut reader = Reader::default();
    // Tensors of offsets may stand behind those that have offsets.
    let (ragged, plain): (Vec<&Json>, Vec<&Json>) =
        list(graph, "tensors")?.iter().partition(|tensor| tensor.field("raggedOffset").is_some());
    for tensor in plain.into_iter().chain(ragged) {
        reader.tensor(tensor)?;
    }
    let nodes = list(graph, "nodes")?.iter().map(|node| reader.node(node, None).map(Some));
    let mut fields = Fields::default();
    fields.set(OPERATIONGRAPH_OPS, Value::Links(nodes.collect::<Result<_>>()?));
    if let Some(mode) = graph.field("finalizeMode").and_then(Json::integer) {
        fields.set(OPERATIONGRAPH_MODE, Value::Ints(Type::OperationgraphMode, vec![mode]));
    }
    finalize(Kind::OperationGraph, &fields)
}

fn wrong(what: &str) -> Error {
    Error::mismatch(format!("the text of a plan: {what}"))
}

fn list<'a>(value: &'a Json, name: &str) -> Result<&'a [Json]> {
    match value.field(name) {
        Some(Json::List(items)) => Ok(items),
        _ => Err(wrong(&format!("no list \"{name}\""))),
    }
}

/// The tensors that have been read, by their names.
#[derive(Default)]
struct Reader {
    tensors: HashMap<String, Arc<Object>>,
}

impl Reader {
    fn named(&self, name: &str) -> Result<Arc<Object>> {
        self.tensors.get(name).cloned().ok_or_else(|| wrong(&format!("no tensor {name:?}")))
    }

    fn tensor(&mut self, value: &Json) -> Result<()> {
        let name =
            value.field("name").and_then(Json::text).ok_or_else(|| wrong("a tensor without a name"))?;
        let uid = name.split('/').next().and_then(|uid| uid.parse().ok());
        let uid: i64 = uid.ok_or_else(|| wrong(&format!("the tensor {name:?} has no number for a name")))?;
        let mut fields = Fields::default();
        let mut set = |attribute, ty, values: Vec<i64>| fields.set(attribute, Value::Ints(ty, values));
        set(tensor::TENSOR_UNIQUE_ID, Type::Int64, vec![uid]);
        for (field, attribute, ty) in [
            ("dataType", tensor::TENSOR_DATA_TYPE, Type::DataType),
            ("dim", tensor::TENSOR_DIMENSIONS, Type::Int64),
            ("stride", tensor::TENSOR_STRIDES, Type::Int64),
            ("isVirtual", tensor::TENSOR_IS_VIRTUAL, Type::Boolean),
            ("isByValue", tensor::TENSOR_IS_BY_VALUE, Type::Boolean),
            ("vectCount", tensor::TENSOR_VECTOR_COUNT, Type::Int64),
            ("vectDim", tensor::TENSOR_VECTORIZED_DIMENSION, Type::Int64),
            ("ptrAlignment", tensor::TENSOR_BYTE_ALIGNMENT, Type::Int64),
            ("reordering", tensor::TENSOR_REORDERING_MODE, Type::TensorReorderingMode),
            ("raggedMultiplier", tensor::TENSOR_RAGGED_OFFSET_MULTIPLIER, Type::Int64),
        ] {
            if let Some(value) = value.field(field) {
                set(
                    attribute,
                    ty,
                    integers(value).ok_or_else(|| wrong(&format!("{field:?} of tensor {name:?}")))?,
                );
            }
        }
        if let Some(value) = value.field("constant") {
            let bytes =
                integers(value).and_then(|bytes| bytes.iter().map(|&byte| u8::try_from(byte).ok()).collect());
            let bytes = bytes.ok_or_else(|| wrong(&format!("\"constant\" of tensor {name:?}")))?;
            fields.set(tensor::TENSOR_CONSTANT_VALUE, Value::Text(bytes));
        }
        if let Some(offset) = value.field("raggedOffset").and_then(Json::text) {
            fields.set(tensor::TENSOR_RAGGED_OFFSET_DESC, Value::Links(vec![Some(self.named(offset)?)]));
        }
        self.tensors.insert(name.to_owned(), Arc::new(finalize(Kind::Tensor, &fields)?));
        Ok(())
    }

    /// A descriptor, of this kind if it has to be one of settings, else an operation.
    fn node(&self, value: &Json, kind: Option<Kind>) -> Result<Arc<Object>> {
        let name = value.field("operation").and_then(Json::text).ok_or_else(|| wrong("a node of no kind"))?;
        let own = Kind::ALL.iter().copied().find(|kind| kind.name() == name);
        let fits = |own: &Kind| kind.map_or(own.is_operation(), |kind| kind == *own);
        let own = own.filter(fits).ok_or_else(|| wrong(&format!("a node {name:?} here")))?;
        let mut fields = Fields::default();
        for row in attributes(own).rows.iter().filter(|row| !row.read_only) {
            if let Some(value) = value.field(short(row)) {
                let read = self.value(row, value)?;
                fields.set(row.number, read.ok_or_else(|| wrong(&format!("{:?} of {name:?}", short(row))))?);
            }
        }
        Ok(Arc::new(finalize(own, &fields)?))
    }

    /// What an attribute holds; `None` for what it cannot hold.
    fn value(&self, row: &Row, value: &Json) -> Result<Option<Value>> {
        let items = match value {
            Json::List(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let is_link = |item: &Json| matches!(item, Json::Text(_) | Json::Object(_) | Json::Null);
        let is_pair = |item: &Json| matches!(item, Json::List(_));
        for &ty in row.types {
            let read = match ty.storage() {
                Storage::Descriptor if items.iter().all(is_link) => {
                    let links = items.iter().map(|item| match item {
                        Json::Text(name) => self.named(name).map(Some),
                        Json::Object(_) => self.node(item, row.target).map(Some),
                        _ => Ok(None),
                    });
                    Some(Value::Links(links.collect::<Result<_>>()?))
                }
                Storage::Fraction if items.iter().all(is_pair) => pairs(items).map(Value::Fractions),
                Storage::F64 | Storage::F32 => reals(items).map(|values| Value::Reals(ty, values)),
                Storage::Byte | Storage::I32 | Storage::I64 => {
                    integers(value).map(|values| Value::Ints(ty, values))
                }
                _ => None,
            };
            if read.is_some() {
                return Ok(read);
            }
        }
        Ok(None)
    }
}

/// One integer or a list of them; booleans are 0 and 1.
fn integers(value: &Json) -> Option<Vec<i64>> {
    let one = |value: &Json| match value {
        Json::Bool(holds) => Some(i64::from(*holds)),
        other => other.integer(),
    };
    match value {
        Json::List(items) => items.iter().map(one).collect(),
        other => one(other).map(|value| vec![value]),
    }
}

fn pairs(items: &[Json]) -> Option<Vec<(i64, i64)>> {
    let pair = |item: &Json| match integers(item)?[..] {
        [above, below] => Some((above, below)),
        _ => None,
    };
    items.iter().map(pair).collect()
}

fn reals(items: &[Json]) -> Option<Vec<f64>> {
    let real = |item: &Json| match item {
        Json::Number(number) => Some(*number),
        Json::Whole(number) => Some(*number as f64),
        Json::Text(text) => text.parse().ok(),
        _ => None,
    };
    items.iter().map(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields and tensors in another order, fields that are not needed left out, and others added.
    #[test]
    fn order_does_not_matter() {
        let node = r#"{"OPERATION_POINTWISE_YDESC": "2", "OPERATION_POINTWISE_XDESC": "1", "unknown": [{}],
            "OPERATION_POINTWISE_PW_DESCRIPTOR": {"POINTWISE_MODE": 21, "operation": "POINTWISE"}, "operation": "OPERATION_POINTWISE"}"#;
        let tensors = [
            r#"{"raggedMultiplier": 3, "raggedOffset": "9", "stride": [3, 1], "dim": [2, 3], "name": "1", "ptrAlignment": 4}"#,
            r#"{"name": "2", "ptrAlignment": 4, "dim": [2, 3], "unknown": "", "stride": [3, 1]}"#,
            r#"{"name": "9", "dataType": 4, "dim": [3, 1], "stride": [1, 1], "ptrAlignment": 4}"#,
        ];
        let engine = r#"{"knobChoices": {"7": 3}, "smVersion": 900, "engineId": 5}"#;
        let text = format!(
            r#"{{"engine": {engine}, "GPUProfile": {{"deviceVer": 900}}, "operationGraph": {{"nodes": [{node}], "tensors": [{}]}}}}"#,
            tensors.join(", ")
        );
        let read = graph(text.as_bytes()).expect("it is read");
        let written = plan(&read);
        let [operation] = read.fields.links(OPERATIONGRAPH_OPS) else { panic!("one operation") };
        let ports: Vec<_> = operation.as_ref().expect("it is there").ports().collect();
        let ragged = ports.iter().find_map(|(_, _, tensor)| tensor.tensor.as_ref()?.ragged_offset.as_ref());
        assert_eq!(ragged.and_then(|offset| offset.tensor.as_ref()).map(|offset| offset.uid), Some(9));
        assert_eq!(plan(&graph(&written).expect("it is read again")), written);
        let missing = text.replace(r#""raggedOffset": "9""#, r#""raggedOffset": "8""#);
        let error = graph(missing.as_bytes()).expect_err("no such tensor");
        assert!(error.to_string().contains("no tensor \"8\""), "{error}");
    }
}
