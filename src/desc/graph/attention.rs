//! Attention, and the operations that it is made of.

use super::attribute::rows;
use super::check::Check;
use super::kind::Kind;
use super::object::Tensor;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of OPERATION_PAGED_CACHE_LOAD.
    PAGED_CACHE_LOAD:
    OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC 1950 [Descriptor] -> Tensor One;
    OPERATION_PAGED_CACHE_LOAD_YDESC 1951 [Descriptor] -> Tensor One output();
    OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC 1952 [Descriptor] -> Tensor One;
    OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC 1953 [Descriptor] -> Tensor One;
}

rows! {
    /// The attributes of OPERATION_SDPA_FWD.
    FORWARD:
    OPERATION_SDPA_FWD_QDESC 2800 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_KDESC 2801 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_VDESC 2802 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_ODESC 2803 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_FWD_STATSDESC 2804 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_FWD_SCALEDESC 2805 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_BLOCK_MASK_DESC 2806 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_PAGE_TABLE_KDESC 2807 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_PAGE_TABLE_VDESC 2808 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_SEQ_LEN_QDESC 2809 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_SEQ_LEN_KVDESC 2810 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_SUBGRAPH 2811 [Descriptor] -> OperationGraph One;
    OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID 2812 [Int64] One;
    OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID 2813 [Int64] One;
    OPERATION_SDPA_FWD_SOFTMAX_DESC 2814 [Descriptor] -> Softmax One;
    OPERATION_SDPA_FWD_DROPOUT_SEED_DESC 2815 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC 2816 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC 2817 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_FWD_DROPOUT_PROBABILITY 2818 [Float] One;
    OPERATION_SDPA_FWD_UNFUSE_FMA 2819 [Boolean] One;
    OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC 2820 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_CU_SEQ_LEN_KVDESC 2821 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DESCALE_QDESC 2822 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DESCALE_KDESC 2823 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DESCALE_VDESC 2824 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_DESCALE_SDESC 2825 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_SCALE_SDESC 2826 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_SCALE_ODESC 2827 [Descriptor] -> Tensor One;
    OPERATION_SDPA_FWD_AMAX_SDESC 2828 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_FWD_AMAX_ODESC 2829 [Descriptor] -> Tensor One output();
}

rows! {
    /// The attributes of OPERATION_SDPA_BWD.
    BACKWARD:
    OPERATION_SDPA_BWD_QDESC 2851 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_KDESC 2852 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_VDESC 2853 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_ODESC 2854 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_STATSDESC 2855 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_SCALEDESC 2856 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_SEQ_LEN_QDESC 2857 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_SEQ_LEN_KVDESC 2858 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_DQDESC 2859 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_BWD_DKDESC 2860 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_BWD_DVDESC 2861 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_BWD_DODDESC 2862 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_SINK_DESC 2863 [Descriptor] -> Tensor One;
    OPERATION_SDPA_BWD_DSINK_DESC 2864 [Descriptor] -> Tensor One output();
    OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_Q 2865 [Int64] One;
    OPERATION_SDPA_BWD_MAX_TOTAL_SEQ_LEN_KV 2866 [Int64] One;
    OPERATION_SDPA_BWD_SUBGRAPH 2867 [Descriptor] -> OperationGraph One;
    OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID 2868 [Int64] One;
    OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID 2869 [Int64] One;
}

rows! {
    /// The attributes of OPERATION_DIAGONAL_BAND_MASK.
    BAND_MASK:
    OPERATION_DIAGONAL_BAND_MASK_XDESC 3000 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC 3001 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC 3002 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC 3003 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC 3004 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_BDESC 3005 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_YDESC 3006 [Descriptor] -> Tensor One output();
    OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE 3007 [PointwiseMode] One mistyped(AttributeType);
    OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_KVDESC 3008 [Descriptor] -> Tensor One;
    OPERATION_DIAGONAL_BAND_MASK_CU_SEQ_LEN_QDESC 3009 [Descriptor] -> Tensor One;
}

rows! {
    /// The attributes of OPERATION_SOFTMAX.
    SOFTMAX:
    OPERATION_SOFTMAX_XDESC 3100 [Descriptor] -> Tensor One;
    OPERATION_SOFTMAX_YDESC 3101 [Descriptor] -> Tensor One output();
    OPERATION_SOFTMAX_STATS_DESC 3102 [Descriptor] -> Tensor One output();
    OPERATION_SOFTMAX_MAX_DESC 3103 [Descriptor] -> Tensor One output();
    OPERATION_SOFTMAX_SUM_EXP_DESC 3104 [Descriptor] -> Tensor One output();
    OPERATION_SOFTMAX_SINK_DESC 3105 [Descriptor] -> Tensor One;
    OPERATION_SOFTMAX_STATS_LOG2 3106 [Boolean] One mistyped(AttributeType);
}

