//! The obvious loops of [`Ctc`]: all states of a row in one list, blanks and classes in turn, and
//! every row kept.

use super::Kind;
use super::{load, store};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::math::{exp, log};
use crate::error::Result;
use crate::ops::ctc::{Ctc, LANES};
use crate::ops::{Scaling, Words};

/// Runs `step`.
///
/// # Safety
/// As many words as the step has are writable at `dst`.
pub unsafe fn words(step: &Words, dst: *mut u8) {
    for (k, &word) in step.0.iter().enumerate() {
        // SAFETY: `dst` has room for all words of the step.
        unsafe { dst.cast::<u32>().add(k).write(word) };
    }
}

/// Runs `step`; `at` are costs, gradients, workspace, probs, labels, their lengths, and the lengths
/// of inputs.
///
/// # Safety
/// A cost for each sample and every element of the gradients, if there are any, are writable, every
/// element of probs, a length of either kind for each sample and every class of the labels are
/// readable; all addresses are aligned.
pub unsafe fn ctc(step: &Ctc, at: &[Address]) {
    with_real!(step.compute, T => {
        let loops = Loops { step, at };
        let mut first = 0;
        for n in 0..step.samples {
            // SAFETY: every operand has the elements of each sample.
            unsafe { first += loops.sample::<T>(n, first) };
        }
    });
}

/// A step on its operands.
struct Loops<'a> {
    step: &'a Ctc,
    at: &'a [Address],
}

/// One sample: the class of every state, and the logarithms of probabilities by row and class.
struct Sample<T> {
    states: Vec<i32>,
    logs: Vec<Vec<T>>,
}

/// Subtracts like a number, also where there is nothing.
fn fit<T: Real>(m: T) -> T {
    if m == minus_infinity() { T::ZERO } else { m }
}

fn minus_infinity<T: Real>() -> T {
    T::INFINITY.negative()
}

fn greatest<T: Real>(numbers: impl IntoIterator<Item = T>) -> T {
    numbers.into_iter().fold(minus_infinity(), |most, x| if x > most { x } else { most }) + T::ZERO
}

/// The greatest, and the logarithm of how many times as much all are together.
fn join<T: Real>(a: T, b: T, c: Option<T>) -> (T, T) {
    let in_order = |a: T, b: T| if b > a { (b, a) } else { (a, b) };
    let (mut m, l) = in_order(a, b);
    let mut other = None;
    if let Some(c) = c {
        let (most, rest) = in_order(m, c);
        (m, other) = (most, Some(rest));
    }
    let mut sum = T::ONE + exp(l - fit(m));
    if let Some(rest) = other {
        sum = sum + exp(rest - fit(m));
    }
    (m, log(sum))
}

fn in_lanes<T: Real>(numbers: impl Iterator<Item = T>) -> T {
    let mut lanes = [T::ZERO; LANES];
    numbers.enumerate().for_each(|(i, x)| lanes[i % LANES] = lanes[i % LANES] + x);
    let mut half = LANES / 2;
    while half > 0 {
        (0..half).for_each(|j| lanes[j] = lanes[j] + lanes[j + half]);
        half /= 2;
    }
    lanes[0]
}

impl<T: Real> Sample<T> {
    /// The states that an alignment may come from, of those one, and two, earlier or later.
    fn neighbours(&self, s: usize, row: &[T], forwards: bool) -> (T, T) {
        let states = self.states.len();
        let state = |distance: usize| {
            if forwards { s.checked_sub(distance) } else { Some(s + distance).filter(|&to| to < states) }
        };
        let skipped = |to: &usize| self.states[*to] != 0 && self.states[*to] != self.states[s];
        let value = |to: Option<usize>| to.map_or(minus_infinity(), |to| row[to]);
        (value(state(1)), value(state(2).filter(skipped)))
    }

    fn joined(&self, row: &[T], s: usize, forwards: bool) -> (T, T) {
        let (one, two) = self.neighbours(s, row, forwards);
        join(row[s], one, (self.states[s] != 0).then_some(two))
    }

    /// Alpha of all rows, and what was subtracted in them.
    fn alphas(&self) -> (Vec<Vec<T>>, f64) {
        let mut rows: Vec<Vec<T>> = Vec::new();
        let mut subtracted = 0.0;
        for logs in &self.logs {
            let row = (0..self.states.len()).map(|s| {
                let own = logs[self.states[s] as usize];
                let Some(before) = rows.last() else {
                    return if s < 2 { own } else { minus_infinity() };
                };
                let (m, more) = self.joined(before, s, true);
                ((m - fit(greatest(before.iter().copied()))) + more) + own
            });
            let row: Vec<T> = row.collect();
            if let Some(before) = rows.last() {
                subtracted += fit(greatest(before.iter().copied())).to_f64();
            }
            rows.push(row);
        }
        (rows, subtracted)
    }

    fn betas(&self) -> Vec<Vec<T>> {
        let states = self.states.len();
        let last = |s: usize| if s + 2 >= states { T::ZERO } else { minus_infinity() };
        let mut rows = vec![(0..states).map(last).collect::<Vec<T>>()];
        for logs in self.logs.iter().skip(1).rev() {
            let further = &rows[rows.len() - 1];
            let most = fit(greatest(further.iter().copied()));
            let weighted: Vec<T> = (0..states).map(|s| further[s] + logs[self.states[s] as usize]).collect();
            let row = (0..states).map(|s| {
                let (m, more) = self.joined(&weighted, s, false);
                (m - most) + more
            });
            let row = row.collect();
            rows.push(row);
        }
        rows.reverse();
        rows
    }

