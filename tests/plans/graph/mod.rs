//! Graphs of operations on the CPU core, against plain loops in binary64.

mod altered;
mod attend_changes;
mod attend_settings;
mod attends;
mod chosen;
mod composed;
mod fused;
mod integers;
mod interleaved;
mod layers;
mod modes;
mod norms;
mod numbers;
mod overrides;
mod planned;
mod refusals;
mod streams;
mod texts;

use std::collections::HashMap;
use std::sync::Arc;

use cudnn::backend::Address;
use cudnn::dtype::DataType;
use cudnn::error::ErrorKind;
use cudnn::exec::{CallReport, Context, Execution};
use cudnn::layout::Dims;
use cudnn::ops::graph::{
    Concat, Convolution, Direction, Experts, Graph, Kind, Matmul, Norm, Operation, Pointwise, Port,
    Reduction, Resample, Reshape, Slice, Softmax, Spatial, Tensor, Transpose,
};
use half::f16;
use testkit::operations;
use testkit::operations::{by_value, float, hidden, indices, offset, packed, row_major};
use testkit::pages::{Pages, Side};
use testkit::random::Rng;

/// Numbers by uid, in the order of the dimensions, and their memory.
#[derive(Default)]
struct World {
    memory: HashMap<i64, (Arc<Tensor>, Vec<u64>)>,
    /// How many parts the last run had, how many of them named kernels, and what they told of
    /// memory, a line for each that has anything to tell.
    ran: [usize; 2],
    told: Vec<String>,
    /// Whether graphs run on the loops that define every step, one step after the other, instead
    /// of the CPU core.
    by_reference: bool,
}

impl World {
    fn put(&mut self, tensor: &Arc<Tensor>, numbers: &[f64]) {
        self.memory.insert(tensor.uid, (Arc::clone(tensor), operations::words(tensor, numbers)));
    }

    fn random(&mut self, rng: &mut Rng, tensor: &Arc<Tensor>) -> Vec<f64> {
        let count: i64 = tensor.dims.iter().product();
        let numbers: Vec<f64> = (0..count).map(|_| (rng.below(4001) as f64 - 2000.0) / 1024.0).collect();
        self.put(tensor, &numbers);
        numbers
    }

    fn room(&mut self, tensor: &Arc<Tensor>) {
        self.put(tensor, &vec![f64::NAN; tensor.dims.iter().product::<i64>() as usize]);
    }

    fn get(&self, tensor: &Tensor) -> Vec<f64> {
        operations::numbers(tensor, &self.memory[&tensor.uid].1)
    }

    /// Runs the operations. Every tensor and the workspace end at a page that must not be touched,
    /// and the workspace begins at no multiple of anything.
    fn run(&mut self, operations: Vec<Operation>) -> usize {
        self.execute(&Execution::new(&Graph { operations }).expect("the graph runs"))
    }

    /// The same of a graph that is planned.
    fn execute(&mut self, execution: &Execution) -> usize {
        self.execute_in_place(execution, None)
    }

    /// The same, with a result in the memory of an operand that lies as it does.
    fn execute_in_place(&mut self, execution: &Execution, place: Option<[i64; 2]>) -> usize {
        const ODD: usize = 13;
        let mut workspace = Pages::new(ODD + execution.workspace(), Side::End);
        workspace.bytes_mut().fill(u8::MAX);
        let exact = |(&uid, (tensor, words)): (&i64, &(Arc<Tensor>, Vec<u64>))| {
            let size = operations::data_type(tensor).size();
            let last = indices(&tensor.dims).iter().map(|index| offset(index, tensor)).max();
            let mut pages = Pages::new(last.map_or(0, |last| (last + 1) * size), Side::End);
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            pages.bytes_mut().iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            (uid, pages)
        };
        let pages: HashMap<i64, Pages> = self.memory.iter().map(exact).collect();
        let home = |uid| place.filter(|place| place[0] == uid).map_or(uid, |place| place[1]);
        let mut report = CallReport { wanted: true, ..CallReport::default() };
        let context = if self.by_reference { Context::reference() } else { Context::cpu() };
        let ran = context.call("execute", &mut report, |call| {
            let at = |uid| pages.get(&home(uid)).map(|pages| pages.address().into());
            let scratch = workspace.address().wrapping_byte_add(ODD);
            // SAFETY: every tensor has its memory, and the workspace the bytes that are asked for.
            unsafe { execution.run(call, &at, scratch.into()) }
        });
        ran.expect("the graph runs");
        let parts = report.plan.iter().flat_map(|text| text.lines()).count();
        let lines = report.kernels.iter().flat_map(|text| text.lines());
        let (told, kernels): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains(": with "));
        self.told = told.into_iter().map(str::to_owned).collect();
        self.ran = [parts, kernels.len()];
        assert!(workspace.bytes()[..ODD].iter().all(|&byte| byte == u8::MAX), "the workspace begins later");
        for (uid, (_, words)) in &mut self.memory {
            let mut bytes = pages[&home(*uid)].bytes().to_vec();
            bytes.resize(8 * words.len(), u8::MAX);
            let cells =
                bytes.chunks_exact(8).map(|cell| u64::from_le_bytes(cell.try_into().expect("8 bytes")));
            words.iter_mut().zip(cells).for_each(|(word, cell)| *word = cell);
        }
        execution.workspace()
    }
}

