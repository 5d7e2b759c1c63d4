//! Reads a step from its line of text: the inverse of what the log shows of it, and a short form
//! for matrix products.
//!
//! Strict: whatever is not expected at its place is an error that says what is, and how the rest of
//! the line begins.

use cudnn::layout::{Axis, Cut, LoopNest};
use cudnn::ops::function::TABLE;
use cudnn::ops::map::Factors;
use cudnn::ops::normalise::{Slope, Statistics};
use cudnn::ops::window::{Axes, Divisor, Power, WindowAxis, WindowFunction};
use cudnn::ops::{
    Compute, Draw, Indices, Map, NanRule, Normalise, NormaliseBackward, Padded, Random, Reduce, Reduction,
    RowFunction, Rows, Scale, Scaling, Sequence, Set, Transform, Window,
};

use super::Owned;
use super::text::Text;

/// What was expected, and what is there.
pub type Result<T> = std::result::Result<T, String>;

pub const RULES: [NanRule; 2] = [NanRule::Ignore, NanRule::Propagate];

/// Reads a line; all of it.
pub fn step(line: &str) -> Result<Owned> {
    let mut text = Text(line.trim());
    let kind = text.word("a kind of step")?;
    let step = match kind {
        "transform" => text.transform()?,
        "scale" => Owned::Scale(text.scale()?),
        "set" => Owned::Set(text.set()?),
        "map" => text.map()?,
        "norm" if text.eat(" backward") => Owned::RowNormBackward(text.row_norm_backward()?),
        "norm" => Owned::RowNorm(text.row_norm()?),
        "rows" => Owned::Rows(text.rows()?),
        "reduce" => Owned::Reduce(text.reduce()?),
        "random" => Owned::Random(text.random()?),
        "window" => Owned::Window(text.window()?),
        "normalise" if text.eat(" backward") => Owned::NormaliseBackward(text.normalise_backward()?),
        "normalise" => Owned::Normalise(text.normalise()?),
        "sample" => Owned::Sample(text.sample()?),
        "ctc" => Owned::Ctc(text.ctc()?),
        "causal" => Owned::Causal(text.causal()?),
        "aggregate" => Owned::Aggregate(text.aggregate()?),
        "attend" if text.eat(" backward") => Owned::AttendBackward(text.attend_backward()?),
        "attend" => Owned::Attend(text.attend()?),
        "ragged" => Owned::Ragged(text.ragged()?),
        "words" => Owned::Words(text.words()?),
        "contract" => Owned::Contract(text.contract()?),
        "product" => Owned::Contract(text.product()?),
        _ => return Err(format!("`{kind}` is no kind of step")),
    };
    if text.0.is_empty() { Ok(step) } else { text.fail("the end of the line") }
}

