//! What every test of the CPU core does with the steps of a contraction: run them at every level,
//! for several numbers of threads, and compare.

use std::collections::BTreeSet;
use std::fmt::Display;

use cudnn::backend::{Isa, Machine, reference, run_contract, takes_winograd};
use cudnn::ops::contract::Role;
use cudnn::ops::{Contract, Step};

use testkit::convolution::{Convolution, Direction};
use testkit::extent;
use testkit::tensor::{Tensor, each};

/// Every level that has a way of its own for one of the steps.
pub fn levels(steps: &[Contract]) -> BTreeSet<Isa> {
    steps.iter().flat_map(|step| extent::levels(Step::Contract(step))).collect()
}

/// These levels, with several numbers of threads; in a sample the best level has all of them, and
/// each other one has one.
pub fn machines(steps: &[Contract]) -> impl Iterator<Item = Machine> {
    const THREADS: [usize; 3] = [1, 2, 5];
    let levels = levels(steps);
    let best = levels.last().copied();
    levels.into_iter().enumerate().flat_map(move |(number, isa)| {
        let has = move |at: usize| extent::is_full() || Some(isa) == best || at == number % THREADS.len();
        let threads = THREADS.into_iter().enumerate().filter(move |&(at, _)| has(at));
        threads.map(move |(_, threads)| Machine { isa, threads })
    })
}

/// The steps as they are, and as those of Winograd's algorithms where there is a kernel for these
/// on some machine.
fn ways(steps: &[Contract]) -> Vec<Vec<Contract>> {
    let mut allowed = steps.to_vec();
    allowed.iter_mut().for_each(|step| step.allow_winograd = true);
    let takes =
        |step: &Contract| machines(steps).any(|machine| takes_winograd(Step::Contract(step), machine));
    let differs = allowed.iter().any(takes);
    std::iter::once(steps.to_vec()).chain(differs.then_some(allowed)).collect()
}

pub fn lines(steps: &[Contract]) -> String {
    steps.iter().map(Contract::to_string).collect::<Vec<_>>().join("\n")
}

/// Where the operands behind the destination lie, of which a step need not have the last two.
pub fn sources(step: &Contract, [a, b, z, bias]: [&mut Tensor; 4]) -> Vec<*mut u8> {
    let mut at = vec![a.base(), b.base()];
    at.extend(step.z_slot().map(|_| z.base()));
    at.extend(step.bias_slot().map(|_| bias.base()));
    at
}

/// What the steps make of a destination.
pub fn run(steps: &[Contract], dst: &Tensor, sources: &[*mut u8], machine: Machine) -> Tensor {
    let mut got = dst.clone();
    let at = [&[got.base()], sources].concat();
    for step in steps {
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { run_contract(step, &at, machine) }.unwrap();
    }
    got
}

/// What the reference makes of it.
pub fn referenced(steps: &[Contract], dst: &Tensor, sources: &[*mut u8]) -> Tensor {
    let mut want = dst.clone();
    let at = [&[want.base()], sources].concat();
    for step in steps {
        // SAFETY: the memory of the tensors holds all their elements.
        unsafe { reference::contract(step, &at) };
    }
    want
}

/// The destination with a value for each element, in row-major order.
pub fn with_values(dst: &Tensor, values: impl IntoIterator<Item = f64>) -> Tensor {
    let mut values = values.into_iter();
    dst.clone().fill(|| values.next().expect("one for each element"))
}

/// Every machine leaves these bytes, guards and gaps included.
pub fn assert_bytes(
    steps: &[Contract], dst: &Tensor, sources: &[*mut u8], want: &Tensor, what: impl Display,
) {
    for steps in ways(steps) {
        for machine in machines(&steps) {
            let got = run(&steps, dst, sources, machine);
            if got.same_bytes(want) {
                continue;
            }
            let mut shown = 0;
            each(&dst.layout.dims, |index| {
                let (got, want) = (got.get(index), want.get(index));
                if got.to_bits() != want.to_bits() && shown < 5 {
                    println!("{index:?}: {got} instead of {want}");
                    shown += 1;
                }
            });
            panic!("{what} on {machine:?}\n{}", lines(&steps));
        }
    }
}

/// Every machine leaves the bytes of the reference.
pub fn assert_referenced(steps: &[Contract], dst: &Tensor, sources: &[*mut u8], what: impl Display) {
    assert_bytes(steps, dst, sources, &referenced(steps, dst, sources), what);
}

/// Sums of real numbers in binary32 are within their bound, and have the same bits for every number
/// of threads.
pub fn assert_is_steady(
    conv: &Convolution, direction: Direction, steps: &[Contract], [dst, a, b]: [&mut Tensor; 3],
    what: impl Display,
) {
    let unit = f64::from(f32::EPSILON) / 2.0;
    let products = steps.iter().map(|step| step.extent(Role::K)).max().unwrap().max(1) as f64;
    let sums = conv.expected(direction, a, b);
    let sources = [a.base(), b.base()];
    for steps in ways(steps) {
        for isa in Isa::available() {
            let first = run(&steps, dst, &sources, Machine { isa, threads: 1 });
            let is_best = isa == Isa::best();
            for threads in if extent::is_full() || is_best { &[2, 3, 8, 8][..] } else { &[3] } {
                let threads = *threads;
                let same = run(&steps, dst, &sources, Machine { isa, threads }).same_bytes(&first);
                assert!(same, "{what}, {threads} threads on {isa:?}: {}", lines(&steps));
            }
            let mut next = sums.iter();
            each(&dst.layout.dims, |index| {
                let [sum, magnitude] = next.next().unwrap();
                let error = (first.get(index) - sum).abs();
                let bound = 2.0 * products * unit * magnitude;
                assert!(error <= bound, "{what} at {index:?} on {isa:?}, {error}: {}", lines(&steps));
            });
        }
    }
}
