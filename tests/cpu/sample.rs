//! Spatial transformers on the CPU core: every machine computes what the reference computes, and
//! that is what the formulas in binary64 give; coordinates far outside and NaNs read nothing.

use super::normalise::tensors::{Memory, laid_out};
use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::desc::{Format, SpatialTransformerDescriptor, TensorDescriptor};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::exec::Context;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::spatial_transformer::{GridPlan, SamplerPlan};
use cudnn::ops::{Plan, Scaling};
use testkit::random::Rng;

const GRIDS: [DataType; 4] = [DataType::Float, DataType::Float, DataType::Double, DataType::Half];
const TYPES: [DataType; 5] =
    [DataType::Float, DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

fn transformer(data_type: DataType, dims: [i64; 4]) -> SpatialTransformerDescriptor {
    SpatialTransformerDescriptor { data_type, rank: 4, dims: Dims::new(&dims) }
}

/// Runs every step on one machine, or by the reference.
fn run(plan: &dyn Plan, memory: &mut [Memory], machine: Option<Machine>) {
    let at: Vec<Address> = memory.iter_mut().map(Memory::at).collect();
    plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| at[slot]).collect();
        // SAFETY: the memory is that of the descriptors.
        unsafe {
            match machine {
                Some(machine) => backend::run(step, &at, false, machine),
                None => reference::run(step, &at),
            }
        }
    })
    .expect("runs");
}

fn machines() -> impl Iterator<Item = Machine> {
    Isa::available().flat_map(|isa| [1, 3].map(|threads| Machine { isa, threads }))
}

/// Runs the plan everywhere; what the reference makes of the memory.
fn agreed(plan: &dyn Plan, first: &[Memory]) -> Vec<Memory> {
    let mut want = first.to_vec();
    run(plan, &mut want, None);
    for machine in machines() {
        let mut got = first.to_vec();
        run(plan, &mut got, Some(machine));
        for (k, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!(got == want, "{machine:?}: operand {k} of {plan}");
        }
    }
    want
}

/// A packed array of numbers.
fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    TensorDescriptor::with_format(data_type, Format::Nchw, dims.len() as i64, dims, Mode::Extended).unwrap()
}

/// Places inside, at pixels, at the ends, around them and far away.
fn places(rng: &mut Rng, grid: &TensorDescriptor, source: [i64; 2]) -> Memory {
    let mut memory = Memory::new(rng, grid, 0.0);
    for i in 0..grid.size_in_bytes() / grid.data_type().size() {
        let extent = source[1 - i % 2];
        let pixel = 2.0 * rng.below(extent as usize) as f64 / (extent - 1).max(1) as f64 - 1.0;
        let far = rng.pick(&[f64::NAN, f64::INFINITY, -f64::INFINITY, 1e30, -1e30, 1e9, -1e9]);
        let number = match rng.below(8) {
            0 => pixel,
            1 => rng.pick(&[-1.0, 1.0, 0.0, 1.0 + 2.0 / extent as f64, -1.0 - 2.0 / extent as f64]),
            2 if rng.below(3) == 0 => far,
            _ => (rng.below(2801) as f64 - 1400.0) / 1000.0,
        };
        memory.set(i as i64, number);
    }
    memory
}

fn scaling(rng: &mut Rng) -> Scaling {
    Scaling { alpha: rng.pick(&[1.0, 1.0, -0.5]), beta: rng.pick(&[0.0, 0.0, 0.75]) }
}

/// What a destination holds before: anything where it is not read.
fn before(rng: &mut Rng, tensor: &TensorDescriptor, beta: f64) -> Memory {
    if beta == 0.0 { Memory::poisoned(tensor) } else { Memory::new(rng, tensor, 0.0) }
}

fn offset(tensor: &TensorDescriptor, index: [i64; 4]) -> i64 {
    tensor.strides().iter().zip(index).map(|(stride, i)| stride * i).sum()
}

/// The pixel of a coordinate, computed in the type of the call.
fn pixel(g: f64, extent: i64, single: bool) -> f64 {
    if single {
        f64::from((g as f32 + 1.0) * ((extent - 1) as f32 * 0.5))
    } else {
        (g + 1.0) * ((extent - 1) as f64 * 0.5)
    }
}

/// Half a unit in the last place of what is stored and a few of what is computed, per unit of
/// magnitude.
fn unit(stored: DataType, single: bool) -> f64 {
    let of_type = match stored {
        DataType::Half => 2.0_f64.powi(-11),
        DataType::Bfloat16 => 2.0_f64.powi(-8),
        DataType::Double => 0.0,
        _ => 2.0_f64.powi(-24),
    };
    of_type + if single { 2.0_f64.powi(-20) } else { 2.0_f64.powi(-49) }
}

