//! Element-wise operations.

use super::attribute::rows;
use super::check::Check;
use super::object::Fields;
use crate::error::Result;

rows! {
    /// The attributes of POINTWISE.
    SETTINGS:
    POINTWISE_MODE 0 [PointwiseMode] One;
    POINTWISE_MATH_PREC 1 [DataType] One;
    POINTWISE_NAN_PROPAGATION 2 [NanPropagation] One;
    POINTWISE_RELU_LOWER_CLIP 3 [Float Double] One;
    POINTWISE_RELU_UPPER_CLIP 4 [Float Double] One;
    POINTWISE_RELU_LOWER_CLIP_SLOPE 5 [Float Double] One;
    POINTWISE_ELU_ALPHA 6 [Float Double] One;
    POINTWISE_SOFTPLUS_BETA 7 [Float Double] One;
    POINTWISE_SWISH_BETA 8 [Float Double] One;
    POINTWISE_AXIS 9 [Int64] One;
}

rows! {
    /// The attributes of OPERATION_POINTWISE.
    OPERATION:
    OPERATION_POINTWISE_PW_DESCRIPTOR 750 [Descriptor] -> Pointwise One;
    OPERATION_POINTWISE_XDESC 751 [Descriptor] -> Tensor One;
    OPERATION_POINTWISE_BDESC 752 [Descriptor] -> Tensor One;
    OPERATION_POINTWISE_YDESC 753 [Descriptor] -> Tensor One output();
    OPERATION_POINTWISE_ALPHA1 754 [Float Double] One;
    OPERATION_POINTWISE_ALPHA2 755 [Float Double] One;
    OPERATION_POINTWISE_DXDESC 756 [Descriptor] -> Tensor One output();
    OPERATION_POINTWISE_DYDESC 757 [Descriptor] -> Tensor One;
    OPERATION_POINTWISE_TDESC 758 [Descriptor] -> Tensor One;
}

/// The mode `CUDNN_POINTWISE_BINARY_SELECT`.
pub const BINARY_SELECT: i64 = 601;

/// The operands of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// x
    One,
    /// x and b
    Two,
    /// x, b and t
    Three,
    /// x and dy, to dx
    Gradient,
}

impl Operands {
    /// What a mode of this number takes; unknown ones take what unary ones do.
    pub fn of(mode: i64) -> Self {
        match mode {
            0..=3 | 5..=9 | 23..=24 | 300..=305 | 400..=401 => Operands::Two,
            200..=207 => Operands::Gradient,
            BINARY_SELECT => Operands::Three,
            _ => Operands::One,
        }
    }
}

/// The mode of an operation, which is given its settings; without them it adds.
fn mode(fields: &Fields) -> i64 {
    let settings = fields.object(OPERATION_POINTWISE_PW_DESCRIPTOR);
    settings.map_or(0, |settings| settings.fields.int_or(POINTWISE_MODE, 0))
}

/// The operands of an operation.
pub(super) fn operands(fields: &Fields) -> Operands {
    Operands::of(mode(fields))
}

pub(super) fn check(check: Check<'_>) -> Result<()> {
    let mode = mode(check.fields);
    let ports: &[i32] = match Operands::of(mode) {
        Operands::One => &[OPERATION_POINTWISE_XDESC, OPERATION_POINTWISE_YDESC],
        Operands::Two => &[OPERATION_POINTWISE_XDESC, OPERATION_POINTWISE_BDESC, OPERATION_POINTWISE_YDESC],
        Operands::Three => &[
            OPERATION_POINTWISE_XDESC,
            OPERATION_POINTWISE_BDESC,
            OPERATION_POINTWISE_TDESC,
            OPERATION_POINTWISE_YDESC,
        ],
        Operands::Gradient => {
            &[OPERATION_POINTWISE_DXDESC, OPERATION_POINTWISE_DYDESC, OPERATION_POINTWISE_XDESC]
        }
    };
    let rank = check.dims(ports[0]).len();
    for &port in &ports[1..] {
        check.require(
            check.dims(port).len() == rank,
            port,
            "the tensors have as many dimensions as each other",
        )?;
    }
    if mode == BINARY_SELECT {
        check.tensor(OPERATION_POINTWISE_TDESC)?;
    }
    Ok(())
}
