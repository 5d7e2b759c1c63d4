//! Recurrent networks on the reference loops, in binary64: gradients are slopes of the forward
//! pass, with the same masks of dropout, and neither layouts nor what else is in a batch change a
//! bit.

use cudnn::backend::{Address, reference};
use cudnn::desc::rnn::{RnnBias, RnnCell};
use cudnn::desc::sequence::RnnDataLayout;
use cudnn::dtype::DataType;
use cudnn::ops::recurrent::{Clip, DataPlan, ForwardPlan, Given, Network, Problem, Sequences, WeightPlan};
use cudnn::ops::{Compute, NanRule, Plan};
use testkit::random::Rng;

const LONGEST: i64 = 4;

fn draw(rng: &mut Rng, count: i64) -> Vec<f64> {
    (0..count).map(|_| (rng.below(4001) as f64 - 2000.0) / 1500.0).collect()
}

/// Memory that holds no number at first.
fn room(bytes: usize) -> Vec<u64> {
    vec![u64::MAX; bytes.div_ceil(8) + 1]
}

fn behind(memory: &mut [u64], bytes: usize) -> Address {
    memory.as_mut_ptr().cast::<u8>().wrapping_add(bytes).into()
}

fn run(plan: &dyn Plan, addresses: &[Address]) {
    plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| addresses[slot]).collect();
        // SAFETY: every operand has the room that the problem says.
        unsafe { reference::run(step, &at) }
    })
    .expect("the reference runs every step");
}

/// What goes into a network.
#[derive(Clone)]
struct Inputs {
    weights: Vec<f64>,
    x: Vec<f64>,
    hx: Vec<f64>,
    cx: Vec<f64>,
}

impl Inputs {
    fn parts(&mut self) -> [&mut Vec<f64>; 4] {
        [&mut self.weights, &mut self.x, &mut self.hx, &mut self.cx]
    }
}

/// What comes out of it, or the gradients of that.
#[derive(Clone)]
struct Outputs {
    y: Vec<f64>,
    hy: Vec<f64>,
    cy: Vec<f64>,
}

fn given() -> Given {
    Given { x: true, y: true, hx: true, cx: true, hy: true, cy: true, dx: true, dhx: true, dcx: true }
}

fn problem(network: Network, layout: RnnDataLayout, lengths: &[i64]) -> Problem {
    let longest = match layout {
        RnnDataLayout::TimeMajorPacked => lengths.iter().copied().max().unwrap_or(0),
        _ => LONGEST,
    };
    Problem { network, sequences: Sequences::new(layout, longest, lengths.to_vec()), fill: Some(0) }
}

/// A forward pass in training, and the reserve space that it leaves. The masks are the same each
/// time.
fn forward(problem: &Problem, inputs: &Inputs) -> (Outputs, Vec<u64>) {
    let network = &problem.network;
    let states = (network.pseudo_layers() * problem.sequences.batch()) as usize;
    let rows = problem.sequences.caller_rows() as usize;
    let mut out = Outputs {
        y: vec![f64::NAN; rows * network.output() as usize],
        hy: vec![f64::NAN; states * network.projected as usize],
        cy: vec![f64::NAN; states * network.hidden as usize],
    };
    let plan = ForwardPlan::new(problem.clone(), given(), true, Some(9)).expect("a plan");
    let mut workspace = room(problem.workspace_size(true).expect("a size"));
    let mut reserve = room(problem.reserve_size().expect("a size"));
    let at = [
        out.y.as_mut_ptr().into(),
        out.hy.as_mut_ptr().into(),
        out.cy.as_mut_ptr().into(),
        behind(&mut reserve, 0),
        behind(&mut reserve, plan.masks()),
        behind(&mut workspace, plan.states()),
        behind(&mut workspace, 0),
        inputs.x.as_ptr().into(),
        inputs.hx.as_ptr().into(),
        inputs.cx.as_ptr().into(),
        inputs.weights.as_ptr().into(),
    ];
    run(&plan, &at);
    if !network.has_cell_state() {
        out.cy.fill(0.0);
    }
    (out, reserve)
}