fn assert_near(got: &[f64], want: &[f64], bound: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().filter(|x| x.is_finite()).fold(1.0_f64, |a, x| a.max(x.abs()));
    for (k, (a, b)) in got.iter().zip(want).enumerate() {
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= bound * largest;
        assert!(same, "{what}: element {k} is {a} instead of {b}");
    }
}

/// Has this tensor stand for the one of its number.
fn replace(operations: &mut [Operation], tensor: &Arc<Tensor>) {
    let links = operations.iter_mut().flat_map(|of| of.reads.iter_mut().chain(&mut of.writes));
    let own = links.filter(|link| link.tensor.uid == tensor.uid);
    own.for_each(|link| link.tensor = Arc::clone(tensor));
}

fn matmul(a: &Arc<Tensor>, b: &Arc<Tensor>, c: &Arc<Tensor>) -> Operation {
    let settings = Matmul { math: DataType::Float.into(), padding: 0.0, transposed: [false; 2] };
    Operation::new(Kind::Matmul(settings), &[(Port::A, a), (Port::B, b)], &[(Port::C, c)])
}

/// A convolution in binary32, without a flip.
fn convolution([x, w]: [&Arc<Tensor>; 2], y: &Arc<Tensor>, spatial: Spatial) -> Operation {
    let (direction, math) = (Direction::Forward, DataType::Float.into());
    let settings = Convolution { direction, mode: 1, spatial, math, alpha: 1.0, beta: 0.0 };
    Operation::new(Kind::Convolution(settings), &[(Port::X, x), (Port::W, w)], &[(Port::Y, y)])
}

fn unary(mode: i32, x: &Arc<Tensor>, y: &Arc<Tensor>) -> Operation {
    Operation::new(Kind::Pointwise(Pointwise::new(mode)), &[(Port::X, x)], &[(Port::Y, y)])
}

fn binary(mode: i32, x: &Arc<Tensor>, b: &Arc<Tensor>, y: &Arc<Tensor>) -> Operation {
    Operation::new(Kind::Pointwise(Pointwise::new(mode)), &[(Port::X, x), (Port::B, b)], &[(Port::Y, y)])
}

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
/// Strides of any order, with gaps.
fn any_strides(rng: &mut Rng, dims: &[i64]) -> Vec<i64> {
    let (mut strides, mut next) = (vec![0; dims.len()], 1);
    for axis in rng.order(dims.len()) {
        strides[axis] = next;
        next *= dims[axis] + rng.below(2) as i64;
    }
    strides
}

