//! What a step reads and writes, and how far it reaches.

use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, Cut, LoopNest};
use cudnn::ops::normalise::{Slope, Statistics};
use cudnn::ops::window::WindowAxis;
use cudnn::ops::{
    Contract, Normalise, NormaliseBackward, Operand, Padded, Random, Reduce, Role, Rows, Window,
};

use super::{Owned, attention, losses, norms, offsets, pictures, sequences};

/// The most bytes of an operand: a line with more is a slip of the pen.
const MOST: i64 = 1 << 32;

/// The operands of a step, in its order. Those that it does not touch are empty.
pub fn of(step: &Owned) -> Result<Vec<Operand>, String> {
    let operands = match step {
        Owned::Transform(step) => {
            vec![
                written(span(&step.nest, 0)?, step.dst, step.scaling.beta),
                read(span(&step.nest, 1)?, step.src),
            ]
        }
        Owned::Padded(step) => padded(step)?,
        Owned::Scale(step) => vec![written(span(&step.nest, 0)?, step.dst, step.beta)],
        Owned::Set(step) => vec![written(span(&step.nest, 0)?, step.dst, 0.0)],
        Owned::Map(step) => map(&step.nest, &step.scalars, step.function.arity(), step.factors.beta)?,
        Owned::WideMap(step) => map(&step.nest, &step.scalars, step.function.arity(), step.factors.beta)?,
        Owned::Rows(step) => rows(step)?,
        Owned::RowNorm(step) => norms::operands(step)?,
        Owned::RowNormBackward(step) => norms::backward_operands(step)?,
        Owned::Reduce(step) => reduce(step)?,
        Owned::Contract(step) => contract(step)?,
        Owned::Random(step) => random(step)?,
        Owned::Normalise(step) => normalise(step)?,
        Owned::NormaliseBackward(step) => normalise_backward(step)?,
        Owned::Window(step) => window(step)?,
        Owned::Sample(step) => pictures::operands(step),
        Owned::Ctc(step) => losses::operands(step),
        Owned::Causal(step) => sequences::operands(step),
        Owned::Aggregate(step) => offsets::of_aggregate(step)?,
        Owned::Ragged(step) => offsets::of_ragged(step)?,
        Owned::Attend(step) => attention::operands(step),
        Owned::AttendBackward(step) => attention::backward_operands(step),
        Owned::Words(step) => offsets::of_words(step),
        Owned::Phases(_) => return Err("no line says a step of this kind".to_owned()),
    };
    match operands.iter().find(|operand| operand.span.1 - operand.span.0 > MOST) {
        Some(large) => Err(format!("an operand reaches from byte {} to {}", large.span.0, large.span.1)),
        None => Ok(operands),
    }
}

/// Lowest and highest offset.
type Span = (i64, i64);

pub(super) fn span<const N: usize>(nest: &LoopNest<N>, operand: usize) -> Result<Span, String> {
    nest.span(operand).ok_or_else(|| format!("operand {operand} leaves 64 bits"))
}

