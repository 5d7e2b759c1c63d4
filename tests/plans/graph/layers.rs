//! Convolutions, normalisations, softmax and windows as graphs, each with its gradients.

use super::*;

#[test]
fn convolutions_in_three_directions() {
    let mut rng = Rng(11);
    let (n, groups, c, k) = (2, 2, 3, 2);
    for (flip, before, after, stride, dilation) in [(1, 1, 1, 1, 1), (0, 1, 0, 2, 1), (1, 0, 2, 1, 2)] {
        let (h, r) = (7, 3);
        let p = 1 + (h + before + after - ((r - 1) * dilation + 1)) / stride;
        let x_dims = [n, groups * c, h, h];
        let channels_last = [x_dims[1] * h * h, 1, x_dims[1] * h, x_dims[1]];
        let x = Arc::new(Tensor::new(1, DataType::Float, &x_dims, &channels_last));
        let (w, y) = (float(2, &[groups * k, c, r, r]), float(3, &[n, groups * k, p, p]));
        let mut world = World::default();
        let operation = |direction, reads: &[(Port, &Arc<Tensor>)], writes: &[(Port, &Arc<Tensor>)]| {
            let two = |value: i64| Dims::new(&[value, value]);
            let spatial = Spatial {
                before: two(before),
                after: two(after),
                strides: two(stride),
                dilation: two(dilation),
            };
            let math = DataType::Float.into();
            let settings = Convolution { direction, math, mode: flip, spatial, alpha: 0.5, beta: 0.0 };
            Operation::new(Kind::Convolution(settings), reads, writes)
        };
        let (xs, ws, dys) =
            (world.random(&mut rng, &x), world.random(&mut rng, &w), world.random(&mut rng, &y));
        let [mut ys, mut dxs, mut dws] = [dys.len(), xs.len(), ws.len()].map(|len| vec![0.0; len]);
        for i in indices(&[n, groups, k, p, p, c, r, r]) {
            let tap = |t: i64| if flip == 0 { r - 1 - t } else { t };
            let at = [
                i[3] * stride - before + tap(i[6]) * dilation,
                i[4] * stride - before + tap(i[7]) * dilation,
            ];
            if at.iter().any(|at| !(0..h).contains(at)) {
                continue;
            }
            let x = (((i[0] * groups + i[1]) * c + i[5]) * h + at[0]) * h + at[1];
            let w = (((i[1] * k + i[2]) * c + i[5]) * r + i[6]) * r + i[7];
            let y = (((i[0] * groups + i[1]) * k + i[2]) * p + i[3]) * p + i[4];
            let [x, w, y] = [x, w, y].map(|at| at as usize);
            ys[y] += 0.5 * xs[x] * ws[w];
            dxs[x] += 0.5 * dys[y] * ws[w];
            dws[w] += 0.5 * dys[y] * xs[x];
        }
        let dx = Arc::new(Tensor::new(4, DataType::Float, &x_dims, &channels_last));
        let dw = float(5, &[groups * k, c, r, r]);
        let out = float(6, &[n, groups * k, p, p]);
        [&dx, &dw, &out].into_iter().for_each(|tensor| world.room(tensor));
        world.run(vec![operation(Direction::Forward, &[(Port::X, &x), (Port::W, &w)], &[(Port::Y, &out)])]);
        world.run(vec![operation(
            Direction::BackwardData,
            &[(Port::Dy, &y), (Port::W, &w)],
            &[(Port::Dx, &dx)],
        )]);
        world.run(vec![operation(
            Direction::BackwardFilter,
            &[(Port::X, &x), (Port::Dy, &y)],
            &[(Port::Dw, &dw)],
        )]);
        assert_near(&world.get(&out), &ys, 1e-5, "y");
        assert_near(&world.get(&dx), &dxs, 1e-5, "dx");
        assert_near(&world.get(&dw), &dws, 1e-5, "dw");
    }
}

/// Mode, dims of the statistics, dims of scale and bias.
const NORMS: [(i32, [i64; 4], [i64; 4]); 8] = [
    (0, [2, 1, 1, 1], [1, 4, 3, 2]),
    (1, [2, 4, 1, 1], [1, 4, 1, 1]),
    (2, [1, 4, 1, 1], [1, 4, 1, 1]),
    (3, [2, 2, 1, 1], [1, 4, 1, 1]),
    (4, [2, 1, 1, 1], [1, 4, 3, 2]),
    (4, [2, 4, 1, 1], [1, 1, 3, 2]),
    (5, [2, 1, 1, 1], [2, 4, 3, 2]),
    (5, [2, 4, 1, 1], [2, 1, 3, 2]),
];

