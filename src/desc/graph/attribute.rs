//! The rows of the table of attributes: what may be set, how much of it, and what is answered where
//! it does not fit.

use super::kind::Kind;
use crate::error::{Error, ErrorKind};

/// The types that an attribute's values have.
macro_rules! types {
    ($($name:ident $code:literal $shown:literal $store:ident;)*) => {
        /// The type of an attribute's values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Type {
            $(#[doc = concat!("`CUDNN_TYPE_", $shown, "`")] $name = $code,)*
        }

        impl Type {
            /// The type of this number.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Type::$name),)*
                    _ => None,
                }
            }

            /// The name in the header.
            pub fn name(self) -> &'static str {
                match self {
                    $(Type::$name => concat!("CUDNN_TYPE_", $shown),)*
                }
            }

            /// How one value lies in memory.
            pub fn storage(self) -> Storage {
                match self {
                    $(Type::$name => Storage::$store,)*
                }
            }
        }
    };
}

types! {
    Handle 0 "HANDLE" Pointer;
    DataType 1 "DATA_TYPE" I32;
    Boolean 2 "BOOLEAN" Byte;
    Int64 3 "INT64" I64;
    Float 4 "FLOAT" F32;
    Double 5 "DOUBLE" F64;
    Pointer 6 "VOID_PTR" Pointer;
    ConvolutionMode 7 "CONVOLUTION_MODE" I32;
    HeurMode 8 "HEUR_MODE" I32;
    KnobType 9 "KNOB_TYPE" I32;
    NanPropagation 10 "NAN_PROPOGATION" I32;
    NumericalNote 11 "NUMERICAL_NOTE" I32;
    LayoutType 12 "LAYOUT_TYPE" I32;
    AttribName 13 "ATTRIB_NAME" I32;
    PointwiseMode 14 "POINTWISE_MODE" I32;
    Descriptor 15 "BACKEND_DESCRIPTOR" Descriptor;
    GenstatsMode 16 "GENSTATS_MODE" I32;
    BnFinalizeStatsMode 17 "BN_FINALIZE_STATS_MODE" I32;
    ReductionOperatorType 18 "REDUCTION_OPERATOR_TYPE" I32;
    BehaviorNote 19 "BEHAVIOR_NOTE" I32;
    TensorReorderingMode 20 "TENSOR_REORDERING_MODE" I32;
    ResampleMode 21 "RESAMPLE_MODE" I32;
    PaddingMode 22 "PADDING_MODE" I32;
    Int32 23 "INT32" I32;
    Char 24 "CHAR" Byte;
    SignalMode 25 "SIGNAL_MODE" I32;
    Fraction 26 "FRACTION" Fraction;
    NormMode 27 "NORM_MODE" I32;
    NormFwdPhase 28 "NORM_FWD_PHASE" I32;
    RngDistribution 29 "RNG_DISTRIBUTION" I32;
    MoeGroupedMatmulMode 30 "MOE_GROUPED_MATMUL_MODE" I32;
    ReshapeMode 31 "RESHAPE_MODE" I32;
    OperationgraphMode 32 "OPERATIONGRAPH_MODE" I32;
}

/// How one value lies in the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An unsigned byte: a boolean or a character.
    Byte,
    /// Signed, 4 bytes: an `int32_t` or an enumerator.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// binary32
    F32,
    /// binary64
    F64,
    /// An address.
    Pointer,
    /// A descriptor of the graph interface.
    Descriptor,
    /// Two `int64_t`: numerator and denominator.
    Fraction,
}

/// How many values an attribute takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly one.
    One,
    /// One or two.
    Pair,
    /// At least one.
    Positive,
    /// Any number but a negative one.
    NotNegative,
    /// Any number; none where it is not positive.
    Any,
}

/// How an attribute's status differs from BAD_PARAM: what the original answers where another
/// library would say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A wrong argument.
    BadParam,
    /// The status of a wrong attribute type.
    AttributeType,
    /// Not supported.
    Unsupported,
    /// Not initialised: what the original answers for a handle.
    NotInitialized,
}

impl Fault {
    /// The error of this status with this text.
    pub(super) fn error(self, text: String) -> Error {
        let kind = match self {
            Fault::BadParam => ErrorKind::BadParam,
            Fault::AttributeType => ErrorKind::AttributeType,
            Fault::Unsupported => ErrorKind::NotSupported,
            Fault::NotInitialized => ErrorKind::NotInitialized,
        };
        Error::refused(kind, text)
    }
}