impl Text<'_> {
    fn transform(&mut self) -> Result<Owned> {
        self.expect(" ")?;
        let src = self.scalar()?;
        self.expect("->")?;
        let dst = self.scalar()?;
        let scaling = self.optional_scaling()?;
        self.expect(" ")?;
        let nest = self.nest()?;
        if !self.eat(" in blocks of ") {
            return Ok(Owned::Transform(Transform { nest, dst, src, scaling }));
        }
        let extent = self.extent()?;
        self.expect("*(")?;
        let cells = Axis { extent, strides: self.list()? };
        self.expect(") and ")?;
        let zeros = self.extent()?;
        self.expect(if zeros == 1 { " zero" } else { " zeros" })?;
        if scaling.beta != 0.0 || cells.strides[0] != 1 {
            return Err("blocks are written without beta, one cell beside the other".to_owned());
        }
        Ok(Owned::Padded(Padded { blocks: nest, cells, zeros, dst, src, alpha: scaling.alpha }))
    }

    fn scale(&mut self) -> Result<Scale> {
        self.expect(" ")?;
        let dst = self.scalar()?;
        let beta = self.named("beta")?;
        self.expect(" ")?;
        Ok(Scale { nest: self.nest()?, dst, beta })
    }

    fn set(&mut self) -> Result<Set> {
        self.expect(" ")?;
        let dst = self.scalar()?;
        self.expect(" to bits 0x")?;
        let digits = self.word("hexadecimal digits")?;
        let cell = u64::from_str_radix(digits, 16).map_err(|error| format!("0x{digits}: {error}"))?;
        if dst.size() < 8 && cell >> (8 * dst.size()) != 0 {
            return Err(format!("0x{digits} has more bits than a {}", dst.name()));
        }
        self.expect(" ")?;
        Ok(Set { nest: self.nest()?, dst, cell })
    }

    fn map(&mut self) -> Result<Owned> {
        self.expect(" ")?;
        let name = self.word("a function")?;
        let Some(row) = TABLE.iter().find(|row| format!("{:?}", row.function) == name) else {
            return Err(format!("`{name}` is no function of the table"));
        };
        self.expect(" ")?;
        let mut named = vec![self.scalar()?];
        while self.eat(",") {
            named.push(self.scalar()?);
        }
        let arity = row.operands.len().max(1);
        if named.len() != 1 && named.len() != arity {
            return Err(format!("{name} reads {arity} operands, not {}", named.len()));
        }
        self.expect("->")?;
        let compute = self.compute()?;
        self.expect("->")?;
        let dst = self.scalar()?;
        let mut parameter = 0.0;
        for name in row.parameters {
            parameter = self.named(name)?;
        }
        self.expect(" alpha=[")?;
        let first = self.number("a factor")?;
        self.expect(", ")?;
        let alpha = [first, self.number("a factor")?];
        self.expect("]")?;
        let factors = Factors { alpha, beta: self.named("beta")? };
        self.expect(" ")?;
        let function = row.function;
        let read = |k: usize| named[(k - 1).min(named.len() - 1)];
        if self.0.starts_with("dst/src1/src2:") {
            if arity > 2 {
                return Err(format!("{name} reads {arity} operands, more than the loops have"));
            }
            let scalars = std::array::from_fn(|k| if k == 0 { dst } else { read(k) });
            return Ok(Owned::Map(Map {
                nest: self.nest()?,
                scalars,
                compute,
                function,
                parameter,
                factors,
            }));
        }
        let scalars = std::array::from_fn(|k| if k == 0 { dst } else { read(k) });
        Ok(Owned::WideMap(Map { nest: self.nest()?, scalars, compute, function, parameter, factors }))
    }

    fn rows(&mut self) -> Result<Rows> {
        const ALL: &[RowFunction] = &[
            RowFunction::Softmax,
            RowFunction::LogSoftmax,
            RowFunction::SoftmaxGradient,
            RowFunction::LogSoftmaxGradient,
        ];
        self.expect(" ")?;
        let function = self.one_of(ALL, |f| format!("{f:?} "), "a function of rows")?;
        let x = self.scalar()?;
        let mut dy = x;
        if function.arity() == 2 {
            self.expect(",")?;
            dy = self.scalar()?;
        }
        self.expect("->")?;
        let compute = self.compute()?;
        self.expect("->")?;
        let scalars = [self.scalar()?, x, dy];
        let scaling = self.scaling()?;
        self.expect(" groups ")?;
        let groups = self.nest()?;
        self.expect(" elements ")?;
        Ok(Rows { groups, elements: self.nest()?, scalars, compute, function, scaling })
    }

    /// Bytes of a workspace, if there is one.
    fn workspace(&mut self) -> Result<usize> {
        if self.0.starts_with(" workspace=") { self.named("workspace") } else { Ok(0) }
    }

    fn reduce(&mut self) -> Result<Reduce> {
        let nan = |f: fn(NanRule) -> Reduction| RULES.map(f);
        let plain = [Reduction::Add, Reduction::Mul, Reduction::Avg, Reduction::Norm1, Reduction::Norm2];
        let selecting = [nan(Reduction::Min), nan(Reduction::Max), nan(Reduction::Amax)].concat();
        let all = [&plain[..], &[Reduction::MulNoZeros], &selecting].concat();
        self.expect(" ")?;
        let reduction = self.one_of(&all, |r| format!("{r:?} "), "a reduction")?;
        let src = self.scalar()?;
        self.expect("->")?;
        let compute = self.compute()?;
        self.expect("->")?;
        let dst = self.scalar()?;
        let scaling = self.scaling()?;
        let mut indices = None;
        if self.eat(" indices=") {
            let all = [Indices::Bits32, Indices::Bits64, Indices::Bits16, Indices::Bits8];
            indices = Some(self.one_of(&all, |i| (8 * i.size()).to_string(), "8, 16, 32 or 64")?);
            if !reduction.selects() {
                return Err(format!("{reduction:?} has no indices"));
            }
        }
        let workspace = self.workspace()?;
        self.expect(" outputs ")?;
        let outputs = self.nest()?;
        self.expect(" each of")?;
        let mut pieces = Vec::new();
        while self.eat(" ") {
            pieces.push(self.nest()?);
        }
        let sequence = Sequence::new(&pieces).ok_or("a reduction has one or two nests of elements")?;
        Ok(Reduce { outputs, sequence, dst, src, compute, reduction, scaling, indices, workspace })
    }

    fn random(&mut self) -> Result<Random> {
        let draw = if self.eat(" draw") {
            Some(Draw { elements: self.named("elements")?, threshold: self.named("threshold")? })
        } else {
            self.expect(" mask")?;
            None
        };
        self.expect(" ")?;
        let scalar = self.scalar()?;
        let scale = self.named("scale")?;
        self.expect(" ")?;
        Ok(Random { nest: self.nest()?, scalar, scale, draw })
    }

    fn window_function(&mut self) -> Result<WindowFunction> {
        let gradient = self.eat(" gradient of");
        self.expect(" ")?;
        if self.eat("max") {
            let rule = if self.eat(" or NaN") { NanRule::Propagate } else { NanRule::Ignore };
            return Ok(if gradient { WindowFunction::MaxGradient(rule) } else { WindowFunction::Max(rule) });
        }
        if self.eat("average") {
            let by = if self.eat(" with padding") { Divisor::Padded } else { Divisor::Inside };
            return Ok(if gradient {
                WindowFunction::AverageGradient(by)
            } else {
                WindowFunction::Average(by)
            });
        }
        if self.eat("normalise") {
            let power = Power { k: self.named("k")?, scale: self.named("scale")?, beta: self.named("beta")? };
            let centred = self.eat(" with means");
            let means = gradient && self.eat(" and for means");
            return Ok(match gradient {
                true => WindowFunction::NormaliseGradient { power, centred, means },
                false => WindowFunction::Normalise { power, centred },
            });
        }
        if !gradient && self.eat("columns") {
            return Ok(WindowFunction::Columns);
        }
        self.fail("a function of windows")
    }

    fn window(&mut self) -> Result<Window> {
        let function = self.window_function()?;
        self.expect(" ")?;
        let mut scalars = [self.scalar()?; 3];
        let outer = LoopNest::new(&[], [0; 3]);
        let (compute, scaling) = (Compute::Single, Scaling::MOVE);
        let mut window = Window { function, outer, axes: Axes::new([]), scalars, compute, scaling };
        for (slot, place) in [(1, 2), (2, 3)] {
            if window.touches()[place] {
                self.expect("<-")?;
                scalars[slot] = self.scalar()?;
            }
        }
        window.scalars = scalars;
        self.expect(" in ")?;
        window.compute = self.compute()?;
        window.scaling = self.scaling()?;
        let mut axes = Vec::new();
        loop {
            self.expect(" ")?;
            if self.0.starts_with("dst") {
                break;
            }
            let inputs = self.extent()?;
            self.expect("->")?;
            let outputs = self.extent()?;
            self.expect(":k")?;
            let taps = self.extent()?;
            self.expect("s")?;
            let stride = self.extent()?;
            self.expect("p")?;
            let pad = self.number("padding")?;
            let dilation = if self.eat("d") { self.extent()? } else { 1 };
            self.expect("(")?;
            let mut cuts = [Cut { start: 0, step: 1, stride: 0, block: 1 }; 3];
            for (k, cut) in cuts.iter_mut().enumerate() {
                if k > 0 {
                    self.expect(",")?;
                }
                cut.stride = self.number("a stride")?;
                if self.eat(":") {
                    cut.start = self.number("a coordinate")?;
                    cut.step = self.extent()?;
                    self.expect("/")?;
                    cut.block = self.extent()?;
                }
            }
            self.expect(")")?;
            axes.push(WindowAxis { inputs, outputs, window: taps, stride, dilation, pad, cuts });
        }
        if axes.len() > cudnn::ops::window::MAX_AXES {
            return Err(format!("{} axes are too many for a window", axes.len()));
        }
        window.axes = Axes::new(axes);
        window.outer = self.nest()?;
        Ok(window)
    }

    fn normalise(&mut self) -> Result<Normalise> {
        self.expect(" ")?;
        let data = self.scalar()?;
        self.expect(" in ")?;
        let compute = self.compute()?;
        let statistics = if self.eat(" given") {
            Statistics::Given
        } else {
            self.expect(" batch")?;
            let factor = self.named("factor")?;
            self.expect(" running=")?;
            let running = [self.eat("mean"), self.eat(",variance") || self.eat("variance")];
            if running == [false; 2] {
                self.expect("none")?;
            }
            Statistics::Batch { factor, running, saves: self.eat(" saved") }
        };
        let epsilon = self.named("epsilon")?;
        let scaling = self.optional_scaling()?;
        let adds = self.eat(" add");
        let activation = self.activation()?;
        let slopes = if self.eat(" slopes ") { Some(self.scalar()?) } else { None };
        let workspace = self.workspace()?;
        self.expect(" groups ")?;
        let groups = self.nest()?;
        self.expect(" of ")?;
        let members = self.nest()?;
        Ok(Normalise {
            groups,
            members,
            data,
            compute,
            statistics,
            epsilon,
            scaling,
            adds,
            activation,
            slopes,
            workspace,
        })
    }

    fn normalise_backward(&mut self) -> Result<NormaliseBackward> {
        self.expect(" ")?;
        let data = self.scalar()?;
        self.expect(" in ")?;
        let compute = self.compute()?;
        let epsilon = self.named("epsilon")?;
        let saved = self.eat(" saved");
        let (scaling, parameter_scaling) = (self.scaling()?, self.scaling()?);
        let slope = if self.eat(" slopes ") {
            Slope::Kept(self.scalar()?)
        } else {
            self.activation()?.map_or(Slope::One, Slope::Of)
        };
        let splits = self.eat(" add");
        let workspace = self.workspace()?;
        self.expect(" groups ")?;
        let groups = self.nest()?;
        self.expect(" of ")?;
        let members = self.nest()?;
        Ok(NormaliseBackward {
            groups,
            members,
            data,
            compute,
            saved,
            epsilon,
            scaling,
            parameter_scaling,
            slope,
            splits,
            workspace,
        })
    }
}
