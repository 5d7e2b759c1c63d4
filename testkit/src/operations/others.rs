//! Random numbers, bands, rotations, products of matrices of which a part counts.

use cudnn::layout::Dims;
use cudnn::ops::graph::{
    BandMask, Convolution, Direction, Experts, Matmul, Norm, Rng as Numbers, Rope, Spatial,
};

use super::*;

pub fn problems(rng: &mut Rng) -> Vec<Problem> {
    let mut all = random_numbers();
    all.extend(bands(rng));
    all.extend(rotations(rng));
    all.extend(counted_products(rng));
    all.extend(pages(rng));
    all.extend(experts(rng));
    all.extend(filters(rng));
    all.extend(layer_norms(rng));
    all
}

/// Layer normalisations, and their gradients of the mean and inverse deviation that are given.
fn layer_norms(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for (rows, length) in [(5, 48), (70, 1100)] {
        let wide = |uid| float(uid, &[rows, length]);
        let (of_rows, of_places) = (|uid| float(uid, &[rows, 1]), |uid| float(uid, &[1, length]));
        let (x, y, scale, bias) = (wide(1), wide(2), of_places(3), of_places(4));
        let (mean, inverse, epsilon) = (of_rows(5), of_rows(6), by_value(7, DataType::Float, 2));
        let (dy, dx, dscale, dbias) = (wide(8), wide(9), of_places(10), of_places(11));
        let mut problem = Problem::new(format!("layer normalisation of {rows} x {length}"));
        let mut random = |tensor| problem.random(rng, tensor);
        let (own, scales, biases, gradients) = (random(&x), random(&scale), random(&bias), random(&dy));
        problem.given.push((Arc::clone(&epsilon), vec![0.5]));
        let (count, columns) = (rows as usize * length as usize, length as usize);
        let average = |terms: &dyn Fn(usize) -> f64, row: usize| {
            (0..columns).map(|k| terms(row * columns + k)).sum::<f64>() / columns as f64
        };
        let means: Vec<f64> = (0..rows as usize).map(|row| average(&|i| own[i], row)).collect();
        let deviation = |row: usize| (average(&|i| (own[i] - means[row]).powi(2), row) + 0.5).sqrt();
        let inverses: Vec<f64> = (0..rows as usize).map(|row| 1.0 / deviation(row)).collect();
        let h: Vec<f64> = (0..count).map(|i| (own[i] - means[i / columns]) * inverses[i / columns]).collect();
        let g: Vec<f64> = (0..count).map(|i| gradients[i] * scales[i % columns]).collect();
        let result = |i: usize| h[i] * scales[i % columns] + biases[i % columns];
        let gradient = |i: usize| {
            let row = i / columns;
            let (share, other) = (average(&|i| g[i] * h[i], row), average(&|i| g[i], row));
            (g[i] - h[i] * share - other) * inverses[row]
        };
        let sums = |terms: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..columns).map(|k| (k..count).step_by(columns).map(terms).sum()).collect()
        };
        problem.wanted = vec![
            (Arc::clone(&y), (0..count).map(result).collect()),
            (Arc::clone(&dx), (0..count).map(gradient).collect()),
            (Arc::clone(&dscale), sums(&|i| gradients[i] * h[i])),
            (Arc::clone(&dbias), sums(&|i| gradients[i])),
            (Arc::clone(&mean), means),
            (Arc::clone(&inverse), inverses),
        ];
        // Mode 0: statistics of each row.
        let norm = Norm { mode: 0, training: true };
        problem.push(
            Kind::NormForward(norm.clone()),
            &[(Port::X, &x), (Port::Scale, &scale), (Port::Bias, &bias), (Port::Epsilon, &epsilon)],
            &[(Port::Y, &y), (Port::Mean, &mean), (Port::InverseVariance, &inverse)],
        );
        problem.push(
            Kind::NormBackward(norm),
            &[
                (Port::X, &x),
                (Port::Dy, &dy),
                (Port::Scale, &scale),
                (Port::Mean, &mean),
                (Port::InverseVariance, &inverse),
            ],
            &[(Port::Dx, &dx), (Port::Dscale, &dscale), (Port::Dbias, &dbias)],
        );
        all.push(problem);
    }
    all
}