/// Where both are added.
fn sum(a: Span, b: Span) -> Span {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

/// Both, and what lies between them.
fn hull(a: Span, b: Span) -> Span {
    (a.0.min(b.0), a.1.max(b.1))
}

pub(super) fn operand(role: Role, (low, high): Span, scalar: Scalar) -> Operand {
    let size = scalar.size() as i64;
    let span = (low.saturating_mul(size), high.saturating_add(1).saturating_mul(size));
    Operand { name: "an operand", role, scalar, span }
}

pub(super) fn read(span: Span, scalar: Scalar) -> Operand {
    operand(Role::Read, span, scalar)
}

pub(super) fn written(span: Span, scalar: Scalar, beta: f64) -> Operand {
    operand(Role::blended(beta), span, scalar)
}

/// One that is not touched.
pub(super) fn absent(scalar: Scalar) -> Operand {
    Operand { name: "no operand", role: Role::Read, scalar, span: (0, 0) }
}

fn when(wanted: bool, operand: Operand) -> Operand {
    if wanted { operand } else { absent(operand.scalar) }
}

fn padded(step: &Padded) -> Result<Vec<Operand>, String> {
    let block = Axis { extent: step.block(), strides: [1, 0] };
    let all = step.blocks.times(&LoopNest::new(&[block], [0; 2]));
    Ok(vec![written(span(&all, 0)?, step.dst, 0.0), read(span(&step.transform().nest, 1)?, step.src)])
}

fn map<const N: usize>(
    nest: &LoopNest<N>, scalars: &[Scalar; N], arity: usize, beta: f64,
) -> Result<Vec<Operand>, String> {
    let mut operands = vec![written(span(nest, 0)?, scalars[0], beta)];
    for (k, scalar) in scalars.iter().enumerate().skip(1) {
        operands.push(when(k <= arity, read(span(nest, k)?, *scalar)));
    }
    Ok(operands)
}

fn rows(step: &Rows) -> Result<Vec<Operand>, String> {
    let all = step.groups.times(&step.elements);
    Ok(vec![
        written(span(&all, 0)?, step.scalars[0], step.scaling.beta),
        read(span(&all, 1)?, step.scalars[1]),
        when(step.function.arity() == 2, read(span(&all, 2)?, step.scalars[2])),
    ])
}

fn reduce(step: &Reduce) -> Result<Vec<Operand>, String> {
    let mut pieces = span(&step.sequence.pieces()[0], 0)?;
    for piece in step.sequence.pieces() {
        pieces = hull(pieces, span(piece, 0)?);
    }
    let mut indices = absent(Scalar::I32);
    if let Some(kind) = step.indices {
        let (low, high) = span(&step.outputs, 2)?;
        let size = kind.size() as i64;
        let scalar = if size == 8 { Scalar::I64 } else { Scalar::I32 };
        indices =
            Operand { name: "indices", role: Role::Write, scalar, span: (low * size, (high + 1) * size) };
    }
    let scratch = Operand {
        name: "workspace",
        role: Role::Scratch,
        scalar: Scalar::U8,
        span: (0, step.workspace as i64),
    };
    Ok(vec![
        written(span(&step.outputs, 0)?, step.dst, step.scaling.beta),
        indices,
        read(sum(span(&step.outputs, 1)?, pieces), step.src),
        scratch,
    ])
}

fn contract(step: &Contract) -> Result<Vec<Operand>, String> {
    let mut operands = vec![
        written(span(&step.nest, 0)?, step.dst, step.epilogue.scaling.beta),
        read(span(&step.nest, 1)?, step.a),
        read(span(&step.nest, 2)?, step.b),
    ];
    if let Some((scalar, _)) = step.epilogue.z {
        operands.push(read(span(&step.nest, 3)?, scalar));
    }
    if let Some(scalar) = step.epilogue.bias {
        operands.push(read(span(&step.nest, 4)?, scalar));
    }
    operands.extend(scratch(step.workspace));
    Ok(operands)
}

fn random(step: &Random) -> Result<Vec<Operand>, String> {
    let (first, last) = span(&step.nest, 2)?;
    let words = match step.draw {
        Some(draw) if first >= 0 && (last as u64) < draw.elements => draw.words() as i64,
        Some(draw) => return Err(format!("the mask has {} bits, none for element {last}", draw.elements)),
        None if first >= 0 => last / 32 + 1,
        None => return Err(format!("element {first} is before the mask")),
    };
    let mask = |role| Operand { name: "mask", role, scalar: Scalar::I32, span: (0, 4 * words) };
    let mut operands =
        vec![written(span(&step.nest, 0)?, step.scalar, 0.0), read(span(&step.nest, 1)?, step.scalar)];
    if step.draw.is_some() {
        operands.push(mask(Role::Write));
        operands.push(Operand { name: "states", role: Role::Update, scalar: Scalar::I64, span: (0, 16) });
    } else {
        operands.push(mask(Role::Read));
    }
    Ok(operands)
}

/// A workspace, if there is one.
fn scratch(bytes: usize) -> Option<Operand> {
    let span = (0, bytes as i64);
    (bytes > 0).then_some(Operand { name: "workspace", role: Role::Scratch, scalar: Scalar::U8, span })
}

fn normalise(step: &Normalise) -> Result<Vec<Operand>, String> {
    let data =
        |k: usize| -> Result<Span, String> { Ok(sum(span(&step.groups, k)?, span(&step.members, k)?)) };
    let parameters = span(&step.groups, 4)?;
    let number = step.compute.scalar();
    let (batch, running, saves) = match step.statistics {
        Statistics::Given => (false, [true; 2], false),
        Statistics::Batch { running, saves, .. } => (true, running, saves),
    };
    let statistic = |wanted: bool| {
        let role = if batch { Role::Update } else { Role::Read };
        when(wanted, operand(role, parameters, number))
    };
    let saved = || when(saves, operand(Role::Write, parameters, number));
    let reserve = match step.slopes {
        Some(scalar) => operand(Role::Write, data(3)?, scalar),
        None => absent(step.data),
    };
    let mut operands = vec![
        written(data(0)?, step.data, step.scaling.beta),
        saved(),
        saved(),
        statistic(running[0]),
        statistic(running[1]),
        reserve,
        read(data(1)?, step.data),
        when(step.adds, read(data(2)?, step.data)),
        read(parameters, number),
        read(parameters, number),
    ];
    operands.extend(scratch(step.workspace));
    Ok(operands)
}

fn normalise_backward(step: &NormaliseBackward) -> Result<Vec<Operand>, String> {
    let data =
        |k: usize| -> Result<Span, String> { Ok(sum(span(&step.groups, k)?, span(&step.members, k)?)) };
    let parameters = span(&step.groups, 5)?;
    let number = step.compute.scalar();
    let gradient = || written(parameters, number, step.parameter_scaling.beta);
    let reserve = match step.slope {
        Slope::Kept(scalar) => read(data(4)?, scalar),
        _ => absent(step.data),
    };
    let mut operands = vec![
        written(data(0)?, step.data, step.scaling.beta),
        gradient(),
        gradient(),
        when(step.splits, operand(Role::Write, data(3)?, step.data)),
        read(data(1)?, step.data),
        read(data(2)?, step.data),
        read(parameters, number),
        when(matches!(step.slope, Slope::Of(_)), read(parameters, number)),
        when(step.saved, read(parameters, number)),
        when(step.saved, read(parameters, number)),
        reserve,
    ];
    operands.extend(scratch(step.workspace));
    Ok(operands)
}

fn window(step: &Window) -> Result<Vec<Operand>, String> {
    let reach = |layout: usize, extent: &dyn Fn(&WindowAxis) -> i64| -> Result<Span, String> {
        let mut span = span(&step.outer, layout)?;
        for axis in step.axes.iter() {
            span = sum(span, cut(&axis.cuts[layout], extent(axis)));
        }
        Ok(span)
    };
    let columns = matches!(step.function, cudnn::ops::window::WindowFunction::Columns);
    let mut dst = reach(0, &|axis| axis.extent(step.is_gradient()))?;
    if columns {
        let outer = (0, 0);
        let taps = step.axes.iter().fold(outer, |span, axis| sum(span, cut(&axis.cuts[2], axis.window)));
        dst = sum(dst, taps);
    }
    let src = reach(1, &|axis| axis.inputs)?;
    let gradient = if columns { (0, 0) } else { reach(2, &|axis| axis.outputs)? };
    let touches = step.touches();
    Ok(vec![
        written(dst, step.scalars[0], step.scaling.beta),
        when(touches[1], written(dst, step.scalars[0], step.scaling.beta)),
        when(touches[2], read(src, step.scalars[1])),
        when(touches[3], read(gradient, step.scalars[2])),
        when(touches[4], read(src, step.scalars[1])),
    ])
}

/// Where the coordinates below `extent` lie.
fn cut(cut: &Cut, extent: i64) -> Span {
    let last = (extent - 1).min(i64::from(u32::MAX));
    let ends = [0, last, (last + 1) / cut.block * cut.block - 1].map(|c| cut.offset(c.max(0)));
    (ends.into_iter().min().unwrap_or(0), ends.into_iter().max().unwrap_or(0))
}
