//! Launches of functions that are computed element by element.

mod activation;
mod formula;
pub(super) mod op;
mod vectors;

use super::kind::{self, Kind};
use super::launch::Emit;
use super::selection::{self, Call, Kernels};
use crate::error::Result;
use crate::ops::Map;

/// Of any number of operands.
struct Table<const N: usize>;

impl<const N: usize> Table<N> {
    const KERNELS: &'static [Kernels<Map<N>>] = &[
        Kernels {
            name: "op_ordered",
            when: "the functions of OpTensor where elements of the destination share addresses: one thread",
            launch: op::ordered,
        },
        Kernels { name: "*formula_ordered", when: "all such maps: one thread", launch: formula::ordered },
        Kernels {
            name: "activation_*",
            when: "activations and their gradients along one run on 16 bytes, without factors: the function and the type are the kernel's",
            launch: activation::runs,
        },
        Kernels {
            name: "op_run_*",
            when: "sums, products, minima and maxima of binary32, binary16 or bfloat16 in vectors of 16 bytes, also of an operand that repeats along them",
            launch: op::runs,
        },
        Kernels {
            name: "*formula_run",
            when: "all other functions of one or two operands of the destination's type, in vectors of 16 bytes",
            launch: formula::runs,
        },
        Kernels {
            name: "op_*",
            when: "the functions of OpTensor with operands of one type: element by element",
            launch: op::strided,
        },
        Kernels { name: "*formula_*", when: "all maps: element by element", launch: formula::strided },
    ];
}

/// The table of maps of `N` operands, destination included.
pub(super) fn kernels<const N: usize>() -> &'static [Kernels<Map<N>>] {
    Table::<N>::KERNELS
}

impl<const N: usize> Kind for Map<N> {
    fn names() -> Vec<&'static str> {
        kind::names(kernels::<N>())
    }

    fn launches(&self, call: Call<'_>, emit: Emit<'_>) -> Result<()> {
        let query = &call.of(self);
        if query.step.nest.is_empty() {
            return Ok(());
        }
        selection::launch(kernels(), query, emit)
    }
}
