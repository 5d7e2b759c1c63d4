//! What kernels are given: one struct each, passed by value. `kernels/params.cuh` declares the same structs, and both
//! sides assert their sizes.

use std::ffi::c_void;
use std::mem::size_of;

use super::plan::Pointers;
use crate::dtype::Scalar;
use crate::dtype::convert::{Class, Element, computes_in_f64, with_element};
use crate::layout::{MAX_AXES, MAX_RANK};
use crate::ops::Scaling;

/// Division by a number that is known before the launch, as a multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    /// The number itself, at least 1.
    pub divisor: u64,
    /// `floor(2^b * (2^shift - divisor) / divisor) + 1`, where `b` is the width of the kernel's index, 32 or 64.
    pub multiplier: u64,
    /// `ceil(log2(divisor))`.
    pub shift: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

impl Divisor {
    /// The divisor for dividends below `2^(b - 1)` with `b` the width of `index`. Pre: `1 <= divisor < 2^(b - 1)`.
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
    path: u32,
    steps: u32,
}

/// The type by which values travel. The numbers are those of `kernels/params.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Path {
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
        Operation { alpha: 1.0, beta: 0.0, src: 0, dst: 0, path: Path::Move as u32, steps: 0 };

    /// `dst = convert(alpha * src + beta * dst)`, by the rules of [`crate::dtype::convert`].
    pub fn new(src: Scalar, dst: Scalar, scaling: Scaling) -> Self {
        let (from, to) = (class(src), class(dst));
        let path = match () {
            () if !scaling.is_move() => {
                if computes_in_f64(from, to) {
                    Path::F64
                } else {
                    Path::F32
                }
            }
            () if src == dst => Path::Move,
            () if from == Class::Long || (from.is_integer() && to.is_integer()) => Path::I64,
            () if from.fits_f32() => Path::F32,
            () => Path::F64,
        };
        let blended = if scaling.beta == 0.0 { 0 } else { BLENDED };
        let steps = if scaling.is_move() { 0 } else { SCALED | blended };
        let Scaling { alpha, beta } = scaling;
        Operation { alpha, beta, src: src as u32, dst: dst as u32, path: path as u32, steps }
    }

    /// Whether the bits move as they are, so that only the width of an element counts.
    pub fn is_move(&self) -> bool {
        self.path == Path::Move as u32
    }

    /// `dst = convert(beta * dst)`, zero without reading it if beta is 0.
    pub fn fill(dst: Scalar, beta: f64) -> Self {
        Operation::new(dst, dst, Scaling { alpha: 0.0, beta })
    }
}

fn class(scalar: Scalar) -> Class {
    with_element!(scalar, T => T::CLASS)
}

/// One loop of a [`Strided`] walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Turn {
    /// How often it turns.
    pub extent: Divisor,
    /// Bytes the destination moves per turn.
    pub dst: i64,
    /// Bytes the source moves per turn.
    pub src: i64,
}

impl Turn {
    /// A loop that turns once.
    pub const ONCE: Turn = Turn { extent: Divisor::ONE, dst: 0, src: 0 };
}

/// Any nest, element by element: strided moves and conversions, and the ordered walk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Strided {
    /// Where both operands start.
    pub at: Pointers,
    /// Number of elements.
    pub count: u64,
    /// What to compute; moves by width ignore it.
    pub operation: Operation,
    /// Number of loops that count.
    pub rank: u32,
    /// 1 if only the destination takes part: it is filled.
    pub fills: u32,
    /// The loops, innermost first.
    pub turns: [Turn; MAX_AXES],
}

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
    /// Bytes of a copy in front of its first vector, fewer than one vector.
    pub head: u32,
    /// Bytes of a copy behind its last vector, fewer than one vector.
    pub tail: u32,
    /// 1 if both operands of a conversion lie on 16 bytes.
    pub vectored: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
}

/// Two axes that trade places, `a` contiguous in the destination and `b` in the source: `transpose_*`, `interleave_*`
/// and `separate_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Tiled {
    /// Where both operands start.
    pub at: Pointers,
    /// What a conversion computes; moves by width ignore it.
    pub operation: Operation,
    /// Elements along `a`.
    pub extent_a: u64,
    /// Elements along `b`.
    pub extent_b: u64,
    /// Bytes the destination moves per step of `b`.
    pub dst_b: i64,
    /// Bytes the source moves per step of `a`.
    pub src_a: i64,
    /// Tiles along `a`, for 32-bit indices.
    pub tiles_a: Divisor,
    /// Tiles along `b`, for 32-bit indices.
    pub tiles_b: Divisor,
    /// log2 of the squares of a tile that lie side by side along `b`.
    pub squares_b: u32,
    /// 1 if every row of the destination starts on 16 bytes.
    pub vector_dst: u32,
    /// 1 if every row of the source starts on 16 bytes.
    pub vector_src: u32,
    /// Number of loops of the batch.
    pub rank: u32,
    /// The loops of the batch, innermost first, for 32-bit indices.
    pub turns: [Turn; MAX_AXES - 2],
}

