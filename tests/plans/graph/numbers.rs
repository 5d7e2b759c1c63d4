//! Tensors of numbers that say where something lies - cells of windows, groups, segments of experts
//! -, and constants.

use super::*;

/// A window of three rows and two columns that overlaps itself and reaches out on all sides.
fn window(nan: cudnn::desc::NanPropagation, beta: f64) -> Resample {
    Resample {
        mode: 3,
        padding: 1,
        math: DataType::Float.into(),
        nan,
        window: vec![[3, 1], [2, 1]],
        strides: vec![[2, 1], [1, 1]],
        before: vec![[1, 1], [1, 1]],
        after: vec![[1, 1], [1, 1]],
        alpha: 0.5,
        beta,
    }
}

#[test]
fn indices_of_maxima_lead_back() {
    use cudnn::desc::NanPropagation::{Drop, Keep};
    let (mut rng, dims) = (Rng(31), [2, 3, 7, 5]);
    // Of the windows that there is room for, all or the first ones.
    for (nan, beta, out) in
        [(Drop, 0.0, [2, 3, 4, 6]), (Keep, 0.25, [2, 3, 4, 6]), (Drop, 0.25, [2, 3, 3, 4])]
    {
        let (x, y) = (float(1, &dims), float(2, &out));
        let index = packed(3, DataType::Int8, &out);
        let (dy, dx) = (float(4, &out), float(5, &dims));
        let mut world = World::default();
        let mut xs = world.random(&mut rng, &x);
        // Equal ones, infinite ones, and a NaN.
        xs.iter_mut().for_each(|x| *x = x.round());
        (xs[3], xs[8], xs[40]) = (f64::NEG_INFINITY, f64::INFINITY, f64::NAN);
        world.put(&x, &xs);
        let (dys, olds) = (world.random(&mut rng, &dy), world.random(&mut rng, &dx));
        world.room(&y);
        world.memory.insert(3, (Arc::clone(&index), vec![u64::MAX; 18 * 2 + 1]));
        let settings = window(nan, 0.0);
        let forward = Kind::ResampleForward(settings);
        world.run(vec![Operation::new(forward, &[(Port::X, &x)], &[(Port::Y, &y), (Port::Index, &index)])]);
        let reads = [(Port::Dy, &dy), (Port::Index, &index)];
        let backward = Kind::ResampleBackward(window(nan, beta));
        world.run(vec![Operation::new(backward, &reads, &[(Port::Dx, &dx)])]);
        let (mut want, mut gradients) = (Vec::new(), vec![0.0; xs.len()]);
        for (k, at) in indices(&out).iter().enumerate() {
            let mut best: Option<(i64, usize)> = None;
            for cell in 0..6 {
                let (row, column) = (2 * at[2] - 1 + cell / 2, at[3] - 1 + cell % 2);
                if !(0..7).contains(&row) || !(0..5).contains(&column) {
                    continue;
                }
                let place = (((at[0] * 3 + at[1]) * 7 + row) * 5 + column) as usize;
                let is_better = best.is_none_or(|(_, best)| match (xs[place].is_nan(), xs[best].is_nan()) {
                    (false, false) => xs[place] > xs[best],
                    (new, old) => new != old && new == (nan == Keep),
                });
                best = if is_better { Some((cell, place)) } else { best };
            }
            let (cell, place) = best.expect("every window has a cell");
            want.push(cell);
            gradients[place] += dys[k];
        }
        let bytes: Vec<i64> =
            world.memory[&3].1.iter().flat_map(|word| word.to_le_bytes()).map(i64::from).collect();
        assert_eq!(bytes[..want.len()], want, "indices, {nan:?}");
        assert!(bytes[want.len()..].iter().all(|&byte| byte == 255), "something was written behind them");
        let want: Vec<f64> = gradients.iter().zip(&olds).map(|(g, old)| 0.5 * g + beta * old).collect();
        assert_near(&world.get(&dx), &want, 1e-6, "the gradient");
    }
}