#[test]
fn products_of_matrices_of_any_strides_and_batches() {
    let mut rng = Rng(7);
    let batches = [
        ([1, 1], [1, 1]),
        ([2, 4], [2, 4]),
        ([1, 4], [2, 4]),
        ([2, 4], [2, 2]),
        ([2, 2], [1, 4]),
        ([1, 6], [3, 2]),
    ];
    for (a_batch, b_batch) in batches {
        for _ in 0..6 {
            let (m, n, k) = (1 + rng.below(5) as i64, 1 + rng.below(5) as i64, 1 + rng.below(6) as i64);
            let batch: Vec<i64> = (0..2).map(|d| a_batch[d].max(b_batch[d])).collect();
            let [a, b, c] = [(1, a_batch, [m, k]), (2, b_batch, [k, n]), (3, [batch[0], batch[1]], [m, n])]
                .map(|(uid, batch, matrix)| {
                    let dims = [batch[0], batch[1], matrix[0], matrix[1]];
                    let strides = any_strides(&mut rng, &dims);
                    Arc::new(Tensor::new(uid, DataType::Float, &dims, &strides))
                });
            let mut world = World::default();
            let (xs, ys) = (world.random(&mut rng, &a), world.random(&mut rng, &b));
            world.room(&c);
            world.run(vec![matmul(&a, &b, &c)]);
            let place = |dims: &Dims, at: [i64; 4]| {
                let strides = row_major(dims);
                let own = |d: usize| if d < 2 { at[d] * dims[d] / batch[d] } else { at[d] };
                (0..4).map(|d| own(d) * strides[d]).sum::<i64>() as usize
            };
            let want: Vec<f64> = indices(&c.dims)
                .iter()
                .map(|i| {
                    let term = |l| {
                        xs[place(&a.dims, [i[0], i[1], i[2], l])] * ys[place(&b.dims, [i[0], i[1], l, i[3]])]
                    };
                    (0..k).map(term).sum()
                })
                .collect();
            assert_near(&world.get(&c), &want, 1e-5, &format!("{a_batch:?} times {b_batch:?}"));
        }
    }
}

#[test]
fn chains_round_to_the_types_between() {
    let mut rng = Rng(8);
    let (a, b) = (packed(1, DataType::Half, &[2, 3, 4]), packed(2, DataType::Half, &[2, 4, 5]));
    let (bias, y, z) = (float(3, &[1, 1, 5]), packed(4, DataType::Half, &[2, 3, 5]), float(5, &[2, 3, 5]));
    for between in [DataType::Float, DataType::Half] {
        let (product, sum) = (hidden(10, between, &[2, 3, 5]), hidden(11, between, &[2, 3, 5]));
        let mut world = World::default();
        let (xs, ws, bs) =
            (world.random(&mut rng, &a), world.random(&mut rng, &b), world.random(&mut rng, &bias));
        world.room(&y);
        world.room(&z);
        // In another order than that of their results; the sum is read twice.
        let operations = vec![
            binary(1, &sum, &sum, &z),
            unary(100, &sum, &y),
            binary(0, &product, &bias, &sum),
            matmul(&a, &b, &product),
        ];
        let workspace = world.run(operations);
        // Of FLOAT the sum takes the place of the product, which is not rounded before.
        let kept = if between == DataType::Float { 1 } else { 2 };
        assert_eq!(workspace, 256 * kept + 16, "tensors of less than 256 bytes, wherever it begins");
        let round = |x: f64| if between == DataType::Half { f16::from_f64(x).to_f64() } else { x };
        let half = |x: &f64| f16::from_f64(*x).to_f64();
        let (xs, ws): (Vec<f64>, Vec<f64>) = (xs.iter().map(half).collect(), ws.iter().map(half).collect());
        let sums: Vec<f64> = indices(&[2, 3, 5])
            .iter()
            .map(|i| {
                let term = |k: i64| {
                    xs[(i[0] * 12 + i[1] * 4 + k) as usize] * ws[(i[0] * 20 + k * 5 + i[2]) as usize]
                };
                round(round((0..4).map(term).sum()) + bs[i[2] as usize])
            })
            .collect();
        let squares: Vec<f64> = sums.iter().map(|x| x * x).collect();
        let rectified: Vec<f64> = sums.iter().map(|x| x.max(0.0)).collect();
        // A half between is rounded at most once another way.
        let bound = if between == DataType::Half { 2e-3 } else { 1e-6 };
        assert_near(&world.get(&z), &squares, bound, "squares");
        assert_near(&world.get(&y), &rectified, 2e-3, "rectified");
        if between == DataType::Half {
            // Squares of halves, exactly.
            for (z, y) in world.get(&z).iter().zip(world.get(&y)).filter(|(_, y)| *y > 0.0) {
                assert_eq!(*z, y * y);
            }
        }
    }
}

