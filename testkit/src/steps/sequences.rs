//! Causal convolutions: their line, their operands, and shorter ones.

use cudnn::dtype::Scalar;
use cudnn::ops::causal::{CausalFunction, PARTS};
use cudnn::ops::{Causal, Operand, Role};

use super::operands::{operand, read};
use super::parse::Result;
use super::text::Text;
use super::vary::{Shorten, shortened};

const FUNCTIONS: [CausalFunction; 6] = [
    CausalFunction::Forward,
    CausalFunction::Data,
    CausalFunction::Weights,
    CausalFunction::Gated,
    CausalFunction::GatedData,
    CausalFunction::GatedWeights,
];

impl Text<'_> {
    /// ` Weights f16 to f32 2x96x1024 ncw taps=4 bias silu adds`; of a gated pair
    /// ` Gated f32 2x96x1024 ncw taps=3 mixer=128`.
    pub fn causal(&mut self) -> Result<Causal> {
        self.expect(" ")?;
        let function = self.one_of(&FUNCTIONS, |f| format!("{f:?} "), "a causal function")?;
        let scalar = self.scalar()?;
        let gradient = match function.is_of_weights() {
            true => {
                self.expect(" to ")?;
                self.scalar()?
            }
            false => scalar,
        };
        let fits = match scalar {
            Scalar::F64 => gradient == Scalar::F64,
            Scalar::F32 | Scalar::F16 | Scalar::Bf16 => gradient == Scalar::F32 || !function.is_of_weights(),
            _ => false,
        };
        if !fits {
            return Err("numbers are floating, and gradients of weights of the type of sums".to_owned());
        }
        self.expect(" ")?;
        let batch = self.extent()?;
        self.expect("x")?;
        let channels = self.extent()?;
        self.expect("x")?;
        let length = self.extent()?;
        let channels_inside = self.eat(" nwc");
        if !channels_inside {
            self.expect(" ncw")?;
        }
        let taps = self.named("taps")?;
        let mixer = if function.is_gated() { self.named("mixer")? } else { 0 };
        let words = [" newest-first", " bias", " silu", " adds"];
        let [newest_first, bias, silu, adds] = words.map(|word| self.eat(word));
        if taps < 1 || function.is_gated() && mixer < 1 {
            return self.fail("at least one tap");
        }
        if function.is_gated() && (channels_inside || newest_first || bias || silu) {
            return Err("a gated pair has positions inside, and neither bias nor activation".to_owned());
        }
        Ok(Causal {
            function,
            batch,
            channels,
            length,
            taps,
            mixer,
            channels_inside,
            newest_first,
            bias,
            silu,
            adds,
            scalar,
            gradient,
        })
    }
}

/// In the order of the step.
pub fn operands(step: &Causal) -> Vec<Operand> {
    let Causal { channels, scalar, gradient, .. } = *step;
    let line = step.batch * channels * step.length;
    let (weight, mixer) = (channels * step.taps, channels * step.mixer);
    let reads = |elements: i64| read((0, elements - 1), scalar);
    let writes = |elements: i64| operand(Role::Write, (0, elements - 1), scalar);
    let role = if step.adds { Role::Update } else { Role::Write };
    let sums = |elements: i64| operand(role, (0, elements - 1), gradient);
    let none = |scalar| Operand { name: "no operand", role: Role::Read, scalar, span: (0, 0) };
    let bias = if step.bias { reads(channels) } else { none(scalar) };
    let dbias = if step.bias { sums(channels) } else { none(gradient) };
    let (lines, projections) = (PARTS * line, PARTS * weight);
    let pair = || [reads(lines), reads(projections), reads(mixer), reads(channels)];
    match step.function {
        CausalFunction::Forward => vec![writes(line), reads(line), reads(weight), bias],
        CausalFunction::Data => vec![writes(line), reads(line), reads(weight), bias, reads(line)],
        CausalFunction::Weights => vec![sums(weight), dbias, reads(line), reads(weight), bias, reads(line)],
        CausalFunction::Gated => [writes(line), writes(line)].into_iter().chain(pair()).collect(),
        CausalFunction::GatedData => {
            [writes(lines)].into_iter().chain(pair()).chain([reads(line), reads(line)]).collect()
        }
        CausalFunction::GatedWeights => [sums(projections), sums(mixer), sums(channels)]
            .into_iter()
            .chain(pair())
            .chain([reads(line), reads(line)])
            .collect(),
    }
}

/// The step with other extents.
pub fn shorter(step: &Causal, f: Shorten<'_>) -> Causal {
    let mut short = *step;
    for extent in [&mut short.batch, &mut short.channels, &mut short.length, &mut short.taps] {
        *extent = shortened(*extent, f);
    }
    if step.function.is_gated() {
        short.mixer = shortened(step.mixer, f);
    }
    short
}
