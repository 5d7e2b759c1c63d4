//! Rows of vectors in an operand of a plan, and the steps that compute with them.

use super::network::Network;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{Axis, LoopNest};
use crate::ops::contract::{Accumulate, Epilogue, Role};
use crate::ops::function::Function;
use crate::ops::map::Factors;
use crate::ops::{Compute, Contract, Map, Scale, Scaling, Set, Step, StepSink, Transform};

/// Rows of vectors in one operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The operand.
    pub slot: usize,
    /// The type of its elements.
    pub scalar: Scalar,
    /// Where the first one starts, in elements.
    pub offset: i64,
    /// How far rows are apart, in elements.
    pub row: i64,
    /// How far the entries of a vector are apart: 1, or 0 for one number in place of them all.
    pub column: i64,
}

impl Rows {
    /// Rows `row` elements apart that start `bytes` bytes into an operand.
    pub(super) fn at(slot: usize, scalar: Scalar, bytes: i64, row: i64) -> Rows {
        Rows { slot, scalar, offset: bytes / scalar.size() as i64, row, column: 1 }
    }

    /// One number as every entry of every row.
    pub(super) fn constant(slot: usize, scalar: Scalar, bytes: i64) -> Rows {
        Rows { row: 0, column: 0, ..Rows::at(slot, scalar, bytes, 0) }
    }

    /// The rows from `row` on.
    pub(super) fn from(self, row: i64) -> Rows {
        Rows { offset: self.offset + row * self.row, ..self }
    }

    /// Every row from its entry `column` on.
    pub(super) fn columns(self, column: i64) -> Rows {
        Rows { offset: self.offset + column * self.column, ..self }
    }

    /// Elements later.
    pub(super) fn shifted(self, elements: i64) -> Rows {
        Rows { offset: self.offset + elements, ..self }
    }
}

/// Where steps of one type go.
pub(super) struct Sink<'a> {
    pub(super) sink: StepSink<'a>,
    /// The type to compute in.
    pub(super) compute: Compute,
    /// Whether products of 16-bit types may have the order of tile instructions.
    pub(super) allow_tiles: bool,
}

impl<'a> Sink<'a> {
    /// Where the steps of a network go.
    pub(super) fn of(network: &Network, sink: StepSink<'a>) -> Sink<'a> {
        Sink { sink, compute: network.compute, allow_tiles: network.allow_tiles }
    }
}

impl Sink<'_> {
    /// `dst = function(operands) + beta * dst` for vectors of `columns` entries.
    pub(super) fn map<const M: usize>(
        &mut self, function: Function, [rows, columns]: [i64; 2], dst: Rows, from: [Rows; M], beta: f64,
    ) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        if M <= 2 {
            self.mapped::<3>(function, [rows, columns], dst, &from, beta, |map, slots, sink| {
                sink(Step::Map(map), slots)
            })
        } else {
            self.mapped::<6>(function, [rows, columns], dst, &from, beta, |map, slots, sink| {
                sink(Step::WideMap(map), slots)
            })
        }
    }

    fn mapped<const N: usize>(
        &mut self, function: Function, [rows, columns]: [i64; 2], dst: Rows, from: &[Rows], beta: f64,
        then: impl FnOnce(&Map<N>, &[usize], StepSink<'_>) -> Result<()>,
    ) -> Result<()> {
        // Operands that the function does not have do not move, and are those of the last one.
        let operand = |k: usize| if k == 0 { dst } else { from[(k - 1).min(from.len() - 1)] };
        let is_there = |k: usize| k <= from.len();
        let strides =
            |of: fn(Rows) -> i64| std::array::from_fn(|k| if is_there(k) { of(operand(k)) } else { 0 });
        let axes = [
            Axis { extent: rows, strides: strides(|rows| rows.row) },
            Axis { extent: columns, strides: strides(|rows| rows.column) },
        ];
        let offsets = std::array::from_fn(|k| if is_there(k) { operand(k).offset } else { 0 });
        let map = Map {
            nest: LoopNest::new(&axes, offsets).canonical(),
            scalars: std::array::from_fn(|k| operand(k).scalar),
            compute: self.compute,
            function,
            parameter: 0.0,
            factors: Factors { beta, ..Factors::NONE },
        };
        let slots: [usize; N] = std::array::from_fn(|k| operand(k).slot);
        then(&map, &slots, self.sink)
    }

    /// `dst = src`, converted.
    pub(super) fn copy(&mut self, [rows, columns]: [i64; 2], dst: Rows, src: Rows) -> Result<()> {
        let axis = |extent, strides| Axis { extent, strides };
        let axes = [axis(rows, [dst.row, src.row]), axis(columns, [dst.column, src.column])];
        self.transform(LoopNest::new(&axes, [dst.offset, src.offset]), dst, src)
    }

    /// `dst = src`, converted, for loops of any kind.
    pub(super) fn transform(&mut self, nest: LoopNest<2>, dst: Rows, src: Rows) -> Result<()> {
        if nest.is_empty() {
            return Ok(());
        }
        let (dst_type, src_type) = (dst.scalar, src.scalar);
        let step = Transform { nest: nest.canonical(), dst: dst_type, src: src_type, scaling: Scaling::MOVE };
        (self.sink)(Step::Transform(&step), &[dst.slot, src.slot])
    }

    /// Zeros.
    pub(super) fn clear(&mut self, [rows, columns]: [i64; 2], dst: Rows) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let step = Scale { nest: dst.nest([rows, columns]).canonical(), dst: dst.scalar, beta: 0.0 };
        (self.sink)(Step::Scale(&step), &[dst.slot])
    }

    /// One value everywhere, given by its bits.
    pub(super) fn set(&mut self, [rows, columns]: [i64; 2], dst: Rows, cell: u64) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let step = Set { nest: dst.nest([rows, columns]).canonical(), dst: dst.scalar, cell };
        (self.sink)(Step::Set(&step), &[dst.slot])
    }

    /// Runs a contraction of these operands.
    pub(super) fn contract(&mut self, product: &Product) -> Result<()> {
        let (mut step, slots, count) = product.step(self.compute);
        step.allow_tiles_of_rows(self.allow_tiles);
        if step.is_empty() { Ok(()) } else { (self.sink)(Step::Contract(&step), &slots[..count]) }
    }

    /// Runs any other step.
    pub(super) fn step(&mut self, step: Step<'_>, slots: &[usize]) -> Result<()> {
        (self.sink)(step, slots)
    }
}