#[test]
fn numbers_come_by_value_in_any_type_and_results_in_place() {
    let mut rng = Rng(9);
    for of in [DataType::Float, DataType::Half, DataType::Int32, DataType::Double] {
        let (x, s, y) = (float(1, &[3, 4]), by_value(2, of, 2), float(3, &[3, 4]));
        let mut world = World::default();
        let xs = world.random(&mut rng, &x);
        world.put(&s, &[3.0]);
        world.room(&y);
        world.run(vec![binary(1, &x, &s, &y)]);
        let want: Vec<f64> = xs.iter().map(|x| 3.0 * x).collect();
        assert_near(&world.get(&y), &want, 1e-6, &format!("a factor of {of:?}"));
    }
    let (x, y) = (float(1, &[3, 4]), float(3, &[3, 4]));
    let mut world = World::default();
    let xs = world.random(&mut rng, &x);
    let execution = Execution::new(&Graph { operations: vec![binary(0, &x, &x, &y)] }).expect("it runs");
    let at: Address = world.memory.get_mut(&1).expect("it is there").1.as_mut_ptr().into();
    let mut workspace = [0_u128; 64];
    let scratch = workspace.as_mut_ptr().into();
    let run = |at: Option<Address>| {
        Context::cpu().call("execute", &mut CallReport::default(), |call| {
            // SAFETY: both tensors are the same memory, which an element-wise operation may have;
            // without a pointer nothing is read.
            unsafe { execution.run(call, &|_| at, scratch) }
        })
    };
    run(Some(at)).expect("it runs");
    let want: Vec<f64> = xs.iter().map(|x| 2.0 * x).collect();
    assert_near(&world.get(&x), &want, 0.0, "in place");
    assert_eq!(run(None).expect_err("no pointers").kind(), ErrorKind::BadParam);
}

#[test]
fn elements_move() {
    let mut rng = Rng(10);
    let dims = [2, 3, 4, 5];
    let x = Arc::new(Tensor::new(1, DataType::Float, &dims, &any_strides(&mut rng, &dims)));
    let mut world = World::default();
    let xs = world.random(&mut rng, &x);
    let at = |index: &[i64]| xs[index.iter().zip(row_major(&dims)).map(|(i, s)| i * s).sum::<i64>() as usize];

    let y = float(2, &[6, 20]);
    world.room(&y);
    let reshape = Kind::Reshape(Reshape { logical: true });
    world.run(vec![Operation::new(reshape, &[(Port::X, &x)], &[(Port::Y, &y)])]);
    assert_near(&world.get(&y), &xs, 0.0, "a logical reshape");

    let plain = float(3, &dims);
    let plains = world.random(&mut rng, &plain);
    let y = Arc::new(Tensor::new(4, DataType::Float, &[2, 3, 5, 4], &[60, 20, 1, 5]));
    world.room(&y);
    let view = Kind::Reshape(Reshape { logical: false });
    world.run(vec![Operation::new(view, &[(Port::X, &plain)], &[(Port::Y, &y)])]);
    let want: Vec<f64> =
        indices(&y.dims).iter().map(|i| plains[(i[0] * 60 + i[1] * 20 + i[3] * 5 + i[2]) as usize]).collect();
    assert_near(&world.get(&y), &want, 0.0, "a view");

    let y = packed(5, DataType::Half, &[4, 2, 5, 3]);
    world.room(&y);
    let transpose = Kind::Transpose(Transpose { permutation: vec![2, 0, 3, 1] });
    world.run(vec![Operation::new(transpose, &[(Port::X, &x)], &[(Port::Y, &y)])]);
    let want: Vec<f64> = indices(&y.dims).iter().map(|i| at(&[i[1], i[3], i[0], i[2]])).collect();
    assert_near(&world.get(&y), &want, 1e-3, "a transposition");

    let y = float(6, &[2, 2, 2, 2]);
    world.room(&y);
    let slice = Slice { starts: vec![0, 1, 1, 0], limits: vec![2, 3, 4, 5], strides: vec![1, 1, 2, 3] };
    world.run(vec![Operation::new(Kind::Slice(slice), &[(Port::X, &x)], &[(Port::Y, &y)])]);
    let want: Vec<f64> =
        indices(&y.dims).iter().map(|i| at(&[i[0], i[1] + 1, 1 + 2 * i[2], 3 * i[3]])).collect();
    assert_near(&world.get(&y), &want, 0.0, "a slice");

    let y = float(7, &[2, 6, 4, 5]);
    world.room(&y);
    let reads = [(Port::Part, &x), (Port::Part, &plain)];
    let concat = Kind::Concat(Concat { axis: 1, in_place: None });
    world.run(vec![Operation::new(concat, &reads, &[(Port::Y, &y)])]);
    let part = |i: &Vec<i64>| {
        if i[1] < 3 { at(i) } else { plains[(i[0] * 60 + (i[1] - 3) * 20 + i[2] * 5 + i[3]) as usize] }
    };
    let want: Vec<f64> = indices(&y.dims).iter().map(part).collect();
    assert_near(&world.get(&y), &want, 0.0, "a concatenation");

    for (operator, join) in
        [(0, (|a, b| a + b) as fn(f64, f64) -> f64), (1, |a, b| a * b), (2, f64::min), (3, f64::max)]
    {
        for y_dims in [[2, 1, 4, 1], [1, 1, 1, 1], [2, 3, 2, 5]] {
            let y = float(8, &y_dims);
            world.room(&y);
            let settings = Reduction { operator, math: DataType::Float.into() };
            world.run(vec![Operation::new(Kind::Reduction(settings), &[(Port::X, &x)], &[(Port::Y, &y)])]);
            let mut want: Vec<Option<f64>> = vec![None; y_dims.iter().product::<i64>() as usize];
            for index in indices(&dims) {
                let own: Vec<i64> = (0..4).map(|d| index[d] * y_dims[d] / dims[d]).collect();
                let to = &mut want[offset(&own, &y)];
                *to = Some(to.map_or(at(&index), |joined| join(joined, at(&index))));
            }
            let want: Vec<f64> = want.into_iter().map(|x| x.expect("an element")).collect();
            assert_near(&world.get(&y), &want, 1e-5, &format!("operator {operator} to {y_dims:?}"));
        }
    }
}

