//! Operations that are computed together: the bits of single operations.

use cudnn::ops::graph::{Fusion, Strategy};
use testkit::{drawn, extent};

use super::*;

const ADD: i32 = 0;
const MUL: i32 = 1;
const SUB: i32 = 9;

/// All that is computed together, whatever its size, in blocks of few elements.
pub(super) const TOGETHER: Strategy = Strategy { chains: 0, block: 96, ..Strategy::CPU };

/// Functions of one operand and of two.
const UNARY: [i32; 10] = [100, 101, 102, 103, 104, 106, 4, 10, 16, 21];
const BINARY: [i32; 6] = [ADD, MUL, SUB, 2, 3, 5];

/// A graph under construction.
struct Maker {
    operations: Vec<Operation>,
    given: Vec<Arc<Tensor>>,
    /// What there is to read, by the dims that it has.
    there: Vec<Arc<Tensor>>,
    dims: Vec<i64>,
    next: i64,
}

impl Maker {
    fn input(&mut self, dims: &[i64]) -> Arc<Tensor> {
        self.next += 1;
        let tensor = float(self.next, dims);
        self.given.push(Arc::clone(&tensor));
        tensor
    }

    fn result(&mut self, rng: &mut Rng, dims: &[i64]) -> Arc<Tensor> {
        self.next += 1;
        let data_type = rng.pick(&[DataType::Float, DataType::Float, DataType::Float, DataType::Half]);
        let tensor = hidden(self.next, data_type, dims);
        self.there.push(Arc::clone(&tensor));
        tensor
    }

    /// A product of matrices, or a convolution.
    fn product(&mut self, rng: &mut Rng) {
        if rng.below(2) == 0 {
            let (m, n, k) = (1 + rng.below(40) as i64, 1 + rng.below(40) as i64, 1 + rng.below(20) as i64);
            let batch = rng.pick(&[&[2_i64][..], &[2], &[], &[2, 1]]);
            let [a, b, c] = [[m, k], [k, n], [m, n]].map(|matrix| [batch, &matrix].concat());
            let (a, b) = (self.input(&a), self.input(&b));
            self.dims = c;
            let c = self.result(rng, &self.dims.clone());
            return self.operations.push(matmul(&a, &b, &c));
        }
        let (channels, filters, extent) =
            (1 + rng.below(9) as i64, 1 + rng.below(20) as i64, 3 + rng.below(9) as i64);
        self.dims = vec![2, filters, extent, extent];
        let (x, w) = (self.input(&[2, channels, extent, extent]), self.input(&[filters, channels, 3, 3]));
        let one = Dims::new(&[1, 1]);
        let spatial = Spatial { before: one, after: one, strides: one, dilation: one };
        let y = self.result(rng, &self.dims.clone());
        self.operations.push(convolution([&x, &w], &y, spatial));
    }

    /// Something that broadcasts to the graph's dims: a tensor of it, or a new one.
    fn other(&mut self, rng: &mut Rng) -> Arc<Tensor> {
        if rng.below(2) == 0 {
            return Arc::clone(&self.there[rng.below(self.there.len())]);
        }
        let dims: Vec<i64> = self.dims.iter().map(|&dim| if rng.below(2) == 0 { dim } else { 1 }).collect();
        self.input(&dims)
    }

    /// What a product takes: the last result plus another tensor, or a function of it.
    fn follow(&mut self, rng: &mut Rng) {
        let x = self.there[self.there.len() - 1].clone();
        let other = (rng.below(3) > 0).then(|| self.other(rng));
        let y = self.result(rng, &self.dims.clone());
        self.operations.push(match other {
            Some(other) => binary(ADD, &x, &other, &y),
            None => unary(rng.pick(&UNARY[..6]), &x, &y),
        });
    }

