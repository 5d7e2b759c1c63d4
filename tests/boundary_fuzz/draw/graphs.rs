//! Graphs: a product, a convolution or a tensor, and some operations behind it, whose results are virtual or the caller's.

use cudnn::dtype::Scalar;

use super::{Tensor, code, extents, most};
use testkit::random::Rng;

// Kinds of descriptors, types of attributes, and attributes, by their numbers in `cudnn.h`.
const POINTWISE: u32 = 0;
const CONVOLUTION: u32 = 1;
const ENGINE: u32 = 2;
const ENGINE_CONFIG: u32 = 3;
const PLAN: u32 = 5;
const OF_CONVOLUTION: u32 = 10;
const OF_POINTWISE: u32 = 13;
const GRAPH: u32 = 15;
const PACK: u32 = 16;
const TENSOR: u32 = 17;
const MATMUL: u32 = 18;
const OF_MATMUL: u32 = 19;
const REDUCTION: u32 = 21;
const OF_REDUCTION: u32 = 22;
const OF_NORM: u32 = 29;

const HANDLE: u32 = 0;
const DATA_TYPE: u32 = 1;
const BOOLEAN: u32 = 2;
const INT64: u32 = 3;
const FLOAT: u32 = 4;
const VOID_PTR: u32 = 6;
const CONVOLUTION_MODE: u32 = 7;
const POINTWISE_MODE: u32 = 14;
const DESCRIPTOR: u32 = 15;
const REDUCTION_OPERATOR: u32 = 18;
const NORM_MODE: u32 = 27;
const NORM_PHASE: u32 = 28;

/// A graph while its calls are written.
struct Graph<'a> {
    calls: &'a mut Vec<String>,
    descriptors: usize,
    operations: Vec<String>,
    /// The caller's tensors: their buffers.
    held: Vec<String>,
}

/// A tensor of a graph: its descriptor, and how its elements lie.
#[derive(Clone)]
struct Node {
    name: String,
    layout: Tensor,
}

impl Node {
    fn dims(&self) -> &[i64] {
        &self.layout.dims
    }
}