#[test]
fn groups_of_other_sizes_are_joined() {
    let mut rng = Rng(32);
    let (x, first, y) = (float(1, &[1, 12, 6]), packed(2, DataType::Int32, &[4, 1, 1]), float(3, &[4, 1, 6]));
    let begins = [1, 5, 5, 8];
    let mut world = World::default();
    let mut xs = world.random(&mut rng, &x);
    // In front of the first group, whose numbers count for none.
    xs[2] = f64::NAN;
    world.put(&x, &xs);
    world.put(&first, &begins.map(|row| row as f64));
    type Join = fn(f64, f64) -> f64;
    let joins: [(i32, f64, Join); 5] = [
        (0, 0.0, |a, b| a + b),
        (1, 1.0, |a, b| a * b),
        (2, f64::INFINITY, f64::min),
        (3, f64::NEG_INFINITY, f64::max),
        (4, 0.0, |a, b| a.max(b.abs())),
    ];
    for (operator, neutral, join) in joins {
        world.room(&y);
        let settings = Reduction { operator, math: DataType::Float.into() };
        let reads = [(Port::X, &x), (Port::GroupOffset, &first)];
        world.run(vec![Operation::new(Kind::Reduction(settings), &reads, &[(Port::Y, &y)])]);
        let want = indices(&[4, 6]).into_iter().map(|at| {
            let group = at[0] as usize;
            let end = begins.get(group + 1).copied().unwrap_or(12);
            (begins[group]..end).map(|row| xs[row * 6 + at[1] as usize]).fold(neutral, join)
        });
        assert_near(&world.get(&y), &want.collect::<Vec<_>>(), 1e-6, &format!("operator {operator}"));
    }
}

/// Two batches of three experts: the segments of each batch follow each other.
#[test]
fn experts_have_a_segment_in_each_batch() {
    let mut rng = Rng(33);
    let (x, w) = (float(1, &[1, 11, 4]), float(2, &[3, 4, 5]));
    let (first, y) = (packed(3, DataType::Int32, &[6, 1, 1]), float(4, &[1, 11, 5]));
    let begins = [0, 2, 2, 5, 6, 10, 11];
    let mut world = World::default();
    let (xs, ws) = (world.random(&mut rng, &x), world.random(&mut rng, &w));
    world.put(&first, &begins[..6].iter().map(|&row| row as f64).collect::<Vec<_>>());
    world.room(&y);
    let expert =
        |row: usize| (0..6).rfind(|&k| begins[k] <= row && row < begins[k + 1]).expect("a segment") % 3;
    let forward = Kind::Experts(Experts { mode: 0, top_k: 1 });
    let reads = [(Port::X, &x), (Port::W, &w), (Port::GroupOffset, &first)];
    world.run(vec![Operation::new(forward, &reads, &[(Port::Y, &y)])]);
    let want = (0..55).map(|at| {
        let (row, column) = (at / 5, at % 5);
        (0..4).map(|k| xs[row * 4 + k] * ws[(expert(row) * 4 + k) * 5 + column]).sum()
    });
    assert_near(&world.get(&y), &want.collect::<Vec<_>>(), 1e-5, "products");

    let (dy, dw) = (float(5, &[1, 11, 5]), float(6, &[3, 4, 5]));
    let dys = world.random(&mut rng, &dy);
    world.room(&dw);
    let reads = [(Port::X, &x), (Port::Dy, &dy), (Port::GroupOffset, &first)];
    world.run(vec![Operation::new(Kind::ExpertsBackward, &reads, &[(Port::Dw, &dw)])]);
    let want = (0..60).map(|at| {
        let (own, k, column) = (at / 20, at / 5 % 4, at % 5);
        (0..11).filter(|&row| expert(row) == own).map(|row| xs[row * 4 + k] * dys[row * 5 + column]).sum()
    });
    assert_near(&world.get(&dw), &want.collect::<Vec<_>>(), 1e-5, "gradients");
}