/// One loop of a [`Mapped`] walk over the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappedTurn {
    /// How often it turns.
    pub extent: Divisor,
    /// Bytes the destination moves per turn.
    pub dst: i64,
    /// The dimension it belongs to.
    pub axis: u32,
    /// Coordinates per turn in that dimension: the block for the loop over groups, else 1.
    pub step: u32,
}

/// One dimension of a [`Mapped`] transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappedAxis {
    /// Extent of the destination; coordinates from here on are padding of the last group.
    pub dst_extent: i64,
    /// Source coordinates from here on do not exist: the extent, less what is cropped behind.
    pub src_extent: i64,
    /// Padding in front; negative crops.
    pub before: i64,
    /// Bytes the source moves per group, or per coordinate if the block is 1.
    pub src: i64,
    /// Fold factor.
    pub factor: Divisor,
    /// Neighbours per group of the source.
    pub block: Divisor,
}

impl MappedAxis {
    const NONE: MappedAxis = MappedAxis {
        dst_extent: 1,
        src_extent: 1,
        before: 0,
        src: 0,
        factor: Divisor::ONE,
        block: Divisor::ONE,
    };
}

/// A whole transform with padding, folding or unfilled groups: every element of the destination finds its source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Mapped {
    /// The data pointers of both operands.
    pub at: Pointers,
    /// Number of elements of the destination, padding included.
    pub count: u64,
    /// What an element with a source is computed by.
    pub operation: Operation,
    /// What an element without a source is computed by.
    pub fill: Operation,
    /// Channels per group of a fold.
    pub group: Divisor,
    /// Number of dimensions.
    pub rank: u32,
    /// Number of loops.
    pub loops: u32,
    /// 0 folds (and pads), 1 unfolds.
    pub unfolds: u32,
    /// Bytes of one source element.
    pub src_size: u32,
    /// The loops, innermost first: one per dimension, one more for a blocked one.
    pub turns: [MappedTurn; MAX_RANK + 1],
    /// The dimensions.
    pub axes: [MappedAxis; MAX_RANK],
}

impl Mapped {
    /// All loops turning once.
    pub const TURNS: [MappedTurn; MAX_RANK + 1] =
        [MappedTurn { extent: Divisor::ONE, dst: 0, axis: 0, step: 1 }; MAX_RANK + 1];
    /// All extents 1.
    pub const AXES: [MappedAxis; MAX_RANK] = [MappedAxis::NONE; MAX_RANK];
}

/// One loop over three operands, the first of which is the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OperandTurn {
    /// How often it turns.
    pub extent: Divisor,
    /// Bytes that each operand moves per turn; of a reduction's third one, places among the indices.
    pub step: [i64; 3],
}

impl OperandTurn {
    /// A loop that turns once.
    pub const ONCE: OperandTurn = OperandTurn { extent: Divisor::ONE, step: [0; 3] };
}

/// A function of two operands, element by element: `op_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Pointwise {
    /// Where C, A and B start.
    pub at: [u64; 3],
    /// Number of elements, or of vectors of them.
    pub count: u64,
    /// Factors of A and B.
    pub alpha: [f64; 2],
    /// Factor of the old C.
    pub beta: f64,
    /// Scalar type of C.
    pub dst: u32,
    /// Scalar type of A and B.
    pub src: u32,
    /// The function's number in `kernels/params.cuh`.
    pub function: u32,
    /// How many of A and B are read.
    pub arity: u32,
    /// 1 if C is read.
    pub blends: u32,
    /// Number of loops.
    pub rank: u32,
    /// Bit k: operand k has one element along the innermost loop of vectors.
    pub splats: u32,
    /// 1 if `op_ordered` computes in binary64.
    pub wide: u32,
    /// The loops, innermost first.
    pub turns: [OperandTurn; MAX_AXES],
}

/// One value in every cell: `set_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Set {
    /// Where the cells start; of a run, its first vector.
    pub at: u64,
    /// Number of cells, or of vectors of a run.
    pub count: u64,
    /// The cell, repeated to 8 bytes.
    pub cell: u64,
    /// Bytes of a run in front of its first vector.
    pub head: u32,
    /// Bytes of a run behind its last vector.
    pub tail: u32,
    /// Number of loops.
    pub rank: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops, innermost first.
    pub turns: [Turn; MAX_AXES],
}

