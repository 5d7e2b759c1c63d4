//! `cargo bench --bench graphs`: what a graph costs - the making of its plan, its pack, and a run -
//! beside the same product by one call.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::Instant;

use cudnn as _;

type Handle = *mut c_void;

unsafe extern "C" {
    fn cudnnCreate(handle: *mut Handle) -> c_int;
    fn cudnnDestroy(handle: Handle) -> c_int;
    fn cudnnCreateTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnDestroyTensorDescriptor(desc: Handle) -> c_int;
    fn cudnnSetTensorNdDescriptor(
        desc: Handle, data_type: c_int, rank: c_int, dims: *const c_int, strides: *const c_int,
    ) -> c_int;
    fn cudnnShimMatmul(
        handle: Handle, alpha: *const f32, a_desc: Handle, a: *const f32, b_desc: Handle, b: *const f32,
        beta: *const f32, c_desc: Handle, c: *mut f32,
    ) -> c_int;
    fn cudnnBackendCreateDescriptor(kind: c_int, descriptor: *mut Handle) -> c_int;
    fn cudnnBackendDestroyDescriptor(descriptor: Handle) -> c_int;
    fn cudnnBackendFinalize(descriptor: Handle) -> c_int;
    fn cudnnBackendSetAttribute(
        descriptor: Handle, name: c_int, kind: c_int, count: i64, values: *const c_void,
    ) -> c_int;
    fn cudnnBackendGetAttribute(
        descriptor: Handle, name: c_int, kind: c_int, requested: i64, count: *mut i64, values: *mut c_void,
    ) -> c_int;
    fn cudnnBackendExecute(handle: Handle, plan: Handle, pack: Handle) -> c_int;
}

/// Types of values.
const HANDLE: c_int = 0;
const DATA_TYPE: c_int = 1;
const BOOLEAN: c_int = 2;
const INT64: c_int = 3;
const POINTER: c_int = 6;
const MODE: c_int = 14;
const DESCRIPTOR: c_int = 15;

/// Modes of pointwise operations.
const ADD: c_int = 0;
const MUL: c_int = 1;
const RELU: c_int = 100;

const ROUNDS: usize = 40;
/// A round lasts about so many microseconds.
const ROUND: f64 = 4000.0;

fn check(status: c_int) {
    assert_eq!(status, 0);
}

/// Objects of the graph interface, destroyed together.
#[derive(Default)]
struct Objects(Vec<Handle>);

impl Objects {
    fn make(&mut self, kind: c_int, set: impl FnOnce(Handle)) -> Handle {
        let mut object = null_mut();
        // SAFETY: the pointer is to a live local variable.
        check(unsafe { cudnnBackendCreateDescriptor(kind, &raw mut object) });
        self.0.push(object);
        set(object);
        // SAFETY: the object is alive.
        check(unsafe { cudnnBackendFinalize(object) });
        object
    }

    fn tensor(&mut self, uid: i64, dims: [i64; 3], is_virtual: bool) -> Handle {
        let [_, rows, columns] = dims;
        self.make(17, |t| {
            set(t, 906, INT64, &[uid]);
            set(t, 901, DATA_TYPE, &[0_i32]);
            set(t, 900, INT64, &[16_i64]);
            set(t, 902, INT64, &dims);
            set(t, 903, INT64, &[rows * columns, columns, 1]);
            set(t, 907, BOOLEAN, &[is_virtual]);
        })
    }

    fn matmul(&mut self, a: Handle, b: Handle, c: Handle) -> Handle {
        let settings = self.make(18, |m| set(m, 1500, DATA_TYPE, &[0_i32]));
        self.make(19, |operation| {
            for (name, object) in [(1520, a), (1521, b), (1522, c), (1523, settings)] {
                set(operation, name, DESCRIPTOR, &[object]);
            }
        })
    }

