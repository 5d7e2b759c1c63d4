//! The step of a CTC loss: what is computed, in which order, and where in the workspace.

use std::fmt;

use crate::dtype::Scalar;
use crate::ops::Compute;

/// Lanes of every sum over classes or states: number `i` is added to lane `i % LANES`, in order,
/// starting from +0, and the lanes are joined in halves, lane `j` with `j + LANES / 2` and so on.
pub const LANES: usize = 128;

/// The cost of each sample, and the gradient of the cost by the numbers in front of the softmax.
///
/// A sample has a label of S classes and an input of T rows. Its states are S + 1 blanks, of class
/// 0, and between them the S classes of the label; from row to row an alignment stays, goes one
/// state further, or from one class of the label to the next if the two differ. It begins in the
/// first blank or the first class and ends in the last blank or the last class. The cost is the
/// negative logarithm of the sum over all alignments of the product of `y`, the probability of the
/// state's class in each row.
///
/// Everything stays in the domain of logarithms. Numbers are of the computation type, each
/// operation rounded once. The greatest of many numbers ignores NaNs, and is +0 if it is a zero;
/// `fit(m)` is `m`, or 0 for minus infinity, so that it can be subtracted.
///
/// ```text
///  log y      log(p), or under softmax (x - m) - log(sum of exp(x - m)) with m the greatest x of the row; y = p, or exp(log y)
///  join       a and b in order: m = b > a ? b : a, l the other; sum = 1 + exp(l - fit(m))
///             and with c: m and c in order, r the other; sum = (1 + exp(l - fit(m))) + exp(r - fit(m))
///  alpha      row 0: log y in the first blank and the first class, minus infinity elsewhere
///             row t: ((m - M) + log(sum)) + log y, where m and sum join the states of row t - 1: the same, one before, two before;
///             M = fit(greatest alpha of row t - 1)
///  cost       0 - (C + (m + log(sum))), where m and sum join last blank and last class of row T - 1; C is the sum of M of all
///             rows but the last, and the cost itself, in binary64
///  beta       row T - 1: 0 in the last blank and the last class, minus infinity elsewhere
///             row t: (m - M) + log(sum), where m and sum join beta + log y of row t + 1: the same, one further, two further;
///             M = fit(greatest beta of row t + 1)
///  posterior  w = exp((alpha + beta) - fit(greatest alpha + beta of the row)) of each state; Z = (sum of the blanks' w) + (sum of the
///             classes' w), each in lanes; of the blank: its sum / Z; of a class: the sum of w of its states in their order,
///             from +0, / Z
///  gradient   y - posterior, or y of a class that the label has not; 0 throughout a row whose Z is 0
/// ```
///
/// Subtracting M in every row keeps what matters near 0, where a logarithm is exact to the last
/// place, however many rows there are; dividing by the row's own Z keeps the sum of a row's
/// gradients at 0.
///
/// A sample with more rows to align than it has (S and the number of neighbours that are equal,
/// against T), or with a class that is no label, is infeasible: its cost is plus infinity, and its
/// gradients are 0 or left as they are. Rows behind the input of any sample have the gradient 0.
///
/// Labels and lengths are data of the device, and not trusted: lengths are cut to what they may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ctc {
    /// The type of probs and costs.
    pub compute: Compute,
    /// Rows of the tensors.
    pub rows: i64,
    /// Rows of the longest input; inputs are cut to it.
    pub frames: i64,
    /// Samples of the batch.
    pub samples: i64,
    /// Classes, of which 0 is the blank.
    pub classes: i64,
    /// The longest label; labels are cut to it.
    pub longest: i64,
    /// Whether probs are taken in front of the softmax.
    pub softmax: bool,
    /// Whether gradients of infeasible samples are left as they are.
    pub skips: bool,
    /// Whether lengths of labels, lengths of inputs and labels lie one behind the other at the
    /// start of the workspace, which is the operand of each then.
    pub on_host: bool,
    /// Strides of probs along rows, samples and classes, in scalars.
    pub probs: [i64; 3],
    /// The gradients, unless only costs are wanted.
    pub gradients: Option<Gradients>,
}

/// Where gradients go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradients {
    /// Their scalar type.
    pub scalar: Scalar,
    /// As those of probs.
    pub strides: [i64; 3],
}

/// Where things lie in the workspace, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Operands of the step in their own memory, or in the workspace: lengths of labels, lengths of
    /// inputs, labels.
    pub integers: [i64; 3],
    /// A word of each sample: the low half of the place of its first label, the high half, the
    /// length of its label, or -1 if it is infeasible.
    pub samples: [i64; 3],
    /// A word of each state of a label, `longest` for each sample: the next state of the same
    /// class, or -1.
    pub next: i64,
    /// The same: whether it is the first of its class.
    pub heads: i64,
    /// `frames` rows of `longest + 1` blanks and `longest` classes for each sample.
    pub alphas: i64,
    /// As alphas.
    pub betas: i64,
    /// Under softmax, of each row of each sample: the greatest number, and the logarithm of the
    /// sum, which is 0 and left out if there is one class.
    pub statistics: i64,
    /// Bytes of all.
    pub size: i64,
}

