//! The kernels of contractions, in the order in which they are asked: the first that accepts a step
//! runs it, and those without fragments accept what the others leave.

use super::contract_vectors;
use super::launch::Device;
use crate::dtype::Scalar::{self, Bf16, F16, F32, I8, U8};
use crate::ops::Contract;
use crate::ops::contract::Accumulate::{self, Double, Int32, Single};
use crate::ops::contract::{Parts, Role};

/// A kernel, and the steps that it is for.
#[derive(Debug)]
pub struct Kernel {
    /// The name of its entry point.
    pub name: &'static str,
    /// Rows and columns of the tile of a block; none if each result has a thread.
    pub tile: Option<[i64; 2]>,
    /// Threads of a block.
    pub threads: u32,
    /// What it multiplies.
    pub products: Products,
    /// How a tile of an operand gets to shared memory.
    pub copy: Copies,
    /// The capabilities that have it.
    pub capability: std::ops::Range<u32>,
    /// What it sums in.
    pub accumulate: Accumulate,
    /// The kernel that adds parts of its sums; none if it takes no sums in parts.
    pub join: Option<&'static str>,
}

/// What a kernel multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// Numbers of any types, one by one.
    Scalars,
    /// Fragments of these types, on Tensor Cores.
    Fragments(Scalar, Scalar),
    /// Fragments of TF32, to which binary32 is converted where the step allows that.
    Converted,
    /// Fragments of bf16, in three of which binary32 is split where the step allows tiles.
    Split,
}

/// How a tile of an operand gets to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It does not.
    Nothing,
    /// Through registers.
    Registers,
    /// Around them, while the tile before is multiplied.
    Asynchronous,
    /// Around them, in vectors of 16 bytes and several stages ahead: along what `a` and `b` have
    /// neighbours.
    Multistage([Role; 2]),
}

/// Rows and columns of tiles.
const SMALL: Option<[i64; 2]> = Some([Parts::SIDE; 2]);
const TALL: Option<[i64; 2]> = Some([128, 64]);
const LARGE: Option<[i64; 2]> = Some([128; 2]);

/// Along what `a` and `b` lie in vectors.
const BY_TERMS: [Role; 2] = [Role::K, Role::K];
const BY_COLUMNS: [Role; 2] = [Role::K, Role::N];
const ACROSS: [Role; 2] = [Role::M, Role::N];

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// Bounds that kernels of fragments look at.
const SPATIAL: usize = 3;

const EVERY: std::ops::Range<u32> = 0..u32::MAX;

/// A kernel of a thread for each result.
const fn direct(name: &'static str, accumulate: Accumulate, join: &'static str) -> Kernel {
    let (products, copy) = (Products::Scalars, Copies::Nothing);
    let (capability, join) = (EVERY, Some(join));
    Kernel { name, tile: None, threads: THREADS, products, copy, capability, accumulate, join }
}

/// A kernel of tiles whose numbers are multiplied one by one.
const fn scalars(name: &'static str, accumulate: Accumulate, join: &'static str) -> Kernel {
    let (products, copy) = (Products::Scalars, Copies::Registers);
    let (capability, join) = (EVERY, Some(join));
    Kernel { name, tile: SMALL, threads: THREADS, products, copy, capability, accumulate, join }
}

/// A kernel of fragments, as devices from 8.0 on have them.
const fn fragments(
    name: &'static str, a: Scalar, b: Scalar, accumulate: Accumulate, join: &'static str,
) -> Kernel {
    let (products, copy) = (Products::Fragments(a, b), Copies::Asynchronous);
    let (capability, join) = (80..u32::MAX, Some(join));
    Kernel { name, tile: SMALL, threads: THREADS, products, copy, capability, accumulate, join }
}

/// A kernel of fragments whose operands come in vectors, several stages ahead. Its sums are not
/// cut; they have the bits of [`fragments`].
const fn multistage(name: &'static str, scalar: Scalar, tile: Option<[i64; 2]>, along: [Role; 2]) -> Kernel {
    let threads = match tile {
        SMALL => THREADS / 2,
        _ => THREADS,
    };
    let copy = Copies::Multistage(along);
    Kernel { tile, threads, copy, join: None, ..fragments(name, scalar, scalar, Single, JOIN) }
}

/// The same of operands that are both transposed, whose sums may be cut.
const fn gradient(name: &'static str, scalar: Scalar, tile: Option<[i64; 2]>) -> Kernel {
    Kernel { join: Some(JOIN), ..multistage(name, scalar, tile, ACROSS) }
}

impl Kernel {
    /// The same for devices of 7.5, which copy through registers.
    const fn turing(self) -> Kernel {
        Kernel { capability: 75..80, copy: Copies::Registers, ..self }
    }

