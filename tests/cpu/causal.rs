//! Causal convolutions on the CPU core: every machine computes what the reference computes, that is
//! what sums in binary64 give, and gradients are what differences of the forward pass say.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::exec::Context;
use cudnn::mode::Mode;
use cudnn::ops::causal_conv::{CausalPlan, Form, reserve};
use cudnn::ops::{Plan, Role, Step};
use testkit::causal::{FORMS, TYPES, all_contents, call, numbers, plans, sizes};
use testkit::random::Rng;

/// Bytes around each operand that nobody may touch.
const GUARD: usize = 64;

/// Operands in memory, each with guards, `shift` bytes off their alignment.
#[derive(Clone)]
struct Memory {
    words: Vec<Vec<u64>>,
    sizes: Vec<usize>,
    shift: usize,
}

impl Memory {
    fn new(contents: &[Vec<u8>], shift: usize) -> Self {
        let sizes: Vec<usize> = contents.iter().map(Vec::len).collect();
        let words =
            sizes.iter().map(|size| vec![0x5a5a_5a5a_5a5a_5a5a; (size + 2 * GUARD + 16) / 8]).collect();
        let mut memory = Memory { words, sizes, shift };
        for (operand, bytes) in contents.iter().enumerate() {
            let at = memory.at(operand).pointer();
            // SAFETY: the operand has as many bytes there.
            unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        memory
    }

    fn at(&mut self, operand: usize) -> Address {
        self.words[operand].as_mut_ptr().cast::<u8>().wrapping_add(GUARD + self.shift).into()
    }

    fn addresses(&mut self) -> Vec<Address> {
        (0..self.words.len()).map(|operand| self.at(operand)).collect()
    }

    fn bytes(&mut self, operand: usize) -> Vec<u8> {
        let at = self.at(operand).pointer();
        // SAFETY: the operand has as many bytes there.
        (0..self.sizes[operand]).map(|k| unsafe { at.add(k).read() }).collect()
    }
}

fn machines() -> impl Iterator<Item = Machine> {
    Isa::available().flat_map(|isa| [1, 3].map(|threads| Machine { isa, threads }))
}

/// Runs every step on one machine, or by the reference.
fn run(plan: &dyn Plan, memory: &mut Memory, machine: Option<Machine>) {
    let at = memory.addresses();
    plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| at[slot]).collect();
        // SAFETY: the memory is that of the plan.
        unsafe {
            match machine {
                Some(machine) => backend::run(step, &at, false, machine),
                None => reference::run(step, &at),
            }
        }
    })
    .expect("runs");
}

/// Runs the plan everywhere; what the reference leaves, operand by operand.
fn agreed(plan: &dyn Plan, contents: &[Vec<u8>], shift: usize) -> Vec<Vec<u8>> {
    let mut want = Memory::new(contents, shift);
    run(plan, &mut want, None);
    for machine in machines() {
        let mut got = Memory::new(contents, shift);
        run(plan, &mut got, Some(machine));
        for (operand, (got, want)) in got.words.iter().zip(&want.words).enumerate() {
            assert!(got == want, "{machine:?}: operand {operand} of {plan}");
        }
    }
    (0..contents.len()).map(|operand| want.bytes(operand)).collect()
}

#[test]
fn every_machine_computes_what_the_reference_computes() {
    let mut rng = Rng(31);
    for case in 0..280 {
        let form = FORMS[case % FORMS.len()];
        let call = call(form, sizes(&mut rng), TYPES[case / FORMS.len() % TYPES.len()]);
        for plan in plans(&call) {
            let contents = all_contents(&plan, &mut rng, case % 3 == 0);
            // The long form copies what it keeps by elements.
            let shift = if form == Form::Long { 8 } else { case % 9 };
            agreed(&plan, &contents, shift);
        }
    }
}

/// More positions than a tile, more taps than one, more channels than are computed together.
#[test]
fn tiles_and_blocks_of_taps_meet_without_a_seam() {
    let mut rng = Rng(32);
    for (form, sizes) in [
        (FORMS[1], [2, 3, 2100, 4, 0]),
        (FORMS[3], [1, 18, 1030, 130, 0]),
        (FORMS[5], [1, 2, 2049, 300, 0]),
        (FORMS[6], [1, 2, 1200, 500, 0]),
        (FORMS[0], [1, 1, 40, 200, 0]),
        (FORMS[4], [1, 2, 1100, 5, 70]),
    ] {
        for plan in plans(&call(form, sizes, DataType::Float)) {
            let contents = all_contents(&plan, &mut rng, false);
            agreed(&plan, &contents, 0);
        }
    }
}

