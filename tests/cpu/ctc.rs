//! CTC loss: the CPU core at every instruction set level and for several numbers of threads against
//! the reference loops, bit for bit; both against sums over all alignments and against finite
//! differences; and what is promised of samples that have no alignment.

use cudnn::backend::{self, Address, Isa, Machine, reference};
use cudnn::dtype::Scalar;
use cudnn::ops::ctc::{Ctc, Gradients};
use cudnn::ops::{Compute, Step};
use testkit::random::Rng;

/// A batch, and what a core leaves of it.
#[derive(Clone)]
struct Batch {
    step: Ctc,
    probs: Vec<f64>,
    labels: Vec<i32>,
    label_lengths: Vec<i32>,
    input_lengths: Vec<i32>,
}

/// Costs, and gradients as their bytes.
#[derive(Clone, PartialEq, Debug)]
struct Results {
    costs: Vec<u64>,
    gradients: Vec<u64>,
}

/// Strides of packed rows of samples of classes.
fn packed(step: &Ctc) -> [i64; 3] {
    [step.samples * step.classes, step.classes, 1]
}

impl Batch {
    /// A batch with rows of `rows`, samples and classes, whose labels are given.
    fn new([rows, classes]: [i64; 2], labels: &[&[i32]], input_lengths: &[i32], rng: &mut Rng) -> Batch {
        let samples = labels.len() as i64;
        let mut step = Ctc {
            compute: Compute::Double,
            rows,
            frames: rows,
            samples,
            classes,
            longest: labels.iter().map(|label| label.len() as i64).max().unwrap_or(0),
            softmax: true,
            skips: false,
            on_host: false,
            probs: [0; 3],
            gradients: None,
        };
        step.probs = packed(&step);
        step.gradients = Some(Gradients { scalar: Scalar::F64, strides: step.probs });
        let count = (rows * samples * classes) as usize;
        Batch {
            step,
            probs: (0..count).map(|_| (rng.below(8001) as f64 - 4000.0) / 1000.0).collect(),
            labels: labels.concat(),
            label_lengths: labels.iter().map(|label| label.len() as i32).collect(),
            input_lengths: input_lengths.to_vec(),
        }
    }

    /// Shares of the softmax in place of what is in front of it.
    fn normalised(mut self) -> Batch {
        for row in self.probs.chunks_mut(self.step.classes as usize) {
            let all: f64 = row.iter().map(|x| x.exp()).sum();
            row.iter_mut().for_each(|x| *x = x.exp() / all);
        }
        self.step.softmax = false;
        self
    }

    fn single(mut self) -> Batch {
        self.step.compute = Compute::Single;
        if let Some(gradients) = &mut self.step.gradients {
            gradients.scalar = Scalar::F32;
        }
        self
    }

