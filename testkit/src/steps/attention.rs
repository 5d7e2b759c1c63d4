//! Attention in one step, and its gradients: their lines, their operands, what these have to hold,
//! and shorter ones.

use cudnn::dtype::Scalar;
use cudnn::ops::attend::{Attend, AttendBackward, Cap, Dropout, Kept, Side};
use cudnn::ops::{Operand, Role};

use super::operands::{absent, operand, read};
use super::parse::Result;
use super::text::Text;
use super::vary::{Shorten, shortened};
use crate::random::Rng;

impl Text<'_> {
    /// ` f16 2x8x512x512 widths=64,64 heads=8,2 o=(a,b,c,d) q=(..) k=(..) v=(..) stats=(a,b,c) log2
    /// scale=f32 fill=f32 queries=s32*1 keys=s32*1 padded right=s32 strict moves left=none
    /// bias=f16(a,b,c,d) slopes=f32*1 cap=f32,f32 divides sink=f32*1 dropout=f32
    /// kept=f16(a,b,c,d)`, or `threshold=1` in the end
    pub fn attend(&mut self) -> Result<Attend> {
        self.expect(" ")?;
        let scalar = self.scalar()?;
        self.expect(" ")?;
        let mut extents = [self.extent()?, 0, 0, 0];
        for extent in &mut extents[1..] {
            self.expect("x")?;
            *extent = self.extent()?;
        }
        self.expect(" widths=")?;
        let widths: [i64; 2] = self.list()?;
        self.expect(" heads=")?;
        let heads: [i64; 2] = self.list()?;
        if heads.iter().any(|&own| own < 1 || extents[1] % own != 0) || widths.iter().any(|&width| width < 1)
        {
            return Err("heads that divide those of queries, and columns".to_owned());
        }
        let mut strides = [[0; 4]; 4];
        for (name, strides) in [" o=(", " q=(", " k=(", " v=("].into_iter().zip(&mut strides) {
            self.expect(name)?;
            *strides = self.list()?;
            self.expect(")")?;
        }
        let mut stats = None;
        if self.eat(" stats=(") {
            stats = Some(self.list()?);
            self.expect(")")?;
        }
        let log2 = self.eat(" log2");
        let mut number = |name| if self.eat(name) { self.scalar().map(Some) } else { Ok(None) };
        let (scale, fill) = (number(" scale=")?, number(" fill=")?);
        let mut lengths = [None; 2];
        for (name, length) in [" queries=", " keys="].into_iter().zip(&mut lengths) {
            if self.eat(name) {
                *length = Some((self.scalar()?, self.after_star()?));
            }
        }
        let padded = self.eat(" padded");
        let mut sides = [None; 2];
        for (name, side) in [" right=", " left="].into_iter().zip(&mut sides) {
            if self.eat(name) {
                let bound = if self.eat("none") { None } else { Some(self.scalar()?) };
                let [strict, moves] = [" strict", " moves"].map(|word| self.eat(word));
                *side = Some(Side { bound, strict, moves });
            }
        }
        let [right, left] = sides;
        let bias = if self.eat(" bias=") { Some(self.bias()?) } else { None };
        let slopes = self.by_head(" slopes=")?;
        let cap = if self.eat(" cap=") { Some(self.cap()?) } else { None };
        let sink = self.by_head(" sink=")?;
        let dropout = if self.eat(" dropout=") { Some(self.dropout()?) } else { None };
        Ok(Attend {
            extents,
            heads,
            widths,
            scalar,
            strides,
            stats,
            log2,
            scale,
            fill,
            lengths,
            padded,
            right,
            left,
            bias,
            cap,
            sink,
            dropout,
            slopes,
        })
    }

    /// `f32 kept=f16(a,b,c,d)` or `f32 threshold=1`
    fn dropout(&mut self) -> Result<Dropout> {
        let factor = self.scalar()?;
        let kept = match self.eat(" kept=") {
            true => {
                let (scalar, strides) = self.bias()?;
                Kept::Given(scalar, strides)
            }
            false => {
                self.expect(" threshold=")?;
                Kept::Drawn(self.number("a random number")?)
            }
        };
        Ok(Dropout { kept, factor })
    }

    /// `f32*1` behind its name, if it is there.
    fn by_head(&mut self, name: &str) -> Result<Option<(Scalar, i64)>> {
        if self.eat(name) { Ok(Some((self.scalar()?, self.after_star()?))) } else { Ok(None) }
    }

    /// `*1`
    fn after_star(&mut self) -> Result<i64> {
        self.expect("*")?;
        self.number("from one to the next")
    }

    /// `f32,f32 divides`
    fn cap(&mut self) -> Result<Cap> {
        let inner = self.scalar()?;
        self.expect(",")?;
        Ok(Cap { inner, outer: self.scalar()?, divides: self.eat(" divides") })
    }

    /// `f16(a,b,c,d)`
    fn bias(&mut self) -> Result<(Scalar, [i64; 4])> {
        let scalar = self.scalar()?;
        self.expect("(")?;
        let strides = self.list()?;
        self.expect(")")?;
        Ok((scalar, strides))
    }

    /// The same, which has statistics, and ` dq=(a,b,c,d) dk=(..) dv=(..) do=(..) inverse=f32
    /// dbias=f16(a,b,c,d)`
    pub fn attend_backward(&mut self) -> Result<AttendBackward> {
        let forward = self.attend()?;
        if forward.stats.is_none() {
            return Err("gradients need statistics".to_owned());
        }
        let mut strides = [[0; 4]; 4];
        for (name, strides) in [" dq=(", " dk=(", " dv=(", " do=("].into_iter().zip(&mut strides) {
            self.expect(name)?;
            *strides = self.list()?;
            self.expect(")")?;
        }
        let inverse = if self.eat(" inverse=") { Some(self.scalar()?) } else { None };
        let bias = if self.eat(" dbias=") { Some(self.bias()?) } else { None };
        Ok(AttendBackward { forward, strides, inverse, bias })
    }
}

