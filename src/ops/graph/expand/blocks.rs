//! Quantisation by blocks, on tensors of bytes: element types that are no scalar types here, and
//! scales in tiles.

use std::sync::Arc;

use super::super::{Kind, Link, Operation, Packing, Port, Tensor, Type};
use crate::dtype::DataType;
use crate::error::{Error, Result};
use crate::layout::Dims;
use crate::ops::agree;

/// `CUDNN_DATA_FP8_E8M0`, `CUDNN_DATA_FP4_E2M1` and `CUDNN_TENSOR_REORDERING_F8_128x4`
const E8M0: Type = Type::Other(15);
const E2M1: Type = Type::Other(16);
const TILED: i32 = 3;

/// Rows and columns of a tile of scales, and the rows of a quarter of it, which lie between each
/// other.
pub(in super::super) const TILE: [i64; 2] = [128, 4];
pub(in super::super) const QUARTER: i64 = 32;

/// The operation on bytes, if it is a quantisation or its inverse.
///
/// # Errors
/// Not supported: elements of half a byte that do not fill bytes; tiles of more than 3 dimensions
/// besides rows and columns.
pub(super) fn in_bytes(operation: &Operation) -> Result<Option<Operation>> {
    let (of, values) = match &operation.kind {
        Kind::Quantize(of) => (of, Port::Y),
        Kind::Dequantize(of) => (of, Port::X),
        _ => return Ok(None),
    };
    let mut own = of.clone();
    let scale = operation.read(Port::Scale).or_else(|| operation.write(Port::Scale));
    if let (Some(x), Some(scale)) = (operation.read(Port::X), scale) {
        own.block = block(&own.sizes, x, scale)?;
        own.counts = counts(&x.dims, &own.block);
    }
    let block = own.block.clone();
    let mut links = |links: &[Link]| -> Result<Vec<Link>> {
        let link = |Link { port, tensor }: &Link| {
            let is_values = *port == values;
            let (mut tensor, packing) = match tensor.data_type {
                E8M0 if *port == Port::Scale => (bytes(tensor), Packing::Powers),
                E2M1 if is_values => nibbles(tensor)?,
                _ => (Arc::clone(tensor), Packing::Plain),
            };
            if is_values {
                own.values = packing;
            } else if *port == Port::Scale {
                own.scales = packing;
                own.extents = tensor.dims.to_vec();
                if tensor.reorder == TILED {
                    (tensor, own.tiles) =
                        tiled(&tensor, &block).map(|(tensor, is_turned)| (tensor, Some(is_turned)))?;
                }
            }
            Ok(Link { port: *port, tensor })
        };
        links.iter().map(link).collect()
    };
    let (reads, writes) = (links(&operation.reads)?, links(&operation.writes)?);
    let kind = match operation.kind {
        Kind::Quantize(_) => Kind::Quantize(own),
        _ => Kind::Dequantize(own),
    };
    Ok(Some(Operation { kind, reads, writes }))
}

/// Elements of a block in each dimension. Scales may have room for more blocks than x has: tiles
/// are full, whatever x needs of them.
///
/// # Errors
/// Not supported: sizes below 1, scales with less room than x has blocks.
fn block(sizes: &[i64], x: &Tensor, scale: &Tensor) -> Result<Vec<i64>> {
    let (large, small) = (&x.dims, &scale.dims);
    let rank = large.rank();
    let misfit = || {
        let (x, scale) = (x.uid, scale.uid);
        let text = format!("scales {small} (tensor {scale}) of blocks of {sizes:?} of {large} (tensor {x})");
        Error::unsupported(text)
    };
    if small.rank() != rank || sizes.len() > rank || sizes.iter().any(|&size| size < 1) {
        return Err(misfit());
    }
    let fits = |block: &Vec<i64>| counts(large, block).iter().zip(small.iter()).all(|(n, room)| n <= room);
    let found = match *sizes {
        // Nothing says it but the extents.
        [] => {
            let divides = large.iter().zip(small.iter()).all(|(&x, &scale)| scale > 0 && x % scale == 0);
            divides.then(|| large.iter().zip(small.iter()).map(|(x, scale)| x / scale).collect())
        }
        [size] => {
            let mut is_blocked: Vec<bool> =
                large.iter().zip(small.iter()).map(|(x, room)| room < x).collect();
            if !is_blocked.contains(&true) {
                // Few enough elements for one scale each: blocks are along the scales that follow
                // each other.
                let nearest =
                    (0..rank).filter(|&axis| small[axis] > 1).min_by_key(|&axis| scale.strides[axis]);
                is_blocked[nearest.unwrap_or(rank - 1)] = true;
            }
            Some(is_blocked.into_iter().map(|is_blocked| if is_blocked { size } else { 1 }).collect())
        }
        _ => {
            let mut block = vec![1; rank - sizes.len()];
            block.extend(sizes);
            if !fits(&block) {
                // Of transposed keys the frontend gives the sizes from before.
                block[rank - sizes.len()..].reverse();
            }
            Some(block)
        }
    };
    found.filter(fits).ok_or_else(misfit)
}

