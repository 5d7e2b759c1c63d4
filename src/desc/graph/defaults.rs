//! What attributes hold before they are set.

use super::attribute::{Count, Row, Storage, Type};
use super::fields::Value;
use super::{engine, matmul, tensor};

/// The value of an attribute that was not set, as it is read with this type.
pub(super) fn of(row: &Row, ty: Type) -> Value {
    let count = usize::from(row.count == Count::One);
    match ty.storage() {
        Storage::Descriptor => Value::Links(vec![None; count]),
        Storage::Pointer => Value::Pointers(vec![0; count]),
        Storage::F32 | Storage::F64 => Value::Reals(ty, vec![0.0; count]),
        Storage::Fraction => Value::Fractions(Vec::new()),
        _ if ty == Type::Char => Value::Text(Vec::new()),
        _ => Value::Ints(ty, vec![integer(row.number); count]),
    }
}

/// The integer of an attribute that was not set.
pub(super) fn integer(attribute: i32) -> i64 {
    match attribute {
        tensor::TENSOR_UNIQUE_ID
        | tensor::TENSOR_VECTORIZED_DIMENSION
        | engine::KNOB_CHOICE_KNOB_VALUE
        | engine::ENGINE_GLOBAL_INDEX => -1,
        tensor::TENSOR_VECTOR_COUNT
        | tensor::TENSOR_RAGGED_OFFSET_MULTIPLIER
        | matmul::OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT => 1,
        // `CUDNN_HEUR_MODES_COUNT`, observed, and `CUDNN_KNOB_TYPE_COUNTS` in the same way: no
        // mode, and no knob.
        engine::ENGINEHEUR_MODE => 4,
        engine::KNOB_CHOICE_KNOB_TYPE => 46,
        _ => 0,
    }
}