    fn any(&mut self, rng: &mut Rng) {
        let dims = self.dims.clone();
        let whole: Vec<Arc<Tensor>> =
            self.there.iter().filter(|tensor| tensor.dims[..] == dims[..]).cloned().collect();
        // The last one mostly: a chain.
        let x = whole[if rng.below(3) == 0 { rng.below(whole.len()) } else { whole.len() - 1 }].clone();
        match rng.below(12) {
            0 => {
                // A reduction of the last dimension, which others read again.
                let mut joined = dims.clone();
                *joined.last_mut().expect("dims") = 1;
                let y = self.result(rng, &joined);
                let operator = rng.pick(&[0, 2, 3, 4, 5]);
                let kind = Kind::Reduction(Reduction { operator, math: DataType::Float.into() });
                self.operations.push(Operation::new(kind, &[(Port::X, &x)], &[(Port::Y, &y)]));
            }
            1 => {
                // A layer normalisation, or of RMS.
                let mode = rng.pick(&[0, 4]);
                let mut scale = vec![1; dims.len()];
                *scale.last_mut().expect("dims") = dims[dims.len() - 1];
                let (scale, bias) = (self.input(&scale), self.input(&scale));
                let epsilon = self.input(&vec![1; dims.len()]);
                let y = self.result(rng, &dims);
                let kind = Kind::NormForward(Norm { mode, training: false });
                let reads =
                    [(Port::X, &x), (Port::Scale, &scale), (Port::Bias, &bias), (Port::Epsilon, &epsilon)];
                // Inference computes its statistics where none are given.
                let count = if mode == 0 { 4 } else { 3 };
                let reads: Vec<_> =
                    reads.into_iter().filter(|(port, _)| count == 4 || *port != Port::Bias).collect();
                self.operations.push(Operation::new(kind, &reads, &[(Port::Y, &y)]));
            }
            2..=5 => {
                let y = self.result(rng, &dims);
                self.operations.push(unary(rng.pick(&UNARY), &x, &y));
            }
            _ => {
                let other = self.other(rng);
                let y = self.result(rng, &dims);
                let mode = rng.pick(&BINARY);
                self.operations.push(match rng.below(2) {
                    0 => binary(mode, &x, &other, &y),
                    _ => binary(mode, &other, &x, &y),
                });
            }
        }
    }

    /// The graph, in which the caller has what nobody reads and some of the rest.
    fn finish(mut self, rng: &mut Rng) -> (Graph, Vec<Arc<Tensor>>, Vec<Arc<Tensor>>) {
        let is_read = |tensor: &Tensor, operations: &[Operation]| {
            operations.iter().any(|of| of.reads.iter().any(|link| link.tensor.uid == tensor.uid))
        };
        let mut wanted = Vec::new();
        for tensor in &self.there {
            if is_read(tensor, &self.operations) && rng.below(8) > 0 {
                continue;
            }
            let strides =
                if rng.below(3) == 0 { any_strides(rng, &tensor.dims) } else { tensor.strides.to_vec() };
            let own = Tensor { is_virtual: false, strides: Dims::new(&strides), ..(**tensor).clone() };
            let own = Arc::new(own);
            replace(&mut self.operations, &own);
            wanted.push(own);
        }
        (Graph { operations: self.operations }, self.given, wanted)
    }
}

pub(super) fn random_graph(rng: &mut Rng) -> (Graph, Vec<Arc<Tensor>>, Vec<Arc<Tensor>>) {
    let mut maker =
        Maker { operations: Vec::new(), given: Vec::new(), there: Vec::new(), dims: Vec::new(), next: 0 };
    if rng.below(2) == 0 {
        maker.product(rng);
    } else {
        let rank = 2 + rng.below(3);
        maker.dims = (0..rank).map(|_| 1 + rng.below(12) as i64).collect();
        let x = maker.input(&maker.dims.clone());
        maker.there.push(x);
    }
    let is_of_product = !maker.operations.is_empty();
    for _ in 0..if is_of_product { rng.below(4) } else { 0 } {
        maker.follow(rng);
    }
    let count = 1 + rng.below(12);
    while maker.operations.len() < count {
        maker.any(rng);
    }
    // What is given is no result.
    let given: Vec<i64> = maker.given.iter().map(|tensor| tensor.uid).collect();
    maker.there.retain(|tensor| !given.contains(&tensor.uid));
    maker.finish(rng)
}

