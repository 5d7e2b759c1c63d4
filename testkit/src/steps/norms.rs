//! Rows that are normalised: their lines, their operands, and shorter ones.

use cudnn::dtype::Scalar;
use cudnn::ops::row_norm::Parameter;
use cudnn::ops::{Operand, Role, RowNorm, RowNormBackward};

use super::operands::{absent, operand, span};
use super::parse::Result;
use super::text::Text;
use super::vary::{self, Shorten, shortened};

impl Text<'_> {
    /// ` f32->f32->f16 centred epsilon=f32+0 mean=f32 inverse=f32 scale=f32*1 bias=f32*0 100 in each of
    /// dst/src1/...`
    pub fn row_norm(&mut self) -> Result<RowNorm> {
        self.expect(" ")?;
        let x = self.scalar()?;
        self.expect("->")?;
        let compute = self.compute()?;
        self.expect("->")?;
        let data = [self.scalar()?, x];
        let centred = self.eat(" centred");
        self.expect(" epsilon=")?;
        let epsilon = (self.scalar()?, self.number("scalars")?);
        let mut saved = [None; 2];
        for (name, saved) in [" mean=", " inverse="].into_iter().zip(&mut saved) {
            *saved = if self.eat(name) { Some(self.scalar()?) } else { None };
        }
        let mut parameters = [None; 2];
        for (name, of) in [" scale=", " bias="].into_iter().zip(&mut parameters) {
            if self.eat(name) {
                let scalar = self.scalar()?;
                let each = self.one_of(&[false, true], |each| format!("*{}", u8::from(*each)), "*0 or *1")?;
                *of = Some(Parameter { scalar, each });
            }
        }
        self.expect(" ")?;
        let length = self.extent()?;
        self.expect(" in each of ")?;
        Ok(RowNorm { rows: self.nest()?, length, data, compute, centred, saved, parameters, epsilon })
    }

    /// ` f32,f32->f32->f32 scale=f32 mean=f32 inverse=f32 dscale=f32+0 dbias=f32+0 100 in each of
    /// dst/src1/...`, behind ` backward`.
    pub fn row_norm_backward(&mut self) -> Result<RowNormBackward> {
        self.expect(" ")?;
        let x = self.scalar()?;
        self.expect(",")?;
        let dy = self.scalar()?;
        self.expect("->")?;
        let compute = self.compute()?;
        self.expect("->")?;
        let data = [self.scalar()?, x, dy];
        let mut parameters = [None; 2];
        for (name, of) in [" scale=", " mean="].into_iter().zip(&mut parameters) {
            *of = if self.eat(name) { Some(self.scalar()?) } else { None };
        }
        self.expect(" inverse=")?;
        let inverse = self.scalar()?;
        let mut sums = [None; 2];
        for (name, sum) in [" dscale=", " dbias="].into_iter().zip(&mut sums) {
            if self.eat(name) {
                *sum = Some((self.scalar()?, self.number("scalars")?));
            }
        }
        self.expect(" ")?;
        let length = self.extent()?;
        self.expect(" in each of ")?;
        Ok(RowNormBackward { rows: self.nest()?, length, data, compute, parameters, inverse, sums })
    }
}

/// The operands, in the order of the step.
pub fn operands(step: &RowNorm) -> Result<Vec<Operand>> {
    let (scalars, touches) = (step.scalars(), step.touches());
    let last = step.length - 1;
    let along = |k: usize| match k {
        0 | RowNorm::X => last,
        4 | 5 if step.parameters[k - 4].is_some_and(|of| of.each) => last,
        _ => 0,
    };
    let mut operands = Vec::new();
    for k in 0..RowNorm::OPERANDS {
        let (low, high) = match k {
            6 => (step.epsilon.1, step.epsilon.1),
            _ => span(&step.rows, k)?,
        };
        let role = if k < RowNorm::X { Role::Write } else { Role::Read };
        let own = operand(role, (low, high + along(k)), scalars[k]);
        operands.push(if touches[k] { own } else { absent(scalars[k]) });
    }
    Ok(operands)
}

/// The same with other extents.
pub fn shorter(step: &RowNorm, f: Shorten<'_>) -> RowNorm {
    RowNorm { rows: vary::nest(&step.rows, f), length: shortened(step.length, f), ..*step }
}

/// The same with other types.
pub fn of_types(step: &RowNorm, mut pick: impl FnMut() -> Scalar) -> RowNorm {
    let parameter = |of: Parameter, scalar| Parameter { scalar, ..of };
    RowNorm {
        data: step.data.map(|_| pick()),
        saved: step.saved.map(|saved| saved.map(|_| pick())),
        parameters: step.parameters.map(|of| of.map(|of| parameter(of, pick()))),
        epsilon: (pick(), step.epsilon.1),
        ..*step
    }
}

/// The operands of the gradients, in the order of the step.
pub fn backward_operands(step: &RowNormBackward) -> Result<Vec<Operand>> {
    let (scalars, touches) = (step.scalars(), step.touches());
    let last = step.length - 1;
    let mut operands = Vec::new();
    for k in 0..RowNormBackward::OPERANDS {
        let (low, high) = match RowNormBackward::place(k) {
            Some(place) => span(&step.rows, place)?,
            None => step.sums[k - 1].map_or((0, 0), |(_, at)| (at, at)),
        };
        let role = if k < RowNormBackward::X { Role::Write } else { Role::Read };
        let own = operand(role, (low, high + if k < 6 { last } else { 0 }), scalars[k]);
        operands.push(if touches[k] { own } else { absent(scalars[k]) });
    }
    Ok(operands)
}

/// The gradients with other extents.
pub fn shorter_backward(step: &RowNormBackward, f: Shorten<'_>) -> RowNormBackward {
    RowNormBackward { rows: vary::nest(&step.rows, f), length: shortened(step.length, f), ..*step }
}

/// The gradients with other types.
pub fn backward_of_types(step: &RowNormBackward, mut pick: impl FnMut() -> Scalar) -> RowNormBackward {
    RowNormBackward {
        data: step.data.map(|_| pick()),
        parameters: step.parameters.map(|of| of.map(|_| pick())),
        inverse: pick(),
        sums: step.sums.map(|sum| sum.map(|(_, at)| (pick(), at))),
        ..*step
    }
}
