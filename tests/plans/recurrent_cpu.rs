//! Recurrent networks on the CPU core: the same bits for any number of threads and with weights
//! kept or packed anew, a sequence cut anywhere goes on with the bits of the whole, and sequences
//! of tens of thousands of steps, whose memory and steps grow by their length.
//!
//! `CUDNN_SHIM_TEST_FULL=1`, as `cargo xtask fuzz` sets it, also computes the gradients of the
//! longest.

use cudnn::backend::{self, Address, Isa, Machine, PanelCache};
use cudnn::desc::rnn::{RnnBias, RnnCell};
use cudnn::desc::sequence::RnnDataLayout;
use cudnn::dtype::DataType;
use cudnn::ops::recurrent::{
    ALIGNMENT, DataPlan, ForwardPlan, Given, Network, Problem, Sequences, WeightPlan,
};
use cudnn::ops::{Compute, Plan, Step};
use half::f16;
use testkit::extent::is_full;
use testkit::pages::{Pages, Side};
use testkit::random::Rng;

/// The steps that R^T of a real program had, those of an hour of speech.
const LONGEST: i64 = 36_864;

fn network(cell: RnnCell, data: DataType, [input, hidden, layers]: [i64; 3]) -> Network {
    Network {
        cell,
        bias: RnnBias::Double,
        directions: 1,
        skips_input: false,
        input,
        hidden,
        projected: hidden,
        layers,
        data,
        compute: if data == DataType::Double { Compute::Double } else { Compute::Single },
        allow_tiles: true,
        clip: None,
        dropout: 0.0,
    }
}

/// Sequences of the packed layout.
fn problem(network: Network, lengths: &[i64]) -> Problem {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    Problem {
        network,
        sequences: Sequences::new(RnnDataLayout::TimeMajorPacked, longest, lengths.to_vec()),
        fill: None,
    }
}

/// Memory of this many numbers, each random and below one half, or all bits set.
#[derive(Clone, PartialEq)]
struct Numbers {
    words: Vec<u64>,
    data: DataType,
}

impl Numbers {
    fn none(data: DataType, count: i64) -> Numbers {
        let bytes = count as usize * data.size();
        Numbers { words: vec![u64::MAX; bytes.div_ceil(8) + 1], data }
    }

    fn random(data: DataType, count: i64, rng: &mut Rng) -> Numbers {
        let mut numbers = Numbers::none(data, count);
        for at in 0..count as usize {
            let value = (rng.below(2001) as f64 - 1000.0) / 2000.0;
            let cell = numbers.words.as_mut_ptr();
            // SAFETY: there is room for `count` numbers.
            unsafe {
                match data {
                    DataType::Double => cell.cast::<f64>().add(at).write(value),
                    DataType::Half => cell.cast::<f16>().add(at).write(f16::from_f64(value)),
                    _ => cell.cast::<f32>().add(at).write(value as f32),
                }
            }
        }
        numbers
    }

    /// Where number `at` is.
    fn from(&self, at: i64) -> Address {
        self.words.as_ptr().cast::<u8>().wrapping_add(at as usize * self.data.size()).into()
    }

    fn bytes(&self, first: i64, count: i64) -> Vec<u8> {
        let size = self.data.size();
        let all: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        all[first as usize * size..(first + count) as usize * size].to_vec()
    }

    fn are_finite(&self, count: i64) -> bool {
        let bytes = self.bytes(0, count);
        match self.data {
            DataType::Double => bytes
                .chunks_exact(8)
                .all(|cell| f64::from_le_bytes(cell.try_into().expect("8 bytes")).is_finite()),
            _ => bytes
                .chunks_exact(4)
                .all(|cell| f32::from_le_bytes(cell.try_into().expect("4 bytes")).is_finite()),
        }
    }
}

fn given() -> Given {
    Given { x: true, y: true, hx: true, cx: true, hy: true, cy: true, dx: true, dhx: true, dcx: true }
}

/// How plans are run.
#[derive(Clone, Copy)]
struct How {
    isa: Isa,
    threads: usize,
    /// Whether weights are packed once for all steps, as handles do it.
    keeps: bool,
}

/// On so many threads.
fn on(threads: usize) -> How {
    How { isa: Isa::best(), threads, keeps: true }
}

