//! How much memory a [`Layout`] reaches, in scalars; everything is checked and 64-bit.

use super::{Layout, blocked};

impl Layout {
    /// Number of logical elements; `None` beyond 64 bits.
    pub fn cells(&self) -> Option<i64> {
        self.dims.product()
    }

    /// Number of scalars with the padding of a blocked axis: C counts rounded up to whole groups.
    pub fn padded_cells(&self) -> Option<i64> {
        self.padded_dims()?.product()
    }

    /// The lowest and the highest offset of a logical element; `None` if anything leaves 64 bits.
    /// Pre: no dim is 0.
    pub fn span(&self) -> Option<(i64, i64)> {
        // Once the padded span is known, nothing below can overflow.
        let padded = self.padded_span()?;
        if self.padding() == 0 {
            return Some(padded);
        }
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        blocked::nests([self], &mut |nest| {
            let (l, h) = nest.span(0).expect("inside the padded span");
            (low, high) = (low.min(l), high.max(h));
        });
        Some((low, high))
    }

    /// Like [`span`](Layout::span), with the padding of a blocked axis, which a destination has
    /// written too.
    #[inline]
    pub fn padded_span(&self) -> Option<(i64, i64)> {
        // The span of `padded_nest`, without building it: this is part of every call.
        let (mut low, mut high) = (0_i64, 0_i64);
        for (k, (&dim, &stride)) in self.dims.iter().zip(self.strides.iter()).enumerate() {
            let block = self.block(k);
            let groups = if block == 1 { dim } else { blocked::ceil_div(dim, block) };
            groups.checked_mul(block)?;
            let reach = (groups - 1).checked_mul(stride)?;
            let end = if reach < 0 { &mut low } else { &mut high };
            *end = end.checked_add(reach)?;
            high = high.checked_add(block - 1)?;
        }
        high.checked_sub(low)?;
        Some((low, high))
    }

    /// Scalars from the lowest to the highest offset, padding and gaps included:
    /// `1 + sum (dims[k] - 1) * |strides[k]|`, where a blocked axis counts its groups and adds
    /// `block - 1`.
    ///
    /// This times the scalar's size is the size that the descriptor reports; a negative stride
    /// reaches below the data pointer and counts all the same (observed on 9.27.0).
    pub fn extent(&self) -> Option<i64> {
        let (low, high) = self.padded_span()?;
        (high - low).checked_add(1)
    }
}
