//! A contraction as its kernels see it.

use super::epilogue::finish::Outputs;
use super::gemm::engine::Operands;
use crate::backend::cpu::{Machine, Panels};
use crate::ops::contract::{Contract, MAX_OPERANDS};

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
}