fn run(plan: &dyn Plan, at: &[Address], how: How) {
    let machine = Machine { isa: how.isa, threads: how.threads };
    let panels = how.keeps.then(PanelCache::new);
    plan.steps(&mut |step, slots| {
        let at: Vec<Address> = slots.iter().map(|&slot| at[slot]).collect();
        // SAFETY: every operand has the room that the problem says, and no step writes the weights.
        unsafe { backend::run_keeping(step, &at, false, machine, panels.as_ref()) }
    })
    .expect("runs");
}

fn behind(memory: &[u64], bytes: usize) -> Address {
    memory.as_ptr().cast::<u8>().wrapping_add(bytes).into()
}

/// Where a forward call reads and writes.
struct Places {
    y: Address,
    hy: Address,
    cy: Address,
    x: Address,
    hx: Address,
    cx: Address,
    weights: Address,
}

/// A forward pass; the reserve space, in training.
fn forward(problem: &Problem, places: &Places, training: bool, how: How) -> Vec<u64> {
    let plan = ForwardPlan::new(problem.clone(), given(), training, None).expect("a plan");
    let workspace = vec![u64::MAX; problem.workspace_size(training).expect("a size").div_ceil(8)];
    let reserve = vec![u64::MAX; problem.reserve_size().expect("a size").div_ceil(8)];
    let Places { y, hy, cy, x, hx, cx, weights } = *places;
    let (kept, masks) = (behind(&reserve, 0), behind(&reserve, plan.masks()));
    run(&plan, &[y, hy, cy, kept, masks, Address::NULL, behind(&workspace, 0), x, hx, cx, weights], how);
    reserve
}

/// All that three calls compute.
#[derive(PartialEq)]
struct Results {
    y: Numbers,
    states: [Numbers; 2],
    dx: Numbers,
    gradients: [Numbers; 2],
    dw: Numbers,
}

/// A step of training, whose outputs are their own gradients.
fn train(problem: &Problem, rng: &mut Rng, how: How) -> Results {
    let Problem { network, sequences, .. } = problem;
    let data = network.data;
    let rows = sequences.rows();
    let states = network.pseudo_layers() * sequences.batch() * network.hidden.max(network.projected);
    let weights = network.weight_elements().expect("a size");
    let mut random = |count: i64| Numbers::random(data, count, rng);
    let (x, w, hx, cx) = (random(rows * network.input), random(weights), random(states), random(states));
    let none = |count: i64| Numbers::none(data, count);
    let results = Results {
        y: none(rows * network.output()),
        states: [none(states), none(states)],
        dx: none(rows * network.input),
        gradients: [none(states), none(states)],
        dw: none(weights),
    };
    let Results { y, states: [hy, cy], dx, gradients: [dhx, dcx], dw } = &results;
    let places = Places {
        y: y.from(0),
        hy: hy.from(0),
        cy: cy.from(0),
        x: x.from(0),
        hx: hx.from(0),
        cx: cx.from(0),
        weights: w.from(0),
    };
    let reserve = forward(problem, &places, true, how);
    let workspace = vec![u64::MAX; problem.workspace_size(true).expect("a size").div_ceil(8)];
    let plan = DataPlan::new(problem.clone(), given()).expect("a plan");
    let (kept, masks) = (behind(&reserve, 0), behind(&reserve, plan.masks()));
    let work = behind(&workspace, 0);
    let at = [
        dx.from(0),
        dhx.from(0),
        dcx.from(0),
        kept,
        masks,
        work,
        y.from(0),
        hx.from(0),
        hy.from(0),
        cx.from(0),
        cy.from(0),
        w.from(0),
    ];
    run(&plan, &at, how);
    let plan = WeightPlan::new(problem.clone(), given(), false).expect("a plan");
    run(&plan, &[dw.from(0), work, kept, masks, x.from(0), hx.from(0)], how);
    results
}

#[test]
fn threads_change_no_bit() {
    for cell in [RnnCell::Relu, RnnCell::Tanh, RnnCell::Lstm, RnnCell::Gru] {
        for (data, directions) in [(DataType::Float, 1), (DataType::Float, 2), (DataType::Double, 1)] {
            // Enough of them that products, maps and sums are divided.
            let mut network = network(cell, data, [24, 40, 2]);
            network.directions = directions;
            let problem = problem(network, &[5, 4, 4, 2, 2, 1, 1, 1, 1]);
            let want = train(&problem, &mut Rng(3), on(1));
            for threads in 2..=8 {
                assert!(train(&problem, &mut Rng(3), on(threads)) == want, "{threads} threads: {network:?}");
            }
        }
    }
}

