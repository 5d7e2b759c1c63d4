//! Plans of one function over windows: from layouts of equal rank to steps.

use std::fmt;

use super::{Axes, Divisor, OPERANDS, Window, WindowAxis, WindowFunction};
use crate::dtype::Scalar;
use crate::error::Result;
use crate::layout::{self, Layout, MAX_RANK};
use crate::ops::plan::{self, ABSENT, Operand, Plan, Step, StepSink};
use crate::ops::{Compute, ReducePlan, Scaling, fill};

/// How a dimension takes part in a window.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Geometry {
    /// Taps of an output.
    pub window: i64,
    /// Cells from one output to the next.
    pub stride: i64,
    /// Cells in front of the first one.
    pub pad: i64,
}

/// Which of the three layouts each operand of a step has.
pub(in crate::ops) const LAYOUT_OF: [usize; OPERANDS] = [0, 0, 1, 2, 1];

/// One function over windows, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlan {
    function: WindowFunction,
    /// By layout of [`Window`], of equal rank; dimensions without a window have equal extents.
    layouts: [Layout; 3],
    geometry: [Option<Geometry>; MAX_RANK],
    /// Where a dimension's outputs are counted: layout 0 or layout 2.
    output_side: usize,
    input_side: usize,
    scalars: [Scalar; 3],
    compute: Compute,
    scaling: Scaling,
    operands: Listed,
    ordered: bool,
    /// The reduction that does the same where every output looks at all cells.
    whole: Option<ReducePlan>,
}

/// What a [`WindowPlan`] is made of.
pub(in crate::ops) struct Parts<'a> {
    pub function: WindowFunction,
    pub layouts: [&'a Layout; 3],
    pub geometry: [Option<Geometry>; MAX_RANK],
    pub scalars: [Scalar; 3],
    pub scaling: Scaling,
    /// By place of the step: an operand, or none that the C function does not have.
    pub operands: [Option<Operand>; OPERANDS],
    pub ordered: bool,
    pub whole: Option<ReducePlan>,
}

/// The type to compute in: binary64 if a scalar needs it.
pub(in crate::ops) fn compute_type(scalars: &[Scalar]) -> Compute {
    let is_wide = |scalar: &Scalar| matches!(scalar, Scalar::F64 | Scalar::I32 | Scalar::I64);
    if scalars.iter().any(is_wide) { Compute::Double } else { Compute::Single }
}

/// The operands that a C function has of those of a window, in the same order.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Listed {
    operands: [Operand; OPERANDS],
    count: usize,
    /// Where the operands of the step are among them.
    pub slots: [usize; OPERANDS],
}

impl Listed {
    pub fn new(of_step: [Option<Operand>; OPERANDS]) -> Self {
        let none = Operand::untouched("", Scalar::U8);
        let mut listed = Listed { operands: [none; OPERANDS], count: 0, slots: [ABSENT; OPERANDS] };
        for (slot, operand) in listed.slots.iter_mut().zip(of_step) {
            let Some(operand) = operand else { continue };
            listed.operands[listed.count] = operand;
            if operand.is_touched() {
                *slot = listed.count;
            }
            listed.count += 1;
        }
        listed
    }

    pub fn operands(&self) -> &[Operand] {
        &self.operands[..self.count]
    }
}

impl WindowPlan {
    /// Pre: the layouts agree as the fields say; spans of the operands are those of their layouts.
    pub(in crate::ops) fn new(parts: Parts<'_>) -> Self {
        let Parts { function, layouts, geometry, scalars, scaling, operands, ordered, whole } = parts;
        let is_gradient = matches!(
            function,
            WindowFunction::MaxGradient(_)
                | WindowFunction::AverageGradient(_)
                | WindowFunction::NormaliseGradient { .. }
        );
        WindowPlan {
            function,
            layouts: layouts.map(|layout| *layout),
            geometry,
            output_side: if is_gradient { 2 } else { 0 },
            input_side: if is_gradient { 0 } else { 1 },
            scalars,
            compute: compute_type(&scalars),
            scaling,
            operands: Listed::new(operands),
            ordered,
            whole,
        }
    }

    fn axes(&self) -> Axes {
        let [outputs, inputs] = [self.output_side, self.input_side].map(|side| self.layouts[side].dims);
        Axes::new((0..outputs.rank()).filter_map(|k| {
            let Geometry { window, stride, pad } = self.geometry[k]?;
            let cuts = self.layouts.map(|layout| layout.cut(k));
            let (inputs, outputs) = (inputs[k], outputs[k]);
            let axis = WindowAxis { inputs, outputs, window, stride, dilation: 1, pad, cuts };
            Some(match self.function {
                WindowFunction::MaxGradient(_) | WindowFunction::AverageGradient(Divisor::Inside) => {
                    axis.clipped(false)
                }
                WindowFunction::AverageGradient(Divisor::Padded) => axis.clipped(true),
                _ => axis,
            })
        }))
    }

    /// The layouts with one element along each dimension that has a window.
    fn outer(&self) -> [Layout; 3] {
        self.layouts.map(|mut layout| {
            for k in (0..layout.dims.rank()).filter(|&k| self.geometry[k].is_some()) {
                (layout.dims[k], layout.strides[k]) = (1, 0);
                layout.split = layout.split.filter(|split| split.axis() != k);
            }
            layout
        })
    }
}

impl Plan for WindowPlan {
    fn operands(&self) -> &[Operand] {
        self.operands.operands()
    }

    fn layout(&self, operand: usize) -> Option<&Layout> {
        let place = self.operands.slots.iter().position(|&slot| slot == operand)?;
        Some(&self.layouts[LAYOUT_OF[place]])
    }

    /// Then cells are computed in the order of the loops, those of the window inside.
    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        if let Some(whole) = &self.whole {
            return whole.steps(&mut |step, operands| match operands.len() {
                1 => sink(step, &[0]),
                _ => sink(step, &[0, ABSENT, 1, ABSENT]),
            });
        }
        let axes = self.axes();
        let [dst, src, out] = self.outer();
        let mut outcome = Ok(());
        layout::nests([&dst, &src, &out], &mut |outer| {
            if outcome.is_err() {
                return;
            }
            if !self.ordered {
                outer.canonicalise();
            }
            let window = Window {
                function: self.function,
                outer: *outer,
                axes,
                scalars: self.scalars,
                compute: self.compute,
                scaling: self.scaling,
            };
            outcome = sink(Step::Window(&window), &self.operands.slots);
        });
        outcome?;
        for operand in self.operands.slots.into_iter().take(2).filter(|&slot| slot != ABSENT) {
            if let Some(tail) = fill::zero_tail(&self.layouts[0], self.scalars[0], self.ordered) {
                sink(Step::Scale(&tail), &[operand])?;
            }
        }
        Ok(())
    }

    fn is_one_step(&self) -> bool {
        self.layouts.iter().all(|layout| layout.split.is_none())
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for WindowPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
