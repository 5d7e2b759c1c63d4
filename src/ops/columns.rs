//! The columns of a convolution (`cudnnIm2Col`): every cell that a filter's tap meets, in a matrix.

use std::fmt;

use super::agree::{self, Named};
use super::plan::{self, Operand, Plan, Role, Step, StepSink};
use super::window::{Axes, Listed, Window, WindowAxis, WindowFunction, compute_type};
use super::{Scaling, strict};
use crate::desc::convolution::ConvolutionMode;
use crate::desc::{ConvolutionDescriptor, FilterDescriptor, TensorDescriptor};
use crate::error::{Error, Result};
use crate::layout::{self, Cut, Dims, Layout};
use crate::mode::Mode;

/// The matrix of C * taps rows and N * outputs columns, checked and ready to run on any core.
#[derive(Clone, Copy, Debug)]
pub struct ColumnsPlan {
    x: Layout,
    matrix: Layout,
    /// Where the first tap of all rows lies: behind the others where the filter is flipped.
    first: i64,
    axes: Axes,
    operands: Listed,
}

impl ColumnsPlan {
    /// Plans `cudnnIm2Col`.
    ///
    /// # Errors
    /// In this order. Bad parameter: x of less than 3 dimensions. Not supported, in strict mode:
    /// types of x or the filter that are not floating, x of other than 4 dimensions. Not supported:
    /// more than one group. Bad parameter: ranks, channels or extents that do not make a
    /// convolution. Not supported: NCHW_VECT_C of a type of one channel, a matrix beyond 64 bits.
    pub fn new(
        x: &TensorDescriptor, filter: &FilterDescriptor, convolution: &ConvolutionDescriptor, mode: Mode,
    ) -> Result<Self> {
        if x.rank() <= 2 {
            return Err(Error::mismatch(format!("x has {} dimensions, at least 3 are needed", x.rank())));
        }
        strict::UNFOLD.check_type("x", x.data_type(), mode)?;
        strict::UNFOLD.check_type("the filter", filter.data_type(), mode)?;
        if mode.is_strict() && x.rank() != 4 {
            return Err(Error::unsupported(format!("strict mode: x has {} dimensions, not 4", x.rank())));
        }
        if convolution.groups > 1 {
            let groups = convolution.groups;
            return Err(Error::unsupported(format!("{groups} groups: a matrix has the taps of one")));
        }
        let mut outputs = Dims::EMPTY;
        for extent in convolution.output_dims(x, filter)? {
            outputs.push(extent?);
        }
        let source = x.layout()?;
        let (geometry, taps) = (convolution.geometry, filter.stored_dims());
        let too_large = || Error::unsupported("the matrix is larger than 64 bits count");
        let rank = source.dims.rank();
        let mut next = 1_i64;
        let mut step = |extent: i64| -> Result<i64> {
            let here = next;
            next = next.checked_mul(extent).ok_or_else(too_large)?;
            Ok(here)
        };
        // From the fastest to the slowest: outputs, N; taps, C.
        let mut matrix = Dims::filled(rank, 0);
        for k in (2..rank).rev() {
            matrix[k] = step(outputs[k])?;
        }
        matrix[0] = step(source.dims[0])?;
        let mut tap_steps = Dims::filled(rank, 0);
        for k in (2..rank).rev() {
            tap_steps[k] = step(taps[k])?;
        }
        matrix[1] = step(source.dims[1])?;
        let cells = next;
        let flips = geometry.mode() == ConvolutionMode::Convolution;
        let mut first = 0;
        let axes = Axes::new((2..rank).map(|k| {
            let cut = |stride: i64| Cut { start: 0, step: 1, stride, block: 1 };
            let tap = if flips {
                first += (taps[k] - 1) * tap_steps[k];
                -tap_steps[k]
            } else {
                tap_steps[k]
            };
            WindowAxis {
                inputs: source.dims[k],
                outputs: outputs[k],
                window: taps[k],
                stride: geometry.strides()[k - 2],
                dilation: geometry.dilation()[k - 2],
                pad: geometry.padding()[k - 2],
                cuts: [cut(matrix[k]), source.cut(k), cut(tap)],
            }
        }));
        let one = |dims: &Dims| {
            let mut dims = *dims;
            (2..rank).for_each(|k| dims[k] = 1);
            dims
        };
        let scalar = x.data_type().scalar();
        let bytes = cells.checked_mul(scalar.size() as i64).ok_or_else(too_large)?;
        let from = Named { name: "x", tensor: x };
        let read = Operand {
            name: from.name,
            role: Role::Read,
            scalar,
            span: agree::byte_span(source, x.data_type())?,
        };
        let written = Operand { name: "colBuffer", role: Role::Write, scalar, span: (0, bytes) };
        let mut outer = *source;
        (2..rank).for_each(|k| (outer.dims[k], outer.strides[k]) = (1, 0));
        Ok(ColumnsPlan {
            x: outer,
            matrix: Layout { dims: one(&source.dims), strides: matrix, split: None },
            first,
            axes,
            operands: Listed::new([Some(written), None, Some(read), None, None]),
        })
    }
}

impl Plan for ColumnsPlan {
    fn operands(&self) -> &[Operand] {
        self.operands.operands()
    }

    fn steps(&self, sink: StepSink<'_>) -> Result<()> {
        let scalar = self.operands()[0].scalar;
        let mut outcome = Ok(());
        let mut still = self.matrix;
        still.strides.iter_mut().for_each(|stride| *stride = 0);
        layout::nests([&self.matrix, &self.x, &still], &mut |outer| {
            if outcome.is_err() {
                return;
            }
            outer.canonicalise();
            outer.offsets[0] += self.first;
            let window = Window {
                function: WindowFunction::Columns,
                outer: *outer,
                axes: self.axes,
                scalars: [scalar; 3],
                compute: compute_type(&[scalar]),
                scaling: Scaling::MOVE,
            };
            outcome = sink(Step::Window(&window), &self.operands.slots);
        });
        outcome
    }
}

/// One line per step, as the log shows it.
impl fmt::Display for ColumnsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        plan::list(self, f)
    }
}