/// Word `which` of Philox4x32-10, from its paper.
fn philox(seed: u64, counter: [u64; 2], which: usize) -> u32 {
    let mut x = [counter[0] as u32, (counter[0] >> 32) as u32, counter[1] as u32, (counter[1] >> 32) as u32];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let (p, q) = (u64::from(x[0]) * 0xD251_1F53, u64::from(x[2]) * 0xCD9E_8D57);
        x = [(q >> 32) as u32 ^ x[1] ^ key[0], q as u32, (p >> 32) as u32 ^ x[3] ^ key[1], p as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    x[which]
}

/// The number that element i of a call has.
fn number(seed: u64, call: u64, i: u64) -> u64 {
    philox(seed, [8 * (i / 32) + i % 8, call], (i % 32 / 8) as usize).into()
}

/// The first numbers of a call that are 1 with this probability, else 0.
pub fn chances(seed: u64, call: u64, probability: f64, count: u64) -> Vec<f64> {
    let threshold = ((1.0 - probability) * (1_u64 << 32) as f64).round() as u64;
    (0..count).map(|i| f64::from(u8::from(number(seed, call, i) >= threshold))).collect()
}

/// Word i of even chances, by 2^-32, in 24 bits.
fn fraction(seed: u64, call: u64, i: u64) -> f64 {
    let word =
        (0..32).fold(0_u32, |word, bit| word | u32::from(number(seed, call, 32 * i + bit) >= 1 << 31) << bit);
    // The words are signed.
    ((f64::from(word as i32) / 256.0).floor() + f64::from(1 << 23)) / f64::from(1 << 24)
}

fn random_numbers() -> Vec<Problem> {
    let mut all = Vec::new();
    let (seed, call) = (0x1234_5678_9abc_i64, 7_i64);
    for (distribution, of) in
        [(0, DataType::Float), (0, DataType::Boolean), (1, DataType::Double), (2, DataType::Float)]
    {
        for strides in [[15, 5, 1], [1, 2, 6]] {
            let dims = [2, 3, 5];
            let y = Arc::new(Tensor::new(1, of, &dims, &strides));
            let mut problem =
                Problem::new(format!("random numbers of distribution {distribution} in {of:?}"));
            let (seeds, offsets) = (packed(2, DataType::Int64, &[1, 1, 1]), by_value(3, DataType::Int32, 3));
            let settings = Numbers {
                distribution,
                normal: [3.0, 0.5],
                uniform: [-1.0, 3.0],
                probability: 0.25,
                seed: None,
            };
            let want = (0..30).map(|i| match distribution {
                0 => f64::from(u8::from(number(seed as u64, call as u64, i) >= 3 << 30)),
                1 => -1.0 + 4.0 * fraction(seed as u64, call as u64, i),
                _ => {
                    let [u, v] = [0, 1].map(|k| fraction(seed as u64, call as u64, 2 * i + k));
                    3.0 + 0.5 * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
                }
            });
            problem.wanted.push((Arc::clone(&y), want.collect()));
            problem.given.push((Arc::clone(&seeds), vec![seed as f64]));
            problem.given.push((Arc::clone(&offsets), vec![call as f64]));
            problem.push(
                Kind::Rng(settings),
                &[(Port::Seed, &seeds), (Port::Offset, &offsets)],
                &[(Port::Y, &y)],
            );
            all.push(problem);
        }
    }
    all
}

fn bands(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for comparison in 300..=305 {
        for (bound, lengths) in
            [(None, false), (None, true), (Some(false), true), (Some(true), true), (Some(true), false)]
        {
            let mut problem =
                Problem::new(format!("band by {comparison}, left bound {bound:?}, lengths {lengths}"));
            let dims = [2, 3, 4, 5];
            let (x, y, b) = (float(1, &dims), float(2, &dims), by_value(3, DataType::Float, 4));
            let [queries, keys] = [4, 5].map(|uid| packed(uid, DataType::Int32, &[2, 1, 1, 1]));
            let shift = by_value(6, DataType::Int32, 4);
            let xs = problem.random(rng, &x);
            problem.given.push((Arc::clone(&b), vec![-7.0]));
            let mut reads = vec![(Port::X, &x), (Port::B, &b)];
            let [sq, sk] = if lengths { [[3, 4], [5, 2]] } else { [[0, 0], [0, 0]] };
            if lengths {
                for (tensor, port, of) in [(&queries, Port::LengthQ, sq), (&keys, Port::LengthKv, sk)] {
                    problem.given.push((Arc::clone(tensor), of.map(f64::from).to_vec()));
                    reads.push((port, tensor));
                }
            }
            if let Some(is_left) = bound {
                problem.given.push((Arc::clone(&shift), vec![2.0]));
                reads.push((if is_left { Port::LeftBound } else { Port::RightBound }, &shift));
            }
            let want = indices(&dims).into_iter().zip(&xs).map(|(i, &x)| {
                let batch = i[0] as usize;
                let (row, column) = (i[2] as i32, i[3] as i32);
                let [a, b] = match bound {
                    Some(true) => [column + 2 - sk[batch] + sq[batch], row],
                    Some(false) => [row + 2 + sk[batch] - sq[batch], column],
                    None => [row + sk[batch] - sq[batch], column],
                };
                let holds = [a == b, a != b, a > b, a >= b, a < b, a <= b][comparison as usize - 300];
                if holds { x } else { -7.0 }
            });
            problem.wanted.push((Arc::clone(&y), want.collect()));
            problem.push(Kind::BandMask(BandMask { comparison }), &reads, &[(Port::Y, &y)]);
            all.push(problem);
        }
    }
    all
}

fn rotations(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for (dim, of) in [(None, DataType::Float), (Some(4), DataType::Float), (Some(2), DataType::Half)] {
        for is_forward in [true, false] {
            let mut problem =
                Problem::new(format!("the last {dim:?} elements rotated, forward {is_forward}"));
            let dims = [2, 3, 4, 6];
            let x = Arc::new(Tensor::new(1, of, &dims, &[72, 6, 18, 1]));
            let (y, angles) = (packed(2, of, &dims), float(3, &[1, 1, 4, 6]));
            let (xs, thetas) = (problem.random(rng, &x), problem.random(rng, &angles));
            let turned = dim.unwrap_or(6);
            let sign = if is_forward { 1.0 } else { -1.0 };
            let want = indices(&dims).into_iter().enumerate().map(|(at, i)| {
                let (still, half) = (6 - turned, turned / 2);
                let place = i[3] - still;
                if place < 0 {
                    return 0.5 * xs[at];
                }
                let theta = sign * thetas[(i[2] * 6 + place % half) as usize];
                let half = half as usize;
                0.5 * if place < half as i64 {
                    xs[at] * theta.cos() - xs[at + half] * theta.sin()
                } else {
                    xs[at] * theta.cos() + xs[at - half] * theta.sin()
                }
            });
            problem.wanted.push((Arc::clone(&y), want.collect()));
            let settings = Rope { scale: 0.5, dim };
            problem.bound = if of == DataType::Half { 1e-3 } else { 1e-5 };
            if is_forward {
                problem.push(
                    Kind::RopeForward(settings),
                    &[(Port::X, &x), (Port::Frequencies, &angles)],
                    &[(Port::Y, &y)],
                );
            } else {
                problem.push(
                    Kind::RopeBackward(settings),
                    &[(Port::Dy, &x), (Port::Frequencies, &angles)],
                    &[(Port::Dx, &y)],
                );
            }
            all.push(problem);
        }
    }
    all
}

/// Elements that do not count are NaNs.
fn counted_products(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    let counts = [[3_i64, 2], [5, 0], [4, 1]];
    for chosen in 0..8_usize {
        let mut problem = Problem::new(format!("a product of which a part counts: {chosen:b}"));
        let (a, b, c) = (float(1, &[2, 1, 4, 5]), float(2, &[2, 1, 5, 5]), float(3, &[2, 1, 4, 5]));
        let (mut xs, mut ys) = (problem.random(rng, &a), problem.random(rng, &b));
        let tensors = [4, 5, 6].map(|uid| packed(uid, DataType::Int32, &[2, 1, 1, 1]));
        let ports = [Port::MOverride, Port::NOverride, Port::KOverride];
        let mut reads = vec![(Port::A, &a), (Port::B, &b)];
        let mut bounds = [[4; 2], [5; 2], [5; 2]];
        for (which, (tensor, port)) in tensors.iter().zip(ports).enumerate() {
            if chosen >> which & 1 == 1 {
                bounds[which] = counts[which];
                problem.given.push((Arc::clone(tensor), counts[which].map(|count| count as f64).to_vec()));
                reads.push((port, tensor));
            }
        }
        let want = indices(&c.dims).into_iter().map(|i| {
            let [m, n, k] = bounds.map(|bound| bound[i[0] as usize]);
            if i[2] >= m || i[3] >= n {
                return 9.0;
            }
            (0..k)
                .map(|l| xs[(i[0] * 20 + i[2] * 5 + l) as usize] * ys[(i[0] * 25 + l * 5 + i[3]) as usize])
                .sum()
        });
        problem.wanted.push((Arc::clone(&c), want.collect()));
        for i in 0..2 {
            for (l, part) in (0..5)
                .flat_map(|l| (0..5).map(move |part| (l, part)))
                .filter(|(l, _)| *l >= bounds[2][i] as usize)
            {
                ys[25 * i + 5 * l + part] = f64::NAN;
                if part < 4 {
                    xs[20 * i + 5 * part + l] = f64::NAN;
                }
            }
        }
        problem.given[0].1 = xs;
        problem.given[1].1 = ys;
        let settings = Matmul { math: DataType::Float.into(), padding: 9.0, transposed: [false; 2] };
        problem.push(Kind::Matmul(settings), &reads, &[(Port::C, &c)]);
        all.push(problem);
    }
    all
}

/// Pages in any order; what the table holds beyond the lengths leads nowhere.
fn pages(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    for (of, length, strides) in [
        (DataType::Float, 10, [24, 12, 3, 1]),
        (DataType::Half, 12, [24, 3, 6, 1]),
        (DataType::Bfloat16, 3, [24, 12, 1, 4]),
    ] {
        let mut problem = Problem::new(format!("{length} rows of pages of {of:?}"));
        let count = (length + 3) / 4;
        let x = Arc::new(Tensor::new(1, of, &[5, 2, 4, 3], &strides));
        let (table, lengths) =
            (packed(2, DataType::Int32, &[2, 1, count, 1]), packed(3, DataType::Int64, &[2, 1, 1, 1]));
        let y = Arc::new(Tensor::new(4, of, &[2, 2, length, 3], &[6 * length, 3, 6, 1]));
        let xs = problem.random(rng, &x);
        let rows = [length.min(7), 2];
        let places: Vec<i64> = (0..2 * count).map(|_| rng.below(5) as i64).collect();
        let known = |i: i64| i % count * 4 < rows[(i / count) as usize];
        let numbers = places
            .iter()
            .zip(0..)
            .map(|(&place, i)| if known(i) { place as f64 } else { 99.0 - 200.0 * (i % 2) as f64 });
        problem.given.push((Arc::clone(&table), numbers.collect()));
        problem.given.push((Arc::clone(&lengths), rows.map(|rows| rows as f64).to_vec()));
        let want = indices(&y.dims).into_iter().map(|i| {
            let page = places[(i[0] * count + i[2] / 4) as usize];
            let at = ((page * 2 + i[1]) * 4 + i[2] % 4) * 3 + i[3];
            if i[2] < rows[i[0] as usize] { xs[at as usize] } else { 0.0 }
        });
        problem.bound = 0.0;
        problem.wanted.push((Arc::clone(&y), want.collect()));
        problem.push(
            Kind::PagedLoad,
            &[(Port::X, &x), (Port::Table, &table), (Port::LengthKv, &lengths)],
            &[(Port::Y, &y)],
        );
        all.push(problem);
    }
    all
}

/// Rows of experts, of which one has none, in the three modes; and the gradient of the matrices.
fn experts(rng: &mut Rng) -> Vec<Problem> {
    let mut all = Vec::new();
    let (rows, width, columns) = (6_usize, 4_usize, 5_usize);
    let firsts = [0, 2, 2];
    let expert = |r: usize| if r < 2 { 0 } else { 2 };
    for mode in 0..4 {
        let mut problem = Problem::new(format!("rows of experts, mode {mode}"));
        let tokens = if mode == 1 { 3 } else { rows };
        let x = float(1, &[1, tokens as i64, width as i64]);
        let w = float(2, &[3, width as i64, columns as i64]);
        let (first, y) =
            (packed(3, DataType::Int32, &[3, 1, 1]), float(4, &[1, rows as i64, columns as i64]));
        let (index, slots) = (
            packed(5, DataType::Int32, &[1, rows as i64, 1]),
            packed(6, DataType::Int32, &[1, rows as i64, 1]),
        );
        let xs = problem.random(rng, &x);
        problem.given.push((Arc::clone(&first), firsts.map(f64::from).to_vec()));
        if mode == 3 {
            let dys = problem.random(rng, &y);
            let want = (0..3 * width * columns).map(|at| {
                let (e, k, n) = (at / columns / width, at / columns % width, at % columns);
                let own = (0..rows).filter(|&r| expert(r) == e);
                own.map(|r| xs[r * width + k] * dys[r * columns + n]).sum()
            });
            problem.wanted.push((Arc::clone(&w), want.collect()));
            let reads = [(Port::X, &x), (Port::Dy, &y), (Port::GroupOffset, &first)];
            problem.push(Kind::ExpertsBackward, &reads, &[(Port::Dw, &w)]);
            all.push(problem);
            continue;
        }
        let ws = problem.random(rng, &w);
        // Tokens of rows; and as places, token and slot of each row, once.
        let order = rng.order(rows);
        let token = |r: usize| if mode == 1 { order[r] / 2 } else { r };
        let mut want = vec![0.0; rows * columns];
        for (r, &place) in order.iter().enumerate() {
            let to = if mode == 2 { place } else { r };
            for n in 0..columns {
                let term = |k: usize| xs[token(r) * width + k] * ws[(expert(r) * width + k) * columns + n];
                want[to * columns + n] = (0..width).map(term).sum();
            }
        }
        problem.wanted.push((Arc::clone(&y), want));
        let mut reads = vec![(Port::X, &x), (Port::W, &w), (Port::GroupOffset, &first)];
        if mode > 0 {
            problem.given.push((Arc::clone(&index), order.iter().map(|&place| (place / 2) as f64).collect()));
            reads.push((Port::Index, &index));
        }
        if mode == 2 {
            problem.given.push((Arc::clone(&slots), order.iter().map(|&place| (place % 2) as f64).collect()));
            reads.push((Port::Slots, &slots));
        }
        problem.push(Kind::Experts(Experts { mode, top_k: 2 }), &reads, &[(Port::Y, &y)]);
        all.push(problem);
    }
    all
}

/// Gradients of few filters over so many pixels that a GPU cuts their sums: of all channels by 1 x
/// 1 taps, and one channel each.
fn filters(rng: &mut Rng) -> Vec<Problem> {
    let (n, channels, side) = (2, 8, 24);
    let gradient = |own: i64| {
        let mut problem = Problem::new(format!("the gradient of filters of {own} channels"));
        let dims = [n, channels, side, side];
        let (x, dy, dw) = (float(1, &dims), float(2, &dims), float(3, &[channels, own, 1, 1]));
        let (xs, dys) = (problem.random(rng, &x), problem.random(rng, &dy));
        let two = |value: i64| Dims::new(&[value, value]);
        let spatial = Spatial { before: two(0), after: two(0), strides: two(1), dilation: two(1) };
        let direction = Direction::BackwardFilter;
        let math = DataType::Float.into();
        let settings = Convolution { direction, math, mode: 1, spatial, alpha: 1.0, beta: 0.0 };
        problem.push(Kind::Convolution(settings), &[(Port::X, &x), (Port::Dy, &dy)], &[(Port::Dw, &dw)]);
        let mut want = vec![0.0; (channels * own) as usize];
        for i in indices(&[n, channels, own, side, side]) {
            let channel = if own == 1 { i[1] } else { i[2] };
            let at = |channel: i64| (((i[0] * channels + channel) * side + i[3]) * side + i[4]) as usize;
            want[(i[1] * own + i[2]) as usize] += xs[at(channel)] * dys[at(i[1])];
        }
        problem.wanted.push((dw, want));
        problem
    };
    [channels, 1].map(gradient).into()
}
