//! One object of the graph interface: it is set, finalised, and from then on read.

use std::sync::Arc;

use super::attribute::{Count, Fault, Reading, Row, Storage, Type};
use super::finalize::{finalize, unchecked};
use super::kind::Kind;
use super::object::{Fields, Link, Object, Value};
use super::table::attributes;
use super::{convolution, device, engine, matmul, norm, operation_graph, pack, shape, tensor, text};
use crate::error::{Error, ErrorKind, Result};
use crate::mode::Mode;

/// More values than any attribute but a text may have; asked before anything is read.
const MOST_VALUES: i64 = 4096;
/// Longest text that is read.
const MOST_CHARACTERS: i64 = 1 << 26;

/// An object of the graph interface.
#[derive(Debug)]
pub struct Descriptor {
    kind: Kind,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(Fields),
    Finalised(Arc<Object>),
}

/// What a Set may read from the caller: a number of values of one type.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    row: &'static Row,
    /// The type of the values, or of characters for a text.
    pub ty: Type,
    /// How many there are.
    pub count: usize,
    /// Bytes at the address that is the value, which are kept in its place.
    pub pointee: Option<usize>,
}

/// What a Get answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The number of values that the call reports.
    pub count: usize,
    /// The values that it stores; none where only the number was asked for.
    pub values: Option<Value>,
}

impl Expected {
    /// Whether the value is no address but lists of integers, as they lie in memory.
    pub fn is_lists(&self) -> bool {
        pack::LISTS.contains(&self.row.number)
    }
}

impl Descriptor {
    /// An open one, in which nothing is set.
    pub fn new(kind: Kind) -> Self {
        Descriptor { kind, state: State::Open(Fields::default()) }
    }

