//! Bits of sums: at every level but the portable one they are one chain of fused multiply-adds,
//! whatever the processor.

use cudnn::backend::{self, Address, Isa, Machine};
use cudnn::dtype::Scalar;
use cudnn::ops::contract::{Accumulate, Terms};
use cudnn::ops::{Contract, Scaling, Step};

use testkit::random::Rng;
use testkit::tensor::{Tensor, each};

#[test]
fn sums_of_gemm_are_chains_of_fused_multiply_adds() {
    let mut rng = Rng(53);
    for case in 0..12 {
        let (scalar, accumulate) =
            [(Scalar::F32, Accumulate::Single), (Scalar::F64, Accumulate::Double)][case % 2];
        // Within one block of the sum; tiles that are whole, half and cut.
        let [m, n, k] = [13, 50, 90].map(|most| most - rng.below(12) as i64);
        let mut matrix = |rows: i64, columns: i64| {
            Tensor::packed(&[1, rows, columns], &[0, 1, 2], scalar).fill(|| rng.real() * (1.0 + rng.real()))
        };
        let (dst, mut a, mut b) = (matrix(m, n), matrix(m, k), matrix(k, n));
        let terms = Terms::scaled(Scaling::MOVE);
        let step = Contract::matmul(dst.side(), a.side(), b.side(), accumulate, &terms).unwrap();
        let chain = |i: i64, j: i64| {
            let factors = (0..k).map(|l| [a.get(&[0, i, l]), b.get(&[0, l, j])]);
            match scalar {
                Scalar::F32 => {
                    f64::from(factors.fold(0.0, |sum: f32, [a, b]| (a as f32).mul_add(b as f32, sum)))
                }
                _ => factors.fold(0.0, |sum: f64, [a, b]| a.mul_add(b, sum)),
            }
        };
        let mut want = dst.clone();
        each(&[1, m, n], |at| want.set(at, chain(at[1], at[2])));
        let sources = [a.base(), b.base()];
        for isa in Isa::available().filter(|isa| *isa != Isa::PORTABLE) {
            let mut got = dst.clone();
            let at = [got.base(), sources[0], sources[1]].map(Address::from);
            // SAFETY: the memory of the tensors holds all their elements.
            let outcome =
                unsafe { backend::run_by("gemm", Step::Contract(&step), &at, Machine { isa, threads: 1 }) };
            outcome.unwrap();
            assert!(got.same_bytes(&want), "case {case} on {isa:?}: {step}");
        }
    }
}