impl Graph<'_> {
    fn create(&mut self, kind: u32) -> String {
        let name = format!("G{}", self.descriptors);
        self.descriptors += 1;
        self.calls.push(format!("BackendCreateDescriptor {kind} {name}"));
        name
    }

    fn set(&mut self, name: &str, attribute: u32, ty: u32, letter: char, values: &[String]) {
        let (count, values) = (values.len(), values.join(","));
        self.calls.push(format!("BackendSetAttribute {name} {attribute} {ty} {count} {letter}:[{values}]"));
    }

    fn integers(&mut self, name: &str, attribute: u32, values: &[i64]) {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        self.set(name, attribute, INT64, 'q', &values);
    }

    fn choice(&mut self, name: &str, attribute: u32, ty: u32, value: u32) {
        self.set(name, attribute, ty, 'i', &[value.to_string()]);
    }

    fn refer(&mut self, name: &str, attribute: u32, to: &str) {
        self.set(name, attribute, DESCRIPTOR, 'p', &[to.to_owned()]);
    }

    fn finish(&mut self, name: &str) {
        self.calls.push(format!("BackendFinalize {name}"));
    }

    /// A tensor, the caller's with this content, or virtual.
    fn tensor(&mut self, rng: &mut Rng, of: Scalar, dims: &[i64], content: Option<&str>) -> Node {
        let rank = dims.len();
        let order: Vec<usize> = match rng.below(2) {
            0 => (0..rank).collect(),
            _ => [0].into_iter().chain(2..rank).chain([1]).collect(),
        };
        let tensor = Tensor::ordered(of, dims, &order, &vec![0; rank]);
        self.laid_out(&tensor, content, false)
    }

    fn laid_out(&mut self, tensor: &Tensor, content: Option<&str>, by_value: bool) -> Node {
        let name = self.create(TENSOR);
        // The caller's count from 1.
        let uid = match content {
            Some(_) => 1 + self.held.len(),
            None => 1000 + self.descriptors,
        };
        self.integers(&name, 906, &[uid as i64]);
        self.choice(&name, 901, DATA_TYPE, code(tensor.scalar));
        self.integers(&name, 900, &[tensor.scalar.size() as i64]);
        self.integers(&name, 902, &tensor.dims);
        self.integers(&name, 903, &tensor.strides);
        match content {
            None => self.set(&name, 907, BOOLEAN, 'b', &["1".to_owned()]),
            Some(content) => {
                let buffer = tensor.buffer(&format!("B{}", self.held.len()), content);
                self.held.push(buffer);
            }
        }
        if by_value {
            self.set(&name, 908, BOOLEAN, 'b', &["1".to_owned()]);
        }
        self.finish(&name);
        Node { name, layout: tensor.clone() }
    }

    /// An operation that reads and writes these by their attributes.
    fn operation(&mut self, kind: u32, links: &[(u32, &str)]) -> String {
        let name = self.create(kind);
        links.iter().for_each(|(attribute, to)| self.refer(&name, *attribute, to));
        self.operations.push(name.clone());
        name
    }

    fn pointwise(&mut self, mode: u32, [x, y]: [&Node; 2], b: Option<&Node>) {
        let how = self.create(POINTWISE);
        self.choice(&how, 0, POINTWISE_MODE, mode);
        self.choice(&how, 1, DATA_TYPE, 0);
        self.finish(&how);
        let mut links = vec![(750, how.as_str()), (751, x.name.as_str()), (753, y.name.as_str())];
        links.extend(b.map(|b| (752, b.name.as_str())));
        let name = self.operation(OF_POINTWISE, &links);
        self.finish(&name);
    }

    fn matmul(&mut self, [a, b, c]: [&Node; 3]) {
        let how = self.create(MATMUL);
        self.choice(&how, 1500, DATA_TYPE, 0);
        self.finish(&how);
        let name =
            self.operation(OF_MATMUL, &[(1523, &how), (1520, &a.name), (1521, &b.name), (1522, &c.name)]);
        self.finish(&name);
    }

    fn convolve(&mut self, [x, w, y]: [&Node; 3], axes: &[[i64; 3]]) {
        let how = self.create(CONVOLUTION);
        let part = |part: usize| axes.iter().map(|axis| axis[part]).collect::<Vec<_>>();
        self.choice(&how, 100, DATA_TYPE, 0);
        self.choice(&how, 101, CONVOLUTION_MODE, 1);
        self.integers(&how, 106, &[axes.len() as i64]);
        self.integers(&how, 102, &vec![1; axes.len()]);
        self.integers(&how, 103, &part(2));
        self.integers(&how, 104, &part(1));
        self.integers(&how, 105, &part(1));
        self.finish(&how);
        let name =
            self.operation(OF_CONVOLUTION, &[(702, &how), (704, &x.name), (703, &w.name), (705, &y.name)]);
        self.set(&name, 700, FLOAT, 'f', &["1".to_owned()]);
        self.set(&name, 701, FLOAT, 'f', &["0".to_owned()]);
        self.finish(&name);
    }

    fn reduce(&mut self, operator: u32, [x, y]: [&Node; 2]) {
        let how = self.create(REDUCTION);
        self.choice(&how, 1600, REDUCTION_OPERATOR, operator);
        self.choice(&how, 1601, DATA_TYPE, 0);
        self.finish(&how);
        let name = self.operation(OF_REDUCTION, &[(1612, &how), (1610, &x.name), (1611, &y.name)]);
        self.finish(&name);
    }

    /// Layer normalisation, with the statistics where they are wanted.
    fn normalise(&mut self, rng: &mut Rng, [x, y]: [&Node; 2], trains: bool) {
        let mut parameters = x.dims().to_vec();
        parameters[0] = 1;
        let mut statistics = vec![1; parameters.len()];
        statistics[0] = x.dims()[0];
        let single = vec![1; parameters.len()];
        let scale = self.tensor(rng, Scalar::F32, &parameters, Some("real"));
        let bias = self.tensor(rng, Scalar::F32, &parameters, Some("real"));
        let epsilon = self.laid_out(&Tensor::packed(Scalar::F32, &single), Some("positive"), true);
        let kept =
            trains.then(|| [0, 1].map(|_| self.tensor(rng, Scalar::F32, &statistics, Some("nan:near"))));
        let mut links = vec![
            (2002, x.name.as_str()),
            (2005, scale.name.as_str()),
            (2006, bias.name.as_str()),
            (2007, epsilon.name.as_str()),
            (2013, y.name.as_str()),
        ];
        if let Some([mean, inverse]) = &kept {
            links.extend([(2003, mean.name.as_str()), (2004, inverse.name.as_str())]);
        }
        let name = self.operation(OF_NORM, &links);
        self.choice(&name, 2000, NORM_MODE, 0);
        self.choice(&name, 2001, NORM_PHASE, u32::from(trains));
        self.finish(&name);
    }

    /// Makes the plan, asks for its workspace, and executes it.
    fn run(mut self) {
        let graph = self.create(GRAPH);
        self.set(&graph, 800, HANDLE, 'p', &["H0".to_owned()]);
        let operations = std::mem::take(&mut self.operations);
        self.set(&graph, 801, DESCRIPTOR, 'p', &operations);
        self.finish(&graph);
        let engine = self.create(ENGINE);
        self.refer(&engine, 1300, &graph);
        self.integers(&engine, 1301, &[1]);
        self.finish(&engine);
        let config = self.create(ENGINE_CONFIG);
        self.refer(&config, 300, &engine);
        self.finish(&config);
        let plan = self.create(PLAN);
        self.set(&plan, 400, HANDLE, 'p', &["H0".to_owned()]);
        self.refer(&plan, 401, &config);
        self.finish(&plan);
        self.calls.push(format!("BackendGetAttribute {plan} 402 {INT64} 1 @=c @l=w"));
        let names: Vec<String> = (0..self.held.len()).map(|at| format!("B{at}")).collect();
        self.calls.push(format!("Hold {} W0:u8:0..$w:scratch", self.held.join(" ")));
        let pack = self.create(PACK);
        let uids: Vec<i64> = (1..=names.len() as i64).collect();
        self.integers(&pack, 1000, &uids);
        self.set(&pack, 1001, VOID_PTR, 'p', &names);
        self.set(&pack, 1003, VOID_PTR, 'p', &["W0".to_owned()]);
        self.finish(&pack);
        self.calls.push(format!("BackendExecute H0 {plan} {pack}"));
    }
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::Bf16]);
    let mut graph = Graph { calls, descriptors: 0, operations: Vec::new(), held: Vec::new() };
    let later = rng.below(5);
    // A result is the caller's where it is the last, and sometimes else.
    let result = |rng: &mut Rng, is_last: bool| (is_last || rng.below(4) == 0).then_some("nan:near");
    let of_result = |rng: &mut Rng, content: Option<&str>| {
        if content.is_some() || rng.below(3) == 0 { of } else { Scalar::F32 }
    };
    let mut at = match rng.below(3) {
        0 => {
            let [batch, rows, inner, columns] = [4, 20, 40, 40].map(|most| 1 + rng.below(most) as i64);
            let a = graph.tensor(rng, of, &[batch, rows, inner], Some("real"));
            let batch_of_b = if rng.below(2) == 0 { 1 } else { batch };
            let b = graph.tensor(rng, of, &[batch_of_b, inner, columns], Some("real"));
            let content = result(rng, later == 0);
            let kind = of_result(rng, content);
            let c = graph.tensor(rng, kind, &[batch, rows, columns], content);
            graph.matmul([&a, &b, &c]);
            c
        }
        1 => {
            let [images, channels, filters] = [3, 12, 12].map(|most| 1 + rng.below(most) as i64);
            let axes: Vec<[i64; 3]> = (0..2)
                .map(|_| [rng.pick(&[1, 2, 3]), rng.below(2) as i64, 1 + rng.below(2) as i64])
                .collect();
            let extent: Vec<i64> = axes.iter().map(|[window, ..]| window + rng.below(9) as i64).collect();
            let out = axes
                .iter()
                .zip(&extent)
                .map(|([window, padding, stride], extent)| (extent + 2 * padding - window) / stride + 1);
            let y = [vec![images, filters], out.collect()].concat();
            let x = graph.tensor(rng, of, &[images, channels, extent[0], extent[1]], Some("real"));
            let w = graph.tensor(rng, of, &[filters, channels, axes[0][0], axes[1][0]], Some("real"));
            let content = result(rng, later == 0);
            let kind = of_result(rng, content);
            let y = graph.tensor(rng, kind, &y, content);
            graph.convolve([&x, &w, &y], &axes);
            y
        }
        _ => {
            let most = most(rng);
            let (rank, later) = (rng.pick(&[3, 4]), later.max(1));
            let dims = extents(rng, rank, most);
            let x = graph.tensor(rng, of, &dims, Some("real"));
            let content = result(rng, later == 1);
            let kind = of_result(rng, content);
            let y = graph.tensor(rng, kind, &dims, content);
            graph.pointwise(101, [&x, &y], None);
            y
        }
    };
    for turn in 0..later {
        let content = result(rng, turn + 1 == later);
        let kind = of_result(rng, content);
        let mut dims = at.dims().to_vec();
        match rng.below(5) {
            0 => {
                let y = graph.tensor(rng, kind, &dims, content);
                graph.pointwise(rng.pick(&[101, 102]), [&at, &y], None);
                at = y;
            }
            1 => {
                let broadcast: Vec<i64> =
                    dims.iter().map(|&dim| if rng.below(2) == 0 { 1 } else { dim }).collect();
                let b = graph.tensor(rng, of, &broadcast, Some("real"));
                let y = graph.tensor(rng, kind, &dims, content);
                graph.pointwise(rng.pick(&[0, 1]), [&at, &y], Some(&b));
                at = y;
            }
            2 => {
                dims.iter_mut().skip(1).for_each(|dim| *dim = if rng.below(2) == 0 { 1 } else { *dim });
                let y = graph.tensor(rng, kind, &dims, content);
                // The largest elements: sums grow beyond what halves hold.
                graph.reduce(3, [&at, &y]);
                at = y;
            }
            _ => {
                // Which has the strides of what is normalised.
                let y = graph.laid_out(&Tensor { scalar: kind, ..at.layout.clone() }, content, false);
                let trains = rng.below(2) == 0;
                graph.normalise(rng, [&at, &y], trains);
                at = y;
            }
        }
    }
    graph.run();
}