rows! {
    /// The attributes of OPERATION_ROPE_FWD.
    ROPE_FORWARD:
    OPERATION_ROPE_FWD_XDESC 3400 [Descriptor] -> Tensor One;
    OPERATION_ROPE_FWD_YDESC 3401 [Descriptor] -> Tensor One output();
    OPERATION_ROPE_FWD_FREQSDESC 3402 [Descriptor] -> Tensor One;
    OPERATION_ROPE_FWD_OUTPUT_SCALE 3403 [Float] One;
    OPERATION_ROPE_FWD_ROPE_DIM 3404 [Int64] One;
}

rows! {
    /// The attributes of OPERATION_ROPE_BWD.
    ROPE_BACKWARD:
    OPERATION_ROPE_BWD_DYDESC 3410 [Descriptor] -> Tensor One;
    OPERATION_ROPE_BWD_DXDESC 3411 [Descriptor] -> Tensor One output();
    OPERATION_ROPE_BWD_FREQSDESC 3412 [Descriptor] -> Tensor One;
    OPERATION_ROPE_BWD_OUTPUT_SCALE 3413 [Float] One;
    OPERATION_ROPE_BWD_ROPE_DIM 3414 [Int64] One;
}

/// `cudnnDataType_t` of INT32 and INT64.
const INTEGERS: [i32; 2] = [4, 10];

/// The extents in elements of a tensor of four dimensions.
fn shape(check: Check<'_>, port: i32, tensor: &Tensor) -> Result<[i64; 4]> {
    let shape = tensor.shape();
    <[i64; 4]>::try_from(shape).map_err(|_| check.bad(port, "has four dimensions"))
}

/// Refuses other extents; a tensor that is not set, or not finalised, is not looked at.
fn require_shape(check: Check<'_>, port: i32, expected: [i64; 4]) -> Result<()> {
    let object = check.fields.object(port).filter(|object| object.is_finalised);
    let tensor = object.and_then(|object| object.tensor.as_ref());
    let fits = tensor.is_none_or(|tensor| tensor.shape() == expected);
    check.require(fits, port, &format!("has the extents {expected:?}"))
}

/// Whether a result of pages has its rows in the last dimension: `[batch, heads, width, rows]`, as
/// cudnn-frontend describes keys. Where rows and width are as many, strides tell: elements of a row
/// are closer to each other than rows are.
pub fn has_rows_last(dims: &[i64], strides: &[i64], width: i64) -> bool {
    match (dims, strides) {
        (&[_, _, first, last], &[_, _, near, far]) => first == width && (last != width || near < far),
        _ => false,
    }
}

pub(super) fn check_paged_cache_load(check: Check<'_>) -> Result<()> {
    let [container, table, sequence, y] = [
        OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC,
        OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC,
        OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC,
        OPERATION_PAGED_CACHE_LOAD_YDESC,
    ];
    let pages = check.tensor(container)?;
    let numbers = check.tensor(table)?;
    let lengths = check.tensor(sequence)?;
    let result = check.tensor(y)?;
    check.require(numbers.data_type == INTEGERS[0], table, "is INT32")?;
    check.require(INTEGERS.contains(&lengths.data_type), sequence, "is INT32 or INT64")?;
    check.require(result.data_type == pages.data_type, y, "y has the type of the container")?;
    let [_, heads, rows, width] = shape(check, container, pages)?;
    let [batch, out_heads, mut out_rows, mut out_width] = shape(check, y, result)?;
    if has_rows_last(&result.dims, &result.strides, width) {
        std::mem::swap(&mut out_rows, &mut out_width);
    }
    let fits = (out_heads, out_width) == (heads, width);
    check.require(fits, y, "y has the heads and the width of the container")?;
    check.require(lengths.dims == [batch, 1, 1, 1], sequence, "has one number per batch")?;
    let count = if rows > 0 { (out_rows + rows - 1) / rows } else { 0 };
    check.require(numbers.dims == [batch, 1, count, 1], table, "has one number per batch and page")
}

pub(super) fn check_forward(check: Check<'_>) -> Result<()> {
    let ports = [
        OPERATION_SDPA_FWD_QDESC,
        OPERATION_SDPA_FWD_KDESC,
        OPERATION_SDPA_FWD_VDESC,
        OPERATION_SDPA_FWD_ODESC,
    ];
    for port in ports {
        check.tensor_or(ErrorKind::NotFinalized, port)?;
    }
    let [q, k, v, o] = ports;
    let of = |port| shape(check, port, check.tensor(port)?);
    let ([b, heads, rows, width], [bk, hk, columns, wk]) = (of(q)?, of(k)?);
    let [bv, hv, cv, out] = of(v)?;
    // Of pages there are any number, of any number of rows.
    let tables = [OPERATION_SDPA_FWD_PAGE_TABLE_KDESC, OPERATION_SDPA_FWD_PAGE_TABLE_VDESC];
    let [paged_k, paged_v] = tables.map(|table| check.any_tensor(table).is_some());
    check.require((bk == b || paged_k) && wk == width, k, "K has the batch and the width of Q")?;
    check.require(bv == b || paged_v, v, "V has the batch of Q")?;
    check.require(cv == columns || paged_k || paged_v, v, "V has as many rows as K")?;
    check.require(hk > 0 && heads % hk == 0, k, "the heads of Q are a multiple of those of K")?;
    check.require(hv > 0 && heads % hv == 0, v, "the heads of Q are a multiple of those of V")?;
    require_shape(check, o, [b, heads, rows, out])?;
    require_shape(check, OPERATION_SDPA_FWD_STATSDESC, [b, heads, rows, 1])?;
    // Of any rank: the frontend's has one dimension.
    let scale = OPERATION_SDPA_FWD_SCALEDESC;
    let is_number = check.any_tensor(scale).is_none_or(|tensor| tensor.volume() == 1);
    check.require(is_number, scale, "has one element")?;
    let lengths = [OPERATION_SDPA_FWD_SEQ_LEN_QDESC, OPERATION_SDPA_FWD_SEQ_LEN_KVDESC];
    let [one, other] = lengths.map(|port| check.any_tensor(port).is_some());
    check.require(one == other, lengths[1], "the lengths of both sequences come together")?;
    for port in lengths {
        let fits = check.any_tensor(port).is_none_or(|tensor| INTEGERS.contains(&tensor.data_type));
        check.require(fits, port, "is INT32 or INT64")?;
        require_shape(check, port, [b, 1, 1, 1])?;
    }
    Ok(())
}

