//! Quantisation by blocks.

use super::attribute::rows;
use super::check::Check;
use super::object::Tensor;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of OPERATION_BLOCK_SCALE_QUANTIZE.
    QUANTIZE:
    OPERATION_BLOCK_SCALE_QUANTIZE_XDESC 2500 [Descriptor] -> Tensor One;
    OPERATION_BLOCK_SCALE_QUANTIZE_YDESC 2501 [Descriptor] -> Tensor One output();
    OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC 2502 [Descriptor] -> Tensor One output();
    OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC 2503 [DataType] One;
    OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE 2504 [Int32] One;
}

rows! {
    /// The attributes of OPERATION_BLOCK_SCALE_DEQUANTIZE.
    DEQUANTIZE:
    OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC 2600 [Descriptor] -> Tensor One;
    OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC 2601 [Descriptor] -> Tensor One;
    OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC 2602 [Descriptor] -> Tensor One output();
    OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC 2603 [DataType] One;
    OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE 2604 [Int32] Pair;
    OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE 2605 [Boolean] One;
}

/// `CUDNN_TENSOR_REORDERING_F8_128x4`
const REORDERED: i64 = 3;

/// The three tensors, which have to be finalised.
fn tensors<'a>(check: Check<'a>, ports: [i32; 3]) -> Result<[&'a Tensor; 3]> {
    let [x, scale, y] = ports;
    let status = ErrorKind::NotFinalized;
    Ok([check.tensor_or(status, x)?, check.tensor_or(status, scale)?, check.tensor_or(status, y)?])
}

pub(super) fn check_quantize(check: Check<'_>) -> Result<()> {
    let ports = [
        OPERATION_BLOCK_SCALE_QUANTIZE_XDESC,
        OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC,
        OPERATION_BLOCK_SCALE_QUANTIZE_YDESC,
    ];
    let [x, scale, y] = tensors(check, ports)?;
    for (port, tensor) in [(ports[1], scale), (ports[2], y)] {
        let rule = "has as many dimensions as x";
        check.require_or(tensor.rank() == x.rank(), ErrorKind::ShapeMismatch, port, rule)?;
    }
    let fits = x.rank() != 3 || scale.reordering == REORDERED;
    let rule = "the scales of three dimensions have CUDNN_TENSOR_REORDERING_F8_128x4";
    check.require_or(fits, ErrorKind::AttributeType, ports[1], rule)
}

pub(super) fn check_dequantize(check: Check<'_>) -> Result<()> {
    let ports = [
        OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC,
        OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC,
        OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC,
    ];
    let [x, scale, y] = tensors(check, ports)?;
    let rule = "has as many dimensions as x";
    check.require_or(y.rank() == x.rank(), ErrorKind::ShapeMismatch, ports[2], rule)?;
    // Scales in tiles have room for whole ones, whatever x needs of them.
    let is_tiled = scale.reordering == REORDERED;
    let blocks = x.dims.iter().zip(&scale.dims).all(|(&x, &scale)| is_tiled || scale > 0 && x % scale == 0);
    let rule = "every extent of the scales divides that of x, but with CUDNN_TENSOR_REORDERING_F8_128x4";
    check.require_or(blocks, ErrorKind::AttributeType, ports[1], rule)
}
