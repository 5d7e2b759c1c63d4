//! Questions that people ask of a layout: packed in which letters, repeated along which, and which
//! element lies at an offset. Strides of dims of 1 do not count in any answer.

use super::{Axis, Dims, Layout, packed};
use crate::error::{Error, Result};

/// Offsets that one search tries: without repeats a search takes as many as there are axes.
const SEARCH_STEPS: u32 = 100_000;

/// A dimension, or one of the two axes that a blocked dimension has in memory.
#[derive(Clone, Copy)]
struct Part {
    dim: usize,
    extent: i64,
    stride: i64,
    /// Coordinates per turn: the block where this counts the groups of a blocked dimension.
    step: i64,
}

impl Layout {
    /// Whether these dimensions (indices into dims) are packed, in the sense of "XYZ-packed": read
    /// by decreasing stride, each of them steps over exactly what lies further inside, and the
    /// others over at least that. A blocked dimension counts as its groups and as the place inside
    /// a group. Negative and zero strides are not packed.
    pub fn is_packed_in(&self, wanted: &[usize]) -> bool {
        let mut parts: Vec<Part> = self.parts().into_iter().filter(|part| part.extent != 1).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.stride));
        let dims: Vec<i64> = parts.iter().map(|part| part.extent).collect();
        let strides: Vec<i64> = parts.iter().map(|part| part.stride).collect();
        strides.iter().all(|&stride| stride > 0)
            && packed::is_partially_packed(&dims, &strides, |i| wanted.contains(&parts[i].dim))
    }

    /// Whether the elements, and the padding of a blocked dimension, fill a range without gaps or
    /// repeats, all strides being positive.
    pub fn is_fully_packed(&self) -> bool {
        self.is_packed_in(&(0..self.dims.rank()).collect::<Vec<_>>())
    }

    /// Whether each channel of each image lies as a packed picture: NCHW or CNHW with HW (DHW)
    /// packed. Never for fewer than 3 dimensions.
    pub fn is_spatially_packed(&self) -> bool {
        if self.dims.rank() < 3 || self.split.is_some_and(|split| split.block() > 1) {
            return false;
        }
        let spatial = |outer: usize, inner: usize| {
            let mut order: Vec<usize> = (0..self.dims.rank()).collect();
            (order[0], order[1]) = (outer, inner);
            let (dims, mut strides) =
                (packed::permute(&self.dims, &order), packed::permute(&self.strides, &order));
            // What a dim of 1 would have if it were packed, so that it decides nothing.
            let mut reach = 1_i64;
            for k in (0..dims.rank()).rev() {
                if dims[k] == 1 {
                    strides[k] = reach;
                }
                reach = strides[k].saturating_mul(dims[k]);
            }
            packed::is_partially_packed(&dims, &strides, |i| i >= 2)
        };
        spatial(0, 1) || spatial(1, 0)
    }

    /// Whether some element is read again and again along a dimension: a stride of 0 on more than
    /// one element.
    pub fn is_broadcast(&self) -> bool {
        self.parts().iter().any(|part| part.extent > 1 && part.stride == 0)
    }

    /// The coordinates of an element at this offset, one of them if several share it; the inverse
    /// of [`offset`](Layout::offset).
    ///
    /// # Errors
    /// Bad parameter if no element lies there; not supported if overlapping strides need too long a
    /// search.
    pub fn index(&self, offset: i64) -> Result<Dims> {
        let mut parts = self.parts();
        // Counted from the lowest offset, every step goes up.
        let low: i128 = parts.iter().map(|p| i128::from((p.extent - 1) * p.stride).min(0)).sum();
        parts.sort_by_key(|part| std::cmp::Reverse(part.stride.unsigned_abs()));
        let axes: Vec<Axis<1>> =
            parts.iter().map(|p| Axis { extent: p.extent, strides: [p.stride.saturating_abs()] }).collect();
        let mut steps = SEARCH_STEPS;
        let mut turns = vec![0; parts.len()];
        // Padding of a blocked dimension is reached by the search and is no element.
        let accept = |turns: &[i64]| {
            let mut index = Dims::filled(self.dims.rank(), 0);
            for (part, &turn) in parts.iter().zip(turns) {
                let turn = if part.stride < 0 { part.extent - 1 - turn } else { turn };
                index[part.dim] += turn * part.step;
            }
            index.iter().zip(self.dims.iter()).all(|(i, dim)| i < dim).then_some(index)
        };
        match search(&axes, i128::from(offset) - low, 0, &mut turns, &accept, &mut steps) {
            Some(index) => Ok(index),
            None if steps == 0 => Err(Error::unsupported(format!(
                "offset {offset}: strides {} overlap too much to search",
                self.strides
            ))),
            None => Err(Error::argument("offset", offset, "no element lies there")),
        }
    }

    /// The axes in memory: one for each dimension, two for a blocked one, of which the second is
    /// the place in a group.
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for dim in 0..self.dims.rank() {
            let block = self.block(dim);
            let groups = super::blocked::ceil_div(self.dims[dim], block);
            parts.push(Part { dim, extent: groups, stride: self.strides[dim], step: block });
            if block > 1 {
                parts.push(Part { dim, extent: block, stride: 1, step: 1 });
            }
        }
        parts
    }
}

/// Finds turns of the axes from `at` on that add up to `distance` and are accepted: depth first,
/// over those turns alone that the axes further inside can complete. Pre: axes by decreasing
/// stride, none negative.
fn search(
    axes: &[Axis<1>], distance: i128, at: usize, turns: &mut [i64], accept: &dyn Fn(&[i64]) -> Option<Dims>,
    steps: &mut u32,
) -> Option<Dims> {
    let Some(axis) = axes.get(at) else { return if distance == 0 { accept(turns) } else { None } };
    let (most, stride) = (i128::from(axis.extent - 1), i128::from(axis.strides[0]));
    let inner: i128 =
        axes[at + 1..].iter().map(|a| i128::from(a.extent - 1) * i128::from(a.strides[0])).sum();
    let (first, last) = if stride == 0 {
        (0, 0)
    } else {
        let short = distance - inner;
        (
            (short.div_euclid(stride) + i128::from(short.rem_euclid(stride) > 0)).max(0),
            distance.div_euclid(stride).min(most),
        )
    };
    for turn in first..=last {
        *steps = steps.checked_sub(1)?;
        turns[at] = turn as i64;
        if let Some(found) = search(axes, distance - turn * stride, at + 1, turns, accept, steps) {
            return Some(found);
        }
        if *steps == 0 {
            return None;
        }
    }
    None
}