impl Rows {
    fn nest(self, [rows, columns]: [i64; 2]) -> LoopNest<1> {
        let axis = |extent, stride| Axis { extent, strides: [stride] };
        LoopNest::new(&[axis(rows, self.row), axis(columns, self.column)], [self.offset])
    }
}

/// A loop of a product, and how far it moves each operand; see [`Contract`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub role: Role,
    pub extent: i64,
    pub dst: i64,
    pub a: i64,
    pub b: i64,
    pub bias: i64,
}

/// `dst = sum over k of a[m, k] b[k, n] + beta * dst + bias[n]`
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub dst: Rows,
    pub a: Rows,
    pub b: Rows,
    pub bias: Option<Rows>,
    pub beta: f64,
    /// Loops; those of extent 1 may be left out.
    pub loops: [Option<Loop>; 4],
    /// Whether nothing is summed, as if `a` were zeros.
    pub is_empty: bool,
    /// Whether other steps multiply by the same `b`.
    pub caches_b: bool,
}

impl Product {
    /// The rows of `a` by the rows of `b`: `dst[m, n] = sum over k of a[m, k] b[n, k]`.
    pub(super) fn by_rows([m, n, k]: [i64; 3], dst: Rows, a: Rows, b: Rows, beta: f64) -> Product {
        let none = Loop { role: Role::M, extent: 1, dst: 0, a: 0, b: 0, bias: 0 };
        let loops = [
            Some(Loop { role: Role::M, extent: m, dst: dst.row, a: a.row, ..none }),
            Some(Loop { role: Role::N, extent: n, dst: dst.column, b: b.row, bias: 1, ..none }),
            Some(Loop { role: Role::K, extent: k, a: a.column, b: b.column, ..none }),
            None,
        ];
        Product { dst, a, b, bias: None, beta, loops, is_empty: false, caches_b: false }
    }

    /// The rows of `a` by the columns of `b`: `dst[m, n] = sum over k of a[m, k] b[k, n]`.
    pub(super) fn by_columns([m, n, k]: [i64; 3], dst: Rows, a: Rows, b: Rows, beta: f64) -> Product {
        Product::by_rows([m, n, k], dst, a, Rows { row: b.column, column: b.row, ..b }, beta)
    }

    /// The columns of `a` by the columns of `b`: `dst[m, n] = sum over k of a[k, m] b[k, n]`.
    pub(super) fn of_columns(extents: [i64; 3], dst: Rows, a: Rows, b: Rows, beta: f64) -> Product {
        Product::by_columns(extents, dst, Rows { row: a.column, column: a.row, ..a }, b, beta)
    }

    /// With a bias of each column of `dst`.
    pub(super) fn biased(mut self, bias: Option<Rows>) -> Product {
        self.bias = bias;
        self
    }

    /// As one of several that multiply by the same `b`, if they are several.
    pub(super) fn keeping(mut self, several: bool) -> Product {
        self.caches_b = several;
        self
    }

    /// Summed over one more loop.
    pub(super) fn also_over(mut self, extent: i64, a: i64, b: i64) -> Product {
        self.loops[3] = Some(Loop { role: Role::K, extent, dst: 0, a, b, bias: 0 });
        self
    }

    /// The step, the operands that it takes, and how many they are.
    pub(super) fn step(&self, compute: Compute) -> (Contract, [usize; 4], usize) {
        let accumulate = match compute {
            Compute::Single => Accumulate::Single,
            Compute::Double => Accumulate::Double,
        };
        let epilogue = Epilogue {
            scaling: Scaling { alpha: 1.0, beta: self.beta },
            bias: self.bias.map(|bias| bias.scalar),
            ..Epilogue::PLAIN
        };
        let mut step = Contract::new([self.dst.scalar, self.a.scalar, self.b.scalar], accumulate, epilogue);
        let bias = self.bias.map_or(0, |bias| bias.offset);
        step.caches_b = self.caches_b;
        step.nest.offsets = [self.dst.offset, self.a.offset, self.b.offset, 0, bias];
        for each in self.loops.iter().flatten() {
            let moved = if self.bias.is_some() { each.bias } else { 0 };
            step.push(each.role, Axis { extent: each.extent, strides: [each.dst, each.a, each.b, 0, moved] });
        }
        let step = if self.is_empty { step.without_sum() } else { step.canonical() };
        let slots = [self.dst, self.a, self.b, self.bias.unwrap_or(self.b)].map(|rows| rows.slot);
        (step, slots, 3 + usize::from(self.bias.is_some()))
    }
}