    /// Costs and gradients; `run` has the step and the addresses of its operands. Everything that
    /// is to be written begins as NaN.
    fn run(&self, run: impl Fn(Step<'_>, &[Address])) -> Results {
        let size = self.step.compute.scalar().size();
        let cells = |count: i64, size: usize| vec![u64::MAX; (count as usize * size).div_ceil(8) + 2];
        let count = self.step.rows * self.step.samples * self.step.classes;
        let mut costs = cells(self.step.samples, size);
        let mut gradients = cells(count, self.step.gradients.map_or(8, |to| to.scalar.size()));
        let mut workspace = vec![u64::MAX; self.step.workspace_size().div_ceil(8)];
        let singles: Vec<f32> = self.probs.iter().map(|&x| x as f32).collect();
        let probs = match self.step.compute {
            Compute::Double => Address::from(self.probs.as_ptr()),
            Compute::Single => Address::from(singles.as_ptr()),
        };
        let at = [
            costs.as_mut_ptr().into(),
            gradients.as_mut_ptr().into(),
            workspace.as_mut_ptr().into(),
            probs,
            self.labels.as_ptr().into(),
            self.label_lengths.as_ptr().into(),
            self.input_lengths.as_ptr().into(),
        ];
        run(Step::Ctc(&self.step), &at);
        Results { costs, gradients }
    }

    fn by_reference(&self) -> Results {
        // SAFETY: every operand is as large as the step says.
        self.run(|step, at| unsafe { reference::run(step, at) }.expect("the reference"))
    }

    fn on(&self, machine: Machine) -> Results {
        // SAFETY: as above.
        self.run(|step, at| unsafe { backend::run(step, at, false, machine) }.expect("the CPU core"))
    }

    /// What the reference leaves, after every level and number of threads has left the same.
    fn checked(&self) -> Results {
        let want = self.by_reference();
        for isa in Isa::available() {
            for threads in [1, 3, 8] {
                let machine = Machine { isa, threads };
                assert!(self.on(machine) == want, "{machine:?}: {}", Step::Ctc(&self.step));
            }
        }
        want
    }

    /// The numbers of a batch in binary64.
    fn doubles(&self) -> (Vec<f64>, Vec<f64>) {
        let Results { costs, gradients } = self.checked();
        let count = (self.step.rows * self.step.samples * self.step.classes) as usize;
        let doubles =
            |words: &[u64], count: usize| words[..count].iter().map(|&w| f64::from_bits(w)).collect();
        (doubles(&costs, self.step.samples as usize), doubles(&gradients, count))
    }

    /// The cost of a sample as the sum over every alignment.
    fn by_alignments(&self, n: usize) -> f64 {
        let first: usize = self.label_lengths[..n].iter().map(|&length| length as usize).sum();
        let label = &self.labels[first..first + self.label_lengths[n] as usize];
        let (classes, samples) = (self.step.classes as usize, self.step.samples as usize);
        let rows = self.input_lengths[n] as usize;
        let mut total = 0.0;
        let mut path = vec![0_usize; rows];
        loop {
            let mut collapsed: Vec<i32> = Vec::new();
            for (t, &class) in path.iter().enumerate() {
                if class != 0 && (t == 0 || path[t - 1] != class) {
                    collapsed.push(class as i32);
                }
            }
            if collapsed == label {
                let at = |(t, &class): (usize, &usize)| {
                    let row = &self.probs[(t * samples + n) * classes..][..classes];
                    let all: f64 = row.iter().map(|x| x.exp()).sum();
                    if self.step.softmax { row[class].exp() / all } else { row[class] }
                };
                total += path.iter().enumerate().map(at).product::<f64>();
            }
            let Some(t) = path.iter().position(|&class| class + 1 < classes) else { return -total.ln() };
            path[t] += 1;
            path[..t].fill(0);
        }
    }
}

fn is_near(a: f64, b: f64, bound: f64) -> bool {
    a == b || (a - b).abs() <= bound * (1.0 + a.abs())
}

/// Tiny batches against every alignment there is.
#[test]
fn costs_are_sums_over_all_alignments() {
    let mut rng = Rng(3);
    let labels: [&[i32]; 6] = [&[], &[1], &[1, 1], &[2, 1], &[1, 2, 1], &[2, 2, 1]];
    for softmax in [true, false] {
        let batch = Batch::new([5, 3], &labels, &[5, 4, 3, 5, 5, 4], &mut rng);
        let batch = if softmax { batch } else { batch.normalised() };
        let (costs, _) = batch.doubles();
        for (n, &cost) in costs.iter().enumerate() {
            let want = batch.by_alignments(n);
            assert!(is_near(cost, want, 1e-13), "sample {n}: {cost} and not {want}");
        }
    }
}

/// Every gradient against the slope of the cost, in front of the softmax.
#[test]
fn gradients_are_slopes_of_costs() {
    let mut rng = Rng(4);
    let labels: [&[i32]; 4] = [&[3, 3, 1], &[2], &[], &[1, 2, 3, 1]];
    let batch = Batch::new([7, 4], &labels, &[7, 5, 6, 7], &mut rng);
    let (_, gradients) = batch.doubles();
    for (k, &gradient) in gradients.iter().enumerate() {
        let cost = |by: f64| {
            let mut moved = batch.clone();
            moved.probs[k] += by;
            moved.step.gradients = None;
            moved.doubles().0.iter().sum::<f64>()
        };
        let slope = (cost(1e-5) - cost(-1e-5)) / 2e-5;
        assert!(is_near(gradient, slope, 1e-8), "number {k}: {gradient} and not {slope}");
    }
    // With probabilities as they are, the gradient is the same one.
    let (_, others) = batch.normalised().doubles();
    for (a, b) in gradients.iter().zip(others) {
        assert!(is_near(*a, b, 1e-12), "{a} and not {b}");
    }
}

/// Random batches, also of integers that are none, at every level and for several numbers of
/// threads.
#[test]
fn every_level_has_the_bits_of_the_reference() {
    let mut rng = Rng(5);
    for case in 0..60 {
        let samples = 1 + rng.below(5);
        let (rows, classes) =
            (1 + rng.below(40) as i64, 1 + rng.below(if case % 7 == 0 { 300 } else { 9 }) as i64);
        let labels: Vec<Vec<i32>> = (0..samples)
            .map(|_| {
                let length = rng.below(1 + rows as usize / 2);
                let most = if rng.below(12) == 0 { classes + 1 } else { classes };
                (0..length).map(|_| (1 + rng.below((most - 1).max(1) as usize)) as i32).collect()
            })
            .collect();
        let labels: Vec<&[i32]> = labels.iter().map(Vec::as_slice).collect();
        let inputs: Vec<i32> = (0..samples)
            .map(|_| match rng.below(8) {
                0 => rng.below(400) as i32 - 200,
                1 => 0,
                _ => rows as i32 - rng.below(1 + rows as usize / 3) as i32,
            })
            .collect();
        let mut batch = Batch::new([rows, classes], &labels, &inputs, &mut rng);
        match rng.below(8) {
            0 => batch.probs.iter_mut().for_each(|x| *x *= 1e4),
            1 => {
                for _ in 0..5 {
                    let k = rng.below(batch.probs.len());
                    batch.probs[k] = rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
                }
            }
            _ => {}
        }
        if rng.below(2) == 0 {
            batch = batch.normalised();
            if rng.below(3) == 0 {
                batch.probs.iter_mut().for_each(|p| *p = if *p < 0.05 { 0.0 } else { *p });
            }
        }
        batch.step.skips = rng.below(2) == 0;
        batch.step.longest = (batch.step.longest - rng.below(3) as i64 / 2).max(0);
        batch.step.frames = (rows - rng.below(4) as i64 / 3).max(0);
        // Samples before rows.
        if rng.below(3) == 0 {
            batch.step.probs = [classes, classes * rows, 1];
        }
        if let Some(gradients) = &mut batch.step.gradients
            && rng.below(3) == 0
        {
            gradients.strides = [1, rows, rows * samples as i64];
        }
        if rng.below(6) == 0 {
            batch.step.gradients = None;
        }
        batch.checked();
        let mut batch = batch.single();
        if let Some(gradients) = &mut batch.step.gradients {
            gradients.scalar = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::F64]);
        }
        batch.checked();
    }
}

