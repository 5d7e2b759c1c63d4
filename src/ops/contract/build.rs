//! Contractions from plain descriptions: the three directions of a convolution, and matrix
//! products.

mod phases;

use super::{Accumulate, Bound, Contract, Epilogue, MAX_BOUNDS, PART_ROWS, Role};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, Dims, Layout};
use crate::ops::Scaling;
use crate::ops::activation_function::Activation;

/// One tensor: its layout and the type of its scalars.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Dims in the usual order: N C spatial, K C spatial for filters, batch rows columns for
    /// matrices.
    pub layout: &'a Layout,
    /// Type of its scalars.
    pub scalar: Scalar,
}

/// The window of a convolution; one entry per spatial dimension. The extents of the output say how
/// much padding there is behind.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Zeros in front.
    pub padding: Dims,
    /// Steps of the window, at least 1.
    pub strides: Dims,
    /// Distance of taps, at least 1.
    pub dilation: Dims,
    /// Groups of channels that do not see each other.
    pub groups: i64,
    /// Whether taps are mirrored: convolution in the mathematical sense.
    pub flip: bool,
}

impl Geometry {
    /// Whether an image of a result with these dims has the [rows](PART_ROWS) of binary32 in parts,
    /// in every phase of the strides where it is a gradient of the data: the number of images must
    /// not decide.
    pub fn has_part_rows(&self, dims: &Dims, is_gradient: bool) -> bool {
        let phase = |(extent, stride): (&i64, &i64)| if is_gradient { extent / stride } else { *extent };
        dims[2..].iter().zip(self.strides.iter()).map(phase).product::<i64>() >= PART_ROWS
    }
}

/// The terms beside the sum; see [`Epilogue`].
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Alpha and beta.
    pub scaling: Scaling,
    /// Added with its factor; dims of the destination, or 1 to repeat.
    pub z: Option<(Side<'a>, f64)>,
    /// Added; dims of the destination, or 1 to repeat.
    pub bias: Option<Side<'a>>,
    /// Applied to the whole.
    pub activation: Option<Activation>,
}

impl Terms<'_> {
    /// `dst = alpha * sum + beta * dst`.
    pub const fn scaled(scaling: Scaling) -> Self {
        Terms { scaling, z: None, bias: None, activation: None }
    }

    fn epilogue(&self) -> Epilogue {
        Epilogue {
            scaling: self.scaling,
            z: self.z.map(|(side, alpha2)| (side.scalar, alpha2)),
            bias: self.bias.map(|side| side.scalar),
            activation: self.activation,
        }
    }
}

/// Receives the steps of a contraction.
type Sink<'a> = &'a mut dyn FnMut(&Contract) -> Result<()>;

fn overflow() -> Error {
    Error::unsupported("a step between elements of a contraction leaves 64 bits")
}

fn product(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or_else(overflow)
}

/// How far `units` neighbours along `axis` are apart. Pre: whole blocks, or inside one.
fn reach(layout: &Layout, axis: usize, units: i64) -> Result<i64> {
    let block = layout.block(axis);
    match layout.dims[axis] {
        1 => Ok(0),
        _ if block == 1 => product(units, layout.strides[axis]),
        _ => Ok(product(units / block, layout.strides[axis])? + units % block),
    }
}

/// Operands that a loop moves at most.
const PLACES: usize = 5;

/// An extent as loops `(extent, unit)`, innermost first, so that every multiple of a block is a
/// loop of its own, and how many they are; `None` where blocks and extent are no multiples of each
/// other. Blocks of 1 or all are none.
fn digits(extent: i64, mut blocks: [i64; PLACES]) -> Option<([(i64, i64); PLACES + 1], usize)> {
    blocks.sort_unstable();
    let (mut loops, mut count, mut unit) = ([(1, 1); PLACES + 1], 0, 1);
    for bound in blocks.into_iter().filter(|&block| block < extent).chain([extent]) {
        if bound == unit && bound != extent {
            continue;
        }
        if bound % unit != 0 {
            return None;
        }
        loops[count] = (bound / unit, unit);
        (count, unit) = (count + 1, bound);
    }
    Some((loops, count))
}

fn uneven(what: &str, extent: i64) -> Error {
    Error::unsupported(format!("{extent} {what} in blocks of channels that do not divide them"))
}

