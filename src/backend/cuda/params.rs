//! How parameters get to a kernel, and what the parameter structs of several families are made of.
//! Each family declares its own struct beside its launches and in its kernels' source; both sides
//! assert the size.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

use crate::dtype::Scalar;
use crate::dtype::convert::{Class, Element, computes_in_f64, with_element};
use crate::ops::Scaling;
use crate::ops::activation::Activation;
use crate::ops::function::Function;

/// Division by a number that is known before the launch, as a multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    /// The number itself, at least 1.
    pub divisor: u64,
    /// `floor(2^b * (2^shift - divisor) / divisor) + 1`, where `b` is the width of the kernel's
    /// index, 32 or 64.
    pub multiplier: u64,
    /// `ceil(log2(divisor))`.
    pub shift: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

impl Divisor {
    /// The divisor for dividends below `2^(b - 1)` with `b` the width of `index`. Pre:
    /// `1 <= divisor < 2^(b - 1)`.
    pub fn new(divisor: i64, index: Index) -> Self {
        debug_assert!(divisor >= 1);
        let divisor = divisor as u64;
        let shift = divisor.next_power_of_two().trailing_zeros();
        let scale = match index {
            Index::I32 => 1_u128 << 32,
            Index::I64 => 1_u128 << 64,
        };
        let multiplier = scale * ((1_u128 << shift) - u128::from(divisor)) / u128::from(divisor) + 1;
        // At most `scale`, and equal to it for no divisor: 2^shift < 2 * divisor.
        Divisor { divisor, multiplier: multiplier as u64, shift, unused: 0 }
    }

    pub(super) const ONE: Divisor = Divisor { divisor: 1, multiplier: 1, shift: 0, unused: 0 };
}

/// The integers a kernel computes offsets with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Counts below 2^31, and byte offsets that fit 32 bits with their sign.
    I32,
    /// Everything.
    I64,
}

/// How one element is computed: types, wide type and factors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Operation {
    alpha: f64,
    beta: f64,
    src: u32,
    dst: u32,
    via: u32,
    steps: u32,
}

/// The type by which values travel. The numbers are those of `kernels/params.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Via {
    /// None: the bits are moved.
    Move = 0,
    /// binary32.
    F32 = 1,
    /// binary64.
    F64 = 2,
    /// 64-bit integers.
    I64 = 3,
}

/// Alpha is multiplied in.
const SCALED: u32 = 1;
/// The old destination is read, multiplied by beta and added.
const BLENDED: u32 = 2;

impl Operation {
    /// A move; what the types are does not matter.
    pub const MOVE: Operation =
        Operation { alpha: 1.0, beta: 0.0, src: 0, dst: 0, via: Via::Move as u32, steps: 0 };

    /// `dst = convert(alpha * src + beta * dst)`, by the rules of [`crate::dtype::convert`].
    pub fn new(src: Scalar, dst: Scalar, scaling: Scaling) -> Self {
        let (from, to) = (class(src), class(dst));
        let via = match () {
            () if !scaling.is_move() => {
                if computes_in_f64(from, to) {
                    Via::F64
                } else {
                    Via::F32
                }
            }
            () if src == dst => Via::Move,
            () if from == Class::Long || (from.is_integer() && to.is_integer()) => Via::I64,
            () if from.fits_f32() => Via::F32,
            () => Via::F64,
        };
        let blended = if scaling.beta == 0.0 { 0 } else { BLENDED };
        let steps = if scaling.is_move() { 0 } else { SCALED | blended };
        let Scaling { alpha, beta } = scaling;
        Operation { alpha, beta, src: src as u32, dst: dst as u32, via: via as u32, steps }
    }

    /// Whether the bits move as they are, so that only the width of an element counts.
    pub fn is_move(&self) -> bool {
        self.via == Via::Move as u32
    }

    /// `dst = convert(beta * dst)`, zero without reading it if beta is 0.
    pub fn fill(dst: Scalar, beta: f64) -> Self {
        Operation::new(dst, dst, Scaling { alpha: 0.0, beta })
    }
}

fn class(scalar: Scalar) -> Class {
    with_element!(scalar, T => T::CLASS)
}

/// One loop over two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Loop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes the destination moves per iteration.
    pub dst: i64,
    /// Bytes the source moves per iteration.
    pub src: i64,
}

impl Loop {
    /// A loop of one iteration.
    pub const ONCE: Loop = Loop { extent: Divisor::ONE, dst: 0, src: 0 };
}

/// One loop over three operands, the first of which is the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OperandLoop {
    /// Its iterations.
    pub extent: Divisor,
    /// Bytes that each operand moves per iteration; of a reduction's third one, places among the
    /// indices.
    pub step: [i64; 3],
}

impl OperandLoop {
    /// A loop of one iteration.
    pub const ONCE: OperandLoop = OperandLoop { extent: Divisor::ONE, step: [0; 3] };
}

/// What follows another operation, as its kernels want it: the number of the function, which the
/// identity has too, its parameter, and whether it is computed apart.
pub(super) fn numbered(activation: Option<Activation>) -> (u32, f64, bool) {
    match activation {
        None => (Function::First as u32, 0.0, false),
        Some(activation) => (activation.function as u32, activation.parameter, !activation.has_mask()),
    }
}

/// The most bytes that a kernel's parameters can have.
pub const MAX_PARAMETER: usize = 4096;

/// The one parameter of a kernel, by value: any `#[repr(C)]` struct that the kernel's source
/// declares, too.
///
/// It lives on the stack for the length of a launch: boxing would cost more than the spare bytes.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub struct Params {
    bytes: [MaybeUninit<u8>; MAX_PARAMETER],
    size: usize,
}

impl Params {
    /// A copy of `params`.
    pub fn new<P: Copy>(params: &P) -> Params {
        const {
            assert!(size_of::<P>() <= MAX_PARAMETER, "a kernel takes no more than 4 KiB");
            assert!(size_of::<P>().is_multiple_of(8), "both sides are to agree on the size without padding");
            assert!(align_of::<P>() <= align_of::<Params>());
        }
        let mut bytes = [MaybeUninit::uninit(); MAX_PARAMETER];
        // SAFETY: a `Copy` value of that many bytes, to a place of its own that holds them.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(params).cast(), bytes.as_mut_ptr(), size_of::<P>()) };
        Params { bytes, size: size_of::<P>() }
    }

    /// Address of the struct; it lives as long as `self`.
    pub fn as_ptr(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    /// Its size in bytes, which the kernel's only parameter has in the PTX, too.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size)
    }
}

// The same numbers stand in `kernels/params.cuh`.
const _: () = assert!(size_of::<Divisor>() == 24);
const _: () = assert!(size_of::<Operation>() == 32);
const _: () = assert!(size_of::<OperandLoop>() == 48);
