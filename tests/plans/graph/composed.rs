//! Operations that are given with what they have to give.

use super::*;

#[test]
fn operations_give_what_plain_loops_give() {
    for problem in operations::problems() {
        let mut world = World::default();
        problem.given.iter().for_each(|(tensor, numbers)| world.put(tensor, numbers));
        problem.wanted.iter().for_each(|(tensor, _)| world.room(tensor));
        world.run(problem.operations.clone());
        problem.check(&|tensor| world.get(tensor));
    }
}

/// cudnn-frontend describes the gradient of a sink as the sum of `exp(sink - stats) * sum(do * o)`,
/// and means minus that: what its tests hold it to. The same operations beside no gradients of
/// scores are what they say.
#[test]
fn the_gradient_of_a_sink_has_its_sign() {
    let (rows, row, all) = ([2, 3, 4, 5], [2, 3, 4, 1], [2, 3, 4, 6]);
    let (o, gradient, stats) = (float(1, &rows), float(2, &rows), float(3, &row));
    let (sink, dsink, scores) = (float(4, &[1, 3, 1, 1]), float(5, &[1, 3, 1, 1]), float(6, &all));
    let between = |uid: i64, dims: &[i64]| hidden(uid, DataType::Float, dims);
    let [products, sums] = [between(10, &rows), between(11, &row)];
    let [distance, weight, own] = [12, 13, 14].map(|uid| between(uid, &row));
    let [apart, weights] = [between(15, &all), float(7, &all)];
    let sum = |x: &Arc<Tensor>, y: &Arc<Tensor>| {
        let settings = Reduction { operator: 0, math: DataType::Float.into() };
        Operation::new(Kind::Reduction(settings), &[(Port::X, x)], &[(Port::Y, y)])
    };
    let of_sink = [
        binary(1, &gradient, &o, &products),
        sum(&products, &sums),
        binary(9, &sink, &stats, &distance),
        unary(13, &distance, &weight),
        binary(1, &weight, &sums, &own),
        sum(&own, &dsink),
    ];
    let of_scores = [binary(9, &scores, &stats, &apart), unary(13, &apart, &weights)];
    for (operations, sign) in [(of_sink.to_vec(), 1.0), ([&of_sink[..], &of_scores].concat(), -1.0)] {
        let mut world = World::default();
        let mut rng = Rng(41);
        let [os, gs, ls, ks] = [&o, &gradient, &stats, &sink].map(|tensor| world.random(&mut rng, tensor));
        world.random(&mut rng, &scores);
        [&dsink, &weights].into_iter().for_each(|tensor| world.room(tensor));
        world.run(operations);
        let mut want = vec![0.0; 3];
        for at in 0..24 {
            let head = at / 4 % 3;
            let product: f64 = (0..5).map(|k| os[at * 5 + k] * gs[at * 5 + k]).sum();
            want[head] += sign * (ks[head] - ls[at]).exp() * product;
        }
        assert_near(&world.get(&dsink), &want, 1e-5, "the gradient of a sink");
    }
}

/// Of many numbers the mean and the deviation are those that were asked for, and each seed and call
/// has its own.
#[test]
fn random_numbers_are_distributed_as_they_are_asked_for() {
    let drawn = |distribution: i32, seed: i64| {
        let y = float(1, &[50, 400]);
        let mut world = World::default();
        world.room(&y);
        let settings = cudnn::ops::graph::Rng {
            distribution,
            normal: [3.0, 0.5],
            uniform: [-1.0, 3.0],
            probability: 0.3,
            seed: Some(seed),
        };
        world.run(vec![Operation::new(Kind::Rng(settings), &[], &[(Port::Y, &y)])]);
        world.get(&y)
    };
    for (distribution, mean, deviation) in
        [(0, 0.3, (0.3_f64 * 0.7).sqrt()), (1, 1.0, 4.0 / 12.0_f64.sqrt()), (2, 3.0, 0.5)]
    {
        let numbers = drawn(distribution, 5);
        let count = numbers.len() as f64;
        let own = numbers.iter().sum::<f64>() / count;
        let spread = (numbers.iter().map(|x| (x - own) * (x - own)).sum::<f64>() / count).sqrt();
        let error = 5.0 * deviation / count.sqrt();
        assert!((own - mean).abs() < error, "mean {own} of distribution {distribution}");
        assert!((spread - deviation).abs() < error, "deviation {spread} of distribution {distribution}");
        assert_eq!(drawn(distribution, 5), numbers);
        assert_ne!(drawn(distribution, 6), numbers);
        match distribution {
            0 => assert!(numbers.iter().all(|&x| x == 0.0 || x == 1.0)),
            1 => assert!(numbers.iter().all(|x| (-1.0..3.0).contains(x))),
            _ => assert!(numbers.iter().all(|x| x.is_finite())),
        }
    }
}

/// Without keys there is nothing to weigh: the result is 0, and statistics have no engine.
#[test]
fn attention_without_keys_is_zero() {
    let (q, k, v) = (float(1, &[1, 2, 3, 4]), float(2, &[1, 2, 0, 4]), float(3, &[1, 2, 0, 5]));
    let (o, stats) = (float(4, &[1, 2, 3, 5]), float(5, &[1, 2, 3, 1]));
    let attention = |writes: &[(Port, &Arc<Tensor>)]| {
        let kind = Kind::AttentionForward(cudnn::ops::graph::Attention::default());
        Operation::new(kind, &[(Port::Q, &q), (Port::K, &k), (Port::V, &v)], writes)
    };
    let mut world = World::default();
    world.random(&mut Rng(3), &q);
    world.room(&o);
    world.run(vec![attention(&[(Port::O, &o)])]);
    assert_eq!(world.get(&o), vec![0.0; 30]);
    let operations = vec![attention(&[(Port::O, &o), (Port::Stats, &stats)])];
    let error = Execution::new(&Graph { operations }).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}
