//! Rows that are normalised in one step, and their gradients: both cores leave the same bits, on
//! the kernels' sources and on their PTX.

use cudnn::backend::cuda::module;

use crate::child;
use crate::cores::{Cores, check_counts};
use crate::double::{self, Runs};
use crate::layers::{Contents, any_bits};
use crate::specialised::{agree, moderate};

/// The types that have kernels of their own.
const SCALARS: [&str; 3] = ["f32", "f16", "bf16"];
/// Any others, and which of them each computation is in.
const OTHERS: [(&str, &str); 6] =
    [("f64", "f64"), ("f32", "f64"), ("s8", "f32"), ("u8", "f32"), ("f8e4m3", "f32"), ("f64", "f32")];

/// Elements of a row around the ends of what four rows of a warp have, one, and blocks of one to
/// sixteen warps; and more.
const LENGTHS: [i64; 14] = [1, 2, 31, 33, 100, 128, 129, 1000, 1024, 1025, 2048, 3100, 16_384, 16_385];

const NAMES: &str = "dst/src1/src2/src3/src4/src5:";

/// A step of rows: y and x, the types of parameters, and of statistics.
struct Types<'a> {
    data: [&'a str; 2],
    parameters: &'a str,
    statistics: &'a str,
    compute: &'a str,
}

impl Types<'_> {
    fn forward(&self, cores: &mut Cores, rows: i64, length: i64, made: Contents) {
        let Types { data: [y, x], parameters, statistics, compute } = self;
        let centred = cores.rng.pick(&[" centred", ""]);
        let mut saved = |name: &str| match cores.rng.below(2) {
            0 => (String::new(), 0),
            _ => (format!(" {name}={statistics}"), 1),
        };
        let ((mean, m), (inverse, i)) = (saved("mean"), saved("inverse"));
        let mut parameter = |name: &str| {
            let of = cores.rng.pick(&["", "*0", "*1"]);
            let step = i64::from(of == "*0");
            (if of.is_empty() { String::new() } else { format!(" {name}={parameters}{of}") }, step)
        };
        let ((scale, a), (bias, b)) = (parameter("scale"), parameter("bias"));
        let row = length + 3;
        let loops = match cores.rng.below(2) {
            0 => format!("{rows}*({row},{m},{i},{length},{a},{b})"),
            // Rows of several images, whose parameters are those of their channel.
            _ => format!(
                "2*({},{},{},{},0,0) {rows}*({row},{m},{i},{length},{a},{b})",
                rows * row + 5,
                m * (rows + 1),
                i * rows,
                rows * length
            ),
        };
        let step = format!(
            "norm {x}->{compute}->{y}{centred} epsilon={parameters}+0{mean}{inverse}{scale}{bias} {length} in each of {NAMES} {loops} +0,+0,+0,+0,+0,+0"
        );
        agree(cores, &step, made);
    }

    fn backward(&self, cores: &mut Cores, rows: i64, length: i64, made: Contents) {
        let Types { data: [dx, x], parameters, statistics, compute } = self;
        let mut some = |text: String| if cores.rng.below(3) > 0 { text } else { String::new() };
        let (scale, mean) = (some(format!(" scale={parameters}")), some(format!(" mean={statistics}")));
        let sums = [some(format!(" dscale={parameters}+0")), some(format!(" dbias={parameters}+0"))].concat();
        let of_mean = i64::from(!mean.is_empty());
        let (row, other) = (length + 3, length + 1);
        let loops = match cores.rng.below(3) {
            0 => format!(
                "2*({},{},{},0,{},{}) {rows}*({row},{length},{other},0,{of_mean},1)",
                rows * row + 5,
                rows * length,
                rows * other,
                of_mean * rows,
                rows + 1
            ),
            _ => format!("{rows}*({row},{length},{other},0,{of_mean},1)"),
        };
        let step = format!(
            "norm backward {x},{x}->{compute}->{dx}{scale}{mean} inverse={statistics}{sums} {length} in each of {NAMES} {loops} +0,+0,+0,+0,+0,+0"
        );
        agree(cores, &step, made);
    }
}

/// Every length in every type, and rows enough for several blocks of sums; on a double half of
/// them, moderate numbers and any bits by turns.
pub fn all(cores: &mut Cores) {
    for (of, scalar) in SCALARS.into_iter().enumerate() {
        for (at, length) in LENGTHS.into_iter().enumerate() {
            for (number, made) in [moderate as Contents, any_bits].into_iter().enumerate() {
                if !double::does_all() && at % 2 != number {
                    continue;
                }
                let rows = if length > 1024 { 2 } else { 9 };
                let parameters = cores.rng.pick(&[scalar, "f32"]);
                let types = Types { data: [scalar; 2], parameters, statistics: "f32", compute: "f32" };
                types.forward(cores, rows, length, made);
                types.backward(cores, rows, length, made);
            }
        }
        // One row fewer and one more than whole blocks of the tree, and more than threads have.
        let heights = [(1, 40), (63, 9), (64, 33), (65, 17), (200, 300), (4161, 3), (9000, 1)];
        for (at, (rows, length)) in heights.into_iter().enumerate() {
            if !double::does_all() && (at + of) % 2 == 1 {
                continue;
            }
            let types = Types { data: [scalar; 2], parameters: "f32", statistics: "f32", compute: "f32" };
            types.backward(cores, rows, length, moderate);
        }
    }
    for (other, compute) in OTHERS {
        for length in [1, 33, 1025, 9300] {
            let data = [cores.rng.pick(&["f32", other]), other];
            let types = Types { data, parameters: "f64", statistics: other, compute };
            types.forward(cores, 3, length, any_bits);
            types.backward(cores, if length < 100 { 300 } else { 3 }, length, any_bits);
        }
    }
}

/// All of them, and every kernel.
fn problems() {
    let mut cores = Cores::new();
    all(&mut cores);
    let kernels = module::kernels().iter().filter(|kernel| kernel.family().starts_with("row_norm"));
    check_counts(kernels.map(|kernel| kernel.name));
    println!("{} problems, equal on both cores", cores.solved);
}

#[test]
fn normalised_rows_leave_the_bits_of_the_other_core() {
    child::run(&double::of(Runs::Source), &[("DRIVER_DOUBLE_ORDER", "reverse")], problems);
}

#[test]
fn normalised_rows_leave_the_bits_of_the_other_core_on_ptx() {
    child::run(&double::of(Runs::Ptx), &[], problems);
}
