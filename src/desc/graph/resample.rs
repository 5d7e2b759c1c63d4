//! Pooling and interpolation.

use super::attribute::rows;
use super::check::Check;
use crate::error::{ErrorKind, Result};

rows! {
    /// The attributes of RESAMPLE.
    SETTINGS:
    RESAMPLE_MODE 1700 [ResampleMode] One;
    RESAMPLE_COMP_TYPE 1701 [DataType] One;
    RESAMPLE_SPATIAL_DIMS 1702 [Int64] One;
    RESAMPLE_POST_PADDINGS 1703 [Int64 Fraction] Positive;
    RESAMPLE_PRE_PADDINGS 1704 [Int64 Fraction] Positive;
    RESAMPLE_STRIDES 1705 [Int64 Fraction] Positive;
    RESAMPLE_WINDOW_DIMS 1706 [Int64 Fraction] Positive;
    RESAMPLE_NAN_PROPAGATION 1707 [NanPropagation] One;
    RESAMPLE_PADDING_MODE 1708 [PaddingMode] One;
}

rows! {
    /// The attributes of OPERATION_RESAMPLE_FWD. The original does not look at the number of
    /// descriptors.
    FORWARD:
    OPERATION_RESAMPLE_FWD_XDESC 1710 [Descriptor] -> Tensor Any;
    OPERATION_RESAMPLE_FWD_YDESC 1711 [Descriptor] -> Tensor Any output();
    OPERATION_RESAMPLE_FWD_IDXDESC 1712 [Descriptor] -> Tensor Any output();
    OPERATION_RESAMPLE_FWD_ALPHA 1713 [Float Double] One;
    OPERATION_RESAMPLE_FWD_BETA 1714 [Float Double] One;
    OPERATION_RESAMPLE_FWD_DESC 1716 [Descriptor] -> Resample Any;
}

rows! {
    /// The attributes of OPERATION_RESAMPLE_BWD, of which the same is true.
    BACKWARD:
    OPERATION_RESAMPLE_BWD_DXDESC 1720 [Descriptor] -> Tensor Any output();
    OPERATION_RESAMPLE_BWD_DYDESC 1721 [Descriptor] -> Tensor Any;
    OPERATION_RESAMPLE_BWD_IDXDESC 1722 [Descriptor] -> Tensor Any;
    OPERATION_RESAMPLE_BWD_ALPHA 1723 [Float Double] One;
    OPERATION_RESAMPLE_BWD_BETA 1724 [Float Double] One;
    OPERATION_RESAMPLE_BWD_DESC 1725 [Descriptor] -> Resample Any;
    OPERATION_RESAMPLE_BWD_XDESC 1726 [Descriptor] -> Tensor Any;
    OPERATION_RESAMPLE_BWD_YDESC 1727 [Descriptor] -> Tensor Any;
}

/// The modes `CUDNN_RESAMPLE_NEAREST` and `CUDNN_RESAMPLE_BILINEAR`.
const INTERPOLATIONS: std::ops::RangeInclusive<i64> = 0..=1;

pub(super) fn check_settings(check: Check<'_>) -> Result<()> {
    let unsupported = ErrorKind::NotSupported;
    let axes = check.fields.int_or(RESAMPLE_SPATIAL_DIMS, 0);
    check.require_or((0..=3).contains(&axes), unsupported, RESAMPLE_SPATIAL_DIMS, "is 1 to 3")?;
    for attribute in [RESAMPLE_WINDOW_DIMS, RESAMPLE_STRIDES, RESAMPLE_PRE_PADDINGS, RESAMPLE_POST_PADDINGS] {
        let count = check.fields.get(attribute).map_or(0, super::object::Value::count);
        check.require_or(
            count as i64 == axes,
            unsupported,
            attribute,
            "has one value per spatial dimension",
        )?;
    }
    let interpolates = INTERPOLATIONS.contains(&check.fields.int_or(RESAMPLE_MODE, 0));
    let pairs = check.fields.fractions(RESAMPLE_WINDOW_DIMS).iter().all(|&window| window == (2, 1));
    let rule = "an interpolation has windows of 2";
    check.require_or(!interpolates || pairs, unsupported, RESAMPLE_WINDOW_DIMS, rule)
}

/// The modes `CUDNN_RESAMPLE_NEAREST` and `CUDNN_RESAMPLE_MAXPOOL`.
const NEAREST: i64 = 0;
const MAXPOOL: i64 = 3;

