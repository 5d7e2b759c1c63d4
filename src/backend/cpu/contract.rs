//! Contractions: convolutions and matrix products of any layout.
//!
//! ```text
//!  points.rs   where the turns of loops are     planes.rs  a windowed operand copied once, with its padding
//!  pack.rs     any operand into panels          tiles.rs   where the lanes of a tile are in the destination
//!  kernel.rs   a tile of sums in registers      simd.rs    its vector operations, per level and type
//!  engine.rs   the loops around it              finish.rs  from sums to the destination
//! ```

mod engine;
mod finish;
mod kernel;
mod pack;
mod planes;
mod points;
mod simd;
mod tiles;

use self::engine::{Desk, Engine, Operands};
use self::finish::Outputs;
use self::kernel::Kernels;
use self::pack::Part;
use self::simd::Simd;
use super::{Isa, Machine};
use crate::dtype::Scalar;
use crate::dtype::convert::Element;
use crate::error::{Error, Result};
use crate::ops::contract::{Accumulate, Contract};

/// Runs `step` with the operands at `at`, in the order of [`Contract::slots`].
///
/// # Errors
/// [`Error::Unsupported`] for sums in integers of operands that are not bytes, [`Error::HostAllocation`]; both before
/// anything is written. [`Error::Execution`] if a task panicked.
///
/// # Safety
/// Every element of dst is writable, and readable if `beta != 0`; every element of `a` inside the bounds, of `b`, of z
/// and of the bias is readable; all are aligned to their scalars. The offsets of dst are distinct, and no operand
/// overlaps it, but z, if each of its elements is the one it is added to.
pub unsafe fn run(step: &Contract, at: &[*mut u8], machine: Machine) -> Result<()> {
    if step.is_empty() {
        return Ok(());
    }
    let step = step.canonical();
    let slot = |slot: Option<usize>| slot.map_or(std::ptr::null_mut(), |slot| at[slot]);
    let outputs = Outputs { step: &step, dst: at[0], z: slot(step.z_slot()), bias: slot(step.bias_slot()) };
    let operands = Operands { a: at[1], b: at[2] };
    let bytes = |scalar| matches!(scalar, Scalar::I8 | Scalar::U8);
    if step.accumulate == Accumulate::Int32 && !(bytes(step.a) && bytes(step.b)) {
        let (a, b) = (step.a.name(), step.b.name());
        return Err(Error::unsupported(format!("sums in integers of {a} times {b}")));
    }
    let level = level(machine.isa);
    // SAFETY: the caller's promise; the level is one that the processor has.
    unsafe {
        match (step.accumulate, level) {
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Single, Level::Avx512) => go::<simd::Avx512Single>(
                outputs,
                operands,
                machine,
                &const { kernel::avx512_kernels() },
                avx512,
            ),
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Single, Level::Avx2) => {
                go::<simd::Avx2Single>(outputs, operands, machine, &const { kernel::avx2_kernels() }, avx2)
            }
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Double, Level::Avx512) => go::<simd::Avx512Double>(
                outputs,
                operands,
                machine,
                &const { kernel::avx512_kernels() },
                avx512,
            ),
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Double, Level::Avx2) => {
                go::<simd::Avx2Double>(outputs, operands, machine, &const { kernel::avx2_kernels() }, avx2)
            }
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Int32, Level::Avx512) => {
                go::<simd::Avx512Int>(outputs, operands, machine, &const { kernel::avx512_kernels() }, avx512)
            }
            #[cfg(target_arch = "x86_64")]
            (Accumulate::Int32, Level::Avx2) => {
                go::<simd::Avx2Int>(outputs, operands, machine, &const { kernel::avx2_kernels() }, avx2)
            }
            (Accumulate::Single, _) => go::<simd::PortableSingle>(
                outputs,
                operands,
                machine,
                &const { kernel::portable_kernels() },
                portable,
            ),
            (Accumulate::Double, _) => go::<simd::PortableDouble>(
                outputs,
                operands,
                machine,
                &const { kernel::portable_kernels() },
                portable,
            ),
            (Accumulate::Int32, _) => go::<simd::PortableInt>(
                outputs,
                operands,
                machine,
                &const { kernel::portable_kernels() },
                portable,
            ),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Portable,
    Avx2,
    Avx512,
}

/// The level of the kernels: AVX2 with fused multiply-add, which processors with AVX2 have but for a few.
fn level(isa: Isa) -> Level {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        return Level::Avx512;
    } else if isa.has_avx2() && is_x86_feature_detected!("fma") {
        return Level::Avx2;
    }
    Level::Portable
}

type Task<S> = unsafe fn(&Engine<'_, S>, &Desk<'_, S>, usize);

/// # Safety
/// As for [`run`], and for the kernels' level.
unsafe fn go<S: Simd<Part: Part, Sum: Element>>(
    outputs: Outputs<'_>,
    operands: Operands,
    machine: Machine,
    kernels: &'static Kernels<S>,
    task: Task<S>,
) -> Result<()> {
    let engine = Engine::new(outputs.step, outputs, operands, kernels, machine.threads);
    // SAFETY: handed on.
    unsafe { engine.run(machine.threads, task) }
}

unsafe fn portable<S: Simd<Part: Part, Sum: Element>>(
    engine: &Engine<'_, S>,
    desk: &Desk<'_, S>,
    index: usize,
) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<S: Simd<Part: Part, Sum: Element>>(engine: &Engine<'_, S>, desk: &Desk<'_, S>, index: usize) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<S: Simd<Part: Part, Sum: Element>>(
    engine: &Engine<'_, S>,
    desk: &Desk<'_, S>,
    index: usize,
) {
    // SAFETY: handed on.
    unsafe { engine.task(desk, index) }
}
