//! Launches for one run of elements that are neighbours in both operands (`kernels/linear.cuh`).

use super::launch::{Launch, Pointers, grid};
use super::params::{Operation, Params};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::Transform;

/// Threads of a block.
const THREADS: u64 = 256;
/// Vectors that a thread of a copy moves.
const COPY_VECTORS: u64 = 4;
/// Groups of elements that a thread of a conversion computes; one group is 16 bytes of the wider
/// type.
const GROUPS: u64 = 4;
/// The alignment of a vector.
pub(super) const VECTOR: u64 = 16;

/// One run of elements that are neighbours in both operands: `copy_*` and `convert_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Linear {
    /// Where the vectors of a copy, or the elements of a conversion, start.
    pub at: Pointers,
    /// Number of vectors of a copy, of elements of a conversion.
    pub count: u64,
    /// What a conversion computes.
    pub operation: Operation,
    /// Bytes of a copy in front of its first vector, fewer than two vectors.
    pub head: u32,
    /// Bytes of a copy behind its last vector, fewer than two vectors.
    pub tail: u32,
    /// 1 if both operands of a conversion lie on 16 bytes.
    pub vectored: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

// The same number stands in the kernels' source.
const _: () = assert!(size_of::<Linear>() == 16 + 8 + 32 + 16);

/// Where the run of a contiguous nest starts.
fn start(transform: &Transform, at: Pointers) -> Pointers {
    let [dst, src] = transform.nest.offsets;
    at.offset(dst * transform.dst.size() as i64, src * transform.src.size() as i64)
}

/// A copy, in vectors of the destination; the bytes in front of the first one and behind the last
/// are moved one by one. Where the source lies otherwise off a vector, enough of them are moved
/// that both source vectors around each vector of the destination are part of the source. Pre: a
/// move of a contiguous nest.
pub(super) fn copy(transform: &Transform, at: Pointers) -> Result<Launch> {
    let at = start(transform, at);
    let bytes = transform.nest.len() as u64 * transform.dst.size() as u64;
    let mut head = at.dst.wrapping_neg() % VECTOR;
    let off = at.src.wrapping_add(head) % VECTOR;
    let mut behind = 0;
    if off != 0 {
        behind = VECTOR - off;
        head += if head < off { VECTOR } else { 0 };
    }
    let head = head.min(bytes);
    let count = (bytes - head).saturating_sub(behind) / VECTOR;
    let params = Linear {
        at: at.offset(head as i64, head as i64),
        count,
        operation: Operation::MOVE,
        head: head as u32,
        tail: (bytes - head - count * VECTOR) as u32,
        vectored: 1,
        unused: 0,
    };
    let kernel = if off == 0 { "copy_w16" } else { "copy_shifted" };
    // Without a single vector there still are bytes.
    launch(kernel, count.div_ceil(THREADS * COPY_VECTORS).max(1), params)
}

fn launch(kernel: &'static str, blocks: u64, params: Linear) -> Result<Launch> {
    let params = Params::new(&params);
    Ok(Launch { kernel, grid: grid(blocks)?, block: [THREADS as u32, 1, 1], shared: 0, params })
}

/// The pairs with kernels of their own (`COMMON_PAIRS` in `kernels/linear.cuh`): source,
/// destination, the kernel for a run, the one for a transpose and the one for few channels.
pub(super) const COMMON_PAIRS: [(Scalar, Scalar, &str, &str, &str); 13] = [
    (Scalar::F32, Scalar::F32, "convert_f32_f32", "transpose_convert_f32_f32", "few_convert_f32_f32"),
    (Scalar::F32, Scalar::F16, "convert_f32_f16", "transpose_convert_f32_f16", "few_convert_f32_f16"),
    (Scalar::F32, Scalar::Bf16, "convert_f32_bf16", "transpose_convert_f32_bf16", "few_convert_f32_bf16"),
    (Scalar::F32, Scalar::I8, "convert_f32_s8", "transpose_convert_f32_s8", "few_convert_f32_s8"),
    (Scalar::F32, Scalar::U8, "convert_f32_u8", "transpose_convert_f32_u8", "few_convert_f32_u8"),
    (Scalar::F16, Scalar::F32, "convert_f16_f32", "transpose_convert_f16_f32", "few_convert_f16_f32"),
    (Scalar::F16, Scalar::F16, "convert_f16_f16", "transpose_convert_f16_f16", "few_convert_f16_f16"),
    (Scalar::F16, Scalar::Bf16, "convert_f16_bf16", "transpose_convert_f16_bf16", "few_convert_f16_bf16"),
    (Scalar::Bf16, Scalar::F32, "convert_bf16_f32", "transpose_convert_bf16_f32", "few_convert_bf16_f32"),
    (Scalar::Bf16, Scalar::F16, "convert_bf16_f16", "transpose_convert_bf16_f16", "few_convert_bf16_f16"),
    (Scalar::Bf16, Scalar::Bf16, "convert_bf16_bf16", "transpose_convert_bf16_bf16", "few_convert_bf16_bf16"),
    (Scalar::I8, Scalar::F32, "convert_s8_f32", "transpose_convert_s8_f32", "few_convert_s8_f32"),
    (Scalar::U8, Scalar::F32, "convert_u8_f32", "transpose_convert_u8_f32", "few_convert_u8_f32"),
];

/// The kernel for a run of this pair of types, if it has one of its own.
pub(super) fn conversion(transform: &Transform) -> Option<&'static str> {
    let pair = (transform.src, transform.dst);
    COMMON_PAIRS.iter().find(|&&(src, dst, ..)| (src, dst) == pair).map(|&(_, _, kernel, ..)| kernel)
}

/// A conversion by `kernel`. Pre: the kernel is that of the pair; the nest is contiguous.
pub(super) fn convert(transform: &Transform, at: Pointers, kernel: &'static str) -> Result<Launch> {
    let at = start(transform, at);
    let Transform { nest, dst, src, scaling } = transform;
    let count = nest.len() as u64;
    let lanes = VECTOR / dst.size().max(src.size()) as u64;
    let params = Linear {
        at,
        count,
        operation: Operation::new(*src, *dst, *scaling),
        head: 0,
        tail: 0,
        vectored: u32::from((at.dst | at.src).is_multiple_of(VECTOR)),
        unused: 0,
    };
    launch(kernel, count.div_ceil(THREADS * lanes * GROUPS), params)
}