impl Ctc {
    /// States of a row at most.
    pub const fn states(&self) -> i64 {
        2 * self.longest + 1
    }

    /// Numbers that softmax keeps of a row.
    pub const fn kept(&self) -> i64 {
        if self.classes > 1 { 2 } else { 1 }
    }

    /// The workspace, as large as the original's (observed on 9.27.0: a dozen bytes and two words a
    /// label for each sample, alpha, beta, and room for the softmax), or none if it is beyond 64
    /// bits.
    pub fn space(&self) -> Option<Space> {
        let (n, longest, e) =
            (i128::from(self.samples), i128::from(self.longest), self.compute.scalar().size() as i128);
        let mut end = 0_i128;
        let mut take = |bytes: i128| {
            end += bytes;
            end - bytes
        };
        let integers = match self.on_host {
            true => [take(4 * n), take(4 * n), take(4 * n * longest)],
            false => [0; 3],
        };
        let samples = [take(4 * n), take(4 * n), take(4 * n)];
        let (next, heads) = (take(4 * n * longest), take(4 * n * longest));
        // Counted with a scalar for each sample, of which a word is used.
        take((e - 4) * n);
        let numbers = (end + e - 1) / e * e;
        let row = n * i128::from(self.frames) * i128::from(self.states()) * e;
        let statistics = numbers + 2 * row;
        let softmax = n * i128::from(self.rows) * i128::from(self.classes) * e;
        let size = statistics + if self.softmax { softmax } else { 0 };
        i64::try_from(size).ok()?;
        let narrow = |at: i128| at as i64;
        Some(Space {
            integers: integers.map(narrow),
            samples: samples.map(narrow),
            next: narrow(next),
            heads: narrow(heads),
            alphas: narrow(numbers),
            betas: narrow(numbers + row),
            statistics: narrow(statistics),
            size: narrow(size),
        })
    }

    /// Bytes of workspace; all there are if 64 bits do not count them.
    pub fn workspace_size(&self) -> usize {
        self.space().map_or(usize::MAX, |space| space.size as usize)
    }
}

/// Types, choices, extents and strides in one line, for the log.
impl fmt::Display for Ctc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ctc { compute, rows, frames, samples, classes, longest, probs, gradients, .. } = self;
        write!(f, "ctc {}", compute.scalar().name())?;
        for (is_so, word) in [(self.softmax, "softmax"), (self.skips, "skip"), (self.on_host, "host")] {
            if is_so {
                write!(f, " {word}")?;
            }
        }
        let list = |[a, b, c]: [i64; 3]| format!("({a},{b},{c})");
        write!(f, " {frames}/{rows}x{samples}x{classes} labels={longest} probs={}", list(*probs))?;
        match gradients {
            Some(Gradients { scalar, strides }) => {
                write!(f, " gradients={}{}", scalar.name(), list(*strides))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is asked for, parts of the workspace follow one another, each with room for what it
    /// holds.
    #[test]
    fn parts_of_the_workspace_lie_apart() {
        for (samples, longest, classes) in [(1, 1, 2), (3, 5, 4), (7, 2, 1), (2, 0, 3)] {
            for (on_host, softmax, compute) in [
                (false, true, Compute::Single),
                (true, true, Compute::Double),
                (true, false, Compute::Single),
            ] {
                let (rows, frames) = (6, 4);
                let step = Ctc {
                    compute,
                    rows,
                    frames,
                    samples,
                    classes,
                    longest,
                    softmax,
                    skips: false,
                    on_host,
                    probs: [samples * classes, classes, 1],
                    gradients: None,
                };
                let space = step.space().expect("a size");
                let size = compute.scalar().size() as i64;
                let row = samples * frames * step.states() * size;
                let mut parts: Vec<(i64, i64)> = space.samples.map(|at| (at, 4 * samples)).into();
                parts.extend([(space.next, 4 * samples * longest), (space.heads, 4 * samples * longest)]);
                parts.extend([(space.alphas, row), (space.betas, row)]);
                if on_host {
                    let held = [4 * samples, 4 * samples, 4 * samples * longest];
                    parts.extend(space.integers.into_iter().zip(held));
                }
                if softmax {
                    parts.push((space.statistics, samples * rows * step.kept() * size));
                }
                parts.push((space.size, 0));
                parts.sort_unstable();
                for pair in parts.windows(2) {
                    assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{step}: {pair:?} of {space:?}");
                }
            }
        }
    }
}