/// Whether an attribute can be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As its kind says.
    AsKind,
    /// Yes.
    Yes,
    /// No, with this status.
    No(Fault),
    /// Where the descriptor has a value, else no, with this status.
    IfKnown(Fault),
}

/// One attribute of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in the header.
    pub name: &'static str,
    /// The number in the header.
    pub number: i32,
    /// The types that its values may have.
    pub(super) types: &'static [Type],
    /// The kind of the descriptors that it takes, if it takes any; none for operations of any kind.
    pub(super) target: Option<Kind>,
    pub(super) count: Count,
    /// The integer that it has before it is set.
    pub(super) default: i64,
    pub(super) wrong_type: Option<Fault>,
    pub(super) wrong_count: Fault,
    pub(super) read_only: bool,
    /// Whether the tensor is a result of the operation.
    pub(super) is_output: bool,
    /// Whether NULL is no descriptor here; else it is as if none was set.
    pub(super) is_required: bool,
    /// Whether the original looks at the type at all.
    pub(super) is_typed: bool,
    pub(super) reading: Reading,
}

impl Row {
    pub(super) const fn new(
        name: &'static str, number: i32, types: &'static [Type], target: Option<Kind>, count: Count,
    ) -> Self {
        Row {
            name,
            number,
            types,
            target,
            count,
            default: 0,
            wrong_type: None,
            wrong_count: Fault::BadParam,
            read_only: false,
            is_output: false,
            is_required: false,
            is_typed: true,
            reading: Reading::AsKind,
        }
    }

    /// With this integer before it is set.
    pub(super) const fn unset(self, default: i64) -> Self {
        Row { default, ..self }
    }

    /// With this status of a wrong type.
    pub(super) const fn mistyped(self, fault: Fault) -> Self {
        Row { wrong_type: Some(fault), ..self }
    }

    /// With this status of a wrong count.
    pub(super) const fn miscounted(self, fault: Fault) -> Self {
        Row { wrong_count: fault, ..self }
    }

    /// A result of the operation.
    pub(super) const fn output(self) -> Self {
        Row { is_output: true, ..self }
    }

    /// Not to be set to NULL.
    pub(super) const fn required(self) -> Self {
        Row { is_required: true, ..self }
    }

    /// Not to be set.
    pub(super) const fn read_only(self) -> Self {
        Row { read_only: true, ..self }
    }

    /// A text whose type and count the original does not look at when it is set.
    pub(super) const fn untyped(self) -> Self {
        Row { is_typed: false, ..self }
    }

    /// To be read back, unlike others of its kind.
    pub(super) const fn readable(self) -> Self {
        Row { reading: Reading::Yes, ..self }
    }

    /// Not to be read back where it has no value.
    pub(super) const fn readable_if_known(self, fault: Fault) -> Self {
        Row { reading: Reading::IfKnown(fault), ..self }
    }

    /// Not to be read back, unlike others of its kind.
    pub(super) const fn unreadable(self, fault: Fault) -> Self {
        Row { reading: Reading::No(fault), ..self }
    }
}

/// Rows of one kind, with a constant for the number of each: name in the header without
/// `CUDNN_ATTR_`, number, types, the kind of the descriptors that it takes, count, the integer that it
/// has before it is set (0 if the row names none), exceptions.
macro_rules! rows {
    ($(#[$doc:meta])* $rows:ident: $($name:ident $number:literal [$($ty:ident)*] $(-> $kind:ident)? $count:ident
        $(= $default:literal)? $($exception:ident($($fault:ident)?))*;)*) => {
        $(
            #[doc = concat!("`CUDNN_ATTR_", stringify!($name), "`")]
            pub const $name: i32 = $number;
        )*

        $(#[$doc])*
        pub(super) const $rows: &[$crate::desc::graph::attribute::Row] = &[$(
            $crate::desc::graph::attribute::Row::new(
                concat!("CUDNN_ATTR_", stringify!($name)),
                $number,
                &[$($crate::desc::graph::attribute::Type::$ty),*],
                rows!(@target $($kind)?),
                $crate::desc::graph::attribute::Count::$count,
            )$(.unset($default))?$(.$exception($($crate::desc::graph::attribute::Fault::$fault)?))*,
        )*];
    };
    (@target) => { None };
    (@target any_operation) => { None };
    (@target $kind:ident) => { Some($crate::desc::graph::kind::Kind::$kind) };
}
pub(super) use rows;
