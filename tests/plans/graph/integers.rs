//! Integers of 64 bits: what the language makes of them, bit for bit.

use super::*;

fn long(uid: i64, dims: &[i64]) -> Arc<Tensor> {
    packed(uid, DataType::Int64, dims)
}

/// Integers of any size, small ones, and the ends of 32 and 64 bits.
fn integers(rng: &mut Rng, count: usize) -> Vec<i64> {
    let ends =
        [0, 1, -1, i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1, 1 << 32, -(1 << 32), i64::from(u32::MAX)];
    let ends = ends.into_iter().chain([i64::from(i32::MIN), i64::from(i32::MAX), (1 << 60) + 7]);
    let any = (0..count).map(|k| rng.word() as i64 >> (k * 7 % 64));
    ends.chain(any).take(count).collect()
}

fn put(world: &mut World, tensor: &Arc<Tensor>, values: &[i64]) {
    let words = values.iter().map(|&value| value as u64).chain([0]).collect();
    world.memory.insert(tensor.uid, (Arc::clone(tensor), words));
}

fn got(world: &World, tensor: &Tensor) -> Vec<i64> {
    let words = &world.memory[&tensor.uid].1;
    words[..words.len() - 1].iter().map(|&word| word as i64).collect()
}

type Meaning = (i32, fn(i64, i64) -> i64);
const BINARY: &[Meaning] = &[
    (0, i64::wrapping_add),
    (1, i64::wrapping_mul),
    (2, i64::min),
    (3, i64::max),
    (9, i64::wrapping_sub),
    (300, |x, b| (x == b).into()),
    (301, |x, b| (x != b).into()),
    (302, |x, b| (x > b).into()),
    (303, |x, b| (x >= b).into()),
    (304, |x, b| (x < b).into()),
    (305, |x, b| (x <= b).into()),
];
type Single = (i32, fn(i64) -> i64);
const UNARY: &[Single] = &[(10, i64::wrapping_abs), (16, i64::wrapping_neg), (21, |x| x)];

#[test]
fn functions_of_elements_have_every_bit() {
    let mut rng = Rng(64);
    let dims = [4, 3, 10];
    let (x, b, y) = (long(1, &dims), long(2, &dims), long(3, &dims));
    let xs = integers(&mut rng, 120);
    // Pairs of all kinds: equal ones, neighbours, and any.
    let mut bs = integers(&mut rng, 120);
    bs.rotate_left(5);
    (0..40).for_each(|k| bs[k] = xs[k].wrapping_add(k as i64 % 3 - 1));
    let mut world = World::default();
    put(&mut world, &x, &xs);
    put(&mut world, &b, &bs);
    for &(mode, meaning) in BINARY {
        put(&mut world, &y, &[77; 120]);
        world.run(vec![binary(mode, &x, &b, &y)]);
        let want: Vec<i64> = xs.iter().zip(&bs).map(|(&x, &b)| meaning(x, b)).collect();
        assert_eq!(got(&world, &y), want, "mode {mode}");
    }
    for &(mode, meaning) in UNARY {
        put(&mut world, &y, &[77; 120]);
        world.run(vec![unary(mode, &x, &y)]);
        assert_eq!(got(&world, &y), xs.iter().map(|&x| meaning(x)).collect::<Vec<_>>(), "mode {mode}");
    }
    // In place, of a row that is repeated, and of a number in 32 bits.
    let (row, narrow) = (long(4, &[1, 1, 10]), packed(5, DataType::Int32, &[1, 1, 1]));
    put(&mut world, &row, &bs[..10]);
    world.put(&narrow, &[-3.0]);
    put(&mut world, &y, &[77; 120]);
    world.run(vec![binary(1, &x, &row, &y)]);
    let want: Vec<i64> = (0..120).map(|k| xs[k].wrapping_mul(bs[k % 10])).collect();
    assert_eq!(got(&world, &y), want, "a row");
    put(&mut world, &y, &[77; 120]);
    world.run(vec![binary(0, &x, &narrow, &y)]);
    assert_eq!(got(&world, &y), xs.iter().map(|x| x.wrapping_sub(3)).collect::<Vec<_>>(), "32 bits");
    // Selected by a flag, and to a type that has fewer bits.
    let (t, small) = (packed(6, DataType::Boolean, &dims), packed(7, DataType::Int32, &dims));
    let flags: Vec<f64> = (0..120).map(|k| truth(k % 3 == 0)).collect();
    world.put(&t, &flags);
    put(&mut world, &y, &[77; 120]);
    let reads = [(Port::X, &x), (Port::B, &b), (Port::T, &t)];
    world.run(vec![Operation::new(Kind::Pointwise(Pointwise::new(601)), &reads, &[(Port::Y, &y)])]);
    let want: Vec<i64> = (0..120).map(|k| if k % 3 == 0 { xs[k] } else { bs[k] }).collect();
    assert_eq!(got(&world, &y), want, "selected");
    world.room(&small);
    world.run(vec![unary(21, &x, &small)]);
    let ends = [i32::MIN, i32::MAX].map(i64::from);
    let want: Vec<f64> = xs.iter().map(|&x| x.clamp(ends[0], ends[1]) as f64).collect();
    assert_eq!(world.get(&small), want, "saturated");
}

#[test]
fn sums_and_extremes_have_every_bit() {
    let mut rng = Rng(65);
    let dims = [4, 3, 10];
    let x = long(1, &dims);
    let xs = integers(&mut rng, 120);
    let mut world = World::default();
    put(&mut world, &x, &xs);
    type Join = fn(i64, i64) -> i64;
    let joins: [(i32, Join); 3] = [(0, i64::wrapping_add), (2, i64::min), (3, i64::max)];
    for (operator, join) in joins {
        for y_dims in [[4, 1, 10], [1, 3, 1], [1, 1, 1]] {
            let y = long(2, &y_dims);
            put(&mut world, &y, &vec![77; y_dims.iter().product::<i64>() as usize]);
            let settings = Reduction { operator, math: DataType::Int64.into() };
            world.run(vec![Operation::new(Kind::Reduction(settings), &[(Port::X, &x)], &[(Port::Y, &y)])]);
            let mut want: Vec<Option<i64>> = vec![None; y_dims.iter().product::<i64>() as usize];
            for (index, &x) in indices(&dims).iter().zip(&xs) {
                let own: Vec<i64> = (0..3).map(|d| index[d] % y_dims[d]).collect();
                let to = &mut want[offset(&own, &y)];
                *to = Some(to.map_or(x, |joined| join(joined, x)));
            }
            let want: Vec<i64> = want.into_iter().flatten().collect();
            assert_eq!(got(&world, &y), want, "operator {operator} to {y_dims:?}");
        }
    }
}
