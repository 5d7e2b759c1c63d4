//! `cargo bench --bench small_calls [-- CALL]`: what a call costs when there is next to nothing to
//! compute.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::time::Instant;

use cudnn as _;

type Handle = *mut c_void;

unsafe extern "C" {
    fn cudnnCreate(handle: *mut Handle) -> c_int;
    fn cudnnDestroy(handle: Handle) -> c_int;
    fn cudnnCreateTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnCreateOpTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnCreateReduceTensorDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnSetTensor4dDescriptor(
        desc: Handle, format: c_int, data_type: c_int, n: c_int, c: c_int, h: c_int, w: c_int,
    ) -> c_int;
    fn cudnnSetOpTensorDescriptor(desc: Handle, op: c_int, compute_type: c_int, nan: c_int) -> c_int;
    fn cudnnSetReduceTensorDescriptor(
        desc: Handle, op: c_int, compute_type: c_int, nan: c_int, indices: c_int, index_type: c_int,
    ) -> c_int;
    fn cudnnTransformTensor(
        handle: Handle, alpha: *const f32, x_desc: Handle, x: *const f32, beta: *const f32, y_desc: Handle,
        y: *mut f32,
    ) -> c_int;
    fn cudnnAddTensor(
        handle: Handle, alpha: *const f32, a_desc: Handle, a: *const f32, beta: *const f32, c_desc: Handle,
        c: *mut f32,
    ) -> c_int;
    fn cudnnOpTensor(
        handle: Handle, op_desc: Handle, alpha1: *const f32, a_desc: Handle, a: *const f32,
        alpha2: *const f32, b_desc: Handle, b: *const f32, beta: *const f32, c_desc: Handle, c: *mut f32,
    ) -> c_int;
    fn cudnnCreateActivationDescriptor(desc: *mut Handle) -> c_int;
    fn cudnnSetActivationDescriptor(desc: Handle, mode: c_int, nan: c_int, coefficient: f64) -> c_int;
    fn cudnnActivationForward(
        handle: Handle, activation: Handle, alpha: *const f32, x_desc: Handle, x: *const f32,
        beta: *const f32, y_desc: Handle, y: *mut f32,
    ) -> c_int;
    fn cudnnSetTensor(handle: Handle, y_desc: Handle, y: *mut f32, value: *const f32) -> c_int;
    fn cudnnScaleTensor(handle: Handle, y_desc: Handle, y: *mut f32, alpha: *const f32) -> c_int;
    fn cudnnReduceTensor(
        handle: Handle, reduce_desc: Handle, indices: *mut c_void, indices_bytes: usize,
        workspace: *mut c_void, workspace_bytes: usize, alpha: *const f32, a_desc: Handle, a: *const f32,
        beta: *const f32, c_desc: Handle, c: *mut f32,
    ) -> c_int;
}

const SUCCESS: c_int = 0;
const FLOAT: c_int = 0;
const NCHW: c_int = 0;
const NHWC: c_int = 1;
/// The sum, both as a function of two tensors and as a reduction.
const ADD: c_int = 0;
const RELU: c_int = 1;
/// The first choice of every other enumeration.
const FIRST: c_int = 0;

/// Calls per round, and rounds of which the best counts.
const CALLS: u32 = 20_000;
const ROUNDS: u32 = 50;

fn main() {
    // SAFETY: no other thread is there yet. The tensors lie in host memory.
    unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", "cpu") };
    let mut handle = null_mut();
    // SAFETY: the pointer is to a live local variable.
    check(unsafe { cudnnCreate(&raw mut handle) });
    let descriptor = |create: unsafe extern "C" fn(*mut Handle) -> c_int| {
        let mut desc = null_mut();
        // SAFETY: as above.
        check(unsafe { create(&raw mut desc) });
        desc
    };
    let set = |desc, format, [n, c, h, w]: [c_int; 4]| {
        // SAFETY: the descriptor is alive.
        check(unsafe { cudnnSetTensor4dDescriptor(desc, format, FLOAT, n, c, h, w) });
    };
    let [x_desc, y_desc, bias_desc] = [(); 3].map(|()| descriptor(cudnnCreateTensorDescriptor));
    set(x_desc, NCHW, [1, 64, 5, 4]);
    set(y_desc, NHWC, [1, 64, 5, 4]);
    set(bias_desc, NCHW, [1, 64, 1, 1]);
    let op_desc = descriptor(cudnnCreateOpTensorDescriptor);
    let reduce_desc = descriptor(cudnnCreateReduceTensorDescriptor);
    let activation = descriptor(cudnnCreateActivationDescriptor);
    // SAFETY: the descriptors are alive.
    unsafe {
        check(cudnnSetOpTensorDescriptor(op_desc, ADD, FLOAT, FIRST));
        check(cudnnSetActivationDescriptor(activation, RELU, FIRST, 0.0));
        check(cudnnSetReduceTensorDescriptor(reduce_desc, ADD, FLOAT, FIRST, FIRST, FIRST));
    }
    let (x, mut bias, mut y) = (vec![1.0_f32; 64 * 20], vec![1.0_f32; 64], vec![0.0_f32; 64 * 20]);
    let (x, bias, y) = (x.as_ptr(), bias.as_mut_ptr(), y.as_mut_ptr());
    let (one, zero) = (&raw const ONE, &raw const ZERO);

    time("cudnnSetTensor4dDescriptor", || set(y_desc, NHWC, [1, 64, 5, 4]));
    // SAFETY: here and below, every buffer holds what its descriptor says.
    time("cudnnTransformTensor f32 nchw->nhwc 1x64x5x4", || unsafe {
        check(cudnnTransformTensor(handle, one, x_desc, x, zero, y_desc, y));
    });
    // SAFETY: as above.
    time("cudnnSetTensor f32 1x64x5x4", || unsafe {
        check(cudnnSetTensor(handle, x_desc, y, zero));
    });
    // SAFETY: as above.
    time("cudnnScaleTensor f32 1x64x5x4", || unsafe {
        check(cudnnScaleTensor(handle, x_desc, y, one));
    });
    // SAFETY: as above.
    time("cudnnAddTensor f32 bias of 1x64x5x4", || unsafe {
        check(cudnnAddTensor(handle, one, bias_desc, bias, zero, x_desc, y));
    });
    // SAFETY: as above.
    time("cudnnOpTensor f32 add 1x64x5x4", || unsafe {
        check(cudnnOpTensor(handle, op_desc, one, x_desc, x, one, x_desc, x, zero, x_desc, y));
    });
    // SAFETY: as above.
    time("cudnnActivationForward f32 relu 1x64x5x4", || unsafe {
        check(cudnnActivationForward(handle, activation, one, x_desc, x, zero, x_desc, y));
    });
    // SAFETY: as above; a sum has no indices and needs no workspace.
    time("cudnnReduceTensor f32 sum 1x64x5x4 to 1x64x1x1", || unsafe {
        let (none, bytes) = (null_mut(), 0);
        check(cudnnReduceTensor(
            handle,
            reduce_desc,
            none,
            bytes,
            none,
            bytes,
            one,
            x_desc,
            x,
            zero,
            bias_desc,
            bias,
        ));
    });
    // SAFETY: the handle is alive.
    check(unsafe { cudnnDestroy(handle) });
}

static ONE: f32 = 1.0;
static ZERO: f32 = 0.0;

fn check(status: c_int) {
    assert_eq!(status, SUCCESS);
}

fn time(name: &str, mut call: impl FnMut()) {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let mut round = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    round();
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    println!("{name}: best {:.0} ns, median {:.0} ns", times[0], times[times.len() / 2]);
}
