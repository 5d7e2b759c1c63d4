//! Normalisations, step by step: statistics of groups, and what they make of each element.
//!
//! The shape of the statistics says what a group is: their dims divide those of x, and neighbours
//! share one.

use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Norm, Port};
use super::row_norm::{Gradients, Rows};
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::ops::Reduction;
use crate::ops::function::Function;

/// The modes, by their numbers in the C interface.
mod mode {
    pub const INSTANCE: i32 = 1;
    pub const BATCH: i32 = 2;
    pub const GROUP: i32 = 3;
    pub const RMS: i32 = 4;
    pub const ADAPTIVE: i32 = 5;
}

/// Dims of the statistics where no tensor tells them: those that the scale does not have. Of an
/// adaptive normalisation each batch has a scale of its own, and so the batch does not count among
/// those.
///
/// # Errors
/// Not supported: groups, of which nothing else tells how many there are.
pub(in super::super) fn statistics(of: &Norm, x: &Dims, scale: Option<&Dims>) -> Result<Dims> {
    if of.mode == mode::GROUP {
        return Err(Error::unsupported("groups without statistics, whose extents tell how many there are"));
    }
    let mut dims = *x;
    for (axis, dim) in dims.iter_mut().enumerate() {
        let joined = match (of.mode, scale) {
            (mode::INSTANCE, _) => axis > 1,
            (mode::BATCH, _) => axis != 1,
            (_, None) => axis > 0,
            (mode, Some(scale)) => {
                let is_shared = mode == mode::ADAPTIVE && axis == 0;
                !is_shared && scale.get(axis).is_some_and(|&own| own != 1)
            }
        };
        if joined {
            *dim = 1;
        }
    }
    Ok(dims)
}

/// Tensors of a normalisation, cut so that everything broadcasts: a dimension of x that the
/// statistics divide becomes two.
struct Cut {
    /// Dimension and neighbours that share a statistic, if there is such a dimension.
    at: Option<(usize, i64)>,
}

impl Cut {
    fn new(x: &View, statistics: &Dims) -> Result<Cut> {
        let misfit = || Error::unsupported(format!("statistics {statistics} of {}", x.dims()));
        if statistics.rank() != x.dims().rank() {
            return Err(misfit());
        }
        let mut at = None;
        for (axis, (&many, &few)) in x.dims().iter().zip(statistics.iter()).enumerate() {
            if few == many || few == 1 {
                continue;
            }
            if few < 1 || many < few || many % few != 0 || at.is_some() || x.dims().rank() == MAX_RANK {
                return Err(misfit());
            }
            at = Some((axis, many / few));
        }
        Ok(Cut { at })
    }

    /// A tensor as it is seen then.
    ///
    /// # Errors
    /// Not supported for vectors.
    fn view(&self, view: &View) -> Result<View> {
        let Some((axis, inner)) = self.at else { return Ok(*view) };
        if view.layout.split.is_some() {
            return Err(Error::unsupported("groups of vectors"));
        }
        let dim = view.dims()[axis];
        // What has one element, or one for each group, has no inner neighbours.
        Ok(view.cut(axis, if dim % inner == 0 && dim > 1 { inner } else { 1 }))
    }

    /// Dims of the statistics then.
    fn dims(&self, statistics: &Dims) -> Dims {
        let Some((axis, _)) = self.at else { return *statistics };
        let mut dims = Dims::EMPTY;
        for (k, &dim) in statistics.iter().enumerate() {
            dims.push(dim);
            if k == axis {
                dims.push(1);
            }
        }
        dims
    }
}

/// A statistic seen with x cut: it has one element for each group.
fn cut_statistic(cut: &Cut, view: &View) -> View {
    match cut.at {
        None => *view,
        Some((axis, _)) => view.cut(axis, 1),
    }
}