/// The names of operands that hold a number, or one for each batch.
const NAMES: [&str; 6] = ["scale", "fill", "queries", "keys", "right", "left"];

/// Extents of o, q, k and v.
pub fn matrices(step: &Attend) -> [[i64; 4]; 4] {
    let [batch, heads, rows, keys] = step.extents;
    let ([of_k, of_v], [width, columns]) = (step.heads, step.widths);
    [
        [batch, heads, rows, columns],
        [batch, heads, rows, width],
        [batch, of_k, keys, width],
        [batch, of_v, keys, columns],
    ]
}

/// Extents of dq, dk, dv and do.
pub fn gradients(step: &AttendBackward) -> [[i64; 4]; 4] {
    let [o, q, k, v] = matrices(&step.forward);
    [q, k, v, o]
}

/// Extents of the gradient of the bias.
pub fn bias_gradient(step: &AttendBackward, strides: [i64; 4]) -> [i64; 4] {
    let all = step.forward.extents;
    std::array::from_fn(|axis| if axis < 2 && strides[axis] == 0 { 1 } else { all[axis] })
}

/// The first and the last element.
fn reach(dims: &[i64], strides: &[i64]) -> (i64, i64) {
    let ends = dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride);
    ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)))
}

/// In the order of the step, of which o and the statistics are written or read.
fn operands_as(step: &Attend, role: Role) -> Vec<Operand> {
    let [batch, heads, rows, _] = step.extents;
    let dims = matrices(step);
    let matrix = |k: usize| reach(&dims[k], &step.strides[k]);
    let (scalars, touches) = (step.scalars(), step.touches());
    let stats = step.stats.map_or((0, 0), |strides| reach(&[batch, heads, rows], &strides));
    let mut all = vec![operand(role, matrix(0), step.scalar), operand(role, stats, Scalar::F32)];
    all.extend((1..4).map(|k| read(matrix(k), step.scalar)));
    for (k, name) in NAMES.into_iter().enumerate() {
        let count =
            if let 2 | 3 = k { step.lengths[k - 2].map_or(0, |(_, stride)| stride * (batch - 1)) } else { 0 };
        all.push(Operand { name, ..read((0, count), scalars[5 + k]) });
    }
    let of_bias = step.bias.map_or((0, 0), |(_, strides)| reach(&step.extents, &strides));
    all.push(Operand { name: "bias", ..read(of_bias, scalars[Attend::BIAS]) });
    for (name, operand) in [("inner", Attend::INNER), ("outer", Attend::OUTER)] {
        all.push(Operand { name, ..read((0, 0), scalars[operand]) });
    }
    let of_sink = step.sink.map_or((0, 0), |(_, step)| reach(&[heads], &[step]));
    all.push(Operand { name: "sink", ..read(of_sink, scalars[Attend::SINK]) });
    let (name, of_kept) = match step.dropout.map(|of| of.kept) {
        Some(Kept::Given(_, strides)) => ("kept", reach(&step.extents, &strides)),
        _ => ("states", (0, 1)),
    };
    all.push(Operand { name, ..read(of_kept, scalars[Attend::KEPT]) });
    all.push(Operand { name: "factor", ..read((0, 0), scalars[Attend::FACTOR]) });
    let of_slopes = step.slopes.map_or((0, 0), |(_, step)| reach(&[heads], &[step]));
    all.push(Operand { name: "slopes", ..read(of_slopes, scalars[Attend::SLOPES]) });
    let each = all.into_iter().zip(touches);
    each.map(|(operand, touched)| if touched { operand } else { absent(operand.scalar) }).collect()
}

