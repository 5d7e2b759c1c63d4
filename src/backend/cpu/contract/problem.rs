//! A contraction as its kernels see it.

use std::ops::RangeInclusive;

use super::epilogue::generic::Outputs;
#[cfg(target_arch = "x86_64")]
use super::epilogue::narrow::NarrowEpilogue;
use super::epilogue::run::EIGHT;
use super::kernel::simd::Simd;
use super::operands::pack::{PackScalar, Source};
use super::operands::points::Loops;
use super::operands::view::View;
use crate::backend::choice::Launch;
use crate::backend::cpu::filters::CacheSlot;
use crate::backend::cpu::{FilterCache, Isa, Machine, PanelCache};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::contract::{Accumulate, Contract, MAX_OPERANDS, Role};

/// N for which AVX2 tiles waste fewer lanes: 24 = 3 ymm; the AVX-512 half tile is 32 wide. Below 8
/// neither fills a vector.
const FEW_FILTERS: RangeInclusive<i64> = 8..=24;

/// Phases of a stride up to which they are no lanes.
const MAX_STRIDE_PHASES: i64 = 8;

/// A kernel that has accepted a problem.
pub(super) trait Ready {
    /// Runs the contraction.
    ///
    /// # Safety
    /// As for [`super::run`]; the processor has the instructions that the problem names.
    unsafe fn run(self, threads: usize) -> Result<()>;
}

/// A kernel that there may have been no memory for.
impl<K: Ready> Ready for Result<K> {
    unsafe fn run(self, threads: usize) -> Result<()> {
        // SAFETY: the operands are those of the contraction, as the trait asks for.
        unsafe { self?.run(threads) }
    }
}

/// A canonical contraction, and what it runs on.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) outputs: Outputs<'a>,
    a: *const u8,
    b: *const u8,
    pub(super) isa: Isa,
    /// Whether F(2x2, 3x3) may be taken.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        expect(dead_code, reason = "no other kernel asks")
    )]
    pub(super) transformed: bool,
    pub(super) threads: usize,
    /// Where `b` is kept in panels, if it is.
    pub(super) panels: Option<&'a PanelCache>,
    /// Where `b` stays packed from call to call, if it does.
    pub(super) filters: Option<&'a FilterCache>,
}

impl<'a> Problem<'a> {
    /// A step with `a` and `b` at `operands`, and the others where they are among `at`.
    pub(super) fn new(
        step: &'a Contract, at: &[*mut u8], [a, b]: [*const u8; 2], transformed: bool, machine: Machine,
        panels: Option<&'a PanelCache>,
    ) -> Self {
        let isa = machine.isa;
        let outputs = Outputs::of(step, at, isa);
        Problem { outputs, a, b, isa, transformed, threads: machine.threads, panels, filters: None }
    }

    /// A step that is asked about, and not run: which kernels accept it depends on no address.
    pub(super) fn without_data(step: &'a Contract, transformed: bool, machine: Machine) -> Self {
        let nowhere = [std::ptr::null_mut(); MAX_OPERANDS];
        Problem::new(step, &nowhere, [std::ptr::null(); 2], transformed, machine, None)
    }

    /// The same for the kernels of single channels, which have few products for every element that
    /// they read and write: of binary32 they take vectors of AVX2, whose paths keep sums in
    /// registers, and are no slower than a longer vector would be.
    pub(super) fn of_single_channels(mut self) -> Self {
        if self.is_single() {
            self.isa = self.isa.at_most_avx2();
        }
        self
    }

    /// The same where channels are side by side, also of results of fewer bits.
    pub(super) fn of_interleaved_channels(self) -> Self {
        let problem = self.of_single_channels();
        #[cfg(target_arch = "x86_64")]
        if problem.outputs.step.a == Scalar::F32
            && problem.outputs.narrow.as_ref().is_some_and(NarrowEpilogue::ends_channels)
        {
            return Problem { isa: problem.isa.at_most_avx2(), ..problem };
        }
        problem
    }

