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

/// Of many numbers the mean and the deviation are those that were asked for, and each seed and call has its own.
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