pub(super) fn check_backward(check: Check<'_>) -> Result<()> {
    for port in [
        OPERATION_SDPA_BWD_QDESC,
        OPERATION_SDPA_BWD_KDESC,
        OPERATION_SDPA_BWD_VDESC,
        OPERATION_SDPA_BWD_ODESC,
        OPERATION_SDPA_BWD_DODDESC,
        OPERATION_SDPA_BWD_STATSDESC,
        OPERATION_SDPA_BWD_DQDESC,
        OPERATION_SDPA_BWD_DKDESC,
        OPERATION_SDPA_BWD_DVDESC,
    ] {
        check.tensor_or(ErrorKind::NotFinalized, port)?;
    }
    let q = OPERATION_SDPA_BWD_QDESC;
    shape(check, q, check.tensor(q)?).map(drop)
}

pub(super) fn check_band_mask(check: Check<'_>) -> Result<()> {
    let [x, b, y] = [
        OPERATION_DIAGONAL_BAND_MASK_XDESC,
        OPERATION_DIAGONAL_BAND_MASK_BDESC,
        OPERATION_DIAGONAL_BAND_MASK_YDESC,
    ];
    for port in [x, b, y] {
        check.tensor_or(ErrorKind::NotFinalized, port)?;
    }
    let extents = shape(check, x, check.tensor(x)?)?;
    let _ = shape(check, y, check.tensor(y)?)?;
    check.require(extents.len() == check.dims(y).len(), y, "y has the dimensions of x")?;
    let left = check.any_tensor(OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC).is_some();
    let right = check.any_tensor(OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC).is_some();
    let rule = "is not given with the shifted right bound";
    check.require(!(left && right), OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC, rule)
}

pub(super) fn check_softmax(check: Check<'_>) -> Result<()> {
    let [x, y] = [OPERATION_SOFTMAX_XDESC, OPERATION_SOFTMAX_YDESC];
    for port in [x, y] {
        check.tensor_or(ErrorKind::NotFinalized, port)?;
    }
    let [b, heads, rows, columns] = shape(check, x, check.tensor(x)?)?;
    require_shape(check, y, [b, heads, rows, columns])?;
    for port in [OPERATION_SOFTMAX_STATS_DESC, OPERATION_SOFTMAX_MAX_DESC, OPERATION_SOFTMAX_SUM_EXP_DESC] {
        require_shape(check, port, [b, heads, rows, 1])?;
    }
    Ok(())
}

pub(super) fn check_rope(check: Check<'_>) -> Result<()> {
    let [x, y, freqs, dim] = match check.kind {
        Kind::RopeForward => [
            OPERATION_ROPE_FWD_XDESC,
            OPERATION_ROPE_FWD_YDESC,
            OPERATION_ROPE_FWD_FREQSDESC,
            OPERATION_ROPE_FWD_ROPE_DIM,
        ],
        _ => [
            OPERATION_ROPE_BWD_DYDESC,
            OPERATION_ROPE_BWD_DXDESC,
            OPERATION_ROPE_BWD_FREQSDESC,
            OPERATION_ROPE_BWD_ROPE_DIM,
        ],
    };
    let (from, to, angles) = (check.tensor(x)?, check.tensor(y)?, check.tensor(freqs)?);
    check.require(from.data_type == to.data_type, y, "has the type of what it is made from")?;
    check.require(from.dims == to.dims, y, "has the extents of what it is made from")?;
    let head = from.dims.last().copied().unwrap_or(0);
    let rotated = check.fields.int_or(dim, 0);
    check.require(
        rotated % 2 == 0 && (0..=head).contains(&rotated),
        dim,
        "is even, 0 to the width of a head",
    )?;
    let width = angles.dims.last().copied().unwrap_or(0);
    check.require(width >= rotated, freqs, "has one angle per rotated column at least")
}
