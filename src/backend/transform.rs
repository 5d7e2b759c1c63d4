//! The kernels of transforms.

use super::choice::{self, Kernel};
use super::cpu::kind::{self, Call, Kind, Table};
use super::cpu::shape::Shape;
use super::cpu::{self, Machine};
use super::{Operands, reference};
use crate::error::Result;
use crate::ops::{Transform, TransformPlan};

/// How a kernel runs a transform that it has accepted. Unsafe as [`Kind::run`] is.
type Run = unsafe fn(&Shape, Operands, Machine) -> Result<()>;

/// How a kernel runs a transform, if it accepts it.
type Accept = fn(&Shape) -> Option<Run>;

/// The kernels; the first one that accepts a transform runs it, the last ones accept all.
const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "copy",
        when: "both operands contiguous, bits kept",
        accept: |shape| cpu::copy::accepts(shape).then_some(cpu::copy::run),
    },
    Kernel {
        name: "repeat",
        when: "sources that repeat along a contiguous destination: one cell (the bias of NCHW), or one short row again and again (the bias of \
               NHWC)",
        accept: |shape| cpu::repeat::accepts(shape).then_some(cpu::repeat::run),
    },
    Kernel {
        name: "transform_rows",
        when: "contiguous runs inside a nest of other loops, any pair of types",
        accept: |shape| cpu::short_rows::accepts(shape).then_some(cpu::short_rows::run),
    },
    Kernel {
        name: "interleave",
        when: "few channels: up to 8 planes joined into packed pixels, and split again; of narrow cells some more",
        accept: |shape| cpu::interleave::accepts(shape).then_some(cpu::interleave::run),
    },
    Kernel {
        name: "transpose",
        when: "operands contiguous along different loops",
        accept: |shape| cpu::transpose::accepts(shape).then_some(cpu::transpose::run),
    },
    Kernel {
        name: "transform_strided",
        when: "all transforms: one loop at a time, with whatever strides it has",
        accept: |shape| cpu::strided::accepts(shape).then_some(cpu::strided::run),
    },
    Kernel {
        name: "reference",
        when: "all transforms: the obvious loop, for tests",
        accept: |_| Some(by_reference),
    },
];

/// The reference loop as a kernel.
///
/// # Safety
/// As for [`Kind::run`].
unsafe fn by_reference(shape: &Shape, operands: Operands, _: Machine) -> Result<()> {
    // SAFETY: every offset pair of the nest is a readable cell at `src` and a writable one at
    // `dst`.
    unsafe { reference::transform(shape.transform, operands) };
    Ok(())
}

impl Kind for Transform {
    fn table() -> Table {
        kind::rows(KERNELS)
    }

    /// Of a transform that should be canonical.
    fn kernels(&self, _machine: Machine) -> Vec<&'static str> {
        Shape::with(self, |shape| choice::names(KERNELS, |accept| accept(shape)))
    }

    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        if self.nest.is_empty() {
            return Ok(());
        }
        Shape::with(self, |shape| {
            let (_, run) = call.choice.of(KERNELS, |accept| accept(shape))?;
            // SAFETY: the nest's cells are there on either side, and the kernel accepts the
            // transform.
            unsafe { run(shape, call.operands(), call.machine) }
        })
    }
}

/// Of several parts, which are transforms, padded blocks and zeros.
impl Kind for TransformPlan<'_> {
    fn is_modest(&self, _machine: Machine) -> bool {
        true
    }

    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        // SAFETY: the operands are those of every part.
        self.for_each(&mut |part| unsafe { super::run(part, call.at, false, call.machine) })
    }
}

/// Runs `transform` on `machine`, with the first kernel that accepts it.
///
/// # Errors
/// As for [`super::run`].
///
/// # Safety
/// As for [`super::run`].
pub unsafe fn run_transform(transform: &Transform, operands: Operands, machine: Machine) -> Result<()> {
    // SAFETY: every offset pair of the nest is a readable cell at `src` and a writable one at
    // `dst`.
    unsafe { transform.run(&Call::new(&operands.addresses(), machine)) }
}
