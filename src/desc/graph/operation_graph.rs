//! Graphs of operations: what may be set.

use super::attribute::{Row, rows};
use super::object::{Fields, Value};
use crate::error::{Error, ErrorKind, Result};

rows! {
    /// The attributes of OPERATIONGRAPH.
    ROWS:
    OPERATIONGRAPH_HANDLE 800 [Handle] One mistyped(NotInitialized);
    OPERATIONGRAPH_OPS 801 [Descriptor] -> any_operation Any unreadable(Unsupported);
    OPERATIONGRAPH_ENGINE_GLOBAL_COUNT 802 [Int64] One read_only();
    OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED 803 [Boolean] One;
    OPERATIONGRAPH_IS_SAME_TOPOLOGY 804 [Boolean] One read_only() unreadable(AttributeType);
    OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED 805 [Boolean] One;
    OPERATIONGRAPH_MODE 806 [OperationgraphMode] One;
}

/// The modes of a graph, `CUDNN_OPERATIONGRAPH_MODE_AUTO` first.
const MODES: &[i64] = &[-1, 0, 1, 2, 17, 18, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30, 31];

/// Refuses values when they are set: operations that are not finalised, an unknown mode. The
/// operations before the one that is refused are set all the same (observed on 9.27.0).
pub(super) fn check_value(fields: &mut Fields, row: &Row, value: &Value) -> Result<()> {
    match (row.number, value) {
        (OPERATIONGRAPH_OPS, Value::Links(links)) => {
            for (index, link) in links.iter().enumerate() {
                let (status, rule) = match link {
                    None => (ErrorKind::NullPointer, "is NULL"),
                    Some(operation) if !operation.is_finalised => {
                        (ErrorKind::NotFinalized, "is not finalised")
                    }
                    Some(_) => continue,
                };
                fields.set(OPERATIONGRAPH_OPS, Value::Links(links[..index].to_vec()));
                return Err(Error::refused(status, format!("{}[{index}] {rule}", row.name)));
            }
            Ok(())
        }
        (OPERATIONGRAPH_HANDLE, Value::Pointers(handles)) if handles.contains(&0) => {
            Err(Error::refused(ErrorKind::NullPointer, format!("{} is NULL", row.name)))
        }
        (OPERATIONGRAPH_MODE, Value::Ints(_, modes)) if modes.iter().any(|mode| !MODES.contains(mode)) => {
            Err(Error::mismatch(format!("{} = {modes:?}: the modes are {MODES:?}", row.name)))
        }
        _ => Ok(()),
    }
}