/// Whatever a batch shrinks to: many rows, few that one strip holds, and vectors that read the
/// weights in place. Sums of 400 terms are blocks of their own.
#[test]
fn weights_that_are_kept_change_no_bit() {
    let lengths = [&[2; 7][..], &[4, 4, 3], &[3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1]];
    let types = [DataType::Float, DataType::Double, DataType::Half];
    let same = |network: Network, lengths: &[i64]| {
        let problem = problem(network, lengths);
        for isa in Isa::all() {
            let run = |keeps| train(&problem, &mut Rng(4), How { isa, keeps, threads: 2 });
            assert!(run(true) == run(false), "{network:?}, {lengths:?}");
        }
    };
    for (lengths, data) in lengths.into_iter().flat_map(|lengths| types.map(|data| (lengths, data))) {
        let lstm = network(RnnCell::Lstm, data, [5, 36, 2]);
        same(Network { projected: 20, directions: 2, ..lstm }, lengths);
        same(network(RnnCell::Gru, data, [5, 72, 1]), lengths);
    }
    same(network(RnnCell::Tanh, DataType::Float, [3, 400, 1]), lengths[0]);
}

/// The first layer's step draws the masks of all: it may not write more than its own cells,
/// whatever lies behind them.
#[test]
fn masks_of_many_layers_stay_inside_of_the_sizes_told() {
    for (cell, layers) in [RnnCell::Lstm, RnnCell::Gru, RnnCell::Tanh].into_iter().zip([4, 6, 8]) {
        for (data, dropout) in [(DataType::Float, 0.5), (DataType::Double, 0.5), (DataType::Half, 1.0)] {
            let network = Network { dropout, ..network(cell, data, [16, 96, layers]) };
            let problem = problem(network, &[7, 6, 6, 2, 1]);
            let plan = ForwardPlan::new(problem.clone(), given(), true, Some(9)).expect("a plan");
            let size = problem.workspace_size(true).expect("a size") - ALIGNMENT;
            let kept = problem.reserve_size().expect("a size") - ALIGNMENT;
            let run = |how: How| {
                let states = network.layers * 5 * network.hidden;
                let random = |count| Numbers::random(data, count, &mut Rng(6));
                let rows = problem.sequences.rows();
                let (x, h, w) = (
                    random(rows * network.input),
                    random(states),
                    random(network.weight_elements().expect("a size")),
                );
                let (y, last) = (Numbers::none(data, rows * network.hidden), Numbers::none(data, 2 * states));
                let [workspace, reserve] = [size, kept].map(|bytes| Pages::new(bytes, Side::End));
                let within = |pages: &Pages, bytes: usize| pages.address().wrapping_byte_add(bytes).into();
                let at = [
                    y.from(0),
                    last.from(0),
                    last.from(states),
                    within(&reserve, 0),
                    within(&reserve, plan.masks()),
                    within(&workspace, plan.states()),
                    within(&workspace, 0),
                    x.from(0),
                    h.from(0),
                    h.from(0),
                    w.from(0),
                ];
                run(&plan, &at, how);
                (y.bytes(0, rows * network.hidden), reserve.bytes()[plan.masks()..].to_vec())
            };
            let masks = run(on(1)).1;
            for isa in Isa::available() {
                let [first, second] = [1, 3].map(|threads| run(How { isa, threads, keeps: true }));
                assert!(first == second && first.1 == masks, "{network:?} on {isa:?}");
            }
        }
    }
}

