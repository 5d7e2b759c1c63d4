//! Quantisation by blocks of two: codes of elements and scales by hand.

use cudnn::ops::graph::{Blocks, Pointwise, Type};

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

/// FP8 by powers of two: the scale is the least that brings a block below 448, and halves go to the
/// even neighbour.
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

/// A sum of FP4 and FP8_E8M0, and what it is in either: halves go to the even neighbour of FP4, and
/// up to the next power of two.
fn sums_of_codes() -> Problem {
    let mut problem = Problem::new("sums of codes");
    let (x, b) = (of_type(1, E2M1, &[1, 1, 1, 8]), of_type(2, E8M0, &[1, 1, 1, 8]));
    let sum = hidden(10, DataType::Float, &[1, 1, 1, 8]);
    let (narrow, power) = (of_type(3, E2M1, &[1, 1, 1, 8]), of_type(4, E8M0, &[1, 1, 1, 8]));
    problem.push(Kind::Pointwise(Pointwise::new(0)), &[(Port::X, &x), (Port::B, &b)], &[(Port::Y, &sum)]);
    for y in [&narrow, &power] {
        problem.push(Kind::Pointwise(Pointwise::new(21)), &[(Port::X, &sum)], &[(Port::Y, y)]);
    }
    // 0 0.5 1 1.5 2 3 4 6, and 1 1 1/4 2 1/2 1/2 NaN 2^127.
    problem.given.push(codes(1, &[0x10, 0x32, 0x54, 0x76]));
    problem.given.push(codes(2, &[127, 127, 125, 128, 126, 126, 255, 254]));
    // 1 1.5 1.25 3.5 2.5 3.5 NaN 2^127: to 1 1.5 1 4 2 4 6 6, and to 1 2 2 4 4 4 NaN 2^127.
    problem.wanted.push(codes(3, &[0x32, 0x62, 0x64, 0x77]));
    problem.wanted.push(codes(4, &[127, 128, 128, 129, 129, 129, 255, 254]));
    problem.bound = 0.0;
    problem
}

/// The number of a code of E4M3, by its definition.
fn e4m3(code: u8) -> f64 {
    let (sign, exponent, fraction) =
        (if code < 128 { 1.0 } else { -1.0 }, i32::from(code >> 3 & 15), f64::from(code & 7));
    match exponent {
        0 => sign * fraction * 2.0_f64.powi(-9),
        15 if fraction == 7.0 => f64::NAN,
        _ => sign * (8.0 + fraction) * 2.0_f64.powi(exponent - 10),
    }
}

/// The code of the nearest number of E4M3, of two the even one.
fn nearest_e4m3(x: f32) -> u8 {
    let distance = |code: u8| (e4m3(code) - f64::from(x.abs())).abs();
    let order = |&a: &u8, &b: &u8| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)));
    let size = (0..127).min_by(order).expect("there are numbers");
    size | if x.is_sign_negative() { 128 } else { 0 }
}