#[test]
fn what_is_computed_together_has_the_bits_of_single_operations() {
    let (mut together, mut chains, mut products, mut in_place, mut told) = (0, 0, 0, 0, 0);
    let asked = extent::cases(1000, 20_000).len() as u64;
    let how = "--test plans graph::fused::what_is_computed_together";
    let count = drawn::cases(asked, how, |case| {
        let mut rng = Rng(case + 1);
        let (graph, given, wanted) = random_graph(&mut rng);
        let plan = |strategy| Execution::planned(&graph, strategy).expect("it is planned");
        let (own, single) = (plan(TOGETHER), plan(Strategy::BY_OPERATION));
        assert_eq!(single.parts().count(), graph.operations.len());
        let names: Vec<String> = own.parts().collect();
        together += u64::from(names.len() < graph.operations.len());
        chains += u64::from(names.iter().any(|name| name.contains("chain: ")));
        products += u64::from(names.iter().any(|name| name.contains("fused product: ")));
        let mut world = World::default();
        given.iter().for_each(|tensor| drop(world.random(&mut rng, tensor)));
        let mut run = |execution: &Execution, place: Option<[i64; 2]>, by_reference: bool| {
            world.by_reference = by_reference;
            wanted.iter().for_each(|tensor| world.room(tensor));
            let before = world.memory.clone();
            world.execute_in_place(execution, place);
            let bits = |tensor: &Arc<Tensor>| {
                let number = |x: &f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
                (tensor.uid, world.get(tensor).iter().map(number).collect::<Vec<_>>())
            };
            let found = wanted.iter().map(bits).collect::<Vec<_>>();
            world.memory = before;
            found
        };
        let results = [run(&own, None, false), run(&single, None, false)];
        // Step by step; sums of products have another order there.
        if !names.iter().any(|name| name.contains("contract ")) {
            assert_eq!(run(&own, None, true), results[1], "case {case}, step by step\n{}", names.join("\n"));
        }
        // A result in the place of an operand, where one part computes everything.
        let lie_alike =
            |a: &Tensor, b: &Tensor| (a.dims, a.strides, a.data_type) == (b.dims, b.strides, b.data_type);
        let pair = wanted.iter().find_map(|y| Some([y.uid, given.iter().find(|x| lie_alike(x, y))?.uid]));
        if let Some(place) = pair.filter(|_| names.len() == 1) {
            in_place += 1;
            let found = run(&own, Some(place), false);
            told += u64::from(world.told.iter().any(|line| line.contains("in place of")));
            assert_eq!(found, results[1], "case {case}: {place:?} in one place\n{}", names.join("\n"));
        }
        for (a, b) in results[0].iter().zip(&results[1]) {
            let differs = a.1.iter().zip(&b.1).position(|(a, b)| a != b);
            assert!(
                differs.is_none(),
                "case {case}: element {differs:?} of tensor {}\n{}\n{}",
                a.0,
                names.join("\n"),
                single.parts().collect::<Vec<_>>().join("\n")
            );
        }
    });
    println!(
        "of {count} graphs {together} are computed together, {chains} in chains, {products} with products; {in_place} in place, of which {told} need no copy"
    );
    // Few may be of one kind.
    assert!(
        count < 100
            || chains > count / 4 && products > count / 20 && in_place > count / 100 && told > in_place / 2
    );
}

/// What somebody else reads, or the caller has, is computed.
#[test]
fn results_that_are_needed_are_written() {
    for is_virtual in [true, false] {
        let (a, b, bias) = (float(1, &[1, 4, 5]), float(2, &[1, 5, 6]), float(3, &[1, 1, 6]));
        let product = if is_virtual { hidden(4, DataType::Float, &[1, 4, 6]) } else { float(4, &[1, 4, 6]) };
        let (sum, other) = (float(5, &[1, 4, 6]), float(6, &[1, 4, 6]));
        let mut operations = vec![matmul(&a, &b, &product), binary(ADD, &product, &bias, &sum)];
        if is_virtual {
            operations.push(unary(101, &product, &other));
        }
        let count = operations.len();
        let strategy = Strategy { chains: i64::MAX, ..Strategy::CPU };
        let execution = Execution::planned(&Graph { operations }, strategy).expect("it runs");
        assert_eq!(execution.parts().count(), count);
    }
}

/// A GPU's epilogue computes activations that have a slope, that of a processor any function.
#[test]
fn products_take_their_bias_and_activation() {
    let (a, b, bias) = (float(1, &[1, 4, 5]), float(2, &[1, 5, 6]), float(3, &[1, 1, 6]));
    let (product, sum, y) = (
        hidden(4, DataType::Float, &[1, 4, 6]),
        hidden(5, DataType::Float, &[1, 4, 6]),
        float(6, &[1, 4, 6]),
    );
    for (activation, fusion, count) in [
        (100, Fusion::Products, 1),
        (104, Fusion::Products, 2),
        (104, Fusion::All, 1),
        (100, Fusion::None, 3),
    ] {
        let operations =
            vec![matmul(&a, &b, &product), binary(ADD, &product, &bias, &sum), unary(activation, &sum, &y)];
        let strategy = Strategy { fusion, chains: i64::MAX, ..Strategy::CPU };
        let execution = Execution::planned(&Graph { operations }, strategy).expect("it runs");
        assert_eq!(execution.parts().count(), count, "{activation} {fusion:?}");
    }
    // What is rounded in between stays so.
    let half = hidden(5, DataType::Half, &[1, 4, 6]);
    let operations =
        vec![matmul(&a, &b, &product), binary(ADD, &product, &bias, &half), unary(100, &half, &y)];
    let execution = Execution::new(&Graph { operations }).expect("it runs");
    assert_eq!(execution.parts().count(), 2);
}