/// Forward, from `cuts[k]` to `cuts[k + 1]` at a time: outputs and last states.
fn in_pieces(network: Network, batch: i64, cuts: &[i64], rng: &mut Rng) -> [Numbers; 3] {
    let data = network.data;
    let steps = *cuts.last().expect("an end");
    let states = network.layers * batch * network.hidden;
    let mut random = |count: i64| Numbers::random(data, count, rng);
    let (x, w) = (random(steps * batch * network.input), random(network.weight_elements().expect("a size")));
    let (mut h, mut c) = (random(states), random(states));
    let y = Numbers::none(data, steps * batch * network.hidden);
    for piece in cuts.windows(2) {
        let (from, count) = (piece[0], piece[1] - piece[0]);
        let problem = problem(network, &vec![count; batch as usize]);
        let (hy, cy) = (Numbers::none(data, states), Numbers::none(data, states));
        let places = Places {
            y: y.from(from * batch * network.hidden),
            hy: hy.from(0),
            cy: cy.from(0),
            x: x.from(from * batch * network.input),
            hx: h.from(0),
            cx: c.from(0),
            weights: w.from(0),
        };
        forward(&problem, &places, false, on(2));
        (h, c) = (hy, cy);
    }
    [y, h, c]
}

#[test]
fn a_cut_sequence_goes_on_as_the_whole() {
    for cell in [RnnCell::Relu, RnnCell::Tanh, RnnCell::Lstm, RnnCell::Gru] {
        for batch in [1, 4, 33] {
            let network = network(cell, DataType::Float, [3, 5, 2]);
            let pieces = |cuts: &[i64]| in_pieces(network, batch, cuts, &mut Rng(8));
            let whole = pieces(&[0, 20]);
            for cut in if batch == 33 { 10..11 } else { 1..20 } {
                assert!(pieces(&[0, cut, 20]) == whole, "{network:?}, {batch} sequences, cut at {cut}");
            }
            assert!(pieces(&(0..=20).collect::<Vec<_>>()) == whole, "{network:?}, {batch} sequences");
        }
    }
}

#[test]
fn tens_of_thousands_of_steps_are_those_of_pieces() {
    for cell in [RnnCell::Lstm, RnnCell::Gru] {
        let network = network(cell, DataType::Double, [1, 1, 1]);
        let pieces = |cuts: &[i64]| in_pieces(network, 1, cuts, &mut Rng(9));
        let whole = pieces(&[0, LONGEST]);
        assert!(whole == pieces(&[0, 1, 1000, 20_000, 20_001, LONGEST]), "{cell:?}");
        assert!(whole[0].are_finite(LONGEST));
    }
}

#[test]
fn gradients_of_thousands_of_steps_are_finite() {
    let steps = if is_full() { LONGEST } else { 5_000 };
    let network = network(RnnCell::Lstm, DataType::Float, [1, 2, 1]);
    let results = train(&problem(network, &[steps, 1]), &mut Rng(10), on(2));
    assert!(results.y.are_finite(2 * (steps + 1)) && results.dx.are_finite(steps + 1));
    assert!(results.dw.are_finite(network.weight_elements().expect("a size")));
}

/// Steps and elements that a pass touches at most.
fn extent(plan: &dyn Plan) -> (usize, i64) {
    let (mut steps, mut last) = (0, 0);
    plan.steps(&mut |step, _| {
        steps += 1;
        if let Step::Contract(step) = step {
            last = last.max(step.nest.offsets[0]);
        }
        Ok(())
    })
    .expect("steps");
    (steps, last)
}

/// Nothing runs: a reserve space of terabytes is planned.
#[test]
fn no_size_ends_at_2_to_the_31() {
    let network = network(RnnCell::Lstm, DataType::Half, [512, 1024, 2]);
    let of = |steps: i64| {
        let problem = problem(network, &vec![steps; 512]);
        let plan = ForwardPlan::new(problem.clone(), given(), true, None).expect("a plan");
        (extent(&plan), problem.reserve_size().expect("a size") as i64)
    };
    let ((few, _), small) = of(LONGEST / 64);
    let ((many, last), large) = of(LONGEST);
    // Two layers, each of gates and a cell state in binary32, and of outputs.
    let row = 2 * (5 * 1024 * 4 + 1024 * 2);
    assert!((0..1024).contains(&(large - LONGEST * 512 * row)), "{large} bytes");
    assert!((large / small - 64).abs() <= 1);
    assert!(last > 1 << 36, "the gates of the last row begin at {last}");
    // Each time step has as many.
    let slope = (many - few) as f64 / (LONGEST - LONGEST / 64) as f64;
    assert!(
        (many as f64 - slope * LONGEST as f64) < 100.0 && slope < 20.0,
        "{slope} steps of each time step"
    );
}