fn ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Where the scale of a row and a column lies among tiles of 128 rows and 4 columns, so many beside
/// each other.
fn place(row: i64, column: i64, across: i64) -> usize {
    ((row / 128 * across + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4) as usize
}

/// A matrix in E4M3 by powers of two. Blocks are `size` elements of a row, or of a column if it is
/// turned; the scales are in tiles, and their tensor has the extents of whole tiles or of what
/// there is.
fn tiled(
    rng: &mut Rng, [m, k]: [i64; 2], size: i64, is_turned: bool, is_padded: bool, told: &[i64],
) -> Problem {
    let turned = |dims: [i64; 3]| if is_turned { [dims[0], dims[2], dims[1]] } else { dims };
    let mut problem = Problem::new(format!("{m} x {k} by {told:?}, turned {is_turned}, padded {is_padded}"));
    let (batch, columns) = (if m < 100 { 2 } else { 1 }, ceil(k, size));
    let (down, across) = (ceil(m, 128), ceil(columns, 4));
    let room = if is_padded { [batch, down * 128, across * 4] } else { [batch, m, columns] };
    let strides = |[_, rows, columns]: [i64; 3]| turned([rows * columns, columns, 1]);
    let tensor = |uid: i64, data_type: Type, dims: [i64; 3]| {
        let tensor = Tensor::new(uid, DataType::Uint8, &turned(dims), &strides(dims));
        Tensor { data_type, ..tensor }
    };
    let x = Arc::new(tensor(1, DataType::Fp8E4m3.into(), [batch, m, k]));
    let scale = Arc::new(Tensor { reorder: 3, ..tensor(2, E8M0, room) });
    let y = float(3, &turned([batch, m, k]));
    let settings = Blocks { sizes: told.to_vec(), ..Blocks::default() };
    problem.push(Kind::Dequantize(settings), &[(Port::X, &x), (Port::Scale, &scale)], &[(Port::Y, &y)]);
    // No NaN among the codes of elements; in the room that x does not need, all are.
    let elements: Vec<u8> =
        (0..batch * m * k).map(|_| [0, 128][rng.below(2)] + rng.below(127) as u8).collect();
    let mut scales = vec![255_u8; (batch * down * across * 512) as usize];
    for cell in indices(&[batch, m, columns]) {
        let at = (cell[0] * down * across * 512) as usize + place(cell[1], cell[2], across);
        scales[at] = 120 + rng.below(16) as u8;
    }
    let want = indices(&y.dims).into_iter().map(|index| {
        let (row, column) = if is_turned { (index[2], index[1]) } else { (index[1], index[2]) };
        let element = elements[(index[0] * m * k + row * k + column) as usize];
        let at = (index[0] * down * across * 512) as usize + place(row, column / size, across);
        e4m3(element) * 2.0_f64.powi(i32::from(scales[at]) - 127)
    });
    problem.wanted.push((y.clone(), want.collect()));
    problem.given.extend([codes(1, &elements), codes(2, &scales)]);
    problem.bound = 0.0;
    problem
}

/// Scales with room for more blocks than there are, in the order of their dimensions, and a last
/// block that is cut off.
fn roomy(rng: &mut Rng) -> Problem {
    let mut problem = Problem::new("scales with room for more");
    let (x, scale, y) = (float(1, &[3, 10]), float(2, &[4, 5]), float(3, &[3, 10]));
    let settings = Blocks { sizes: vec![1, 4], ..Blocks::default() };
    problem.push(Kind::Dequantize(settings), &[(Port::X, &x), (Port::Scale, &scale)], &[(Port::Y, &y)]);
    let (elements, scales) = (problem.random(rng, &x), problem.random(rng, &scale));
    let product =
        |i: &Vec<i64>| elements[(i[0] * 10 + i[1]) as usize] * scales[(i[0] * 5 + i[1] / 4) as usize];
    problem.wanted.push((y, indices(&[3, 10]).iter().map(product).collect()));
    problem.bound = 0.0;
    problem
}

/// Blocks of three, of which the last ones are cut off; scales in FLOAT, with room for more, which
/// becomes 0.
fn quantised_with_room(rng: &mut Rng) -> Problem {
    let mut problem = Problem::new("quantise with room for more");
    let (x, scale) = (float(1, &[1, 1, 5, 7]), float(3, &[1, 1, 5, 4]));
    let y = packed(2, DataType::Fp8E4m3, &[1, 1, 5, 7]);
    let settings = Blocks { sizes: vec![3], ..Blocks::default() };
    problem.push(Kind::Quantize(settings), &[(Port::X, &x)], &[(Port::Y, &y), (Port::Scale, &scale)]);
    let elements = problem.random(rng, &x);
    let (mut scales, mut quotients) = (vec![0.0; 20], vec![0; 35]);
    for index in indices(&[5, 3]) {
        let row = (index[0] * 7) as usize;
        let block = row + index[1] as usize * 3..row + (index[1] as usize * 3 + 3).min(7);
        let largest = elements[block.clone()].iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let scale = largest as f32 / 448.0;
        scales[(index[0] * 4 + index[1]) as usize] = scale.into();
        block.for_each(|at| quotients[at] = nearest_e4m3(elements[at] as f32 / scale));
    }
    problem.wanted.extend([(scale, scales), codes(2, &quotients)]);
    problem.bound = 0.0;
    problem
}

pub fn problems() -> Vec<Problem> {
    let mut rng = Rng(28);
    let mut problems =
        vec![dequantise(), quantise(), sums_of_codes(), roomy(&mut rng), quantised_with_room(&mut rng)];
    for m in [1, 100, 128, 130, 200] {
        for k in [64, 96, 1024] {
            for is_turned in [false, true] {
                let told = if is_turned { vec![32, 1] } else { vec![1, 32] };
                problems.push(tiled(&mut rng, [m, k], 32, is_turned, true, &told));
            }
        }
    }
    // As the size alone tells it, as the frontend tells it of transposed keys, with blocks that are
    // cut off, and without the room of tiles.
    for (size, told) in [(32, vec![32]), (16, vec![16]), (32, vec![1, 32]), (64, vec![1, 64, 1])] {
        for k in [96, 100, 130] {
            for (is_turned, is_padded) in [(true, true), (false, true), (true, false), (false, false)] {
                // Three sizes say which dimension it is, and that is one of columns.
                if told.len() < 3 || is_turned {
                    problems.push(tiled(&mut rng, [70, k], size, is_turned, is_padded, &told));
                }
            }
        }
    }
    problems
}