    fn cost(&self, last: &[T], subtracted: f64) -> T {
        let states = self.states.len();
        let class = if states > 1 { last[states - 2] } else { minus_infinity() };
        let (m, more) = join(last[states - 1], class, None);
        T::from_f64(0.0 - (subtracted + (m + more).to_f64()))
    }
}

impl Loops<'_> {
    /// An integer of an operand.
    ///
    /// # Safety
    /// It is one of the operand's.
    unsafe fn integer(&self, operand: usize, number: i64) -> i32 {
        let base = self.step.space().map_or(0, |space| space.integers[[2, 0, 1][operand - 4]]);
        // SAFETY: the operand has an integer of this number.
        unsafe {
            self.at[operand].pointer().offset(base as isize).cast::<i32>().offset(number as isize).read()
        }
    }

    /// # Safety
    /// The row is one of probs.
    unsafe fn row<T: Real>(&self, n: i64, t: i64) -> Vec<T> {
        let [by_row, by_sample, by_class] = self.step.probs;
        let number = |k: i64| {
            let offset = t * by_row + n * by_sample + k * by_class;
            // SAFETY: an element of probs.
            unsafe { load::<T>(T::SCALAR, self.at[3].pointer(), offset) }
        };
        (0..self.step.classes).map(number).collect()
    }

    /// # Safety
    /// The row is one of the gradients.
    unsafe fn put<T: Real>(&self, n: i64, t: i64, numbers: impl Iterator<Item = T>) {
        let Some(to) = self.step.gradients else { return };
        for (k, x) in (0_i64..).zip(numbers) {
            let offset = t * to.strides[0] + n * to.strides[1] + k * to.strides[2];
            // SAFETY: an element of the gradients.
            unsafe { store(to.scalar, self.at[1].pointer(), offset, x.canonical(), Scaling::MOVE) };
        }
    }

    /// Runs a sample whose labels begin at number `first`, and returns how many it has.
    ///
    /// # Safety
    /// As for [`ctc`].
    unsafe fn sample<T: Real>(&self, n: i64, first: i64) -> i64 {
        let step = self.step;
        // SAFETY: lengths and labels are those of the sample, rows ones of the tensors, and the
        // sample has a cost.
        unsafe {
            let length = i64::from(self.integer(5, n)).clamp(0, step.longest);
            let frames = i64::from(self.integer(6, n)).clamp(0, step.frames);
            let labels: Vec<i32> = (0..length).map(|k| self.integer(4, first + k)).collect();
            let zeros = || (0..step.classes).map(|_| T::ZERO);
            (frames..step.rows).for_each(|t| self.put(n, t, zeros()));
            let equal = labels.windows(2).filter(|pair| pair[0] == pair[1]).count() as i64;
            let are_labels = labels.iter().all(|&class| (1..step.classes).contains(&i64::from(class)));
            let costs = self.at[0].pointer().cast::<T>().offset(n as isize);
            if !are_labels || length + equal > frames {
                costs.write(T::INFINITY);
                if !step.skips {
                    (0..frames).for_each(|t| self.put(n, t, zeros()));
                }
                return length;
            }
            if frames == 0 {
                costs.write(T::ZERO);
                return length;
            }
            let mut states = vec![0];
            labels.iter().for_each(|&class| states.extend([class, 0]));
            let (mut ys, mut logs) = (Vec::new(), Vec::new());
            for t in 0..frames {
                let row = self.row::<T>(n, t);
                let in_logs: Vec<T> = if step.softmax {
                    let most = greatest(row.iter().copied());
                    let all = log(in_lanes(row.iter().map(|&x| exp(x - most))));
                    row.iter().map(|&x| (x - most) - all).collect()
                } else {
                    row.iter().map(|&p| log(p)).collect()
                };
                ys.push(if step.softmax { in_logs.iter().map(|&x| exp(x)).collect() } else { row });
                logs.push(in_logs);
            }
            let sample = Sample { states, logs };
            let (alphas, subtracted) = sample.alphas();
            costs.write(sample.cost(&alphas[alphas.len() - 1], subtracted).canonical());
            if step.gradients.is_none() {
                return length;
            }
            for (t, ((alpha, beta), y)) in alphas.iter().zip(sample.betas()).zip(ys).enumerate() {
                let both: Vec<T> = alpha.iter().zip(beta).map(|(&a, b)| a + b).collect();
                let most = fit(greatest(both.iter().copied()));
                let weights: Vec<T> = both.iter().map(|&x| exp(x - most)).collect();
                let blanks = in_lanes(weights.iter().copied().step_by(2));
                let all = blanks + in_lanes(weights.iter().copied().skip(1).step_by(2));
                let gradient = |(class, &y): (usize, &T)| {
                    let is_here = |s: &usize| sample.states[*s] == class as i32;
                    let of_class = (0..weights.len()).filter(is_here).map(|s| weights[s]);
                    match class {
                        _ if all == T::ZERO => T::ZERO,
                        0 => y - blanks / all,
                        _ if !labels.contains(&(class as i32)) => y,
                        _ => y - of_class.fold(T::ZERO, |sum, w| sum + w) / all,
                    }
                };
                self.put(n, t as i64, y.iter().enumerate().map(gradient).collect::<Vec<T>>().into_iter());
            }
            length
        }
    }
}

impl Kind for Ctc {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { ctc(self, at) };
        Ok(())
    }
}

impl Kind for Words {
    unsafe fn run(&self, at: &[Address]) -> Result<()> {
        // SAFETY: the operands are those of the step.
        unsafe { words(self, at[0].pointer()) };
        Ok(())
    }
}
