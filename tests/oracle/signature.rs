//! The C signatures of all functions, as far as a generic caller has to know them.

use std::collections::HashMap;

/// The C type of a scalar, of an array's elements, or of what a pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `int`, `int32_t` and every enumeration: four bytes, read as signed.
    I32,
    /// `unsigned int`, `uint32_t`.
    U32,
    /// `int64_t`.
    I64,
    /// `size_t`, `unsigned long long`.
    U64,
    /// `float`.
    F32,
    /// `double`.
    F64,
    /// A descriptor, handle, stream, callback or other pointer.
    Pointer,
    /// `void`: bytes.
    Byte,
    /// What a search for algorithms reports: algorithm, status, time, memory, determinism, math
    /// type, reserved.
    Record,
}

impl Scalar {
    /// Size in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Pointer => 8,
            Self::Record => 48,
        }
    }
}

/// One parameter: the scalar and whether a pointer to it (or an array of it) is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The scalar itself or what is pointed to.
    pub scalar: Scalar,
    /// A pointer or an array, not a value.
    pub indirect: bool,
    /// The callee may not write through the pointer.
    pub constant: bool,
}

/// The parameters of every function, by C name.
pub struct Signatures(HashMap<String, Vec<Param>>);

impl Signatures {
    /// Reads tables of C functions (columns `name` and `parameters`).
    pub fn parse(tables: &[String]) -> Self {
        let mut signatures = HashMap::new();
        for table in tables {
            let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
            let header = rows.next().expect("header line");
            let column = |name| header.iter().position(|&title| title == name).expect("column");
            let (name, parameters) = (column("name"), column("parameters"));
            signatures.extend(rows.map(|row| (row[name].to_owned(), params(row[parameters]))));
        }
        Self(signatures)
    }

    /// The parameters of `function` (C name with the leading `cudnn`).
    pub fn of(&self, function: &str) -> Option<&[Param]> {
        self.0.get(function).map(Vec::as_slice)
    }
}

fn params(list: &str) -> Vec<Param> {
    if list == "void" { Vec::new() } else { list.split("; ").map(param).collect() }
}

fn param(text: &str) -> Param {
    let (ty, name) = text.rsplit_once(' ').unwrap_or_else(|| panic!("no parameter name in {text:?}"));
    let constant = ty.starts_with("const ");
    let base = ty.trim_start_matches("const ");
    let stars = name.matches('*').count();
    let indirect = stars > 0 || name.ends_with(']');
    let scalar = if stars > 1 { Scalar::Pointer } else { scalar(base) };
    Param { scalar, indirect, constant }
}

fn scalar(base: &str) -> Scalar {
    const POINTERS: [&str; 8] = [
        "Descriptor_t",
        "Handle_t",
        "Pack_t",
        "Plan_t",
        "Performance_t",
        "Callback_t",
        "cudaStream_t",
        "cudaGraph_t",
    ];
    match base {
        "int" | "int32_t" | "libraryPropertyType" => Scalar::I32,
        "unsigned" | "unsigned int" | "uint32_t" => Scalar::U32,
        "int64_t" | "long long" => Scalar::I64,
        "size_t" | "unsigned long long" | "uint64_t" => Scalar::U64,
        "float" => Scalar::F32,
        "double" => Scalar::F64,
        "void" | "char" => Scalar::Byte,
        record if record.ends_with("AlgoPerf_t") => Scalar::Record,
        pointer if POINTERS.iter().any(|suffix| pointer.ends_with(suffix)) => Scalar::Pointer,
        enumeration if enumeration.starts_with("cudnn") => Scalar::I32,
        other => panic!("unknown C type {other:?}"),
    }
}

/// Parsing is checked on the shapes of parameter that occur.
pub fn check_parser() {
    let indirect = |scalar, constant| Param { scalar, indirect: true, constant };
    let direct = |scalar, constant| Param { scalar, indirect: false, constant };
    for (text, expected) in [
        ("cudnnHandle_t handle", direct(Scalar::Pointer, false)),
        ("cudnnTensorDescriptor_t *tensorDesc", indirect(Scalar::Pointer, false)),
        ("const cudnnTensorDescriptor_t xDesc", direct(Scalar::Pointer, true)),
        ("const int dimA[]", indirect(Scalar::I32, true)),
        ("uint32_t foldA[]", indirect(Scalar::U32, false)),
        ("cudnnDataType_t *dataType", indirect(Scalar::I32, false)),
        ("const void *alpha", indirect(Scalar::Byte, true)),
        ("void **udata", indirect(Scalar::Pointer, false)),
        ("size_t *sizeInBytes", indirect(Scalar::U64, false)),
        ("unsigned long long seed", direct(Scalar::U64, false)),
        ("float dropout", direct(Scalar::F32, false)),
        ("double coef", direct(Scalar::F64, false)),
        ("cudnnConvolutionFwdAlgoPerf_t *perfResults", indirect(Scalar::Record, false)),
    ] {
        assert_eq!(param(text), expected, "{text}");
    }
}
