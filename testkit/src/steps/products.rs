//! Contractions: the line that the log shows, and a short form for matrix products.

use cudnn::dtype::Scalar;
use cudnn::layout::format::packed_strides;
use cudnn::layout::{Axis, Dims, Layout, MAX_AXES};
use cudnn::ops::Contract;
use cudnn::ops::activation::Activation;
use cudnn::ops::contract::{Accumulate, Bound, Epilogue, Role, Side, Terms};
use cudnn::ops::function::TABLE;

use super::parse::Result;
use super::text::Text;

impl<'a> Text<'a> {
    /// ` f32*f32->f32 in f32`: dst, a, b, and what is summed in.
    fn factors(&mut self) -> Result<([Scalar; 3], Accumulate)> {
        self.expect(" ")?;
        let a = self.scalar()?;
        self.expect("*")?;
        let b = self.scalar()?;
        self.expect("->")?;
        let dst = self.scalar()?;
        self.expect(" in ")?;
        let all = [Accumulate::Single, Accumulate::Double, Accumulate::Int32];
        let accumulate = self.one_of(&all, ToString::to_string, "f32, f64 or s32")?;
        Ok(([dst, a, b], accumulate))
    }

    /// What follows the operation, as a step shows it, if anything does.
    pub fn activation(&mut self) -> Result<Option<Activation>> {
        let name = self.0.strip_prefix(' ').unwrap_or("");
        let name = name.split(' ').next().unwrap_or("");
        let mut rows = TABLE.iter().filter(|row| row.slope.is_some());
        let Some(row) = rows.find(|row| format!("{:?}", row.function) == name) else { return Ok(None) };
        self.expect(&format!(" {name}"))?;
        let mut parameter = 0.0;
        for name in row.parameters {
            parameter = self.named(name)?;
        }
        Ok(Some(Activation { function: row.function, parameter }))
    }

    pub fn contract(&mut self) -> Result<Contract> {
        let (types, accumulate) = self.factors()?;
        let scaling = self.optional_scaling()?;
        let (mut z, mut bias) = (None, None);
        if self.eat(" z=") {
            let scalar = self.scalar()?;
            self.expect("*")?;
            z = Some((scalar, self.number("a factor")?));
        }
        if self.eat(" bias=") {
            bias = Some(self.scalar()?);
        }
        let shown = 3 + 2 * usize::from(z.is_some() || bias.is_some());
        let epilogue = Epilogue { scaling, z, bias, activation: self.activation()? };
        let mut step = Contract::new(types, accumulate, epilogue);
        step.allow_conversion = self.eat(" converting");
        step.allow_tiles = self.eat(" tiles");
        step.allow_winograd = self.eat(" winograd");
        step.is_over_images = self.eat(" over images");
        step.caches_b = self.eat(" keeping b");
        if self.0.starts_with(" workspace=") {
            step.workspace = self.named("workspace")?;
        }
        let offsets = |text: &mut Text<'a>| -> Result<[i64; 5]> {
            let mut offsets = [0; 5];
            if shown == 5 {
                offsets = text.list()?;
            } else {
                offsets[..3].copy_from_slice(&text.list::<3>()?);
            }
            Ok(offsets)
        };
        while !self.eat(" at ") {
            self.expect(" ")?;
            let role =
                self.one_of(&[Role::Batch, Role::M, Role::N, Role::K], ToString::to_string, "b, m, n or k")?;
            self.expect(":")?;
            let extent = self.extent()?;
            self.expect("*(")?;
            if step.nest.axes().len() == MAX_AXES {
                return self.fail("no further loop");
            }
            step.push(role, Axis { extent, strides: offsets(self)? });
            self.expect(")")?;
        }
        step.nest.offsets = offsets(self)?;
        while self.eat(" | 0..") {
            let extent = self.extent()?;
            self.expect(":")?;
            self.expect(" ")?;
            let start = self.number("a position")?;
            let (mut axes, mut steps) = ([0_u8; 2], [0; 2]);
            for (axis, step) in axes.iter_mut().zip(&mut steps) {
                self.expect(" ")?;
                *step = self.number("a step")?;
                self.expect("*")?;
                self.one_of(&[Role::Batch, Role::M, Role::N, Role::K], ToString::to_string, "m or k")?;
                *axis = self.number("the number of a loop")?;
            }
            if axes.iter().any(|&axis| usize::from(axis) >= step.nest.axes().len()) {
                return Err("a bound names a loop that is not there".to_owned());
            }
            step.bind(Bound { axes, steps, start, extent });
        }
        Ok(step)
    }

    /// `product f32*f32->f32 in f32 bmk*bkn->bmn b=4 m=64 n=64 k=64`: a matrix product. The letters
    /// of a matrix go from its outermost to its innermost dimension; without b it is the same for
    /// every product of the batch. `apart=P` leaves P scalars between the rows of every matrix.
    pub fn product(&mut self) -> Result<Contract> {
        let (types, accumulate) = self.factors()?;
        self.expect(" ")?;
        let a = self.word("the letters of a")?;
        self.expect("*")?;
        let b = self.word("the letters of b")?;
        self.expect("->")?;
        let c = self.word("the letters of the product")?;
        let [g, m, n, k] = [self.named::<i64>("b")?, self.named("m")?, self.named("n")?, self.named("k")?];
        if [g, m, n, k].iter().any(|&extent| extent < 1) {
            return Err("an extent is below 1".to_owned());
        }
        let apart: i64 = if self.0.starts_with(" apart=") { self.named("apart")? } else { 0 };
        let scaling = self.optional_scaling()?;
        let activation = self.activation()?;
        let layout = |letters: &str, [row, column]: [(char, i64); 2]| -> Result<Layout> {
            let repeats = !letters.contains('b');
            let dims = [if repeats { 1 } else { g }, row.1, column.1];
            let place = |letter: char| match letter {
                'b' => Some(0),
                _ if letter == row.0 => Some(1),
                _ if letter == column.0 => Some(2),
                _ => None,
            };
            let mut order: Vec<usize> = if repeats { vec![0] } else { Vec::new() };
            order.extend(letters.chars().filter_map(place));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if sorted != [0, 1, 2] || order.len() != letters.len() + usize::from(repeats) {
                return Err(format!("`{letters}` is no matrix of {} and {}", row.0, column.0));
            }
            let mut outer = dims;
            outer[order[2]] += apart;
            let strides = packed_strides(&outer, &order).ok_or("the strides do not fit 64 bits")?;
            Ok(Layout { dims: Dims::new(&dims), strides, split: None })
        };
        if !c.contains('b') && g > 1 {
            return Err("the product has a batch".to_owned());
        }
        let layouts = [
            layout(c, [('m', m), ('n', n)])?,
            layout(a, [('m', m), ('k', k)])?,
            layout(b, [('k', k), ('n', n)])?,
        ];
        let side = |k: usize| Side { layout: &layouts[k], scalar: types[k] };
        let terms = Terms { scaling, z: None, bias: None, activation };
        Contract::matmul(side(0), side(1), side(2), accumulate, &terms).map_err(|error| error.to_string())
    }
}
