//! Steps that look between pixels: their line, their operands, and shorter ones.

use cudnn::ops::sample::{Pictures, Sample, SampleFunction};
use cudnn::ops::{Operand, Role};

use super::operands::{operand, read, written};
use super::parse::Result;
use super::text::Text;
use super::vary::{Shorten, shortened};

const ALL: &[SampleFunction] = &[
    SampleFunction::AffineGrid,
    SampleFunction::AffineGradient,
    SampleFunction::Bilinear,
    SampleFunction::DataGradient,
    SampleFunction::GridGradient,
];

fn is_affine(function: SampleFunction) -> bool {
    matches!(function, SampleFunction::AffineGrid | SampleFunction::AffineGradient)
}

impl Text<'_> {
    /// ` Bilinear grid f32 in f32 alpha=1 beta=0 8x3 at 4x5 of 6x7 x f32[a, b, c, d] y f32[a, b, c, d]x4`
    pub fn sample(&mut self) -> Result<Sample> {
        self.expect(" ")?;
        let function = self.one_of(ALL, |f| format!("{f:?} "), "a function of pictures")?;
        self.expect("grid ")?;
        let grid = self.scalar()?;
        self.expect(" in ")?;
        let compute = self.compute()?;
        let scaling = self.optional_scaling()?;
        self.expect(" ")?;
        let [images, channels] = self.extents()?;
        self.expect(" at ")?;
        let target = self.extents()?;
        let mut step = Sample {
            function,
            images,
            channels,
            source: [1; 2],
            target,
            x: Pictures::none(grid),
            y: Pictures::none(grid),
            grid,
            compute,
            scaling,
        };
        if !is_affine(function) {
            self.expect(" of ")?;
            step.source = self.extents()?;
            step.x = self.pictures(" x ")?;
            step.y = self.pictures(" y ")?;
        }
        Ok(step)
    }

    fn extents(&mut self) -> Result<[i64; 2]> {
        let first = self.extent()?;
        self.expect("x")?;
        Ok([first, self.extent()?])
    }

    fn pictures(&mut self, name: &str) -> Result<Pictures> {
        self.expect(name)?;
        let scalar = self.scalar()?;
        let mut strides = [0; 4];
        for (k, stride) in strides.iter_mut().enumerate() {
            self.expect(if k == 0 { "[" } else { ", " })?;
            *stride = self.number("a stride")?;
        }
        self.expect("]")?;
        let block = if self.eat("x") { self.extent()? } else { 1 };
        Ok(Pictures { scalar, strides, block })
    }
}

/// Lowest and highest offset of pictures of these rows and columns.
fn span(at: &Pictures, step: &Sample, [rows, columns]: [i64; 2]) -> (i64, i64) {
    let (mut low, mut high) = (0_i64, at.block.min(step.channels) - 1);
    let groups = (step.channels + at.block - 1) / at.block;
    for (extent, stride) in [step.images, groups, rows, columns].into_iter().zip(at.strides) {
        let reach = stride.saturating_mul(extent - 1);
        (low, high) = (low.saturating_add(reach.min(0)), high.saturating_add(reach.max(0)));
    }
    (low, high)
}

/// The operands, as [`SampleFunction`] lists them.
pub fn operands(step: &Sample) -> Vec<Operand> {
    let named = |name: &'static str, operand: Operand| Operand { name, ..operand };
    let packed = |numbers: i64| (0, step.images.saturating_mul(numbers) - 1);
    let places = packed(step.positions().saturating_mul(2));
    let grid = || named("grid", read(places, step.grid));
    let maps = packed(6);
    let x = span(&step.x, step, step.source);
    let y = span(&step.y, step, step.target);
    match step.function {
        SampleFunction::AffineGrid => {
            vec![operand(Role::Write, places, step.grid), read(maps, step.grid)]
        }
        SampleFunction::AffineGradient => {
            vec![operand(Role::Write, maps, step.grid), read(places, step.grid)]
        }
        SampleFunction::Bilinear => {
            vec![written(y, step.y.scalar, step.scaling.beta), read(x, step.x.scalar), grid()]
        }
        SampleFunction::DataGradient => {
            vec![written(x, step.x.scalar, step.scaling.beta), read(y, step.y.scalar), grid()]
        }
        SampleFunction::GridGradient => vec![
            written(places, step.grid, step.scaling.beta),
            read(x, step.x.scalar),
            read(y, step.y.scalar),
            grid(),
        ],
    }
}

/// The same with shorter loops, of which blocks of channels stay whole.
pub fn shorter(step: &Sample, f: Shorten<'_>) -> Sample {
    let mut short = *step;
    let block = step.x.block.max(step.y.block);
    short.images = shortened(step.images, f);
    short.channels = shortened(step.channels / block, f) * block;
    for extents in [&mut short.source, &mut short.target] {
        *extents = extents.map(|extent| shortened(extent, f));
    }
    if is_affine(step.function) {
        short.source = [1; 2];
    }
    short
}