    fn pointwise(&mut self, mode: c_int, operands: &[Handle], y: Handle) -> Handle {
        let settings = self.make(0, |p| {
            set(p, 0, MODE, &[mode]);
            set(p, 1, DATA_TYPE, &[0_i32]);
        });
        self.make(13, |operation| {
            set(operation, 750, DESCRIPTOR, &[settings]);
            (751..).zip(operands).for_each(|(name, object)| set(operation, name, DESCRIPTOR, &[*object]));
            set(operation, 753, DESCRIPTOR, &[y]);
        })
    }

    fn plan(&mut self, handle: Handle, operations: &[Handle]) -> Handle {
        let graph = self.make(15, |graph| set(graph, 801, DESCRIPTOR, operations));
        let heuristic = self.make(4, |heuristic| {
            set(heuristic, 201, DESCRIPTOR, &[graph]);
            set(heuristic, 200, 8, &[0_i32]);
        });
        let mut configuration = null_mut();
        // SAFETY: the pointer is to a live local variable.
        check(unsafe { cudnnBackendCreateDescriptor(3, &raw mut configuration) });
        self.0.push(configuration);
        assert_eq!(get(heuristic, 202, DESCRIPTOR, &mut configuration), 1, "an engine");
        self.make(5, |plan| {
            set(plan, 400, HANDLE, &[handle]);
            set(plan, 401, DESCRIPTOR, &[configuration]);
        })
    }

    fn pack(&mut self, uids: &[i64], pointers: &[*mut f32], workspace: *mut f32) -> Handle {
        self.make(16, |pack| {
            set(pack, 1000, INT64, uids);
            set(pack, 1001, POINTER, pointers);
            set(pack, 1003, POINTER, &[workspace]);
        })
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: each is alive, and destroyed once.
        self.0.iter().for_each(|&object| check(unsafe { cudnnBackendDestroyDescriptor(object) }));
    }
}

fn set<T>(object: Handle, name: c_int, kind: c_int, values: &[T]) {
    // SAFETY: the slice holds as many values as it says.
    check(unsafe {
        cudnnBackendSetAttribute(object, name, kind, values.len() as i64, values.as_ptr().cast())
    });
}

fn get<T>(object: Handle, name: c_int, kind: c_int, value: &mut T) -> i64 {
    let mut count = 0;
    // SAFETY: there is room for the one value that is asked for.
    let status =
        unsafe { cudnnBackendGetAttribute(object, name, kind, 1, &raw mut count, (&raw mut *value).cast()) };
    check(status);
    count
}

