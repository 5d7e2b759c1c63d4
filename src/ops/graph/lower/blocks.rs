//! Quantisation by blocks: a scale for each block of elements.
//!
//! Source: docs.nvidia.com/cudnn/operations/BlockScaling; the tiles of scales are those of
//! nvidia.github.io/cudnn-frontend (mxfp8-scale-factor-128x4-layout). Numbers are binary32; scales
//! and elements of types that are no scalar types here are made of their bits.

use super::super::expand::{QUARTER, TILE};
use super::super::steps::Builder;
use super::super::view::View;
use super::super::{Blocks, Packing, Port};
use super::matmul::transposed;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Dims, MAX_RANK};
use crate::ops::function::Function;
use crate::ops::{Compute, NanRule, Reduction};

/// `y = x * scale of the block`
///
/// # Errors
/// Not supported: negative scales.
pub fn dequantize(of: &Blocks, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let (x, scale) = (steps.read(Port::X)?, steps.read(Port::Scale)?);
    if of.negative {
        return Err(Error::unsupported("negative scales, of which nothing tells what they are"));
    }
    if y.is_empty() {
        return Ok(());
    }
    steps.compute = Compute::Single;
    let x = match of.values {
        Packing::Nibbles { axis } => from_nibbles(steps, &x, axis)?,
        _ => x,
    };
    let scale = match of.tiles {
        Some(is_turned) => from_tiles(steps, &scale, of, is_turned)?,
        None => counted(&scale, of)?,
    };
    let scale = if of.scales == Packing::Powers { from_powers(steps, &scale)? } else { scale };
    if y.dims() != x.dims() || y.layout.split.is_some() {
        return Err(Error::unsupported(format!("{} by blocks to {}", x.dims(), y.dims())));
    }
    for region in regions(&x, of)? {
        steps.map(&region.cut(&y)?, Function::Mul, &[region.cut(&x)?, region.beside(&scale)?])?;
    }
    Ok(())
}

/// `scale = amax of the block / largest number of y's type`, rounded up; `y = x / scale`, rounded
/// to nearest even, 0 where the scale is 0.
///
/// # Errors
/// Not supported: other types than FP8 and FP4 of y, than E8M0, FP8 and FLOAT of scales.
pub fn quantize(of: &Blocks, steps: &mut Builder<'_>) -> Result<()> {
    let (y, scale) = (steps.write(Port::Y)?, steps.write(Port::Scale)?);
    let x = steps.read(Port::X)?;
    let x = steps.flat(&x)?;
    let largest = match (of.values, y.scalar) {
        (Packing::Nibbles { .. }, _) => 6.0,
        (_, Scalar::E4m3) => 448.0,
        (_, Scalar::E5m2) => 57344.0,
        (_, other) => return Err(Error::unsupported(format!("{} by blocks", other.name()))),
    };
    if x.is_empty() {
        return Ok(());
    }
    steps.compute = Compute::Single;
    let mut dims = *x.dims();
    if let Packing::Nibbles { axis } = of.values {
        dims[axis] /= 2;
    }
    if *y.dims() != dims || y.layout.split.is_some() {
        return Err(Error::unsupported(format!("{} by blocks to {}", x.dims(), y.dims())));
    }
    let regions = regions(&x, of)?;
    let amax = steps.wide(&of.counts)?;
    for region in &regions {
        let (to, from) = (region.blocks(&amax)?, region.elements(&x)?);
        steps.reduce(&to, Reduction::Amax(NanRule::Propagate), &from)?;
    }
    let divisor = steps.constant(largest, &of.counts)?;
    let wanted = steps.wide(&of.counts)?;
    steps.map(&wanted, Function::Div, &[amax, divisor])?;
    let kind = if of.scales == Packing::Powers { Scalar::U8 } else { scale.scalar };
    let codes = match of.tiles {
        Some(_) => steps.scratch(kind, &padded(of))?,
        None => scale,
    };
    // What is beyond the last block is 0.
    if of.tiles.is_some() || of.counts != of.extents {
        steps.fill_bits(&codes, 0);
    }
    let part = match of.tiles {
        Some(is_turned) => inside(&codes, of, is_turned)?,
        None => counted(&codes, of)?,
    };
    let numbers = match (of.scales, kind) {
        (Packing::Powers, _) => {
            power_above(steps, &part, &wanted)?;
            from_powers(steps, &part)?
        }
        (_, Scalar::F32) => {
            steps.transform(&part, &wanted)?;
            wanted
        }
        (_, Scalar::E4m3 | Scalar::E5m2) => {
            narrow_above(steps, &part, &wanted)?;
            part
        }
        (_, other) => return Err(Error::unsupported(format!("scales of {}", other.name()))),
    };
    if of.tiles.is_some() {
        steps.transform(&scale, &quarters(&codes)?)?;
    }
    let quotient = steps.wide(x.dims())?;
    for region in &regions {
        let (to, by) = (region.cut(&quotient)?, region.beside(&numbers)?);
        steps.map(&to, Function::Div, &[region.cut(&x)?, by])?;
        let zero = steps.constant(0.0, to.dims())?;
        steps.map(&to, Function::Select, &[to, zero, by])?;
    }
    match of.values {
        Packing::Nibbles { axis } => to_nibbles(steps, &y, &quotient, axis),
        _ => steps.transform(&y, &quotient),
    }
}

