//! CTC loss on the CPU: a sample per task, its rows one after the other, blanks and classes of the
//! label apart.
//!
//! Forwards, every row of alpha goes to the workspace, and the row's numbers for the states'
//! classes to where other cores keep beta; backwards, beta lives in scratch, and each row's
//! gradient is written as soon as both are known.

mod kernels;

use self::kernels::{Kernels, fit, join};
use super::kind::{Call, Kind};
use super::scratch::Parts;
use super::strided::copy_strided;
use super::{Machine, row, threads};
use crate::backend::Address;
use crate::backend::function::{Real, with_real};
use crate::dtype::math::log;
use crate::error::{Error, Result};
use crate::ops::Scaling;
use crate::ops::ctc::{Ctc, Space};

impl Kind for Ctc {
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (step, at, machine) = (self, call.at, call.machine);
        with_real!(step.compute, T => {
            let space = step.space().ok_or_else(|| Error::unsupported("the workspace leaves 64 bits"))?;
            let job = Job { step, at, space, kernels: Kernels::<T>::of(machine.isa), machine };
            let numbers = step.rows * step.samples * (step.classes + 8 * step.states());
            let threads = machine.threads_for((numbers as usize).saturating_mul(size_of::<T>()));
            threads::in_ranges(threads, step.samples as usize, job.scratch(), &|scratch, range| {
                // SAFETY: the scratch has this size, and each sample has its own part of the
                // operands.
                unsafe {
                    let mut rows = Rows::<T>::new(step, scratch);
                    let length = |n: usize| job.length(n as i64);
                    let mut first: i64 = (0..range.start).map(length).sum();
                    for n in range {
                        job.sample(n as i64, first, &mut rows);
                        first += length(n);
                    }
                }
            })
        })
    }
}

/// A step on its operands.
struct Job<'a, T: 'static> {
    step: &'a Ctc,
    at: &'a [Address],
    space: Space,
    kernels: Kernels<T>,
    machine: Machine,
}

