//! Steps that align labels: their line, their operands, and shorter ones.

use cudnn::dtype::Scalar;
use cudnn::ops::ctc::{Ctc, Gradients};
use cudnn::ops::{Operand, Role};

use super::operands::{operand, read};
use super::parse::Result;
use super::text::Text;
use super::vary::{Shorten, shortened};

impl Text<'_> {
    /// ` f32 softmax skip 50/60x4x30 labels=12 probs=(120,30,1) gradients=f32(120,30,1)`; that
    /// labels came from the host is another step's part, and does not change this one.
    pub fn ctc(&mut self) -> Result<Ctc> {
        self.expect(" ")?;
        let compute = self.compute()?;
        let [softmax, skips] = [" softmax", " skip"].map(|word| self.eat(word));
        if self.eat(" host") {
            return Err("labels of the host are in the workspace, where another step writes them".to_owned());
        }
        self.expect(" ")?;
        let frames = self.extent()?;
        self.expect("/")?;
        let rows = self.extent()?;
        self.expect("x")?;
        let samples = self.extent()?;
        self.expect("x")?;
        let classes = self.extent()?;
        let longest = self.named("labels")?;
        self.expect(" probs=")?;
        let probs = self.strides()?;
        let gradients = match self.eat(" gradients=") {
            true => Some(Gradients { scalar: self.scalar()?, strides: self.strides()? }),
            false => None,
        };
        let on_host = false;
        Ok(Ctc {
            compute,
            rows,
            frames,
            samples,
            classes,
            longest,
            softmax,
            skips,
            on_host,
            probs,
            gradients,
        })
    }

    fn strides(&mut self) -> Result<[i64; 3]> {
        self.expect("(")?;
        let strides = self.list()?;
        self.expect(")")?;
        Ok(strides)
    }
}

/// In the order of the step. What lies in the workspace afterwards is left open.
pub fn operands(step: &Ctc) -> Vec<Operand> {
    let scalar = step.compute.scalar();
    let reach = |strides: [i64; 3]| {
        let ends = [step.rows, step.samples, step.classes].into_iter().zip(strides);
        ends.fold((0, 0), |(low, high), (extent, stride): (i64, i64)| {
            let end = (extent - 1) * stride;
            (low + end.min(0), high + end.max(0))
        })
    };
    let integers = |name, count: i64| Operand { name, ..read((0, count - 1), Scalar::I32) };
    let gradients = match step.gradients {
        Some(to) => operand(Role::Write, reach(to.strides), to.scalar),
        None => Operand { name: "no operand", role: Role::Read, scalar, span: (0, 0) },
    };
    vec![
        operand(Role::Write, (0, step.samples - 1), scalar),
        gradients,
        operand(Role::Scratch, (0, step.workspace_size() as i64 - 1), Scalar::U8),
        read(reach(step.probs), scalar),
        integers("labels", (step.samples * step.longest).max(1)),
        integers("label lengths", step.samples),
        integers("input lengths", step.samples),
    ]
}

/// The range of the integers of an operand, most of which are what they should be.
pub fn integers(step: &Ctc, name: &str) -> Option<[i64; 2]> {
    match name {
        "labels" => Some([1, (step.classes - 1).max(1)]),
        "label lengths" => Some([0, step.longest]),
        "input lengths" => Some([step.frames - step.frames / 3, step.frames]),
        _ => None,
    }
}

/// The same with shorter loops.
pub fn shorter(step: &Ctc, f: Shorten<'_>) -> Ctc {
    let mut short = *step;
    short.rows = shortened(step.rows, f);
    short.samples = shortened(step.samples, f);
    short.classes = shortened(step.classes, f);
    short.longest = shortened(step.longest, f);
    short.frames = step.frames.min(short.rows);
    short
}
