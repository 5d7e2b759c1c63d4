//! Graphs: a product, a convolution or a tensor, and some operations behind it, whose results are
//! virtual or the caller's.

use cudnn::dtype::Scalar;

use super::graph::{DATA_TYPE, FLOAT, Graph, Node, POINTWISE_MODE};
use super::{Tensor, extents, most};
use testkit::random::Rng;

// Kinds of descriptors and types of attributes, by their numbers in `cudnn.h`.
const POINTWISE: u32 = 0;
const CONVOLUTION: u32 = 1;
const OF_CONVOLUTION: u32 = 10;
const OF_POINTWISE: u32 = 13;
const MATMUL: u32 = 18;
const OF_MATMUL: u32 = 19;
const REDUCTION: u32 = 21;
const OF_REDUCTION: u32 = 22;
const OF_NORM: u32 = 29;
const CONVOLUTION_MODE: u32 = 7;
const REDUCTION_OPERATOR: u32 = 18;
const NORM_MODE: u32 = 27;
const NORM_PHASE: u32 = 28;

impl Graph<'_> {
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
        let scale = self.tensor(rng, Scalar::F32, &parameters, Some("real"));
        let bias = self.tensor(rng, Scalar::F32, &parameters, Some("real"));
        let epsilon = self.value(Scalar::F32, parameters.len(), "positive");
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
}

pub fn draw(rng: &mut Rng, calls: &mut Vec<String>) {
    // Every fourth one is executed with other extents than it is described with.
    let (is_overridden, seed, extents) = (rng.below(4) == 0, rng.word(), rng.word());
    let mut graph = Graph::new(calls);
    describe(&mut graph, &mut Rng(seed));
    let mut spare = Vec::new();
    let smaller = is_overridden.then(|| {
        let mut smaller = Graph::smaller(&mut spare, extents);
        describe(&mut smaller, &mut Rng(seed));
        smaller
    });
    graph.run(smaller.as_ref());
}

fn describe(graph: &mut Graph<'_>, rng: &mut Rng) {
    let of = rng.pick(&[Scalar::F32, Scalar::F32, Scalar::F16, Scalar::Bf16]);
    let later = rng.below(5);
    // A result is the caller's where it is the last, and sometimes else.
    let result = |rng: &mut Rng, is_last: bool| (is_last || rng.below(4) == 0).then_some("nan:near");
    let of_result = |rng: &mut Rng, content: Option<&str>| {
        if content.is_some() || rng.below(3) == 0 { of } else { Scalar::F32 }
    };
    let mut at = match rng.below(3) {
        0 => {
            let [batch, rows, inner, columns] =
                [4, 20, 40, 40].map(|most| graph.extent(1, 1 + rng.below(most) as i64));
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
            let [images, channels, filters] =
                [3, 12, 12].map(|most| graph.extent(1, 1 + rng.below(most) as i64));
            let axes: Vec<[i64; 3]> = (0..2)
                .map(|_| [rng.pick(&[1, 2, 3]), rng.below(2) as i64, 1 + rng.below(2) as i64])
                .collect();
            let extent: Vec<i64> =
                axes.iter().map(|[window, ..]| graph.extent(*window, window + rng.below(9) as i64)).collect();
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
            let drawn = extents(rng, rank, most);
            let dims: Vec<i64> = drawn.into_iter().map(|extent| graph.extent(1, extent)).collect();
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
                let y = graph.laid_out(&Tensor { scalar: kind, ..at.layout.clone() }, content);
                let trains = rng.below(2) == 0;
                graph.normalise(rng, [&at, &y], trains);
                at = y;
            }
        }
    }
}
