//! The tables of `docs/arithmetic-types.md` against what OpTensor and ReduceTensor answer: every
//! combination of types, in both modes.

use cudnn::desc::{MathType, OpTensorDescriptor, ReduceDescriptor, TensorDescriptor, TransformDescriptor};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::mode::Mode;
use cudnn::ops::op::Factors;
use cudnn::ops::{OpPlan, ReducePlan, Scaling, TransformPlan};

/// Channels of every tensor, in as many elements as that takes. The strict mode compares elements,
/// whatever they hold.
const CHANNELS: i64 = 32;

fn tensor(data_type: DataType, batch: i64, mode: Mode) -> TensorDescriptor {
    let lanes = if mode.is_strict() { 1 } else { data_type.lanes() };
    let (dims, strides) = ([batch, CHANNELS / lanes, 1, 1], [CHANNELS / lanes, 1, 1, 1]);
    TensorDescriptor::with_strides(data_type, 4, &dims, &strides, mode).expect("valid")
}

fn named(name: &str) -> DataType {
    match name {
        "FLOAT" => DataType::Float,
        "DOUBLE" => DataType::Double,
        "HALF" => DataType::Half,
        "BFLOAT16" => DataType::Bfloat16,
        _ => panic!("{name} is no computation type"),
    }
}

/// The answer of a plan; `None`: it is done.
fn answer(call: &str, computation: DataType, a: DataType, c: DataType, mode: Mode) -> Option<ErrorKind> {
    let from = tensor(a, 2, mode);
    let outcome = match call {
        "cudnnOpTensor" => {
            let rule = OpTensorDescriptor { compute_type: computation, ..OpTensorDescriptor::default() };
            let (to, factors) = (tensor(c, 2, mode), Factors { alpha: [1.0, 1.0], beta: 0.0 });
            OpPlan::new(&rule, [&from, &from, &to], factors, false, mode).map(|_| ())
        }
        "cudnnReduceTensor" => {
            let rule = ReduceDescriptor { compute_type: computation, ..ReduceDescriptor::default() };
            ReducePlan::new(&rule, &from, &tensor(c, 1, mode), Scaling::MOVE, mode).map(|_| ())
        }
        _ => panic!("{call} has no table"),
    };
    outcome.err().map(|error| error.kind())
}

#[test]
fn the_documented_tables_of_types_are_what_the_library_answers() {
    let (mut call, mut computations) = ("", vec![]);
    let mut compared = 0;
    for line in include_str!("../../docs/arithmetic-types.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let (name, types) = title.split_once(", computed in ").expect("a call and its computation types");
            (call, computations) = (name, types.split(" or ").map(named).collect());
        }
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let row = cells.next().and_then(|cell| cell.parse::<usize>().ok());
        let Some(&a) = row.and_then(|row| DataType::ALL.get(row)) else { continue };
        let cells: Vec<&str> = cells.collect();
        assert_eq!(cells.len(), DataType::ALL.len(), "{line}");
        for ((&cell, c), &computation) in
            cells.iter().zip(DataType::ALL).flat_map(|pair| computations.iter().map(move |t| (pair, t)))
        {
            let (strict, extended) = match cell {
                "S" => (None, None),
                "+" => (Some(ErrorKind::NotSupported), None),
                "B" => (Some(ErrorKind::BadParam), Some(ErrorKind::BadParam)),
                _ => panic!("{cell} is no answer"),
            };
            for (mode, want) in [(Mode::Strict, strict), (Mode::Extended, extended)] {
                let got = answer(call, computation, a, c, mode);
                assert_eq!(got, want, "{call} computed in {computation:?}, {a:?} to {c:?}, {mode:?}");
                compared += 1;
            }
        }
    }
    // Four computation types of one call, three of the other.
    assert_eq!(compared, 2 * 7 * 14 * 14);
}

#[test]
fn strict_transforms_with_a_map_do_not_support_plain_vectors_of_other_types() {
    let strict = |x: DataType, y: DataType, y_batch: i64| {
        let (src, dst) = (tensor(x, 2, Mode::Strict), tensor(y, y_batch, Mode::Strict));
        let transform = TransformDescriptor::default();
        let plan = TransformPlan::with_map(&transform, &src, &dst, Scaling::MOVE, Mode::Strict);
        plan.map(|_| ()).err().map(|error| error.kind())
    };
    for vector in [DataType::Uint8x4, DataType::Int8x32] {
        for other in DataType::ALL.into_iter().take(10).filter(|&other| other != vector) {
            assert_eq!(strict(vector, other, 2), Some(ErrorKind::NotSupported), "{vector:?} to {other:?}");
            assert_eq!(strict(other, vector, 2), Some(ErrorKind::NotSupported), "{other:?} to {vector:?}");
            assert_eq!(
                strict(other, vector, 3),
                Some(ErrorKind::BadParam),
                "{other:?} to {vector:?}, other dims"
            );
        }
    }
    assert_eq!(strict(DataType::Int8x4, DataType::Float, 2), Some(ErrorKind::BadParam));
}

/// Not in strict mode, which this program is not in.
#[test]
fn math_types_allow_what_the_table_says() {
    for (math, tiles, conversion) in [
        (MathType::Standard, true, false),
        (MathType::TensorOp, true, false),
        (MathType::TensorOpWithConversion, true, true),
        (MathType::Fma, false, false),
    ] {
        assert_eq!((math.allows_tiles(), math.allows_conversion()), (tiles, conversion), "{math:?}");
    }
}