/// The numbers of codes, in binary32.
///
/// # Errors
/// Not supported: vectors.
pub fn unpack(packing: Packing, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    if y.is_empty() {
        return Ok(());
    }
    steps.compute = Compute::Single;
    let numbers = match packing {
        Packing::Nibbles { axis } => from_nibbles(steps, &x, axis)?,
        Packing::Powers => from_powers(steps, &x)?,
        Packing::Plain => x,
    };
    steps.transform(&y, &numbers)
}

/// The codes of numbers in binary32: of FP4 the nearest ones, of FP8_E8M0, which has no sign, those
/// that are not below.
///
/// # Errors
/// Not supported: vectors.
pub fn pack(packing: Packing, steps: &mut Builder<'_>) -> Result<()> {
    let y = steps.write(Port::Y)?;
    let x = steps.read(Port::X)?;
    if x.is_empty() {
        return Ok(());
    }
    steps.compute = Compute::Single;
    match packing {
        Packing::Nibbles { axis } => to_nibbles(steps, &y, &x, axis),
        Packing::Powers => power_above(steps, &y, &x),
        Packing::Plain => steps.transform(&y, &x),
    }
}

/// Elements of x whose blocks have one size.
#[derive(Clone, Default)]
struct Region {
    /// The first element in each dimension.
    element: Vec<i64>,
    /// The first block in each dimension.
    block: Vec<i64>,
    /// Elements of a block in each dimension.
    size: Vec<i64>,
    /// Blocks in each dimension.
    count: Vec<i64>,
}

/// The blocks of x: those that are whole in every dimension, and those that its end cuts off.
///
/// # Errors
/// Not supported: vectors, too many dimensions.
fn regions(x: &View, of: &Blocks) -> Result<Vec<Region>> {
    let blocked = of.block.iter().filter(|&&size| size != 1).count();
    if x.layout.split.is_some() || of.block.len() != x.dims().rank() || of.block.len() + blocked > MAX_RANK {
        return Err(Error::unsupported(format!("{} in blocks of {:?}", x.dims(), of.block)));
    }
    let mut regions = vec![Region::default()];
    for (&dim, &size) in x.dims().iter().zip(&of.block) {
        let (whole, rest) = (dim / size, dim % size);
        let mut longer = Vec::new();
        for region in &regions {
            let parts = [(0, 0, size, whole), (whole * size, whole, rest, 1)];
            for (element, block, size, count) in parts.into_iter().filter(|part| part.2 * part.3 > 0) {
                let mut region = region.clone();
                region.element.push(element);
                region.block.push(block);
                region.size.push(size);
                region.count.push(count);
                longer.push(region);
            }
        }
        regions = longer;
    }
    Ok(regions)
}