fn check(got: f64, want: f64, bound: f64, what: &str) {
    assert!(
        (got - want).abs() <= bound + 1e-7 * f64::from(u8::from(bound > 0.0)),
        "{what}: {got}, not {want}"
    );
}

/// One random problem of the sampler.
struct Problem {
    dims: [i64; 4],
    source: [i64; 2],
    x: TensorDescriptor,
    y: TensorDescriptor,
    desc: SpatialTransformerDescriptor,
    grid: TensorDescriptor,
    single: bool,
}

impl Problem {
    fn new(rng: &mut Rng, case: usize, types: [DataType; 3]) -> Self {
        let [n, c, h, w, p, q] = if case.is_multiple_of(16) {
            rng.pick(&[[2, 70, 40, 33, 31, 45], [1, 3, 130, 250, 90, 170], [3, 600, 7, 9, 8, 5]])
        } else {
            std::array::from_fn(|k| rng.pick(if k < 2 { &[1, 2, 3, 5, 9] } else { &[1, 2, 3, 7, 12, 20] }))
        };
        let (dims, source) = ([n, c, p, q], [h, w]);
        let x = laid_out(rng, types[0], &[n, c, h, w]);
        let y = laid_out(rng, types[1], &dims);
        let single = types.iter().all(|&of| of != DataType::Double);
        let grid = packed(types[2], &[n, p, q, 2]);
        Problem { dims, source, x, y, desc: transformer(types[2], dims), grid, single }
    }

    /// The taps of a position inside the picture: pixel, weight, and the weight's slopes along x
    /// and y.
    fn taps(&self, grid: &Memory, [n, h, w]: [i64; 3]) -> Vec<([i64; 2], f64, [f64; 2])> {
        let at = ((n * self.dims[2] + h) * self.dims[3] + w) * 2;
        let x = pixel(grid.get(at), self.source[1], self.single);
        let y = pixel(grid.get(at + 1), self.source[0], self.single);
        let mut taps = Vec::new();
        for i in 0..self.source[0] {
            for j in 0..self.source[1] {
                let (down, across) = (y - i as f64, x - j as f64);
                // A tap's weight falls from 1 to 0 over one pixel; at a pixel the slope is that
                // behind it.
                let inside = |d: f64| d > -1.0 && d < 1.0 || d == -1.0;
                if inside(down) && inside(across) {
                    let hat = |d: f64| 1.0 - d.abs();
                    let slope = |d: f64| if d < 0.0 { 1.0 } else { -1.0 };
                    let slopes = [
                        slope(across) * hat(down) * (self.source[1] - 1) as f64 / 2.0,
                        slope(down) * hat(across) * (self.source[0] - 1) as f64 / 2.0,
                    ];
                    taps.push(([i, j], hat(down) * hat(across), slopes));
                }
            }
        }
        taps
    }
}

