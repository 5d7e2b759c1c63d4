//! Draws problems: valid calls of every operation, as lines.

mod attention;
mod convolution;
mod dot_product;
mod fused;
mod graph;
mod graphs;
mod layers;
mod normal;
mod recurrent;
mod sequences;
mod tensors;

use cudnn::dtype::Scalar;

use testkit::random::Rng;

/// The numbers of the data types that have one scalar an element, and those scalars.
const TYPES: [(u32, Scalar); 8] = [
    (0, Scalar::F32),
    (1, Scalar::F64),
    (2, Scalar::F16),
    (9, Scalar::Bf16),
    (3, Scalar::I8),
    (6, Scalar::U8),
    (4, Scalar::I32),
    (10, Scalar::I64),
];

/// The types that layers compute with.
const FLOATS: [Scalar; 6] = [Scalar::F32, Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16];

fn code(scalar: Scalar) -> u32 {
    TYPES.iter().find(|(_, of)| *of == scalar).map_or(0, |(code, _)| *code)
}

/// A tensor of a problem.
#[derive(Clone)]
struct Tensor {
    scalar: Scalar,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

impl Tensor {
    /// In this order of dimensions, outermost first, with so many elements left out behind every
    /// row of each.
    fn ordered(scalar: Scalar, dims: &[i64], order: &[usize], gaps: &[i64]) -> Tensor {
        let mut strides = vec![0; dims.len()];
        let mut step = 1;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= dims[axis] + gaps[axis];
        }
        Tensor { scalar, dims: dims.to_vec(), strides }
    }

    fn packed(scalar: Scalar, dims: &[i64]) -> Tensor {
        let order: Vec<usize> = (0..dims.len()).collect();
        Tensor::ordered(scalar, dims, &order, &vec![0; dims.len()])
    }

    /// Mostly NCHW and NHWC; else any order, with gaps; what is only read also backwards and
    /// repeated.
    fn draw(rng: &mut Rng, scalar: Scalar, dims: &[i64], is_read: bool) -> Tensor {
        let rank = dims.len();
        let plain: Vec<usize> = (0..rank).collect();
        let mut order = match rng.below(10) {
            0..5 => plain.clone(),
            5..8 => [&[0][..], &plain[2..], &[1]].concat(),
            _ => rng.order(rank),
        };
        if rank < 3 {
            order = plain;
        }
        let gaps: Vec<i64> = match rng.below(4) {
            0 => (0..rank).map(|_| if rng.below(2) == 0 { rng.below(4) as i64 } else { 0 }).collect(),
            _ => vec![0; rank],
        };
        let mut tensor = Tensor::ordered(scalar, dims, &order, &gaps);
        match rng.below(16) {
            0 if is_read => {
                let axis = rng.below(rank);
                tensor.strides[axis] = -tensor.strides[axis];
            }
            1 if is_read => tensor.strides[rng.below(rank)] = 0,
            _ => {}
        }
        tensor
    }

    /// The bytes around the data pointer that its elements take.
    fn span(&self) -> (i64, i64) {
        let ends = self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim - 1) * stride);
        let (low, high) = ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)));
        let size = self.scalar.size() as i64;
        (low * size, (high + 1) * size)
    }

    fn buffer(&self, name: &str, content: &str) -> String {
        let (low, high) = self.span();
        format!("{name}:{}:{low}..{high}:{content}", self.scalar.name())
    }

    /// Creates and sets a descriptor of this register.
    fn describe(&self, register: &str, calls: &mut Vec<String>) {
        let (code, rank) = (code(self.scalar), self.dims.len());
        let (dims, strides) = (list(&self.dims), list(&self.strides));
        calls.push(format!("CreateTensorDescriptor {register}"));
        calls.push(format!("SetTensorNdDescriptor {register} {code} {rank} {dims} {strides}"));
    }

    /// Whether all of an image lies before the next one, or behind it.
    fn has_images_apart(&self) -> bool {
        let reach: i64 =
            self.dims.iter().zip(&self.strides).skip(1).map(|(dim, stride)| (dim - 1) * stride.abs()).sum();
        reach < self.strides[0].abs()
    }

    /// The same for one image.
    fn image(&self) -> Tensor {
        let mut image = self.clone();
        image.dims[0] = 1;
        image
    }

    /// Where an image begins, in bytes from the data pointer.
    fn offset(&self, image: i64) -> i64 {
        image * self.strides[0] * self.scalar.size() as i64
    }
}