    /// The same of bytes, whose sums are integers and have the same bits in any order.
    const fn of_bytes(self) -> Kernel {
        Kernel { accumulate: Int32, ..self }
    }

    /// The same of binary32 that is converted.
    const fn converted(self) -> Kernel {
        Kernel { products: Products::Converted, ..self }
    }

    /// The same of binary32 that is split, whose sums have bits of their own.
    const fn split(self) -> Kernel {
        Kernel { products: Products::Split, ..self }
    }

    /// The same with large tiles, whose sums are not cut.
    const fn large(self) -> Kernel {
        Kernel { tile: LARGE, join: None, ..self }
    }
}

const JOIN: &str = "contract_join_f32";
const JOIN_I32: &str = "contract_join_i32";

/// Kernels of large tiles stand in front of those of the same products, and those of several stages
/// in front of others.
pub const KERNELS: &[Kernel] = &[
    direct("contract_direct_f32", Single, "contract_join_direct_f32"),
    direct("contract_direct_f64", Double, "contract_join_direct_f64"),
    direct("contract_direct_i32", Int32, "contract_join_direct_i32"),
    multistage("contract_multistage_f16_128x128", F16, LARGE, BY_TERMS),
    multistage("contract_multistage_f16_128x64", F16, TALL, BY_TERMS),
    multistage("contract_multistage_f16_64x64", F16, SMALL, BY_TERMS),
    multistage("contract_multistage_f16_128x128_columns", F16, LARGE, BY_COLUMNS),
    multistage("contract_multistage_f16_128x64_columns", F16, TALL, BY_COLUMNS),
    multistage("contract_multistage_f16_64x64_columns", F16, SMALL, BY_COLUMNS),
    multistage("contract_multistage_bf16_128x128", Bf16, LARGE, BY_TERMS),
    multistage("contract_multistage_bf16_128x64", Bf16, TALL, BY_TERMS),
    multistage("contract_multistage_bf16_64x64", Bf16, SMALL, BY_TERMS),
    multistage("contract_multistage_bf16_128x128_columns", Bf16, LARGE, BY_COLUMNS),
    multistage("contract_multistage_bf16_128x64_columns", Bf16, TALL, BY_COLUMNS),
    multistage("contract_multistage_bf16_64x64_columns", Bf16, SMALL, BY_COLUMNS),
    gradient("contract_gradient_f16_128x128", F16, LARGE),
    gradient("contract_gradient_f16_128x64", F16, TALL),
    gradient("contract_gradient_f16_64x64", F16, SMALL),
    gradient("contract_gradient_bf16_128x128", Bf16, LARGE),
    gradient("contract_gradient_bf16_128x64", Bf16, TALL),
    gradient("contract_gradient_bf16_64x64", Bf16, SMALL),
    fragments("contract_mma_f16_large", F16, F16, Single, JOIN).large(),
    fragments("contract_mma_f16", F16, F16, Single, JOIN),
    fragments("contract_mma_bf16_large", Bf16, Bf16, Single, JOIN).large(),
    fragments("contract_mma_bf16", Bf16, Bf16, Single, JOIN),
    multistage("contract_multistage_tf32_128x128", F32, LARGE, BY_TERMS).converted(),
    multistage("contract_multistage_tf32_128x64", F32, TALL, BY_TERMS).converted(),
    multistage("contract_multistage_tf32_64x64", F32, SMALL, BY_TERMS).converted(),
    multistage("contract_multistage_tf32_128x128_columns", F32, LARGE, BY_COLUMNS).converted(),
    multistage("contract_multistage_tf32_128x64_columns", F32, TALL, BY_COLUMNS).converted(),
    multistage("contract_multistage_tf32_64x64_columns", F32, SMALL, BY_COLUMNS).converted(),
    gradient("contract_gradient_tf32_128x128", F32, LARGE).converted(),
    gradient("contract_gradient_tf32_128x64", F32, TALL).converted(),
    gradient("contract_gradient_tf32_64x64", F32, SMALL).converted(),
    fragments("contract_mma_tf32_large", F32, F32, Single, JOIN).converted().large(),
    fragments("contract_mma_tf32", F32, F32, Single, JOIN).converted(),
    multistage("contract_multistage_f32_128x128", F32, LARGE, BY_TERMS).split(),
    multistage("contract_multistage_f32_64x64", F32, SMALL, BY_TERMS).split(),
    multistage("contract_multistage_f32_128x128_columns", F32, LARGE, BY_COLUMNS).split(),
    multistage("contract_multistage_f32_64x64_columns", F32, SMALL, BY_COLUMNS).split(),
    gradient("contract_gradient_f32_64x64", F32, SMALL).split(),
    multistage("contract_multistage_s8_128x128", I8, LARGE, BY_TERMS).of_bytes(),
    multistage("contract_multistage_s8_128x64", I8, TALL, BY_TERMS).of_bytes(),
    multistage("contract_multistage_s8_64x64", I8, SMALL, BY_TERMS).of_bytes(),
    fragments("contract_mma_s8_large", I8, I8, Int32, JOIN_I32).large(),
    fragments("contract_mma_s8", I8, I8, Int32, JOIN_I32),
    fragments("contract_mma_u8_large", U8, U8, Int32, JOIN_I32).large(),
    fragments("contract_mma_u8", U8, U8, Int32, JOIN_I32),
    fragments("contract_mma_u8_s8_large", U8, I8, Int32, JOIN_I32).large(),
    fragments("contract_mma_u8_s8", U8, I8, Int32, JOIN_I32),
    fragments("contract_mma_s8_u8_large", I8, U8, Int32, JOIN_I32).large(),
    fragments("contract_mma_s8_u8", I8, U8, Int32, JOIN_I32),
    fragments("contract_mma75_f16_large", F16, F16, Single, JOIN).turing().large(),
    fragments("contract_mma75_f16", F16, F16, Single, JOIN).turing(),
    fragments("contract_mma75_s8_large", I8, I8, Int32, JOIN_I32).turing().large(),
    fragments("contract_mma75_s8", I8, I8, Int32, JOIN_I32).turing(),
    scalars("contract_f32_large", Single, JOIN).large(),
    scalars("contract_f32", Single, JOIN),
    scalars("contract_f64", Double, "contract_join_f64"),
    scalars("contract_i32", Int32, JOIN_I32),
];

