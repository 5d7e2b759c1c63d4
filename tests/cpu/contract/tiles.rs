//! Tile instructions, and the model of AMX, which every processor has: the bound of their sums,
//! bits that depend on neither threads nor batch, numbers that are none or very small, and that no
//! thread keeps tiles.

#[cfg(target_arch = "x86_64")]
use cudnn::backend::run_contract;
use cudnn::backend::{self, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::layout::{Dims, Layout};
use cudnn::ops::contract::{Accumulate, Role, Side, Terms};
use cudnn::ops::{Contract, Scaling, Step};

use super::runs::{lines, run};
use testkit::convolution::{Convolution, DIRECTIONS, Direction};
use testkit::extent;
use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

/// The levels with tiles of one order of sums: the model, and the instructions if the processor has
/// them.
pub fn levels() -> Vec<Isa> {
    Isa::all().filter(|isa| ["amx", "amxmodel"].contains(&isa.name())).collect()
}

/// The level of another order, if this is a processor that has it.
fn matrices() -> Option<Isa> {
    Isa::all().find(|isa| isa.name() == "neonmm")
}

/// The levels whose tiles multiply numbers of a type.
fn levels_of(scalar: Scalar) -> Vec<Isa> {
    let more = matrices().filter(|_| scalar == Scalar::Bf16);
    levels().into_iter().chain(more).collect()
}

/// The steps of a convolution that may use tiles.
fn steps(conv: &Convolution, direction: Direction, [dst, a, b]: [&Tensor; 3]) -> Vec<Contract> {
    let terms = Terms::scaled(Scaling::MOVE);
    let mut steps = conv.steps(direction, [dst, a, b], Accumulate::Single, &terms).expect("a usual layer");
    steps.iter_mut().for_each(|step| {
        *step = step.canonical();
        step.allow_tiles = true;
    });
    steps
}

/// Whether the kernel of tiles is the one that is chosen.
pub fn takes_tiles(step: &Contract, isa: Isa) -> bool {
    let name = backend::kernel(Step::Contract(step), false, Machine { isa, threads: 2 });
    name == Some(if step.a == Scalar::F32 { "tiles_of_parts" } else { "tiles" })
}

/// What a sum of `terms` products may be off, in parts of the sum of magnitudes: sixteen products
/// in each of two chains, both together, and one more sum for each tile; each may be rounded. The
/// products of second parts of halves are less than a hundredth. Of binary32 there are six sums for
/// each tile of a block of eight, and what is left out. Instructions of matrices add pair after
/// pair, and each sum may be off by twice as much as one that is rounded to nearest.
fn bound(terms: i64, scalar: Scalar, isa: Isa) -> f64 {
    let (terms, tiles) = (terms as f64, terms as f64 / 32.0);
    let units = match scalar {
        _ if matrices() == Some(isa) => terms + 3.0,
        Scalar::F32 => 48.0 + tiles / 4.0 + 25.0,
        _ => tiles + 23.0,
    };
    1.02 * units * f64::from(f32::EPSILON) / 2.0
}

fn layer(case: usize, rng: &mut Rng) -> (Convolution, Vec<usize>) {
    let channels = [[40, 33], [64, 64], [8, 8], [3, 24], [96, 16], [17, 130]][case % 6];
    let (stride, groups) = ([1, 1, 2][case % 3], if case % 6 == 2 { 4 } else { 1 });
    let conv = Convolution::of_plane(channels, [9, 12], stride, groups, rng);
    let order = [vec![0, 1, 2, 3], vec![0, 2, 3, 1]][case / 6 % 2].clone();
    (conv, order)
}

#[test]
fn sums_are_within_their_bound_and_alike_on_all_threads() {
    let (mut rng, mut taken) = (Rng(61), 0);
    for case in extent::cases(12, 36) {
        let (conv, order) = layer(case, &mut rng);
        for direction in DIRECTIONS {
            let dims = conv.dims(direction);
            let scalar = [Scalar::Bf16, Scalar::F16, Scalar::F32][(case + case / 3) % 3];
            let types = [Scalar::F32, scalar, scalar];
            let [dst, mut a, mut b] =
                [0, 1, 2].map(|at| Tensor::packed(dims[at], &order, types[at]).fill(|| rng.real()));
            let steps = steps(&conv, direction, [&dst, &a, &b]);
            let sums = conv.expected(direction, &a, &b);
            let sources = [a.base(), b.base()];
            let terms = steps.iter().map(|step| step.extent(Role::K)).max().unwrap();
            let what = || format!("case {case}, {direction:?}:\n{}", lines(&steps));
            let own = |isa: &Isa| matrices() == Some(*isa);
            let orders = [levels(), levels_of(scalar).into_iter().filter(own).collect()];
            for isas in orders.iter().filter(|isas| !isas.is_empty()) {
                let mut all: Vec<Tensor> = Vec::new();
                for &isa in isas {
                    taken += steps.iter().filter(|step| takes_tiles(step, isa)).count();
                    // The model is slow.
                    let once = !extent::is_full() && isa.name() == "amxmodel";
                    for threads in if once { &[5][..] } else { &[1, 2, 5] } {
                        let threads = *threads;
                        all.push(run(&steps, &dst, &sources, Machine { isa, threads }));
                    }
                }
                assert!(all.iter().all(|got| got.same_bytes(&all[0])), "{}", what());
                let mut next = sums.iter();
                each(&dst.layout.dims, |index| {
                    let [sum, magnitude] = next.next().unwrap();
                    let error = (all[0].get(index) - sum).abs();
                    // Steps that have no tiles are chains.
                    let most = if steps.iter().all(|step| takes_tiles(step, isas[0])) {
                        bound(terms, scalar, isas[0])
                    } else {
                        (terms + 1) as f64 * f64::from(f32::EPSILON)
                    };
                    assert!(error <= most * magnitude, "{error} at {index:?} of {}", what());
                });
            }
        }
    }
    assert!(taken > 15, "{taken} steps took tiles");
}

/// A product of matrices, with `a` and `b` along the sum.
pub fn product([m, n, k]: [i64; 3], scalar: Scalar) -> (Contract, [Tensor; 3]) {
    let matrix = |rows: i64, columns: i64, strides: [i64; 2], scalar| {
        let dims = Dims::new(&[rows, columns]);
        Tensor::new(Layout { dims, strides: Dims::new(&strides), split: None }, scalar)
    };
    let c = matrix(m, n, [n, 1], Scalar::F32);
    let (a, b) = (matrix(m, k, [k, 1], scalar), matrix(k, n, [1, k], scalar));
    let side = |tensor: &Tensor| Side { scalar: tensor.scalar, layout: Box::leak(Box::new(tensor.layout)) };
    let terms = Terms::scaled(Scaling::MOVE);
    let step = Contract::matmul(side(&c), side(&a), side(&b), Accumulate::Single, &terms).unwrap();
    let mut step = step.canonical();
    step.allow_tiles = true;
    (step, [c, a, b])
}

#[test]
fn a_row_has_the_same_bits_among_any_others() {
    let mut rng = Rng(62);
    let (many, few, n, k) = (150, 130, 129, 1120);
    for scalar in [Scalar::Bf16, Scalar::F16, Scalar::F32] {
        let (step, [c, a, b]) = product([many, n, k], scalar);
        let (mut a, mut b) = (a.fill(|| rng.real()), b.fill(|| rng.real()));
        let (short, _) = product([few, n, k], scalar);
        for isa in levels_of(scalar) {
            let sources = [a.base(), b.base()];
            let [all, some] =
                [step, short].map(|step| run(&[step], &c, &sources, Machine { isa, threads: 2 }));
            assert!(takes_tiles(&step, isa) && takes_tiles(&short, isa));
            each(&[few, n], |at| {
                assert_eq!(all.get(at).to_bits(), some.get(at).to_bits(), "{at:?} of {scalar:?} on {isa:?}");
            });
        }
    }
}

#[test]
fn infinities_and_nan_reach_their_rows_alone() {
    let mut rng = Rng(63);
    for (scalar, isa) in [Scalar::Bf16, Scalar::F16, Scalar::F32]
        .iter()
        .flat_map(|scalar| levels_of(*scalar).into_iter().map(move |isa| (*scalar, isa)))
    {
        let (m, n, k) = if scalar == Scalar::F32 { (128, 129, 520) } else { (40, 33, 70) };
        let (step, [c, a, b]) = product([m, n, k], scalar);
        assert!(takes_tiles(&step, isa));
        let (mut a, mut b) = (a.fill(|| rng.real()), b.fill(|| rng.real()));
        // A number whose second part is 0, and 0.
        b.set(&[69, 2], 1.0);
        b.set(&[69, 3], 0.0);
        let machine = Machine { isa, threads: 1 };
        let plain = run(&[step], &c, &[a.base(), b.base()], machine);
        for (value, at) in [(f64::NAN, [3, 5]), (f64::INFINITY, [17, 69]), (f64::NEG_INFINITY, [39, 0])] {
            let before = a.get(&at);
            a.set(&at, value);
            let got = run(&[step], &c, &[a.base(), b.base()], machine);
            a.set(&at, before);
            each(&[m, n], |index| {
                let (got, plain) = (got.get(index), plain.get(index));
                let want = value * b.get(&[at[1], index[1]]);
                match index[0] == at[0] {
                    true if want.is_nan() => assert!(got.is_nan(), "{got} at {index:?} on {isa:?}"),
                    true => assert_eq!(got, want, "{index:?} of {scalar:?} on {isa:?}"),
                    false => assert_eq!(got.to_bits(), plain.to_bits(), "{index:?} on {isa:?}"),
                }
            });
        }
    }
}

#[test]
fn denormal_bf16_count_as_nothing_and_denormal_halves_as_they_are() {
    let mut rng = Rng(64);
    let (m, n, k) = (40, 33, 70);
    for isa in levels_of(Scalar::Bf16) {
        let machine = Machine { isa, threads: 1 };
        let (step, [c, a, b]) = product([m, n, k], Scalar::Bf16);
        let (mut a, mut b) = (a.fill(|| rng.real()), b.fill(|| rng.real()));
        // A denormal number by 2^127 is no small one.
        a.set(&[7, 9], 2.0_f64.powi(-130));
        b.set(&[9, 11], 2.0_f64.powi(127));
        let denormal = run(&[step], &c, &[a.base(), b.base()], machine);
        a.set(&[7, 9], 0.0);
        let zero = run(&[step], &c, &[a.base(), b.base()], machine);
        assert!(denormal.same_bytes(&zero), "on {isa:?}");
    }
    for isa in levels_of(Scalar::F16) {
        let machine = Machine { isa, threads: 1 };
        let (step, [c, a, b]) = product([m, n, k], Scalar::F16);
        let (mut a, mut b) = (a.fill(|| 0.0), b.fill(|| 0.0));
        a.set(&[7, 9], 3.0 * 2.0_f64.powi(-24));
        b.set(&[9, 11], 5.0 * 2.0_f64.powi(-24));
        let tiny = run(&[step], &c, &[a.base(), b.base()], machine);
        assert_eq!(tiny.get(&[7, 11]), 15.0 * 2.0_f64.powi(-48), "on {isa:?}");
    }
}

/// Which parts of this thread's state are not in their initial configuration: bit 18 is that of
/// tiles.
#[cfg(target_arch = "x86_64")]
fn state_in_use() -> u32 {
    let state: u32;
    // SAFETY: processors with tiles have the instruction, and this register of it.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 1, out("eax") state, out("edx") _, options(nomem, nostack));
    }
    state
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_thread_keeps_no_tiles_after_a_call() {
    let Some(isa) = Isa::all().find(|isa| isa.name() == "amx") else {
        println!("skipped: this processor has no tiles");
        return;
    };
    let (step, [c, mut a, mut b]) = product([64, 64, 64], Scalar::Bf16);
    let mut got = c.clone();
    assert!(takes_tiles(&step, isa));
    let at = [got.base(), a.base(), b.base()];
    // SAFETY: the memory of the tensors holds all their elements.
    unsafe { run_contract(&step, &at, Machine { isa, threads: 1 }) }.unwrap();
    assert_eq!(state_in_use() & 3 << 17, 0, "tiles are in use");
}