/// The gradients by all inputs.
fn backward(problem: &Problem, inputs: &Inputs, out: &Outputs, mut reserve: Vec<u64>) -> Inputs {
    let mut gradients = inputs.clone();
    gradients.parts().into_iter().for_each(|part| part.fill(f64::NAN));
    gradients.weights.fill(0.0);
    let size = problem.workspace_size(true).expect("a size");
    let plan = DataPlan::new(problem.clone(), given()).expect("a plan");
    let mut workspace = room(size);
    let at = [
        gradients.x.as_mut_ptr().into(),
        gradients.hx.as_mut_ptr().into(),
        gradients.cx.as_mut_ptr().into(),
        behind(&mut reserve, 0),
        behind(&mut reserve, plan.masks()),
        behind(&mut workspace, 0),
        out.y.as_ptr().into(),
        inputs.hx.as_ptr().into(),
        out.hy.as_ptr().into(),
        inputs.cx.as_ptr().into(),
        out.cy.as_ptr().into(),
        inputs.weights.as_ptr().into(),
    ];
    run(&plan, &at);
    if !problem.network.has_cell_state() {
        gradients.cx.fill(0.0);
    }
    let plan = WeightPlan::new(problem.clone(), given(), true).expect("a plan");
    workspace.fill(u64::MAX);
    let at = [
        gradients.weights.as_mut_ptr().into(),
        behind(&mut workspace, 0),
        behind(&mut reserve, 0),
        behind(&mut reserve, plan.masks()),
        inputs.x.as_ptr().into(),
        inputs.hx.as_ptr().into(),
    ];
    run(&plan, &at);
    gradients
}

fn network(rng: &mut Rng) -> Network {
    let cell = rng.pick(&[RnnCell::Relu, RnnCell::Tanh, RnnCell::Lstm, RnnCell::Gru]);
    let hidden = 1 + rng.below(5) as i64;
    let lstm = cell == RnnCell::Lstm;
    let skips_input = rng.below(5) == 0;
    Network {
        cell,
        bias: rng.pick(&[RnnBias::None, RnnBias::SingleInput, RnnBias::Double, RnnBias::SingleRecurrent]),
        directions: 1 + rng.below(2) as i64,
        skips_input,
        input: if skips_input { hidden } else { 1 + rng.below(5) as i64 },
        hidden,
        projected: if lstm && rng.below(3) == 0 { 1 + rng.below(hidden as usize) as i64 } else { hidden },
        layers: 1 + rng.below(3) as i64,
        data: DataType::Double,
        compute: Compute::Double,
        allow_tiles: true,
        clip: (lstm && rng.below(3) == 0).then_some(Clip {
            lower: -0.2,
            upper: 0.3,
            nan: NanRule::Propagate,
        }),
        dropout: rng.pick(&[0.0, 0.4]),
    }
}

/// Random inputs in the time-major layout, or numbers of the shape of outputs; NaN behind the ends
/// where nobody reads.
fn vectors(rng: &mut Rng, lengths: &[i64], entries: i64) -> Vec<f64> {
    let batch = lengths.len() as i64;
    let mut values = draw(rng, LONGEST * batch * entries);
    for (index, value) in values.iter_mut().enumerate() {
        let row = index as i64 / entries;
        if row / batch >= lengths[(row % batch) as usize] {
            *value = f64::NAN;
        }
    }
    values
}

fn setting(rng: &mut Rng) -> (Network, Vec<i64>, Inputs, Outputs) {
    let network = network(rng);
    let lengths: Vec<i64> = (0..1 + rng.below(4)).map(|_| rng.below(LONGEST as usize + 1) as i64).collect();
    let states = network.pseudo_layers() * lengths.len() as i64;
    let inputs = Inputs {
        weights: draw(rng, network.weight_elements().expect("a size")),
        x: vectors(rng, &lengths, network.input),
        hx: draw(rng, states * network.projected),
        cx: draw(rng, states * network.hidden),
    };
    let gradients = Outputs {
        y: vectors(rng, &lengths, network.output()),
        hy: draw(rng, states * network.projected),
        cy: draw(rng, states * network.hidden),
    };
    (network, lengths, inputs, gradients)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| !a.is_nan() && !b.is_nan()).map(|(a, b)| a * b).sum()
}