/// The kernels that accept the causal steps of a plan.
fn causal_kernels(plan: &dyn Plan, machine: Machine) -> Vec<&'static str> {
    let mut names = Vec::new();
    let outcome = plan.steps(&mut |step, _| {
        if matches!(step, Step::Causal(_)) {
            names.extend(backend::kernels(step, machine));
        }
        Ok(())
    });
    outcome.expect("nothing fails");
    names
}

/// Runs the plan on every machine, which have to agree in every bit; what they leave, and what the
/// reference leaves.
fn transformed(plan: &dyn Plan, contents: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
    let mut want = Memory::new(contents, 8);
    run(plan, &mut want, None);
    let mut first: Option<Memory> = None;
    for machine in machines() {
        let kernels = causal_kernels(plan, machine);
        assert!(
            !kernels.is_empty() && kernels.iter().all(|name| *name == "causal_fft"),
            "{kernels:?}: {plan}"
        );
        let mut got = Memory::new(contents, 8);
        run(plan, &mut got, Some(machine));
        let first = first.get_or_insert_with(|| got.clone());
        assert!(got.words == first.words, "{machine:?}: {plan}");
    }
    let mut first = first.expect("a machine");
    [&mut first, &mut want].map(|memory| (0..contents.len()).map(|k| memory.bytes(k)).collect())
}

/// Filters that are convolved by transforms, in blocks and whole, against the loops that define
/// them.
#[test]
fn many_taps_give_the_same_sums_by_transforms() {
    let mut rng = Rng(38);
    for (case, (form, [batch, dim, length, taps])) in [
        (Form::Fourier, [1, 2, 512, 512]),
        (Form::Fourier, [2, 1, 1536, 512]),
        (Form::Fourier, [2, 2, 5000, 512]),
        (Form::Fourier, [1, 3, 1900, 600]),
        (Form::Long, [2, 2, 1024, 1024]),
        (Form::Long, [1, 1, 4096, 4096]),
        (Form::Long, [1, 1, 1500, 1500]),
    ]
    .into_iter()
    .enumerate()
    {
        let data_type = TYPES[case % TYPES.len()];
        for plan in plans(&call(form, [batch, dim, length, taps, 0], data_type)) {
            let contents = all_contents(&plan, &mut rng, false);
            let [got, want] = transformed(&plan, &contents);
            for (k, operand) in plan.operands().iter().enumerate() {
                let [got, want] = [&got, &want].map(|bytes| numbers(operand.scalar, &bytes[k]));
                // Data are numbers up to 2; the loops round in the computation type, and both to
                // that of the result.
                let unit =
                    if operand.scalar == cudnn::dtype::Scalar::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
                let terms = f64::from(taps.max(batch * length));
                let of_result = match operand.scalar {
                    cudnn::dtype::Scalar::F16 => 2f64.powi(-11),
                    cudnn::dtype::Scalar::Bf16 => 2f64.powi(-8),
                    _ => 0.0,
                };
                for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                    let bound = unit * terms * terms.sqrt() * 4.0 + of_result * want.abs() * 1.01;
                    assert!((got - want).abs() <= bound, "{} {k}: {got}, {want}: {plan}", operand.name);
                }
            }
        }
    }
}

/// A number that is none spoils what it takes part in and nothing else: where there is one, sums
/// are the loops'.
#[test]
fn many_taps_keep_what_is_no_number_to_itself() {
    let mut rng = Rng(39);
    for (odd, data_type) in
        [(f64::NAN, DataType::Float), (f64::INFINITY, DataType::Half), (1e300, DataType::Double)]
    {
        for plan in plans(&call(Form::Fourier, [2, 2, 1200, 520, 0], data_type)) {
            let mut contents = all_contents(&plan, &mut rng, false);
            let named = |name: &str| plan.operands().iter().position(|operand| operand.name == name);
            // In the second channel of the first sequence.
            let at = named("dy").or(named("x")).expect("an operand that is read");
            let (size, place) = (plan.operands()[at].scalar.size(), 1200 + 700);
            let cell = &mut contents[at][place * size..(place + 1) * size];
            match size {
                8 => cell.copy_from_slice(&odd.to_le_bytes()),
                4 => cell.copy_from_slice(&(odd as f32).to_le_bytes()),
                _ => cell.copy_from_slice(&half::f16::from_f64(odd).to_le_bytes()),
            }
            let [got, want] = transformed(&plan, &contents);
            for (k, operand) in plan.operands().iter().enumerate() {
                let touched = match operand.name {
                    "y" | "dx" => 1200 * size..2400 * size,
                    "dweight" => 520 * size..1040 * size,
                    _ => continue,
                };
                assert!(got[k][touched.clone()] == want[k][touched.clone()], "{} of {plan}", operand.name);
                let others =
                    numbers(operand.scalar, &[&got[k][..touched.start], &got[k][touched.end..]].concat());
                assert!(others.iter().all(|number| number.abs() < 1e5), "{} of {plan}", operand.name);
            }
        }
    }
}