/// The rows of one sample in a thread's scratch.
struct Rows<'a, T> {
    /// A row of probs, and of gradients.
    x: &'a mut [T],
    y: &'a mut [T],
    /// Elements of a row of gradients on their way to places that are apart.
    cells: &'a mut [u64],
    /// The classes of the label.
    labels: &'a mut [i32],
    /// The same in order, each with its place.
    order: &'a mut [u64],
    /// 0 where an alignment may go from the class before to this one, else minus infinity; in front
    /// of the first and behind the last it may not.
    skip: &'a mut [T],
    /// Logarithms of the classes' probabilities.
    own: &'a mut [T],
    /// Blanks.
    blanks: [&'a mut [T]; 2],
    /// Classes, with one in front of them or behind that no alignment meets.
    classes: [&'a mut [T]; 2],
}

impl<'a, T: Real> Rows<'a, T> {
    /// # Safety
    /// `scratch` has as many bytes as [`Job::scratch`] says, which nobody else uses.
    unsafe fn new(step: &Ctc, scratch: *mut u8) -> Self {
        // SAFETY: the scratch is as large as `Job::scratch` says.
        unsafe { Rows::cut(step, &mut Parts::new(scratch)) }
    }

    /// # Safety
    /// As [`new`](Self::new).
    unsafe fn cut(step: &Ctc, parts: &mut Parts) -> Self {
        let [alphabet, cells, length] = Self::extents(step);
        let nothing = T::INFINITY.negative();
        // SAFETY: the scratch has room for these parts, which `extents` counts.
        unsafe {
            Rows {
                x: parts.filled(alphabet, T::ZERO),
                y: parts.filled(alphabet, T::ZERO),
                cells: parts.filled(cells, 0),
                labels: parts.filled(length, 0),
                order: parts.filled(length, 0),
                skip: parts.filled(length + 1, nothing),
                own: parts.filled(length, nothing),
                blanks: std::array::from_fn(|_| parts.filled(length + 1, nothing)),
                classes: std::array::from_fn(|_| parts.filled(length + 2, nothing)),
            }
        }
    }

    /// Numbers of a row, cells of a row of gradients that lie apart, classes of a label.
    fn extents(step: &Ctc) -> [usize; 3] {
        let is_apart = step.gradients.is_some_and(|gradients| gradients.strides[2] != 1);
        [step.classes as usize, if is_apart { step.classes as usize } else { 0 }, step.longest as usize]
    }

    fn bytes(step: &Ctc) -> usize {
        let [alphabet, cells, length] = Self::extents(step);
        let mut parts = Parts::new(std::ptr::null_mut());
        (0..2).for_each(|_| _ = parts.take::<T>(alphabet));
        parts.take::<u64>(cells);
        parts.take::<i32>(length);
        parts.take::<u64>(length);
        parts.take::<T>(length);
        (0..3).for_each(|_| _ = parts.take::<T>(length + 1));
        (0..2).for_each(|_| _ = parts.take::<T>(length + 2));
        parts.bytes
    }
}

impl<T: Real> Job<'_, T> {
    fn scratch(&self) -> usize {
        Rows::<T>::bytes(self.step)
    }

    /// # Safety
    /// The operand has this integer.
    unsafe fn integer(&self, operand: usize, which: usize, number: i64) -> i32 {
        let base = self.at[operand].pointer().wrapping_offset(self.space.integers[which] as isize);
        // SAFETY: the operand has this integer.
        unsafe { base.cast::<i32>().offset(number as isize).read() }
    }

    /// Classes of a sample's label.
    ///
    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn length(&self, n: i64) -> i64 {
        // SAFETY: a length for each sample.
        i64::from(unsafe { self.integer(5, 0, n) }).clamp(0, self.step.longest)
    }

    /// Where the rows of a sample begin in one of the areas of the workspace, `width` numbers each.
    fn kept(&self, area: i64, n: i64, t: usize, width: i64) -> *mut T {
        let number = (n * self.step.frames + t as i64) * width;
        self.at[2].pointer().wrapping_offset(area as isize).cast::<T>().wrapping_offset(number as isize)
    }

    /// # Safety
    /// As for [`Kind::run`]; the row is one of probs.
    unsafe fn read(&self, n: i64, t: usize, x: &mut [T]) {
        let [by_row, by_sample, by_class] = self.step.probs;
        let from =
            self.at[3].pointer().cast::<T>().wrapping_offset((t as i64 * by_row + n * by_sample) as isize);
        let size = size_of::<T>() as isize;
        // SAFETY: elements of probs, and room for them.
        unsafe {
            copy_strided(
                size as usize,
                x.as_mut_ptr().cast(),
                size,
                from.cast(),
                by_class as isize * size,
                x.len(),
            );
        }
    }

    /// # Safety
    /// As for [`Kind::run`]; the row is one of the gradients.
    unsafe fn write(&self, n: i64, t: i64, y: &[T], cells: &mut [u64]) {
        let Some(to) = self.step.gradients else { return };
        let narrow = row::between(T::SCALAR, to.scalar, Scaling::MOVE, self.machine.isa);
        let size = to.scalar.size() as isize;
        let place =
            self.at[1].pointer().wrapping_offset((t * to.strides[0] + n * to.strides[1]) as isize * size);
        // SAFETY: elements of the gradients; where they lie apart there are cells for them.
        unsafe {
            if to.strides[2] == 1 {
                return narrow(place, y.as_ptr().cast(), y.len(), Scaling::MOVE);
            }
            let cells = cells.as_mut_ptr().cast::<u8>();
            narrow(cells, y.as_ptr().cast(), y.len(), Scaling::MOVE);
            copy_strided(size as usize, place, to.strides[2] as isize * size, cells, size, y.len());
        }
    }

    /// Runs a sample whose labels begin at number `first`.
    ///
    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn sample(&self, n: i64, first: i64, rows: &mut Rows<'_, T>) {
        let step = self.step;
        // SAFETY: integers, rows and a cost of the sample.
        unsafe {
            let length = self.length(n) as usize;
            let frames = i64::from(self.integer(6, 1, n)).clamp(0, step.frames) as usize;
            rows.y.fill(T::ZERO);
            (frames as i64..step.rows).for_each(|t| self.write(n, t, rows.y, rows.cells));
            for k in 0..length {
                rows.labels[k] = self.integer(4, 2, first + k as i64);
            }
            let labels = &rows.labels[..length];
            let equal = labels.windows(2).filter(|pair| pair[0] == pair[1]).count();
            let are_labels = labels.iter().all(|&class| (1..step.classes).contains(&i64::from(class)));
            let is_feasible = are_labels && length + equal <= frames;
            let cost = match frames {
                _ if !is_feasible => T::INFINITY,
                0 => T::ZERO,
                _ => self.forward(n, length, frames, rows),
            };
            self.at[0].pointer().cast::<T>().offset(n as isize).write(cost);
            if step.gradients.is_none() {
                return;
            }
            if is_feasible {
                self.backward(n, length, frames, rows);
            } else if !step.skips {
                (0..frames as i64).for_each(|t| self.write(n, t, rows.y, rows.cells));
            }
        }
    }

    /// Alpha of all rows, to the workspace, and the cost.
    ///
    /// # Safety
    /// As for [`Kind::run`]; the sample is feasible and has rows.
    unsafe fn forward(&self, n: i64, length: usize, frames: usize, rows: &mut Rows<'_, T>) -> T {
        let Kernels { greatest, exponentials, logits, logs, blanks, classes, .. } = self.kernels;
        let (nothing, keeps) = (T::INFINITY.negative(), self.step.gradients.is_some());
        let Rows { x, labels, skip, own, blanks: [blank, next_blank], classes: [class, next_class], .. } =
            rows;
        let (labels, own) = (&labels[..length], &mut own[..length]);
        skip.fill(nothing);
        for (k, pair) in labels.windows(2).enumerate() {
            skip[k + 1] = if pair[0] == pair[1] { nothing } else { T::ZERO };
        }
        blank.fill(nothing);
        class.fill(nothing);
        next_class.fill(nothing);
        let mut subtracted = 0.0;
        for t in 0..frames {
            // SAFETY: a row of probs, and of the areas in the workspace; the machine has the
            // kernels' instructions.
            unsafe {
                self.read(n, t, x);
                own.iter_mut().zip(labels).for_each(|(own, &class)| *own = x[class as usize]);
                let mut of_blank = [x[0]];
                if self.step.softmax {
                    let m = greatest(x);
                    let all = log(exponentials(x, m));
                    let kept = self.kept(self.space.statistics, n, t, self.step.kept());
                    kept.write(m);
                    if self.step.kept() > 1 {
                        kept.add(1).write(all);
                    }
                    logits(own, m, all);
                    logits(&mut of_blank, m, all);
                } else {
                    logs(own);
                    logs(&mut of_blank);
                }
                if t == 0 {
                    blank[0] = of_blank[0];
                    if length > 0 {
                        class[1] = own[0];
                    }
                } else {
                    let most = of_both(greatest(&blank[..=length]), greatest(&class[1..=length]));
                    subtracted += most.to_f64();
                    blanks(&mut next_blank[..=length], blank, class, most, of_blank[0]);
                    let states = [&class[1..], &blank[..], &class[..]];
                    classes(&mut next_class[1..=length], states, skip, most, own);
                    std::mem::swap(blank, next_blank);
                    std::mem::swap(class, next_class);
                }
                if keeps {
                    self.keep(self.space.alphas, n, t, &blank[..=length], &class[1..=length]);
                    self.keep(self.space.betas, n, t, &of_blank, own);
                }
            }
        }
        let (m, more) = join(blank[length], class[length]);
        T::from_f64(0.0 - (subtracted + (m + more).to_f64())).canonical()
    }

    /// Writes blanks and classes of a row to an area of the workspace.
    ///
    /// # Safety
    /// As for [`Kind::run`].
    unsafe fn keep(&self, area: i64, n: i64, t: usize, blanks: &[T], classes: &[T]) {
        let to = self.kept(area, n, t, self.step.states());
        // SAFETY: a row holds as many states.
        unsafe {
            to.copy_from_nonoverlapping(blanks.as_ptr(), blanks.len());
            to.add(blanks.len()).copy_from_nonoverlapping(classes.as_ptr(), classes.len());
        }
    }

    /// Reads what [`keep`](Self::keep) wrote.
    ///
    /// # Safety
    /// As for [`keep`](Self::keep), which has written as many.
    unsafe fn recall(&self, area: i64, n: i64, t: usize, blanks: &mut [T], classes: &mut [T]) {
        let from = self.kept(area, n, t, self.step.states()).cast_const();
        // SAFETY: the row that was written.
        unsafe {
            blanks.as_mut_ptr().copy_from_nonoverlapping(from, blanks.len());
            classes.as_mut_ptr().copy_from_nonoverlapping(from.add(blanks.len()), classes.len());
        }
    }

    /// Beta from the last row to the first, and the gradient of each.
    ///
    /// # Safety
    /// As for [`forward`](Self::forward), which has run.
    unsafe fn backward(&self, n: i64, length: usize, frames: usize, rows: &mut Rows<'_, T>) {
        let Kernels { greatest, sums, raised, blanks, classes, .. } = self.kernels;
        let nothing = T::INFINITY.negative();
        for (k, (order, &class)) in rows.order.iter_mut().zip(&rows.labels[..length]).enumerate() {
            *order = (class as u64) << 32 | k as u64;
        }
        rows.order[..length].sort_unstable();
        for k in 0..2 {
            rows.blanks[k].fill(nothing);
            rows.classes[k].fill(nothing);
        }
        let mut of_blank = [T::ZERO];
        for t in (0..frames).rev() {
            // SAFETY: rows of the workspace that were written; the machine has the kernels'
            // instructions.
            unsafe {
                if t + 1 == frames {
                    rows.blanks[0][length] = T::ZERO;
                    if length > 0 {
                        rows.classes[0][length - 1] = T::ZERO;
                    }
                } else {
                    // From the row behind, of which the logarithms are still there.
                    let [beta, weighted] = &mut rows.blanks;
                    let [class, weighted_class] = &mut rows.classes;
                    let own = &mut rows.own[..length];
                    let most = of_both(greatest(&beta[..=length]), greatest(&class[..length]));
                    raised(&mut weighted[..=length], beta, of_blank[0]);
                    sums(&mut weighted_class[..length], class, own);
                    weighted_class[length] = nothing;
                    blanks(&mut beta[..=length], weighted, weighted_class, most, T::ZERO);
                    // Beta has none of its own row.
                    own.fill(T::ZERO);
                    let states = [&weighted_class[..], &weighted[1..], &weighted_class[1..]];
                    classes(&mut class[..length], states, &rows.skip[1..], most, own);
                }
                self.recall(self.space.betas, n, t, &mut of_blank, &mut rows.own[..length]);
                self.gradient(n, length, t, rows);
            }
        }
    }

    /// The gradient of a row, of which beta is known.
    ///
    /// # Safety
    /// As for [`backward`](Self::backward).
    unsafe fn gradient(&self, n: i64, length: usize, t: usize, rows: &mut Rows<'_, T>) {
        let Kernels { greatest_sum, weights, total, shares, .. } = self.kernels;
        let [beta, blanks] = &mut rows.blanks;
        let [beta_of_class, classes] = &mut rows.classes;
        let (beta, blanks) = (&beta[..=length], &mut blanks[..=length]);
        let (beta_of_class, classes) = (&beta_of_class[..length], &mut classes[..length]);
        let (x, y) = (&mut *rows.x, &mut *rows.y);
        // SAFETY: rows of the tensors and of the workspace; the machine has the kernels'
        // instructions.
        unsafe {
            self.recall(self.space.alphas, n, t, blanks, classes);
            let most = of_both(greatest_sum(blanks, beta), greatest_sum(classes, beta_of_class));
            weights(blanks, beta, most);
            weights(classes, beta_of_class, most);
            let of_blank = total(blanks);
            let all = of_blank + total(classes);
            if all == T::ZERO {
                y.fill(T::ZERO);
                return self.write(n, t as i64, y, rows.cells);
            }
            self.read(n, t, x);
            if self.step.softmax {
                let kept = self.kept(self.space.statistics, n, t, self.step.kept());
                let all = if self.step.kept() > 1 { kept.add(1).read() } else { T::ZERO };
                shares(y, x, kept.read(), all);
            } else {
                y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = x.canonical());
            }
            y[0] = (y[0] - of_blank / all).canonical();
            for states in rows.order[..length].chunk_by(|a, b| a >> 32 == b >> 32) {
                let class = (states[0] >> 32) as usize;
                let weight = |&state: &u64| classes[state as u32 as usize];
                let of_class = states.iter().map(weight).fold(T::ZERO, |sum, weight| sum + weight);
                y[class] = (y[class] - of_class / all).canonical();
            }
            self.write(n, t as i64, y, rows.cells);
        }
    }
}

/// What is subtracted from states of which blanks and classes have these greatest ones.
fn of_both<T: Real>(blanks: T, classes: T) -> T {
    fit(if classes > blanks { classes } else { blanks })
}