#[test]
fn samples_are_those_of_the_reference_and_of_binary64() {
    let mut rng = Rng(11);
    for case in 0..160 {
        let types = [rng.pick(&TYPES), rng.pick(&TYPES), rng.pick(&GRIDS)];
        let types = if case % 3 == 0 { types } else { [types[0], types[0], types[2]] };
        let problem = Problem::new(&mut rng, case, types);
        let scaling = scaling(&mut rng);
        let Problem { x, y, desc, grid, .. } = &problem;
        let plan = SamplerPlan::forward(desc, x, y, scaling, Mode::Extended).expect("a plan");
        let first = [
            before(&mut rng, y, scaling.beta),
            Memory::new(&mut rng, x, 0.0),
            places(&mut rng, grid, problem.source),
        ];
        let after = agreed(&plan, &first);
        let [n, c, h, w] = problem.dims;
        if case % 16 == 0 {
            continue;
        }
        for place in 0..n * h * w {
            let [k, i, j] = [place / (h * w), place / w % h, place % w];
            let taps = problem.taps(&first[2], [k, i, j]);
            for c in 0..c {
                let terms =
                    taps.iter().map(|&([i, j], weight, _)| weight * first[1].get(offset(x, [k, c, i, j])));
                let want: f64 = terms.clone().sum();
                let at = offset(y, [k, c, i, j]);
                let old = if scaling.beta == 0.0 { 0.0 } else { scaling.beta * first[0].get(at) };
                let size = terms.map(f64::abs).sum::<f64>() + old.abs();
                let bound = size * unit(y.data_type(), problem.single);
                check(after[0].get(at), scaling.alpha * want + old, bound, &plan.to_string());
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_reference_and_of_binary64() {
    let mut rng = Rng(12);
    for case in 0..160 {
        let data_type = rng.pick(&TYPES);
        let types = [data_type, data_type, rng.pick(&GRIDS)];
        let problem = Problem::new(&mut rng, case, types);
        let factors = [scaling(&mut rng), scaling(&mut rng)];
        let Problem { x, y: dy, desc, grid, source, .. } = &problem;
        let dx = laid_out(&mut rng, data_type, &[problem.dims[0], problem.dims[1], source[0], source[1]]);
        let plan = SamplerPlan::backward(desc, [x, &dx, dy], factors, Mode::Extended).expect("a plan");
        let first = [
            before(&mut rng, &dx, factors[0].beta),
            before(&mut rng, grid, factors[1].beta),
            Memory::new(&mut rng, x, 0.0),
            Memory::new(&mut rng, dy, 0.0),
            places(&mut rng, grid, *source),
        ];
        let after = agreed(&plan, &first);
        let [n, c, h, w] = problem.dims;
        if case % 16 == 0 {
            continue;
        }
        let mut pixels = vec![[0.0_f64; 2]; (n * c * source[0] * source[1]) as usize];
        for place in 0..n * h * w {
            let [k, i, j] = [place / (h * w), place / w % h, place % w];
            let mut sums = [[0.0_f64; 2]; 2];
            for (tap, weight, slopes) in problem.taps(&first[4], [k, i, j]) {
                for c in 0..c {
                    let given = first[3].get(offset(dy, [k, c, i, j]));
                    let pixel = &mut pixels
                        [(((k * problem.dims[1] + c) * source[0] + tap[0]) * source[1] + tap[1]) as usize];
                    *pixel = [pixel[0] + given * weight, pixel[1] + (given * weight).abs()];
                    let value = first[2].get(offset(x, [k, c, tap[0], tap[1]]));
                    for axis in 0..2 {
                        let term = given * value * slopes[axis];
                        sums[axis] = [sums[axis][0] + term, sums[axis][1] + term.abs()];
                    }
                }
            }
            for (axis, [sum, size]) in sums.into_iter().enumerate() {
                let Scaling { alpha, beta } = factors[1];
                let at = 2 * place + axis as i64;
                let old = if beta == 0.0 { 0.0 } else { beta * first[1].get(at) };
                let bound = 2.0 * (size + old.abs()) * unit(grid.data_type(), problem.single);
                check(after[1].get(at), alpha * sum + old, bound, &plan.to_string());
            }
        }
        for (number, [sum, size]) in (0..).zip(pixels) {
            let (row, column) = (number / source[1] % source[0], number % source[1]);
            let plane: i64 = number / source[0] / source[1];
            let at = offset(&dx, [plane / c, plane % c, row, column]);
            let Scaling { alpha, beta } = factors[0];
            let old = if beta == 0.0 { 0.0 } else { beta * first[0].get(at) };
            let bound = 4.0 * (size + old.abs()) * unit(data_type, problem.single);
            check(after[0].get(at), alpha * sum + old, bound, &plan.to_string());
        }
    }
}

#[test]
fn grids_and_gradients_of_maps_are_those_of_binary64() {
    let mut rng = Rng(13);
    for case in 0..60 {
        let data_type = rng.pick(&GRIDS);
        let [n, h, w] = if case % 12 == 0 {
            rng.pick(&[[3, 210, 190], [1, 1, 70000], [40, 60, 31]])
        } else {
            [1, 2, 3].map(|_| rng.pick(&[1, 2, 3, 5, 17, 40]))
        };
        let desc = transformer(data_type, [n, 1, h, w]);
        let (theta, grid) = (packed(data_type, &[n, 2, 3]), packed(data_type, &[n, h, w, 2]));
        let single = data_type != DataType::Double;
        let coordinate = |i: i64, n: i64| if n == 1 { 0.0 } else { 2.0 * i as f64 / (n - 1) as f64 - 1.0 };
        let factors = |place: i64| [coordinate(place % w, w), coordinate(place / w % h, h), 1.0];
        let plan = GridPlan::forward(&desc).expect("a plan");
        let first = [Memory::poisoned(&grid), Memory::new(&mut rng, &theta, 0.0)];
        let after = agreed(&plan, &first);
        for place in 0..n * h * w {
            for i in 0..2 {
                let terms: Vec<f64> = (0..3)
                    .map(|j| {
                        first[1].get((place / (h * w) * 2 + i) * 3 + j as i64) * factors(place)[j as usize]
                    })
                    .collect();
                let size = terms.iter().map(|term| term.abs()).sum::<f64>();
                let bound = size * unit(data_type, single);
                check(after[0].get(2 * place + i), terms.iter().sum(), bound, &plan.to_string());
            }
        }
        let plan = GridPlan::backward(&desc).expect("a plan");
        let first = [Memory::poisoned(&theta), Memory::new(&mut rng, &grid, 0.0)];
        let after = agreed(&plan, &first);
        for entry in 0..n * 6 {
            let (mut sum, mut size) = (0.0, 0.0);
            for place in entry / 6 * h * w..(entry / 6 + 1) * h * w {
                let term = first[1].get(2 * place + entry / 3 % 2) * factors(place)[(entry % 3) as usize];
                (sum, size) = (sum + term, size + f64::abs(term));
            }
            check(after[0].get(entry), sum, size * unit(data_type, single), &plan.to_string());
        }
    }
}

#[test]
fn the_identity_gives_the_picture_back() {
    let mut rng = Rng(14);
    for dims in [[2, 3, 5, 9], [1, 1025, 3, 3], [3, 2, 1, 17], [1, 1, 129, 65], [2, 1, 1, 1]] {
        let x = packed(DataType::Double, &dims);
        let desc = transformer(DataType::Double, dims);
        let (theta, grid) = (
            packed(DataType::Double, &[dims[0], 2, 3]),
            packed(DataType::Double, &[dims[0], dims[2], dims[3], 2]),
        );
        let mut maps = Memory::new(&mut rng, &theta, 0.0);
        (0..dims[0] * 6).for_each(|i| maps.set(i, f64::from(u8::from(i % 6 == 0 || i % 6 == 4))));
        let places =
            agreed(&GridPlan::forward(&desc).unwrap(), &[Memory::poisoned(&grid), maps]).swap_remove(0);
        let pictures = Memory::new(&mut rng, &x, 0.0);
        let plan = SamplerPlan::forward(&desc, &x, &x, Scaling::MOVE, Mode::Extended).unwrap();
        let after = agreed(&plan, &[Memory::poisoned(&x), pictures.clone(), places]);
        for i in 0..dims.iter().product() {
            assert!((after[0].get(i) - pictures.get(i)).abs() < 1e-12, "{dims:?}: {i}");
        }
    }
}

#[test]
fn long_axes_and_bands_of_planes() {
    let mut rng = Rng(15);
    for (source, target) in [([1, 140_000], [1, 70_000]), ([131_071, 1], [3, 5]), ([3, 1_500_000], [7, 300])]
    {
        let dims = [1, 1, target[0], target[1]];
        let x = packed(DataType::Double, &[1, 1, source[0], source[1]]);
        let (y, grid) =
            (packed(DataType::Double, &dims), packed(DataType::Double, &[1, target[0], target[1], 2]));
        let desc = transformer(DataType::Double, dims);
        let plan = SamplerPlan::backward(&desc, [&x, &x, &y], [Scaling::MOVE; 2], Mode::Extended).unwrap();
        let first = [
            Memory::poisoned(&x),
            Memory::poisoned(&grid),
            Memory::new(&mut rng, &x, 0.0),
            Memory::new(&mut rng, &y, 0.0),
            places(&mut rng, &grid, source),
        ];
        agreed(&plan, &first);
    }
}

/// Samples `x` at `places` into packed memory.
fn sampled(
    desc: &SpatialTransformerDescriptor, x: &TensorDescriptor, pictures: Address, places: &Memory,
) -> Memory {
    let y = packed(x.data_type(), &desc.dims);
    let plan = SamplerPlan::forward(desc, x, &y, Scaling::MOVE, Mode::Extended).unwrap();
    let (mut after, mut places) = (Memory::poisoned(&y), places.clone());
    // SAFETY: the memory is that of the descriptors.
    unsafe { Context::cpu().run(&plan, &[after.at(), pictures, places.at()]) }.expect("runs");
    after
}

#[test]
fn more_pictures_than_16_bits_count_and_pictures_beyond_2_to_the_31_elements() {
    let mut rng = Rng(16);
    let count = 70_000;
    let desc = transformer(DataType::Float, [count, 1, 1, 2]);
    let x = packed(DataType::Float, &[count, 1, 2, 1]);
    let grid = packed(DataType::Float, &[count, 1, 2, 2]);
    // The upper pixel of a picture, and its lower one.
    let mut places = Memory::new(&mut rng, &grid, 0.0);
    (0..4 * count).for_each(|i| places.set(i, if i % 4 == 3 { 1.0 } else { -1.0 }));
    let mut pictures = Memory::new(&mut rng, &x, 0.0);
    let got = sampled(&desc, &x, pictures.at(), &places);
    assert!((0..2 * count).all(|i| got.get(i) == pictures.get(i)));
    // Of the four gigabytes between two pictures none is touched.
    let far = (1 << 31) + 5;
    let strides = [far, 12, 4, 1];
    let x =
        TensorDescriptor::with_strides(DataType::Half, 4, &[2, 2, 3, 4], &strides, Mode::Extended).unwrap();
    let near = packed(DataType::Half, &[2, 2, 3, 4]);
    let mut few = Memory::new(&mut rng, &near, 0.0);
    let mut many = vec![0_u16; far as usize + 24];
    for i in 0..24 {
        let bits = |i| half::f16::from_f64(few.get(i)).to_bits();
        (many[i as usize], many[(far + i) as usize]) = (bits(i), bits(24 + i));
    }
    let desc = transformer(DataType::Float, [2, 2, 5, 3]);
    let grid = packed(DataType::Float, &[2, 5, 3, 2]);
    let places = self::places(&mut rng, &grid, [3, 4]);
    let want = sampled(&desc, &near, few.at(), &places);
    assert!(sampled(&desc, &x, many.as_mut_ptr().into(), &places) == want);
}

#[test]
fn what_does_not_go_together_is_refused_and_writes_nothing() {
    let x = packed(DataType::Float, &[2, 3, 5, 7]);
    let y = packed(DataType::Float, &[2, 3, 4, 6]);
    let desc = transformer(DataType::Float, [2, 3, 4, 6]);
    let forward = |desc: &_, x: &_, y: &_| SamplerPlan::forward(desc, x, y, Scaling::MOVE, Mode::Extended);
    let class = |result: cudnn::Result<SamplerPlan>| {
        let error = result.expect_err("is refused");
        (error.kind(), error.to_string())
    };
    forward(&desc, &x, &y).expect("a plan");
    for (error, expected, says) in [
        (class(forward(&transformer(DataType::Float, [2, 3, 4, 5]), &x, &y)), ErrorKind::BadParam, "stDesc"),
        (
            class(forward(&transformer(DataType::Float, [2, 3, 0, 6]), &x, &y)),
            ErrorKind::BadParam,
            "at least 1",
        ),
        (class(forward(&desc, &packed(DataType::Float, &[2, 4, 5, 7]), &y)), ErrorKind::BadParam, "as in y"),
        (
            class(forward(&desc, &packed(DataType::Float, &[2, 3, 5]), &y)),
            ErrorKind::NotSupported,
            "3 dimensions",
        ),
        (
            class(forward(&SpatialTransformerDescriptor { rank: 5, ..desc }, &x, &y)),
            ErrorKind::NotSupported,
            "5 dimensions",
        ),
    ] {
        assert_eq!(error.0, expected, "{}", error.1);
        assert!(error.1.contains(says), "{}", error.1);
    }
    let of_half = packed(DataType::Half, &[2, 3, 4, 6]);
    let mixed = SamplerPlan::backward(&desc, [&x, &x, &of_half], [Scaling::MOVE; 2], Mode::Extended);
    assert_eq!(class(mixed).0, ErrorKind::BadParam);
    let strict = SamplerPlan::forward(
        &desc,
        &packed(DataType::Bfloat16, &[2, 3, 5, 7]),
        &y,
        Scaling::MOVE,
        Mode::Strict,
    );
    assert_eq!(class(strict).0, ErrorKind::NotSupported);
    // Overlapping operands are judged before anything is written.
    let plan = SamplerPlan::backward(&desc, [&x, &x, &y], [Scaling::MOVE; 2], Mode::Extended).unwrap();
    let mut memory = Memory::new(&mut Rng(1), &x, 0.0);
    let (old, at) = (memory.clone(), memory.at());
    // SAFETY: refused before memory is touched.
    let outcome = unsafe { Context::cpu().run(&plan, &[at, at, at, at, at]) };
    assert_eq!(outcome.expect_err("dx and dgrid overlap").kind(), ErrorKind::BadParam);
    assert!(memory == old);
}
