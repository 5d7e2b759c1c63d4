//! What can go wrong, in the library's own words: argument, index, value and rule. No C types, no
//! status numbers.

use std::borrow::Cow;

/// The outcome of every fallible function inside the library.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// One refused call. [`Error::kind`] tells which family of C status it belongs to; the text is what
/// `cudnnGetLastErrorString` and the log show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A required pointer was NULL.
    #[error("{argument} is NULL")]
    Null {
        /// Name of the C parameter.
        argument: &'static str,
    },
    /// A handle or descriptor that is not alive, or of another kind.
    #[error("{argument} is not a live {kind}: {reason}")]
    Handle {
        /// Name of the C parameter.
        argument: &'static str,
        /// What was expected, for example "tensor descriptor".
        kind: &'static str,
        /// Why it was refused.
        reason: &'static str,
    },
    /// A scalar argument outside its range.
    #[error("{argument} = {value}: {rule}")]
    Argument {
        /// Name of the C parameter.
        argument: &'static str,
        /// The value given.
        value: i64,
        /// The rule it breaks.
        rule: Cow<'static, str>,
    },
    /// An array entry outside its range.
    #[error("{argument}[{index}] = {value}: {rule}")]
    Element {
        /// Name of the C parameter.
        argument: &'static str,
        /// Index of the entry, from 0.
        index: usize,
        /// The value given.
        value: i64,
        /// The rule it breaks.
        rule: Cow<'static, str>,
    },
    /// Arguments that are fine alone but do not fit each other.
    #[error("{0}")]
    Mismatch(Cow<'static, str>),
    /// A data pointer off the alignment of its elements.
    #[error("{0}")]
    Misaligned(Cow<'static, str>),
    /// Memory that ends in front of what the call is about, in a call whose original has a status
    /// of its own for that.
    #[error("{0}")]
    TooShort(Cow<'static, str>),
    /// Valid, but not done: either the original refuses it under strict mode, or it is not built.
    #[error("{0}")]
    Unsupported(Cow<'static, str>),
    /// As [`Error::Unsupported`], for the shape of an argument.
    #[error("{0}")]
    UnsupportedShape(Cow<'static, str>),
    /// As [`Error::Unsupported`], for the element type of an argument.
    #[error("{0}")]
    UnsupportedType(Cow<'static, str>),
    /// What the graph interface refuses, with the family of status that it has for it.
    #[error("{text}")]
    Refused {
        /// The family.
        kind: ErrorKind,
        /// Attribute, index, value and rule.
        text: Cow<'static, str>,
    },
    /// The library or a descriptor is not in the state that the call needs.
    #[error("{0}")]
    NotInitialized(Cow<'static, str>),
    /// Host memory ran out.
    #[error("cannot allocate {bytes} bytes of host memory")]
    HostAllocation {
        /// Size of the failed request.
        bytes: usize,
    },
    /// The core could not run the work.
    #[error("{0}")]
    Execution(Cow<'static, str>),
    /// The CUDA driver refused a call, or reports what earlier work did.
    #[error("{call} returned {name} ({code}){}{detail}", if detail.is_empty() { "" } else { ": " })]
    Driver {
        /// The driver's entry point.
        call: &'static str,
        /// The code it returned.
        code: i32,
        /// The driver's name of the code.
        name: String,
        /// What else is known; may be empty.
        detail: String,
    },
    /// The original cuDNN answered, and this is its answer.
    #[error("the original: {text}")]
    Original {
        /// Its status, a number of its interface.
        code: i32,
        /// Its last error.
        text: String,
    },
    /// A defect of this library.
    #[error("internal error: {0}")]
    Internal(Cow<'static, str>),
}

/// The families of C statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument is wrong.
    BadParam,
    /// A pointer is off its alignment, in a call whose original says so.
    Misaligned,
    /// A pointer is NULL, in a call whose original says so.
    NullPointer,
    /// A descriptor is not finalised.
    NotFinalized,
    /// Shapes do not fit each other, in a call whose original says so.
    ShapeMismatch,
    /// A value has a type that its attribute does not have.
    AttributeType,
    /// A descriptor is of another kind.
    DescriptorType,
    /// Memory is too short, in a call whose original says so.
    InvalidValue,
    /// Meaningful, but not done.
    NotSupported,
    /// Meaningful, but not done for this shape.
    NotSupportedShape,
    /// Meaningful, but not done for this element type.
    NotSupportedType,
    /// Meaningful, but not done for this graph.
    NotSupportedPattern,
    /// Meaningful, but not for this device.
    ArchMismatch,
    /// State missing.
    NotInitialized,
    /// Host memory ran out.
    HostAllocation,
    /// The core failed.
    Execution,
    /// The CUDA driver failed.
    Driver,
    /// The original answered with this number.
    Original(i32),
    /// A defect of this library.
    Internal,
}

impl Error {
    /// The family of C status this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Null { .. }
            | Error::Handle { .. }
            | Error::Argument { .. }
            | Error::Element { .. }
            | Error::Mismatch(_) => ErrorKind::BadParam,
            Error::Misaligned(_) => ErrorKind::Misaligned,
            Error::TooShort(_) => ErrorKind::InvalidValue,
            Error::Unsupported(_) => ErrorKind::NotSupported,
            Error::UnsupportedShape(_) => ErrorKind::NotSupportedShape,
            Error::UnsupportedType(_) => ErrorKind::NotSupportedType,
            Error::Refused { kind, .. } => *kind,
            Error::NotInitialized(_) => ErrorKind::NotInitialized,
            Error::HostAllocation { .. } => ErrorKind::HostAllocation,
            Error::Execution(_) => ErrorKind::Execution,
            Error::Driver { .. } => ErrorKind::Driver,
            Error::Original { code, .. } => ErrorKind::Original(*code),
            Error::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Whether memory ran out, of the host or of a device.
    pub fn is_want_of_memory(&self) -> bool {
        // CUDA_ERROR_OUT_OF_MEMORY
        matches!(self, Error::HostAllocation { .. } | Error::Driver { code: 2, .. })
    }

    /// A scalar argument that breaks `rule`.
    pub fn argument(argument: &'static str, value: i64, rule: impl Into<Cow<'static, str>>) -> Self {
        Error::Argument { argument, value, rule: rule.into() }
    }

    /// An array entry that breaks `rule`.
    pub fn element(
        argument: &'static str, index: usize, value: i64, rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        Error::Element { argument, index, value, rule: rule.into() }
    }

    /// The same for a call that takes the entries of `array` as arguments of their own, called
    /// `names`.
    pub fn by_name(self, array: &str, names: &[&'static str]) -> Self {
        match self {
            Error::Element { argument, index, value, rule } if argument == array && index < names.len() => {
                Error::Argument { argument: names[index], value, rule }
            }
            other => other,
        }
    }

    /// Arguments that do not fit each other.
    pub fn mismatch(text: impl Into<Cow<'static, str>>) -> Self {
        Error::Mismatch(text.into())
    }

    /// What the graph interface refuses with this family of status.
    pub fn refused(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Error::Refused { kind, text: text.into() }
    }

    /// Something valid that is not done.
    pub fn unsupported(text: impl Into<Cow<'static, str>>) -> Self {
        Error::Unsupported(text.into())
    }
}