impl Region {
    /// Its elements of a tensor of x's dims.
    fn elements(&self, view: &View) -> Result<View> {
        let mut part = *view;
        for axis in 0..self.size.len() {
            part = part.part(axis, self.element[axis], self.size[axis] * self.count[axis], 1)?;
        }
        Ok(part)
    }

    /// The same with every dimension that has blocks as two, the inner one of a block.
    fn cut(&self, view: &View) -> Result<View> {
        let mut cut = self.elements(view)?;
        // From the last one on, so that those in front keep their places.
        for (axis, &size) in self.size.iter().enumerate().rev().filter(|&(_, &size)| size != 1) {
            cut = cut.cut(axis, size);
        }
        Ok(cut)
    }

    /// Its elements of a tensor of one for each block.
    fn blocks(&self, view: &View) -> Result<View> {
        let mut part = *view;
        for axis in 0..self.size.len() {
            part = part.part(axis, self.block[axis], self.count[axis], 1)?;
        }
        Ok(part)
    }

    /// The same beside [`cut`](Region::cut): with a dimension of one for each that is inside of a
    /// block.
    fn beside(&self, view: &View) -> Result<View> {
        let part = self.blocks(view)?;
        let (mut dims, mut strides) = (Dims::EMPTY, Dims::EMPTY);
        for (axis, &size) in self.size.iter().enumerate() {
            dims.push(part.dims()[axis]);
            strides.push(part.layout.strides[axis]);
            if size != 1 {
                dims.push(1);
                strides.push(0);
            }
        }
        Ok(part.with(dims, strides))
    }
}

/// The scales that x has blocks for, without room for more.
fn counted(scale: &View, of: &Blocks) -> Result<View> {
    let mut part = *scale;
    for (axis, &count) in of.counts.iter().enumerate() {
        part = part.part(axis, 0, count, 1)?;
    }
    Ok(part)
}

/// The same cells as another scalar of their size.
fn seen_as(view: &View, scalar: Scalar) -> View {
    View { scalar, ..*view }
}

/// With functions in binary64, which holds the bits of binary32 as integers.
fn in_double<T>(steps: &mut Builder<'_>, with: impl FnOnce(&mut Builder<'_>) -> Result<T>) -> Result<T> {
    let own = std::mem::replace(&mut steps.compute, Compute::Double);
    let done = with(steps);
    steps.compute = own;
    done
}

/// What a bit of the exponent of binary32 stands for, its least power of two that E8M0 has, and its
/// NaN.
const EXPONENT: f64 = (1_u32 << 23) as f64;
const LEAST: f64 = (1_u32 << 22) as f64;
const NAN: f64 = 0x7fc0_0000_u32 as f64;
const INFINITY: f64 = 0x7f80_0000_u32 as f64;

/// Powers of two as E8M0 has them: `2^(code - 127)`, and NaN.
fn from_powers(steps: &mut Builder<'_>, codes: &View) -> Result<View> {
    let numbers = steps.scratch(Scalar::F32, codes.dims())?;
    in_double(steps, |steps| {
        let dims = *codes.dims();
        let bits = steps.wide(&dims)?;
        steps.map_with(&bits, Function::First, &[*codes], 0.0, [EXPONENT, 1.0])?;
        let [least, last, nan] =
            [steps.constant(LEAST, &dims)?, steps.constant(254.0, &dims)?, steps.constant(NAN, &dims)?];
        steps.map(&bits, Function::Select, &[bits, least, *codes])?;
        let is_nan = steps.joined(Function::Less, &last, codes)?;
        steps.map(&bits, Function::Select, &[nan, bits, is_nan])?;
        steps.transform(&seen_as(&numbers, Scalar::I32), &bits)
    })?;
    Ok(numbers)
}