impl Kernel {
    /// The kernel that runs a step, which is in its canonical form and whose sums are cut into
    /// these parts, on operands at these addresses of this device.
    pub(super) fn of(
        step: &Contract, parts: Option<Parts>, at: &[u64], device: Device,
    ) -> Option<&'static Kernel> {
        let query = Query {
            step,
            capability: device.capability,
            is_direct: step.wastes_tiles(),
            is_near: positions_are_near(step),
            vectors: contract_vectors::of_factors(step, parts.is_some(), at),
            parts: parts.map_or(1, |parts| parts.count),
        };
        KERNELS.iter().find(|kernel| kernel.accepts(&query))
    }

    fn accepts(&self, query: &Query<'_>) -> bool {
        let step = query.step;
        let fits_fragments = || query.is_near && step.bounds().len() <= SPATIAL;
        let multiplies = match self.products {
            Products::Scalars => true,
            Products::Fragments(a, b) => (step.a, step.b) == (a, b) && fits_fragments(),
            Products::Converted => {
                step.allow_conversion && (step.a, step.b) == (F32, F32) && fits_fragments()
            }
            Products::Split => step.allow_tiles && (step.a, step.b) == (F32, F32) && fits_fragments(),
        };
        let tiles = match self.tile {
            None => query.is_direct,
            Some(tile) => {
                let parts = if self.join.is_some() { query.parts } else { 1 };
                !query.is_direct && (self.tile == SMALL || query.fills(tile, parts))
            }
        };
        let vectors = match self.copy {
            Copies::Multistage(along) => query.vectors == Some(along),
            _ => true,
        };
        self.accumulate == step.accumulate
            && self.capability.contains(&query.capability)
            && multiplies
            && tiles
            && vectors
    }
}

/// What the choice of a kernel depends on.
struct Query<'a> {
    step: &'a Contract,
    capability: u32,
    /// Whether tiles would be mostly edges.
    is_direct: bool,
    is_near: bool,
    /// Along what `a` and `b` lie in vectors, if all operands do.
    vectors: Option<[Role; 2]>,
    /// Parts that sums are cut into, by kernels that take parts.
    parts: i64,
}

impl Query<'_> {
    /// Whether large tiles have no idle rows or columns, and are as many as keep a device busy.
    fn fills(&self, tile: [i64; 2], parts: i64) -> bool {
        self.step.fills_tiles(tile, parts) && self.is_near
    }
}

/// Whether positions fit 32 bits: those that loops outside of the sum reach, those of its own, and
/// both together.
fn positions_are_near(step: &Contract) -> bool {
    const NEAR: i64 = 1 << 30;
    let axes = step.nest.axes();
    step.bounds().iter().all(|bound| {
        let reach = |k: usize| {
            let extent = axes[usize::from(bound.axes[k])].extent - 1;
            extent.checked_mul(bound.steps[k].abs())
        };
        let far = [Some(bound.start.abs()), reach(0), reach(1), Some(bound.extent)];
        let far = far.into_iter().try_fold(0_i64, |all, one| all.checked_add(one?));
        far.is_some_and(|far| far < NEAR)
    })
}