/// One operand's place in a loop: which slot, which tensor, which dimension, and how many elements
/// one unit is.
type Place<'a> = (usize, Option<&'a Layout>, usize, i64);

/// A contraction under construction.
struct Building {
    step: Contract,
}

impl Building {
    /// Adds loops over `extent` units from `begin` on, cut where any operand's blocks end.
    fn blocked(
        &mut self, role: Role, what: &str, begin: i64, extent: i64, places: &[Place<'_>],
    ) -> Result<()> {
        // A single unit goes nowhere: it may end inside a block.
        if (begin, extent) == (0, 1) {
            self.step.push(role, Axis { extent: 1, strides: [0; 5] });
            return Ok(());
        }
        let mut blocks = [1; PLACES];
        for (&(_, layout, axis, unit), entry) in places.iter().zip(&mut blocks) {
            let Some(layout) = layout else { continue };
            let block = layout.block(axis);
            if layout.dims[axis] == 1 || block == 1 || begin > 0 && begin % block == 0 && extent < block {
                continue;
            }
            match (block % unit, unit % block) {
                (0, _) => *entry = block / unit,
                (_, 0) => {}
                _ => return Err(uneven(what, extent)),
            }
        }
        let (loops, count) = digits(extent, blocks).ok_or_else(|| uneven(what, extent))?;
        for &(turns, count) in loops[..count].iter().rev() {
            let mut strides = [0; 5];
            for &(slot, layout, axis, unit) in places {
                if let Some(layout) = layout {
                    strides[slot] = reach(layout, axis, product(count, unit)?)?;
                }
            }
            self.step.push(role, Axis { extent: turns, strides });
        }
        for &(slot, layout, axis, unit) in places {
            if let (Some(layout), true) = (layout, begin > 0) {
                self.step.nest.offsets[slot] += reach(layout, axis, product(begin, unit)?)?;
            }
        }
        Ok(())
    }

    /// Adds an M loop and a K loop that move along dimension `axis` of `a` and bounds their sum.
    fn window(
        &mut self, a: &Layout, axis: usize, loops: [(Role, i64, [i64; 5]); 2], steps: [i64; 2], start: i64,
    ) -> Result<()> {
        if a.block(axis) > 1 {
            return Err(Error::unsupported("a spatial dimension in blocks"));
        }
        let stride = a.strides[axis];
        let mut axes = [0; 2];
        for (k, (role, extent, mut strides)) in loops.into_iter().enumerate() {
            strides[1] = product(steps[k], stride)?;
            axes[k] = self.step.push(role, Axis { extent, strides }) as u8;
        }
        let offset = &mut self.step.nest.offsets[1];
        *offset = offset.checked_add(product(start, stride)?).ok_or_else(overflow)?;
        self.step.bind(Bound { axes, steps, start, extent: a.dims[axis] });
        Ok(())
    }
}

/// The parts of the channels of a destination that are loops of their own: whole blocks, and what
/// is left.
fn parts(
    channels: i64, groups: i64, layouts: &[Option<&Layout>], axis: usize,
) -> impl Iterator<Item = (i64, i64)> {
    let blocks = layouts.iter().flatten().map(|l| l.block(axis)).max().unwrap_or(1);
    let tail = if groups == 1 && channels > blocks { channels % blocks } else { 0 };
    std::iter::once((0, channels - tail)).chain((tail > 0).then_some((channels - tail, tail)))
}

/// What the three directions share: the tensors by their part in the convolution.
struct Convolution<'a> {
    image: &'a Layout,
    filter: &'a Layout,
    result: &'a Layout,
    geometry: &'a Geometry,
    /// Channels of the image and of the result per group.
    c: i64,
    k: i64,
    spatial: usize,
}

impl<'a> Convolution<'a> {
    fn new(
        image: &'a Layout, filter: &'a Layout, result: &'a Layout, geometry: &'a Geometry,
    ) -> Result<Self> {
        let rank = image.dims.rank();
        let groups = geometry.groups;
        if !(2..=MAX_BOUNDS + 2).contains(&rank) || filter.dims.rank() != rank || result.dims.rank() != rank {
            return Err(Error::mismatch(format!(
                "an image of {rank}, a filter of {} and a result of {} dimensions",
                filter.dims.rank(),
                result.dims.rank()
            )));
        }
        let fits = groups > 0
            && image.dims[0] == result.dims[0]
            && filter.dims[0] == result.dims[1]
            && filter.dims[1].checked_mul(groups) == Some(image.dims[1])
            && filter.dims[0] % groups == 0;
        if !fits {
            return Err(Error::mismatch(format!(
                "image {}, filter {} and result {} of a convolution in {groups} groups",
                image.dims, filter.dims, result.dims
            )));
        }
        let (c, k) = (filter.dims[1], filter.dims[0] / groups);
        Ok(Convolution { image, filter, result, geometry, c, k, spatial: rank - 2 })
    }