/// The codes of the least powers of two that are not below numbers; 2^127 for what is larger. Pre:
/// numbers are not negative, or NaN.
fn power_above(steps: &mut Builder<'_>, codes: &View, numbers: &View) -> Result<()> {
    let bits = seen_as(numbers, Scalar::I32);
    in_double(steps, |steps| {
        let dims = *codes.dims();
        let code = steps.wide(&dims)?;
        let below = steps.constant(EXPONENT - 1.0, &dims)?;
        steps.map_with(&code, Function::Add, &[bits, below], 0.0, [1.0 / EXPONENT; 2])?;
        steps.map(&code, Function::Floor, &[code])?;
        let [least, zero, last] =
            [steps.constant(LEAST, &dims)?, steps.constant(0.0, &dims)?, steps.constant(254.0, &dims)?];
        let is_least = steps.joined(Function::LessOrEqual, &bits, &least)?;
        steps.map(&code, Function::Select, &[zero, code, is_least])?;
        steps.map(&code, Function::MinOrNan, &[code, last])?;
        let [infinity, nan] = [steps.constant(INFINITY, &dims)?, steps.constant(255.0, &dims)?];
        let is_nan = steps.joined(Function::Less, &infinity, &bits)?;
        steps.map(&code, Function::Select, &[nan, code, is_nan])?;
        steps.transform(codes, &code)
    })
}

/// The least numbers of FP8 that are not below numbers, the largest one for what is larger. Pre:
/// numbers are not negative, or NaN.
fn narrow_above(steps: &mut Builder<'_>, to: &View, numbers: &View) -> Result<()> {
    let nearest = steps.scratch(to.scalar, to.dims())?;
    steps.transform(&nearest, numbers)?;
    let largest = steps.constant(if to.scalar == Scalar::E4m3 { 448.0 } else { 57344.0 }, to.dims())?;
    let is_below = steps.joined(Function::Less, &nearest, numbers)?;
    let has_next = steps.joined(Function::Less, &nearest, &largest)?;
    let next = steps.joined(Function::And, &is_below, &has_next)?;
    // The codes of numbers that are not negative are in their order.
    steps.map(&seen_as(to, Scalar::U8), Function::Add, &[seen_as(&nearest, Scalar::U8), next])
}

/// Extents of whole tiles.
fn padded(of: &Blocks) -> Vec<i64> {
    let mut dims = of.extents.to_vec();
    let rank = dims.len();
    if of.tiles == Some(true) {
        dims.swap(rank - 2, rank - 1);
    }
    for (dim, tile) in dims[rank - 2..].iter_mut().zip(TILE) {
        // Below 64 bits: the tensor of whole tiles was measured.
        *dim = (*dim + tile - 1) / tile * tile;
    }
    dims
}

/// The scales that x has blocks for inside of whole tiles `[..., rows, columns]`.
fn inside(all: &View, of: &Blocks, is_turned: bool) -> Result<View> {
    counted(&if is_turned { transposed(all)? } else { *all }, of)
}

/// Whole tiles as they lie in memory: `[..., rows / 128, 4, 32, columns / 4, 4]`.
fn quarters(all: &View) -> Result<View> {
    let rank = all.dims().rank();
    Ok(all.cut(rank - 1, TILE[1]).cut(rank - 2, QUARTER).cut(rank - 2, TILE[0] / QUARTER))
}

/// Scales in tiles, as their tensor describes them.
fn from_tiles(steps: &mut Builder<'_>, scale: &View, of: &Blocks, is_turned: bool) -> Result<View> {
    let all = steps.scratch(scale.scalar, &padded(of))?;
    steps.transform(&quarters(&all)?, scale)?;
    inside(&all, of, is_turned)
}