#[test]
fn gradients_are_slopes() {
    let mut rng = Rng(4711);
    for _ in 0..150 {
        let (network, lengths, inputs, gradients) = setting(&mut rng);
        let problem = problem(network, RnnDataLayout::TimeMajorPadded, &lengths);
        let (_, reserve) = forward(&problem, &inputs);
        let mut slopes = backward(&problem, &inputs, &gradients, reserve);
        let loss = |inputs: &Inputs| {
            let (out, _) = forward(&problem, inputs);
            let cells = if network.has_cell_state() { dot(&out.cy, &gradients.cy) } else { 0.0 };
            dot(&out.y, &gradients.y) + dot(&out.hy, &gradients.hy) + cells
        };
        for part in 0..4 {
            let mut changed = inputs.clone();
            let way = draw(&mut rng, changed.parts()[part].len() as i64);
            let mut at = |step: f64| {
                changed.clone_from(&inputs);
                changed.parts()[part].iter_mut().zip(&way).for_each(|(value, along)| *value += step * along);
                loss(&changed)
            };
            let found = dot(slopes.parts()[part], &way);
            assert!(
                slopes.parts()[part].iter().all(|slope| slope.is_finite()),
                "{network:?} {lengths:?} {part}"
            );
            // A bend between two points goes away with the step.
            let wanted = [1e-5, 1e-6, 1e-7].map(|step| (at(step) - at(-step)) / (2.0 * step));
            let size = 1.0 + slopes.parts()[part].iter().map(|slope| slope.abs()).sum::<f64>();
            let off = wanted.iter().map(|wanted| (wanted - found).abs()).fold(f64::INFINITY, f64::min);
            assert!(
                off < 1e-6 * size,
                "{network:?} {lengths:?}: part {part} is {found} instead of {wanted:?}"
            );
        }
    }
}

/// The rows of one sequence of the time-major layout, without padding.
fn rows_of(values: &[f64], batch: usize, entries: usize, index: usize, length: i64) -> Vec<f64> {
    let row = |step: usize| &values[(step * batch + index) * entries..][..entries];
    (0..length as usize).flat_map(row).copied().collect()
}

/// The states of one sequence.
fn states_of(values: &[f64], batch: usize, entries: usize, index: usize) -> Vec<f64> {
    values.chunks(batch * entries).flat_map(|layer| &layer[index * entries..][..entries]).copied().collect()
}

#[test]
fn a_sequence_has_the_same_bits_alone_and_packed() {
    let mut rng = Rng(97);
    for _ in 0..60 {
        let (mut network, lengths, inputs, gradients) = setting(&mut rng);
        // Masks count the rows of the whole batch.
        network.dropout = 0.0;
        let batch = lengths.len();
        let [input, output, hidden, projected] =
            [network.input, network.output(), network.hidden, network.projected]
                .map(|entries| entries as usize);
        let whole = problem(network, RnnDataLayout::TimeMajorPadded, &lengths);
        let (out, reserve) = forward(&whole, &inputs);
        let slopes = backward(&whole, &inputs, &gradients, reserve);
        for (index, &length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let one = Inputs {
                weights: inputs.weights.clone(),
                x: rows_of(&inputs.x, batch, input, index, length),
                hx: states_of(&inputs.hx, batch, projected, index),
                cx: states_of(&inputs.cx, batch, hidden, index),
            };
            let wanted = Outputs {
                y: rows_of(&gradients.y, batch, output, index, length),
                hy: states_of(&gradients.hy, batch, projected, index),
                cy: states_of(&gradients.cy, batch, hidden, index),
            };
            let alone = problem(network, RnnDataLayout::TimeMajorPacked, &[length]);
            let (own, reserve) = forward(&alone, &one);
            assert_eq!(own.y, rows_of(&out.y, batch, output, index, length), "{network:?} {lengths:?}");
            assert_eq!(own.hy, states_of(&out.hy, batch, projected, index), "{network:?} {lengths:?}");
            assert_eq!(own.cy, states_of(&out.cy, batch, hidden, index), "{network:?} {lengths:?}");
            let own = backward(&alone, &one, &wanted, reserve);
            assert_eq!(own.x, rows_of(&slopes.x, batch, input, index, length), "{network:?} {lengths:?}");
            assert_eq!(own.hx, states_of(&slopes.hx, batch, projected, index), "{network:?} {lengths:?}");
            assert_eq!(own.cx, states_of(&slopes.cx, batch, hidden, index), "{network:?} {lengths:?}");
        }
    }
}