/// `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`, with the statistics of the groups,
/// or given ones.
///
/// # Errors
/// Not supported: statistics of other devices, shapes that do not fit, what is missing.
pub fn forward(of: &Norm, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    let (scale, bias) = (steps.given(Port::Scale)?, steps.given(Port::Bias)?);
    refuse_peers(steps)?;
    if y.is_empty() {
        return Ok(());
    }
    let x = steps.flat(&x)?;
    let is_rms = of.mode == mode::RMS;
    let given = (steps.given(Port::Mean)?, steps.given(Port::InverseVariance)?);
    let saved = (steps.wanted(Port::Mean, 0.0)?, steps.wanted(Port::InverseVariance, 0.0)?);
    let told = given.1.or(given.0).or(saved.1).or(saved.0);
    let dims = told
        .map_or_else(|| statistics(of, x.dims(), scale.as_ref().map(View::dims)), |told| Ok(*told.dims()))?;
    let cut = Cut::new(&x, &dims)?;
    let (x, y) = (cut.view(&x)?, cut.view(&y)?);
    let scale = scale.map(|scale| cut.view(&scale)).transpose()?;
    let bias = bias.map(|bias| cut.view(&bias)).transpose()?;
    let groups = cut.dims(&dims);
    let is_given = !of.training && given.1.is_some();
    if steps.joins_rows.is_some() && !is_given && !blends(steps) {
        let saved = [saved.0.filter(|_| !is_rms), saved.1].map(|to| to.map(|to| cut_statistic(&cut, &to)));
        let epsilon = scalar(&steps.read(Port::Epsilon)?, &Dims::new(&[1]))?;
        let rows = Rows { x, y, groups, saved, parameters: [scale, bias], epsilon, centred: !is_rms };
        if rows.lower(steps)? {
            return Ok(());
        }
    }
    let result = steps.wide(x.dims())?;
    let inverse = match given {
        (mean, Some(inverse)) if !of.training => {
            match mean.filter(|_| !is_rms) {
                Some(mean) => steps.subtract(&result, &x, &cut_statistic(&cut, &mean))?,
                None => steps.transform(&result, &x)?,
            }
            cut_statistic(&cut, &inverse)
        }
        _ => {
            let epsilon = steps.read(Port::Epsilon)?;
            let (mean, variance) = moments(steps, &x, &groups, &result, is_rms)?;
            let inverse = inverse_of(steps, &variance, &epsilon)?;
            for (to, from) in [(saved.0, mean), (saved.1, Some(inverse))] {
                if let (Some(to), Some(from)) = (to, from) {
                    steps.transform(&cut_statistic(&cut, &to), &from)?;
                }
            }
            if let Some(mean) = mean {
                let count = x.dims().iter().product::<i64>() / groups.iter().product::<i64>();
                running(steps, [Port::RunningMean, Port::NewRunningMean], &mean, 1.0)?;
                let unbiased = if count > 1 { count as f64 / (count - 1) as f64 } else { 1.0 };
                running(steps, [Port::RunningVariance, Port::NewRunningVariance], &variance, unbiased)?;
            }
            inverse
        }
    };
    // RMS has no mean to subtract: its first factor reads x.
    let source = if is_rms { x } else { result };
    // A block of rows has one factor for each group where all of them have.
    if let Some(of_groups) = scale.and_then(|scale| scale.broadcast(&groups).ok()) {
        let to = if bias.is_some() { &result } else { &y };
        let factor = steps.wide(&groups)?;
        steps.map(&factor, Function::Mul, &[inverse, of_groups])?;
        steps.map(to, Function::Mul, &[source, factor])?;
        return bias.map_or(Ok(()), |bias| steps.map(&y, Function::Add, &[result, bias]));
    }
    match (scale, bias) {
        (None, None) => steps.map(&y, Function::Mul, &[source, inverse]),
        (None, Some(bias)) => {
            steps.map(&result, Function::Mul, &[source, inverse])?;
            steps.map(&y, Function::Add, &[result, bias])
        }
        (Some(scale), Some(bias)) => steps.map(&y, Function::Affine, &[source, inverse, scale, bias]),
        (Some(scale), None) => {
            steps.map(&result, Function::Mul, &[source, inverse])?;
            steps.map(&y, Function::Mul, &[result, scale])
        }
    }
}

/// Whether running averages are wanted.
fn blends(steps: &Builder<'_>) -> bool {
    [Port::NewRunningMean, Port::NewRunningVariance]
        .into_iter()
        .any(|port| steps.operation.write(port).is_some())
}

/// Statistics of one peer are those of this device itself, which needs no room to exchange them.
///
/// # Errors
/// Not supported for more.
fn refuse_peers(steps: &Builder<'_>) -> Result<()> {
    match steps.operation.reads.iter().filter(|link| link.port == Port::Peer).count() {
        0 | 1 => Ok(()),
        peers => Err(Error::unsupported(format!("statistics of {peers} devices"))),
    }
}