/// A row's bits do not depend on how many rows its expert has: enough for tiles of the processor, a
/// few, or itself alone.
#[test]
fn a_row_has_the_same_bits_beside_any_others_of_its_expert() {
    let mut rng = Rng(34);
    for data_type in [DataType::Float, DataType::Bfloat16] {
        let (x, w) = (packed(1, data_type, &[1, 200, 512]), packed(2, data_type, &[2, 512, 128]));
        let (first, y) = (packed(3, DataType::Int32, &[2, 1, 1]), packed(4, data_type, &[1, 200, 128]));
        let mut world = World::default();
        world.random(&mut rng, &x);
        world.random(&mut rng, &w);
        let first_rows = [199.0, 9.0, 1.0].map(|rows| {
            world.put(&first, &[0.0, rows]);
            world.room(&y);
            let forward = Kind::Experts(Experts { mode: 0, top_k: 1 });
            let reads = [(Port::X, &x), (Port::W, &w), (Port::GroupOffset, &first)];
            world.run(vec![Operation::new(forward, &reads, &[(Port::Y, &y)])]);
            world.get(&y)[..128].to_vec()
        });
        assert!(first_rows.iter().all(|row| *row == first_rows[0]), "{data_type:?}");
    }
}

/// Runs a graph on memory that is right but for one number, and returns what is said of it.
fn refusal(operations: Vec<Operation>, given: &[(&Arc<Tensor>, Vec<f64>)]) -> String {
    let mut world = World::default();
    for link in operations.iter().flat_map(|operation| operation.links()) {
        world.put(&link.tensor, &vec![0.0; link.tensor.dims.iter().product::<i64>() as usize]);
    }
    given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
    let execution = Execution::new(&Graph { operations }).expect("it is planned");
    let at: HashMap<i64, Address> =
        world.memory.iter_mut().map(|(&uid, (_, words))| (uid, words.as_mut_ptr().into())).collect();
    let mut workspace = vec![0_u128; execution.workspace() / 16 + 1];
    let scratch = workspace.as_mut_ptr().into();
    let ran = Context::cpu().call("execute", &mut CallReport::default(), |call| {
        // SAFETY: every tensor has its memory, and the workspace the bytes that are asked for.
        unsafe { execution.run(call, &|uid| at.get(&uid).copied(), scratch) }
    });
    let error = ran.expect_err("a number that leads nowhere");
    assert_eq!(error.kind(), ErrorKind::BadParam, "{error}");
    error.to_string()
}