/// A part of the elements that each output reduces.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Piece {
    /// Bytes from the start of the output's sequence to the first element.
    pub src: i64,
    /// Index of the first element.
    pub index: i64,
    /// Number of elements.
    pub count: u64,
    /// Number of loops.
    pub rank: u32,
    /// Keeps the size a multiple of 8 on both sides.
    pub unused: u32,
    /// The loops, innermost first, with the index in the place of a destination.
    pub turns: [Turn; MAX_AXES],
}

/// Many elements joined to one, for each output: `reduce_*`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Reduce {
    /// Where the outputs start.
    pub dst: u64,
    /// Where the elements start.
    pub src: u64,
    /// Where the indices start.
    pub indices: u64,
    /// Room for what each chunk of each output is joined to, unless every output is one chunk.
    pub partials: u64,
    /// Number of outputs.
    pub outputs: u64,
    /// Elements of each output.
    pub length: u64,
    /// Chunks of each output.
    pub chunks: Divisor,
    /// From the computation type to the destination.
    pub operation: Operation,
    /// Scalar type of the source.
    pub scalar: u32,
    /// The number of the reduction in `kernels/params.cuh`.
    pub fold: u32,
    /// What is done with the joined number.
    pub finish: u32,
    /// Bytes of an index.
    pub index_bytes: u32,
    /// log2 of the blocks of the tree that are one chunk.
    pub level: u32,
    /// Number of loops over outputs.
    pub rank: u32,
    /// The loops over outputs, innermost first: destination, source, place among the indices.
    pub outer: [OperandTurn; MAX_AXES],
    /// What each output reduces.
    pub pieces: [Piece; 2],
}

/// The parameter struct of one launch. It lives on the stack for the length of a launch: boxing would cost more than
/// the spare bytes.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Params {
    /// For `strided_*`, `convert_strided_*` and `ordered`.
    Strided(Strided),
    /// For `map_*`.
    Mapped(Mapped),
    /// For `copy_*` and `convert_*`.
    Linear(Linear),
    /// For `transpose_*`, `interleave_*` and `separate_*`.
    Tiled(Tiled),
    /// For `op_*`.
    Pointwise(Pointwise),
    /// For `set_*`.
    Set(Set),
    /// For `reduce_*`.
    Reduce(Reduce),
}

impl Params {
    /// Address of the struct; it lives as long as `self`.
    pub fn as_ptr(&self) -> *const c_void {
        match self {
            Params::Strided(params) => (&raw const *params).cast(),
            Params::Mapped(params) => (&raw const *params).cast(),
            Params::Linear(params) => (&raw const *params).cast(),
            Params::Tiled(params) => (&raw const *params).cast(),
            Params::Pointwise(params) => (&raw const *params).cast(),
            Params::Set(params) => (&raw const *params).cast(),
            Params::Reduce(params) => (&raw const *params).cast(),
        }
    }

    /// Its size in bytes, which the kernel's only parameter has in the PTX, too.
    pub fn size(&self) -> usize {
        match self {
            Params::Strided(_) => size_of::<Strided>(),
            Params::Mapped(_) => size_of::<Mapped>(),
            Params::Linear(_) => size_of::<Linear>(),
            Params::Tiled(_) => size_of::<Tiled>(),
            Params::Pointwise(_) => size_of::<Pointwise>(),
            Params::Set(_) => size_of::<Set>(),
            Params::Reduce(_) => size_of::<Reduce>(),
        }
    }
}

// The same numbers stand in `kernels/params.cuh`.
const _: () = assert!(size_of::<Divisor>() == 24);
const _: () = assert!(size_of::<Operation>() == 32);
const _: () = assert!(size_of::<Strided>() == 64 + 40 * MAX_AXES);
const _: () = assert!(size_of::<Mapped>() == 16 + 8 + 64 + 24 + 16 + 40 * 9 + 80 * 8);
const _: () = assert!(size_of::<Linear>() == 16 + 8 + 32 + 16);
const _: () = assert!(size_of::<Tiled>() == 16 + 32 + 32 + 48 + 16 + 40 * (MAX_AXES - 2));
const _: () = assert!(size_of::<Pointwise>() == 24 + 8 + 24 + 32 + 48 * MAX_AXES);
const _: () = assert!(size_of::<Set>() == 24 + 16 + 40 * MAX_AXES);
const _: () =
    assert!(size_of::<Reduce>() == 32 + 16 + 24 + 32 + 24 + 48 * MAX_AXES + 2 * (32 + 40 * MAX_AXES));
