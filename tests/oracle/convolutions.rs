//! The departures of convolutions: every rank, layout and algorithm number, mixtures of types,
//! other terms beside the sum.

use std::collections::HashMap;

use super::case::Step;
use super::departures::{BAD_PARAM, NOT_SUPPORTED, OK, Promise, Tensor, VECT_C};
use super::filters::Filter;

/// What a convolution descriptor holds.
struct Geometry {
    padding: Vec<i64>,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    compute_type: i64,
}

/// Descriptors of a case that only convolutions take.
#[derive(Default)]
pub struct Convolutions {
    geometries: HashMap<String, Geometry>,
    filters: HashMap<String, Filter>,
    /// What was set in packs of constant parameters: the descriptor's register, or the number.
    packs: HashMap<String, HashMap<i64, String>>,
}

/// Where a call has its descriptors: input, filter, convolution, output, and the algorithm, if it
/// takes one.
struct Shape {
    x: usize,
    w: usize,
    convolution: usize,
    y: usize,
    algorithm: Option<usize>,
    /// Numbers of its enumeration.
    algorithms: i64,
    /// Which two are multiplied.
    factors: [usize; 2],
}

impl Shape {
    fn of(function: &str) -> Option<Shape> {
        let new = |[x, w, convolution, y]: [usize; 4], algorithm: usize, algorithms: i64, factors| {
            let algorithm = (algorithm > 0).then_some(algorithm);
            Some(Shape { x, w, convolution, y, algorithm, algorithms, factors })
        };
        match function {
            "ConvolutionForward" => new([2, 4, 6, 11], 7, 8, [2, 4]),
            "ConvolutionBiasActivationForward" => new([2, 4, 6, 16], 7, 8, [2, 4]),
            "ConvolutionBackwardData" => new([11, 2, 6, 4], 7, 6, [2, 4]),
            "ConvolutionBackwardFilter" => new([2, 11, 6, 4], 7, 7, [2, 4]),
            "GetConvolutionForwardWorkspaceSize" => new([1, 2, 3, 4], 5, 8, [1, 2]),
            "GetConvolutionBackwardDataWorkspaceSize" => new([4, 1, 3, 2], 5, 6, [1, 2]),
            "GetConvolutionBackwardFilterWorkspaceSize" => new([1, 4, 3, 2], 5, 7, [1, 2]),
            "GetConvolutionForwardAlgorithm_v7" => new([1, 2, 3, 4], 0, 8, [1, 2]),
            "GetConvolutionBackwardDataAlgorithm_v7" => new([4, 1, 3, 2], 0, 6, [1, 2]),
            "GetConvolutionBackwardFilterAlgorithm_v7" => new([1, 4, 3, 2], 0, 7, [1, 2]),
            _ => None,
        }
    }
}

/// An operand: type, channels one by one, whole dims.
struct Operand {
    data_type: i64,
    lanes: i64,
    vectorised: bool,
    dims: Vec<i64>,
}

const INT32: i64 = 4;
const BYTES: [i64; 5] = [3, 5, 6, 7, 8];

impl Convolutions {
    /// The promise for a step of these calls, whose tensors are as given.
    pub fn promise(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        if step.args.iter().any(|token| token == "NULL") {
            return None;
        }
        match step.function.as_str() {
            "ReorderFilterAndBias" if step.status() == NOT_SUPPORTED => {
                Some(Promise { departure: "conv-reorder", status: OK })
            }
            "MakeFusedOpsPlan" if step.status() == NOT_SUPPORTED => self.promise_fused(step, tensors),
            _ => self.promise_convolution(step, tensors),
        }
    }

