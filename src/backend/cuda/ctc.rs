//! Launches of CTC losses (`kernels/ctc.cu`).

use super::kind::Kind;
use super::launch::{Emit, Launch, grid};
use super::params::Params;
use super::selection::Call;
use crate::error::{Error, Result};
use crate::ops::Compute;
use crate::ops::ctc::{Ctc, LANES};

/// Threads of a block that looks at a label, or walks along the rows of a sample.
const THREADS: u32 = 256;
/// Threads of a block that computes a row.
const ROW_THREADS: u32 = 128;
/// Blocks of a launch at most; beyond, they have several rows.
const MOST_BLOCKS: u64 = 1 << 20;

// Each thread of a row is a lane of its sums.
const _: () = assert!(LANES == ROW_THREADS as usize);

/// Bits of the choices.
const SOFTMAX: u32 = 1;
const SKIPS: u32 = 2;
const GRADIENTS: u32 = 4;

/// A CTC loss: `ctc_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// The costs.
    pub costs: u64,
    /// The gradients, if there are any.
    pub gradients: u64,
    /// The input.
    pub probs: u64,
    /// Lengths of labels, lengths of inputs, labels.
    pub integers: [u64; 3],
    /// Of each sample: low and high half of the place of its first label, its length or -1.
    pub samples: [u64; 3],
    /// Of each state of a label the next one of its class.
    pub next: u64,
    /// Of each state of a label whether it is the first of its class.
    pub heads: u64,
    /// Rows of all samples.
    pub alphas: u64,
    /// Rows of all samples.
    pub betas: u64,
    /// Numbers of the softmax of each row.
    pub statistics: u64,
    /// As in [`Ctc`].
    pub rows: i64,
    /// As in [`Ctc`].
    pub frames: i64,
    /// As in [`Ctc`].
    pub count: i64,
    /// As in [`Ctc`].
    pub classes: i64,
    /// As in [`Ctc`].
    pub longest: i64,
    /// Bytes from row to row, sample to sample and class to class of probs.
    pub probs_step: [i64; 3],
    /// The same of the gradients.
    pub gradients_step: [i64; 3],
    /// Scalar type of the gradients.
    pub scalar: u32,
    /// What the call chooses.
    pub flags: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Parameters>() == 8 * 14 + 40 + 48 + 8);

impl Kind for Ctc {
    /// Hands the launches of a step to `emit`; `at` are its operands.
    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let (step, at) = (self, call.at);
        let space = step.space().ok_or_else(|| Error::unsupported("the workspace leaves 64 bits"))?;
        let place = |offset: i64| at[2].wrapping_add_signed(offset);
        let bytes = |strides: [i64; 3], size: usize| strides.map(|stride| stride * size as i64);
        let [by_label, by_input, by_class] = space.integers;
        let flags = [(step.softmax, SOFTMAX), (step.skips, SKIPS), (step.gradients.is_some(), GRADIENTS)];
        let scalar = step.compute.scalar();
        let parameters = Parameters {
            costs: at[0],
            gradients: at[1],
            probs: at[3],
            integers: [
                at[5].wrapping_add_signed(by_label),
                at[6].wrapping_add_signed(by_input),
                at[4].wrapping_add_signed(by_class),
            ],
            samples: space.samples.map(place),
            next: place(space.next),
            heads: place(space.heads),
            alphas: place(space.alphas),
            betas: place(space.betas),
            statistics: place(space.statistics),
            rows: step.rows,
            frames: step.frames,
            count: step.samples,
            classes: step.classes,
            longest: step.longest,
            probs_step: bytes(step.probs, scalar.size()),
            gradients_step: step.gradients.map_or([0; 3], |to| bytes(to.strides, to.scalar.size())),
            scalar: step.gradients.map_or(scalar, |to| to.scalar) as u32,
            flags: flags.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum(),
        };
        let params = Params::new(&parameters);
        let mut launch = |kernel, blocks: u64, threads| {
            let blocks = blocks.min(MOST_BLOCKS);
            emit(&Launch { kernel, grid: grid(blocks)?, block: [threads, 1, 1], shared: 0, params })
        };
        let of = |kernels: [&'static str; 2]| kernels[usize::from(step.compute == Compute::Double)];
        let samples = step.samples as u64;
        launch("ctc_prepare", samples, THREADS)?;
        if step.softmax && step.frames > 0 {
            let rows = samples.saturating_mul(step.frames as u64);
            launch(of(["ctc_statistics_f32", "ctc_statistics_f64"]), rows, ROW_THREADS)?;
        }
        // Alpha and beta of a sample at once.
        let walks = samples << u32::from(step.gradients.is_some());
        launch(of(["ctc_walk_f32", "ctc_walk_f64"]), walks, THREADS)?;
        if step.gradients.is_some() {
            let rows = samples.saturating_mul(step.rows as u64);
            launch(of(["ctc_gradients_f32", "ctc_gradients_f64"]), rows, ROW_THREADS)?;
        }
        Ok(())
    }
}