    /// The same for the kernels of matrices: where a pixel has so few filters that vectors of
    /// AVX-512 would leave most of a tile without use, those of AVX2.
    pub(super) fn of_few_filters(mut self) -> Self {
        let step = self.step();
        if self.is_single() && !lanes_are_m(step) && FEW_FILTERS.contains(&step.extent(Role::N)) {
            self.isa = self.isa.at_most_avx2();
        }
        self
    }

    /// The contraction.
    pub(super) fn step(&self) -> &'a Contract {
        self.outputs.step
    }

    /// What kernels that read parts of `S` see of the operands.
    pub(super) fn view<S: Simd<Scalar: PackScalar>>(&self) -> View<'a> {
        let step = self.step();
        let [a, b] = self.sources::<S>(step);
        View { a, b, batch: Loops::of(step, Role::Batch), origin: step.nest.offsets }
    }

    /// The factors of a step on the same operands as packing for `S` sees them.
    pub(super) fn sources<S: Simd<Scalar: PackScalar>>(&self, step: &'a Contract) -> [Source<'a>; 2] {
        let of = |slot, data| Source::of(step, slot, data, <S::Scalar as PackScalar>::SCALAR, self.isa);
        [of(1, self.a), of(2, self.b)]
    }

    /// Where a kernel keeps `b` from call to call, if it may.
    pub(super) fn room(&self, kernel: &'static str) -> Option<CacheSlot<'a>> {
        self.filters.map(|filters| CacheSlot::new(filters, self.step(), self.b, self.isa, kernel))
    }

    /// The factors of a step on the same operands, which are packed with the bits that they have.
    pub(super) fn sources_as_they_are(&self, step: &'a Contract) -> [Source<'a>; 2] {
        let of = |slot, data, scalar| Source::of(step, slot, data, Some(scalar), self.isa);
        [of(1, self.a, step.a), of(2, self.b, step.b)]
    }

    /// The factors if both are binary32 without bounds, and summed so.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(super) fn plain_singles(&self) -> Option<[*const f32; 2]> {
        let step = self.step();
        let single = step.accumulate == Accumulate::Single && [step.a, step.b] == [Scalar::F32; 2];
        (single && step.bounds().is_empty()).then(|| [self.a, self.b].map(<*const u8>::cast))
    }

    /// A kernel that has accepted the problem, if it has, ready to run it.
    pub(super) fn launch(&self, kernel: Option<impl Ready + 'a>) -> Option<Launch<'a>> {
        let (kernel, threads) = (kernel?, self.threads);
        // SAFETY: a launch runs while the operands are what the step needs, on the processor that
        // it was made for.
        Some(Launch::new(move || unsafe { kernel.run(threads) }))
    }

    /// Whether operands, sums and results are binary32, with a simple epilogue.
    fn is_single(&self) -> bool {
        self.outputs.f32_epilogue.is_some() && self.outputs.step.a == Scalar::F32
    }
}

/// Whether the rows of `a` are lanes of the kernels: those along which the destination is
/// contiguous, or all but for the phases of a stride.
pub(super) fn lanes_are_m(step: &Contract) -> bool {
    let fast = |role| step.loops(role).any(|(_, axis)| axis.strides[0] == 1);
    fast(Role::M) || !fast(Role::N) || has_stride_phases(step)
}

/// Whether the nearest columns are a few phases of a stride, beside which a row's neighbour goes
/// on. They are channels in a block where they fill a vector of AVX2 and the sum goes along
/// neighbours, too: a pixel's channels.
fn has_stride_phases(step: &Contract) -> bool {
    let [m, n, k] = [Role::M, Role::N, Role::K].map(|role| step.loops(role).last());
    let (Some((_, m)), Some((_, n))) = (m, n) else { return false };
    let is_bound = |index: usize| step.bounds().iter().any(|bound| bound.axes.contains(&(index as u8)));
    let is_block =
        || n.extent == EIGHT as i64 && k.is_some_and(|(index, k)| k.strides[1] == 1 && !is_bound(index));
    // Of bytes these are channels in blocks.
    let floats = step.accumulate != Accumulate::Int32;
    let near = step.loops(Role::N).count() > 1 && n.extent <= MAX_STRIDE_PHASES && n.extent <= m.strides[0];
    floats && near && !is_block()
}