/// Numbers of FP4: a sign, and 0, 0.5, 1, 1.5, 2, 3, 4 or 6. Pre: bytes without blocks.
fn from_nibbles(steps: &mut Builder<'_>, bytes: &View, axis: usize) -> Result<View> {
    let half = *bytes.dims();
    let mut dims = half;
    dims[axis] *= 2;
    let numbers = steps.wide(&dims)?;
    let [upper, lower] = [steps.wide(&half)?, steps.wide(&half)?];
    steps.map_with(&upper, Function::First, &[*bytes], 0.0, [1.0 / 16.0, 1.0])?;
    steps.map(&upper, Function::Floor, &[upper])?;
    steps.map_with(&lower, Function::Add, &[*bytes, upper], 0.0, [1.0, -16.0])?;
    let [two, three, five, seven, eight] =
        [2.0, 3.0, 5.0, 7.0, 8.0].map(|number| steps.constant(number, &half));
    let (two, three, five, seven, eight) = (two?, three?, five?, seven?, eight?);
    for (place, code) in [lower, upper].into_iter().enumerate() {
        let sign = steps.joined(Function::Less, &seven, &code)?;
        let size = steps.joined_with(Function::Add, &code, &sign, [1.0, -8.0])?;
        // Halves up to 2, wholes up to 4, then 6.
        let number = steps.wide(&half)?;
        steps.map_with(&number, Function::First, &[size], 0.0, [0.5, 1.0])?;
        let whole = steps.joined_with(Function::Add, &size, &two, [1.0, -1.0])?;
        let last = steps.joined_with(Function::Add, &size, &eight, [2.0, -1.0])?;
        let [is_whole, is_last] =
            [steps.joined(Function::Less, &three, &size)?, steps.joined(Function::Less, &five, &size)?];
        steps.map(&number, Function::Select, &[whole, number, is_whole])?;
        steps.map(&number, Function::Select, &[last, number, is_last])?;
        let negative = steps.wide(&half)?;
        steps.map_with(&negative, Function::First, &[number], 0.0, [-1.0, 1.0])?;
        let to = numbers.part(axis, place as i64, half[axis], 2)?;
        steps.map(&to, Function::Select, &[negative, number, sign])?;
    }
    Ok(numbers)
}

/// Halfway between neighbours, and whether the upper one is the even one.
const MIDDLES: [(f64, bool); 7] =
    [(0.25, false), (0.75, true), (1.25, false), (1.75, true), (2.5, false), (3.5, true), (5.0, false)];

/// Numbers as FP4, rounded to nearest even, at most 6 in size; a NaN is 6. Pre: numbers are
/// binary32, without blocks.
fn to_nibbles(steps: &mut Builder<'_>, bytes: &View, numbers: &View, axis: usize) -> Result<()> {
    let dims = *numbers.dims();
    let [size, code] = [steps.wide(&dims)?, steps.wide(&dims)?];
    steps.map_with(&size, Function::First, &[*numbers], 0.0, [-1.0, 1.0])?;
    steps.map(&size, Function::MaxOrNan, &[*numbers, size])?;
    steps.fill(&code, 0.0);
    for (middle, is_even_above) in MIDDLES {
        let middle = steps.constant(middle, &dims)?;
        let function = if is_even_above { Function::LessOrEqual } else { Function::Less };
        let is_above = steps.joined(function, &middle, &size)?;
        steps.map(&code, Function::Add, &[code, is_above])?;
    }
    let [seven, zero] = [steps.constant(7.0, &dims)?, steps.constant(0.0, &dims)?];
    let is_number = steps.joined(Function::LessOrEqual, &size, &size)?;
    steps.map(&code, Function::Select, &[code, seven, is_number])?;
    // By its bit, as a zero has a sign, too.
    let bits = seen_as(numbers, Scalar::I32);
    let sign = in_double(steps, |steps| steps.joined(Function::Less, &bits, &zero))?;
    let sign = steps.joined(Function::And, &sign, &is_number)?;
    steps.map_with(&code, Function::Add, &[code, sign], 0.0, [1.0, 8.0])?;
    let half = dims[axis] / 2;
    let [lower, upper] = [code.part(axis, 0, half, 2)?, code.part(axis, 1, half, 2)?];
    steps.map_with(bytes, Function::Add, &[lower, upper], 0.0, [1.0, 16.0])
}
