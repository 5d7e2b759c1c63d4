//! A contraction as its kernels see it.

use super::epilogue::finish::Outputs;
use super::gemm::engine::{Operands, lanes_are_m};
use crate::backend::cpu::{Machine, Panels};
use crate::dtype::Scalar;
use crate::ops::contract::{Contract, MAX_OPERANDS, Role};

/// Filters up to which tiles of AVX2 are the better ones: 24 are three of its vectors, and half a tile of AVX-512 has 32 lanes.
const FEW_FILTERS: i64 = 24;

/// A canonical contraction, and what it runs on.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Problem<'a> {
    pub(super) outputs: Outputs<'a>,
    pub(super) operands: Operands,
    /// Whether F(2x2, 3x3) may be taken.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no other kernel asks"))]
    pub(super) transformed: bool,
    pub(super) threads: usize,
    /// Where `b` is kept in panels, if it is.
    pub(super) panels: Option<&'a Panels>,
}

impl<'a> Problem<'a> {
    /// A step with `a` and `b` at `operands`, and the others where they are among `at`.
    pub(super) fn new(
        step: &'a Contract, at: &[*mut u8], [a, b]: [*const u8; 2], transformed: bool, machine: Machine,
        panels: Option<&'a Panels>,
    ) -> Self {
        let isa = machine.isa;
        let (outputs, operands) = (Outputs::of(step, at, isa), Operands { a, b, isa });
        Problem { outputs, operands, transformed, threads: machine.threads, panels }
    }

    /// A step that is asked about, and not run: which kernels accept it depends on no address.
    pub(super) fn without_data(step: &'a Contract, transformed: bool, machine: Machine) -> Self {
        let nowhere = [std::ptr::null_mut(); MAX_OPERANDS];
        Problem::new(step, &nowhere, [std::ptr::null(); 2], transformed, machine, None)
    }

    /// The same for the kernels of single channels, which have few products for every element that they read and write: of binary32 they
    /// take vectors of AVX2, whose paths keep sums in registers, and are no slower than a longer vector would be.
    pub(super) fn of_single_channels(mut self) -> Self {
        if self.is_single() {
            self.operands.isa = self.operands.isa.at_most_avx2();
        }
        self
    }

    /// The same for the kernels of matrices: where a pixel has so few filters that vectors of AVX-512 would leave most of a tile without
    /// use, those of AVX2.
    pub(super) fn of_few_filters(mut self) -> Self {
        let step = self.outputs.step;
        if self.is_single() && !lanes_are_m(step) && step.extent(Role::N) <= FEW_FILTERS {
            self.operands.isa = self.operands.isa.at_most_avx2();
        }
        self
    }

    /// Whether operands, sums and results are binary32, with a simple epilogue.
    fn is_single(&self) -> bool {
        self.outputs.simple.is_some() && self.outputs.step.a == Scalar::F32
    }
}