/// The numbers of a call in binary64, with formulas of their own; x[c][t] and so on, whatever the
/// memory holds.
struct Exact {
    batch: usize,
    dim: usize,
    length: usize,
    taps: usize,
    inside: bool,
    newest_first: bool,
    silu: bool,
}

impl Exact {
    fn at(&self, b: usize, c: usize, t: usize) -> usize {
        if self.inside { (b * self.length + t) * self.dim + c } else { (b * self.dim + c) * self.length + t }
    }

    /// The weight of the position `back` positions ago.
    fn weight(&self, c: usize, back: usize) -> usize {
        let k = if self.newest_first { back } else { self.taps - 1 - back };
        if self.inside { k * self.dim + c } else { c * self.taps + k }
    }

    /// y, and the absolute values of what was summed.
    fn forward(&self, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> (Vec<f64>, Vec<f64>) {
        let (mut y, mut sizes) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for b in 0..self.batch {
            for c in 0..self.dim {
                for t in 0..self.length {
                    let terms = (0..self.taps.min(t + 1)).map(|back| {
                        let (x, w) = (x[self.at(b, c, t - back)], w[self.weight(c, back)]);
                        x * w
                    });
                    let bias = bias.map_or(0.0, |bias| bias[c]);
                    let sum = terms.clone().sum::<f64>() + bias;
                    y[self.at(b, c, t)] = if self.silu { sum / (1.0 + (-sum).exp()) } else { sum };
                    sizes[self.at(b, c, t)] = terms.map(f64::abs).sum::<f64>() + bias.abs() + sum.abs();
                }
            }
        }
        (y, sizes)
    }
}

#[test]
fn sums_are_those_of_binary64() {
    let mut rng = Rng(33);
    for form in FORMS.into_iter().filter(|form| *form != Form::Gated) {
        let [batch, dim, length, taps] = [2, 5, 50, 7];
        let call = call(form, [batch, dim, length, taps, 0], DataType::Float);
        let [plan, _] = plans(&call);
        let contents = all_contents(&plan, &mut rng, false);
        let left = agreed(&plan, &contents, 0);
        let exact = Exact {
            batch: batch as usize,
            dim: dim as usize,
            length: length as usize,
            taps: taps as usize,
            inside: matches!(form, Form::Direct { channels_inside: true, .. }),
            newest_first: matches!(form, Form::Fourier | Form::Long),
            silu: matches!(form, Form::Direct { silu: true, .. }),
        };
        let of = |name: &str, bytes: &[Vec<u8>]| {
            let at = plan.operands().iter().position(|operand| operand.name == name)?;
            Some(numbers(plan.operands()[at].scalar, &bytes[at]))
        };
        let (x, weight) = (of("x", &contents).unwrap(), of("weight", &contents).unwrap());
        let (want, sizes) = exact.forward(&x, &weight, of("bias", &contents).as_deref());
        for ((got, want), size) in of("y", &left).unwrap().iter().zip(&want).zip(&sizes) {
            let bound = f64::from(f32::EPSILON) * (taps as f64 + 8.0) * size;
            assert!((got - want).abs() <= bound, "{got} and {want} in {plan}");
        }
    }
}

/// Gradients against differences of the loss `sum of y dy` in binary64, for every number of every
/// input.
#[test]
fn gradients_are_differences_of_the_forward_pass() {
    let mut rng = Rng(34);
    for form in FORMS.into_iter().filter(|form| *form != Form::Long) {
        let call = call(form, [2, 3, 9, 3, 4], DataType::Double);
        let [forward, backward] = plans(&call);
        let given = all_contents(&forward, &mut rng, false);
        let mut contents = all_contents(&backward, &mut rng, false);
        // Both passes get the same inputs, and backward what forward saved.
        let loss_at = usize::from(form == Form::Gated);
        let place =
            |plan: &CausalPlan, name: &str| plan.operands().iter().position(|operand| operand.name == name);
        let left = agreed(&forward, &given, 0);
        for (at, operand) in forward.operands().iter().enumerate() {
            if let Some(other) = place(&backward, operand.name) {
                contents[other] =
                    if operand.role == Role::Read { given[at].clone() } else { left[at].clone() };
            }
        }
        let dy = numbers(cudnn::dtype::Scalar::F64, &contents[place(&backward, "dy").unwrap()]);
        let loss = |given: &[Vec<u8>]| -> f64 {
            let mut memory = Memory::new(given, 0);
            run(&forward, &mut memory, None);
            let y = numbers(cudnn::dtype::Scalar::F64, &memory.bytes(loss_at));
            y.iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        };
        let gradients = agreed(&backward, &contents, 0);
        for name in ["x", "weight", "bias", "weightsProj", "weightsMixer", "skipBias"] {
            let Some(at) = place(&forward, name) else { continue };
            let of = |bytes: &[Vec<u8>]| {
                let at = backward.operands().iter().position(|operand| operand.name == format!("d{name}"));
                numbers(cudnn::dtype::Scalar::F64, &bytes[at.expect("a gradient")])
            };
            let (after, before) = (of(&gradients), of(&contents));
            let adds = name != "x" && form != Form::Fourier;
            for k in 0..after.len() {
                let moved = |by: f64| {
                    let mut given = given.clone();
                    let cell = &mut given[at][8 * k..8 * k + 8];
                    let number = f64::from_le_bytes((&*cell).try_into().unwrap()) + by;
                    cell.copy_from_slice(&number.to_le_bytes());
                    loss(&given)
                };
                let want = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                let got = after[k] - if adds { before[k] } else { 0.0 };
                assert!(
                    (got - want).abs() <= 1e-6 * (1.0 + want.abs()),
                    "{name}[{k}]: {got}, {want}: {backward}"
                );
            }
        }
    }
}

/// A sequence comes out as it does alone, bit for bit.
#[test]
fn results_do_not_depend_on_the_company_of_a_batch() {
    let mut rng = Rng(35);
    for form in FORMS {
        let several = call(form, [3, 17, 70, 4, 5], DataType::Float);
        let one = call(form, [1, 17, 70, 4, 5], DataType::Float);
        for (together, alone) in plans(&several).into_iter().zip(plans(&one)) {
            let contents = all_contents(&together, &mut rng, false);
            let left = agreed(&together, &contents, 0);
            for sequence in 0..3 {
                let part = |bytes: &[u8], operand: usize| {
                    let size = alone.operands()[operand].span.1 as usize;
                    let first = if bytes.len() == size { 0 } else { sequence * size };
                    bytes[first..first + size].to_vec()
                };
                let own: Vec<_> = contents.iter().enumerate().map(|(k, bytes)| part(bytes, k)).collect();
                let results = agreed(&alone, &own, 0);
                for (k, operand) in together.operands().iter().enumerate() {
                    if ["y", "yGated", "dx"].contains(&operand.name) {
                        assert!(results[k] == part(&left[k], k), "{} of {together}", operand.name);
                    }
                }
            }
        }
    }
}

/// What the long form keeps serves its backward call as x and weight serve the other's.
#[test]
fn the_reserve_space_holds_what_the_gradients_need() {
    let mut rng = Rng(36);
    let sizes = [2, 3, 40, 11, 0];
    let (long, plain) = (call(Form::Long, sizes, DataType::Half), call(Form::Fourier, sizes, DataType::Half));
    let [forward, backward] = plans(&long);
    let [_, want] = plans(&plain);
    let contents = all_contents(&forward, &mut rng, false);
    let left = agreed(&forward, &contents, 0);
    assert!(left[1] == contents[3] && left[2] == contents[4], "copies");
    let (weight, bytes) = reserve(&long, Mode::Extended).expect("sizes");
    assert!(weight >= contents[3].len() && bytes - weight >= contents[4].len());
    let mut given = all_contents(&backward, &mut rng, false);
    given[2] = left[1].clone();
    given[3] = left[2].clone();
    assert!(agreed(&backward, &given, 0) == agreed(&want, &given, 0));
}

/// Overlapping operands are read before anything is written; two results that overlap are refused,
/// with nothing written.
#[test]
fn operands_may_overlap_what_is_written() {
    let mut rng = Rng(37);
    let call = call(FORMS[1], [1, 2, 50, 4, 0], DataType::Float);
    let [forward, backward] = plans(&call);
    let contents = all_contents(&forward, &mut rng, false);
    let left = agreed(&forward, &contents, 0);
    let mut memory = Memory::new(&contents, 0);
    let at = memory.addresses();
    // SAFETY: the memory is that of the plan, and y as large as x.
    unsafe { Context::cpu().run(&forward, &[at[1], at[1], at[2], at[3]]) }.expect("runs in place");
    assert!(memory.bytes(1) == left[0]);
    let contents = all_contents(&backward, &mut rng, false);
    let mut memory = Memory::new(&contents, 0);
    let mut at = memory.addresses();
    at[2] = at[1];
    // SAFETY: as above.
    let outcome = unsafe { Context::cpu().run(&backward, &at) };
    assert_eq!(outcome.expect_err("two results of one address").kind(), ErrorKind::BadParam);
    assert!((0..contents.len()).all(|operand| memory.bytes(operand) == contents[operand]));
}