    /// One that shows what another descriptor kept.
    pub fn of(object: Arc<Object>) -> Self {
        let state = match object.is_finalised {
            true => State::Finalised(Arc::clone(&object)),
            false => State::Open(object.fields.clone()),
        };
        Descriptor { kind: object.kind, state }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Back to how it was created.
    pub fn reset(&mut self) {
        self.state = State::Open(Fields::default());
    }

    /// What it was finalised to, if it was.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match &self.state {
            State::Open(_) => None,
            State::Finalised(object) => Some(object),
        }
    }

    /// What another descriptor keeps of it.
    pub fn link(&self) -> Link {
        Some(match &self.state {
            State::Finalised(object) => Arc::clone(object),
            State::Open(fields) => Arc::new(unchecked(self.kind, fields)),
        })
    }

    fn row(&self, attribute: i32) -> Result<&'static Row> {
        let attributes = attributes(self.kind);
        attributes.row(attribute).ok_or_else(|| {
            let text = format!("attributeName = {attribute}: {} has no such attribute", self.kind.name());
            attributes.foreign.error(text)
        })
    }

    fn check_type(&self, row: &Row, code: i32) -> Result<Type> {
        let ty = Type::from_code(code).filter(|ty| row.types.contains(ty));
        ty.ok_or_else(|| {
            let names: Vec<_> = row.types.iter().map(|ty| ty.name()).collect();
            let text = format!("attributeType = {code}: {} has the type {}", row.name, names.join(" or "));
            row.wrong_type.unwrap_or(attributes(self.kind).wrong_type).error(text)
        })
    }

    /// What a Set of an attribute may read, which [`store`](Self::store) takes.
    ///
    /// # Errors
    /// In this order: a finalised descriptor, an attribute that the kind does not have or that is
    /// not set, a wrong type, a wrong number of values, no values.
    pub fn expect(&self, attribute: i32, ty: i32, count: i64, is_null: bool) -> Result<Expected> {
        if self.object().is_some() {
            let text = format!("the {} descriptor is finalised, and no longer set", self.kind.name());
            return Err(Error::mismatch(text));
        }
        let row = self.row(attribute)?;
        if row.read_only && is_null {
            return Err(Error::mismatch(format!("arrayOfElements is NULL: {} has no values", row.name)));
        }
        if row.read_only {
            return Err(Error::unsupported(format!("{} is read, not set", row.name)));
        }
        if !row.is_typed {
            let count = if is_null { 0 } else { count.clamp(0, MOST_CHARACTERS) };
            return Ok(Expected { row, ty: Type::Char, count: count as usize, pointee: None });
        }
        let ty = self.check_type(row, ty)?;
        let (fits, rule) = match row.count {
            Count::One => (count == 1, "takes one value"),
            Count::Pair => ((1..=2).contains(&count), "takes one or two values"),
            Count::Positive => ((1..=MOST_VALUES).contains(&count), "takes 1 to 4096 values"),
            Count::NotNegative => ((0..=MOST_VALUES).contains(&count), "takes 0 to 4096 values"),
            Count::Any => (count <= MOST_VALUES, "takes at most 4096 values"),
        };
        if !fits {
            return Err(row.wrong_count.error(format!("elementCount = {count}: {} {rule}", row.name)));
        }
        if is_null {
            return Err(Error::mismatch(format!("arrayOfElements is NULL: {} has no values", row.name)));
        }
        // One descriptor is taken where one is meant, however many there are.
        let most = if ty == Type::Descriptor && !is_list(row) { 1 } else { MOST_VALUES };
        let pointee = match &self.state {
            State::Open(fields) if row.number == tensor::TENSOR_CONSTANT_VALUE => {
                Some(tensor::constant_size(fields))
            }
            _ => None,
        };
        Ok(Expected { row, ty, count: count.clamp(0, most) as usize, pointee })
    }

    /// Sets what was read.
    ///
    /// # Errors
    /// A finalised descriptor; a value that the attribute does not have.
    pub fn store(&mut self, expected: &Expected, value: Value) -> Result<()> {
        let row = expected.row;
        let kind = self.kind;
        let State::Open(fields) = &mut self.state else {
            return Err(Error::mismatch(format!("the {} descriptor is finalised", kind.name())));
        };
        if let Value::Links(links) = &value {
            for (index, link) in links.iter().enumerate() {
                check_link(row, index, link, kind.is_operation())?;
            }
        }
        match kind {
            Kind::OperationGraph => operation_graph::check_value(fields, row, &value)?,
            Kind::DeviceProperties => device::check_source(fields, row, &value)?,
            _ => {}
        }
        fields.set(row.number, value);
        Ok(())
    }

    /// Closes the descriptor for changes, if what was set makes sense; else it stays open. `derive`
    /// yields the values of attributes that are read only, which are worked out from what was set.
    ///
    /// # Errors
    /// A descriptor that is finalised already; what its kind refuses; those of `derive`.
    pub fn finalize(&mut self, derive: impl FnOnce(&Object) -> Result<Vec<(i32, Value)>>) -> Result<()> {
        let mut object = self.checked()?;
        for (attribute, value) in derive(&object)? {
            object.fields.set(attribute, value);
        }
        self.state = State::Finalised(Arc::new(object));
        Ok(())
    }

    fn checked(&self) -> Result<Object> {
        match &self.state {
            State::Finalised(_) => {
                Err(Error::mismatch(format!("the {} descriptor is finalised already", self.kind.name())))
            }
            State::Open(fields) => {
                let mut object = finalize(self.kind, fields)?;
                if self.kind == Kind::ExecutionPlan && engine::is_text(&object.fields) {
                    text::configure(&mut object.fields)?;
                }
                Ok(object)
            }
        }
    }

    /// What a Get answers.
    ///
    /// # Errors
    /// In this order: a descriptor that is not finalised, an attribute that the kind does not have
    /// or that cannot be read, a wrong type, a wrong number of values.
    pub fn answer(&self, attribute: i32, ty: i32, requested: i64, is_null: bool) -> Result<Answer> {
        let Some(object) = self.object() else {
            let text = format!("the {} descriptor is not finalised", self.kind.name());
            return Err(Error::NotInitialized(text.into()));
        };
        let row = self.row(attribute)?;
        let unreadable = match row.reading {
            Reading::No(fault) => Some(fault),
            Reading::IfKnown(fault) => Some(fault).filter(|_| !object.fields.has(attribute)),
            Reading::AsKind if !attributes(self.kind).is_readable => Some(Fault::Unsupported),
            Reading::AsKind | Reading::Yes => None,
        };
        if let Some(fault) = unreadable {
            return Err(fault.error(format!("{} cannot be read back", row.name)));
        }
        let ty = self.check_type(row, ty)?;
        let mut value = object.fields.get(attribute).cloned().unwrap_or_else(|| unset(row, ty));
        if Mode::current().is_strict()
            && let Some(tensor) = convolution::with_groups(object, attribute)
        {
            value = Value::Links(vec![Some(tensor)]);
        }
        if let Value::Ints(stored, _) = &mut value
            && Mode::current().is_strict()
            && attribute == matmul::OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT
        {
            // The original stores an int32_t, the lower half of what the type says.
            *stored = Type::Int32;
        }
        let is_scalar = row.count == Count::One
            || ty == Type::Descriptor && row.target == Some(Kind::Tensor) && !is_list(row);
        if is_scalar && (requested != 1 && (requested != 0 || !is_null || ty == Type::Descriptor))
            || requested < 0
        {
            let text = format!("requestedElementCount = {requested}: {} has one value", row.name);
            return Err(Error::mismatch(text));
        }
        let asked = requested as usize;
        if is_null {
            // No values and no place for them is the question how many there are.
            let count = if asked == 0 { value.count() } else { value.count().min(asked) };
            return Ok(Answer { count, values: None });
        }
        let values = value.first(asked);
        Ok(Answer { count: values.count(), values: Some(values) })
    }
}

