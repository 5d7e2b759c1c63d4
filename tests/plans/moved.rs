//! Convolutions whose operands a GPU moves to the workspace: what is moved, how much room is told,
//! and what becomes of the steps with that room and with a byte less, see `testkit::snapshot`.

use std::fmt::Write;

use cudnn::desc::{
    ConvolutionDescriptor, ConvolutionGeometry, ConvolutionMode, FilterDescriptor, Format, MathType,
    TensorDescriptor,
};
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::contract::Role;
use cudnn::ops::convolution::{Convolution, ConvolutionPlan, Direction, TAKES_ALL};
use cudnn::ops::{Contract, Plan, Scaling};
use testkit::random::Rng;
use testkit::snapshot;

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

fn drawn(rng: &mut Rng) -> Option<Convolution> {
    let (float, channels) = (DataType::Float, [1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32, 40, 64]);
    let data_type = rng.pick(&[DataType::Half, DataType::Bfloat16, float]);
    let groups = rng.pick(&[1_i32, 1, 1, 2, 4]);
    let [c, k, taps] = [rng.pick(&channels), rng.pick(&channels), rng.pick(&[1, 1, 3, 5])];
    let [n, extent, stride] = [rng.pick(&[1, 2, 16]), rng.pick(&[5, 8, 14, 56]), rng.pick(&[1, 1, 2])];
    let padding = rng.pick(&[0, taps / 2]);
    let outputs = (extent + 2 * padding - taps) / stride + 1;
    let two = |value: i64| Dims::filled(2, value);
    let mode = ConvolutionMode::CrossCorrelation;
    let geometry = ConvolutionGeometry::new(mode, float, two(padding), two(stride), two(1)).ok()?;
    let math_type = rng.pick(&[MathType::Standard, MathType::TensorOpWithConversion, MathType::Fma]);
    let desc = ConvolutionDescriptor { geometry, math_type, groups, ..ConvolutionDescriptor::default() };
    let groups = i64::from(groups);
    let formats = [0; 3].map(|_| rng.pick(&[Format::Nchw, Format::Nhwc]));
    let together = rng.below(2) == 0;
    let format = |at: usize| if together { formats[0] } else { formats[at] };
    let tensor = |at: usize, dims: [i64; 4]| {
        TensorDescriptor::with_format(data_type, format(at), 4, &dims, Mode::Extended).ok()
    };
    let x = tensor(0, [n, c * groups, extent, extent])?;
    let y = tensor(1, [n, k * groups, outputs, outputs])?;
    let w =
        FilterDescriptor::new(data_type, format(2), 4, &[k * groups, c, taps, taps], Mode::Extended).ok()?;
    Convolution::new(rng.pick(&DIRECTIONS), &desc, &x, &w, &y, Mode::Extended).ok()
}

/// Whether sums go along neighbours in both factors, eight at a time, and results of a row lie side
/// by side: about what kernels of several stages take.
fn takes_vectors(step: &Contract) -> bool {
    let along = |role: Role, operand: usize, together: i64| {
        step.loops(role).any(|(_, axis)| axis.strides[operand] == 1 && axis.extent % together == 0)
    };
    along(Role::K, 1, 8) && along(Role::K, 2, 8) && along(Role::N, 0, 1)
}

fn steps(plan: &ConvolutionPlan) -> String {
    let mut text = String::new();
    let walked = plan.steps(&mut |step, slots| {
        write!(text, "{step} on {slots:?}; ").expect("there is memory");
        Ok(())
    });
    walked.expect("nothing fails");
    text
}

#[test]
fn convolutions_are_moved_as_before() {
    let (mut text, mut moved) = (String::new(), 0);
    for case in 0..400 {
        let Some(convolution) = drawn(&mut Rng(case + 1)) else { continue };
        let plan = ConvolutionPlan::new(&convolution, Scaling::MOVE).expect("computed");
        assert!(!plan.moves_operands() && !plan.uses_workspace().expect("nothing fails"));
        for (name, takes) in [("vectors", &takes_vectors as &dyn Fn(&Contract) -> bool), ("all", TAKES_ALL)] {
            let useful = plan.useful_workspace(takes).expect("nothing fails");
            writeln!(text, "convolution {case}, kernels that take {name}: {useful} bytes").expect("memory");
            for bytes in [useful, useful.saturating_sub(1), 0] {
                let mut own = plan.clone();
                own.take_workspace(bytes, takes);
                assert!(bytes < useful || useful == 0 || own.uses_workspace().expect("nothing fails"));
                moved += i32::from(own.moves_operands());
                let (way, steps) = (if own.moves_operands() { "moved: " } else { "" }, steps(&own));
                writeln!(text, "  {}", snapshot::short(&format!("{way}{steps}"))).expect("memory");
            }
        }
    }
    assert!(moved > 100, "{moved} are moved");
    let how = "cargo test --test plans -- convolutions_are_moved";
    assert_eq!(snapshot::compare("moved.txt", how, &text, |_| true), 0);
}