/// Refuses a result that is not what windows of these settings make of the data.
fn require_windows(check: Check<'_>, settings: i32, [data, result]: [i32; 2]) -> Result<()> {
    let (x, y) = (check.dims(data), check.dims(result));
    check.require(!x.is_empty(), data, "has to be set")?;
    check.require(!y.is_empty(), result, "has to be set")?;
    let Some(settings) = check.fields.object(settings) else {
        return Err(check.bad(settings, "has to be set"));
    };
    let fields = &settings.fields;
    check.require(x.len() == y.len() && x.len() >= 2, result, "data and result have as many dimensions")?;
    check.require(x[..2] == y[..2], result, "data and result have as many images and channels")?;
    let [windows, strides, before, after] =
        [RESAMPLE_WINDOW_DIMS, RESAMPLE_STRIDES, RESAMPLE_PRE_PADDINGS, RESAMPLE_POST_PADDINGS]
            .map(|attribute| fields.fractions(attribute));
    let counts = [&windows, &strides, &before, &after].map(|values| values.len() + 2);
    let axes = fields.int_or(RESAMPLE_SPATIAL_DIMS, 0);
    check.require(
        counts == [x.len(); 4] && axes + 2 == x.len() as i64,
        data,
        "has as many spatial dimensions as the settings",
    )?;
    for axis in 0..windows.len() {
        let whole =
            |(numerator, denominator): (i64, i64)| if denominator == 0 { 0 } else { numerator / denominator };
        let [window, stride, before, after] =
            [&windows, &strides, &before, &after].map(|values| whole(values[axis]));
        let room = x[axis + 2].saturating_add(before).saturating_add(after).saturating_sub(window);
        let fits = stride >= 1 && room >= 0 && y[axis + 2] == room / stride + 1;
        check.require(fits, result, "an extent is not 1 + (data + paddings - window) / stride")?;
    }
    Ok(())
}

/// Whether a port was set, and to a tensor; refuses NULL.
fn has(check: Check<'_>, port: i32) -> Result<bool> {
    let set = check.fields.has(port) && !check.fields.links(port).is_empty();
    check.require(!set || check.any_tensor(port).is_some(), port, "is NULL")?;
    Ok(set)
}

pub(super) fn check_forward(check: Check<'_>) -> Result<()> {
    let ports = [OPERATION_RESAMPLE_FWD_XDESC, OPERATION_RESAMPLE_FWD_YDESC];
    if ports.iter().all(|&port| !check.fields.has(port)) && !check.fields.has(OPERATION_RESAMPLE_FWD_DESC) {
        return Ok(());
    }
    require_windows(check, OPERATION_RESAMPLE_FWD_DESC, ports)?;
    if has(check, OPERATION_RESAMPLE_FWD_IDXDESC)? {
        let indices = OPERATION_RESAMPLE_FWD_IDXDESC;
        check.require(check.dims(indices) == check.dims(ports[1]), indices, "has the extents of y")?;
        let is_max = mode(check, OPERATION_RESAMPLE_FWD_DESC) == MAXPOOL;
        check.require(is_max, indices, "only the largest element of a window has an index")?;
    }
    Ok(())
}

fn mode(check: Check<'_>, settings: i32) -> i64 {
    check.fields.object(settings).map_or(0, |settings| settings.fields.int_or(RESAMPLE_MODE, 0))
}

pub(super) fn check_backward(check: Check<'_>) -> Result<()> {
    let [dx, dy] = [OPERATION_RESAMPLE_BWD_DXDESC, OPERATION_RESAMPLE_BWD_DYDESC];
    require_windows(check, OPERATION_RESAMPLE_BWD_DESC, [dx, dy])?;
    let [x, y] = [OPERATION_RESAMPLE_BWD_XDESC, OPERATION_RESAMPLE_BWD_YDESC];
    let (has_x, has_y, has_index) =
        (has(check, x)?, has(check, y)?, has(check, OPERATION_RESAMPLE_BWD_IDXDESC)?);
    if has_x {
        check.require(check.dims(x) == check.dims(dx), x, "has the extents of its gradient")?;
    }
    if has_y {
        check.require(check.dims(y) == check.dims(dy), y, "has the extents of its gradient")?;
    }
    let selects = [NEAREST, MAXPOOL].contains(&mode(check, OPERATION_RESAMPLE_BWD_DESC));
    let known = !selects || has_index || has_x && has_y;
    let rule = "the element that counts of a window is found by its index, or by x and y";
    check.require(known, OPERATION_RESAMPLE_BWD_IDXDESC, rule)
}
