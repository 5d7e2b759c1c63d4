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