#[test]
fn numbers_that_lead_nowhere_are_named_by_their_tensor() {
    let numbers = |uid: i64, count: i64| packed(uid, DataType::Int32, &[1, count, 1]);
    let (x, w, first) = (float(1, &[1, 3, 4]), float(2, &[2, 4, 5]), packed(3, DataType::Int32, &[2, 1, 1]));
    let (y, index, slots) = (float(4, &[1, 6, 5]), numbers(51, 6), numbers(52, 6));
    let experts = |mode: i32, reads: &[(Port, &Arc<Tensor>)]| {
        let all = [&[(Port::W, &w), (Port::GroupOffset, &first)], reads].concat();
        vec![Operation::new(Kind::Experts(Experts { mode, top_k: 2 }), &all, &[(Port::Y, &y)])]
    };
    let wrong = vec![0.0, 2.0, 1.0, 3.0, 0.0, 0.0];
    let said = refusal(experts(1, &[(Port::X, &x), (Port::Index, &index)]), &[(&index, wrong.clone())]);
    assert_eq!(said, "tensor 51 (token index), element 3 = 3: is 0 or more and less than 3");
    let rows = float(6, &[1, 6, 4]);
    let reads = [(Port::X, &rows), (Port::Index, &index), (Port::Slots, &slots)];
    let said = refusal(experts(2, &reads), &[(&index, wrong)]);
    let rule = "element 3 = 6: is 0 or more and less than 6";
    assert_eq!(said, format!("tensor 51 (TOP_K * token index + token ks), {rule}"));

    let (pages, table) = (float(1, &[5, 1, 2, 3]), packed(61, DataType::Int32, &[2, 1, 2, 1]));
    let (lengths, loaded) = (packed(3, DataType::Int32, &[2, 1, 1, 1]), float(4, &[2, 1, 4, 3]));
    let reads = [(Port::X, &pages), (Port::Table, &table), (Port::LengthKv, &lengths)];
    let load = Operation::new(Kind::PagedLoad, &reads, &[(Port::Y, &loaded)]);
    let given = [(&table, vec![0.0, 4.0, -1.0, 9.0]), (&lengths, vec![4.0, 2.0])];
    let said = refusal(vec![load], &given);
    assert_eq!(said, "tensor 61 (page table), element 2 = -1: is 0 or more and less than 5");

    let offsets = packed(71, DataType::Int32, &[3, 1, 1, 1]);
    let ragged = cudnn::ops::graph::Ragged { offset: Arc::clone(&offsets), multiplier: 1 };
    let x = Arc::new(Tensor { ragged: Some(ragged), ..(*float(1, &[2, 1, 2, 3])).clone() });
    let given = [(&offsets, vec![0.0, 6.0, 3.0])];
    let said = refusal(vec![unary(100, &x, &float(2, &[2, 1, 2, 3]))], &given);
    let rule = "element 2 = 3: offsets of batches do not decrease; the last was 6";
    assert_eq!(said, format!("tensor 71 (ragged offset), {rule}"));
}

/// A constant has no pointer, and is its number on every run.
#[test]
fn constants_need_no_pointer() {
    let (x, y) = (float(1, &[2, 3]), float(3, &[2, 3]));
    let half = Tensor { by_value: true, ..(*packed(2, DataType::Half, &[1, 1])).clone() };
    let constant = Arc::new(Tensor { constant: Some(f16::from_f64(2.5).to_bits().into()), ..half });
    let graph = Graph { operations: vec![binary(1, &x, &constant, &y)] };
    assert_eq!(graph.uids(), [1, 3]);
    let mut world = World::default();
    let xs = world.random(&mut Rng(34), &x);
    world.room(&y);
    for _ in 0..2 {
        world.run(graph.operations.clone());
        assert_near(&world.get(&y), &xs.iter().map(|x| 2.5 * x).collect::<Vec<_>>(), 0.0, "constant");
    }
}

/// One peer is the device itself; of more there is no engine.
#[test]
fn statistics_of_one_peer_are_those_of_the_device() {
    let (x, y) = (float(1, &[2, 4, 3, 2]), float(2, &[2, 4, 3, 2]));
    let (scale, epsilon, peer) =
        (float(3, &[1, 4, 1, 1]), by_value(4, DataType::Float, 4), float(5, &[2, 8, 1, 1]));
    let norm = |peers: usize| {
        let mut reads = vec![(Port::X, &x), (Port::Scale, &scale), (Port::Epsilon, &epsilon)];
        reads.extend((0..peers).map(|_| (Port::Peer, &peer)));
        let settings = Norm { mode: 2, training: true };
        vec![Operation::new(Kind::NormForward(settings), &reads, &[(Port::Y, &y)])]
    };
    let mut world = World::default();
    world.random(&mut Rng(35), &x);
    world.random(&mut Rng(36), &scale);
    world.put(&epsilon, &[1e-3]);
    world.room(&peer);
    world.room(&y);
    world.run(norm(0));
    let alone = world.get(&y);
    world.room(&y);
    world.run(norm(1));
    assert_eq!(world.get(&y), alone);
    let error = Execution::new(&Graph { operations: norm(2) }).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}