/// Mean and variance of the groups, and what they leave of x: x less the mean. Of RMS no mean, the
/// mean of squares, and nothing.
fn moments(
    steps: &mut Builder<'_>, x: &View, groups: &Dims, rest: &View, is_rms: bool,
) -> Result<(Option<View>, View)> {
    let variance = steps.wide(groups)?;
    let mut mean = None;
    if !is_rms {
        let own = steps.wide(groups)?;
        steps.reduce(&own, Reduction::Avg, x)?;
        steps.subtract(rest, x, &own)?;
        mean = Some(own);
    }
    // Squares are summed without being stored.
    steps.reduce(&variance, Reduction::Norm2, if is_rms { x } else { rest })?;
    let share = x.dims().iter().product::<i64>() as f64 / groups.iter().product::<i64>() as f64;
    steps.map_with(&variance, Function::Mul, &[variance, variance], 0.0, [1.0 / share, 1.0])?;
    Ok((mean, variance))
}

/// `1 / sqrt(variance + epsilon)`
fn inverse_of(steps: &mut Builder<'_>, variance: &View, epsilon: &View) -> Result<View> {
    let inverse = steps.wide(variance.dims())?;
    let epsilon = scalar(epsilon, variance.dims())?;
    steps.map(&inverse, Function::Add, &[*variance, epsilon])?;
    steps.map(&inverse, Function::ReciprocalRoot, &[inverse])?;
    Ok(inverse)
}

/// A tensor of one element, whatever its rank, for all of these.
pub(super) fn scalar(view: &View, dims: &Dims) -> Result<View> {
    if view.dims().iter().any(|&dim| dim != 1) {
        return Err(Error::unsupported(format!("{} in the place of one number", view.dims())));
    }
    Ok(view.with(*dims, Dims::filled(dims.rank(), 0)))
}

/// `new = old + factor * (share * statistic - old)`, if the new one is wanted.
fn running(steps: &mut Builder<'_>, ports: [Port; 2], statistic: &View, share: f64) -> Result<()> {
    let Some(new) = steps.wanted(ports[1], 0.0)? else { return Ok(()) };
    let old = steps.read(ports[0])?;
    let factor = steps.read(Port::Factor)?;
    let change = steps.wide(statistic.dims())?;
    steps.map_with(&change, Function::Add, &[*statistic, old], 0.0, [share, -1.0])?;
    let factor = scalar(&factor, statistic.dims())?;
    steps.map(&change, Function::Mul, &[change, factor])?;
    steps.map(&new, Function::Add, &[old, change])
}