    /// Pad, stride, dilation of spatial dimension `d`, and its taps.
    fn dim(&self, d: usize) -> (i64, i64, i64, i64) {
        let g = self.geometry;
        (g.padding[d], g.strides[d], g.dilation[d], self.filter.dims[d + 2])
    }

    /// Where tap 0 of dimension `d` starts and how far taps are apart.
    fn taps(&self, d: usize) -> (i64, i64) {
        let (pad, _, dilation, taps) = self.dim(d);
        if self.geometry.flip { ((taps - 1) * dilation - pad, -dilation) } else { (-pad, dilation) }
    }
}

impl Contract {
    /// `y = terms(sum over c, r of x[n, c, p * stride - pad + r * dilation] * w[k, c, r])`, as one
    /// step, or as two where the channels of y end in a partial block.
    ///
    /// Dims: x `N C spatial`, w `K C/groups spatial`, y `N K spatial`; z and bias as y or 1.
    /// Padding behind the channels of a blocked y is left alone. Loops: as the module's table.
    ///
    /// # Errors
    /// Mismatch for dims that do not fit; unsupported for blocks of channels that do not divide
    /// them, and for steps beyond 64 bits; the first of `sink`.
    pub fn forward(
        y: Side<'_>, x: Side<'_>, w: Side<'_>, geometry: &Geometry, accumulate: Accumulate,
        terms: &Terms<'_>, sink: Sink<'_>,
    ) -> Result<()> {
        let conv = Convolution::new(x.layout, w.layout, y.layout, geometry)?;
        let (z, bias) = (terms.z.map(|z| z.0.layout), terms.bias.map(|b| b.layout));
        let outputs = [(0, Some(y.layout)), (3, z), (4, bias)];
        for (begin, count) in parts(conv.k, geometry.groups, &[Some(y.layout), z, bias], 1) {
            let step = Contract::new([y.scalar, x.scalar, w.scalar], accumulate, terms.epilogue());
            let mut building = Building { step };
            let along = |axis: usize, unit: i64| outputs.map(|(slot, layout)| (slot, layout, axis, unit));
            let (ax, bw) = (Some(x.layout), Some(w.layout));
            let [to, z, bias] = along(1, conv.k);
            let groups = [to, z, bias, (1, ax, 1, conv.c), (2, bw, 0, conv.k)];
            building.blocked(Role::Batch, "groups", 0, geometry.groups, &groups)?;
            let [to, z, bias] = along(0, 1);
            building.blocked(Role::M, "images", 0, y.layout.dims[0], &[to, z, bias, (1, ax, 0, 1)])?;
            let [to, z, bias] = along(1, 1);
            let channels = [to, z, bias, (2, bw, 0, 1)];
            building.blocked(Role::N, "output channels", begin, count, &channels)?;
            building.blocked(Role::K, "input channels", 0, conv.c, &[(1, ax, 1, 1), (2, bw, 1, 1)])?;
            for d in 0..conv.spatial {
                let ((start, tap), (_, stride, _, taps)) = (conv.taps(d), conv.dim(d));
                let mut out = [0; 5];
                for (slot, layout) in outputs {
                    out[slot] = layout.map_or(Ok(0), |l| reach(l, d + 2, 1))?;
                }
                let filter = [0, 0, w.layout.strides[d + 2], 0, 0];
                let loops = [(Role::M, y.layout.dims[d + 2], out), (Role::K, taps, filter)];
                building.window(x.layout, d + 2, loops, [stride, tap], start)?;
            }
            sink(&building.step)?;
        }
        Ok(())
    }

