//! Choices between named alternatives that C programs make by a number, counted from 0.

use crate::mode;

/// An enum whose alternatives C programs name by their position.
pub trait Choice: Copy + 'static {
    /// Every alternative; the first has the code 0.
    const ALL: &'static [Self];

    /// The number that C programs use.
    fn code(self) -> i32;

    /// The alternative of this number.
    fn from_code(code: i32) -> Option<Self> {
        usize::try_from(code).ok().and_then(|position| Self::ALL.get(position).copied())
    }
}

/// Defines an enum that is a [`Choice`]; its default is the first alternative, what a new
/// descriptor holds.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident: $(#[$first_doc:meta])* $first:ident $(, $(#[$rest_doc:meta])* $rest:ident)* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$rest_doc])* $rest,)*
        }

        impl $crate::desc::choice::Choice for $name {
            const ALL: &'static [Self] = &[Self::$first $(, Self::$rest)*];

            fn code(self) -> i32 {
                self as i32
            }
        }
    };
}
pub(crate) use choice;

choice! {
    /// What minimum, maximum and clipping make of a NaN.
    NanPropagation:
    /// A NaN loses against a number.
    Drop,
    /// A NaN stays a NaN.
    Keep,
}

choice! {
    /// Which arithmetic units a call may use.
    MathType:
    /// Whatever keeps the precision of the types.
    Standard,
    /// Tensor cores.
    TensorOp,
    /// Tensor cores, also by rounding inputs.
    TensorOpWithConversion,
    /// Fused multiply-add units only.
    Fma,
}

impl MathType {
    /// Whether sums may have the order of tile instructions: not in strict mode.
    pub fn allows_tiles(self) -> bool {
        self != MathType::Fma && mode::allows_tiles()
    }

    /// Whether binary32 operands may be rounded to a format that Tensor Cores take.
    pub fn allows_conversion(self) -> bool {
        self == MathType::TensorOpWithConversion && mode::allows_tf32()
    }
}