/// With `g = dy * scale`, `h = (x - mean) * inverse` and means over groups:
/// `dx = inverse * (g - mean(g) - h * mean(g * h))`, `dscale = sum(dy * h)`, `dbias = sum(dy)`. Of
/// RMS `h = x * inverse`, and no mean of g.
///
/// # Errors
/// As for [`forward`].
pub fn backward(of: &Norm, steps: &mut Builder<'_>) -> Result<()> {
    let dx = steps.wanted(Port::Dx, 0.0)?;
    let (dscale, dbias) = (steps.wanted(Port::Dscale, 0.0)?, steps.wanted(Port::Dbias, 0.0)?);
    let (x, dy) = (steps.read(Port::X)?, steps.read(Port::Dy)?);
    let (scale, mean) = (steps.given(Port::Scale)?, steps.given(Port::Mean)?);
    let (inverse, epsilon) = (steps.given(Port::InverseVariance)?, steps.given(Port::Epsilon)?);
    refuse_peers(steps)?;
    if x.is_empty() {
        return Ok(());
    }
    let is_rms = of.mode == mode::RMS;
    let (x, dy) = (steps.flat(&x)?, steps.flat(&dy)?);
    let told = inverse.or(mean);
    let dims = told
        .map_or_else(|| statistics(of, x.dims(), scale.as_ref().map(View::dims)), |told| Ok(*told.dims()))?;
    let cut = Cut::new(&x, &dims)?;
    let groups = cut.dims(&dims);
    let (x, dy) = (cut.view(&x)?, cut.view(&dy)?);
    let mean = mean.map(|mean| cut_statistic(&cut, &mean)).filter(|_| !is_rms);
    let scale = scale.map(|scale| cut.view(&scale)).transpose()?;
    let is_of_groups = scale.is_some_and(|scale| scale.broadcast(&groups).is_ok());
    if let (true, Some(dx), Some(inverse)) = (steps.joins_rows.is_some() && !is_of_groups, dx, inverse)
        && (is_rms || mean.is_some())
    {
        let sums = [dscale, dbias].map(|sum| sum.map(|sum| cut.view(&sum)).transpose());
        let [dscale, dbias] = sums;
        let gradients = Gradients {
            views: [cut.view(&dx)?, x, dy, cut_statistic(&cut, &inverse)],
            parameters: [scale, mean],
            sums: [dscale?, dbias?],
            groups,
        };
        if gradients.lower(steps)? {
            return Ok(());
        }
    }
    let normal = steps.wide(x.dims())?;
    let (mean, inverse) = match (mean, inverse) {
        (mean, Some(inverse)) if is_rms || mean.is_some() => (mean, cut_statistic(&cut, &inverse)),
        _ => {
            let epsilon =
                epsilon.ok_or_else(|| Error::unsupported("gradients without statistics or epsilon"))?;
            let (mean, variance) = moments(steps, &x, &groups, &normal, is_rms)?;
            (mean, inverse_of(steps, &variance, &epsilon)?)
        }
    };
    match mean {
        Some(mean) => steps.map(&normal, Function::Centred, &[x, mean, inverse])?,
        None => steps.map(&normal, Function::Mul, &[x, inverse])?,
    }
    let products = steps.wide(x.dims())?;
    // A block of rows has one scale for each group where all of them have.
    if let Some(scale) = scale.and_then(|scale| scale.broadcast(&groups).ok()) {
        return backward_by_group(steps, &cut, [&dy, &normal, &products], [&scale, &inverse], is_rms);
    }
    if let Some(dscale) = dscale {
        steps.map(&products, Function::Mul, &[dy, normal])?;
        steps.reduce(&cut.view(&dscale)?, Reduction::Add, &products)?;
    }
    if let Some(dbias) = dbias {
        steps.reduce(&cut.view(&dbias)?, Reduction::Add, &dy)?;
    }
    let Some(dx) = dx else { return Ok(()) };
    let gradient = match scale {
        Some(scale) => {
            let gradient = steps.wide(x.dims())?;
            steps.map(&gradient, Function::Mul, &[dy, scale])?;
            gradient
        }
        None => dy,
    };
    let share = steps.wide(&groups)?;
    steps.map(&products, Function::Mul, &[gradient, normal])?;
    steps.reduce(&share, Reduction::Avg, &products)?;
    let other = if is_rms { steps.constant(0.0, &groups)? } else { steps.wide(&groups)? };
    if !is_rms {
        steps.reduce(&other, Reduction::Avg, &gradient)?;
    }
    steps.map(&cut.view(&dx)?, Function::NormBackward, &[gradient, normal, share, other, inverse])
}

/// The same where each group has one scale, and the sums of its parameters' gradients are those
/// that dx is made of: `dx = scale * inverse * (dy - dbias / m - h * dscale / m)`.
fn backward_by_group(
    steps: &mut Builder<'_>, cut: &Cut, [dy, normal, products]: [&View; 3], [scale, inverse]: [&View; 2],
    is_rms: bool,
) -> Result<()> {
    let groups = *scale.dims();
    let sum = |steps: &mut Builder<'_>, port: Port, from: &View| {
        let sum = steps.wide(&groups)?;
        steps.reduce(&sum, Reduction::Add, from)?;
        let wanted = steps.wanted(port, 0.0)?;
        if let Some(wanted) = wanted {
            let wanted = cut.view(&wanted)?;
            match *wanted.dims() == groups {
                true => steps.transform(&wanted, &sum)?,
                false => steps.reduce(&wanted, Reduction::Add, &sum)?,
            }
        }
        Ok(sum)
    };
    steps.map(products, Function::Mul, &[*dy, *normal])?;
    let dscale = sum(steps, Port::Dscale, products)?;
    let dbias = sum(steps, Port::Dbias, dy)?;
    let Some(dx) = steps.wanted(Port::Dx, 0.0)? else { return Ok(()) };
    let count = dy.dims().iter().product::<i64>() as f64 / groups.iter().product::<i64>() as f64;
    let alone = [1.0 / count, 1.0];
    steps.map_with(&dscale, Function::First, &[dscale], 0.0, alone)?;
    let other = if is_rms { steps.constant(0.0, &groups)? } else { dbias };
    if !is_rms {
        steps.map_with(&other, Function::First, &[other], 0.0, alone)?;
    }
    let factor = steps.wide(&groups)?;
    steps.map(&factor, Function::Mul, &[*scale, *inverse])?;
    steps.map(&cut.view(&dx)?, Function::NormBackward, &[*dy, *normal, dscale, other, factor])
}