    fn promise_convolution(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        let shape = Shape::of(&step.function)?;
        let is_list = shape.algorithm.is_none();
        let refuses = if is_list {
            step.status() == BAD_PARAM || step.observed.iter().any(|token| token.contains(":3000:"))
        } else {
            step.status() != OK
        };
        let known =
            shape.algorithm.is_none_or(|at| (0..shape.algorithms).contains(&step.int(at).unwrap_or(-1)));
        let geometry = self.geometries.get(&step.args[shape.convolution])?;
        let operand = |at: usize| self.operand(&step.args[at], tensors);
        let (x, w, y) = (operand(shape.x)?, operand(shape.w)?, operand(shape.y)?);
        let mixed = x.lanes != w.lanes || (y.lanes > 1 && !y.vectorised);
        if !refuses || !known || !fits(&x, &w, &y, geometry) || (step.status() == BAD_PARAM && !mixed) {
            return None;
        }
        let [a, b] = [operand(shape.factors[0])?.data_type, operand(shape.factors[1])?.data_type];
        let in_bytes = BYTES.contains(&a) && BYTES.contains(&b);
        if a == INT32 || b == INT32 || (geometry.compute_type == INT32 && !in_bytes) {
            // Shapes that the original finds wrong, as it counts vectors, are looked at further.
            let further = step.status() == BAD_PARAM;
            return further.then_some(Promise { departure: "conv", status: NOT_SUPPORTED });
        }
        if step.function == "ConvolutionBiasActivationForward" {
            let beside = |at: usize| {
                let operand = operand(at)?;
                let fits = operand.dims.len() == y.dims.len()
                    && operand.dims.iter().zip(&y.dims).all(|(&dim, &of_y)| dim == 1 || dim == of_y);
                Some(fits)
            };
            if !beside(11)? || !beside(13)? {
                // A shape that was not looked at before may be what is refused now.
                return (step.status() != 3002).then_some(Promise { departure: "conv-shape", status: 3002 });
            }
        }
        Some(Promise { departure: if is_list { "conv-records" } else { "conv" }, status: OK })
    }

    /// Operation 0 of any type, layout and math type.
    fn promise_fused(&self, step: &Step, tensors: &HashMap<String, Tensor>) -> Option<Promise> {
        let pack = self.packs.get(&step.args[2])?;
        let geometry = self.geometries.get(pack.get(&7)?)?;
        let operand = |label: i64| self.operand(pack.get(&label)?, tensors);
        fits(&operand(0)?, &operand(8)?, &operand(12)?, geometry)
            .then_some(Promise { departure: "conv-fused", status: OK })
    }

    fn operand(&self, register: &str, tensors: &HashMap<String, Tensor>) -> Option<Operand> {
        if let Some(filter) = self.filters.get(register) {
            let lanes = lanes(filter.data_type);
            let mut dims = filter.dims.clone();
            let vectorised = filter.format == VECT_C;
            if !vectorised {
                dims[1] *= lanes;
            }
            return Some(Operand { data_type: filter.data_type, lanes, vectorised, dims });
        }
        let tensor = tensors.get(register)?;
        let vectorised = tensor.format == Some(VECT_C);
        let lanes = tensor.lanes();
        Some(Operand { data_type: tensor.data_type, lanes, vectorised, dims: tensor.scalar_dims() })
    }

    /// Takes over what an accepted call sets.
    pub fn follow(&mut self, step: &Step) {
        let (Some(register), ints) = (step.args.first(), |at: usize| step.ints(at)) else { return };
        if let Some(filter) = Filter::of_setter(step) {
            self.filters.insert(register.clone(), filter);
        }
        let pair = |at: usize| Some(vec![step.int(at)?, step.int(at + 1)?]);
        let geometry = match step.function.as_str() {
            "SetConvolution2dDescriptor" => (pair(1), pair(3), pair(5), step.int(8)),
            "SetConvolutionNdDescriptor" => (ints(2), ints(3), ints(4), step.int(6)),
            "SetFusedOpsConstParamPackAttribute" => {
                let pack = self.packs.entry(register.clone()).or_default();
                pack.insert(step.int(1).unwrap_or(-1), step.args[2].clone());
                return;
            }
            _ => return,
        };
        if let (Some(padding), Some(strides), Some(dilation), Some(compute_type)) = geometry {
            let geometry = Geometry { padding, strides, dilation, compute_type };
            self.geometries.insert(register.clone(), geometry);
        }
    }
}

fn lanes(data_type: i64) -> i64 {
    match data_type {
        5 | 7 => 4,
        8 => 32,
        _ => 1,
    }
}

/// Whether input, filter and output go together, channels counted one by one.
fn fits(x: &Operand, w: &Operand, y: &Operand, geometry: &Geometry) -> bool {
    let spatial = geometry.padding.len();
    let ranks = [x, w, y].iter().all(|operand| operand.dims.len() == spatial + 2);
    if !ranks || w.dims[1] < 1 || x.dims[1] % w.dims[1] != 0 {
        return false;
    }
    let groups = x.dims[1] / w.dims[1];
    let extent = |k: usize| {
        let reach = (w.dims[k + 2] - 1) * geometry.dilation[k] + 1;
        let last = x.dims[k + 2] + 2 * geometry.padding[k] - reach;
        last >= 0 && y.dims[k + 2] == 1 + last / geometry.strides[k]
    };
    w.dims[0] % groups == 0 && y.dims[1] == w.dims[0] && x.dims[0] == y.dims[0] && (0..spatial).all(extent)
}