/// `[1,2,3]`.
fn list(values: &[i64]) -> String {
    format!("[{}]", values.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// A factor for a destination of this type.
fn factor(scalar: Scalar, value: f64) -> String {
    if scalar == Scalar::F64 { format!("d:{value}") } else { format!("f:{value}") }
}

/// Draws the calls of a problem.
type Draw = fn(&mut Rng, &mut Vec<String>);

/// The kinds of problems, and how often each is drawn.
const KINDS: [(&str, usize, Draw); 20] = [
    ("convolution", 13, convolution::draw),
    ("pooling", 1, layers::pool),
    ("activation", 1, layers::activate),
    ("softmax", 1, layers::softmax),
    ("normalisation", 1, layers::normalise),
    ("response", 1, layers::respond),
    ("dropout", 1, layers::drop),
    ("sampling", 1, layers::sample),
    ("columns", 1, tensors::columns),
    ("reduction", 1, tensors::reduce),
    ("sums", 1, tensors::combine),
    ("transform", 1, tensors::transform),
    ("training", 2, normal::train),
    ("recurrent", 6, recurrent::draw),
    ("attention", 4, attention::draw),
    ("fused", 4, fused::draw),
    ("graph", 4, graphs::draw),
    ("dot_product", 3, dot_product::draw),
    ("ctc", 2, sequences::lose),
    ("causal", 2, sequences::convolve),
];

/// The names of all kinds.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, ..)| *name)
}

/// The line of a problem of these kinds; of all if they are none.
pub fn problem(rng: &mut Rng, kinds: &[String]) -> String {
    let asked = |name: &str| kinds.is_empty() || kinds.iter().any(|kind| kind == name);
    let all = KINDS.iter().filter(|(name, ..)| asked(name));
    let mut at = rng.below(all.clone().map(|(_, weight, _)| weight).sum());
    let mut calls = Vec::new();
    for (_, weight, draw) in all {
        if at < *weight {
            draw(rng, &mut calls);
            break;
        }
        at -= weight;
    }
    calls.join("; ")
}

/// A row of integers in memory of just so many.
fn integers(name: &str, values: &[i64]) -> String {
    let all: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("{name}:{}:0..{}:list={}", Scalar::I32.name(), 4 * values.len(), all.join(","))
}

/// How much a problem may compute: the least of these mostly.
fn scale_to(rng: &mut Rng, [usual, large, most]: &[i64; 3]) -> i64 {
    match rng.below(20) {
        0 => *most,
        1..6 => *large,
        _ => *usual,
    }
}

/// Extents of a tensor of so many dimensions, of about so many elements at most.
fn extents(rng: &mut Rng, rank: usize, most: i64) -> Vec<i64> {
    const USUAL: [i64; 22] =
        [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 300];
    let mut dims: Vec<i64> = (0..rank).map(|_| rng.pick(&USUAL)).collect();
    while dims.iter().product::<i64>() > most {
        let at = (0..rank).max_by_key(|&axis| dims[axis]).unwrap_or(0);
        dims[at] = (dims[at] / 2).max(1);
    }
    dims
}

/// How large a problem may be: mostly small.
fn most(rng: &mut Rng) -> i64 {
    match rng.below(20) {
        0 => 60_000,
        1..6 => 8_000,
        _ => 1_500,
    }
}