/// What has no alignment costs infinity, has the gradient that the mode says, and does not show in
/// its neighbours.
#[test]
fn infeasible_samples_stay_among_themselves() {
    let mut rng = Rng(6);
    let good: &[i32] = &[1, 2];
    for bad in [&[1, 1, 1][..], &[3, 4], &[0, 1], &[-7]] {
        for place in 0..3 {
            for skips in [false, true] {
                let mut labels = [good; 3];
                labels[place] = bad;
                let mut inputs = [6; 3];
                inputs[place] = 4;
                let mut batch = Batch::new([6, 4], &labels, &inputs, &mut rng);
                batch.step.skips = skips;
                let (costs, gradients) = batch.doubles();
                let mut alone = batch.clone();
                alone.labels = good.repeat(3);
                alone.label_lengths = vec![2; 3];
                let (others, slopes) = alone.doubles();
                for (k, gradient) in gradients.iter().enumerate() {
                    let (t, n) = (k / 12, k / 4 % 3);
                    match (n == place, t < 4) {
                        (false, _) => assert_eq!(gradient.to_bits(), slopes[k].to_bits()),
                        (true, true) if skips => assert!(gradient.is_nan(), "it is left as it is"),
                        (true, _) => assert_eq!(gradient.to_bits(), 0),
                    }
                }
                for n in 0..3 {
                    let want = if n == place { f64::INFINITY } else { others[n] };
                    assert_eq!(costs[n].to_bits(), want.to_bits());
                }
            }
        }
    }
}

/// Rows of thousands, labels of thousands, alphabets of a hundred thousand, and probabilities of 0.
#[test]
fn nothing_underflows() {
    let mut rng = Rng(7);
    // A path of probabilities of 1e-38, of which nothing but the sum of logarithms is left.
    let mut batch = Batch::new([20_000, 2], &[&[1; 5]], &[20_000], &mut rng).normalised();
    batch.probs.fill(1e-38);
    let (costs, gradients) = batch.doubles();
    assert!(costs[0].is_finite() && costs[0] > 1.7e6, "{}", costs[0]);
    assert!(gradients.iter().all(|gradient| gradient.is_finite()));
    let single = batch.single().checked();
    let cost = f32::from_bits(single.costs[0] as u32);
    assert!(is_near(cost.into(), costs[0], 1e-6), "{cost} and not {}", costs[0]);

    for length in [0, 255, 256, 2000] {
        let label: Vec<i32> = (0..length).map(|k| 1 + (k + k / 7) % 4).collect();
        let rows = length + 60;
        let batch = Batch::new([rows.into(), 5], &[&label], &[rows], &mut rng).single();
        // The reference takes too long for thousands of states in thousands of rows.
        let results =
            if length < 1000 { batch.checked() } else { batch.on(Machine { isa: Isa::best(), threads: 1 }) };
        assert!(f32::from_bits(results.costs[0] as u32).is_finite());
        let both = results.gradients.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
        let numbers: Vec<f32> = both.map(f32::from_bits).collect();
        // Whatever the rows, each sums to nothing but the rounding of its terms.
        for row in numbers[..5 * rows as usize].chunks(5) {
            assert!(row.iter().sum::<f32>().abs() < 2e-6, "{row:?}");
        }
    }

    let batch = Batch::new([6, 100_000], &[&[99_999, 1, 5]], &[6], &mut rng);
    let (costs, gradients) = batch.doubles();
    assert!(
        costs[0].is_finite() && gradients.chunks(100_000).all(|row| row.iter().sum::<f64>().abs() < 1e-12)
    );

    // The only alignment of three equal classes in five rows passes a row where its class has the
    // probability 0.
    let mut batch = Batch::new([5, 3], &[&[1, 1, 1], &[1, 2]], &[5, 5], &mut rng).normalised();
    batch.probs[2 * 6 + 1] = 0.0;
    let (costs, gradients) = batch.doubles();
    assert_eq!(costs[0], f64::INFINITY);
    assert!(costs[1].is_finite());
    assert!((0..5).all(|t| gradients[t * 6..t * 6 + 3].iter().all(|gradient| gradient.to_bits() == 0)));
}