    /// `dx = terms(sum over k, r of dy[n, k, p] * w[k, c, r])` with
    /// `p * stride - pad + r * dilation == h`, as one step per run of phases of the strides that
    /// are alike (and two for channels that end in a partial block).
    ///
    /// Dims: dx `N C spatial`, dy `N K spatial`, w `K C/groups spatial`; z and bias as dx or 1.
    ///
    /// # Errors
    /// As for [`forward`](Contract::forward).
    pub fn backward_data(
        dx: Side<'_>, dy: Side<'_>, w: Side<'_>, geometry: &Geometry, accumulate: Accumulate,
        terms: &Terms<'_>, sink: Sink<'_>,
    ) -> Result<()> {
        let conv = Convolution::new(dx.layout, w.layout, dy.layout, geometry)?;
        let (z, bias) = (terms.z.map(|z| z.0.layout), terms.bias.map(|b| b.layout));
        let outputs = [(0, Some(dx.layout)), (3, z), (4, bias)];
        let mut phase = Dims::filled(conv.spatial, 0);
        loop {
            let alike: [i64; MAX_BOUNDS] =
                std::array::from_fn(|d| if d < conv.spatial { conv.alike(d, phase[d]) } else { 1 });
            for (begin, count) in parts(conv.c, geometry.groups, &[Some(dx.layout), z, bias], 1) {
                let step = Contract::new([dx.scalar, dy.scalar, w.scalar], accumulate, terms.epilogue());
                let mut building = Building { step };
                let along = |axis: usize, unit: i64| outputs.map(|(slot, layout)| (slot, layout, axis, unit));
                let (ay, bw) = (Some(dy.layout), Some(w.layout));
                let [to, z, bias] = along(1, conv.c);
                let groups = [to, z, bias, (1, ay, 1, conv.k), (2, bw, 0, conv.k)];
                building.blocked(Role::Batch, "groups", 0, geometry.groups, &groups)?;
                let [to, z, bias] = along(0, 1);
                building.blocked(Role::M, "images", 0, dx.layout.dims[0], &[to, z, bias, (1, ay, 0, 1)])?;
                let [to, z, bias] = along(1, 1);
                let channels = [to, z, bias, (2, bw, 1, 1)];
                building.blocked(Role::N, "input channels", begin, count, &channels)?;
                let sum = [(1, ay, 1, 1), (2, bw, 0, 1)];
                building.blocked(Role::K, "output channels", 0, conv.k, &sum)?;
                for d in 0..conv.spatial {
                    building.phases(&conv, &outputs, d, [phase[d], alike[d]])?;
                }
                sink(&building.step)?;
            }
            // The odometer over the phases of all dimensions that have rows.
            let Some(d) = (0..conv.spatial).rfind(|&d| phase[d] + alike[d] < conv.phases(d)) else {
                return Ok(());
            };
            phase[d] += alike[d];
            (d + 1..conv.spatial).for_each(|inner| phase[inner] = 0);
        }
    }

    /// `dw = terms(sum over n, p of x[n, c, p * stride - pad + r * dilation] * dy[n, k, p])`, as
    /// one step, or more where channels of dw end in a partial block.
    ///
    /// Dims: dw `K C/groups spatial`, x `N C spatial`, dy `N K spatial`; z and bias as dw or 1.
    ///
    /// # Errors
    /// As for [`forward`](Contract::forward).
    pub fn backward_filter(
        dw: Side<'_>, x: Side<'_>, dy: Side<'_>, geometry: &Geometry, accumulate: Accumulate,
        terms: &Terms<'_>, sink: Sink<'_>,
    ) -> Result<()> {
        let conv = Convolution::new(x.layout, dw.layout, dy.layout, geometry)?;
        let (z, bias) = (terms.z.map(|z| z.0.layout), terms.bias.map(|b| b.layout));
        let outputs = [(0, Some(dw.layout)), (3, z), (4, bias)];
        for (begin, count) in parts(conv.c, geometry.groups, &[Some(dw.layout), z, bias], 1) {
            let mut step = Contract::new([dw.scalar, x.scalar, dy.scalar], accumulate, terms.epilogue());
            step.is_over_images = true;
            let mut building = Building { step };
            let along = |axis: usize, unit: i64| outputs.map(|(slot, layout)| (slot, layout, axis, unit));
            let (ax, by) = (Some(x.layout), Some(dy.layout));
            let [to, z, bias] = along(0, conv.k);
            let groups = [to, z, bias, (1, ax, 1, conv.c), (2, by, 1, conv.k)];
            building.blocked(Role::Batch, "groups", 0, geometry.groups, &groups)?;
            let [to, z, bias] = along(0, 1);
            let rows = [to, z, bias, (2, by, 1, 1)];
            building.blocked(Role::N, "output channels", 0, conv.k, &rows)?;
            let [to, z, bias] = along(1, 1);
            let channels = [to, z, bias, (1, ax, 1, 1)];
            building.blocked(Role::M, "input channels", begin, count, &channels)?;
            building.blocked(Role::K, "images", 0, x.layout.dims[0], &[(1, ax, 0, 1), (2, by, 0, 1)])?;
            for d in 0..conv.spatial {
                let ((start, tap), (_, stride, _, taps)) = (conv.taps(d), conv.dim(d));
                let mut out = [0; 5];
                for (slot, layout) in outputs {
                    out[slot] = layout.map_or(Ok(0), |l| reach(l, d + 2, 1))?;
                }
                let pixels = [0, 0, dy.layout.strides[d + 2], 0, 0];
                let loops = [(Role::M, taps, out), (Role::K, dy.layout.dims[d + 2], pixels)];
                building.window(x.layout, d + 2, loops, [tap, stride], start)?;
            }
            sink(&building.step)?;
        }
        Ok(())
    }