#[test]
fn graphs_that_cannot_be_are_refused() {
    let (x, y, z) = (float(1, &[2, 2]), float(2, &[2, 2]), float(3, &[2, 2]));
    let refused = |operations: Vec<Operation>| Graph { operations }.check().expect_err("refused").kind();
    assert_eq!(refused(vec![]), ErrorKind::BadParam);
    assert_eq!(refused(vec![unary(100, &x, &y), unary(101, &x, &y)]), ErrorKind::BadParam, "two writers");
    assert_eq!(refused(vec![binary(0, &x, &y, &y)]), ErrorKind::BadParam, "reads what it writes");
    assert_eq!(refused(vec![unary(100, &x, &y), unary(100, &y, &x)]), ErrorKind::BadParam, "a circle");
    let fine = Graph { operations: vec![unary(100, &y, &z), unary(100, &x, &y)] };
    fine.check().expect("any order");
    assert_eq!(fine.uids(), [1, 2, 3]);
    // What passes that, and cannot be computed, has no engine.
    let orphan = hidden(4, DataType::Float, &[2, 2]);
    let foreign = Arc::new(Tensor { data_type: cudnn::ops::graph::Type::Other(17), ..(*x).clone() });
    for operations in [
        vec![unary(100, &orphan, &y)],
        vec![unary(100, &foreign, &y)],
        vec![unary(999, &x, &y)],
        vec![unary(0, &x, &y)],
        vec![matmul(&x, &float(5, &[3, 2]), &y)],
    ] {
        let error = Execution::new(&Graph { operations }).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    }
}

/// Each expert is some steps, so that there is a limit: the same for products and for gradients.
#[test]
fn a_thousand_experts_are_served_and_no_more() {
    let engines = |count: i64| {
        let (x, y, dy) = (float(1, &[1, 4, 2]), float(2, &[1, 4, 2]), float(3, &[1, 4, 2]));
        let (w, dw) = (float(4, &[count, 2, 2]), float(5, &[count, 2, 2]));
        let first = packed(6, DataType::Int32, &[count, 1, 1]);
        let forward = Kind::Experts(Experts { mode: 0, top_k: 1 });
        let reads = [(Port::X, &x), (Port::W, &w), (Port::GroupOffset, &first)];
        let forward = Operation::new(forward, &reads, &[(Port::Y, &y)]);
        let reads = [(Port::X, &x), (Port::Dy, &dy), (Port::GroupOffset, &first)];
        let backward = Operation::new(Kind::ExpertsBackward, &reads, &[(Port::Dw, &dw)]);
        [forward, backward].map(|operation| {
            let graph = Graph { operations: vec![operation] };
            Execution::new(&graph).err().map(|error| error.kind())
        })
    };
    assert_eq!(engines(1024), [None; 2]);
    assert_eq!(engines(1025), [Some(ErrorKind::NotSupported); 2]);
}