#[test]
fn normalisations_and_their_gradients() {
    let mut rng = Rng(12);
    let dims = [2, 4, 3, 2];
    for (mode, groups, shared) in NORMS {
        let (x, y, scale, bias) = (float(1, &dims), float(2, &dims), float(3, &shared), float(4, &shared));
        let (mean, inverse, epsilon) =
            (float(5, &groups), float(6, &groups), by_value(7, DataType::Float, 4));
        let mut world = World::default();
        let xs = world.random(&mut rng, &x);
        let (scales, biases) = (world.random(&mut rng, &scale), world.random(&mut rng, &bias));
        world.put(&epsilon, &[1e-3]);
        [&y, &mean, &inverse].into_iter().for_each(|tensor| world.room(tensor));
        let is_rms = mode == 4;
        let settings = Norm { mode, training: true };
        let reads = [(Port::X, &x), (Port::Scale, &scale), (Port::Bias, &bias), (Port::Epsilon, &epsilon)];
        let all = [(Port::Y, &y), (Port::InverseVariance, &inverse), (Port::Mean, &mean)];
        let writes = if is_rms { &all[..2] } else { &all[..] };
        world.run(vec![Operation::new(Kind::NormForward(settings.clone()), &reads, writes)]);
        let count = groups.iter().product::<i64>() as usize;
        let own = |index: &[i64], small: &[i64; 4]| {
            let at: Vec<i64> = (0..4).map(|d| index[d] * small[d] / dims[d]).collect();
            at.iter().zip(row_major(small)).map(|(i, s)| i * s).sum::<i64>() as usize
        };
        let size = (48 / count) as f64;
        let places: Vec<(usize, usize)> =
            indices(&dims).iter().map(|i| (own(i, &groups), own(i, &shared))).collect();
        let joined = |of: &dyn Fn(usize) -> f64| {
            let mut sums = vec![0.0; count];
            (0..48).for_each(|k| sums[places[k].0] += of(k) / size);
            sums
        };
        let means = if is_rms { vec![0.0; count] } else { joined(&|k| xs[k]) };
        let variances = joined(&|k| (xs[k] - means[places[k].0]).powi(2));
        let inverses: Vec<f64> = variances.iter().map(|v| 1.0 / (v + f64::from(1e-3_f32)).sqrt()).collect();
        let normal = |k: usize| (xs[k] - means[places[k].0]) * inverses[places[k].0];
        let want: Vec<f64> = (0..48).map(|k| normal(k) * scales[places[k].1] + biases[places[k].1]).collect();
        assert_near(&world.get(&y), &want, 1e-5, &format!("norm {mode}"));
        assert_near(&world.get(&inverse), &inverses, 1e-5, "inverse");
        if !is_rms {
            assert_near(&world.get(&mean), &means, 1e-5, "mean");
        }

        // Without a tensor that tells what a group is, the scale does; of a batch and of groups
        // inference is given statistics.
        if !matches!(mode, 2 | 3) {
            let inferred = float(12, &dims);
            world.room(&inferred);
            let inference = Kind::NormForward(Norm { mode, training: false });
            world.run(vec![Operation::new(inference, &reads, &[(Port::Y, &inferred)])]);
            assert_near(&world.get(&inferred), &want, 1e-5, &format!("inference of norm {mode}"));
        }

        let (dy, dx, dscale, dbias) =
            (float(8, &dims), float(9, &dims), float(10, &shared), float(11, &shared));
        let dys = world.random(&mut rng, &dy);
        [&dx, &dscale, &dbias].into_iter().for_each(|tensor| world.room(tensor));
        let all = [
            (Port::X, &x),
            (Port::Dy, &dy),
            (Port::Scale, &scale),
            (Port::InverseVariance, &inverse),
            (Port::Mean, &mean),
        ];
        let reads = if is_rms { &all[..4] } else { &all[..] };
        let writes = [(Port::Dx, &dx), (Port::Dscale, &dscale), (Port::Dbias, &dbias)];
        world.run(vec![Operation::new(Kind::NormBackward(settings), reads, &writes)]);
        let g = |k: usize| dys[k] * scales[places[k].1];
        let first = if is_rms { vec![0.0; count] } else { joined(&g) };
        let second = joined(&|k| g(k) * normal(k));
        let want: Vec<f64> = (0..48)
            .map(|k| inverses[places[k].0] * (g(k) - first[places[k].0] - normal(k) * second[places[k].0]))
            .collect();
        assert_near(&world.get(&dx), &want, 1e-5, &format!("gradient of norm {mode}"));
        let (mut scale_sums, mut bias_sums) = (vec![0.0; scales.len()], vec![0.0; scales.len()]);
        for k in 0..48 {
            scale_sums[places[k].1] += dys[k] * normal(k);
            bias_sums[places[k].1] += dys[k];
        }
        assert_near(&world.get(&dscale), &scale_sums, 1e-5, "gradient of the scale");
        assert_near(&world.get(&dbias), &bias_sums, 1e-5, "gradient of the bias");
    }
}

/// How many groups there are follows from nothing but the statistics.
#[test]
fn groups_without_statistics_have_no_engine() {
    let (x, y, scale) = (float(1, &[2, 4, 3, 2]), float(2, &[2, 4, 3, 2]), float(3, &[1, 4, 1, 1]));
    let epsilon = by_value(7, DataType::Float, 4);
    let reads = [(Port::X, &x), (Port::Scale, &scale), (Port::Epsilon, &epsilon)];
    let groups = Kind::NormForward(Norm { mode: 3, training: false });
    let operations = vec![Operation::new(groups, &reads, &[(Port::Y, &y)])];
    let error = Execution::new(&Graph { operations }).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}

