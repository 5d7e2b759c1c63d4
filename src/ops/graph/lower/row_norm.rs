//! Normalisations whose groups are rows, in one step.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::work::Work;
use crate::error::Result;
use crate::layout::{Axis, Dims, LoopNest};
use crate::ops::row_norm::Parameter;
use crate::ops::{RowNorm, RowNormBackward};

/// A normalisation by the statistics of its groups, cut so that everything broadcasts.
pub(super) struct Rows {
    pub x: View,
    pub y: View,
    /// Dims of the statistics.
    pub groups: Dims,
    /// Where mean and inverse go, if they are wanted.
    pub saved: [Option<View>; 2],
    /// Scale and bias, if there are some.
    pub parameters: [Option<View>; 2],
    /// One number.
    pub epsilon: View,
    pub centred: bool,
}

impl Rows {
    /// Adds the step, and tells whether there is one: if all elements of a group lie side by side
    /// in x and y, and their parameters do or are one.
    ///
    /// # Errors
    /// Not supported: parameters that do not broadcast.
    pub fn lower(&self, steps: &mut Builder<'_>) -> Result<bool> {
        let Rows { x, y, groups, saved, parameters, epsilon, centred } = *self;
        let wide = |of: Option<View>| of.map(|of| of.broadcast(x.dims())).transpose();
        let parameters = [wide(parameters[0])?, wide(parameters[1])?];
        // What is not there stands still where x is.
        let still = x.with(x.layout.dims, Dims::filled(x.dims().rank(), 0));
        let statistics = saved.map(|to| to.unwrap_or(still));
        let [scale, bias] = parameters.map(|of| of.unwrap_or(still));
        let views = [&y, &statistics[0], &statistics[1], &x, &scale, &bias];
        if views.iter().any(|view| view.layout.split.is_some()) {
            return Ok(false);
        }
        let mut rows = LoopNest::new(&[], views.map(|view| view.offset));
        let mut row = LoopNest::new(&[], [0; 4]);
        for axis in 0..x.dims().rank() {
            let strides = views.map(|view| view.layout.strides[axis]);
            let extent = x.dims()[axis];
            if groups[axis] == extent {
                rows.push(Axis { extent, strides });
            } else {
                let [y, _, _, x, scale, bias] = strides;
                row.push(Axis { extent, strides: [y, x, scale, bias] });
            }
        }
        for (k, absent) in [(1, saved[0]), (2, saved[1]), (4, parameters[0]), (5, parameters[1])] {
            if absent.is_none() {
                rows.offsets[k] = 0;
            }
        }
        rows.canonicalise();
        row.canonicalise();
        let (length, each) = match row.axes() {
            [] => (1, [false; 2]),
            [Axis { extent, strides: [1, 1, scale @ 0..=1, bias @ 0..=1] }] => {
                (*extent, [*scale == 1, *bias == 1])
            }
            _ => return Ok(false),
        };
        let parameter = |k: usize| parameters[k].map(|of| Parameter { scalar: of.scalar, each: each[k] });
        let step = RowNorm {
            rows,
            length,
            data: [y.scalar, x.scalar],
            compute: steps.compute,
            centred,
            saved: saved.map(|to| to.map(|to| to.scalar)),
            parameters: [parameter(0), parameter(1)],
            epsilon: (epsilon.scalar, epsilon.offset),
        };
        let views = [&y, &statistics[0], &statistics[1], &x, &scale, &bias, &epsilon];
        steps.step(Work::RowNorm(Box::new(step)), &views);
        Ok(true)
    }
}

/// The gradients of a normalisation by the statistics of its groups, of a scale of each element.
pub(super) struct Gradients {
    /// dx, x, dy, and the inverse deviations.
    pub views: [View; 4],
    /// Scale and means, if there are some.
    pub parameters: [Option<View>; 2],
    /// dscale and dbias, if they are wanted.
    pub sums: [Option<View>; 2],
    /// Dims of the statistics.
    pub groups: Dims,
}

impl Gradients {
    /// Adds the step, and tells whether there is one: if all elements of a group lie side by side
    /// everywhere, and the parameters of all rows are the same.
    ///
    /// # Errors
    /// Not supported: parameters that do not broadcast.
    pub fn lower(&self, steps: &mut Builder<'_>) -> Result<bool> {
        let Gradients { views: [dx, x, dy, inverse], parameters, sums, groups } = *self;
        let has_sums = sums.iter().any(Option::is_some);
        let elements = x.dims().iter().product::<i64>();
        let is_of_all_rows = |sum: &View| {
            (0..x.dims().rank()).all(|axis| {
                sum.dims()[axis] == if groups[axis] == x.dims()[axis] { 1 } else { x.dims()[axis] }
            })
        };
        if has_sums && steps.joins_rows.is_none_or(|most| elements > most)
            || sums.iter().flatten().any(|sum| sum.dims().rank() != x.dims().rank() || !is_of_all_rows(sum))
        {
            return Ok(false);
        }
        let wide = |of: Option<View>| of.map(|of| of.broadcast(x.dims())).transpose();
        let [scale, mean] = parameters;
        let (scale, mean) = (wide(scale)?, wide(mean)?);
        let inverse = inverse.broadcast(x.dims())?;
        // What is not there lies where x does.
        let views = [dx, x, dy, scale.unwrap_or(x), mean.unwrap_or(inverse), inverse];
        let sums_or_x = sums.map(|sum| sum.unwrap_or(x));
        if views.iter().chain(&sums_or_x).any(|view| view.layout.split.is_some()) {
            return Ok(false);
        }
        let mut rows = LoopNest::new(&[], views.map(|view| view.offset));
        let mut row = LoopNest::new(&[], [0; 6]);
        for axis in 0..x.dims().rank() {
            let stride = |view: &View| view.layout.strides[axis];
            let extent = x.dims()[axis];
            if groups[axis] == extent {
                rows.push(Axis { extent, strides: views.map(|view| stride(&view)) });
            } else {
                let [dscale, dbias] = sums_or_x;
                let strides = [dx, x, dy, views[3], dscale, dbias].map(|view| stride(&view));
                row.push(Axis { extent, strides });
            }
        }
        rows.canonicalise();
        row.canonicalise();
        let length = match row.axes() {
            [] => 1,
            [Axis { extent, strides: [1, 1, 1, 1, 1, 1] }] => *extent,
            _ => return Ok(false),
        };
        let step = RowNormBackward {
            rows,
            length,
            data: [dx.scalar, x.scalar, dy.scalar],
            compute: steps.compute,
            parameters: [scale, mean].map(|of| of.map(|of| of.scalar)),
            inverse: inverse.scalar,
            sums: sums.map(|sum| sum.map(|sum| (sum.scalar, sum.offset))),
        };
        let [dscale, dbias] = &sums_or_x;
        let views = [&dx, dscale, dbias, &x, &dy, &views[3], &views[4], &inverse];
        steps.step(Work::RowNormBackward(Box::new(step)), &views);
        Ok(true)
    }
}
