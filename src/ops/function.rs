//! The one table of functions that are computed element by element.
//!
//! A row is a name, the operands, the parameters, what the factors of a step scale, and the
//! formula. Factors scale the `operands` before the function, or its `result`, as they do for an
//! `elementary` function, a long chain of operations. A function that may follow another operation,
//! an [activation](super::activation::Activation), also has a formula of its slope, in the operand
//! and the result y. From the table come the enumeration here, the loops of the CPU core
//! (`backend/function.rs`) and the device code (`kernels/functions.cuh`, which
//! `tests/basics/functions.rs` writes and compares). A formula is text that is valid in both
//! languages: `+ - * /`, and the functions of [`dtype::math`](crate::dtype::math) and
//! `backend/formula.rs`, whose twins are in `kernels/formula.cuh`.

/// Calls the macro `$then` with the rows.
macro_rules! functions {
    ($then:ident) => {
        $then! {
            /// The sum.
            Add (x, y) [] operands => x + y;
            /// The product.
            Mul (x, y) [] operands => x * y;
            /// The smaller one; of zeros the negative one; a NaN loses against every number.
            MinNumber (x, y) [] operands => least_number(x, y);
            /// The smaller one; of zeros the negative one; a NaN wins against every number.
            MinOrNan (x, y) [] operands => least_or_nan(x, y);
            /// The larger one; of zeros the positive one; a NaN loses against every number.
            MaxNumber (x, y) [] operands => greatest_number(x, y);
            /// The larger one; of zeros the positive one; a NaN wins against every number.
            MaxOrNan (x, y) [] operands => greatest_or_nan(x, y);
            /// The square root.
            Sqrt (x) [] operands => root(x);
            /// One less the operand.
            Not (x) [] operands => one(x) - x;
            /// The operand.
            First (x) [] operands => x;
            /// Nothing: the zero that leaves every number it is added to as it is.
            Nothing () [] operands => nothing();
            /// `1 / (1 + exp(-x))`
            Sigmoid (x) [] elementary => sigmoid(x), slope(y) y * (one(y) - y);
            /// Its gradient, from the result x.
            SigmoidGradient (x, dy) [] result => dy * (x * (one(x) - x));
            /// The hyperbolic tangent.
            Tanh (x) [] elementary => tanh(x), slope(y) one(y) - y * y;
            /// Its gradient, from the result x.
            TanhGradient (x, dy) [] result => dy * (one(x) - x * x);
            /// `max(x, 0)`; a NaN is 0.
            Relu (x) [] result => choose(greater(x, zero(x)), x, zero(x)), slope(y) choose(greater(x, zero(x)), one(y), zero(y));
            /// `max(x, 0)`; a NaN stays.
            ReluOrNan (x) [] result => choose(less_or_equal(x, zero(x)), zero(x), x), slope(y) choose(less_or_equal(x, zero(x)), zero(y), one(y));
            /// The gradient of either: 0 where x is not above 0.
            ReluGradient (x, dy) [] result => choose(greater(x, zero(x)), dy, zero(x));
            /// The same, but where x is a NaN.
            ReluOrNanGradient (x, dy) [] result => choose(less_or_equal(x, zero(x)), zero(x), dy);
            /// `min(max(x, 0), c)`; a NaN is 0.
            ClippedRelu (x) [c] result => below(choose(greater(x, zero(x)), x, zero(x)), c), slope(y) choose(greater(x, zero(x)) & less_or_equal(x, c), one(y), zero(y));
            /// `min(max(x, 0), c)`; a NaN stays.
            ClippedReluOrNan (x) [c] result => below(choose(less_or_equal(x, zero(x)), zero(x), x), c), slope(y) choose(less_or_equal(x, zero(x)) | greater(x, c), zero(y), one(y));
            /// The gradient of either: 0 where x is not above 0, or above c.
            ClippedReluGradient (x, dy) [c] result => choose(greater(x, zero(x)) & less_or_equal(x, c), dy, zero(x));
            /// The same, but where x is a NaN.
            ClippedReluOrNanGradient (x, dy) [c] result => choose(less_or_equal(x, zero(x)) | greater(x, c), zero(x), dy);
            /// `x` above 0, else `c (exp(x) - 1)`
            Elu (x) [c] elementary => choose(greater(x, zero(x)), x, c * expm1(x)), slope(y) choose(greater(x, zero(x)), one(y), y + c);
            /// Its gradient, from the result x.
            EluGradient (x, dy) [c] result => choose(greater(x, zero(x)), dy, dy * (x + c));
            /// `x / (1 + exp(-b x))`
            Swish (x) [b] elementary => x * sigmoid(b * x), slope(y) swish_slope(x, b, sigmoid(b * x));
            /// Its gradient.
            SwishGradient (x, dy) [b] elementary => dy * swish_slope(x, b, sigmoid(b * x));
            /// `log(1 + exp(x))`
            Softplus (x) [] elementary => softplus(x);
            /// The error function.
            Erf (x) [] elementary => erf(x);
            /// `e^x`
            Exp (x) [] elementary => exp(x);
            /// The natural logarithm.
            Log (x) [] elementary => log(x);
            /// `scale (x - mean) / sqrt(variance + epsilon) + bias`
            Normalise (x, mean, variance, scale, bias) [epsilon] result
                => (x - mean) * (scale / root(variance + epsilon)) + bias;
            /// `sigmoid(x) y`
            Gate (x, y) [] elementary => sigmoid(x) * y;
            /// The gradient of that by x.
            GateGradient (x, y, d) [] elementary => d * y * gate_slope(sigmoid(x));
            /// `sigmoid(x) tanh(y)`
            TanhGate (x, y) [] elementary => sigmoid(x) * tanh(y);
            /// The gradient of that by x.
            TanhGateGradient (x, y, d) [] elementary => d * tanh(y) * gate_slope(sigmoid(x));
            /// The gradient of that by y.
            GatedTanhGradient (x, y, d) [] elementary => d * sigmoid(x) * tanh_slope(tanh(y));
            /// `sigmoid(f) c + sigmoid(i) tanh(g)`: the cell state of an LSTM.
            LstmCell (i, f, g, c) [] elementary => sigmoid(f) * c + sigmoid(i) * tanh(g);
            /// `dc + dh sigmoid(o) (1 - tanh(c)^2)`: the gradient of a cell state from that of the
            /// hidden one and of the state after it.
            LstmCellGradient (o, c, dh, dc) [] elementary => dc + dh * sigmoid(o) * tanh_slope(tanh(c));
            /// `tanh(x + sigmoid(r) h)`: the new memory of a GRU.
            GruMemory (x, r, h) [] elementary => tanh(x + sigmoid(r) * h);
            /// `(1 - sigmoid(i)) n + sigmoid(i) h`: the hidden state of a GRU.
            GruState (i, n, h) [] elementary => (one(i) - sigmoid(i)) * n + sigmoid(i) * h;
            /// The gradient of that by i.
            GruGateGradient (i, n, h, d) [] elementary => d * (h - n) * gate_slope(sigmoid(i));
            /// The gradient of that by what n is the hyperbolic tangent of.
            GruMemoryGradient (i, n, d) [] elementary => d * (one(i) - sigmoid(i)) * tanh_slope(n);
            /// `x` between two bounds; a NaN is the lower one.
            ClipNumber (x, lower, upper) [] result => below(choose(greater(x, lower), x, lower), upper);
            /// `x` between two bounds; a NaN stays.
            ClipOrNan (x, lower, upper) [] result => below(choose(greater(lower, x), lower, x), upper);
            /// The gradient of either: 0 where x is not between the bounds.
            ClipGradient (x, lower, upper, d) [] result
                => choose(less_or_equal(lower, x) & less_or_equal(x, upper), d, zero(x));
            /// The quotient.
            Div (x, y) [] operands => x / y;
            /// The sum with a square.
            AddSquare (x, y) [] operands => x + y * y;
            /// What division towards zero leaves; it has the sign of x.
            Remainder (x, y) [] operands => remainder(x, y);
            /// What division towards minus infinity leaves; it has the sign of y.
            FloorRemainder (x, y) [] operands => floor_remainder(x, y);
            /// `x` to the power of `y`
            Power (x, y) [] operands => powered(x, y);
            /// The largest integer that is not above it.
            Floor (x) [] operands => floor(x);
            /// The smallest integer that is not below it.
            Ceil (x) [] operands => -floor(-x);
            /// `1 / x`
            Reciprocal (x) [] operands => one(x) / x;
            /// `1 / sqrt(x)`
            ReciprocalRoot (x) [] operands => one(x) / root(x);
            /// The sine.
            Sin (x) [] operands => sine(x);
            /// The cosine.
            Cos (x) [] operands => cosine(x);
            /// The tangent.
            Tan (x) [] operands => tangent(x);
            /// The angle of the point (y, x).
            Atan2 (x, y) [] operands => angle(x, y);
            /// 1 where they are equal, else 0.
            Equal (x, y) [] operands => choose(equal(x, y), one(x), zero(x));
            /// 0 where they are equal, else 1.
            NotEqual (x, y) [] operands => choose(equal(x, y), zero(x), one(x));
            /// 1 where x is smaller, else 0.
            Less (x, y) [] operands => choose(greater(y, x), one(x), zero(x));
            /// 1 where x is not larger, else 0; 0 for a NaN.
            LessOrEqual (x, y) [] operands => choose(less_or_equal(x, y), one(x), zero(x));
            /// 1 where neither is zero, else 0.
            And (x, y) [] operands => choose(equal(x, zero(x)) | equal(y, zero(y)), zero(x), one(x));
            /// 0 where both are zero, else 1.
            Or (x, y) [] operands => choose(equal(x, zero(x)) & equal(y, zero(y)), zero(x), one(x));
            /// 1 where it is zero, else 0.
            IsZero (x) [] operands => choose(equal(x, zero(x)), one(x), zero(x));
            /// `x` where t is not zero, else `y`.
            Select (x, y, t) [] operands => choose(equal(t, zero(t)), y, x);
            /// `x / 2 (1 + erf(x / sqrt(2)))`
            Gelu (x) [] elementary => gelu(x);
            /// Its gradient.
            GeluGradient (x, dy) [] elementary => dy * gelu_slope(x);
            /// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
            GeluTanh (x) [] elementary => gelu_tanh(x);
            /// Its gradient.
            GeluTanhGradient (x, dy) [] elementary => dy * gelu_tanh_slope(x);
            /// `x` between two bounds, with a slope below the lower one; a NaN stays.
            BoundedRelu (x, low, high, slope) [] result => choose(greater(low, x), low + slope * (x - low), below(x, high));
            /// Its gradient: that slope at the lower bound, 1 at the upper one.
            BoundedReluGradient (x, dy, low, high, slope) [] result
                => choose(greater(x, high), zero(x), choose(less_or_equal(x, low), slope * dy, dy));
            /// `e^(x - y)`
            ExpDifference (x, y) [] elementary => exp(x - y);
            /// `x a b + c`
            Affine (x, a, b, c) [] result => x * a * b + c;
            /// `(x - mean) a`
            Centred (x, mean, a) [] result => (x - mean) * a;
            /// `(d - x a - b) c`: the gradient of a normalisation, of the normalised x.
            NormBackward (d, x, a, b, c) [] result => (d - x * a - b) * c;
        }
    };
}
pub(crate) use functions;