/// Groups of blocks add up what they have of the gradients of scale and bias.
#[test]
fn sums_over_blocks_are_those_of_all_rows() {
    let mut rng = Rng(7);
    for (rows, width, mode) in [(1, 5, 0), (40, 7, 0), (333, 12, 4), (1000, 96, 0), (65, 200, 4)] {
        let (x, dy) = (float(1, &[rows, width]), float(2, &[rows, width]));
        let (scale, mean, inverse) = (float(3, &[1, width]), float(4, &[rows, 1]), float(5, &[rows, 1]));
        let (dx, dscale, dbias) =
            (float(6, &[rows, width]), float(7, &[1, width]), packed(8, DataType::Half, &[1, width]));
        let squared = hidden(9, DataType::Float, &[rows, width]);
        let mut reads = vec![(Port::X, &x), (Port::Dy, &squared), (Port::Scale, &scale)];
        reads.push((Port::InverseVariance, &inverse));
        if mode == 0 {
            reads.push((Port::Mean, &mean));
        }
        let writes = [(Port::Dx, &dx), (Port::Dscale, &dscale), (Port::Dbias, &dbias)];
        let norm = Kind::NormBackward(Norm { mode, training: true });
        let operations = vec![binary(MUL, &dy, &dy, &squared), Operation::new(norm, &reads, &writes)];
        let graph = Graph { operations };
        let mut world = World::default();
        for tensor in [&x, &dy, &scale, &mean, &inverse] {
            world.random(&mut rng, tensor);
        }
        let results = [TOGETHER, Strategy::BY_OPERATION].map(|strategy| {
            let execution = Execution::planned(&graph, strategy).expect("it is planned");
            let chains = execution.parts().filter(|part| part.contains("chain: ")).count();
            assert_eq!(chains, usize::from(strategy == TOGETHER), "{rows} x {width}");
            [&dx, &dscale, &dbias].iter().for_each(|tensor| world.room(tensor));
            world.execute(&execution);
            [&dx, &dscale, &dbias].map(|tensor| world.get(tensor))
        });
        let [together, single] = &results;
        assert_near(&together[0], &single[0], 0.0, "dx");
        assert_near(&together[1], &single[1], 1e-5, "dscale");
        assert_near(&together[2], &single[2], 1e-3, "dbias");
    }
}

/// Nobody sees the strides of virtual tensors: whatever they are, these are packed as the results
/// are that are made of them.
#[test]
fn virtual_tensors_lie_as_the_results() {
    let mut rng = Rng(11);
    let (m, n, k) = (7, 5, 6);
    let mut texts = Vec::new();
    for strides in [[35, 5, 1], [35, 1, 7], [1, 40, 8]] {
        for is_transposed in [false, true] {
            let (a, b, bias) = (float(1, &[2, m, k]), float(2, &[2, k, n]), float(3, &[1, 1, n]));
            let of = |tensor: Arc<Tensor>, strides: [i64; 3]| {
                Arc::new(Tensor { strides: Dims::new(&strides), ..(*tensor).clone() })
            };
            let product = of(hidden(4, DataType::Float, &[2, m, n]), strides);
            let square = of(hidden(5, DataType::Float, &[2, m, n]), strides);
            let y = of(float(6, &[2, m, n]), if is_transposed { [35, 1, 7] } else { [35, 5, 1] });
            let operations = vec![
                matmul(&a, &b, &product),
                binary(MUL, &product, &product, &square),
                binary(ADD, &square, &bias, &y),
            ];
            let graph = Graph { operations };
            let execution = Execution::planned(&graph, Strategy::BY_OPERATION).expect("it is planned");
            texts.push((is_transposed, execution.parts().collect::<Vec<_>>()));
            let mut world = World::default();
            let [x, w, added] = [&a, &b, &bias].map(|tensor| world.random(&mut rng, tensor));
            world.room(&y);
            world.execute(&execution);
            let mut want = Vec::new();
            for index in indices(&y.dims) {
                let [batch, row, column] = [index[0], index[1], index[2]];
                let term = |i: i64| {
                    x[((batch * m + row) * k + i) as usize] * w[((batch * k + i) * n + column) as usize]
                };
                let sum: f64 = (0..k).map(term).sum();
                want.push(sum * sum + added[column as usize]);
            }
            assert_near(&world.get(&y), &want, 1e-5, "product, square, sum");
        }
    }
    // As many plans as there are orders of the result.
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 2, "{texts:#?}");
}