    /// `c = terms(a * b)`: dims `... M N`, `... M K`, `... K N`; the dims in front are a batch,
    /// where those of `a`, `b`, z and bias may be 1 to repeat.
    ///
    /// # Errors
    /// Mismatch for dims that do not fit; unsupported for blocked layouts.
    pub fn matmul(
        c: Side<'_>, a: Side<'_>, b: Side<'_>, accumulate: Accumulate, terms: &Terms<'_>,
    ) -> Result<Contract> {
        let (z, bias) = (terms.z.map(|z| z.0.layout), terms.bias.map(|b| b.layout));
        let all = [Some(c.layout), Some(a.layout), Some(b.layout), z, bias];
        let rank = c.layout.dims.rank();
        if all.iter().flatten().any(|l| l.split.is_some()) {
            return Err(Error::unsupported("a matrix product of blocked layouts"));
        }
        let [m, n, k] = match rank.checked_sub(2) {
            Some(at) if all.iter().flatten().all(|l| l.dims.rank() == rank) => {
                [c.layout.dims[at], c.layout.dims[at + 1], a.layout.dims[at + 1]]
            }
            _ => {
                return Err(Error::mismatch(
                    "matrices of fewer than 2 or of different numbers of dimensions",
                ));
            }
        };
        let repeats = |l: &Layout, axis: usize| [1, c.layout.dims[axis]].contains(&l.dims[axis]);
        let fits = (0..rank).all(|axis| {
            let tail = all[3..].iter().flatten().all(|l| repeats(l, axis));
            tail && (axis + 2 >= rank || (repeats(a.layout, axis) && repeats(b.layout, axis)))
        });
        let inner = [a.layout.dims[rank - 2], b.layout.dims[rank - 2], b.layout.dims[rank - 1]] == [m, k, n];
        if !fits || !inner {
            return Err(Error::mismatch(format!(
                "matrices of {} and {} for a product of {}",
                a.layout.dims, b.layout.dims, c.layout.dims
            )));
        }
        let mut step = Contract::new([c.scalar, a.scalar, b.scalar], accumulate, terms.epilogue());
        let stride = |slot: usize, axis: usize| {
            all[slot].map_or(0, |l| if l.dims[axis] == 1 { 0 } else { l.strides[axis] })
        };
        for axis in 0..rank - 2 {
            let strides = std::array::from_fn(|slot| stride(slot, axis));
            step.push(Role::Batch, Axis { extent: c.layout.dims[axis], strides });
        }
        let (row, column) = (rank - 2, rank - 1);
        let strides = [stride(0, row), stride(1, row), 0, stride(3, row), stride(4, row)];
        step.push(Role::M, Axis { extent: m, strides });
        let strides = [stride(0, column), 0, stride(2, column), stride(3, column), stride(4, column)];
        step.push(Role::N, Axis { extent: n, strides });
        step.push(Role::K, Axis { extent: k, strides: [0, stride(1, column), stride(2, row), 0, 0] });
        Ok(step)
    }
}