/// What the factors of a step scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    /// The operands, before the function.
    Operands,
    /// Its result, with the first factor.
    Result,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its function.
    pub function: Function,
    /// The names of what the formula is about.
    pub operands: &'static [&'static str],
    /// The names of the numbers that a step gives it besides.
    pub parameters: &'static [&'static str],
    /// What factors scale.
    pub scaled: Scaled,
    /// Whether it is a long chain of operations.
    pub elementary: bool,
    /// The formula, as it stands in the sources.
    pub formula: &'static str,
    /// The formula of the slope, if the function may follow another operation.
    pub slope: Option<&'static str>,
}

macro_rules! enumeration {
    ($($(#[$doc:meta])* $name:ident ($($x:ident),*) [$($p:ident),*] $scaled:ident
        => $formula:expr $(, slope($y:ident) $slope:expr)?;)*) => {
        /// What is computed of the elements of up to five operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function {
            $($(#[$doc])* $name,)*
        }

        /// Every function, in the order of its numbers.
        pub const TABLE: &[Row] = &[$(Row {
            function: Function::$name,
            operands: &[$(stringify!($x)),*],
            parameters: &[$(stringify!($p)),*],
            scaled: enumeration!(@ $scaled),
            elementary: enumeration!(@elementary $scaled),
            formula: stringify!($formula),
            slope: [$(stringify!($slope),)?].as_slice().first().copied(),
        },)*];
    };
    (@ operands) => { Scaled::Operands };
    (@ result) => { Scaled::Result };
    (@ elementary) => { Scaled::Result };
    (@elementary elementary) => { true };
    (@elementary $other:ident) => { false };
}
functions!(enumeration);

impl Function {
    /// Its row.
    pub const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Whether graphs alone have it: the rows from the first of their own on. The CUDA core
    /// computes them in kernels of their own.
    pub const fn is_of_graphs(self) -> bool {
        self as u32 >= Function::Div as u32
    }

    /// How many operands it reads.
    pub const fn arity(self) -> usize {
        self.row().operands.len()
    }
}

/// The most operands that a function reads.
pub const MOST_OPERANDS: usize = 5;
/// The most parameters that a function has.
pub const MOST_PARAMETERS: usize = 1;

const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].operands.len() <= MOST_OPERANDS && TABLE[i].parameters.len() <= MOST_PARAMETERS);
        i += 1;
    }
};