/// Microseconds of one call, the best of all rounds.
fn time(mut call: impl FnMut()) -> f64 {
    let once = Instant::now();
    call();
    let calls = (ROUND / (once.elapsed().as_secs_f64() * 1e6)).clamp(1.0, 5000.0) as u32;
    let mut round = || {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Product,
    ProductBiasRelu,
    MulAddRelu,
}

/// Objects of the graph of these extents: the plan is the last one.
fn planned(handle: Handle, shape: Shape, [batch, m, n, k]: [i64; 4]) -> (Objects, Handle) {
    let mut objects = Objects::default();
    let (a, b) = (objects.tensor(1, [batch, m, k], false), objects.tensor(2, [batch, k, n], false));
    let c = objects.tensor(3, [batch, m, n], shape != Shape::Product);
    let bias = objects.tensor(4, [1, 1, n], false);
    let (sum, y) = (objects.tensor(5, [batch, m, n], true), objects.tensor(6, [batch, m, n], false));
    let first = match shape {
        Shape::MulAddRelu => {
            let x = objects.tensor(7, [batch, m, n], false);
            objects.pointwise(MUL, &[x, x], c)
        }
        _ => objects.matmul(a, b, c),
    };
    let mut operations = vec![first];
    if shape != Shape::Product {
        operations.push(objects.pointwise(ADD, &[c, bias], sum));
        operations.push(objects.pointwise(RELU, &[sum], y));
    }
    let plan = objects.plan(handle, &operations);
    (objects, plan)
}

fn graph(handle: Handle, shape: Shape, extents: [i64; 4]) -> [f64; 3] {
    let [batch, m, n, k] = extents;
    let making = time(|| drop(planned(handle, shape, extents)));
    let (_objects, plan) = planned(handle, shape, extents);
    let mut bytes = 0_i64;
    get(plan, 402, INT64, &mut bytes);
    let mut workspace = vec![0.0_f32; bytes as usize / 4 + 1];
    let count = (batch * (m * n).max(m * k).max(k * n)) as usize;
    let mut memory: Vec<Vec<f32>> = vec![vec![0.5; count]; 6];
    let uids = [1, 2, 3, 4, 6, 7];
    let pointers: Vec<*mut f32> = memory.iter_mut().map(|memory| memory.as_mut_ptr()).collect();
    let workspace = workspace.as_mut_ptr();
    let packing = time(|| _ = Objects::default().pack(&uids, &pointers, workspace));
    let mut objects = Objects::default();
    let pack = objects.pack(&uids, &pointers, workspace);
    // SAFETY: every tensor has memory for its elements, and the workspace its bytes.
    let running = time(|| check(unsafe { cudnnBackendExecute(handle, plan, pack) }));
    [making, packing, running]
}

fn alone(handle: Handle, [batch, m, n, k]: [i64; 4]) -> f64 {
    let descriptor = |rows: i64, columns: i64| {
        let mut desc = null_mut();
        let dims = [batch, rows, columns].map(|extent| extent as c_int);
        let strides = [dims[1] * dims[2], dims[2], 1];
        // SAFETY: the pointers are to live local variables.
        unsafe {
            check(cudnnCreateTensorDescriptor(&raw mut desc));
            check(cudnnSetTensorNdDescriptor(desc, 0, 3, dims.as_ptr(), strides.as_ptr()));
        }
        desc
    };
    let descriptors = [descriptor(m, k), descriptor(k, n), descriptor(m, n)];
    let [a, b, c] = descriptors;
    let room = |rows: i64, columns: i64| vec![0.5_f32; (batch * rows * columns) as usize];
    let (x, y, mut z) = (room(m, k), room(k, n), room(m, n));
    let (one, zero) = (1.0_f32, 0.0_f32);
    let to = z.as_mut_ptr();
    // SAFETY: every tensor has memory for its elements.
    let running = time(|| unsafe {
        check(cudnnShimMatmul(handle, &raw const one, a, x.as_ptr(), b, y.as_ptr(), &raw const zero, c, to));
    });
    // SAFETY: each is alive, and destroyed once.
    descriptors.into_iter().for_each(|desc| check(unsafe { cudnnDestroyTensorDescriptor(desc) }));
    running
}

fn main() {
    // SAFETY: no other thread is there yet.
    unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", "cpu") };
    let mut handle = null_mut();
    // SAFETY: the pointer is to a live local variable.
    check(unsafe { cudnnCreate(&raw mut handle) });
    println!("{:<42} {:>10} {:>10} {:>12} {:>12}", "f32, microseconds", "plan", "pack", "run", "one call");
    let shapes = [
        (Shape::Product, "matmul"),
        (Shape::ProductBiasRelu, "matmul + bias + relu"),
        (Shape::MulAddRelu, "mul + add + relu"),
    ];
    for extents in [[1, 4, 4, 4], [1, 16, 16, 16], [8, 64, 64, 64], [1, 256, 256, 256], [1, 768, 768, 768]] {
        for (shape, name) in shapes {
            let [making, packing, running] = graph(handle, shape, extents);
            let one = match shape {
                Shape::Product => format!("{:>12.2}", alone(handle, extents)),
                _ => String::new(),
            };
            let name = format!("{name} {}x{}x{}x{}", extents[0], extents[1], extents[2], extents[3]);
            println!("{name:<42} {making:>10.2} {packing:>10.2} {running:>12.2} {one}");
        }
    }
    // SAFETY: the handle is alive.
    check(unsafe { cudnnDestroy(handle) });
}
