//! How elements become one: reductions, and the table of what joins two elements.

use super::NanRule;

/// How elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The smallest one.
    Min(NanRule),
    /// The largest one.
    Max(NanRule),
    /// The largest absolute value.
    Amax(NanRule),
    /// The sum over the number of elements.
    Avg,
    /// The sum of absolute values.
    Norm1,
    /// The square root of the sum of squares.
    Norm2,
    /// The product of those that are not zero; 1 if there is none.
    MulNoZeros,
}

impl Reduction {
    /// Whether one element is the result, so that its index can be told.
    pub const fn selects(self) -> bool {
        matches!(self, Reduction::Min(_) | Reduction::Max(_) | Reduction::Amax(_))
    }
}

/// The table of combiners: name, and the reductions whose elements it joins. The enumeration, the
/// match on a reduction (`with_fold!` in `backend/function.rs`) and the enumeration of the kernels
/// (`kernels/combiners.cuh`, which `tests/basics/functions.rs` writes and compares) come from it,
/// in this order.
macro_rules! combiners {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! {
            { $($arguments)* }
            /// The sum.
            Sum: Add, Avg;
            /// The sum of absolute values.
            AbsSum: Norm1;
            /// The sum of squares.
            SquareSum: Norm2;
            /// The product.
            Product: Mul;
            /// The product of what is not zero.
            ProductNoZeros: MulNoZeros;
            /// The smallest number.
            LeastNumber: Min(NanRule::Ignore);
            /// The smallest number, or a NaN.
            LeastOrNan: Min(NanRule::Propagate);
            /// The largest number.
            GreatestNumber: Max(NanRule::Ignore);
            /// The largest number, or a NaN.
            GreatestOrNan: Max(NanRule::Propagate);
            /// The largest absolute value.
            AbsGreatestNumber: Amax(NanRule::Ignore);
            /// The largest absolute value, or a NaN.
            AbsGreatestOrNan: Amax(NanRule::Propagate);
        }
    };
}
pub(crate) use combiners;

macro_rules! enumeration {
    ({} $($(#[$doc:meta])* $name:ident: $($reduction:ident $(($rule:path))?),+;)*) => {
        /// How two elements become one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Combiner {
            $($(#[$doc])* $name,)*
        }

        impl Combiner {
            /// Every combiner, in the order of its numbers.
            pub const ALL: &[Combiner] = &[$(Combiner::$name),*];
        }

        impl Reduction {
            /// How its elements are joined.
            pub const fn combiner(self) -> Combiner {
                match self {
                    $($(Reduction::$reduction $(($rule))?)|+ => Combiner::$name,)*
                }
            }
        }
    };
}
combiners!([enumeration]);
