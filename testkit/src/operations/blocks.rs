//! Quantisation by blocks of two: codes of elements and scales by hand.

use cudnn::ops::graph::{Blocks, Type};

use super::*;

const E8M0: Type = Type::Other(15);
const E2M1: Type = Type::Other(16);

/// Bytes of a tensor, as they lie in memory.
fn codes(uid: i64, bytes: &[u8]) -> (Arc<Tensor>, Vec<f64>) {
    let memory = packed(uid, DataType::Uint8, &[bytes.len() as i64]);
    (memory, bytes.iter().map(|&byte| byte.into()).collect())
}

fn of_type(uid: i64, data_type: Type, dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor { data_type, ..(*float(uid, dims)).clone() })
}

fn by_two() -> Blocks {
    Blocks { sizes: vec![2], ..Blocks::default() }
}

/// FP4 by powers of two.
fn dequantise() -> Problem {
    let mut problem = Problem::new("dequantise");
    let (x, y) = (of_type(1, E2M1, &[1, 1, 2, 8]), float(3, &[1, 1, 2, 8]));
    let scale = of_type(2, E8M0, &[1, 1, 2, 4]);
    problem.push(Kind::Dequantize(by_two()), &[(Port::X, &x), (Port::Scale, &scale)], &[(Port::Y, &y)]);
    problem.given.push(codes(1, &[0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe]));
    problem.given.push(codes(2, &[127, 128, 126, 129, 127, 100, 254, 255]));
    let power = |exponent: i32| 2.0_f64.powi(exponent);
    let numbers = [
        [0.0, 0.5, 2.0, 3.0, 1.0, 1.5, 16.0, 24.0],
        [
            -0.0,
            -0.5,
            -power(-27),
            -1.5 * power(-27),
            f64::NEG_INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::NAN,
        ],
    ];
    problem.wanted.push((y, numbers.concat()));
    problem.bound = 0.0;
    problem
}

/// FP8 by powers of two: the scale is the least that brings a block below 448, and halves go to the even neighbour.
fn quantise() -> Problem {
    let mut problem = Problem::new("quantise");
    let x = float(1, &[1, 1, 1, 8]);
    let y = packed(2, DataType::Fp8E4m3, &[1, 1, 1, 8]);
    let scale = of_type(3, E8M0, &[1, 1, 1, 4]);
    problem.push(Kind::Quantize(by_two()), &[(Port::X, &x)], &[(Port::Y, &y), (Port::Scale, &scale)]);
    problem.given.push((x, vec![896.0, 1.0, 100.0, -3.0, 0.0, 0.0, 1.0, f64::NAN]));
    problem.wanted.push(codes(2, &[0x7e, 0x30, 0x7c, 0xd4, 0, 0, 0x7f, 0x7f]));
    problem.wanted.push(codes(3, &[128, 125, 0, 255]));
    problem.bound = 0.0;
    problem
}

pub fn problems() -> Vec<Problem> {
    vec![dequantise(), quantise()]
}