#[test]
fn softmax_with_statistics() {
    let mut rng = Rng(13);
    let (x, y, stats) = (float(1, &[1, 2, 3, 7]), float(2, &[1, 2, 3, 7]), float(3, &[1, 2, 3, 1]));
    let mut world = World::default();
    let mut xs = world.random(&mut rng, &x);
    xs[..7].fill(f64::NEG_INFINITY);
    world.put(&x, &xs);
    [&y, &stats].into_iter().for_each(|tensor| world.room(tensor));
    let softmax = Kind::Softmax(Softmax { log2: false });
    world.run(vec![Operation::new(softmax, &[(Port::X, &x)], &[(Port::Y, &y), (Port::Stats, &stats)])]);
    let sums: Vec<f64> = xs.chunks(7).map(|row| row.iter().map(|x| x.exp()).sum()).collect();
    let want: Vec<f64> =
        xs.iter().enumerate().map(|(k, x)| if k < 7 { 0.0 } else { x.exp() / sums[k / 7] }).collect();
    assert_near(&world.get(&y), &want, 1e-6, "softmax");
    let logarithms: Vec<f64> = sums.iter().map(|sum| sum.ln()).collect();
    assert_near(&world.get(&stats), &logarithms, 1e-6, "statistics");
}

#[test]
fn windows_and_their_gradients() {
    let mut rng = Rng(14);
    let (x, y) = (float(1, &[2, 3, 7, 6]), float(2, &[2, 3, 4, 3]));
    let (dx, dy) = (float(3, &[2, 3, 7, 6]), float(4, &[2, 3, 4, 3]));
    for (mode, padding) in [(2, 0), (3, 1), (4, 0)] {
        let settings = Resample {
            mode,
            padding,
            math: DataType::Float.into(),
            nan: cudnn::desc::NanPropagation::default(),
            window: vec![[3, 1], [2, 1]],
            strides: vec![[2, 1], [2, 1]],
            before: vec![[1, 1], [0, 1]],
            after: vec![[1, 1], [0, 1]],
            alpha: 1.0,
            beta: 0.0,
        };
        let mut world = World::default();
        let (xs, dys) = (world.random(&mut rng, &x), world.random(&mut rng, &dy));
        [&y, &dx].into_iter().for_each(|tensor| world.room(tensor));
        let forward = Kind::ResampleForward(settings.clone());
        world.run(vec![Operation::new(forward, &[(Port::X, &x)], &[(Port::Y, &y)])]);
        let reads = [(Port::Dy, &dy), (Port::X, &x)];
        world.run(vec![Operation::new(Kind::ResampleBackward(settings), &reads, &[(Port::Dx, &dx)])]);
        let mut dxs = vec![0.0; xs.len()];
        let mut want = Vec::new();
        for (k, index) in indices(&y.dims).iter().enumerate() {
            let rows = (2 * index[2] - 1..2 * index[2] + 2).filter(|row| (0..7).contains(row));
            let cells: Vec<usize> = rows
                .flat_map(|row| [2 * index[3], 2 * index[3] + 1].map(|column| (row, column)))
                .map(|(row, column)| (((index[0] * 3 + index[1]) * 7 + row) * 6 + column) as usize)
                .collect();
            let count = if mode == 2 { 6.0 } else { cells.len() as f64 };
            if mode == 3 {
                let best =
                    cells.iter().copied().reduce(|a, b| if xs[b] > xs[a] { b } else { a }).expect("a cell");
                want.push(xs[best]);
                dxs[best] += dys[k];
            } else {
                want.push(cells.iter().map(|&cell| xs[cell]).sum::<f64>() / count);
                cells.iter().for_each(|&cell| dxs[cell] += dys[k] / count);
            }
        }
        assert_near(&world.get(&y), &want, 1e-5, &format!("windows of mode {mode}"));
        assert_near(&world.get(&dx), &dxs, 1e-5, &format!("gradient of mode {mode}"));
    }
}

/// Tiles of scales are full, whatever there is of them to read: of a row shorter than a block all
/// elements have the first scale of its row.
#[test]
fn a_row_within_a_block_has_one_scale() {
    let (x, scale) = (packed(1, DataType::Uint8, &[1, 2, 4]), float(2, &[1, 2, 4]));
    let y = float(3, &[1, 2, 4]);
    let mut world = World::default();
    world.put(&x, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    world.put(&scale, &[2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]);
    world.room(&y);
    let settings = cudnn::ops::graph::Blocks { sizes: vec![16], ..Default::default() };
    let reads = [(Port::X, &x), (Port::Scale, &scale)];
    world.run(vec![Operation::new(Kind::Dequantize(settings), &reads, &[(Port::Y, &y)])]);
    assert_eq!(world.get(&y), [2.0, 4.0, 6.0, 8.0, 55.0, 66.0, 77.0, 88.0]);
}
