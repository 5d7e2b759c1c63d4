//! Index arithmetic: dims, strides, packed and overlap predicates, formats, blocking, spans and the
//! loop nest.
//!
//! Nothing here knows pointers or element types: offsets count scalars.
//!
//! ```text
//!  dims.rs       a short array of extents or strides
//!  format.rs     NCHW, NHWC, ...: names, packed strides, recognition
//!  name.rs       any name that programs and frameworks give a layout, and the name of a layout
//!  blocked.rs    NC/xHWx: an axis in groups; two Layouts -> loops over both (`nests`, `segments`)
//!  span.rs       how much memory a Layout reaches
//!  overlap.rs    whether two tensors of one buffer share an element
//!  packed.rs     fully, partially, spatially packed; overlapping
//!  locate.rs     packed in some letters, repeats, the element at an offset
//!  nest.rs       LoopNest: loops over N operands, what kernels see
//!  canonical.rs  LoopNest -> its canonical form, and its class
//! ```
//! The way of a transform: `dst` and `src` [`Layout`]s of equal dims are checked
//! ([`Layout::extent`], [`Layout::overlaps`]), [`nests`] turns the pair into loop nests (one,
//! unless a block leaves a tail), each is brought into [canonical](LoopNest::canonical) form, and
//! [`Layout::tail`] says what padding is to be zeroed.
#![forbid(unsafe_code)]

pub mod blocked;
pub mod canonical;
pub mod dims;
pub mod format;
pub mod locate;
pub mod name;
pub mod nest;
pub mod overlap;
pub mod packed;
mod span;

use std::fmt;
use std::num::NonZeroI64;

pub use blocked::{Cut, nests, segments};
pub use canonical::Pattern;
pub use dims::{Dims, MAX_RANK};
pub use format::DimOrder;
pub use name::Arrangement;
pub use nest::{Axis, LoopNest, MAX_AXES};

/// An axis that memory holds in blocks: `dims[axis]` is cut into groups of `block` neighbours that
/// lie side by side (stride 1). This one form is NC/xHWx, nChw8c, nChw16c, `NCHW_VECT_C` and the
/// x4/x32 element types.
///
/// One word, so that no part of a split that there is none of is undefined: compilers ask for the
/// axis before they ask whether there is one, and memory checkers then complain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Split(NonZeroI64);

impl Split {
    /// Pre: `axis < MAX_RANK` and `1 <= block < 2^60`.
    pub fn new(axis: usize, block: i64) -> Split {
        assert!(axis < MAX_RANK && (1..1 << 60).contains(&block), "axis {axis} in blocks of {block}");
        Split(NonZeroI64::new(block << AXIS_BITS | axis as i64).expect("a block is not 0"))
    }

    /// The dimension that is cut; 1 (C) for every named format.
    pub fn axis(self) -> usize {
        (self.0.get() & ((1 << AXIS_BITS) - 1)) as usize
    }

    /// Neighbours per group, at least 1.
    pub fn block(self) -> i64 {
        self.0.get() >> AXIS_BITS
    }
}

impl fmt::Debug for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis {} in blocks of {}", self.axis(), self.block())
    }
}

/// Bits that hold any axis.
const AXIS_BITS: u32 = 3;
const _: () = assert!(MAX_RANK <= 1 << AXIS_BITS);

/// Where each element of a tensor lies, counted in scalars.
///
/// Element `(i_0, ..., i_r)` lies at `sum i_k * strides[k]`; when [`split`](Layout::split) cuts
/// axis `a` into blocks of `b`, `i_a * strides[a]` becomes `(i_a / b) * strides[a] + i_a % b`. When
/// `b` does not divide `dims[a]`, the last group has a tail of `b - dims[a] % b` padding scalars
/// per position, which every operation writes as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Logical extents, outermost dimension first.
    pub dims: Dims,
    /// Stride of every dimension in scalars; of a split axis, the stride from group to group.
    pub strides: Dims,
    /// The blocked axis, if there is one.
    pub split: Option<Split>,
}