/// Whether an attribute takes a list of descriptors, not one.
fn is_list(row: &Row) -> bool {
    [
        shape::OPERATION_CONCAT_INPUT_DESCS,
        norm::OPERATION_NORM_FWD_PEER_STAT_DESCS,
        norm::OPERATION_NORM_BWD_PEER_STAT_DESCS,
        operation_graph::OPERATIONGRAPH_OPS,
        engine::ENGINECFG_KNOB_CHOICES,
    ]
    .contains(&row.number)
}

/// Refuses a descriptor that an attribute does not take. One that is not finalised is for Finalize
/// to refuse, and so is one of a wrong kind where an operation takes its settings.
fn check_link(row: &Row, index: usize, link: &Link, is_operation: bool) -> Result<()> {
    let Some(object) = link else {
        let text = format!("{}[{index}] is NULL", row.name);
        return if row.is_required { Err(Error::mismatch(text)) } else { Ok(()) };
    };
    let fits = row.target.map_or(object.kind.is_operation(), |target| target == object.kind);
    if fits || !object.is_finalised || (is_operation && row.target != Some(Kind::Tensor)) {
        return Ok(());
    }
    let wanted = row.target.map_or("an operation", Kind::name);
    let text = format!("{}[{index}] is a {} descriptor, not {wanted}", row.name, object.kind.name());
    Err(Error::refused(ErrorKind::DescriptorType, text))
}

/// The value of an attribute that was not set, as it is read with this type.
fn unset(row: &Row, ty: Type) -> Value {
    let count = usize::from(row.count == Count::One);
    match ty.storage() {
        Storage::Descriptor => Value::Links(vec![None; count]),
        Storage::Pointer => Value::Pointers(vec![0; count]),
        Storage::F32 | Storage::F64 => Value::Reals(ty, vec![0.0; count]),
        Storage::Fraction => Value::Fractions(Vec::new()),
        _ if ty == Type::Char => Value::Text(Vec::new()),
        _ => Value::Ints(ty, vec![row.default; count]),
    }
}

impl Value {
    /// The first `count` of them, or all if they are fewer.
    fn first(&self, count: usize) -> Value {
        fn cut<T: Clone>(values: &[T], count: usize) -> Vec<T> {
            values[..values.len().min(count)].to_vec()
        }
        match self {
            Value::Ints(ty, values) => Value::Ints(*ty, cut(values, count)),
            Value::Reals(ty, values) => Value::Reals(*ty, cut(values, count)),
            Value::Fractions(values) => Value::Fractions(cut(values, count)),
            Value::Text(values) => Value::Text(cut(values, count)),
            Value::Pointers(values) => Value::Pointers(cut(values, count)),
            Value::Links(values) => Value::Links(cut(values, count)),
            Value::Lists(lists) => Value::Lists(cut(lists, count)),
        }
    }
}