/// Blocks in each dimension, of which the last one may be cut off.
fn counts(dims: &Dims, block: &[i64]) -> Vec<i64> {
    dims.iter().zip(block).map(|(dim, size)| dim / size + i64::from(dim % size != 0)).collect()
}

/// Whether the elements of a tensor are codes in bytes.
pub(super) fn is_packed(tensor: &Tensor) -> bool {
    matches!(tensor.data_type, E8M0 | E2M1)
}

/// Such a tensor as its bytes, and how its elements lie in them.
///
/// # Errors
/// Not supported: elements of half a byte that do not fill bytes.
pub(super) fn as_bytes(tensor: &Tensor) -> Result<(Arc<Tensor>, Packing)> {
    match tensor.data_type {
        E2M1 => nibbles(tensor),
        _ => Ok((bytes(tensor), Packing::Powers)),
    }
}

fn bytes(tensor: &Tensor) -> Arc<Tensor> {
    Arc::new(Tensor { data_type: DataType::Uint8.into(), ..tensor.clone() })
}

/// Two elements in each byte, the first in its lower half.
fn nibbles(tensor: &Tensor) -> Result<(Arc<Tensor>, Packing)> {
    let Tensor { mut dims, mut strides, .. } = *tensor;
    let axis = (0..dims.rank()).find(|&axis| strides[axis] == 1 && dims[axis] > 1);
    let fills = |axis: usize| {
        let others = (0..dims.rank()).filter(|&other| other != axis && dims[other] > 1);
        dims[axis] % 2 == 0 && others.into_iter().all(|other| strides[other] % 2 == 0)
    };
    let plain = tensor.vector.is_none() && tensor.ragged.is_none();
    let axis = axis.filter(|&axis| plain && fills(axis)).ok_or_else(|| {
        Error::unsupported(format!(
            "tensor {} of half bytes, {} at {}, does not fill bytes",
            tensor.uid, dims, strides
        ))
    })?;
    dims[axis] /= 2;
    strides.iter_mut().enumerate().filter(|&(other, _)| other != axis).for_each(|(_, stride)| *stride /= 2);
    Ok((bytes(&Tensor { dims, strides, ..tensor.clone() }), Packing::Nibbles { axis }))
}

/// Scales in tiles of 128 rows and 4 columns, as `[..., rows / 128, 4, 32, columns / 4, 4]`, rows
/// and columns rounded up; and whether columns come before rows in the tensor. Columns are along
/// the dimension that has blocks; where none has, along the one that its strides say.
fn tiled(tensor: &Tensor, block: &[i64]) -> Result<(Arc<Tensor>, bool)> {
    let misfit = || {
        Error::unsupported(format!("tensor {}, {} at {}, in tiles", tensor.uid, tensor.dims, tensor.strides))
    };
    let rank = tensor.dims.rank();
    let Some(outer) = rank.checked_sub(2).filter(|&outer| outer <= 3) else { return Err(misfit()) };
    let blocked = (0..rank).rfind(|&axis| block.get(axis).is_some_and(|&size| size != 1));
    let nearer = if tensor.strides[rank - 2] < tensor.strides[rank - 1] { rank - 2 } else { rank - 1 };
    let columns = blocked.unwrap_or(nearer);
    if tensor.vector.is_some() || tensor.ragged.is_some() || columns < outer {
        return Err(misfit());
    }
    let is_turned = columns == rank - 2;
    let rows = if is_turned { rank - 1 } else { rank - 2 };
    let tiles = |axis: usize, of: i64| tensor.dims[axis] / of + i64::from(tensor.dims[axis] % of != 0);
    let (down, across) = (tiles(rows, TILE[0]), tiles(columns, TILE[1]));
    let tile = TILE[0] * TILE[1];
    let own = across.checked_mul(tile).and_then(|row| down.checked_mul(row)).ok_or_else(misfit)?;
    // Batches follow each other, whole tiles each.
    let batches = Dims::new(&tensor.dims[..outer]);
    let (mut dims, mut strides) = (batches, agree::row_major(&batches));
    for stride in strides.iter_mut() {
        *stride = stride.checked_mul(own).ok_or_else(misfit)?;
    }
    let quarters = TILE[0] / QUARTER;
    let inner = [
        (down, across * tile),
        (quarters, TILE[1]),
        (QUARTER, quarters * TILE[1]),
        (across, tile),
        (TILE[1], 1),
    ];
    for (dim, stride) in inner {
        dims.push(dim);
        strides.push(stride);
    }
    Ok((Arc::new(Tensor { dims, strides, reorder: 0, ..tensor.clone() }), is_turned))
}
