//! What attributes hold before they are set.

use super::attribute::{Count, Row, Storage, Type};
use super::fields::Value;
use super::{engine, tensor};

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
        tensor::TENSOR_VECTOR_COUNT | tensor::TENSOR_RAGGED_OFFSET_MULTIPLIER => 1,
        // Undocumented, and what the original answers.
        engine::ENGINEHEUR_MODE => 4,
        _ => 0,
    }
}