/// In the order of the step.
pub fn operands(step: &Attend) -> Vec<Operand> {
    operands_as(step, Role::Write)
}

/// Likewise.
pub fn backward_operands(step: &AttendBackward) -> Vec<Operand> {
    let scalar = step.forward.scalar;
    let spans = gradients(step).into_iter().zip(step.strides).map(|(dims, strides)| reach(&dims, &strides));
    let roles = [Role::Write, Role::Write, Role::Write, Role::Read];
    let mut all: Vec<_> =
        roles.into_iter().zip(spans).map(|(role, span)| operand(role, span, scalar)).collect();
    all.extend(operands_as(&step.forward, Role::Read));
    all.push(step.inverse.map_or(absent(scalar), |of| Operand { name: "inverse", ..read((0, 0), of) }));
    let of_bias =
        |(scalar, strides)| operand(Role::Write, reach(&bias_gradient(step, strides), &strides), scalar);
    all.push(step.bias.map_or(absent(scalar), of_bias));
    all
}

/// What an operand that is a number, or lengths, has to hold, if it is one: lengths of sequences
/// that fit, bounds of a few keys.
pub fn numbers(step: &Attend, name: &str, seed: u64) -> Option<Vec<f64>> {
    let rng = &mut Rng(seed ^ 2);
    let [batch, _, rows, keys] = step.extents;
    let mut some = |count: i64, most: i64| {
        let each = |_| if rng.below(3) == 0 { most } else { rng.below(most as usize + 1) as i64 };
        (0..count.max(1)).map(each).map(|number| number as f64).collect::<Vec<_>>()
    };
    let count = |k: usize| step.lengths[k].map_or(1, |(_, stride)| stride * (batch - 1) + 1);
    Some(match name {
        "scale" => vec![0.375],
        // So small that it bends what scores there are.
        "inner" => vec![if step.cap.is_some_and(|cap| cap.divides) { 1.5 } else { 0.75 }],
        "outer" => vec![1.75],
        "factor" => vec![1.25],
        // So small that scores stay below a hundred.
        "slopes" => {
            let count = step.slopes.map_or(1, |(_, apart)| apart * (step.extents[1] - 1) + 1);
            (0..count).map(|place| 0.25 / (1 << (place % 5)) as f64).collect()
        }
        "inverse" => vec![0.8125],
        "fill" => vec![[-3.0, f64::from(f32::MIN), f64::NEG_INFINITY, f64::NEG_INFINITY][rng.below(4)]],
        "queries" => some(count(0), rows),
        "keys" => some(count(1), keys),
        "right" => some(1, keys / 2),
        "left" => some(1, rows / 2),
        _ => return None,
    })
}

/// Whether the CUDA core has kernels for it.
pub fn is_for_cuda(step: &Attend) -> bool {
    !step.is_changed() && step.widths.iter().all(|&width| width <= 128)
}

/// The same with other extents. Heads stay as they are shared.
pub fn shorter(step: &Attend, f: Shorten<'_>) -> Attend {
    let mut short = *step;
    for k in [0, 2, 3] {
        short.extents[k] = shortened(step.extents[k], f);
    }
    short.widths = step.widths.map(|width| shortened(width, f));
    short
}

/// Likewise.
pub fn shorter_backward(step: &AttendBackward, f: Shorten<'_>) -> AttendBackward {
    AttendBackward { forward: shorter(&step.forward, f), ..*step }
}
